//! The effects of an instruction together with everything in its regions.

use cranelift_entity::SecondaryMap;
use ir::entity::{Inst, Region};
use ir::{Effects, Func};

/// The effects of every instruction, regions included. The end of a region is no effect: it happens with the region.
#[derive(Clone, Debug)]
pub struct NestedEffects {
    of_inst: SecondaryMap<Inst, Effects>,
}

impl NestedEffects {
    /// Collects the effects of a kernel.
    pub fn of(func: &Func) -> NestedEffects {
        let mut of_inst = SecondaryMap::with_capacity(func.inst_count());
        collect(func, func.body, &mut of_inst);
        NestedEffects { of_inst }
    }

    /// What `inst` does, its regions included.
    pub fn of_inst(&self, inst: Inst) -> Effects {
        self.of_inst[inst]
    }
}

fn collect(func: &Func, region: Region, of_inst: &mut SecondaryMap<Inst, Effects>) -> Effects {
    let mut all = Effects::PURE;
    for &inst in &func.region(region).insts {
        let op = func.op(inst);
        let mut effects = op.rules().effects();
        for inner in op.regions() {
            effects = union(effects, collect(func, inner, of_inst));
        }
        of_inst[inst] = effects;
        if !op.rules().is_terminator() {
            all = union(all, effects);
        }
    }
    all
}

fn union(a: Effects, b: Effects) -> Effects {
    Effects {
        reads: a.reads | b.reads,
        writes: a.writes | b.writes,
        is_ordered: a.is_ordered | b.is_ordered,
        is_guarded: a.is_guarded | b.is_guarded,
        is_barrier: a.is_barrier | b.is_barrier,
        is_unique: a.is_unique | b.is_unique,
    }
}
