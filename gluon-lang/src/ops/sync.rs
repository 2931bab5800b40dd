//! Meeting points of threads.

use smallvec::smallvec;

use super::define::{answers, define_op};
use super::{OpRules, Types};
use crate::diag::{Code, OpError};
use crate::ir::{Effects, Func, Type};

define_op! {
    /// All threads of the CTA meet; what any of them wrote before, all of them see after (PTX `barrier.cta.sync`).
    pub struct Barrier = "barrier" {
    }
}

impl OpRules for Barrier {
    fn result_types(&self, _: &Func, _: &[Type]) -> Result<Types, OpError> {
        Ok(smallvec![])
    }
    /// It has met itself.
    fn suits_one_thread(&self) -> bool {
        true
    }
    answers!(effects(Effects::BARRIER), free_layouts);
}

/// Barriers of a CTA (PTX ISA, `barrier{.cta}`).
pub const BARRIERS_OF_CTA: u32 = 16;

define_op! {
    /// The threads of this partition come to a barrier that partitions share, and wait until all that it counts have come;
    /// what those wrote before, these see after (PTX `bar.sync`).
    pub struct NamedSync = "named_sync" {
        /// Which of the barriers that the author named, from 0.
        number: u32,
        /// Threads that come, over all partitions.
        threads: u32,
    }
}

impl OpRules for NamedSync {
    fn result_types(&self, _: &Func, _: &[Type]) -> Result<Types, OpError> {
        check_threads(self.threads)?;
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
    /// The threads of this partition come to a barrier that partitions share, and go on; those who wait there see what these
    /// wrote before (PTX `bar.arrive`).
    pub struct NamedArrive = "named_arrive" {
        /// Which of the barriers that the author named, from 0.
        number: u32,
        /// Threads that come, over all partitions.
        threads: u32,
    }
}

impl OpRules for NamedArrive {
    fn result_types(&self, _: &Func, _: &[Type]) -> Result<Types, OpError> {
        check_threads(self.threads)?;
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

/// A barrier that partitions share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedBarrier {
    /// Which of those that the author named, from 0.
    pub number: u32,
    /// Threads that come, over all partitions.
    pub threads: u32,
}

/// Can a barrier count so many threads?
pub(crate) fn check_threads(threads: u32) -> Result<(), OpError> {
    if (32..=1024).contains(&threads) && threads.is_multiple_of(32) {
        return Ok(());
    }
    Err(OpError::new(
        Code::NamedBarrier,
        format!("a named barrier counts a multiple of 32 threads up to 1024, not {threads}"),
    )
    .note("whole warps come to it")
    .help(
        "count the threads of all partitions that come, those that wait and those that only arrive",
    ))
}
