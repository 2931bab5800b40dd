//! Integer arithmetic.

use super::decoder::{Decoded, Decoder};
use crate::lanes::{Exec, Registers, Slots, lanes};
use crate::numeric::integer;
use crate::program::{File, IndexBound, Op};
use ptx::{Binary, BinaryOp, Bound, Operand, Ternary, TernaryOp, Type, Unary, UnaryOp, Visit};

/// An [`Exec`] for each integer type.
macro_rules! each_integer {
    ($ty:expr, |$a:ident $(, $b:ident $(, $c:ident)?)?| $($body:tt)*) => {
        match $ty {
            Type::U16 | Type::B16 => Some(lanes!(|$a: u16 $(, $b: u16 $(, $c: u16)?)?| -> u16 { $($body)* })),
            Type::S16 => Some(lanes!(|$a: i16 $(, $b: i16 $(, $c: i16)?)?| -> i16 { $($body)* })),
            Type::U32 | Type::B32 => Some(lanes!(|$a: u32 $(, $b: u32 $(, $c: u32)?)?| -> u32 { $($body)* })),
            Type::S32 => Some(lanes!(|$a: i32 $(, $b: i32 $(, $c: i32)?)?| -> i32 { $($body)* })),
            Type::U64 | Type::B64 => Some(lanes!(|$a: u64 $(, $b: u64 $(, $c: u64)?)?| -> u64 { $($body)* })),
            Type::S64 => Some(lanes!(|$a: i64 $(, $b: i64 $(, $c: i64)?)?| -> i64 { $($body)* })),
            _ => None,
        }
    };
}

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

