//! Values that cost nothing to make again: where two layouts of one are wanted, each gets its own.
//!
//! Such a value is an index, a constant, a pointer, or what elementwise ops make of these. When layouts contradict each
//! other and a value like that lies on the way between the two origins, the user on one side of it gets a copy:
//!
//! ```text
//! %i = arange : coalesced            %i = arange : coalesced
//! %p = ptr_add %x, %i                %p = ptr_add %x, %i
//! %q = ptr_add %y, %i         ->     %i.1 = arange : coalesced
//! %a = load %p                       %q = ptr_add %y, %i.1
//! %b = load %q                       %a = load %p
//! ```
//!
//! Where no such value lies between, as when one load's result goes into the other, the contradiction is the author's.

use std::collections::HashMap;

use cranelift_entity::packed_option::PackedOption;
use cranelift_entity::{EntitySet, SecondaryMap};
use ir::Func;
use ir::entity::{Inst, Value};
use ir::ops::{LayoutRule, Op, Values, flow};
use layout::Layout;

use super::carry;
use super::inference::{Conflict, Entry, Inference, Origin};

/// One user of a value that shall have a copy of it in a layout of its own.
pub(super) struct Cut {
    value: Value,
    user: Inst,
    /// The copy's layout.
    layout: Layout,
    /// Another value that `user` ties to this one: of several things that flow through control flow, the one meant.
    tied_to: Option<Value>,
}

/// Where to cut the way between the two origins of a conflict; none if no value that can be made again lies on it.
pub(super) fn cut(func: &Func, inference: &Inference<'_>, conflict: &Conflict) -> Option<Cut> {
    let Conflict {
        value,
        first,
        second,
    } = conflict;
    let rematerializable = rematerializable(func, inference.open());
    let along = |moving, staying| {
        along_way(
            (func, inference),
            &rematerializable,
            *value,
            moving,
            staying,
        )
    };
    along(second, &first.layout).or_else(|| along(first, &second.layout))
}

/// Follows the path along which `moving` reached `value`, as if `value` had the layout `staying`.
fn along_way(
    (func, inference): (&Func, &Inference<'_>),
    rematerializable: &EntitySet<Value>,
    value: Value,
    moving: &Entry,
    staying: &Layout,
) -> Option<Cut> {
    let (mut at, mut entry, mut layout) = (value, moving.clone(), staying.clone());
    for _ in 0..func.value_count() {
        let (from, user) = match entry.origin {
            Origin::Seed(user) => (None, user),
            Origin::Through(from, user) => (Some(from), user),
        };
        let uses = |v: Value| func.def_inst(v) != Some(user);
        let cut_at = |value: Value, layout: Layout, tied_to: Option<Value>| Cut {
            value,
            user,
            layout,
            tied_to,
        };
        if uses(at) && rematerializable.contains(at) {
            return Some(cut_at(at, entry.layout, from));
        }
        let from = from?;
        // What decides for its operands decides for their copies too.
        if inference.is_seed(user) {
            return None;
        }
        let carried = carry::along(func, user, at, &layout);
        layout = layout_of(from, carried)?;
        if uses(from) && rematerializable.contains(from) {
            return Some(cut_at(from, layout, Some(at)));
        }
        entry = inference.entry(from)?.clone();
        at = from;
    }
    None
}

fn layout_of(value: Value, carried: carry::Carried) -> Option<Layout> {
    let mut layouts = carried.layouts.into_iter();
    layouts.find_map(|(v, layout)| (v == value).then_some(layout))
}

/// The values with an open layout that are made, all the way from scalars, by ops that are as good done twice.
pub(super) fn rematerializable(func: &Func, open: &Layout) -> EntitySet<Value> {
    let mut values = EntitySet::with_capacity(func.value_count());
    // Makers come before their users.
    for inst in func.walk() {
        if is_cheap(func, inst) && tensors_in(func, inst).all(|v| values.contains(v)) {
            let results = func.results(inst).iter();
            let open = results.filter(|v| func.ty(**v).layout() == Some(open));
            values.extend(open.copied());
        }
    }
    values
}

fn is_cheap(func: &Func, inst: Inst) -> bool {
    let op = func.op(inst);
    let rules = op.rules();
    let moves_nothing = match rules.layout_rule() {
        LayoutRule::Same | LayoutRule::ExpandDims { .. } => true,
        // An index or a constant; what has tensors and yet is free moves their elements.
        LayoutRule::Free => tensors_in(func, inst).next().is_none(),
        _ => false,
    };
    moves_nothing
        && func.results(inst).len() == 1
        && rules.effects().is_pure()
        && op.regions().is_empty()
}

fn tensors_in(func: &Func, inst: Inst) -> impl Iterator<Item = Value> + '_ {
    let operands = func.op(inst).operands().into_iter();
    operands.filter(|v| func.ty(*v).as_tensor().is_some())
}

/// The copies made so far, so that all who want one layout of a value share one copy.
#[derive(Default)]
pub(super) struct Copies {
    made: HashMap<(Value, Layout), Value>,
    originals: SecondaryMap<Value, PackedOption<Value>>,
}

impl Copies {
    /// Gives the user its copy.
    pub(super) fn apply(&mut self, func: &mut Func, cut: &Cut) {
        let copy = self.copy(func, cut.value, &cut.layout);
        let slots = flow::slots(func, cut.user);
        let is_meant = |slot: &flow::Slot| {
            let has = |value: Value| slot.values().any(|v| v == value);
            has(cut.value) && cut.tied_to.is_none_or(has)
        };
        match slots.iter().position(is_meant) {
            Some(at) => flow::replace_in_slot(func, cut.user, at, cut.value, copy),
            None => func.op_mut(cut.user).rules_mut().visit_mut(&mut |v| {
                if *v == cut.value {
                    *v = copy;
                }
            }),
        }
    }

    fn copy(&mut self, func: &mut Func, value: Value, layout: &Layout) -> Value {
        let original = self.originals[value].expand().unwrap_or(value);
        let key = (original, layout.clone());
        if let Some(&copy) = self.made.get(&key)
            && func.def_inst(copy).is_some_and(|inst| func.is_placed(inst))
        {
            return copy;
        }
        let Some(maker) = func.def_inst(value) else {
            return value;
        };
        let carried = carry::along(func, maker, value, layout).layouts;
        let mut op = func.op(maker).clone();
        let mut operands: Values = op.operands();
        for operand in &mut operands {
            if let Some((_, layout)) = carried.iter().find(|(v, _)| v == operand)
                && func.ty(*operand).as_tensor().is_some()
            {
                *operand = self.copy(func, *operand, layout);
            }
        }
        let mut next = operands.into_iter();
        op.rules_mut()
            .visit_mut(&mut |v| *v = next.next().unwrap_or(*v));
        let copy = insert_after(func, maker, op);
        self.originals[copy] = original.into();
        self.made.insert(key, copy);
        copy
    }
}

/// A second instruction behind `maker`, with a result like its own.
fn insert_after(func: &mut Func, maker: Inst, op: Op) -> Value {
    let result = func.result(maker);
    let types = std::iter::once(func.ty(result).clone()).collect();
    let inst = func.make_inst(op, types, func.loc(maker));
    let (region, at) = (func.parent(maker), func.index_in_region(maker));
    func.insert(region, at + 1, inst);
    let copy = func.result(inst);
    if let Some(name) = func.name(result).map(str::to_owned) {
        func.set_name(copy, &name);
    }
    copy
}
