//! What a plan may use.

use target::Target;

/// What the machine and the caller allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Above this many bytes of shared memory, the exchange takes several passes if it can.
    pub scratch_bytes: u32,
    /// The widest access of a thread.
    pub widest_bytes: u32,
}

impl Limits {
    /// A quarter of the shared memory that a CTA has at two CTAs per SM, in whole KiB; accesses as wide as the target's.
    pub fn of(target: &Target) -> Self {
        Self {
            scratch_bytes: target.cta.shared_bytes / 8 / 1024 * 1024,
            widest_bytes: target.access.widest_bytes,
        }
    }
}
