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

    /// How often the kind called `name` occurs: `ld.global.16B`, or `ld.global` for accesses of any width.
    pub fn count_of_family(&self, name: &str) -> u32 {
        let of_family = self.counts.iter().filter(|(kind, _)| is_of(kind, name));
        of_family.map(|(_, count)| count).sum()
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

/// The kinds that have one name; accesses to memory, `ld.global.16B`, have their state space and width in it.
const KINDS: [&str; 33] = [
    "atom",
    "bar.arrive",
    "bar.red",
    "bar.sync",
    "bar.warp.sync",
    "barrier.cluster",
    "bra",
    "call",
    "cp.async",
    "cp.async.bulk",
    "cp.async.wait",
    "cp.reduce.async.bulk",
    "fence",
    "fence.proxy.async",
    "ldmatrix",
    "mbarrier.arrive",
    "mbarrier.init",
    "mbarrier.wait",
    "mma",
    "red",
    "red.async",
    "redux",
    "setmaxnreg",
    "shfl",
    "st.async",
    "stmatrix",
    "tma.load",
    "tma.reduce",
    "tma.store",
    "vote",
    "wgmma",
    "wgmma.sp",
    "wgmma.wait_group",
];

/// State spaces of the accesses that are counted.
const SPACES: [&str; 6] = [
    "const",
    "generic",
    "global",
    "local",
    "shared",
    "shared::cluster",
];

/// The names of all kinds, accesses to memory without their width.
pub fn kinds() -> impl Iterator<Item = String> {
    let access = |op: &'static str| SPACES.map(|space| format!("{op}.{space}"));
    let accesses = ["ld", "st"].into_iter().flat_map(access);
    KINDS.into_iter().map(str::to_owned).chain(accesses)
}

/// Is there a kind of instruction of this name? Accesses to memory may be named without their width.
pub fn is_kind(name: &str) -> bool {
    kinds().any(|kind| is_of(name, &kind))
}

/// Is `kind` the one called `name`, or an access of it with some width?
fn is_of(kind: &str, name: &str) -> bool {
    let width = |rest: &str| {
        let bytes = rest
            .strip_prefix('.')
            .and_then(|rest| rest.strip_suffix('B'));
        bytes.is_some_and(|bytes| bytes.parse::<u32>().is_ok())
    };
    let is_access = |name: &str| name.starts_with("ld.") || name.starts_with("st.");
    kind.strip_prefix(name)
        .is_some_and(|rest| rest.is_empty() || is_access(name) && width(rest))
}

/// How many instructions of the kind called `name`, of any width, each line of a module's sources has, by file and line.
pub fn kind_by_line(module: &Module, name: &str) -> BTreeMap<(String, u32), u32> {
    let mut counts = BTreeMap::new();
    for body in module.bodies() {
        let instructions = body.statements.iter().filter_map(Stmt::instruction);
        let is_meant = |inst: &Inst| kind(inst).is_some_and(|kind| is_of(&kind, name));
        for instruction in instructions.filter(|found| is_meant(&found.inst)) {
            let location = instruction
                .loc
                .and_then(|at| body.locations.get(at.0 as usize));
            let Some(location) = location else { continue };
            let Some(file) = module.files.get(location.file as usize) else {
                continue;
            };
            *counts.entry((file.clone(), location.line)).or_default() += 1;
        }
    }
    counts
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_names_and_accesses_widths() {
        for name in [
            "wgmma",
            "ld.global",
            "ld.global.4B",
            "st.shared::cluster.8B",
            "bar.sync",
        ] {
            assert!(is_kind(name), "{name}");
        }
        for name in [
            "wgma",
            "ld",
            "ld.global.4",
            "ld.global.xB",
            "wgmma.4B",
            "add.s32",
            "",
        ] {
            assert!(!is_kind(name), "{name}");
        }
    }

    #[test]
    fn a_kind_is_counted_by_line() {
        let text = ".version 8.7\n.target sm_90a\n.address_size 64\n.file 1 \"k.rs\"\n\
                    .visible .entry k(.param .b64 k_0)\n{\n\t.reg .b64 %rd<2>;\n\t.reg .f32 %f<6>;\n\
                    \t.loc 1 3 1\n\tld.param.b64 %rd0, [k_0];\n\tld.global.f32 %f0, [%rd0];\n\
                    \t.loc 1 4 1\n\tld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd0];\n\tst.global.f32 [%rd0], %f1;\n\tret;\n}\n";
        let module = Module::parse(text).expect("PTX");
        let counts = |name: &str| -> Vec<(u32, u32)> {
            let found = kind_by_line(&module, name);
            found
                .into_iter()
                .map(|((_, line), count)| (line, count))
                .collect()
        };
        assert_eq!(counts("ld.global"), [(3, 1), (4, 1)]);
        assert_eq!(counts("ld.global.4B"), [(3, 1)]);
        let stats = Stats::of_module(&module);
        assert_eq!(
            (
                stats.count_of_family("ld.global"),
                stats.count_of_family("st")
            ),
            (2, 0)
        );
        assert!(stats.iter().all(|(kind, _)| is_kind(kind)));
    }
}
