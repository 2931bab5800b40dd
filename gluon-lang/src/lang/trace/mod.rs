//! Tracing: the kernel function runs once, and every operation it calls is appended to the kernel of this thread.
//!
//! Everything here is free of generics, so that it is compiled once and not again for each kernel.

mod branch;
mod carried;
mod carry;
mod cells;
mod entry;
mod exits;
mod frame;
mod function_scope;
mod logic;
mod loops;
mod operand;
mod panic;
mod record;
mod snapshot;
mod whiles;

use std::cell::RefCell;
use std::panic::Location;
use std::sync::Arc;

pub use branch::{Branch, Decided, HostBranch, KernelBranch};
pub use carry::{Carrier, Carry, HostCarrier, HostState, Walker, Watcher};
pub use entry::{
    GenericArg, KernelEntry, KernelHead, KernelInstance, ParamHead, Printed, Signature, Traced,
};
pub(crate) use entry::{
    begin_kernel, const_arg, declare_map, declare_param, set_block, set_signature, trace_kernel,
    type_arg,
};
pub use exits::{Ended, ExitTarget, Inside, KernelExit, NoExit};
pub use frame::Frame;
pub(crate) use frame::{depth, end, enter, leaving};
pub use function_scope::FunctionScope;
pub use logic::{
    AfterScalar, HostLogic, Logic, LogicSide, Question, ScalarLogic, TensorLogic, Undecided,
};
pub use loops::{HostLoop, KernelLoop};
pub use operand::Raw;
pub(crate) use record::*;
pub use whiles::{Again, EndlessLoop, HostWhile, KernelWhile, WhileLoop};

use crate::build::{Builder, Exits, Results};
use crate::source;
use diag::Place;
use diag::{Code, Diagnostic};
use ir::OpError;
use ir::entity::{Loc, Value};
use ir::ops::Op;
use ir::verify::{Verifier, check_even, check_tensor};
use ir::{Stage, Type};
use layout::SharedLayout;

/// A place in the author's source, as `#[track_caller]` gives it.
pub(crate) type At = &'static Location<'static>;

/// The place of the caller of the function that calls this, if that function has `#[track_caller]`.
#[inline]
#[track_caller]
pub(crate) fn here() -> At {
    Location::caller()
}

thread_local! {
    static TRACE: RefCell<Option<Trace>> = const { RefCell::new(None) };
}

/// The kernel being traced by this thread.
pub(crate) struct Trace {
    pub(crate) builder: Builder,
    verifier: Verifier,
    /// The kernel function, or who requested the trace.
    at: At,
    /// The kernel's name with its generic arguments, for people.
    display: Arc<str>,
    /// Has the kernel function said who it is?
    has_begun: bool,
    /// What `static_print!` said.
    printed: Vec<Printed>,
    /// Warps of the partition being traced.
    pub(crate) partition_warps: Option<u32>,
    /// The same of the partitions around it, and how many regions were open when each was begun.
    pub(crate) outer_partitions: Vec<Option<u32>>,
    pub(crate) partition_depths: Vec<usize>,
    /// Barriers that the author named.
    pub(crate) named_barriers: u32,
    /// How launches follow from their tensors.
    signature: Option<Signature>,
    /// Regions that the kernel leaves early.
    exits: Exits,
    /// Tensor maps that were refused, and the layouts of their blocks.
    refused_maps: Vec<(Value, SharedLayout)>,
    /// Values that left their region by a way that was reported.
    strayed: Vec<Value>,
    /// What the host code of the kernel panicked with.
    panicked: Option<panic::Panicked>,
}

/// Works on the kernel being traced. Outside a kernel there is none, and no way to continue.
pub(crate) fn with<R>(at: At, work: impl FnOnce(&mut Trace) -> R) -> R {
    TRACE.with(|trace| match trace.borrow_mut().as_mut() {
        Some(trace) => work(trace),
        None => not_traced(at),
    })
}

