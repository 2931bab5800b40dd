//! Mutants of a module: copies in which one piece of synchronization is missing or wrong. How good a checker of kernels is
//! shows in the share of them that it reports.

use std::fmt;
use std::str::FromStr;

use crate::inst::{
    Atom, BarOp, Binary, BinaryOp, ClusterBarOp, GridDepOp, Inst, Ld, MbarrierArrive, MbarrierTx,
    MbarrierWait, Mov, Red, St, TxOp,
};
use crate::module::{Body, Module};
use crate::operand::{Dest, Operand};
use crate::registers::{RegClass, Registers};
use crate::statement::{Instruction, Stmt};
use crate::types::{AccessSem, Type};

macro_rules! kinds {
    ($($(#[$meta:meta])* $variant:ident = $name:literal,)+) => {
        /// What is changed. Kinds with an instruction's name delete it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum MutationKind {
            $(#[doc = concat!("`", $name, "`")] $(#[$meta])* $variant,)+
        }

        impl MutationKind {
            /// Every kind, in the order of tables.
            pub const ALL: &[MutationKind] = &[$(MutationKind::$variant),+];

            /// Its name, without spaces.
            pub const fn name(self) -> &'static str {
                match self { $(MutationKind::$variant => $name,)+ }
            }
        }
    };
}

kinds! {
    BarSync = "bar.sync",
    BarArrive = "bar.arrive",
    BarWarpSync = "bar.warp.sync",
    ClusterArrive = "barrier.cluster.arrive",
    ClusterWait = "barrier.cluster.wait",
    /// Both halves of a cluster barrier that stand together.
    ClusterBarrier = "barrier.cluster",
    Fence = "fence",
    FenceProxyAsync = "fence.proxy.async",
    FenceProxyAlias = "fence.proxy.alias",
    FenceProxyTensormap = "fence.proxy.tensormap",
    FenceMbarrierInit = "fence.mbarrier_init",
    /// A load, store or atomic that acquires or releases becomes a relaxed one.
    Relaxed = "relaxed",
    MbarrierArrive = "mbarrier.arrive",
    MbarrierArriveExpectTx = "mbarrier.arrive.expect_tx",
    MbarrierExpectTx = "mbarrier.expect_tx",
    MbarrierCompleteTx = "mbarrier.complete_tx",
    /// 16 bytes more are expected than are copied.
    MoreBytes = "expect_tx+16",
    /// 16 bytes fewer are expected than are copied.
    FewerBytes = "expect_tx-16",
    /// A wait for a phase that is over at once.
    MbarrierWait = "mbarrier.wait",
    /// A wait for the other parity.
    Parity = "mbarrier.wait.parity",
    CpAsyncMbarrierArrive = "cp.async.mbarrier.arrive",
    CpAsyncCommitGroup = "cp.async.commit_group",
    CpAsyncWaitGroup = "cp.async.wait_group",
    /// One more group may be outstanding.
    CpAsyncWaitGroupMore = "cp.async.wait_group+1",
    CpAsyncWaitAll = "cp.async.wait_all",
    BulkCommitGroup = "cp.async.bulk.commit_group",
    BulkWaitGroup = "cp.async.bulk.wait_group",
    /// One more group may be outstanding.
    BulkWaitGroupMore = "cp.async.bulk.wait_group+1",
    WgmmaFence = "wgmma.fence",
    WgmmaCommitGroup = "wgmma.commit_group",
    WgmmaWaitGroup = "wgmma.wait_group",
    /// One more group may be outstanding.
    WgmmaWaitGroupMore = "wgmma.wait_group+1",
    GridDepWait = "griddepcontrol.wait",
}

impl fmt::Display for MutationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for MutationKind {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|kind| kind.name() == text);
        found.copied().ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|kind| kind.name()).collect();
            format!(
                "`{text}` is no kind of mutation; there are {}",
                names.join(", ")
            )
        })
    }
}

/// One change to one instruction of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mutation {
    /// What is changed.
    pub kind: MutationKind,
    /// Index of the body in [`Module::bodies`].
    pub body: usize,
    /// Index of the instruction in its [`statements`](Body::statements).
    pub statement: usize,
}

impl Module {
    /// Every mutation of the module, in the order of the text. A wait that admits fewer outstanding groups, and a
    /// `griddepcontrol.launch_dependents` that is missing, only wait longer and are not among them.
    pub fn mutations(&self) -> Vec<Mutation> {
        let mut found = Vec::new();
        for (index, body) in self.bodies().enumerate() {
            for (statement, kind) in mutations_of(body) {
                found.push(Mutation {
                    kind,
                    body: index,
                    statement,
                });
            }
        }
        found
    }

