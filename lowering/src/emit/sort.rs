//! Sorting networks (bitonic): every step compares elements whose coordinates differ in one bit. Where a register holds
//! that bit, a thread compares its own elements; where a lane does, lanes exchange them by shuffles; where a warp does,
//! through shared memory; where the CTA's rank does, through that of the other CTA.
//!
//! Blocks of as many elements as are kept are sorted, every other one the other way round. Then pairs of blocks become one
//! that has the better half of both, which is sorted again; both halves of the threads continue with copies of it.
//!
//! Of an extent that is no power of two, places are missing. They count as elements that sort behind all others, so that blocks which are sorted
//! the other way round have them in front. Registers alone hold the coordinate bits of a granule and above, and which
//! way a block of whole granules is sorted is a bit of the register too: so where the missing places are after each step is known
//! here, for all threads alike, and nothing stands for them. A step moves an element to the place of a missing one by
//! another name for its register.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use ir::elem::Elem;
use ir::entity::Inst;
use ir::ops::arith::BinaryOp as Op;
use ir::ops::sort::Sort;
use layout::linear::Registers;
use layout::{Axis, relate};
use ptx::{Addr, BinaryOp, Compare, Operand, Predicate, Reg, Space, Special, Type};

use super::code::Code;
use super::distribute::Distribution;
use super::element::Element;
use super::flat::Flat;
use super::vector::{Shape, plain_load, plain_store};
use super::{Emitted, Emitter, Lower};
use crate::analysis::scratch::runs::holder_of;
use crate::analysis::scratch::sort::buffer;

/// One element of each operand.
type Tuple = Vec<Element>;

impl Lower for Sort {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let mut network = Network::new(self, cx);
        network.run(cx);
        for (at, result) in cx.func.results(inst).to_vec().into_iter().enumerate() {
            let t = cx.tensor(result);
            let kept = network.source.map.clipped_to(&t.shape);
            let target = cx.distribution(t);
            let registers = relate::registers_in(&kept, &target.map)
                .expect("what a sort keeps has a layout in which it stays in its threads");
            let held = Registers::of(&kept);
            let elements: Vec<Element> = registers
                .iter()
                .map(|register| held.number(*register as usize) & !network.gone)
                .map(|number| network.tuples[&number][at])
                .collect();
            cx.set(result, elements);
        }
        Ok(())
    }
}

/// Whether something holds: known here, or in each thread.
#[derive(Clone, Copy)]
enum Truth {
    Known(bool),
    InThread(Reg),
}

/// A sort on its way.
struct Network<'s> {
    op: &'s Sort,
    source: Rc<Distribution>,
    elems: Vec<Elem>,
    /// Who holds each bit of the coordinate, the lowest first.
    holders: Vec<(Axis, u32)>,
    /// The elements of a thread, by the number of the register in the map of the rounded shape; no entry where an element is missing.
    tuples: BTreeMap<u32, Tuple>,
    /// Register bits that hold copies, from the beginning or since blocks were merged.
    gone: u32,
    /// Exchanges through shared memory so far: they take turns in two buffers, so that one barrier each is enough.
    exchanges: u32,
    /// The buffer that another CTA may still read despite the cluster barriers since.
    read_by_peers: Option<u32>,
}

