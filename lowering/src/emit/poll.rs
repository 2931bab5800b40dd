//! Waiting for global memory: one lane of each warp for each element repeats a load until a test of it is true.
//!
//! The lane that read is the one that acquires. `bar.warp.sync` passes the order on to the other lanes of its warp (PTX ISA
//! 9.7.13.3: it orders memory accesses among the threads that take part). Through a scalar pointer every warp waits, so that
//! no barrier of the CTA is needed; where warps wait for different elements, one makes all of them acquire.
//!
//! At the scope of the system it polls by relaxed loads and acquires by one fence at the end (PTX ISA 8.8: an acquire pattern): `ld.acquire.sys`
//! is a strong load and an invalidation of L1, at each poll.
//!
//! The elements of one thread are polled together, each until its own wait is over: one after the other, each would take a way to memory and back.
//!
//! A limit of time costs nothing where the first read ends the wait: the clock is read behind a read that does not.

use diag::Diagnostic;
use ir::elem::{DType, Elem};
use ir::entity::{Inst, Value};
use ir::ops::atomic::{Scope, Semantics};
use ir::ops::control::yielded;
use ir::ops::poll::AtomicPoll;
use layout::Axis;
use ptx::{
    Addr, Binary, BinaryOp, Compare, Label, Mov, PairDest, Predicate, Reg, RegClass, Setp, Space,
    Special, Type,
};

use super::atomic::{access_sem, scope};
use super::element::Element;
use super::vector::{Shape, plain_load};
use super::{Emitted, Emitter, Lower};

/// An element that a thread waits for.
#[derive(Clone, Copy)]
struct Polled {
    from: Addr,
    /// What was read last.
    reg: Reg,
    /// Which threads wait.
    guard: Option<Predicate>,
}

/// The bits of a thread's number in its warp.
const LANE_BITS: u32 = 31;

impl Lower for AtomicPoll {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let elem = cx.elem(cx.func.result(inst));
        let pointers = cx.elements(self.ptr);
        let waiting = cx.waiting_lanes(self.ptr);
        let turns = cx.turns_of(waiting, self.ptr, self.mask.expand());
        let mut polled = Vec::with_capacity(turns.len());
        for turn in &turns {
            polled.push(Polled {
                from: cx.code.address(pointers[turn.register]),
                reg: cx.guarded_result(elem, turn.guard),
                guard: turn.guard,
            });
        }
        match polled[..] {
            [] => {}
            [one] => cx.poll(self, one)?,
            _ => cx.poll_together(self, &polled)?,
        }
        let shape = Shape::new(elem, 1);
        let known = turns.iter().zip(&polled).map(|(turn, polled)| {
            let element = cx.code.vector_elements(shape, &[polled.reg])[0];
            (turn.register, element)
        });
        let known = known.collect();
        cx.sync_warp();
        let is_synchronized = cx.broadcast_to_copies(inst, known, self.scratch);
        let all_acquired = is_synchronized || !cx.differs_between_warps(self.ptr);
        cx.barrier_after_acquire(self.semantics, all_acquired);
        Ok(())
    }
}

