//! Which registers and constants an operand of a type may be (PTX ISA 9.4).

use crate::registers::RegClass;
use crate::types::{Type, TypeKind};

/// What an operand must be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Need {
    /// A value of this type.
    Exact(Type),
    /// A value of this type in a register that may be wider (`ld`, `st`, `cvt`).
    AtLeast(Type),
}

impl Need {
    pub(crate) fn ty(self) -> Type {
        match self {
            Self::Exact(ty) | Self::AtLeast(ty) => ty,
        }
    }

    /// A register of this class may hold the value.
    pub(crate) fn fits(self, class: RegClass) -> bool {
        let ty = self.ty();
        let is_bits = matches!(
            class,
            RegClass::B16 | RegClass::B32 | RegClass::B64 | RegClass::B128
        );
        let same_kind = match ty.kind() {
            TypeKind::Pred => return class == RegClass::Pred,
            TypeKind::Bits => class != RegClass::Pred,
            TypeKind::Float => is_bits || class == RegClass::of(ty),
            TypeKind::Signed | TypeKind::Unsigned => is_bits,
        };
        let wide_enough = match self {
            // Part of a float register means nothing, and ptxas crashes on some of these.
            Self::AtLeast(_) if !is_bits => class.bits() == ty.bits(),
            Self::Exact(_) => class.bits() == ty.bits(),
            Self::AtLeast(_) => class.bits() >= ty.bits().max(16),
        };
        same_kind && wide_enough
    }

    pub(crate) fn describe(self) -> String {
        match self {
            Self::Exact(Type::Pred) => "a predicate register".to_owned(),
            Self::Exact(ty) => format!("a {}-bit register for .{}", ty.bits(), ty.text()),
            Self::AtLeast(ty) => format!(
                "a register of at least {} bits for .{}",
                ty.bits().max(16),
                ty.text()
            ),
        }
    }

    /// An integer constant may stand here.
    pub(crate) fn takes_integer(self) -> bool {
        !self.ty().is_float() && !matches!(self.ty(), Type::U16x2 | Type::S16x2)
    }

    /// A floating-point constant of this type may stand here; float instructions convert it, bits are taken as
    /// they are.
    pub(crate) fn takes_float(self, constant: Type) -> bool {
        let bits = if constant == Type::F32 {
            Type::B32
        } else {
            Type::B64
        };
        matches!(self.ty(), Type::F32 | Type::F64) || self.ty() == bits
    }
}
