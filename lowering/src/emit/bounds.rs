//! What must hold of indices into shared memory, where what they choose is accessed.
//!
//! An index that is too large leads into another allocation, which no address shows. So a comment in the PTX gives the emulator
//! what the author indexed.

use ir::Type;
use ir::elem::{DType, Elem};
use ir::entity::{Inst, Value};
use ir::ops::Op;
use ir::ops::shared::SmemIndex;
use ptx::{Bound, Operand, Predicate, Reg};

use super::Emitter;
use super::element::Element;

impl Emitter<'_> {
    /// States the bounds of all indices on the way to the shared memory that `inst` accesses. An index of which nothing
    /// is accessed may be anything: code motion computes some too early.
    pub(super) fn state_bounds(&mut self, inst: Inst) {
        let func = self.func;
        let op = func.op(inst);
        let accesses = op.rules().shared_accesses();
        if !self.locations.is_on() || accesses.is_empty() {
            return;
        }
        let conditions = op.operands();
        let condition = conditions
            .iter()
            .find(|&&v| matches!(func.ty(v), Type::Scalar(Elem::Data(DType::I1))));
        let guard = match condition.map(|&v| self.scalar(v)) {
            Some(Element::Whole(Operand::Reg(reg))) => Some(Predicate::is(reg)),
            Some(Element::Whole(Operand::Int(0))) => return,
            _ => None,
        };
        for (view, _) in accesses {
            self.bounds_of(view, guard);
        }
    }

    fn bounds_of(&mut self, mut view: Value, guard: Option<Predicate>) {
        let mut indices = Vec::new();
        while let Some((inst, from)) = self.source_of(view) {
            if let Op::SmemIndex(op) = self.func.op(inst) {
                indices.push(op);
            }
            view = from;
        }
        let allocated = self.allocated(view);
        for op in indices {
            self.bound(op, guard, &allocated);
        }
    }

    /// States that an index along a dimension of a view lies inside of it, where `guard` holds.
    pub(super) fn state_index(
        &mut self,
        index: Reg,
        (view, axis): (Value, usize),
        guard: Option<Predicate>,
    ) {
        let limit = self.smem(view).shape[axis];
        let what = format!("dimension {axis}");
        self.state_below((index, 0), limit, (&what, view), guard);
    }

    /// States that an index along a dimension of a tensor lies inside of it. Else a shuffle finds another element, and a read of the
    /// source in shared memory what another op has left there.
    pub(super) fn state_element(&mut self, index: Reg, (source, axis): (Value, usize)) {
        if !self.locations.is_on() {
            return;
        }
        let source = self.tensor(source);
        let (shape, elem) = (&source.shape, source.elem);
        let bound = Bound {
            index,
            plus: 0,
            limit: shape[axis],
            what: format!("dimension {axis} of a tensor of {shape} of {elem}"),
        };
        self.code.push_guarded(None, bound);
    }

    /// States that a copy takes no more elements than the view has, where `guard` holds.
    pub(super) fn state_count(&mut self, count: Value, view: Value, guard: Option<Predicate>) {
        let (index, plus) = match self.scalar(count) {
            Element::Whole(Operand::Reg(reg)) => (reg, 0),
            Element::Sum(reg, plus) => (reg, plus as i32),
            // The verifier has looked at what is known.
            _ => return,
        };
        let limit = self.smem(view).shape.product() as u32 + 1;
        let what = "the number of elements that a copy takes";
        self.state_below((index, plus), limit, (what, view), guard);
    }

    /// States that a register, with a constant added, which is `what` of a view, is below a limit, where `guard` holds.
    fn state_below(
        &mut self,
        (index, plus): (Reg, i32),
        limit: u32,
        (what, view): (&str, Value),
        guard: Option<Predicate>,
    ) {
        if !self.locations.is_on() {
            return;
        }
        let s = self.smem(view);
        let allocated = self.allocated(self.whole(view));
        let what = format!(
            "{what} of {} of {} in shared memory{allocated}",
            s.shape, s.elem
        );
        let bound = Bound {
            index,
            plus,
            limit,
            what,
        };
        self.code.push_guarded(guard, bound);
    }

    /// The allocation that a view is of.
    fn whole(&self, mut view: Value) -> Value {
        while let Some((_, from)) = self.source_of(view) {
            view = from;
        }
        view
    }

    /// Where the author allocated shared memory, for messages.
    fn allocated(&self, whole: Value) -> String {
        let place = self.func.value_place(whole);
        place.map_or_else(String::new, |place| {
            format!(", allocated at {}:{}", place.file, place.line)
        })
    }

    /// The operation that made a view of another, and that other.
    fn source_of(&self, view: Value) -> Option<(Inst, Value)> {
        let inst = self.func.def_inst(view)?;
        let operands = self.func.op(inst).operands();
        let from = operands
            .iter()
            .find(|&&operand| self.func.ty(operand).as_smem().is_some());
        Some((inst, *from?))
    }

    fn bound(&mut self, op: &SmemIndex, guard: Option<Predicate>, allocated: &str) {
        let s = self.smem(op.view);
        let (index, plus) = match self.scalar(op.index) {
            Element::Whole(Operand::Reg(reg)) => (reg, 0),
            Element::Sum(reg, plus) => (reg, plus as i32),
            known => {
                let known = known.as_int().expect("an index is a number of 32 bits");
                if (0..i64::from(s.shape[0])).contains(&known) {
                    return;
                }
                // Tracing has checked what the author wrote; this became constant by folding, and may stand in code that
                // never runs.
                (self.code.mov(ptx::Type::U32, known as u32), 0)
            }
        };
        let what = format!(
            "the first dimension of {} of {} in shared memory{allocated}",
            s.shape, s.elem
        );
        let limit = s.shape[0];
        self.code.push_guarded(
            guard,
            Bound {
                index,
                plus,
                limit,
                what,
            },
        );
    }
}
