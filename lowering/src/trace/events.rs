//! Which operations are events, what they are called, and at which level each is recorded.
//!
//! Matches on ops: an event is what an author sees by name; an op without one is not recorded.

use std::sync::Arc;

use cranelift_entity::SecondaryMap;
use ir::entity::{Inst, Region, Value};
use ir::ops::Op;
use ir::ops::debug::MarkKind;
use ir::{Func, Type};

use super::{EventKind, TraceEvent, TraceLevel};

/// What is recorded of each instruction.
pub struct Levels {
    /// The least level at which an event is recorded; none for what is no event.
    least: SecondaryMap<Inst, Option<TraceLevel>>,
}

impl Levels {
    /// Looks at a kernel.
    pub fn of(func: &Func) -> Levels {
        let mut levels = Levels {
            least: SecondaryMap::with_capacity(func.inst_count()),
        };
        levels.region(func, func.body, false);
        levels
    }

    /// Is the event of this instruction recorded at `level`?
    pub fn records(&self, inst: Inst, level: TraceLevel) -> bool {
        self.least[inst].is_some_and(|least| least <= level)
    }

    /// Enters a region; says whether it has events, and whether one of its loops has.
    fn region(&mut self, func: &Func, region: Region, in_step: bool) -> Found {
        let mut found = Found::default();
        for &inst in &func.region(region).insts {
            let op = func.op(inst);
            let is_loop = matches!(op, Op::For(_) | Op::While(_));
            let mut inner = Found::default();
            for region in op.regions() {
                inner.add(self.region(func, region, in_step));
            }
            if is_loop && inner.has_event && !inner.has_loop && !in_step {
                // The innermost loop with events: its iterations are the steps.
                for region in op.regions() {
                    self.mark_steps(func, region);
                }
                self.least[inst] = Some(TraceLevel::Tiles);
                inner.has_loop = true;
            } else if let Some(kind) = kind(op) {
                self.least[inst] = Some(level(kind));
                inner.has_event |= !matches!(kind, EventKind::Mark | EventKind::Range);
            }
            found.add(inner);
        }
        found
    }

    /// What stands in a loop over steps is recorded with the steps; the author's marks always are.
    fn mark_steps(&mut self, func: &Func, region: Region) {
        for &inst in &func.region(region).insts {
            if self.least[inst] == Some(TraceLevel::Tiles) {
                self.least[inst] = Some(TraceLevel::Steps);
            }
            for inner in func.op(inst).regions() {
                self.mark_steps(func, inner);
            }
        }
    }
}

/// What a region has.
#[derive(Clone, Copy, Default)]
struct Found {
    has_event: bool,
    has_loop: bool,
}

impl Found {
    fn add(&mut self, other: Found) {
        self.has_event |= other.has_event;
        self.has_loop |= other.has_loop;
    }
}

fn level(kind: EventKind) -> TraceLevel {
    match kind {
        EventKind::Mark
        | EventKind::Range
        | EventKind::LaunchWait
        | EventKind::LaunchDependents => TraceLevel::Partitions,
        _ => TraceLevel::Tiles,
    }
}

fn kind(op: &Op) -> Option<EventKind> {
    Some(match op {
        Op::MbarrierWait(_) => EventKind::Wait,
        Op::TmaLoad(_) | Op::BulkLoad(_) => EventKind::Copy,
        Op::TmaStore(_) | Op::BulkStore(_) => EventKind::StoreIssue,
        Op::TmaStoreWait(_) => EventKind::StoreWait,
        Op::WgmmaStart(_) => EventKind::Products,
        Op::WgmmaWait(_) => EventKind::ProductsWait,
        Op::Barrier(_) | Op::NamedSync(_) => EventKind::Barrier,
        Op::NamedArrive(_) => EventKind::BarrierArrive,
        Op::ClusterBarrier(_) | Op::ClusterWait(_) => EventKind::ClusterBarrier,
        Op::AsyncWait(_) => EventKind::ThreadCopyWait,
        Op::Store(_) => EventKind::Store,
        Op::LaunchWait(_) => EventKind::LaunchWait,
        Op::LaunchDependents(_) => EventKind::LaunchDependents,
        Op::Mark(mark) => match mark.kind {
            MarkKind::Instant => EventKind::Mark,
            MarkKind::Begin | MarkKind::End => EventKind::Range,
        },
        _ => return None,
    })
}

