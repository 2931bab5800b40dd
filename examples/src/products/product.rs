//! The case of a matrix product: random factors, a reference in f64, and cuBLAS beside it when it is timed.

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

impl<T: DeviceElement, O: DeviceElement> Product<T, O> {
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

    /// Both factors as they lie in memory.
    pub(crate) fn factors(&self) -> [&Input<T>; 2] {
        [&self.a, &self.b]
    }

    pub(crate) fn output(&self) -> &Output<O> {
        &self.c
    }

    /// Elements from one row to the next: of both factors, and of the output.
    pub(crate) fn strides(&self) -> [i32; 2] {
        [stride::<T>(self.size[2]), stride::<O>(self.size[1])].map(|s| s as i32)
    }

    /// The number of tiles of this shape.
    pub(crate) fn tiles(&self, tile: [usize; 2]) -> usize {
        self.size[0].div_ceil(tile[0]) * self.size[1].div_ceil(tile[1])
    }

    /// The same, for cuBLAS and for the reference.
    fn gemm(&self) -> Gemm {
        let gemm = Gemm::new(&self.a, &self.b, &self.c);
        gemm.transposed_b().with_size(self.size)
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
    let size = ["m", "n", "k"].map(|name| case.size(name));
    let [m, n, k] = size;
    let product = Product {
        size,
        a: case.normal::<T>("a", [m, stride::<T>(k)]),
        b: case.normal::<T>("b", [n, stride::<T>(k)]),
        c: case.output::<T>("c", [m, stride::<T>(n)]),
    };
    case.peer(Peer::Cublas(peer(product.gemm())));
    launch(case, &product)?;
    // Half a step of the output's type, and the rounding of k terms accumulated in f32.
    let tolerance = Close {
        relative: 4e-3,
        absolute: absolute + 1e-4 * (k as f64).sqrt(),
    };
    let reference = || {
        let sums = product.gemm().reference().into_iter().enumerate();
        sums.map(|(at, sum)| after([at / n, at % n], sum)).collect()
    };
    case.expect_part_in_units(&product.c, [m, n], reference, tolerance)?;
    case.does_tensor_flops::<T>(2 * m * n * k);
    case.moves_bytes(size_of::<T>() * (m * k + n * k + m * n));
    Ok(())
}

/// Runs a product of factors of another type than its result, beside cuBLAS as `peer` has it.
pub(crate) fn product_of<T: DeviceElement, O: DeviceElement>(
    case: &mut Case,
    factor: impl Fn(&mut Case, &str, [usize; 2]) -> Input<T>,
    peer: impl FnOnce(Gemm) -> Gemm,
    launch: impl FnOnce(&mut Case, &Product<T, O>) -> CaseResult,
) -> CaseResult {
    let size = ["m", "n", "k"].map(|name| case.size(name));
    let [m, n, k] = size;
    let product = Product {
        size,
        a: factor(case, "a", [m, stride::<T>(k)]),
        b: factor(case, "b", [n, stride::<T>(k)]),
        c: case.output::<O>("c", [m, stride::<O>(n)]),
    };
    let gemm = peer(product.gemm());
    case.peer(Peer::Cublas(gemm.clone()));
    launch(case, &product)?;
    case.expect_part_in_units(&product.c, [m, n], || gemm.reference(), gemm.tolerance())?;
    case.does_tensor_flops::<T>(2 * m * n * k);
    case.moves_bytes(size_of::<T>() * (m * k + n * k) + size_of::<O>() * m * n);
    Ok(())
}
