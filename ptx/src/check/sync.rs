//! Barriers, fences, mbarriers and warp exchange.

use super::context::Checker;
use super::legal::Need::Exact;
use crate::inst::{
    ArriveOp, Bar, BarOp, BarRed, BarRedOp, ClusterBar, ClusterBarOp, Elect, FenceProxyTensormap,
    Match, MatchOp, MbarSpace, MbarrierArrive, MbarrierInit, MbarrierTx, MbarrierWait, Nanosleep,
    Redux, ReduxOp, SetMaxNReg, Shfl, Vote, VoteOp, WaitOp,
};
use crate::operand::{Addr, Dest, Operand};
use crate::types::{AccessSem, FenceSem, Scope, Space, Type};

const LARGEST_MBARRIER_COUNT: i64 = (1 << 20) - 1;

impl Checker<'_> {
    pub(super) fn bar(&mut self, inst: &Bar) {
        self.barrier(&inst.barrier, inst.threads.as_ref());
        let is_arrive = matches!(inst.op, BarOp::Arrive | BarOp::ArriveDivergent);
        let is_counted = inst
            .threads
            .is_some_and(|threads| threads != Operand::Int(0));
        self.require(!is_arrive || is_counted, || {
            format!("`{}` needs the number of threads", inst.op.text())
        });
    }

    fn barrier(&mut self, barrier: &Operand, threads: Option<&Operand>) {
        self.ranged("barrier", barrier, "a barrier from 0 to 15", |value| {
            (0..16).contains(&value)
        });
        if let Some(threads) = threads {
            let is_legal = |value: i64| value % 32 == 0 && (0..=1024).contains(&value);
            self.ranged("threads", threads, "a multiple of 32 up to 1024", is_legal);
        }
    }

    pub(super) fn bar_red(&mut self, inst: &BarRed) {
        self.barrier(&inst.barrier, inst.threads.as_ref());
        let ty = if inst.op == BarRedOp::Popc {
            Type::U32
        } else {
            Type::Pred
        };
        self.result("dst", inst.dst, Exact(ty));
        self.predicate("src", inst.src);
    }

    pub(super) fn cluster_bar(&mut self, inst: &ClusterBar) {
        let is_legal = match (inst.op, inst.sem) {
            (_, None) => true,
            (ClusterBarOp::Arrive, Some(sem)) => {
                matches!(sem, AccessSem::Release | AccessSem::Relaxed)
            }
            (ClusterBarOp::Wait, Some(sem)) => sem == AccessSem::Acquire,
        };
        self.require(is_legal, || {
            "arrive is .release or .relaxed, wait is .acquire".to_owned()
        });
    }

    pub(super) fn fence_tensormap(&mut self, inst: &FenceProxyTensormap) {
        let acquires = inst.sem == FenceSem::Acquire;
        self.require(
            matches!(inst.sem, FenceSem::Acquire | FenceSem::Release),
            || "a tensormap fence is .acquire or .release".to_owned(),
        );
        self.require(inst.addr.is_some() == acquires && inst.bytes.is_some() == acquires, || {
            "the acquiring tensormap fence names the map and its 128 bytes, the releasing one nothing".to_owned()
        });
        if let (Some(addr), Some(bytes)) = (inst.addr, &inst.bytes) {
            self.addr("addr", addr, None, 128, 1);
            self.immediate("bytes", bytes, "128", |value| value == 128);
        }
    }

    /// The address of an mbarrier.
    pub(super) fn mbarrier(&mut self, addr: Addr, space: Option<MbarSpace>) {
        let space = space.map(|space| match space {
            MbarSpace::Cta => Space::Shared,
            MbarSpace::Cluster => Space::SharedCluster,
        });
        self.addr("addr", addr, space, 8, 8);
    }

    /// An mbarrier that must be in the own CTA.
    pub(super) fn own_mbarrier(&mut self, op: &str, addr: Addr, space: Option<MbarSpace>) {
        self.require(space != Some(MbarSpace::Cluster), || {
            format!("`{op}` works on mbarriers of the own CTA only")
        });
        self.mbarrier(addr, space);
    }

    pub(super) fn mbarrier_init(&mut self, inst: &MbarrierInit) {
        self.own_mbarrier("mbarrier.init", inst.addr, inst.space);
        let is_legal = |value: i64| (1..=LARGEST_MBARRIER_COUNT).contains(&value);
        self.ranged("count", &inst.count, "1 to 1048575 arrivals", is_legal);
    }

    pub(super) fn mbarrier_tx(&mut self, inst: &MbarrierTx) {
        self.mbarrier(inst.addr, inst.space);
        self.mbarrier_order(inst.op.text(), inst.sem, inst.scope, &[AccessSem::Relaxed]);
        self.transaction("bytes", &inst.bytes);
    }

    fn transaction(&mut self, operand: &'static str, bytes: &Operand) {
        let is_legal = |value: i64| (0..=LARGEST_MBARRIER_COUNT).contains(&value);
        self.ranged(operand, bytes, "0 to 1048575 bytes", is_legal);
    }

    fn mbarrier_order(
        &mut self,
        op: &str,
        sem: Option<AccessSem>,
        scope: Option<Scope>,
        allowed: &[AccessSem],
    ) {
        let list = || {
            allowed
                .iter()
                .map(|sem| format!(".{}", sem.text()))
                .collect::<Vec<_>>()
                .join(" or ")
        };
        self.require(sem.is_none_or(|sem| allowed.contains(&sem)), || {
            format!("`{op}` is {}", list())
        });
        self.require(
            matches!(scope, None | Some(Scope::Cta | Scope::Cluster)),
            || format!("`{op}` has the scopes .cta and .cluster"),
        );
        self.require(sem.is_some() == scope.is_some(), || {
            format!("`{op}` takes memory order and scope together")
        });
    }

    pub(super) fn mbarrier_arrive(&mut self, inst: &MbarrierArrive) {
        let op = inst.op.text();
        self.mbarrier(inst.addr, inst.space);
        self.mbarrier_order(
            op,
            inst.sem,
            inst.scope,
            &[AccessSem::Release, AccessSem::Relaxed],
        );
        let is_remote = inst.space == Some(MbarSpace::Cluster);
        match inst.state {
            Dest::Reg(_) => self.require(!is_remote, || {
                format!("`{op}` in .shared::cluster returns no state; write `_`")
            }),
            Dest::Sink => {}
        }
        self.dest("state", inst.state, Exact(Type::U64));
        let no_complete = matches!(inst.op, ArriveOp::NoComplete | ArriveOp::DropNoComplete);
        self.require(!(no_complete && is_remote), || {
            format!("`{op}` works on mbarriers of the own CTA only")
        });
        self.require(
            inst.count.is_some() || !(no_complete || inst.op.is_expect_tx()),
            || format!("`{op}` needs a count as its last operand"),
        );
        if let Some(count) = &inst.count {
            if inst.op.is_expect_tx() {
                self.transaction("count", count);
            } else {
                let is_legal = |value: i64| (1..=LARGEST_MBARRIER_COUNT).contains(&value);
                self.ranged("count", count, "1 to 1048575 arrivals", is_legal);
            }
        }
    }

    pub(super) fn mbarrier_wait(&mut self, inst: &MbarrierWait) {
        let op = inst.op.text();
        self.own_mbarrier(op, inst.addr, inst.space);
        self.mbarrier_order(
            op,
            inst.sem,
            inst.scope,
            &[AccessSem::Acquire, AccessSem::Relaxed],
        );
        self.result("done", inst.done, Exact(Type::Pred));
        if inst.op.is_parity() {
            self.ranged("phase", &inst.phase, "the parity 0 or 1", |value| {
                matches!(value, 0 | 1)
            });
        } else {
            self.value("phase", &inst.phase, Exact(Type::U64));
        }
        let is_try = matches!(inst.op, WaitOp::Try | WaitOp::TryParity);
        self.require(is_try || inst.hint.is_none(), || {
            format!("`{op}` returns at once and takes no time")
        });
        self.optional("hint", inst.hint.as_ref(), Exact(Type::U32));
    }

    pub(super) fn nanosleep(&mut self, inst: &Nanosleep) {
        self.one_of("`nanosleep`", inst.ty, &[Type::U32]);
        self.value("nanoseconds", &inst.nanoseconds, Exact(Type::U32));
    }

    pub(super) fn mask(&mut self, mask: &Operand) {
        self.value("mask", mask, Exact(Type::U32));
    }

    pub(super) fn shfl(&mut self, inst: &Shfl) {
        self.pair(inst.dst, Exact(Type::B32), Exact(Type::Pred));
        self.value("a", &inst.a, Exact(Type::B32));
        self.ranged("lane", &inst.lane, "a lane from 0 to 31", |value| {
            (0..32).contains(&value)
        });
        self.ranged(
            "clamp",
            &inst.clamp,
            "a segment mask << 8 | bound, both 0 to 31",
            |value| value & !0x1F1F == 0,
        );
        self.mask(&inst.mask);
    }

    pub(super) fn vote(&mut self, inst: &Vote) {
        let ty = if inst.op == VoteOp::Ballot {
            Type::B32
        } else {
            Type::Pred
        };
        self.result("dst", inst.dst, Exact(ty));
        self.predicate("src", inst.src);
        self.mask(&inst.mask);
    }

    pub(super) fn matching(&mut self, inst: &Match) {
        self.one_of("`match`", inst.ty, &[Type::B32, Type::B64]);
        self.require(inst.op == MatchOp::All || inst.dst.second.is_none(), || {
            "only `match.all` returns a predicate".to_owned()
        });
        self.pair(inst.dst, Exact(Type::U32), Exact(Type::Pred));
        self.value("a", &inst.a, Exact(inst.ty));
        self.mask(&inst.mask);
    }

    pub(super) fn redux(&mut self, inst: &Redux) {
        let is_bitwise = matches!(inst.op, ReduxOp::And | ReduxOp::Or | ReduxOp::Xor);
        let types: &[Type] = if is_bitwise {
            &[Type::B32]
        } else {
            &[Type::U32, Type::S32]
        };
        self.one_of(&format!("`redux.sync.{}`", inst.op.text()), inst.ty, types);
        let ty = if is_bitwise { Type::U32 } else { inst.ty };
        self.result("dst", inst.dst, Exact(ty));
        self.value("src", &inst.src, Exact(ty));
        self.mask(&inst.mask);
    }

    pub(super) fn elect(&mut self, inst: &Elect) {
        self.require(inst.dst.second.is_some(), || {
            "`elect.sync` returns `lane|predicate` or `_|predicate`".to_owned()
        });
        self.pair(inst.dst, Exact(Type::U32), Exact(Type::Pred));
        self.mask(&inst.mask);
    }

    pub(super) fn set_max_n_reg(&mut self, inst: &SetMaxNReg) {
        let is_legal = |value: i64| (24..=256).contains(&value) && value % 8 == 0;
        self.immediate(
            "count",
            &inst.count,
            "a multiple of 8 from 24 to 256",
            is_legal,
        );
    }
}