/// The event of an instruction that is recorded.
pub(crate) fn event(func: &Func, inst: Inst) -> TraceEvent {
    let op = func.op(inst);
    let kind = kind(op).unwrap_or(EventKind::Loop);
    let mut event = TraceEvent {
        kind,
        name: None,
        origin: None,
        place: func.place(inst),
        bytes: 0,
        operations: 0,
        pending: 0,
    };
    match op {
        Op::MbarrierWait(wait) => name_shared(func, wait.barrier, &mut event),
        Op::TmaLoad(load) => {
            event.name = root_name(func, load.map);
            event.bytes = view_bytes(func, load.view);
        }
        Op::TmaStore(store) => {
            event.name = root_name(func, store.map);
            event.bytes = view_bytes(func, store.view);
        }
        Op::BulkLoad(load) => {
            event.name = root_name(func, load.src);
            event.bytes = view_bytes(func, load.view);
        }
        Op::BulkStore(store) => {
            event.name = root_name(func, store.dst);
            event.bytes = view_bytes(func, store.view);
        }
        Op::Store(store) => event.name = root_name(func, store.ptr),
        Op::WgmmaStart(start) => event.operations = operations(func, start.accumulator, start.b),
        Op::WgmmaWait(wait) => event.pending = wait.pending,
        Op::TmaStoreWait(wait) => event.pending = wait.pending,
        Op::AsyncWait(wait) => event.pending = wait.pending,
        Op::NamedSync(sync) => event.name = Some(numbered(sync.number)),
        Op::NamedArrive(arrive) => event.name = Some(numbered(arrive.number)),
        Op::Barrier(_) => {
            let is_own = func.partition_of(func.parent(inst)).is_some();
            event.name = Some(if is_own { "partition" } else { "CTA" }.into());
        }
        Op::Mark(mark) => event.name = Some(mark.name.0.as_ref().into()),
        _ => {}
    }
    event
}

fn numbered(number: u32) -> Arc<str> {
    format!("named {number}").into()
}

/// The name of a barrier's array, and where it was made.
fn name_shared(func: &Func, view: Value, event: &mut TraceEvent) {
    let root = root(func, view);
    event.name = func.label(root).or_else(|| func.name(root)).map(Into::into);
    event.origin = func.value_place(root);
}

/// What a view or a pointer was made from: the first operand, as far as there is one of the same sort.
fn root(func: &Func, value: Value) -> Value {
    let mut value = value;
    while let Some(inst) = func.def_inst(value) {
        let is_same = |ty: &Type| {
            let is_pointer = |ty: &Type| ty.elem().is_some_and(ir::elem::Elem::is_ptr);
            matches!(
                (func.ty(value), ty),
                (Type::Smem(_), Type::Smem(_)) | (Type::TensorMap(_), Type::TensorMap(_))
            ) || is_pointer(func.ty(value)) && is_pointer(ty)
        };
        let operands = func.op(inst).operands();
        let Some(&next) = operands.iter().find(|&&operand| is_same(func.ty(operand))) else {
            break;
        };
        value = next;
    }
    value
}

fn root_name(func: &Func, value: Value) -> Option<Arc<str>> {
    func.name(root(func, value)).map(Into::into)
}

fn view_bytes(func: &Func, view: Value) -> u64 {
    let view = func.ty(view).as_smem();
    view.map_or(0, |s| s.shape.product() * u64::from(s.elem.bytes()))
}

/// Twice the multiplications of a product of `[M, K]` and `b`, `[K, N]`.
fn operations(func: &Func, accumulator: Value, b: Value) -> u64 {
    let shape = func.ty(accumulator).shape();
    let depth = func.ty(b).as_smem().map_or(0, |b| b.shape[0]);
    let elements: u64 = shape.iter().map(|&n| u64::from(n)).product();
    2 * elements * u64::from(depth)
}
