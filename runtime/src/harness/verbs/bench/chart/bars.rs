//! Times as bars: a group for each run, and in it ours and each peer. A longer bar is a longer time.

use std::fmt::Write;

use super::svg::{FAINT, Hold, INK, Svg, WIDTH, fitting};
use super::{Mark, Work};
use crate::trace::summary::time;

/// Letters of the longest bar in a terminal.
const CELLS: usize = 40;
/// Letters of a name in a terminal.
const MOST_NAME: usize = 36;

const OURS: &str = "#0b6bcb";
const PEER: &str = "#b3bcc5";

/// For a terminal.
pub(super) fn text(works: &[Work]) -> String {
    let names = works.iter().flat_map(|work| &work.marks);
    let width = names
        .map(|mark| mark.name.chars().count())
        .max()
        .unwrap_or(0)
        .min(MOST_NAME);
    let mut text = String::new();
    for work in works {
        let _ = writeln!(text, "{}", work.title);
        for (at, mark) in work.marks.iter().enumerate() {
            let name: String = mark.name.chars().take(MOST_NAME).collect();
            let cells = (mark.ms / longest(works, work) * CELLS as f64)
                .round()
                .max(1.0) as usize;
            let bar = if at == 0 { "█" } else { "░" }.repeat(cells);
            let _ = writeln!(text, "  {name:width$}  {bar:CELLS$}  {}", said(work, mark));
        }
    }
    text
}

/// As a picture.
pub(super) fn svg(device: &str, works: &[Work]) -> String {
    const TOP: f64 = 64.0;
    const ROW: f64 = 22.0;
    const GROUP: f64 = 36.0;
    const LEFT: f64 = 280.0;
    const LONGEST: f64 = 380.0;
    let rows: usize = works.iter().map(|work| work.marks.len()).sum();
    let height = TOP + GROUP * works.len() as f64 + ROW * rows as f64 + 16.0;
    let mut svg = Svg::new(height);
    let title = format!("Times on {device}");
    svg.text([20.0, 28.0], Hold::Start, (INK, 18), &title);
    let about = "back to back, medians; shorter is faster; × is the time over ours";
    svg.text([20.0, 48.0], Hold::Start, (FAINT, 12), about);
    let mut y = TOP;
    for work in works {
        let title = fitting(&work.title, WIDTH - 40.0);
        svg.text([20.0, y + 24.0], Hold::Start, (INK, 14), &title);
        y += GROUP;
        for (at, mark) in work.marks.iter().enumerate() {
            let (fill, ink) = if at == 0 { (OURS, INK) } else { (PEER, FAINT) };
            let name = fitting(&mark.name, LEFT - 40.0);
            svg.text([LEFT - 10.0, y + 15.0], Hold::End, (ink, 12), &name);
            let length = (mark.ms / longest(works, work) * LONGEST).max(1.0);
            svg.bar([LEFT, y + 3.0], [length, ROW - 6.0], fill);
            svg.text(
                [LEFT + length + 8.0, y + 15.0],
                Hold::Start,
                (INK, 12),
                &said(work, mark),
            );
            y += ROW;
        }
    }
    svg.finish()
}

/// The time of the longest bar: of a group where peers stand beside ours, else of all.
fn longest(works: &[Work], work: &Work) -> f64 {
    let longest = |work: &Work| work.marks.iter().map(|mark| mark.ms).fold(0.0, f64::max);
    if work.marks.len() > 1 {
        return longest(work);
    }
    let alone = works.iter().filter(|work| work.marks.len() == 1);
    alone.map(longest).fold(0.0, f64::max)
}

/// Such as `612.40 µs ±0.3 %, 1.04×, 743.2 TFLOP/s`.
fn said(work: &Work, mark: &Mark) -> String {
    let mut text = time(mark.ms * 1e6);
    if let Some(spread) = mark.spread {
        let _ = write!(text, " ±{:.1} %", spread * 100.0);
    }
    let mut parts = vec![text];
    if mark != &work.marks[0] {
        parts.push(format!("{:.3}×", mark.ms / work.marks[0].ms));
    }
    let rate = work.rate(mark);
    parts.extend((!rate.is_empty()).then_some(rate));
    parts.join(", ")
}
