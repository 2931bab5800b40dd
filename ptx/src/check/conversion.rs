//! Conversions (PTX ISA 9.7.9.21).

use super::arithmetic::roundings;
use super::context::Checker;
use super::legal::Need::{AtLeast, Exact};
use crate::inst::{Cvt, CvtPack, Visit};
use crate::types::{Rounding, Type};
use Rounding::{Rm, Rmi, Rn, Rna, Rni, Rp, Rpi, Rz, Rzi};

/// What one pair of types allows.
struct Rule {
    roundings: &'static [Rounding],
    rounding_required: bool,
    flags: &'static [&'static str],
    satfinite_required: bool,
    sources: usize,
}

const IEEE: &[Rounding] = &[Rn, Rz, Rm, Rp];
const TO_INTEGER: &[Rounding] = &[Rni, Rzi, Rmi, Rpi];

const fn rule(
    roundings: &'static [Rounding],
    rounding_required: bool,
    flags: &'static [&'static str],
) -> Rule {
    Rule {
        roundings,
        rounding_required,
        flags,
        satfinite_required: false,
        sources: 1,
    }
}

fn is_scalar_float(ty: Type) -> bool {
    matches!(ty, Type::F16 | Type::Bf16 | Type::F32 | Type::F64)
}

fn is_scalar_integer(ty: Type) -> bool {
    ty.is_integer() && ty.bits() >= 8 && !matches!(ty, Type::U16x2 | Type::S16x2)
}

fn is_packed(ty: Type) -> bool {
    matches!(ty, Type::F16x2 | Type::Bf16x2 | Type::E4m3x2 | Type::E5m2x2)
}

/// The rule for a pair of types; none when there is no such conversion.
fn rule_of(dst: Type, src: Type) -> Option<Rule> {
    if is_packed(dst) || is_packed(src) {
        return packed_rule(dst, src);
    }
    if dst == Type::Tf32 {
        let is_known = src == Type::F32;
        return is_known.then_some(rule(&[Rna, Rn, Rz], true, &["relu", "satfinite"]));
    }
    match (is_scalar_float(dst), is_scalar_float(src)) {
        (false, false) => {
            let is_known = is_scalar_integer(dst) && is_scalar_integer(src);
            is_known.then_some(rule(&[], false, &["sat"]))
        }
        // There is nothing between bf16 and 8-bit integers, and bf16 does not saturate.
        (true, false) if dst == Type::Bf16 => {
            (is_scalar_integer(src) && src.bits() > 8).then_some(rule(IEEE, true, &[]))
        }
        (false, true) if src == Type::Bf16 => {
            (is_scalar_integer(dst) && dst.bits() > 8).then_some(rule(TO_INTEGER, true, &[]))
        }
        (true, false) => is_scalar_integer(src).then_some(rule(IEEE, true, &["sat"])),
        (false, true) => is_scalar_integer(dst).then_some(rule(TO_INTEGER, true, &["ftz", "sat"])),
        (true, true) => Some(float_rule(dst, src)),
    }
}

fn float_rule(dst: Type, src: Type) -> Rule {
    match (dst, src) {
        (Type::F16, Type::F32) => rule(IEEE, true, &["relu", "satfinite", "sat", "ftz"]),
        (Type::Bf16, Type::F32) => rule(IEEE, true, &["relu", "satfinite"]),
        (Type::Bf16, _) if src != dst => rule(IEEE, true, &[]),
        _ if dst == src => rule(TO_INTEGER, false, &["ftz", "sat"]),
        _ if dst.bits() <= src.bits() => rule(IEEE, true, &["ftz", "sat"]),
        _ => rule(&[], false, &["ftz", "sat"]),
    }
}

