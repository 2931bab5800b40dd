//! What instructions work on: registers, immediates, symbols, addresses.

use crate::types::Special;
use smallvec::SmallVec;

/// A virtual register: an index into [`Registers`](crate::Registers) of its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reg(pub u32);

/// A branch target: an index into the labels of its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Label(pub u32);

/// Something with a name and an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Symbol {
    /// A parameter of the entry or function that the body belongs to.
    Param(u32),
    /// A result of the function that the body belongs to.
    Return(u32),
    /// A variable declared in the body (`.shared`, `.local`, or `.param` for calls).
    Variable(u32),
    /// A variable of the module.
    Global(u32),
    /// A function of the module.
    Function(u32),
}

/// A value that an instruction reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Operand {
    /// A virtual register.
    Reg(Reg),
    /// An integer; 64-bit patterns above `i64::MAX` are kept as their two's complement.
    Int(i64),
    /// The bit pattern of an `f32` (`0f3F800000`).
    F32(u32),
    /// The bit pattern of an `f64` (`0d3FF0000000000000`).
    F64(u64),
    /// A special register.
    Special(Special),
    /// The address of a symbol plus a byte offset.
    Symbol(Symbol, i32),
}

impl Operand {
    /// An `f32` constant.
    pub fn f32(value: f32) -> Self {
        Self::F32(value.to_bits())
    }

    /// An `f64` constant.
    pub fn f64(value: f64) -> Self {
        Self::F64(value.to_bits())
    }

    /// The register, when it is one.
    pub fn reg(self) -> Option<Reg> {
        match self {
            Self::Reg(reg) => Some(reg),
            _ => None,
        }
    }
}

impl From<Reg> for Operand {
    fn from(reg: Reg) -> Self {
        Self::Reg(reg)
    }
}

impl From<i32> for Operand {
    fn from(value: i32) -> Self {
        Self::Int(value.into())
    }
}

impl From<u32> for Operand {
    fn from(value: u32) -> Self {
        Self::Int(value.into())
    }
}

impl From<i64> for Operand {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<Special> for Operand {
    fn from(special: Special) -> Self {
        Self::Special(special)
    }
}

impl From<Symbol> for Operand {
    fn from(symbol: Symbol) -> Self {
        Self::Symbol(symbol, 0)
    }
}

/// A register that an instruction writes, or `_` when the result is not wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dest {
    /// Written.
    Reg(Reg),
    /// `_`
    Sink,
}

impl Dest {
    /// The register, when there is one.
    pub fn reg(self) -> Option<Reg> {
        match self {
            Self::Reg(reg) => Some(reg),
            Self::Sink => None,
        }
    }
}

impl From<Reg> for Dest {
    fn from(reg: Reg) -> Self {
        Self::Reg(reg)
    }
}

/// `a` or `a|b`: a result and an optional second one (`setp`, `shfl`, `elect`, `match.all`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PairDest {
    /// The first result.
    pub first: Dest,
    /// The result after the bar.
    pub second: Option<Dest>,
}

impl PairDest {
    /// Both results.
    pub fn both(first: impl Into<Dest>, second: impl Into<Dest>) -> Self {
        Self {
            first: first.into(),
            second: Some(second.into()),
        }
    }
}

impl From<Reg> for PairDest {
    fn from(reg: Reg) -> Self {
        Self {
            first: Dest::Reg(reg),
            second: None,
        }
    }
}

/// `%p` or `!%p`, as a guard or an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Predicate {
    /// A register of class [`RegClass::Pred`](crate::RegClass::Pred).
    pub reg: Reg,
    /// The predicate counts as true when the register is false.
    pub negated: bool,
}

impl Predicate {
    /// `%p`
    pub fn is(reg: Reg) -> Self {
        Self {
            reg,
            negated: false,
        }
    }

    /// `!%p`
    pub fn not(reg: Reg) -> Self {
        Self { reg, negated: true }
    }
}

impl From<Reg> for Predicate {
    fn from(reg: Reg) -> Self {
        Self::is(reg)
    }
}

