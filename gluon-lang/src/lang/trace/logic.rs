//! `&&` and `||`: lazy on the host; in the kernel lazy too where the right side does more than compute.

use super::{At, Trace, here, record, with};
use crate::lang::{Scalar, Tensor};
use ir::Type;
use ir::elem::Elem;
use ir::entity::{Region, Value};
use ir::ops::arith::BinaryOp;
use ir::ops::control::{If, Yield};
use ir::ops::create::Const;

use super::operand::Raw;

/// What may stand left of `&&` and `||`.
#[diagnostic::on_unimplemented(
    message = "`&&` and `||` want booleans: `bool`, `Scalar<bool>` or `Tensor<bool>`, not `{Self}`"
)]
pub trait Logic {
    /// Waits for the right side.
    type State;
    /// Starts `&&` or `||`.
    #[track_caller]
    fn begin(self, is_and: bool) -> Self::State;
}

/// What may stand right of `&&` and `||` when the left side is a host `bool`.
#[diagnostic::on_unimplemented(
    message = "`&&` and `||` want booleans: `bool`, `Scalar<bool>` or `Tensor<bool>`, not `{Self}`"
)]
pub trait LogicSide: Copy {
    /// This boolean, the left side having decided.
    #[track_caller]
    fn decided(value: bool) -> Self;
}

impl LogicSide for bool {
    fn decided(value: bool) -> Self {
        value
    }
}

impl LogicSide for Scalar<bool> {
    #[track_caller]
    fn decided(value: bool) -> Self {
        super::super::scalar(value)
    }
}

impl LogicSide for Tensor<bool> {
    #[track_caller]
    fn decided(value: bool) -> Self {
        Tensor::wrap(super::super::scalar(value).value())
    }
}

impl Logic for bool {
    type State = HostLogic;
    #[inline]
    fn begin(self, is_and: bool) -> HostLogic {
        HostLogic { left: self, is_and }
    }
}

impl Logic for &bool {
    type State = HostLogic;
    #[inline]
    fn begin(self, is_and: bool) -> HostLogic {
        (*self).begin(is_and)
    }
}

impl Logic for Scalar<bool> {
    type State = ScalarLogic;
    #[inline]
    #[track_caller]
    fn begin(self, is_and: bool) -> ScalarLogic {
        ScalarLogic {
            left: self.value(),
            is_and,
            at: here(),
        }
    }
}

impl Logic for Tensor<bool> {
    type State = TensorLogic;
    #[inline]
    #[track_caller]
    fn begin(self, is_and: bool) -> TensorLogic {
        TensorLogic {
            left: self,
            is_and,
            at: here(),
        }
    }
}

/// `&&` or `||` after a host boolean.
pub struct HostLogic {
    left: bool,
    is_and: bool,
}

impl HostLogic {
    /// Does the right side matter?
    #[inline]
    pub fn enter(&mut self) -> bool {
        self.left == self.is_and
    }

    /// The right side.
    #[inline]
    pub fn join<R: LogicSide>(self, right: R) -> R {
        right
    }

    /// The left side alone decides.
    #[inline]
    #[track_caller]
    pub fn skip<R: LogicSide>(self) -> R {
        R::decided(self.left)
    }
}

/// `&&` or `||` after a scalar of the kernel.
pub struct ScalarLogic {
    left: Value,
    is_and: bool,
    at: At,
}

/// What a scalar gives with each right side.
#[diagnostic::on_unimplemented(
    message = "`&&` and `||` want booleans: `bool`, `Scalar<bool>` or `Tensor<bool>`, not `{Self}`"
)]
pub trait AfterScalar: Copy {
    /// The result: a tensor if this is one.
    type Output;
    /// Combines the two; the right side was traced into a region of its own, which is open.
    fn combine(self, logic: &ScalarLogic) -> Self::Output;
}

impl AfterScalar for bool {
    type Output = Scalar<bool>;
    fn combine(self, logic: &ScalarLogic) -> Scalar<bool> {
        let right = Raw::Const(Const::Int(self.into()));
        Scalar::wrap(logic.combine_scalar(right))
    }
}

impl AfterScalar for Scalar<bool> {
    type Output = Scalar<bool>;
    fn combine(self, logic: &ScalarLogic) -> Scalar<bool> {
        Scalar::wrap(logic.combine_scalar(self.raw()))
    }
}

impl AfterScalar for Tensor<bool> {
    type Output = Tensor<bool>;
    fn combine(self, logic: &ScalarLogic) -> Tensor<bool> {
        with(logic.at, Trace::splice);
        let operands = (Raw::Value(logic.left), self.raw());
        Tensor::wrap(eager(logic.is_and, operands, logic.at))
    }
}

