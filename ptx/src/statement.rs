//! Lines of a body.

use crate::inst::Inst;
use crate::operand::{Label, Predicate};

/// An index into the location table of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LocId(pub u32);

/// A place in the author's source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Location {
    /// Index into [`Module::files`](crate::Module::files).
    pub file: u32,
    /// Line, from one.
    pub line: u32,
    /// Column, from one; zero when unknown.
    pub column: u32,
    /// Where this code was inlined to.
    pub inlined: Option<Inlined>,
}

/// The call through which code was inlined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Inlined {
    /// Index into [`Module::inlined_functions`](crate::Module::inlined_functions): the function that was called.
    pub function: u32,
    /// The location of the call; it stands earlier in the table.
    pub at: LocId,
}

/// An instruction with its guard and location.
#[derive(Clone, Debug, PartialEq)]
pub struct Instruction {
    /// `@%p` or `@!%p`: only threads in which it holds execute the instruction.
    pub guard: Option<Predicate>,
    /// What to do.
    pub inst: Inst,
    /// Where the author wrote it.
    pub loc: Option<LocId>,
}

/// A line of a body.
#[derive(Clone, Debug, PartialEq)]
pub enum Stmt {
    /// `name:`
    Label(Label),
    /// An instruction.
    Inst(Instruction),
    /// `.pragma "text";`, such as `nounroll` after the label of a loop.
    Pragma(String),
    /// `// text`, one line.
    Comment(String),
}

impl Stmt {
    /// The instruction, when this is one.
    pub fn instruction(&self) -> Option<&Instruction> {
        match self {
            Self::Inst(instruction) => Some(instruction),
            _ => None,
        }
    }
}
