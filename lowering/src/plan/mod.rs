//! What the kernel needs of the machine, decided before emission: shared memory and barriers.

pub mod barriers;
pub mod shared;
pub mod verify;
pub mod warps;

mod bytes;
mod clusters;
mod conversion_passes;
mod expectations;
mod first_fit;
mod hazards;
mod lifetimes;
mod map;
mod moments;
mod overflow;

pub use map::{SharedBytes, shared_map};

#[cfg(test)]
mod tests;
