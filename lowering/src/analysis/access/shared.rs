//! Moves of tiles between registers and shared memory.
//!
//! Matches on ops: each kind of access has its own forms of instructions, as emission has.

use ir::entity::{Inst, Value};
use ir::ops::Op;
use ir::ops::atomic::AtomicOp;
use ir::{Func, SmemType, TensorType};
use layout::convert::AccessKind;
use layout::linear::Registers;
use layout::local::{Direction, LocalPlan, plan_access, plan_local};
use target::Target;

use super::global::is_float_extreme;
use super::plan::{AccessPlan, Cut, Limit, Memory};

/// How each thread moves its elements of a tile to or from shared memory.
#[derive(Clone, Debug)]
pub struct SharedPlan {
    /// Width, number and limit.
    pub access: AccessPlan,
    /// The view of shared memory.
    pub view: Value,
    /// The view stands for memory of another CTA of the cluster.
    pub is_remote: bool,
    /// Which registers go where; none where the kernel computes the places.
    pub local: Option<LocalPlan>,
}

/// Which instructions may move a tile.
#[derive(Clone, Copy)]
enum Instructions {
    /// Vectors, and matrices where they cost less.
    Any(Direction),
    /// Vectors, to or from another CTA: matrices go between a CTA and its own memory alone.
    Vectors,
}

/// How `inst` moves a tile between registers and shared memory; `None` if it does not.
pub fn plan(func: &Func, inst: Inst) -> Option<SharedPlan> {
    let result = || func.result(inst);
    let (view, tile, instructions) = match func.op(inst) {
        Op::SmemLoad(op) => (op.view, result(), Instructions::Any(Direction::Load)),
        Op::SmemStore(op) => (op.view, op.value, Instructions::Any(Direction::Store)),
        Op::SmemAlloc(op) => (
            result(),
            op.init.expand()?,
            Instructions::Any(Direction::Store),
        ),
        Op::RemoteLoad(op) => (op.view, result(), Instructions::Vectors),
        Op::RemoteStore(op) => (op.view, op.value, Instructions::Vectors),
        Op::RemoteStoreAsync(op) => (op.view, op.value, Instructions::Vectors),
        Op::SmemGather(op) => return indexed(func, op.view, op.indices, 1),
        Op::SmemScatter(op) => return indexed(func, op.view, op.indices, 1),
        Op::SmemAtomicScatter(op) => {
            return indexed(func, op.view, op.indices, steps_of(func, op.op, op.view));
        }
        Op::SmemAtomicFetch(op) => {
            let steps = steps_of(func, op.op, op.view);
            let mut plan = indexed(func, op.view, op.indices, steps)?;
            plan.access.is_atomic = true;
            return Some(plan);
        }
        _ => return None,
    };
    let (memory, tensor) = (func.ty(view).as_smem()?, func.ty(tile).as_tensor()?);
    let local = local(func.target, memory, tensor, instructions)?;
    Some(SharedPlan {
        access: whole(func.target, &local, memory.elem.bytes()),
        view,
        is_remote: matches!(instructions, Instructions::Vectors),
        local: Some(local),
    })
}

fn local(
    target: &Target,
    memory: &SmemType,
    tensor: &TensorType,
    by: Instructions,
) -> Option<LocalPlan> {
    let map = tensor.layout.linear(&tensor.shape).ok()?;
    let (layout, shape) = (&memory.layout, &memory.alloc_shape);
    let bits = 8 * memory.elem.bytes();
    match by {
        Instructions::Any(direction) => {
            plan_access(target, &map, layout, shape, bits, direction).ok()
        }
        Instructions::Vectors => plan_local(target, &map, layout, shape, bits).ok(),
    }
}

fn whole(target: &Target, local: &LocalPlan, elem_bytes: u32) -> AccessPlan {
    let bytes = local.vector * elem_bytes;
    AccessPlan {
        memory: Memory::Shared,
        bytes,
        elem_bytes,
        runs: local.accesses.len() as u32,
        instructions: 1,
        is_atomic: false,
        cut: Cut::Nowhere,
        limit: if bytes == target.access.widest_bytes {
            Limit::Widest
        } else {
            Limit::Layout(local.vector)
        },
    }
}

/// Instructions of one atomic step.
fn steps_of(func: &Func, op: AtomicOp, view: Value) -> u32 {
    let elem = func.ty(view).elem();
    1 + u32::from(elem.is_some_and(|elem| is_float_extreme(op, elem)))
}

/// Elements at places that the kernel computes go one by one.
fn indexed(func: &Func, view: Value, indices: Value, instructions: u32) -> Option<SharedPlan> {
    let elem_bytes = func.ty(view).as_smem()?.elem.bytes();
    let tensor = func.ty(indices).as_tensor()?;
    let map = tensor.layout.linear(&tensor.shape).ok()?;
    let registers = Registers::of(&map);
    let own = (0..registers.count()).filter(|&r| registers.is_own(r));
    Some(SharedPlan {
        access: AccessPlan {
            memory: Memory::Shared,
            bytes: elem_bytes,
            elem_bytes,
            runs: own.count() as u32,
            instructions,
            is_atomic: false,
            cut: Cut::Nowhere,
            limit: Limit::Element,
        },
        view,
        is_remote: false,
        local: None,
    })
}

impl SharedPlan {
    /// What moves the elements.
    pub fn kind(&self) -> AccessKind {
        let local = self.local.as_ref();
        local.map_or(AccessKind::Vector, |local| local.kind)
    }
}

/// Where a register's element lies: the access of a plan that holds it, and its place there.
pub type Position = (usize, usize);

/// The place of each register's element.
pub fn places(plan: &LocalPlan) -> Vec<Position> {
    let mut places = vec![(0, 0); plan.originals.len()];
    for (access, part) in plan.accesses.iter().enumerate() {
        for (at, &register) in part.registers.iter().enumerate() {
            places[register as usize] = (access, at);
        }
    }
    places
}

/// Are all parts of `width` elements of the runs in one piece in shared memory, and aligned there?
pub(super) fn lie_together(places: &[Position], runs: &[Vec<usize>], width: usize) -> bool {
    runs.iter().flat_map(|run| run.chunks(width)).all(|part| {
        let (access, first) = places[part[0]];
        let is_next = |(at, &register): (usize, &usize)| places[register] == (access, first + at);
        first.is_multiple_of(width) && part.iter().enumerate().all(is_next)
    })
}
