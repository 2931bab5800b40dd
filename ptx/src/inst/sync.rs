//! Barriers, fences and mbarriers (PTX ISA 9.7.13).

use super::family::family;
use crate::operand::{Addr, Dest, Operand, Predicate};
use crate::spelling::spelled;
use crate::types::{AccessSem, FenceSem, MembarLevel, ProxySpace, Scope, Type};

spelled! {
    /// Forms of the CTA barrier. The `barrier` forms may be executed by warps that have diverged.
    BarOp {
        Sync = "bar.sync" | "bar.cta.sync" | "barrier.sync.aligned" | "barrier.cta.sync.aligned",
        Arrive = "bar.arrive" | "bar.cta.arrive" | "barrier.arrive.aligned" | "barrier.cta.arrive.aligned",
        SyncDivergent = "barrier.sync" | "barrier.cta.sync",
        ArriveDivergent = "barrier.arrive" | "barrier.cta.arrive",
    }

    /// Reductions over a CTA barrier: number of true predicates, all, any.
    BarRedOp {
        Popc = "bar.red.popc.u32" | "bar.cta.red.popc.u32" | "barrier.red.popc.aligned.u32" | "barrier.cta.red.popc.aligned.u32",
        And = "bar.red.and.pred" | "bar.cta.red.and.pred" | "barrier.red.and.aligned.pred" | "barrier.cta.red.and.aligned.pred",
        Or = "bar.red.or.pred" | "bar.cta.red.or.pred" | "barrier.red.or.aligned.pred" | "barrier.cta.red.or.aligned.pred",
    }

    /// Where an mbarrier lies; absent means a generic address of the own CTA.
    MbarSpace { Cta = "shared::cta" | "shared", Cluster = "shared::cluster" }

    /// What an arrival does.
    ArriveOp {
        Arrive = "mbarrier.arrive", ExpectTx = "mbarrier.arrive.expect_tx", NoComplete = "mbarrier.arrive.noComplete",
        Drop = "mbarrier.arrive_drop", DropExpectTx = "mbarrier.arrive_drop.expect_tx",
        DropNoComplete = "mbarrier.arrive_drop.noComplete",
    }

    /// Changes of the pending transaction count without an arrival.
    TxOp { Expect = "mbarrier.expect_tx", Complete = "mbarrier.complete_tx" }

    /// Tests of an mbarrier phase: at once, or after a while. `parity` takes the phase's parity instead of the
    /// state that an arrival returned.
    WaitOp {
        Test = "mbarrier.test_wait", TestParity = "mbarrier.test_wait.parity",
        Try = "mbarrier.try_wait", TryParity = "mbarrier.try_wait.parity",
    }

    /// The two halves of a cluster barrier.
    ClusterBarOp { Arrive = "barrier.cluster.arrive", Wait = "barrier.cluster.wait" }
}

impl WaitOp {
    /// The last operand is a parity.
    pub const fn is_parity(self) -> bool {
        matches!(self, Self::TestParity | Self::TryParity)
    }
}

impl ArriveOp {
    /// The operand is a number of bytes.
    pub const fn is_expect_tx(self) -> bool {
        matches!(self, Self::ExpectTx | Self::DropExpectTx)
    }
}

family! {
    /// A CTA barrier (PTX ISA 9.7.13.1): barrier number, and number of threads when not all take part.
    Bar: [op: BarOp] (in barrier: Operand, in threads ? Operand);

    /// A CTA barrier that reduces a predicate (PTX ISA 9.7.13.1).
    BarRed: [op: BarRedOp] (out dst: Dest, in barrier: Operand, in threads ? Operand, in src: Predicate);

    /// Synchronises the lanes of a mask (PTX ISA 9.7.13.2).
    BarWarpSync: [; "bar.warp.sync"] (in mask: Operand);

    /// A cluster barrier (PTX ISA 9.7.13.3); arrive releases unless `.relaxed`, wait acquires.
    ClusterBar: [op: ClusterBarOp, sem ? AccessSem, aligned = "aligned"] ();

    /// A memory fence (PTX ISA 9.7.13.4).
    Fence: ["fence" sem ? FenceSem, scope: Scope] ();

    /// The old form of a fence (PTX ISA 9.7.13.4).
    Membar: ["membar" level: MembarLevel] ();

    /// Orders the generic and the asynchronous proxy (PTX ISA 9.7.13.4).
    FenceProxyAsync: ["fence.proxy.async" space ? ProxySpace] ();

    /// Orders accesses through different virtual addresses of one place (PTX ISA 9.7.13.4).
    FenceProxyAlias: [; "fence.proxy.alias"] ();

    /// Publishes initialised mbarriers to the cluster (PTX ISA 9.7.13.4).
    FenceMbarrierInit: [; "fence.mbarrier_init.release.cluster"] ();

    /// Orders changes of a tensor map and its use (PTX ISA 9.7.13.4). The acquiring form names the map.
    FenceProxyTensormap: ["fence.proxy.tensormap::generic" sem: FenceSem, scope: Scope]
        (in addr ? Addr, in bytes ? Operand);

    /// Sets the number of arrivals that complete a phase (PTX ISA 9.7.13.15.9).
    MbarrierInit: ["mbarrier.init" space ? MbarSpace; "b64"] (in addr: Addr, in count: Operand);

    /// Ends an mbarrier so that its memory can be reused (PTX ISA 9.7.13.15.10).
    MbarrierInval: ["mbarrier.inval" space ? MbarSpace; "b64"] (in addr: Addr);

    /// Changes the pending byte count (PTX ISA 9.7.13.15.11 and .12).
    MbarrierTx: [op: TxOp, sem ? AccessSem, scope ? Scope, space ? MbarSpace; "b64"] (in addr: Addr, in bytes: Operand);

    /// Arrives (PTX ISA 9.7.13.15.13 and .14). `count` is a number of arrivals, or of bytes with `.expect_tx`.
    MbarrierArrive: [op: ArriveOp, sem ? AccessSem, scope ? Scope, space ? MbarSpace; "b64"]
        (out state: Dest, in addr: Addr, in count ? Operand);

    /// Asks whether a phase is complete (PTX ISA 9.7.13.15.16). `hint` is the longest suspension in nanoseconds.
    MbarrierWait: [op: WaitOp, sem ? AccessSem, scope ? Scope, space ? MbarSpace; "b64"]
        (out done: Dest, in addr: Addr, in phase: Operand, in hint ? Operand);

    /// The pending count inside a state (PTX ISA 9.7.13.15.17).
    MbarrierPendingCount: [; "mbarrier.pending_count.b64"] (out dst: Dest, in state: Operand);

    /// Arrives when the thread's earlier `cp.async` are done (PTX ISA 9.7.13.15.15).
    CpAsyncMbarrierArrive: ["cp.async.mbarrier.arrive" noinc = "noinc", space ? MbarSpace; "b64"] (in addr: Addr);

    /// Waits for the earlier kernel of a dependent launch, or lets the next one start (PTX ISA 9.7.13.13).
    GridDepControl: [op: GridDepOp] ();

    /// Sleeps for about this many nanoseconds (PTX ISA 9.7.19.4).
    Nanosleep: ["nanosleep" ty: Type] (in nanoseconds: Operand);
}

spelled! {
    /// What `griddepcontrol` does.
    GridDepOp { LaunchDependents = "griddepcontrol.launch_dependents", Wait = "griddepcontrol.wait" }
}
