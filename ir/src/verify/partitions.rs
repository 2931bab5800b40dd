//! `warp_specialize`: once, at the end, and each partition with tiles of its own.

use cranelift_entity::EntitySet;

use super::structure::broken;
use crate::entity::{Inst, Region, Value};
use crate::ops::{Terminator, Values, flow};
use crate::{Func, Type, ValueDef};
use diag::{Code, Diagnostic, Diagnostics};

pub(super) fn check(func: &Func, insts: &[Inst], found: &mut Diagnostics) {
    let body = &func.region(func.body).insts;
    for &inst in insts {
        let op = func.op(inst);
        if !flow::has_partitions(op) {
            continue;
        }
        let at = body.iter().position(|i| *i == inst);
        let mut after = at.into_iter().flat_map(|at| &body[at + 1..]);
        // Every thread of the cluster executes its barriers for itself, which the threads of all partitions can.
        match after.find(|next| !func.op(**next).rules().synchronizes_cluster()) {
            Some(next) if func.op(*next).rules().terminator() == Some(Terminator::Return) => {}
            Some(next) => found.push(
                Diagnostic::error(
                    Code::MisplacedPartition,
                    func.place(*next),
                    "the kernel continues after `warp_specialize`",
                )
                .related(func.place(inst), "the partitions begin here")
                .help("write it inside a partition; only barriers of the cluster may follow"),
            ),
            None => found.push(broken(
                func,
                inst,
                "`warp_specialize` stands in the kernel's own body alone".into(),
            )),
        }
        for region in op.regions() {
            captures(func, region, found);
        }
    }
}

/// What a partition uses from outside must be the same in all threads.
fn captures(func: &Func, region: Region, found: &mut Diagnostics) {
    let mut insts: Vec<Inst> = Vec::new();
    func.walk_region(region, &mut insts);
    let mut said: EntitySet<Value> = EntitySet::new();
    for &inst in &insts {
        let mut outer = Values::new();
        func.op(inst).rules().visit(&mut |value| {
            let is_tile = matches!(func.ty(value), Type::Tensor(_) | Type::InFlight(_));
            if is_tile && !is_made_in(func, value, region) && said.insert(value) {
                outer.push(value);
            }
        });
        for value in outer {
            let name = func
                .name(value)
                .map_or_else(String::new, |n| format!(" `{n}`"));
            let message = format!(
                "this partition uses the tensor{name}, which was made before `warp_specialize`"
            );
            found.push(
                Diagnostic::error(Code::PartitionCapture, func.place(inst), message)
                    .related(
                        func.value_place(value),
                        "it was made here, in the registers of other threads",
                    )
                    .help("make it inside the partition, or pass it through shared memory"),
            );
        }
    }
}

/// Is it made in the region, or in one inside it?
fn is_made_in(func: &Func, value: Value, region: Region) -> bool {
    let first = match func.def(value) {
        ValueDef::Param(home, _) => home,
        ValueDef::Result(inst, _) => func.parent(inst),
    };
    let outer = |home: &Region| {
        let owner = func.region(*home).owner.expand()?;
        Some(func.parent(owner))
    };
    std::iter::successors(Some(first), outer).any(|home| home == region)
}
