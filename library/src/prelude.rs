//! What kernels use of the library, to be imported at once.

pub use crate::epilogue::{
    ClusterSum, EpilogueStore, EpilogueTurn, Turns, columns_of, load_along, rows_of,
};
pub use crate::pipeline::{
    Consumers, Filling, Full, Held, LoadAhead, Payload, Pipeline, PipelineState, Producers,
    StageMaps, steps_along,
};
pub use crate::schedule::{
    DynamicTile, DynamicTiles, GroupedRows, Listed, OrderedTile, OrderedTiles, RaggedTile,
    RaggedTiles, Resident, StreamK, StreamKWork, TileScheduler, hilbert,
};
pub use crate::{
    GridArrival, GridBarrier, HostFlag, LookBack, NamedTurns, OnlineSoftmax, RowStatistics,
    Signals, SignalsWithin, SumBefore, Tf32Parts, WaitLimit, merge_top_k, wgmma_tf32x3,
};
