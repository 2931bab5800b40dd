//! How one op carries a layout from one of its values to the others. The op says its rule; the layout module computes.

use ir::entity::{Inst, Value};
use ir::ops::{LayoutRule, flow, part};
use ir::{Func, Type, ValueDef};
use layout::{Layout, relate};
use smallvec::SmallVec;

/// The layouts that follow from one.
pub(super) struct Carried {
    /// The other values of the op.
    pub layouts: SmallVec<[(Value, Layout); 4]>,
    /// More than one layout would fit them.
    pub may_vary: bool,
    /// The op that ties them, which for the end of a region is the op that owns it.
    pub through: Inst,
}

/// The instructions besides its users that tie a value: the one that it is a result of, or whose region it comes into.
pub(super) fn owners(func: &Func, value: Value) -> Vec<Inst> {
    match func.def(value) {
        ValueDef::Result(inst, _) => vec![inst],
        ValueDef::Param(region, _) => func.region(region).owner.expand().into_iter().collect(),
    }
}

/// What follows for the other values of `inst` when `value` has `layout`.
pub(super) fn along(func: &Func, inst: Inst, value: Value, layout: &Layout) -> Carried {
    let rule = func.op(inst).rules().layout_rule();
    if rule == LayoutRule::Flow {
        return along_flow(func, inst, value, layout);
    }
    let sides = Sides {
        func,
        inst,
        is_result: func.results(inst).contains(&value),
    };
    let shape = func.ty(value).shape();
    let mut layouts = SmallVec::new();
    match &rule {
        LayoutRule::Same | LayoutRule::Along => {
            sides.to_operands(Some(layout.clone()), &mut layouts);
            sides.to_results(Some(layout.clone()), &mut layouts);
        }
        LayoutRule::AlongWithTotals { axis } => {
            let axis = *axis as usize;
            let results = func.results(inst);
            let totals = &results[results.len() / 2..];
            let own = if totals.contains(&value) {
                relate::expand_dims(layout, axis).ok()
            } else {
                Some(layout.clone())
            };
            if let Some(own) = own {
                let total = relate::reduce(&own, axis);
                layouts.extend(totals.iter().map(|v| (*v, total.clone())));
                layouts.extend(results[..totals.len()].iter().map(|v| (*v, own.clone())));
                sides.to_operands(Some(own), &mut layouts);
            }
        }
        LayoutRule::Keep => {
            let other = sides.shape_of_other_side();
            let down = |l: &Layout| Some(relate::keep(l, shape, &other));
            // What is wanted of the results alone need not be the layout of anything that they are kept of.
            let up = |l: &Layout| (relate::keep(l, &other, shape) == *l).then(|| l.clone());
            sides.both(layout, &mut layouts, down, up);
        }
        LayoutRule::Reduce { axis } => {
            let axis = *axis as usize;
            let down = |l: &Layout| Some(relate::reduce(l, axis));
            sides.both(layout, &mut layouts, down, |l| {
                relate::expand_dims(l, axis).ok()
            });
        }
        LayoutRule::ExpandDims { axis } => {
            let axis = *axis as usize;
            let down = |l: &Layout| relate::expand_dims(l, axis).ok();
            sides.both(layout, &mut layouts, down, |l| {
                Some(relate::reduce(l, axis))
            });
        }
        LayoutRule::Permute { order } => {
            let back = relate::inverse_order(order);
            let down = |l: &Layout| relate::permute(l, shape, order).ok();
            sides.both(layout, &mut layouts, down, |l| {
                relate::permute(l, shape, &back).ok()
            });
        }
        LayoutRule::Reshape => {
            let other = sides.shape_of_other_side();
            let carry = |l: &Layout| relate::reshape(l, shape, &other).ok();
            sides.both(layout, &mut layouts, carry, carry);
        }
        LayoutRule::Split => {
            let down = |l: &Layout| relate::split(l, shape).ok();
            sides.both(layout, &mut layouts, down, |l| relate::join(l, shape).ok());
        }
        LayoutRule::Join => {
            let down = |l: &Layout| relate::join(l, shape).ok();
            sides.both(layout, &mut layouts, down, |l| relate::split(l, shape).ok());
        }
        LayoutRule::Part(range) => {
            let extent = sides.shape_of_other_side();
            let down = |l: &Layout| relate::part(l, shape, *range).ok();
            sides.both(layout, &mut layouts, down, |l| {
                relate::whole(l, shape, *range, extent[range.axis]).ok()
            });
        }
        LayoutRule::Cat { axis } => along_cat(&sides, *axis, (value, layout), &mut layouts),
        LayoutRule::Gather => {
            let operands = func.op(inst).operands();
            let source = operands.first();
            if source != Some(&value) {
                let tied = operands.iter().skip(1).chain(func.results(inst));
                layouts.extend(tied.map(|v| (*v, layout.clone())));
            }
        }
        LayoutRule::Free | LayoutRule::Set | LayoutRule::Flow => {}
    }
    Carried {
        layouts,
        may_vary: fits_several(&rule),
        through: inst,
    }
}

