//! Facts about a kernel, without running it. An analysis is computed when requested and passed on; nothing of it is
//! kept in the IR.

pub mod access;
pub mod apart;
pub mod axis;
pub mod banks;
pub mod coalescing;
pub mod conversions;
pub mod effects;
pub mod mask;
pub mod pressure;
pub mod roots;
pub mod scratch;
pub mod shared;
pub mod uses;
