//! Gathers along one dimension: by shuffles where a warp holds all that it looks up, else through shared memory.

use std::rc::Rc;

use ir::elem::Elem;
use ir::entity::Inst;
use ir::ops::flow;
use ir::ops::gather::Gather;
use layout::Axis;
use ptx::{Addr, BinaryOp, Compare, Operand, Reg, ShflMode, Space, Special, Type};

use super::code::Code;
use super::distribute::Distribution;
use super::element::{Element, Elements};
use super::flat::Flat;
use super::vector::{Shape, plain_load};
use super::{Emitted, Emitter, Lower};
use crate::analysis::scratch::lookup::{Decider, Lookup};
use crate::analysis::scratch::{BarrierScope, gather};

impl Lower for Gather {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let plan = Plan {
            axis: self.axis as usize,
            elem: cx.elem(self.source),
            source: cx.distribution(cx.tensor(self.source)),
            indices: cx.distribution(cx.tensor(self.indices)),
            elements: cx.elements(self.source),
        };
        let index_elem = cx.elem(self.indices);
        let indices = cx.elements(self.indices);
        let way = gather::way(cx.func, self);
        if way.lookup.is_none() {
            if way.need.scope == BarrierScope::Warp && flow::is_in_loop(cx.func, inst) {
                // The planner lets a warp use its own part again without a barrier of the CTA.
                cx.sync_warp();
            }
            plan.leave(self, way.need.scope, cx);
        }
        let mut found = vec![Element::int(0); plan.indices.registers()];
        for register in (0..found.len()).filter(|&r| plan.indices.is_own(r)) {
            let (index, full) = cx.code.index_word(indices[register], index_elem);
            cx.state_element(full, (self.source, plan.axis));
            found[register] = match &way.lookup {
                Some(lookup) => plan.look_up(lookup, register, index, cx),
                None => plan.read(self, register, index, cx),
            };
        }
        if way.lookup.is_none() && way.need.scope == BarrierScope::Cluster {
            // Nobody may write here again, or leave, while another CTA still reads.
            cx.sync_cluster();
        }
        let originals = (0..found.len()).map(|r| plan.indices.original(r));
        let results: Vec<Element> = originals.map(|r| found[r]).collect();
        cx.set_result(inst, results);
        Ok(())
    }
}

/// What a gather works on.
struct Plan {
    axis: usize,
    elem: Elem,
    source: Rc<Distribution>,
    indices: Rc<Distribution>,
    elements: Elements,
}

impl Plan {
    fn flat(&self, op: &Gather) -> Flat {
        Flat::new(&self.source.map, self.axis, self.elem, op.scratch.start)
    }

    /// Leaves the source in shared memory.
    fn leave(&self, op: &Gather, meeting: BarrierScope, cx: &mut Emitter<'_>) {
        self.flat(op).store(&self.source, &self.elements, cx);
        match meeting {
            BarrierScope::Warp => cx.sync_warp(),
            BarrierScope::Cluster => cx.sync_cluster(),
            _ => cx.sync_partition(),
        }
    }

    /// One element from there.
    fn read(&self, op: &Gather, register: usize, index: Reg, cx: &mut Emitter<'_>) -> Element {
        let flat = self.flat(op);
        let is_other = |dim: usize| dim != self.axis;
        let base = flat.thread_address(&self.indices, is_other, cx);
        let map = &self.indices.map;
        let fixed = flat.offset(map, self.indices.offsets[register], is_other);
        let address = match cx.code.of_bits(index, &flat.bytes_along(self.axis)) {
            Operand::Reg(moved) => cx.code.address_of(base, moved),
            _ => base,
        };
        let (address, space) = match self.holder(index, cx) {
            None => (address, Space::Shared),
            Some(rank) => (cx.code.in_peer(address, rank), Space::SharedCluster),
        };
        let shape = Shape::new(self.elem, 1);
        let regs = cx.code.vector_regs(shape, None);
        let from = flat.moved(address, fixed);
        cx.code
            .load_into(shape, &regs, from, None, &plain_load(space));
        cx.code.vector_elements(shape, &regs)[0]
    }

