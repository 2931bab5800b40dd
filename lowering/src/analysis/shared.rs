//! Which allocations a view of shared memory may be of, and which of their bytes it may hold.

use std::ops::Range;

use cranelift_entity::SecondaryMap;
use ir::entity::{Inst, Region, Value};
use ir::ops::{Scratch, flow};
use ir::{Func, SmemType};
use layout::relate;
use smallvec::SmallVec;

/// Allocations, in program order.
pub type Allocations = SmallVec<[Inst; 1]>;

/// For every view, the allocations that it may be of: one, unless views flow round a loop or out of a branch.
#[derive(Clone, Debug)]
pub struct Views {
    of_value: SecondaryMap<Value, Allocations>,
    /// The bytes of a view in its one allocation, where they are known to be fewer than all.
    parts: SecondaryMap<Value, Option<Range<u32>>>,
    has_any: bool,
    /// Does a loop hand views on?
    go_round: bool,
}

impl Views {
    /// Follows every view of a kernel to its allocations.
    pub fn of(func: &Func) -> Views {
        let mut views = Views {
            of_value: SecondaryMap::with_capacity(func.value_count()),
            parts: SecondaryMap::new(),
            has_any: false,
            go_round: false,
        };
        // A loop-carried view is known after two walks; one round several loops within each other needs more.
        while views.walk(func, func.body) && views.go_round {}
        if views.has_any {
            views.find_parts(func);
        }
        views
    }

    /// The allocations that `value` may be a view of; none for what is no view.
    pub fn allocations(&self, value: Value) -> &[Inst] {
        &self.of_value[value]
    }

    /// The bytes that `value` may hold of an allocation that it may be a view of, which lies at `planned`.
    pub fn bytes_in(&self, value: Value, planned: Scratch) -> Scratch {
        match &self.parts[value] {
            Some(part) => Scratch {
                start: planned.start + part.start,
                bytes: part.len() as u32,
            },
            None => planned,
        }
    }

    /// Follows every view down from its allocation: a view of a view holds what that holds, or a part of it.
    fn find_parts(&mut self, func: &Func) {
        let mut sizes = Sizes::default();
        for inst in func.walk() {
            let op = func.op(inst);
            let operands = op.operands();
            let source = operands.iter().copied().find(|v| is_view(func, *v));
            let (Some(source), &[result]) = (source, func.results(inst)) else {
                continue;
            };
            if !op.regions().is_empty() || !is_view(func, result) {
                continue;
            }
            let part = op.rules().part_of_view(func);
            let holder = part
                .as_ref()
                .and_then(|_| self.holder(func, source, &mut sizes));
            self.parts[result] = match part.zip(holder) {
                // Offsets that a shape cuts off have no bytes: a part ends with what it is a part of.
                Some((part, Range { start, end })) => {
                    Some(start + part.start..end.min(start + part.end))
                }
                None => self.parts[source].clone(),
            };
        }
    }

    /// The bytes in its one allocation of a view that is known to be all of it or all of a buffer in it.
    fn holder<'f>(&self, func: &'f Func, view: Value, sizes: &mut Sizes<'f>) -> Option<Range<u32>> {
        let &[allocation] = self.allocations(view) else {
            return None;
        };
        let s = func.ty(view).as_smem()?;
        let holder = match &self.parts[view] {
            Some(part) => part.clone(),
            None => 0..sizes.of(func.ty(func.result(allocation)).as_smem()?)?,
        };
        let is_all = s.shape == s.alloc_shape && sizes.of(s)? == holder.len() as u32;
        is_all.then_some(holder)
    }

    /// Is there no shared memory of the author's at all?
    pub fn is_empty(&self) -> bool {
        !self.has_any
    }

    /// One walk in program order; `true` if it found anything new.
    fn walk(&mut self, func: &Func, region: Region) -> bool {
        let mut grew = false;
        for &inst in &func.region(region).insts {
            let op = func.op(inst);
            let regions = op.regions();
            if !regions.is_empty() {
                grew |= self.flow(func, inst, &regions);
            } else if op.rules().allocation().is_some() {
                self.has_any = true;
                grew |= self.add(func.result(inst), &[inst]);
            } else {
                for &result in func.results(inst) {
                    if is_view(func, result) {
                        grew |= self.tie(op.operands().into_iter(), &[result]);
                    }
                }
            }
        }
        grew
    }

    /// What a loop or branch yields.
    fn flow(&mut self, func: &Func, inst: Inst, regions: &[Region]) -> bool {
        let mut slots = flow::slots(func, inst);
        slots.retain(|slot| is_view(func, slot.result));
        let mut grew = false;
        for slot in slots.iter().filter(|slot| !slot.params.is_empty()) {
            self.go_round = true;
            grew |= self.tie(slot.init.into_iter(), &slot.params);
        }
        for &inner in regions {
            grew |= self.walk(func, inner);
        }
        for slot in &slots {
            let yielded = slot.yielded.iter().map(|(_, v)| *v).chain(slot.init);
            let into: SmallVec<[Value; 4]> =
                slot.params.iter().copied().chain([slot.result]).collect();
            grew |= self.tie(yielded, &into);
        }
        grew
    }

    fn tie(&mut self, from: impl Iterator<Item = Value>, into: &[Value]) -> bool {
        let mut all = Allocations::new();
        for value in from {
            all.extend(self.of_value[value].iter().copied());
        }
        let mut grew = false;
        for &value in into {
            grew |= self.add(value, &all);
        }
        grew
    }

    fn add(&mut self, value: Value, allocations: &[Inst]) -> bool {
        let known = &mut self.of_value[value];
        let before = known.len();
        for allocation in allocations {
            if let Err(at) = known.binary_search(allocation) {
                known.insert(at, *allocation);
            }
        }
        known.len() > before
    }
}

/// The bytes of allocations of each type: worked out once, for many views have one type.
#[derive(Default)]
struct Sizes<'f>(Vec<(&'f SmemType, Option<u32>)>);

impl<'f> Sizes<'f> {
    fn of(&mut self, s: &'f SmemType) -> Option<u32> {
        if let Some((_, bytes)) = self.0.iter().find(|(known, _)| *known == s) {
            return *bytes;
        }
        let bytes = relate::shared_bytes(&s.layout, &s.alloc_shape, s.elem.bytes()).ok();
        self.0.push((s, bytes));
        bytes
    }
}

fn is_view(func: &Func, value: Value) -> bool {
    func.ty(value).as_smem().is_some()
}
