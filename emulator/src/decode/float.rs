//! Arithmetic on f32 and f64.

use super::decoder::{Decoded, Decoder};
use crate::lanes::{Exec, Slots, lanes};
use crate::numeric::{Mode, directed, exact, integer, single};
use ptx::{
    Binary, BinaryOp, DivPrecision, Rounding, Ternary, TernaryOp, Type, Unary, UnaryOp, Visit,
};

/// The rounding that a modifier asks for; nearest even when it is absent.
pub(crate) fn mode(rounding: Option<Rounding>) -> Mode {
    match rounding {
        None | Some(Rounding::Rn | Rounding::Rni) => Mode::NearestEven,
        Some(Rounding::Rz | Rounding::Rzi) => Mode::Zero,
        Some(Rounding::Rm | Rounding::Rmi) => Mode::Down,
        Some(Rounding::Rp | Rounding::Rpi) => Mode::Up,
        Some(Rounding::Rna) => Mode::NearestAway,
    }
}

/// An f32 operation with and without `.ftz`.
macro_rules! flushing {
    ($ftz:expr, |$a:ident $(, $b:ident $(, $c:ident)?)?| $value:expr) => {
        if $ftz {
            lanes!(|$a: f32 $(, $b: f32 $(, $c: f32)?)?| -> f32 {
                let $a = single::flush($a);
                $(let $b = single::flush($b);
                $(let $c = single::flush($c);)?)?
                single::flush(single::canonical($value))
            })
        } else {
            lanes!(|$a: f32 $(, $b: f32 $(, $c: f32)?)?| -> f32 { single::canonical($value) })
        }
    };
}

/// An operation whose last argument is the rounding, for each rounding.
macro_rules! each_mode {
    ($ty:ident, $mode:expr, $f:path => $($a:ident),+) => {
        match $mode {
            Mode::Zero => each_mode!(@ $ty, Mode::Zero, $f => $($a),+),
            Mode::Down => each_mode!(@ $ty, Mode::Down, $f => $($a),+),
            Mode::Up => each_mode!(@ $ty, Mode::Up, $f => $($a),+),
            _ => each_mode!(@ $ty, Mode::NearestEven, $f => $($a),+),
        }
    };
    (@ $ty:ident, $mode:expr, $f:path => $($a:ident),+) => {
        lanes!(|$($a: $ty),+| -> $ty { $f($($a,)+ $mode) })
    };
}

/// An instruction as steps: the operation, whether `.ftz` is left to separate steps, whether operand b is negated.
struct Plan {
    exec: Exec,
    flush_apart: bool,
    negate_b: bool,
}

impl Plan {
    fn new(exec: Exec) -> Self {
        Self {
            exec,
            flush_apart: false,
            negate_b: false,
        }
    }

    fn directed(exec: Exec) -> Self {
        Self {
            flush_apart: true,
            ..Self::new(exec)
        }
    }
}

fn binary_f32(i: &Binary) -> Option<Plan> {
    let mode = mode(i.rounding);
    if mode != Mode::NearestEven {
        return Some(match i.op {
            BinaryOp::Add => Plan::directed(each_mode!(f32, mode, directed::add32 => a, b)),
            BinaryOp::Sub => Plan {
                negate_b: true,
                ..Plan::directed(each_mode!(f32, mode, directed::add32 => a, b))
            },
            BinaryOp::Mul => Plan::directed(each_mode!(f32, mode, directed::mul32 => a, b)),
            BinaryOp::Div => Plan::directed(each_mode!(f32, mode, directed::div32 => a, b)),
            _ => return None,
        });
    }
    let ftz = i.ftz;
    Some(Plan::new(match i.op {
        BinaryOp::Add => flushing!(ftz, |a, b| a + b),
        BinaryOp::Sub => flushing!(ftz, |a, b| a - b),
        BinaryOp::Mul => flushing!(ftz, |a, b| a * b),
        BinaryOp::Div if i.precision == Some(DivPrecision::Approx) => {
            flushing!(ftz, |a, b| single::div_approx(a, b))
        }
        BinaryOp::Div => flushing!(ftz, |a, b| a / b),
        BinaryOp::Min | BinaryOp::Max if i.xorsign_abs => xorsign_abs(i),
        BinaryOp::Min if i.nan => flushing!(ftz, |a, b| single::min_nan(a, b)),
        BinaryOp::Max if i.nan => flushing!(ftz, |a, b| single::max_nan(a, b)),
        BinaryOp::Min => flushing!(ftz, |a, b| single::min(a, b)),
        BinaryOp::Max => flushing!(ftz, |a, b| single::max(a, b)),
        // copysign takes the sign of its first operand (PTX ISA 9.7.3.2).
        BinaryOp::CopySign => lanes!(|a: u32, b: u32| -> u32 { b & 0x7fff_ffff | a & 0x8000_0000 }),
        _ => return None,
    }))
}

