//! Integer arithmetic.

use super::bits::{extract, find_leading};
use super::carry::{carry, multiply_carry};
use super::decoder::{Decoded, Decoder};
use super::each_integer::each_integer;
use super::multiply::{multiply, multiply_add, wide_file, wide_type};
use crate::lanes::{Exec, Slots, lanes};
use crate::numeric::integer;
use crate::program::{File, IndexBound, Op};
use ptx::{Binary, BinaryOp, Bound, Operand, Ternary, TernaryOp, Type, Unary, UnaryOp, Visit};

/// An [`Exec`] for a packed pair of 16-bit integers.
macro_rules! each_half {
    ($signed:expr, |$a:ident, $b:ident| $($body:tt)*) => {
        if $signed {
            Some(lanes!(|x: u32, y: u32| -> u32 {
                let f = |$a: i16, $b: i16| -> i16 { $($body)* };
                let high = f((x >> 16) as i16, (y >> 16) as i16);
                u32::from(f(x as i16, y as i16) as u16) | u32::from(high as u16) << 16
            }))
        } else {
            Some(lanes!(|x: u32, y: u32| -> u32 {
                let f = |$a: u16, $b: u16| -> u16 { $($body)* };
                u32::from(f(x as u16, y as u16)) | u32::from(f((x >> 16) as u16, (y >> 16) as u16)) << 16
            }))
        }
    };
}

fn divide(op: BinaryOp, ty: Type) -> Option<Exec> {
    // A zero divisor is a fault unless the launch allows it; the hardware gives all ones then.
    match op {
        BinaryOp::Div => {
            each_integer!(ty, |a, b| if b == 0 {
                !0
            } else {
                a.checked_div(b).unwrap_or(a)
            })
        }
        BinaryOp::Rem => {
            each_integer!(ty, |a, b| if b == 0 {
                !0
            } else {
                a.checked_rem(b).unwrap_or(0)
            })
        }
        _ => None,
    }
}

fn add_or_compare(op: BinaryOp, ty: Type, sat: bool) -> Option<Exec> {
    let signed = ty == Type::S16x2;
    match (op, ty) {
        (BinaryOp::Add, Type::U16x2 | Type::S16x2) => each_half!(signed, |a, b| a.wrapping_add(b)),
        (BinaryOp::Min, Type::U16x2 | Type::S16x2) => each_half!(signed, |a, b| a.min(b)),
        (BinaryOp::Max, Type::U16x2 | Type::S16x2) => each_half!(signed, |a, b| a.max(b)),
        (BinaryOp::Add, Type::S32) if sat => {
            Some(lanes!(|a: i32, b: i32| -> i32 { a.saturating_add(b) }))
        }
        (BinaryOp::Sub, Type::S32) if sat => {
            Some(lanes!(|a: i32, b: i32| -> i32 { a.saturating_sub(b) }))
        }
        (BinaryOp::Add, _) => each_integer!(ty, |a, b| a.wrapping_add(b)),
        (BinaryOp::Sub, _) => each_integer!(ty, |a, b| a.wrapping_sub(b)),
        (BinaryOp::Min, _) => each_integer!(ty, |a, b| if b < a { b } else { a }),
        (BinaryOp::Max, _) => each_integer!(ty, |a, b| if a < b { b } else { a }),
        _ => None,
    }
}

fn logic(op: BinaryOp, ty: Type) -> Option<Exec> {
    if ty == Type::Pred {
        return Some(match op {
            BinaryOp::And => |regs, s, mask| {
                let value = regs.predicates[s.a as usize] & regs.predicates[s.b as usize];
                regs.put_predicate(s.d, mask, value);
            },
            BinaryOp::Or => |regs, s, mask| {
                let value = regs.predicates[s.a as usize] | regs.predicates[s.b as usize];
                regs.put_predicate(s.d, mask, value);
            },
            BinaryOp::Xor => |regs, s, mask| {
                let value = regs.predicates[s.a as usize] ^ regs.predicates[s.b as usize];
                regs.put_predicate(s.d, mask, value);
            },
            _ => return None,
        });
    }
    match op {
        BinaryOp::And => each_integer!(ty, |a, b| a & b),
        BinaryOp::Or => each_integer!(ty, |a, b| a | b),
        BinaryOp::Xor => each_integer!(ty, |a, b| a ^ b),
        _ => None,
    }
}

