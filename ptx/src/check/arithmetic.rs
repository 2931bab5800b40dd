//! Arithmetic and logic.

use super::context::Checker;
use super::forms::{self, Form, RoundingRule};
use super::legal::Need::Exact;
use crate::inst::{Binary, BinaryOp, Ternary, TernaryOp, Unary, UnaryOp, Visit};
use crate::types::{Rounding, Type};

/// The modifiers of an arithmetic instruction.
struct Given<'f> {
    rounding: Option<Rounding>,
    /// `.approx` or `.full`.
    is_approximate: bool,
    flags: &'f [(bool, &'static str)],
}

impl Checker<'_> {
    fn form(&mut self, op: &str, ty: Type, forms: &[Form], given: &Given<'_>) {
        let Some(form) = forms.iter().find(|form| form.types.contains(&ty)) else {
            let types: Vec<Type> = forms
                .iter()
                .flat_map(|form| form.types.iter().copied())
                .collect();
            self.one_of(&format!("`{op}`"), ty, &types);
            return;
        };
        for &(is_set, flag) in given.flags {
            self.require(!is_set || form.flags.contains(&flag), || {
                format!("`{op}` has no modifier .{flag} for .{}", ty.text())
            });
        }
        self.rounding(op, ty, form.rounding, given);
    }

    fn rounding(&mut self, op: &str, ty: Type, rule: RoundingRule, given: &Given<'_>) {
        let allowed = match rule {
            RoundingRule::Never => &[][..],
            RoundingRule::Optional(list)
            | RoundingRule::Required(list)
            | RoundingRule::Approximate(list) => list,
        };
        let expected = roundings(allowed);
        if let Some(rounding) = given.rounding {
            self.require(allowed.contains(&rounding), || {
                let text = rounding.text();
                format!(
                    "`{op}` has no rounding .{text} for .{}; expected {expected}",
                    ty.text()
                )
            });
        }
        let may_approximate = matches!(rule, RoundingRule::Approximate(_));
        self.require(may_approximate || !given.is_approximate, || {
            format!("`{op}` has no approximate form for .{}", ty.text())
        });
        let is_missing = match rule {
            RoundingRule::Required(_) => given.rounding.is_none(),
            RoundingRule::Approximate(_) => given.rounding.is_none() && !given.is_approximate,
            RoundingRule::Never | RoundingRule::Optional(_) => false,
        };
        self.require(!is_missing, || {
            let approximate = if may_approximate { " or .approx" } else { "" };
            format!(
                "`{op}.{}` needs a rounding{approximate}; expected {expected}",
                ty.text()
            )
        });
        self.require(!(given.is_approximate && given.rounding.is_some()), || {
            format!("`{op}` takes either a rounding or an approximation")
        });
    }
}

impl Visit<Binary> for Checker<'_> {
    fn visit(&mut self, inst: &Binary) {
        let flags = [
            (inst.ftz, "ftz"),
            (inst.nan, "NaN"),
            (inst.xorsign_abs, "xorsign.abs"),
            (inst.sat, "sat"),
            (inst.relu, "relu"),
        ];
        let given = Given {
            rounding: inst.rounding,
            is_approximate: inst.precision.is_some(),
            flags: &flags,
        };
        self.form(inst.op.text(), inst.ty, forms::binary(inst.op), &given);
        let ty = inst.ty;
        let dst = if inst.op == BinaryOp::MulWide {
            wide(ty)
        } else {
            ty
        };
        self.result("dst", inst.dst, Exact(dst));
        self.value("a", &inst.a, Exact(ty));
        let is_shift = matches!(inst.op, BinaryOp::Shl | BinaryOp::Shr);
        self.value("b", &inst.b, Exact(if is_shift { Type::U32 } else { ty }));
    }
}

impl Visit<Unary> for Checker<'_> {
    fn visit(&mut self, inst: &Unary) {
        let flags = [(inst.ftz, "ftz")];
        let given = Given {
            rounding: inst.rounding,
            is_approximate: inst.approx,
            flags: &flags,
        };
        let (op, ty) = (inst.op, inst.ty);
        self.form(op.text(), ty, forms::unary(op), &given);
        let must_flush =
            inst.approx && (matches!(op, UnaryOp::Ex2) && matches!(ty, Type::Bf16 | Type::Bf16x2));
        let must_flush = must_flush || (inst.approx && op == UnaryOp::Rcp && ty == Type::F64);
        self.require(!must_flush || inst.ftz, || {
            format!("`{}.approx.{}` needs .ftz", op.text(), ty.text())
        });
        let is_exact_f64 = op == UnaryOp::Rcp && ty == Type::F64 && !inst.approx;
        self.require(!is_exact_f64 || !inst.ftz, || {
            "`rcp` has no modifier .ftz for .f64".to_owned()
        });
        self.result("dst", inst.dst, Exact(op.result_type(ty)));
        self.value("a", &inst.a, Exact(ty));
    }
}

impl Visit<Ternary> for Checker<'_> {
    fn visit(&mut self, inst: &Ternary) {
        let flags = [(inst.ftz, "ftz"), (inst.sat, "sat"), (inst.relu, "relu")];
        let given = Given {
            rounding: inst.rounding,
            is_approximate: false,
            flags: &flags,
        };
        let (op, ty) = (inst.op, inst.ty);
        self.form(op.text(), ty, forms::ternary(op), &given);
        if op == TernaryOp::Bfe {
            self.bit_index("b", &inst.b);
            self.bit_index("c", &inst.c);
        }
        let (b, c, dst) = match op {
            TernaryOp::MadWide => (ty, wide(ty), wide(ty)),
            TernaryOp::Bfe => (Type::U32, Type::U32, ty),
            TernaryOp::Fns => (Type::B32, Type::S32, ty),
            _ => (ty, ty, ty),
        };
        self.result("dst", inst.dst, Exact(dst));
        self.value("a", &inst.a, Exact(ty));
        self.value("b", &inst.b, Exact(b));
        self.value("c", &inst.c, Exact(c));
    }
}

/// The roundings that exist, in words.
pub(super) fn roundings(list: &[Rounding]) -> String {
    if list.is_empty() {
        return "none".to_owned();
    }
    list.iter()
        .map(|rounding| format!(".{}", rounding.text()))
        .collect::<Vec<_>>()
        .join(", ")
}

/// The type of a product with twice the width.
fn wide(ty: Type) -> Type {
    match ty {
        Type::U16 => Type::U32,
        Type::S16 => Type::S32,
        Type::S32 => Type::S64,
        _ => Type::U64,
    }
}
