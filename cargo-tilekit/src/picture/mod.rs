//! Pictures of layouts: a grid of cells, drawn for a terminal or as SVG.

mod model;
mod svg;
mod text;

pub(crate) use model::{NoPicture, Picture, View};
pub(crate) use svg::svg;
pub(crate) use text::text;
