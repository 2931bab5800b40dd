//! Float arithmetic on elements. f16 and bf16 are computed two at a time where they lie packed; what has no instruction
//! of their own goes through f32, which holds their sums, products and quotients with bits to spare, so that rounding
//! twice is rounding once.

use half::{bf16, f16};
use ir::elem::{DType, Elem};
use ir::entity::{Inst, Value};
use ir::ops::arith::{Binary, BinaryOp as Op, CompareOp, Precision, Unary, UnaryOp};
use ptx::{BinaryOp, Cvt, DivPrecision, Operand, Reg, Rounding, Type};

use super::Emitter;
use super::arith::float_comparison;
use super::code::Code;
use super::element::{Element, arithmetic};

impl Emitter<'_> {
    pub(super) fn float_unary(&mut self, inst: Inst, op: &Unary) {
        let elem = self.elem(op.operand);
        match (op.op, elem) {
            (UnaryOp::Neg | UnaryOp::Abs, Elem::Data(DType::F16 | DType::Bf16)) => {
                let unary = sign_op(op.op);
                self.half_map(inst, [op.operand], |code, ty, [a]| code.unary(unary, ty, a));
            }
            (_, Elem::Data(DType::F16 | DType::Bf16)) => {
                let elements = self.elements(op.operand);
                let code = &mut self.code;
                let results: Vec<Operand> = elements
                    .iter()
                    .map(|&e| {
                        let x = code.widen(e, elem);
                        code.f32_unary(op.op, op.precision, x)
                    })
                    .collect();
                let narrow = code.narrow(&results, elem, Rounding::Rn);
                self.set_result(inst, narrow);
            }
            (_, Elem::Data(DType::F64)) => self.map(inst, [op.operand], |code, [a]| {
                let a = code.operand(a, elem);
                code.f64_unary(op.op, a).into()
            }),
            _ => self.map(inst, [op.operand], |code, [a]| {
                let a = code.operand(a, elem);
                code.f32_unary(op.op, op.precision, a).into()
            }),
        }
    }

    pub(super) fn float_binary(&mut self, inst: Inst, op: &Binary) {
        let elem = self.elem(op.lhs);
        let is_half = matches!(elem, Elem::Data(DType::F16 | DType::Bf16));
        match op.op {
            Op::Div | Op::Rem if is_half => {
                let (a, b) = (self.elements(op.lhs), self.elements(op.rhs));
                let code = &mut self.code;
                let results: Vec<Operand> = a
                    .iter()
                    .zip(b.iter())
                    .map(|(&a, &b)| {
                        let (a, b) = (code.widen(a, elem), code.widen(b, elem));
                        code.float_operation(op.op, op.precision, Type::F32, a, b)
                    })
                    .collect();
                let narrow = code.narrow(&results, elem, Rounding::Rn);
                self.set_result(inst, narrow);
            }
            Op::CopySign if is_half => self.half_map(inst, [op.lhs, op.rhs], |code, ty, [a, b]| {
                code.half_with_sign(ty, b, a)
            }),
            _ if is_half => self.half_map(inst, [op.lhs, op.rhs], |code, ty, [a, b]| {
                let (binary, nan) = simple(op.op);
                code.binary_with(ptx::Binary {
                    nan,
                    ..ptx::Binary::new(binary, ty, ptx::Dest::Sink, a, b)
                })
            }),
            _ => self.map(inst, [op.lhs, op.rhs], |code, [a, b]| {
                let (a, b) = (code.operand(a, elem), code.operand(b, elem));
                code.float_operation(op.op, op.precision, arithmetic(elem), a, b)
                    .into()
            }),
        }
    }

    /// Elementwise on f16 or bf16: `make` gets pairs in words where the operands lie so, else single elements.
    pub(super) fn half_map<const N: usize>(
        &mut self,
        inst: Inst,
        operands: [Value; N],
        make: impl Fn(&mut Code, Type, [Operand; N]) -> Reg,
    ) {
        let elem = self.elem(operands[0]);
        let lists = operands.map(|v| self.elements(v));
        let (single, pair) = if elem == Elem::Data(DType::F16) {
            (Type::F16, Type::F16x2)
        } else {
            (Type::Bf16, Type::Bf16x2)
        };
        let count = lists[0].len();
        let mut results: Vec<Element> = Vec::with_capacity(count);
        let code = &mut self.code;
        while results.len() < count {
            let at = results.len();
            let is_packed = at + 1 < count && lists.iter().any(|l| is_word(l[at], l[at + 1]));
            if is_packed {
                let words = std::array::from_fn(|i| {
                    let word = code.pack_words(&lists[i][at..at + 2], elem)[0];
                    // Packed floats have no immediates.
                    match word {
                        Operand::Int(_) => code.mov(Type::B32, word).into(),
                        word => word,
                    }
                });
                let word = make(code, pair, words);
                results.extend([Element::Part(word, 0), Element::Part(word, 16)]);
            } else {
                let tuple = std::array::from_fn(|i| code.operand(lists[i][at], elem));
                results.push(make(code, single, tuple).into());
            }
        }
        self.set_result(inst, results);
    }
}

