//! Tensor maps that a kernel makes.

use super::super::entry::with_fitting_swizzle;
use super::super::operand::Raw;
use super::super::{At, Trace, with};
use ir::OpError;
use ir::elem::Elem;
use ir::entity::Value;
use ir::ops::Values;
use ir::ops::create::Const;
use ir::ops::tensor_map::MakeTensorMap;
use ir::verify::check_map;
use ir::{TensorMapType, Type};

/// A map of a tensor: where it is kept and where the tensor begins, and the sizes and strides.
#[inline(never)]
pub(crate) fn make_tensor_map(
    ty: TensorMapType,
    (place, base): (Value, Value),
    (shape, strides): (&[Raw], &[Raw]),
    (fills_with_nan, rounds_to_tf32): (bool, bool),
    at: At,
) -> Value {
    with(at, |trace| {
        let func = trace.builder.func();
        if let Err((code, message)) = check_map(&ty, func) {
            let error = with_fitting_swizzle(OpError::new(code, message), &ty, func);
            return trace.fail(error, at);
        }
        let op = MakeTensorMap {
            fills_with_nan,
            rounds_to_tf32,
            place,
            base,
            shape: trace.scalars(shape, at),
            strides: trace.steps(strides, at),
        };
        trace.push1(op, Type::TensorMap(ty), at)
    })
}

impl Trace {
    /// Strides, each one i64.
    fn steps(&mut self, raws: &[Raw], at: At) -> Values {
        let mut one = |raw: Raw| match raw {
            Raw::Const(value @ Const::Int(_)) => self.constant(value, Type::scalar(Elem::I64), at),
            raw => match self.fit("map", &[(raw, Elem::I64)], at) {
                Some(fitted) => fitted[0],
                None => self.builder.poison(),
            },
        };
        raws.iter().map(|raw| one(*raw)).collect()
    }
}
