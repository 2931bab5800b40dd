//! Comparisons and selections.

use super::context::Checker;
use super::forms::WORDS;
use super::legal::Need::Exact;
use crate::inst::{Compare, Selp, Set, Setp, Slct, Testp, Visit};
use crate::types::Type;

impl Checker<'_> {
    /// A comparison must exist for its type (PTX ISA 9.3.1).
    fn compare(&mut self, compare: Compare, ty: Type) {
        use Compare::{Eq, Ge, Gt, Hi, Hs, Le, Lo, Ls, Lt, Ne};
        let exists = if ty.is_float() {
            !matches!(compare, Lo | Ls | Hi | Hs)
        } else if matches!(ty, Type::B16 | Type::B32 | Type::B64) {
            matches!(compare, Eq | Ne)
        } else if matches!(ty, Type::U16 | Type::U32 | Type::U64) {
            matches!(compare, Eq | Ne | Lt | Le | Gt | Ge | Lo | Ls | Hi | Hs)
        } else {
            matches!(compare, Eq | Ne | Lt | Le | Gt | Ge)
        };
        self.require(exists, || {
            format!(
                "there is no comparison .{} for .{}",
                compare.text(),
                ty.text()
            )
        });
    }
}

impl Visit<Setp> for Checker<'_> {
    fn visit(&mut self, inst: &Setp) {
        self.one_of_lists("`setp`", inst.ty, &COMPARED);
        self.compare(inst.compare, inst.ty);
        self.flush("setp", inst.ftz, inst.ty);
        self.pair(inst.dst, Exact(Type::Pred), Exact(Type::Pred));
        self.value("a", &inst.a, Exact(inst.ty));
        self.value("b", &inst.b, Exact(inst.ty));
        self.combine(inst.combine.is_some(), inst.c.is_some());
        if let Some(c) = inst.c {
            self.predicate("c", c);
        }
    }
}

impl Checker<'_> {
    /// A Boolean operation needs its predicate, and the reverse.
    fn combine(&mut self, has_op: bool, has_predicate: bool) {
        self.require(has_op == has_predicate, || {
            "a comparison with .and, .or or .xor takes a predicate as its last operand, others do not".to_owned()
        });
    }

    fn flush(&mut self, op: &str, ftz: bool, ty: Type) {
        let may_flush = matches!(ty, Type::F32 | Type::F16 | Type::F16x2);
        self.require(!ftz || may_flush, || {
            format!("`{op}` has no modifier .ftz for .{}", ty.text())
        });
    }
}

impl Visit<Set> for Checker<'_> {
    fn visit(&mut self, inst: &Set) {
        self.one_of_lists("`set`", inst.ty, &COMPARED);
        let results = match inst.ty {
            Type::F16x2 => &[Type::U32, Type::S32, Type::F16x2][..],
            Type::Bf16x2 => &[Type::U32, Type::S32, Type::Bf16x2],
            Type::F16 => &[Type::U16, Type::S16, Type::U32, Type::S32, Type::F16],
            Type::Bf16 => &[Type::U16, Type::S16, Type::U32, Type::S32, Type::Bf16],
            _ => &[Type::U32, Type::S32, Type::F32],
        };
        self.one_of("the result of `set`", inst.dst_ty, results);
        self.compare(inst.compare, inst.ty);
        self.flush("set", inst.ftz, inst.ty);
        self.result("dst", inst.dst, Exact(inst.dst_ty));
        self.value("a", &inst.a, Exact(inst.ty));
        self.value("b", &inst.b, Exact(inst.ty));
        self.combine(inst.combine.is_some(), inst.c.is_some());
        if let Some(c) = inst.c {
            self.predicate("c", c);
        }
    }
}

impl Visit<Selp> for Checker<'_> {
    fn visit(&mut self, inst: &Selp) {
        self.one_of_lists("`selp`", inst.ty, &SELECTED);
        self.result("dst", inst.dst, Exact(inst.ty));
        self.value("a", &inst.a, Exact(inst.ty));
        self.value("b", &inst.b, Exact(inst.ty));
        self.value("p", &inst.p, Exact(Type::Pred));
    }
}

impl Visit<Slct> for Checker<'_> {
    fn visit(&mut self, inst: &Slct) {
        self.one_of_lists("`slct`", inst.ty, &SELECTED);
        self.one_of(
            "the condition of `slct`",
            inst.c_ty,
            &[Type::S32, Type::F32],
        );
        self.require(!inst.ftz || inst.c_ty == Type::F32, || {
            "`slct.ftz` needs an .f32 condition".to_owned()
        });
        self.result("dst", inst.dst, Exact(inst.ty));
        self.value("a", &inst.a, Exact(inst.ty));
        self.value("b", &inst.b, Exact(inst.ty));
        self.value("c", &inst.c, Exact(inst.c_ty));
    }
}

impl Visit<Testp> for Checker<'_> {
    fn visit(&mut self, inst: &Testp) {
        self.one_of("`testp`", inst.ty, &[Type::F32, Type::F64]);
        self.result("dst", inst.dst, Exact(Type::Pred));
        self.value("a", &inst.a, Exact(inst.ty));
    }
}

const COMPARED: [&[Type]; 2] = [
    WORDS,
    &[
        Type::F16,
        Type::F16x2,
        Type::Bf16,
        Type::Bf16x2,
        Type::F32,
        Type::F64,
    ],
];
const SELECTED: [&[Type]; 2] = [WORDS, &[Type::F32, Type::F64]];
