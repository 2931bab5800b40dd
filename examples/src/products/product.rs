//! The case of a matrix product: random operands, a reference in f64, and cuBLAS beside it when it is timed.

use tilekit::prelude::*;

/// The tensors of one product `C[M, N] = A[M, K] · B[N, K]ᵀ`. Rows begin at multiples of 16 bytes, as tensor maps want.
pub(crate) struct Product<T, O = T> {
    size: [usize; 3],
    a: Input<T>,
    b: Input<T>,
    c: Output<O>,
}

/// Elements from one row to the next.
fn stride<T>(columns: usize) -> usize {
    columns.next_multiple_of(16 / size_of::<T>())
}

/// What a kernel that takes tensor maps is launched with: A, B and C, and `m`, `n` and `k`.
pub(crate) type Maps<'a, T, O> = (
    TensorView<'a, T, Input<T>>,
    TensorView<'a, T, Input<T>>,
    TensorView<'a, O, Output<O>>,
    i32,
    i32,
    i32,
);

/// The same by pointers, with the elements from one row to the next: of both operands, and of C.
pub(crate) type Pointers<'a, T, O> = (
    &'a Input<T>,
    &'a Input<T>,
    &'a Output<O>,
    i32,
    i32,
    i32,
    i32,
    i32,
);

impl<T: DeviceElement, O: DeviceElement> Product<T, O> {
    /// A product of the case's sizes `m`, `n` and `k`, whose operands are `operand` of their names and shapes.
    pub(crate) fn new(
        case: &mut Case,
        operand: impl Fn(&mut Case, &str, [usize; 2]) -> Input<T>,
    ) -> Self {
        let size = ["m", "n", "k"].map(|name| case.size(name));
        let [m, n, k] = size;
        Product {
            size,
            a: operand(case, "a", [m, stride::<T>(k)]),
            b: operand(case, "b", [n, stride::<T>(k)]),
            c: case.output::<O>("c", [m, stride::<O>(n)]),
        }
    }

    pub(crate) fn maps(&self) -> Maps<'_, T, O> {
        let maps = (self.a_map(), self.b_map(), self.c_map());
        (maps.0, maps.1, maps.2, self.m(), self.n(), self.k())
    }

    pub(crate) fn pointers(&self) -> Pointers<'_, T, O> {
        let ([a, b], [factor_stride, stride]) = (self.operands(), self.strides());
        let (m, n, k) = (self.m(), self.n(), self.k());
        (a, b, &self.c, m, n, k, factor_stride, stride)
    }

    pub(crate) fn a_map(&self) -> TensorView<'_, T, Input<T>> {
        let [m, _, k] = self.size;
        let view = self.a.view().with_shape([m, k]);
        view.with_strides([stride::<T>(k), 1])
    }

    pub(crate) fn b_map(&self) -> TensorView<'_, T, Input<T>> {
        let [_, n, k] = self.size;
        let view = self.b.view().with_shape([n, k]);
        view.with_strides([stride::<T>(k), 1])
    }

    pub(crate) fn c_map(&self) -> TensorView<'_, O, Output<O>> {
        let [m, n, _] = self.size;
        let view = self.c.view().with_shape([m, n]);
        view.with_strides([stride::<O>(n), 1])
    }

    pub(crate) fn m(&self) -> i32 {
        self.size[0] as i32
    }

    pub(crate) fn n(&self) -> i32 {
        self.size[1] as i32
    }

    pub(crate) fn k(&self) -> i32 {
        self.size[2] as i32
    }

    /// Both operands as they lie in memory.
    pub(crate) fn operands(&self) -> [&Input<T>; 2] {
        [&self.a, &self.b]
    }

    pub(crate) fn output(&self) -> &Output<O> {
        &self.c
    }

    /// Elements from one row to the next: of both operands, and of the output.
    pub(crate) fn strides(&self) -> [i32; 2] {
        [stride::<T>(self.size[2]), stride::<O>(self.size[1])].map(|s| s as i32)
    }

    /// The number of tiles of this shape.
    pub(crate) fn tiles(&self, tile: [usize; 2]) -> usize {
        self.size[0].div_ceil(tile[0]) * self.size[1].div_ceil(tile[1])
    }

    /// A program for each tile of this shape.
    pub(crate) fn grid(&self, tile: [usize; 2]) -> Grid {
        let [m, n, _] = self.size;
        grid([m.div_ceil(tile[0]), n.div_ceil(tile[1])])
    }

    /// The programs of a persistent kernel: at most a wave of `wave`. Small products have few, so that these make several tiles of this
    /// shape.
    pub(crate) fn programs(&self, tile: [usize; 2], wave: usize) -> usize {
        let tiles = self.tiles(tile);
        tiles.min(if tiles < 16 { 3 } else { wave })
    }

    /// The same, for cuBLAS and for the reference.
    pub(crate) fn gemm(&self) -> Gemm {
        let gemm = Gemm::new(&self.a, &self.b, &self.c);
        gemm.transposed_b().with_size(self.size)
    }

    /// Compares all of the output, and counts the work.
    pub(crate) fn expect(
        &self,
        case: &mut Case,
        reference: impl FnOnce() -> Vec<f64>,
        tolerance: Tolerance,
    ) -> CaseResult {
        let [m, n, k] = self.size;
        case.expect_part_in_units(&self.c, [m, n], reference, tolerance)?;
        case.does_tensor_flops::<T>(2 * m * n * k);
        case.moves_bytes(size_of::<T>() * (m * k + n * k) + size_of::<O>() * m * n);
        Ok(())
    }
}

