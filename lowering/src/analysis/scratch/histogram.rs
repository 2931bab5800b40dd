//! Histograms: one counter a bin, and room for those of the CTAs that split what is counted.

use ir::Func;
use ir::elem::Elem;
use ir::entity::Inst;
use ir::ops::flow;
use ir::ops::gather::Histogram;
use layout::Axis;
use target::WIDEST_ACCESS_BYTES;

use super::{Area, Asked, BarrierScope, NeedsScratch, ScratchNeed};

/// The bits of the CTA's rank that tell apart the CTAs which split what is counted.
fn rank_bits(func: &Func, op: &Histogram) -> Option<Vec<u32>> {
    let t = func.ty(op.operand).as_tensor()?;
    let map = t.layout.linear(&t.shape).ok()?;
    let bases = map.bases(Axis::Block).iter().zip(0..);
    let bits = bases.filter(|(basis, _)| **basis != 0);
    Some(bits.map(|(_, bit)| bit).collect())
}

/// Each CTA counts for all bins, and adds up what all counted for the bins that it holds.
pub(crate) struct Shares {
    /// The bits of the CTA's rank that tell apart those who counted other elements.
    pub(crate) rank_bits: Vec<u32>,
    /// Bytes of the counters of all bins.
    bytes: u32,
}

impl Shares {
    /// `None` where each CTA holds all bins.
    pub(crate) fn of(func: &Func, inst: Inst, op: &Histogram) -> Option<Shares> {
        let counters = func.ty(func.result(inst)).as_tensor()?;
        let map = counters.layout.linear(&counters.shape).ok()?;
        let is_split = map.bases(Axis::Block).iter().any(|basis| *basis != 0);
        let rank_bits = rank_bits(func, op)?;
        is_split.then(|| Shares {
            rank_bits,
            bytes: counters.shape[0] * Elem::I32.bytes(),
        })
    }

    /// Do the CTAs read what others counted?
    pub(crate) fn are_exchanged(&self) -> bool {
        !self.rank_bits.is_empty()
    }
}

/// The exchange of counts between the CTAs that split what is counted.
pub(crate) struct Sizes {
    /// The bits of the CTA's rank that tell those CTAs apart.
    pub(crate) rank_bits: Vec<u32>,
    /// Where its memory begins in the scratch.
    pub(crate) start: u32,
    /// Its memory.
    pub(crate) area: Area,
}

impl Sizes {
    /// `None` where each CTA counts all elements, or where the CTAs split the bins.
    pub(crate) fn new(func: &Func, inst: Inst, op: &Histogram) -> Option<Sizes> {
        if Shares::of(func, inst, op).is_some() {
            return None;
        }
        let rank_bits = rank_bits(func, op)?;
        let bins = func.ty(func.result(inst)).shape()[0];
        let is_repeated = flow::is_in_loop(func, inst);
        let area = Area::new(
            &[Elem::I32],
            (bins, bins),
            1 << rank_bits.len(),
            is_repeated,
        );
        (!rank_bits.is_empty()).then(|| Sizes {
            rank_bits,
            start: (bins * Elem::I32.bytes()).next_multiple_of(WIDEST_ACCESS_BYTES),
            area,
        })
    }
}

impl NeedsScratch for Histogram {
    const HAS_SCRATCH: bool = true;

    fn need(&self, asked: &Asked<'_>) -> ScratchNeed {
        let (func, inst) = (asked.func, asked.inst);
        if let Some(shares) = Shares::of(func, inst, self) {
            return ScratchNeed {
                bytes: shares.bytes,
                scope: if shares.are_exchanged() {
                    BarrierScope::Cluster
                } else {
                    BarrierScope::Cta
                },
                ..ScratchNeed::default()
            };
        }
        let counters = func.ty(func.result(inst)).shape()[0] * Elem::I32.bytes();
        let exchange = Sizes::new(func, inst, self);
        let exchange = exchange.as_ref();
        ScratchNeed {
            bytes: exchange.map_or(counters, |sizes| sizes.start + sizes.area.bytes()),
            scope: BarrierScope::Cta,
            mbarriers: exchange
                .into_iter()
                .flat_map(|sizes| sizes.area.mbarriers().map(|at| sizes.start + at))
                .collect(),
        }
    }
}
