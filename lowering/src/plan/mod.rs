//! What the kernel needs of the machine, decided before emission: shared memory and barriers.

pub mod barriers;
pub mod shared;

mod first_fit;
mod overflow;

#[cfg(test)]
mod tests;