/// Do several layouts of one side fit the same layout of the other?
fn fits_several(rule: &LayoutRule) -> bool {
    matches!(
        rule,
        LayoutRule::Permute { .. }
            | LayoutRule::Reshape
            | LayoutRule::Split
            | LayoutRule::Join
            | LayoutRule::Part(_)
            | LayoutRule::Cat { .. }
    )
}

/// The whole has the layout that follows from one part, and the other parts are ranges of it.
fn along_cat(
    sides: &Sides<'_>,
    axis: usize,
    (value, layout): (Value, &Layout),
    out: &mut SmallVec<[(Value, Layout); 4]>,
) {
    let func = sides.func;
    let operands = func.op(sides.inst).operands();
    let result = func.result(sides.inst);
    let shape = func.ty(result).shape();
    let ranges = part::ranges(func, &operands, axis);
    let parts: Vec<_> = operands.into_iter().zip(ranges).collect();
    let whole = match parts.iter().find(|(operand, _)| *operand == value) {
        Some((_, range)) if !sides.is_result => {
            let own = func.ty(value).shape();
            relate::whole(layout, own, *range, shape[range.axis]).ok()
        }
        _ => Some(layout.clone()),
    };
    let Some(whole) = whole else { return };
    for (operand, range) in parts {
        if let Ok(own) = relate::part(&whole, shape, range) {
            out.push((operand, own));
        }
    }
    out.push((result, whole));
}

/// What flows together has one layout.
fn along_flow(func: &Func, inst: Inst, value: Value, layout: &Layout) -> Carried {
    let mut owner = inst;
    if func.op(inst).rules().is_terminator() {
        owner = func
            .region(func.parent(inst))
            .owner
            .expand()
            .unwrap_or(inst);
    }
    let mut layouts = SmallVec::new();
    for slot in flow::slots(func, owner) {
        if slot.values().any(|v| v == value) {
            layouts.extend(slot.values().map(|v| (v, layout.clone())));
        }
    }
    Carried {
        layouts,
        may_vary: false,
        through: owner,
    }
}

/// The two sides of an op, seen from a value on one of them.
struct Sides<'f> {
    func: &'f Func,
    inst: Inst,
    is_result: bool,
}

impl Sides<'_> {
    /// The values on the same side get the same layout; those on the other side what `down` (to the results) or `up` (to
    /// the operands) makes of it.
    fn both(
        &self,
        layout: &Layout,
        out: &mut SmallVec<[(Value, Layout); 4]>,
        down: impl Fn(&Layout) -> Option<Layout>,
        up: impl Fn(&Layout) -> Option<Layout>,
    ) {
        let (operands, results) = if self.is_result {
            (up(layout), Some(layout.clone()))
        } else {
            (Some(layout.clone()), down(layout))
        };
        self.to_operands(operands, out);
        self.to_results(results, out);
    }

    fn to_operands(&self, layout: Option<Layout>, out: &mut SmallVec<[(Value, Layout); 4]>) {
        if let Some(layout) = layout {
            self.func
                .op(self.inst)
                .rules()
                .visit(&mut |v| out.push((v, layout.clone())));
        }
    }

    fn to_results(&self, layout: Option<Layout>, out: &mut SmallVec<[(Value, Layout); 4]>) {
        if let Some(layout) = layout {
            out.extend(
                self.func
                    .results(self.inst)
                    .iter()
                    .map(|v| (*v, layout.clone())),
            );
        }
    }

    fn shape_of_other_side(&self) -> SmallVec<[u32; 4]> {
        let other = if self.is_result {
            self.func.op(self.inst).operands().first().copied()
        } else {
            self.func.results(self.inst).first().copied()
        };
        other
            .map(|v| self.func.ty(v))
            .map_or(SmallVec::new(), |ty: &Type| ty.shape().into())
    }
}
