//! Which elements dropout drops: words of Philox 4x32-10 below a threshold. Attention and `training::dropout` count elements each in
//! its way.

use tilekit::prelude::*;

/// Words below this drop their elements: the rate in steps of 2^-32.
pub(crate) fn threshold(rate: f32) -> u32 {
    (f64::from(rate) * 2f64.powi(32)) as u32
}

/// What kept elements are multiplied by, on the host.
pub(crate) fn factor_on_host(threshold: u32) -> f64 {
    1.0 / (1.0 - f64::from(threshold) / 2f64.powi(32))
}

/// What kept elements are multiplied by.
#[device]
pub(crate) fn factor(threshold: Scalar<u32>) -> Scalar<f32> {
    1.0 / (1.0 - threshold.cast::<f32>() * (0.5f32).powi(32))
}

/// Philox 4x32-10 (Salmon and others, "Parallel random numbers: as easy as 1, 2, 3").
pub(crate) fn philox_on_host(seed: u64, mut counter: [u32; 4]) -> [u32; 4] {
    let mut key = [seed as u32, (seed >> 32) as u32];
    for _ in 0..10 {
        let [c0, c1, c2, c3] = counter;
        let [a, b] = [(c0, 0xd251_1f53_u64), (c2, 0xcd9e_8d57)].map(|(c, f)| u64::from(c) * f);
        counter = [
            (b >> 32) as u32 ^ c1 ^ key[0],
            b as u32,
            (a >> 32) as u32 ^ c3 ^ key[1],
            a as u32,
        ];
        key = [
            key[0].wrapping_add(0x9e37_79b9),
            key[1].wrapping_add(0xbb67_ae85),
        ];
    }
    counter
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_gives_the_known_answers() {
        let found = philox_on_host(0, [0; 4]);
        assert_eq!(found, [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        let found = philox_on_host(
            0x299f_31d0_a409_3822,
            [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
        );
        assert_eq!(found, [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]);
    }
}
