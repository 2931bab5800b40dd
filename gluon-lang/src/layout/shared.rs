//! The layouts of tensors in shared memory.

use std::fmt;
use std::sync::Arc;

use super::{Dims, LayoutError, Nvmma, Padded, SharedLinear, Swizzled, rules};

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
    pub fn rank(&self) -> usize {
        match self {
            Self::Nvmma(nvmma) => nvmma.rank as usize,
            Self::Swizzled(swizzled) => swizzled.order.rank(),
            Self::Padded(padded) => padded.rank(),
            Self::Linear(linear) => linear.rank(),
        }
    }

    /// The number of CTAs in a cluster that this layout is made for.
    pub fn ctas(&self) -> u32 {
        let bases: &[Dims] = match self {
            Self::Nvmma(nvmma) => &nvmma.cta_bases,
            Self::Swizzled(swizzled) => &swizzled.cta_bases,
            Self::Padded(padded) => &padded.cta_bases,
            Self::Linear(linear) => &linear.block,
        };
        1 << bases.len()
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
