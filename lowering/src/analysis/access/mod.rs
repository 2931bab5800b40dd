//! How accesses to memory by the threads themselves go: how many bytes each thread moves by one instruction, and what
//! keeps it from moving more.
//!
//! [`Accesses`] is the only place where that is decided. Emission issues what it says, the cost reports
//! ([`coalescing`](super::coalescing), [`banks`](super::banks)) count what it says, and [`costs`](crate::costs) tells the author what
//! would widen it. TMA copies and `wgmma` operands are no accesses of threads.

pub mod blame;
pub mod global;
pub mod plan;
pub mod shared;

use std::cell::OnceCell;

use ir::elem::Elem;
use ir::entity::{Inst, Value};
use ir::{Func, Spaces};
use layout::AccessFacts;

use super::axis::Axes;
use super::uses::Uses;
pub use global::GlobalPlan;
pub use plan::{AccessPlan, Cut, Limit, Memory};
pub use shared::SharedPlan;

/// The accesses of one kernel, planned as they are requested.
#[derive(Debug)]
pub struct Accesses<'f> {
    func: &'f Func,
    axes: &'f Axes,
    /// Who uses a value, once somebody asks.
    uses: OnceCell<Uses>,
}

impl<'f> Accesses<'f> {
    /// The accesses of `func`, of whose values `axes` are the facts.
    pub fn new(func: &'f Func, axes: &'f Axes) -> Accesses<'f> {
        Accesses {
            func,
            axes,
            uses: OnceCell::new(),
        }
    }

    /// The kernel.
    pub fn func(&self) -> &'f Func {
        self.func
    }

    /// The facts about its values.
    pub fn axes(&self) -> &'f Axes {
        self.axes
    }

    /// Who uses a value.
    pub fn uses(&self) -> &Uses {
        self.uses.get_or_init(|| Uses::of(self.func))
    }

    /// How `inst` accesses global memory through pointers; `None` if it does not.
    pub fn global(&self, inst: Inst) -> Option<GlobalPlan> {
        global::plan(self, inst)
    }

    /// How `inst` moves a tile between registers and shared memory; `None` if it does not.
    pub fn shared(&self, inst: Inst) -> Option<SharedPlan> {
        shared::plan(self.func, inst)
    }

    /// How wide `inst` accesses whichever memory it accesses.
    pub fn plan(&self, inst: Inst) -> Option<AccessPlan> {
        let global = self.global(inst).map(|global| global.access);
        global.or_else(|| self.shared(inst).map(|shared| shared.access))
    }
}

/// The tensor of pointers that an instruction goes through, if it accesses global memory through one.
pub fn pointers(func: &Func, inst: Inst) -> Option<Value> {
    let op = func.op(inst);
    let effects = op.rules().effects();
    if !(effects.reads | effects.writes).intersects(Spaces::GLOBAL) {
        return None;
    }
    let is_pointers = |v: &Value| func.ty(*v).as_tensor().is_some_and(|t| t.elem.is_ptr());
    op.operands().into_iter().find(is_pointers)
}

/// Facts about the addresses of an access through `pointers`.
pub fn facts(func: &Func, axes: &Axes, inst: Inst, pointers: Value) -> AccessFacts {
    let ty = func.ty(pointers);
    let per_dim = |of: &dyn Fn(usize) -> u32| (0..ty.shape().len()).map(of).collect();
    let pointee = ty.elem().and_then(Elem::pointee);
    AccessFacts {
        shape: ty.shape().into(),
        elem_bits: pointee.map_or(8, |d| d.bytes() * 8),
        contiguity: per_dim(&|d| axes.contiguity(pointers, d)),
        divisibility_bytes: per_dim(&|d| axes.divisibility(pointers, d)),
        widest_bytes: func.target.access.widest_bytes,
        is_load: func.op(inst).rules().effects().writes.is_none(),
    }
}
