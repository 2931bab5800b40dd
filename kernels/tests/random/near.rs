//! Comparison of buffers with what is expected of them.

use std::cmp::Ordering;

/// Whether two numbers are the same, NaN and NaN too.
fn is_same(found: f64, wanted: f64) -> bool {
    found.partial_cmp(&wanted) == Some(Ordering::Equal) || found.is_nan() && wanted.is_nan()
}

/// Whether a number is another one, or near it where that is finite.
fn is_near(found: f64, wanted: f64, allowed: f64) -> bool {
    is_same(found, wanted) || wanted.is_finite() && (found - wanted).abs() <= allowed
}

/// Compares elements of a buffer within an absolute and a relative error, and those where no result is stored with what they were.
pub(crate) fn near(
    name: &str,
    found: &[f64],
    wanted: &[Option<f64>],
    before: &[f64],
    [absolute, relative]: [f64; 2],
) {
    for (at, found) in found.iter().enumerate() {
        let Some(want) = wanted[at] else {
            assert!(
                before
                    .get(at)
                    .is_some_and(|&before| is_same(*found, before)),
                "{name}[{at}], where no result is stored, is {found}"
            );
            continue;
        };
        let allowed = absolute + relative * want.abs();
        assert!(
            is_near(*found, want, allowed),
            "{name}[{at}]: found {found}, expected {want} within {allowed}"
        );
    }
}

/// Compares rows within some hundredths, times `factor`, of their largest element and of what is usual in all rows, and `absolute`, and what is between rows with what it was.
pub(crate) fn near_in_rows(
    name: &str,
    found: &[f64],
    wanted: &[(usize, Vec<f64>)],
    before: &[f64],
    [factor, absolute]: [f64; 2],
) {
    let elements: usize = wanted.iter().map(|(_, row)| row.len()).sum();
    let squares: f64 = wanted.iter().flat_map(|(_, row)| row).map(|x| x * x).sum();
    let usual = (squares / elements.max(1) as f64).sqrt();
    let mut all = before.to_vec();
    let mut allowed = vec![0.0; before.len()];
    for (first, row) in wanted {
        let largest = row.iter().fold(0.0_f64, |largest, x| largest.max(x.abs()));
        let of_row = factor * (2e-2 * largest + 3e-2 * usual + 1e-4) + absolute;
        all[*first..first + row.len()].copy_from_slice(row);
        allowed[*first..first + row.len()].fill(of_row);
    }
    for (at, found) in found.iter().enumerate() {
        let (want, allowed) = (all[at], allowed[at]);
        assert!(
            is_near(*found, want, allowed),
            "{name}[{at}]: found {found}, expected {want} within {allowed}"
        );
    }
}

/// Elements of a buffer, each with the error that it may have before it is rounded; none where no result is stored.
pub(crate) type Within = Vec<Option<(f64, f64)>>;

/// Compares elements of a buffer within their errors and that of rounding, and those where no result is stored with what they were.
pub(crate) fn exact(
    name: &str,
    found: &[f64],
    wanted: &[Option<(f64, f64)>],
    before: &[f64],
    rounding: f64,
) {
    for (at, found) in found.iter().enumerate() {
        let (want, error) = wanted[at].unwrap_or((before[at], 0.0));
        let allowed = error + want.abs() * rounding;
        assert!(
            is_near(*found, want, allowed),
            "{name}[{at}]: found {found}, expected {want} within {allowed}"
        );
    }
}