/// Shifts; amounts past the width clamp (PTX ISA 9.7.8.8 and 9.7.8.9).
fn shift(op: BinaryOp, ty: Type) -> Option<Exec> {
    Some(match (op, ty) {
        (BinaryOp::Shl, Type::B16) => {
            lanes!(|a: u16, n: u32| -> u16 { if n > 15 { 0 } else { a << n } })
        }
        (BinaryOp::Shl, Type::B32) => {
            lanes!(|a: u32, n: u32| -> u32 { if n > 31 { 0 } else { a << n } })
        }
        (BinaryOp::Shl, Type::B64) => {
            lanes!(|a: u64, n: u32| -> u64 { if n > 63 { 0 } else { a << n } })
        }
        (BinaryOp::Shr, Type::B16 | Type::U16) => {
            lanes!(|a: u16, n: u32| -> u16 { if n > 15 { 0 } else { a >> n } })
        }
        (BinaryOp::Shr, Type::B32 | Type::U32) => {
            lanes!(|a: u32, n: u32| -> u32 { if n > 31 { 0 } else { a >> n } })
        }
        (BinaryOp::Shr, Type::B64 | Type::U64) => {
            lanes!(|a: u64, n: u32| -> u64 { if n > 63 { 0 } else { a >> n } })
        }
        (BinaryOp::Shr, Type::S16) => lanes!(|a: i16, n: u32| -> i16 { a >> n.min(15) }),
        (BinaryOp::Shr, Type::S32) => lanes!(|a: i32, n: u32| -> i32 { a >> n.min(31) }),
        (BinaryOp::Shr, Type::S64) => lanes!(|a: i64, n: u32| -> i64 { a >> n.min(63) }),
        _ => return None,
    })
}

/// Integer operations on one value.
pub(crate) fn unary(op: UnaryOp, ty: Type) -> Option<Exec> {
    match op {
        UnaryOp::Neg => each_integer!(ty, |a| a.wrapping_neg()),
        UnaryOp::Not if ty == Type::Pred => Some(|regs, s, mask| {
            let value = !regs.predicates[s.a as usize];
            regs.put_predicate(s.d, mask, value);
        }),
        UnaryOp::Not => each_integer!(ty, |a| !a),
        UnaryOp::Cnot => each_integer!(ty, |a| if a == 0 { 1 } else { 0 }),
        UnaryOp::Abs => Some(match ty {
            Type::S16 => lanes!(|a: i16| -> i16 { a.wrapping_abs() }),
            Type::S32 => lanes!(|a: i32| -> i32 { a.wrapping_abs() }),
            Type::S64 => lanes!(|a: i64| -> i64 { a.wrapping_abs() }),
            _ => return None,
        }),
        UnaryOp::Brev => Some(if ty.bits() == 32 {
            lanes!(|a: u32| -> u32 { a.reverse_bits() })
        } else {
            lanes!(|a: u64| -> u64 { a.reverse_bits() })
        }),
        UnaryOp::Popc => Some(if ty.bits() == 32 {
            lanes!(|a: u32| -> u32 { a.count_ones() })
        } else {
            lanes!(|a: u64| -> u32 { a.count_ones() })
        }),
        UnaryOp::Clz => Some(if ty.bits() == 32 {
            lanes!(|a: u32| -> u32 { a.leading_zeros() })
        } else {
            lanes!(|a: u64| -> u32 { a.leading_zeros() })
        }),
        UnaryOp::Bfind | UnaryOp::BfindShiftAmount => {
            find_leading(op == UnaryOp::BfindShiftAmount, ty)
        }
        _ => None,
    }
}

