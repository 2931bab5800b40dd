//! The names that registers, labels and symbols have in the text.

use crate::operand::{Label, Reg, Symbol};
use crate::registers::Registers;

/// What the code that is printed can name.
#[derive(Default)]
pub(crate) struct Names<'m> {
    /// Those of the body; none outside of one.
    pub(super) registers: Option<&'m Registers>,
    pub(super) labels: &'m [String],
    pub(super) variables: Vec<&'m str>,
    /// Those of the entry or function.
    pub(super) params: Vec<&'m str>,
    pub(super) returns: Vec<&'m str>,
    /// Those of the module.
    pub(super) globals: Vec<&'m str>,
    pub(super) functions: Vec<&'m str>,
}

impl<'m> Names<'m> {
    /// The name of a register, and its number in a range of registers of that name.
    pub(super) fn register(&self, reg: Reg) -> Option<(&'m str, Option<u32>)> {
        self.registers?.parts(reg)
    }

    pub(super) fn label(&self, label: Label) -> Option<&'m str> {
        self.labels.get(label.0 as usize).map(String::as_str)
    }

    /// The name of a symbol, or its index without an entry.
    pub(super) fn symbol(&self, symbol: Symbol) -> Result<&'m str, u32> {
        let (names, index) = match symbol {
            Symbol::Param(index) => (&self.params, index),
            Symbol::Return(index) => (&self.returns, index),
            Symbol::Variable(index) => (&self.variables, index),
            Symbol::Global(index) => (&self.globals, index),
            Symbol::Function(index) => (&self.functions, index),
        };
        names.get(index as usize).copied().ok_or(index)
    }
}
