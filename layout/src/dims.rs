//! Short vectors of sizes, one entry per tensor dimension.

use std::fmt;
use std::ops::{Deref, DerefMut};

use smallvec::SmallVec;

/// One number per tensor dimension, dimension 0 first: a shape, an order, a size per thread, a basis vector.
///
/// Stored inline up to rank 4; dereferences to `[u32]`.
#[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Dims(SmallVec<[u32; 4]>);

/// The shape of a tensor in elements, dimension 0 first.
pub type Shape = Dims;

impl Dims {
    /// No dimensions at all: the shape of a scalar.
    pub fn empty() -> Self {
        Self::default()
    }

    /// `rank` entries, all equal to `value`.
    pub fn filled(value: u32, rank: usize) -> Self {
        Self(SmallVec::from_elem(value, rank))
    }

    /// The number of entries.
    #[inline]
    pub fn rank(&self) -> usize {
        self.0.len()
    }

    /// The product of all entries, 1 for no entries; stays at the largest number when it does not fit.
    #[inline]
    pub fn product(&self) -> u64 {
        self.0.iter().fold(1, |product: u64, &size| {
            product.saturating_mul(u64::from(size))
        })
    }

    /// Appends an entry after the last dimension.
    pub fn push(&mut self, value: u32) {
        self.0.push(value);
    }

    /// These dimensions with `value` put in before dimension `at`.
    #[must_use]
    pub fn with_inserted(&self, at: usize, value: impl Extent) -> Self {
        let mut dims = self.clone();
        dims.0.insert(at, value.extent());
        dims
    }

    /// These dimensions without dimension `at`.
    #[must_use]
    #[inline]
    pub fn without(&self, at: usize) -> Self {
        let mut dims = self.clone();
        dims.0.remove(at);
        dims
    }

    /// These dimensions with dimension `at` set to `value`.
    #[must_use]
    pub fn with(&self, at: usize, value: u32) -> Self {
        let mut dims = self.clone();
        dims[at] = value;
        dims
    }

    /// The entries picked in the order of `order`: result `i` is entry `order[i]`.
    #[must_use]
    pub fn permuted(&self, order: &[u32]) -> Self {
        order.iter().map(|&dim| self[dim as usize]).collect()
    }
}

impl Deref for Dims {
    type Target = [u32];

    #[inline]
    fn deref(&self) -> &[u32] {
        &self.0
    }
}

impl DerefMut for Dims {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u32] {
        &mut self.0
    }
}

impl From<&[u32]> for Dims {
    fn from(sizes: &[u32]) -> Self {
        Self(SmallVec::from_slice(sizes))
    }
}

impl From<&Dims> for Dims {
    fn from(dims: &Dims) -> Self {
        dims.clone()
    }
}

impl From<Vec<u32>> for Dims {
    fn from(sizes: Vec<u32>) -> Self {
        Self(SmallVec::from_vec(sizes))
    }
}

/// An integer of the host that a layout takes: const generics are `usize`, literals `i32`, queries `u32`.
#[diagnostic::on_unimplemented(message = "`{Self}` is not a host integer")]
pub trait Extent: Copy {
    /// The number; one that is no u32 becomes the largest, which no layout accepts.
    fn extent(self) -> u32;
}

macro_rules! extents {
    ($($ty:ty)*) => {$(
        impl Extent for $ty {
            fn extent(self) -> u32 {
                u32::try_from(self).unwrap_or(u32::MAX)
            }
        }
    )*};
}

extents!(i32 i64 isize u64 usize);

impl Extent for u32 {
    fn extent(self) -> u32 {
        self
    }
}

impl<E: Extent, const RANK: usize> From<[E; RANK]> for Dims {
    fn from(sizes: [E; RANK]) -> Self {
        sizes.into_iter().map(Extent::extent).collect()
    }
}

impl<E: Extent, const RANK: usize> From<&[E; RANK]> for Dims {
    fn from(sizes: &[E; RANK]) -> Self {
        sizes.iter().map(|size| size.extent()).collect()
    }
}

impl FromIterator<u32> for Dims {
    fn from_iter<I: IntoIterator<Item = u32>>(sizes: I) -> Self {
        Self(sizes.into_iter().collect())
    }
}

impl<'a> IntoIterator for &'a Dims {
    type Item = &'a u32;
    type IntoIter = std::slice::Iter<'a, u32>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl PartialEq<[u32]> for Dims {
    fn eq(&self, other: &[u32]) -> bool {
        **self == *other
    }
}

impl<const RANK: usize> PartialEq<[u32; RANK]> for Dims {
    fn eq(&self, other: &[u32; RANK]) -> bool {
        **self == *other
    }
}

impl fmt::Display for Dims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (at, size) in self.0.iter().enumerate() {
            write!(f, "{}{size}", if at == 0 { "" } else { ", " })?;
        }
        f.write_str("]")
    }
}

impl fmt::Debug for Dims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::str::FromStr for Dims {
    type Err = String;

    /// Reads what `Display` writes: `[64, 32]`.
    fn from_str(text: &str) -> Result<Self, String> {
        let inner = text
            .trim()
            .strip_prefix('[')
            .and_then(|t| t.strip_suffix(']'))
            .ok_or_else(|| format!("`{text}` is no list such as [64, 32]"))?;
        if inner.trim().is_empty() {
            return Ok(Self::empty());
        }
        let entry = |t: &str| {
            t.trim()
                .parse::<u32>()
                .map_err(|e| format!("`{}`: {e}", t.trim()))
        };
        inner.split(',').map(entry).collect()
    }
}
