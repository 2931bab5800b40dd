//! Element types: what one element of a scalar or tensor is.

use std::fmt;
use std::str::FromStr;

use target::MatrixType;

/// A number type. Signedness is part of the type, so no operation needs a signed and an unsigned spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DType {
    /// Boolean, one bit.
    I1,
    /// Signed, 8 bits.
    I8,
    /// Signed, 16 bits.
    I16,
    /// Signed, 32 bits.
    I32,
    /// Signed, 64 bits.
    I64,
    /// Unsigned, 8 bits.
    U8,
    /// Unsigned, 16 bits.
    U16,
    /// Unsigned, 32 bits.
    U32,
    /// Unsigned, 64 bits.
    U64,
    /// IEEE binary16.
    F16,
    /// bfloat16: the upper half of a binary32.
    Bf16,
    /// IEEE binary32.
    F32,
    /// IEEE binary64.
    F64,
    /// 8-bit float, 4 exponent and 3 mantissa bits, no infinity (OCP FP8 E4M3).
    E4m3,
    /// 8-bit float, 5 exponent and 2 mantissa bits (OCP FP8 E5M2).
    E5m2,
    /// 8-bit float, 4 exponent bits of bias 15 and 3 mantissa bits, all of them finite (Triton's float8e4b15).
    E4m3b15,
    /// 4-bit float, 2 exponent bits and 1 mantissa bit (OCP MX FP4 E2M1), in the lower half of a byte; two of them packed in a byte are a
    /// `u8`.
    E2m1,
    /// Power of two from 2^-127 to 2^127, or NaN: an 8-bit exponent of bias 127 without a sign (OCP MX E8M0).
    E8m0,
}

impl DType {
    /// Every number type, in declaration order.
    pub const ALL: [DType; 18] = [
        DType::I1,
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::U8,
        DType::U16,
        DType::U32,
        DType::U64,
        DType::F16,
        DType::Bf16,
        DType::F32,
        DType::F64,
        DType::E4m3,
        DType::E5m2,
        DType::E4m3b15,
        DType::E2m1,
        DType::E8m0,
    ];

    /// Width in bits, of what memory and registers have for it: a boolean counts one, an `e2m1` its whole byte.
    pub const fn bits(self) -> u32 {
        match self {
            DType::I1 => 1,
            DType::I8
            | DType::U8
            | DType::E4m3
            | DType::E5m2
            | DType::E4m3b15
            | DType::E2m1
            | DType::E8m0 => 8,
            DType::I16 | DType::U16 | DType::F16 | DType::Bf16 => 16,
            DType::I32 | DType::U32 | DType::F32 => 32,
            DType::I64 | DType::U64 | DType::F64 => 64,
        }
    }

    /// Size in memory in bytes; a boolean takes one.
    pub const fn bytes(self) -> u32 {
        self.bits().div_ceil(8)
    }

    /// Is it a float of any width?
    pub const fn is_float(self) -> bool {
        matches!(self, DType::F16 | DType::Bf16 | DType::F32 | DType::F64) || self.is_narrow_float()
    }

    /// Is it a float of a byte or less? These are converted and moved; arithmetic wants a wider type.
    pub const fn is_narrow_float(self) -> bool {
        self.narrow_float().is_some()
    }

    /// Is it an integer of two bits or more?
    pub const fn is_int(self) -> bool {
        !self.is_float() && !matches!(self, DType::I1)
    }

    /// Is it a signed integer?
    pub const fn is_signed_int(self) -> bool {
        matches!(self, DType::I8 | DType::I16 | DType::I32 | DType::I64)
    }

    /// Is it an unsigned integer?
    pub const fn is_unsigned_int(self) -> bool {
        matches!(self, DType::U8 | DType::U16 | DType::U32 | DType::U64)
    }

