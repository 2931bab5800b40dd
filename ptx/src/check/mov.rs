//! Moves, and packing of parts into one register.

use super::context::Checker;
use super::forms::WORDS;
use super::legal::Need::{AtLeast, Exact};
use crate::inst::{Mov, Visit};
use crate::operand::{Dest, Operand, Reg};
use crate::registers::RegClass;
use crate::types::Type;

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
        self.one_of_lists("`mov`", ty, &MOVED);
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

const MOVED: [&[Type]; 3] = [&[Type::Pred], WORDS, &[Type::F32, Type::F64, Type::B128]];
