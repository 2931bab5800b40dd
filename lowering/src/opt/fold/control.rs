//! Branches and loops of which it is known how often they run.

use ir::Func;
use ir::ops::{Op, Values, flow};

use super::outcome::Outcome;
use crate::analysis::axis::Axes;

/// A decided branch is what it runs; a loop without an iteration is what comes in, one with a single iteration its body.
pub(super) fn decided(func: &Func, axes: &Axes, op: &Op) -> Option<Outcome> {
    if let Some(op) = flow::branch(op) {
        let region = if func.constant_int(op.condition)? != 0 {
            op.then
        } else {
            op.otherwise
        };
        Some(Outcome::Inline {
            region,
            params: Values::new(),
        })
    } else if let Some(op) = flow::counted(op) {
        let (low, high) = (axes.range(op.low)?, axes.range(op.high)?);
        if low.low >= high.high {
            return Some(Outcome::Values(op.inits.clone()));
        }
        let step = axes.range(op.step)?;
        let runs_once = low.high < high.low && step.low > 0 && low.low + step.low >= high.high;
        if !runs_once {
            return None;
        }
        let params = std::iter::once(op.low)
            .chain(op.inits.iter().copied())
            .collect();
        Some(Outcome::Inline {
            region: op.body,
            params,
        })
    } else {
        None
    }
}
