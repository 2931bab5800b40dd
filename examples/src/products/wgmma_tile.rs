//! One tile on the tensor cores, with every type of element that they multiply: the operands through shared memory, or the
//! left one from registers.

use tilekit::prelude::*;

/// The tile of `C`; K is what 128 bytes hold.
pub(super) const M: usize = 128;
pub(super) const N: usize = 64;

/// `C[M, N] = A[M, K] · B[N, K]ᵀ` of one tile. What is added of 8-bit floats keeps full precision every 32 elements.
#[device]
fn multiply<A: Element + WgmmaOperand<B, S>, B: Element, S: Element>(
    acc: Accumulator<S>,
    a: TensorMap<A>,
    b: TensorMap<B>,
    out: Ptr<S>,
    is_in_registers: bool,
) {
    let (x, y, ready) = load_operands(a, b);
    ready.wait(0);
    let layout = layout::<A>();
    let acc = if is_in_registers {
        let words = DotOperand::new(0, layout.clone(), 32 / A::DTYPE.bits());
        acc.mma(x.load(words), y.transpose())
    } else {
        acc.mma(x, y.transpose())
    };
    let row = arange(0..M, Slice::new(1, layout.clone())).expand_dims(1);
    let column = arange(0..N, Slice::new(0, layout)).expand_dims(0);
    out.at(row * N + column).store(acc.wait_all());
}

/// Issues the TMA loads of both operands. The phase of the mbarrier completes when they are in shared memory.
#[device]
pub(super) fn load_operands<A: Element, B: Element>(
    a: TensorMap<A>,
    b: TensorMap<B>,
) -> (Smem<A>, Smem<B>, Mbarrier) {
    let (x, y) = (
        Smem::<A>::alloc(a.block(), a.layout()),
        Smem::<B>::alloc(b.block(), b.layout()),
    );
    let ready = Mbarrier::alloc(1);
    ready.expect(a.block_bytes() + b.block_bytes());
    a.load([0, 0], x, ready);
    b.load([0, 0], y, ready);
    (x, y, ready)
}

/// The accumulator of two warpgroups whose instructions take 32 bytes of K.
pub(super) fn layout<A: Element>() -> Wgmma {
    Wgmma::new([8, 1], [64, N, 32 / size_of::<A>()])
}

/// Any types but f32.
#[kernel(warps = 8, instances(<bf16, bf16, f32, 64, false>, <f16, f16, f16, 64, true>, <i8, u8, i32, 128, false>))]
pub fn wgmma_tile<
    A: Element + WgmmaOperand<B, S>,
    B: Element,
    S: Element,
    const K: usize,
    const IN_REGISTERS: bool,
>(
    #[block([M, K], Nvmma::B128)] a: TensorMap<A>,
    #[block([N, K], Nvmma::B128)] b: TensorMap<B>,
    out: Ptr<S>,
) {
    let acc = Accumulator::zeros([M, N], layout::<A>());
    multiply(acc, a, b, out, IN_REGISTERS);
}

/// f32 as tf32.
#[kernel(warps = 8)]
pub fn wgmma_tile_tf32<const IN_REGISTERS: bool>(
    #[block([M, 32], Nvmma::B128)] a: TensorMap<f32>,
    #[block([N, 32], Nvmma::B128)] b: TensorMap<f32>,
    out: Ptr<f32>,
) {
    let acc = Accumulator::zeros([M, N], layout::<f32>());
    multiply(acc.tf32(), a, b, out, IN_REGISTERS);
}

/// 8-bit floats, whose partial sums are added in full precision.
#[kernel(warps = 8)]
pub fn wgmma_tile_promoted<const EVERY: usize>(
    #[block([M, 128], Nvmma::B128)] a: TensorMap<E4m3>,
    #[block([N, 128], Nvmma::B128)] b: TensorMap<E4m3>,
    out: Ptr<f32>,
) {
    let acc = Accumulator::zeros([M, N], layout::<E4m3>());
    multiply(acc.promote_every(EVERY), a, b, out, false);
}

/// Small whole numbers, so that every sum is exact in every type.
struct Tile<A, B, S> {
    a: Input<A>,
    b: Input<B>,
    out: Output<S>,
}

impl<A: DeviceElement, B: DeviceElement, S: DeviceElement> Tile<A, B, S> {
    fn new(case: &mut Case, k: usize) -> Self {
        Tile {
            a: case.integers::<A>("a", [M, k], 0..4),
            b: case.integers::<B>("b", [N, k], 0..4),
            out: case.output::<S>("out", [M, N]),
        }
    }

    fn expect(&self, case: &mut Case) -> CaseResult {
        let k = self.a.shape()[1];
        let a = |i: usize, l: usize| self.a[[i, l]].number().to_f64();
        expect_product(case, k, a, &self.b, &self.out)
    }
}

/// Compares a tile with the product of `a(row, depth)` and `b`, which is exact.
pub(super) fn expect_product<B: DeviceElement, S: DeviceElement>(
    case: &mut Case,
    k: usize,
    a: impl Fn(usize, usize) -> f64 + Sync,
    b: &Input<B>,
    out: &Output<S>,
) -> CaseResult {
    let sum = |[i, j]: [usize; 2]| -> f64 {
        let terms = (0..k).map(|l| a(i, l) * b[[j, l]].number().to_f64());
        terms.sum()
    };
    case.expect(out, sum, Exactly)?;
    case.does_flops(2 * M * N * k);
    Ok(())
}

macro_rules! tiles {
    ($($name:ident: $a:ty, $b:ty => $sum:ty, $k:literal;)*) => {$(
        #[case]
        fn $name(case: &mut Case) -> CaseResult {
            let tile = Tile::<$a, $b, $sum>::new(case, $k);
            case.launch(wgmma_tile::<$a, $b, $sum, $k, false>, 1, (tile.a.view(), tile.b.view(), &tile.out))?;
            tile.expect(case)?;
            case.launch(wgmma_tile::<$a, $b, $sum, $k, true>, 1, (tile.a.view(), tile.b.view(), &tile.out))?;
            tile.expect(case)
        }
    )*};
}

tiles! {
    wgmma_tile_bf16: bf16, bf16 => f32, 64;
    wgmma_tile_f16: f16, f16 => f32, 64;
    wgmma_tile_f16_f16: f16, f16 => f16, 64;
    wgmma_tile_e4m3: E4m3, E4m3 => f32, 128;
    wgmma_tile_e5m2: E5m2, E5m2 => f32, 128;
    wgmma_tile_mixed_f16: E4m3, E5m2 => f16, 128;
    wgmma_tile_i8: i8, i8 => i32, 128;
    wgmma_tile_u8: u8, u8 => i32, 128;
    wgmma_tile_mixed_i32: i8, u8 => i32, 128;
}

#[case]
fn wgmma_tile_of_tf32(case: &mut Case) -> CaseResult {
    let tile = Tile::<f32, f32, f32>::new(case, 32);
    let arguments = (tile.a.view(), tile.b.view(), &tile.out);
    case.launch(wgmma_tile_tf32::<false>, 1, arguments)?;
    tile.expect(case)?;
    let arguments = (tile.a.view(), tile.b.view(), &tile.out);
    case.launch(wgmma_tile_tf32::<true>, 1, arguments)?;
    tile.expect(case)
}

#[case]
fn wgmma_tile_with_promotion(case: &mut Case) -> CaseResult {
    let tile = Tile::<E4m3, E4m3, f32>::new(case, 128);
    let arguments = (tile.a.view(), tile.b.view(), &tile.out);
    case.launch(wgmma_tile_promoted::<64>, 1, arguments)?;
    tile.expect(case)
}
