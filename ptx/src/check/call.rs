//! Calls of functions of the module.

use super::context::Checker;
use super::error::Problem;
use crate::inst::{Call, Visit};
use crate::operand::{Operand, Symbol};

impl Visit<Call> for Checker<'_> {
    fn visit(&mut self, inst: &Call) {
        let Symbol::Function(index) = inst.function else {
            return self.report(Problem::Modifier(
                "only functions of the module can be called".to_owned(),
            ));
        };
        let Some(function) = self.module.functions.get(index as usize) else {
            return self.report(Problem::UnknownSymbol("function", index));
        };
        self.count("returns", inst.returns.0.len(), function.returns.len());
        self.count("arguments", inst.arguments.0.len(), function.params.len());
        for operand in inst.returns.0.iter().chain(&inst.arguments.0) {
            match *operand {
                Operand::Symbol(symbol, _) => {
                    self.place(symbol);
                }
                Operand::Reg(reg) if self.body.registers.get(reg).is_none() => {
                    self.report(Problem::UnknownRegister(reg));
                }
                _ => {}
            }
        }
    }
}
