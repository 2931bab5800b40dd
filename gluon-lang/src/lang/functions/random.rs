//! Random numbers by Philox 4x32-10 (Salmon and others, "Parallel random numbers: as easy as 1, 2, 3"): a seed and an offset
//! give four words, without a state. Words and uniform numbers are those of Triton's `tl.randint4x` and `tl.rand`, bit by
//! bit.

use super::super::mix::ScalarOperand;
use super::super::trace::{self, At, Raw, here};
use super::super::{Element, Index, Tensor};
use super::number::Number;
use super::real::Real;
use ir::elem::{DType, Elem};
use ir::entity::Value;
use ir::ops::arith::{BinaryOp, UnaryOp};
use ir::ops::cast::Rounding;
use ir::ops::create::Const;

type Word = Number<u32>;

const ROUNDS: usize = 10;
/// What multiplies words 0 and 2 in each round.
const FACTORS: [i64; 2] = [0xd251_1f53, 0xcd9e_8d57];
/// What is added to the key after each round: the golden ratio and sqrt(3) - 1, in bits.
const WEYL: [i64; 2] = [0x9e37_79b9, 0xbb67_ae85];

/// The keys of all rounds.
fn keys(seed: Raw, at: At) -> Vec<[Word; 2]> {
    let seed = Number::<u64>::new(trace::as_scalar(seed, Elem::Data(DType::U64), at), at);
    let mut key = [seed, seed.with(BinaryOp::Shr, 32)].map(Number::cast::<u32>);
    let mut keys = vec![key];
    while keys.len() < ROUNDS {
        key = [0, 1].map(|half| key[half].with(BinaryOp::Add, WEYL[half]));
        keys.push(key);
    }
    keys
}

/// Four words from a counter.
fn philox_words(keys: &[[Word; 2]], counter: [Word; 4]) -> [Word; 4] {
    keys.iter().fold(counter, |[c0, c1, c2, c3], key| {
        let [product0, product2] = [(c0, FACTORS[0]), (c2, FACTORS[1])].map(|(word, factor)| {
            let high = word.with(BinaryOp::MulHigh, factor);
            (high, word.with(BinaryOp::Mul, factor))
        });
        let xor = |a: Word, b: Word, c: Word| a.binary(BinaryOp::Xor, b).binary(BinaryOp::Xor, c);
        [
            xor(product2.0, c1, key[0]),
            product2.1,
            xor(product0.0, c3, key[1]),
            product0.1,
        ]
    })
}

/// A word as a number from 0 up to, not including, 1.
fn uniform(word: Word) -> Number<f32> {
    let signed = word.bits_as::<i32>();
    // The complement of a negative number, the largest times the scale still below 1.
    let sign = signed.with(BinaryOp::Shr, 31);
    signed.binary(BinaryOp::Xor, sign).cast::<f32>() * 4.656_612_734_2e-10
}

/// Two normally distributed numbers from two uniform ones (Box and Muller).
fn normal(a: Number<f32>, b: Number<f32>) -> [Number<f32>; 2] {
    let least = Number::constant(1.0e-7);
    let radius = a.binary(BinaryOp::Max, least).unary(UnaryOp::Log) * -2.0;
    let (radius, angle) = (radius.unary(UnaryOp::Sqrt), b * std::f64::consts::TAU);
    [UnaryOp::Cos, UnaryOp::Sin].map(|op| angle.unary(op) * radius)
}

/// What is made of the four words of each offset.
#[inline(never)]
fn drawn(
    seed: Raw,
    offset: (Value, DType),
    at: At,
    finish: fn([Word; 4]) -> Vec<Value>,
) -> Vec<Value> {
    let keys = keys(seed, at);
    let zero = trace::scalar_constant(Const::Int(0), Elem::Data(DType::U32), at);
    let zero = Word::new(zero, at);
    let (value, dtype) = offset;
    let word = |value| trace::cast(value, Elem::Data(DType::U32), Rounding::Default, at);
    let mut operands = vec![word(value)];
    if dtype.bits() > 32 {
        let shift = Raw::Const(Const::Int(32));
        let high = trace::binary(
            BinaryOp::Shr,
            Raw::Value(value),
            shift,
            Elem::Data(dtype),
            at,
        );
        operands.push(word(high));
    }
    let elements = trace::open_map(&operands, 1, at);
    let mut counter = [zero; 4];
    for (word, element) in counter.iter_mut().zip(elements) {
        *word = Word::new(element, at);
    }
    let given = finish(philox_words(&keys, counter));
    trace::close_map(&operands, 1, &given, at)
}

fn values<T: Element, const N: usize>(numbers: [Number<T>; N]) -> Vec<Value> {
    numbers.map(Number::value).to_vec()
}

macro_rules! draws {
    ($($(#[$doc:meta])* $one:ident $four:ident = $ty:ty, $finish:expr;)*) => {$(
        $(#[$doc])*
        #[inline]
        #[track_caller]
        pub fn $one<I: Index>(seed: impl ScalarOperand<u64>, offset: Tensor<I>) -> Tensor<$ty> {
            let drawn = drawn(seed.into_raw(), (offset.value(), I::DTYPE), here(), |words| {
                let finish: fn([Word; 4]) -> [Number<$ty>; 4] = $finish;
                values([finish(words)[0]])
            });
            Tensor::wrap(drawn[0])
        }

        #[doc = concat!("Four of [`", stringify!($one), "`] for the price of one: the first is the same.")]
        #[inline]
        #[track_caller]
        pub fn $four<I: Index>(seed: impl ScalarOperand<u64>, offset: Tensor<I>) -> [Tensor<$ty>; 4] {
            let drawn = drawn(seed.into_raw(), (offset.value(), I::DTYPE), here(), |words| {
                let finish: fn([Word; 4]) -> [Number<$ty>; 4] = $finish;
                values(finish(words))
            });
            std::array::from_fn(|at| Tensor::wrap(drawn[at]))
        }
    )*};
}

draws! {
    /// A random word for each offset: Philox 4x32-10 with the seed as key and the offset as counter. One pair of seed and offset
    /// gives the same word always and everywhere. Bit by bit Triton's `tl.randint`.
    randint randint4x = u32, |words| words;
    /// A random number from 0 up to, not including, 1 for each offset, uniformly distributed. Bit by bit Triton's `tl.rand`.
    rand rand4x = f32, |words| words.map(uniform);
    /// A normally distributed random number of mean 0 and variance 1 for each offset (Box and Muller). Triton's `tl.randn` but for the
    /// last bits of its logarithm, root and cosine.
    randn randn4x = f32, |words| {
        let [a, b, c, d] = words.map(uniform);
        let ([a, b], [c, d]) = (normal(a, b), normal(c, d));
        [a, b, c, d]
    };
}

/// Philox 4x32-10 itself: four words from a counter of four words, with the seed as key. Counters that differ anywhere give
/// independent words.
#[inline]
#[track_caller]
pub fn philox(seed: impl ScalarOperand<u64>, counter: [Tensor<u32>; 4]) -> [Tensor<u32>; 4] {
    let at = here();
    let words = counter.map(Tensor::value);
    let words = trace::fit_mapped(&words, at);
    let keys = keys(seed.into_raw(), at);
    let elements = trace::open_map(&words, 1, at);
    let counter = std::array::from_fn(|word| Word::new(elements[word], at));
    let given = values(philox_words(&keys, counter));
    let results = trace::close_map(&words, 1, &given, at);
    std::array::from_fn(|word| Tensor::wrap(results[word]))
}
