//! Arithmetic, logic and comparison.

use super::context::Checker;
use super::forms::{self, Form, RoundingRule};
use super::legal::Need::{AtLeast, Exact};
use crate::inst::{
    Bfi, Binary, BinaryOp, Compare, Dp4a, Lop3, Mov, Prmt, Selp, Set, Setp, Shf, Slct, Ternary,
    TernaryOp, Testp, Unary, UnaryOp, Visit,
};
use crate::operand::{Dest, Operand, Reg};
use crate::registers::RegClass;
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

impl Checker<'_> {
    /// The position or length of a bit field.
    fn bit_index(&mut self, operand: &'static str, value: &Operand) {
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
        self.one_of("`setp`", inst.ty, COMPARED);
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
        self.one_of("`set`", inst.ty, COMPARED);
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
        self.one_of("`selp`", inst.ty, SELECTED);
        self.result("dst", inst.dst, Exact(inst.ty));
        self.value("a", &inst.a, Exact(inst.ty));
        self.value("b", &inst.b, Exact(inst.ty));
        self.value("p", &inst.p, Exact(Type::Pred));
    }
}

impl Visit<Slct> for Checker<'_> {
    fn visit(&mut self, inst: &Slct) {
        self.one_of("`slct`", inst.ty, SELECTED);
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

impl Visit<Mov> for Checker<'_> {
    fn visit(&mut self, inst: &Mov) {
        match (inst.dst.0.as_slice(), inst.src.0.as_slice()) {
            ([dst], [src]) => self.mov_scalar(inst.ty, *dst, src),
            (parts, [whole]) => {
                self.value("src", whole, Exact(inst.ty));
                let widths: Vec<Option<u32>> =
                    parts.iter().map(|part| self.width(part.reg())).collect();
                self.parts("dst", inst.ty, &widths);
            }
            ([whole], parts) => {
                self.result("dst", *whole, Exact(inst.ty));
                let has_address = parts.iter().any(|part| matches!(part, Operand::Symbol(..)));
                self.require(!has_address, || {
                    "`mov` cannot pack the address of a symbol".to_owned()
                });
                let width = |part: &Operand| match *part {
                    Operand::Special(special) => Some(special.ty().bits()),
                    _ => self.width(part.reg()),
                };
                let widths: Vec<Option<u32>> = parts.iter().map(width).collect();
                self.parts("src", inst.ty, &widths);
            }
            (dsts, _) => self.count("dst", dsts.len(), 1),
        }
    }
}

impl Checker<'_> {
    fn mov_scalar(&mut self, ty: Type, dst: Dest, src: &Operand) {
        self.one_of("`mov`", ty, MOVED);
        self.result("dst", dst, Exact(ty));
        match *src {
            Operand::Special(special) => {
                let is_same = ty.bits() == special.ty().bits()
                    || (ty.bits() == 16 && special.ty() == Type::U32);
                self.require(is_same && !ty.is_float(), || {
                    format!(
                        "`{}` is .{}, not .{}",
                        special.text(),
                        special.ty().text(),
                        ty.text()
                    )
                });
            }
            Operand::Symbol(symbol, _) => {
                let is_address = matches!(
                    ty,
                    Type::U32 | Type::S32 | Type::B32 | Type::U64 | Type::S64 | Type::B64
                );
                self.require(is_address, || {
                    format!("an address does not fit .{}", ty.text())
                });
                self.place(symbol);
            }
            _ => self.value("src", src, Exact(ty)),
        }
    }

    /// Bits of a register; none for what takes the width that is requested.
    fn width(&self, reg: Option<Reg>) -> Option<u32> {
        reg.and_then(|reg| self.body.registers.get(reg))
            .map(RegClass::bits)
    }

    /// The parts of a vector `mov` have one width and fill the whole.
    fn parts(&mut self, operand: &'static str, ty: Type, widths: &[Option<u32>]) {
        self.one_of(
            "`mov` with a vector",
            ty,
            &[Type::B16, Type::B32, Type::B64, Type::B128],
        );
        let expected = ty.bits() / widths.len().max(1) as u32;
        self.require(matches!(widths.len(), 2 | 4), || {
            format!(
                "`mov` packs 2 or 4 elements, not {} (operand `{operand}`)",
                widths.len()
            )
        });
        for width in widths.iter().flatten() {
            self.require(*width == expected, || {
                format!(
                    "`mov.{}` with {} elements takes {expected} bits each, not {width}",
                    ty.text(),
                    widths.len()
                )
            });
        }
    }

    pub(super) fn cvt_operand(&mut self, operand: &'static str, value: &Operand, ty: Type) {
        match *value {
            Operand::Special(special) if special.ty().bits() >= ty.bits() && !ty.is_float() => {}
            _ => self.value(
                operand,
                value,
                if ty.is_float() {
                    Exact(ty)
                } else {
                    AtLeast(ty)
                },
            ),
        }
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

const COMPARED: &[Type] = &[
    Type::B16,
    Type::B32,
    Type::B64,
    Type::U16,
    Type::U32,
    Type::U64,
    Type::S16,
    Type::S32,
    Type::S64,
    Type::F16,
    Type::F16x2,
    Type::Bf16,
    Type::Bf16x2,
    Type::F32,
    Type::F64,
];
const SELECTED: &[Type] = &[
    Type::B16,
    Type::B32,
    Type::B64,
    Type::U16,
    Type::U32,
    Type::U64,
    Type::S16,
    Type::S32,
    Type::S64,
    Type::F32,
    Type::F64,
];
const MOVED: &[Type] = &[
    Type::Pred,
    Type::B16,
    Type::B32,
    Type::B64,
    Type::U16,
    Type::U32,
    Type::U64,
    Type::S16,
    Type::S32,
    Type::S64,
    Type::F32,
    Type::F64,
    Type::B128,
];
