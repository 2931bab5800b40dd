//! The plain distributed layout.

use std::fmt;

use super::text::write_call;
use super::warp_sets::check_grid;
use super::{Dims, LayoutError, rules};

/// Each thread holds a block of `size_per_thread` elements, the threads of a warp stand next to each other in a
/// `threads_per_warp` grid, the warps in a `warps` grid, and the whole tile repeats until the shape is covered.
/// Within each of the three grids the dimension `order[0]` runs fastest.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Blocked {
    /// Elements that one thread holds side by side, per dimension.
    pub size_per_thread: Dims,
    /// Threads of a warp per dimension; their product is 32.
    pub threads_per_warp: Dims,
    /// Warps of a CTA per dimension; their product is the CTA's number of warps. One entry may be no power of two: see
    /// [`WarpSets`](super::WarpSets).
    pub warps: Dims,
    /// The dimensions from the fastest to the slowest.
    pub order: Dims,
    /// How the CTAs of a cluster split the tensor, one basis per bit of the CTA index, in units of CTAs;
    /// a zero basis means that the two CTAs hold the same elements. Empty for a single CTA.
    pub cta_bases: Vec<Dims>,
}

impl Blocked {
    /// A layout for kernels without clusters.
    pub fn new(
        size_per_thread: impl Into<Dims>,
        threads_per_warp: impl Into<Dims>,
        warps: impl Into<Dims>,
        order: impl Into<Dims>,
    ) -> Self {
        Self {
            size_per_thread: size_per_thread.into(),
            threads_per_warp: threads_per_warp.into(),
            warps: warps.into(),
            order: order.into(),
            cta_bases: Vec::new(),
        }
    }

    /// The same layout in every CTA of a cluster, the tensor split by `cta_bases`: for each bit of the CTA's rank, the lowest
    /// first, the step that it makes along each dimension, in units of the part that one CTA holds. A basis of zeros makes
    /// copies. See [`Blocked::split_over_ctas`] for the plain case.
    #[must_use]
    pub fn with_ctas(mut self, cta_bases: impl IntoIterator<Item = impl Into<Dims>>) -> Self {
        self.cta_bases = cta_bases.into_iter().map(Into::into).collect();
        self
    }

    /// The same layout in every CTA of a cluster: `ctas` says into how many equal parts, a power of two, they split each
    /// dimension. Ranks count along dimension 0 first.
    #[must_use]
    pub fn split_over_ctas(self, ctas: impl Into<Dims>) -> Self {
        // Entries of another rank than the layout's make bases of that rank, which its check reports.
        let ctas = ctas.into();
        let zero = Dims::filled(0, ctas.rank());
        let steps = ctas.iter().enumerate();
        let steps =
            steps.flat_map(|(dim, ctas)| (0..ctas.trailing_zeros()).map(move |bit| (dim, bit)));
        let bases: Vec<Dims> = steps.map(|(dim, bit)| zero.with(dim, 1 << bit)).collect();
        self.with_ctas(bases)
    }

    /// The number of dimensions.
    pub fn rank(&self) -> usize {
        self.order.rank()
    }

    pub(super) fn check(&self) -> Result<(), LayoutError> {
        const NAME: &str = "Blocked";
        let rank = self.rank();
        rules::rank(NAME, rank)?;
        rules::permutation(NAME, &self.order)?;
        for (field, entries) in [
            ("size_per_thread", &self.size_per_thread),
            ("threads_per_warp", &self.threads_per_warp),
            ("warps", &self.warps),
        ] {
            rules::entries(NAME, field, entries.rank(), rank)?;
            if field == "warps" {
                check_grid(NAME, entries)?;
            } else {
                rules::powers_of_two(NAME, field, entries)?;
            }
        }
        if self.threads_per_warp.product() != 32 {
            return Err(LayoutError::LanesPerWarp {
                threads_per_warp: self.threads_per_warp.clone(),
            });
        }
        rules::per_thread(NAME, "size_per_thread", self.size_per_thread.product())?;
        rules::warps(NAME, self.warps.product())?;
        rules::cta_bases(NAME, rank, &self.cta_bases)
    }
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_call(f, "Blocked", |args| {
            args.value(&self.size_per_thread)?;
            args.value(&self.threads_per_warp)?;
            args.value(&self.warps)?;
            args.value(&self.order)?;
            args.bases("cta", &self.cta_bases)
        })
    }
}
