//! Barriers in shared memory (PTX ISA, `mbarrier`): they count arrivals and bytes of asynchronous copies, and turn to the
//! next phase when both are complete.
//!
//! A barrier is one `u64` in shared memory; an array of them is a tile with one dimension more, indexed. A wait is for a
//! phase, 0 or 1: it returns when the barrier has completed the phase of that parity. A fresh barrier is in phase 0, so a
//! wait for phase 1 passes.

use cranelift_entity::packed_option::PackedOption;
use smallvec::smallvec;

use super::cluster::{check_cluster, check_rank};
use super::debug::scalar_bool;
use super::define::{answers, attr_enum, define_op};
use super::shared::descriptor;
use super::{OpRules, Types};
use crate::OpError;
use crate::elem::{DType, Elem};
use crate::entity::Value;
use crate::{Effects, Func, Spaces, Type};
use diag::Code;

/// Barriers order memory: nothing that touches it moves across.
const ORDERS: Effects = Effects {
    reads: Spaces::ALL,
    writes: Spaces::ALL,
    is_ordered: true,
    is_guarded: true,
    ..Effects::PURE
};

attr_enum! {
    /// Who arrives.
    pub enum Arrivers {
        /// The threads of the partition synchronize, and then one of them arrives.
        Partition = "partition",
        /// One thread of each warp, once its warp has arrived.
        Warp = "warp",
        /// One thread of each warpgroup, without waiting for the others.
        Warpgroup = "warpgroup",
        /// Every thread.
        Thread = "thread",
    }
    unsaid Partition
}

/// A descriptor of exactly one barrier.
pub(super) fn one_barrier(func: &Func, op: &str, barrier: Value) -> Result<(), OpError> {
    let s = descriptor(func, op, barrier)?;
    if s.elem == Elem::Data(DType::U64) && s.shape.product() == 1 {
        return Ok(());
    }
    Err(OpError::new(
        Code::ElementMismatch,
        format!("`{op}` wants one barrier (a u64 in shared memory), this is {s}"),
    )
    .typed(barrier, s)
    .help("index the barrier out of its array"))
}

pub(super) fn check_predicate(
    func: &Func,
    op: &str,
    predicate: PackedOption<Value>,
) -> Result<(), OpError> {
    predicate
        .expand()
        .map_or(Ok(()), |p| scalar_bool(func, op, p))
}

define_op! {
    /// Makes a barrier that completes a phase after `count` arrivals. One thread does it; other threads may use the
    /// barrier after a CTA barrier, which the planner places; the fence that makes it visible to the async proxy and to the cluster is
    /// part of this.
    pub struct MbarrierInit = "mbarrier_init" {
        /// Arrivals of a phase.
        count: u32,
        /// The barrier.
        barrier: Value,
    }
}

impl OpRules for MbarrierInit {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        one_barrier(func, "mbarrier_init", self.barrier)?;
        let most = func.target.mbarrier.arrivals;
        if self.count == 0 || self.count > most {
            return Err(OpError::new(
                Code::TooLarge,
                format!(
                    "a barrier counts 1 to {most} arrivals, not {}",
                    self.count
                ),
            )
            .help("count the arrivals of one phase: 1 where one thread expects the bytes of the copies"));
        }
        Ok(smallvec![])
    }
    answers!(effects(ORDERS), shared(barrier: Initialise), free_layouts);
}

define_op! {
    /// Gives the barrier's memory back for other use. No thread may wait on it any more.
    pub struct MbarrierInvalidate = "mbarrier_invalidate" {
        /// The barrier.
        barrier: Value,
    }
}

impl OpRules for MbarrierInvalidate {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        one_barrier(func, "mbarrier_invalidate", self.barrier)?;
        Ok(smallvec![])
    }
    answers!(effects(ORDERS), shared(barrier: Write), free_layouts);
}

define_op! {
    /// One arrival that also says how many bytes of copies complete the phase: `bytes`, and `count` more.
    pub struct MbarrierExpect = "mbarrier_expect" {
        /// Bytes.
        bytes: u32,
        /// The barrier.
        barrier: Value,
        /// Bytes that only the run knows, an i32 that is not negative.
        count: PackedOption<Value>,
        /// Whether at all; a scalar boolean.
        predicate: PackedOption<Value>,
    }
}

impl OpRules for MbarrierExpect {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        one_barrier(func, "mbarrier_expect", self.barrier)?;
        check_predicate(func, "mbarrier_expect", self.predicate)?;
        if let Some(count) = self.count.expand() {
            check_bytes(func, count)?;
        }
        let most = func.target.mbarrier.transaction_bytes;
        if self.bytes > most {
            return Err(OpError::new(
                Code::TooLarge,
                format!("a phase expects at most {most} bytes, not {}", self.bytes),
            ));
        }
        Ok(smallvec![])
    }
    answers!(effects(ORDERS), shared(barrier: Atomic), one_thread, free_layouts);
    fn expects_bytes(&self) -> Option<Value> {
        (self.bytes > 0 || self.count.is_some()).then_some(self.barrier)
    }
}

