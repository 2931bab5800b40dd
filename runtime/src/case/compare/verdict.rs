//! What a comparison says: that a result agrees, or which of its elements are wrong.

use std::fmt;

use crate::case::shape::Shape;
use crate::case::tolerance::Tolerance;

/// A result that agrees with its reference.
#[derive(Clone, Debug, PartialEq)]
pub struct Agreement {
    /// The output's name.
    pub output: String,
    /// How many elements were compared.
    pub elements: usize,
    /// What was allowed.
    pub tolerance: Tolerance,
    /// The largest error in the tolerance's norm: ulps, absolute, relative, a share of the room, or the norm's value.
    pub error: f64,
}

/// A result that does not agree.
#[derive(Clone, Debug, PartialEq)]
pub struct Mismatch {
    /// The output's name.
    pub output: String,
    /// Its extents.
    pub shape: Vec<usize>,
    /// What was allowed.
    pub tolerance: Tolerance,
    /// The largest error in the tolerance's norm.
    pub error: f64,
    /// How many elements are wrong, untouched ones included; all that differ for the Frobenius norm.
    pub wrong: usize,
    /// How many were never written.
    pub untouched: usize,
    /// The first wrong ones, and the worst.
    pub examples: Vec<WrongElement>,
}

/// One element that is wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct WrongElement {
    /// Where it is.
    pub index: Vec<usize>,
    /// What the kernel wrote, in the element type.
    pub got: String,
    /// What was expected.
    pub want: String,
    /// Whether it still is as it was before the launch.
    pub untouched: bool,
}

impl Mismatch {
    /// The same for a tensor of another shape with the same elements.
    pub(in crate::case) fn reshape(&mut self, shape: &Shape) {
        self.shape = shape.extents().to_vec();
        for example in &mut self.examples {
            example.index = shape.index(example.index[0]).to_vec();
        }
    }
}

impl fmt::Display for Agreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.tolerance {
            Tolerance::Exactly => write!(f, "`{}` exact", self.output),
            tolerance => write!(
                f,
                "`{}` {tolerance} (is {})",
                self.output,
                tolerance.value(self.error)
            ),
        }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total: usize = self.shape.iter().product();
        write!(
            f,
            "`{}` is wrong: expected {}, found {}; {} of {total} elements differ too much",
            self.output,
            self.tolerance,
            self.tolerance.value(self.error),
            self.wrong
        )?;
        if self.untouched > 0 {
            write!(f, ", {} of them were never written", self.untouched)?;
        }
        for WrongElement {
            index,
            got,
            want,
            untouched,
        } in &self.examples
        {
            let index: Vec<String> = index.iter().map(usize::to_string).collect();
            let got = if *untouched { "never written" } else { got };
            write!(
                f,
                "\n  {}[{}]: {got}, expected {want}",
                self.output,
                index.join(", ")
            )?;
        }
        Ok(())
    }
}

impl std::error::Error for Mismatch {}
