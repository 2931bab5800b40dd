//! Bit fields, bytes and funnel shifts.

use super::decoder::{Decoded, Decoder};
use crate::lanes::{Exec, Slots, lanes};
use crate::numeric::integer;
use crate::program::File;
use ptx::{Bfi, Dp4a, FunnelShift, Lop3, Operand, PermuteMode, Prmt, Shf, Type, Visit};

fn permute(mode: Option<PermuteMode>) -> Exec {
    // The selector of each named mode, by the two low bits of the third operand (PTX ISA 9.7.9.7).
    const F4E: [u32; 4] = [0x3210, 0x4321, 0x5432, 0x6543];
    const B4E: [u32; 4] = [0x5670, 0x6701, 0x7012, 0x0123];
    const RC8: [u32; 4] = [0x0000, 0x1111, 0x2222, 0x3333];
    const ECL: [u32; 4] = [0x3210, 0x3211, 0x3222, 0x3333];
    const ECR: [u32; 4] = [0x0000, 0x1110, 0x2210, 0x3210];
    const RC16: [u32; 4] = [0x1010, 0x3232, 0x1010, 0x3232];
    macro_rules! table {
        ($table:expr) => {
            lanes!(|a: u32, b: u32, c: u32| -> u32 {
                integer::permute_bytes(a, b, $table[c as usize & 3])
            })
        };
    }
    match mode {
        None => lanes!(|a: u32, b: u32, c: u32| -> u32 { integer::permute_bytes(a, b, c) }),
        Some(PermuteMode::F4e) => table!(F4E),
        Some(PermuteMode::B4e) => table!(B4E),
        Some(PermuteMode::Rc8) => table!(RC8),
        Some(PermuteMode::Ecl) => table!(ECL),
        Some(PermuteMode::Ecr) => table!(ECR),
        Some(PermuteMode::Rc16) => table!(RC16),
    }
}

impl Decoder<'_> {
    fn three_words(&mut self, exec: Exec, dst: ptx::Dest, [a, b, c]: [Operand; 3]) -> Decoded {
        let a = self.source(a, Type::B32)?;
        let b = self.source(b, Type::B32)?;
        let c = self.source(c, Type::B32)?;
        let d = self.target(dst, Type::B32)?;
        self.lanes(exec, Slots::ternary(d, a, b, c));
        Ok(())
    }
}

impl Visit<Prmt> for Decoder<'_> {
    fn visit(&mut self, i: &Prmt) -> Decoded {
        self.three_words(permute(i.mode), i.dst, [i.a, i.b, i.selector])
    }
}

impl Visit<Shf> for Decoder<'_> {
    /// The funnel shift takes the upper half from b.
    fn visit(&mut self, i: &Shf) -> Decoded {
        let exec = match i.shift {
            FunnelShift::LeftClamp => lanes!(|a: u32, b: u32, n: u32| -> u32 {
                ((u64::from(b) << 32 | u64::from(a)) << n.min(32) >> 32) as u32
            }),
            FunnelShift::LeftWrap => lanes!(|a: u32, b: u32, n: u32| -> u32 {
                ((u64::from(b) << 32 | u64::from(a)) << (n & 31) >> 32) as u32
            }),
            FunnelShift::RightClamp => lanes!(|a: u32, b: u32, n: u32| -> u32 {
                ((u64::from(b) << 32 | u64::from(a)) >> n.min(32)) as u32
            }),
            FunnelShift::RightWrap => lanes!(|a: u32, b: u32, n: u32| -> u32 {
                ((u64::from(b) << 32 | u64::from(a)) >> (n & 31)) as u32
            }),
        };
        self.three_words(exec, i.dst, [i.a, i.b, i.amount])
    }
}

impl Visit<Lop3> for Decoder<'_> {
    fn visit(&mut self, i: &Lop3) -> Decoded {
        let Operand::Int(table) = i.table else {
            return Err("the table of lop3 must be an immediate".to_owned());
        };
        let exec = match table & 0xff {
            0x96 => lanes!(|a: u32, b: u32, c: u32| -> u32 { a ^ b ^ c }),
            0x80 => lanes!(|a: u32, b: u32, c: u32| -> u32 { a & b & c }),
            0xfe => lanes!(|a: u32, b: u32, c: u32| -> u32 { a | b | c }),
            0xea => lanes!(|a: u32, b: u32, c: u32| -> u32 { a & b | c }),
            0xca => lanes!(|a: u32, b: u32, c: u32| -> u32 { a & b | !a & c }),
            _ => return self.lop3_by_table(i),
        };
        self.three_words(exec, i.dst, [i.a, i.b, i.c])
    }
}