fn multiply(op: BinaryOp, ty: Type) -> Option<Exec> {
    match op {
        BinaryOp::MulLo => each_integer!(ty, |a, b| a.wrapping_mul(b)),
        BinaryOp::MulHi => Some(match ty {
            Type::U16 => {
                lanes!(|a: u16, b: u16| -> u16 { (u32::from(a) * u32::from(b) >> 16) as u16 })
            }
            Type::S16 => {
                lanes!(|a: i16, b: i16| -> i16 { (i32::from(a) * i32::from(b) >> 16) as i16 })
            }
            Type::U32 => {
                lanes!(|a: u32, b: u32| -> u32 { (u64::from(a) * u64::from(b) >> 32) as u32 })
            }
            Type::S32 => {
                lanes!(|a: i32, b: i32| -> i32 { (i64::from(a) * i64::from(b) >> 32) as i32 })
            }
            Type::U64 => {
                lanes!(|a: u64, b: u64| -> u64 { (u128::from(a) * u128::from(b) >> 64) as u64 })
            }
            Type::S64 => {
                lanes!(|a: i64, b: i64| -> i64 { (i128::from(a) * i128::from(b) >> 64) as i64 })
            }
            _ => return None,
        }),
        BinaryOp::MulWide => Some(match ty {
            Type::U16 => lanes!(|a: u16, b: u16| -> u32 { u32::from(a) * u32::from(b) }),
            Type::S16 => lanes!(|a: i16, b: i16| -> i32 { i32::from(a) * i32::from(b) }),
            Type::U32 => lanes!(|a: u32, b: u32| -> u64 { u64::from(a) * u64::from(b) }),
            Type::S32 => lanes!(|a: i32, b: i32| -> i64 { i64::from(a) * i64::from(b) }),
            _ => return None,
        }),
        _ => None,
    }
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

/// Adds or subtracts with the condition code going in, coming out, or both.
macro_rules! with_carry {
    ($file:ident, $lanes:ident, $put:ident, $wide:ty, |$a:ident, $b:ident, $carry:ident| $sum:expr, $reads:expr, $writes:expr) => {{
        fn run(regs: &mut Registers, slots: &Slots, mask: u32) {
            let mut out = regs.$file[slots.d as usize];
            let mut carry_out = 0;
            for lane in 0..32 {
                let $a = <$wide>::from(regs.$file[slots.a as usize].0[lane]);
                let $b = <$wide>::from(regs.$file[slots.b as usize].0[lane]);
                let $carry = if $reads {
                    <$wide>::from(regs.carry >> lane & 1)
                } else {
                    0
                };
                let wide: $wide = $sum;
                out.0[lane] = wide as _;
                carry_out |= ((wide >> (<$wide>::BITS / 2)) as u32 & 1) << lane;
            }
            regs.$put(slots.d, mask, &out);
            if $writes {
                regs.carry = regs.carry & !mask | carry_out & mask;
            }
        }
        run as Exec
    }};
}

macro_rules! carry_of_width {
    ($ty:expr, |$a:ident, $b:ident, $carry:ident| $sum:expr, $reads:expr, $writes:expr) => {
        if $ty.bits() == 64 {
            with_carry!(
                doubles,
                Lanes64,
                put64,
                u128,
                |$a, $b, $carry| $sum,
                $reads,
                $writes
            )
        } else {
            with_carry!(
                words,
                Lanes32,
                put32,
                u64,
                |$a, $b, $carry| $sum,
                $reads,
                $writes
            )
        }
    };
}

fn carry(op: BinaryOp, ty: Type) -> Option<Exec> {
    // The condition code after a subtraction is its borrow.
    Some(match op {
        BinaryOp::AddCc => carry_of_width!(ty, |a, b, _c| a + b, false, true),
        BinaryOp::Addc => carry_of_width!(ty, |a, b, c| a + b + c, true, false),
        BinaryOp::AddcCc => carry_of_width!(ty, |a, b, c| a + b + c, true, true),
        BinaryOp::SubCc => carry_of_width!(ty, |a, b, _c| a.wrapping_sub(b), false, true),
        BinaryOp::Subc => {
            carry_of_width!(ty, |a, b, c| a.wrapping_sub(b).wrapping_sub(c), true, false)
        }
        BinaryOp::SubcCc => {
            carry_of_width!(ty, |a, b, c| a.wrapping_sub(b).wrapping_sub(c), true, true)
        }
        _ => return None,
    })
}

/// `a * b + c`, one half of the product, with the condition code.
fn multiply_carry(op: TernaryOp, ty: Type) -> Option<(bool, BinaryOp)> {
    let high = matches!(
        op,
        TernaryOp::MadHiCc | TernaryOp::MadcHi | TernaryOp::MadcHiCc
    );
    let sum = match op {
        TernaryOp::MadLoCc | TernaryOp::MadHiCc => BinaryOp::AddCc,
        TernaryOp::MadcLo | TernaryOp::MadcHi => BinaryOp::Addc,
        TernaryOp::MadcLoCc | TernaryOp::MadcHiCc => BinaryOp::AddcCc,
        _ => return None,
    };
    matches!(ty.bits(), 32 | 64).then_some((high, sum))
}

fn multiply_add(op: TernaryOp, ty: Type, sat: bool) -> Option<Exec> {
    match op {
        TernaryOp::MadLo => each_integer!(ty, |a, b, c| a.wrapping_mul(b).wrapping_add(c)),
        TernaryOp::MadWide => Some(match ty {
            Type::U16 => lanes!(|a: u16, b: u16, c: u32| -> u32 {
                (u32::from(a) * u32::from(b)).wrapping_add(c)
            }),
            Type::S16 => lanes!(|a: i16, b: i16, c: i32| -> i32 {
                (i32::from(a) * i32::from(b)).wrapping_add(c)
            }),
            Type::U32 => lanes!(|a: u32, b: u32, c: u64| -> u64 {
                (u64::from(a) * u64::from(b)).wrapping_add(c)
            }),
            Type::S32 => lanes!(|a: i32, b: i32, c: i64| -> i64 {
                (i64::from(a) * i64::from(b)).wrapping_add(c)
            }),
            _ => return None,
        }),
        TernaryOp::MadHi if sat => Some(lanes!(|a: i32, b: i32, c: i32| -> i32 {
            ((i64::from(a) * i64::from(b) >> 32) as i32).saturating_add(c)
        })),
        TernaryOp::MadHi => Some(match ty {
            Type::U16 => lanes!(|a: u16, b: u16, c: u16| -> u16 {
                ((u32::from(a) * u32::from(b) >> 16) as u16).wrapping_add(c)
            }),
            Type::S16 => lanes!(|a: i16, b: i16, c: i16| -> i16 {
                ((i32::from(a) * i32::from(b) >> 16) as i16).wrapping_add(c)
            }),
            Type::U32 => lanes!(|a: u32, b: u32, c: u32| -> u32 {
                ((u64::from(a) * u64::from(b) >> 32) as u32).wrapping_add(c)
            }),
            Type::S32 => lanes!(|a: i32, b: i32, c: i32| -> i32 {
                ((i64::from(a) * i64::from(b) >> 32) as i32).wrapping_add(c)
            }),
            Type::U64 => lanes!(|a: u64, b: u64, c: u64| -> u64 {
                ((u128::from(a) * u128::from(b) >> 64) as u64).wrapping_add(c)
            }),
            Type::S64 => lanes!(|a: i64, b: i64, c: i64| -> i64 {
                ((i128::from(a) * i128::from(b) >> 64) as i64).wrapping_add(c)
            }),
            _ => return None,
        }),
        TernaryOp::Sad => each_integer!(ty, |a, b, c| c.wrapping_add(if a < b {
            b.wrapping_sub(a)
        } else {
            a.wrapping_sub(b)
        })),
        _ => None,
    }
}

fn extract(ty: Type) -> Option<Exec> {
    Some(match ty {
        Type::U32 => lanes!(|a: u32, pos: u32, len: u32| -> u32 {
            integer::bit_field_extract(a.into(), pos, len, 32, false) as u32
        }),
        Type::S32 => lanes!(|a: u32, pos: u32, len: u32| -> u32 {
            integer::bit_field_extract(a.into(), pos, len, 32, true) as u32
        }),
        Type::U64 => lanes!(|a: u64, pos: u32, len: u32| -> u64 {
            integer::bit_field_extract(a, pos, len, 64, false)
        }),
        Type::S64 => lanes!(|a: u64, pos: u32, len: u32| -> u64 {
            integer::bit_field_extract(a, pos, len, 64, true)
        }),
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

/// `bfind`: position of the top bit that differs from the sign, or how far to shift it up; all ones when there is none.
fn find_leading(shift_amount: bool, ty: Type) -> Option<Exec> {
    Some(match (ty, shift_amount) {
        (Type::U32, false) => lanes!(|a: u32| -> u32 { 31u32.wrapping_sub(a.leading_zeros()) }),
        (Type::U32, true) => {
            lanes!(|a: u32| -> u32 { if a == 0 { u32::MAX } else { a.leading_zeros() } })
        }
        (Type::S32, false) => {
            lanes!(|a: i32| -> u32 { 31u32.wrapping_sub((a ^ a >> 31).leading_zeros()) })
        }
        (Type::S32, true) => lanes!(|a: i32| -> u32 {
            let bits = a ^ a >> 31;
            if bits == 0 {
                u32::MAX
            } else {
                bits.leading_zeros()
            }
        }),
        (Type::U64, false) => lanes!(|a: u64| -> u32 { 63u32.wrapping_sub(a.leading_zeros()) }),
        (Type::U64, true) => {
            lanes!(|a: u64| -> u32 { if a == 0 { u32::MAX } else { a.leading_zeros() } })
        }
        (Type::S64, false) => {
            lanes!(|a: i64| -> u32 { 63u32.wrapping_sub((a ^ a >> 63).leading_zeros()) })
        }
        (Type::S64, true) => lanes!(|a: i64| -> u32 {
            let bits = a ^ a >> 63;
            if bits == 0 {
                u32::MAX
            } else {
                bits.leading_zeros()
            }
        }),
        _ => return None,
    })
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
                "the emulator has no such modifier of {} on .{}",
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
        self.lanes(exec, Slots::binary(d, a, b));
        Ok(())
    }
}

impl Visit<Bound> for Decoder<'_> {
    /// An index and the number that it must stay below.
    fn visit(&mut self, i: &Bound) -> Decoded {
        let slot = self.source(Operand::Reg(i.index), Type::U32)?;
        self.push(Op::CheckBound(Box::new(IndexBound {
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
        self.lanes(exec, Slots::ternary(d, a, b, c));
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
        self.lanes(exec, Slots::unary(d, a));
        Ok(())
    }
}

fn wide_file(ty: Type) -> File {
    if ty.bits() == 16 {
        File::Word
    } else {
        File::Double
    }
}

fn wide_type(ty: Type) -> Type {
    if ty.bits() == 16 {
        Type::B32
    } else {
        Type::B64
    }
}
