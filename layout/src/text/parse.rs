//! From text to layouts.

use std::fmt;
use std::str::FromStr;

use super::arguments::{Arguments, vectors};
use super::syntax::{Node, NodeKind, ParseLayoutError, read_prefix, read_whole};
use crate::{
    Blocked, DistributedLinear, DotOperand, Layout, Mma, Nvmma, Padded, SharedLayout, SharedLinear,
    Slice, Swizzled, Unpadded, Wgmma,
};

/// A layout of either kind, as the command line takes it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AnyLayout {
    /// A layout of a tensor in registers.
    Distributed(Layout),
    /// A layout of a tensor in shared memory.
    Shared(SharedLayout),
}

impl fmt::Display for AnyLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Distributed(layout) => layout.fmt(f),
            Self::Shared(layout) => layout.fmt(f),
        }
    }
}

impl FromStr for AnyLayout {
    type Err = ParseLayoutError;

    fn from_str(text: &str) -> Result<Self, ParseLayoutError> {
        let node = read_whole(text)?;
        if let Some(layout) = distributed(&node)? {
            return Ok(Self::Distributed(layout));
        }
        match shared(&node)? {
            Some(layout) => Ok(Self::Shared(layout)),
            None => Err(node.unexpected(format!("one of {DISTRIBUTED_NAMES}, {SHARED_NAMES}"))),
        }
    }
}

impl FromStr for Layout {
    type Err = ParseLayoutError;

    fn from_str(text: &str) -> Result<Self, ParseLayoutError> {
        expect_distributed(&read_whole(text)?)
    }
}

impl FromStr for SharedLayout {
    type Err = ParseLayoutError;

    fn from_str(text: &str) -> Result<Self, ParseLayoutError> {
        expect_shared(&read_whole(text)?)
    }
}

impl Layout {
    /// Reads a layout at the start of `text`, for a reader of a larger text; returns the bytes read too. Columns in an
    /// error count from the start of `text`.
    pub fn parse_prefix(text: &str) -> Result<(Self, usize), ParseLayoutError> {
        let (node, bytes) = read_prefix(text)?;
        Ok((expect_distributed(&node)?, bytes))
    }
}

impl SharedLayout {
    /// Reads a layout at the start of `text`; see [`Layout::parse_prefix`].
    pub fn parse_prefix(text: &str) -> Result<(Self, usize), ParseLayoutError> {
        let (node, bytes) = read_prefix(text)?;
        Ok((expect_shared(&node)?, bytes))
    }
}

const DISTRIBUTED_NAMES: &str = "Auto, Coalesced, Blocked, Slice, Linear, Mma, Wgmma, DotOperand";
const SHARED_NAMES: &str = "Nvmma, Swizzled, Padded, SharedLinear";

fn expect_distributed(node: &Node) -> Result<Layout, ParseLayoutError> {
    distributed(node)?.ok_or_else(|| node.unexpected(format!("one of {DISTRIBUTED_NAMES}")))
}

fn expect_shared(node: &Node) -> Result<SharedLayout, ParseLayoutError> {
    shared(node)?.ok_or_else(|| node.unexpected(format!("one of {SHARED_NAMES}")))
}

/// The name of a layout and its arguments; `None` for a list or a number.
pub(super) fn call(node: &Node) -> Option<(&str, Arguments)> {
    match &node.kind {
        NodeKind::Call { name, arguments } => {
            let args = Arguments::new(name, node.column, arguments.clone());
            Some((name, args))
        }
        _ => None,
    }
}

/// The layout that the node names; `None` when the name is no distributed layout's.
fn distributed(node: &Node) -> Result<Option<Layout>, ParseLayoutError> {
    match call(node) {
        Some((name, mut args)) => distributed_of(name, &mut args),
        None => Ok(None),
    }
}

