//! Scans: in the thread, then between the lanes of a warp, then between warps through shared memory, and between the CTAs
//! of a cluster.
//!
//! The coordinate along the axis falls into [`Run`]s of bits held by registers, lanes, warps or CTAs. On the way up, each run
//! turns the blocks that the runs below made into larger ones, and keeps the inclusive prefix of each block within its
//! run. On the way down, each run passes to its blocks their exclusive prefix. So a thread combines about
//! twice per element, and once or twice per step between lanes, whatever the layout is. The order never changes: of two
//! elements that are combined, the left one comes first. A reverse scan counts every coordinate from its end.

mod down;

use std::collections::BTreeMap;
use std::rc::Rc;

use diag::Diagnostic;
use ir::elem::Elem;
use ir::entity::{Inst, Value};
use ir::ops::flow;
use ir::ops::scan::Scan;
use layout::Axis;
use ptx::{Addr, Operand, Predicate, Reg, ShflMode, Space};

use down::Before;

use super::distribute::Distribution;
use super::element::Element;
use super::peers::Exchange;
use super::vector::{Shape, plain_store};
use super::{Emitted, Emitter, Lower};
use crate::analysis::scratch::numbering::Numbering;
use crate::analysis::scratch::runs::{Place, Run, places, runs};

/// One element of each operand.
type Tuple = Vec<Element>;

/// Tuples of a thread, by the number of the register that a block begins with: the one with zeros in all bits below the
/// block's run. Of an extent that is no power of two, some blocks do not exist; the places of those that do are a prefix of
/// their run, for the coordinate bits that are cut belong to registers, or to sets of warps whose places the run counts.
type Blocks = BTreeMap<u32, Tuple>;

impl Lower for Scan {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let plan = Plan::new(self, inst, cx);
        let (scanned, totals) = plan.scanned(cx)?;
        let copied = plan.source.held.copied();
        let results = cx.func.results(inst).to_vec();
        let (own, of_totals) = results.split_at(self.operands.len());
        plan.set_totals(of_totals, &totals, cx);
        for (at, result) in own.iter().copied().enumerate() {
            let held = &plan.source.held;
            let elements: Vec<Element> = (0..plan.source.registers())
                .map(|register| scanned[&(held.number(register) & !copied)][at])
                .collect();
            cx.set(result, elements);
        }
        Ok(())
    }
}

/// What a scan works on.
struct Plan<'s> {
    op: &'s Scan,
    source: Rc<Distribution>,
    elems: Vec<Elem>,
    runs: Vec<Run>,
    places: Vec<Place>,
}

/// What one run keeps on the way up for the way down.
struct Level {
    /// Each block together with those before it in its run; for warps and CTAs, the block alone.
    inclusive: Blocks,
    /// For warps and CTAs: the inclusive prefixes of the first block, the first two blocks, ...
    chains: BTreeMap<u32, Vec<Tuple>>,
}

