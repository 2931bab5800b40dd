//! A fused epilogue is an ordinary closure on the accumulator: here bias and gelu, or a scale and a residual. It adds no
//! memory traffic but that of its own operands, which are loaded during the mainloop: the warps that store a tile issue the
//! TMA loads of what the next one needs.

use tilekit::library::epilogue::gelu_of_twice;
use tilekit::prelude::*;

use crate::products::matmul_warp_specialized::matmul_warp_specialized;
use crate::products::product::{Product, product_then};

/// Consumer warpgroups, and the rows of each.
const GROUPS: usize = 2;
pub(crate) const ROWS: usize = 64;

/// Rows, columns and depth of a tile.
pub(crate) const BM: usize = GROUPS * ROWS;
pub(crate) const BN: usize = 256;
pub(crate) const BK: usize = 64;

fn sums() -> Wgmma {
    Wgmma::new([4, 1], [64, BN, 16])
}

/// What takes shared memory.
#[derive(Clone, Copy)]
pub struct Depth {
    /// Stages of the ring.
    stages: usize,
    /// Buffers of the epilogue.
    buffers: usize,
}

/// Warpgroups take turns with one epilogue buffer, which leaves room for a stage more.
pub(crate) const IN_TURNS: Depth = Depth {
    stages: 4,
    buffers: 1,
};

/// Each warpgroup has an epilogue buffer, into which an operand may be loaded during the mainloop.
const BUFFERS_OF_THEIR_OWN: Depth = Depth {
    stages: 3,
    buffers: GROUPS,
};

/// The part of a tile that a warpgroup makes.
#[derive(Clone, Copy)]
pub struct Part<T> {
    /// Which warpgroup's it is.
    pub group: usize,
    /// The parity of how many it has made.
    round: Scalar<i32>,
    /// Completes a phase when the fetched operand has been loaded.
    pub fetched: Mbarrier,
    epilogue: EpilogueStore<T>,
}

impl<T: Element> Part<T> {
    /// What the result will fill, once it is this part's turn. It may hold an operand until then.
    #[device]
    fn room(self) -> Smem<T> {
        self.epilogue.buffer(self.group, self.round) // mutate: equivalent(mbarrier.wait): who loads the operand has stored what was there, and who reads it waits for the operand
    }
}

/// `C = finish(A · Bᵀ)`, warp-specialized. `fetch` issues the TMA loads that `finish` needs for the part that begins at some
/// row and column, and `finish` gets the accumulator.
#[device]
pub(crate) fn multiply_then<T: Float + WgmmaOperand<T, f32>>(
    [a, b, c]: [TensorMap<T>; 3],
    k: Scalar<i32>,
    tiles: impl TileScheduler,
    Depth { stages, buffers }: Depth,
    fetch: impl Fn(Part<T>, [Scalar<i32>; 2]),
    finish: impl Fn(Tensor<f32>, Part<T>) -> Tensor<T>,
) {
    let pipeline = Pipeline::tma((a, b), stages, Consumers::warpgroups(GROUPS));
    let turns = Turns::of_warpgroups(GROUPS).with_buffers(buffers);
    let epilogue = EpilogueStore::alloc(c, turns);
    let fetched = Mbarriers::alloc(GROUPS, Arrivals(1));
    let steps = steps_along(k, BK);

    let part = |group: usize, round| Part {
        group,
        round,
        fetched: fetched.index(group),
        epilogue,
    };

    let multiply = |group: usize| {
        let rows = group * ROWS..(group + 1) * ROWS;
        let (mut at, mut turn) = (pipeline.start(), epilogue.start());
        for _ in tiles.of_program() {
            let acc = Accumulator::zeros([ROWS, BN], sums());
            let acc = pipeline.multiply(&mut at, range(0, steps), acc, rows.clone());
            fetched.index(group).wait(turn.parity()); // mutate: equivalent(mbarrier.wait): where `fetch` loads nothing there is nothing to wait for
            let result = finish(acc.wait_all(), part(group, turn.parity()));
            turn = epilogue.fill(group, turn, result); // mutate: equivalent(bar.sync, mbarrier.wait): the buffer is ready when the results of all warps that were in it have been stored; an operand that it holds came after that
        }
    };
    let store = |group: usize| {
        let mut turn = epilogue.start();
        for tile in tiles.of_program() {
            let [row, column] = tiles.place(tile);
            let at = [row * BM + group * ROWS, column * BN];
            fetch(part(group, turn.parity()), at);
            turn = epilogue.store(group, turn, c, at);
        }
    };
    let copy = || pipeline.load_tiles(tiles, steps, (a, b));
    warp_specialize()
        .registers(232)
        .main(|| multiply(0))
        .workers(1..GROUPS, Warps(4).registers(232), multiply)
        .worker(Warps(1).registers(40), copy)
        .workers(0..GROUPS, Warps(1).registers(40), store)
        .run();
}

