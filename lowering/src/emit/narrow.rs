//! Floats of a byte or less: `e4m3` and `e5m2` by the instructions of `sm_90`, `e4m3b15`, `e2m1` and `e8m0` by integer code, for
//! their `cvt` are those of later targets (PTX ISA 9.7.9.21). Both round as [`NarrowFloat::encode`] does.

use ir::elem::DType;
use ir::narrow::NarrowFloat;
use ir::ops::cast::Rounding as Mode;
use ptx::{Binary, BinaryOp, Compare, Cvt, Operand, RegClass, Rounding, TernaryOp, Type, UnaryOp};

use super::code::Code;
use super::element::{Element, arithmetic};

/// Bits of the mantissa of an f32.
const MANTISSA: u32 = 23;
/// What is added to the exponent of an f32.
const BIAS: i32 = 127;

/// `2^exponent` as an f32.
fn power(exponent: i32) -> Operand {
    Operand::f32(2f32.powi(exponent))
}

/// The PTX type of two elements, where the target converts them.
fn pair_type(dtype: DType) -> Option<Type> {
    match dtype {
        DType::E4m3 => Some(Type::E4m3x2),
        DType::E5m2 => Some(Type::E5m2x2),
        _ => None,
    }
}

impl Code {
    /// An element as f32, exactly.
    pub(super) fn from_narrow_float(
        &mut self,
        e: Element,
        source: DType,
        format: NarrowFloat,
    ) -> Operand {
        if let Some(code) = e.as_int() {
            return Operand::f32(format.decode(code as u8) as f32);
        }
        if let Some(pair) = pair_type(source) {
            let half = self.fp8_to_f16(e, source, pair);
            return self.convert(Type::F32, Type::F16, None, half).into();
        }
        let code = self.operand(e, source.into());
        if format.is_signed {
            self.from_code(code, &format)
        } else {
            self.from_exponent(code, &format)
        }
    }

    /// The exponent and the mantissa stand where those of an f32 do, whose bias is larger by a power of two. That holds of
    /// subnormal numbers too.
    fn from_code(&mut self, code: Operand, format: &NarrowFloat) -> Operand {
        let up = MANTISSA - format.mantissa_bits;
        let sign = u32::from(format.sign());
        let magnitude = self.binary(BinaryOp::And, Type::B32, code, sign - 1);
        let magnitude = self.binary(BinaryOp::Shl, Type::B32, magnitude, up);
        let sign_bit = self.binary(BinaryOp::And, Type::B32, code, sign);
        let sign_bit = self.binary(BinaryOp::Shl, Type::B32, sign_bit, 32 - format.bits);
        let bits = self.binary(BinaryOp::Or, Type::B32, magnitude, sign_bit);
        let small = self.mov_bits(RegClass::F32, bits);
        self.binary(BinaryOp::Mul, Type::F32, small, power(BIAS - format.bias))
            .into()
    }

    /// A power of two: the smallest is a subnormal f32, and NaN would be infinite.
    fn from_exponent(&mut self, code: Operand, format: &NarrowFloat) -> Operand {
        let smallest = (format.decode(0) as f32).to_bits();
        let bits = self.binary(BinaryOp::Shl, Type::B32, code, MANTISSA);
        let bits = self.binary(BinaryOp::Max, Type::U32, bits, smallest);
        let is_nan = self.setp(Compare::Eq, Type::U32, code, u32::from(format.of_nan));
        let bits = self.selp(Type::B32, f32::NAN.to_bits(), bits, is_nan);
        self.mov_bits(RegClass::F32, bits).into()
    }

    /// An 8-bit float as f16 (PTX ISA 9.7.9.21: two at a time, the first in the low half).
    fn fp8_to_f16(&mut self, e: Element, source: DType, pair: Type) -> ptx::Reg {
        let (bytes, half) = if let Element::Part(word, shift) = e {
            // The halves of a word are pairs already.
            let halves = self.unpack(Type::B32, word);
            (halves[usize::from(shift / 16)], usize::from(shift / 8 % 2))
        } else {
            let byte = self.operand(e, source.into());
            (self.convert(Type::U16, Type::U32, None, byte), 0)
        };
        let word = self.cvt(Cvt {
            rounding: Some(Rounding::Rn),
            ..Cvt::new(Type::F16x2, pair, ptx::Dest::Sink, bytes)
        });
        self.unpack(Type::B32, word)[half]
    }