impl Decoder<'_> {
    /// Integer, logical and shift operations.
    pub(crate) fn integer_binary(&mut self, i: &Binary) -> Decoded {
        let ty = i.ty;
        let is_shift = matches!(i.op, BinaryOp::Shl | BinaryOp::Shr);
        let exec = multiply(i.op, ty)
            .or_else(|| divide(i.op, ty))
            .or_else(|| add_or_compare(i.op, ty, i.sat))
            .or_else(|| logic(i.op, ty))
            .or_else(|| shift(i.op, ty))
            .or_else(|| carry(i.op, ty));
        let exec =
            exec.ok_or_else(|| format!("the emulator has no {} on .{}", i.op.text(), ty.text()))?;
        if i.relu || i.sat && !(ty == Type::S32 && matches!(i.op, BinaryOp::Add | BinaryOp::Sub)) {
            return Err(format!(
                "the emulator does not support this modifier of {} on .{}",
                i.op.text(),
                ty.text()
            ));
        }
        let a = self.source(i.a, ty)?;
        let b = self.source(i.b, if is_shift { Type::U32 } else { ty })?;
        if matches!(i.op, BinaryOp::Div | BinaryOp::Rem) {
            self.push_before(Op::CheckDivisor {
                file: Self::file(ty),
                slot: b,
                bits: ty.bits(),
            });
        }
        let wide = i.op == BinaryOp::MulWide;
        let d = self.target_in(i.dst, if wide { wide_file(ty) } else { Self::file(ty) })?;
        let slots = Slots::binary(d, a, b);
        self.lanes(exec, slots);
        self.note_binary(i, (exec, slots));
        Ok(())
    }
}

impl Visit<Bound> for Decoder<'_> {
    /// An index and the number that it must stay below.
    fn visit(&mut self, i: &Bound) -> Decoded {
        let ty = match self.register(i.index)? {
            (File::Double, _) => Type::U64,
            _ => Type::U32,
        };
        let slot = self.source(Operand::Reg(i.index), ty)?;
        self.push(Op::CheckBound(Box::new(IndexBound {
            file: Self::file(ty),
            slot,
            plus: i.plus,
            limit: i.limit,
            what: i.what.clone(),
        })));
        Ok(())
    }
}

impl Decoder<'_> {
    /// Integer operations on three values.
    pub(crate) fn integer_ternary(&mut self, i: &Ternary) -> Decoded {
        let ty = i.ty;
        let (b_ty, c_ty) = match i.op {
            TernaryOp::Bfe => (Type::U32, Type::U32),
            _ => (ty, ty),
        };
        let a = self.source(i.a, ty)?;
        let b = self.source(i.b, b_ty)?;
        let file = if i.op == TernaryOp::MadWide {
            wide_file(ty)
        } else {
            Self::file(ty)
        };
        let c = match i.op {
            TernaryOp::MadWide => self.operand_in(i.c, file, wide_type(ty))?,
            _ => self.source(i.c, c_ty)?,
        };
        let d = self.target_in(i.dst, file)?;
        if let Some((high, sum)) = multiply_carry(i.op, ty) {
            let product = self.new_slots(file, 1);
            let half = if high {
                BinaryOp::MulHi
            } else {
                BinaryOp::MulLo
            };
            let (Some(multiply), Some(add)) = (multiply(half, ty), carry(sum, ty)) else {
                return Err(format!(
                    "the emulator has no {} on .{}",
                    i.op.text(),
                    ty.text()
                ));
            };
            self.lanes(multiply, Slots::binary(product, a, b));
            self.lanes(add, Slots::binary(d, product, c));
            return Ok(());
        }
        let exec = match i.op {
            TernaryOp::Bfe => extract(ty),
            TernaryOp::Fns => Some(lanes!(|a: u32, b: u32, c: i32| -> u32 {
                integer::find_nth_set(a, b, c)
            })),
            op => multiply_add(op, ty, i.sat),
        };
        let exec =
            exec.ok_or_else(|| format!("the emulator has no {} on .{}", i.op.text(), ty.text()))?;
        let slots = Slots::ternary(d, a, b, c);
        self.lanes(exec, slots);
        self.note_ternary(i, (exec, slots));
        Ok(())
    }

    /// Integer operations on one value.
    pub(crate) fn integer_unary(&mut self, i: &Unary) -> Decoded {
        let exec = unary(i.op, i.ty);
        let exec =
            exec.ok_or_else(|| format!("the emulator has no {} on .{}", i.op.text(), i.ty.text()))?;
        let a = self.source(i.a, i.ty)?;
        let counts = matches!(
            i.op,
            UnaryOp::Popc | UnaryOp::Clz | UnaryOp::Bfind | UnaryOp::BfindShiftAmount
        );
        let d = self.target_in(i.dst, if counts { File::Word } else { Self::file(i.ty) })?;
        let slots = Slots::unary(d, a);
        self.lanes(exec, slots);
        self.note_unary(i, (exec, slots));
        Ok(())
    }
}
