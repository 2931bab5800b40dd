//! One sparse tile on the tensor cores, with every type of element that they multiply. Each thread loads its metadata from
//! global memory, where the rows of it are whole; the kept elements come through shared memory or from registers.

use std::sync::LazyLock;

use tilekit::prelude::*;
use tilekit::sparse::Compressed;

use crate::products::wgmma_tile::{M, N, expect_product, layout, load_operands};

/// `C[M, N] = A[M, K] · B[N, K]ᵀ` of one tile, of which `a` has the kept elements: 64 bytes of a row, where B has 128.
#[device]
fn multiply<A: Element + WgmmaOperand<B, S>, B: Element, S: Element>(
    acc: Accumulator<S>,
    a: TensorMap<A>,
    metadata: Ptr<u16>,
    b: TensorMap<B>,
    out: Ptr<S>,
    is_in_registers: bool,
) {
    let (x, y, ready) = load_operands(a, b);
    let sums = layout::<A>();
    let places = sparse_metadata::<A>(&sums, [M, 128 / size_of::<A>()]);
    let columns = columns_of::<A>();
    let row = arange(0..M, Slice::new(1, places.clone())).expand_dims(1);
    let column = arange(0..columns, Slice::new(0, places)).expand_dims(0);
    let metadata = metadata.at(row * columns + column).load();
    ready.wait(0);
    let acc = if is_in_registers {
        let words = DotOperand::new(0, sums.clone(), 32 / A::DTYPE.bits());
        acc.mma_sparse(x.load(words), metadata, y.transpose())
    } else {
        acc.mma_sparse(x, metadata, y.transpose())
    };
    let row = arange(0..M, Slice::new(1, sums.clone())).expand_dims(1);
    let column = arange(0..N, Slice::new(0, sums)).expand_dims(0);
    out.at(row * N + column).store(acc.wait_all());
}

/// Numbers of metadata of a row: each describes 16 elements, or 8 of 4 bytes.
fn columns_of<A>() -> usize {
    if size_of::<A>() == 1 { 8 } else { 4 }
}

/// Any types but f32.
#[kernel(warps = 8, instances(<bf16, bf16, f32, 32, 64, false>, <f16, f16, f16, 32, 64, true>, <E4m3, E5m2, f32, 64, 128, false>))]
pub fn wgmma_sparse_tile<
    A: Element + WgmmaOperand<B, S>,
    B: Element,
    S: Element,
    const KEPT: usize,
    const K: usize,
    const IN_REGISTERS: bool,
>(
    #[block([M, KEPT], Nvmma::B64)] a: TensorMap<A>,
    metadata: Ptr<u16>,
    #[block([N, K], Nvmma::B128)] b: TensorMap<B>,
    out: Ptr<S>,
) {
    let acc = Accumulator::zeros([M, N], layout::<A>());
    multiply(acc, a, metadata, b, out, IN_REGISTERS);
}

/// f32 as tf32: one of two elements is kept.
#[kernel(warps = 8)]
pub fn wgmma_sparse_tile_tf32<const IN_REGISTERS: bool>(
    #[block([M, 16], Nvmma::B64)] a: TensorMap<f32>,
    metadata: Ptr<u16>,
    #[block([N, 32], Nvmma::B128)] b: TensorMap<f32>,
    out: Ptr<f32>,
) {
    let acc = Accumulator::zeros([M, N], layout::<f32>());
    multiply(acc.tf32(), a, metadata, b, out, IN_REGISTERS);
}

/// Small whole numbers, so that every sum is exact in every type.
struct Tile<A, B, S> {
    whole: Input<A>,
    kept: Input<A>,
    metadata: Input<u16>,
    b: Input<B>,
    out: Output<S>,
}

impl<A: DeviceElement, B: DeviceElement, S: DeviceElement> Tile<A, B, S> {
    fn new(case: &mut Case) -> Self {
        let k = 128 / size_of::<A>();
        let whole = case.integers::<A>("a", [M, k], 0..5);
        // Only a case that runs is compressed: cases are listed for each command.
        let compress = |whole: Input<A>| LazyLock::new(move || Compressed::of(whole.host(), k));
        let kept = compress(whole.clone());
        let compressed = compress(whole.clone());
        let metadata = LazyLock::new(move || compressed.metadata_tiles([M, k]));
        Tile {
            kept: case.input("kept", [M, k / 2], move |at| kept.kept()[at]),
            metadata: case.input("metadata", [M, columns_of::<A>()], move |at| metadata[at]),
            whole,
            b: case.integers::<B>("b", [N, k], 0..4),
            out: case.output::<S>("out", [M, N]),
        }
    }

    fn expect(&self, case: &mut Case) -> CaseResult {
        let k = 128 / size_of::<A>();
        let whole = self.whole.clone();
        let a = LazyLock::new(move || Compressed::of(whole.host(), k).dense());
        let a = |i: usize, l: usize| a[i * k + l].number().to_f64();
        expect_product(case, k, a, &self.b, &self.out)
    }
}

macro_rules! tiles {
    ($($name:ident: $a:ty, $b:ty => $sum:ty, $kept:literal of $k:literal;)*) => {$(
        #[case]
        fn $name(case: &mut Case) -> CaseResult {
            let tile = Tile::<$a, $b, $sum>::new(case);
            let arguments = (tile.kept.view(), &tile.metadata, tile.b.view(), &tile.out);
            case.launch(wgmma_sparse_tile::<$a, $b, $sum, $kept, $k, false>, 1, arguments)?;
            tile.expect(case)?;
            let arguments = (tile.kept.view(), &tile.metadata, tile.b.view(), &tile.out);
            case.launch(wgmma_sparse_tile::<$a, $b, $sum, $kept, $k, true>, 1, arguments)?;
            tile.expect(case)
        }
    )*};
}

tiles! {
    wgmma_sparse_tile_bf16: bf16, bf16 => f32, 32 of 64;
    wgmma_sparse_tile_f16: f16, f16 => f16, 32 of 64;
    wgmma_sparse_tile_e4m3: E4m3, E4m3 => f32, 64 of 128;
    wgmma_sparse_tile_mixed_f16: E5m2, E4m3 => f16, 64 of 128;
    wgmma_sparse_tile_i8: i8, i8 => i32, 64 of 128;
    wgmma_sparse_tile_mixed_i32: u8, i8 => i32, 64 of 128;
}

#[case]
fn wgmma_sparse_tile_of_tf32(case: &mut Case) -> CaseResult {
    let tile = Tile::<f32, f32, f32>::new(case);
    let arguments = (tile.kept.view(), &tile.metadata, tile.b.view(), &tile.out);
    case.launch(wgmma_sparse_tile_tf32::<false>, 1, arguments)?;
    tile.expect(case)?;
    let arguments = (tile.kept.view(), &tile.metadata, tile.b.view(), &tile.out);
    case.launch(wgmma_sparse_tile_tf32::<true>, 1, arguments)?;
    tile.expect(case)
}
