//! One kernel: its tables of instructions, values and regions.

mod diagnose;
mod edit;
mod partitions;
mod walk;

use std::sync::Arc;

use cranelift_entity::PrimaryMap;
use cranelift_entity::packed_option::PackedOption;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use target::{SM_90A, Target};

use crate::constant::{Const, Uniform};
use crate::entity::{Inst, Loc, Region, Value};
use crate::ops::Op;
use crate::{Locations, Stage, Type};

/// A parameter of the kernel, and what its callers promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param {
    /// The author's name for it.
    pub name: Arc<str>,
    /// The value in the body.
    pub value: Value,
    /// A power of two that divides it: of a pointer's address in bytes, or of an integer. Checked at each launch.
    pub divisor: u32,
    /// Nothing is stored to what this pointer is for while the kernel runs, neither through it nor through another.
    pub is_readonly: bool,
}

/// What the author forbids the compiler to do silently.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one attribute of a kernel, independent of the others"
)]
pub struct Contracts {
    /// A layout conversion that moves data is an error.
    pub denies_conversions: bool,
    /// A global access that moves many more bytes than it uses is an error.
    pub denies_uncoalesced: bool,
    /// A shared access with bank conflicts is an error.
    pub denies_bank_conflicts: bool,
    /// A register spilled to local memory is an error.
    pub denies_spills: bool,
}

/// Instructions in order, with the region's parameters.
#[derive(Clone, Debug, Default)]
pub struct RegionData {
    /// Values that the owner hands in.
    pub params: SmallVec<[Value; 4]>,
    /// Instructions, the terminator last.
    pub insts: Vec<Inst>,
    /// The instruction that holds this region; none for the body of the kernel.
    pub owner: PackedOption<Inst>,
}

/// What defines a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueDef {
    /// Result `.1` of instruction `.0`.
    Result(Inst, u32),
    /// Parameter `.1` of region `.0`.
    Param(Region, u32),
}

#[derive(Clone, Debug)]
struct ValueData {
    ty: Type,
    def: ValueDef,
    name: Option<Arc<str>>,
    loc: PackedOption<Loc>,
}

#[derive(Clone, Debug)]
struct InstData {
    op: Op,
    results: SmallVec<[Value; 1]>,
    loc: PackedOption<Loc>,
    parent: PackedOption<Region>,
}

/// One kernel.
#[derive(Clone, Debug)]
pub struct Func {
    /// The machine that it is for.
    pub target: &'static Target,
    /// The kernel's name, a PTX identifier.
    pub name: Arc<str>,
    /// Warps in a CTA.
    pub warps: u32,
    /// The author's cap on registers per thread.
    pub max_registers: Option<u32>,
    /// CTAs per SM that the author wants to fit.
    pub min_ctas_per_sm: Option<u32>,
    /// CTAs of a cluster in x, y and z; all 1 for a kernel without clusters, and for one with clusters of one CTA.
    pub cluster: [u32; 3],
    /// Does the author say how large a cluster is? Then the kernel may use operations of clusters, also where the cluster is
    /// one CTA: code that is generic over the cluster's size compiles for 1.
    pub says_cluster: bool,
    /// Do CTAs of the grid wait for one another? Then all of them must be resident at once, which a cooperative launch makes sure of.
    pub is_cooperative: bool,
    /// Shared memory of a CTA in bytes; 0 until it is planned, and for a kernel that needs none.
    pub shared_bytes: u32,
    /// What the author forbids.
    pub contracts: Contracts,
    /// Parameters, in order.
    pub params: Vec<Param>,
    /// The body.
    pub body: Region,
    /// Its stage.
    pub stage: Stage,
    /// The places that `Loc` refers to.
    pub locations: Locations,
    /// What values are called in timelines, which no text shows.
    labels: FxHashMap<Value, Arc<str>>,
    insts: PrimaryMap<Inst, InstData>,
    values: PrimaryMap<Value, ValueData>,
    regions: PrimaryMap<Region, RegionData>,
}

impl Func {
    /// What a kernel is compiled for whose text names no target.
    pub const DEFAULT_TARGET: &'static Target = &SM_90A;

    /// An empty kernel for the default target.
    pub fn new(name: &str, warps: u32) -> Func {
        let mut regions = PrimaryMap::new();
        let body = regions.push(RegionData::default());
        Func {
            target: Func::DEFAULT_TARGET,
            name: name.into(),
            warps,
            max_registers: None,
            min_ctas_per_sm: None,
            cluster: [1; 3],
            says_cluster: false,
            is_cooperative: false,
            shared_bytes: 0,
            contracts: Contracts::default(),
            params: Vec::new(),
            body,
            stage: Stage::Built,
            locations: Locations::default(),
            labels: FxHashMap::default(),
            insts: PrimaryMap::new(),
            values: PrimaryMap::new(),
            regions,
        }
    }

