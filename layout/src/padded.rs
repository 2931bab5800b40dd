//! Padding in shared memory: the one layout that is not linear.

use std::fmt;

use super::text::write_call;
use super::{Axis, Dims, Extent, LayoutError, rules};

/// After every `interval` elements, `padding` elements are left out. The order of the elements before padding is a
/// linear layout; the physical offset is `i + sum over pairs of (i / interval) * padding`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Padded {
    /// (interval, padding) in elements, both powers of two, intervals unique.
    pub pairs: Vec<[u32; 2]>,
    /// The order of the elements before padding.
    pub unpadded: Unpadded,
    /// How the CTAs of a cluster split the tensor, in CTAs for [`Unpadded::Rows`] and in elements for
    /// [`Unpadded::Bases`].
    pub cta_bases: Vec<Dims>,
}

/// The order of a padded tensor's elements before padding.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Unpadded {
    /// Unswizzled rows, the dimensions from the fastest to the slowest.
    Rows(Dims),
    /// One basis per bit of the element's number.
    Bases(Vec<Dims>),
}

fn extents<E: Extent>(pairs: impl IntoIterator<Item = [E; 2]>) -> Vec<[u32; 2]> {
    let pairs = pairs.into_iter();
    pairs.map(|pair| pair.map(Extent::extent)).collect()
}

impl Padded {
    /// Unswizzled rows with padding, `order[0]` contiguous.
    pub fn new<E: Extent>(pairs: impl IntoIterator<Item = [E; 2]>, order: impl Into<Dims>) -> Self {
        Self {
            pairs: extents(pairs),
            unpadded: Unpadded::Rows(order.into()),
            cta_bases: Vec::new(),
        }
    }

    /// Elements in the order of `bases` (one per bit of the element's number), with padding.
    pub fn with_bases<E: Extent, B: Into<Dims>>(
        pairs: impl IntoIterator<Item = [E; 2]>,
        bases: impl IntoIterator<Item = B>,
    ) -> Self {
        let bases = bases.into_iter().map(Into::into).collect();
        Self {
            pairs: extents(pairs),
            unpadded: Unpadded::Bases(bases),
            cta_bases: Vec::new(),
        }
    }

    /// The same layout in every CTA of a cluster, the tensor split by `cta_bases`.
    #[must_use]
    pub fn with_ctas(mut self, cta_bases: impl IntoIterator<Item = impl Into<Dims>>) -> Self {
        self.cta_bases = cta_bases.into_iter().map(Into::into).collect();
        self
    }

    /// The number of dimensions.
    pub fn rank(&self) -> usize {
        match &self.unpadded {
            Unpadded::Rows(order) => order.rank(),
            Unpadded::Bases(bases) => bases.first().map_or(0, Dims::rank),
        }
    }

    /// The physical offset in elements of element number `at`.
    pub fn padded_offset(&self, at: u32) -> u32 {
        at + self
            .pairs
            .iter()
            .map(|[interval, padding]| at / interval * padding)
            .sum::<u32>()
    }

    /// The largest run of elements, starting at a multiple of itself, that padding never splits.
    pub fn unbroken_elements(&self) -> u32 {
        self.pairs
            .iter()
            .map(|pair| pair[0])
            .min()
            .unwrap_or(u32::MAX)
    }

    /// The largest power of two that divides the physical offset of every unbroken run.
    pub fn aligned_elements(&self) -> u32 {
        self.pairs
            .iter()
            .map(|pair| pair[0].min(pair[1]))
            .min()
            .unwrap_or(u32::MAX)
    }

    pub(super) fn check(&self) -> Result<(), LayoutError> {
        const NAME: &str = "Padded";
        self.check_pairs(NAME)?;
        rules::rank(NAME, self.rank())?;
        rules::block_count(NAME, &self.cta_bases)?;
        let mut groups = vec![(Axis::Block, &*self.cta_bases)];
        match &self.unpadded {
            Unpadded::Rows(order) => rules::permutation(NAME, order)?,
            Unpadded::Bases(bases) => {
                rules::offset_bases(NAME, bases)?;
                groups.insert(0, (Axis::Offset, bases));
            }
        }
        rules::permutation_bases(NAME, self.rank(), &groups)?;
        let Unpadded::Bases(bases) = &self.unpadded else {
            return Ok(());
        };
        match bases
            .iter()
            .position(|basis| basis.iter().all(|&entry| entry == 0))
        {
            Some(bit) => Err(LayoutError::Basis {
                layout: NAME,
                axis: Axis::Offset,
                bit,
                basis: bases[bit].clone(),
                fault: super::BasisFault::Dependent,
            }),
            None => Ok(()),
        }
    }

    fn check_pairs(&self, layout: &'static str) -> Result<(), LayoutError> {
        let fault = |wanted: &str| LayoutError::Parameter {
            layout,
            field: "pairs",
            found: format!("{:?}", self.pairs),
            wanted: wanted.to_owned(),
        };
        if self.pairs.is_empty() {
            return Err(fault("at least one pair of interval and padding is wanted"));
        }
        for (at, pair) in self.pairs.iter().enumerate() {
            rules::powers_of_two(layout, "pairs", pair)?;
            rules::at_most(
                layout,
                "pairs",
                u64::from(pair[0].max(pair[1])),
                1 << 16,
                "elements",
            )?;
            if self.pairs[..at].iter().any(|earlier| earlier[0] == pair[0]) {
                return Err(fault("an interval may be named only once"));
            }
        }
        Ok(())
    }
}

impl fmt::Display for Padded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_call(f, "Padded", |args| {
            let pairs: Vec<Dims> = self.pairs.iter().map(Dims::from).collect();
            args.value_bases(&pairs)?;
            match &self.unpadded {
                Unpadded::Rows(order) => args.value(order)?,
                Unpadded::Bases(bases) => args.all_bases("offset", bases)?,
            }
            args.bases("cta", &self.cta_bases)
        })
    }
}
