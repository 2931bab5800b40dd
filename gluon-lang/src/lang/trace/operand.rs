//! Operands on their way into an operation: values, and host numbers that take their shape from the others.

use smallvec::SmallVec;

use super::{At, Trace};
use diag::{Code, as_written};
use ir::OpError;
use ir::elem::{DType, Elem};
use ir::entity::Value;
use ir::ops::cast::{Cast, Rounding};
use ir::ops::create::{Const, Constant, Splat};
use ir::ops::layout::SetLayout;
use ir::ops::shape::Broadcast;
use ir::{TensorType, Type};
use layout::{Dims, Layout};

/// An operand before it is fitted to the others.
#[derive(Clone, Copy, Debug)]
pub enum Raw {
    /// A value of the kernel.
    Value(Value),
    /// A host number.
    Const(Const),
}

/// An operand and the element type that it must have.
pub(crate) type Operand = (Raw, Elem);

/// Operands made equal in shape and layout.
pub(crate) type Fitted = SmallVec<[Value; 4]>;

impl Trace {
    /// Makes all operands equal in shape and layout: scalars and host numbers are spread, dimensions of 1 are repeated,
    /// an `Auto` side takes the layout of the others. `None` after a mistake, which is reported, or poison.
    pub(super) fn fit(&mut self, op: &str, operands: &[Operand], at: At) -> Option<Fitted> {
        let is_poisoned = |raw: &Raw| matches!(raw, Raw::Value(v) if self.is_poison(*v));
        if operands.iter().any(|(raw, _)| is_poisoned(raw)) {
            return None;
        }
        match self.common_form(op, operands) {
            Ok(form) => operands
                .iter()
                .map(|(raw, elem)| self.fit_one(*raw, *elem, form.as_ref(), at))
                .collect(),
            Err(error) => {
                self.fail(error, at);
                None
            }
        }
    }

    /// The shape and layout that all operands can have; `None` when all are scalars.
    fn common_form(
        &self,
        op: &str,
        operands: &[Operand],
    ) -> Result<Option<(Dims, Layout)>, OpError> {
        let mut form: Option<(Dims, Layout)> = None;
        let mut first = None;
        for (raw, _) in operands {
            let Raw::Value(value) = *raw else { continue };
            let Type::Tensor(t) = self.ty(value) else {
                continue;
            };
            match &mut form {
                None => form = Some((t.shape.clone(), t.layout.clone())),
                Some((shape, layout)) => {
                    let differs = |code, what: &str| self.differ(code, op, what, first, value, t);
                    if shape.len() != t.rank() {
                        return Err(differs(Code::RankMismatch, "rank")
                            .help("`expand_dims` adds the missing dimension, and says where"));
                    }
                    join_shapes(shape, &t.shape).ok_or_else(|| {
                        differs(Code::ShapeMismatch, "shape")
                            .help("make both from one size; only a dimension of 1 is broadcast")
                    })?;
                    join_layouts(layout, &t.layout).ok_or_else(|| {
                        differs(Code::LayoutMismatch, "layout")
                            .help("`convert_layout` moves one of them to the layout of the other")
                    })?;
                }
            }
            // The layout of the whole comes from the first operand that has one.
            let has_layout = t.layout != Layout::Auto;
            if first.is_none_or(|f| has_layout && self.ty(f).layout() == Some(&Layout::Auto)) {
                first = Some(value);
            }
        }
        Ok(form)
    }

    fn differ(
        &self,
        code: Code,
        op: &str,
        what: &str,
        first: Option<Value>,
        other: Value,
        t: &TensorType,
    ) -> OpError {
        let first = first.unwrap_or(other);
        let a = self.ty(first);
        OpError::new(
            code,
            format!(
                "the operands of `{}` differ in {what}: {a} and {t}",
                as_written(op)
            ),
        )
        .typed(first, a)
        .typed(other, t)
    }

    fn fit_one(
        &mut self,
        raw: Raw,
        elem: Elem,
        form: Option<&(Dims, Layout)>,
        at: At,
    ) -> Option<Value> {
        let ty = |elem| match form {
            None => Type::scalar(elem),
            Some((shape, layout)) => Type::tensor(shape.clone(), elem, layout.clone()),
        };
        let value = match raw {
            Raw::Const(value) => self.constant(value, ty(elem), at),
            Raw::Value(value) => {
                let value = self.widened(value, elem, at);
                match form {
                    Some((shape, layout)) => self.spread(value, shape, layout, at),
                    None => value,
                }
            }
        };
        (!self.is_poison(value)).then_some(value)
    }

