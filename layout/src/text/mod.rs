//! The text form of layouts: one grammar for the IR text, the command line and error messages.
//!
//! ```text
//! layout := name | name "(" argument ("," argument)* ")"
//! argument := value | name "=" value
//! value := number | "true" | "false" | "[" value ("," value)* "]" | layout
//! ```
//!
//! Positional arguments come first, in the order of the layout's fields; every argument may be given by name instead.
//! Spaces are optional.

mod arguments;
mod parse;
mod place;
mod print;
mod syntax;

pub use parse::AnyLayout;
pub(super) use print::write_call;
pub use syntax::ParseLayoutError;
