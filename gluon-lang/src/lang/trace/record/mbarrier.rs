//! Barriers in shared memory.

use super::super::operand::Raw;
use super::super::{At, Trace, with};
use super::smem_alloc;
use diag::Code;
use ir::OpError;
use ir::elem::{DType, Elem};
use ir::entity::Value;
use ir::ops::arith::{Precision, Unary, UnaryOp};
use ir::ops::create::Const;
use ir::ops::mbarrier::{
    Arrivers, MbarrierArrive, MbarrierExpect, MbarrierInit, MbarrierInvalidate, MbarrierTryWait,
    MbarrierWait,
};
use layout::{Dims, Swizzled};

/// One barrier, or an array of so many.
#[inline(never)]
pub(crate) fn mbarrier_alloc(len: Option<u32>, at: At) -> Value {
    let shape = match len {
        None => Dims::from([1]),
        Some(len) => Dims::from([len, 1]),
    };
    smem_alloc(DType::U64.into(), shape, Swizzled::plain([0]).into(), at)
}

/// A fresh barrier.
#[inline(never)]
pub(crate) fn mbarrier_init(barrier: Value, count: u32, at: At) {
    with(at, |trace| {
        trace.push(MbarrierInit { count, barrier }, &[], at)
    });
}

/// The end of a barrier.
#[inline(never)]
pub(crate) fn mbarrier_invalidate(barrier: Value, at: At) {
    with(at, |trace| {
        trace.push(MbarrierInvalidate { barrier }, &[], at)
    });
}

/// An arrival that expects bytes.
#[inline(never)]
pub(crate) fn mbarrier_expect(barrier: Value, bytes: Raw, predicate: Option<Value>, at: At) {
    with(at, |trace| {
        let Some((bytes, count)) = trace.expected(bytes, at) else {
            return;
        };
        let op = MbarrierExpect {
            bytes,
            barrier,
            count: count.into(),
            predicate: predicate.into(),
        };
        trace.push(op, &[], at);
    });
}

/// Arrivals.
#[inline(never)]
pub(crate) fn mbarrier_arrive(
    barrier: Value,
    by: Arrivers,
    count: u32,
    predicate: Option<Value>,
    cta: Option<Raw>,
    at: At,
) {
    with(at, |trace| {
        let cta = match cta {
            Some(raw) => match trace.fit("in_cta", &[(raw, Elem::I32)], at) {
                Some(fitted) => Some(fitted[0]),
                None => return,
            },
            None => None,
        };
        let op = MbarrierArrive {
            count,
            by,
            barrier,
            predicate: predicate.into(),
            cta: cta.into(),
        };
        trace.push(op, &[], at);
    });
}

/// A phase as a value. One that is known while tracing is 0 or 1.
#[inline(never)]
pub(crate) fn mbarrier_phase(phase: Raw, at: At) -> Value {
    with(at, |trace| trace.phase(phase, at))
}

impl Trace {
    /// Bytes that are known while tracing, and those that are not.
    fn expected(&mut self, bytes: Raw, at: At) -> Option<(u32, Option<Value>)> {
        let Raw::Const(Const::Int(known)) = bytes else {
            let fitted = self.fit("expect", &[(bytes, Elem::I32)], at)?;
            return Some((0, Some(fitted[0])));
        };
        if let Ok(known) = u32::try_from(known) {
            return Some((known, None));
        }
        let message = format!("a barrier cannot expect {known} bytes");
        let error = OpError::new(Code::ConstantRange, message);
        self.fail(
            error.help("expect the bytes of the copies that complete in this phase"),
            at,
        );
        None
    }

    /// A time that a thread may be suspended.
    fn nanoseconds(&mut self, time: Raw, at: At) -> Value {
        if let Raw::Const(Const::Int(..0)) = time {
            let error = OpError::new(Code::ConstantRange, "a negative time");
            return self.fail(
                error.help("give the nanoseconds that a thread may be suspended, 0 or more"),
                at,
            );
        }
        match self.fit("try_wait_for", &[(time, Elem::I32)], at) {
            Some(fitted) => fitted[0],
            None => self.builder.poison(),
        }
    }

    /// The parity of a phase.
    fn phase(&mut self, phase: Raw, at: At) -> Value {
        if let Raw::Const(Const::Int(parity)) = phase
            && !(0..2).contains(&parity)
        {
            let message = format!("a phase is given by its parity, 0 or 1, not {parity}");
            let error = OpError::new(Code::ConstantRange, message);
            return self.fail(error.help("count the phases and wait for `count % 2`"), at);
        }
        match self.fit("wait", &[(phase, Elem::I32)], at) {
            Some(fitted) => fitted[0],
            None => self.builder.poison(),
        }
    }
}

/// Waits for a phase.
#[inline(never)]
pub(crate) fn mbarrier_wait(barrier: Value, phase: Raw, predicate: Option<Value>, at: At) {
    with(at, |trace| {
        let op = MbarrierWait {
            phase: trace.phase(phase, at),
            barrier,
            predicate: predicate.into(),
        };
        trace.push(op, &[], at);
    });
}

/// Asks for a phase, for so many nanoseconds where that is said.
#[inline(never)]
pub(crate) fn mbarrier_try_wait(
    barrier: Value,
    phase: Value,
    suspend: Option<Raw>,
    at: At,
) -> Value {
    with(at, |trace| {
        let suspend = suspend.map(|time| trace.nanoseconds(time, at));
        let op = MbarrierTryWait {
            barrier,
            phase,
            suspend: suspend.into(),
        };
        trace.push1(op, ir::Type::scalar(Elem::I1), at)
    })
}

/// Waits for a phase that was requested.
#[inline(never)]
pub(crate) fn mbarrier_finish(barrier: Value, phase: Value, done: Value, at: At) {
    with(at, |trace| {
        let not = Unary {
            op: UnaryOp::Not,
            precision: Precision::default(),
            operand: done,
        };
        let missing = trace.push1(not, ir::Type::scalar(Elem::I1), at);
        let op = MbarrierWait {
            barrier,
            phase,
            predicate: Some(missing).into(),
        };
        trace.push(op, &[], at);
    });
}