/// `.xorsign.abs`: the extremum of the magnitudes, with the product of the signs.
fn xorsign_abs(i: &Binary) -> Exec {
    macro_rules! form {
        ($f:path) => {
            flushing!(i.ftz, |a, b| {
                let sign = (a.to_bits() ^ b.to_bits()) & 0x8000_0000;
                f32::from_bits($f(a.abs(), b.abs()).to_bits() | sign)
            })
        };
    }
    match (i.op, i.nan) {
        (BinaryOp::Min, false) => form!(single::min),
        (BinaryOp::Min, true) => form!(single::min_nan),
        (_, false) => form!(single::max),
        (_, true) => form!(single::max_nan),
    }
}

fn binary_f64(i: &Binary) -> Option<Plan> {
    let mode = mode(i.rounding);
    Some(Plan::new(match i.op {
        BinaryOp::Add if mode == Mode::NearestEven => lanes!(|a: f64, b: f64| -> f64 { a + b }),
        BinaryOp::Add => each_mode!(f64, mode, directed::add64 => a, b),
        BinaryOp::Sub if mode == Mode::NearestEven => lanes!(|a: f64, b: f64| -> f64 { a - b }),
        BinaryOp::Sub => {
            return Some(Plan {
                negate_b: true,
                ..Plan::new(each_mode!(f64, mode, directed::add64 => a, b))
            });
        }
        BinaryOp::Mul => each_mode!(f64, mode, directed::mul64 => a, b),
        BinaryOp::Div => each_mode!(f64, mode, directed::div64 => a, b),
        BinaryOp::Min => lanes!(|a: f64, b: f64| -> f64 {
            if a == b {
                f64::from_bits(a.to_bits() | b.to_bits())
            } else {
                a.min(b)
            }
        }),
        BinaryOp::Max => lanes!(|a: f64, b: f64| -> f64 {
            if a == b {
                f64::from_bits(a.to_bits() & b.to_bits())
            } else {
                a.max(b)
            }
        }),
        BinaryOp::CopySign => lanes!(|a: f64, b: f64| -> f64 { b.copysign(a) }),
        _ => return None,
    }))
}

