//! What one access is, whichever memory it goes to.

use std::fmt;

/// Which memory an access goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Global memory, through pointers.
    Global,
    /// Shared memory, of this CTA or of another one of the cluster.
    Shared,
}

/// How each thread accesses memory by one instruction of the tile IR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessPlan {
    /// The memory.
    pub memory: Memory,
    /// Bytes that a thread moves by one access, a power of two.
    pub bytes: u32,
    /// Bytes of an element, which a predicated access moves.
    pub elem_bytes: u32,
    /// Accesses of a thread.
    pub runs: u32,
    /// Instructions of each access: 2 where floats below zero and above it take different ones.
    pub instructions: u32,
    /// Only atomics are its accesses: results pass through scratch in the same memory.
    pub is_atomic: bool,
    /// Where the mask may split what one access moves.
    pub cut: Cut,
    /// What keeps the accesses from being wider.
    pub limit: Limit,
}

/// Where a mask may split the elements of one access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Nowhere: it is the same for all of them.
    Nowhere,
    /// Once: it holds up to some element and not after it.
    Once,
    /// Anywhere.
    Anywhere,
}

/// What keeps an access from being wider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Nothing: no access of a thread is wider.
    Widest,
    /// So many neighbouring elements are known to have neighbouring addresses.
    Contiguity(u32),
    /// The first address of each run is known to be a multiple of so many bytes.
    Alignment(u32),
    /// A thread holds so many elements in a row, or the memory's layout keeps so many together.
    Layout(u32),
    /// The mask may be different for each element, and the instruction takes no predicate for parts of what it moves.
    Mask,
    /// The operation accesses each element by one instruction.
    Element,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Limit::Widest => write!(f, "the widest"),
            Limit::Contiguity(elements) => {
                write!(f, "limited by contiguity: {}", counted(*elements))
            }
            Limit::Alignment(bytes) => write!(f, "limited by alignment: {bytes} bytes"),
            Limit::Layout(elements) => {
                write!(f, "limited by the layout: {} in a row", counted(*elements))
            }
            Limit::Mask => write!(f, "limited by the mask"),
            Limit::Element => write!(f, "one element at a time"),
        }
    }
}

fn counted(elements: u32) -> String {
    let ending = if elements == 1 { "" } else { "s" };
    format!("{elements} element{ending}")
}
