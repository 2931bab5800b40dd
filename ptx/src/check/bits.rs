//! Bit fields, bytes, funnel shifts and dot products of bytes.

use super::context::Checker;
use super::legal::Need::Exact;
use crate::inst::{Bfi, Dp4a, Lop3, Prmt, Shf, Visit};
use crate::operand::Operand;
use crate::types::Type;

impl Checker<'_> {
    /// The position or length of a bit field.
    pub(super) fn bit_index(&mut self, operand: &'static str, value: &Operand) {
        self.ranged(operand, value, "0 to 255", |value| {
            (0..256).contains(&value)
        });
    }
}

impl Visit<Bfi> for Checker<'_> {
    fn visit(&mut self, inst: &Bfi) {
        self.one_of("`bfi`", inst.ty, &[Type::B32, Type::B64]);
        self.result("dst", inst.dst, Exact(inst.ty));
        self.value("a", &inst.a, Exact(inst.ty));
        self.value("b", &inst.b, Exact(inst.ty));
        self.bit_index("pos", &inst.pos);
        self.bit_index("len", &inst.len);
    }
}

impl Visit<Lop3> for Checker<'_> {
    fn visit(&mut self, inst: &Lop3) {
        self.result("dst", inst.dst, Exact(Type::B32));
        for (name, value) in [("a", &inst.a), ("b", &inst.b), ("c", &inst.c)] {
            self.value(name, value, Exact(Type::B32));
        }
        self.immediate("table", &inst.table, "0 to 255", |value| {
            (0..256).contains(&value)
        });
    }
}

impl Visit<Prmt> for Checker<'_> {
    fn visit(&mut self, inst: &Prmt) {
        self.result("dst", inst.dst, Exact(Type::B32));
        for (name, value) in [("a", &inst.a), ("b", &inst.b), ("selector", &inst.selector)] {
            self.value(name, value, Exact(Type::B32));
        }
    }
}

impl Visit<Shf> for Checker<'_> {
    fn visit(&mut self, inst: &Shf) {
        self.result("dst", inst.dst, Exact(Type::B32));
        for (name, value) in [("a", &inst.a), ("b", &inst.b)] {
            self.value(name, value, Exact(Type::B32));
        }
        self.value("amount", &inst.amount, Exact(Type::U32));
    }
}

impl Visit<Dp4a> for Checker<'_> {
    fn visit(&mut self, inst: &Dp4a) {
        let is_signed = inst.a_ty == Type::S32 || inst.b_ty == Type::S32;
        let c_ty = if is_signed { Type::S32 } else { Type::U32 };
        for ty in [inst.a_ty, inst.b_ty] {
            self.one_of("`dp4a`", ty, &[Type::U32, Type::S32]);
        }
        self.result("dst", inst.dst, Exact(c_ty));
        self.value("a", &inst.a, Exact(inst.a_ty));
        self.value("b", &inst.b, Exact(inst.b_ty));
        self.value("c", &inst.c, Exact(c_ty));
    }
}
