//! What is said when layouts contradict one another, or when nothing decides one.

use cranelift_entity::{SecondaryMap, packed_option::PackedOption};
use diag::{Code, Diagnostic, Diagnostics};
use ir::entity::{Inst, Value};
use ir::ops::LayoutRule;
use ir::{Func, ValueDef};
use layout::{Layout, spread};

use super::inference::{Conflict, Entry, Inference, Origin};

/// Two layouts that both must hold of one value: where each was decided, how it came, and the value between.
pub(super) fn conflict(
    func: &Func,
    inference: &Inference<'_>,
    conflict: &Conflict,
    open: &Layout,
) -> Diagnostic {
    let Conflict {
        value,
        first,
        second,
    } = conflict;
    let (a, b) = (&first.layout, &second.layout);
    let message = format!("two layouts reach {}: {a} and {b}", described(func, *value));
    let seeds = [first, second].map(|entry| (inference.seed_of(entry), entry));
    let mut d = Diagnostic::error(Code::LayoutConflict, func.value_place(*value), message)
        .labelled("it can have only one of them");
    for (seed, entry) in seeds {
        d = d.related(func.place(seed), decides(func, seed, entry));
    }
    for (seed, entry) in seeds {
        if let Some(way) = way(func, inference, entry) {
            d = d.note(format!(
                "{} comes from the `{}` through {way}",
                entry.layout,
                mnemonic(func, seed)
            ));
        }
    }
    d.help(format!(
        "write `.convert_layout({open:?})` between the two, or compute the value once for each"
    ))
}

/// Values whose layout is unresolved. Of those that one layout would resolve together, the first is reported.
pub(super) fn unresolved(
    func: &Func,
    inference: &Inference<'_>,
    open: &Layout,
    found: &mut Diagnostics,
) {
    let mut groups = Groups::of(func, inference);
    let mut reported = Vec::new();
    for value in unresolved_makers(func, inference) {
        let group = groups.root(value);
        if reported.contains(&group) {
            continue;
        }
        reported.push(group);
        let place = func.value_place(value);
        let d = Diagnostic::error(Code::UnresolvedLayout, place, undecided(func, value, open));
        let d = d.labelled("made here, and no operation on it has a layout");
        let d = d.help(help(func, value, open));
        // A loop that unrolls makes the same mistake over and over.
        if !found.0.contains(&d) {
            found.push(d);
        }
    }
}

/// Open values, grouped by the ops that tie their layouts.
struct Groups(SecondaryMap<Value, PackedOption<Value>>);

impl Groups {
    fn of(func: &Func, inference: &Inference<'_>) -> Groups {
        let mut groups = Groups(SecondaryMap::new());
        for inst in func.walk() {
            let op = func.op(inst);
            if matches!(op.rules().layout_rule(), LayoutRule::Free) {
                continue;
            }
            let operands = op.operands().into_iter();
            let mut open = operands
                .chain(func.results(inst).iter().copied())
                .filter(|v| inference.is_open(*v) && inference.entry(*v).is_none());
            let Some(first) = open.next() else { continue };
            for other in open {
                let (a, b) = (groups.root(first), groups.root(other));
                if a != b {
                    groups.0[b] = a.into();
                }
            }
        }
        groups
    }

    /// The value that stands for the group of `value`.
    fn root(&mut self, mut value: Value) -> Value {
        while let Some(parent) = self.0[value].expand() {
            value = parent;
        }
        value
    }
}

fn undecided(func: &Func, value: Value, open: &Layout) -> String {
    let value = described(func, value);
    match open {
        Layout::Coalesced => format!("no load or store chooses a layout for {value}"),
        _ => format!("no operation determines the layout of {value}"),
    }
}

/// Says a layout that the tensor can have, since any will do.
fn help(func: &Func, value: Value, open: &Layout) -> String {
    let shape = func
        .ty(value)
        .as_tensor()
        .map(|tensor| tensor.shape.clone());
    let shape = shape.unwrap_or_default();
    let order = (0..shape.rank() as u32).rev().collect();
    let warps = match func.def(value) {
        ValueDef::Result(inst, _) => func.warps_at(inst),
        ValueDef::Param(..) => func.warps,
    };
    let one = spread(&shape, &order, 1, warps).to_string();
    let one = format!("`{}`, say", one.replacen('(', "::new(", 1));
    match open {
        Layout::Coalesced => format!(
            "give it a layout, {one}, or `Auto` if another operand determines it: `Coalesced` is resolved by loads and stores of global memory"
        ),
        _ => format!("give it a layout where it is made, {one}, or set it with `set_layout`"),
    }
}

