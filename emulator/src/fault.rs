//! Faults of kernels, with their places.

use std::fmt;

/// Where memory is, as faults and statistics name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Memory {
    /// Device memory, shared by all CTAs.
    Global,
    /// Shared memory of a CTA (or of another CTA of its cluster).
    Shared,
    /// Private to a thread.
    Local,
    /// Constants of the module.
    Const,
    /// Parameters of the kernel.
    Param,
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Global => "global",
            Self::Shared => "shared",
            Self::Local => "local",
            Self::Const => "const",
            Self::Param => "param",
        })
    }
}

/// The kind of a fault; the message of the [`Fault`] has the details.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FaultKind {
    /// An address outside every allocation, or outside the memory of its state space.
    OutOfBounds,
    /// An address that is not a multiple of the access size.
    Misaligned,
    /// Bytes or a register read before anything wrote them.
    Uninitialised,
    /// A store to memory that kernels may not change.
    ReadOnly,
    /// A barrier that only part of a warp reached, or with operands that differ between lanes.
    BarrierDivergence,
    /// A barrier, shuffle or vote with operands that the ISA does not allow.
    IllegalOperand,
    /// An integer division by zero.
    DivisionByZero,
    /// An address that is computed from a signed integer of 32 bits that has wrapped around.
    IntegerOverflow,
    /// `trap`, or a failed device assertion.
    Trap,
    /// An access to memory of another device that this one may not access so.
    PeerAccess,
    /// No thread can run: each waits for something that cannot happen.
    Deadlock,
    /// The launch executed more instructions than its limit.
    StepLimit,
    /// The launch does not fit the kernel or the machine.
    Launch,
    /// Misuse of an mbarrier: not initialised, initialised twice, or counts out of range.
    Mbarrier,
    /// Two conflicting accesses without a happens-before order.
    Race,
    /// Registers or groups of an asynchronous matrix product used before they may be.
    Wgmma,
    /// A tensor map or a matrix descriptor that the hardware would refuse.
    Descriptor,
    /// A register budget (`setmaxnreg`) that breaks the rules of the ISA.
    RegisterBudget,
}

impl FaultKind {
    /// The help for most faults of a kind, where the check itself has none.
    pub(crate) fn usual_help(self) -> Option<&'static str> {
        match self {
            Self::BarrierDivergence => Some(
                "put the barrier where all threads that it counts execute it: not under divergent control flow, nor after \
                 some threads have returned",
            ),
            Self::DivisionByZero => {
                Some("replace a divisor that may be zero, also in elements that are masked later")
            }
            _ => None,
        }
    }
}

/// A place in the author's source.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// Path as the module names it.
    pub file: String,
    /// Line, from one.
    pub line: u32,
    /// Column, from one; zero when unknown.
    pub column: u32,
    /// The calls through which the code was inlined, the innermost first.
    pub inlined_at: Vec<CallSite>,
}

/// One call of an inlined chain.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CallSite {
    /// The function that was called.
    pub function: String,
    /// Path of the call.
    pub file: String,
    /// Line of the call, from one.
    pub line: u32,
    /// Column of the call, from one; zero when unknown.
    pub column: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)?;
        for call in &self.inlined_at {
            write!(
                f,
                " (in {}, called at {}:{}:{})",
                call.function, call.file, call.line, call.column
            )?;
        }
        Ok(())
    }
}

/// Another place that a fault is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Related {
    /// What is there.
    pub text: String,
    /// Where the author wrote it.
    pub place: Option<Place>,
    /// The instruction.
    pub ptx: String,
}

impl fmt::Display for Related {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some(place) => write!(f, "{}: {place}", self.text),
            None => write!(f, "{}: {}", self.text, self.ptx),
        }
    }
}

