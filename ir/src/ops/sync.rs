//! CTA barriers and named barriers.

use smallvec::smallvec;

use super::define::{answers, define_op};
use super::{OpRules, Types};
use crate::OpError;
use crate::{Effects, Func, Type};
use diag::Code;

pub use super::answers::NamedBarrier;

define_op! {
    /// All threads of the CTA synchronize, within a partition of `warp_specialize` all threads of the partition; what any of them wrote
    /// before, all of them see after (PTX `barrier.cta.sync`).
    pub struct Barrier = "barrier" {
    }
}

impl OpRules for Barrier {
    fn result_types(&self, _: &Func, _: &[Type]) -> Result<Types, OpError> {
        Ok(smallvec![])
    }
    fn name_in_source(&self) -> &'static str {
        "cta_barrier"
    }
    /// One thread needs no barrier.
    fn suits_one_thread(&self) -> bool {
        true
    }
    answers!(effects(Effects::BARRIER), free_layouts);
}

define_op! {
    /// The threads of this partition arrive at a named barrier, and wait until all that it counts have arrived;
    /// what those wrote before, these see after (PTX `bar.sync`).
    pub struct NamedSync = "named_sync" {
        /// Which of the barriers that the author named, from 0.
        number: u32,
        /// Threads that arrive, over all partitions.
        threads: u32,
    }
}

impl OpRules for NamedSync {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        check_threads(func, self.threads)?;
        Ok(smallvec![])
    }
    fn named_barrier(&self) -> Option<NamedBarrier> {
        Some(NamedBarrier {
            number: self.number,
            threads: self.threads,
        })
    }
    answers!(effects(Effects::BARRIER), free_layouts);
}

define_op! {
    /// The threads of this partition arrive at a named barrier, and continue; those that wait there see what these
    /// wrote before (PTX `bar.arrive`).
    pub struct NamedArrive = "named_arrive" {
        /// Which of the barriers that the author named, from 0.
        number: u32,
        /// Threads that arrive, over all partitions.
        threads: u32,
    }
}

impl OpRules for NamedArrive {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        check_threads(func, self.threads)?;
        Ok(smallvec![])
    }
    fn effects(&self) -> Effects {
        Effects {
            is_barrier: false,
            ..Effects::BARRIER
        }
    }
    fn named_barrier(&self) -> Option<NamedBarrier> {
        Some(NamedBarrier {
            number: self.number,
            threads: self.threads,
        })
    }
    answers!(free_layouts);
}

/// Can a barrier count so many threads?
pub fn check_threads(func: &Func, threads: u32) -> Result<(), OpError> {
    let most = func.target.cta.threads;
    if (32..=most).contains(&threads) && threads.is_multiple_of(32) {
        return Ok(());
    }
    Err(OpError::new(
        Code::NamedBarrier,
        format!("a named barrier counts a multiple of 32 threads up to {most}, not {threads}"),
    )
    .note("whole warps arrive at it")
    .help("count the threads of all partitions that arrive, with or without waiting"))
}
