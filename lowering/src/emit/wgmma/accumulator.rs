//! Accumulators in registers: of half floats two elements each.

use ir::elem::{DType, Elem};
use ir::entity::Value;
use ptx::{Operand, Reg, RegClass};

use crate::emit::Emitter;
use crate::emit::code::move_type;
use crate::emit::element::{Element, class};

/// The elements that accumulator registers hold: of half floats two each.
pub(in crate::emit) fn elements_of(registers: &[Reg], elem: Elem) -> Vec<Element> {
    if is_packed(elem) {
        let halves = |&reg: &Reg| [Element::Part(reg, 0), Element::Part(reg, 16)];
        return registers.iter().flat_map(halves).collect();
    }
    registers.iter().map(|&reg| reg.into()).collect()
}

pub(in crate::emit) fn is_packed(elem: Elem) -> bool {
    elem == Elem::Data(DType::F16)
}

impl Emitter<'_> {
    /// The registers of what is in flight.
    pub(in crate::emit) fn in_flight(&self, value: Value) -> Vec<Reg> {
        let elements = self.elements(value);
        let register = |e: &Element| match e {
            Element::Whole(Operand::Reg(reg)) => *reg,
            other => panic!("an accumulator in flight is held in registers, not {other:?}"),
        };
        elements.iter().map(register).collect()
    }

    pub(super) fn set_in_flight(&mut self, value: Value, registers: &[Reg]) {
        let elements: Vec<Element> = registers.iter().map(|&reg| reg.into()).collect();
        self.set(value, elements);
    }

    /// New registers for the elements of a tensor.
    pub(super) fn blank_accumulator(&mut self, like: Value) -> Vec<Reg> {
        let elem = self.elem(like);
        let elements = self.elements(like).len();
        let count = if is_packed(elem) {
            elements / 2
        } else {
            elements
        };
        (0..count)
            .map(|_| self.code.reg(accumulator_class(elem)))
            .collect()
    }

    /// Registers that begin with the elements of a tensor: new ones, or those of the accumulator that it continues in.
    pub(super) fn new_accumulator(&mut self, init: Value, continued: Option<Vec<Reg>>) -> Vec<Reg> {
        let elem = self.elem(init);
        let elements = self.elements(init);
        let operands: Vec<Operand> = if is_packed(elem) {
            self.code.pack_words(&elements, elem)
        } else {
            let code = &mut self.code;
            elements.iter().map(|&e| code.operand(e, elem)).collect()
        };
        let registers = continued.unwrap_or_else(|| {
            let class = accumulator_class(elem);
            operands.iter().map(|_| self.code.reg(class)).collect()
        });
        for (&reg, operand) in registers.iter().zip(operands) {
            self.code.copy(reg, operand);
        }
        registers
    }

    /// Zeroes registers where a condition does not hold.
    pub(super) fn clear_unless(&mut self, condition: Operand, registers: &[Reg], elem: Elem) {
        let Operand::Reg(condition) = condition else {
            return;
        };
        let zero = zero(elem);
        for &reg in registers {
            let ty = move_type(self.code.class(reg));
            let guard = Some(ptx::Predicate::not(condition));
            self.code.push_guarded(guard, ptx::Mov::new(ty, reg, zero));
        }
    }
}

/// Zero in a register of an accumulator.
pub(in crate::emit) fn zero(elem: Elem) -> Operand {
    if elem == Elem::F32 {
        Operand::F32(0)
    } else {
        Operand::Int(0)
    }
}

pub(super) fn accumulator_class(elem: Elem) -> RegClass {
    if is_packed(elem) {
        RegClass::B32
    } else {
        class(elem)
    }
}
