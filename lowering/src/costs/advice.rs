//! What an author can do about an access that is narrow or split.
//!
//! What a hint would give is not estimated: the kernel is compiled once more as if its author had written it.
//!
//! Matches on ops: advice names what the author wrote: a load, a store, an atomic.

use ir::Func;
use ir::elem::Elem;
use ir::entity::{Inst, Value};
use ir::ops::Op;

use super::checked;
use crate::analysis::access::blame::{self, Culprit};
use crate::analysis::access::{AccessPlan, Accesses, Cut, GlobalPlan, Limit};
use crate::analysis::axis::Axes;

/// The lines for the access that `inst` is.
pub(super) fn of(traced: &Func, accesses: &Accesses<'_>, inst: Inst) -> Vec<String> {
    let advice = Advice {
        traced,
        accesses,
        inst,
    };
    if let Some(plan) = accesses.global(inst) {
        let is_tensor = accesses.func().ty(plan.pointers).as_tensor().is_some();
        let lines = [advice.width(&plan), advice.split(&plan)];
        return lines.into_iter().flatten().filter(|_| is_tensor).collect();
    }
    let shared = accesses.shared(inst).filter(|plan| !plan.is_remote);
    shared
        .and_then(|plan| shared_width(&plan.access))
        .into_iter()
        .collect()
}

struct Advice<'a> {
    /// The kernel as the author wrote it.
    traced: &'a Func,
    /// Its accesses after the passes.
    accesses: &'a Accesses<'a>,
    inst: Inst,
}