impl<'s> Plan<'s> {
    fn new(op: &'s Scan, inst: Inst, cx: &mut Emitter<'_>) -> Plan<'s> {
        let t = cx.tensor(op.operands[0]);
        let source = cx.distribution(t);
        let axis = op.axis as usize;
        let elems: Vec<Elem> = op.operands.iter().map(|v| cx.elem(*v)).collect();
        let runs = runs(&source.map, axis);
        let is_repeated = flow::is_in_loop(cx.func, inst);
        let places = places(&source.map, axis, &runs, &elems, is_repeated);
        Plan {
            op,
            source,
            elems,
            runs,
            places,
        }
    }

    /// The results of a thread, by register, and the totals, if the op has them.
    fn scanned(&self, cx: &mut Emitter<'_>) -> Result<(Blocks, Blocks), Diagnostic> {
        let lists: Vec<_> = self.op.operands.iter().map(|v| cx.elements(*v)).collect();
        let own = (0..self.source.registers()).filter(|&r| self.source.is_own(r));
        let mut blocks: Blocks = own
            .map(|r| {
                (
                    self.source.held.number(r),
                    lists.iter().map(|l| l[r]).collect(),
                )
            })
            .collect();
        if self.runs.is_empty() {
            return Ok((blocks.clone(), blocks));
        }
        let mut levels = Vec::new();
        for at in 0..self.runs.len() {
            let (level, larger) = self.up(at, blocks, cx)?;
            levels.push(level);
            blocks = larger;
        }
        let mut before: BTreeMap<u32, Before> =
            blocks.keys().map(|&key| (key, Before::Nothing)).collect();
        if self.op.has_totals
            && let Some(last) = self.runs.last()
            && last.holder == Axis::Lane
        {
            self.from_last_lane(last, &mut blocks, cx);
        }
        for at in (1..self.runs.len()).rev() {
            before = self.down(at, &levels[at], &before, cx)?;
        }
        Ok((self.results(&levels[0], &before, cx)?, blocks))
    }

    /// Sets the totals along the axis: every thread has those of the elements that it holds.
    fn set_totals(&self, results: &[Value], totals: &Blocks, cx: &mut Emitter<'_>) {
        let axis = self.op.axis as usize;
        let place = self.source.by_offset();
        for (at, &result) in results.iter().enumerate() {
            let elements: Vec<Element> = match cx.func.ty(result).as_tensor() {
                None => vec![totals[&0][at]],
                Some(t) => {
                    let distribution = cx.distribution(t);
                    let key = |&offset: &u64| {
                        let coords = distribution.map.unpack_out(offset);
                        let in_source = coords.with_inserted(axis, 0);
                        let register = place[&self.source.map.pack_out(&in_source)];
                        self.source.held.number(register)
                    };
                    let keys = distribution.offsets.iter().map(key);
                    keys.map(|key| totals[&key][at]).collect()
                }
            };
            cx.set(result, elements);
        }
    }

    /// The place of a block in its run counted from where the scan begins.
    fn place(&self, run: &Run, number: u32) -> u32 {
        if self.op.is_reverse {
            run.len() - 1 - number
        } else {
            number
        }
    }

    /// Turns blocks into those that the run makes of them.
    fn up(
        &self,
        at: usize,
        mut blocks: Blocks,
        cx: &mut Emitter<'_>,
    ) -> Result<(Level, Blocks), Diagnostic> {
        let run = &self.runs[at];
        // The last lane has the total of its warp, and passes it on between warps.
        if at > 0 && self.runs[at - 1].holder == Axis::Lane && run.holder != Axis::Warp {
            self.from_last_lane(&self.runs[at - 1], &mut blocks, cx);
        }
        let mut chains = BTreeMap::new();
        let larger = match run.holder {
            Axis::Register => self.along_registers(run, &mut blocks, cx)?,
            Axis::Lane => {
                self.along_lanes(run, &mut blocks, cx)?;
                blocks.clone()
            }
            _ => {
                chains = self.along_many(at, &blocks, cx)?;
                let last = |(&key, chain): (&u32, &Vec<Tuple>)| Some((key, chain.last()?.clone()));
                chains.iter().filter_map(last).collect()
            }
        };
        let inclusive = blocks;
        Ok((Level { inclusive, chains }, larger))
    }

    fn along_registers(
        &self,
        run: &Run,
        blocks: &mut Blocks,
        cx: &mut Emitter<'_>,
    ) -> Result<Blocks, Diagnostic> {
        let first: Vec<u32> = blocks
            .keys()
            .copied()
            .filter(|key| key & run.mask() == 0)
            .collect();
        let mut larger = Blocks::new();
        for key in first {
            let mut total: Option<Tuple> = None;
            for number in 0..run.len() {
                let block = key | run.spread(self.place(run, number));
                let Some(own) = blocks.get(&block) else {
                    continue;
                };
                let sum = match total {
                    None => own.clone(),
                    Some(total) => cx.combine(self.op.combine, &total, own)?,
                };
                blocks.insert(block, sum.clone());
                total = Some(sum);
            }
            larger.extend(total.map(|total| (key, total)));
        }
        Ok(larger)
    }

    /// In step `i`, the upper half of every 2^(i+1) lanes takes what the last of the lower half has.
    fn along_lanes(&self, run: &Run, blocks: &mut Blocks, cx: &mut Emitter<'_>) -> Emitted {
        let mut below = 0;
        for &bit in &run.bits {
            let bit = 1_u32 << bit;
            let (set, clear) = if self.op.is_reverse {
                (bit, below)
            } else {
                (below, bit)
            };
            let from = cx.code.lane_with(set, clear);
            let is_clear = cx.code.thread_bits_are(bit, 0);
            for tuple in blocks.values_mut() {
                let other = self.from_lane(tuple, from, cx);
                let sum = cx.combine(self.op.combine, &other, tuple)?;
                *tuple = if self.op.is_reverse {
                    self.select(is_clear, &sum, tuple, cx)
                } else {
                    self.select(is_clear, tuple, &sum, cx)
                };
            }
            below |= bit;
        }
        Ok(())
    }

    fn from_last_lane(&self, run: &Run, blocks: &mut Blocks, cx: &mut Emitter<'_>) {
        let (set, clear) = if self.op.is_reverse {
            (0, run.mask())
        } else {
            (run.mask(), 0)
        };
        let last = cx.code.lane_with(set, clear);
        for tuple in blocks.values_mut() {
            *tuple = self.from_lane(tuple, last, cx);
        }
    }

    fn from_lane(&self, tuple: &Tuple, lane: Operand, cx: &mut Emitter<'_>) -> Tuple {
        let elements = tuple.iter().zip(&self.elems);
        elements
            .map(|(&e, &elem)| cx.code.shuffled(e, elem, ShflMode::Idx, lane))
            .collect()
    }

    fn select(&self, p: Reg, yes: &Tuple, no: &Tuple, cx: &mut Emitter<'_>) -> Tuple {
        let pairs = yes.iter().zip(no).zip(&self.elems);
        pairs
            .map(|((&yes, &no), &elem)| cx.code.select(p.into(), yes, no, elem))
            .collect()
    }

    /// Every thread reads the totals of the blocks of all warps or CTAs of the run, and combines them from the first one on.
    fn along_many(
        &self,
        at: usize,
        blocks: &Blocks,
        cx: &mut Emitter<'_>,
    ) -> Result<BTreeMap<u32, Vec<Tuple>>, Diagnostic> {
        let run = &self.runs[at];
        let found = match &self.places[at] {
            Place::Nowhere => panic!("a run of warps or CTAs has its place in shared memory"),
            Place::Warps { slots, starts, .. } => {
                self.between_warps(run, (slots, starts), blocks, cx)
            }
            Place::Ctas {
                tuples,
                start,
                area,
            } => {
                let bases = self.source.thread_bases();
                let numbers: Vec<u32> = bases.map(|b| tuples.number(b)).collect();
                let exchange = Exchange {
                    area,
                    place: self.op.scratch.start + start,
                    rank_bits: &run.bits,
                    sender_numbers: &numbers,
                    thread_numbers: &numbers,
                    elems: &self.elems,
                };
                let number = |key: &u32| tuples.number(self.offset_of(*key));
                let sent: Vec<_> = blocks
                    .iter()
                    .map(|(key, tuple)| (number(key), tuple))
                    .collect();
                let wanted: Vec<u32> = blocks.keys().map(number).collect();
                exchange.run(&sent, &wanted, cx)
            }
        };
        let mut chains = BTreeMap::new();
        for (&key, parts) in blocks.keys().zip(found) {
            chains.insert(key, self.chain(run, &parts, cx)?);
        }
        Ok(chains)
    }

    /// Every warp stores the totals of its blocks to shared memory, and every thread reads those of all warps of the run, for
    /// each block.
    fn between_warps(
        &self,
        run: &Run,
        (slots, starts): (&Numbering, &[u32]),
        blocks: &Blocks,
        cx: &mut Emitter<'_>,
    ) -> Vec<Vec<Tuple>> {
        let writer = self.writer(run, cx);
        for operand in 0..self.elems.len() {
            let elem = self.elems[operand];
            let to = self.address(run, (slots, starts), operand, true, cx);
            for (&key, tuple) in blocks {
                let addr = self.slot_of(slots, key, elem, to);
                let store = plain_store(Space::Shared);
                let shape = Shape::new(elem, 1);
                cx.code
                    .store(shape, &[tuple[operand]], addr, writer, &store);
            }
        }
        cx.sync_partition();
        let from: Vec<Addr> = (0..self.elems.len())
            .map(|operand| self.address(run, (slots, starts), operand, false, cx))
            .collect();
        let parts_of = |&key: &u32| {
            let operands = from.iter().zip(&self.elems);
            let lists: Vec<Vec<Element>> = operands
                .map(|(&addr, &elem)| {
                    let addr = self.slot_of(slots, key, elem, addr);
                    cx.load_parts(addr, elem, run.len())
                })
                .collect();
            let tuple = |part: usize| lists.iter().map(|list| list[part]).collect();
            (0..run.len() as usize).map(tuple).collect()
        };
        blocks.keys().map(parts_of).collect()
    }

    /// The inclusive prefixes of the first part, the first two parts, ...
    fn chain(
        &self,
        run: &Run,
        parts: &[Tuple],
        cx: &mut Emitter<'_>,
    ) -> Result<Vec<Tuple>, Diagnostic> {
        let mut chain: Vec<Tuple> = Vec::new();
        for number in 0..run.len() {
            let place = self.place(run, number) as usize;
            let sum = match chain.last() {
                None => parts[place].clone(),
                Some(sum) => cx.combine(self.op.combine, &sum.clone(), &parts[place])?,
            };
            chain.push(sum);
        }
        Ok(chain)
    }

    /// One thread writes for all that hold the same block: the last lane of the scan.
    fn writer(&self, run: &Run, cx: &mut Emitter<'_>) -> Option<Predicate> {
        let lane_bits = self.source.map.in_bits(Axis::Lane);
        let below = self.runs.iter().take_while(|other| other.below < run.below);
        let alike: u32 = below
            .map(|other| match other.holder {
                Axis::Lane => other.mask(),
                Axis::Warp => other.mask() << lane_bits,
                _ => 0,
            })
            .sum();
        let mask = alike | self.source.copied_threads;
        let wanted = if self.op.is_reverse { 0 } else { alike };
        let is_last = (mask != 0).then(|| cx.code.thread_bits_are(mask, wanted));
        let has_tile = (cx.code.partition.followers != 0).then(|| cx.code.thread_bits_clear(0));
        let both = match (is_last, has_tile) {
            (Some(a), Some(b)) => Some(cx.code.both(a, b)),
            (a, b) => a.or(b),
        };
        both.map(Predicate::is)
    }

    /// Where a thread's slots of one operand begin: its own to write, those of all warps of the run to read.
    fn address(
        &self,
        run: &Run,
        (slots, starts): (&Numbering, &[u32]),
        operand: usize,
        is_written: bool,
        cx: &mut Emitter<'_>,
    ) -> Addr {
        let own = if is_written {
            u32::MAX
        } else {
            !run.place_bits()
        };
        let bytes = self.elems[operand].bytes();
        let bases = self.source.thread_bases();
        let entries: Vec<u32> = bases
            .map(|basis| (slots.number(basis) & own) * bytes)
            .collect();
        let thread = cx.code.of_thread(&entries);
        cx.shared_place(self.op.scratch.start + starts[operand], thread)
    }

    /// The packed coordinates that a block's first register adds to those of its thread.
    fn offset_of(&self, key: u32) -> u64 {
        let register = self.source.held.with_number(key);
        self.source.offsets[register.expect("a block begins with a register that exists")]
    }

    fn slot_of(&self, slots: &Numbering, key: u32, elem: Elem, addr: Addr) -> Addr {
        let slot = slots.number(self.offset_of(key));
        Addr {
            offset: addr.offset + (slot * elem.bytes()) as i32,
            ..addr
        }
    }
}
