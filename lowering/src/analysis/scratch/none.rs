//! The ops without scratch: they have no field for it. An op that is missing here and has no answer of its own does not
//! compile.

use ir::ops;

use super::{Asked, NeedsScratch, ScratchNeed};

macro_rules! no_scratch {
    ($($family:ident: $($op:ident)*;)*) => {$($(
        impl NeedsScratch for ops::$family::$op {
            const HAS_SCRATCH: bool = false;

            fn need(&self, _: &Asked<'_>) -> ScratchNeed {
                ScratchNeed::default()
            }
        }
    )*)*};
}

no_scratch! {
    create: Constant Undefined Arange Splat ProgramId NumPrograms;
    arith: Unary Binary Compare Select Fma Rescale;
    rounded: Rounded;
    cast: Cast Bitcast;
    pointer: PtrAdd PeerPtr PeerTable;
    inline_ptx: InlinePtx;
    vote: AnyInWarp;
    map: Map;
    shape: ExpandDims Broadcast Reshape Permute Split Join;
    part: Part Cat;
    global: Load Store PrefetchLines;
    atomic: AtomicStore SmemAtomicScatter;
    shared: SmemAlloc SmemLoad SmemStore SmemIndex SmemSlice SmemPermute SmemReshape SmemReinterpret SmemGather SmemScatter SmemKeep;
    cp_async: AsyncCopy AsyncCommit AsyncWait AsyncArrive;
    mbarrier: MbarrierInit MbarrierInvalidate MbarrierExpect MbarrierArrive MbarrierWait MbarrierTryWait;
    tensor_map: MakeTensorMap;
    tma: TmaLoad TmaStore TmaStoreWait TmaPrefetch TensorMapPrefetch;
    bulk: BulkLoad BulkStore BulkPrefetch;
    wgmma: AccumulatorBegin WgmmaStart WgmmaWait FenceAsyncGlobal FenceAsyncShared;
    dot: MmaV2 DotFma;
    cluster: ClusterBarrier ClusterArrive ClusterWait ClusterRank ClusterId NumClusters ExchangeInit RemoteLoad RemoteStore LaunchWait LaunchDependents;
    remote: RemoteCopy RemoteStoreAsync;
    warps: WarpSpecialize;
    layout: SetLayout;
    debug: Hint Assume Assert Print Mark;
    sync: Barrier NamedSync NamedArrive;
    control: For While If Yield Condition Return;
}
