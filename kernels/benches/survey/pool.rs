//! Memory of all shapes, and how results in it are compared.

use tilekit::prelude::*;
use tilekit::{Compiler, CublasHandle, LoadedKernel, LtProduct};
use tilekit_kernels::products::{Error, Operand, Options, Products, ResultOf};

use crate::normal::normal;
use crate::shapes::Shape;

/// Bytes that the copies of a shape's matrices exceed together: several times L2.
const BEYOND_L2: usize = 240 << 20;
/// Copies at most: of the smallest shapes those together stay in L2, for all contestants.
const MOST_COPIES: usize = 256;
/// Elements of which matrices begin at multiples: 256 bytes, as cublasLt assumes.
const UNIT: usize = 128;
/// Elements behind a result that are compared with what was there before.
const GUARD: usize = 4096;
/// Programs of a comparison, and elements that one compares at a time.
const PROGRAMS: usize = 264;
const BLOCK: usize = 2048;

/// Elements of operands and results of 16 bits.
pub(crate) trait Standard: Float + DeviceElement {
    /// What rounding a sum may change it by, relatively: half a step and some room.
    const ROUNDING: f32;
}

impl Standard for bf16 {
    const ROUNDING: f32 = 4e-3;
}

impl Standard for f16 {
    const ROUNDING: f32 = 6e-4;
}

/// `found[0]` is raised by the elements of `c` that are further from `reference` than `relative` of it and `absolute`, or no numbers, and by those among the `guard` behind them that are numbers;
/// `square[0]` by the squares of the reference.
#[kernel(warps = 8)]
#[allow(clippy::eq_op, reason = "NaN is not equal to itself")]
fn differences<T: Float>(
    c: Ptr<T>,
    reference: Ptr<f32>,
    found: Ptr<i32>,
    square: Ptr<f32>,
    count: i32,
    guard: i32,
    relative: f32,
    absolute: f32,
) {
    let lane = arange(0..BLOCK, Coalesced);
    let mut wrong = zeros::<i32>([BLOCK], Coalesced);
    let mut squares = zeros::<f32>([BLOCK], Coalesced);
    let all = count + guard;
    for block in range(program_id(0), cdiv(all, BLOCK)).step(num_programs(0)) {
        let at = lane + block * BLOCK;
        let is_there = at < count;
        let result = c.at(at).mask(at < all).other(0).load().cast::<f32>();
        let expected = reference.at(at).mask(is_there).other(0.0).load();
        let is_near = (result - expected).abs() <= expected.abs() * relative + absolute;
        let is_poison = result != result;
        let is_right = (is_there & is_near) | ((at >= count) & is_poison) | (at >= all);
        wrong += select(is_right, 0, 1);
        squares += expected * expected;
    }
    found.at(0).relaxed().atomic_add(wrong.sum(0).scalar());
    square.at(0).relaxed().atomic_add(squares.sum(0).scalar());
}

/// The parameters of [`differences`].
type Handles<T> = (
    Ptr<T>,
    Ptr<f32>,
    Ptr<i32>,
    Ptr<f32>,
    Scalar<i32>,
    Scalar<i32>,
    Scalar<f32>,
    Scalar<f32>,
);

/// A, B and C of the copies of each shape, one shape at a time.
pub(crate) struct Pool<T> {
    pub(crate) stream: Stream,
    pub(crate) factors: [Buffer<T>; 2],
    pub(crate) c: Buffer<T>,
    reference: Buffer<f32>,
    found: Buffer<i32>,
    square: Buffer<f32>,
    differences: LoadedKernel<Handles<T>>,
    are_settled: [bool; 2],
}

/// The places of a shape's matrices: copy `i` of each begins at `i` times its pitch.
#[derive(Clone, Copy)]
pub(crate) struct Places {
    pub(crate) size: [usize; 3],
    pub(crate) copies: usize,
    pitches: [usize; 3],
}

impl Places {
    pub(crate) fn of(size: [usize; 3]) -> Places {
        let [m, n, k] = size;
        let pitches = [m * k, n * k, m * n].map(|len| len.next_multiple_of(UNIT));
        let bytes: usize = 2 * pitches.iter().sum::<usize>();
        let copies = BEYOND_L2.div_ceil(bytes).clamp(2, MOST_COPIES);
        Places {
            size,
            copies,
            pitches,
        }
    }

    /// Where A, B and C of a copy begin.
    pub(crate) fn at(self, copy: usize) -> [usize; 3] {
        self.pitches.map(|pitch| copy * pitch)
    }
}

