//! A row that the CTAs of a cluster split, ordered, looked up and counted as one: the layout says which CTA owns which
//! element, and nothing else names the cluster.

use tilekit::prelude::*;

use crate::rows::top_k::expect_largest;

/// CTAs of a cluster.
const CTAS: usize = 4;

/// Elements of a row.
const COLS: usize = 4096;

/// The largest that are kept.
const K: usize = 32;

fn line() -> Blocked {
    Blocked::new([4], [32], [4], [0]).split_over_ctas([CTAS])
}

/// `values[r, :]` are the `K` largest of `x[r, :]` from the largest down, and `places[r, :]` their columns; a cluster for each
/// row.
#[kernel(warps = 4, cluster = CTAS)]
pub fn cluster_top_k(x: Ptr<f32>, values: Ptr<f32>, places: Ptr<i32>) {
    let row = cluster_id(0);
    let (largest, place) = x
        .at(row * COLS + arange(0..COLS, line()))
        .load()
        .top_k(K, 0);
    let to = row * K + arange(0..K, largest.layout());
    values.at(to).store(largest);
    places.at(to).store(place);
}

/// `out[r, c] = x[r, order[r, c]]`.
#[kernel(warps = 4, cluster = CTAS)]
pub fn cluster_gather(x: Ptr<f32>, order: Ptr<i32>, out: Ptr<f32>) {
    let at = cluster_id(0) * COLS + arange(0..COLS, line());
    let found = x.at(at).load().gather(order.at(at).load(), 0);
    out.at(at).store(found);
}

/// Where the CTAs of a cluster have the bins: all of them, or each its part.
fn counters(is_split: bool) -> Blocked {
    let bins = Blocked::new([1], [32], [4], [0]);
    if is_split {
        bins.split_over_ctas([CTAS])
    } else {
        bins.with_ctas([[0], [0]])
    }
}

/// `out[r, b]` counts the elements of `x[r, :]` that are `b`.
#[kernel(warps = 4, cluster = CTAS)]
pub fn cluster_histogram<const BINS: usize, const SPLIT: bool>(x: Ptr<i32>, out: Ptr<i32>) {
    let row = cluster_id(0);
    let numbers = x.at(row * COLS + arange(0..COLS, line())).load();
    let bins = counters(SPLIT);
    let counts = numbers.histogram(BINS, bins.clone());
    out.at(row * BINS + arange(0..BINS, bins)).store(counts);
}

#[case(sizes(rows = [1, 5]))]
fn cluster_top_k_case(case: &mut Case) -> CaseResult {
    let rows = case.size("rows");
    // Whole numbers, of which many are equal.
    let x = case.integers::<f32>("x", [rows, COLS], -500..500);
    let values = case.output::<f32>("values", [rows, K]);
    let places = case.output::<i32>("places", [rows, K]);
    case.launch(cluster_top_k, grid(rows * CTAS), (&x, &values, &places))?;
    expect_largest(case, (&x, COLS), &values, &places)?;
    case.moves_bytes(4 * rows * (COLS + 2 * K));
    Ok(())
}

#[case(sizes(rows = [1, 5]))]
fn cluster_gather_case(case: &mut Case) -> CaseResult {
    let rows = case.size("rows");
    let x = case.normal::<f32>("x", [rows, COLS]);
    let order = case.integers::<i32>("order", [rows, COLS], 0..COLS as i64);
    let out = case.output::<f32>("out", [rows, COLS]);
    case.launch(cluster_gather, grid(rows * CTAS), (&x, &order, &out))?;
    let found = |[r, c]: [usize; 2]| f64::from(x[[r, order[[r, c]] as usize]]);
    case.expect(&out, found, Exactly)?;
    case.moves_bytes(12 * rows * COLS);
    Ok(())
}

#[case(sizes(rows = [1, 5]))]
fn cluster_histogram_case(case: &mut Case) -> CaseResult {
    const BINS: usize = 128;
    let rows = case.size("rows");
    let x = case.integers::<i32>("x", [rows, COLS], -3..BINS as i64 + 3);
    let out = case.output::<i32>("out", [rows, BINS]);
    let split = case.output::<i32>("split", [rows, BINS]);
    let whole = cluster_histogram::<BINS, false>;
    case.launch(whole, grid(rows * CTAS), (&x, &out))?;
    let parts = cluster_histogram::<BINS, true>;
    case.launch(parts, grid(rows * CTAS), (&x, &split))?;
    let count =
        |[r, b]: [usize; 2]| -> i64 { (0..COLS).filter(|&c| x[[r, c]] == b as i32).count() as i64 };
    case.expect(&out, count, Exactly)?;
    case.expect(&split, count, Exactly)?;
    case.moves_bytes(8 * rows * (COLS + BINS));
    Ok(())
}
