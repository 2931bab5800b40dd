//! Histograms whose bins the CTAs of a cluster split.

use std::rc::Rc;

use ir::TensorType;
use ir::elem::Elem;
use ir::ops::arith::BinaryOp as Op;
use layout::convert::PerThread;
use layout::{Axis, Blocked, LinearLayout};
use ptx::{Addr, BinaryOp, Operand, Space, Special, Type};

use crate::analysis::scratch::histogram::Shares;
use crate::emit::Emitter;
use crate::emit::distribute::Distribution;
use crate::emit::element::Element;
use crate::emit::flat::Flat;

impl Shares {
    /// The counts of the bins that this CTA holds.
    pub(super) fn add_up(
        &self,
        flat: &Flat,
        counters: &Distribution,
        cx: &mut Emitter<'_>,
    ) -> Vec<Element> {
        let own = flat.address_in_cluster(counters, cx);
        if !self.are_exchanged() {
            cx.sync_partition();
            return flat.load_from(counters, own, Space::Shared, cx);
        }
        cx.sync_cluster();
        let mut sums: Option<Vec<Element>> = None;
        for part in 0..1 << self.rank_bits.len() {
            let rank = self.rank(part, cx);
            let there = cx.code.in_peer(own, rank);
            let counts = flat.load_from(counters, there, Space::SharedCluster, cx);
            sums = Some(match sums {
                None => counts,
                Some(sums) => added(&sums, &counts, counters, cx),
            });
        }
        // Nobody may count again, or leave, while another CTA still reads.
        cx.sync_cluster();
        sums.expect("one CTA counts at least")
    }

    /// The rank of the CTA that counted a part of the elements: of those that differ from this one in that alone.
    fn rank(&self, part: u32, cx: &mut Emitter<'_>) -> Operand {
        let bits = self.rank_bits.iter().enumerate();
        let chosen: u32 = bits.map(|(at, bit)| (part >> at & 1) << bit).sum();
        let along: u32 = self.rank_bits.iter().map(|bit| 1 << bit).sum();
        let others = cx.func.cluster_ctas() - 1 & !along;
        if others == 0 {
            return chosen.into();
        }
        cx.code.in_prologue(|code| {
            let rank = code.mov(Type::U32, Special::ClusterCtaRank);
            let own = code.binary(BinaryOp::And, Type::B32, rank, others);
            code.binary(BinaryOp::Or, Type::B32, own, chosen).into()
        })
    }
}

/// Sums register by register; registers with copies have the sums of those that they copy.
fn added(
    sums: &[Element],
    counts: &[Element],
    counters: &Distribution,
    cx: &mut Emitter<'_>,
) -> Vec<Element> {
    let copied = counters.held.copied() as usize;
    let mut both: Vec<Element> = Vec::with_capacity(sums.len());
    for register in 0..sums.len() {
        let original = register & !copied;
        both.push(if original == register {
            cx.code
                .int_binary(Op::Add, sums[register], counts[register], Elem::I32)
        } else {
            both[original]
        });
    }
    both
}

/// The same bins, all held by each CTA.
pub(super) fn all_bins(counters: &LinearLayout, warps: u32) -> Rc<Distribution> {
    let ctas = counters.in_bits(Axis::Block) as usize;
    let layout = Blocked::new([1], [32], [warps], [0]).with_ctas(vec![[0]; ctas]);
    Rc::new(Distribution::new(&TensorType {
        shape: counters.out_sizes(),
        elem: Elem::I32,
        layout: layout.into(),
    }))
}

impl Flat {
    /// The address of the fragment of a thread, of which its CTA's rank in the cluster tells a part.
    fn address_in_cluster(&self, held: &Distribution, cx: &mut Emitter<'_>) -> Addr {
        let bytes_of = |axis: Axis| {
            let bases = held.map.bases(axis).iter();
            bases.map(|&basis| self.bytes_of(&held.map, basis))
        };
        let thread = cx.code.per_thread(&PerThread {
            lane: bytes_of(Axis::Lane).collect(),
            warp: bytes_of(Axis::Warp).collect(),
            block: bytes_of(Axis::Block).collect(),
        });
        cx.shared_place(self.start(), thread)
    }
}
