//! The builder: appends checked instructions to the kernel being traced.
//!
//! Nothing here is generic, and nothing is inlined: a crate of a hundred kernels must build in seconds.

mod edit;
mod exits;
mod flags;
mod structure;

use std::panic::Location;

use smallvec::SmallVec;

use crate::source;
use diag::{Code, Diagnostic, Diagnostics};
use ir::OpError;
use ir::entity::{Frame, Loc, Region, Value};
use ir::ops::Op;
use ir::ops::create::{Const, Constant};
use ir::{Func, Type};

pub(crate) use exits::{Exits, Leave};
pub(crate) use structure::Blocked;

/// Builds one [`Func`].
#[derive(Debug)]
pub struct Builder {
    func: Func,
    open: Vec<Region>,
    frames: Vec<Frame>,
    diagnostics: Diagnostics,
}

/// Results of one instruction.
pub type Results = SmallVec<[Value; 1]>;

impl Builder {
    /// Starts a kernel.
    pub fn new(name: &str, warps: u32) -> Builder {
        let func = Func::new(name, warps);
        Builder {
            open: vec![func.body],
            func,
            frames: Vec::new(),
            diagnostics: Diagnostics::default(),
        }
    }

    /// The kernel so far.
    pub fn func(&self) -> &Func {
        &self.func
    }

    /// The kernel so far, to set what is not an instruction.
    pub fn func_mut(&mut self) -> &mut Func {
        &mut self.func
    }

    /// Enters the author's place, with the device functions that are being called.
    #[inline(never)]
    pub fn loc(&mut self, at: &Location<'_>) -> Loc {
        let frame = self.frames.last().copied();
        let file = source::name_of(at.file());
        self.func.locations.add(file, at.line(), at.column(), frame)
    }

    /// Enters a device function called at `at`.
    pub fn enter(&mut self, function: &str, at: &Location<'_>) {
        let called_at = self.loc(at);
        let frame = self.func.locations.add_frame(function, called_at);
        self.frames.push(frame);
    }

    /// How many device functions are entered.
    pub fn calls(&self) -> usize {
        self.frames.len()
    }

    /// Leaves the device function entered last.
    pub fn leave(&mut self) {
        self.frames.pop();
    }

    /// Appends `op` at `at`. `declared` are the wished result types, which the op may correct. A mistake is reported
    /// and gives poison; so does an operand that is poison, without a word.
    #[inline(never)]
    pub fn push(&mut self, op: impl Into<Op>, declared: &[Type], at: Loc) -> Results {
        self.push_op(op.into(), declared, at)
    }

    fn push_op(&mut self, op: Op, declared: &[Type], at: Loc) -> Results {
        let mut is_poisoned = false;
        op.rules()
            .visit(&mut |v| is_poisoned |= self.func.ty(v).is_poison());
        let types = if is_poisoned || declared.iter().any(Type::is_poison) {
            declared.iter().map(|_| Type::Poison).collect()
        } else {
            match op.rules().result_types(&self.func, declared) {
                Ok(types) => types,
                Err(error) => {
                    self.report(error, at);
                    declared.iter().map(|_| Type::Poison).collect()
                }
            }
        };
        // An op that decides its result from its operands may be asked with nothing declared; poison still has results.
        let inst = self.func.make_inst(op, types, Some(at));
        let region = self.region();
        self.func.append(region, inst);
        self.func.results(inst).into()
    }

    /// Appends an op that has exactly one result.
    #[inline(never)]
    pub fn push1(&mut self, op: impl Into<Op>, declared: Type, at: Loc) -> Value {
        self.push_op(op.into(), &[declared], at)[0]
    }

    /// Appends an op whose regions have early exits, so that it is checked only once the exits are structured.
    pub(crate) fn push_unchecked(&mut self, op: impl Into<Op>, types: &[Type], at: Loc) -> Results {
        let types = types.iter().cloned().collect();
        let inst = self.func.make_inst(op, types, Some(at));
        let region = self.region();
        self.func.append(region, inst);
        self.func.results(inst).into()
    }

    /// A poison value, for what was reported already. It stands in no region, and no valid function holds it.
    pub fn poison(&mut self) -> Value {
        let zero = Constant {
            value: Const::Int(0),
        };
        let types = std::iter::once(Type::Poison).collect();
        let inst = self.func.make_inst(zero, types, None);
        self.func.results(inst)[0]
    }

    /// The region being filled.
    pub fn region(&self) -> Region {
        *self
            .open
            .last()
            .expect("the body of the kernel is open while it is traced")
    }

    /// How many regions are open; 1 is the kernel's own body.
    pub fn depth(&self) -> usize {
        self.open.len()
    }

    /// Opens a new region with parameters of the given types.
    pub fn open(&mut self, params: &[Type]) -> (Region, Vec<Value>) {
        let region = self.func.new_region();
        self.open.push(region);
        let values = params
            .iter()
            .map(|ty| self.func.add_region_param(region, ty.clone()))
            .collect();
        (region, values)
    }

    /// Goes back into a region that was closed before, to add to it.
    pub fn reopen(&mut self, region: Region) {
        self.open.push(region);
    }

    /// Closes the region opened last.
    pub fn close(&mut self) -> Region {
        let region = self.open.pop();
        region.expect("every region closed was opened")
    }

    /// Is `value` visible in the region being filled?
    pub fn in_scope(&self, value: Value) -> bool {
        use ir::ValueDef;
        let home = match self.func.def(value) {
            ValueDef::Param(region, _) => region,
            ValueDef::Result(inst, _) if self.func.is_placed(inst) => self.func.parent(inst),
            ValueDef::Result(..) => return false,
        };
        self.open.contains(&home)
    }

    /// Reports an op's mistake.
    #[inline(never)]
    pub fn report(&mut self, error: OpError, at: Loc) {
        let diagnostic = self.func.diagnose(error, Some(at));
        self.diagnostic(diagnostic);
    }

    /// Reports a mistake with nothing but a message.
    #[inline(never)]
    pub fn error(&mut self, code: Code, message: String, at: Loc) {
        self.report(OpError::new(code, message), at);
    }

    /// Reports. The same of the same place, as an unrolled loop gives it, is said once.
    pub fn diagnostic(&mut self, diagnostic: Diagnostic) {
        if !self.diagnostics.0.contains(&diagnostic) {
            self.diagnostics.push(diagnostic);
        }
    }

    /// Has an error been reported?
    pub fn has_errors(&self) -> bool {
        self.diagnostics.has_errors()
    }

    /// Ends the kernel: the function and whatever was reported on the way.
    pub fn finish(self) -> (Func, Diagnostics) {
        (self.func, self.diagnostics)
    }
}
