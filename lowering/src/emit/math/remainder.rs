//! The remainder of a division of floats, exactly: as `fmod` of C and `%` of Rust.

use ptx::{BinaryOp, Compare, Operand, Predicate, Type};

use crate::emit::code::{Code, move_type};

impl Code {
    /// `a - trunc(a / b) * b` without rounding, with the sign of `a`.
    ///
    /// Long division: the divisor is doubled until it is above half of what is left, then halved step by step, and
    /// taken away where it fits. Every step is exact. Quotients that fit the mantissa, nearly all there are, take one
    /// step.
    pub(in crate::emit) fn float_remainder(&mut self, ty: Type, a: Operand, b: Operand) -> Operand {
        let (zero, infinity) = if ty == Type::F64 {
            (Operand::f64(0.0), Operand::f64(f64::INFINITY))
        } else {
            (Operand::f32(0.0), Operand::f32(f32::INFINITY))
        };
        let (a, b) = (self.moved(ty, a), self.moved(ty, b));
        let class = ptx::RegClass::of(ty);
        let divisor = self.unary(ptx::UnaryOp::Abs, ty, b);
        let magnitude = self.unary(ptx::UnaryOp::Abs, ty, a);
        let (rest, step) = (self.reg(class), self.reg(class));
        self.copy(rest, magnitude);
        let (far, back) = (self.label("long_division"), self.label("remainder"));
        // Nothing is to be taken away where a is smaller; NaN, infinity and zero divisors are put right below.
        let is_larger = self.setp(Compare::Ge, ty, magnitude, divisor);
        let is_finite = self.setp(Compare::Lt, ty, magnitude, infinity);
        let is_divisor = self.setp(Compare::Gt, ty, divisor, zero);
        let valid = self.binary(BinaryOp::And, Type::Pred, is_finite, is_divisor);
        let works = self.binary(BinaryOp::And, Type::Pred, is_larger, valid);
        self.branch(Some(Predicate::is(works)), far, false);
        self.bind(back);
        self.out_of_line(far, back, |code| {
            code.long_division(ty, rest, step, divisor);
        });
        let is_number = self.setp(Compare::Num, ty, divisor, divisor);
        let valid = self.binary(BinaryOp::And, Type::Pred, valid, is_number);
        let signed = self.raw_with_sign(ty, a, rest);
        let nan = if ty == Type::F64 {
            Operand::f64(f64::NAN)
        } else {
            Operand::f32(f32::NAN)
        };
        let result = self.reg(class);
        self.push(ptx::Selp::new(ty, result, signed, nan, valid));
        result.into()
    }

    fn moved(&mut self, ty: Type, x: Operand) -> Operand {
        match x {
            Operand::Reg(_) => x,
            _ => self.mov(ty, x).into(),
        }
    }

    /// `rest` is written more than once, so what is computed of it must not be remembered.
    fn raw_with_sign(&mut self, ty: Type, sign: Operand, rest: ptx::Reg) -> ptx::Reg {
        let signed = self.reg(ptx::RegClass::of(ty));
        self.push(ptx::Binary::new(BinaryOp::CopySign, ty, signed, sign, rest));
        signed
    }

    fn long_division(&mut self, ty: Type, rest: ptx::Reg, step: ptx::Reg, divisor: ptx::Reg) {
        let half = if ty == Type::F64 {
            Operand::f64(0.5)
        } else {
            Operand::f32(0.5)
        };
        let (grow, shrink, done) = (
            self.label("grow"),
            self.label("shrink"),
            self.label("divided"),
        );
        let class = ptx::RegClass::of(ty);
        let (p, q) = (self.reg(ptx::RegClass::Pred), self.reg(ptx::RegClass::Pred));
        let limit = self.reg(class);
        let compare = |code: &mut Code, p, op, a: ptx::Reg, b: ptx::Reg| {
            code.push(ptx::Setp::new(op, ty, ptx::PairDest::from(p), a, b));
        };
        let product = |code: &mut Code, to: ptx::Reg, a: ptx::Reg, b: Operand| {
            code.push(ptx::Binary {
                rounding: Some(ptx::Rounding::Rn),
                ..ptx::Binary::new(BinaryOp::Mul, ty, to, a, b)
            });
        };
        self.push(ptx::Mov::new(move_type(class), step, divisor));
        // Half of what is left cannot overflow, twice the step could. The step may pass the rest by one bit where halving
        // a subnormal rounds up; then it is only not taken away.
        product(self, limit, rest, half);
        self.bind(grow);
        compare(self, p, Compare::Le, step, limit);
        let twice = ptx::Binary {
            rounding: Some(ptx::Rounding::Rn),
            ..ptx::Binary::new(BinaryOp::Add, ty, step, step, step)
        };
        self.push_guarded(Some(Predicate::is(p)), twice);
        self.branch(Some(Predicate::is(p)), grow, false);
        self.bind(shrink);
        compare(self, q, Compare::Ge, rest, step);
        let taken = ptx::Binary {
            rounding: Some(ptx::Rounding::Rn),
            ..ptx::Binary::new(BinaryOp::Sub, ty, rest, rest, step)
        };
        self.push_guarded(Some(Predicate::is(q)), taken);
        compare(self, p, Compare::Gt, step, divisor);
        self.branch(Some(Predicate::not(p)), done, false);
        product(self, step, step, half);
        self.branch(None, shrink, false);
        self.bind(done);
    }
}
