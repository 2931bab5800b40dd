//! Where warps part: once, at the end, and each partition with tiles of its own.

use cranelift_entity::EntitySet;

use super::broken;
use crate::diag::{Code, Diagnostic, Diagnostics};
use crate::entity::{Inst, Region, Value};
use crate::ir::{Func, Type, ValueDef};
use crate::ops::{Op, Values, flow};

pub(super) fn check(func: &Func, insts: &[Inst], found: &mut Diagnostics) {
    let body = &func.region(func.body).insts;
    for &inst in insts {
        let op = func.op(inst);
        if !flow::is_parallel(op) {
            continue;
        }
        let at = body.iter().position(|i| *i == inst);
        match at.and_then(|at| body.get(at + 1)) {
            Some(next) if matches!(func.op(*next), Op::Return(_)) => {}
            Some(next) => found.push(
                Diagnostic::error(
                    Code::MisplacedPartition,
                    func.place(*next),
                    "the kernel goes on after its warps have parted",
                )
                .related(func.place(inst), "they part here")
                .help("write it inside a partition"),
            ),
            None => found.push(broken(
                func,
                inst,
                "warps part in the kernel's own body alone".into(),
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
                "this partition uses the tensor{name}, which was made before the warps parted"
            );
            found.push(
                Diagnostic::error(Code::PartitionCapture, func.place(inst), message)
                    .related(
                        func.value_place(value),
                        "it was made here, and lies in the registers of those threads",
                    )
                    .help("make it inside the partition, or hand it over through shared memory"),
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