define_op! {
    /// Arrivals at the barrier, of this CTA or of another of the cluster.
    pub struct MbarrierArrive = "mbarrier_arrive" {
        /// Arrivals that each arriver makes.
        count: u32,
        /// Who arrives.
        by: Arrivers,
        /// The barrier.
        barrier: Value,
        /// Whether at all; a scalar boolean.
        predicate: PackedOption<Value>,
        /// The rank in the cluster of the CTA whose barrier is meant, an i32; this one's without it.
        cta: PackedOption<Value>,
    }
}

impl OpRules for MbarrierArrive {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        one_barrier(func, "mbarrier_arrive", self.barrier)?;
        check_predicate(func, "mbarrier_arrive", self.predicate)?;
        let most = func.target.mbarrier.arrivals;
        if self.count == 0 || self.count > most {
            return Err(OpError::new(
                Code::TooLarge,
                format!("an arrival counts 1 to {most}, not {}", self.count),
            ));
        }
        if let Some(cta) = self.cta.expand() {
            check_cluster(func, "mbarrier_arrive")?;
            check_rank(func, cta)?;
        }
        Ok(smallvec![])
    }
    fn suits_one_thread(&self) -> bool {
        self.by == Arrivers::Partition
    }
    fn accesses_other_ctas(&self) -> bool {
        self.cta.is_some()
    }
    answers!(effects(ORDERS), shared(barrier: Atomic), free_layouts);
}

define_op! {
    /// Waits until the barrier has completed the phase of the given parity. Writes before the arrivals and those of
    /// the copies are visible after it.
    pub struct MbarrierWait = "mbarrier_wait" {
        /// The barrier.
        barrier: Value,
        /// The parity: 0 or 1, a scalar of 32 bits.
        phase: Value,
        /// Whether at all; a scalar boolean.
        predicate: PackedOption<Value>,
    }
}

impl OpRules for MbarrierWait {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        one_barrier(func, "mbarrier_wait", self.barrier)?;
        check_predicate(func, "mbarrier_wait", self.predicate)?;
        check_phase(func, self.phase)?;
        Ok(smallvec![])
    }
    answers!(effects(ORDERS), shared(barrier: Poll), one_thread, free_layouts);
}

define_op! {
    /// Asks whether the barrier has completed the phase of the given parity, and waits a little at most. Threads may get
    /// different answers, so that only a wait may be made to depend on it.
    pub struct MbarrierTryWait = "mbarrier_try_wait" {
        /// The barrier.
        barrier: Value,
        /// The parity: 0 or 1, a scalar of 32 bits.
        phase: Value,
        /// How long a thread may be suspended, in nanoseconds, a scalar of 32 bits; without it the GPU says.
        suspend: PackedOption<Value>,
    }
}

impl OpRules for MbarrierTryWait {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        one_barrier(func, "mbarrier_try_wait", self.barrier)?;
        check_phase(func, self.phase)?;
        check_time(func, self.suspend)?;
        Ok(smallvec![Type::Scalar(Elem::I1)])
    }
    answers!(effects(ORDERS), shared(barrier: Poll), one_thread, free_layouts);
}

fn check_bytes(func: &Func, bytes: Value) -> Result<(), OpError> {
    let ty = func.ty(bytes);
    if *ty == Type::Scalar(Elem::I32) {
        return Ok(());
    }
    Err(OpError::new(
        Code::ElementMismatch,
        format!("a number of bytes is an i32, not {ty}"),
    )
    .typed(bytes, ty))
}

fn check_time(func: &Func, time: PackedOption<Value>) -> Result<(), OpError> {
    let Some(time) = time.expand() else {
        return Ok(());
    };
    match func.ty(time) {
        Type::Scalar(Elem::Data(DType::I32 | DType::U32)) => Ok(()),
        other => Err(OpError::new(
            Code::ElementMismatch,
            format!("a time is a scalar of 32 bits in nanoseconds, not {other}"),
        )
        .typed(time, other)),
    }
}

fn check_phase(func: &Func, phase: Value) -> Result<(), OpError> {
    match func.ty(phase) {
        Type::Scalar(Elem::Data(DType::I32 | DType::U32)) => check_parity(func, phase),
        other => Err(OpError::new(
            Code::ElementMismatch,
            format!("a phase is a scalar of 32 bits, 0 or 1, not {other}"),
        )
        .typed(phase, other)),
    }
}

/// What is known while tracing is checked here; the hardware takes the lowest bit of the rest.
fn check_parity(func: &Func, phase: Value) -> Result<(), OpError> {
    match func.constant_int(phase) {
        Some(parity) if !(0..=1).contains(&parity) => Err(OpError::new(
            Code::ConstantRange,
            format!("a wait for the phase of parity {parity}, which is 0 or 1"),
        )
        .origin(phase, "this parity")
        .help("count phases from 0 and wait for `phase & 1`")),
        _ => Ok(()),
    }
}