/// Runs one product and compares all of it, rounded once to `T`.
pub(crate) fn product<T: Float + DeviceElement>(
    case: &mut Case,
    launch: impl FnOnce(&mut Case, &Product<T>) -> CaseResult,
) -> CaseResult {
    run(case, launch, |_, sum| sum, 0.0, |gemm| gemm)
}

/// The same of what `after` makes of each sum and its place, to `absolute` beyond what the sums lose.
pub(crate) fn product_then<T: Float + DeviceElement>(
    case: &mut Case,
    launch: impl FnOnce(&mut Case, &Product<T>) -> CaseResult,
    after: impl Fn([usize; 2], f64) -> f64,
    absolute: f64,
) -> CaseResult {
    run(case, launch, after, absolute, Gemm::timed_only)
}

/// A product beside cuBLAS as `peer` has it.
fn run<T: Float + DeviceElement>(
    case: &mut Case,
    launch: impl FnOnce(&mut Case, &Product<T>) -> CaseResult,
    after: impl Fn([usize; 2], f64) -> f64,
    absolute: f64,
    peer: impl FnOnce(Gemm) -> Gemm,
) -> CaseResult {
    let product = Product::new(case, Case::normal);
    case.peer(Peer::Cublas(peer(product.gemm())));
    launch(case, &product)?;
    let [_, n, k] = product.size;
    // Half a step of the output's type, and the rounding of k terms accumulated in f32.
    let tolerance = Close {
        relative: 4e-3,
        absolute: absolute + 1e-4 * (k as f64).sqrt(),
    };
    let reference = || {
        let sums = product.gemm().reference().into_iter().enumerate();
        sums.map(|(at, sum)| after([at / n, at % n], sum)).collect()
    };
    product.expect(case, reference, tolerance)
}

/// Runs a product of operands of another type than its result, beside cuBLAS as `peer` has it.
pub(crate) fn product_of<T: DeviceElement, O: DeviceElement>(
    case: &mut Case,
    operand: impl Fn(&mut Case, &str, [usize; 2]) -> Input<T>,
    peer: impl FnOnce(Gemm) -> Gemm,
    launch: impl FnOnce(&mut Case, &Product<T, O>) -> CaseResult,
) -> CaseResult {
    let product = Product::new(case, operand);
    let gemm = peer(product.gemm());
    case.peer(Peer::Cublas(gemm.clone()));
    launch(case, &product)?;
    product.expect(case, || gemm.reference(), gemm.tolerance())
}
