//! Cases of packing, against the places that the format gives.

use std::sync::LazyLock;

use tilekit::prelude::*;

use super::cases::format_of;
use super::decode::Unquantised;
use super::format::{STEP, STRIP, WeightFormat, place_of};
use super::pack::{pack_codes, pack_scales};

#[case(sizes(n = [64, 200, 1, 72, 136], k = [128, 296, 2, 200, 37], values = [0, 1, 2, 3, 3], group = [0, 0, 0, 0, 0]))]
fn weight_only_pack_codes(case: &mut Case) -> CaseResult {
    let [n, k] = ["n", "k"].map(|name| case.size(name));
    let format = format_of(case);
    let values = format.values;
    let in_byte = 8 / values.bits();
    let weights = case.integers::<u8>("weights", [n, k / in_byte], 0..256);
    let zeros = case.integers::<u8>("of_rows", [n, 3], 0..16);
    let words = case.output::<u32>("words", [format.words([n, k])]);
    let row = (k / in_byte) as i64;
    let arguments = (&weights, row, 1, &zeros, 3, &words, n as i32, k as i32);
    let grid = WeightFormat::blocks([n, k]);
    case.launch(fixed(pack_codes, values), grid, arguments)?;
    // Cases are listed for each command: only one that runs pays for its reference.
    let want = LazyLock::new(|| {
        let mut want = vec![0_u32; format.words([n, k])];
        for row in 0..n.next_multiple_of(STRIP) {
            let zero = if row < n { zeros[[row, 0]] } else { 0 };
            for at in 0..k.next_multiple_of(STEP) {
                let (word, bit) = place_of(values, [row, at], k);
                let code = if row < n && at < k {
                    weights[[row, at / in_byte]] >> (at % in_byte * values.bits())
                } else {
                    values.nothing(zero)
                };
                let all = (1 << values.bits()) - 1;
                want[word] |= (u32::from(code) & all) << bit;
            }
        }
        want
    });
    case.expect(&words, |[at]: [usize; 1]| f64::from(want[at]), Exactly)
}

fn scales<T: Unquantised>(case: &mut Case) -> CaseResult {
    let [n, k] = ["n", "k"].map(|name| case.size(name));
    let format = format_of(case);
    let has_zeros = format.values.has_zeros();
    let groups = format.group.count(k);
    let scales = case.normal::<T>("scales", [n, groups]);
    let zeros = case.integers::<u8>("of_groups", [n, groups], 0..16);
    let packed = case.output::<T>("packed", [format.scales([n, k])]);
    let step = groups as i64;
    case.launch(
        fixed(pack_scales::<T>, has_zeros),
        [format.groups(k), n.div_ceil(STRIP)],
        (
            &scales,
            step,
            1,
            &zeros,
            step,
            1,
            &packed,
            n as i32,
            groups as i32,
        ),
    )?;
    let want = LazyLock::new(|| {
        let mut want = vec![0.0; format.scales([n, k])];
        if has_zeros {
            let blocks = want.chunks_mut(STRIP).skip(1).step_by(2);
            blocks.for_each(|block| block.fill(f64::from(T::BASE)));
        }
        for row in 0..n {
            for group in 0..groups {
                let at = format.scale_place([row, group], k);
                want[at] = scales[[row, group]].number().to_f64();
                if has_zeros {
                    want[at + STRIP] += f64::from(zeros[[row, group]]);
                }
            }
        }
        want
    });
    case.expect(&packed, |[at]: [usize; 1]| want[at], Exactly)
}

#[case(sizes(n = [64, 200, 1, 72], k = [128, 288, 64, 50], group = [128, 32, 64, 0], values = [0, 1, 0, 1]))]
fn weight_only_pack_scales_bf16(case: &mut Case) -> CaseResult {
    scales::<bf16>(case)
}

#[case(sizes(n = [72], k = [288], group = [32], values = [1]))]
fn weight_only_pack_scales_f16(case: &mut Case) -> CaseResult {
    scales::<f16>(case)
}
