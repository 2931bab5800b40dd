//! Instructions that decode to one step at once; the others stand with their family.

use super::decoder::{Decoded, Decoder};
use crate::program::Op;
use crate::program::copy::GroupOp;
use ptx::{
    AccessSem, ApplyPriority, Brkpt, BulkCommitGroup, BulkWaitGroup, ClusterBar, ClusterBarOp,
    CpAsyncCommitGroup, CpAsyncWaitAll, CpAsyncWaitGroup, CreatePolicyCvt, CreatePolicyFractional,
    CreatePolicyRange, Discard, Exit, Fence, FenceMbarrierInit, FenceProxyAlias, FenceProxyAsync,
    FenceSem, GridDepControl, GridDepOp, Membar, MembarLevel, Nanosleep, Prefetch, ProxySpace, Ret,
    Scope, Trap, Visit, Visitor, WgmmaCommitGroup, WgmmaFence, WgmmaWaitGroup,
};

impl Visitor for Decoder<'_> {
    type Output = Decoded;
}

/// `Name: |decoder, inst| what it becomes;`
macro_rules! decodes {
    ($($name:ident: |$decoder:ident, $inst:tt| $step:expr;)+) => { $(
        impl Visit<$name> for Decoder<'_> {
            fn visit(&mut self, $inst: &$name) -> Decoded {
                let $decoder = self;
                $step
            }
        }
    )+ };
}

decodes! {
    Ret: |d, _| d.ret();
    Exit: |d, _| d.exit();
    Trap: |d, _| d.trap();
    Brkpt: |d, _| d.trap();
    Nanosleep: |d, _| d.simple(Op::Sleep);
    FenceProxyAsync: |d, i| d.simple(Op::FenceAsync {
        shared: i.space != Some(ProxySpace::Global),
        global: matches!(i.space, None | Some(ProxySpace::Global)),
    });
    Fence: |d, i| d.simple(Op::Fence {
        scope: i.scope,
        acquires: i.sem != Some(FenceSem::Release),
        releases: i.sem != Some(FenceSem::Acquire),
    });
    Membar: |d, i| d.simple(Op::Fence {
        scope: match i.level {
            MembarLevel::Cta => Scope::Cta,
            MembarLevel::Gl => Scope::Gpu,
            MembarLevel::Sys => Scope::Sys,
        },
        acquires: true,
        releases: true,
    });
    FenceMbarrierInit: |d, _| d.simple(Op::FenceMbarrierInit);
    GridDepControl: |d, i| d.simple(match i.op {
        GridDepOp::Wait => Op::LaunchWait,
        GridDepOp::LaunchDependents => Op::LaunchDependents,
    });
    WgmmaFence: |d, _| d.simple(Op::GroupFence);
    WgmmaCommitGroup: |d, _| d.simple(Op::GroupCommit);
    WgmmaWaitGroup: |d, i| d.simple(Op::GroupWait(Decoder::open_groups(i.pending)?));
    CpAsyncCommitGroup: |d, _| d.thread_group(GroupOp::Commit);
    CpAsyncWaitGroup: |d, i| d.thread_group(GroupOp::Wait(Decoder::open_groups(i.pending)?));
    CpAsyncWaitAll: |d, _| d.thread_group(GroupOp::WaitAll);
    BulkCommitGroup: |d, _| d.bulk_group(GroupOp::Commit);
    BulkWaitGroup: |d, i| {
        let open = Decoder::open_groups(i.pending)?;
        d.bulk_group(if i.read { GroupOp::WaitRead(open) } else { GroupOp::Wait(open) })
    };
    ClusterBar: |d, i| d.simple(match i.op {
        ClusterBarOp::Arrive => Op::ClusterArrive { releases: i.sem != Some(AccessSem::Relaxed) },
        ClusterBarOp::Wait => Op::ClusterWait,
    });
    CreatePolicyFractional: |d, i| d.policy(i.dst);
    CreatePolicyRange: |d, i| d.policy(i.dst);
    CreatePolicyCvt: |d, i| d.policy(i.dst);
}

/// Instructions that only concern caches, or an order that the machine keeps anyway.
macro_rules! no_effect {
    ($($name:ident),+) => { $(
        impl Visit<$name> for Decoder<'_> {
            fn visit(&mut self, _: &$name) -> Decoded {
                self.nothing()
            }
        }
    )+ };
}

no_effect! {
    FenceProxyAlias, Prefetch, Discard, ApplyPriority
}
