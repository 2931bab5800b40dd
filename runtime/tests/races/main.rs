//! Pairs of kernels: one with a mistake of synchronization, and its right twin. The emulator reports the first at the line concerned in
//! one of four orders at least, and nothing of the second in any.
//!
//! `copies`, `products`, `partitions` and `barriers` are the Hopper cases of Triton's `test_consan.py`, written in the language;
//! `global` are mistakes in global memory, `strict` is what a launch must ask for.
//! `wraps` are mistakes of index arithmetic, which share the machinery.

#![allow(
    clippy::unwrap_used,
    reason = "a test says what failed by where it failed"
)]

/// Defines `said`, by which the kernels of a file are checked: with the kinds of mistakes of them all, or with those of each.
macro_rules! said {
    ($file:literal) => {
        fn said<'a>(kinds: &'a [emulator::FaultKind], marks: &'a [&'a str]) -> crate::Said<'a> {
            crate::Said {
                kinds,
                source: include_str!($file),
                marks,
            }
        }
    };
    ($file:literal, $kinds:expr) => {
        fn said<'a>(marks: &'a [&'a str]) -> crate::Said<'a> {
            crate::Said {
                kinds: &$kinds,
                source: include_str!($file),
                marks,
            }
        }
    };
}

mod barriers;
mod consan;
mod copies;
mod global;
mod partitions;
mod products;
mod published;
mod strict;
mod wraps;

use emulator::{Fault, FaultKind};
use tilekit::prelude::*;
use tilekit::{Arguments, Error};

/// Orders of warps and asynchronous work.
const SEEDS: u64 = 4;

/// Elements of each buffer.
const LEN: usize = 1024;

pub(crate) fn line() -> Blocked {
    Blocked::new([1], [32], [4], [0])
}

pub(crate) fn plain() -> Swizzled {
    Swizzled::plain([0])
}

/// What is said of a wrong kernel: what kind of mistake it is, and at which lines of a source it may be reported.
pub(crate) struct Said<'a> {
    pub(crate) kinds: &'a [FaultKind],
    pub(crate) source: &'a str,
    /// The lines, by the comments at their ends.
    pub(crate) marks: &'a [&'a str],
}

/// Runs a kernel on words of its own; what the emulator reports.
pub(crate) fn fault_of<H>(seed: u64, kernel: impl Kernel<H>, ctas: usize) -> Option<Box<Fault>>
where
    for<'b> (&'b Buffer<i32>, &'b Buffer<i32>): Arguments<H>,
{
    fault_on(&Device::emulator_with_seed(seed), kernel, ctas)
}

/// The same on an emulator of one's own.
pub(crate) fn fault_on<H>(
    device: &Device,
    kernel: impl Kernel<H>,
    ctas: usize,
) -> Option<Box<Fault>>
where
    for<'b> (&'b Buffer<i32>, &'b Buffer<i32>): Arguments<H>,
{
    let x = Buffer::from_slice(device, &[1; LEN]).unwrap();
    let out = Buffer::<i32>::zeros(device, LEN).unwrap();
    fault_with(device, kernel, ctas, (&x, &out))
}

/// The same with these arguments.
pub(crate) fn fault_with<H>(
    device: &Device,
    kernel: impl Kernel<H>,
    ctas: usize,
    arguments: impl Arguments<H>,
) -> Option<Box<Fault>> {
    let compiled = kernel.compile(&Compiler::default());
    let kernel = compiled.unwrap_or_else(|e| panic!("{e}")).load(device);
    let stream = Stream::new(device).unwrap();
    let launched = kernel.unwrap().launch(&stream, grid(ctas), arguments);
    fault_in(launched.and_then(|()| stream.synchronize()))
}

/// The fault that ended a launch.
pub(crate) fn fault_in(done: tilekit::Result<()>) -> Option<Box<Fault>> {
    match done {
        Ok(()) => None,
        Err(Error::Fault(fault)) => Some(fault),
        Err(other) => panic!("{other}"),
    }
}

impl Said<'_> {
    /// The wrong kernel is reported, the right one is not.
    #[track_caller]
    pub(crate) fn of<W, R>(
        &self,
        ctas: usize,
        wrong: impl Kernel<W> + Copy,
        right: impl Kernel<R> + Copy,
    ) where
        for<'b> (&'b Buffer<i32>, &'b Buffer<i32>): Arguments<W> + Arguments<R>,
    {
        self.of_runs(
            |seed| fault_of(seed, wrong, ctas),
            |seed| fault_of(seed, right, ctas),
        );
    }

    /// The same of whole runs.
    #[track_caller]
    pub(crate) fn of_runs(
        &self,
        wrong: impl Fn(u64) -> Option<Box<Fault>>,
        right: impl Fn(u64) -> Option<Box<Fault>>,
    ) {
        for seed in 0..SEEDS {
            if let Some(fault) = right(seed) {
                panic!("a false alarm, seed {seed}: {fault}");
            }
        }
        let faults: Vec<Box<Fault>> = (0..SEEDS).filter_map(wrong).collect();
        assert!(!faults.is_empty(), "{:?}: nothing is reported", self.marks);
        for fault in faults {
            self.check(&fault);
        }
    }

    #[track_caller]
    fn check(&self, fault: &Fault) {
        assert!(
            self.kinds.contains(&fault.kind),
            "{:?}: {fault}",
            fault.kind
        );
        let at = fault.place.as_ref().expect("the place is known").line;
        let line_of = |mark: &&str| {
            let comment = format!("// {mark}");
            let mut lines = self.source.lines();
            lines.position(|line| line.ends_with(&comment)).unwrap() as u32 + 1
        };
        assert!(self.marks.iter().any(|mark| line_of(mark) == at), "{fault}");
        assert!(fault.help.is_some(), "{fault}");
    }
}
