//! Every entity of the tile IR, with the prefix that its text form bears.
//!
//! An entity is a 32-bit index into a table of the [`Func`](crate::Func) that owns it, not a reference: indices are
//! small and `Copy`, they leave the function free to be edited, and one kind cannot be taken for another.

use cranelift_entity::entity_impl;

/// A value: the result of an instruction, or a parameter of a region.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Value(u32);
entity_impl!(Value, "v");

/// An instruction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Inst(u32);
entity_impl!(Inst, "i");

/// A single-block region: the body of the kernel, of a loop, of a branch or of a combine function.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Region(u32);
entity_impl!(Region, "r");

/// A place in the author's source.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Loc(u32);
entity_impl!(Loc, "loc");

/// One call of a device function: which function, and where it was called.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frame(u32);
entity_impl!(Frame, "frame");
