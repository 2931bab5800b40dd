//! Shapes: nothing here computes, and most of it costs nothing.

use smallvec::smallvec;

use super::create::one_declared;
use super::define::{answers, define_op};
use super::operand_types::{element, mismatch};
use super::{LayoutRule, OpRules, Types};
use crate::OpError;
use crate::entity::Value;
use crate::facts::{self, Facts, KnownFacts};
use crate::{Func, TensorType, Type};
use diag::Code;
use layout::{Dims, Layout, relate};

/// The tensor type of an operand, or a diagnostic that says that it is none.
pub(super) fn tensor<'f>(
    func: &'f Func,
    op: &str,
    value: Value,
) -> Result<&'f TensorType, OpError> {
    let ty = func.ty(value);
    ty.as_tensor().ok_or_else(|| {
        OpError::new(
            Code::RankMismatch,
            format!("`{op}` wants a tensor, this is the scalar {ty}"),
        )
        .typed(value, ty)
    })
}

/// The layout that the op gives its result, when the operand's own is known.
fn given<E: std::fmt::Display>(layout: Result<Layout, E>, code: Code) -> Result<Layout, OpError> {
    layout.map_err(|e| OpError::new(code, e.to_string()))
}

define_op! {
    /// A dimension of 1 is put in before dimension `axis`.
    pub struct ExpandDims = "expand_dims" {
        /// Where the new dimension stands.
        axis: u32,
        /// The operand.
        operand: Value,
    }
}

impl OpRules for ExpandDims {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        let t = tensor(func, "expand_dims", self.operand)?;
        let axis = self.axis as usize;
        if axis > t.rank() {
            return Err(OpError::new(
                Code::NoSuchAxis,
                format!("`expand_dims` at {axis} of a tensor of rank {}: the new dimension can stand at 0 to {}", t.rank(), t.rank()),
            )
            .typed(self.operand, func.ty(self.operand)));
        }
        let layout = relate::expand_dims(&t.layout, axis).map_err(|e| {
            OpError::new(Code::WrongSlice, e.to_string())
                .typed(self.operand, t)
                .help(format!(
                    "make it with `Slice::new({axis}, parent)` or `Auto`, or convert what was loaded by `.convert_layout(Auto)`; `reshape` puts a dimension of 1 into any layout"
                ))
        })?;
        let shape = t.shape.with_inserted(axis, 1);
        Ok(smallvec![Type::tensor(shape, t.elem, layout)])
    }
    fn layout_rule(&self) -> LayoutRule {
        LayoutRule::ExpandDims { axis: self.axis }
    }
    answers!(rematerializable, moves(operand));
    fn result_facts(&self, _: &Func, known: &KnownFacts, _: &Type) -> Facts {
        facts::expand_dims(&known[self.operand], self.axis as usize)
    }
}

define_op! {
    /// Repeats dimensions of 1 until the result's shape is reached. Layout and rank stay.
    pub struct Broadcast = "broadcast" {
        /// The operand.
        operand: Value,
    }
}

impl OpRules for Broadcast {
    fn result_types(&self, func: &Func, declared: &[Type]) -> Result<Types, OpError> {
        let t = tensor(func, "broadcast", self.operand)?;
        let to = one_declared(declared, "broadcast")?;
        let wanted = to.shape();
        if wanted.len() != t.rank() {
            return Err(mismatch(
                "broadcast",
                self.operand,
                func.ty(self.operand),
                self.operand,
                to,
            ));
        }
        let fits = t
            .shape
            .iter()
            .zip(wanted)
            .all(|(&from, &to)| from == to || from == 1);
        if !fits {
            return Err(OpError::new(
                Code::ShapeMismatch,
                format!(
                    "{t} cannot be broadcast to the shape {wanted:?}: only dimensions of 1 repeat"
                ),
            )
            .typed(self.operand, t));
        }
        Ok(smallvec![Type::tensor(
            Dims::from(wanted),
            t.elem,
            t.layout.clone()
        )])
    }
    answers!(rematerializable, moves(operand));
    fn result_facts(&self, func: &Func, known: &KnownFacts, ty: &Type) -> Facts {
        facts::broadcast(
            &known[self.operand],
            func.ty(self.operand).shape(),
            ty.shape(),
        )
    }
}

define_op! {
    /// The same elements in row-major order, counted in another shape. No element moves: the result's layout is the
    /// operand's, seen through the new shape, unless the declared one is another name for it.
    pub struct Reshape = "reshape" {
        /// The operand.
        operand: Value,
    }
}

