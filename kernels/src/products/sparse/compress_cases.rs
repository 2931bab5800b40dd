//! Cases of compressing, against what the host compresses.

use std::sync::LazyLock;

use tilekit::prelude::*;

use super::compress::{CompressForm, NONE_REFUSED, sparse_compress};
use super::layout::{BLOCK, STRIP, blocks, kept_pitch, numbers};
use super::{HostSparse, Pruning, SparseOperand};

/// Of numbers from -2 to 2 many are equal in magnitude, and many are zeros.
fn compress<T: SparseOperand>(case: &mut Case, pruning: Pruning) -> CaseResult {
    let shape @ [m, k] = ["m", "k"].map(|name| case.size(name));
    let axis = case.size("axis");
    let (shape_of, steps) = if axis == 1 {
        ([m, k], [k, 1])
    } else {
        ([k, m], [1, m])
    };
    let dense = case.integers::<T>("dense", shape_of, -2..3);
    let element = |i: usize, j: usize| dense[if axis == 1 { [i, j] } else { [j, i] }];
    let form = CompressForm {
        pruning,
        axis: Some(axis),
    };
    let kept = case.output::<T>("kept", [m, kept_pitch::<T>(k)]);
    let places = case.output::<u16>("places", [numbers::<T>(shape)]);
    let grid @ [across, down] = [blocks::<T>(k), m.div_ceil(STRIP)];
    let refused = case.output::<i64>("refused", [down, across]);
    case.launch(
        fixed(sparse_compress::<T>, form),
        grid,
        (
            &dense,
            steps[0] as i64,
            steps[1] as i64,
            &kept,
            kept_pitch::<T>(k) as i32,
            &places,
            &refused,
            m as i32,
            k as i32,
        ),
    )?;
    // Cases are listed for each command: only one that runs pays for its reference.
    let want = LazyLock::new(|| {
        let elements: Vec<T> = (0..m * k).map(|at| element(at / k, at % k)).collect();
        let want = HostSparse::compress(&elements, shape, Pruning::LargestTwo);
        want.expect("the shape is that of the elements")
    });
    let pitch = kept_pitch::<T>(k);
    let number = |[i, j]: [usize; 2]| want.kept[i * pitch + j].number().to_f64();
    case.expect(&kept, number, Exactly)?;
    let place = |[at]: [usize; 1]| f64::from(want.places[at]);
    case.expect(&places, place, Exactly)?;
    if pruning == Pruning::LargestTwo {
        return Ok(());
    }
    let first = |[strip, block]: [usize; 2]| {
        let rows = strip * STRIP..m.min((strip + 1) * STRIP);
        let columns = (block * BLOCK..k.min((block + 1) * BLOCK)).step_by(4);
        let fours = rows.flat_map(|row| columns.clone().map(move |first| (row, first)));
        let is_refused = |&(row, first): &(usize, usize)| {
            let four = first..k.min(first + 4);
            four.filter(|&j| element(row, j).magnitude() != 0).count() > 2
        };
        let first = fours.into_iter().find(is_refused);
        first.map_or(NONE_REFUSED, |(row, first)| (row << 32 | first) as i64)
    };
    case.expect_all(
        &refused,
        || {
            (0..down * across)
                .map(|at| first([at / across, at % across]))
                .collect()
        },
        Exactly,
    )
}

macro_rules! of_types {
    ($($name:ident: $element:ty, $pruning:ident;)*) => {$(
        #[case(sizes(m = [64, 130, 1, 72], k = [64, 200, 3, 137], axis = [1, 0, 1, 1]))]
        fn $name(case: &mut Case) -> CaseResult {
            compress::<$element>(case, Pruning::$pruning)
        }
    )*};
}

of_types! {
    sparse_compress_bf16: bf16, LargestTwo;
    sparse_compress_f16: f16, Refuse;
    sparse_compress_e4m3: E4m3, Refuse;
    sparse_compress_e5m2: E5m2, LargestTwo;
    sparse_compress_i8: i8, Refuse;
}
