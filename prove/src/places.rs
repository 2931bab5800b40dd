//! Barriers and stages by number.

use cranelift_entity::packed_option::PackedOption;
use ir::entity::{Inst, Value};
use ir::ops::{Op, SharedAccess};
use ir::{Func, ValueDef};
use rustc_hash::FxHashMap;

/// An allocation, and the indices that lead from it to a view, outermost first.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    pub(crate) allocation: Inst,
    pub(crate) indices: Vec<Value>,
}

/// Numbers of all barriers, and of all stages that asynchronous copies fill.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    barriers: FxHashMap<Inst, Range>,
    stages: FxHashMap<Inst, Range>,
    paths: FxHashMap<Value, Path>,
    pub(crate) barrier_count: usize,
    pub(crate) stage_count: usize,
}

#[derive(Clone, Debug)]
struct Range {
    first: usize,
    /// The extents that are indexed.
    extents: Vec<usize>,
}

impl Range {
    fn len(&self) -> usize {
        self.extents.iter().product()
    }
}

/// The allocation of a view, unless control flow chooses it.
///
/// Matches on ops: what makes one view of another are six ops, of which one alone adds an index.
pub(crate) fn path(func: &Func, view: Value) -> Option<Path> {
    let mut indices = Vec::new();
    let mut at = view;
    loop {
        let ValueDef::Result(inst, _) = func.def(at) else {
            return None;
        };
        at = match func.op(inst) {
            Op::SmemAlloc(_) => {
                indices.reverse();
                return Some(Path {
                    allocation: inst,
                    indices,
                });
            }
            Op::SmemIndex(op) => {
                indices.push(op.index);
                op.view
            }
            Op::SmemSlice(op) => op.view,
            Op::SmemPermute(op) => op.view,
            Op::SmemReshape(op) => op.view,
            Op::SmemReinterpret(op) => op.view,
            _ => return None,
        };
    }
}

/// Most stages that are followed.
pub(crate) const MOST_STAGES: usize = 128;

impl Places {
    pub(crate) fn new(func: &Func) -> Places {
        let mut places = Places::default();
        // The barriers of the copies into each allocation; none where they differ.
        let mut filled: FxHashMap<Inst, PackedOption<Inst>> = FxHashMap::default();
        let mut order = Vec::new();
        for inst in func.walk() {
            let op = func.op(inst);
            if let Op::MbarrierInit(init) = op {
                places.add_barriers(func, init.barrier);
            }
            let accesses = op.rules().shared_accesses();
            let find = |wanted| accesses.iter().find(|(_, access)| *access == wanted);
            let written = find(SharedAccess::AsyncWrite).and_then(|(v, _)| path(func, *v));
            let barrier = find(SharedAccess::AsyncAtomic).and_then(|(v, _)| path(func, *v));
            if let (Some(written), Some(barrier)) = (written, barrier) {
                order.push(written.allocation);
                let first = PackedOption::from(barrier.allocation);
                let known = filled.entry(written.allocation).or_insert(first);
                if *known != first {
                    *known = PackedOption::default();
                }
            }
        }
        for allocation in order {
            if filled[&allocation].is_some() {
                places.add_stages(func, allocation);
            }
        }
        places.paths = func
            .values()
            .filter(|v| func.ty(*v).as_smem().is_some())
            .filter_map(|v| Some((v, path(func, v)?)))
            .collect();
        places
    }

    fn add_barriers(&mut self, func: &Func, barrier: Value) {
        let Some(path) = path(func, barrier) else {
            return;
        };
        let extents = extents(func, path.allocation, path.indices.len());
        let first = self.barrier_count;
        self.barriers.entry(path.allocation).or_insert_with(|| {
            let range = Range { first, extents };
            self.barrier_count += range.len();
            range
        });
    }

    fn add_stages(&mut self, func: &Func, allocation: Inst) {
        if self.stages.contains_key(&allocation) {
            return;
        }
        let mut indexed = false;
        for inst in func.walk() {
            if let Op::SmemIndex(op) = func.op(inst) {
                let is_of_it = func.def_inst(op.view) == Some(allocation);
                indexed |= is_of_it;
            }
        }
        let extents = extents(func, allocation, usize::from(indexed));
        let range = Range {
            first: self.stage_count,
            extents,
        };
        if self.stage_count + range.len() <= MOST_STAGES {
            self.stage_count += range.len();
            self.stages.insert(allocation, range);
        }
    }

    /// The allocation of a view, unless control flow chooses it.
    pub(crate) fn path(&self, view: Value) -> Option<&Path> {
        self.paths.get(&view)
    }

    /// The barriers of an allocation.
    pub(crate) fn barriers_of(&self, allocation: Inst) -> std::ops::Range<usize> {
        let range = self.barriers.get(&allocation);
        range.map_or(0..0, |range| range.first..range.first + range.len())
    }

    /// The number of a barrier.
    pub(crate) fn barrier(&self, allocation: Inst, indices: &[i64]) -> Option<usize> {
        let range = self.barriers.get(&allocation)?;
        number(range, indices)
    }

    /// Is the allocation filled by copies, and how many indices select a stage?
    pub(crate) fn stage_indices(&self, allocation: Inst) -> Option<usize> {
        self.stages
            .get(&allocation)
            .map(|range| range.extents.len())
    }

    /// The stages that a view is a part of, a bit each.
    pub(crate) fn stages(&self, allocation: Inst, indices: &[i64]) -> Option<u128> {
        let range = self.stages.get(&allocation)?;
        if indices.len() < range.extents.len() {
            return Some((0..range.len()).fold(0, |all, at| all | 1 << (range.first + at)));
        }
        number(range, &indices[..range.extents.len()]).map(|at| 1 << at)
    }
}

fn extents(func: &Func, allocation: Inst, indices: usize) -> Vec<usize> {
    let ty = func.ty(func.result(allocation)).as_smem();
    let shape = ty.map(|s| s.shape.clone()).unwrap_or_default();
    shape.iter().take(indices).map(|e| *e as usize).collect()
}

fn number(range: &Range, indices: &[i64]) -> Option<usize> {
    let mut at = 0;
    for (index, extent) in indices.iter().zip(&range.extents) {
        let index = usize::try_from(*index).ok()?;
        if index >= *extent {
            return None;
        }
        at = at * extent + index;
    }
    (indices.len() >= range.extents.len()).then_some(range.first + at)
}
