//! What kernels of sparse products are compiled for.

use std::fmt;

use crate::products::epilogue::Named;
use crate::products::form::Side;

/// What a kernel of sparse products is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SparseForm<I, E> {
    /// Its tile.
    pub tile: I,
    /// How B lies.
    pub b: Side,
    /// Columns of C follow each other in memory, and not rows: what is stored is its transpose.
    pub turned: bool,
    /// What happens to sums, of C as it is stored.
    pub epilogue: E,
}

impl<I: fmt::Display, E: Named> fmt::Display for SparseForm<I, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.tile)?;
        for (name, is_so) in [("b_along_n", self.b.is_mn_major), ("turned", self.turned)] {
            if is_so {
                write!(f, "+{name}")?;
            }
        }
        let name = self.epilogue.name();
        if name.is_empty() {
            Ok(())
        } else {
            write!(f, "+{name}")
        }
    }
}
