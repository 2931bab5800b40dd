//! Arithmetic on f16 and bf16, single and in pairs.

use super::decoder::{Decoded, Decoder};
use super::float::{no_such, wide_fma};
use crate::lanes::{Bf16, Exec, F16, Slots, lanes};
use crate::numeric::format::Format;
use crate::numeric::{half, single};
use ptx::{Binary, BinaryOp, Ternary, TernaryOp, Type, Unary, UnaryOp};

/// An operation over f32 values whose f64 result is exact, or safe to round again, in each short format.
macro_rules! each_half {
    ($ty:expr, |$a:ident $(, $b:ident $(, $c:ident)?)?| $value:expr) => {
        each_half!(@ $ty, f64_to_f16, f64_to_bf16, |$a $(, $b $(, $c)?)?| $value)
    };
    (@ $ty:expr, $to_f16:ident, $to_bf16:ident, |$a:ident $(, $b:ident $(, $c:ident)?)?| $value:expr) => {
        match $ty {
            Type::F16 => Some(lanes!(|$a: F16 $(, $b: F16 $(, $c: F16)?)?| -> F16 {
                let $a = half::f16_to_f32($a.0);
                $(let $b = half::f16_to_f32($b.0);
                $(let $c = half::f16_to_f32($c.0);)?)?
                F16(half::$to_f16($value))
            })),
            Type::Bf16 => Some(lanes!(|$a: Bf16 $(, $b: Bf16 $(, $c: Bf16)?)?| -> Bf16 {
                let $a = half::bf16_to_f32($a.0);
                $(let $b = half::bf16_to_f32($b.0);
                $(let $c = half::bf16_to_f32($c.0);)?)?
                Bf16(half::$to_bf16($value))
            })),
            Type::F16x2 => Some(lanes!(|$a: u32 $(, $b: u32 $(, $c: u32)?)?| -> u32 {
                let f = |$a: u32 $(, $b: u32 $(, $c: u32)?)?| -> u32 {
                    let $a = half::f16_to_f32($a as u16);
                    $(let $b = half::f16_to_f32($b as u16);
                    $(let $c = half::f16_to_f32($c as u16);)?)?
                    u32::from(half::$to_f16($value))
                };
                f($a $(, $b $(, $c)?)?) | f($a >> 16 $(, $b >> 16 $(, $c >> 16)?)?) << 16
            })),
            Type::Bf16x2 => Some(lanes!(|$a: u32 $(, $b: u32 $(, $c: u32)?)?| -> u32 {
                let f = |$a: u32 $(, $b: u32 $(, $c: u32)?)?| -> u32 {
                    let $a = half::bf16_to_f32($a as u16);
                    $(let $b = half::bf16_to_f32($b as u16);
                    $(let $c = half::bf16_to_f32($c as u16);)?)?
                    u32::from(half::$to_bf16($value))
                };
                f($a $(, $b $(, $c)?)?) | f($a >> 16 $(, $b >> 16 $(, $c >> 16)?)?) << 16
            })),
            _ => None,
        }
    };
}

/// The same for operations that may be rounded to f32 first: sums and products, as 24 >= 2 * 11 + 2.
macro_rules! each_half_rounded {
    ($ty:expr, |$a:ident, $b:ident| $value:expr) => {
        each_half!(@ $ty, f32_to_f16, f32_to_bf16, |$a, $b| $value)
    };
}

fn binary(i: &Binary) -> Option<Exec> {
    let ty = i.ty;
    match i.op {
        BinaryOp::Add => each_half_rounded!(ty, |a, b| a + b),
        BinaryOp::Sub => each_half_rounded!(ty, |a, b| a - b),
        BinaryOp::Mul => each_half_rounded!(ty, |a, b| a * b),
        BinaryOp::Min if i.nan => each_half_rounded!(ty, |a, b| single::min_nan(a, b)),
        BinaryOp::Max if i.nan => each_half_rounded!(ty, |a, b| single::max_nan(a, b)),
        BinaryOp::Min => each_half_rounded!(ty, |a, b| single::min(a, b)),
        BinaryOp::Max => each_half_rounded!(ty, |a, b| single::max(a, b)),
        _ => None,
    }
}

