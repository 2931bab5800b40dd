//! Resolves the layouts `Auto` and `Coalesced`.
//!
//! `resolve-coalesced` lets each load and store through `Coalesced` pointers choose; `resolve-auto` starts from every
//! `set_layout`. Both let layouts travel along the ties of ops, forward and backward and round loops, until nothing
//! changes. Of two layouts that reach one value, one that came through an op which several layouts fit (a reshape, a
//! permutation, a join, a split) yields. Two others contradict each other: an index, or what else can as well be made
//! twice, is then made once for each, and everything else is reported with both origins.
//!
//! Accesses that are connected by values share one width. Where that ends in a contradiction, those that share no more
//! than an index choose for themselves.

mod carry;
mod coalesced;
mod inference;
mod rematerialize;
mod report;

#[cfg(test)]
mod tests;

use cranelift_entity::SecondaryMap;
use cranelift_entity::packed_option::PackedOption;
use diag::Diagnostics;
use ir::Func;
use ir::entity::{Inst, Region, Value};
use ir::ops::LayoutRule;
use layout::Layout;

use crate::opt::unused;
use coalesced::{Choice, Connections};
use inference::Inference;
use rematerialize::Copies;

/// More than the layouts of one kernel.
const MAX_ROUNDS_PER_INST: usize = 4;

/// `resolve-coalesced`: accesses choose the layouts of their tensors.
pub fn coalesced(func: &mut Func, found: &mut Diagnostics) {
    if !has_open(func, &Layout::Coalesced) {
        return;
    }
    let mut first = Diagnostics::default();
    let before = func.clone();
    let all = Connections::All;
    resolve_choices(func, &coalesced::choices(&before, all), &mut first);
    if !first.has_errors() {
        return found.0.append(&mut first.0);
    }
    // Accesses that share an index alone need not agree on a width: each can have an index of its own.
    *func = before.clone();
    let mut second = Diagnostics::default();
    let moved = Connections::ThroughWhatIsNotRematerialized;
    resolve_choices(func, &coalesced::choices(&before, moved), &mut second);
    if second.has_errors() {
        *func = before;
        second = first;
    }
    found.0.append(&mut second.0);
}

fn resolve_choices(func: &mut Func, choices: &[Choice], found: &mut Diagnostics) {
    resolve(func, &Layout::Coalesced, found, |func, inference| {
        for choice in choices {
            for value in func.op(choice.inst).operands() {
                inference.seed(value, choice.layout.clone(), choice.inst);
            }
        }
    });
}

/// `resolve-auto`: what `set_layout` says spreads to everything that has an open layout; no `set_layout` is left.
pub fn auto(func: &mut Func, found: &mut Diagnostics) {
    let insts = func.walk();
    if has_open(func, &Layout::Auto) {
        resolve(func, &Layout::Auto, found, |func, inference| {
            for &inst in &insts {
                let Some(operand) = layout_set_for(func, inst) else {
                    continue;
                };
                if let Some(layout) = func.ty(func.result(inst)).layout() {
                    inference.seed(operand, layout.clone(), inst);
                }
            }
        });
    }
    if !found.has_errors() {
        erase_set_layouts(func);
    }
}

fn has_open(func: &Func, open: &Layout) -> bool {
    func.values().any(|v| func.ty(v).layout() == Some(open))
}

fn resolve(
    func: &mut Func,
    open: &Layout,
    found: &mut Diagnostics,
    seed: impl Fn(&Func, &mut Inference<'_>),
) {
    let mut copies = Copies::default();
    // Each round moves one use to a copy; one that moves back and forth would be a contradiction after all.
    let mut rounds_left = MAX_ROUNDS_PER_INST * func.inst_count();
    loop {
        // The inference looks at the kernel as it was; what it finds is entered into a copy.
        let before = func.clone();
        let mut inference = Inference::new(&before, open.clone());
        seed(&before, &mut inference);
        let Err(conflict) = inference.run() else {
            return enter(func, &before, &inference, open, found);
        };
        let cut = rematerialize::cut(&before, &inference, &conflict).filter(|_| rounds_left > 0);
        let Some(cut) = cut else {
            found.push(report::conflict(&before, &inference, &conflict, open));
            return;
        };
        rounds_left -= 1;
        copies.apply(func, &cut);
        // What only the other side used would be left without a layout.
        unused::run(func, found);
    }
}

/// Gives the values the layouts found, and reports those that do not fit and those that are still open.
fn enter(
    func: &mut Func,
    before: &Func,
    inference: &Inference<'_>,
    open: &Layout,
    found: &mut Diagnostics,
) {
    for (value, ty) in inference.found() {
        func.set_ty(value, ty);
    }
    report::misfits(func, inference, found);
    // An op that cannot carry a layout on leaves what follows open; that is its mistake, not theirs.
    if !found.has_errors() {
        report::unresolved(before, inference, open, found);
    }
}

/// The operand whose layout the instruction sets.
fn layout_set_for(func: &Func, inst: Inst) -> Option<Value> {
    let op = func.op(inst).rules();
    let sets = op.layout_rule() == LayoutRule::Set;
    op.moved_operand().filter(|_| sets)
}

/// Replaces every `set_layout` by its operand, which has its layout now.
fn erase_set_layouts(func: &mut Func) {
    let mut replaced: SecondaryMap<Value, PackedOption<Value>> = SecondaryMap::new();
    let mut any = false;
    for inst in func.walk() {
        if let Some(operand) = layout_set_for(func, inst) {
            let result = func.result(inst);
            replaced[result] = operand.into();
            any = true;
            if func.name(operand).is_none()
                && let Some(name) = func.name(result).map(str::to_owned)
            {
                func.set_name(operand, &name);
            }
        }
    }
    if any {
        func.replace_uses(&replaced);
        drop_set_layouts(func, func.body);
    }
}

fn drop_set_layouts(func: &mut Func, region: Region) {
    let old = func.region(region).insts.clone();
    let kept: Vec<_> = old
        .iter()
        .copied()
        .filter(|i| layout_set_for(func, *i).is_none())
        .collect();
    for &inst in &kept {
        for inner in func.op(inst).regions() {
            drop_set_layouts(func, inner);
        }
    }
    if kept.len() != old.len() {
        func.set_insts(region, kept);
    }
}