impl<T: Operand + ResultOf<T, Addend = T> + Standard> Pool<T> {
    pub(crate) fn new(device: &Device, shapes: &[Shape], are_settled: [bool; 2]) -> Self {
        let most = |of: usize| {
            let lengths = shapes.iter().map(|shape| {
                let places = Places::of(shape.size);
                places.copies * places.pitches[of]
            });
            lengths.max().unwrap_or(1)
        };
        let drawn =
            |of: usize, seed| Buffer::from_slice(device, &normal::<T>(most(of), seed)).unwrap();
        let results = shapes.iter().map(|shape| shape.size[0] * shape.size[1]);
        let differences = differences::<T>.compile(&Compiler::default()).unwrap();
        Pool {
            stream: Stream::new(device).unwrap(),
            factors: [drawn(0, 1), drawn(1, 2)],
            c: Buffer::new(device, most(2) + GUARD).unwrap(),
            reference: Buffer::new(device, results.max().unwrap_or(1)).unwrap(),
            found: Buffer::zeros(device, 1).unwrap(),
            square: Buffer::zeros(device, 1).unwrap(),
            differences: differences.load(device).unwrap(),
            are_settled,
        }
    }

    /// The product of a copy, as a program calls it.
    pub(crate) fn multiply(
        &self,
        products: &Products,
        places: Places,
        copy: usize,
    ) -> tilekit::Result<()> {
        let ([m, n, k], [a, b, c]) = (places.size, places.at(copy));
        let [of_a, of_b] = &self.factors;
        let a = of_a.view([m, k]).with_offset(a);
        let b = of_b.view([k, n]).with_strides([1, k]).with_offset(b);
        let c = self.c.view([m, n]).with_offset(c);
        let options = Options {
            are_settled: self.are_settled,
            ..Options::default()
        };
        let done = products.call(&self.stream, &a, &b, &c, &options);
        done.map_err(|error| match error {
            Error::Runtime(error) => error,
            Error::Argument { .. } => panic!("{error}"),
        })
    }

    /// The same by cublasLt.
    pub(crate) fn multiply_by_lt<O: DeviceElement>(
        &self,
        (lt, candidate): (&LtProduct<'_, T, O>, usize),
        (result, places, copy): (&Buffer<O>, Places, usize),
    ) -> tilekit::Result<()> {
        let ([a, b, c], [of_a, of_b]) = (places.at(copy), &self.factors);
        lt.multiply(candidate, [(of_a, a), (of_b, b)], (result, c))
    }

    /// The same by cuBLAS, which chooses itself.
    pub(crate) fn multiply_by_cublas(
        &self,
        cublas: &CublasHandle<'_>,
        places: Places,
        copy: usize,
    ) -> tilekit::Result<()> {
        let ([a, b, c], [of_a, of_b]) = (places.at(copy), &self.factors);
        cublas.multiply_at(places.size, [(of_a, a), (of_b, b), (&self.c, c)], true)
    }

    /// Computes what results of the first copy are compared with.
    pub(crate) fn refer(&self, places: Places) {
        let lt = LtProduct::<T, f32>::new(&self.stream, places.size).unwrap();
        let of_lt = (&lt, 0);
        self.multiply_by_lt(of_lt, (&self.reference, places, 0))
            .unwrap();
    }

    /// How many elements of a result are wrong, or of the memory behind it.
    pub(crate) fn wrong(&self, products: &Products, places: Places) -> i32 {
        let [m, n, k] = places.size;
        self.stream.fill_bytes(&self.c, 0xff).unwrap();
        self.stream.fill_bytes(&self.found, 0).unwrap();
        self.stream.fill_bytes(&self.square, 0).unwrap();
        self.multiply(products, places, 0).unwrap();
        let terms = (k as f32).sqrt();
        let arguments = (
            &self.c,
            &self.reference,
            &self.found,
            &self.square,
            (m * n) as i32,
            GUARD as i32,
            T::ROUNDING,
            2e-4 * terms,
        );
        let launched = self
            .differences
            .launch(&self.stream, [PROGRAMS, 1, 1], arguments);
        launched.unwrap();
        self.stream.synchronize().unwrap();
        // Sums of products of N(0, 1) are around the root of their count.
        let size = (self.square.to_vec().unwrap()[0] / (m * n) as f32).sqrt() / terms;
        assert!(
            (0.5..2.0).contains(&size),
            "the reference is of size {size}"
        );
        self.found.to_vec().unwrap()[0]
    }
}
