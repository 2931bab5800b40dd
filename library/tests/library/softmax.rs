//! Online softmax: its log of the sum of exponentials, and the merge of parts.

use tilekit::prelude::*;

use crate::launch;

const ROWS: usize = 8;
const BLOCK: usize = 64;

/// `lse[r]` of the scaled scores of row `r`, computed in two parts of alternate blocks that are merged; and `shares[r, c]`, the softmax.
#[kernel(warps = 4)]
fn merged(x: Ptr<f32>, lse: Ptr<f32>, sums: Ptr<f32>, cols: i32, log2_scale: f32) {
    let layout = Blocked::new([2, 1], [1, 32], [4, 1], [1, 0]);
    let of_rows = Slice::new(1, layout.clone());
    let row = arange(0..ROWS, of_rows.clone());
    let part = |first: usize| {
        let mut softmax = OnlineSoftmax::new(ROWS, log2_scale, of_rows.clone());
        let mut weighted = zeros::<f32>([ROWS], of_rows.clone());
        for block in range(first, cdiv(cols, BLOCK)).step(2) {
            let column = block * BLOCK + arange(0..BLOCK, Slice::new(0, layout.clone()));
            let column = column.expand_dims(0);
            let at = x.at(row.expand_dims(1) * cols + column).mask(column < cols);
            let (p, rescale) = softmax.add(at.other(f32::NEG_INFINITY).load());
            weighted = weighted * rescale + (p * column.cast::<f32>()).sum(1);
        }
        (softmax, weighted)
    };
    let (even, of_even) = part(0);
    let (odd, of_odd) = part(1);
    let (all, [scale_even, scale_odd]) = even.merge(odd);
    lse.at(row).store(all.log_sum_exp());
    let weighted = of_even * scale_even + of_odd * scale_odd;
    sums.at(row).store(weighted / all.sum());
}

#[test]
fn merged_parts_equal_the_softmax_of_the_whole_row() {
    let device = Device::emulator();
    // In the last one the first block is masked in every row, at a scale by which the least number of f32 overflows.
    for (cols, scale, masked) in [
        (1, 0.7, 0),
        (64, 0.7, 0),
        (65, 0.7, 0),
        (300, 0.7, 0),
        (300, 3.0, BLOCK),
    ] {
        let score = |i: usize| match i % cols {
            column if column < masked => f32::NEG_INFINITY,
            _ => ((i * 7919) % 1000) as f32 / 50.0 - 10.0,
        };
        let x: Vec<f32> = (0..ROWS * cols).map(score).collect();
        let input = Buffer::from_slice(&device, &x).expect("memory of the host");
        let [lse, sums] = [(); 2].map(|()| Buffer::<f32>::zeros(&device, ROWS).expect("memory"));
        let log2_scale = (scale * LOG2_E) as f32;
        let arguments = (&input, &lse, &sums, cols as i32, log2_scale);
        launch(&device, merged, grid(1u32), arguments).expect("it runs");
        let (lse, sums) = (
            lse.to_vec().expect("it has run"),
            sums.to_vec().expect("it has run"),
        );
        for row in 0..ROWS {
            let powers = x[row * cols..(row + 1) * cols].iter();
            let powers: Vec<f64> = powers.map(|x| (f64::from(*x) * scale).exp()).collect();
            let total: f64 = powers.iter().sum();
            let weighted = powers
                .iter()
                .enumerate()
                .map(|(c, p)| c as f64 * p)
                .sum::<f64>()
                / total;
            assert!(
                (f64::from(lse[row]) - total.ln()).abs() < 1e-4,
                "row {row} of {cols}"
            );
            let error = (f64::from(sums[row]) - weighted).abs();
            assert!(
                error <= 1e-4 * (1.0 + weighted),
                "row {row} of {cols}: {error}"
            );
        }
    }
}
