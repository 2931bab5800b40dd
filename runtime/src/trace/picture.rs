//! A part of the timeline of one CTA as a picture for a document: an SVG file.

use std::fmt::Write;

use lowering::trace::{EventKind, TraceTable};

use super::names::Names;
use super::timeline::{CtaTime, Timeline, Track};
use crate::markup::escaped;

/// Pixels of the picture, of its column of names, and of its rows.
const WIDTH: f64 = 920.0;
const NAMES: f64 = 150.0;
const RIGHT: f64 = 26.0;
const ROW: f64 = 20.0;
const THIN: f64 = 9.0;
const GAP: f64 = 5.0;
const HEAD: f64 = 46.0;
const LEGEND: f64 = 26.0;
/// What is narrower is as wide as that, and what follows it within that is not drawn.
const LEAST: f64 = 0.6;
/// A name is written where it has so many pixels a letter.
const LETTER: f64 = 6.2;

/// Colours of the kinds of spans that are drawn, with what the legend calls them; the page has the same.
const KINDS: [(&str, &str, &[EventKind]); 7] = [
    ("#d9534f", "waits for an mbarrier", &[EventKind::Wait]),
    ("#b06fc7", "waits for products", &[EventKind::ProductsWait]),
    (
        "#e08a2e",
        "waits for copies",
        &[EventKind::StoreWait, EventKind::ThreadCopyWait],
    ),
    (
        "#8d6e63",
        "barrier",
        &[
            EventKind::Barrier,
            EventKind::ClusterBarrier,
            EventKind::LaunchWait,
        ],
    ),
    ("#2f8f5b", "stores", &[EventKind::Store]),
    ("#c3cedb", "loop over steps", &[EventKind::Loop]),
    ("#4c8fd6", "range", &[EventKind::Range]),
];
const COPIES: (&str, &str) = ("#2a9d8f", "copy in flight");
const PRODUCTS: (&str, &str) = ("#5e60ce", "products in flight");

/// What is drawn.
pub(crate) struct Picture<'a> {
    pub(crate) title: String,
    pub(crate) timeline: &'a Timeline,
    pub(crate) table: &'a TraceTable,
    pub(crate) names: &'a Names,
    /// The number of the CTA in the launch.
    pub(crate) cta: usize,
    /// From when to when, ns since the launch began; without, all of the CTA's time.
    pub(crate) between: Option<[f64; 2]>,
}

/// Why there is nothing to draw.
#[derive(Debug)]
pub(crate) enum Nothing {
    /// This CTA has recorded nothing.
    Cta,
    /// The CTA ran from this time to that, ns since the launch began.
    Between([f64; 2]),
}

/// A bar: what it is coloured like, from when to when, and its name.
struct Bar<'a> {
    colour: &'static str,
    begin: f64,
    end: f64,
    name: &'a str,
}

/// Rows from top to bottom, with the kinds that were drawn.
struct Drawing {
    svg: String,
    y: f64,
    begin: f64,
    ns_per_pixel: f64,
    colours: Vec<&'static str>,
}