fn unary_f32(i: &Unary) -> Option<Plan> {
    let (ftz, mode) = (i.ftz, mode(i.rounding));
    if mode != Mode::NearestEven {
        return Some(Plan::directed(match i.op {
            UnaryOp::Sqrt => each_mode!(f32, mode, directed::sqrt32 => a),
            UnaryOp::Rcp => match mode {
                Mode::Zero => lanes!(|a: f32| -> f32 { directed::div32(1.0, a, Mode::Zero) }),
                Mode::Down => lanes!(|a: f32| -> f32 { directed::div32(1.0, a, Mode::Down) }),
                _ => lanes!(|a: f32| -> f32 { directed::div32(1.0, a, Mode::Up) }),
            },
            _ => return None,
        }));
    }
    Some(Plan::new(match i.op {
        UnaryOp::Neg if ftz => lanes!(|a: f32| -> f32 { -single::flush(a) }),
        UnaryOp::Neg => lanes!(|a: f32| -> f32 { -a }),
        UnaryOp::Abs if ftz => lanes!(|a: f32| -> f32 { single::flush(a).abs() }),
        UnaryOp::Abs => lanes!(|a: f32| -> f32 { a.abs() }),
        UnaryOp::Sqrt => flushing!(ftz, |a| a.sqrt()),
        UnaryOp::Rcp => flushing!(ftz, |a| 1.0 / a),
        UnaryOp::Rsqrt => flushing!(ftz, |a| (1.0 / f64::from(a).sqrt()) as f32),
        UnaryOp::Ex2 => flushing!(ftz, |a| single::exp2(a)),
        UnaryOp::Lg2 => flushing!(ftz, |a| f64::from(a).log2() as f32),
        UnaryOp::Sin => flushing!(ftz, |a| f64::from(a).sin() as f32),
        UnaryOp::Cos => flushing!(ftz, |a| f64::from(a).cos() as f32),
        UnaryOp::Tanh => flushing!(ftz, |a| f64::from(a).tanh() as f32),
        _ => return None,
    }))
}

fn unary_f64(i: &Unary) -> Option<Plan> {
    let mode = mode(i.rounding);
    Some(Plan::new(match i.op {
        UnaryOp::Neg => lanes!(|a: f64| -> f64 { -a }),
        UnaryOp::Abs => lanes!(|a: f64| -> f64 { a.abs() }),
        UnaryOp::Sqrt => each_mode!(f64, mode, directed::sqrt64 => a),
        UnaryOp::Rcp => match mode {
            Mode::Zero => lanes!(|a: f64| -> f64 { directed::div64(1.0, a, Mode::Zero) }),
            Mode::Down => lanes!(|a: f64| -> f64 { directed::div64(1.0, a, Mode::Down) }),
            Mode::Up => lanes!(|a: f64| -> f64 { directed::div64(1.0, a, Mode::Up) }),
            _ => lanes!(|a: f64| -> f64 { 1.0 / a }),
        },
        UnaryOp::Rsqrt => lanes!(|a: f64| -> f64 { 1.0 / a.sqrt() }),
        _ => return None,
    }))
}

fn ternary(i: &Ternary) -> Option<Plan> {
    let mode = mode(i.rounding);
    match (i.op, i.ty) {
        (TernaryOp::Fma | TernaryOp::Mad, Type::F32) if mode == Mode::NearestEven => {
            Some(Plan::new(flushing!(i.ftz, |a, b, c| single::fma(a, b, c))))
        }
        (TernaryOp::Fma | TernaryOp::Mad, Type::F32) => Some(Plan::directed(
            each_mode!(f32, mode, directed::fma32 => a, b, c),
        )),
        (TernaryOp::Fma | TernaryOp::Mad, Type::F64) => {
            Some(Plan::new(each_mode!(f64, mode, directed::fma64 => a, b, c)))
        }
        _ => None,
    }
}

/// The error of an unsupported operation.
pub(super) fn no_such(op: &str, ty: Type) -> String {
    format!("the emulator does not support this {op} on .{}", ty.text())
}

const FLUSH: fn() -> Exec = || lanes!(|a: f32| -> f32 { single::flush(a) });

impl Visit<Binary> for Decoder<'_> {
    fn visit(&mut self, i: &Binary) -> Decoded {
        let plan = match i.ty {
            Type::F32 => binary_f32(i),
            Type::F64 => binary_f64(i),
            ty if ty.is_float() => return self.half_binary(i),
            _ => return self.integer_binary(i),
        };
        let plan = plan.ok_or_else(|| no_such(i.op.text(), i.ty))?;
        let (a, b) = (self.source(i.a, i.ty)?, self.source(i.b, i.ty)?);
        let b = if plan.negate_b {
            self.negated(b, i.ty)
        } else {
            b
        };
        let d = self.target(i.dst, i.ty)?;
        self.float_steps(&plan, Slots::binary(d, a, b), 2, i.ftz, i.sat, i.ty)
    }
}

