//! The roofline: operations a second over operations a byte, both in powers of ten, below what memory and cores can do.

mod axis;
mod picture;

use std::fmt::Write;

use self::axis::{decades, digits, number, place, powers};
use super::{Mark, Work};

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
            let (Some(flops @ 1..), Some(bytes @ 1..), Some(roofline)) =
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
                    let intensity = flops as f64 / bytes as f64;
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
                // Tensors that stay in L2 have no intensity by the bytes of DRAM.
                if let Some(counted @ 1..) = mark.counted_bytes {
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
            "{}: {} TFLOP/s at {} FLOP/B{bytes}, {share:.0} % of the roof",
            mark.name,
            digits(*teraflops),
            digits(*intensity)
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
        for value in powers(self.intensities) {
            let at = place(value, self.intensities, COLUMNS);
            for (letter, written) in letters[at..].iter_mut().zip(number(value).chars()) {
                *letter = written;
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
}

/// Of a terminal's picture.
const COLUMNS: usize = 72;
const ROWS: usize = 21;