/// Do two elements lie in one word, in order?
fn is_word(low: Element, high: Element) -> bool {
    matches!((low, high), (Element::Part(a, 0), Element::Part(b, 16)) if a == b)
}

fn sign_op(op: UnaryOp) -> ptx::UnaryOp {
    if op == UnaryOp::Neg {
        ptx::UnaryOp::Neg
    } else {
        ptx::UnaryOp::Abs
    }
}

/// The instruction of an operation that has one for every float type, and its `.NaN`.
fn simple(op: Op) -> (BinaryOp, bool) {
    match op {
        Op::Add => (BinaryOp::Add, false),
        Op::Sub => (BinaryOp::Sub, false),
        Op::Mul => (BinaryOp::Mul, false),
        Op::Min => (BinaryOp::Min, false),
        Op::Max => (BinaryOp::Max, false),
        Op::MinNan => (BinaryOp::Min, true),
        Op::MaxNan => (BinaryOp::Max, true),
        other => panic!("the verifier admits no `{other}` of floats here"),
    }
}

impl Code {
    /// `a op b` on f32 or f64.
    fn float_operation(
        &mut self,
        op: Op,
        precision: Precision,
        ty: Type,
        a: Operand,
        b: Operand,
    ) -> Operand {
        match op {
            Op::Div => self.float_quotient(precision, ty, a, b),
            Op::Rem => self.float_remainder(ty, a, b),
            Op::CopySign => self.with_sign(ty, b, a),
            Op::MinNan | Op::MaxNan if ty == Type::F64 => {
                // There is no min.NaN.f64.
                let number = self.binary(simple(op).0, ty, a, b);
                let nan = self.setp(ptx::Compare::Nan, ty, a, b);
                self.selp(ty, Operand::f64(f64::NAN), number, nan).into()
            }
            _ => {
                let (binary, nan) = simple(op);
                let inst = ptx::Binary::new(binary, ty, ptx::Dest::Sink, a, b);
                self.binary_with(ptx::Binary { nan, ..inst }).into()
            }
        }
    }

    /// The magnitude of `x` with the sign of `sign`, of one f16 or bf16 or of two: `copysign` is of f32 and f64 alone.
    fn half_with_sign(&mut self, ty: Type, sign: Operand, x: Operand) -> Reg {
        let (bits, signs, magnitudes) = if ty.bits() == 16 {
            (Type::B16, 0x8000_i64, 0x7fff_i64)
        } else {
            (Type::B32, 0x8000_8000, 0x7fff_7fff)
        };
        let sign = self.binary(BinaryOp::And, bits, sign, signs);
        let magnitude = self.binary(BinaryOp::And, bits, x, magnitudes);
        self.binary(BinaryOp::Or, bits, magnitude, sign)
    }

