//! Scans, sorts, gathers, histograms and atomics that cannot be.

use tilekit::prelude::*;

use crate::check;

fn line() -> Blocked {
    Blocked::new([1], [32], [4], [0])
}

fn grid_layout() -> Blocked {
    Blocked::new([1, 4], [4, 8], [4, 1], [1, 0])
}

#[kernel]
fn scan_missing_axis(x: Ptr<f32>) {
    let at = arange(0..128, line());
    let sums = x.at(at).load().cumsum(1);
    x.at(at).store(sums);
}

#[test]
fn a_scan_along_a_missing_axis_is_refused() {
    check("scan_missing_axis", scan_missing_axis.trace());
}

#[kernel]
fn scan_of_two_shapes(x: Ptr<f32>) {
    let long = x.at(arange(0..256, line())).load();
    let short = x.at(arange(0..128, line())).load();
    let (sums, _) = scan((long, short), 0, |a, b| (a.0 + b.0, a.1 * b.1));
    x.at(arange(0..256, line())).store(sums);
}

#[test]
fn tensors_of_two_lengths_are_scanned_together() {
    check("scan_of_two_shapes", scan_of_two_shapes.trace());
}

#[kernel]
fn scan_that_loads(x: Ptr<f32>) {
    let at = arange(0..128, line());
    let sums = x.at(at).load().scan(0, |a, b| a + b * x.load());
    x.at(at).store(sums);
}

#[test]
fn a_combine_function_of_a_scan_loads() {
    check("scan_that_loads", scan_that_loads.trace());
}

#[kernel]
fn gather_shape(x: Ptr<f32>) {
    let matrix = zeros::<f32>([16, 32], grid_layout());
    let rows = zeros::<i32>([8, 4], grid_layout());
    let found = matrix.gather(rows, 1);
    x.store(found.sum(0).sum(0).scalar());
}

#[test]
fn indices_of_a_gather_have_another_number_of_rows() {
    check("gather_shape", gather_shape.trace());
}

#[kernel]
fn gather_missing_axis(x: Ptr<f32>) {
    let at = arange(0..128, line());
    let found = x.at(at).load().gather(at, 2);
    x.at(at).store(found);
}

#[test]
fn a_gather_along_a_missing_axis_is_refused() {
    check("gather_missing_axis", gather_missing_axis.trace());
}

#[kernel]
fn histogram_of_a_matrix(x: Ptr<i32>) {
    let counts = zeros::<i32>([16, 32], grid_layout()).histogram(64, line());
    x.at(arange(0..64, line())).store(counts);
}

#[test]
fn a_histogram_wants_a_vector() {
    check("histogram_of_a_matrix", histogram_of_a_matrix.trace());
}

#[kernel]
fn histogram_of_odd_bins(x: Ptr<i32>) {
    let counts = x.at(arange(0..128, line())).load().histogram(100, line());
    x.at(arange(0..128, line())).store(counts);
}

#[test]
fn a_histogram_has_a_power_of_two_of_bins() {
    check("histogram_of_odd_bins", histogram_of_odd_bins.trace());
}

#[kernel]
fn top_k_of_three(x: Ptr<f32>) {
    let at = arange(0..128, line());
    let (largest, _) = x.at(at).load().top_k(3, 0);
    x.store(largest.max(0).scalar());
}

#[test]
fn a_sort_keeps_a_power_of_two() {
    check("top_k_of_three", top_k_of_three.trace());
}

#[kernel]
fn atomic_of_bytes(x: Ptr<i8>) {
    x.at(arange(0..128, line())).atomic_add(1);
}

#[test]
fn an_atomic_on_bytes_is_refused() {
    check("atomic_of_bytes", atomic_of_bytes.trace());
}

#[kernel]
fn load_that_releases(flag: Ptr<i32>) {
    let seen = flag.at(0).release().atomic_load();
    flag.at(1).store(seen);
}

#[test]
fn an_atomic_load_releases() {
    check("load_that_releases", load_that_releases.trace());
}

#[kernel]
fn store_that_acquires(flag: Ptr<i32>) {
    flag.at(0).acquire().scope(Scope::Cta).atomic_store(1);
}

#[test]
fn an_atomic_store_acquires() {
    check("store_that_acquires", store_that_acquires.trace());
}

#[kernel]
fn plain_load_with_scope(flag: Ptr<i32>) {
    let seen = flag.at(0).scope(Scope::Sys).load();
    flag.at(1).store(seen);
}

#[test]
fn a_plain_load_has_a_scope() {
    check("plain_load_with_scope", plain_load_with_scope.trace());
}

#[kernel]
fn atomic_with_other(x: Ptr<i32>, n: i32) {
    let at = arange(0..128, line());
    let old = x.at(at).mask(at < n).other(0).atomic_add(1).old();
    x.at(at).store(old);
}

#[test]
fn an_atomic_with_other_is_refused() {
    check("atomic_with_other", atomic_with_other.trace());
}

#[kernel]
fn atomic_mask_shape(x: Ptr<i32>, n: i32) {
    let inside = arange(0..64, line()) < n;
    x.at(arange(0..128, line())).mask(inside).atomic_max(n);
}

#[test]
fn the_mask_of_an_atomic_has_another_length() {
    check("atomic_mask_shape", atomic_mask_shape.trace());
}

#[kernel(cluster = [2, 1, 1])]
fn gather_operands_split_differently(x: Ptr<i32>) {
    let rows = Blocked::new([1, 1], [1, 32], [4, 1], [1, 0]).with_ctas([[1, 0]]);
    let columns = Blocked::new([1, 1], [1, 32], [4, 1], [1, 0]).with_ctas([[0, 1]]);
    let found = zeros::<i32>([16, 16], columns).gather(zeros::<i32>([16, 16], rows), 1);
    x.store(found.sum(1).sum(0).scalar());
}

#[test]
fn gather_operands_split_differently_are_refused() {
    check(
        "gather_operands_split_differently",
        gather_operands_split_differently.trace(),
    );
}

#[kernel(cluster = [2, 1, 1])]
fn atomic_in_two_ctas(x: Ptr<i32>) {
    let copied = line().with_ctas([[0]]);
    x.at(arange(0..128, copied)).atomic_add(1);
}

#[test]
fn an_atomic_on_a_replicated_tensor_is_refused() {
    check("atomic_in_two_ctas", atomic_in_two_ctas.trace());
}

#[kernel]
fn poll_that_releases(flag: Ptr<i32>) {
    flag.access().release().atomic_poll(|seen| seen == 1);
}

#[test]
fn a_poll_releases() {
    check("poll_that_releases", poll_that_releases.trace());
}

#[kernel]
fn poll_that_loads(flag: Ptr<i32>, wanted: Ptr<i32>) {
    flag.atomic_poll(|seen| seen == wanted.load());
}

#[test]
fn the_test_of_a_poll_loads() {
    check("poll_that_loads", poll_that_loads.trace());
}
