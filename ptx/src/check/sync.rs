//! Barriers, fences, mbarriers and warp exchange.

use super::context::Checker;
use super::legal::Need::Exact;
use crate::inst::{
    ArriveOp, Bar, BarOp, BarRed, BarRedOp, ClusterBar, ClusterBarOp, Elect, FenceProxyTensormap,
    Match, MatchOp, MbarSpace, MbarrierArrive, MbarrierInit, MbarrierTx, MbarrierWait, Nanosleep,
    Redux, ReduxOp, SetMaxNReg, Shfl, Visit, Vote, VoteOp, WaitOp,
};
use crate::operand::{Addr, Dest, Operand};
use crate::types::{AccessSem, FenceSem, Scope, Space, Type};

impl Visit<Bar> for Checker<'_> {
    fn visit(&mut self, inst: &Bar) {
        self.barrier(&inst.barrier, inst.threads.as_ref());
        let is_arrive = matches!(inst.op, BarOp::Arrive | BarOp::ArriveDivergent);
        let is_counted = inst
            .threads
            .is_some_and(|threads| threads != Operand::Int(0));
        self.require(!is_arrive || is_counted, || {
            format!("`{}` needs the number of threads", inst.op.text())
        });
    }
}

impl Checker<'_> {
    fn barrier(&mut self, barrier: &Operand, threads: Option<&Operand>) {
        let cta = &self.machine.cta;
        let (barriers, most) = (i64::from(cta.barriers), i64::from(cta.threads));
        let allowed = format!("a barrier from 0 to {}", barriers - 1);
        self.ranged("barrier", barrier, allowed, |value| {
            (0..barriers).contains(&value)
        });
        if let Some(threads) = threads {
            let is_legal = |value: i64| value % 32 == 0 && (0..=most).contains(&value);
            let allowed = format!("a multiple of 32 up to {most}");
            self.ranged("threads", threads, allowed, is_legal);
        }
    }
}

impl Visit<BarRed> for Checker<'_> {
    fn visit(&mut self, inst: &BarRed) {
        self.barrier(&inst.barrier, inst.threads.as_ref());
        let ty = if inst.op == BarRedOp::Popc {
            Type::U32
        } else {
            Type::Pred
        };
        self.result("dst", inst.dst, Exact(ty));
        self.predicate("src", inst.src);
    }
}

impl Visit<ClusterBar> for Checker<'_> {
    fn visit(&mut self, inst: &ClusterBar) {
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
}

impl Visit<FenceProxyTensormap> for Checker<'_> {
    fn visit(&mut self, inst: &FenceProxyTensormap) {
        let acquires = inst.sem == FenceSem::Acquire;
        self.require(
            matches!(inst.sem, FenceSem::Acquire | FenceSem::Release),
            || "a tensormap fence is .acquire or .release".to_owned(),
        );
        self.require(inst.addr.is_some() == acquires && inst.bytes.is_some() == acquires, || {
            "the acquiring tensormap fence names the map and its size, the releasing one nothing".to_owned()
        });
        if let (Some(addr), Some(bytes)) = (inst.addr, &inst.bytes) {
            self.addr("addr", addr, None, target::TENSOR_MAP_BYTES, 1);
            self.map_bytes(bytes);
        }
    }
}

impl Checker<'_> {
    /// The address of an mbarrier.
    pub(super) fn mbarrier(&mut self, addr: Addr, space: Option<MbarSpace>) {
        let space = space.map(|space| match space {
            MbarSpace::Cta => Space::Shared,
            MbarSpace::Cluster => Space::SharedCluster,
        });
        let bytes = target::MBARRIER_BYTES;
        self.addr("addr", addr, space, bytes, bytes);
    }

    /// An mbarrier that must be in the own CTA.
    pub(super) fn own_mbarrier(&mut self, op: &str, addr: Addr, space: Option<MbarSpace>) {
        self.require(space != Some(MbarSpace::Cluster), || {
            format!("`{op}` works on mbarriers of the own CTA only")
        });
        self.mbarrier(addr, space);
    }
}

impl Visit<MbarrierInit> for Checker<'_> {
    fn visit(&mut self, inst: &MbarrierInit) {
        self.own_mbarrier("mbarrier.init", inst.addr, inst.space);
        self.arrivals(&inst.count);
    }
}

