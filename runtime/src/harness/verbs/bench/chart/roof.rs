//! The roofline: operations a second over operations a byte, both in powers of ten, below what memory and cores can do.

use std::fmt::Write;

use super::svg::{FAINT, Hold, INK, RULE, Svg, WIDTH, fitting};
use super::{Mark, Work};

/// Colours of runs, in turn (Okabe and Ito: told apart by all eyes).
const COLOURS: [&str; 7] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#1b1f24",
];

/// A line that nothing goes above.
struct Ceiling {
    teraflops: f64,
    /// Whose, where several have the same.
    cores: Vec<String>,
}

impl Ceiling {
    /// Such as `bf16 and f16 tensor cores 1071 TFLOP/s`.
    fn text(&self) -> String {
        format!("{} {}", self.names(), self.rate())
    }

    fn rate(&self) -> String {
        format!("{:.0} TFLOP/s", self.teraflops)
    }

    fn names(&self) -> String {
        let kind = " tensor cores";
        let tensor = self
            .cores
            .iter()
            .filter_map(|cores| cores.strip_suffix(kind));
        let tensor: Vec<&str> = tensor.collect();
        let others = self.cores.iter().filter(|cores| !cores.ends_with(kind));
        let mut all: Vec<String> = others.cloned().collect();
        if !tensor.is_empty() {
            all.push(tensor.join(" and ") + kind);
        }
        all.join(", ")
    }
}

/// Adds the ceiling of these cores.
fn raise(ceilings: &mut Vec<Ceiling>, teraflops: f64, cores: String) {
    let is_same = |known: &&mut Ceiling| (known.teraflops - teraflops).abs() < 1e-6 * teraflops;
    match ceilings.iter_mut().find(is_same) {
        Some(known) if known.cores.contains(&cores) => {}
        Some(known) => known.cores.push(cores),
        None => ceilings.push(Ceiling {
            teraflops,
            cores: vec![cores],
        }),
    }
}

/// A mark with its place.
struct Point<'w> {
    work: &'w Work,
    mark: &'w Mark,
    /// Its run's number.
    run: usize,
    is_ours: bool,
    /// Operations a byte.
    intensity: f64,
    teraflops: f64,
    /// Are the bytes those that the hardware counted?
    is_counted: bool,
}

/// Runs below their roofs.
pub(super) struct Roof<'w> {
    points: Vec<Point<'w>>,
    ceilings: Vec<Ceiling>,
    /// Of memory.
    terabytes_per_second: f64,
    /// Runs without a place: those that have no operations or no bytes.
    outside: Vec<&'w Work>,
    /// Powers of ten between which operations a byte lie, and operations a second.
    intensities: [f64; 2],
    rates: [f64; 2],
}