impl<'s> Network<'s> {
    fn new(op: &'s Sort, cx: &mut Emitter<'_>) -> Network<'s> {
        let t = cx.tensor(op.operands[0]);
        let source = cx.distribution(t);
        let dim = Axis::dim(op.axis as usize);
        let bits = source.map.out_shift(dim)..source.map.out_shift(dim) + source.map.out_bits(dim);
        let holders = bits.map(|bit| holder_of(&source.map, 1 << bit)).collect();
        let lists: Vec<_> = op.operands.iter().map(|v| cx.elements(*v)).collect();
        let own = (0..source.registers()).filter(|&r| source.is_own(r));
        Network {
            op,
            elems: op.operands.iter().map(|v| cx.elem(*v)).collect(),
            holders,
            tuples: own
                .map(|r| {
                    let tuple = lists.iter().map(|l| l[r]).collect();
                    (source.held.number(r), tuple)
                })
                .collect(),
            gone: source.held.copied(),
            exchanges: 0,
            read_by_peers: None,
            source,
        }
    }

    fn run(&mut self, cx: &mut Emitter<'_>) {
        let (all, kept) = (
            self.holders.len(),
            self.op.count.next_power_of_two().ilog2() as usize,
        );
        for size in 1..=kept {
            self.sort_bitonic(size, size, cx);
        }
        for bit in kept..all {
            self.merge(bit, cx);
            self.sort_bitonic(kept, bit + 1, cx);
        }
        if self.read_by_peers.is_some() {
            // Nobody may write here again, or leave, while another CTA still reads.
            cx.sync_cluster();
        } else if self
            .holders
            .iter()
            .any(|(holder, _)| *holder == Axis::Block)
        {
            // Planning expects a barrier after the last read of a sort across CTAs; here other warps may still read.
            cx.sync_partition();
        }
    }

    /// Sorts bitonic blocks of 2^size elements; the other way round where the coordinate's bit `turn` is set.
    fn sort_bitonic(&mut self, size: usize, turn: usize, cx: &mut Emitter<'_>) {
        for bit in (0..size).rev() {
            self.step(bit, turn, cx);
        }
    }

    /// Puts pairs of elements whose coordinates differ in `bit` in order.
    fn step(&mut self, bit: usize, turn: usize, cx: &mut Emitter<'_>) {
        if let (Axis::Register, r) = self.holders[bit] {
            for low in self.registers_without(1 << r) {
                self.step_in_thread(low, low | 1 << r, turn, cx);
            }
            return;
        }
        let others = self.others(bit, cx);
        for (register, other) in others {
            let is_second = self.bit_of(bit, register, cx);
            let is_turned = self.bit_of(turn, register, cx);
            let wants_later = cx.unequal(is_second, is_turned);
            let mine = self.tuples[&register].clone();
            let is_better = self.comes_before(&other, &mine, cx);
            let takes = cx.unequal(Truth::InThread(is_better), wants_later);
            self.tuples
                .insert(register, self.select(takes, &other, &mine, cx));
        }
    }

    /// The same for two registers of a thread, of which one may be missing.
    fn step_in_thread(&mut self, low: u32, high: u32, turn: usize, cx: &mut Emitter<'_>) {
        let is_turned = self.bit_of(turn, low, cx);
        if self.tuples.contains_key(&low) && self.tuples.contains_key(&high) {
            let (first, second) = self.ordered(low, high, is_turned, cx);
            self.tuples.insert(low, first);
            self.tuples.insert(high, second);
            return;
        }
        let Truth::Known(is_turned) = is_turned else {
            unreachable!("registers alone turn blocks of whole granules");
        };
        // What is missing comes last.
        let (from, to) = if is_turned { (low, high) } else { (high, low) };
        if let Some(tuple) = self.tuples.remove(&from) {
            self.tuples.insert(to, tuple);
        }
    }

    /// Of each pair of elements whose coordinates differ in `bit`, both places get the one that sorts first.
    fn merge(&mut self, bit: usize, cx: &mut Emitter<'_>) {
        if let (Axis::Register, r) = self.holders[bit] {
            for low in self.registers_without(1 << r) {
                let high = low | 1 << r;
                if self.tuples.contains_key(&low) && self.tuples.contains_key(&high) {
                    let (first, _) = self.ordered(low, high, Truth::Known(false), cx);
                    self.tuples.insert(low, first);
                    self.tuples.remove(&high);
                } else if let Some(tuple) = self.tuples.remove(&high) {
                    self.tuples.insert(low, tuple);
                }
            }
            self.gone |= 1 << r;
            return;
        }
        for (register, other) in self.others(bit, cx) {
            let mine = self.tuples[&register].clone();
            let takes = Truth::InThread(self.comes_before(&other, &mine, cx));
            self.tuples
                .insert(register, self.select(takes, &other, &mine, cx));
        }
    }

    /// The registers that are there, each called by the one of its pair whose bit is clear, which may be missing.
    fn registers_without(&self, bit: u32) -> BTreeSet<u32> {
        self.tuples.keys().map(|key| key & !bit).collect()
    }

    /// Is a bit of the coordinate set? There is no bit past the last, and so it is not.
    fn bit_of(&self, bit: usize, register: u32, cx: &mut Emitter<'_>) -> Truth {
        let lanes = self.source.map.in_bits(Axis::Lane);
        let thread_bit = match self.holders.get(bit) {
            None => return Truth::Known(false),
            Some((Axis::Register, r)) => return Truth::Known(register >> r & 1 == 1),
            Some((Axis::Block, b)) => return Truth::InThread(cx.code.rank_bit(*b)),
            Some((Axis::Lane, l)) => *l,
            Some((_, w)) => lanes + w,
        };
        let mask = 1 << thread_bit;
        Truth::InThread(cx.code.thread_bits_are(mask, mask))
    }

    /// What two registers hold, in order.
    fn ordered(
        &self,
        low: u32,
        high: u32,
        is_turned: Truth,
        cx: &mut Emitter<'_>,
    ) -> (Tuple, Tuple) {
        let (a, b) = (&self.tuples[&low], &self.tuples[&high]);
        if let (Truth::Known(is_turned), [elem]) = (is_turned, &self.elems[..]) {
            let smaller = cx.code.int_binary(Op::Min, a[0], b[0], *elem);
            let larger = cx.code.int_binary(Op::Max, a[0], b[0], *elem);
            return if self.op.is_descending == is_turned {
                (vec![smaller], vec![larger])
            } else {
                (vec![larger], vec![smaller])
            };
        }
        let is_before = Truth::InThread(self.comes_before(b, a, cx));
        let swaps = cx.unequal(is_before, is_turned);
        (self.select(swaps, b, a, cx), self.select(swaps, a, b, cx))
    }

    /// Does `a` come before `b`, both as they are kept?
    fn comes_before(&self, a: &Tuple, b: &Tuple, cx: &mut Emitter<'_>) -> Reg {
        let (a, b) = if self.op.is_descending {
            (b, a)
        } else {
            (a, b)
        };
        let mut is_less: Option<Element> = None;
        for at in (0..self.elems.len()).rev() {
            let (elem, x, y) = (self.elems[at], a[at], b[at]);
            let less = cx.code.int_compare(Compare::Lt, x, y, elem);
            is_less = Some(match is_less {
                None => less,
                Some(rest) => {
                    let equal = cx.code.int_compare(Compare::Eq, x, y, elem);
                    let rest = cx.code.int_binary(Op::And, equal, rest, Elem::I1);
                    cx.code.int_binary(Op::Or, less, rest, Elem::I1)
                }
            });
        }
        let is_less = is_less.expect("a sort has operands");
        cx.code.whole(is_less, Elem::I1)
    }

    fn select(&self, takes: Truth, yes: &Tuple, no: &Tuple, cx: &mut Emitter<'_>) -> Tuple {
        match takes {
            Truth::Known(true) => yes.clone(),
            Truth::Known(false) => no.clone(),
            Truth::InThread(p) => {
                let pairs = yes.iter().zip(no).zip(&self.elems);
                pairs
                    .map(|((&yes, &no), &elem)| cx.code.select(p.into(), yes, no, elem))
                    .collect()
            }
        }
    }

    /// For each register, what the thread holds whose coordinates differ in `bit`, which no register holds.
    fn others(&mut self, bit: usize, cx: &mut Emitter<'_>) -> Vec<(u32, Tuple)> {
        let (holder, number) = self.holders[bit];
        if matches!(holder, Axis::Warp | Axis::Block) {
            return self.through_scratch((holder, number), cx);
        }
        let from_lane = |(&register, tuple): (&u32, &Tuple)| {
            let elements = tuple.iter().zip(&self.elems);
            let other = elements.map(|(&e, &elem)| cx.code.exchange(e, elem, 1 << number));
            (register, other.collect())
        };
        self.tuples.iter().map(from_lane).collect()
    }

    /// From the warp, or the CTA, whose number differs in one bit.
    fn through_scratch(
        &mut self,
        (holder, bit): (Axis, u32),
        cx: &mut Emitter<'_>,
    ) -> Vec<(u32, Tuple)> {
        let buffer = self.exchanges % 2;
        if self.read_by_peers == Some(buffer) {
            cx.sync_cluster();
            self.read_by_peers = None;
        }
        let flats = self.flats();
        self.leave(&flats, cx);
        if holder == Axis::Block {
            cx.sync_cluster();
            self.read_by_peers = Some(buffer);
        } else {
            cx.sync_partition();
        }
        self.exchanges += 1;
        let mut others: Vec<(u32, Tuple)> =
            self.tuples.keys().map(|&key| (key, Tuple::new())).collect();
        for (at, flat) in flats.iter().enumerate() {
            let (from, space) = if holder == Axis::Block {
                let own = flat.thread_address(&self.source, |_| true, cx);
                let rank = cx.code.rank_across(bit);
                (cx.code.in_peer(own, rank), Space::SharedCluster)
            } else {
                (flat.address_across(&self.source, bit, cx), Space::Shared)
            };
            for (register, tuple) in &mut others {
                let from = self.place(flat, *register, from);
                let shape = Shape::new(self.elems[at], 1);
                let regs = cx.code.vector_regs(shape, None);
                cx.code
                    .load_into(shape, &regs, from, None, &plain_load(space));
                tuple.push(cx.code.vector_elements(shape, &regs)[0]);
            }
        }
        others
    }

    /// Owners leave what they hold in shared memory.
    fn leave(&self, flats: &[Flat], cx: &mut Emitter<'_>) {
        let owner = self.source.owner(&mut cx.code).map(Predicate::is);
        for (at, flat) in flats.iter().enumerate() {
            let to = flat.thread_address(&self.source, |_| true, cx);
            for (&register, tuple) in &self.tuples {
                let to = self.place(flat, register, to);
                let shape = Shape::new(self.elems[at], 1);
                let store = plain_store(Space::Shared);
                cx.code.store(shape, &[tuple[at]], to, owner, &store);
            }
        }
    }

    /// Where each operand lies in the buffer whose turn it is.
    fn flats(&self) -> Vec<Flat> {
        let (starts, bytes) = buffer(&self.source.map, &self.elems);
        let start = self.op.scratch.start + self.exchanges % 2 * bytes;
        let operands = starts.into_iter().zip(&self.elems);
        operands
            .map(|(at, &elem)| Flat::new(&self.source.map, 0, elem, start + at))
            .collect()
    }

    fn place(&self, flat: &Flat, register: u32, base: Addr) -> Addr {
        // An element may be where none was in the beginning.
        let packed = self.source.map.apply_packed(u64::from(register));
        flat.moved(base, flat.offset(&self.source.map, packed, |_| true))
    }
}