impl ScalarLogic {
    /// Opens a region for the right side.
    #[inline]
    pub fn enter(&mut self) -> bool {
        with(self.at, |trace| trace.builder.open(&[]));
        true
    }

    /// Combines the two sides.
    #[inline]
    pub fn join<R: AfterScalar>(self, right: R) -> R::Output {
        right.combine(&self)
    }

    /// The left side alone; never what happens in a kernel, where both sides are traced.
    #[inline]
    pub fn skip<O: From<Undecided>>(self) -> O {
        O::from(Undecided(self.left))
    }

    #[inline(never)]
    fn combine_scalar(&self, right: Raw) -> Value {
        let is_plain = with(self.at, |trace| trace.is_speculatable());
        if is_plain {
            with(self.at, Trace::splice);
            return eager(self.is_and, (Raw::Value(self.left), right), self.at);
        }
        with(self.at, |trace| self.branch(trace, right))
    }

    /// `if left { right } else { false }`, or `if left { true } else { right }`.
    fn branch(&self, trace: &mut Trace, right: Raw) -> Value {
        let boolean = Type::scalar(Elem::I1);
        let right = match right {
            Raw::Value(value) => value,
            Raw::Const(value) => trace.constant(value, boolean.clone(), self.at),
        };
        let right_region = self.finish(trace, right);
        trace.builder.open(&[]);
        let decided = trace.constant(Const::Int((!self.is_and).into()), boolean.clone(), self.at);
        let left_region = self.finish(trace, decided);
        let (then, otherwise) = if self.is_and {
            (right_region, left_region)
        } else {
            (left_region, right_region)
        };
        let op = If {
            condition: self.left,
            then,
            otherwise,
        };
        trace.push1(op, boolean, self.at)
    }

    fn finish(&self, trace: &mut Trace, value: Value) -> Region {
        let values = [value].into_iter().collect();
        trace.push(Yield { values }, &[], self.at);
        trace.builder.close()
    }
}

/// The value that an unreachable arm of the expansion would have.
pub struct Undecided(Value);

impl From<Undecided> for Scalar<bool> {
    fn from(value: Undecided) -> Self {
        Scalar::wrap(value.0)
    }
}

impl From<Undecided> for Tensor<bool> {
    fn from(value: Undecided) -> Self {
        Tensor::wrap(value.0)
    }
}

/// `&&` or `||` after a tensor: every element is computed on both sides.
pub struct TensorLogic {
    left: Tensor<bool>,
    is_and: bool,
    at: At,
}

impl TensorLogic {
    /// Both sides are computed.
    #[inline]
    pub fn enter(&mut self) -> bool {
        true
    }

    /// Combines the two sides.
    #[inline]
    pub fn join<R: super::super::Operand<bool>>(self, right: R) -> Tensor<bool> {
        Tensor::wrap(eager(
            self.is_and,
            (self.left.raw(), right.into_raw()),
            self.at,
        ))
    }

    /// The left side alone; never what happens.
    #[inline]
    pub fn skip(self) -> Tensor<bool> {
        self.left
    }
}

fn eager(is_and: bool, (left, right): (Raw, Raw), at: At) -> Value {
    let op = if is_and { BinaryOp::And } else { BinaryOp::Or };
    record::binary(op, left, right, Elem::I1, at)
}

impl Trace {
    /// May everything in the region being filled run although nobody requested it?
    fn is_speculatable(&self) -> bool {
        let func = self.builder.func();
        let insts = &func.region(self.builder.region()).insts;
        insts.iter().all(|inst| {
            let op = func.op(*inst);
            let effects = op.rules().effects();
            op.regions().is_empty() && effects.is_pure() && !effects.is_guarded
        })
    }

    /// Closes the region being filled and moves what is in it to the region around.
    fn splice(&mut self) {
        let region = self.builder.close();
        let outer = self.builder.region();
        let func = self.builder.func_mut();
        let insts = func.region(region).insts.clone();
        func.set_insts(region, Vec::new());
        for inst in insts {
            func.append(outer, inst);
        }
    }
}

/// What `?` may stand behind.
#[diagnostic::on_unimplemented(
    message = "`?` in a kernel wants an `Option` or a `Result` of the host, not `{Self}`"
)]
pub trait Question {
    /// Would `?` leave the function?
    fn leaves(&self) -> bool;
}

impl<T> Question for Option<T> {
    fn leaves(&self) -> bool {
        self.is_none()
    }
}

impl<T, E> Question for Result<T, E> {
    fn leaves(&self) -> bool {
        self.is_err()
    }
}
