//! PTX that the author writes.

use std::fmt;
use std::str::FromStr;

use smallvec::SmallVec;

use super::define::{Attr, attr_enum, define_op};
use super::map::check_pack;
use super::{LayoutRule, OpRules, SharedAccess, SharedAccesses, Text, Types, Values};
use crate::OpError;
use crate::entity::Value;
use crate::facts::{Facts, KnownFacts};
use crate::{Effects, Func, Spaces, Type};
use diag::Code;

attr_enum! {
    /// What an operand of inline PTX is.
    pub enum PtxUse {
        /// A scalar, or the elements of a tensor.
        Value = "value",
        /// A tile of shared memory that the PTX reads.
        Read = "read",
        /// A tile that it writes.
        Write = "write",
        /// A tile that it reads and writes.
        Update = "update",
    }
}

impl PtxUse {
    /// Does the PTX read the tile?
    pub const fn reads(self) -> bool {
        matches!(self, PtxUse::Read | PtxUse::Update)
    }

    /// Does the PTX write the tile?
    pub const fn writes(self) -> bool {
        matches!(self, PtxUse::Write | PtxUse::Update)
    }
}

/// What each operand is, in their order; nothing where all are values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PtxUses(SmallVec<[PtxUse; 4]>);

impl PtxUses {
    /// Of these operands.
    pub fn new(uses: &[PtxUse]) -> PtxUses {
        let is_plain = uses.iter().all(|u| *u == PtxUse::Value);
        PtxUses(if is_plain {
            SmallVec::new()
        } else {
            uses.into()
        })
    }

    /// What operand `at` is.
    pub fn of(&self, at: usize) -> PtxUse {
        self.0.get(at).copied().unwrap_or(PtxUse::Value)
    }
}

impl fmt::Display for PtxUses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.0.iter().map(|u| u.name()).collect();
        f.write_str(&names.join("+"))
    }
}

impl FromStr for PtxUses {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let uses: Result<Vec<PtxUse>, String> = text.split('+').map(str::parse).collect();
        Ok(PtxUses::new(&uses?))
    }
}

impl Attr for PtxUses {
    fn unsaid() -> Option<Self> {
        Some(PtxUses::default())
    }
    fn is_unsaid(&self) -> bool {
        self.0.is_empty()
    }
}

/// Elements of a tensor for which the PTX runs once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PtxPack(pub u32);

impl fmt::Display for PtxPack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for PtxPack {
    type Err = <u32 as FromStr>::Err;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(PtxPack)
    }
}

impl Attr for PtxPack {
    const WANTED: &'static str = "a number of elements";
    fn unsaid() -> Option<Self> {
        Some(PtxPack(1))
    }
    fn is_unsaid(&self) -> bool {
        self.0 == 1
    }
}

define_op! {
    /// PTX for each `pack` elements that a thread holds next to one another: `$0`, `$1`, ... stand for the results and then the
    /// operands. All tensors have one shape and layout. Where a pack has more than one element, those of 8 and 16 bits share
    /// 32-bit registers, the first in the lowest bits, and each register has a number; all others have a number for each
    /// element. A tile of shared memory is the address of its first byte, of 32 bits.
    pub struct InlinePtx = "inline_ptx" {
        /// The PTX, statements ended by `;`.
        text: Text,
        /// May it be merged, moved and dropped?
        is_pure: bool,
        /// Elements of a tensor in one run.
        pack: PtxPack,
        /// Which operands are tiles, and what is done with them.
        uses: PtxUses,
        /// The operands.
        operands: Values,
    }
}

impl InlinePtx {
    /// The operands with what they are.
    pub fn used(&self) -> impl Iterator<Item = (Value, PtxUse)> {
        let uses = self.operands.iter().enumerate();
        uses.map(|(at, value)| (*value, self.uses.of(at)))
    }

    /// The operands that are no tiles.
    pub fn values(&self) -> impl Iterator<Item = Value> {
        let used = self.used().filter(|(_, u)| *u == PtxUse::Value);
        used.map(|(value, _)| value)
    }

    fn writes_tiles(&self) -> bool {
        self.used().any(|(_, u)| u.writes())
    }

    fn has_tiles(&self) -> bool {
        !self.uses.is_unsaid()
    }

