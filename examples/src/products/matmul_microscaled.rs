//! `C = A · Bᵀ` of microscaled operands (OCP MX 1.0): 32 elements along K share a scale, which is a power of two (e8m0). A is mxfp8 (e4m3); B is
//! mxfp4 (e2m1, two in a byte) or mxfp8. Hopper's tensor cores do not know these types: a warp takes them apart in registers, and multiplies them
//! with their scales as bf16, which holds both exactly (`mma_v2_scaled`).

use tilekit::prelude::*;

/// The tile of `C` of one program, and elements of K that it loads at a time.
const BM: usize = 64;
const BN: usize = 64;
const BK: usize = 64;
/// Elements along K that share a scale.
const GROUP: usize = 32;
/// e8m0 of the scale 1.
const ONE: u8 = 127;

/// Bytes `[ROWS, BYTES]` of rows of `stride` bytes, from `row` and byte `at` of each on; `other` where a row or its bytes have ended.
#[device]
fn load_bytes<const ROWS: usize, const BYTES: usize>(
    source: Ptr<u8>,
    [row, rows]: [Scalar<i32>; 2],
    [at, stride]: [Scalar<i32>; 2],
    other: u8,
) -> Tensor<u8> {
    let each = BYTES.min(16);
    let along = BYTES / each;
    let layout = Blocked::new([1, each], [32 / along, along], [4, 1], [1, 0]);
    let row = row + arange(0..ROWS, Slice::new(1, layout.clone())).expand_dims(1);
    let byte = at + arange(0..BYTES, Slice::new(0, layout)).expand_dims(0);
    let place = source.at(row * stride + byte);
    place
        .mask((row < rows) & (byte < stride))
        .other(other)
        .load()
}

/// A tile of `[BM, BN]` of `C[M, N]` a program. `a` is `[M, K]` codes of e4m3; `b` is `[N, K / 2]` bytes of two e2m1 if `FP4`, and `[N, K]` codes of
/// e4m3 else; the scales are `[M, K / 32]` and `[N, K / 32]` codes of e8m0. K is a multiple of 32.
#[kernel(warps = 4, instances(<true>, <false>))]
pub fn matmul_microscaled<const FP4: bool>(
    #[readonly] a: Ptr<u8>,
    #[readonly] a_scales: Ptr<u8>,
    #[readonly] b: Ptr<u8>,
    #[readonly] b_scales: Ptr<u8>,
    c: Ptr<bf16>,
    m: i32,
    n: i32,
    #[multiple_of(32)] k: i32,
) {
    let warps = Mma::new([2, 2], [16, 8]);
    let (left, right) = (
        DotOperand::new(0, warps.clone(), 2),
        DotOperand::new(1, warps.clone(), 2),
    );
    let [row, column] = [program_id(0) * BM, program_id(1) * BN];
    let groups = k / GROUP;
    let mut acc = zeros::<f32>([BM, BN], warps.clone());
    for step in range(0, cdiv(k, BK)) {
        let (at, group) = (step * BK, step * (BK / GROUP));
        let x = load_bytes::<BM, BK>(a, [row, m], [at, k], 0);
        let x = x.bitcast::<E4m3>().convert_layout(left.clone());
        let of_x = load_bytes::<BM, 2>(a_scales, [row, m], [group, groups], ONE);
        let of_x = of_x.bitcast::<E8m0>();
        let of_y = load_bytes::<BN, 2>(b_scales, [column, n], [group, groups], ONE);
        let of_y = of_y.bitcast::<E8m0>().permute([1, 0]);
        acc = if FP4 {
            let bytes = load_bytes::<BN, 32>(b, [column, n], [at / 2, k / 2], 0);
            let y = bytes.unpack_e2m1::<E2m1>().permute([1, 0]);
            mma_v2_scaled(x, of_x, y.convert_layout(right.clone()), of_y, acc)
        } else {
            let bytes = load_bytes::<BN, BK>(b, [column, n], [at, k], 0);
            let y = bytes.bitcast::<E4m3>().permute([1, 0]);
            mma_v2_scaled(x, of_x, y.convert_layout(right.clone()), of_y, acc)
        };
    }
    let out = Blocked::new([1, 8], [4, 8], [4, 1], [1, 0]);
    let row = row + arange(0..BM, Slice::new(1, out.clone())).expand_dims(1);
    let column = column + arange(0..BN, Slice::new(0, out.clone())).expand_dims(0);
    let place = c.at(row * n + column).mask((row < m) & (column < n));
    place.store(acc.cast::<bf16>().convert_layout(out));
}

