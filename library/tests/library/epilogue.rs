//! Epilogue buffers of groups that share them, over several rounds.

use tilekit::prelude::*;

use crate::{launch, mistakes};

const GROUPS: usize = 3;
const ROWS: usize = 16;
const COLUMNS: usize = 64;

/// Tile `[round, group]` of `out` is filled with `round * GROUPS + group`.
#[kernel(warps = 4)]
fn rounds_of_tiles<const BUFFERS: usize>(
    #[block([ROWS, COLUMNS], Nvmma::PLAIN)] out: TensorMap<i32>,
    rounds: i32,
) {
    let turns = Turns::of_warpgroups(GROUPS).with_buffers(BUFFERS);
    let epilogue = EpilogueStore::alloc(out, turns);
    let fill = |group: usize| {
        let layout = Blocked::new([1, 4], [2, 16], [4, 1], [1, 0]);
        let mut turn = epilogue.start();
        for round in range(0, rounds) {
            let tile = full([ROWS, COLUMNS], round * GROUPS + group, layout.clone());
            turn = epilogue.fill(group, turn, tile);
        }
    };
    let store = |group: usize| {
        let mut turn = epilogue.start();
        for round in range(0, rounds) {
            let row = (round * GROUPS + group) * ROWS;
            turn = epilogue.store(group, turn, out, [row, scalar(0)]);
        }
    };
    warp_specialize()
        .main(|| fill(0))
        .workers(1..GROUPS, Warps(4), fill)
        .workers(0..GROUPS, Warps(1), store)
        .run();
}

#[test]
fn groups_that_share_buffers_store_their_own_tiles() {
    let device = Device::emulator();
    for rounds in [1, 2, 5] {
        let tiles = rounds as usize * GROUPS;
        let out =
            Buffer::<i32>::zeros(&device, tiles * ROWS * COLUMNS).expect("memory of the host");
        let expected: Vec<i32> = (0..tiles as i32)
            .flat_map(|tile| [tile; ROWS * COLUMNS])
            .collect();
        let view = || out.view([tiles * ROWS, COLUMNS]);
        launch(&device, rounds_of_tiles::<1>, grid(1u32), (view(), rounds)).expect("in turns");
        assert!(out.to_vec().expect("it has run") == expected);
        out.fill_bytes(0).expect("memory of the host");
        launch(&device, rounds_of_tiles::<3>, grid(1u32), (view(), rounds)).expect("own buffers");
        assert!(out.to_vec().expect("it has run") == expected);
    }
}

#[test]
fn buffers_that_do_not_divide_the_groups_are_refused() {
    let found = mistakes(rounds_of_tiles::<2>);
    assert!(
        found.contains("expected a divisor of the groups"),
        "{found}"
    );
}

/// Each activation of `x · scale[row] + bias[column]`, for the first `rows` and `columns` of 16 by 32.
#[kernel(warps = 4)]
fn activations(
    x: Ptr<f32>,
    scale: Ptr<f16>,
    bias: Ptr<f32>,
    out: Ptr<f32>,
    rows: i32,
    columns: i32,
) {
    use tilekit::library::epilogue::{gelu, gelu_erf, relu, silu};
    let layout = Blocked::new([1, 1], [1, 32], [4, 1], [1, 0]);
    let row = rows_of(layout.clone(), scalar(0), 16);
    let column = columns_of(layout, scalar(0), 32);
    let at = row * 32 + column;
    let scaled = x.at(at).load() * load_along(scale, row, rows);
    let x = scaled + load_along(bias, column, columns);
    for (number, y) in [relu(x), silu(x), gelu(x), gelu_erf(x)]
        .into_iter()
        .enumerate()
    {
        out.at(at + number * 512).store(y);
    }
}

#[test]
fn activations_of_scaled_and_biased_results() {
    let device = Device::emulator();
    let x: Vec<f32> = (0..512).map(|i| (i as f32 - 256.0) / 40.0).collect();
    let scale: Vec<f16> = (0..16)
        .map(|i| f16::from_f32(0.5 + i as f32 / 16.0))
        .collect();
    let bias: Vec<f32> = (0..32).map(|i| (i % 5) as f32 - 2.0).collect();
    let (rows, columns) = (11, 29);
    let input = Buffer::from_slice(&device, &x).expect("memory of the host");
    let scales = Buffer::from_slice(&device, &scale[..rows]).expect("memory of the host");
    let biases = Buffer::from_slice(&device, &bias[..columns]).expect("memory of the host");
    let out = Buffer::<f32>::zeros(&device, 4 * 512).expect("memory of the host");
    let arguments = (&input, &scales, &biases, &out, rows as i32, columns as i32);
    launch(&device, activations, grid(1u32), arguments).expect("it runs");
    let out = out.to_vec().expect("it has run");
    for at in 0..512 {
        let (row, column) = (at / 32, at % 32);
        let scale = if row < rows { scale[row].to_f64() } else { 0.0 };
        let bias = if column < columns {
            f64::from(bias[column])
        } else {
            0.0
        };
        let x = f64::from(x[at]) * scale + bias;
        let inner = (2.0 / PI).sqrt() * (x + 0.044_715 * x.powi(3));
        // Both forms of gelu are within 5e-4 of each other, and the hardware's tanh has 11 bits.
        let gelu = 0.5 * x * (1.0 + inner.tanh());
        let expected = [
            (x.max(0.0), 1e-5),
            (x / (1.0 + (-x).exp()), 1e-5),
            (gelu, 4e-3),
            (gelu, 1e-3),
        ];
        for (number, (expected, tolerance)) in expected.into_iter().enumerate() {
            let error = (f64::from(out[number * 512 + at]) - expected).abs();
            assert!(
                error <= tolerance * (1.0 + x.abs()),
                "{number} of {x}: off by {error}"
            );
        }
    }
}