/// What an address starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Base {
    /// The value of a register: 64 bits, or 32 for the shared, local, const and param windows.
    Reg(Reg),
    /// The place of a symbol.
    Symbol(Symbol),
    /// Nothing: the offset is the address.
    Zero,
}

/// `[base+offset]`; the offset is in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Addr {
    /// What the offset is added to.
    pub base: Base,
    /// Bytes.
    pub offset: i32,
}

impl Addr {
    /// `[reg+offset]`
    pub fn reg(reg: Reg, offset: i32) -> Self {
        Self {
            base: Base::Reg(reg),
            offset,
        }
    }

    /// `[symbol+offset]`
    pub fn symbol(symbol: Symbol, offset: i32) -> Self {
        Self {
            base: Base::Symbol(symbol),
            offset,
        }
    }
}

impl From<Reg> for Addr {
    fn from(reg: Reg) -> Self {
        Self::reg(reg, 0)
    }
}

impl From<Symbol> for Addr {
    fn from(symbol: Symbol) -> Self {
        Self::symbol(symbol, 0)
    }
}

/// `[map, {c0, c1, ...}]`: a place inside the tensor that a tensor map describes.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorAddr {
    /// Address of the 128-byte tensor map.
    pub map: Addr,
    /// One coordinate per dimension, the innermost first, in elements.
    pub coords: Coords,
}

/// One to five 32-bit coordinates of a tensor, the innermost first.
pub type Coords = SmallVec<[Operand; 3]>;

/// Offsets of an im2col load: one 16-bit value per spatial dimension, `{w, h, d}`.
#[derive(Clone, Debug, PartialEq)]
pub struct Im2colOffsets(pub SmallVec<[Operand; 3]>);

/// The registers that a load or an unpacking `mov` writes; braces are printed for more than one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dests(pub SmallVec<[Dest; 4]>);

impl From<Reg> for Dests {
    fn from(reg: Reg) -> Self {
        Self(smallvec::smallvec![Dest::Reg(reg)])
    }
}

impl FromIterator<Reg> for Dests {
    fn from_iter<I: IntoIterator<Item = Reg>>(regs: I) -> Self {
        Self(regs.into_iter().map(Dest::Reg).collect())
    }
}

/// The values that a store or a packing `mov` reads; braces are printed for more than one.
#[derive(Clone, Debug, PartialEq)]
pub struct Values(pub SmallVec<[Operand; 4]>);

impl<T: Into<Operand>> From<T> for Values {
    fn from(value: T) -> Self {
        Self(smallvec::smallvec![value.into()])
    }
}

impl FromIterator<Operand> for Values {
    fn from_iter<I: IntoIterator<Item = Operand>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}

impl FromIterator<Reg> for Values {
    fn from_iter<I: IntoIterator<Item = Reg>>(values: I) -> Self {
        Self(values.into_iter().map(Operand::Reg).collect())
    }
}

/// The registers of a matrix fragment, always in braces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment(pub SmallVec<[Reg; 4]>);

impl FromIterator<Reg> for Fragment {
    fn from_iter<I: IntoIterator<Item = Reg>>(regs: I) -> Self {
        Self(regs.into_iter().collect())
    }
}

/// `(a, b)`: arguments or results of a call; `.param` variables, registers or immediates.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Arguments(pub SmallVec<[Operand; 2]>);

/// An L2 access policy (`createpolicy`) of one access: the `.L2::cache_hint` modifier and its operand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CachePolicy(pub Operand);

/// The 16-bit mask of destination CTAs: the `.multicast::cluster` modifier and its operand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CtaMask(pub Operand);

/// Matrix A of `wgmma`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MatrixA {
    /// A 64-bit register with a shared-memory matrix descriptor.
    Descriptor(Reg),
    /// Four 32-bit registers per thread.
    Registers(Fragment),
}

/// What an instruction does to a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Reads it.
    Read,
    /// Writes it.
    Write,
    /// Reads and writes it (accumulators).
    ReadWrite,
}
