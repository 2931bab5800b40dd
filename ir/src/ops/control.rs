//! Structured control flow. A region is one block; what flows round a loop or out of a branch is named.

use smallvec::smallvec;

use super::debug::scalar_bool;
use super::define::{answers, define_op};
use super::{LayoutRule, OpRules, Terminator, Types, Values};
use crate::OpError;
use crate::elem::{DType, Elem};
use crate::entity::{Region, Value};
use crate::{Effects, Func, Type};
use diag::Code;

define_op! {
    /// For each index from `low` below `high` by `step`: runs the body with the index and the carried values. The body
    /// yields the next carried values; the last ones are the results. A step is positive. A body that ends in a `condition`
    /// says besides whether the loop goes on: where it does not, it ends with these values, as after a `break`.
    pub struct For = "for" {
        /// First index.
        low: Value,
        /// One past the last index.
        high: Value,
        /// Between two indices.
        step: Value,
        /// The carried values before the first iteration.
        inits: Values,
        /// Takes the index and the carried values.
        body: Region,
    }
}

impl OpRules for For {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        let ty = func.ty(self.low);
        let is_index = matches!(
            ty,
            Type::Scalar(Elem::Data(
                DType::I32 | DType::I64 | DType::U32 | DType::U64
            ))
        );
        if !is_index || [self.high, self.step].iter().any(|v| func.ty(*v) != ty) {
            return Err(OpError::new(
                Code::ElementMismatch,
                format!(
                    "the bounds of a loop are scalars of one integer type of 32 or 64 bits, these are {ty}, {} and {}",
                    func.ty(self.high),
                    func.ty(self.step)
                ),
            ));
        }
        let carried = carried_types(func, &self.inits);
        let expected: Types = std::iter::once(ty.clone())
            .chain(carried.iter().cloned())
            .collect();
        check_params(func, "for", self.body, &expected)?;
        check_yield(func, "for", self.body, &carried)?;
        Ok(carried)
    }
    fn layout_rule(&self) -> LayoutRule {
        LayoutRule::Flow
    }
    fn may_stop(&self, _: usize) -> bool {
        true
    }
}

define_op! {
    /// Runs `before` with the carried values; it ends in a `condition` that says whether to continue, and with which values.
    /// While it says so, `after` takes these and yields the next carried values. The results are the last passed on. Where
    /// `after` ends in a `condition` that says not to continue, the loop ends with its values, without another test.
    pub struct While = "while" {
        /// The carried values before the first test.
        inits: Values,
        /// Tests.
        before: Region,
        /// The body.
        after: Region,
    }
}

impl OpRules for While {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        let carried = carried_types(func, &self.inits);
        check_params(func, "while", self.before, &carried)?;
        check_params(func, "while", self.after, &carried)?;
        check_yield(func, "while", self.before, &carried)?;
        check_yield(func, "while", self.after, &carried)?;
        Ok(carried)
    }
    fn layout_rule(&self) -> LayoutRule {
        LayoutRule::Flow
    }
    fn end_of_region(&self, at: usize) -> Terminator {
        if at == 0 {
            Terminator::Condition
        } else {
            Terminator::Yield
        }
    }
    fn may_stop(&self, at: usize) -> bool {
        at == 1
    }
}

define_op! {
    /// Runs one of two regions; its yielded values are the results.
    pub struct If = "if" {
        /// A scalar boolean.
        condition: Value,
        /// Where true.
        then: Region,
        /// Where false.
        otherwise: Region,
    }
}

impl OpRules for If {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        scalar_bool(func, "if", self.condition)?;
        let types = yielded_types(func, self.then);
        check_params(func, "if", self.then, &[])?;
        check_params(func, "if", self.otherwise, &[])?;
        check_yield(func, "if", self.otherwise, &types)?;
        Ok(types)
    }
    fn layout_rule(&self) -> LayoutRule {
        LayoutRule::Flow
    }
}

define_op! {
    /// Ends a region with the values it gives.
    pub struct Yield = "yield" {
        /// The values.
        values: Values,
    }
}

