//! Pictures of layouts for a terminal: neighbours of one group are drawn as one cell, such as `t5 r0-3`.

use anstyle::{Color, RgbColor, Style};
use layout::view::{Cell, Colour, Panel, Picture, run_name, runs};

/// The picture in lines of at most `width` letters: what is wider is drawn in blocks of columns, one below the other.
pub(crate) fn text_within(picture: &Picture, width: Option<usize>) -> String {
    match width {
        Some(width) => text(&Picture {
            legend: wrapped(&picture.legend, width),
            ..in_blocks(picture, width)
        }),
        None => text(picture),
    }
}

/// The words in lines of at most `width` letters.
fn wrapped(words: &str, width: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in words.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_string()),
        }
    }
    lines.join("\n")
}

/// The picture with panels of as many columns as fit, a power of two, so that what belongs together is seldom cut.
fn in_blocks(picture: &Picture, width: usize) -> Picture {
    let columns = picture.panels.iter().map(|panel| panel.columns.len());
    let most = columns.max().unwrap_or(1).max(1).next_power_of_two();
    let halves = std::iter::successors(Some(most), |columns| Some(columns / 2));
    let mut blocks = halves
        .take_while(|columns| *columns > 0)
        .map(|columns| split(picture, columns));
    let fits = |block: &Picture| Widths::of(block).line(block) <= width;
    let first_fit = blocks.find(fits);
    first_fit.unwrap_or_else(|| split(picture, 1))
}

/// The picture with panels of so many columns.
fn split(picture: &Picture, columns: usize) -> Picture {
    let parts = |panel: &Panel| -> Vec<Panel> {
        let starts = (0..panel.columns.len()).step_by(columns);
        let part = |start: usize| {
            let range = start..(start + columns).min(panel.columns.len());
            let rows = panel.cells.iter();
            Panel {
                title: if start == 0 {
                    panel.title.clone()
                } else {
                    String::new()
                },
                rows: panel.rows.clone(),
                columns: panel.columns[range.clone()].to_vec(),
                cells: rows.map(|row| row[range.clone()].to_vec()).collect(),
            }
        };
        starts.map(part).collect()
    };
    Picture {
        panels: picture.panels.iter().flat_map(parts).collect(),
        ..picture.clone()
    }
}

/// The picture, coloured; the styles are removed where they are not wanted.
pub(crate) fn text(picture: &Picture) -> String {
    let mut lines = vec![picture.title.clone(), picture.legend.clone()];
    let widths = Widths::of(picture);
    for panel in &picture.panels {
        lines.push(String::new());
        if !panel.title.is_empty() {
            lines.push(panel.title.clone());
        }
        lines.extend(panel_lines(panel, &widths));
    }
    lines.push(String::new());
    lines.join("\n")
}

/// In letters. A column is as wide everywhere, in all panels, so that what is below each other in the grid is so on the
/// screen.
struct Widths {
    names: usize,
    column: usize,
}

impl Widths {
    fn of(picture: &Picture) -> Widths {
        let panels = || picture.panels.iter();
        let names = panels().flat_map(|panel| &panel.rows);
        let rows = panels().flat_map(|panel| &panel.cells);
        let needs = |run: Run| (run.label.chars().count() + 2).div_ceil(run.columns);
        let widest = |widths: &mut dyn Iterator<Item = usize>| widths.max().unwrap_or(0);
        Widths {
            names: widest(&mut names.map(|name| name.chars().count())),
            column: widest(&mut rows.flat_map(|row| runs(row)).map(Run::of).map(needs)),
        }
    }
}

impl Widths {
    /// The length of the longest line of the panels.
    fn line(&self, picture: &Picture) -> usize {
        let columns = picture.panels.iter().map(|panel| panel.columns.len());
        self.names + 1 + columns.max().unwrap_or(0) * self.column
    }
}

fn panel_lines(panel: &Panel, widths: &Widths) -> Vec<String> {
    let draw = |(name, row): (&String, &Vec<Cell>)| {
        let cells = runs(row).map(|run| Run::of(run).draw(widths.column));
        let cells: String = cells.collect();
        format!("{name:>width$} {cells}", width = widths.names)
            .trim_end()
            .to_string()
    };
    let rows = panel.rows.iter().zip(&panel.cells).map(draw);
    std::iter::once(head(panel, widths)).chain(rows).collect()
}

/// The names of the columns, each above the place where it begins; some are left out where there is no room for all.
fn head(panel: &Panel, widths: &Widths) -> String {
    let step = |step: &usize| {
        let names = panel.columns.iter().step_by(*step);
        names.map(|name| name.chars().count()).max() < Some(step * widths.column)
    };
    let steps = (0..).map(|power| 1 << power);
    let step = steps.into_iter().find(step).unwrap_or(1);
    let room = step * widths.column;
    let names = panel.columns.iter().step_by(step);
    let names: Vec<String> = names.map(|name| format!("{name:<room$}")).collect();
    let style = Style::new().dimmed();
    let indent = widths.names + 2;
    format!(
        "{:indent$}{style}{}{style:#}",
        "",
        names.concat().trim_end()
    )
}

