//! The executable form of a module.

pub(crate) mod copy;
pub(crate) mod matrix;
mod operand;
pub(crate) mod source;
mod step;
pub(crate) mod sync;
pub(crate) mod windows;

pub(crate) use operand::{
    Access, AccessSpace, AddressBase, Atomic, AtomicOp, Cell, Extend, File, NONE, Strong,
};
pub(crate) use step::{AssertFail, Barrier, BarrierKind, IndexBound, Op, Print, Shuffle, Step};

use crate::fault::Place;
use crate::lanes::IntSlot;
use ptx::{Directives, Module, Special};
use smallvec::SmallVec;
use std::fmt;
use std::sync::Arc;

/// A module in executable form: every entry decoded once, for any number of launches.
#[derive(Clone, Debug)]
pub struct Program {
    pub(crate) module: Arc<Module>,
    pub(crate) entries: Vec<Arc<Code>>,
    /// Identifies the program, so that an emulator keeps its `.global` variables.
    pub(crate) id: u64,
    pub(crate) globals: Vec<GlobalImage>,
}

/// A `.global` variable of the module with its contents at start.
#[derive(Clone, Debug)]
pub(crate) struct GlobalImage {
    pub(crate) bytes: u64,
    pub(crate) init: Option<Vec<u8>>,
}

/// Why a module cannot be executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError {
    /// The entry.
    pub entry: String,
    /// The instruction, when it is about one.
    pub ptx: String,
    /// Where the author wrote it.
    pub place: Option<Box<Place>>,
    /// What is wrong, in a sentence.
    pub message: String,
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "kernel {} cannot be emulated: {}",
            self.entry, self.message
        )?;
        if !self.ptx.is_empty() {
            write!(f, "\n  PTX: {}", self.ptx)?;
        }
        if let Some(place) = &self.place {
            write!(f, "\n  at {place}")?;
        }
        Ok(())
    }
}

impl std::error::Error for LoadError {}

/// A kernel in executable form.
#[derive(Debug)]
pub(crate) struct Code {
    pub(crate) name: String,
    pub(crate) directives: Directives,
    pub(crate) steps: Vec<Step>,
    /// Where each step comes from.
    pub(crate) sites: Vec<Site>,
    /// The calls that were inlined.
    pub(crate) calls: Vec<InlinedCall>,
    pub(crate) files: FileSizes,
    pub(crate) constants: Vec<(File, u32, Constant)>,
    /// Registers that some path may read before writing, and the steps that use them.
    pub(crate) watches: Vec<Watch>,
    pub(crate) watched_count: u32,
    /// Registers of asynchronous products that other instructions touch, by step.
    pub(crate) fragments: Vec<SmallVec<[u32; 4]>>,
    pub(crate) params: Vec<ParamSlot>,
    pub(crate) param_bytes: u32,
    pub(crate) static_shared_bytes: u32,
    /// The smallest access to shared memory has two to this power bytes, or is a word.
    pub(crate) shared_granule_bits: u32,
    /// The same of accesses to global memory.
    pub(crate) global_granule_bits: u32,
    /// Does a loop read global memory by strong loads or by compare-and-swap, as one does that waits for another CTA?
    pub(crate) polls_global: bool,
    /// Alignment of the dynamic shared memory, which follows the static one.
    pub(crate) dynamic_shared_align: u32,
    pub(crate) local_bytes: u32,
    pub(crate) const_image: Vec<u8>,
}

/// Number of registers of each file.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FileSizes {
    pub(crate) words: u32,
    pub(crate) doubles: u32,
    pub(crate) predicates: u32,
}

/// A register that the machine fills in before a warp starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Constant {
    Bits(u64),
    Special(Special),
    /// Address of a `.global` variable plus an offset.
    Global(u32, i64),
    /// Start of the dynamic shared memory plus an offset.
    DynamicShared(i64),
}

/// A parameter of an entry.
#[derive(Clone, Debug)]
pub(crate) struct ParamSlot {
    pub(crate) name: String,
    pub(crate) offset: u32,
    pub(crate) bytes: u32,
}

/// Where a step comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Site {
    /// Index of the statement in its body.
    pub(crate) statement: u32,
    /// Index into [`Code::calls`], or [`NONE`] for the entry itself.
    pub(crate) call: u32,
    /// The step stands for the PTX instruction; others prepare or finish it.
    pub(crate) is_lead: bool,
}

/// A call whose function was inlined.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InlinedCall {
    /// Index of the function in the module.
    pub(crate) function: u32,
    /// Where the call stands.
    pub(crate) site: Site,
}

/// Registers of a step that need a look at run time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watch {
    pub(crate) reads: SmallVec<[Watched; 2]>,
    pub(crate) writes: SmallVec<[u32; 2]>,
    /// Registers that say where the step accesses, and that may have wrapped.
    pub(crate) addresses: SmallVec<[IntSlot; 2]>,
    /// Registers that may have wrapped, and that the step writes anew.
    pub(crate) overwrites: SmallVec<[IntSlot; 2]>,
}

/// A register whose first write is watched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watched {
    /// Number among the watched registers.
    pub(crate) index: u32,
    /// The PTX register, for messages.
    pub(crate) reg: ptx::Reg,
    /// Only lanes in which this predicate slot is true (or false) read it: the operands of `selp`.
    pub(crate) only_if: Option<(u32, bool)>,
    /// It is the guard, which lanes read that then do not take part.
    pub(crate) is_guard: bool,
}

impl Program {
    /// Names of the entries, in the order of the module.
    pub fn entries(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|code| code.name.as_str())
    }

    pub(crate) fn entry(&self, name: &str) -> Option<&Arc<Code>> {
        self.entries.iter().find(|code| code.name == name)
    }
}
