//! Protocol programs: what is left of a partition's code when only barriers, what they guard, and the control flow around
//! them remain.

use ir::entity::{Inst, Value};
use ir::ops::mbarrier::Arrivers;
use smallvec::SmallVec;

use crate::classes::Class;

/// Index of a step in its partition's code.
pub(crate) type At = usize;
/// Index of a loop in the program.
pub(crate) type LoopId = usize;

/// One step, and the instruction that it is made of.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) what: What,
    pub(crate) inst: Inst,
}

/// The classes of loops that share their end and step are above those of values.
pub(crate) const SHARED: Class = 1 << 31;

/// A value for a parameter or result of control flow.
pub(crate) type Moves = Vec<(Value, Value)>;

/// Bytes: a number, and what only the run knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Bytes {
    pub(crate) known: i64,
    /// So many times a value of this class.
    pub(crate) counted: Option<(Class, i64)>,
}

/// What a step does. Barriers and views are values of the IR, which are looked up when the step is taken.
#[derive(Clone, Debug)]
pub(crate) enum What {
    Init {
        barrier: Value,
        count: u32,
    },
    Arrive {
        barrier: Value,
        count: u32,
        by: Arrivers,
        when: Option<Value>,
    },
    Expect {
        barrier: Value,
        bytes: Bytes,
        when: Option<Value>,
    },
    /// An asynchronous copy into a view, whose bytes complete on a barrier.
    Copy {
        barrier: Value,
        view: Value,
        bytes: Bytes,
        when: Option<Value>,
    },
    /// Each thread arrives when its `cp.async` are complete.
    CopiesArrive {
        barrier: Value,
        is_counted: bool,
    },
    Wait {
        barrier: Value,
        parity: Value,
        when: Option<Value>,
    },
    /// The threads of the partition synchronize.
    Sync,
    NamedSync {
        number: u32,
        threads: u32,
    },
    NamedArrive {
        number: u32,
        threads: u32,
    },
    /// The threads read a view.
    Read(Value),
    /// The threads write a view.
    Write(Value),
    /// The tensor cores begin to read views.
    ReadByProduct(SmallVec<[Value; 2]>),
    /// At most so many products remain in flight.
    AwaitProducts(u32),
    /// A bulk store begins to read a view.
    ReadByStore {
        view: Value,
        when: Option<Value>,
    },
    /// At most so many bulk stores remain in flight.
    AwaitStores(u32),
    /// Continues at `otherwise` where the condition does not hold.
    Branch {
        condition: Value,
        otherwise: At,
    },
    Jump(At),
    Assign(Moves),
    Enter {
        id: LoopId,
        inits: Moves,
    },
    /// Ends a counted loop whose iterations are over.
    Test {
        id: LoopId,
        exit: At,
        results: Moves,
    },
    /// Ends a `while` whose condition does not hold; passes values on.
    TestWhile {
        id: LoopId,
        condition: Value,
        exit: At,
        passed: Moves,
        results: Moves,
    },
    /// The end of an iteration; `goes_on` says of a loop that may stop whether it does.
    Next {
        id: LoopId,
        head: At,
        exit: At,
        goes_on: Option<Value>,
        next: Moves,
        results: Moves,
    },
    /// The workers begin.
    Part,
    /// The workers have ended.
    Join,
    End,
}

/// A loop with steps in it.
#[derive(Clone, Debug)]
pub(crate) struct Loop {
    pub(crate) inst: Inst,
    /// Loops of one class share their iterations.
    pub(crate) class: Class,
    /// The iteration that it begins with; more than none where another loop of its class has others before.
    pub(crate) start: u32,
    /// Iterations are counted from index 0, whatever its first index is.
    pub(crate) is_from_zero: bool,
    /// Low, high and step of a counted loop.
    pub(crate) bounds: Option<[Value; 3]>,
    pub(crate) index: Option<Value>,
    /// Both bounds are constants: it runs as it stands.
    pub(crate) is_fixed: bool,
    /// The index is used for more than the question whether iterations follow.
    pub(crate) counts: bool,
    /// The enclosing loops that are not fixed, outermost first.
    pub(crate) around: Vec<Class>,
    /// Values that exist within one iteration only, or within the loop.
    pub(crate) inner: Vec<Value>,
}

/// The code of one partition.
#[derive(Clone, Debug)]
pub(crate) struct Partition {
    pub(crate) warps: u32,
    pub(crate) steps: Vec<Step>,
    /// Loops in it.
    pub(crate) loops: Vec<LoopId>,
}

/// A kernel.
#[derive(Clone, Debug, Default)]
pub(crate) struct Program {
    /// The kernel's own warps first.
    pub(crate) partitions: Vec<Partition>,
    pub(crate) loops: Vec<Loop>,
    /// Classes of the ends of loops from a constant, with their steps.
    pub(crate) ends: Vec<(Class, i64)>,
    /// Loops that share an end, and by how much their bounds are beyond it.
    pub(crate) beyond: Vec<(usize, LoopId, i64)>,
    /// A common multiple of what counters are divided by.
    pub(crate) modulus: i64,
    /// Of the kernel's own warps, only the first runs their partition.
    pub(crate) is_first_one_thread: bool,
}

impl Program {
    /// Does any step concern an mbarrier, initialized or not, or a named barrier?
    pub(crate) fn has_barriers(&self) -> bool {
        let mut steps = self.partitions.iter().flat_map(|p| &p.steps);
        steps.any(|s| {
            matches!(
                s.what,
                What::Init { .. }
                    | What::Arrive { .. }
                    | What::Expect { .. }
                    | What::Copy { .. }
                    | What::CopiesArrive { .. }
                    | What::Wait { .. }
                    | What::NamedSync { .. }
                    | What::NamedArrive { .. }
            )
        })
    }
}
