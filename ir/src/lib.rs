//! The tile IR.
//!
//! A [`Func`] is one kernel as it was traced, all device functions inlined. Instructions stand in [`RegionData`]: a region
//! is one block, and control flow is structured (`for`, `while`, `if`), so there are no phis and no dominator tree: a value
//! may be used after its definition in the same region and in the regions inside. A region ends in one terminator
//! (`yield`, `condition` or `return`).
//!
//! A scalar has one value for the whole CTA. A tensor's elements are spread over the CTA's threads by the layout in its
//! type. Side tables hold what does not change meaning: places ([`Locations`]) and name hints. Analyses are values passed
//! on and never kept here.
//!
//! See [`ops`] for the list of operations, [`verify`](mod@verify) for what holds at each stage, and [`text`] for the form that reads back.
#![forbid(unsafe_code)]

mod constant;
mod effects;
pub mod elem;
pub mod entity;
mod error;
pub mod facts;
mod func;
mod loc;
pub mod narrow;
pub mod nearest;
pub mod ops;
mod stage;
pub mod text;
mod types;
pub mod verify;

pub use effects::{Effects, Spaces};
pub use error::OpError;
pub use func::{Contracts, Func, Param, RegionData, ValueDef};
pub use loc::{FrameData, LocData, Locations};
pub use stage::Stage;
pub use types::{SmemType, TensorMapMode, TensorMapType, TensorType, Type};
