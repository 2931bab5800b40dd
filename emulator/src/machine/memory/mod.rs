//! Memory accesses of a warp: address resolution, bounds, initialisation, races.
//!
//! [`address`] finds the state space and the owner, [`misuse`], [`races`] and [`global_races`] refuse, [`peers`] does so
//! where another device owns the memory, [`global`] and [`access`] move the data.

pub(crate) mod access;
pub(crate) mod address;
pub(crate) mod atomic;
pub(crate) mod draws;
pub(crate) mod element;
pub(crate) mod global;
pub(crate) mod global_order;
pub(crate) mod global_races;
pub(crate) mod host;
pub(crate) mod lane_group;
pub(crate) mod misuse;
pub(crate) mod peers;
pub(crate) mod races;
pub(crate) mod remote;
pub(crate) mod shared;
pub(crate) mod time;
