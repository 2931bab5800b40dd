//! Whether a product adds to what the registers of its accumulator hold (PTX ISA, `wgmma`, scale-d).

use ptx::{Operand, Reg};

/// Registers of an accumulator that may hold nothing yet, and count as zero then.
#[derive(Clone, Copy, Debug)]
pub(super) enum Blank {
    /// They hold nothing.
    Always,
    /// They hold nothing in the first iteration of the loop around, when this predicate is false.
    Unless(Reg),
    /// They hold nothing if the loop before was not entered, when this predicate is true.
    If(Reg),
}

impl Blank {
    /// Whether the next product adds to the registers.
    pub(super) fn keep(self) -> Operand {
        match self {
            Blank::Always => Operand::Int(0),
            Blank::Unless(is_later) => is_later.into(),
            Blank::If(_) => panic!("what a loop leaves blank is waited for, and nothing else"),
        }
    }
}
