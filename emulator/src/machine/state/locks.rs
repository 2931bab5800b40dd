//! Locks for accesses that no atomic of the host covers.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Enough that unrelated addresses rarely share one.
const STRIPES: usize = 256;

/// Locks by address. Contents of memory are 32-bit atomics, so that 64-bit atomics of a kernel need one.
#[derive(Debug)]
pub(crate) struct Locks(Vec<Mutex<()>>);

impl Locks {
    pub(crate) fn new() -> Self {
        Self((0..STRIPES).map(|_| Mutex::new(())).collect())
    }

    /// Holds the lock of the eight bytes around `address`.
    pub(crate) fn lock(&self, address: u64) -> MutexGuard<'_, ()> {
        let stripe = (address / 8).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
        self.0[stripe as usize]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