/// The layout of a name and its arguments.
pub(super) fn distributed_of(
    name: &str,
    args: &mut Arguments,
) -> Result<Option<Layout>, ParseLayoutError> {
    let layout = match name {
        "Auto" => Layout::Auto,
        "Coalesced" => Layout::Coalesced,
        "Blocked" => blocked(args)?.into(),
        "Slice" => Slice {
            dim: args.number("dim")?,
            parent: parent(args)?,
        }
        .into(),
        "Linear" => linear(args)?.into(),
        "Mma" => {
            let (warps, instr_shape) = (args.dims("warps")?, args.dims("instr_shape")?);
            Mma {
                warps,
                instr_shape,
                cta_bases: args.bases("cta")?,
            }
            .into()
        }
        "Wgmma" => {
            let (warps, instr_shape) = (args.dims("warps")?, args.dims("instr_shape")?);
            Wgmma {
                warps,
                instr_shape,
                cta_bases: args.bases("cta")?,
            }
            .into()
        }
        "DotOperand" => {
            let (operand, parent) = (args.number("operand")?, parent(args)?);
            DotOperand {
                operand,
                parent,
                k_width: args.number("k_width")?,
            }
            .into()
        }
        _ => return Ok(None),
    };
    args.finish()?;
    Ok(Some(layout))
}

fn parent(args: &mut Arguments) -> Result<Layout, ParseLayoutError> {
    expect_distributed(&args.required("parent")?)
}

fn blocked(args: &mut Arguments) -> Result<Blocked, ParseLayoutError> {
    Ok(Blocked {
        size_per_thread: args.dims("size_per_thread")?,
        threads_per_warp: args.dims("threads_per_warp")?,
        warps: args.dims("warps")?,
        order: args.dims("order")?,
        cta_bases: args.bases("cta")?,
    })
}

fn linear(args: &mut Arguments) -> Result<DistributedLinear, ParseLayoutError> {
    let linear = DistributedLinear::new(
        args.bases("register")?,
        args.bases("lane")?,
        args.bases("warp")?,
        args.bases("block")?,
    );
    let warps = args.number_or("warps", linear.warps)?;
    Ok(linear.with_warps(warps))
}

/// The layout that the node names; `None` when the name is no shared layout's.
fn shared(node: &Node) -> Result<Option<SharedLayout>, ParseLayoutError> {
    match call(node) {
        Some((name, mut args)) => shared_of(name, &mut args),
        None => Ok(None),
    }
}

/// The layout of a name and its arguments.
pub(super) fn shared_of(
    name: &str,
    args: &mut Arguments,
) -> Result<Option<SharedLayout>, ParseLayoutError> {
    let layout = match name {
        "Nvmma" => nvmma(args)?.into(),
        "Swizzled" => swizzled(args)?.into(),
        "Padded" => padded(args)?.into(),
        "SharedLinear" => {
            let (offset, block) = (args.bases("offset")?, args.bases("block")?);
            SharedLinear {
                offset,
                block,
                alignment_bytes: args.number_or("alignment", 16)?,
            }
            .into()
        }
        _ => return Ok(None),
    };
    args.finish()?;
    Ok(Some(layout))
}

fn nvmma(args: &mut Arguments) -> Result<Nvmma, ParseLayoutError> {
    Ok(Nvmma {
        swizzle_bytes: args.number("swizzle_bytes")?,
        element_bits: args.number("element_bits")?,
        transposed: args.flag("transposed")?,
        fp4_padded: args.flag("fp4_padded")?,
        rank: args.number_or("rank", 2)?,
        cta_bases: args.bases("cta")?,
    })
}

fn swizzled(args: &mut Arguments) -> Result<Swizzled, ParseLayoutError> {
    Ok(Swizzled {
        vec: args.number("vec")?,
        per_phase: args.number("per_phase")?,
        max_phase: args.number("max_phase")?,
        order: args.dims("order")?,
        cta_bases: args.bases("cta")?,
    })
}

fn padded(args: &mut Arguments) -> Result<Padded, ParseLayoutError> {
    let node = args.required("pairs")?;
    let pair = |pair: crate::Dims| match *pair {
        [interval, padding] => Ok([interval, padding]),
        _ => Err(node.unexpected("a list of pairs [interval, padding]")),
    };
    let pairs = vectors(&node)?
        .into_iter()
        .map(pair)
        .collect::<Result<Vec<_>, _>>()?;
    let unpadded = match args.optional_named("offset") {
        Some(bases) => Unpadded::Bases(vectors(&bases)?),
        None => Unpadded::Rows(args.dims("order")?),
    };
    Ok(Padded {
        pairs,
        unpadded,
        cta_bases: args.bases("cta")?,
    })
}
