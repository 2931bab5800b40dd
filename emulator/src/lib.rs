//! A machine that executes PTX on the CPU.