    /// The module with one change; none if `mutation` is not one of its [`mutations`](Module::mutations).
    pub fn mutated(&self, mutation: &Mutation) -> Option<Module> {
        let mut mutant = self.clone();
        let body = mutant.bodies_mut().nth(mutation.body)?;
        let at = mutation.statement;
        let instruction = body.statements.get(at)?.instruction()?.clone();
        let is_pair = mutation.kind == MutationKind::ClusterBarrier;
        if !is_pair && !kinds_of(&instruction.inst).contains(&mutation.kind) {
            return None;
        }
        if is_pair {
            let wait = cluster_wait_behind(body, at)?;
            body.statements[wait] = deleted();
        }
        let new = changed(&instruction, mutation.kind, &mut body.registers);
        body.statements.splice(at..=at, new);
        Some(mutant)
    }
}

fn mutations_of(body: &Body) -> Vec<(usize, MutationKind)> {
    let mut found = Vec::new();
    for (at, statement) in body.statements.iter().enumerate() {
        let Some(instruction) = statement.instruction() else {
            continue;
        };
        found.extend(kinds_of(&instruction.inst).iter().map(|&kind| (at, kind)));
        if cluster_wait_behind(body, at).is_some() {
            found.push((at, MutationKind::ClusterBarrier));
        }
    }
    found
}

/// The other half of the cluster barrier whose arrival stands at `at`, if nothing stands between them.
fn cluster_wait_behind(body: &Body, at: usize) -> Option<usize> {
    let op_of = |at: usize| match &body.statements.get(at)?.instruction()?.inst {
        Inst::ClusterBar(bar) => Some(bar.op),
        _ => None,
    };
    let is_pair =
        op_of(at) == Some(ClusterBarOp::Arrive) && op_of(at + 1) == Some(ClusterBarOp::Wait);
    is_pair.then_some(at + 1)
}

/// What can be wrong about one instruction.
fn kinds_of(inst: &Inst) -> &'static [MutationKind] {
    use MutationKind as Kind;
    match inst {
        Inst::Bar(bar) => match bar.op {
            BarOp::Sync | BarOp::SyncDivergent => &[Kind::BarSync],
            BarOp::Arrive | BarOp::ArriveDivergent => &[Kind::BarArrive],
        },
        Inst::BarWarpSync(_) => &[Kind::BarWarpSync],
        Inst::ClusterBar(bar) => match bar.op {
            ClusterBarOp::Arrive => &[Kind::ClusterArrive],
            ClusterBarOp::Wait => &[Kind::ClusterWait],
        },
        Inst::Fence(_) | Inst::Membar(_) => &[Kind::Fence],
        Inst::FenceProxyAsync(_) => &[Kind::FenceProxyAsync],
        Inst::FenceProxyAlias(_) => &[Kind::FenceProxyAlias],
        Inst::FenceProxyTensormap(_) => &[Kind::FenceProxyTensormap],
        Inst::FenceMbarrierInit(_) => &[Kind::FenceMbarrierInit],
        Inst::Ld(Ld { sem, .. })
        | Inst::St(St { sem, .. })
        | Inst::Atom(Atom { sem, .. })
        | Inst::Red(Red { sem, .. })
            if orders(*sem) =>
        {
            &[Kind::Relaxed]
        }
        Inst::MbarrierArrive(arrive) if arrive.op.is_expect_tx() => &[
            Kind::MbarrierArriveExpectTx,
            Kind::MoreBytes,
            Kind::FewerBytes,
        ],
        Inst::MbarrierArrive(_) => &[Kind::MbarrierArrive],
        Inst::MbarrierTx(tx) => match tx.op {
            TxOp::Expect => &[Kind::MbarrierExpectTx, Kind::MoreBytes, Kind::FewerBytes],
            TxOp::Complete => &[Kind::MbarrierCompleteTx],
        },
        Inst::MbarrierWait(wait) if wait.op.is_parity() => &[Kind::MbarrierWait, Kind::Parity],
        Inst::MbarrierWait(_) => &[Kind::MbarrierWait],
        Inst::CpAsyncMbarrierArrive(_) => &[Kind::CpAsyncMbarrierArrive],
        Inst::CpAsyncCommitGroup(_) => &[Kind::CpAsyncCommitGroup],
        Inst::CpAsyncWaitGroup(_) => &[Kind::CpAsyncWaitGroup, Kind::CpAsyncWaitGroupMore],
        Inst::CpAsyncWaitAll(_) => &[Kind::CpAsyncWaitAll],
        Inst::BulkCommitGroup(_) => &[Kind::BulkCommitGroup],
        Inst::BulkWaitGroup(_) => &[Kind::BulkWaitGroup, Kind::BulkWaitGroupMore],
        Inst::WgmmaFence(_) => &[Kind::WgmmaFence],
        Inst::WgmmaCommitGroup(_) => &[Kind::WgmmaCommitGroup],
        Inst::WgmmaWaitGroup(_) => &[Kind::WgmmaWaitGroup, Kind::WgmmaWaitGroupMore],
        Inst::GridDepControl(control) if control.op == GridDepOp::Wait => &[Kind::GridDepWait],
        _ => &[],
    }
}