    /// f32 from which rounding to `target` gives what rounding the source would.
    pub(super) fn to_f32_for_narrow(
        &mut self,
        e: Element,
        source: DType,
        target: DType,
    ) -> Operand {
        // Integers that f32 rounds are past the largest number of all types but e8m0.
        let is_wide_int = source.is_int() && source.bits() >= 32 && target == DType::E8m0;
        if source != DType::F64 && !is_wide_int {
            return self.to_f32(e, source);
        }
        // To odd: what was cut off stays visible in the last bit.
        let (x, ty) = (self.operand(e, source.into()), arithmetic(source.into()));
        let cut = self.convert(Type::F32, ty, Some(Rounding::Rz), x);
        let to_whole = is_wide_int.then_some(Rounding::Rzi);
        let back = self.convert(ty, Type::F32, to_whole, cut);
        let lost = self.setp(Compare::Ne, ty, back, x);
        let sticky = self.selp(Type::B32, 1_u32, 0_u32, lost);
        let bits = self.mov_bits(RegClass::B32, cut);
        let odd = self.binary(BinaryOp::Or, Type::B32, bits, sticky);
        self.mov_bits(RegClass::F32, odd).into()
    }

    pub(super) fn to_narrow_floats(
        &mut self,
        values: &[Operand],
        target: DType,
        mode: Mode,
    ) -> Vec<Element> {
        let format = target.narrow_float().expect("the target is such a float");
        if !format.is_signed {
            let code = |&x: &Operand| self.to_exponent(x, &format, mode);
            return values.iter().map(code).collect();
        }
        let results = match pair_type(target) {
            Some(pair) => self.to_fp8(values, pair),
            None => values
                .iter()
                .map(|&x| self.to_code(x, &format).into())
                .collect(),
        };
        if mode == Mode::Default {
            return results;
        }
        results
            .iter()
            .zip(values)
            .map(|(&e, &x)| self.towards_zero(e, x, target))
            .collect()
    }

    fn to_fp8(&mut self, values: &[Operand], pair: Type) -> Vec<Element> {
        let mut results = Vec::with_capacity(values.len());
        for chunk in values.chunks(4) {
            let halves: Vec<Operand> = chunk
                .chunks(2)
                .map(|two| {
                    let high = two.get(1).copied().unwrap_or(Operand::f32(0.0));
                    let inst = Cvt::new(pair, Type::F32, ptx::Dest::Sink, high);
                    let inst = Cvt {
                        rounding: Some(Rounding::Rn),
                        satfinite: true,
                        b: Some(two[0]),
                        ..inst
                    };
                    self.cvt(inst).into()
                })
                .collect();
            let word = match halves[..] {
                [low, high] => self.pack(Type::B32, &[low, high]),
                [low, ..] => self.convert(Type::U32, Type::U16, None, low),
                [] => continue,
            };
            results.extend((0..chunk.len()).map(|at| Element::Part(word, 8 * at as u8)));
        }
        results
    }

    /// The code of the nearest number, ties to even, saturating; of NaN that of the largest.
    fn to_code(&mut self, x: Operand, format: &NarrowFloat) -> ptx::Reg {
        let size = self.unary(UnaryOp::Abs, Type::F32, x);
        let largest = Operand::f32(format.decode(format.largest) as f32);
        // Of NaN and a number this is the number.
        let size = self.binary(BinaryOp::Min, Type::F32, size, largest);
        let normal = self.rounded_code(size, format);
        let subnormal = self.rounded_steps(size, format);
        let smallest = power(1 - format.bias);
        let is_small = self.setp(Compare::Lt, Type::F32, size, smallest);
        let code = self.selp(Type::B32, subnormal, normal, is_small);
        let bits = self.mov_bits(RegClass::B32, x);
        let sign = self.binary(BinaryOp::Shr, Type::U32, bits, 32 - format.bits);
        let sign = self.binary(BinaryOp::And, Type::B32, sign, u32::from(format.sign()));
        let is_number = self.setp(Compare::Num, Type::F32, x, x);
        let sign = self.selp(Type::B32, sign, 0_u32, is_number);
        self.binary(BinaryOp::Or, Type::B32, code, sign)
    }

