//! The text form of layouts: one grammar for the IR text, the command line and error messages.

mod print;

pub(super) use print::write_call;
