//! The inference: layouts travel from seeds along the ties of ops, both ways, until nothing changes.

use std::collections::VecDeque;

use cranelift_entity::{EntitySet, SecondaryMap};
use ir::entity::{Inst, Value};
use ir::{Func, Type};
use layout::Layout;

use super::carry;
use crate::analysis::uses::Uses;

/// A layout that reached a value, and how.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// The layout.
    pub layout: Layout,
    /// Another would do as well: it came through an op that more than one layout fits.
    pub may_vary: bool,
    /// Where it came from.
    pub origin: Origin,
}

/// The last step of a layout's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The instruction decides it.
    Seed(Inst),
    /// It came from the layout of `.0` through the instruction.
    Through(Value, Inst),
}

/// Two layouts that both must hold of one value.
#[derive(Clone, Debug)]
pub(super) struct Conflict {
    /// The value.
    pub value: Value,
    /// What was there first.
    pub first: Entry,
    /// What came then.
    pub second: Entry,
}

/// A value is not changed more often than this by the origin that it had; past that it only settles downwards.
const MAX_REPLACEMENTS: u8 = 64;

pub(super) struct Inference<'f> {
    func: &'f Func,
    uses: Uses,
    /// Which layouts are to be found.
    open: Layout,
    /// What decides a layout.
    seeds: EntitySet<Inst>,
    entries: SecondaryMap<Value, Option<Entry>>,
    replacements: SecondaryMap<Value, u8>,
    queue: VecDeque<Value>,
    queued: EntitySet<Value>,
    conflict: Option<Conflict>,
}

impl<'f> Inference<'f> {
    /// Finds the layout of values whose layout is `open`.
    pub(super) fn new(func: &'f Func, open: Layout) -> Self {
        Inference {
            func,
            uses: Uses::of(func),
            open,
            seeds: EntitySet::with_capacity(func.inst_count()),
            entries: SecondaryMap::with_capacity(func.value_count()),
            replacements: SecondaryMap::new(),
            queue: VecDeque::new(),
            queued: EntitySet::with_capacity(func.value_count()),
            conflict: None,
        }
    }

    /// The layout that stands for what is to be found.
    pub(super) fn open(&self) -> &Layout {
        &self.open
    }

    /// Is the layout of this value to be found?
    pub(super) fn is_open(&self, value: Value) -> bool {
        self.func.ty(value).layout() == Some(&self.open)
    }

    /// Does the instruction decide layouts?
    pub(super) fn is_seed(&self, inst: Inst) -> bool {
        self.seeds.contains(inst)
    }

    /// What reached a value.
    pub(super) fn entry(&self, value: Value) -> Option<&Entry> {
        self.entries[value].as_ref()
    }

    /// `inst` decides the layout of `value`.
    pub(super) fn seed(&mut self, value: Value, layout: Layout, inst: Inst) {
        self.seeds.insert(inst);
        self.offer(
            value,
            Entry {
                layout,
                may_vary: false,
                origin: Origin::Seed(inst),
            },
        );
    }

    /// Lets the layouts travel until nothing changes.
    pub(super) fn run(&mut self) -> Result<(), Box<Conflict>> {
        while self.conflict.is_none()
            && let Some(value) = self.queue.pop_front()
        {
            self.queued.remove(value);
            self.propagate(value);
        }
        self.conflict
            .take()
            .map_or(Ok(()), |conflict| Err(Box::new(conflict)))
    }

    fn propagate(&mut self, value: Value) {
        let Some(entry) = self.entries[value].clone() else {
            return;
        };
        let mut insts: Vec<Inst> = carry::owners(self.func, value);
        insts.extend_from_slice(self.uses.of_value(value));
        for inst in insts {
            let carried = carry::along(self.func, inst, value, &entry.layout);
            let may_vary = entry.may_vary || carried.may_vary;
            for (other, layout) in carried.layouts {
                if other != value {
                    self.offer(
                        other,
                        Entry {
                            layout,
                            may_vary,
                            origin: Origin::Through(value, carried.through),
                        },
                    );
                }
            }
        }
    }

    fn offer(&mut self, value: Value, new: Entry) {
        if !self.is_open(value) || self.conflict.is_some() {
            return;
        }
        if let Some(old) = &self.entries[value] {
            let is_update = old.origin == new.origin && self.replacements[value] < MAX_REPLACEMENTS;
            match combine(old, &new, is_update) {
                Combined::Keep => return,
                Combined::Take => {
                    self.replacements[value] = self.replacements[value].saturating_add(1);
                }
                Combined::Conflict => {
                    self.conflict = Some(Conflict {
                        value,
                        first: old.clone(),
                        second: new,
                    });
                    return;
                }
            }
        }
        self.entries[value] = Some(new);
        if self.queued.insert(value) {
            self.queue.push_back(value);
        }
    }

    /// The instruction that decided the layout of an entry, at the end of its way.
    pub(super) fn seed_of(&self, entry: &Entry) -> Inst {
        let mut origin = entry.origin;
        // A way that leads back to itself would be a bug; it ends here all the same.
        for _ in 0..self.func.value_count() {
            match origin {
                Origin::Seed(inst) => return inst,
                Origin::Through(value, inst) => match &self.entries[value] {
                    Some(entry) => origin = entry.origin,
                    None => return inst,
                },
            }
        }
        match origin {
            Origin::Seed(inst) | Origin::Through(_, inst) => inst,
        }
    }

    /// The instructions that an entry came through, the nearest first.
    pub(super) fn way_of(&self, entry: &Entry) -> Vec<Inst> {
        let mut way = Vec::new();
        let mut origin = entry.origin;
        while let Origin::Through(value, inst) = origin
            && way.len() < self.func.value_count()
        {
            way.push(inst);
            match &self.entries[value] {
                Some(entry) => origin = entry.origin,
                None => break,
            }
        }
        way
    }

    /// The layouts found.
    pub(super) fn found(&self) -> impl Iterator<Item = (Value, Type)> + '_ {
        self.func.values().filter_map(|value| {
            let entry = self.entries[value].as_ref()?;
            let mut ty = self.func.ty(value).clone();
            ty.as_tensor_mut()?.layout = entry.layout.clone();
            Some((value, ty))
        })
    }
}

enum Combined {
    Keep,
    Take,
    Conflict,
}

/// Equal layouts agree. One that may vary yields to one that may not; of two that may vary, the one whose text comes
/// first stays, so that the order of the walk decides nothing. `Linear` comes last: it is what a reshape makes of a layout
/// that has a name and fits other ops by it, as a slice fits the reduction that it is left of.
fn combine(old: &Entry, new: &Entry, is_update: bool) -> Combined {
    if old.layout == new.layout {
        // What is certain stays certain.
        return if old.may_vary && !new.may_vary {
            Combined::Take
        } else {
            Combined::Keep
        };
    }
    let order = |l: &Layout| (matches!(l, Layout::Linear(_)), l.to_string());
    match (old.may_vary, new.may_vary) {
        (false, false) => Combined::Conflict,
        (true, false) => Combined::Take,
        (true, true) if is_update || order(&new.layout) < order(&old.layout) => Combined::Take,
        (_, true) => Combined::Keep,
    }
}
