//! Drawing a picture as SVG.
//!
//! Cells of one group grow together: no line between them, the group's name once, at its first cell. Broad gaps part
//! the regions. So the eye sees first the regions (warps), then the groups (threads, words), then the cells.

use std::fmt::Write;

use super::picture::{Cell, Panel, Picture, run_name, runs};

/// Height of a cell in pixels.
const CELL: usize = 22;
/// Width of a letter at the size of the cells' text.
const LETTER: usize = 7;
const MARGIN: usize = 28;
/// Space above a panel's grid for the names of the columns.
const HEAD: usize = 18;
/// Space for a panel's title.
const TITLE: usize = 18;
/// Width of a letter of the picture's title.
const TITLE_LETTER: usize = 10;
/// Height of a line of the picture's title.
const TITLE_LINE: usize = 22;
/// Height of a line of the legend.
const LEGEND_LINE: usize = 14;
/// The least width for title and legend, so that those of a narrow grid are not broken into many lines.
const NARROWEST: usize = 600;
const INK: &str = "#1b1f24";
const FAINT: &str = "#8a919b";

/// The whole file. The same picture always gives the same text.
pub fn svg(picture: &Picture) -> String {
    let mut grids: Vec<Grid<'_>> = picture.panels.iter().map(Grid::new).collect();
    align(&mut grids);
    let widest = grids.iter().map(Grid::width).max().unwrap_or(0);
    let inner = widest.max(NARROWEST);
    let title = wrapped(&picture.title, inner / TITLE_LETTER);
    let legend = wrapped(&picture.legend, inner / LETTER);
    let legend_top = MARGIN + 8 + TITLE_LINE * title.len();
    let top = legend_top + LEGEND_LINE * legend.len() + 8;
    let width = inner + 2 * MARGIN;
    let height = top + grids.iter().map(Grid::height).sum::<usize>() + MARGIN;
    let mut out = String::new();
    let mut line = |text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    line(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace\" font-size=\"11\" fill=\"{INK}\">"
    ));
    line(format!(
        "<rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>"
    ));
    for (at, words) in title.iter().enumerate() {
        let y = MARGIN + 8 + at * TITLE_LINE;
        line(text(
            MARGIN,
            y,
            "font-size=\"16\" font-weight=\"600\"",
            words,
        ));
    }
    for (at, words) in legend.iter().enumerate() {
        let y = legend_top + at * LEGEND_LINE;
        line(text(MARGIN, y, &format!("fill=\"{FAINT}\""), words));
    }
    let mut y = top;
    for grid in &grids {
        grid.draw(y, &mut line);
        y += grid.height();
    }
    line("</svg>".to_owned());
    out
}

/// Gives all panels columns of one width, so that what is below each other in the tensor is so in the picture.
fn align(grids: &mut [Grid<'_>]) {
    let cell_width = grids.iter().map(|grid| grid.cell_width).max().unwrap_or(0);
    let left = grids.iter().map(|grid| grid.left).max().unwrap_or(0);
    for grid in grids {
        (grid.cell_width, grid.left) = (cell_width, left);
    }
}

/// One panel with its measures.
struct Grid<'a> {
    panel: &'a Panel,
    cell_width: usize,
    left: usize,
}

impl<'a> Grid<'a> {
    fn new(panel: &'a Panel) -> Self {
        // A name of the group alone spreads over its cells; beside names of the cells it must fit into the first.
        let letters = |name: &str| name.chars().count() * LETTER;
        let needed = panel.cells.iter().flat_map(|row| runs(row)).map(|run| {
            let own = run
                .iter()
                .map(|cell| letters(&cell.name))
                .max()
                .unwrap_or(0);
            let wide = match (letters(&run[0].group_name), own) {
                (group, 0) => (letters(&run_name(run)).max(group) + 10).div_ceil(run.len()),
                (0, own) => own + 8,
                (group, own) => group + own + 14,
            };
            // A box is at least as wide as it is high.
            wide.max(CELL.div_ceil(run.len()))
        });
        Self {
            panel,
            cell_width: needed.max().unwrap_or(CELL),
            left: MARGIN + longest(&panel.rows) * LETTER + 10,
        }
    }

    /// Every how many columns one is named, so that the names do not run together.
    fn name_step(&self) -> usize {
        let named = |step: &usize| {
            let names = self.panel.columns.iter().step_by(*step);
            let letters = names.map(|name| name.chars().count()).max().unwrap_or(0);
            letters * LETTER + 4 <= step * self.cell_width
        };
        let steps = (0..).map(|power| 1 << power);
        steps.into_iter().find(named).unwrap_or(1)
    }

    fn width(&self) -> usize {
        self.left - MARGIN + self.panel.columns.len() * self.cell_width
    }

    fn height(&self) -> usize {
        self.head() + self.panel.cells.len() * CELL + 12
    }

    fn head(&self) -> usize {
        if self.panel.title.is_empty() {
            HEAD
        } else {
            HEAD + TITLE
        }
    }