impl Checker<'_> {
    /// How many arrivals a phase or an instruction counts.
    fn arrivals(&mut self, count: &Operand) {
        let most = self.machine.mbarrier.arrivals;
        let is_legal = |value: i64| (1..=most.into()).contains(&value);
        self.ranged("count", count, format!("1 to {most} arrivals"), is_legal);
    }

    /// The size of a tensor map, written as an operand.
    pub(super) fn map_bytes(&mut self, bytes: &Operand) {
        let wanted = target::TENSOR_MAP_BYTES;
        self.immediate("bytes", bytes, wanted.to_string(), |value| {
            value == wanted.into()
        });
    }
}

impl Visit<MbarrierTx> for Checker<'_> {
    fn visit(&mut self, inst: &MbarrierTx) {
        self.mbarrier(inst.addr, inst.space);
        self.mbarrier_order(inst.op.text(), inst.sem, inst.scope, &[AccessSem::Relaxed]);
        self.transaction("bytes", &inst.bytes);
    }
}

impl Checker<'_> {
    fn transaction(&mut self, operand: &'static str, bytes: &Operand) {
        let most = self.machine.mbarrier.transaction_bytes;
        let is_legal = |value: i64| (0..=most.into()).contains(&value);
        self.ranged(operand, bytes, format!("0 to {most} bytes"), is_legal);
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
}

impl Visit<MbarrierArrive> for Checker<'_> {
    fn visit(&mut self, inst: &MbarrierArrive) {
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
                self.arrivals(count);
            }
        }
    }
}

impl Visit<MbarrierWait> for Checker<'_> {
    fn visit(&mut self, inst: &MbarrierWait) {
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
}

impl Visit<Nanosleep> for Checker<'_> {
    fn visit(&mut self, inst: &Nanosleep) {
        self.one_of("`nanosleep`", inst.ty, &[Type::U32]);
        self.value("nanoseconds", &inst.nanoseconds, Exact(Type::U32));
    }
}

impl Checker<'_> {
    pub(super) fn mask(&mut self, mask: &Operand) {
        self.value("mask", mask, Exact(Type::U32));
    }
}

impl Visit<Shfl> for Checker<'_> {
    fn visit(&mut self, inst: &Shfl) {
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
}

impl Visit<Vote> for Checker<'_> {
    fn visit(&mut self, inst: &Vote) {
        let ty = if inst.op == VoteOp::Ballot {
            Type::B32
        } else {
            Type::Pred
        };
        self.result("dst", inst.dst, Exact(ty));
        self.predicate("src", inst.src);
        self.mask(&inst.mask);
    }
}

impl Visit<Match> for Checker<'_> {
    fn visit(&mut self, inst: &Match) {
        self.one_of("`match`", inst.ty, &[Type::B32, Type::B64]);
        self.require(inst.op == MatchOp::All || inst.dst.second.is_none(), || {
            "only `match.all` returns a predicate".to_owned()
        });
        self.pair(inst.dst, Exact(Type::U32), Exact(Type::Pred));
        self.value("a", &inst.a, Exact(inst.ty));
        self.mask(&inst.mask);
    }
}

impl Visit<Redux> for Checker<'_> {
    fn visit(&mut self, inst: &Redux) {
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
}

impl Visit<Elect> for Checker<'_> {
    fn visit(&mut self, inst: &Elect) {
        self.require(inst.dst.second.is_some(), || {
            "`elect.sync` returns `lane|predicate` or `_|predicate`".to_owned()
        });
        self.pair(inst.dst, Exact(Type::U32), Exact(Type::Pred));
        self.mask(&inst.mask);
    }
}

impl Visit<SetMaxNReg> for Checker<'_> {
    fn visit(&mut self, inst: &SetMaxNReg) {
        let limits = &self.machine.registers;
        let [unit, least, most] =
            [limits.unit, limits.least_budget, limits.most_budget].map(i64::from);
        let is_legal = |value: i64| (least..=most).contains(&value) && value % unit == 0;
        let allowed = format!("a multiple of {unit} from {least} to {most}");
        self.immediate("count", &inst.count, allowed, is_legal);
    }
}
