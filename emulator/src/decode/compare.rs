//! Comparisons.

use super::decoder::{Decoded, Decoder};
use crate::lanes::{Bf16, Exec, F16, Slots, lanes};
use crate::numeric::{half, single};
use crate::program::File;
use ptx::{BoolOp, Compare, Dest, FloatTest, Operand, Predicate, Set, Setp, Testp, Type, Visit};

macro_rules! ordered {
    ($compare:expr, $ty:ty) => {
        match $compare {
            Compare::Eq => lanes!(|a: $ty, b: $ty| -> bool { a == b }),
            Compare::Ne => lanes!(|a: $ty, b: $ty| -> bool { a != b }),
            Compare::Lt | Compare::Lo => lanes!(|a: $ty, b: $ty| -> bool { a < b }),
            Compare::Le | Compare::Ls => lanes!(|a: $ty, b: $ty| -> bool { a <= b }),
            Compare::Gt | Compare::Hi => lanes!(|a: $ty, b: $ty| -> bool { a > b }),
            Compare::Ge | Compare::Hs => lanes!(|a: $ty, b: $ty| -> bool { a >= b }),
            _ => return None,
        }
    };
}

/// Float comparisons: `ne` is false for NaN, the `u` forms are true.
macro_rules! float_compare {
    ($compare:expr, $cell:ty, |$x:ident| $widen:expr) => {
        float_compare!(@ $compare, $cell, |$x| $widen;
            Eq: |a, b| a == b; Ne: |a, b| a < b || a > b; Lt: |a, b| a < b; Le: |a, b| a <= b; Gt: |a, b| a > b;
            Ge: |a, b| a >= b; Equ: |a, b| !(a < b || a > b); Neu: |a, b| a != b; Ltu: |a, b| !(a >= b);
            Leu: |a, b| !(a > b); Gtu: |a, b| !(a <= b); Geu: |a, b| !(a < b);
            Num: |a, b| !a.is_nan() && !b.is_nan(); Nan: |a, b| a.is_nan() || b.is_nan())
    };
    (@ $compare:expr, $cell:ty, |$x:ident| $widen:expr; $($name:ident: |$a:ident, $b:ident| $test:expr);+) => {
        match $compare {
            $(Compare::$name => lanes!(|a: $cell, b: $cell| -> bool {
                let widen = |$x: $cell| $widen;
                let ($a, $b) = (widen(a), widen(b));
                $test
            }),)+
            _ => return None,
        }
    };
}

#[allow(
    clippy::neg_cmp_op_on_partial_ord,
    reason = "the unordered forms are true for NaN"
)]
fn compare(compare: Compare, ty: Type, ftz: bool) -> Option<Exec> {
    let unsigned = matches!(
        compare,
        Compare::Lo | Compare::Ls | Compare::Hi | Compare::Hs
    );
    Some(match ty {
        Type::U16 | Type::B16 => ordered!(compare, u16),
        Type::S16 if unsigned => ordered!(compare, u16),
        Type::S16 => ordered!(compare, i16),
        Type::U32 | Type::B32 => ordered!(compare, u32),
        Type::S32 if unsigned => ordered!(compare, u32),
        Type::S32 => ordered!(compare, i32),
        Type::U64 | Type::B64 => ordered!(compare, u64),
        Type::S64 if unsigned => ordered!(compare, u64),
        Type::S64 => ordered!(compare, i64),
        Type::F32 if ftz => float_compare!(compare, f32, |x| single::flush(x)),
        Type::F32 => float_compare!(compare, f32, |x| x),
        Type::F64 => float_compare!(compare, f64, |x| x),
        Type::F16 => float_compare!(compare, F16, |x| half::f16_to_f32(x.0)),
        Type::Bf16 => float_compare!(compare, Bf16, |x| half::bf16_to_f32(x.0)),
        _ => return None,
    })
}

/// `d = a op (c ^ flip)`, and with `negate` `d = !a op (c ^ flip)`; the flip stands in slot e as a predicate.
fn combine(op: BoolOp, negate: bool) -> Exec {
    macro_rules! form {
        ($op:tt) => {
            if negate {
                lanes!(|a: bool, c: bool, flip: bool| -> bool { !a $op (c ^ flip) })
            } else {
                lanes!(|a: bool, c: bool, flip: bool| -> bool { a $op (c ^ flip) })
            }
        };
    }
    match op {
        BoolOp::And => form!(&),
        BoolOp::Or => form!(|),
        BoolOp::Xor => form!(^),
    }
}

impl Visit<Setp> for Decoder<'_> {
    fn visit(&mut self, i: &Setp) -> Decoded {
        let is_pair = matches!(i.ty, Type::F16x2 | Type::Bf16x2);
        if is_pair {
            return self.setp_pair(i);
        }
        let second = i.dst.second.filter(|dest| *dest != Dest::Sink);
        let combined = i.combine.zip(i.c);
        let exec = self.comparison(i.compare, i.ty, i.ftz)?;
        let (a, b) = (self.source(i.a, i.ty)?, self.source(i.b, i.ty)?);
        if combined.is_none() && second.is_none() {
            let d = self.target(i.dst.first, Type::Pred)?;
            self.lanes(exec, Slots::binary(d, a, b));
            return Ok(());
        }
        let raw = self.new_slots(File::Predicate, 1);
        self.lanes(exec, Slots::binary(raw, a, b));
        self.combine_into(raw, combined, i.dst.first, second)
    }
}

