//! The roofline as SVG.

use super::super::svg::{FAINT, Hold, INK, RULE, Svg, WIDTH, fitting};
use super::axis::{number, share, ticks};
use super::{Point, Roof};

/// Colours of runs, in turn (Okabe and Ito: told apart by all eyes).
const COLOURS: [&str; 7] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#1b1f24",
];

/// Where the axes are, pixels.
const LEFT: f64 = 72.0;
const RIGHT: f64 = 812.0;
const TOP: f64 = 70.0;
const BOTTOM: f64 = 490.0;

impl Roof<'_> {
    /// As a picture.
    pub(in super::super) fn svg(&self, device: &str) -> String {
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