/// `C[i, j] = gelu((A · Bᵀ)[i, j] + bias[j])`.
#[kernel(warps = 4, min_ctas_per_sm = 1, instances(<bf16>))]
pub fn matmul_bias_gelu<T: Float + WgmmaOperand<T, f32>>(
    #[block([BM, BK], Nvmma::B128)] a: TensorMap<T>,
    #[block([BN, BK], Nvmma::B128)] b: TensorMap<T>,
    #[block([ROWS, BN], Nvmma::B128)] c: TensorMap<T>,
    #[block([BN], Nvmma::PLAIN)] bias: TensorMap<f32>,
    m: i32,
    n: i32,
    k: i32,
) {
    let biases = Smem::<f32>::alloc([GROUPS, BN], bias.layout());
    let fetch = |part: Part<T>, [_, column]: [Scalar<i32>; 2]| {
        part.fetched.expect(bias.block_bytes());
        bias.load([column], biases.index(part.group), part.fetched);
    };
    let tiles = GroupedRows::new([m, n], [BM, BN], 16);
    multiply_then([a, b, c], k, tiles, IN_TURNS, fetch, |product, part| {
        let bias = biases.index(part.group).load(Slice::new(0, sums()));
        gelu_of_twice(product * 0.5 + bias.expand_dims(0) * 0.5).cast::<T>()
    });
}

/// `C[i, j] = scale · (A · Bᵀ)[i, j] + residual[i, j]`.
#[kernel(warps = 4, min_ctas_per_sm = 1, instances(<bf16>))]
pub fn matmul_scale_residual<T: Float + WgmmaOperand<T, f32>>(
    #[block([BM, BK], Nvmma::B128)] a: TensorMap<T>,
    #[block([BN, BK], Nvmma::B128)] b: TensorMap<T>,
    #[block([ROWS, BN], Nvmma::B128)] c: TensorMap<T>,
    #[block([ROWS, BN], Nvmma::B128)] residual: TensorMap<T>,
    scale: f32,
    m: i32,
    n: i32,
    k: i32,
) {
    // The residual is loaded into the buffer of the result.
    let depth = BUFFERS_OF_THEIR_OWN;
    let fetch = |part: Part<T>, at| {
        let room = part.room();
        part.fetched.expect(residual.block_bytes());
        residual.load(at, room, part.fetched);
    };
    let tiles = GroupedRows::new([m, n], [BM, BN], 16);
    multiply_then([a, b, c], k, tiles, depth, fetch, |product, part| {
        let residual = part.room().load(sums()).cast::<f32>(); // mutate: equivalent(bar.sync): each warp has waited for the residual, which came after all results that were there
        (product * scale + residual).cast::<T>()
    });
}

/// Has `bench` time the product alone beside the fused one.
fn beside_plain(case: &mut Case, p: &Product<bf16>) -> CaseResult {
    let plain = matmul_warp_specialized::<bf16, 256, 64, 4>;
    let any = Absolute(f64::INFINITY);
    case.rival("plain", any, plain, p.programs([BM, BN], 128), p.maps())
}

#[case(sizes(m = [256, 200, 128, 1], n = [512, 264, 256, 76_800], k = [128, 72, 712, 8]))]
fn matmul_bias_gelu_bf16(case: &mut Case) -> CaseResult {
    let bias = case.normal::<f32>("bias", [case.size("n")]);
    let launch = |case: &mut Case, p: &Product<bf16>| {
        let (a, b, c, m, n, k) = p.maps();
        let arguments = (a, b, c, bias.view(), m, n, k);
        beside_plain(case, p)?;
        case.launch(
            matmul_bias_gelu::<bf16>,
            p.programs([BM, BN], 128),
            arguments,
        )
    };
    let after = |[_, j]: [usize; 2], sum: f64| {
        let x = sum + f64::from(bias[j]);
        let inner = (2.0 / PI).sqrt() * (x + 0.044_715 * x.powi(3));
        0.5 * x * (1.0 + inner.tanh())
    };
    // The hardware's tanh is good to 2^-11 of the larger of x and 1.
    product_then::<bf16>(case, launch, after, 4e-3)
}

#[case(sizes(m = [256, 200, 128, 1], n = [512, 264, 256, 76_800], k = [128, 72, 712, 8]))]
fn matmul_scale_residual_bf16(case: &mut Case) -> CaseResult {
    let (m, n) = (case.size("m"), case.size("n"));
    let stride = n.next_multiple_of(8);
    let residual = case.normal::<bf16>("residual", [m, stride]);
    let launch = |case: &mut Case, p: &Product<bf16>| {
        let (a, b, c, rows, columns, depth) = p.maps();
        let residual = residual.view().with_shape([m, n]).with_strides([stride, 1]);
        let arguments = (a, b, c, residual, 0.5_f32, rows, columns, depth);
        beside_plain(case, p)?;
        case.launch(
            matmul_scale_residual::<bf16>,
            p.programs([BM, BN], 128),
            arguments,
        )
    };
    let after = |at: [usize; 2], sum: f64| 0.5 * sum + residual[at].to_f64();
    product_then::<bf16>(case, launch, after, 0.0)
}