impl Decoder<'_> {
    /// Writes the two results of a comparison whose outcome is in `raw`.
    fn combine_into(
        &mut self,
        raw: u32,
        combined: Option<(BoolOp, Predicate)>,
        first: Dest,
        second: Option<Dest>,
    ) -> Decoded {
        // Without a combination this is `raw & true`.
        let (op, (c, flip)) = match combined {
            Some((op, predicate)) => (op, self.condition(predicate)?),
            None => (BoolOp::And, (0, 0)),
        };
        let c_flip = self.operand_in(
            Operand::Int(i64::from(flip != 0)),
            File::Predicate,
            Type::Pred,
        )?;
        // The combining predicate may be a destination, so that both results are computed before either is written.
        let temporaries = self.new_slots(File::Predicate, 2);
        self.lanes(
            combine(op, false),
            Slots::ternary(temporaries, raw, c, c_flip),
        );
        self.lanes(
            combine(op, true),
            Slots::ternary(temporaries + 1, raw, c, c_flip),
        );
        for (dest, temporary) in [(Some(first), temporaries), (second, temporaries + 1)] {
            if let Some(dest) = dest {
                let d = self.target(dest, Type::Pred)?;
                self.lanes(lanes!(|a: bool| -> bool { a }), Slots::unary(d, temporary));
            }
        }
        Ok(())
    }

    /// Packed comparisons give the lower and the upper result (PTX ISA 9.7.7.2).
    fn setp_pair(&mut self, i: &Setp) -> Decoded {
        if i.combine.is_some() {
            return Err(
                "the emulator has no packed comparison with a further predicate".to_owned(),
            );
        }
        let element = if i.ty == Type::F16x2 {
            Type::F16
        } else {
            Type::Bf16
        };
        let exec = self.comparison(i.compare, element, i.ftz)?;
        let (a, b) = (self.source(i.a, i.ty)?, self.source(i.b, i.ty)?);
        let high = self.new_slots(File::Word, 2);
        let upper = lanes!(|a: u32| -> u32 { a >> 16 });
        self.lanes(upper, Slots::unary(high, a));
        self.lanes(upper, Slots::unary(high + 1, b));
        let d = self.target(i.dst.first, Type::Pred)?;
        self.lanes(exec, Slots::binary(d, a, b));
        let d = self.target(i.dst.second.unwrap_or(Dest::Sink), Type::Pred)?;
        self.lanes(exec, Slots::binary(d, high, high + 1));
        Ok(())
    }

    fn comparison(&self, operator: Compare, ty: Type, ftz: bool) -> Decoded<Exec> {
        compare(operator, ty, ftz).ok_or_else(|| {
            format!(
                "the emulator has no comparison {} on .{}",
                operator.text(),
                ty.text()
            )
        })
    }
}

impl Visit<Set> for Decoder<'_> {
    fn visit(&mut self, i: &Set) -> Decoded {
        let exec = self.comparison(i.compare, i.ty, i.ftz)?;
        let (a, b) = (self.source(i.a, i.ty)?, self.source(i.b, i.ty)?);
        let raw = self.new_slots(File::Predicate, 2);
        self.lanes(exec, Slots::binary(raw, a, b));
        if let Some((op, predicate)) = i.combine.zip(i.c) {
            let (c, flip) = self.condition(predicate)?;
            let c_flip = self.operand_in(
                Operand::Int(i64::from(flip != 0)),
                File::Predicate,
                Type::Pred,
            )?;
            self.lanes(combine(op, false), Slots::ternary(raw, raw, c, c_flip));
        }
        let d = self.target(i.dst, i.dst_ty)?;
        let exec = match i.dst_ty {
            Type::F32 => lanes!(|p: bool| -> f32 { if p { 1.0 } else { 0.0 } }),
            Type::U32 | Type::S32 | Type::B32 => {
                lanes!(|p: bool| -> u32 { if p { u32::MAX } else { 0 } })
            }
            Type::F16 => lanes!(|p: bool| -> u16 { if p { 0x3c00 } else { 0 } }),
            Type::Bf16 => lanes!(|p: bool| -> u16 { if p { 0x3f80 } else { 0 } }),
            Type::U16 | Type::S16 => lanes!(|p: bool| -> u16 { if p { u16::MAX } else { 0 } }),
            ty => return Err(format!("the emulator has no set into .{}", ty.text())),
        };
        self.lanes(exec, Slots::unary(d, raw));
        Ok(())
    }
}

impl Visit<Testp> for Decoder<'_> {
    fn visit(&mut self, i: &Testp) -> Decoded {
        macro_rules! form {
            ($ty:ty) => {
                match i.test {
                    FloatTest::Finite => lanes!(|a: $ty| -> bool { a.is_finite() }),
                    FloatTest::Infinite => lanes!(|a: $ty| -> bool { a.is_infinite() }),
                    FloatTest::Number => lanes!(|a: $ty| -> bool { !a.is_nan() }),
                    FloatTest::NotANumber => lanes!(|a: $ty| -> bool { a.is_nan() }),
                    // Zeros count as normal (PTX ISA 9.7.3.1).
                    FloatTest::Normal => lanes!(|a: $ty| -> bool { a.is_normal() || a == 0.0 }),
                    FloatTest::Subnormal => lanes!(|a: $ty| -> bool { a.is_subnormal() }),
                }
            };
        }
        let exec = if i.ty == Type::F64 {
            form!(f64)
        } else {
            form!(f32)
        };
        let a = self.source(i.a, i.ty)?;
        let d = self.target(i.dst, Type::Pred)?;
        self.lanes(exec, Slots::unary(d, a));
        Ok(())
    }
}
