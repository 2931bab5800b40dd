//! How one thread holds one element.
//!
//! | element type | whole, in a register of class | constant |
//! |---|---|---|
//! | i1 | predicate | `Int` 0 or 1 |
//! | i8, i16, i32, u8, u16, u32 | b32, sign- or zero-extended | `Int` |
//! | e4m3, e5m2, e4m3b15, e2m1, e8m0 | b32, bits in the low byte, the rest zero | `Int`, the bits |
//! | i64, u64, pointers | b64 | `Int` |
//! | f16, bf16 | b16 | `Int`, the bits |
//! | f32, f64 | f32, f64 | `F32`, `F64` |
//!
//! Two further forms put work off until it is known to be needed: [`Element::Sum`] keeps the constant part of an index
//! apart, so that it ends in the immediate offset of an access, and [`Element::Part`] leaves small elements packed as
//! they came from memory, so that a conversion can take them out in one instruction and a store need not pack them.

use std::rc::Rc;

use ir::elem::{DType, Elem};
use ir::nearest::{nearest_bf16, nearest_f16};
use ir::ops::create::Const;
use ptx::{BinaryOp, Operand, Reg, RegClass, TernaryOp, Type};

use super::code::{Code, Kind, key, move_type};

/// One element of a value in one thread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Element {
    /// A register, or an immediate.
    Whole(Operand),
    /// An integer of 32 or 64 bits or a pointer: register plus constant, modulo the width.
    Sum(Reg, i64),
    /// An element of 8 or 16 bits inside a 32-bit register, from this bit on.
    Part(Reg, u8),
}

/// The register of a view of shared memory: its address.
pub(super) const ADDRESS: Elem = Elem::Data(DType::U32);

/// A map is known by its generic address, which in global memory is the same as there.
pub(super) const MAP: Elem = Elem::Data(DType::U64);

/// The elements of one value in one thread, in the order of its layout's registers; a scalar has one.
pub(super) type Elements = Rc<[Element]>;

impl From<Reg> for Element {
    fn from(reg: Reg) -> Element {
        Element::Whole(Operand::Reg(reg))
    }
}

impl From<Operand> for Element {
    fn from(operand: Operand) -> Element {
        Element::Whole(operand)
    }
}

impl Element {
    /// An integer constant.
    pub(super) fn int(value: i64) -> Element {
        Element::Whole(Operand::Int(value))
    }

    /// The value of an immediate integer.
    pub(super) fn as_int(self) -> Option<i64> {
        match self {
            Element::Whole(Operand::Int(value)) => Some(value),
            _ => None,
        }
    }

    /// The constant `value` as an element of type `dtype`.
    pub(super) fn constant(value: Const, dtype: DType) -> Element {
        let number = value.as_f64();
        Element::Whole(match dtype {
            DType::F32 => Operand::F32((number as f32).to_bits()),
            DType::F64 => Operand::F64(number.to_bits()),
            DType::F16 => Operand::Int(nearest_f16(number).to_bits().into()),
            DType::Bf16 => Operand::Int(nearest_bf16(number).to_bits().into()),
            _ => match dtype.narrow_float() {
                Some(format) => Operand::Int(format.encode(number).into()),
                None => Operand::Int(value.as_int().map_or(0, |i| i as i64)),
            },
        })
    }
}

/// The class of the registers that hold elements whole.
pub(super) fn class(elem: Elem) -> RegClass {
    match elem {
        Elem::Ptr(_) => RegClass::B64,
        Elem::Data(dtype) => match dtype {
            DType::I1 => RegClass::Pred,
            DType::I64 | DType::U64 => RegClass::B64,
            DType::F16 | DType::Bf16 => RegClass::B16,
            DType::F32 => RegClass::F32,
            DType::F64 => RegClass::F64,
            _ => RegClass::B32,
        },
    }
}

/// The PTX type of arithmetic on whole elements: 8- and 16-bit integers are computed in 32 bits.
pub(super) fn arithmetic(elem: Elem) -> Type {
    match elem {
        Elem::Ptr(_) => Type::U64,
        Elem::Data(dtype) => match dtype {
            DType::I1 => Type::Pred,
            DType::I8 | DType::I16 | DType::I32 => Type::S32,
            DType::U8
            | DType::U16
            | DType::U32
            | DType::E4m3
            | DType::E5m2
            | DType::E4m3b15
            | DType::E2m1
            | DType::E8m0 => Type::U32,
            DType::I64 => Type::S64,
            DType::U64 => Type::U64,
            DType::F16 => Type::F16,
            DType::Bf16 => Type::Bf16,
            DType::F32 => Type::F32,
            DType::F64 => Type::F64,
        },
    }
}

