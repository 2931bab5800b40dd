//! Matrices across the lanes of a warp.

mod descriptor;
pub(crate) mod element;
pub(crate) mod group;
pub(crate) mod multiply;
pub(crate) mod transfer;

use super::run::{Scene, Stepped};
use crate::fault::{FaultKind, LaneSet, Trouble};

/// Matrix instructions are for whole warps (`.sync.aligned`).
pub(crate) fn check_whole_warp(scene: &Scene<'_>) -> Stepped {
    let missing = !scene.mask;
    if missing == 0 {
        return Ok(());
    }
    let message = format!(
        "a matrix instruction needs the whole warp, and lanes {} do not execute it",
        LaneSet(missing)
    );
    Err(Trouble::new(FaultKind::IllegalOperand, missing, message))
}
