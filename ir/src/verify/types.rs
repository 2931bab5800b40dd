//! Types, and the obligations of each stage.

use cranelift_entity::EntitySet;

use super::known::KnownTypes;
use super::structure::broken;
use super::tensors::check_tensor;
use crate::OpError;
use crate::entity::{Inst, Value};
use crate::ops::control::yielded;
use crate::ops::{LayoutRule, Types};
use crate::{Func, Stage, Type};
use diag::{Code, Diagnostic, Diagnostics};
use layout::Layout;

pub(super) fn check(
    func: &Func,
    insts: &[Inst],
    stage: Stage,
    known: &mut KnownTypes,
    found: &mut Diagnostics,
) {
    for &value in &func.region(func.body).params {
        match func.ty(value) {
            Type::Scalar(_) => {}
            Type::TensorMap(m) => {
                if let Err((code, message)) = known.check_map(m, func) {
                    let d = Diagnostic::error(code, func.value_place(value), message);
                    found.push(
                        d.help("write `#[block([64, 64], Nvmma::B128)]` before the parameter"),
                    );
                }
            }
            _ => found.push(Diagnostic::error(
                Code::BrokenRule,
                None,
                "a kernel's parameters are scalars and tensor maps",
            )),
        }
    }
    // An op is asked about values that may exist, and about no others: it may compute with their shapes and layouts.
    let mut broken_values = EntitySet::new();
    for &inst in insts {
        let mut is_broken = false;
        let regions = func.op(inst).regions();
        let params = regions.iter().flat_map(|r| &func.region(*r).params);
        for &value in func.results(inst).iter().chain(params) {
            let before = found.0.len();
            check_value(func, stage, inst, value, known, found);
            if found.0.len() > before {
                forget_repeated(found, before);
                broken_values.insert(value);
                is_broken = true;
            }
        }
        let mut visit = |value| is_broken |= broken_values.contains(value);
        func.op(inst).rules().visit(&mut visit);
        for &region in &regions {
            for &value in yielded(func, region) {
                visit(value);
            }
        }
        if !is_broken {
            check_inst(func, stage, inst, found);
        }
    }
}

/// A layout that cannot be is said once, where its first tensor is made.
fn forget_repeated(found: &mut Diagnostics, first_new: usize) {
    let (old, new) = found.0.split_at(first_new);
    let is_said = |d: &Diagnostic| {
        old.iter()
            .any(|o| (o.code, &o.message) == (d.code, &d.message))
    };
    if new.iter().all(is_said) {
        found.0.truncate(first_new);
    }
}

fn check_inst(func: &Func, stage: Stage, inst: Inst, found: &mut Diagnostics) {
    let op = func.op(inst);
    let given: Types = func
        .results(inst)
        .iter()
        .map(|v| func.ty(*v).clone())
        .collect();
    match op.rules().result_types(func, &given) {
        Err(error) => found.push(func.diagnose(error, func.loc(inst))),
        Ok(right) if right != given => {
            let show = |types: &Types| {
                types
                    .iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
                    .join(", ")
            };
            let message = format!(
                "the results of `{}` are ({}), not ({})",
                op.rules().mnemonic(),
                show(&right),
                show(&given)
            );
            found.push(broken(func, inst, message));
        }
        Ok(_) => {}
    }
    if let Some(scratch) = op.rules().scratch()
        && scratch.end() > func.shared_bytes
    {
        let message = format!(
            "the scratch bytes {scratch} exceed the {} shared bytes of the kernel",
            func.shared_bytes
        );
        found.push(broken(func, inst, message));
    }
    if let Err(error) = check_within_cta(func, inst) {
        found.push(func.diagnose(error, func.loc(inst)));
    }
    if stage >= Stage::Resolved && op.rules().layout_rule() == LayoutRule::Set {
        found.push(broken(
            func,
            inst,
            "`set_layout` is left after the layouts were resolved".into(),
        ));
    }
}

/// A tile of shared memory belongs to one CTA, and so does what most ops move between it and registers.
fn check_within_cta(func: &Func, inst: Inst) -> Result<(), OpError> {
    let op = func.op(inst);
    let rules = op.rules();
    let is_in_shared = rules.allocation().is_some() || !rules.shared_accesses().is_empty();
    if !is_in_shared || rules.does_cta_parts() {
        return Ok(());
    }
    let results = func.results(inst).iter().copied();
    for value in op.operands().into_iter().chain(results) {
        let layout = func.ty(value).layout();
        if let Some(ctas) = layout.and_then(Layout::ctas).filter(|&ctas| ctas > 1) {
            let message = format!(
                "`{}` moves what one CTA has, and this {} is spread over {ctas}",
                rules.mnemonic(),
                func.ty(value)
            );
            let error = OpError::new(Code::InvalidLayout, message);
            return Err(error.help("give each CTA a tile of its own: take a layout without `with_ctas(..)`, and the part of the tensor that `cluster_rank()` names"));
        }
    }
    Ok(())
}

fn check_value(
    func: &Func,
    stage: Stage,
    inst: Inst,
    value: Value,
    known: &mut KnownTypes,
    found: &mut Diagnostics,
) {
    match func.ty(value) {
        Type::Poison => found.push(broken(
            func,
            inst,
            "a value of a reported mistake is left".into(),
        )),
        Type::Scalar(_) => {}
        Type::TensorMap(m) => {
            if let Err((code, message)) = known.check_map(m, func) {
                found.push(Diagnostic::error(code, func.place(inst), message));
            }
        }
        Type::Smem(s) => {
            if let Err(error) = known.check_smem(s, func) {
                found.push(func.diagnose(error, func.loc(inst)));
            }
        }
        Type::Tensor(t) | Type::InFlight(t) => {
            if let Err(error) = check_tensor(t, stage, func.warps_at(inst), func.cluster_ctas()) {
                found.push(func.diagnose(error, func.loc(inst)));
            }
        }
    }
}