#[inline(never)]
fn not_traced(at: At) -> ! {
    let diagnostic = Diagnostic::error(
        Code::NotTraced,
        Some(place(at)),
        "an operation of the kernel language was used outside a kernel",
    )
    .help("call it in a `#[kernel]` function, which runs while it is traced");
    panic!("{diagnostic}");
}

fn place(at: At) -> Place {
    Place {
        file: source::name_of(at.file()).into(),
        line: at.line(),
        column: at.column(),
        calls: Vec::new(),
    }
}

impl Trace {
    pub(crate) fn loc(&mut self, at: At) -> Loc {
        self.builder.loc(at)
    }

    pub(crate) fn ty(&self, value: Value) -> &Type {
        self.builder.func().ty(value)
    }

    /// Gives a value a name hint unless it has one.
    pub(crate) fn name(&mut self, value: Value, hint: &str) {
        let func = self.builder.func_mut();
        if func.name(value).is_none()
            && hint.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        {
            let name: String = hint.trim_end_matches(']').chars().map(name_char).collect();
            func.set_name(value, &name);
        }
    }

    pub(crate) fn is_poison(&self, value: Value) -> bool {
        self.ty(value).is_poison()
    }

    /// Appends an op with as many results as `declared` has types. Every mistake is reported here, once; its results
    /// are poison.
    pub(crate) fn push(&mut self, op: impl Into<Op>, declared: &[Type], at: At) -> Results {
        let op = op.into();
        let loc = self.loc(at);
        if !self.check_scope(&op, at) {
            return declared.iter().map(|_| self.builder.poison()).collect();
        }
        let results = self.builder.push(op, declared, loc);
        for &value in &results {
            self.check_result(value, loc);
        }
        results
    }

    /// Appends an op with one result.
    pub(crate) fn push1(&mut self, op: impl Into<Op>, declared: Type, at: At) -> Value {
        self.push(op, &[declared], at)[0]
    }

    /// Are all operands visible here? A value may have left its loop, branch or closure through a host variable.
    fn check_scope(&mut self, op: &Op, at: At) -> bool {
        op.operands().into_iter().all(|v| self.check_visible(v, at))
    }

    /// Is the value visible in the region being filled? If not, that is reported.
    fn check_visible(&mut self, value: Value, at: At) -> bool {
        if self.is_poison(value) || self.builder.in_scope(value) {
            return true;
        }
        if self.strayed.contains(&value) {
            return false;
        }
        let name = self.builder.func().name(value).map(|n| format!("`{n}`"));
        let name = name.unwrap_or_else(|| "a value".into());
        let error = OpError::new(
            Code::OutOfScope,
            format!("{name} is used outside of the loop, branch or closure that defines it"),
        )
        .origin(
            value,
            "it was defined here, inside a runtime loop, branch or closure",
        )
        .help("carry it out through a `let mut` variable declared before the loop or branch");
        self.fail(error, at);
        false
    }

    /// Shapes and layouts are judged where they first appear, not at every later use.
    fn check_result(&mut self, value: Value, loc: Loc) {
        let func = self.builder.func();
        let checked = match func.ty(value) {
            Type::Tensor(t) => {
                let warps = self.partition_warps.unwrap_or(func.warps);
                check_tensor(t, Stage::Built, warps, func.cluster_ctas())
                    .and_then(|()| check_even(t, warps))
            }
            Type::Smem(s) => self.verifier.check_smem(s, func),
            _ => Ok(()),
        };
        if let Err(error) = checked {
            let diagnostic = func.diagnose(error, Some(loc));
            self.builder.diagnostic(diagnostic);
            self.builder.func_mut().set_ty(value, Type::Poison);
        }
    }

    /// Reports a mistake, and gives the poison that stands for its result.
    pub(crate) fn fail(&mut self, error: OpError, at: At) -> Value {
        let loc = self.loc(at);
        self.builder.report(error, loc);
        self.builder.poison()
    }
}

/// Names in the text form are words; the path of a field or element is flattened into one.
fn name_char(c: char) -> char {
    if c.is_ascii_alphanumeric() { c } else { '_' }
}
