//! mbarriers: arrivals, transaction counts, phases (PTX ISA 9.7.13.15).

pub(crate) mod execute;
pub(crate) mod misuse;
pub(crate) mod phase;