    /// Threads in a CTA.
    pub fn threads(&self) -> u32 {
        self.warps * 32
    }

    /// Registers that each of `threads` threads of a CTA can have: an equal share of the SM's for as many CTAs as the author
    /// wants to fit, and not more than the author's cap.
    pub fn registers_of_thread(&self, threads: u32) -> u32 {
        let ctas = self.min_ctas_per_sm.unwrap_or(1);
        let share = self.target.registers_of_thread(threads, ctas);
        self.max_registers.map_or(share, |cap| cap.min(share))
    }

    /// CTAs of a cluster; 1 for a kernel without clusters.
    pub fn cluster_ctas(&self) -> u32 {
        self.cluster.iter().product()
    }

    /// Is it launched in clusters of several CTAs?
    pub fn has_cluster(&self) -> bool {
        self.cluster != [1; 3]
    }

    /// The op of an instruction.
    #[inline]
    pub fn op(&self, inst: Inst) -> &Op {
        &self.insts[inst].op
    }

    /// The results of an instruction.
    #[inline]
    pub fn results(&self, inst: Inst) -> &[Value] {
        &self.insts[inst].results
    }

    /// The only result of an instruction that has one.
    #[inline]
    pub fn result(&self, inst: Inst) -> Value {
        self.insts[inst].results[0]
    }

    /// The place of an instruction.
    #[inline]
    pub fn loc(&self, inst: Inst) -> Option<Loc> {
        self.insts[inst].loc.expand()
    }

    /// The region that an instruction stands in.
    #[inline]
    pub fn parent(&self, inst: Inst) -> Region {
        let parent = self.insts[inst].parent.expand();
        parent.expect("an instruction that is asked for its region stands in one")
    }

    /// Does the instruction stand in a region?
    pub fn is_placed(&self, inst: Inst) -> bool {
        self.insts[inst].parent.is_some()
    }

    /// The position of an instruction in its region.
    pub fn index_in_region(&self, inst: Inst) -> usize {
        let insts = &self.regions[self.parent(inst)].insts;
        let index = insts.iter().position(|i| *i == inst);
        index.expect("a placed instruction is listed by its region")
    }

    /// A region.
    #[inline]
    pub fn region(&self, region: Region) -> &RegionData {
        &self.regions[region]
    }

    /// The last instruction of a region, if it ends it.
    pub fn terminator(&self, region: Region) -> Option<&Op> {
        let last = *self.regions[region].insts.last()?;
        let op = self.op(last);
        op.rules().is_terminator().then_some(op)
    }

    /// The type of a value.
    #[inline]
    pub fn ty(&self, value: Value) -> &Type {
        &self.values[value].ty
    }

    /// What defines a value.
    #[inline]
    pub fn def(&self, value: Value) -> ValueDef {
        self.values[value].def
    }

    /// The instruction that a value is a result of.
    #[inline]
    pub fn def_inst(&self, value: Value) -> Option<Inst> {
        match self.values[value].def {
            ValueDef::Result(inst, _) => Some(inst),
            ValueDef::Param(..) => None,
        }
    }

    /// The number that a value is in every element, if it is a constant or a splat of one.
    pub fn constant(&self, value: Value) -> Option<Const> {
        match self.op(self.def_inst(value)?).rules().uniform()? {
            Uniform::Constant(value) => Some(value),
            Uniform::Scalar(scalar) => self.constant(scalar),
        }
    }

    /// The integer that a value is in every element, if it is a constant or a splat of one.
    pub fn constant_int(&self, value: Value) -> Option<i128> {
        self.constant(value)?.as_int()
    }

    /// The name hint of a value.
    pub fn name(&self, value: Value) -> Option<&str> {
        self.values[value].name.as_deref()
    }

    /// What a value is called in timelines.
    pub fn label(&self, value: Value) -> Option<&str> {
        self.labels.get(&value).map(|label| &**label)
    }

    /// Where a value was made, as known.
    pub fn value_loc(&self, value: Value) -> Option<Loc> {
        self.values[value].loc.expand()
    }

    /// The number of values ever made: the size of a side table.
    pub fn value_count(&self) -> usize {
        self.values.len()
    }

    /// The number of instructions ever made.
    pub fn inst_count(&self) -> usize {
        self.insts.len()
    }

    /// Every value ever made, those of removed instructions included.
    pub fn values(&self) -> impl Iterator<Item = Value> + use<> {
        self.values.keys()
    }
}