/// The PTX type of an access to one element in memory; a boolean is a byte.
pub(super) fn memory(elem: Elem) -> Type {
    match elem {
        Elem::Ptr(_) => Type::B64,
        Elem::Data(dtype) => match dtype {
            DType::I1
            | DType::U8
            | DType::E4m3
            | DType::E5m2
            | DType::E4m3b15
            | DType::E2m1
            | DType::E8m0 => Type::U8,
            DType::I8 => Type::S8,
            DType::I16 => Type::S16,
            DType::U16 => Type::U16,
            DType::F16 | DType::Bf16 => Type::B16,
            DType::I32 | DType::U32 => Type::B32,
            DType::F32 => Type::F32,
            DType::I64 | DType::U64 => Type::B64,
            DType::F64 => Type::F64,
        },
    }
}

/// The type that names the bits of a register of a class.
pub(super) fn bits_type(class: RegClass) -> Type {
    match class {
        RegClass::Pred => Type::Pred,
        RegClass::B16 => Type::B16,
        RegClass::B32 | RegClass::F32 => Type::B32,
        RegClass::B64 | RegClass::F64 => Type::B64,
        RegClass::B128 => Type::B128,
    }
}

impl Code {
    /// The element as an operand of an instruction: a register, or an immediate where the type has any.
    pub(super) fn operand(&mut self, element: Element, elem: Elem) -> Operand {
        match element {
            Element::Whole(Operand::Int(_))
                if matches!(class(elem), RegClass::B16 | RegClass::Pred) =>
            {
                self.whole(element, elem).into()
            }
            Element::Whole(operand) => operand,
            _ => self.whole(element, elem).into(),
        }
    }

    /// The element in a register of its class.
    pub(super) fn whole(&mut self, element: Element, elem: Elem) -> Reg {
        match element {
            Element::Whole(Operand::Reg(reg)) | Element::Sum(reg, 0) => reg,
            Element::Whole(Operand::Int(bit)) if class(elem) == RegClass::Pred => self.setp(
                ptx::Compare::Ne,
                Type::U32,
                Operand::Int(bit),
                Operand::Int(0),
            ),
            Element::Whole(operand) => self.mov(move_type(class(elem)), operand),
            Element::Sum(reg, add) => {
                let ty = if class(elem) == RegClass::B64 {
                    Type::S64
                } else {
                    Type::S32
                };
                self.binary(BinaryOp::Add, ty, reg, add)
            }
            // A boolean in memory is a byte.
            Element::Part(word, shift) if elem.is_bool() => {
                let byte = self.part(word, shift, DType::U8.into());
                self.setp(ptx::Compare::Ne, Type::U32, byte, 0_u32)
            }
            Element::Part(word, shift) => self.part(word, shift, elem),
        }
    }

    fn part(&mut self, word: Reg, shift: u8, elem: Elem) -> Reg {
        if class(elem) == RegClass::B16 {
            return self.unpack(Type::B32, word)[usize::from(shift / 16)];
        }
        let (bits, shift) = (elem.bits(), u32::from(shift));
        let is_signed = matches!(elem, Elem::Data(d) if d.is_signed_int());
        if shift + bits == 32 {
            let ty = if is_signed { Type::S32 } else { Type::U32 };
            return self.binary(BinaryOp::Shr, ty, word, shift);
        }
        if is_signed {
            return self.ternary(TernaryOp::Bfe, Type::S32, word, shift, bits);
        }
        if shift == 0 {
            return self.binary(BinaryOp::And, Type::B32, word, (1_u32 << bits) - 1);
        }
        self.ternary(TernaryOp::Bfe, Type::U32, word, shift, bits)
    }

    /// The bits of a whole element of at most 32 bits in a 32-bit register; a boolean as 0 or 1.
    pub(super) fn bits32(&mut self, element: Element, elem: Elem) -> Operand {
        let operand = self.operand(element, elem);
        match class(elem) {
            RegClass::Pred => {
                let reg = self.whole(element, elem);
                self.selp(Type::B32, 1_u32, 0_u32, reg).into()
            }
            RegClass::B16 => self.convert(Type::U32, Type::U16, None, operand).into(),
            _ => operand,
        }
    }

