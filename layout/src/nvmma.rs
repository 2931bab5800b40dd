//! What TMA and wgmma want in shared memory.

use std::fmt;

use super::text::write_call;
use super::{Dims, LayoutError, rules};

/// Bytes over which TMA swizzles, ascending; 0 for none.
pub(super) const SWIZZLES: [u32; 4] = target::SM_90A.tensor_map.swizzles;

/// The shared-memory layout that TMA writes and wgmma reads: rows swizzled within 8-row tiles of `swizzle_bytes`
/// (PTX ISA 5.5.6).
///
/// Without a swizzle this is the plain row-major box of a TMA copy, *not* the core-matrix order that an unswizzled
/// wgmma operand wants; the two agree only for rows of 16 bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Nvmma {
    /// 0 (none), 32, 64 or 128.
    pub swizzle_bytes: u32,
    /// 8, 16, 32 or 64.
    pub element_bits: u32,
    /// Whether dimension 0 of the last two is the contiguous one.
    pub transposed: bool,
    /// Whether 4-bit elements are padded to 16 bytes per 8; needs a swizzle of 128 bytes and 8-bit elements.
    pub fp4_padded: bool,
    /// The number of dimensions.
    pub rank: u32,
    /// How the CTAs of a cluster split the tensor; see [`Blocked`](super::Blocked).
    pub cta_bases: Vec<Dims>,
}

/// A swizzle without the element width and the rank, which follow from the tile it is given to: `Nvmma::B128`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NvmmaSwizzle {
    /// Unswizzled rows.
    None,
    /// 32 bytes.
    B32,
    /// 64 bytes.
    B64,
    /// 128 bytes.
    B128,
}

impl NvmmaSwizzle {
    /// The bytes over which rows are permuted.
    pub const fn bytes(self) -> u32 {
        match self {
            Self::None => 0,
            Self::B32 => 32,
            Self::B64 => 64,
            Self::B128 => 128,
        }
    }

    /// The layout of matrices with elements of `element_bits`; of tiles of another rank by [`Nvmma::with_rank`].
    pub fn of(self, element_bits: u32) -> Nvmma {
        Nvmma::new(self.bytes(), element_bits)
    }

    /// The same in every CTA of a cluster, which split the tile by `cta_bases`: `Nvmma::B128.with_ctas([[1, 0]])`.
    pub fn with_ctas(self, cta_bases: impl IntoIterator<Item = impl Into<Dims>>) -> SplitNvmma {
        SplitNvmma {
            swizzle: self,
            cta_bases: cta_bases.into_iter().map(Into::into).collect(),
        }
    }
}

/// A swizzle of tiles that the CTAs of a cluster split; see [`NvmmaSwizzle::with_ctas`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SplitNvmma {
    swizzle: NvmmaSwizzle,
    cta_bases: Vec<Dims>,
}

impl SplitNvmma {
    /// The layout of matrices with elements of `element_bits`; of tiles of another rank by [`Nvmma::with_rank`].
    pub fn of(self, element_bits: u32) -> Nvmma {
        self.swizzle.of(element_bits).with_ctas(self.cta_bases)
    }
}

impl Nvmma {
    /// Unswizzled rows.
    pub const PLAIN: NvmmaSwizzle = NvmmaSwizzle::None;
    /// A swizzle of 32 bytes.
    pub const B32: NvmmaSwizzle = NvmmaSwizzle::B32;
    /// A swizzle of 64 bytes.
    pub const B64: NvmmaSwizzle = NvmmaSwizzle::B64;
    /// A swizzle of 128 bytes.
    pub const B128: NvmmaSwizzle = NvmmaSwizzle::B128;

    /// A matrix with contiguous rows.
    pub fn new(swizzle_bytes: u32, element_bits: u32) -> Self {
        Self {
            swizzle_bytes,
            element_bits,
            transposed: false,
            fp4_padded: false,
            rank: 2,
            cta_bases: Vec::new(),
        }
    }

    /// The same layout with rows and columns exchanged.
    #[must_use]
    pub fn transpose(mut self) -> Self {
        self.transposed = !self.transposed;
        self
    }

