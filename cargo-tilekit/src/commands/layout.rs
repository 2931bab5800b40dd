//! `layout`: draws a layout, or those of a kernel's tensors.

use std::fs;
use std::path::Path;
use std::str::FromStr;

use gluon_lang::layout::AnyLayout;
use gluon_lang::layout::view::{View, picture, svg};
use protocol::Exit;
use protocol::Remark;
use protocol::request::Verb;
use serde::Deserialize;
use serde_json::json;

use crate::cli::{CargoOptions, Layout, LayoutView};
use crate::error::{Error, Result};
use crate::package::{ask, drive};
use crate::picture::text;
use crate::terminal::Terminal;

pub(super) fn layout(
    arguments: &Layout,
    cargo: &CargoOptions,
    terminal: &Terminal,
) -> Result<Exit> {
    match (&arguments.shape, &arguments.value) {
        (Some(shape), _) => {
            let layout = parse(&arguments.target)?;
            draw(
                &layout,
                &shape.0,
                arguments.bits.unwrap_or(32),
                arguments,
                terminal,
            )
        }
        (None, _) if AnyLayout::from_str(&arguments.target).is_ok() => Err(Error::usage(
            "a layout is drawn on a tensor, whose shape is missing",
            "add --shape, such as --shape 32x64",
        )),
        (None, None) if is_drawing(arguments) => Err(Error::usage(
            "a kernel has many tensors, and --view, --bits and --svg are of one",
            "choose it with --value; without options, its tensors are named",
        )),
        (None, None) => {
            let kernel = arguments.target.clone();
            drive(Verb::Values { kernel }.into(), cargo, terminal)
        }
        (None, Some(value)) => draw_value(value, arguments, cargo, terminal),
    }
}

fn is_drawing(arguments: &Layout) -> bool {
    arguments.svg.is_some() || arguments.bits.is_some() || arguments.view != LayoutView::Tensor
}

fn parse(text: &str) -> Result<AnyLayout> {
    AnyLayout::from_str(text).map_err(|error| {
        let caret = format!("{}^ {error}", " ".repeat(error.column.saturating_sub(1)));
        let remark = Remark::error("this is no layout")
            .with_note(text)
            .with_note(caret);
        Error::new(
            Exit::Usage,
            remark.with_help(
                "such as 'Blocked([1, 4], [8, 4], [4, 1], [1, 0])'; a kernel is named without --shape",
            ),
        )
    })
}

/// A tensor of a kernel, as the harness names it.
#[derive(Deserialize)]
struct Value {
    reason: String,
    #[serde(rename = "value")]
    name: String,
    shape: Vec<u32>,
    layout: String,
    bits: u32,
}

fn draw_value(
    name: &str,
    arguments: &Layout,
    cargo: &CargoOptions,
    terminal: &Terminal,
) -> Result<Exit> {
    let kernel = arguments.target.clone();
    let (exit, said) = ask(Verb::Values { kernel }.into(), cargo, terminal)?;
    let values: Vec<Value> = said
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .filter(|value: &Value| value.reason == "tilekit-value")
        .collect();
    if exit != Exit::Success {
        terminal.print(&said);
        return Ok(exit);
    }
    let wanted = name.trim_start_matches('%');
    let found = values
        .iter()
        .find(|value| value.name == wanted)
        .ok_or_else(|| {
            let names: Vec<&str> = values.iter().map(|value| value.name.as_str()).collect();
            Error::usage(
                format!("`{}` has no tensor `{name}`", arguments.target),
                format!("it has {}", names.join(", ")),
            )
        })?;
    let bits = arguments.bits.unwrap_or(found.bits);
    draw(
        &parse(&found.layout)?,
        &found.shape,
        bits,
        arguments,
        terminal,
    )
}

fn draw(
    layout: &AnyLayout,
    shape: &[u32],
    bits: u32,
    arguments: &Layout,
    terminal: &Terminal,
) -> Result<Exit> {
    let view = match arguments.view {
        LayoutView::Tensor => View::Tensor,
        LayoutView::Hardware => View::Hardware,
        LayoutView::Banks => View::Banks,
    };
    let picture = picture(layout, shape, view, bits)
        .map_err(|error| Error::new(Exit::Usage, Remark::error(error.to_string())))?;
    match &arguments.svg {
        Some(path) => write(path, &svg(&picture), terminal)?,
        None => terminal.tell(&text(&picture), || {
            json!({
                "reason": "tilekit-layout", "layout": layout.to_string(), "shape": shape,
                "picture": text(&picture),
            })
        }),
    }
    Ok(Exit::Success)
}

fn write(path: &Path, content: &str, terminal: &Terminal) -> Result<()> {
    fs::write(path, content).map_err(|error| Error::io("written", path, &error))?;
    terminal.tell(
        &format!("{}\n", path.display()),
        || json!({"reason": "tilekit-artifact", "kind": "svg", "path": path}),
    );
    Ok(())
}