impl Decoder<'_> {
    fn lop3_by_table(&mut self, i: &Lop3) -> Decoded {
        let a = self.source(i.a, Type::B32)?;
        let b = self.source(i.b, Type::B32)?;
        let c = self.source(i.c, Type::B32)?;
        let e = self.source(i.table, Type::B32)?;
        let d = self.target(i.dst, Type::B32)?;
        let exec = lanes!(|a: u32, b: u32, c: u32, table: u32| -> u32 {
            let mut result = 0;
            for term in 0..8 {
                let x = if term & 4 != 0 { a } else { !a };
                let y = if term & 2 != 0 { b } else { !b };
                let z = if term & 1 != 0 { c } else { !c };
                let wanted = 0u32.wrapping_sub(table >> term & 1);
                result |= x & y & z & wanted;
            }
            result
        });
        self.lanes(exec, Slots { d, a, b, c, e });
        Ok(())
    }
}

impl Visit<Bfi> for Decoder<'_> {
    fn visit(&mut self, i: &Bfi) -> Decoded {
        let (a, b) = (self.source(i.a, i.ty)?, self.source(i.b, i.ty)?);
        let (c, e) = (
            self.source(i.pos, Type::U32)?,
            self.source(i.len, Type::U32)?,
        );
        let d = self.target(i.dst, i.ty)?;
        let exec = if Self::file(i.ty) == File::Word {
            lanes!(|a: u32, b: u32, pos: u32, len: u32| -> u32 {
                integer::bit_field_insert(a.into(), b.into(), pos, len, 32) as u32
            })
        } else {
            lanes!(|a: u64, b: u64, pos: u32, len: u32| -> u64 {
                integer::bit_field_insert(a, b, pos, len, 64)
            })
        };
        self.lanes(exec, Slots { d, a, b, c, e });
        Ok(())
    }
}

impl Visit<Dp4a> for Decoder<'_> {
    fn visit(&mut self, i: &Dp4a) -> Decoded {
        macro_rules! dot {
            ($a:ty, $b:ty) => {
                lanes!(|a: u32, b: u32, c: u32| -> u32 {
                    let mut sum = c;
                    for byte in 0..4 {
                        let x = i32::from((a >> (8 * byte)) as $a);
                        let y = i32::from((b >> (8 * byte)) as $b);
                        sum = sum.wrapping_add((x * y) as u32);
                    }
                    sum
                })
            };
        }
        let exec = match (i.a_ty, i.b_ty) {
            (Type::U32, Type::U32) => dot!(u8, u8),
            (Type::U32, Type::S32) => dot!(u8, i8),
            (Type::S32, Type::U32) => dot!(i8, u8),
            (Type::S32, Type::S32) => dot!(i8, i8),
            _ => return Err("dp4a takes .u32 and .s32".to_owned()),
        };
        self.three_words(exec, i.dst, [i.a, i.b, i.c])
    }
}

/// `bfe`: a bit field, extended to the type.
pub(super) fn extract(ty: Type) -> Option<Exec> {
    Some(match ty {
        Type::U32 => lanes!(|a: u32, pos: u32, len: u32| -> u32 {
            integer::bit_field_extract(a.into(), pos, len, 32, false) as u32
        }),
        Type::S32 => lanes!(|a: u32, pos: u32, len: u32| -> u32 {
            integer::bit_field_extract(a.into(), pos, len, 32, true) as u32
        }),
        Type::U64 => lanes!(|a: u64, pos: u32, len: u32| -> u64 {
            integer::bit_field_extract(a, pos, len, 64, false)
        }),
        Type::S64 => lanes!(|a: u64, pos: u32, len: u32| -> u64 {
            integer::bit_field_extract(a, pos, len, 64, true)
        }),
        _ => return None,
    })
}

/// `bfind`: position of the top bit that differs from the sign, or how far to shift it up; all ones when there is none.
pub(super) fn find_leading(shift_amount: bool, ty: Type) -> Option<Exec> {
    Some(match (ty, shift_amount) {
        (Type::U32, false) => lanes!(|a: u32| -> u32 { 31u32.wrapping_sub(a.leading_zeros()) }),
        (Type::U32, true) => {
            lanes!(|a: u32| -> u32 { if a == 0 { u32::MAX } else { a.leading_zeros() } })
        }
        (Type::S32, false) => {
            lanes!(|a: i32| -> u32 { 31u32.wrapping_sub((a ^ a >> 31).leading_zeros()) })
        }
        (Type::S32, true) => lanes!(|a: i32| -> u32 {
            let bits = a ^ a >> 31;
            if bits == 0 {
                u32::MAX
            } else {
                bits.leading_zeros()
            }
        }),
        (Type::U64, false) => lanes!(|a: u64| -> u32 { 63u32.wrapping_sub(a.leading_zeros()) }),
        (Type::U64, true) => {
            lanes!(|a: u64| -> u32 { if a == 0 { u32::MAX } else { a.leading_zeros() } })
        }
        (Type::S64, false) => {
            lanes!(|a: i64| -> u32 { 63u32.wrapping_sub((a ^ a >> 63).leading_zeros()) })
        }
        (Type::S64, true) => lanes!(|a: i64| -> u32 {
            let bits = a ^ a >> 63;
            if bits == 0 {
                u32::MAX
            } else {
                bits.leading_zeros()
            }
        }),
        _ => return None,
    })
}
