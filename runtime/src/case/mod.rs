//! Cases: a kernel's inputs, launch, expectation and worth, written once and run on the emulator and on a GPU.

mod compare;
mod random;
mod shape;
mod sizes;
mod tolerance;

pub use compare::{Agreement, Mismatch, WrongElement, compare};
pub use random::Generator;
pub use shape::{Rank, Ranked, Shape};
pub use sizes::{SizeList, Sizes};
pub use tolerance::Tolerance;
