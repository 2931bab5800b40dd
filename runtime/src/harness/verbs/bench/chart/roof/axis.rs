//! Axes in powers of ten.

/// The most powers of ten of an axis that have a number.
const MOST_POWERS: usize = 8;

/// Exponents of ten around all of these: from a whole one to a little above the highest.
pub(super) fn decades(values: impl Iterator<Item = f64>) -> [f64; 2] {
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for value in values {
        low = low.min(value.log10());
        high = high.max(value.log10());
    }
    [low.floor(), high + 0.1]
}

/// Numbers of an axis: powers of ten, and between few of them twice and five times as much.
pub(super) fn ticks([low, high]: [f64; 2]) -> Vec<f64> {
    let steps: &[f64] = if high - low < 2.5 {
        &[1.0, 2.0, 5.0]
    } else {
        &[1.0]
    };
    let all = powers([low, high]).flat_map(|power| steps.iter().map(move |step| step * power));
    all.filter(|value| value.log10() <= high).collect()
}

/// Powers of ten of an axis: of many not all, so that their numbers have room.
pub(super) fn powers([low, high]: [f64; 2]) -> impl Iterator<Item = f64> {
    let (low, high) = (low as i32, high.floor() as i32);
    let apart = (high - low) as usize / MOST_POWERS + 1;
    (low..=high).step_by(apart).map(|power| 10_f64.powi(power))
}

/// Where a value lies between two powers of ten.
pub(super) fn share(value: f64, [low, high]: [f64; 2]) -> f64 {
    ((value.log10() - low) / (high - low)).clamp(0.0, 1.0)
}

/// The cell that it lies in.
pub(super) fn place(value: f64, range: [f64; 2], cells: usize) -> usize {
    (share(value, range) * (cells - 1) as f64).round() as usize
}

/// `0.1`, `10`, `1000`, `1e-6`.
pub(super) fn number(value: f64) -> String {
    match value {
        0.01..1.0 => format!("{value}"),
        1.0..1e5 => format!("{value:.0}"),
        _ => format!("{value:e}"),
    }
}

/// A number of the legend: one digit behind the point, and more of small numbers.
pub(super) fn digits(value: f64) -> String {
    match value {
        1.0.. => format!("{value:.1}"),
        0.01..1.0 => format!("{value:.3}"),
        _ => format!("{value:.2e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_its_place_on_an_axis() {
        let values = [3.7e-6, 3.5e-4, 1071.0];
        let range = decades(values.into_iter());
        let places = values.map(|value| place(value, range, 72));
        assert!(
            places[0] > 0 && places[0] < places[1] && places[1] < places[2],
            "{places:?}"
        );
        let shown: Vec<String> = ticks(range).into_iter().map(number).collect();
        assert_eq!(shown, ["1e-6", "1e-4", "0.01", "1", "100"]);
        let long = decades([1e-9, 1e12].into_iter());
        assert!(powers(long).count() <= MOST_POWERS);
    }

    #[test]
    fn numbers_have_digits() {
        assert_eq!(
            [683.21, 1.0, 0.083, 3.5e-4].map(digits),
            ["683.2", "1.0", "0.083", "3.50e-4"]
        );
        assert_eq!(
            [0.01, 0.5, 1000.0, 1e5].map(number),
            ["0.01", "0.5", "1000", "1e5"]
        );
    }
}