    pub(super) fn float_quotient(
        &mut self,
        precision: Precision,
        ty: Type,
        a: Operand,
        b: Operand,
    ) -> Operand {
        let inst = ptx::Binary::new(BinaryOp::Div, ty, ptx::Dest::Sink, a, b);
        if ty == Type::F64 || precision == Precision::Precise {
            return self
                .binary_with(ptx::Binary {
                    rounding: Some(Rounding::Rn),
                    ..inst
                })
                .into();
        }
        if let Operand::F32(bits) = b
            && let Some(reciprocal) = exact_reciprocal(f32::from_bits(bits))
        {
            return self
                .binary(BinaryOp::Mul, ty, a, Operand::f32(reciprocal))
                .into();
        }
        if precision == Precision::Fast {
            let reciprocal = self.approx(ptx::UnaryOp::Rcp, b);
            return self.binary(BinaryOp::Mul, ty, a, reciprocal).into();
        }
        self.binary_with(ptx::Binary {
            precision: Some(DivPrecision::Full),
            ..inst
        })
        .into()
    }

    /// The hardware's approximation of a function of f32, subnormals flushed to zero.
    pub(super) fn approx(&mut self, op: ptx::UnaryOp, x: impl Into<Operand>) -> Operand {
        let inst = ptx::Unary::new(op, Type::F32, ptx::Dest::Sink, x);
        // `tanh.approx` has no `.ftz`: it never gives subnormals from others.
        let ftz = op != ptx::UnaryOp::Tanh;
        self.unary_with(ptx::Unary {
            approx: true,
            ftz,
            ..inst
        })
        .into()
    }

    pub(super) fn float_compare(
        &mut self,
        op: CompareOp,
        a: Element,
        b: Element,
        elem: Elem,
    ) -> Element {
        let (a, b, ty) = if elem.bits() == 16 {
            (self.widen(a, elem), self.widen(b, elem), Type::F32)
        } else {
            (
                self.operand(a, elem),
                self.operand(b, elem),
                arithmetic(elem),
            )
        };
        self.setp(float_comparison(op), ty, a, b).into()
    }

    /// An f16 or bf16 element as f32, which is exact.
    pub(super) fn widen(&mut self, element: Element, elem: Elem) -> Operand {
        let is_bf16 = elem == Elem::Data(DType::Bf16);
        match element {
            Element::Whole(Operand::Int(bits)) if is_bf16 => {
                Operand::f32(bf16::from_bits(bits as u16).to_f32())
            }
            Element::Whole(Operand::Int(bits)) => {
                Operand::f32(f16::from_bits(bits as u16).to_f32())
            }
            // A bf16 is the upper half of its f32: one instruction, where `cvt` costs more.
            Element::Part(word, shift) if is_bf16 => {
                let bits = if shift == 0 {
                    self.binary(BinaryOp::Shl, Type::B32, word, 16_u32)
                } else {
                    self.binary(BinaryOp::And, Type::B32, word, 0xffff_0000_u32)
                };
                self.mov_bits(ptx::RegClass::F32, bits).into()
            }
            _ => {
                let half = self.whole(element, elem);
                self.convert(Type::F32, arithmetic(elem), None, half).into()
            }
        }
    }

    /// f32 values as f16 or bf16 elements, two to a word.
    pub(super) fn narrow(
        &mut self,
        values: &[Operand],
        elem: Elem,
        rounding: Rounding,
    ) -> Vec<Element> {
        let (single, pair) = if elem == Elem::Data(DType::F16) {
            (Type::F16, Type::F16x2)
        } else {
            (Type::Bf16, Type::Bf16x2)
        };
        let mut results = Vec::with_capacity(values.len());
        for chunk in values.chunks(2) {
            match *chunk {
                [low, high] => {
                    let inst = Cvt::new(pair, Type::F32, ptx::Dest::Sink, high);
                    let word = self.cvt(Cvt {
                        rounding: Some(rounding),
                        b: Some(low),
                        ..inst
                    });
                    results.extend([Element::Part(word, 0), Element::Part(word, 16)]);
                }
                [one] => results.push(self.convert(single, Type::F32, Some(rounding), one).into()),
                _ => {}
            }
        }
        results
    }
}

/// `1 / x`, where that is exact.
fn exact_reciprocal(x: f32) -> Option<f32> {
    let reciprocal = 1.0 / x;
    let is_power = x.is_normal() && x.to_bits() & 0x007f_ffff == 0;
    (is_power && reciprocal.is_normal()).then_some(reciprocal)
}