impl Emitter<'_> {
    /// One lane of each warp for each element that the warp holds; none where every lane holds its own.
    fn waiting_lanes(&mut self, pointers: Value) -> Option<Reg> {
        let copied = match self.func.ty(pointers).as_tensor() {
            _ if self.code.partition.is_one_thread => return None,
            None => LANE_BITS,
            Some(t) => self.distribution(t).map.free_mask(Axis::Lane),
        };
        let all_wait = copied == 0 && self.code.partition.followers == 0;
        (!all_wait).then(|| self.code.thread_bits_clear(copied))
    }

    /// Do warps hold different elements of a value?
    fn differs_between_warps(&mut self, value: Value) -> bool {
        let Some(t) = self.func.ty(value).as_tensor() else {
            return false;
        };
        let map = &self.distribution(t).map;
        map.free_mask(Axis::Warp) != (1 << map.in_bits(Axis::Warp)) - 1
    }

    /// The loop for one element, in the threads that the guard lets in.
    fn poll(&mut self, op: &AtomicPoll, polled: Polled) -> Emitted {
        let over = self.code.label("polled");
        if let Some(guard) = polled.guard {
            let skip = Predicate {
                negated: !guard.negated,
                ..guard
            };
            self.code.branch(Some(skip), over, false);
        }
        self.repeat(op, |cx| {
            cx.load_polled(op, polled, None);
            cx.test(op, polled)
        })?;
        self.acquire(op);
        self.code.bind(over);
        Ok(())
    }

    /// The loop for several elements, whose reads are in flight at a time; those of which the wait is over are not read again.
    fn poll_together(&mut self, op: &AtomicPoll, polled: &[Polled]) -> Emitted {
        let is_over: Vec<Reg> = polled.iter().map(|one| self.skipped(one.guard)).collect();
        self.repeat(op, |cx| {
            for (one, &over) in polled.iter().zip(&is_over) {
                cx.load_polled(op, *one, Some(Predicate::not(over)));
            }
            let mut all = None;
            for (one, &over) in polled.iter().zip(&is_over) {
                let done = cx.test(op, *one)?;
                let either = Binary::new(BinaryOp::Or, Type::Pred, over, over, done);
                cx.code.push(either);
                all = Some(match all {
                    None => over,
                    Some(all) => cx.code.binary(BinaryOp::And, Type::Pred, all, over),
                });
            }
            Ok(all.expect("a thread waits for several elements"))
        })?;
        self.acquire(op);
        Ok(())
    }

    /// A predicate that is true in the threads that do not wait.
    fn skipped(&mut self, guard: Option<Predicate>) -> Reg {
        let skipped = self.code.reg(RegClass::Pred);
        let none = Setp::new(
            Compare::Ne,
            Type::U32,
            PairDest::from(skipped),
            0_u32,
            0_u32,
        );
        self.code.push(none);
        if let Some(guard) = guard {
            let others = Predicate {
                negated: !guard.negated,
                ..guard
            };
            let all = Setp::new(
                Compare::Eq,
                Type::U32,
                PairDest::from(skipped),
                0_u32,
                0_u32,
            );
            self.code.push_guarded(Some(others), all);
        }
        skipped
    }

    /// Repeats what yields whether the wait is over, until it is or its time has passed.
    fn repeat(
        &mut self,
        op: &AtomicPoll,
        once: impl FnOnce(&mut Self) -> Result<Reg, Diagnostic>,
    ) -> Emitted {
        let again = self.code.label("poll");
        let clock = op.within.expand().map(|limit| self.start_clock(limit));
        self.code.bind(again);
        self.code.open();
        let was_divergent = self.code.begin_divergent();
        let done = once(self)?;
        match clock {
            None => self.code.branch(Some(Predicate::not(done)), again, false),
            Some(clock) => self.again_within(clock, done, again),
        }
        self.code.end_divergent(was_divergent);
        self.code.close();
        Ok(())
    }

    fn load_polled(&mut self, op: &AtomicPoll, polled: Polled, guard: Option<Predicate>) {
        let semantics = if acquires_at_end(op) {
            Semantics::Relaxed
        } else {
            op.semantics
        };
        let load = ptx::Ld {
            sem: Some(access_sem(semantics)),
            scope: Some(scope(op.scope)),
            ..plain_load(Space::Global)
        };
        let shape = self.polled_shape(op);
        self.code
            .load_into(shape, &[polled.reg], polled.from, guard, &load);
    }

    fn polled_shape(&self, op: &AtomicPoll) -> Shape {
        Shape::new(self.elem(self.func.region(op.until).params[0]), 1)
    }

    /// The test of what was read last.
    fn test(&mut self, op: &AtomicPoll, polled: Polled) -> Result<Reg, Diagnostic> {
        let param = self.func.region(op.until).params[0];
        let shape = self.polled_shape(op);
        let element: Element = self.code.vector_elements(shape, &[polled.reg])[0];
        self.set(param, vec![element]);
        self.region(op.until)?;
        let answer = yielded(self.func, op.until)[0];
        let done = self.scalar(answer);
        Ok(self.code.whole(done, Elem::I1))
    }

    fn acquire(&mut self, op: &AtomicPoll) {
        if acquires_at_end(op) {
            self.code.push(ptx::Fence {
                sem: Some(ptx::FenceSem::AcqRel),
                scope: scope(op.scope),
            });
        }
    }

    /// The limit of a wait, and where its beginning will be, which is 0 until then.
    fn start_clock(&mut self, limit: Value) -> Clock {
        let limit = self.scalar(limit);
        let limit = self.code.whole(limit, Elem::Data(DType::I64));
        let start = self.code.reg(RegClass::B64);
        self.code.push(Mov::new(Type::U64, start, 0_i64));
        Clock { limit, start }
    }

    /// Repeats what is not done, while its time is not over.
    fn again_within(&mut self, clock: Clock, done: Reg, again: Label) {
        let late = self.code.label("poll_late");
        self.code.branch(Some(Predicate::is(done)), late, false);
        let [now, elapsed] = [(); 2].map(|()| self.code.reg(RegClass::B64));
        self.code
            .push(Mov::new(Type::U64, now, Special::GlobalTimer));
        let [is_first, in_time] = [(); 2].map(|()| self.code.reg(RegClass::Pred));
        let unset = Setp::new(
            Compare::Eq,
            Type::U64,
            PairDest::from(is_first),
            clock.start,
            0_i64,
        );
        self.code.push(unset);
        let begin = Mov::new(Type::U64, clock.start, now);
        self.code.push_guarded(Some(Predicate::is(is_first)), begin);
        let passed = Binary::new(BinaryOp::Sub, Type::S64, elapsed, now, clock.start);
        self.code.push(passed);
        let less = Setp::new(
            Compare::Lt,
            Type::S64,
            PairDest::from(in_time),
            elapsed,
            clock.limit,
        );
        self.code.push(less);
        self.code.branch(Some(Predicate::is(in_time)), again, false);
        self.code.bind(late);
    }
}

/// Whether polls are relaxed, and a fence behind them acquires.
fn acquires_at_end(op: &AtomicPoll) -> bool {
    op.scope == Scope::Sys && op.semantics == Semantics::Acquire
}

/// The time of a wait with a limit.
#[derive(Clone, Copy)]
struct Clock {
    /// ns.
    limit: Reg,
    /// `%globaltimer` behind the first read that did not end the wait.
    start: Reg,
}
