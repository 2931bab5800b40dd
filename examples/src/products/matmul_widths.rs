//! Tiles of any width: an instruction of the tensor cores has 8 to 256 columns, in steps of 8, and so may a tile. The width that leaves the fewest
//! programs without work in the last wave is seldom a power of two: 1056 columns are six tiles of 176, and five of 256 with a fifth of their work wasted.

use tilekit::prelude::*;

use crate::products::product::{Product, product};

const GROUPS: usize = 2;
const ROWS: usize = 64;
const BM: usize = GROUPS * ROWS;
const BK: usize = 64;

/// The swizzle of rows of `columns` elements of 16 bits: the widest that a row is a whole number of.
fn swizzle(columns: usize) -> Nvmma {
    match columns * 2 % 128 {
        0 => Nvmma::B128.of(16),
        64 => Nvmma::B64.of(16),
        _ => Nvmma::B32.of(16),
    }
}

/// A tile of `[BM, BN]` of `C[M, N] = A[M, K] · B[N, K]ᵀ` per program.
#[kernel(warps = 4, min_ctas_per_sm = 1, instances(<80, 4>, <112, 4>, <160, 4>, <176, 4>, <192, 4>))]
pub fn matmul_widths<const BN: usize, const STAGES: usize>(
    #[block([BM, BK], Nvmma::B128)] a: TensorMap<bf16>,
    #[block([BN, BK], Nvmma::B128)] b: TensorMap<bf16>,
    #[block([ROWS, BN], swizzle(BN))] c: TensorMap<bf16>,
    k: i32,
) {
    let pipeline = Pipeline::tma((a, b), STAGES, Consumers::warpgroups(GROUPS));
    let staging = [(); GROUPS].map(|()| Smem::<bf16>::alloc(c.block(), c.layout()));
    let (row, column) = (program_id(0) * BM, program_id(1) * BN);
    let steps = steps_along(k, BK);

    let multiply = |group: usize| {
        let rows = group * ROWS..(group + 1) * ROWS;
        let acc = Accumulator::<f32>::zeros([ROWS, BN], Wgmma::new([4, 1], [64, BN, 16]));
        let acc = pipeline.multiply(&mut pipeline.start(), range(0, steps), acc, rows);
        staging[group].store(acc.wait_all().cast::<bf16>());
        c.store([row + group * ROWS, column], staging[group]);
        tma_store_wait_read(0);
    };
    let copy = || {
        let place = [program_id(0), program_id(1)];
        pipeline.load_operands(&mut pipeline.start(), range(0, steps), (a, b), place);
    };
    warp_specialize()
        .main(|| multiply(0))
        .workers(1..GROUPS, Warps(4), multiply)
        .worker(Warps(1).registers(40), copy)
        .run();
}

fn matmul<const BN: usize>(case: &mut Case) -> CaseResult {
    product::<bf16>(case, |case, p: &Product<bf16>| {
        let arguments = (p.a_map(), p.b_map(), p.c_map(), p.k());
        case.launch(matmul_widths::<BN, 4>, p.grid([BM, BN]), arguments)
    })
}

macro_rules! widths {
    ($($name:ident: $width:literal, $sizes:expr, $ragged:expr;)*) => {$(
        #[case(sizes(m = [256, 200, 1], n = [$sizes, $ragged, 1], k = [712, 72, 1]))]
        fn $name(case: &mut Case) -> CaseResult {
            matmul::<$width>(case)
        }
    )*};
}

widths! {
    matmul_of_80_columns: 80, 320, 171;
    matmul_of_112_columns: 112, 224, 235;
    matmul_of_160_columns: 160, 320, 168;
    matmul_of_176_columns: 176, 352, 363;
    matmul_of_192_columns: 192, 384, 392;
}
