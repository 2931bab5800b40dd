//! Element types of sparse operands.

use tilekit::prelude::*;

use crate::products::factor::Operand;

/// An element type of sparse operands, of which two of four are kept: bf16, f16, [`E4m3`], [`E5m2`], i8.
pub trait SparseOperand: Operand {
    /// Integers in two's complement, and not floats.
    #[doc(hidden)]
    const IS_INTEGER: bool;

    /// 0.
    #[doc(hidden)]
    const NOTHING: Self;

    /// A number that is larger where the magnitude is: 0 of zeros, the largest of NaN.
    #[doc(hidden)]
    fn magnitude(self) -> u32;
}

macro_rules! floats {
    ($($element:ty: $mask:literal;)*) => {$(
        impl SparseOperand for $element {
            const IS_INTEGER: bool = false;
            const NOTHING: Self = <$element>::from_bits(0);

            fn magnitude(self) -> u32 {
                // Codes of floats without their sign are in the order of magnitudes.
                u32::from(self.to_bits() & $mask)
            }
        }
    )*};
}

floats! {
    bf16: 0x7fff;
    f16: 0x7fff;
    E4m3: 0x7f;
    E5m2: 0x7f;
}

impl SparseOperand for i8 {
    const IS_INTEGER: bool = true;
    const NOTHING: Self = 0;

    fn magnitude(self) -> u32 {
        u32::from(self.unsigned_abs())
    }
}

/// The same of the bits of elements of type `T` in a kernel.
#[device]
pub(super) fn magnitude_of<T: SparseOperand>(bits: Tensor<T::Bits>) -> Tensor<i32> {
    let bits = bits.cast::<i32>();
    let sign = 1 << (8 * size_of::<T>() - 1);
    if T::IS_INTEGER {
        // Bits are unsigned: 128 to 255 are the negative numbers.
        select(bits < sign, bits, 2 * sign - bits)
    } else {
        bits & (sign - 1)
    }
}
