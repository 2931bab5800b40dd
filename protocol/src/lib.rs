//! What `cargo tilekit` and a package's harness share: the [`request`] that one makes of the other, the [`Exit`] that comes
//! back, the package's [`config`], and the forms of messages.
//!
//! It knows no kernel, so that the tool is built without the compiler and the emulator that every harness is linked with.
#![forbid(unsafe_code)]

pub mod config;
mod exit;
mod format;
mod near;
mod output;
mod remark;
pub mod request;
pub mod rustc_json;

pub use exit::Exit;
pub use format::MessageFormat;
pub use near::{nearest, similarity};
pub use output::expect_written;
pub use remark::Remark;