/// A number from 0 to 60 for each place, without a pattern along rows or columns.
fn noise(place: usize, seed: u64) -> u64 {
    let mixed = (place as u64 ^ seed << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40
}

fn small(place: usize, seed: u64) -> f32 {
    (noise(place, seed) % 61) as f32 / 8.0 - 3.7
}

/// An operand: its codes in memory, those of its scales, and the value of each code.
struct MicroscaledOperand {
    codes: Input<u8>,
    scales: Input<u8>,
    depth: usize,
    is_fp4: bool,
}

impl MicroscaledOperand {
    fn new(
        case: &mut Case,
        name: &str,
        [rows, depth]: [usize; 2],
        is_fp4: bool,
    ) -> MicroscaledOperand {
        let seed = name.len() as u64 + u64::from(is_fp4);
        let codes = if is_fp4 {
            case.input(name, [rows, depth / 2], move |i| {
                let [low, high] = [2 * i, 2 * i + 1].map(|at| E2m1::from_f32(small(at, seed)));
                low.to_bits() | high.to_bits() << 4
            })
        } else {
            case.input(name, [rows, depth], move |i| {
                E4m3::from_f32(small(i, seed)).to_bits()
            })
        };
        let name = format!("{name}_scales");
        let scales = case.input(&name, [rows, depth / GROUP], move |i| {
            ONE - 3 + (noise(i, seed + 7) % 7) as u8
        });
        MicroscaledOperand {
            codes,
            scales,
            depth,
            is_fp4,
        }
    }

    /// A row, multiplied by its scales.
    fn row(&self, row: usize) -> Vec<f64> {
        let element = |at: usize| {
            let number = if self.is_fp4 {
                let byte = self.codes[[row, at / 2]];
                f64::from(E2m1::from_bits(byte >> (at % 2 * 4) & 15).to_f32())
            } else {
                f64::from(E4m3::from_bits(self.codes[[row, at]]).to_f32())
            };
            let scale = self.scales[[row, at / GROUP]];
            number * (f64::from(scale) - f64::from(ONE)).exp2()
        };
        (0..self.depth).map(element).collect()
    }
}

fn product<const FP4: bool>(case: &mut Case) -> CaseResult {
    let [m, n, k] = ["m", "n", "k"].map(|name| case.size(name));
    let a = MicroscaledOperand::new(case, "a", [m, k], false);
    let b = MicroscaledOperand::new(case, "weights", [n, k], FP4);
    let c = case.output::<bf16>("c", [m, n]);
    case.launch(
        matmul_microscaled::<FP4>,
        [m.div_ceil(BM), n.div_ceil(BN)],
        (
            &a.codes, &a.scales, &b.codes, &b.scales, &c, m as i32, n as i32, k as i32,
        ),
    )?;
    // Half a step of bf16; sums of numbers of a few hundreds in f32, most of which cancel.
    let tolerance = Close {
        relative: 4e-3,
        absolute: 0.02,
    };
    let want = || {
        let columns: Vec<Vec<f64>> = (0..n).map(|column| b.row(column)).collect();
        let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
        let of_row = |x: Vec<f64>| {
            columns
                .iter()
                .map(move |y| dot(&x, y))
                .collect::<Vec<f64>>()
        };
        (0..m)
            .flat_map(|row| of_row(a.row(row)))
            .collect::<Vec<f64>>()
    };
    case.expect_all(&c, want, tolerance)?;
    case.does_tensor_flops::<bf16>(2 * m * n * k);
    Ok(())
}

#[case(sizes(m = [100, 64, 1], n = [72, 64, 130], k = [160, 64, 96]))]
fn matmul_microscaled_mxfp8_mxfp4(case: &mut Case) -> CaseResult {
    product::<true>(case)
}

#[case(sizes(m = [100, 64, 1], n = [72, 64, 130], k = [160, 64, 96]))]
fn matmul_microscaled_mxfp8(case: &mut Case) -> CaseResult {
    product::<false>(case)
}