fn packed_rule(dst: Type, src: Type) -> Option<Rule> {
    let is_fp8 = |ty: Type| matches!(ty, Type::E4m3x2 | Type::E5m2x2);
    match (dst, src) {
        (Type::F16x2 | Type::Bf16x2, Type::F32) => Some(Rule {
            sources: 2,
            ..rule(&[Rn, Rz], true, &["relu", "satfinite"])
        }),
        (dst, Type::F32) if is_fp8(dst) => {
            let base = rule(&[Rn], true, &["relu", "satfinite"]);
            Some(Rule {
                sources: 2,
                satfinite_required: true,
                ..base
            })
        }
        (dst, Type::F16x2) if is_fp8(dst) => Some(Rule {
            satfinite_required: true,
            ..rule(&[Rn], true, &["relu", "satfinite"])
        }),
        (Type::F16x2, src) if is_fp8(src) => Some(rule(&[Rn], true, &["relu"])),
        _ => None,
    }
}

impl Visit<Cvt> for Checker<'_> {
    fn visit(&mut self, inst: &Cvt) {
        let (dst, src) = (inst.dst_ty, inst.src_ty);
        let pair = format!("`cvt.{}.{}`", dst.text(), src.text());
        let Some(rule) = rule_of(dst, src) else {
            return self.require(false, || format!("there is no conversion {pair}"));
        };
        let flags = [
            (inst.ftz, "ftz"),
            (inst.sat, "sat"),
            (inst.satfinite, "satfinite"),
            (inst.relu, "relu"),
        ];
        for (is_set, flag) in flags {
            self.require(!is_set || rule.flags.contains(&flag), || {
                format!("{pair} has no modifier .{flag}")
            });
        }
        self.require(!inst.sat || dst != src || dst.is_float(), || {
            format!("{pair} has nothing to saturate")
        });
        let may_flush = dst == Type::F32 || src == Type::F32;
        self.require(!inst.ftz || may_flush, || {
            format!("{pair} has no modifier .ftz")
        });
        self.require(inst.satfinite || !rule.satfinite_required, || {
            format!("{pair} needs .satfinite")
        });
        let expected = roundings(rule.roundings);
        match inst.rounding {
            Some(rounding) => self.require(rule.roundings.contains(&rounding), || {
                format!(
                    "{pair} has no rounding .{}; expected {expected}",
                    rounding.text()
                )
            }),
            None => self.require(!rule.rounding_required, || {
                format!("{pair} needs a rounding; expected {expected}")
            }),
        }
        self.cvt_operands(inst, rule.sources);
    }
}

impl Checker<'_> {
    fn cvt_operands(&mut self, inst: &Cvt, sources: usize) {
        self.count("sources", 1 + usize::from(inst.b.is_some()), sources);
        let need = match inst.dst_ty {
            Type::Tf32 => Exact(Type::U32),
            ty if ty.is_float() => Exact(ty),
            ty => AtLeast(ty),
        };
        self.result("dst", inst.dst, need);
        self.cvt_operand("a", &inst.a, inst.src_ty);
        if let Some(b) = &inst.b {
            self.cvt_operand("b", b, inst.src_ty);
        }
    }
}

impl Visit<CvtPack> for Checker<'_> {
    fn visit(&mut self, inst: &CvtPack) {
        self.one_of(
            "the result of `cvt.pack`",
            inst.dst_ty,
            &[Type::U16, Type::S16, Type::U8, Type::S8],
        );
        self.one_of("the source of `cvt.pack`", inst.src_ty, &[Type::S32]);
        self.require(inst.c_ty.is_none_or(|ty| ty == Type::B32), || {
            "`cvt.pack` takes `c` as .b32".to_owned()
        });
        let needs_c = inst.dst_ty.bits() == 8;
        self.require(
            inst.c.is_some() == needs_c && inst.c_ty.is_some() == needs_c,
            || {
                "`cvt.pack` takes `c` and its type .b32 for results of 8 bits, and only then"
                    .to_owned()
            },
        );
        self.result("dst", inst.dst, Exact(Type::U32));
        self.value("a", &inst.a, Exact(Type::S32));
        self.value("b", &inst.b, Exact(Type::S32));
        self.optional("c", inst.c.as_ref(), Exact(Type::B32));
    }
}
