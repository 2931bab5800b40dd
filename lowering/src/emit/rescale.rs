//! Multiplication by factors that are mostly 1: a warp all of whose factors are 1 branches around the multiplications.

use ir::elem::{DType, Elem};
use ir::entity::Inst;
use ir::ops::arith::{Binary, BinaryOp, Precision, Rescale};
use ptx::{Compare, Operand, Predicate, Reg};

use super::code::Code;
use super::element::{Element, arithmetic, class};
use super::{Emitted, Emitter, Lower};

/// With fewer elements for each distinct factor, the multiplications cost less than comparisons, vote and branch.
const ELEMENTS_OF_A_FACTOR: usize = 4;

impl Lower for Rescale {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let elem = cx.elem(self.operand);
        let (values, factors) = (cx.elements(self.operand), cx.elements(self.factor));
        let mut distinct: Vec<Element> = Vec::new();
        for &factor in factors.iter() {
            if !distinct.contains(&factor) {
                distinct.push(factor);
            }
        }
        let is_whole = matches!(elem, Elem::Data(DType::F32 | DType::F64));
        // Where each thread branches by itself, the lanes of a warp cannot vote.
        let can_vote = is_whole && !cx.code.is_divergent();
        if !can_vote || values.len() < ELEMENTS_OF_A_FACTOR * distinct.len() {
            let product = Binary {
                op: BinaryOp::Mul,
                precision: Precision::Default,
                lhs: self.operand,
                rhs: self.factor,
            };
            cx.float_binary(inst, &product);
            return Ok(());
        }
        let [values, factors, distinct] = [&values[..], &factors, &distinct].map(|elements| {
            let operands = elements.iter().map(|&e| cx.code.operand(e, elem));
            operands.collect::<Vec<Operand>>()
        });
        let results = cx.code.rescaled(&values, &factors, &distinct, elem);
        let results: Vec<Element> = results.into_iter().map(Element::from).collect();
        cx.set_result(inst, results);
        Ok(())
    }
}

impl Code {
    /// `values * factors`, where a warp whose `distinct` factors are all 1 only copies.
    fn rescaled(
        &mut self,
        values: &[Operand],
        factors: &[Operand],
        distinct: &[Operand],
        elem: Elem,
    ) -> Vec<Reg> {
        let ty = arithmetic(elem);
        let is_any = self.any_lane_differs_from_one(distinct, elem);
        let copy = |code: &mut Code, value: Operand| {
            let result = code.reg(class(elem));
            code.copy(result, value);
            result
        };
        let results: Vec<Reg> = values.iter().map(|&value| copy(self, value)).collect();
        let same = self.label("same");
        self.branch(Some(Predicate::not(is_any)), same, true);
        for (&result, &factor) in results.iter().zip(factors) {
            self.push(ptx::Binary::new(
                ptx::BinaryOp::Mul,
                ty,
                result,
                result,
                factor,
            ));
        }
        self.bind(same);
        results
    }

    /// Is any of these factors, in any lane of the warp, not 1? NaN is not 1.
    fn any_lane_differs_from_one(&mut self, factors: &[Operand], elem: Elem) -> Reg {
        let one = match elem {
            Elem::Data(DType::F64) => Operand::F64(1f64.to_bits()),
            _ => Operand::F32(1f32.to_bits()),
        };
        let ty = arithmetic(elem);
        let differs: Vec<Reg> = factors
            .iter()
            .map(|&factor| self.setp(Compare::Neu, ty, factor, one))
            .collect();
        self.any_lane(differs)
    }
}