    /// An index of another width than its neighbours; the handles let none but widening through.
    pub(super) fn widened(&mut self, value: Value, elem: Elem, at: At) -> Value {
        let ty = self.ty(value).clone();
        if ty.is_poison() || ty.elem() == Some(elem) {
            return value;
        }
        let cast = Cast {
            rounding: Rounding::Default,
            operand: value,
        };
        self.push1(cast, ty.with_elem(elem), at)
    }

    /// A value given a shape and layout that it can have.
    pub(super) fn spread(
        &mut self,
        mut value: Value,
        shape: &Dims,
        layout: &Layout,
        at: At,
    ) -> Value {
        let Some(elem) = self.ty(value).elem() else {
            return value;
        };
        let Type::Tensor(t) = self.ty(value).clone() else {
            let ty = Type::tensor(shape.clone(), elem, layout.clone());
            return self.push1(Splat { value }, ty, at);
        };
        if t.layout == Layout::Auto && *layout != Layout::Auto {
            let ty = Type::tensor(t.shape.clone(), elem, layout.clone());
            value = self.push1(SetLayout { operand: value }, ty, at);
        }
        if t.shape != *shape {
            let ty = Type::tensor(shape.clone(), elem, layout.clone());
            value = self.push1(Broadcast { operand: value }, ty, at);
        }
        value
    }

    /// A host number as a value of type `ty`, if it fits there.
    pub(super) fn constant(&mut self, value: Const, ty: Type, at: At) -> Value {
        let Some(Elem::Data(dtype)) = ty.elem() else {
            return self.builder.poison();
        };
        match fit_constant(value, dtype) {
            Ok(value) => self.push1(Constant { value }, ty, at),
            Err(message) => {
                let error = OpError::new(Code::ConstantRange, message);
                self.fail(
                    error.help(
                        "change the value, or `cast` the other side to an element that holds it",
                    ),
                    at,
                )
            }
        }
    }
}

fn join_shapes(shape: &mut Dims, other: &Dims) -> Option<()> {
    for (d, &o) in shape.iter_mut().zip(other) {
        match (*d, o) {
            (a, b) if a == b => {}
            (1, b) => *d = b,
            (_, 1) => {}
            _ => return None,
        }
    }
    Some(())
}

fn join_layouts(layout: &mut Layout, other: &Layout) -> Option<()> {
    match (&*layout, other) {
        (a, b) if a == b => {}
        (_, Layout::Auto) => {}
        (Layout::Auto, b) => *layout = b.clone(),
        _ => return None,
    }
    Some(())
}

/// A host number as an element of type `dtype`: integers must be held exactly, finite floats must stay finite.
fn fit_constant(value: Const, dtype: DType) -> Result<Const, String> {
    match value {
        Const::Int(i) if dtype.is_float() => {
            let float = i as f64;
            let is_exact =
                float as i128 == i && round_to(float, dtype).to_bits() == float.to_bits();
            if is_exact {
                Ok(Const::float(float))
            } else {
                Err(format!(
                    "the integer {i} is not exact as an {dtype}; write it as a float, which is rounded"
                ))
            }
        }
        Const::Int(i) if !value.fits(dtype) => Err(format!(
            "the host value {i} does not fit {dtype}{}",
            bounds(dtype)
        )),
        Const::Int(_) => Ok(value),
        Const::Float(bits) => {
            let float = f64::from_bits(bits);
            if !dtype.is_float() {
                Err(format!(
                    "the host value {float:?} is a float, and {dtype} is none"
                ))
            } else if float.is_finite() && round_to(float, dtype).is_infinite() {
                Err(format!(
                    "the host value {float:?} is beyond the largest {dtype}"
                ))
            } else {
                Ok(value)
            }
        }
    }
}

fn bounds(dtype: DType) -> String {
    if !dtype.is_int() {
        return String::new();
    }
    let bits = dtype.bits();
    if dtype.is_signed_int() {
        let end = 1i128 << (bits - 1);
        format!(" ({} to {})", -end, end - 1)
    } else {
        format!(" (0 to {})", (1i128 << bits) - 1)
    }
}

/// The nearest number of a float type; a float of a byte or less that saturates counts as infinite here.
fn round_to(value: f64, dtype: DType) -> f64 {
    use ir::nearest::{nearest_bf16, nearest_f16};
    match dtype {
        DType::F16 => nearest_f16(value).to_f64(),
        DType::Bf16 => nearest_bf16(value).to_f64(),
        DType::F32 => f64::from(value as f32),
        _ => match dtype.narrow_float() {
            Some(format) if value.abs() > format.decode(format.largest) => f64::INFINITY,
            Some(format) => format.decode(format.encode(value)),
            None => value,
        },
    }
}
