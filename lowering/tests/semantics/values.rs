//! Numbers of every element type on the host: their bits, their conversions, and samples that show mistakes.

use half::{bf16, f16};
use ir::elem::DType;

use crate::machine::LEN;

pub(crate) const INTS: [DType; 8] = [
    DType::I8,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::U8,
    DType::U16,
    DType::U32,
    DType::U64,
];
pub(crate) const FLOATS: [DType; 4] = [DType::F16, DType::Bf16, DType::F32, DType::F64];

/// A number of any type.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Number {
    Int(i128),
    Float(f64),
}

impl Number {
    pub(crate) fn float(self) -> f64 {
        match self {
            Number::Int(i) => i as f64,
            Number::Float(f) => f,
        }
    }
}

/// The low bits of `value` as a number of an integer type.
pub(crate) fn wrap(value: i128, dtype: DType) -> i128 {
    let bits = dtype.bits();
    let low = value & ((1 << bits) - 1);
    if dtype.is_signed_int() && low >> (bits - 1) == 1 {
        low - (1 << bits)
    } else {
        low
    }
}

pub(crate) fn decode(bits: u64, dtype: DType) -> Number {
    match dtype {
        DType::F16 => Number::Float(f16::from_bits(bits as u16).to_f64()),
        DType::Bf16 => Number::Float(bf16::from_bits(bits as u16).to_f64()),
        DType::F32 => Number::Float(f32::from_bits(bits as u32).into()),
        DType::F64 => Number::Float(f64::from_bits(bits)),
        DType::E4m3 | DType::E5m2 => Number::Float(fp8_value(bits as u8, dtype)),
        DType::E4m3b15 | DType::E2m1 | DType::E8m0 => Number::Float(listed(bits as u8, dtype)),
        _ => Number::Int(wrap(bits.into(), dtype)),
    }
}

pub(crate) fn fp8_value(code: u8, dtype: DType) -> f64 {
    let (mantissa, bias) = if dtype == DType::E4m3 {
        (3, 7)
    } else {
        (2, 15)
    };
    let sign = if code >> 7 == 1 { -1.0 } else { 1.0 };
    let magnitude = code & 0x7f;
    let (exponent, fraction) = (
        i32::from(magnitude >> mantissa),
        f64::from(magnitude & ((1 << mantissa) - 1)),
    );
    let is_nan = if dtype == DType::E4m3 {
        magnitude == 0x7f
    } else {
        magnitude > 0x7c
    };
    if is_nan {
        return f64::NAN;
    }
    if dtype == DType::E5m2 && magnitude == 0x7c {
        return sign * f64::INFINITY;
    }
    let unit = f64::from(1 << mantissa);
    sign * if exponent == 0 {
        fraction / unit * 2_f64.powi(1 - bias)
    } else {
        (1.0 + fraction / unit) * 2_f64.powi(exponent - bias)
    }
}

/// The numbers of the types that the hardware does not convert: from a list, or in other steps than the compiler's.
fn listed(code: u8, dtype: DType) -> f64 {
    let sign = |bit: u8| if code & bit == 0 { 1.0 } else { -1.0 };
    match dtype {
        DType::E2m1 => sign(8) * [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0][usize::from(code & 7)],
        DType::E8m0 if code == 255 => f64::NAN,
        DType::E8m0 => f64::from_bits((u64::from(code) + 896) << 52),
        // The lower part of an f16.
        _ => f16::from_bits(u16::from(code & 0x7f) << 7).to_f64() * sign(0x80),
    }
}

/// The code up to `last` whose number is the nearest to `x`, ties to the even one, saturating; numbers rise with their codes.
fn nearest_code(last: u8, x: f64, number: impl Fn(u8) -> f64) -> u8 {
    // The least code whose number reaches `x`, which is one more than `last` if none does.
    let (mut reaching, mut past) = (0, last + 1);
    while reaching < past {
        let middle = reaching + (past - reaching) / 2;
        if number(middle) < x {
            reaching = middle + 1;
        } else {
            past = middle;
        }
    }
    if reaching == 0 || reaching > last {
        return reaching.min(last);
    }
    let middle = f64::midpoint(number(reaching - 1), number(reaching));
    match x.total_cmp(&middle) {
        std::cmp::Ordering::Less => reaching - 1,
        std::cmp::Ordering::Greater => reaching,
        std::cmp::Ordering::Equal => reaching - reaching % 2,
    }
}

