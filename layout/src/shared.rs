//! The layouts of tensors in shared memory.

use std::fmt;
use std::sync::Arc;

use super::{Axis, Dims, LayoutError, Nvmma, Padded, SharedLinear, Swizzled, rules};

/// How a tensor lies in the shared memory of a CTA. Cheap to clone; compared by its parameters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SharedLayout {
    /// See [`Nvmma`].
    Nvmma(Arc<Nvmma>),
    /// See [`Swizzled`].
    Swizzled(Arc<Swizzled>),
    /// See [`Padded`].
    Padded(Arc<Padded>),
    /// See [`SharedLinear`].
    Linear(Arc<SharedLinear>),
}

impl SharedLayout {
    /// The layout's name without its parameters.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Nvmma(_) => "Nvmma",
            Self::Swizzled(_) => "Swizzled",
            Self::Padded(_) => "Padded",
            Self::Linear(_) => "SharedLinear",
        }
    }

    /// The number of dimensions.
    #[inline]
    pub fn rank(&self) -> usize {
        match self {
            Self::Nvmma(nvmma) => nvmma.rank as usize,
            Self::Swizzled(swizzled) => swizzled.order.rank(),
            Self::Padded(padded) => padded.rank(),
            Self::Linear(linear) => linear.rank(),
        }
    }

    pub(super) fn cta_bases(&self) -> &[Dims] {
        match self {
            Self::Nvmma(nvmma) => &nvmma.cta_bases,
            Self::Swizzled(swizzled) => &swizzled.cta_bases,
            Self::Padded(padded) => &padded.cta_bases,
            Self::Linear(linear) => &linear.block,
        }
    }

    /// The number of CTAs in a cluster that this layout is made for.
    pub fn ctas(&self) -> u32 {
        1 << self.cta_bases().len()
    }

    /// Where the part of a tensor of `shape` begins that a CTA holds, for each bit of its rank in the cluster: the part of a
    /// CTA begins at the XOR of those of the bits that are set. A bit with zeros alone stands for copies.
    ///
    /// # Errors
    /// A layout that does not fit the shape.
    pub fn part_origins(&self, shape: &[u32]) -> Result<Vec<Dims>, LayoutError> {
        if self.cta_bases().is_empty() {
            return Ok(Vec::new());
        }
        Ok(self.linear(shape)?.basis_coords(Axis::Block))
    }

    /// The sizes of what one CTA holds of a tensor of `shape`.
    ///
    /// # Errors
    /// A layout that does not fit the shape, or whose CTAs hold no boxes of it.
    pub fn part_of(&self, shape: &[u32]) -> Result<Dims, LayoutError> {
        self.box_of(shape, &self.part_origins(shape)?)
    }

    /// The sizes of a CTA's part of a tensor or view of `shape` with these [origins](Self::part_origins).
    pub fn box_of(&self, shape: &[u32], origins: &[Dims]) -> Result<Dims, LayoutError> {
        let part: Dims = (0..shape.len())
            .map(|dim| {
                let leading_out = origins.iter().fold(0, |all, origin| all | origin[dim]);
                shape[dim] >> u32::count_ones(leading_out)
            })
            .collect();
        // A box, and all of what the CTA holds.
        let begins_beyond = |origin: &Dims| {
            let mut dims = origin.iter().zip(part.iter());
            dims.all(|(at, size)| at.is_multiple_of((*size).max(1)))
        };
        let parts = origins.iter().filter(|o| o.iter().any(|&at| at != 0));
        let elements = part.product() << parts.count();
        if origins.iter().all(begins_beyond) && elements == Dims::from(shape).product() {
            return Ok(part);
        }
        Err(LayoutError::NoRelation {
            operation: "take one CTA's part of",
            layout: self.to_string(),
            why: "the CTAs of the cluster hold no boxes of it that lie in one piece".to_owned(),
        })
    }

    /// The layout of the part of one CTA.
    #[must_use]
    pub fn without_ctas(&self) -> SharedLayout {
        let mut layout = self.clone();
        if self.cta_bases().is_empty() {
            return layout;
        }
        match &mut layout {
            Self::Nvmma(nvmma) => Arc::make_mut(nvmma).cta_bases.clear(),
            Self::Swizzled(swizzled) => Arc::make_mut(swizzled).cta_bases.clear(),
            Self::Padded(padded) => Arc::make_mut(padded).cta_bases.clear(),
            Self::Linear(linear) => Arc::make_mut(linear).block.clear(),
        }
        layout
    }

    /// The alignment in bytes that an allocation of elements of `element_bits` needs.
    pub fn alignment_bytes(&self) -> u32 {
        match self {
            Self::Nvmma(nvmma) => nvmma.alignment_bytes(),
            Self::Linear(linear) => linear.alignment_bytes,
            // Enough for the widest vector access.
            Self::Swizzled(_) | Self::Padded(_) => 16,
        }
    }

    /// Checks the layout's own parameters and that it fits the shape.
    pub fn check(&self, shape: &[u32]) -> Result<(), LayoutError> {
        self.check_parameters()?;
        rules::shape(self, self.rank(), shape)?;
        self.linear(shape).map(|_| ())
    }

    /// Checks the layout's own parameters, without a shape.
    pub fn check_parameters(&self) -> Result<(), LayoutError> {
        match self {
            Self::Nvmma(nvmma) => nvmma.check(),
            Self::Swizzled(swizzled) => swizzled.check(),
            Self::Padded(padded) => padded.check(),
            Self::Linear(linear) => linear.check(),
        }
    }
}

impl fmt::Display for SharedLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nvmma(nvmma) => nvmma.fmt(f),
            Self::Swizzled(swizzled) => swizzled.fmt(f),
            Self::Padded(padded) => padded.fmt(f),
            Self::Linear(linear) => linear.fmt(f),
        }
    }
}

impl From<&Self> for SharedLayout {
    fn from(layout: &Self) -> Self {
        layout.clone()
    }
}

macro_rules! shared_layout_from {
    ($($variant:ident($kind:ty)),* $(,)?) => {$(
        impl From<$kind> for SharedLayout {
            fn from(layout: $kind) -> Self {
                Self::$variant(Arc::new(layout))
            }
        }

        impl From<&$kind> for SharedLayout {
            fn from(layout: &$kind) -> Self {
                layout.clone().into()
            }
        }
    )*};
}

shared_layout_from! { Nvmma(Nvmma), Swizzled(Swizzled), Padded(Padded), Linear(SharedLinear) }