    /// What a matrix instruction takes it for, where one does; for `f32` that is full precision.
    pub const fn matrix_type(self) -> Option<MatrixType> {
        Some(match self {
            DType::I8 => MatrixType::S8,
            DType::U8 => MatrixType::U8,
            DType::I32 => MatrixType::S32,
            DType::F16 => MatrixType::F16,
            DType::Bf16 => MatrixType::Bf16,
            DType::F32 => MatrixType::F32,
            DType::F64 => MatrixType::F64,
            DType::E4m3 => MatrixType::E4m3,
            DType::E5m2 => MatrixType::E5m2,
            DType::I1
            | DType::I16
            | DType::I64
            | DType::U16
            | DType::U32
            | DType::U64
            | DType::E4m3b15
            | DType::E2m1
            | DType::E8m0 => return None,
        })
    }

    /// The name in the text form and in diagnostics, which is Rust's where Rust has one.
    pub const fn name(self) -> &'static str {
        match self {
            DType::I1 => "i1",
            DType::I8 => "i8",
            DType::I16 => "i16",
            DType::I32 => "i32",
            DType::I64 => "i64",
            DType::U8 => "u8",
            DType::U16 => "u16",
            DType::U32 => "u32",
            DType::U64 => "u64",
            DType::F16 => "f16",
            DType::Bf16 => "bf16",
            DType::F32 => "f32",
            DType::F64 => "f64",
            DType::E4m3 => "e4m3",
            DType::E5m2 => "e5m2",
            DType::E4m3b15 => "e4m3b15",
            DType::E2m1 => "e2m1",
            DType::E8m0 => "e8m0",
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for DType {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        DType::ALL
            .into_iter()
            .find(|d| d.name() == text)
            .ok_or_else(|| format!("`{text}` is not an element type"))
    }
}

/// One element of a scalar or tensor: a number, or a pointer to numbers in global memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Elem {
    /// A number.
    Data(DType),
    /// A 64-bit pointer into global memory.
    Ptr(DType),
}

impl Elem {
    /// Boolean.
    pub const I1: Elem = Elem::Data(DType::I1);
    /// Signed 32-bit integer.
    pub const I32: Elem = Elem::Data(DType::I32);
    /// Signed 64-bit integer.
    pub const I64: Elem = Elem::Data(DType::I64);
    /// IEEE binary32.
    pub const F32: Elem = Elem::Data(DType::F32);

    /// Width in bits.
    pub const fn bits(self) -> u32 {
        match self {
            Elem::Data(d) => d.bits(),
            Elem::Ptr(_) => 64,
        }
    }

    /// Size in memory in bytes.
    pub const fn bytes(self) -> u32 {
        self.bits().div_ceil(8)
    }

    /// The number type, unless it is a pointer.
    pub const fn data(self) -> Option<DType> {
        match self {
            Elem::Data(d) => Some(d),
            Elem::Ptr(_) => None,
        }
    }

    /// What it points to, if it is a pointer.
    pub const fn pointee(self) -> Option<DType> {
        match self {
            Elem::Data(_) => None,
            Elem::Ptr(d) => Some(d),
        }
    }

    /// Is it a float?
    pub const fn is_float(self) -> bool {
        matches!(self, Elem::Data(d) if d.is_float())
    }

    /// Is it an integer of two bits or more?
    pub const fn is_int(self) -> bool {
        matches!(self, Elem::Data(d) if d.is_int())
    }

    /// Is it a boolean?
    pub const fn is_bool(self) -> bool {
        matches!(self, Elem::I1)
    }

    /// Is it a pointer?
    pub const fn is_ptr(self) -> bool {
        matches!(self, Elem::Ptr(_))
    }
}

impl From<DType> for Elem {
    fn from(data: DType) -> Elem {
        Elem::Data(data)
    }
}

impl fmt::Display for Elem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Elem::Data(d) => d.fmt(f),
            Elem::Ptr(d) => write!(f, "ptr<{d}>"),
        }
    }
}

impl FromStr for Elem {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("ptr<").and_then(|t| t.strip_suffix('>')) {
            Some(pointee) => Ok(Elem::Ptr(pointee.parse()?)),
            None => Ok(Elem::Data(text.parse()?)),
        }
    }
}
