//! What a launch is made of: a grid, packed parameters, and what its entry is bound to.

mod grid;
mod parameters;
mod shape;

pub use grid::{Grid, grid};
pub use parameters::{ParameterBlock, ParameterPlace};
pub use shape::EntryShape;