    /// The same layout for tensors of `rank` dimensions; those before the last two count as further rows.
    #[must_use]
    pub fn with_rank(mut self, rank: u32) -> Self {
        self.rank = rank;
        self
    }

    /// The same layout in every CTA of a cluster, the tensor split by `cta_bases`.
    #[must_use]
    pub fn with_ctas(mut self, cta_bases: impl IntoIterator<Item = impl Into<Dims>>) -> Self {
        self.cta_bases = cta_bases.into_iter().map(Into::into).collect();
        self
    }

    /// The widest swizzle that fits a block with contiguous rows: the largest that divides the bytes of a row, none for vectors and for blocks of fewer than eight rows.
    pub fn default_for(shape: &[u32], element_bits: u32) -> Self {
        let rows: u64 = shape
            .iter()
            .rev()
            .skip(1)
            .copied()
            .collect::<Dims>()
            .product();
        let row_bytes = shape.last().map_or(0, |&columns| {
            u64::from(columns) * u64::from(element_bits) / 8
        });
        let fits = |swizzle: &u32| {
            let is_divided = *swizzle > 0 && row_bytes.is_multiple_of(u64::from(*swizzle));
            shape.len() >= 2 && rows >= 8 && row_bytes > 0 && is_divided
        };
        let swizzle_bytes = SWIZZLES.into_iter().rev().find(fits).unwrap_or(0);
        Self::new(swizzle_bytes, element_bits).with_rank(shape.len() as u32)
    }

    /// Elements that the swizzle moves together: 16 bytes.
    pub fn vec(&self) -> u32 {
        128 / self.element_bits
    }

    /// Rows that share one phase of the swizzle.
    pub fn per_phase(&self) -> u32 {
        128_u32.checked_div(self.swizzle_bytes).unwrap_or(1)
    }

    /// The number of phases.
    pub fn max_phase(&self) -> u32 {
        (self.swizzle_bytes / 16).max(1)
    }

    /// The alignment in bytes that the allocation needs, so that the swizzle starts at phase 0.
    pub fn alignment_bytes(&self) -> u32 {
        128 * self.max_phase()
    }

    pub(super) fn check(&self) -> Result<(), LayoutError> {
        let choices: [(&str, u32, &[u32]); 2] = [
            ("swizzle_bytes", self.swizzle_bytes, &SWIZZLES),
            ("element_bits", self.element_bits, &[8, 16, 32, 64]),
        ];
        for (field, found, allowed) in choices {
            if !allowed.contains(&found) {
                return Err(fault(
                    field,
                    found,
                    format!("it must be one of {}", Dims::from(allowed)),
                ));
            }
        }
        if self.rank == 0 || self.rank == 1 && (self.swizzle_bytes != 0 || self.transposed) {
            return Err(fault(
                "rank",
                self.rank,
                "a swizzle or a transposition needs two dimensions".to_owned(),
            ));
        }
        if self.fp4_padded && (self.swizzle_bytes != 128 || self.element_bits != 8) {
            let wanted = "it needs a swizzle of 128 bytes and 8-bit elements".to_owned();
            return Err(fault("fp4_padded", true, wanted));
        }
        rules::rank("Nvmma", self.rank as usize)?;
        rules::cta_bases("Nvmma", self.rank as usize, &self.cta_bases)
    }
}

fn fault(field: &'static str, found: impl fmt::Display, wanted: String) -> LayoutError {
    LayoutError::Parameter {
        layout: "Nvmma",
        field,
        found: found.to_string(),
        wanted,
    }
}

impl fmt::Display for Nvmma {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_call(f, "Nvmma", |args| {
            args.value(&self.swizzle_bytes)?;
            args.value(&self.element_bits)?;
            args.named_unless("transposed", &self.transposed, &false)?;
            args.named_unless("fp4_padded", &self.fp4_padded, &false)?;
            args.named_unless("rank", &self.rank, &2)?;
            args.bases("cta", &self.cta_bases)
        })
    }
}
