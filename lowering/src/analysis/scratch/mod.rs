//! Scratch: the shared memory that the emission of an op needs while it executes, and whose threads synchronize in it.
//!
//! The op is asked, through the registry: `NeedsScratch` has no default, so that a new op without an answer does not
//! compile. A pass asks once for the whole kernel ([`Scratches`]) and keeps the answers.

mod area;
mod atomics;
pub(crate) mod conversion;
pub(crate) mod gather;
pub(crate) mod histogram;
pub(crate) mod lookup;
mod none;
pub(crate) mod numbering;
pub(crate) mod reduce;
pub(crate) mod runs;
mod scan;
pub(crate) mod sort;

#[cfg(test)]
mod tests;

use std::cell::OnceCell;

use cranelift_entity::SecondaryMap;
use ir::elem::Elem;
use ir::entity::{Inst, Value};
use ir::ops::{self, Op, flow};
use ir::{Func, TensorType, for_each_op};
use layout::{Axis, LinearLayout};
use smallvec::SmallVec;

pub(crate) use area::{Area, word};

use super::uses::Uses;

/// The threads that synchronize inside the emission of an op, between its writes to its scratch and its reads of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum BarrierScope {
    /// None: each thread reads what it wrote itself, or mbarriers order writes and reads, or there is no scratch.
    #[default]
    None,
    /// The lanes of a warp; no warp touches what another one wrote.
    Warp,
    /// All threads of the CTA.
    Cta,
    /// All threads of all CTAs of the cluster; they synchronize again after the last read.
    Cluster,
}

/// What one op needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScratchNeed {
    /// Bytes of shared memory.
    pub bytes: u32,
    /// The scope of the barrier before the scratch is read.
    pub scope: BarrierScope,
    /// The mbarriers on which exchanges with other CTAs complete, in bytes from the beginning of the scratch.
    pub mbarriers: SmallVec<[u32; 2]>,
}

impl ScratchNeed {
    /// Do other CTAs of the cluster write into it, before this CTA executes the op or while it still reads?
    pub fn is_written_by_peers(&self) -> bool {
        !self.mbarriers.is_empty()
    }

    /// Does the op exchange data with other CTAs of the cluster?
    pub fn reaches_peers(&self) -> bool {
        self.is_written_by_peers() || self.scope == BarrierScope::Cluster
    }
}

/// What an op needs of shared memory while it executes.
#[diagnostic::on_unimplemented(
    message = "op `{Self}` does not say whether it needs scratch",
    note = "implement `NeedsScratch` in lowering/src/analysis/scratch, or add the op to `none.rs` if it has no field `scratch`"
)]
pub(crate) trait NeedsScratch {
    /// Has the op a field for what is planned?
    const HAS_SCRATCH: bool;

    /// What the emission of the instruction that this op is needs.
    fn need(&self, asked: &Asked<'_>) -> ScratchNeed;
}

/// An instruction of which scratch is asked.
pub(crate) struct Asked<'f> {
    /// The kernel.
    pub(crate) func: &'f Func,
    /// The instruction.
    pub(crate) inst: Inst,
    uses: &'f OnceCell<Uses>,
}

impl Asked<'_> {
    /// Does any instruction take this value?
    fn is_used(&self, value: Value) -> bool {
        let uses = self.uses.get_or_init(|| Uses::of(self.func));
        !uses.of_value(value).is_empty()
    }

    /// Do the warps of workers run along until their partitions begin, so that they need the results too?
    fn is_followed(&self) -> bool {
        let is_before = self
            .func
            .partition_of(self.func.parent(self.inst))
            .is_none();
        is_before && self.func.launch_warps() > self.func.warps
    }

    /// May the same instruction run several times?
    fn is_repeated(&self) -> bool {
        flow::is_in_loop(self.func, self.inst)
    }
}

macro_rules! declare_dispatch {
    ($($name:ident in $family:ident,)*) => {
        fn need(op: &Op, asked: &Asked<'_>) -> ScratchNeed {
            match op {
                $(Op::$name(op) => {
                    debug_assert_eq!(
                        <ops::$family::$name as NeedsScratch>::HAS_SCRATCH,
                        ops::OpRules::scratch(op).is_some(),
                        "the op and its answer agree on whether it has scratch"
                    );
                    op.need(asked)
                })*
            }
        }
    };
}

for_each_op!(declare_dispatch);

/// What every instruction of a kernel needs, asked once.
#[derive(Clone, Debug)]
pub struct Scratches {
    needs: SecondaryMap<Inst, ScratchNeed>,
}

impl Scratches {
    /// Asks every instruction.
    pub fn of(func: &Func) -> Scratches {
        let mut needs = SecondaryMap::with_capacity(func.inst_count());
        let uses = OnceCell::new();
        for inst in func.walk() {
            let asked = Asked {
                func,
                inst,
                uses: &uses,
            };
            let need = need(func.op(inst), &asked);
            if need != ScratchNeed::default() {
                needs[inst] = need;
            }
        }
        Scratches { needs }
    }

    /// What an instruction needs.
    pub fn need(&self, inst: Inst) -> &ScratchNeed {
        &self.needs[inst]
    }

    /// Asks an instruction again, whose op was changed.
    pub(crate) fn renew(&mut self, func: &Func, inst: Inst) {
        let uses = OnceCell::new();
        let asked = Asked {
            func,
            inst,
            uses: &uses,
        };
        self.needs[inst] = need(func.op(inst), &asked);
    }
}

/// The common layout of some tensors, and what they consist of.
fn map_and_elems(func: &Func, operands: &[Value]) -> Option<(LinearLayout, Vec<Elem>)> {
    let tensors = operands.iter().map(|v| func.ty(*v).as_tensor());
    let tensors: Vec<&TensorType> = tensors.collect::<Option<_>>()?;
    let first = tensors.first()?;
    let map = first.layout.linear(&first.shape).ok()?;
    Some((map, tensors.iter().map(|t| t.elem).collect()))
}

/// The bits of `input` that move along dimension `axis`.
pub(crate) fn bits_along(map: &LinearLayout, input: Axis, axis: usize) -> Vec<u32> {
    let bases = map.basis_coords(input).into_iter().zip(0..);
    let along = bases.filter(|(basis, _)| basis[axis] != 0);
    along.map(|(_, bit)| bit).collect()
}