fn unary(i: &Unary) -> Option<Exec> {
    let is_pair = i.ty.bits() == 32;
    let ty = i.ty;
    match i.op {
        UnaryOp::Neg if is_pair => Some(lanes!(|a: u32| -> u32 { a ^ 0x8000_8000 })),
        UnaryOp::Neg => Some(lanes!(|a: u16| -> u16 { a ^ 0x8000 })),
        UnaryOp::Abs if is_pair => Some(lanes!(|a: u32| -> u32 { a & 0x7fff_7fff })),
        UnaryOp::Abs => Some(lanes!(|a: u16| -> u16 { a & 0x7fff })),
        UnaryOp::Ex2 => each_half!(ty, |a| f64::from(a).exp2()),
        UnaryOp::Tanh => each_half!(ty, |a| f64::from(a).tanh()),
        _ => None,
    }
}

impl Decoder<'_> {
    pub(crate) fn half_binary(&mut self, i: &Binary) -> Decoded {
        let exec = binary(i).filter(|_| !i.xorsign_abs);
        let exec = exec.ok_or_else(|| no_such(i.op.text(), i.ty))?;
        let (a, b) = (self.source(i.a, i.ty)?, self.source(i.b, i.ty)?);
        let d = self.target(i.dst, i.ty)?;
        self.half_steps(
            exec,
            Slots::binary(d, a, b),
            2,
            [i.ftz, i.sat, i.relu],
            i.ty,
        )
    }

    pub(crate) fn half_unary(&mut self, i: &Unary) -> Decoded {
        let exec = unary(i);
        let exec = exec.ok_or_else(|| no_such(i.op.text(), i.ty))?;
        let a = self.source(i.a, i.ty)?;
        let d = self.target(i.dst, i.ty)?;
        self.half_steps(exec, Slots::unary(d, a), 1, [i.ftz, false, false], i.ty)
    }

    pub(crate) fn half_ternary(&mut self, i: &Ternary) -> Decoded {
        let exec = match i.op {
            TernaryOp::Fma => each_half!(i.ty, |a, b, c| wide_fma(a, b, c)),
            _ => None,
        };
        let exec = exec.ok_or_else(|| no_such(i.op.text(), i.ty))?;
        let (a, b, c) = (
            self.source(i.a, i.ty)?,
            self.source(i.b, i.ty)?,
            self.source(i.c, i.ty)?,
        );
        let d = self.target(i.dst, i.ty)?;
        self.half_steps(
            exec,
            Slots::ternary(d, a, b, c),
            3,
            [i.ftz, i.sat, i.relu],
            i.ty,
        )
    }

    /// The operation with steps for `.ftz`, `.sat` and `.relu` around it.
    fn half_steps(
        &mut self,
        exec: Exec,
        slots: Slots,
        sources: usize,
        flags: [bool; 3],
        ty: Type,
    ) -> Decoded {
        let mut slots = slots;
        let [ftz, sat, relu] = flags;
        let is_f16 = matches!(ty, Type::F16 | Type::F16x2);
        if ftz && is_f16 {
            self.flush_sources(flush_pair(), &mut slots, sources, ty);
        }
        self.lanes(exec, slots);
        let in_place = Slots::unary(slots.d, slots.d);
        if ftz && is_f16 {
            self.lanes(flush_pair(), in_place);
        }
        if sat {
            let exec = each_half!(ty, |a| single::saturate(a).into());
            self.lanes(exec.ok_or("no such .sat")?, in_place);
        }
        if relu {
            let exec = each_half!(ty, |a| single::max_nan(a, 0.0).into());
            self.lanes(exec.ok_or("no such .relu")?, in_place);
        }
        Ok(())
    }
}

/// Flushes both halves of a pair of f16; the upper half of a single one is zero and stays so.
fn flush_pair() -> Exec {
    lanes!(|a: u32| -> u32 { Format::F16.flush(a & 0xffff) | Format::F16.flush(a >> 16) << 16 })
}
