//! The text form of the tile IR. It reads back: `parse(print(f)) == print`, at every stage.
//!
//! ```text
//! #blocked = Blocked([4], [32], [4], [0])
//! kernel @scale(%x: ptr<f32> {divisor=16}, %n: i32) warps(4) stage(resolved) {
//!   %zero = constant {value=0} : i32
//!   %sum = for %zero, %n, %step, [%init] (%i: i32, %acc: tensor<64xf32, #blocked>) {
//!     %next = binary %acc, %t {op=add} : tensor<64xf32, #blocked>
//!     yield [%next]
//!   } : tensor<64xf32, #blocked>
//!   return
//! }
//! ```
//!
//! One grammar serves all ops: `results = mnemonic operands {attributes} (parameters) { region } : types`. Values print by
//! their name hint, or as numbers in order of appearance; neither changes when an unrelated instruction is added
//! elsewhere. Layouts are named at the top, in order of first use.

mod lex;
mod parse;
mod print;

pub use parse::{ParseError, parse};
pub use print::{names, print, print_with_lines, print_with_locations};