impl OpRules for Yield {
    fn result_types(&self, _: &Func, _: &[Type]) -> Result<Types, OpError> {
        Ok(smallvec![])
    }
    fn layout_rule(&self) -> LayoutRule {
        LayoutRule::Flow
    }
    fn terminator(&self) -> Option<Terminator> {
        Some(Terminator::Yield)
    }
    answers!(effects(TERMINATOR), one_thread);
}

define_op! {
    /// Ends the test of a `while`, or the body of a loop that may stop: continue or not, and the values passed on.
    pub struct Condition = "condition" {
        /// A scalar boolean.
        condition: Value,
        /// The values passed on.
        values: Values,
    }
}

impl OpRules for Condition {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        scalar_bool(func, "while", self.condition)?;
        Ok(smallvec![])
    }
    fn layout_rule(&self) -> LayoutRule {
        LayoutRule::Flow
    }
    fn terminator(&self) -> Option<Terminator> {
        Some(Terminator::Condition)
    }
    answers!(effects(TERMINATOR), one_thread);
}

define_op! {
    /// Ends the kernel.
    pub struct Return = "return" {
    }
}

impl OpRules for Return {
    fn result_types(&self, _: &Func, _: &[Type]) -> Result<Types, OpError> {
        Ok(smallvec![])
    }
    fn terminator(&self) -> Option<Terminator> {
        Some(Terminator::Return)
    }
    answers!(effects(TERMINATOR), free_layouts);
}

const TERMINATOR: Effects = Effects {
    is_ordered: true,
    ..Effects::PURE
};

fn carried_types(func: &Func, inits: &[Value]) -> Types {
    inits.iter().map(|v| func.ty(*v).clone()).collect()
}

/// The values that a region yields at its end; none if it has no terminator yet.
pub fn yielded(func: &Func, region: Region) -> &[Value] {
    func.terminator(region).map_or(&[], handed_on_by)
}

/// The values that the end of a region hands on.
pub fn handed_on_by(end: &super::Op) -> &[Value] {
    match end {
        super::Op::Yield(y) => &y.values,
        super::Op::Condition(c) => &c.values,
        _ => &[],
    }
}

fn yielded_types(func: &Func, region: Region) -> Types {
    yielded(func, region)
        .iter()
        .map(|v| func.ty(*v).clone())
        .collect()
}

fn check_params(func: &Func, op: &str, region: Region, expected: &[Type]) -> Result<(), OpError> {
    let params = func.region(region).params.iter().map(|v| func.ty(*v));
    if params.clone().eq(expected) {
        return Ok(());
    }
    let found: Vec<String> = params.map(ToString::to_string).collect();
    let wanted: Vec<String> = expected.iter().map(ToString::to_string).collect();
    Err(OpError::new(
        Code::BrokenRule,
        format!(
            "a region of `{op}` takes ({}), not ({})",
            wanted.join(", "),
            found.join(", ")
        ),
    ))
}

/// The region of a reduction or a scan makes one element of two, of each operand.
pub(super) fn check_combine(
    func: &Func,
    op: &str,
    combine: Region,
    operands: &[Value],
) -> Result<(), OpError> {
    let elems = operands.iter().filter_map(|v| func.ty(*v).elem());
    let elems: Types = elems.map(Type::Scalar).collect();
    let both: Types = elems.iter().chain(&elems).cloned().collect();
    check_params(func, op, combine, &both)?;
    check_yield(func, op, combine, &elems)
}

fn check_yield(func: &Func, op: &str, region: Region, expected: &[Type]) -> Result<(), OpError> {
    let given = yielded(func, region);
    if given.len() != expected.len() {
        return Err(OpError::new(
            Code::BrokenRule,
            format!(
                "a region of `{op}` yields {} values, not {}",
                given.len(),
                expected.len()
            ),
        ));
    }
    for (value, wanted) in given.iter().zip(expected) {
        let ty = func.ty(*value);
        if ty != wanted {
            let name = func
                .name(*value)
                .map_or_else(String::new, |n| format!(" `{n}`"));
            return Err(OpError::new(
                Code::LoopCarriedType,
                format!("the value{name} that `{op}` carries is {wanted} before and {ty} after"),
            )
            .origin(*value, format!("here it becomes {ty}")));
        }
    }
    Ok(())
}