    fn check_kinds(&self, func: &Func) -> Result<(), OpError> {
        for (value, used) in self.used() {
            let ty = func.ty(value);
            let is_value = matches!(ty, Type::Scalar(_) | Type::Tensor(_));
            let fits = if used == PtxUse::Value {
                is_value
            } else {
                ty.as_smem().is_some()
            };
            if !fits {
                let wanted = if used == PtxUse::Value {
                    "a scalar or a tensor"
                } else {
                    "a tile of shared memory"
                };
                let message = format!("an operand of inline PTX is {wanted}, this is {ty}");
                return Err(OpError::new(Code::InlinePtx, message).typed(value, ty));
            }
        }
        if self.uses.0.len() > self.operands.len() {
            let message = "inline PTX says what more operands are than it has";
            return Err(OpError::new(Code::InlinePtx, message));
        }
        if self.is_pure && self.writes_tiles() {
            let message = "inline PTX without effects writes a tile of shared memory";
            return Err(OpError::new(Code::InlinePtx, message)
                .help("use `inline_ptx_with_effects`, which is executed once and in order"));
        }
        Ok(())
    }

    fn check_packs(&self, func: &Func) -> Result<(), OpError> {
        if self.pack.0 == 1 {
            return Ok(());
        }
        let tensor = self
            .values()
            .find_map(|v| Some((v, func.ty(v).as_tensor()?)));
        match tensor {
            Some((value, t)) => check_pack("inline_ptx", self.pack.0, value, t),
            None => Err(OpError::new(
                Code::PackedElements,
                format!(
                    "inline PTX in packs of {} elements has no tensor operand",
                    self.pack
                ),
            )
            .help("write `inline_ptx` for a scalar: packs consist of a tensor's elements")),
        }
    }
}

impl OpRules for InlinePtx {
    fn result_types(&self, func: &Func, declared: &[Type]) -> Result<Types, OpError> {
        self.check_kinds(func)?;
        let shape_of = |ty: &Type| (ty.shape().to_vec(), ty.layout().cloned());
        let all = self.values().map(|v| func.ty(v)).chain(declared);
        let mut first: Option<&Type> = None;
        for ty in all {
            let same = first.is_none_or(|f| shape_of(f) == shape_of(ty));
            if !same {
                return Err(OpError::new(
                    Code::InlinePtx,
                    format!(
                        "the operands and results of inline PTX have one shape and layout; {} and {ty} differ",
                        first.unwrap_or(ty)
                    ),
                ));
            }
            first = Some(ty);
        }
        self.check_packs(func)?;
        Ok(declared.into())
    }
    /// What it asks of the other threads only its author knows.
    fn suits_one_thread(&self) -> bool {
        false
    }
    fn effects(&self) -> Effects {
        let shared = |is_on: bool| if is_on { Spaces::SHARED } else { Spaces::NONE };
        let reads = shared(self.used().any(|(_, u)| u.reads()));
        let writes = shared(self.writes_tiles());
        if self.is_pure {
            return Effects {
                reads,
                ..Effects::PURE
            };
        }
        // What it does to global memory only its author knows.
        Effects {
            reads: reads | Spaces::GLOBAL,
            writes: writes | Spaces::GLOBAL,
            is_ordered: true,
            is_guarded: true,
            ..Effects::PURE
        }
    }
    /// Any thread may access any byte of a tile. One that is read and written counts as written, which orders it more strictly.
    fn shared_accesses(&self) -> SharedAccesses {
        let tiles = self.used().filter(|(_, u)| *u != PtxUse::Value);
        let access = |u: PtxUse| {
            if u.writes() {
                SharedAccess::Write
            } else {
                SharedAccess::Read
            }
        };
        tiles.map(|(value, u)| (value, access(u))).collect()
    }
    fn layout_rule(&self) -> LayoutRule {
        LayoutRule::Same
    }
    fn is_elementwise(&self) -> bool {
        self.is_pure && self.pack.0 == 1 && !self.has_tiles()
    }
    /// It may read what differs between threads.
    fn result_facts(&self, _: &Func, _: &KnownFacts, ty: &Type) -> Facts {
        Facts::unknown(ty)
    }
}