impl OpRules for Reshape {
    fn result_types(&self, func: &Func, declared: &[Type]) -> Result<Types, OpError> {
        let t = tensor(func, "reshape", self.operand)?;
        let to = one_declared(declared, "reshape")?;
        let wanted = to.shape();
        let len = Dims::from(wanted).product();
        if wanted.is_empty() || len != t.len() as u64 {
            return Err(OpError::new(
                Code::ShapeChange,
                format!(
                    "a reshape keeps the number of elements: {} has {}, {wanted:?} has {len}",
                    t.shape,
                    t.len()
                ),
            )
            .typed(self.operand, t)
            .help(format!("give it dimensions whose product is {}", t.len())));
        }
        let layout = given(
            relate::reshape(&t.layout, &t.shape, wanted),
            Code::ShapeChange,
        )?;
        let layout = relate::prefer_declared(layout, to.layout(), wanted);
        Ok(smallvec![Type::tensor(Dims::from(wanted), t.elem, layout)])
    }
    fn layout_rule(&self) -> LayoutRule {
        LayoutRule::Reshape
    }
    answers!(moves(operand));
    fn result_facts(&self, func: &Func, known: &KnownFacts, ty: &Type) -> Facts {
        facts::reshape(
            &known[self.operand],
            func.ty(self.operand).shape(),
            ty.shape(),
        )
    }
}

define_op! {
    /// Reorders dimensions: dimension `i` of the result is dimension `order[i]` of the operand. No element moves.
    pub struct Permute = "permute" {
        /// The new order.
        order: Dims,
        /// The operand.
        operand: Value,
    }
}

impl OpRules for Permute {
    fn result_types(&self, func: &Func, declared: &[Type]) -> Result<Types, OpError> {
        let t = tensor(func, "permute", self.operand)?;
        let mut seen = vec![false; t.rank()];
        for &d in &self.order {
            match seen.get_mut(d as usize) {
                Some(s) if !*s => *s = true,
                _ => break,
            }
        }
        if self.order.len() != t.rank() || seen.contains(&false) {
            return Err(OpError::new(
                Code::ShapeChange,
                format!(
                    "{} is no permutation of the {} dimensions 0 to {}: each must occur once",
                    self.order,
                    t.rank(),
                    t.rank() - 1
                ),
            )
            .typed(self.operand, t)
            .help("entry `i` is the dimension of the operand that becomes dimension `i`"));
        }
        let shape: Dims = self.order.iter().map(|&d| t.shape[d as usize]).collect();
        let layout = given(
            relate::permute(&t.layout, &t.shape, &self.order),
            Code::ShapeChange,
        )?;
        let layout =
            relate::prefer_declared(layout, declared.first().and_then(Type::layout), &shape);
        Ok(smallvec![Type::tensor(shape, t.elem, layout)])
    }
    fn layout_rule(&self) -> LayoutRule {
        LayoutRule::Permute {
            order: self.order.clone(),
        }
    }
    answers!(moves(operand));
    fn result_facts(&self, _: &Func, known: &KnownFacts, _: &Type) -> Facts {
        facts::permute(&known[self.operand], &self.order)
    }
}

define_op! {
    /// Takes the last dimension, which is 2, apart into two tensors.
    pub struct Split = "split" {
        /// The operand.
        operand: Value,
    }
}

impl OpRules for Split {
    fn result_types(&self, func: &Func, declared: &[Type]) -> Result<Types, OpError> {
        let t = tensor(func, "split", self.operand)?;
        if t.rank() < 2 || t.shape.last() != Some(&2) {
            return Err(OpError::new(
                Code::ShapeChange,
                format!(
                    "`split` wants rank 2 or more and a last dimension of 2, this is {}",
                    t.shape
                ),
            )
            .typed(self.operand, t));
        }
        let shape = Dims::from(&t.shape[..t.rank() - 1]);
        let layout = given(relate::split(&t.layout, &t.shape), Code::ShapeChange)?;
        let layout =
            relate::prefer_declared(layout, declared.first().and_then(Type::layout), &shape);
        let half = Type::tensor(shape, t.elem, layout);
        Ok(smallvec![half.clone(), half])
    }
    fn layout_rule(&self) -> LayoutRule {
        LayoutRule::Split
    }
    fn result_facts(&self, _: &Func, known: &KnownFacts, _: &Type) -> Facts {
        facts::split(&known[self.operand])
    }
}

define_op! {
    /// Two tensors side by side along a new last dimension of 2.
    pub struct Join = "join" {
        /// Index 0 of the new dimension.
        lhs: Value,
        /// Index 1 of the new dimension.
        rhs: Value,
    }
}

impl OpRules for Join {
    fn result_types(&self, func: &Func, declared: &[Type]) -> Result<Types, OpError> {
        let t = tensor(func, "join", self.lhs)?;
        tensor(func, "join", self.rhs)?;
        let (a, b) = (func.ty(self.lhs), func.ty(self.rhs));
        element(a)?;
        if a != b {
            return Err(mismatch("join", self.lhs, a, self.rhs, b));
        }
        let mut shape = t.shape.clone();
        shape.push(2);
        let layout = given(relate::join(&t.layout, &t.shape), Code::ShapeChange)?;
        let layout =
            relate::prefer_declared(layout, declared.first().and_then(Type::layout), &shape);
        Ok(smallvec![Type::tensor(shape, t.elem, layout)])
    }
    fn layout_rule(&self) -> LayoutRule {
        LayoutRule::Join
    }
    fn result_facts(&self, _: &Func, known: &KnownFacts, _: &Type) -> Facts {
        facts::join(&known[self.lhs], &known[self.rhs])
    }
}
