//! Votes of warps.

use ir::elem::Elem;
use ir::entity::Inst;
use ir::ops::vote::AnyInWarp;
use ptx::{Operand, Predicate, Reg, RegClass, Type, Vote, VoteOp};

use super::code::Code;
use super::element::Element;
use super::{Emitted, Emitter, Lower};

const ALL_LANES: i64 = 0xffff_ffff;

impl Lower for AnyInWarp {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let mut own: Vec<Reg> = Vec::new();
        for &element in cx.elements(self.operand).iter() {
            let predicate = cx.code.whole(element, Elem::I1);
            if !own.contains(&predicate) {
                own.push(predicate);
            }
        }
        let any = cx.code.any_lane(own);
        cx.set_result(inst, vec![Element::from(any)]);
        Ok(())
    }
}

impl Code {
    /// Is any of these predicates true in any lane of the warp?
    pub(super) fn any_lane(&mut self, own: Vec<Reg>) -> Reg {
        let either =
            |code: &mut Code, a: Reg, b: Reg| code.binary(ptx::BinaryOp::Or, Type::Pred, a, b);
        let own = own.into_iter().reduce(|a, b| either(self, a, b));
        let own = own.expect("a tensor has a register in each thread");
        let any = self.reg(RegClass::Pred);
        self.push(Vote::new(
            VoteOp::Any,
            any,
            Predicate::is(own),
            Operand::Int(ALL_LANES),
        ));
        any
    }
}
