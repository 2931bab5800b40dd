//! The index of a counted loop.

use ir::Type;
use ir::facts::{Facts, KnownFacts, Range};
use ir::ops::control::For;

/// The facts about the index of a loop.
pub(super) fn facts(known: &KnownFacts, op: &For, ty: &Type) -> Facts {
    let (low, high, step) = (&known[op.low], &known[op.high], &known[op.step]);
    let divisibility = low.divisibility().min(step.divisibility());
    let range = match (low.range, high.range) {
        // The body runs only while the index is below `high`; where it never does, nothing is claimed of it.
        (Some(low), Some(high)) => Some(Range::new(low.low, (high.high - 1).max(low.low))),
        _ => None,
    };
    Facts::splat(&[], divisibility, range).within(ty)
}