fn orders(sem: Option<AccessSem>) -> bool {
    matches!(
        sem,
        Some(AccessSem::Acquire | AccessSem::Release | AccessSem::AcqRel)
    )
}

/// What stands in the place of `instruction`.
fn changed(instruction: &Instruction, kind: MutationKind, registers: &mut Registers) -> Vec<Stmt> {
    let mut new = instruction.clone();
    let before = match (&mut new.inst, kind) {
        (Inst::MbarrierWait(wait), MutationKind::Parity) => {
            adjusted(&mut wait.phase, BinaryOp::Xor, 1, registers)
        }
        (Inst::MbarrierArrive(MbarrierArrive { count, .. }), MutationKind::MoreBytes) => {
            let bytes = count.get_or_insert(Operand::Int(0));
            adjusted(bytes, BinaryOp::Add, 16, registers)
        }
        (Inst::MbarrierArrive(MbarrierArrive { count, .. }), MutationKind::FewerBytes) => {
            let bytes = count.get_or_insert(Operand::Int(0));
            adjusted(bytes, BinaryOp::Add, -16, registers)
        }
        (Inst::MbarrierTx(MbarrierTx { bytes, .. }), MutationKind::MoreBytes) => {
            adjusted(bytes, BinaryOp::Add, 16, registers)
        }
        (Inst::MbarrierTx(MbarrierTx { bytes, .. }), MutationKind::FewerBytes) => {
            adjusted(bytes, BinaryOp::Add, -16, registers)
        }
        (Inst::CpAsyncWaitGroup(wait), MutationKind::CpAsyncWaitGroupMore) => {
            adjusted(&mut wait.pending, BinaryOp::Add, 1, registers)
        }
        (Inst::BulkWaitGroup(wait), MutationKind::BulkWaitGroupMore) => {
            adjusted(&mut wait.pending, BinaryOp::Add, 1, registers)
        }
        (Inst::WgmmaWaitGroup(wait), MutationKind::WgmmaWaitGroupMore) => {
            adjusted(&mut wait.pending, BinaryOp::Add, 1, registers)
        }
        (
            Inst::Ld(Ld { sem, .. })
            | Inst::St(St { sem, .. })
            | Inst::Atom(Atom { sem, .. })
            | Inst::Red(Red { sem, .. }),
            MutationKind::Relaxed,
        ) => {
            *sem = Some(AccessSem::Relaxed);
            None
        }
        (inst, _) => match without_effect(inst) {
            Some(value) => {
                *inst = value;
                None
            }
            None => return vec![deleted()],
        },
    };
    let before = before.map(|inst| {
        Stmt::Inst(Instruction {
            guard: instruction.guard,
            inst,
            loc: instruction.loc,
        })
    });
    before.into_iter().chain([Stmt::Inst(new)]).collect()
}

/// Changes a number: in its place, or, where it is in a register, by an instruction in front.
fn adjusted(
    operand: &mut Operand,
    op: BinaryOp,
    by: i64,
    registers: &mut Registers,
) -> Option<Inst> {
    if let Operand::Int(value) = operand {
        *value = match op {
            BinaryOp::Xor => *value ^ by,
            _ => *value + by,
        };
        return None;
    }
    let new = registers.add(RegClass::B32);
    let ty = if op == BinaryOp::Xor {
        Type::B32
    } else {
        Type::U32
    };
    let inst = Binary::new(op, ty, Dest::Reg(new), *operand, Operand::Int(by));
    *operand = Operand::Reg(new);
    Some(inst.into())
}

/// Gives the result that others read without doing anything else: a wait is over, an arrival returns a state.
fn without_effect(inst: &Inst) -> Option<Inst> {
    match inst {
        Inst::MbarrierWait(MbarrierWait {
            done: Dest::Reg(done),
            ..
        }) => Some(Mov::new(Type::Pred, *done, Operand::Int(1)).into()),
        Inst::MbarrierArrive(MbarrierArrive {
            state: Dest::Reg(state),
            ..
        }) => Some(Mov::new(Type::B64, *state, Operand::Int(0)).into()),
        _ => None,
    }
}

/// Keeps the lines of the text.
fn deleted() -> Stmt {
    Stmt::Comment("deleted".to_owned())
}