impl Visit<Unary> for Decoder<'_> {
    fn visit(&mut self, i: &Unary) -> Decoded {
        let plan = match i.ty {
            Type::F32 => unary_f32(i),
            Type::F64 => unary_f64(i),
            ty if ty.is_float() => return self.half_unary(i),
            _ => return self.integer_unary(i),
        };
        let plan = plan.ok_or_else(|| no_such(i.op.text(), i.ty))?;
        let a = self.source(i.a, i.ty)?;
        let d = self.target(i.dst, i.ty)?;
        self.float_steps(&plan, Slots::unary(d, a), 1, i.ftz, false, i.ty)
    }
}

impl Visit<Ternary> for Decoder<'_> {
    fn visit(&mut self, i: &Ternary) -> Decoded {
        if !i.ty.is_float() {
            return self.integer_ternary(i);
        }
        if !matches!(i.ty, Type::F32 | Type::F64) {
            return self.half_ternary(i);
        }
        let plan = ternary(i);
        let plan = plan.ok_or_else(|| no_such(i.op.text(), i.ty))?;
        let (a, b, c) = (
            self.source(i.a, i.ty)?,
            self.source(i.b, i.ty)?,
            self.source(i.c, i.ty)?,
        );
        let d = self.target(i.dst, i.ty)?;
        self.float_steps(&plan, Slots::ternary(d, a, b, c), 3, i.ftz, i.sat, i.ty)
    }
}

impl Decoder<'_> {
    fn negated(&mut self, slot: u32, ty: Type) -> u32 {
        let file = Self::file(ty);
        let d = self.new_slots(file, 1);
        let exec = if ty == Type::F64 {
            lanes!(|a: f64| -> f64 { -a })
        } else {
            lanes!(|a: f32| -> f32 { -a })
        };
        self.lanes_before(exec, Slots::unary(d, slot));
        d
    }

    /// Has an operation take what `flush` makes of its first operands.
    pub(super) fn flush_sources(
        &mut self,
        flush: Exec,
        slots: &mut Slots,
        sources: usize,
        ty: Type,
    ) {
        let inputs = [&mut slots.a, &mut slots.b, &mut slots.c];
        for input in inputs.into_iter().take(sources) {
            let d = self.new_slots(Self::file(ty), 1);
            self.lanes_before(flush, Slots::unary(d, *input));
            *input = d;
        }
    }

    /// The operation with the steps before and after it that its modifiers need.
    fn float_steps(
        &mut self,
        plan: &Plan,
        slots: Slots,
        sources: usize,
        ftz: bool,
        sat: bool,
        ty: Type,
    ) -> Decoded {
        let mut slots = slots;
        let apart = plan.flush_apart && ftz;
        if apart {
            self.flush_sources(FLUSH(), &mut slots, sources, ty);
        }
        self.lanes(plan.exec, slots);
        let in_place = Slots::unary(slots.d, slots.d);
        if apart {
            self.lanes(FLUSH(), in_place);
        }
        match (sat, ty) {
            (false, _) => {}
            (true, Type::F32) => {
                self.lanes(lanes!(|a: f32| -> f32 { single::saturate(a) }), in_place);
            }
            (true, _) => return Err(format!("the emulator has no .sat on .{}", ty.text())),
        }
        Ok(())
    }
}

/// Rounds an f32 to an integral f32.
pub(crate) fn round_to_integral(mode: Mode, ftz: bool) -> Exec {
    macro_rules! form {
        ($mode:expr) => {
            flushing!(ftz, |a| integer::round_integral(f64::from(a), $mode) as f32)
        };
    }
    match mode {
        Mode::Zero => form!(Mode::Zero),
        Mode::Down => form!(Mode::Down),
        Mode::Up => form!(Mode::Up),
        _ => form!(Mode::NearestEven),
    }
}

/// `a * b + c` of short formats, exact enough to be rounded again.
#[inline(always)]
pub(crate) fn wide_fma(a: f32, b: f32, c: f32) -> f64 {
    exact::fma(a.into(), b.into(), c.into())
}
