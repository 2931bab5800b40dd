//! Which part of a layout's text an error is about.

use std::ops::Range;

use super::arguments::Arguments;
use super::parse::{AnyLayout, call, distributed_of, shared_of};
use super::syntax::{Node, NodeKind, read_whole};
use crate::{Axis, Layout, LayoutError};

impl AnyLayout {
    /// The characters of `text`, from 0, that `error` is about: a whole layout, one of its arguments or an entry of
    /// that. `text` is what the layout was read from.
    pub fn place_of(text: &str, error: &LayoutError) -> Range<usize> {
        let whole = 0..text.chars().count();
        read_whole(text).map_or(whole, |node| {
            let part = place_in(&node, error);
            part.column - 1..part.end - 1
        })
    }
}

/// The node or the part of it that is wrong; where it is the parent of a slice or an operand that is, a part of that.
fn place_in(node: &Node, error: &LayoutError) -> Node {
    let Some((name, mut args)) = call(node) else {
        return node.clone();
    };
    let is_layout = matches!(distributed_of(name, &mut args), Ok(Some(_)))
        || matches!(shared_of(name, &mut args), Ok(Some(_)));
    if !is_layout {
        return node.clone();
    }
    if let Some(parent) = args.given("parent")
        && breaks(parent, error)
    {
        return place_in(parent, error);
    }
    argument_of(&args, error).unwrap_or_else(|| node.clone())
}

/// Is it this layout, or a parent of it, that the error is about?
fn breaks(node: &Node, error: &LayoutError) -> bool {
    let Some((name, mut args)) = call(node) else {
        return false;
    };
    let layout: Option<Layout> = distributed_of(name, &mut args).ok().flatten();
    layout.is_some_and(|layout| layout.check_parameters().as_ref() == Err(error))
}

/// The argument that an error names, or an entry of it; `None` where it is about the layout as a whole.
fn argument_of(args: &Arguments, error: &LayoutError) -> Option<Node> {
    let given = |field: &str| args.given(field).cloned();
    match error {
        LayoutError::FieldRank { field, .. } => given(field),
        LayoutError::NotPowerOfTwo {
            field, at, value, ..
        } => {
            let list = given(field)?;
            Some(entry(&list, *at, *value).unwrap_or(list))
        }
        LayoutError::WarpGrid { at, value, .. } => {
            let list = given("warps")?;
            Some(entry(&list, *at, *value).unwrap_or(list))
        }
        LayoutError::NotAPermutation { .. } => given("order"),
        LayoutError::LanesPerWarp { .. } => given("threads_per_warp"),
        LayoutError::SliceDim { .. } => given("dim"),
        LayoutError::SliceOfVector | LayoutError::Unresolved { .. } => given("parent"),
        LayoutError::Basis { axis, bit, .. } => {
            let list = bases(args, *axis)?;
            Some(item(&list, *bit).unwrap_or(list))
        }
        LayoutError::BasisCount { axis, .. } => bases(args, *axis),
        LayoutError::Parameter { field, .. } => given(alias(field)),
        LayoutError::RowShorterThanSwizzle { .. } => given("swizzle_bytes"),
        _ => None,
    }
}

/// The list of bases of an axis. CTAs are `block` where a layout is given by its bases, and else `cta`.
fn bases(args: &Arguments, axis: Axis) -> Option<Node> {
    let name = axis.to_string();
    let given = args.given(&name);
    let of_ctas = || args.given("cta").filter(|_| axis == Axis::Block);
    given.or_else(of_ctas).cloned()
}

/// The name of a field as an argument.
fn alias(field: &str) -> &str {
    match field {
        "alignment_bytes" => "alignment",
        field => field,
    }
}

/// Entry `at` of a list; in a list of pairs, of the first pair that has this number there.
fn entry(list: &Node, at: usize, value: u32) -> Option<Node> {
    let is_it = |node: &Node| matches!(node.kind, NodeKind::Number(number) if number == value);
    let NodeKind::List(items) = &list.kind else {
        return None;
    };
    let direct = item(list, at).filter(is_it);
    direct.or_else(|| items.iter().filter_map(|pair| item(pair, at)).find(is_it))
}

fn item(list: &Node, at: usize) -> Option<Node> {
    match &list.kind {
        NodeKind::List(items) => items.get(at).cloned(),
        _ => None,
    }
}
