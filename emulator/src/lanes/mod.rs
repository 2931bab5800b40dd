//! The 32 lanes of a warp: registers as arrays over them, and the types that instructions read them as.

mod lane;
mod linear;
mod registers;
mod wraps;

pub(crate) use lane::{Bf16, F16, Lane};
pub(crate) use linear::{Arithmetic, Linear};
pub(crate) use registers::{
    Exec, LANES, Lanes32, Lanes64, PerLane, Registers, Slots, lanes, lanes_of, spread,
};
pub(crate) use wraps::{IntSlot, Origin};