impl<'w> Roof<'w> {
    /// None where no run has a place.
    pub(super) fn of(works: &'w [Work]) -> Option<Roof<'w>> {
        let (mut points, mut ceilings, mut outside) =
            (Vec::new(), Vec::<Ceiling>::new(), Vec::new());
        let mut terabytes_per_second = None;
        for (run, work) in works.iter().enumerate() {
            let (Some(flops), Some(bytes), Some(roofline)) =
                (work.flops, work.moved_bytes, work.roofline)
            else {
                outside.push(work);
                continue;
            };
            terabytes_per_second = Some(roofline.bytes_per_second / 1e12);
            let teraflops = roofline.flops_per_second / 1e12;
            raise(&mut ceilings, teraflops, work.cores());
            for (at, mark) in work.marks.iter().enumerate() {
                let teraflops = flops as f64 / mark.ms / 1e9;
                let mut point = |bytes: u64, is_counted| {
                    let intensity = flops as f64 / bytes.max(1) as f64;
                    points.push(Point {
                        work,
                        mark,
                        run,
                        is_ours: at == 0,
                        intensity,
                        teraflops,
                        is_counted,
                    });
                };
                point(bytes, false);
                if let Some(counted) = mark.counted_bytes {
                    point(counted, true);
                }
            }
        }
        ceilings.sort_by(|a, b| b.teraflops.total_cmp(&a.teraflops));
        let terabytes_per_second = terabytes_per_second?;
        // Each roof's ridge is in the picture, with room to its right.
        let ridges = ceilings
            .iter()
            .map(|ceiling| ceiling.teraflops / terabytes_per_second * 4.0);
        let intensities = decades(points.iter().map(|point| point.intensity).chain(ridges));
        let peaks = ceilings.iter().map(|ceiling| ceiling.teraflops * 1.2);
        let rates = decades(points.iter().map(|point| point.teraflops).chain(peaks));
        Some(Roof {
            points,
            ceilings,
            terabytes_per_second,
            outside,
            intensities,
            rates,
        })
    }

    /// The highest ceiling, TFLOP/s.
    fn highest(&self) -> f64 {
        self.ceilings
            .first()
            .map_or(0.0, |ceiling| ceiling.teraflops)
    }

    /// What can be reached at these operations a byte with the cores of this run.
    fn limit(&self, work: &Work, intensity: f64) -> f64 {
        let peak = work
            .roofline
            .map(|roofline| roofline.flops_per_second / 1e12);
        (intensity * self.terabytes_per_second).min(peak.unwrap_or(f64::INFINITY))
    }

    /// A line for each mark: who, how fast, and which share of the roof above it.
    fn legend(&self, point: &Point<'_>) -> String {
        let Point {
            work,
            mark,
            intensity,
            teraflops,
            ..
        } = point;
        let share = teraflops / self.limit(work, *intensity) * 100.0;
        let bytes = if point.is_counted {
            " by the DRAM bytes counted"
        } else {
            ""
        };
        format!(
            "{}: {teraflops:.1} TFLOP/s at {intensity:.1} FLOP/B{bytes}, {share:.0} % of the roof",
            mark.name
        )
    }

    /// Letter or digit of a mark.
    fn sign(at: usize) -> char {
        const SIGNS: &[u8] = b"123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
        SIGNS.get(at).map_or('*', |sign| char::from(*sign))
    }

    fn about(&self, device: &str) -> String {
        let cores: Vec<String> = self.ceilings.iter().map(Ceiling::text).collect();
        let (memory, cores) = (self.terabytes_per_second, cores.join(", "));
        format!("Roofline of {device}: memory {memory:.2} TB/s, {cores}")
    }

    /// For a terminal.
    pub(super) fn text(&self, device: &str) -> String {
        let mut text = format!("{}\n", self.about(device));
        let grid = self.grid();
        let [low, high] = self.rates;
        for (at, row) in grid.iter().enumerate() {
            // A number where a power of ten is.
            let rate = high - (high - low) * at as f64 / (ROWS - 1) as f64;
            let near = (rate - rate.round()).abs() * (ROWS - 1) as f64 / (high - low) <= 0.5;
            let label = if near {
                number(10_f64.powf(rate.round()))
            } else {
                String::new()
            };
            let row: String = row.iter().collect();
            let _ = writeln!(text, "{label:>8} |{}", row.trim_end());
        }
        let _ = writeln!(text, "{:>8} +{}", "TFLOP/s", "-".repeat(COLUMNS));
        let _ = writeln!(text, "{:10}{} FLOP/B", "", self.axis());
        let mut run = None;
        for (at, point) in self.points.iter().enumerate() {
            if run.replace(point.run) != Some(point.run) {
                let _ = writeln!(text, "  {}", point.work.title);
            }
            let _ = writeln!(text, "    {} {}", Roof::sign(at), self.legend(point));
        }
        for line in self.outside_lines() {
            let _ = writeln!(text, "  {line}");
        }
        text
    }

    fn grid(&self) -> Vec<Vec<char>> {
        let mut grid = vec![vec![' '; COLUMNS]; ROWS];
        let column = |intensity: f64| place(intensity, self.intensities, COLUMNS);
        let row = |rate: f64| (ROWS - 1).saturating_sub(place(rate, self.rates, ROWS));
        let highest = self.highest();
        let floor = 10_f64.powf(self.rates[0]);
        let mut draw = |at: usize, rate: f64, sign| grid[row(rate)][at] = sign;
        for at in 0..COLUMNS {
            let [low, high] = self.intensities;
            let intensity = 10_f64.powf(low + (high - low) * at as f64 / (COLUMNS - 1) as f64);
            let memory = intensity * self.terabytes_per_second;
            let flat = self.ceilings.iter().map(|ceiling| ceiling.teraflops);
            flat.filter(|peak| memory > *peak)
                .for_each(|peak| draw(at, peak, '-'));
            if (floor..=highest).contains(&memory) {
                draw(at, memory, '/');
            }
        }
        for (at, point) in self.points.iter().enumerate() {
            let cell = &mut grid[row(point.teraflops)][column(point.intensity)];
            // Where two would be at one place, the first stays.
            if matches!(cell, ' ' | '-' | '/') {
                *cell = Roof::sign(at);
            }
        }
        grid
    }

    /// Powers of ten below the grid.
    fn axis(&self) -> String {
        let mut letters = vec![' '; COLUMNS + 8];
        for power in self.intensities[0] as i32..=self.intensities[1].floor() as i32 {
            let value = 10_f64.powi(power);
            let at = place(value, self.intensities, COLUMNS);
            for (shift, letter) in number(value).chars().enumerate() {
                letters[at + shift] = letter;
            }
        }
        let text: String = letters.into_iter().collect();
        text.trim_end().to_string()
    }

    /// Runs that have no place: how fast they are all the same, and of how much memory could do.
    fn outside_lines(&self) -> Vec<String> {
        let line = |work: &&Work| {
            let ours = work.marks.first()?;
            let said = match work.gigabytes_per_second(ours) {
                Some(rate) => {
                    let share = rate / 1e3 / self.terabytes_per_second * 100.0;
                    format!("{rate:.0} GB/s, {share:.0} % of what the memory can do")
                }
                None => work.rate(ours),
            };
            let said = if said.is_empty() {
                "it says no operations and no bytes".to_string()
            } else {
                said
            };
            Some(format!("not in the picture: {}: {said}", work.title))
        };
        self.outside.iter().filter_map(line).collect()
    }

    /// As a picture.
    pub(super) fn svg(&self, device: &str) -> String {
        let runs = self.runs();
        let lines = self.points.len() + runs + self.outside.len();
        let mut svg = Svg::new(BOTTOM + 64.0 + 19.0 * lines as f64);
        let title = format!("Roofline of {device}");
        svg.text([20.0, 30.0], Hold::Start, (INK, 18), &title);
        self.draw_axes(&mut svg);
        self.draw_roofs(&mut svg);
        self.draw_points(&mut svg);
        self.draw_legend(&mut svg);
        svg.finish()
    }

    fn runs(&self) -> usize {
        let mut runs: Vec<usize> = self.points.iter().map(|point| point.run).collect();
        runs.dedup();
        runs.len()
    }

    fn x(&self, intensity: f64) -> f64 {
        LEFT + (RIGHT - LEFT) * share(intensity, self.intensities)
    }

    fn y(&self, teraflops: f64) -> f64 {
        BOTTOM - (BOTTOM - TOP) * share(teraflops, self.rates)
    }

    fn draw_axes(&self, svg: &mut Svg) {
        for value in ticks(self.intensities) {
            let x = self.x(value);
            svg.line([x, TOP], [x, BOTTOM], RULE, 1.0);
            let place = [x, BOTTOM + 18.0];
            svg.text(place, Hold::Middle, (FAINT, 12), &number(value));
        }
        for value in ticks(self.rates) {
            let y = self.y(value);
            svg.line([LEFT, y], [RIGHT, y], RULE, 1.0);
            let place = [LEFT - 8.0, y + 4.0];
            svg.text(place, Hold::End, (FAINT, 12), &number(value));
        }
        let middle = f64::midpoint(LEFT, RIGHT);
        svg.text(
            [middle, BOTTOM + 38.0],
            Hold::Middle,
            (INK, 13),
            "operations a byte of memory, FLOP/B",
        );
        svg.text([20.0, TOP - 14.0], Hold::Start, (INK, 13), "TFLOP/s");
    }

    fn draw_roofs(&self, svg: &mut Svg) {
        let [low, high] = self.intensities.map(|power| 10_f64.powf(power));
        let floor = 10_f64.powf(self.rates[0]);
        let highest = self.highest();
        let from = low.max(floor / self.terabytes_per_second);
        let to = highest / self.terabytes_per_second;
        let at = |intensity: f64| {
            [
                self.x(intensity),
                self.y(intensity * self.terabytes_per_second),
            ]
        };
        svg.line(at(from), at(to), INK, 2.0);
        let ([x1, y1], [x2, y2]) = (at(from), at(to));
        let degrees = (y2 - y1).atan2(x2 - x1).to_degrees();
        // Above the line, at a third of it.
        let beside = [x1 + (x2 - x1) / 3.0 - 4.0, y1 + (y2 - y1) / 3.0 - 8.0];
        svg.slanted(
            beside,
            degrees,
            &format!("memory {:.2} TB/s", self.terabytes_per_second),
        );
        for ceiling in &self.ceilings {
            let ridge = ceiling.teraflops / self.terabytes_per_second;
            let y = self.y(ceiling.teraflops);
            svg.line([self.x(ridge), y], [self.x(high), y], INK, 2.0);
            let names = fitting(&ceiling.names(), WIDTH - RIGHT - 12.0);
            svg.text([RIGHT + 8.0, y - 1.0], Hold::Start, (INK, 12), &names);
            let rate = ceiling.rate();
            svg.text([RIGHT + 8.0, y + 13.0], Hold::Start, (INK, 12), &rate);
        }
    }

    /// Each mark with its sign beside it, which is moved down where another one's is.
    fn draw_points(&self, svg: &mut Svg) {
        let place = |point: &Point<'_>| [self.x(point.intensity), self.y(point.teraflops)];
        // Ours last, and so on top.
        for point in self.points.iter().rev() {
            let colour = COLOURS[point.run % COLOURS.len()];
            svg.circle(place(point), colour, point.is_ours && !point.is_counted);
        }
        let mut signs: Vec<[f64; 2]> = Vec::new();
        for (at, point) in self.points.iter().enumerate() {
            let place = place(point);
            let colour = COLOURS[point.run % COLOURS.len()];
            let mut sign = [place[0] + 9.0, place[1] + 4.0];
            while signs
                .iter()
                .any(|other| (other[0] - sign[0]).abs() < 12.0 && (other[1] - sign[1]).abs() < 11.0)
            {
                sign[1] += 2.0;
            }
            signs.push(sign);
            svg.text(sign, Hold::Start, (colour, 12), &Roof::sign(at).to_string());
        }
    }

    fn draw_legend(&self, svg: &mut Svg) {
        let mut y = BOTTOM + 66.0;
        let mut run = None;
        for (at, point) in self.points.iter().enumerate() {
            if run.replace(point.run) != Some(point.run) {
                let title = fitting(&point.work.title, WIDTH - 40.0);
                svg.text([20.0, y], Hold::Start, (INK, 13), &title);
                y += 19.0;
            }
            let colour = COLOURS[point.run % COLOURS.len()];
            svg.circle([36.0, y - 4.0], colour, point.is_ours && !point.is_counted);
            svg.text(
                [48.0, y],
                Hold::Start,
                (colour, 12),
                &Roof::sign(at).to_string(),
            );
            let legend = fitting(&self.legend(point), WIDTH - 90.0);
            svg.text([64.0, y], Hold::Start, (INK, 12), &legend);
            y += 19.0;
        }
        for line in self.outside_lines() {
            svg.text(
                [20.0, y],
                Hold::Start,
                (FAINT, 12),
                &fitting(&line, WIDTH - 40.0),
            );
            y += 19.0;
        }
    }
}

/// Of a terminal's picture.
const COLUMNS: usize = 72;
const ROWS: usize = 21;

/// Of the other: where the axes are, pixels.
const LEFT: f64 = 72.0;
const RIGHT: f64 = 812.0;
const TOP: f64 = 70.0;
const BOTTOM: f64 = 490.0;

/// Exponents of ten around all of these: from a whole one, at most five below the highest, to a little above it.
fn decades(values: impl Iterator<Item = f64>) -> [f64; 2] {
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for value in values {
        low = low.min(value.log10());
        high = high.max(value.log10());
    }
    [low.floor().max(high.floor() - 4.0), high + 0.1]
}

/// Numbers of an axis: powers of ten, and between few of them twice and five times as much.
fn ticks([low, high]: [f64; 2]) -> Vec<f64> {
    let steps: &[f64] = if high - low < 2.5 {
        &[1.0, 2.0, 5.0]
    } else {
        &[1.0]
    };
    let powers = low as i32..=high.floor() as i32;
    let all = powers.flat_map(|power| steps.iter().map(move |step| step * 10_f64.powi(power)));
    all.filter(|value| value.log10() <= high).collect()
}

/// Where a value lies between two powers of ten.
fn share(value: f64, [low, high]: [f64; 2]) -> f64 {
    ((value.log10() - low) / (high - low)).clamp(0.0, 1.0)
}

fn place(value: f64, range: [f64; 2], cells: usize) -> usize {
    (share(value, range) * (cells - 1) as f64).round() as usize
}

/// `0.1`, `10`, `1000`.
fn number(value: f64) -> String {
    if value >= 1.0 {
        format!("{value:.0}")
    } else {
        format!("{value}")
    }
}