impl Picture<'_> {
    /// The text of the file.
    ///
    /// # Errors
    /// There is nothing of this CTA, or of this time.
    pub(crate) fn svg(&self) -> Result<String, Nothing> {
        let mut ctas = self.timeline.ctas.iter();
        let of_number = ctas.find(|cta| cta.cta as usize == self.cta);
        let cta = of_number.ok_or(Nothing::Cta)?;
        let ran = time_of(cta);
        let [begin, end] = self.between.unwrap_or(ran);
        if end < ran[0] || begin > ran[1] {
            return Err(Nothing::Between(ran));
        }
        let mut drawing = Drawing {
            svg: String::new(),
            y: HEAD,
            begin,
            ns_per_pixel: (end - begin).max(1.0) / (WIDTH - NAMES - RIGHT),
            colours: Vec::new(),
        };
        for (number, track) in cta.tracks.iter().enumerate() {
            self.track(cta, (number, track), &mut drawing);
        }
        drawing.axis(end);
        drawing.legend();
        Ok(self.file(cta, &drawing))
    }

    fn track(&self, cta: &CtaTime, (number, track): (usize, &Track), drawing: &mut Drawing) {
        drawing.name(&self.names.recorders[track.recorder], ROW, true);
        drawing.bar(
            &Bar {
                colour: "#eef1f5",
                begin: track.begin,
                end: track.end,
                name: "",
            },
            ROW,
        );
        let spans = track.spans.iter().filter_map(|span| {
            let kind = self.table.events[span.id].kind;
            // What happens in a loop is drawn over it.
            let name = match kind {
                EventKind::Loop => "",
                _ => self.names.events[span.id].as_str(),
            };
            Some(Bar {
                colour: colour_of(kind)?,
                begin: span.begin,
                end: span.end,
                name,
            })
        });
        drawing.bars(spans, ROW);
        drawing.y += ROW + 2.0;
        let products = track.products.iter().map(|span| Bar {
            colour: PRODUCTS.0,
            begin: span.begin,
            end: span.end,
            name: "",
        });
        drawing.flights("products", products.collect());
        let copies = cta.copies.iter().filter(|copy| copy.track == number);
        let mut copies: Vec<(&str, f64, f64)> = copies
            .filter_map(|copy| {
                let name = self.names.events[copy.id].as_str();
                Some((name, copy.issued, copy.landed?.2))
            })
            .collect();
        copies.sort_by(|a, b| a.0.cmp(b.0).then(a.1.total_cmp(&b.1)));
        for of_one in copies.chunk_by(|a, b| a.0 == b.0) {
            let bars = of_one.iter().map(|&(_, begin, end)| Bar {
                colour: COPIES.0,
                begin,
                end,
                name: "",
            });
            drawing.flights(of_one[0].0, bars.collect());
        }
        drawing.y += GAP;
    }

    fn file(&self, cta: &CtaTime, drawing: &Drawing) -> String {
        let height = drawing.y;
        let how = if self.timeline.is_modelled {
            "lengths are modelled"
        } else {
            "measured"
        };
        let title = escaped(&self.title);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height:.0}\" viewBox=\"0 0 {WIDTH} {height:.0}\" \
             font-family=\"system-ui, 'Segoe UI', Helvetica, Arial, sans-serif\" font-size=\"11\" fill=\"#1b1f24\">\n\
             <rect width=\"{WIDTH}\" height=\"{height:.0}\" fill=\"#ffffff\"/>\n\
             <text x=\"10\" y=\"18\" font-size=\"13\" font-weight=\"600\">{title}</text>\n\
             <text x=\"{x}\" y=\"18\" fill=\"#5b6675\" text-anchor=\"end\">CTA {cta}, {how}</text>\n{body}</svg>\n",
            x = WIDTH - RIGHT,
            cta = cta.cta,
            body = drawing.svg,
        )
    }
}

fn time_of(cta: &CtaTime) -> [f64; 2] {
    let begins = cta.tracks.iter().map(|track| track.begin);
    let ends = cta.tracks.iter().map(|track| track.end);
    [
        begins.fold(f64::INFINITY, f64::min).min(f64::MAX),
        ends.fold(0.0, f64::max),
    ]
}

fn colour_of(kind: EventKind) -> Option<&'static str> {
    let of = KINDS.iter().find(|(_, _, kinds)| kinds.contains(&kind));
    of.map(|(colour, ..)| *colour)
}

impl Drawing {
    fn x(&self, ns: f64) -> f64 {
        (NAMES + (ns - self.begin) / self.ns_per_pixel).clamp(NAMES, WIDTH - RIGHT)
    }

