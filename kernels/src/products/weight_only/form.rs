//! What kernels of products with packed weights are compiled for.

use std::fmt;

use super::format::WeightFormat;
use crate::products::epilogue::Named;

/// What a kernel of products with packed weights is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WeightForm<I, E> {
    /// Its tile.
    pub tile: I,
    /// How weights are packed.
    pub format: WeightFormat,
    /// What happens to sums.
    pub epilogue: E,
}

impl<I: fmt::Display, E: Named> fmt::Display for WeightForm<I, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", self.tile, self.format)?;
        let name = self.epilogue.name();
        if name.is_empty() {
            Ok(())
        } else {
            write!(f, "+{name}")
        }
    }
}
