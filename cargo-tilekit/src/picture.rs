//! Pictures of layouts for a terminal: neighbours of one group are drawn as one cell, such as `t5 r0-3`.

use anstyle::{Color, RgbColor, Style};
use gluon_lang::layout::view::{Cell, Colour, Panel, Picture};

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
            column: widest(&mut rows.flat_map(|row| runs(row)).map(needs)),
        }
    }
}

fn panel_lines(panel: &Panel, widths: &Widths) -> Vec<String> {
    let draw = |(name, row): (&String, &Vec<Cell>)| {
        let cells = runs(row).into_iter().map(|run| run.draw(widths.column));
        let cells: String = cells.collect();
        format!("{name:>width$} {cells}", width = widths.names)
            .trim_end()
            .to_string()
    };
    panel.rows.iter().zip(&panel.cells).map(draw).collect()
}

/// Neighbouring cells that belong together.
struct Run {
    label: String,
    columns: usize,
    colour: Option<Colour>,
}

fn runs(row: &[Cell]) -> Vec<Run> {
    let belong_together = |a: &Cell, b: &Cell| {
        a.group == b.group && a.region == b.region && a.group_name == b.group_name
    };
    row.chunk_by(belong_together).map(Run::of).collect()
}

impl Run {
    fn of(cells: &[Cell]) -> Run {
        let (first, last) = (&cells[0], &cells[cells.len() - 1]);
        let to = if first.name == last.name {
            String::new()
        } else {
            format!("-{}", number_of(&last.name))
        };
        let is_plain = first.group_name.is_empty() || first.name.is_empty();
        let space = if is_plain { "" } else { " " };
        Run {
            label: format!("{}{space}{}{to}", first.group_name, first.name),
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
    use gluon_lang::layout::view::{View, picture};

    use super::text;

    #[track_caller]
    fn check(layout: &str, shape: &[u32], view: View, bits: u32, expected: &[&str]) {
        let layout = layout.parse().expect("a layout");
        let drawn = text(&picture(&layout, shape, view, bits).expect("a picture"));
        let plain = anstream::adapter::strip_str(&drawn).to_string();
        let squeezed = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let rows: Vec<String> = plain
            .lines()
            .skip(3)
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
    fn shared_memory_shows_its_banks() {
        check(
            "Swizzled(1, 1, 4, [1, 0])",
            &[4, 4],
            View::Banks,
            32,
            &["0 0 1 2 3", "1 5 4 7 6"],
        );
    }
}
