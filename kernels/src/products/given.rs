//! The numbers that a call has for the epilogue of its author to read.

use std::fmt;

use tilekit::prelude::*;

use super::epilogue_kind::Finishing;

/// Which of them there are. Each is of rows, and of columns: scales of A and of B.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Aggregate)]
pub struct Given {
    /// The result has half as many columns as the product.
    pub(crate) halves: bool,
    pub(crate) source: bool,
    pub(crate) bias: [bool; 2],
    /// One scale for all.
    pub(crate) scale: [bool; 2],
    /// One for each row or column, which may be the only one.
    pub(crate) scales: [bool; 2],
}

impl Given {
    /// What a closure does that reads all of them.
    pub(super) fn finishing(self) -> Finishing {
        if self.source {
            Finishing::Source
        } else if self.bias.contains(&true) || self.scales.contains(&true) {
            Finishing::Numbers
        } else {
            Finishing::Compute
        }
    }
}

impl fmt::Display for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers = [
            (self.scale, ["scale_of_a", "scale_of_b"]),
            (self.scales, ["scales_of_a", "scales_of_b"]),
            (self.bias, ["bias_of_rows", "bias"]),
            ([self.source, false], ["source", ""]),
        ];
        write!(f, "{}", if self.halves { "half+alpha" } else { "alpha" })?;
        let all = numbers
            .iter()
            .flat_map(|(are_there, names)| are_there.iter().zip(names));
        for (_, name) in all.filter(|(is_there, _)| **is_there) {
            write!(f, "+{name}")?;
        }
        Ok(())
    }
}
