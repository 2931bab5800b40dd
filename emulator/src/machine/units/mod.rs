//! The asynchronous units: TMA, `cp.async`, tensor cores and mbarriers.
//!
//! A warp issues an operation and continues. What is issued is state ([`copies`](super::state::copies),
//! [`products`](super::state::products)); [`in_flight`] completes copies when the schedule says so.

pub(crate) mod cp_async;
pub(crate) mod in_flight;
pub(crate) mod mbarrier;
pub(crate) mod tensor_cores;
pub(crate) mod tma;