/// Unresolved values all of whose maker's operands are resolved: the rest follows from them.
fn unresolved_makers(func: &Func, inference: &Inference<'_>) -> Vec<Value> {
    let is_unresolved = |value: Value| inference.is_open(value) && inference.entry(value).is_none();
    let mut makers = Vec::new();
    for inst in func.walk() {
        let follows = func.op(inst).operands().iter().any(|v| is_unresolved(*v));
        let has_regions = !func.op(inst).regions().is_empty();
        if !follows && !has_regions {
            makers.extend(
                func.results(inst)
                    .iter()
                    .copied()
                    .filter(|v| is_unresolved(*v)),
            );
        }
    }
    makers
}

/// What the ops say of the layouts that were found: an expansion of what is no slice, a reshape into another place.
pub(super) fn misfits(func: &Func, inference: &Inference<'_>, found: &mut Diagnostics) {
    for inst in func.walk() {
        let given: ir::ops::Types = func
            .results(inst)
            .iter()
            .map(|v| func.ty(*v).clone())
            .collect();
        let op = func.op(inst);
        let touched = op
            .operands()
            .into_iter()
            .chain(func.results(inst).iter().copied());
        let decided: Vec<Value> = touched.filter(|v| inference.entry(*v).is_some()).collect();
        if decided.is_empty() {
            continue;
        }
        let d = match op.rules().result_types(func, &given) {
            Err(error) => func.diagnose(error, func.loc(inst)),
            Ok(types) if types != given => {
                misfit(func, inst, &types[0].to_string(), &given[0].to_string())
            }
            Ok(_) => continue,
        };
        found.push(with_origins(func, inference, &decided, d));
    }
}

fn misfit(func: &Func, inst: Inst, gives: &str, wanted: &str) -> Diagnostic {
    let message = format!(
        "`{}` gives {gives} here, and {wanted} is wanted of it",
        mnemonic(func, inst)
    );
    let d = Diagnostic::error(Code::LayoutMismatch, func.place(inst), message);
    d.help("apply `convert_layout` to its result")
}

/// Adds where the layouts of the values were decided.
fn with_origins(
    func: &Func,
    inference: &Inference<'_>,
    values: &[Value],
    mut d: Diagnostic,
) -> Diagnostic {
    let mut reported: Vec<(Inst, &Layout)> = Vec::new();
    for entry in values.iter().filter_map(|v| inference.entry(*v)) {
        let seed = inference.seed_of(entry);
        if !reported.contains(&(seed, &entry.layout)) {
            reported.push((seed, &entry.layout));
            let text = match way(func, inference, entry) {
                Some(way) => format!(
                    "{} follows from the `{}` here, through {way}",
                    entry.layout,
                    mnemonic(func, seed)
                ),
                None => decides(func, seed, entry),
            };
            d = d.related(func.place(seed), text);
        }
    }
    d
}

fn decides(func: &Func, seed: Inst, entry: &Entry) -> String {
    let rules = func.op(seed).rules();
    let verb = match entry.origin {
        Origin::Through(_, last) if last != seed => "leads to",
        _ if rules.effects().is_pure() => "asks for",
        _ => "chooses",
    };
    format!("this `{}` {verb} {}", mnemonic(func, seed), entry.layout)
}

/// The ops between a seed and a value, from the seed on.
fn way(func: &Func, inference: &Inference<'_>, entry: &Entry) -> Option<String> {
    let mut names: Vec<String> = Vec::new();
    let seed = inference.seed_of(entry);
    for inst in inference
        .way_of(entry)
        .into_iter()
        .rev()
        .filter(|i| *i != seed)
    {
        let name = format!("`{}`", mnemonic(func, inst));
        if names.last() != Some(&name) {
            names.push(name);
        }
    }
    (!names.is_empty()).then(|| names.join(", "))
}

/// The op as the author writes it.
fn mnemonic(func: &Func, inst: Inst) -> &'static str {
    func.op(inst).rules().name_in_source()
}

/// `` `x`, a 64x32xf32 tensor ``.
fn described(func: &Func, value: Value) -> String {
    let ty = func.ty(value);
    let elem = ty.elem().map(|e| e.to_string());
    let dims = ty.shape().iter().map(ToString::to_string).chain(elem);
    let shape = dims.collect::<Vec<_>>().join("x");
    match func.name(value) {
        Some(name) => format!("`{name}`, a {shape} tensor"),
        None => format!("a {shape} tensor"),
    }
}
