//! A picture for a terminal: neighbours with the same head are drawn as one cell, such as `t5 r0-3`.

use anstyle::{Color, RgbColor, Style};

use super::model::{Cell, Picture};

/// The picture, coloured; the styles are removed where they are not wanted.
pub(crate) fn text(picture: &Picture) -> String {
    let rows: Vec<Vec<Run>> = picture.cells.iter().map(|row| runs(row)).collect();
    let name_width = picture
        .row_names
        .iter()
        .map(|name| name.chars().count())
        .max()
        .unwrap_or(0);
    // A column is as wide everywhere, so that what is below each other in the grid is so on the screen.
    let needs = |run: &Run| (run.label.chars().count() + 2).div_ceil(run.columns);
    let width = rows.iter().flatten().map(needs).max().unwrap_or(0);
    let mut text = format!("{}\n{}\n\n", picture.title, picture.legend);
    for (name, row) in picture.row_names.iter().zip(&rows) {
        let cells: Vec<String> = row.iter().map(|run| run.draw(width)).collect();
        let line = format!("{name:>name_width$} {}", cells.concat());
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Neighbouring cells that belong together.
struct Run {
    label: String,
    columns: usize,
    hue: u32,
    shade: u32,
}

fn runs(row: &[Cell]) -> Vec<Run> {
    row.chunk_by(belong_together).map(Run::of).collect()
}

/// Equal cells, and cells with the same head whose tails count on: r0, r1, r2.
fn belong_together(a: &Cell, b: &Cell) -> bool {
    let number = |cell: &Cell| split(&cell.tail).1.parse::<u64>().ok();
    let counts_on = || number(a).zip(number(b)).is_some_and(|(a, b)| a + 1 == b);
    a.head == b.head && a.shade == b.shade && (a.tail == b.tail || counts_on())
}

impl Run {
    fn of(cells: &[Cell]) -> Run {
        let (first, last) = (&cells[0], &cells[cells.len() - 1]);
        let to = if first.tail == last.tail {
            String::new()
        } else {
            format!("-{}", split(&last.tail).1)
        };
        let space = if first.head.is_empty() || first.tail.is_empty() {
            ""
        } else {
            " "
        };
        Run {
            columns: cells.len(),
            label: format!("{}{space}{}{to}", first.head, first.tail),
            hue: first.hue,
            shade: first.shade,
        }
    }

    fn draw(&self, width: usize) -> String {
        let inner = self.columns * width - 1;
        let label = &self.label;
        if label.is_empty() {
            return " ".repeat(inner + 1);
        }
        let (red, green, blue) = rgb(self.hue, self.shade);
        let ground = Color::Rgb(RgbColor(red, green, blue));
        let ink = Color::Rgb(RgbColor(0, 0, 0));
        let style = Style::new().fg_color(Some(ink)).bg_color(Some(ground));
        format!("{style} {label:<inner$}{style:#}")
    }
}

/// Letters and the number behind them.
fn split(tail: &str) -> (&str, &str) {
    let digits = tail
        .find(|c: char| c.is_ascii_digit())
        .unwrap_or(tail.len());
    tail.split_at(digits)
}

/// A bright colour on the wheel, on which black can be read.
pub(super) fn rgb(hue: u32, shade: u32) -> (u8, u8, u8) {
    let position = f64::from(hue % 1024) / 1024.0 * 6.0;
    let lightness = 0.82 - 0.06 * f64::from(shade);
    let chroma = (1.0 - (2.0 * lightness - 1.0).abs()) * (0.78 - 0.08 * f64::from(shade));
    let part = |offset: f64| {
        // HSL to RGB by distance on the wheel.
        let distance = ((position + offset) % 6.0 - 3.0).abs() - 1.0;
        let level = lightness - chroma / 2.0 + chroma * distance.clamp(0.0, 1.0);
        (level * 255.0).round().clamp(0.0, 255.0) as u8
    };
    (part(0.0), part(4.0), part(2.0))
}

#[cfg(test)]
mod tests {
    use tilekit::layout::AnyLayout;

    use super::{rgb, text};
    use crate::picture::{Picture, View, svg};

    #[track_caller]
    fn check(layout: &str, shape: &[u32], view: View, bits: u32, expected: &[&str]) {
        let layout: AnyLayout = layout.parse().expect("a layout");
        let picture = Picture::draw(&layout, shape, view, bits).expect("a picture");
        let drawn = text(&picture);
        let plain = anstream::adapter::strip_str(&drawn).to_string();
        let rows = plain.lines().skip(3).map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words.join(" ")
        });
        let rows: Vec<String> = rows.take(expected.len()).collect();
        assert_eq!(rows, expected);
        assert!(svg(&picture).ends_with("</svg>\n"));
    }

    #[test]
    fn a_tensor_shows_its_owners() {
        let layout = "Blocked([1, 2], [8, 4], [1, 2], [1, 0])";
        check(
            layout,
            &[8, 16],
            View::Tensor,
            32,
            &[
                "0 t0 r0-1 t1 r0-1 t2 r0-1 t3 r0-1 t32 r0-1 t33 r0-1 t34 r0-1 t35 r0-1",
                "1 t4 r0-1 t5 r0-1 t6 r0-1 t7 r0-1 t36 r0-1 t37 r0-1 t38 r0-1 t39 r0-1",
            ],
        );
        check(
            layout,
            &[8, 8],
            View::Tensor,
            32,
            &["0 t0×2 r0-1 t1×2 r0-1 t2×2 r0-1 t3×2 r0-1"],
        );
        check(
            layout,
            &[8, 16],
            View::Hardware,
            32,
            &["t0 0 0-1", "t1 0 2-3"],
        );
    }

    #[test]
    fn shared_memory_shows_offsets_and_banks() {
        let layout = "Swizzled(1, 1, 4, [1, 0])";
        check(layout, &[4, 4], View::Tensor, 32, &["0 0-3", "1 5 4 7 6"]);
        check(
            layout,
            &[4, 4],
            View::Banks,
            32,
            &["0 b0 b1 b2 b3", "1 b5 b4 b7 b6"],
        );
        check(layout, &[4, 4], View::Banks, 16, &["0 b0 b1", "1 b2 b3"]);
        check(
            "Padded([[4, 2]], [1, 0])",
            &[2, 4],
            View::Tensor,
            32,
            &["0 0-3", "1 6-9"],
        );
    }

    #[test]
    fn the_wheel_goes_from_red_by_green_to_blue() {
        let (red, green, blue) = rgb(0, 0);
        assert!(red > green && red > blue);
        let (red, green, blue) = rgb(1024 / 3, 0);
        assert!(green > red && green > blue);
        let (red, green, blue) = rgb(2 * 1024 / 3, 0);
        assert!(blue > red && blue > green);
    }
}
