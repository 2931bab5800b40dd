//! The language as authors write it: kernels are traced, and their tile IR or their diagnostics compared as text.

extern crate gluon_lang as tilekit;

mod cells;
mod collective;
mod control;
mod examples;
mod functions;
mod hopper;
mod mistakes;
mod names;
mod operations;
mod shared;
mod support;
mod tensor_cores;
