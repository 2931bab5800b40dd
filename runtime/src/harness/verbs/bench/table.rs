//! Figures for people.

use std::time::Duration;

use super::figures::{Figures, Line, lines};
use crate::case::{Series, Timing};
use crate::harness::verbs::run::time_text;

/// A time of so many milliseconds.
pub(super) fn time(ms: f64) -> String {
    time_text(Duration::from_secs_f64(ms / 1e3))
}

/// One line for a run without peers.
pub(super) fn line(figures: &Figures<'_>, prefix: &str) -> String {
    let ms = figures.median_ms();
    let mut parts = vec![format!(
        "{prefix}median {:>9}  fastest {:>9}  single {:>9}",
        time(ms),
        time(figures.fastest_ms()),
        time(figures.single_ms())
    )];
    parts.extend(
        figures
            .sustained_ms()
            .map(|ms| format!("sustained {:>9}", time(ms))),
    );
    parts.extend(
        figures
            .gigabytes_per_second(ms)
            .map(|rate| format!("{rate:>7.0} GB/s")),
    );
    parts.extend(
        figures
            .teraflops(ms)
            .map(|rate| format!("{rate:>7.1} TFLOP/s")),
    );
    parts.extend(share_text(figures, ms));
    parts.join("  ") + "\n"
}

/// A table for a run with peers.
pub(super) fn contest(figures: &Figures<'_>, timing: &Timing, prefix: &str) -> String {
    let lines = lines(timing);
    let width = lines
        .iter()
        .map(|line| line.name.chars().count())
        .max()
        .unwrap_or(0);
    let mut text = vec![format!("{}  {}\n", prefix.trim_end(), figures.operands())];
    let checks = figures.checks().iter();
    text.extend(checks.map(|check| format!("  checked: {check}\n")));
    let is_sustained = !lines[0].sustained.samples_ms.is_empty();
    let columns = &COLUMNS[..if is_sustained { 3 } else { 2 }];
    let heads: Vec<String> = columns
        .iter()
        .map(|(head, _)| format!("  {head:<CELL$}"))
        .collect();
    text.push(row("", width, &heads));
    for (at, line) in lines.iter().enumerate() {
        let cells: Vec<String> = columns
            .iter()
            .map(|(_, series)| cell(figures, series(line), (at > 0).then(|| series(&lines[0]))))
            .collect();
        text.push(row(&line.name, width, &cells));
    }
    if timing.ours().overlapping > 0 {
        text.push(overlap_text(timing));
    }
    if let Some(share) = share_text(figures, f64::from(lines[0].back_to_back.median_ms())) {
        text.push(format!("  {}, back to back: {share}\n", lines[0].name));
    }
    text.concat()
}

/// The width of a cell without the gap before it.
const CELL: usize = 43;

fn row(name: &str, width: usize, cells: &[String]) -> String {
    let text = format!("  {name:width$}{}", cells.concat());
    format!("{}\n", text.trim_end())
}

