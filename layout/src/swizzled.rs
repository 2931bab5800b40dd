//! XOR swizzle in shared memory.

use std::fmt;

use super::text::write_call;
use super::{Dims, Extent, LayoutError, rules};

/// Rows along `order[0]`; the vectors of `vec` elements in row `r` change places by XOR with the row's phase
/// `(r / per_phase) % max_phase`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Swizzled {
    /// Elements that stay together.
    pub vec: u32,
    /// Consecutive rows with the same phase.
    pub per_phase: u32,
    /// The number of phases; 1 for no swizzle.
    pub max_phase: u32,
    /// The dimensions from the fastest to the slowest.
    pub order: Dims,
    /// How the CTAs of a cluster split the tensor; see [`Blocked`](super::Blocked).
    pub cta_bases: Vec<Dims>,
}

impl Swizzled {
    /// A layout for kernels without clusters.
    pub fn new(
        vec: impl Extent,
        per_phase: impl Extent,
        max_phase: impl Extent,
        order: impl Into<Dims>,
    ) -> Self {
        Self {
            vec: vec.extent(),
            per_phase: per_phase.extent(),
            max_phase: max_phase.extent(),
            order: order.into(),
            cta_bases: Vec::new(),
        }
    }

    /// Unswizzled rows, `order[0]` contiguous.
    pub fn plain(order: impl Into<Dims>) -> Self {
        Self::new(1, 1, 1, order)
    }

    /// The same layout in every CTA of a cluster, the tensor split by `cta_bases`.
    #[must_use]
    pub fn with_ctas(mut self, cta_bases: impl IntoIterator<Item = impl Into<Dims>>) -> Self {
        self.cta_bases = cta_bases.into_iter().map(Into::into).collect();
        self
    }

    pub(super) fn check(&self) -> Result<(), LayoutError> {
        const NAME: &str = "Swizzled";
        rules::rank(NAME, self.order.rank())?;
        rules::permutation(NAME, &self.order)?;
        for (field, value) in [
            ("vec", self.vec),
            ("per_phase", self.per_phase),
            ("max_phase", self.max_phase),
        ] {
            rules::power_of_two(NAME, field, value)?;
        }
        rules::cta_bases(NAME, self.order.rank(), &self.cta_bases)
    }
}

impl fmt::Display for Swizzled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_call(f, "Swizzled", |args| {
            args.value(&self.vec)?;
            args.value(&self.per_phase)?;
            args.value(&self.max_phase)?;
            args.value(&self.order)?;
            args.bases("cta", &self.cta_bases)
        })
    }
}