    fn name(&mut self, name: &str, height: f64, is_track: bool) {
        let (x, weight, fill) = if is_track {
            (10.0, "600", "#1b1f24")
        } else {
            (20.0, "400", "#5b6675")
        };
        let y = self.y + height / 2.0 + 4.0;
        let name = escaped(name);
        let size = if is_track { 12 } else { 10 };
        let _ = writeln!(
            self.svg,
            "<text x=\"{x}\" y=\"{y:.1}\" font-size=\"{size}\" font-weight=\"{weight}\" fill=\"{fill}\">{name}</text>"
        );
    }

    /// Bars in order of their beginning; those that would lie in what is drawn are left out, unless they are inside a wider one.
    fn bars<'b>(&mut self, bars: impl Iterator<Item = Bar<'b>>, height: f64) {
        let mut last_narrow = f64::NEG_INFINITY;
        for bar in bars {
            let (x, end) = (self.x(bar.begin), self.x(bar.end));
            let is_narrow = end - x < LEAST;
            if is_narrow && x < last_narrow + LEAST {
                continue;
            }
            if is_narrow {
                last_narrow = x;
            }
            self.bar(&bar, height);
        }
    }

    fn bar(&mut self, bar: &Bar<'_>, height: f64) {
        let (x, end) = (self.x(bar.begin), self.x(bar.end));
        let is_outside = end <= NAMES || x >= WIDTH - RIGHT;
        if is_outside {
            return;
        }
        if !self.colours.contains(&bar.colour) {
            self.colours.push(bar.colour);
        }
        let width = (end - x).max(LEAST);
        let y = self.y;
        let colour = bar.colour;
        let _ = writeln!(
            self.svg,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height}\" fill=\"{colour}\"/>"
        );
        let letters = bar.name.chars().count() as f64;
        if letters > 0.0 && letters * LETTER + 6.0 < width {
            let name = escaped(bar.name);
            let (x, y) = (x + 4.0, y + height / 2.0 + 4.0);
            let _ = writeln!(
                self.svg,
                "<text x=\"{x:.1}\" y=\"{y:.1}\" fill=\"#ffffff\">{name}</text>"
            );
        }
    }

    /// What is in flight: what overlaps has lines of its own.
    fn flights(&mut self, name: &str, mut bars: Vec<Bar<'_>>) {
        bars.sort_by(|a, b| a.begin.total_cmp(&b.begin));
        let mut lanes: Vec<(f64, Vec<Bar<'_>>)> = Vec::new();
        for bar in bars {
            let free = lanes.iter().position(|(until, _)| *until <= bar.begin);
            let lane = free.unwrap_or_else(|| {
                lanes.push((0.0, Vec::new()));
                lanes.len() - 1
            });
            lanes[lane].0 = bar.end;
            lanes[lane].1.push(bar);
        }
        for (number, (_, bars)) in lanes.into_iter().enumerate() {
            if number == 0 {
                self.name(name, THIN, false);
            }
            self.bars(bars.into_iter(), THIN);
            self.y += THIN + 2.0;
        }
    }

    /// Ticks above the rows, and their lines through them.
    fn axis(&mut self, end: f64) {
        let step = tick(end - self.begin);
        let first = (self.begin / step).ceil();
        let ticks = ((end / step).floor() - first + 1.0).max(0.0) as usize;
        let bottom = self.y - GAP;
        let mut lines = String::new();
        for number in 0..ticks {
            let at = (first + number as f64) * step;
            let x = self.x(at);
            let text = label(at, step);
            let _ = writeln!(
                lines,
                "<path d=\"M{x:.1} {top}V{bottom:.1}\" stroke=\"#d8dde4\" stroke-width=\"0.7\"/><text x=\"{x:.1}\" y=\"{y}\" \
                 fill=\"#5b6675\" text-anchor=\"middle\">{text}</text>",
                top = HEAD - 6.0,
                y = HEAD - 10.0
            );
        }
        self.svg.insert_str(0, &lines);
    }

    /// The colours that were drawn.
    fn legend(&mut self) {
        let all = KINDS.iter().map(|(colour, name, _)| (*colour, *name));
        let all: Vec<(&str, &str)> = all.chain([PRODUCTS, COPIES]).collect();
        let mut x = 10.0;
        let y = self.y + LEGEND / 2.0;
        for (colour, name) in all {
            if !self.colours.contains(&colour) {
                continue;
            }
            let _ = writeln!(
                self.svg,
                "<rect x=\"{x:.1}\" y=\"{top:.1}\" width=\"10\" height=\"10\" fill=\"{colour}\"/><text x=\"{text:.1}\" y=\"{y:.1}\" \
                 fill=\"#5b6675\">{name}</text>",
                top = y - 9.0,
                text = x + 14.0,
            );
            x += 30.0 + name.len() as f64 * 5.8;
        }
        self.y += LEGEND;
    }
}