impl Code {
    /// Is a bit of the CTA's rank set?
    fn rank_bit(&mut self, bit: u32) -> Reg {
        self.in_prologue(|code| {
            let rank = code.mov(Type::U32, Special::ClusterCtaRank);
            let kept = code.binary(BinaryOp::And, Type::B32, rank, 1_u32 << bit);
            code.setp(Compare::Ne, Type::U32, kept, 0_u32)
        })
    }

    /// The rank that differs from this CTA's in one bit.
    fn rank_across(&mut self, bit: u32) -> Operand {
        self.in_prologue(|code| {
            let rank = code.mov(Type::U32, Special::ClusterCtaRank);
            let other = code.binary(BinaryOp::Xor, Type::B32, rank, 1_u32 << bit);
            other.into()
        })
    }
}

impl Emitter<'_> {
    fn unequal(&mut self, a: Truth, b: Truth) -> Truth {
        match (a, b) {
            (Truth::Known(a), Truth::Known(b)) => Truth::Known(a != b),
            (Truth::InThread(p), Truth::Known(is_set))
            | (Truth::Known(is_set), Truth::InThread(p)) => {
                Truth::InThread(if is_set { self.code.negated(p) } else { p })
            }
            (Truth::InThread(a), Truth::InThread(b)) => {
                let unequal = self.code.int_binary(Op::Xor, a.into(), b.into(), Elem::I1);
                Truth::InThread(self.code.whole(unequal, Elem::I1))
            }
        }
    }
}
