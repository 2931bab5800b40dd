//! Loops of the IR as steps, and the iterations that they share.
//!
//! Matches on ops: a `while` has two regions, and bounds are taken apart where constants are added.

use ir::entity::{Inst, Region, Value};
use ir::ops::Op;
use ir::ops::arith::BinaryOp;
use ir::ops::flow::{self, Slot};
use smallvec::SmallVec;

use crate::classes::Class;
use crate::extract::Extractor;
use crate::program::{Loop, LoopId, SHARED, What};
use crate::verdict::Undecided;

impl Extractor<'_> {
    fn enter(&mut self, inst: Inst, bounds: Option<[Value; 3]>, index: Option<Value>) -> LoopId {
        let is_constant = |v: &Value| self.func.constant_int(*v).is_some();
        let op = self.func.op(inst);
        let is_fixed =
            bounds.is_some_and(|b| b.iter().all(is_constant)) && !flow::stops_early(self.func, op);
        let around = self.around.iter().map(|id| &self.program.loops[*id]);
        let around = around.filter(|l| !l.is_fixed).map(|l| l.class).collect();
        let id = self.program.loops.len();
        let mut inner = Vec::new();
        for region in op.regions() {
            self.inner_values(region, &mut inner);
        }
        let (class, start) = self.iterations(inst, bounds);
        self.program.loops.push(Loop {
            inst,
            class,
            start: start.unwrap_or_default(),
            is_from_zero: start.is_some(),
            bounds,
            index,
            is_fixed,
            counts: index.is_some_and(|index| self.relevant.counts(index)),
            around,
            inner,
        });
        self.loops.push(id);
        self.around.push(id);
        id
    }

    /// The class of a loop's iterations, and the first. A loop whose first steps stand before it has the iterations of the whole loop
    /// but for those.
    fn iterations(&mut self, inst: Inst, bounds: Option<[Value; 3]>) -> (Class, Option<u32>) {
        let own = (self.classes.of_loop(inst), None);
        if flow::stops_early(self.func, self.func.op(inst)) {
            return own;
        }
        let Some([low, high, step]) = bounds else {
            return own;
        };
        let [first, by] = [low, step].map(|v| self.func.constant_int(v));
        match (first, by) {
            (Some(first), Some(by)) if by > 0 && (0..=1024).contains(&first) && first % by == 0 => {
                let (end, beyond) = self.end_of(high, by as i64);
                let key = (end, by as i64);
                let known = self.program.ends.iter().position(|end| *end == key);
                let at = known.unwrap_or_else(|| {
                    self.program.ends.push(key);
                    self.program.ends.len() - 1
                });
                let id = self.program.loops.len();
                self.program.beyond.push((at, id, beyond));
                (SHARED | at as Class, Some((first / by) as u32))
            }
            _ => own,
        }
    }

    /// The class of what a bound is computed from by adding a constant, and the constant. A step more than one keeps them together.
    fn end_of(&self, high: Value, by: i64) -> (Class, i64) {
        let mut beyond = 0;
        let mut at = high;
        while let Some(inst) = self.func.def_inst(at).filter(|_| by == 1) {
            let Op::Binary(op) = self.func.op(inst) else {
                break;
            };
            let Some(number) = self.func.constant_int(op.rhs) else {
                break;
            };
            match op.op {
                BinaryOp::Add => beyond += number as i64,
                BinaryOp::Sub => beyond -= number as i64,
                _ => break,
            }
            at = op.lhs;
        }
        (self.classes.of(at), beyond)
    }

    /// Loops that share their end begin as much later as their bounds are smaller.
    pub(crate) fn align(&mut self) {
        for (end, id, beyond) in &self.program.beyond {
            let same = self.program.beyond.iter().filter(|(e, ..)| e == end);
            let most = same.map(|(.., b)| *b).max().unwrap_or_default();
            self.program.loops[*id].start += (most - beyond) as u32;
        }
    }

    /// Values of control flow in a region.
    fn inner_values(&self, region: Region, inner: &mut Vec<Value>) {
        let data = self.func.region(region);
        let mut all: Vec<Value> = data.params.to_vec();
        for inst in &data.insts {
            let regions = self.func.op(*inst).regions();
            if !regions.is_empty() {
                all.extend(self.func.results(*inst));
            }
            for region in regions {
                self.inner_values(region, inner);
            }
        }
        inner.extend(all.into_iter().filter(|v| self.relevant.has(*v)));
    }

    pub(crate) fn counted(&mut self, inst: Inst) -> Result<(), Undecided> {
        let Some(op) = flow::counted(self.func.op(inst)).cloned() else {
            return Ok(());
        };
        let slots = flow::slots(self.func, inst);
        let index = self.func.region(op.body).params.first().copied();
        let id = self.enter(inst, Some([op.low, op.high, op.step]), index);
        let inits = self.kept(slots.iter().filter_map(|s| Some((s.params[0], s.init?))));
        self.push(inst, What::Enter { id, inits });
        let head = self.push(inst, What::Jump(0));
        self.region(op.body)?;
        let next = self.kept(slots.iter().map(|s| (s.params[0], s.yielded[0].1)));
        let early = self.kept(slots.iter().map(|s| (s.result, s.yielded[0].1)));
        let results = self.kept(slots.iter().map(|s| (s.result, s.params[0])));
        let goes_on = flow::condition(self.func, op.body);
        let exit = self.steps.len() + 1;
        self.push(
            inst,
            What::Next {
                id,
                head,
                exit,
                goes_on,
                next,
                results: early,
            },
        );
        self.steps[head].what = What::Test { id, exit, results };
        self.around.pop();
        Ok(())
    }

    pub(crate) fn while_loop(&mut self, inst: Inst) -> Result<(), Undecided> {
        let Op::While(op) = self.func.op(inst).clone() else {
            return Ok(());
        };
        let slots: SmallVec<[Slot; 2]> = flow::slots(self.func, inst);
        let Some(condition) = flow::condition(self.func, op.before) else {
            return Ok(());
        };
        let id = self.enter(inst, None, None);
        let inits = self.kept(slots.iter().filter_map(|s| Some((s.params[0], s.init?))));
        self.push(inst, What::Enter { id, inits });
        let head = self.steps.len();
        self.region(op.before)?;
        let test = self.push(inst, What::Jump(0));
        self.region(op.after)?;
        let next = self.kept(slots.iter().map(|s| (s.params[0], s.yielded[1].1)));
        let early = self.kept(slots.iter().map(|s| (s.result, s.yielded[1].1)));
        let goes_on = flow::condition(self.func, op.after);
        let exit = self.steps.len() + 1;
        self.push(
            inst,
            What::Next {
                id,
                head,
                exit,
                goes_on,
                next,
                results: early,
            },
        );
        self.steps[test].what = What::TestWhile {
            id,
            condition,
            exit,
            passed: self.kept(slots.iter().map(|s| (s.params[1], s.yielded[0].1))),
            results: self.kept(slots.iter().map(|s| (s.result, s.yielded[0].1))),
        };
        self.around.pop();
        Ok(())
    }
}