/// 1, 2 or 5 times a power of ten, of which some eight are in a length.
fn tick(length: f64) -> f64 {
    let rough = (length / 8.0).max(1.0);
    let power = 10_f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
    steps
        .into_iter()
        .find(|step| *step >= rough)
        .unwrap_or(power)
}

/// A time as elsewhere, with more digits where those do not tell it from the next, a step away.
fn label(ns: f64, step: f64) -> String {
    let (unit, name, usual) = match ns {
        ns if ns >= 1e6 => (1e6, "ms", 3),
        ns if ns >= 1e3 => (1e3, "µs", 2),
        _ => (1.0, "ns", 0),
    };
    let digits = ((unit / step).log10().ceil().max(0.0) as usize).max(usual);
    format!("{:.digits$} {name}", ns / unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_numbers() {
        for (length, expected) in [
            (800.0, 100.0),
            (1000.0, 200.0),
            (5000.0, 1000.0),
            (3.0, 1.0),
        ] {
            assert!(
                (tick(length) - expected).abs() < 1e-9,
                "{length}: {}",
                tick(length)
            );
        }
    }

    #[test]
    fn labels_differ_a_step_away() {
        assert_eq!(label(900_000.0, 1.0), "900.000 µs");
        assert_eq!(label(900_001.0, 1.0), "900.001 µs");
        assert_eq!(label(22_000.0, 2000.0), "22.00 µs");
        assert_eq!(label(1_500_000.0, 500_000.0), "1.500 ms");
        assert_eq!(label(800.0, 100.0), "800 ns");
    }

    /// The sum of a step and a number beyond 2^53 may be that number.
    #[test]
    fn an_axis_of_any_length_ends() {
        for [begin, end] in [[0.0, 1e19], [9e15, 9e15 + 2.0], [0.0, 0.0]] {
            let mut drawing = Drawing {
                svg: String::new(),
                y: HEAD,
                begin,
                ns_per_pixel: 1.0,
                colours: Vec::new(),
            };
            drawing.axis(end);
            let ticks = drawing.svg.matches("<path").count();
            assert!((1..=11).contains(&ticks), "{begin} to {end}: {ticks}");
        }
    }

    #[test]
    fn what_overlaps_has_lines_of_its_own() {
        let mut drawing = Drawing {
            svg: String::new(),
            y: 0.0,
            begin: 0.0,
            ns_per_pixel: 1.0,
            colours: Vec::new(),
        };
        let bar = |begin: f64, end: f64| Bar {
            colour: COPIES.0,
            begin,
            end,
            name: "",
        };
        drawing.flights("a<b", vec![bar(0.0, 10.0), bar(5.0, 20.0), bar(10.0, 30.0)]);
        assert!(
            (drawing.y - 2.0 * (THIN + 2.0)).abs() < 1e-9,
            "{}",
            drawing.y
        );
        assert!(drawing.svg.contains("a&lt;b"));
        assert_eq!(drawing.svg.matches("<rect").count(), 3);
    }
}
