//! Copies of instructions, with the regions that they own.

use ir::entity::{Inst, Region, Value};
use ir::{Func, Type};
use rustc_hash::FxHashMap;

/// A copy of an instruction, in no region yet, on the values that `map` has for its operands. Its results are entered there.
pub(super) fn inst(func: &mut Func, inst: Inst, map: &mut FxHashMap<Value, Value>) -> Inst {
    let mut op = func.op(inst).clone();
    op.rules_mut().visit_mut(&mut |value| {
        if let Some(new) = map.get(value) {
            *value = *new;
        }
    });
    let mut regions = Vec::new();
    op.rules().visit_regions(&mut |old| regions.push(old));
    let mut copies = regions
        .into_iter()
        .map(|old| region(func, old, map))
        .collect::<Vec<_>>()
        .into_iter();
    op.rules_mut().visit_regions_mut(&mut |region| {
        *region = copies.next().expect("there is a copy of each region");
    });
    let old = func.results(inst).to_vec();
    let types = old.iter().map(|v| func.ty(*v).clone()).collect();
    let loc = func.loc(inst);
    let copied = func.make_inst(op, types, loc);
    for (at, old) in old.into_iter().enumerate() {
        let new = func.results(copied)[at];
        name(func, old, new);
        map.insert(old, new);
    }
    copied
}

fn region(func: &mut Func, old: Region, map: &mut FxHashMap<Value, Value>) -> Region {
    let new = func.new_region();
    for param in func.region(old).params.clone() {
        let ty: Type = func.ty(param).clone();
        let copied = func.add_region_param(new, ty);
        name(func, param, copied);
        map.insert(param, copied);
    }
    for old in func.region(old).insts.clone() {
        let copied = inst(func, old, map);
        func.append(new, copied);
    }
    new
}

/// Gives a value the name and the place of another.
pub(super) fn name(func: &mut Func, from: Value, to: Value) {
    if let Some(name) = func.name(from).map(str::to_owned) {
        func.set_name(to, &name);
    }
    if let Some(loc) = func.value_loc(from) {
        func.set_value_loc(to, loc);
    }
}
