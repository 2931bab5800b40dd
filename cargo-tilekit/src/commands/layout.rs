//! `layout`: draws a layout without any kernel.

use std::fs;
use std::path::Path;
use std::str::FromStr;

use tilekit::harness::Exit;
use tilekit::layout::AnyLayout;
use tilekit::report::Remark;

use crate::cli::{Layout, LayoutView};
use crate::error::{Error, Result};
use crate::picture::{NoPicture, Picture, View, svg, text};
use crate::terminal::Terminal;

pub(super) fn layout(arguments: &Layout, terminal: &Terminal) -> Result<Exit> {
    let layout = AnyLayout::from_str(&arguments.expression).map_err(|error| {
        let caret = format!("{}^ {error}", " ".repeat(error.column.saturating_sub(1)));
        let remark = Remark::error("this is no layout")
            .with_note(&arguments.expression)
            .with_note(caret);
        Error::new(
            Exit::Usage,
            remark.with_help("such as 'Blocked([1, 4], [8, 4], [4, 1], [1, 0])'"),
        )
    })?;
    let view = match arguments.view {
        LayoutView::Tensor => View::Tensor,
        LayoutView::Hardware => View::Hardware,
        LayoutView::Banks => View::Banks,
    };
    let picture =
        Picture::draw(&layout, &arguments.shape.0, view, arguments.bits).map_err(refuse)?;
    match &arguments.svg {
        Some(path) => write(path, &svg(&picture), terminal)?,
        None => terminal.print(&text(&picture)),
    }
    Ok(Exit::Success)
}

fn write(path: &Path, content: &str, terminal: &Terminal) -> Result<()> {
    fs::write(path, content).map_err(|error| Error::io("written", path, &error))?;
    terminal.print(&format!("{}\n", path.display()));
    Ok(())
}

fn refuse(why: NoPicture) -> Error {
    match why {
        NoPicture::Layout(error) => Error::new(Exit::Usage, Remark::error(error.to_string())),
        NoPicture::View(why) => Error::usage(why, "choose another --view"),
        NoPicture::TooLarge(elements) => Error::usage(
            format!("{elements} elements are too many to look at"),
            "choose a smaller --shape; layouts repeat",
        ),
    }
}
