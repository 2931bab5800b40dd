//! Kernels in PTX, run on the emulator and compared with what the host computes.

mod kernel;

mod arithmetic;
mod atomics;
mod barriers;
mod control;
mod conversion;
mod exchange;
mod faults;
mod launch;
mod memory;
mod printing;
