//! A picture as data.

use super::colour::Colour;

/// What to draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// The tensor: the owner of each element, or its offset.
    Tensor,
    /// The machine: which element each register of each thread holds, or each place of shared memory.
    Hardware,
    /// The tensor, coloured by the bank of shared memory in which each element lies.
    Banks,
}

/// A grid of cells with names beside rows and above columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// The layout.
    pub title: String,
    /// What the text and the colours of the cells say.
    pub legend: String,
    /// The panels, one below the other: slices of a tensor of three or more dimensions, warps of the machine.
    pub panels: Vec<Panel>,
}

/// One grid of a picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Panel {
    /// What this panel shows, empty when there is only one.
    pub title: String,
    /// The names of the rows.
    pub rows: Vec<String>,
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The cells, row by row.
    pub cells: Vec<Vec<Cell>>,
}

/// One cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// What the cell's whole group is called, such as the thread.
    pub group_name: String,
    /// What the cell itself is called, such as the register.
    pub name: String,
    /// The fine group: no line is drawn between neighbours of one group.
    pub group: u32,
    /// The coarse group: a broad line is drawn between neighbours of different ones.
    pub region: u32,
    /// The colour; `None` for a place that holds nothing.
    pub colour: Option<Colour>,
}

/// The cells of a row, cut where another group begins: what is drawn as one box.
pub fn runs(cells: &[Cell]) -> impl Iterator<Item = &[Cell]> {
    cells.chunk_by(|a, b| (a.group, a.region, a.colour) == (b.group, b.region, b.colour))
}

/// The name of a whole run's group: of its first cell, and of its last where they differ.
pub fn run_name(run: &[Cell]) -> String {
    let (first, last) = (&run[0].group_name, &run[run.len() - 1].group_name);
    if first == last {
        first.clone()
    } else {
        format!("{first} … {last}")
    }
}
