//! The only ways to edit a kernel.

use cranelift_entity::SecondaryMap;
use cranelift_entity::packed_option::PackedOption;
use smallvec::SmallVec;

use super::{Func, InstData, Param, RegionData, ValueData, ValueDef};
use crate::Type;
use crate::entity::{Inst, Loc, Region, Value};
use crate::ops::{Op, Types};

impl Func {
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

    /// The op of an instruction, to change its operands.
    #[inline]
    pub fn op_mut(&mut self, inst: Inst) -> &mut Op {
        &mut self.insts[inst].op
    }

    /// Changes the type of a value; a pass that does so keeps every user right.
    pub fn set_ty(&mut self, value: Value, ty: Type) {
        self.values[value].ty = ty;
    }

    /// Gives a value a name hint.
    pub fn set_name(&mut self, value: Value, name: &str) {
        self.values[value].name = Some(name.into());
    }

    /// Says what a value is called in timelines. No text shows it.
    pub fn set_label(&mut self, value: Value, label: &str) {
        self.labels.insert(value, label.into());
    }

    /// Gives a region parameter its place.
    pub fn set_value_loc(&mut self, value: Value, loc: Loc) {
        self.values[value].loc = loc.into();
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
}
