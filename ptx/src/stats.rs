//! Counts of the instructions that decide how fast a kernel is.

use crate::inst::{BarOp, Inst};
use crate::module::{Body, Entry, Module};
use crate::print::{Names, Printer};
use crate::statement::Stmt;
use crate::types::{Space, Type, VecWidth};
use std::collections::BTreeMap;
use std::fmt;

/// How often each kind of instruction stands in a text; loops count once. The numbers do not depend on the names of
/// registers and labels, nor on the order of the instructions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    counts: BTreeMap<String, u32>,
    others: BTreeMap<String, u32>,
    instructions: u32,
}

impl Stats {
    /// The counts of all bodies of a module.
    pub fn of_module(module: &Module) -> Self {
        let mut stats = Self::default();
        for body in module.bodies() {
            stats.add_body(body);
        }
        stats
    }

    /// The counts of one entry.
    pub fn of_entry(entry: &Entry) -> Self {
        let mut stats = Self::default();
        stats.add_body(&entry.body);
        stats
    }

    /// Number of instructions, all kinds together.
    pub fn instructions(&self) -> u32 {
        self.instructions
    }

    /// How often the kind called `name` occurs, such as `ld.global.16B`, `bar.sync`, `wgmma` or `shfl`.
    pub fn count(&self, name: &str) -> u32 {
        self.counts.get(name).copied().unwrap_or(0)
    }

    /// Every kind that occurs, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u32)> {
        self.counts
            .iter()
            .map(|(name, &count)| (name.as_str(), count))
    }

    /// The instructions that have no kind of their own, which compute and move values between registers, by their opcode:
    /// `add.s32`, `fma.rn.f32`, `ld.param.b64`.
    pub fn others(&self) -> impl Iterator<Item = (&str, u32)> {
        self.others
            .iter()
            .map(|(opcode, &count)| (opcode.as_str(), count))
    }

    fn add_body(&mut self, body: &Body) {
        for instruction in body.statements.iter().filter_map(Stmt::instruction) {
            if matches!(instruction.inst, Inst::Bound(_)) {
                continue;
            }
            self.instructions += 1;
            let (counts, name) = match kind(&instruction.inst) {
                Some(name) => (&mut self.counts, name),
                None => (&mut self.others, opcode(&instruction.inst)),
            };
            *counts.entry(name).or_default() += 1;
        }
    }
}

/// `4 bar.sync, 2 ld.global.16B`
impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, count)) in self.iter().enumerate() {
            let separator = if index > 0 { ", " } else { "" };
            write!(f, "{separator}{count} {name}")?;
        }
        Ok(())
    }
}

/// The opcode with its modifiers: what stands before the operands.
fn opcode(inst: &Inst) -> String {
    // Only operands have names.
    let mut printer = Printer::new(Names::default());
    inst.print(&mut printer);
    let text = printer.into_text();
    let end = text.find([' ', ';']).unwrap_or(text.len());
    text[..end].to_owned()
}

/// The name under which an instruction is counted; none for the many that only compute.
fn kind(inst: &Inst) -> Option<String> {
    let name = match inst {
        Inst::Ld(ld) if ld.space == Some(Space::Param) => return None,
        Inst::Ld(ld) => return Some(access("ld", ld.space, ld.ty, ld.vec)),
        Inst::St(st) if st.space == Some(Space::Param) => return None,
        Inst::St(st) => return Some(access("st", st.space, st.ty, st.vec)),
        Inst::Atom(_) => "atom",
        Inst::Red(_) => "red",
        Inst::StAsync(_) => "st.async",
        Inst::RedAsync(_) => "red.async",
        Inst::Bar(bar) if matches!(bar.op, BarOp::Arrive | BarOp::ArriveDivergent) => "bar.arrive",
        Inst::Bar(_) => "bar.sync",
        Inst::BarRed(_) => "bar.red",
        Inst::BarWarpSync(_) => "bar.warp.sync",
        Inst::ClusterBar(_) => "barrier.cluster",
        Inst::Fence(_) | Inst::Membar(_) => "fence",
        Inst::FenceProxyAsync(_) => "fence.proxy.async",
        Inst::MbarrierInit(_) => "mbarrier.init",
        Inst::MbarrierArrive(_) => "mbarrier.arrive",
        Inst::MbarrierWait(_) => "mbarrier.wait",
        Inst::Shfl(_) => "shfl",
        Inst::Vote(_) => "vote",
        Inst::Redux(_) => "redux",
        Inst::CpAsync(_) => "cp.async",
        Inst::CpAsyncWaitGroup(_) | Inst::CpAsyncWaitAll(_) => "cp.async.wait",
        Inst::BulkLoad(_) | Inst::BulkStore(_) | Inst::BulkSharedToCluster(_) => "cp.async.bulk",
        Inst::BulkReduce(_) | Inst::BulkReduceCluster(_) => "cp.reduce.async.bulk",
        Inst::TensorLoad(_) => "tma.load",
        Inst::TensorStore(_) => "tma.store",
        Inst::TensorReduce(_) => "tma.reduce",
        Inst::Wgmma(wgmma) if wgmma.sparse.is_some() => "wgmma.sp",
        Inst::Wgmma(_) => "wgmma",
        Inst::WgmmaWaitGroup(_) => "wgmma.wait_group",
        Inst::Mma(_) => "mma",
        Inst::Ldmatrix(_) => "ldmatrix",
        Inst::Stmatrix(_) => "stmatrix",
        Inst::SetMaxNReg(_) => "setmaxnreg",
        Inst::Call(_) => "call",
        Inst::Bra(_) => "bra",
        _ => return None,
    };
    Some(name.to_owned())
}

/// `ld.global.16B`: the state space and the bytes that one thread moves.
fn access(op: &str, space: Option<Space>, ty: Type, vec: Option<VecWidth>) -> String {
    let bytes = ty.bytes() * vec.map_or(1, |vec| vec.len() as u32);
    format!("{op}.{}.{bytes}B", space.map_or("generic", Space::text))
}