/// A heading, and the series below it.
type Column = (&'static str, for<'r> fn(&Line<'r>) -> &'r Series);

/// The last only where it was requested.
const COLUMNS: [Column; 3] = [
    ("single launches", |line| line.single),
    ("back to back", |line| line.back_to_back),
    ("sustained", |line| line.sustained),
];

/// Such as `199 launches of a graph of 200 turns start before the one in front of them has ended`.
fn overlap_text(timing: &Timing) -> String {
    let (overlapping, turns) = (timing.ours().overlapping, timing.ours().turns);
    format!(
        "  {overlapping} launches of a graph of {turns} turns start before the one in front of them has ended\n"
    )
}

/// Time, spread, rate, and how many times as long as ours.
fn cell(figures: &Figures<'_>, series: &Series, ours: Option<&Series>) -> String {
    let ms = f64::from(series.median_ms());
    let rate = figures
        .teraflops(ms)
        .map(|rate| format!("{rate:.1} TFLOP/s"))
        .or_else(|| {
            figures
                .gigabytes_per_second(ms)
                .map(|rate| format!("{rate:.0} GB/s"))
        });
    let ratio = ours.map(|ours| format!("{:.3}×", series.ratio_to(ours)));
    format!(
        "  {:>9} ±{:>4.1} %  {:>14}  {:>7}",
        time(ms),
        f64::from(series.spread()) * 100.0,
        rate.unwrap_or_default(),
        ratio.unwrap_or_default()
    )
}

/// Such as `77.5 % of what the cores can do`.
fn share_text(figures: &Figures<'_>, ms: f64) -> Option<String> {
    let (share, limit) = figures.share(ms)?;
    Some(format!("{:.1} % of what the {limit} can do", share * 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{CaseReport, Entrant, LaunchReport};
    use crate::device::Device;
    use crate::kernel::Instance;
    use crate::launch::grid;

    fn sustained(entrant: Entrant, samples_ms: &[f32]) -> Entrant {
        let samples_ms = samples_ms.to_vec();
        Entrant {
            sustained: Series { samples_ms },
            ..entrant
        }
    }

    fn entrant(name: &str, family: Option<&str>, single: &[f32], back_to_back: &[f32]) -> Entrant {
        let series = |samples: &[f32]| Series {
            samples_ms: samples.to_vec(),
        };
        Entrant {
            name: name.to_string(),
            family: family.map(str::to_string),
            single: series(single),
            back_to_back: series(back_to_back),
            sustained: Series::default(),
            turns: 4,
            overlapping: 0,
            check: None,
            conditions: None,
            counters: Vec::new(),
        }
    }

    fn check(entrants: Vec<Entrant>, expect: &str) {
        fn nothing() {}
        let timing = Timing {
            entrants,
            copies: 2,
            notes: Vec::new(),
        };
        let report = CaseReport {
            launches: vec![LaunchReport {
                instance: Instance::of(nothing),
                grid: grid(1u32),
                compiled: None,
                wall: None,
                warp_instructions: None,
                modelled: None,
                trace: None,
            }],
            timings: vec![timing],
            tensor_bytes: 384 << 20,
            moved_bytes: Some(400_000_000),
            flops: Some(1_000_000_000_000),
            ..CaseReport::default()
        };
        let device = Device::emulator();
        let checks = vec!["`c` exact".to_string()];
        let figures = Figures::of(&report, checks, device.facts()).expect("a launch");
        assert_eq!(figures.text("mm  n=8  "), expect);
    }

    #[test]
    fn a_run_alone_is_one_line() {
        check(
            vec![entrant("mm", None, &[2.5], &[2.0, 1.5, 4.0])],
            "mm  n=8  median   2.00 ms  fastest   1.50 ms  single   2.50 ms      200 GB/s    500.0 TFLOP/s\n",
        );
    }

    #[test]
    fn what_went_on_has_a_column_and_what_overlaps_is_said() {
        let ours = Entrant {
            overlapping: 3,
            ..sustained(entrant("mm", None, &[2.0], &[4.0]), &[5.0, 5.0])
        };
        let lt = |name, back_to_back| entrant(name, Some("lt"), &[2.0], &[back_to_back]);
        check(
            vec![ours, lt("lt 1", 8.0), sustained(lt("lt 2", 4.0), &[6.0, 6.0])],
            "\
mm  n=8  2 copies of 384.0 MiB of tensors in turn, cold
  checked: `c` exact
                 single launches                              back to back                                 sustained
  mm               2.00 ms ± 0.0 %   500.0 TFLOP/s             4.00 ms ± 0.0 %   250.0 TFLOP/s             5.00 ms ± 0.0 %   200.0 TFLOP/s
  lt, best of 2    2.00 ms ± 0.0 %   500.0 TFLOP/s   1.000×    4.00 ms ± 0.0 %   250.0 TFLOP/s   1.000×    6.00 ms ± 0.0 %   166.7 TFLOP/s   1.200×
  3 launches of a graph of 4 turns start before the one in front of them has ended
",
        );
        check(
            vec![sustained(entrant("mm", None, &[2.5], &[2.0]), &[3.0])],
            "mm  n=8  median   2.00 ms  fastest   2.00 ms  single   2.50 ms  sustained   3.00 ms      200 GB/s    500.0 TFLOP/s\n",
        );
    }

    #[test]
    fn peers_stand_below_with_ratios_and_families_as_their_best() {
        check(
            vec![
                entrant("mm", None, &[2.0, 2.0], &[4.0, 2.0]),
                entrant("gemm", None, &[2.2, 2.2], &[4.4, 2.2]),
                entrant("lt 1", Some("lt"), &[2.1, 2.1], &[8.0, 8.0]),
                entrant("lt 2", Some("lt"), &[9.0, 9.0], &[4.2, 2.1]),
            ],
            "\
mm  n=8  2 copies of 384.0 MiB of tensors in turn, cold
  checked: `c` exact
                 single launches                              back to back
  mm               2.00 ms ± 0.0 %   500.0 TFLOP/s             3.00 ms ±16.7 %   333.3 TFLOP/s
  gemm             2.20 ms ± 0.0 %   454.5 TFLOP/s   1.100×    3.30 ms ±16.7 %   303.0 TFLOP/s   1.100×
  lt, best of 2    2.10 ms ± 0.0 %   476.2 TFLOP/s   1.050×    3.15 ms ±16.7 %   317.5 TFLOP/s   1.050×
",
        );
    }
}
