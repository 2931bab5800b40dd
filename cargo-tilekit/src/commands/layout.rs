//! `layout`: draws a layout, or those of a kernel's tensors.

use std::fs;
use std::ops::Range;
use std::path::Path;
use std::str::FromStr;

use layout::view::{View, picture, svg};
use layout::{AnyLayout, LayoutError, SharedLayout};
use protocol::Exit;
use protocol::Remark;
use protocol::request::Verb;
use serde::Deserialize;
use serde_json::json;

use crate::cli::{CargoOptions, Layout, LayoutView};
use crate::error::{Error, Result};
use crate::package::{ask, drive};
use crate::picture::{text, text_within};
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
                arguments.bits.unwrap_or_else(|| bits_of(&layout)),
                arguments,
                terminal,
            )
        }
        (None, _) if is_layout(&arguments.target) => {
            parse(&arguments.target)?;
            Err(Error::usage(
                "a layout is drawn on a tensor, whose shape is missing",
                "add --shape, such as --shape 32x64",
            ))
        }
        (None, None) if is_drawing(arguments) => Err(Error::usage(
            "a kernel has many tensors, and --view, --bits and --svg are of one",
            "choose it with --value; without options, its tiles are named",
        )),
        (None, None) => {
            let kernel = arguments.target.clone();
            drive(Verb::Values { kernel }.into(), cargo, terminal)
        }
        (None, Some(value)) => draw_value(value, arguments, cargo, terminal),
    }
}

/// Is a layout meant, right or wrong, and no kernel? Names of kernels have parentheses in their arguments alone, as in
/// `softmax<(f32, f16)>`.
fn is_layout(target: &str) -> bool {
    let name = target.split('(').next().unwrap_or(target);
    name.len() < target.len() && !name.contains('<') || AnyLayout::from_str(target).is_ok()
}

/// The width of elements that a layout is made for, where it says so.
fn bits_of(layout: &AnyLayout) -> u32 {
    match layout {
        AnyLayout::Shared(SharedLayout::Nvmma(nvmma)) => nvmma.element_bits,
        _ => 32,
    }
}

fn is_drawing(arguments: &Layout) -> bool {
    arguments.svg.is_some() || arguments.bits.is_some() || arguments.view != LayoutView::Tensor
}

fn parse(text: &str) -> Result<AnyLayout> {
    AnyLayout::from_str(text).map_err(|error| {
        let column = error.column.saturating_sub(1);
        let remark = Remark::error("this is no layout");
        let remark = pointed(remark, text, column..column + 1, &error.to_string());
        Error::new(
            Exit::Usage,
            remark.with_help(
                "such as 'Blocked([1, 4], [8, 4], [4, 1], [1, 0])'; a kernel is named without --shape",
            ),
        )
    })
}

/// A remark that quotes the text in question and underlines the offending characters.
fn pointed(remark: Remark, text: &str, place: Range<usize>, said: &str) -> Remark {
    let line: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    let mark = "^".repeat(place.len().max(1));
    let below = format!("{}{mark} {said}", " ".repeat(place.start));
    remark.with_note(line).with_note(below.trim_end())
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
        terminal.pass_on(&said);
        return Ok(exit);
    }
    let wanted = name.trim_start_matches('%');
    let found = values
        .iter()
        .find(|value| value.name == wanted)
        .ok_or_else(|| {
            let names: Vec<&str> = values.iter().map(|value| value.name.as_str()).collect();
            Error::usage(
                format!("`{}` has no tile `{name}`", arguments.target),
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
        .map_err(|error| undrawn(&error, &text_of(layout, arguments), shape))?;
    match &arguments.svg {
        Some(path) => write(path, &svg(&picture), terminal)?,
        None => terminal.tell(&text_within(&picture, Terminal::width()), || {
            json!({
                "reason": "tilekit-layout", "layout": layout.to_string(), "shape": shape,
                "picture": anstream::adapter::strip_str(&text(&picture)).to_string(),
            })
        }),
    }
    Ok(Exit::Success)
}

/// The text that the layout was read from: the argument, or what the harness says of a kernel's tensor.
fn text_of(layout: &AnyLayout, arguments: &Layout) -> String {
    match arguments.value {
        None => arguments.target.clone(),
        Some(_) => layout.to_string(),
    }
}

/// Why a layout cannot be drawn, with the part of it that is wrong, and what to change.
fn undrawn(error: &LayoutError, text: &str, shape: &[u32]) -> Error {
    let remark = Remark::error(error.to_string());
    let remark = if is_of_the_picture(error) {
        remark
    } else {
        pointed(remark, text, AnyLayout::place_of(text, error), "")
    };
    let help = match error {
        LayoutError::ShapeRank { rank, .. } => {
            let sizes = vec!["32"; *rank].join("x");
            Some(format!("give as many sizes as the layout has dimensions, such as --shape {sizes}"))
        }
        LayoutError::RowShorterThanSwizzle { .. } => {
            Some("take a narrower swizzle, or a larger --shape".to_owned())
        }
        LayoutError::Unresolved { .. } => Some(
            "it becomes a layout within a kernel: `cargo tilekit layout KERNEL --value NAME` draws that"
                .to_owned(),
        ),
        _ if is_of_the_picture(error) && shape.len() > 2 => {
            Some("leave out dimensions that the layout treats alike, or make them 1".to_owned())
        }
        LayoutError::Parameter { field: "shape", .. } if is_of_the_picture(error) => {
            let sizes = vec!["32"; shape.len()].join("x");
            Some(format!("a smaller tensor shows as much: cargo tilekit layout '{text}' --shape {sizes}"))
        }
        _ => None,
    };
    Error::new(
        Exit::Usage,
        match help {
            Some(help) => remark.with_help(help),
            None => remark,
        },
    )
}

/// Is it the picture that is impossible, and not the layout?
fn is_of_the_picture(error: &LayoutError) -> bool {
    matches!(
        error,
        LayoutError::Parameter {
            layout: "a picture",
            ..
        }
    )
}

fn write(path: &Path, content: &str, terminal: &Terminal) -> Result<()> {
    fs::write(path, content).map_err(|error| Error::io("written", path, &error))?;
    terminal.tell(
        &format!("{}\n", path.display()),
        || json!({"reason": "tilekit-artifact", "kind": "svg", "path": path}),
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::is_layout;

    #[test]
    fn a_wrong_layout_is_no_kernel_and_a_kernel_of_tuples_no_layout() {
        for layout in ["Blocked([1], [32], [4], [0])", "Blockd([1])", "Auto"] {
            assert!(is_layout(layout), "{layout}");
        }
        for kernel in ["softmax", "softmax<bf16, 1024>", "fold<(f32, f16)>"] {
            assert!(!is_layout(kernel), "{kernel}");
        }
    }
}
