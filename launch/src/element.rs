//! Types of elements and scalars.

use std::fmt;

use crate::driver::MapElement;

macro_rules! data_types {
    ($($variant:ident = $name:literal $bytes:literal $text:literal,)*) => {
        /// The type of a tensor's elements or of a scalar.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum DataType {
            $(#[doc = $text] $variant,)*
        }

        impl DataType {
            /// Its name in a manifest.
            pub const fn name(self) -> &'static str {
                match self { $(DataType::$variant => $name,)* }
            }

            /// Bytes of one.
            pub const fn bytes(self) -> u32 {
                match self { $(DataType::$variant => $bytes,)* }
            }

            /// The type of this name.
            pub fn of_name(name: &str) -> Option<DataType> {
                match name { $($name => Some(DataType::$variant),)* _ => None }
            }
        }
    };
}

data_types! {
    I1 = "i1" 1 "A boolean, in one byte.",
    I8 = "i8" 1 "Signed, 8 bits.",
    I16 = "i16" 2 "Signed, 16 bits.",
    I32 = "i32" 4 "Signed, 32 bits.",
    I64 = "i64" 8 "Signed, 64 bits.",
    U8 = "u8" 1 "Unsigned, 8 bits.",
    U16 = "u16" 2 "Unsigned, 16 bits.",
    U32 = "u32" 4 "Unsigned, 32 bits.",
    U64 = "u64" 8 "Unsigned, 64 bits.",
    F16 = "f16" 2 "IEEE binary16.",
    Bf16 = "bf16" 2 "The upper half of a binary32.",
    F32 = "f32" 4 "IEEE binary32.",
    F64 = "f64" 8 "IEEE binary64.",
    E4m3 = "e4m3" 1 "fp8 with 4 bits of exponent.",
    E5m2 = "e5m2" 1 "fp8 with 5 bits of exponent.",
    E4m3b15 = "e4m3b15" 1 "fp8 with 4 bits of exponent and a bias of 15.",
    E2m1 = "e2m1" 1 "fp4, one in a byte.",
    E8m0 = "e8m0" 1 "A scale: 8 bits of exponent.",
}

impl DataType {
    /// Whether it is a whole number.
    pub const fn is_integer(self) -> bool {
        self.integers().is_some()
    }

    /// The least and the largest whole number that it holds, as far as 64 signed bits reach; none for floats.
    pub const fn integers(self) -> Option<(i64, i64)> {
        Some(match self {
            DataType::I1 => (0, 1),
            DataType::I8 => (i8::MIN as i64, i8::MAX as i64),
            DataType::I16 => (i16::MIN as i64, i16::MAX as i64),
            DataType::I32 => (i32::MIN as i64, i32::MAX as i64),
            DataType::I64 => (i64::MIN, i64::MAX),
            DataType::U8 => (0, u8::MAX as i64),
            DataType::U16 => (0, u16::MAX as i64),
            DataType::U32 => (0, u32::MAX as i64),
            DataType::U64 => (0, i64::MAX),
            _ => return None,
        })
    }

    /// What a tensor map takes elements for: the TMA unit moves bytes, and what it does not know as a number is an unsigned
    /// integer of the same width.
    pub const fn in_tensor_map(self) -> MapElement {
        match self {
            DataType::U16 | DataType::I16 => MapElement::U16,
            DataType::U32 => MapElement::U32,
            DataType::I32 => MapElement::I32,
            DataType::U64 => MapElement::U64,
            DataType::I64 => MapElement::I64,
            DataType::F16 => MapElement::F16,
            DataType::F32 => MapElement::F32,
            DataType::F64 => MapElement::F64,
            DataType::Bf16 => MapElement::Bf16,
            _ => MapElement::U8,
        }
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A Rust type for the elements of a tensor in device memory, or for a scalar.
pub trait Element: Copy + 'static {
    /// What it is in a manifest.
    const DATA_TYPE: DataType;

    /// Its bits, in the low bytes.
    fn bits(self) -> u64;
}

macro_rules! elements {
    ($($rust:ty = $variant:ident $bits:expr,)*) => {
        $(impl Element for $rust {
            const DATA_TYPE: DataType = DataType::$variant;

            fn bits(self) -> u64 {
                let bits: fn($rust) -> u64 = $bits;
                bits(self)
            }
        })*
    };
}

elements! {
    bool = I1 u64::from,
    i8 = I8 |value| value as u64,
    i16 = I16 |value| value as u64,
    i32 = I32 |value| value as u64,
    i64 = I64 |value| value as u64,
    u8 = U8 u64::from,
    u16 = U16 u64::from,
    u32 = U32 u64::from,
    u64 = U64 |value| value,
    f32 = F32 |value| value.to_bits().into(),
    f64 = F64 f64::to_bits,
}

macro_rules! bits {
    ($($name:ident($bits:ty) = $text:literal,)*) => {
        $(
            #[doc = $text]
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
            #[repr(transparent)]
            pub struct $name(pub $bits);

            impl Element for $name {
                const DATA_TYPE: DataType = DataType::$name;

                fn bits(self) -> u64 {
                    self.0.into()
                }
            }
        )*
    };
}

bits! {
    F16(u16) = "The bits of an IEEE binary16.",
    Bf16(u16) = "The bits of a bf16.",
    E4m3(u8) = "The bits of an fp8 with 4 bits of exponent.",
    E5m2(u8) = "The bits of an fp8 with 5 bits of exponent.",
    E4m3b15(u8) = "The bits of an fp8 with 4 bits of exponent and a bias of 15.",
    E2m1(u8) = "The bits of an fp4, in a byte.",
    E8m0(u8) = "The bits of a scale.",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for name in ["i1", "u64", "bf16", "e4m3", "e8m0"] {
            assert_eq!(DataType::of_name(name).map(DataType::name), Some(name));
        }
        assert_eq!(DataType::of_name("f8"), None);
        assert_eq!(Bf16::DATA_TYPE.bytes() as usize, size_of::<Bf16>());
        assert!(DataType::U8.is_integer() && !DataType::F16.is_integer());
    }
}
