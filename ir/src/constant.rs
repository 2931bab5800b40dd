//! Numbers known while compiling, and what every element of a value is.

use std::fmt;
use std::str::FromStr;

use crate::elem::DType;
use crate::entity::Value;

/// The value of a constant, which its result type interprets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Const {
    /// An integer, or a boolean as 0 and 1.
    Int(i128),
    /// A float, as the bits of a binary64, which holds every narrower float exactly.
    Float(u64),
}

impl Const {
    /// A float constant.
    pub fn float(value: f64) -> Const {
        Const::Float(value.to_bits())
    }

    /// The value as a float.
    pub fn as_f64(self) -> f64 {
        match self {
            Const::Int(i) => i as f64,
            Const::Float(bits) => f64::from_bits(bits),
        }
    }

    /// The value as an integer, unless it is a float.
    pub fn as_int(self) -> Option<i128> {
        match self {
            Const::Int(i) => Some(i),
            Const::Float(_) => None,
        }
    }

    /// Does an element of type `dtype` hold it? Floats are rounded, integers must fit.
    pub fn fits(self, dtype: DType) -> bool {
        match self {
            Const::Float(_) => dtype.is_float(),
            Const::Int(i) => match dtype {
                DType::I1 => i == 0 || i == 1,
                d if d.is_signed_int() => {
                    (-(1i128 << (d.bits() - 1))..1i128 << (d.bits() - 1)).contains(&i)
                }
                d if d.is_int() => (0..1i128 << d.bits()).contains(&i),
                _ => false,
            },
        }
    }
}

impl fmt::Display for Const {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Const::Int(i) => write!(f, "{i}"),
            Const::Float(bits) => {
                let value = f64::from_bits(*bits);
                if value.is_nan() {
                    write!(f, "nan:{bits:#x}")
                } else {
                    write!(f, "{value:?}")
                }
            }
        }
    }
}

impl FromStr for Const {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(bits) = text.strip_prefix("nan:0x") {
            return u64::from_str_radix(bits, 16)
                .map(Const::Float)
                .map_err(|e| format!("`{text}`: {e}"));
        }
        if let Ok(i) = text.parse::<i128>() {
            return Ok(Const::Int(i));
        }
        text.parse::<f64>()
            .map(Const::float)
            .map_err(|_| format!("`{text}` is not a number"))
    }
}

/// What every element of a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uniform {
    /// A number known while compiling.
    Constant(Const),
    /// A scalar.
    Scalar(Value),
}
