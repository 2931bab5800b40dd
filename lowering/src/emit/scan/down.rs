//! The way down: what comes before each block.

use std::collections::BTreeMap;

use diag::Diagnostic;
use ir::elem::Elem;
use ir::ops::arith::BinaryOp as Op;
use layout::Axis;
use ptx::{BinaryOp, Operand, Reg, Type};

use super::{Blocks, Level, Plan, Tuple};
use crate::analysis::scratch::runs::Run;
use crate::emit::Emitter;

/// What comes before a block.
#[derive(Clone)]
pub(super) enum Before {
    /// Nothing.
    Nothing,
    /// This, in every thread.
    Always(Tuple),
    /// This where the predicate holds, and nothing in other threads.
    Where(Reg, Tuple),
}

impl Plan<'_> {
    /// What comes before each block of a run, given what comes before the larger blocks that it makes.
    pub(super) fn down(
        &self,
        at: usize,
        level: &Level,
        before: &BTreeMap<u32, Before>,
        cx: &mut Emitter<'_>,
    ) -> Result<BTreeMap<u32, Before>, Diagnostic> {
        let run = &self.runs[at];
        let mut found = BTreeMap::new();
        for &key in level.inclusive.keys() {
            let outer = &before[&run.larger(key)];
            let own = match run.holder {
                Axis::Register => self.after_registers(run, level, key, outer, cx)?,
                Axis::Lane => {
                    let previous = self.previous_lane(run, cx);
                    let previous = self.from_lane(&level.inclusive[&key], previous, cx);
                    self.after_threads(run, outer, &previous, cx)?
                }
                _ => self.after_many(run, level, key, outer, cx)?,
            };
            found.insert(key, own);
        }
        Ok(found)
    }

    fn after_registers(
        &self,
        run: &Run,
        level: &Level,
        key: u32,
        outer: &Before,
        cx: &mut Emitter<'_>,
    ) -> Result<Before, Diagnostic> {
        let start = run.larger(key);
        let is_this = |number: &u32| start | run.spread(self.place(run, *number)) == key;
        let number = (0..run.len())
            .find(is_this)
            .expect("a block has a place in its run");
        let mut earlier = (0..number)
            .rev()
            .map(|number| start | run.spread(self.place(run, number)));
        let Some(previous) = earlier.find(|block| level.inclusive.contains_key(block)) else {
            return Ok(outer.clone());
        };
        let tuple = self.joined(outer, &level.inclusive[&previous], cx)?;
        Ok(Before::Always(tuple))
    }

    fn after_many(
        &self,
        run: &Run,
        level: &Level,
        key: u32,
        outer: &Before,
        cx: &mut Emitter<'_>,
    ) -> Result<Before, Diagnostic> {
        let chain = &level.chains[&key];
        let mut previous = chain[0].clone();
        for number in 2..run.len() {
            let is_here = self.stands_at(run, self.place(run, number), cx);
            previous = self.select(is_here, &chain[number as usize - 1], &previous, cx);
        }
        self.after_threads(run, outer, &previous, cx)
    }

    /// A predicate: the thread holds the block with this number in a run of lanes, warps or CTAs.
    fn stands_at(&self, run: &Run, number: u32, cx: &mut Emitter<'_>) -> Reg {
        let (mask, wanted) = (run.mask(), run.spread(number));
        match run.holder {
            Axis::Block => cx.code.rank_bits_are(mask, wanted),
            Axis::Warp => {
                let lane_bits = self.source.map.in_bits(Axis::Lane);
                cx.code
                    .thread_bits_are(mask << lane_bits, wanted << lane_bits)
            }
            _ => cx.code.thread_bits_are(mask, wanted),
        }
    }

    /// What comes before a block whose place the thread decides, given what precedes it in its run in all places but the
    /// first.
    fn after_threads(
        &self,
        run: &Run,
        outer: &Before,
        previous: &Tuple,
        cx: &mut Emitter<'_>,
    ) -> Result<Before, Diagnostic> {
        let is_first = self.stands_at(run, self.place(run, 0), cx);
        let later = cx.code.negated(is_first);
        Ok(match outer {
            Before::Nothing => Before::Where(later, previous.clone()),
            Before::Always(tuple) => {
                let both = self.joined(outer, previous, cx)?;
                Before::Always(self.select(is_first, tuple, &both, cx))
            }
            Before::Where(holds, tuple) => {
                let both = self.joined(outer, previous, cx)?;
                let any = cx
                    .code
                    .int_binary(Op::Or, (*holds).into(), later.into(), Elem::I1);
                let any = cx.code.whole(any, Elem::I1);
                Before::Where(any, self.select(is_first, tuple, &both, cx))
            }
        })
    }

    /// `tuple` with what comes before it.
    fn joined(
        &self,
        before: &Before,
        tuple: &Tuple,
        cx: &mut Emitter<'_>,
    ) -> Result<Tuple, Diagnostic> {
        Ok(match before {
            Before::Nothing => tuple.clone(),
            Before::Always(earlier) => cx.combine(self.op.combine, earlier, tuple)?,
            Before::Where(holds, earlier) => {
                let both = cx.combine(self.op.combine, earlier, tuple)?;
                self.select(*holds, &both, tuple, cx)
            }
        })
    }

    /// The lane of the block before in the run; what the first one reads is not used.
    fn previous_lane(&self, run: &Run, cx: &mut Emitter<'_>) -> Operand {
        let threads = self.source.thread_bases().count();
        let place_of = |bit: u32| run.bits.iter().position(|&b| b == bit);
        let entries: Vec<u32> = (0..threads as u32)
            .map(|bit| place_of(bit).map_or(0, |place| 1 << place))
            .collect();
        let place = cx.code.of_thread(&entries);
        let step = if self.op.is_reverse { 1 } else { -1 };
        cx.code.in_prologue(|code| {
            let previous = code.binary(BinaryOp::Add, Type::S32, place, step);
            let rest = code.lane_with(0, run.mask());
            code.with_bits_spread(rest, previous, &run.bits)
        })
    }

    /// The lowest run's blocks are the elements themselves, and what comes before them completes them.
    pub(super) fn results(
        &self,
        level: &Level,
        before: &BTreeMap<u32, Before>,
        cx: &mut Emitter<'_>,
    ) -> Result<Blocks, Diagnostic> {
        let run = &self.runs[0];
        let mut found = Blocks::new();
        for (&key, tuple) in &level.inclusive {
            let outer = &before[&run.larger(key)];
            let outer = match run.holder {
                Axis::Warp | Axis::Block => &self.after_many(run, level, key, outer, cx)?,
                _ => outer,
            };
            found.insert(key, self.joined(outer, tuple, cx)?);
        }
        Ok(found)
    }
}
