//! What is checked of instructions that need a line or less; the others stand with their family.

use super::context::Checker;
use super::legal::Need::{AtLeast, Exact};
use crate::inst::{
    ActiveMask, ApplyPriority, BarWarpSync, Bound, Bra, Brkpt, BulkCommitGroup, BulkPrefetch,
    BulkWaitGroup, CpAsyncCommitGroup, CpAsyncMbarrierArrive, CpAsyncWaitAll, CpAsyncWaitGroup,
    CreatePolicyCvt, Discard, Exit, Fence, FenceMbarrierInit, FenceProxyAlias, FenceProxyAsync,
    GridDepControl, Isspacep, MbarrierInval, MbarrierPendingCount, Membar, Movmatrix, Ret, Trap,
    Visit, Visitor, WgmmaCommitGroup, WgmmaFence, WgmmaWaitGroup,
};
use crate::types::Type;

impl Visitor for Checker<'_> {
    type Output = ();
}

/// `Name: |checker, inst| what is checked;`
macro_rules! checks {
    ($($name:ident: |$checker:ident, $inst:ident| $check:expr;)+) => { $(
        impl Visit<$name> for Checker<'_> {
            fn visit(&mut self, $inst: &$name) {
                let $checker = self;
                $check;
            }
        }
    )+ };
}

checks! {
    Isspacep: |c, i| c.isspacep(i.dst, &i.a, i.space);
    Discard: |c, i| c.line("discard", i.space, i.addr, &i.bytes);
    ApplyPriority: |c, i| c.line("applypriority", i.space, i.addr, &i.bytes);
    CreatePolicyCvt: |c, i| {
        c.result("dst", i.dst, Exact(Type::U64));
        c.value("a", &i.a, Exact(Type::U64));
    };
    Bound: |c, i| c.reg("index", i.index, AtLeast(Type::B32));
    Movmatrix: |c, i| {
        c.reg("dst", i.dst, Exact(Type::B32));
        c.reg("src", i.src, Exact(Type::B32));
    };
    BarWarpSync: |c, i| c.mask(&i.mask);
    ActiveMask: |c, i| c.result("dst", i.dst, Exact(Type::B32));
    MbarrierInval: |c, i| c.own_mbarrier("mbarrier.inval", i.addr, i.space);
    MbarrierPendingCount: |c, i| {
        c.result("dst", i.dst, Exact(Type::U32));
        c.value("state", &i.state, Exact(Type::U64));
    };
    CpAsyncMbarrierArrive: |c, i| c.own_mbarrier("cp.async.mbarrier.arrive", i.addr, i.space);
    CpAsyncWaitGroup: |c, i| c.pending(&i.pending);
    BulkWaitGroup: |c, i| c.pending(&i.pending);
    WgmmaWaitGroup: |c, i| c.wgmma_pending(&i.pending);
    BulkPrefetch: |c, i| {
        c.bulk_prefetch(i.src, &i.bytes);
        c.cache_policy(i.policy.as_ref());
    };
}

/// Instructions without operands; where a branch goes is checked at the end of its body.
macro_rules! no_operands {
    ($($name:ident),+) => { $(
        impl Visit<$name> for Checker<'_> {
            fn visit(&mut self, _: &$name) {}
        }
    )+ };
}

no_operands! {
    Bra, Ret, Exit, Trap, Brkpt, Fence, Membar, FenceProxyAsync, FenceProxyAlias, FenceMbarrierInit, GridDepControl,
    CpAsyncCommitGroup, CpAsyncWaitAll, BulkCommitGroup, WgmmaFence, WgmmaCommitGroup
}
