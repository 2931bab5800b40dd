//! Bits of integers, each by the instruction that there is for it (PTX ISA 9.7.1).

use super::super::mix::{Handle, Operand};
use super::super::trace::{self, At, Raw, here};
use super::super::{Element, Int, Mix, Scalar, Tensor};
use ir::elem::{DType, Elem};
use ir::entity::Value;
use ir::ops::arith::BinaryOp;
use ir::ops::cast::Rounding;
use ir::ops::create::Const;

/// Four bytes, or 32 bits.
const WORD: Elem = Elem::Data(DType::U32);

macro_rules! bit_methods {
    ($($handle:ident)*) => {$(
        /// Bits of integers.
        impl<T: Int> $handle<T> {
            /// How many bits are set.
            #[inline]
            #[track_caller]
            pub fn popc(self) -> $handle<i32> {
                let at = here();
                let word = Word::of(self.value(), T::DTYPE, at);
                $handle::wrap(word.counted("popc").value)
            }

            /// How many bits above the highest set one are clear: all of them for 0.
            #[inline]
            #[track_caller]
            pub fn clz(self) -> $handle<i32> {
                let at = here();
                let word = Word::of(self.value(), T::DTYPE, at);
                let above = i64::from(word.dtype.bits() - T::DTYPE.bits());
                $handle::wrap(word.counted("clz").with(BinaryOp::Sub, above).value)
            }

            /// The number of the lowest set bit, counted from 1; 0 for 0.
            #[inline]
            #[track_caller]
            pub fn ffs(self) -> $handle<i32> {
                let at = here();
                let word = Word::of(self.value(), T::DTYPE, at);
                let bits = i64::from(word.dtype.bits());
                let lowest = word.lowest();
                $handle::wrap(lowest.counted("clz").subtracted_from(bits).value)
            }

            /// The bits in reverse order.
            #[inline]
            #[track_caller]
            pub fn brev(self) -> Self {
                let at = here();
                let word = Word::of(self.value(), T::DTYPE, at);
                let above = i64::from(word.dtype.bits() - T::DTYPE.bits());
                let reversed = word.done("brev", word.dtype).with(BinaryOp::Shr, above);
                $handle::wrap(reversed.cast(T::DTYPE))
            }
        }
    )*};
}

bit_methods!(Scalar Tensor);

/// The bits of an integer, in an unsigned one of 32 or 64 bits.
#[derive(Clone, Copy)]
struct Word {
    value: Value,
    dtype: DType,
    at: At,
}

impl Word {
    #[inline(never)]
    fn of(value: Value, dtype: DType, at: At) -> Word {
        let (same, wide) = match dtype.bits() {
            8 => (DType::U8, DType::U32),
            16 => (DType::U16, DType::U32),
            32 => (DType::U32, DType::U32),
            _ => (DType::U64, DType::U64),
        };
        let bits = trace::bitcast(value, Elem::Data(same), at);
        Word {
            value: trace::cast(bits, Elem::Data(wide), Rounding::Default, at),
            dtype: wide,
            at,
        }
    }

    /// An instruction of one operand.
    #[inline(never)]
    fn done(self, opcode: &str, result: DType) -> Word {
        let text = format!("{opcode}.b{} $0, $1;", self.dtype.bits());
        let operand = (Raw::Value(self.value), Elem::Data(self.dtype));
        let results = trace::inline_ptx(&text, true, &[operand], &[Elem::Data(result)], self.at);
        Word {
            value: results[0],
            dtype: result,
            at: self.at,
        }
    }

    fn counted(self, opcode: &str) -> Word {
        self.done(opcode, DType::I32)
    }

    #[inline(never)]
    fn with(self, op: BinaryOp, constant: i64) -> Word {
        if constant == 0 {
            return self;
        }
        self.binary(
            op,
            Raw::Value(self.value),
            Raw::Const(Const::Int(constant.into())),
        )
    }

    fn subtracted_from(self, constant: i64) -> Word {
        self.binary(
            BinaryOp::Sub,
            Raw::Const(Const::Int(constant.into())),
            Raw::Value(self.value),
        )
    }

    /// The lowest set bit alone.
    fn lowest(self) -> Word {
        let negative = self.subtracted_from(0);
        self.binary(
            BinaryOp::And,
            Raw::Value(self.value),
            Raw::Value(negative.value),
        )
    }

    fn binary(self, op: BinaryOp, a: Raw, b: Raw) -> Word {
        Word {
            value: trace::binary(op, a, b, Elem::Data(self.dtype), self.at),
            ..self
        }
    }

    fn cast(self, to: DType) -> Value {
        trace::cast(self.value, Elem::Data(to), Rounding::Default, self.at)
    }
}

/// Four bytes picked out of the eight of `a` (bytes 0 to 3) and `b` (4 to 7): the lowest hexadecimal digit of `selector` says
/// which byte is the lowest of the result, and so on. A digit with its highest bit set repeats the sign of the byte
/// (PTX ISA 9.7.9.7, `prmt`).
#[inline]
#[track_caller]
pub fn byte_perm<A: Mix<B, Elem = u32>, B>(a: A, b: B, selector: impl Operand<u32>) -> A::Output {
    let (a, b) = a.raws(b);
    let operands = [a, b, selector.into_raw()].map(|raw| (raw, WORD));
    let text = "prmt.b32 $0, $1, $2, $3;";
    let results = trace::inline_ptx(text, true, &operands, &[WORD], here());
    A::Output::from_value(results[0])
}

/// Words of four bytes whose dot product there is: `i32`, of signed bytes, and `u32`, of unsigned ones.
#[diagnostic::on_unimplemented(
    message = "there is no dot product of the four bytes of `{Self}` and `{B}`",
    note = "four bytes are an i32 or u32"
)]
pub trait Dp4a<B: Element>: Element {
    /// What the products are added to: signed, if either is.
    type Sum: Element;
    #[doc(hidden)]
    const PTX: &'static str;
}

macro_rules! dp4a_types {
    ($($a:ident $b:ident $sum:ident $ptx:literal;)*) => {$(
        impl Dp4a<$b> for $a {
            type Sum = $sum;
            const PTX: &'static str = $ptx;
        }
    )*};
}

dp4a_types! {
    i32 i32 i32 "dp4a.s32.s32 $0, $1, $2, $3;";
    i32 u32 i32 "dp4a.s32.u32 $0, $1, $2, $3;";
    u32 i32 i32 "dp4a.u32.s32 $0, $1, $2, $3;";
    u32 u32 u32 "dp4a.u32.u32 $0, $1, $2, $3;";
}

macro_rules! dot_products {
    ($($handle:ident)*) => {$(
        impl<A: Element> $handle<A> {
            /// `sum` plus the products of the four bytes of `self` and `other` (PTX ISA 9.7.1, `dp4a`). An `i32` holds signed
            /// bytes, a `u32` unsigned ones; the sum wraps around.
            #[inline]
            #[track_caller]
            pub fn dp4a<B: Element>(self, other: $handle<B>, sum: $handle<A::Sum>) -> $handle<A::Sum>
            where
                A: Dp4a<B>,
            {
                let result = Elem::Data(<A::Sum as Element>::DTYPE);
                let operands = [
                    (self.raw(), Elem::Data(A::DTYPE)),
                    (other.raw(), Elem::Data(B::DTYPE)),
                    (sum.raw(), result),
                ];
                $handle::wrap(trace::inline_ptx(A::PTX, true, &operands, &[result], here())[0])
            }
        }
    )*};
}

dot_products!(Scalar Tensor);
