//! 2/pi in pieces, for the reduction of large angles.

/// 2/pi, 24 bits at a time, the first after the binary point first (computed with Machin's formula).
const TWO_OVER_PI: [u32; 52] = [
    0x00a2_f983,
    0x006e_4e44,
    0x0015_29fc,
    0x0027_57d1,
    0x00f5_34dd,
    0x00c0_db62,
    0x0095_993c,
    0x0043_9041,
    0x00fe_5163,
    0x00ab_debb,
    0x00c5_61b7,
    0x0024_6e3a,
    0x0042_4dd2,
    0x00e0_0649,
    0x002e_ea09,
    0x00d1_921c,
    0x00fe_1deb,
    0x001c_b129,
    0x00a7_3ee8,
    0x0082_35f5,
    0x002e_bb44,
    0x0084_e99c,
    0x0070_26b4,
    0x005f_7e41,
    0x0039_91d6,
    0x0039_8353,
    0x0039_f49c,
    0x0084_5f8b,
    0x00bd_f928,
    0x003b_1ff8,
    0x0097_ffde,
    0x0005_980f,
    0x00ef_2f11,
    0x008b_5a0a,
    0x006d_1f6d,
    0x0036_7ecf,
    0x0027_cb09,
    0x00b7_4f46,
    0x003f_669e,
    0x005f_ea2d,
    0x0075_27ba,
    0x00c7_ebe5,
    0x00f1_7b3d,
    0x0007_39f7,
    0x008a_5292,
    0x00ea_6bfb,
    0x005f_b11f,
    0x008d_5d08,
    0x0056_0330,
    0x0046_fc7b,
    0x006b_abf0,
    0x00cf_bc20,
];

/// The number of pieces: enough for every f64.
pub(super) const TWO_OVER_PI_CHUNKS: usize = TWO_OVER_PI.len();

/// Piece `at` in its place: a number of 24 bits times a power of two.
pub(super) fn chunk(at: usize) -> f64 {
    chunk_times(at, 0)
}

/// The same times `2^exponent`, for the last pieces are smaller than any f64.
pub(super) fn chunk_times(at: usize, exponent: i32) -> f64 {
    let exponent = exponent - 24 * (at as i32 + 1);
    // In two steps: one power of two alone could be too small.
    let first = exponent / 2;
    f64::from(TWO_OVER_PI[at]) * 2_f64.powi(first) * 2_f64.powi(exponent - first)
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "the pieces are exact")]
mod tests {
    use super::*;

    #[test]
    fn the_pieces_make_two_over_pi() {
        let sum: f64 = (0..TWO_OVER_PI_CHUNKS).rev().map(chunk).sum();
        assert_eq!(sum.to_bits(), std::f64::consts::FRAC_2_PI.to_bits());
    }

    #[test]
    fn scaled_pieces_are_exact_to_the_last() {
        for (at, &piece) in TWO_OVER_PI.iter().enumerate() {
            let scaled = chunk_times(at, 200);
            let back = scaled * 2_f64.powi(12 * (at as i32 + 1) - 100);
            let whole = back * 2_f64.powi(12 * (at as i32 + 1) - 100);
            assert_eq!(whole, f64::from(piece), "piece {at}");
        }
    }
}