/// The nearest of these, ties to the even code, saturating.
fn listed_code(value: f64, dtype: DType) -> u8 {
    let (last, sign, nan) = match dtype {
        DType::E2m1 => (7, 8, 7),
        DType::E8m0 => (254, 0, 255),
        _ => (0x7f, 0x80, 0x7f),
    };
    if value.is_nan() {
        return nan;
    }
    let code = nearest_code(last, value.abs(), |code| listed(code, dtype));
    if value.is_sign_negative() {
        code | sign
    } else {
        code
    }
}

/// The nearest 8-bit float, ties to even, saturating.
pub(crate) fn fp8_code(value: f64, dtype: DType) -> u8 {
    if value.is_nan() {
        return 0x7f;
    }
    let last = if dtype == DType::E4m3 { 0x7e } else { 0x7b };
    let code = nearest_code(last, value.abs(), |code| fp8_value(code, dtype));
    code | u8::from(value.is_sign_negative()) << 7
}

/// The bits of a number converted to a type as `cast` says.
pub(crate) fn encode(number: Number, dtype: DType) -> u64 {
    match (dtype, number) {
        (DType::I1, n) => u64::from(n.float() != 0.0),
        (DType::F16, n) => f16::from_f64(n.float()).to_bits().into(),
        (DType::Bf16, n) => bf16::from_f64(n.float()).to_bits().into(),
        (DType::F32, Number::Int(i)) => (i as f32).to_bits().into(),
        (DType::F32, Number::Float(f)) => (f as f32).to_bits().into(),
        (DType::F64, n) => n.float().to_bits(),
        (DType::E4m3 | DType::E5m2, n) => fp8_code(n.float(), dtype).into(),
        (DType::E4m3b15 | DType::E2m1 | DType::E8m0, n) => listed_code(n.float(), dtype).into(),
        (_, Number::Int(i)) => i as u64 & mask(dtype),
        (_, Number::Float(f)) => {
            let (low, high) = if dtype.is_signed_int() {
                (
                    -(1_i128 << (dtype.bits() - 1)),
                    (1_i128 << (dtype.bits() - 1)) - 1,
                )
            } else {
                (0, (1_i128 << dtype.bits()) - 1)
            };
            (f as i128).clamp(low, high) as u64 & mask(dtype)
        }
    }
}

pub(crate) fn mask(dtype: DType) -> u64 {
    // The upper half of its byte is not part of it.
    let bits = if dtype == DType::E2m1 {
        4
    } else {
        dtype.bits()
    };
    u64::MAX >> (64 - bits)
}

/// Bits that show mistakes: ends of ranges, specials, and noise.
pub(crate) fn samples(dtype: DType, seed: u64) -> Vec<u64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let specials: Vec<u64> = if dtype.is_float() {
        let numbers = [
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.5,
            1.5,
            2.5,
            -3.75,
            127.0,
            128.5,
            -129.0,
            255.5,
            448.0,
            465.0,
            1e4,
            65504.0,
            1e9,
            -3e9,
            1e19,
            -1e19,
            1e-3,
            1e-8,
            1e-40,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
        ];
        numbers
            .iter()
            .map(|&n| encode(Number::Float(n), dtype))
            .collect()
    } else {
        [
            0_u64,
            1,
            2,
            3,
            7,
            31,
            32,
            127,
            128,
            129,
            255,
            256,
            1 << 15,
            u64::MAX,
            u64::MAX - 1,
            1 << 31,
            (1 << 31) - 1,
            1 << 63,
            (1 << 63) - 1,
            (1 << 24) + 1,
        ]
        .iter()
        .map(|b| b & mask(dtype))
        .collect()
    };
    (0..LEN)
        .map(|at| {
            let noise = next();
            match at % 3 {
                0 => specials[noise as usize % specials.len()],
                // Numbers of everyday size.
                1 if dtype.is_float() => {
                    encode(Number::Float((noise % 4001) as f64 / 16.0 - 125.0), dtype)
                }
                1 => (noise % 41).wrapping_sub(20) & mask(dtype),
                _ => noise >> 8 & mask(dtype),
            }
        })
        .collect()
}

pub(crate) fn bytes(values: &[u64], dtype: DType) -> Vec<u8> {
    values
        .iter()
        .flat_map(|v| v.to_le_bytes()[..dtype.bytes() as usize].to_vec())
        .collect()
}

pub(crate) fn values(bytes: &[u8], dtype: DType) -> Vec<u64> {
    bytes
        .chunks(dtype.bytes() as usize)
        .map(|chunk| {
            chunk
                .iter()
                .rev()
                .fold(0, |word, &byte| word << 8 | u64::from(byte))
        })
        .collect()
}

pub(crate) fn rounded(value: f64, dtype: DType) -> Number {
    decode(encode(Number::Float(value), dtype), dtype)
}
