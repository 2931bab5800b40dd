//! The registers that a warp has (`setmaxnreg`).

use super::decoder::{Decoded, Decoder};
use crate::program::Op;
use ptx::{Operand, SetMaxNReg, SetMaxNRegOp, Visit};

impl Visit<SetMaxNReg> for Decoder<'_> {
    fn visit(&mut self, i: &SetMaxNReg) -> Decoded {
        let Operand::Int(count) = i.count else {
            return Err("the register count must be an immediate".to_owned());
        };
        let limits = &self.machine.registers;
        let [unit, least, most] =
            [limits.unit, limits.least_budget, limits.most_budget].map(i64::from);
        if !(least..=most).contains(&count) || count % unit != 0 {
            return Err(format!(
                "setmaxnreg {count}: the count must be a multiple of {unit} from {least} to {most}"
            ));
        }
        self.push(Op::SetMaxRegisters {
            count: count as u32,
            increases: i.op == SetMaxNRegOp::Inc,
        });
        Ok(())
    }
}