/// A kernel did something that the PTX ISA forbids or leaves undefined.
///
/// `Display` prints one paragraph: what, which warp, the instruction, the author's line, other places, and the help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What happened.
    pub kind: FaultKind,
    /// The rank of the device, where several run as one.
    pub rank: Option<u32>,
    /// The kernel.
    pub entry: String,
    /// Coordinates of the CTA in the grid.
    pub cta: [u32; 3],
    /// Number of the warp in its CTA.
    pub warp: u32,
    /// The lanes concerned, as a mask; zero when it is not about lanes.
    pub lanes: u32,
    /// The address of the first lane concerned, where there is one.
    pub address: Option<u64>,
    /// Size of the access in bytes, where there is one.
    pub bytes: Option<u32>,
    /// Line of the instruction in the module's text, from one.
    pub ptx_line: Option<u32>,
    /// The instruction.
    pub ptx: String,
    /// Where the author wrote it.
    pub place: Option<Place>,
    /// What is wrong, in a sentence.
    pub message: String,
    /// Other places that matter: the other access of a race, where an mbarrier was initialised.
    pub related: Vec<Related>,
    /// What to do.
    pub help: Option<String>,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.cta;
        write!(f, "{}\n  kernel {}, ", self.message, self.entry)?;
        if let Some(rank) = self.rank {
            write!(f, "rank {rank}, ")?;
        }
        write!(f, "CTA ({x},{y},{z}), warp {}", self.warp)?;
        match self.lanes.count_ones() {
            0 => {}
            1 => write!(f, ", lane {}", self.lanes.trailing_zeros())?,
            _ => write!(f, ", lanes {}", LaneSet(self.lanes))?,
        }
        if let Some(place) = &self.place {
            write!(f, "\n  at {place}")?;
        }
        match self.ptx_line {
            Some(line) => write!(f, "\n  PTX line {line}: {}", self.ptx)?,
            None if self.ptx.is_empty() => {}
            None => write!(f, "\n  PTX: {}", self.ptx)?,
        }
        for related in &self.related {
            write!(f, "\n  {related}")?;
        }
        match &self.help {
            Some(help) => write!(f, "\n  help: {help}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Fault {}

/// Prints a mask of lanes as ranges: `0-3,7`.
pub(crate) struct LaneSet(pub(crate) u32);

impl fmt::Display for LaneSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("none");
        }
        let mut rest = u64::from(self.0);
        let mut separator = "";
        while rest != 0 {
            let first = rest.trailing_zeros();
            let count = (rest >> first).trailing_ones();
            match count {
                1 => write!(f, "{separator}{first}")?,
                _ => write!(f, "{separator}{first}-{}", first + count - 1)?,
            }
            rest &= !(((1u64 << count) - 1) << first);
            separator = ",";
        }
        Ok(())
    }
}

/// A fault before the warp and the place are added.
#[derive(Clone, Debug)]
pub(crate) struct Trouble {
    pub(crate) kind: FaultKind,
    pub(crate) lanes: u32,
    pub(crate) address: Option<u64>,
    pub(crate) bytes: Option<u32>,
    pub(crate) message: String,
    /// Other steps that matter, and what is there.
    pub(crate) related: Vec<(u32, String)>,
    /// Places of other programs that matter.
    pub(crate) elsewhere: Vec<Related>,
    pub(crate) help: Option<String>,
}

/// The result of a step. Errors are rare, and boxed so that results stay small.
pub(crate) type Stepped<T = ()> = Result<T, Box<Trouble>>;

impl Trouble {
    /// Trouble without an address; boxed, because it is rare and results travel through hot code.
    pub(crate) fn new(kind: FaultKind, lanes: u32, message: String) -> Box<Self> {
        Box::new(Self {
            kind,
            lanes,
            address: None,
            bytes: None,
            message,
            related: Vec::new(),
            elsewhere: Vec::new(),
            help: None,
        })
    }

    /// Trouble with an access.
    pub(crate) fn access(
        kind: FaultKind,
        lane: usize,
        address: u64,
        bytes: u32,
        message: String,
    ) -> Box<Self> {
        Box::new(Self {
            kind,
            lanes: 1 << lane,
            address: Some(address),
            bytes: Some(bytes),
            message,
            related: Vec::new(),
            elsewhere: Vec::new(),
            help: None,
        })
    }

    /// Shows another step.
    pub(crate) fn see(mut self: Box<Self>, step: u32, text: impl Into<String>) -> Box<Self> {
        self.related.push((step, text.into()));
        self
    }

    /// Shows a place in another program.
    pub(crate) fn see_elsewhere(mut self: Box<Self>, related: Related) -> Box<Self> {
        self.elsewhere.push(related);
        self
    }

    /// Says what to do.
    pub(crate) fn help(mut self: Box<Self>, text: impl Into<String>) -> Box<Self> {
        self.help = Some(text.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_print_as_ranges() {
        assert_eq!(LaneSet(0).to_string(), "none");
        assert_eq!(LaneSet(0b1000_1111).to_string(), "0-3,7");
        assert_eq!(LaneSet(u32::MAX).to_string(), "0-31");
    }
}
