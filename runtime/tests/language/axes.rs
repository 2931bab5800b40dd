//! Reductions over several dimensions and over all, and where the greatest and the least elements stand.

use tilekit::prelude::*;

fn solid() -> Blocked {
    Blocked::new([1, 1, 2], [2, 4, 4], [2, 2, 1], [2, 1, 0])
}

/// A tensor of 4 x 8 x 16, in row-major order.
#[kernel(warps = 4)]
fn of_solids(input: Ptr<i32>, out: Ptr<i32>) {
    let i = arange(0..4, Slice::new(1, Slice::new(2, solid())))
        .expand_dims(1)
        .expand_dims(2);
    let j = arange(0..8, Slice::new(0, Slice::new(2, solid())))
        .expand_dims(0)
        .expand_dims(2);
    let k = arange(0..16, Slice::new(0, Slice::new(1, solid())))
        .expand_dims(0)
        .expand_dims(1);
    let x = input.at((i * 8 + j) * 16 + k).load();
    let sums = x.sum((0, 2));
    out.at(arange(0..8, sums.layout())).store(sums);
    let least = x.argmin((2, 1));
    out.at(8 + arange(0..4, least.layout())).store(least);
    let odd = x.reduce((0, 1), |a, b| a ^ b);
    out.at(16 + arange(0..16, odd.layout())).store(odd);
    out.at(32).store(x.max(..).scalar());
    out.at(33).store(x.argmax(..).scalar());
    let (low, high) = reduce((x, x), .., |a, b| (a.0.minimum(b.0), a.1.maximum(b.1)));
    out.at(34).store(low.scalar());
    out.at(35).store(high.scalar());
    out.at(36).store(x.sum((2, 0, 1)).scalar());
}

#[test]
fn several_dimensions_and_all() {
    let scattered = |by: i32| (0..512).map(|i| i * by % 257 - 128).collect::<Vec<_>>();
    let flat = vec![7; 512];
    crate::check!(
        of_solids,
        [scattered(37), scattered(91), flat],
        |x: &[i32], out: &mut [i32]| {
            let at = |i: usize, j: usize, k: usize| x[(i * 8 + j) * 16 + k];
            let places =
                || (0..4).flat_map(|i| (0..8).flat_map(move |j| (0..16).map(move |k| (i, j, k))));
            for (i, j, k) in places() {
                out[j] += at(i, j, k);
                out[16 + k] ^= at(i, j, k);
            }
            for i in 0..4 {
                let plane = &x[i * 128..(i + 1) * 128];
                let least = plane.iter().min().unwrap();
                out[8 + i] = plane.iter().position(|v| v == least).unwrap() as i32;
            }
            let most = x.iter().max().unwrap();
            out[32] = *most;
            out[33] = x.iter().position(|v| v == most).unwrap() as i32;
            (out[34], out[35]) = (*x.iter().min().unwrap(), *most);
            out[36] = x.iter().sum();
        }
    );
}

/// Extents that no reshape merges, and one pass a dimension for them.
#[kernel(warps = 1)]
fn of_odd_extents(input: Ptr<i32>, out: Ptr<i32>) {
    let tile = Blocked::new([1, 1], [2, 16], [1, 1], [1, 0]);
    let row = arange(0..6, Slice::new(1, tile.clone())).expand_dims(1);
    let col = arange(0..48, Slice::new(0, tile)).expand_dims(0);
    let x = input.at(row * 48 + col).load();
    out.at(0).store(x.sum(..).scalar());
    out.at(1).store(x.argmax(..).scalar());
    out.at(2).store(x.argmin((0, 1)).scalar());
}

#[test]
fn odd_extents_are_reduced_over_all() {
    let numbers: Vec<i32> = (0..288).map(|i| i * 119 % 283).collect();
    crate::check!(
        of_odd_extents,
        [numbers, vec![-3; 288]],
        |x: &[i32], out: &mut [i32]| {
            let place = |of: &i32| x.iter().position(|v| v == of).unwrap() as i32;
            out[0] = x.iter().sum();
            out[1] = place(x.iter().max().unwrap());
            out[2] = place(x.iter().min().unwrap());
        }
    );
}

/// Where the greatest and the least stand in the whole, in each half and at each place of the halves.
#[kernel(warps = 2)]
fn places<T: Float>(input: Ptr<T>, out: Ptr<i32>) {
    let line = Blocked::new([2], [32], [2], [0]);
    let x = input.at(arange(0..64, line)).load();
    out.at(0).store(x.argmax(0).scalar());
    out.at(1).store(x.argmin(0).scalar());
    let halves = x.reshape([2, 32]);
    let (most, least) = (halves.argmax(1), halves.argmin(1));
    out.at(2 + arange(0..2, most.layout())).store(most);
    out.at(4 + arange(0..2, least.layout())).store(least);
    let of_two = halves.argmax(0);
    out.at(8 + arange(0..32, of_two.layout())).store(of_two);
}

/// The lowest place of the greatest number, NaN counting as negative infinity.
fn first_of_greatest(x: &[f64]) -> i32 {
    let number = |v: f64| if v.is_nan() { f64::NEG_INFINITY } else { v };
    let most = x
        .iter()
        .copied()
        .map(number)
        .fold(f64::NEG_INFINITY, f64::max);
    let is_most = |v: &f64| number(*v).total_cmp(&most).is_eq();
    x.iter().position(is_most).expect("one of them") as i32
}

fn places_on_host(x: &[f64], out: &mut [i32]) {
    let less = |x: &[f64]| first_of_greatest(&x.iter().map(|v| -v).collect::<Vec<_>>());
    (out[0], out[1]) = (first_of_greatest(x), less(x));
    for (half, part) in x.chunks(32).enumerate() {
        (out[2 + half], out[4 + half]) = (first_of_greatest(part), less(part));
    }
    for at in 0..32 {
        out[8 + at] = first_of_greatest(&[x[at], x[at + 32]]);
    }
}

#[test]
fn ties_go_to_the_lowest_place_and_nan_to_any_number() {
    let (nan, infinity) = (f64::NAN, f64::INFINITY);
    let steps: Vec<f64> = (0..64).map(|i| f64::from(i * 23 % 17 - 8)).collect();
    let with = |values: &[f64]| {
        let mut all = steps.clone();
        for (at, value) in values.iter().enumerate() {
            all[(at * 29 + 3) % 64] = *value;
        }
        all
    };
    let inputs = [
        steps.clone(),
        with(&[nan, nan, infinity, -infinity, infinity]),
        with(&[nan; 40]),
        vec![nan; 64],
        with(&[-infinity; 50]),
        (0..64)
            .map(|i| if i % 3 == 0 { 0.0 } else { -0.0 })
            .collect(),
        (0..64)
            .map(|i| if i < 20 { nan } else { -infinity })
            .collect(),
    ];
    macro_rules! check {
        ($($dtype:ident $of:expr;)*) => {$({
            let inputs = inputs.iter().map(|x| x.iter().map(|v| $of(*v)).collect::<Vec<$dtype>>());
            crate::check!(places::<$dtype>, inputs, |x: &[$dtype], out: &mut [i32]| {
                let x: Vec<f64> = x.iter().map(|v| f64::from(*v)).collect();
                places_on_host(&x, out);
            });
        })*};
    }
    check! {
        f32 |v: f64| v as f32;
        f64 |v: f64| v;
        f16 f16::from_f64;
        bf16 bf16::from_f64;
    }
}
