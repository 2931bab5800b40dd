//! What kernels are compiled for of what an epilogue stores beside the result.

use std::fmt;

use tilekit::prelude::*;
use tilekit::rt::{Carry, InAggregates};

use super::epilogue_kind::Together;

/// What kernels take for what an epilogue stores beside the result.
pub trait OutputHandles: InAggregates + Carry + Copy + 'static {}

impl<X: InAggregates + Carry + Copy + 'static> OutputHandles for X {}

/// An epilogue stores the result alone.
#[derive(Clone, Copy, Aggregate, KernelParam)]
pub struct NoOutputs;

/// A second matrix as a kernel is compiled for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Aggregate)]
pub(crate) struct Second {
    /// It has an element for two columns of the result.
    pub(crate) of_pairs: bool,
    /// Elements of which its rows begin and end at multiples.
    pub(crate) unit: usize,
}

/// Which outputs a call has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Aggregate)]
pub(crate) struct GivenOutputs {
    pub(crate) second: Option<Second>,
    /// Of rows and of columns.
    pub(crate) lines: [bool; 2],
    pub(crate) all: bool,
    /// One for each [`BLOCK`](super::factor::BLOCK) columns of a row, by which the results are divided.
    pub(crate) scales: bool,
}

impl GivenOutputs {
    pub(crate) const NONE: GivenOutputs = GivenOutputs {
        second: None,
        lines: [false; 2],
        all: false,
        scales: false,
    };

    /// No element of the result is finished twice: what is reduced counts once.
    pub(super) fn are_reduced(self) -> bool {
        self.all || self.lines.contains(&true)
    }

    /// Columns of the result that are finished together.
    pub(super) fn together(self, halves: bool) -> Together {
        match (self.scales, halves) {
            (true, false) => Together::Blocks,
            (true, true) => Together::HalvedBlocks,
            (false, true) => Together::Halves,
            (false, false) if self.have_pairs() => Together::Pairs,
            (false, false) => Together::One,
        }
    }

    /// The second matrix has an element for two columns of the product.
    pub(super) fn have_pairs(self) -> bool {
        self.second.is_some_and(|second| second.of_pairs)
    }
}

impl fmt::Display for GivenOutputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Second { of_pairs, unit }) = self.second {
            let pairs = if of_pairs { "_of_pairs" } else { "" };
            write!(f, "+second{pairs}_by_{unit}")?;
        }
        let [rows, columns] = self.lines;
        let reduced = [(rows, "rows"), (columns, "columns"), (self.all, "all")];
        let given = reduced.iter().filter(|(is_given, _)| *is_given);
        for (_, name) in given {
            write!(f, "+reduced_{name}")?;
        }
        f.write_str(if self.scales { "+scales" } else { "" })
    }
}
