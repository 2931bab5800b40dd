//! Launches kernels that TileKit built ahead of time, in programs that know nothing of TileKit's compiler.
//!
//! `cargo tilekit export --to rust` writes a package whose functions call this crate. Each kernel is a [`Program`]: a manifest
//! (what the kernel takes and how it is launched) and a cubin, both inside of the program's file. What the process needs is
//! the NVIDIA driver, which is opened at the first launch: a program that never launches runs on a machine without one.
//!
//! - [`Manifest`]: the table of one kernel, read from JSON.
//! - [`Program`]: its code, loaded once for each context.
//! - [`Prepared`]: a launch that was checked, to be repeated with tensors of the same shapes elsewhere.
//! - [`Queue`]: a stream of somebody else's in a [`Context`] of somebody else's; neither is destroyed.
//! - [`DevRef`], [`DevMut`], [`View`], [`ViewMut`]: memory of the device, borrowed, and tensors in it.
//! - [`nvtx`]: names that profilers show beside launches.
//! - [`Error`]: one line with kernel, argument, what was found, what is expected and the help.

mod argument;
mod block;
mod check;
mod context;
pub mod driver;
mod element;
mod error;
mod expression;
mod json;
mod limits;
mod manifest;
pub mod nvtx;
mod prepared;
mod process;
mod program;
mod size;
mod table;
mod tensor_map;
mod view;

pub use argument::{Argument, Tensor};
pub use context::{Context, Queue, device_of};
pub use element::{Bf16, DataType, E2m1, E4m3, E4m3b15, E5m2, E8m0, Element, F16};
pub use error::{Error, Kind};
pub use expression::{Comparison, Condition, Expression, Operator};
pub use limits::{Limits, MapLimits};
pub use manifest::{FORMAT, Manifest, Map, Parameter, Part, Pixels, Role};
pub use prepared::Prepared;
pub use program::{Aligned, Program};
pub use table::{Packed, Table};
pub use view::{DevMut, DevRef, View, ViewMut};
