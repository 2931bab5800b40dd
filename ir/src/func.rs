//! One kernel: its tables of instructions, values and regions, and the only ways to edit them.

use std::sync::Arc;

use cranelift_entity::packed_option::PackedOption;
use cranelift_entity::{PrimaryMap, SecondaryMap};
use smallvec::SmallVec;
use target::{SM_90A, Target};

use crate::OpError;
use crate::entity::{Inst, Loc, Region, Value};
use crate::ops::create::{Const, Uniform};
use crate::ops::warps::WarpSpecialize;
use crate::ops::{Op, Types, flow};
use crate::{Locations, Stage, Type};
use diag::{Diagnostic, Place};

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
    /// Warps in a CTA, a power of two.
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

    /// Warps that a CTA is launched with: the kernel's own, and those of the workers where it parts.
    pub fn launch_warps(&self) -> u32 {
        let parting = self.regions[self.body]
            .insts
            .iter()
            .find_map(|inst| flow::partitions(self.op(*inst)));
        parting.map_or(self.warps, WarpSpecialize::total_warps)
    }

    /// Adds a parameter of the kernel.
    pub fn add_param(&mut self, name: &str, ty: Type, divisor: u32) -> Value {
        let value = self.add_region_param(self.body, ty);
        self.set_name(value, name);
        self.params.push(Param {
            name: name.into(),
            value,
            divisor,
            is_readonly: false,
        });
        value
    }

    /// A new region, in no instruction yet.
    pub fn new_region(&mut self) -> Region {
        self.regions.push(RegionData::default())
    }

    /// Adds a parameter of a region.
    pub fn add_region_param(&mut self, region: Region, ty: Type) -> Value {
        let index = self.regions[region].params.len() as u32;
        let value = self.values.push(ValueData {
            ty,
            def: ValueDef::Param(region, index),
            name: None,
            loc: PackedOption::default(),
        });
        self.regions[region].params.push(value);
        value
    }

    /// Keeps those parameters of a region for which `keep` says so; the others must have no uses left.
    pub fn retain_region_params(
        &mut self,
        region: Region,
        mut keep: impl FnMut(usize, Value) -> bool,
    ) {
        let mut at = 0;
        let old = std::mem::take(&mut self.regions[region].params);
        for (i, value) in old.into_iter().enumerate() {
            if keep(i, value) {
                self.values[value].def = ValueDef::Param(region, at);
                self.regions[region].params.push(value);
                at += 1;
            }
        }
    }

    /// A new instruction in no region yet, with results of the given types. Its regions become its own.
    pub fn make_inst(&mut self, op: impl Into<Op>, types: Types, loc: Option<Loc>) -> Inst {
        let op = op.into();
        let owned = op.regions();
        let inst = self.insts.push(InstData {
            op,
            results: SmallVec::new(),
            loc: loc.into(),
            parent: PackedOption::default(),
        });
        for region in owned {
            self.regions[region].owner = inst.into();
        }
        for (i, ty) in types.into_iter().enumerate() {
            let value = self.values.push(ValueData {
                ty,
                def: ValueDef::Result(inst, i as u32),
                name: None,
                loc: loc.into(),
            });
            self.insts[inst].results.push(value);
        }
        inst
    }

    /// Puts an instruction at the end of a region.
    #[inline]
    pub fn append(&mut self, region: Region, inst: Inst) {
        self.insts[inst].parent = region.into();
        self.regions[region].insts.push(inst);
    }

    /// Puts an instruction at `index` of a region.
    pub fn insert(&mut self, region: Region, index: usize, inst: Inst) {
        self.insts[inst].parent = region.into();
        self.regions[region].insts.insert(index, inst);
    }

    /// Takes an instruction out of its region. Its results must have no uses left.
    pub fn remove(&mut self, inst: Inst) {
        let region = self.parent(inst);
        let index = self.index_in_region(inst);
        self.regions[region].insts.remove(index);
        self.insts[inst].parent = PackedOption::default();
    }

    /// Replaces the instructions of a region; those left out are in no region any more.
    pub fn set_insts(&mut self, region: Region, insts: Vec<Inst>) {
        let old = std::mem::take(&mut self.regions[region].insts);
        for inst in old {
            self.insts[inst].parent = PackedOption::default();
        }
        for inst in &insts {
            self.insts[*inst].parent = region.into();
        }
        self.regions[region].insts = insts;
    }

    /// Replaces the op of an instruction in place; its results and their types stay.
    pub fn replace_op(&mut self, inst: Inst, op: impl Into<Op>) {
        let op = op.into();
        for region in op.regions() {
            self.regions[region].owner = inst.into();
        }
        self.insts[inst].op = op;
    }

    /// Drops the results of an instruction for which `keep` says no; these must have no uses left.
    pub fn retain_results(&mut self, inst: Inst, mut keep: impl FnMut(usize, Value) -> bool) {
        let old = std::mem::take(&mut self.insts[inst].results);
        for (i, value) in old.into_iter().enumerate() {
            if keep(i, value) {
                let at = self.insts[inst].results.len() as u32;
                self.values[value].def = ValueDef::Result(inst, at);
                self.insts[inst].results.push(value);
            }
        }
    }

    /// The op of an instruction.
    #[inline]
    pub fn op(&self, inst: Inst) -> &Op {
        &self.insts[inst].op
    }

    /// The op of an instruction, to change its operands.
    #[inline]
    pub fn op_mut(&mut self, inst: Inst) -> &mut Op {
        &mut self.insts[inst].op
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

    /// The warps that run an instruction: the kernel's own, or those of the partition that it stands in.
    pub fn warps_at(&self, inst: Inst) -> u32 {
        self.warps_in(self.parent(inst))
    }

    /// The warps that run a region.
    pub fn warps_in(&self, region: Region) -> u32 {
        self.partition_of(region).unwrap_or(self.warps)
    }

    /// The warps of the partition that a region belongs to; none outside of partitions.
    pub fn partition_of(&self, region: Region) -> Option<u32> {
        let mut region = region;
        while let Some(owner) = self.regions[region].owner.expand() {
            if let Some(w) = flow::partitions(self.op(owner))
                && let Some(at) = w.partitions.0.iter().position(|r| *r == region)
            {
                return Some(w.warps[at]);
            }
            region = self.parent(owner);
        }
        None
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

    /// Changes the type of a value; a pass that does so keeps every user right.
    pub fn set_ty(&mut self, value: Value, ty: Type) {
        self.values[value].ty = ty;
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

    /// The name hint of a value.
    pub fn name(&self, value: Value) -> Option<&str> {
        self.values[value].name.as_deref()
    }

    /// Gives a value a name hint.
    pub fn set_name(&mut self, value: Value, name: &str) {
        self.values[value].name = Some(name.into());
    }

    /// Where a value was made, as known.
    pub fn value_loc(&self, value: Value) -> Option<Loc> {
        self.values[value].loc.expand()
    }

    /// Gives a region parameter its place.
    pub fn set_value_loc(&mut self, value: Value, loc: Loc) {
        self.values[value].loc = loc.into();
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

    /// Replaces operands everywhere by what `map` holds for them, followed to the end of a chain.
    pub fn replace_uses(&mut self, map: &SecondaryMap<Value, PackedOption<Value>>) {
        for data in self.insts.values_mut() {
            data.op.rules_mut().visit_mut(&mut |v| {
                while let Some(next) = map[*v].expand() {
                    *v = next;
                }
            });
        }
    }

    /// Every instruction of the body in program order, outer before inner, with the regions inside.
    pub fn walk(&self) -> Vec<Inst> {
        let mut out = Vec::with_capacity(self.insts.len());
        self.walk_region(self.body, &mut out);
        out
    }

    /// The same for one region.
    pub fn walk_region(&self, region: Region, out: &mut Vec<Inst>) {
        for &inst in &self.regions[region].insts {
            out.push(inst);
            let rules = self.op(inst).rules();
            rules.visit_regions(&mut |inner| self.walk_region(inner, out));
        }
    }

    /// How often each value is used by the instructions of the body.
    pub fn use_counts(&self) -> SecondaryMap<Value, u32> {
        let mut counts = SecondaryMap::with_capacity(self.values.len());
        for inst in self.walk() {
            self.op(inst).rules().visit(&mut |v| counts[v] += 1);
        }
        counts
    }

    /// The place of an instruction by value, for a diagnostic.
    pub fn place(&self, inst: Inst) -> Option<Place> {
        self.loc(inst).map(|loc| self.locations.place(loc))
    }

    /// The place where a value was made, by value.
    pub fn value_place(&self, value: Value) -> Option<Place> {
        self.value_loc(value).map(|loc| self.locations.place(loc))
    }

    /// An op's mistake with its places.
    pub fn diagnose(&self, error: OpError, at: Option<Loc>) -> Diagnostic {
        let place = at.map(|loc| self.locations.place(loc));
        let mut d = Diagnostic::error(error.code, place, error.message);
        for (value, text) in error.origins {
            let origin = self.value_place(value);
            // An origin on the very line of the mistake says nothing that the line does not.
            d = d.related(origin, text);
        }
        d.notes = error.notes;
        d.help = error.help;
        d
    }
}
