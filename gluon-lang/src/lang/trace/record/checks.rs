//! Facts for the compiler, checks and prints.

use super::super::entry::Printed;
use super::super::operand::Raw;
use super::super::{At, place, with};
use diag::Code;
use ir::OpError;
use ir::elem::Elem;
use ir::entity::Value;
use ir::ops::debug::{Assert, Assume, Hint, HintKind, Mark, MarkKind, Print};
use layout::Dims;

/// A fact about an index or pointer.
#[inline(never)]
pub(crate) fn hint(kind: HintKind, operand: Value, values: Dims, at: At) -> Value {
    with(at, |trace| {
        let ty = trace.ty(operand).clone();
        let op = Hint {
            kind,
            values,
            operand,
        };
        trace.push1(op, ty, at)
    })
}

/// A fact about anything.
#[inline(never)]
pub(crate) fn assume(condition: Value, at: At) {
    with(at, |trace| trace.push(Assume { condition }, &[], at));
}

/// A check when the kernel runs.
#[inline(never)]
pub(crate) fn device_assert(condition: Raw, message: &str, at: At) {
    with(at, |trace| {
        if let Some(condition) = trace.fit("device_assert", &[(condition, Elem::I1)], at) {
            let op = Assert {
                message: message.into(),
                condition: condition[0],
            };
            trace.push(op, &[], at);
        }
    });
}

/// A print when the kernel runs.
#[inline(never)]
pub(crate) fn device_print(prefix: &str, operands: &[Value], at: At) {
    with(at, |trace| {
        let op = Print {
            prefix: prefix.into(),
            operands: operands.iter().copied().collect(),
        };
        trace.push(op, &[], at);
    });
}

/// A moment or the beginning or end of a range in timelines.
#[inline(never)]
pub(crate) fn mark(kind: MarkKind, name: &str, payload: Option<Value>, at: At) {
    with(at, |trace| {
        let op = Mark {
            kind,
            name: name.into(),
            payload: payload.into(),
        };
        trace.push(op, &[], at);
    });
}

/// A check of this instance that failed.
#[inline(never)]
pub(crate) fn static_assert_failed(message: &str, at: At) {
    with(at, |trace| {
        let note = format!("in the instance `{}`", trace.display);
        trace.fail(OpError::new(Code::StaticAssert, message).note(note), at);
    });
}

/// A line about this instance.
#[inline(never)]
pub(crate) fn static_print(text: String, at: At) {
    with(at, |trace| {
        let at = place(at);
        trace.printed.push(Printed { at, text });
    });
}
