//! What kernels use of the library, to be imported at once.

pub use crate::epilogue::{EpilogueStore, EpilogueTurn, Turns};
pub use crate::pipeline::{
    Consumers, Filling, Full, Held, LoadAhead, Payload, Pipeline, PipelineState, Producers,
    StageMaps, steps_along,
};
pub use crate::schedule::{GroupedRows, Listed, TileScheduler, hilbert};
pub use crate::{NamedTurns, OnlineSoftmax};