    fn draw(&self, top: usize, line: &mut impl FnMut(String)) {
        if !self.panel.title.is_empty() {
            line(text(
                MARGIN,
                top + 10,
                "font-weight=\"600\"",
                &self.panel.title,
            ));
        }
        let grid_top = top + self.head();
        let columns = self.panel.columns.iter().enumerate();
        let named = columns
            .step_by(self.name_step())
            .filter(|(_, name)| !name.is_empty());
        for (column, name) in named {
            let x = self.left + column * self.cell_width + self.cell_width / 2;
            line(text(
                x,
                grid_top - 7,
                &format!("fill=\"{FAINT}\" text-anchor=\"middle\""),
                name,
            ));
        }
        for (row, cells) in self.panel.cells.iter().enumerate() {
            let y = grid_top + row * CELL;
            let name = format!("fill=\"{FAINT}\" text-anchor=\"end\"");
            line(text(self.left - 8, y + 15, &name, &self.panel.rows[row]));
            self.draw_row(cells, y, line);
        }
        self.draw_gaps(grid_top, line);
    }

    /// The runs of cells of one group: one rounded box each, the group's name at its left.
    fn draw_row(&self, cells: &[Cell], y: usize, line: &mut impl FnMut(String)) {
        let mut column = 0;
        for run in runs(cells) {
            let x = self.left + column * self.cell_width;
            column += run.len();
            let Some(colour) = run[0].colour else {
                line(format!(
                    "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"3\" fill=\"none\" stroke=\"#d5d9de\" \
                     stroke-dasharray=\"3 3\"/>",
                    x + 2,
                    y + 2,
                    run.len() * self.cell_width - 4,
                    CELL - 4
                ));
                continue;
            };
            line(format!(
                "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"3\" fill=\"{}\"/>",
                x + 1,
                y + 1,
                run.len() * self.cell_width - 2,
                CELL - 2,
                colour.hex()
            ));
            self.label(run, x, y, line);
        }
    }

    fn label(&self, run: &[Cell], x: usize, y: usize, line: &mut impl FnMut(String)) {
        let has_names = run.iter().any(|cell| !cell.name.is_empty());
        if !run[0].group_name.is_empty() {
            if has_names {
                line(text(
                    x + 5,
                    y + 15,
                    "font-weight=\"600\"",
                    &run[0].group_name,
                ));
            } else {
                let middle = x + run.len() * self.cell_width / 2;
                line(text(
                    middle,
                    y + 15,
                    "text-anchor=\"middle\"",
                    &run_name(run),
                ));
            }
        }
        for (at, cell) in run
            .iter()
            .enumerate()
            .filter(|(_, cell)| !cell.name.is_empty())
        {
            let right = x + (at + 1) * self.cell_width;
            if run[0].group_name.is_empty() {
                let middle = right - self.cell_width / 2;
                line(text(middle, y + 15, "text-anchor=\"middle\"", &cell.name));
            } else {
                line(text(
                    right - 5,
                    y + 15,
                    "text-anchor=\"end\" font-size=\"9\" fill-opacity=\"0.55\"",
                    &cell.name,
                ));
            }
        }
    }

    /// Dark lines between regions, as one path.
    fn draw_gaps(&self, top: usize, line: &mut impl FnMut(String)) {
        let cells = &self.panel.cells;
        let differ =
            |a: &Cell, b: &Cell| a.colour.is_some() && b.colour.is_some() && a.region != b.region;
        let mut path = String::new();
        for row in 0..cells.len() {
            for column in 0..cells[row].len() {
                let (x, y) = (self.left + column * self.cell_width, top + row * CELL);
                // Writing to a string cannot fail.
                if column > 0 && differ(&cells[row][column], &cells[row][column - 1]) {
                    let _ = write!(path, "M{x} {y}v{CELL}");
                }
                if row > 0 && differ(&cells[row][column], &cells[row - 1][column]) {
                    let _ = write!(path, "M{x} {y}h{}", self.cell_width);
                }
            }
        }
        if !path.is_empty() {
            line(format!(
                "<path d=\"{path}\" stroke=\"{INK}\" stroke-width=\"1.5\" stroke-linecap=\"round\" fill=\"none\"/>"
            ));
        }
    }
}

/// The letters of the longest name.
fn longest(names: &[String]) -> usize {
    let letters = names.iter().map(|name| name.chars().count());
    letters.max().unwrap_or(0)
}

/// Lines of at most `letters`, broken between words; a longer word has its own line.
fn wrapped(words: &str, letters: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in unbroken(words) {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= letters => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    lines
}

/// The words of a text; a list of numbers, such as `[8, 4],`, is one.
fn unbroken(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for piece in text.split(' ') {
        let is_in_list = |word: &String| {
            let number = word.strip_suffix(',');
            number.is_some_and(|number| number.ends_with(|c: char| c.is_ascii_digit()))
        };
        match words.last_mut() {
            Some(word) if is_in_list(word) => *word = format!("{word} {piece}"),
            _ => words.push(piece.to_owned()),
        }
    }
    words
}

fn text(x: usize, y: usize, attributes: &str, content: &str) -> String {
    let escaped = content
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    format!("<text x=\"{x}\" y=\"{y}\" {attributes}>{escaped}</text>")
}