    /// The element whose bits are in a 32-bit register as [`Code::bits32`] gives them.
    pub(super) fn from_bits32(&mut self, reg: Reg, elem: Elem) -> Element {
        match class(elem) {
            RegClass::Pred => self.setp(ptx::Compare::Ne, Type::U32, reg, 0_u32).into(),
            RegClass::B16 => Element::Part(reg, 0),
            RegClass::F32 => {
                if self.class(reg) == RegClass::F32 {
                    reg.into()
                } else {
                    self.mov_bits(RegClass::F32, reg).into()
                }
            }
            _ => reg.into(),
        }
    }

    /// The same bits in a register of another class of the same width.
    pub(super) fn mov_bits(&mut self, to: RegClass, from: impl Into<Operand>) -> Reg {
        let from = from.into();
        let ty = bits_type(to);
        let key = key(Kind::SameBits, to as u8, ty, 0, &[from]);
        self.pure(key, to, |reg| ptx::Mov::new(ty, reg, from).into())
    }

    /// 32-bit words with the elements of a type of 8 or 16 bits packed into them, lowest bits first. The count fills
    /// whole words.
    pub(super) fn pack_words(&mut self, elements: &[Element], elem: Elem) -> Vec<Operand> {
        let per_word = (32 / elem.bytes() / 8) as usize;
        elements
            .chunks(per_word)
            .map(|chunk| self.pack_word(chunk, elem))
            .collect()
    }

    fn pack_word(&mut self, elements: &[Element], elem: Elem) -> Operand {
        if let Element::Part(word, 0) = elements[0] {
            let step = 8 * elem.bytes() as usize;
            let in_place =
                |(at, e): (usize, &Element)| *e == Element::Part(word, (at * step) as u8);
            if elements.iter().enumerate().all(in_place) {
                return word.into();
            }
        }
        let constants: Option<Vec<i64>> = elements.iter().map(|e| e.as_int()).collect();
        if let Some(values) = constants {
            let bits = 8 * elem.bytes();
            let mask = (1_i64 << bits) - 1;
            let word = values
                .iter()
                .rev()
                .fold(0_i64, |word, v| word << bits | v & mask);
            return Operand::Int(word);
        }
        if class(elem) == RegClass::B16 {
            let halves = [elements[0], elements[1]].map(|e| Operand::Reg(self.whole(e, elem)));
            return self.pack(Type::B32, &halves).into();
        }
        if let Some(word) = self.gather_bytes(elements) {
            return word;
        }
        let words: Vec<Operand> = elements.iter().map(|&e| self.bits32(e, elem)).collect();
        match words[..] {
            [low, high] => self.prmt(low, high, 0x5410).into(),
            [a, b, c, d] => {
                let low = self.prmt(a, b, 0x0040);
                let high = self.prmt(c, d, 0x0040);
                self.prmt(low, high, 0x5410).into()
            }
            _ => panic!("a word holds two or four elements of {elem}"),
        }
    }

    /// A word of four bytes that lie in words already. Two bytes of equal place are taken from two words together with their
    /// neighbours, so that four words that transpose four others share half of the permutations.
    fn gather_bytes(&mut self, elements: &[Element]) -> Option<Operand> {
        let mut parts = [(Reg(0), 0_u32); 4];
        if elements.len() != parts.len() {
            return None;
        }
        for (part, element) in parts.iter_mut().zip(elements) {
            let Element::Part(word, shift) = *element else {
                return None;
            };
            *part = (word, u32::from(shift) / 8);
        }
        let (first, second) = (
            parts[0].0,
            parts.iter().rev().find(|part| part.0 != parts[0].0),
        );
        let second = second.map_or(first, |part| part.0);
        if parts.iter().all(|part| [first, second].contains(&part.0)) {
            let place = |(word, byte): (Reg, u32)| if word == first { byte } else { 4 + byte };
            let selector = parts
                .iter()
                .rev()
                .fold(0, |all, &part| all << 4 | place(part));
            return Some(self.prmt(first, second, selector).into());
        }
        let [low, high] = [[parts[0], parts[1]], [parts[2], parts[3]]].map(|pair| {
            let [(a, first), (b, second)] = pair;
            if first != second {
                return (self.prmt(a, b, first | (4 + second) << 4), false);
            }
            // Bytes 0 and 1 of both words, or 2 and 3.
            let even = first & 2;
            let both = even * 0x1111 + 0x5140;
            (self.prmt(a, b, both), first % 2 == 1)
        });
        let of = |is_upper: bool| if is_upper { 0x32 } else { 0x10 };
        let selector = of(low.1) | (of(high.1) + 0x44) << 8;
        Some(self.prmt(low.0, high.0, selector).into())
    }
}
