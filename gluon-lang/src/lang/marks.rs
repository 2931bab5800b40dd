//! The author's marks in timelines.

use super::ScalarOperand;
use super::trace::{self, At, here};
use ir::elem::Elem;
use ir::entity::Value;
use ir::ops::debug::MarkKind;

/// A moment in the timeline of `cargo tilekit trace`: when the first thread of the partition comes here. Any other build has no code for
/// it. A name has one meaning wherever it stands.
#[track_caller]
pub fn mark(name: &str) {
    trace::mark(MarkKind::Instant, name, None, here());
}

/// The same with a number, of which the lowest 18 bits are shown.
#[track_caller]
pub fn mark_with(name: &str, payload: impl ScalarOperand<i32>) {
    let at = here();
    trace::mark(MarkKind::Instant, name, Some(number(payload, at)), at);
}

/// A range in the timeline of `cargo tilekit trace`, from here to the end of the Rust scope of what this returns:
///
/// ```text
/// {
///     let _range = mark_range("convert");
///     ..
/// }
/// ```
///
/// Ranges nest. Any other build has no code for it.
#[track_caller]
#[must_use = "the range ends where this is dropped: give it a name, such as `let _range`"]
pub fn mark_range(name: &'static str) -> MarkRange {
    let at = here();
    trace::mark(MarkKind::Begin, name, None, at);
    MarkRange { name, at }
}

/// The same with a number, of which the lowest 18 bits are shown.
#[track_caller]
#[must_use = "the range ends where this is dropped: give it a name, such as `let _range`"]
pub fn mark_range_with(name: &'static str, payload: impl ScalarOperand<i32>) -> MarkRange {
    let at = here();
    trace::mark(MarkKind::Begin, name, Some(number(payload, at)), at);
    MarkRange { name, at }
}

fn number(payload: impl ScalarOperand<i32>, at: At) -> Value {
    trace::as_scalar(payload.into_raw(), Elem::I32, at)
}

/// A range that has begun.
pub struct MarkRange {
    name: &'static str,
    at: At,
}

impl Drop for MarkRange {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            trace::mark(MarkKind::End, self.name, None, self.at);
        }
    }
}