/// Neighbouring cells that belong together.
struct Run {
    label: String,
    columns: usize,
    colour: Option<Colour>,
}

impl Run {
    fn of(cells: &[Cell]) -> Run {
        let (first, last) = (&cells[0], &cells[cells.len() - 1]);
        let to = if first.name == last.name {
            String::new()
        } else {
            format!("-{}", number_of(&last.name))
        };
        let group = run_name(cells);
        let is_plain = group.is_empty() || first.name.is_empty();
        let space = if is_plain { "" } else { " " };
        Run {
            label: format!("{group}{space}{}{to}", first.name),
            columns: cells.len(),
            colour: first.colour,
        }
    }

    fn draw(&self, width: usize) -> String {
        let inner = self.columns * width - 1;
        let Some(colour) = self.colour else {
            return " ".repeat(inner + 1);
        };
        let [red, green, blue] = colour.rgb();
        let ground = Color::Rgb(RgbColor(red, green, blue));
        let ink = Color::Rgb(RgbColor(0, 0, 0));
        let style = Style::new().fg_color(Some(ink)).bg_color(Some(ground));
        format!("{style} {:<inner$}{style:#}", self.label)
    }
}

/// The digits of `r3`.
fn number_of(name: &str) -> &str {
    name.trim_start_matches(|c: char| !c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use layout::view::{View, picture};

    use super::{text, text_within};

    #[track_caller]
    fn check(layout: &str, shape: &[u32], view: View, bits: u32, expected: &[&str]) {
        let layout = layout.parse().expect("a layout");
        let drawn = text(&picture(&layout, shape, view, bits).expect("a picture"));
        let plain = anstream::adapter::strip_str(&drawn).to_string();
        let squeezed = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let rows: Vec<String> = plain
            .lines()
            .skip(4)
            .map(squeezed)
            .take(expected.len())
            .collect();
        assert_eq!(rows, expected, "{plain}");
    }

    #[test]
    fn a_tensor_shows_its_owners() {
        let layout = "Blocked([1, 2], [8, 4], [1, 2], [1, 0])";
        check(
            layout,
            &[8, 16],
            View::Tensor,
            32,
            &["0 T0 0-1 T1 0-1 T2 0-1 T3 0-1 T32 0-1 T33 0-1 T34 0-1 T35 0-1"],
        );
    }

    #[test]
    fn columns_are_named_where_they_begin() {
        let layout = "Blocked([1, 4], [8, 4], [1, 1], [1, 0])".parse();
        let drawn = picture(&layout.expect("a layout"), &[8, 16], View::Tensor, 32);
        let drawn = text(&drawn.expect("a picture"));
        let plain = anstream::adapter::strip_str(&drawn).to_string();
        let lines: Vec<&str> = plain.lines().skip(3).take(2).collect();
        let expected = [
            "   0  1  2  3  4  5  6  7  8  9  10 11 12 13 14 15",
            "0  T0 0-3      T1 0-3      T2 0-3      T3 0-3",
        ];
        assert_eq!(
            lines.iter().map(|line| line.trim_end()).collect::<Vec<_>>(),
            expected
        );
    }

    /// The rows of the picture within lines of `width` letters.
    fn within(width: usize) -> Vec<String> {
        let layout = "Blocked([1, 4], [8, 4], [1, 1], [1, 0])".parse();
        let drawn = picture(&layout.expect("a layout"), &[2, 16], View::Tensor, 32);
        let drawn = text_within(&drawn.expect("a picture"), Some(width));
        let plain = anstream::adapter::strip_str(&drawn).to_string();
        let lines = plain.lines().skip_while(|line| !line.is_empty());
        lines
            .skip(1)
            .map(|line| line.trim_end().to_string())
            .collect()
    }

    #[test]
    fn a_wide_picture_is_drawn_in_blocks() {
        let expected = [
            "   0 1 2 3 4 5 6 7",
            "0  T0 0-3  T1 0-3",
            "1  T4 0-3  T5 0-3",
            "",
            "   8   10  12  14",
            "0  T2 0-3  T3 0-3",
            "1  T6 0-3  T7 0-3",
        ];
        assert_eq!(within(30), expected);
        assert_eq!(within(50).len(), 3, "it fits: {:?}", within(50));
        let narrow = within(1);
        assert!(narrow.len() > 32, "a column a block: {narrow:?}");
    }

    #[test]
    fn shared_memory_shows_its_banks() {
        check(
            "Swizzled(1, 1, 4, [1, 0])",
            &[4, 4],
            View::Banks,
            32,
            &["0 0 1 2 3", "1 5 4 7 6"],
        );
        check(
            "Swizzled(4, 1, 4, [1, 0])",
            &[2, 16],
            View::Tensor,
            16,
            &["0 0 … 7 8 … 15", "1 20 … 23 16 … 19 28 … 31 24 … 27"],
        );
    }
}