impl Advice<'_> {
    fn func(&self) -> &Func {
        self.accesses.func()
    }

    /// Why the access is not wider.
    fn width(&self, plan: &GlobalPlan) -> Option<String> {
        let why = match plan.access.limit {
            Limit::Widest => return None,
            Limit::Contiguity(_) => self.contiguity(plan),
            Limit::Alignment(known) => self.alignment(plan, known),
            Limit::Layout(in_row) => self.layout(plan, in_row),
            Limit::Mask => "the mask may differ for each element of the vector; a bound check (`index < bound`, with a scalar bound) does not narrow the access".to_owned(),
            Limit::Element => self.element(),
        };
        Some(format!("{}: {why}", bytes(plan.access.bytes)))
    }

    fn element(&self) -> String {
        let name = self.func().op(self.inst).rules().mnemonic();
        let drops_result = match self.func().op(self.inst) {
            Op::AtomicRmw(_) => "; only float additions whose old values are unused are vectorized",
            _ => "",
        };
        format!("`{name}` accesses each element by one instruction{drops_result}")
    }

    fn contiguity(&self, plan: &GlobalPlan) -> String {
        let (func, axes) = (self.func(), self.accesses.axes());
        let size = func.ty(plan.pointers).shape()[plan.dim];
        let known = axes.contiguity(plan.pointers, plan.dim);
        if known >= size {
            return format!(
                "the tile is {} along dimension {}",
                elements(size),
                plan.dim
            );
        }
        if axes.stride(plan.pointers, plan.dim) == Some(0) {
            return "all elements of a row have one address".to_owned();
        }
        let Some(by) = blame::distance(func, axes, plan.pointers, plan.dim) else {
            return format!(
                "only runs of {} are known to be contiguous; `.max_contiguous(..)` on the offsets promises more",
                elements(known)
            );
        };
        let who = self.named(by);
        match axes.constant(by) {
            Some(by) => format!("neighbouring elements are {by} apart"),
            None if func.ty(by).as_tensor().is_some() => format!(
                "the offsets are loaded ({who}), without known contiguity or divisibility; promise it by `.max_contiguous(..)` and `.multiple_of(..)`"
            ),
            None => format!(
                "neighbouring elements are {who} apart, which is not known to be 1; remove it if it is 1, or order the lanes along the other dimension"
            ),
        }
    }

    fn alignment(&self, plan: &GlobalPlan, known: u32) -> String {
        let (func, axes) = (self.func(), self.accesses.axes());
        let (pointers, dim) = (plan.pointers, plan.dim);
        let culprits =
            blame::divisibility(func, axes, pointers, dim, func.target.access.widest_bytes);
        let (fixed, open): (Vec<Culprit>, Vec<Culprit>) = culprits
            .iter()
            .partition(|culprit| axes.constant(culprit.value).is_some());
        if let Some(number) = fixed
            .first()
            .and_then(|culprit| axes.constant(culprit.value))
        {
            return format!("the constant {number} aligns vectors to {}", bytes(known));
        }
        if open.is_empty() {
            return format!("runs begin at multiples of {}", bytes(known));
        }
        let would = self.supposing(&open).map(|plan| plan.bytes);
        let would = would.filter(|would| *would > plan.access.bytes);
        let ending = would.map_or("can promise more".to_owned(), |n| format!("would give {n}"));
        format!("{}; {} {ending}", self.known(&open), self.hints(&open))
    }

    /// "`stride` is known to be divisible by 2, and `x` is known to be aligned to 4 bytes".
    fn known(&self, culprits: &[Culprit]) -> String {
        let known = culprits.iter().map(|culprit| {
            let who = self.named(culprit.value);
            let divisor = culprit.divisor;
            if is_pointer(self.func(), culprit.value) {
                format!("{who} is known to be aligned to {}", bytes(divisor))
            } else {
                format!("{who} is known to be divisible by {divisor}")
            }
        });
        known.collect::<Vec<_>>().join(", and ")
    }

    /// "`#[multiple_of(8)]` and `#[align(16)]`".
    fn hints(&self, culprits: &[Culprit]) -> String {
        let hints = culprits.iter().map(|culprit| {
            let wanted = culprit.wanted;
            let is_param = self.param(culprit.value).is_some();
            match (is_param, is_pointer(self.func(), culprit.value)) {
                (true, true) => format!("`#[align({wanted})]`"),
                (true, false) => format!("`#[multiple_of({wanted})]`"),
                (false, _) => format!("`.multiple_of({wanted})`"),
            }
        });
        hints.collect::<Vec<_>>().join(" and ")
    }

    fn layout(&self, plan: &GlobalPlan, in_row: u32) -> String {
        let (func, axes) = (self.func(), self.accesses.axes());
        let elem_bytes = plan.access.elem_bytes;
        let known = axes
            .contiguity(plan.pointers, plan.dim)
            .min(axes.divisibility(plan.pointers, plan.dim) / elem_bytes)
            .min(func.target.access.widest_bytes / elem_bytes);
        let tensor = func.ty(plan.pointers).as_tensor();
        let len = tensor.map_or(1, |t| t.len() as u32);
        let threads = func.warps_at(self.inst) * 32;
        let share = (len / threads).max(1);
        if plan.shared.is_some() {
            return format!(
                "the pointers' layout and the tile's layout have {} contiguous in both",
                elements(in_row)
            );
        }
        if share <= in_row {
            return format!(
                "the tile has {} for each of {threads} threads",
                elements(share)
            );
        }
        let more = known.min(1 << share.ilog2());
        format!(
            "the layout gives a thread {} in a row; {more} (as `Coalesced` chooses for this access alone) would give {}",
            elements(in_row),
            more * elem_bytes
        )
    }

    /// Why a mask splits what goes together.
    fn split(&self, plan: &GlobalPlan) -> Option<String> {
        let AccessPlan {
            elem_bytes, cut, ..
        } = plan.access;
        let len = plan.access.bytes / elem_bytes;
        if cut == Cut::Nowhere || len == 1 || plan.shared.is_some() {
            return None;
        }
        let (func, axes) = (self.func(), self.accesses.axes());
        let mask = match func.op(self.inst) {
            Op::Load(op) => op.mask,
            Op::Store(op) => op.mask,
            Op::AtomicRmw(op) => op.mask,
            _ => return None,
        };
        let culprits = blame::equal_runs(func, axes, mask.expand()?, plan.dim, len);
        let is_whole = self
            .supposing(&culprits)
            .is_some_and(|plan| plan.cut == Cut::Nowhere);
        let what = format!(
            "the mask may split the {}, which are then accessed one by one",
            bytes(plan.access.bytes)
        );
        if culprits.is_empty() || !is_whole {
            return Some(what);
        }
        let (known, hints) = (self.known(&culprits), self.hints(&culprits));
        Some(format!("{what}: {known}; with {hints} it never does"))
    }

    /// The plan of the same access if the callers of the kernel promised all that is wanted; none where it is not theirs to
    /// promise.
    fn supposing(&self, culprits: &[Culprit]) -> Option<AccessPlan> {
        let mut supposed = self.traced.clone();
        for culprit in culprits {
            let at = self.param(culprit.value)?;
            let param = &mut supposed.params[at];
            param.divisor = param.divisor.max(culprit.wanted);
        }
        let func = checked(supposed).ok()?;
        let axes = Axes::of(&func);
        // Passes may leave other instructions, so the access is found again by its op and place.
        let what = |func: &Func, inst: Inst| (func.op(inst).rules().mnemonic(), func.place(inst));
        let wanted = what(self.func(), self.inst);
        let alike = |func: &Func| {
            let insts = func.walk().into_iter();
            insts
                .filter(|inst| what(func, *inst) == wanted)
                .collect::<Vec<Inst>>()
        };
        let at = alike(self.func())
            .iter()
            .position(|inst| *inst == self.inst)?;
        Accesses::new(&func, &axes).plan(*alike(&func).get(at)?)
    }

    fn param(&self, value: Value) -> Option<usize> {
        let mut params = self.func().params.iter();
        params.position(|param| param.value == value)
    }

    /// A value as its author knows it.
    fn named(&self, value: Value) -> String {
        let func = self.func();
        if let Some(at) = self.param(value) {
            return format!("`{}`", func.params[at].name);
        }
        match (func.name(value), func.value_place(value)) {
            (Some(name), _) => format!("`{name}`"),
            (None, Some(place)) => format!("the value of line {}", place.line),
            (None, None) => "a value".to_owned(),
        }
    }
}

fn is_pointer(func: &Func, value: Value) -> bool {
    func.ty(value).elem().is_some_and(Elem::is_ptr)
}

fn shared_width(plan: &AccessPlan) -> Option<String> {
    match plan.limit {
        Limit::Layout(in_row) => Some(format!(
            "{}: the register layout and the memory layout have {} contiguous in both",
            bytes(plan.bytes),
            elements(in_row)
        )),
        _ => None,
    }
}

fn bytes(count: u32) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} byte{ending}")
}

fn elements(count: u32) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} element{ending}")
}
