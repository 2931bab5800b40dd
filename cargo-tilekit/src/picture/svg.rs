//! A picture as SVG: one rectangle a cell, coordinates outside, the title above.

use std::fmt::Write;

use super::model::{Cell, Picture};
use super::text::rgb;

/// Height of a cell and of a line of text, pixels.
const HEIGHT: usize = 22;

/// Width of a letter of the monospaced font at 11 pixels.
const LETTER: usize = 7;

const MARGIN: usize = 16;

/// The whole file.
pub(crate) fn svg(picture: &Picture) -> String {
    let longest = |texts: &mut dyn Iterator<Item = usize>| texts.max().unwrap_or(0);
    let label = longest(
        &mut picture
            .cells
            .iter()
            .flatten()
            .map(|cell| label(cell).chars().count()),
    );
    let name = longest(&mut picture.row_names.iter().map(|name| name.chars().count()));
    let (width, left) = (label.max(2) * LETTER + 10, MARGIN + name * LETTER + 8);
    let top = MARGIN + 3 * HEIGHT;
    let columns = picture.column_names.len();
    let title_width = longest(
        &mut [&picture.title, &picture.legend]
            .iter()
            .map(|text| text.chars().count() * 8),
    );
    let total_width = (left + columns * width).max(MARGIN + title_width) + MARGIN;
    let total_height = top + picture.cells.len() * HEIGHT + MARGIN;
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{total_width}\" height=\"{total_height}\" viewBox=\"0 0 \
         {total_width} {total_height}\" font-family=\"ui-monospace, Menlo, Consolas, monospace\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>"
    );
    let _ = writeln!(
        out,
        "<text x=\"{MARGIN}\" y=\"{}\" font-size=\"14\" font-weight=\"bold\">{}</text>\n\
         <text x=\"{MARGIN}\" y=\"{}\" fill=\"#555555\">{}</text>",
        MARGIN + 12,
        escape(&picture.title),
        MARGIN + 12 + HEIGHT,
        escape(&picture.legend)
    );
    for (column, name) in picture.column_names.iter().enumerate() {
        let x = left + column * width + width / 2;
        let _ = writeln!(
            out,
            "<text x=\"{x}\" y=\"{}\" fill=\"#777777\" text-anchor=\"middle\">{name}</text>",
            top - 6
        );
    }
    for (row, cells) in picture.cells.iter().enumerate() {
        let y = top + row * HEIGHT;
        let name = escape(&picture.row_names[row]);
        let _ = writeln!(
            out,
            "<text x=\"{}\" y=\"{}\" fill=\"#777777\" text-anchor=\"end\">{name}</text>",
            left - 6,
            y + 15
        );
        for (column, cell) in cells.iter().enumerate() {
            draw_cell(&mut out, cell, (left + column * width, y), width);
        }
    }
    out.push_str("</svg>\n");
    out
}

fn draw_cell(out: &mut String, cell: &Cell, (x, y): (usize, usize), width: usize) {
    let text = label(cell);
    if text.is_empty() {
        return;
    }
    let (red, green, blue) = rgb(cell.hue, cell.shade);
    let _ = writeln!(
        out,
        "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{HEIGHT}\" fill=\"#{red:02x}{green:02x}{blue:02x}\" \
         stroke=\"#ffffff\"/><text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
        x + width / 2,
        y + 15,
        escape(&text)
    );
}

fn label(cell: &Cell) -> String {
    let space = if cell.head.is_empty() || cell.tail.is_empty() {
        ""
    } else {
        " "
    };
    format!("{}{space}{}", cell.head, cell.tail)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