    /// The rank of the CTA that holds the element of an index, if that is not always this one: of those that differ from
    /// this one along the axis alone.
    fn holder(&self, index: Reg, cx: &mut Emitter<'_>) -> Option<Operand> {
        let bases = self.source.map.bases(Axis::Block).iter().enumerate();
        let mut entries = vec![0; self.source.map.out_bits(Axis::dim(self.axis)) as usize];
        let mut along = 0;
        for (bit, basis) in bases {
            let coordinate = self.source.coordinate(*basis, self.axis);
            if coordinate != 0 {
                entries[coordinate.ilog2() as usize] = 1 << bit;
                along |= 1 << bit;
            }
        }
        if along == 0 {
            return None;
        }
        let chosen = cx.code.of_bits(index, &entries);
        let others = cx.func.cluster_ctas() - 1 & !along;
        if others == 0 {
            return Some(chosen);
        }
        let own = cx.code.in_prologue(|code| {
            let rank = code.mov(Type::U32, Special::ClusterCtaRank);
            code.binary(BinaryOp::And, Type::B32, rank, others)
        });
        Some(cx.code.binary(BinaryOp::Or, Type::B32, own, chosen).into())
    }

    /// One element from the lane and the register that hold it.
    fn look_up(
        &self,
        lookup: &Lookup,
        register: usize,
        index: Reg,
        cx: &mut Emitter<'_>,
    ) -> Element {
        let known = lookup.known_register(register as u32);
        let open = lookup.open();
        let lane = (!lookup.stays_in_thread()).then(|| self.lane(lookup, register, index, cx));
        let mut candidates: Vec<Element> = (0..1_u32 << open.len())
            .map(|choice| {
                let chosen = open.iter().enumerate();
                let bits = chosen.map(|(at, (bit, _))| (choice >> at & 1) << bit);
                let element = self.elements[(known + bits.sum::<u32>()) as usize];
                match lane {
                    Some(lane) => cx.code.shuffled(element, self.elem, ShflMode::Idx, lane),
                    None => element,
                }
            })
            .collect();
        // The highest bit halves the candidates first.
        for (_, decider) in open.iter().rev() {
            let is_set = cx.code.decided(*decider, index);
            let upper = candidates.split_off(candidates.len() / 2);
            for (low, high) in candidates.iter_mut().zip(upper) {
                *low = cx.code.select(is_set.into(), high, *low, self.elem);
            }
        }
        candidates[0]
    }

    fn lane(&self, lookup: &Lookup, register: usize, index: Reg, cx: &mut Emitter<'_>) -> Operand {
        let entries = |count: u32, wanted: &dyn Fn(u32) -> Decider| -> Vec<u32> {
            let entry = |bit| {
                let lanes = lookup.lane.iter().filter(|(_, d)| *d == wanted(bit));
                lanes.map(|(lane, _)| 1 << lane).sum()
            };
            (0..count).map(entry).collect()
        };
        let threads = self.indices.thread_bases().count() as u32;
        let of_thread = cx.code.of_thread(&entries(threads, &Decider::Thread));
        let of_index = cx.code.of_bits(index, &entries(32, &Decider::Index));
        let fixed = Operand::from(lookup.known_lane(register as u32));
        let parts = [of_thread, of_index, fixed].into_iter();
        let parts = parts.filter(|part| *part != Operand::Int(0));
        let sum =
            parts.reduce(|sum, part| cx.code.binary(BinaryOp::Or, Type::B32, sum, part).into());
        sum.unwrap_or(Operand::Int(0))
    }
}

impl Code {
    /// An index in a register of 32 bits, and in one of its own width, whose upper half a bound must see too.
    pub(super) fn index_word(&mut self, index: Element, elem: Elem) -> (Reg, Reg) {
        if elem.bits() == 64 {
            let full = self.operand(index, elem);
            let word = self.convert(Type::U32, Type::U64, None, full);
            return (word, full.reg().unwrap_or(word));
        }
        let word = self.whole(index, elem);
        (word, word)
    }

    /// An address moved by what a register holds.
    pub(super) fn address_of(&mut self, base: Addr, moved: Reg) -> Addr {
        let ptx::Base::Reg(start) = base.base else {
            panic!("scratch is addressed by registers");
        };
        let sum = self.binary(BinaryOp::Add, Type::U32, start, moved);
        Addr::reg(sum, base.offset)
    }

    /// The same place in the shared memory of another CTA of the cluster.
    pub(super) fn in_peer(&mut self, addr: Addr, rank: Operand) -> Addr {
        let ptx::Base::Reg(own) = addr.base else {
            panic!("scratch is addressed by registers");
        };
        Addr::reg(self.mapa(own, rank), addr.offset)
    }

    /// Is the bit set that decides?
    fn decided(&mut self, decider: Decider, index: Reg) -> Reg {
        match decider {
            Decider::Index(bit) => {
                let kept = self.binary(BinaryOp::And, Type::B32, index, 1_u32 << bit);
                self.setp(Compare::Ne, Type::U32, kept, 0_u32)
            }
            Decider::Thread(bit) => self.thread_bits_are(1 << bit, 1 << bit),
            Decider::Register(_) => panic!("what a register decides is known when it is emitted"),
        }
    }
}
