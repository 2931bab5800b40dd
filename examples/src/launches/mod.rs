//! Launches that overlap, and what a kernel reads of the machine it runs on.

pub mod grid_stencil;
pub mod pdl_chain;
pub mod special_registers;
pub mod stream_to_host;
