//! Waiting for global memory: one lane of each warp for each element repeats a load until a test of it is true.
//!
//! The lane that read is the one that acquires. `bar.warp.sync` passes the order on to the other lanes of its warp (PTX ISA
//! 9.7.13.3: it orders memory accesses among the threads that take part). Through a scalar pointer every warp waits, so that
//! no barrier of the CTA is needed; where warps wait for different elements, one makes all of them acquire.
//!
//! At the scope of the system it polls by relaxed loads and acquires by one fence at the end (PTX ISA 8.8: an acquire pattern): `ld.acquire.sys`
//! is a strong load and an invalidation of L1, at each poll.
//!
//! A limit of time costs nothing where the first read ends the wait: the clock is read behind a read that does not.

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

/// The bits of a thread's number in its warp.
const LANE_BITS: u32 = 31;

impl Lower for AtomicPoll {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let elem = cx.elem(cx.func.result(inst));
        let pointers = cx.elements(self.ptr);
        let mut known = Vec::new();
        let waiting = cx.waiting_lanes(self.ptr);
        for turn in cx.turns_of(waiting, self.ptr, self.mask.expand()) {
            let from = cx.code.address(pointers[turn.register]);
            let reg = cx.guarded_result(elem, turn.guard);
            cx.poll(self, from, reg, turn.guard)?;
            let element = cx.code.vector_elements(Shape::new(elem, 1), &[reg])[0];
            known.push((turn.register, element));
        }
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

    /// The loop, in the threads that the guard lets in.
    fn poll(&mut self, op: &AtomicPoll, from: Addr, reg: Reg, guard: Option<Predicate>) -> Emitted {
        let acquires_at_end = op.scope == Scope::Sys && op.semantics == Semantics::Acquire;
        let semantics = if acquires_at_end {
            Semantics::Relaxed
        } else {
            op.semantics
        };
        let load = ptx::Ld {
            sem: Some(access_sem(semantics)),
            scope: Some(scope(op.scope)),
            ..plain_load(Space::Global)
        };
        let param = self.func.region(op.until).params[0];
        let shape = Shape::new(self.elem(param), 1);
        let (again, over) = (self.code.label("poll"), self.code.label("polled"));
        if let Some(guard) = guard {
            let skip = Predicate {
                negated: !guard.negated,
                ..guard
            };
            self.code.branch(Some(skip), over, false);
        }
        let clock = op.within.expand().map(|limit| self.start_clock(limit));
        self.code.bind(again);
        self.code.open();
        let was_divergent = self.code.begin_divergent();
        self.code.load_into(shape, &[reg], from, None, &load);
        let element: Element = self.code.vector_elements(shape, &[reg])[0];
        self.set(param, vec![element]);
        self.region(op.until)?;
        let answer = yielded(self.func, op.until)[0];
        let done = self.scalar(answer);
        let done = self.code.whole(done, Elem::I1);
        match clock {
            None => self.code.branch(Some(Predicate::not(done)), again, false),
            Some(clock) => self.again_within(clock, done, again),
        }
        self.code.end_divergent(was_divergent);
        self.code.close();
        if acquires_at_end {
            self.code.push(ptx::Fence {
                sem: Some(ptx::FenceSem::AcqRel),
                scope: scope(op.scope),
            });
        }
        self.code.bind(over);
        Ok(())
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

/// The time of a wait with a limit.
#[derive(Clone, Copy)]
struct Clock {
    /// ns.
    limit: Reg,
    /// `%globaltimer` behind the first read that did not end the wait.
    start: Reg,
}