    /// Of a normal number: its bits without those that are cut off, with a carry into the exponent.
    fn rounded_code(&mut self, size: ptx::Reg, format: &NarrowFloat) -> ptx::Reg {
        let cut = MANTISSA - format.mantissa_bits;
        let bits = self.mov_bits(RegClass::B32, size);
        let last = self.ternary(TernaryOp::Bfe, Type::U32, bits, cut, 1_u32);
        let below_half = (1_u32 << (cut - 1)) - 1;
        let sum = self.binary(BinaryOp::Add, Type::U32, bits, below_half);
        let sum = self.binary(BinaryOp::Add, Type::U32, sum, last);
        let code = self.binary(BinaryOp::Shr, Type::U32, sum, cut);
        let bias = (BIAS - format.bias) << format.mantissa_bits;
        self.binary(BinaryOp::Sub, Type::U32, code, bias as u32)
    }

    /// Of a subnormal number: its steps, rounded by adding a number whose last bit is one step.
    fn rounded_steps(&mut self, size: ptx::Reg, format: &NarrowFloat) -> ptx::Reg {
        let exponent = (MANTISSA - format.mantissa_bits) as i32 + 1 - format.bias;
        let Operand::F32(base) = power(exponent) else {
            panic!("a power of two is an f32")
        };
        let sum = Binary::new(
            BinaryOp::Add,
            Type::F32,
            ptx::Dest::Sink,
            size,
            power(exponent),
        );
        let sum = self.binary_with(Binary {
            rounding: Some(Rounding::Rn),
            ..sum
        });
        let bits = self.mov_bits(RegClass::B32, sum);
        self.binary(BinaryOp::Sub, Type::U32, bits, base)
    }

    /// The code of the power of two nearest to the magnitude, ties to the even code, or of the one below.
    fn to_exponent(&mut self, x: Operand, format: &NarrowFloat, mode: Mode) -> Element {
        let size = self.unary(UnaryOp::Abs, Type::F32, x);
        let bits = self.mov_bits(RegClass::B32, size);
        let code = if mode == Mode::Zero {
            self.binary(BinaryOp::Shr, Type::U32, bits, MANTISSA)
        } else {
            self.nearest_exponent(bits)
        };
        let code = self.binary(BinaryOp::Min, Type::U32, code, u32::from(format.largest));
        let is_number = self.setp(Compare::Num, Type::F32, x, x);
        let nan = u32::from(format.of_nan);
        self.selp(Type::B32, code, nan, is_number).into()
    }

    fn nearest_exponent(&mut self, bits: ptx::Reg) -> ptx::Reg {
        let last = self.ternary(TernaryOp::Bfe, Type::U32, bits, MANTISSA, 1_u32);
        let below_half = (1_u32 << (MANTISSA - 1)) - 1;
        let sum = self.binary(BinaryOp::Add, Type::U32, bits, below_half);
        let sum = self.binary(BinaryOp::Add, Type::U32, sum, last);
        let code = self.binary(BinaryOp::Shr, Type::U32, sum, MANTISSA);
        // A subnormal f32 has no leading 1: the middle of 2^-127 and 2^-126 is 3/4 of the smallest normal one.
        let is_normal = self.setp(Compare::Ge, Type::U32, bits, 0x0080_0000_u32);
        let is_above = self.setp(Compare::Gt, Type::U32, bits, 0x0060_0000_u32);
        let small = self.selp(Type::B32, 1_u32, 0_u32, is_above);
        self.selp(Type::B32, code, small, is_normal)
    }

    /// The code of a float that was rounded to nearest, or the one below it in magnitude if it was rounded away
    /// from zero. Codes of one sign count up with the magnitude.
    fn towards_zero(&mut self, e: Element, x: Operand, target: DType) -> Element {
        let rounded = self.to_f32(e, target);
        let rounded = self.unary(UnaryOp::Abs, Type::F32, rounded);
        let exact = self.unary(UnaryOp::Abs, Type::F32, x);
        let is_above = self.setp(Compare::Gt, Type::F32, rounded, exact);
        let code = self.operand(e, target.into());
        let below = self.binary(BinaryOp::Sub, Type::U32, code, 1_u32);
        self.selp(Type::B32, below, code, is_above).into()
    }
}
