//! Verifier rules that several layouts share.

use super::linear::cut::bits_below;
use super::{Axis, BasisFault, Dims, LayoutError};

/// Every entry of `field` is a power of two (so none is zero).
pub(super) fn powers_of_two(
    layout: &'static str,
    field: &'static str,
    entries: &[u32],
) -> Result<(), LayoutError> {
    match entries.iter().position(|entry| !entry.is_power_of_two()) {
        Some(at) => Err(LayoutError::NotPowerOfTwo {
            layout,
            field,
            at,
            value: entries[at],
        }),
        None => Ok(()),
    }
}

/// The value of `field` is a power of two (so not zero).
pub(super) fn power_of_two(
    layout: &'static str,
    field: &'static str,
    value: u32,
) -> Result<(), LayoutError> {
    if value.is_power_of_two() {
        return Ok(());
    }
    Err(LayoutError::Parameter {
        layout,
        field,
        found: value.to_string(),
        wanted: "it must be a power of two".to_owned(),
    })
}

/// `field` has `wanted` entries.
pub(super) fn entries(
    layout: &'static str,
    field: &'static str,
    found: usize,
    wanted: usize,
) -> Result<(), LayoutError> {
    if found == wanted {
        Ok(())
    } else {
        Err(LayoutError::FieldRank {
            layout,
            field,
            found,
            wanted,
        })
    }
}

/// `order` names each of the dimensions `0..order.len()` once.
pub(super) fn permutation(layout: &'static str, order: &Dims) -> Result<(), LayoutError> {
    let mut seen = 0_u64;
    for &dim in order {
        if dim as usize >= order.rank() || seen >> dim & 1 == 1 {
            return Err(LayoutError::NotAPermutation {
                layout,
                order: order.clone(),
            });
        }
        seen |= 1 << dim;
    }
    Ok(())
}

/// More dimensions than any tensor has; a limit keeps every map within 64 bits.
const MAX_RANK: usize = 8;

/// Elements of one thread, far above its registers; a limit keeps every map within 64 bits.
const MAX_PER_THREAD: u64 = 1 << 16;

/// No more dimensions than a layout can have.
pub(super) fn rank(layout: &'static str, rank: usize) -> Result<(), LayoutError> {
    at_most(layout, "rank", rank as u64, MAX_RANK as u64, "dimensions")
}

/// No more warps than a CTA of any target can have; those of a kernel are checked against its own.
pub(super) fn warps(layout: &'static str, warps: u64) -> Result<(), LayoutError> {
    let most = target::most(|target| target.cta.warps());
    at_most(layout, "warps", warps, most.into(), "warps in a CTA")
}

/// No more elements than a thread can have.
pub(super) fn per_thread(
    layout: &'static str,
    field: &'static str,
    elements: u64,
) -> Result<(), LayoutError> {
    at_most(
        layout,
        field,
        elements,
        MAX_PER_THREAD,
        "elements in a thread",
    )
}

/// `field` counts `found` things, of which there are at most `limit`.
pub(super) fn at_most(
    layout: &'static str,
    field: &'static str,
    found: u64,
    limit: u64,
    things: &str,
) -> Result<(), LayoutError> {
    if found <= limit {
        return Ok(());
    }
    let wanted = format!("there can be at most {limit} {things}");
    Err(LayoutError::Parameter {
        layout,
        field,
        found: found.to_string(),
        wanted,
    })
}

/// No more offsets than shared memory has.
pub(super) fn offset_bases(layout: &'static str, bases: &[Dims]) -> Result<(), LayoutError> {
    at_most(layout, "offset", bases.len() as u64, 20, "offset bits")
}

/// Few enough CTAs for a cluster of some target.
pub(super) fn block_count(layout: &'static str, bases: &[Dims]) -> Result<(), LayoutError> {
    let ctas = 1_u64.checked_shl(bases.len() as u32).unwrap_or(u64::MAX);
    let most = target::most(|target| target.cluster.ctas);
    at_most(layout, "cta", ctas, most.into(), "CTAs in a cluster")
}

/// The CTA bases of a layout: few enough for a cluster, and a permutation.
pub(super) fn cta_bases(
    layout: &'static str,
    rank: usize,
    bases: &[Dims],
) -> Result<(), LayoutError> {
    block_count(layout, bases)?;
    permutation_bases(layout, rank, &[(Axis::Block, bases)])
}

/// The shape is one that tensors may have, and has the layout's rank.
pub(super) fn shape(
    layout: &dyn std::fmt::Display,
    rank: usize,
    shape: &[u32],
) -> Result<(), LayoutError> {
    let dims = || Dims::from(shape);
    if shape.len() != rank {
        return Err(LayoutError::ShapeRank {
            layout: layout.to_string(),
            rank,
            shape: dims(),
        });
    }
    if let Some(dim) = shape.iter().position(|&size| size == 0) {
        return Err(LayoutError::EmptyDimension { shape: dims(), dim });
    }
    let is_huge = shape.iter().any(|&size| size > 1 << 31);
    if is_huge || shape.iter().map(|&size| bits_below(size)).sum::<u32>() > 31 {
        return Err(LayoutError::ShapeTooLarge { shape: dims() });
    }
    Ok(())
}

/// The rule of distributed layouts: once zero bases are gone, the rest is a permutation matrix. So every basis has
/// one entry, a power of two; none repeats; and per dimension all powers of two below the largest are there.
pub(super) fn permutation_bases(
    layout: &'static str,
    rank: usize,
    groups: &[(Axis, &[Dims])],
) -> Result<(), LayoutError> {
    let mut seen = Dims::filled(0, rank);
    for &(axis, bases) in groups {
        for (bit, basis) in bases.iter().enumerate() {
            let fault = |fault| LayoutError::Basis {
                layout,
                axis,
                bit,
                basis: basis.clone(),
                fault,
            };
            let Some((dim, value)) = single_entry(basis, rank).map_err(fault)? else {
                continue;
            };
            if seen[dim] & value != 0 {
                return Err(fault(BasisFault::Repeated));
            }
            seen[dim] |= value;
        }
    }
    for (dim, reached) in seen.iter().enumerate() {
        let coordinate = reached.wrapping_add(1);
        if !coordinate.is_power_of_two() && coordinate != 0 {
            let coordinate = 1 << reached.trailing_ones();
            return Err(LayoutError::NotCovered {
                layout,
                dim,
                coordinate,
            });
        }
    }
    Ok(())
}

/// The one non-zero entry of a basis as (dimension, value), `None` for a zero basis.
pub(super) fn single_entry(basis: &Dims, rank: usize) -> Result<Option<(usize, u32)>, BasisFault> {
    if basis.rank() != rank {
        return Err(BasisFault::Rank);
    }
    let mut entries = basis
        .iter()
        .copied()
        .enumerate()
        .filter(|&(_, value)| value != 0);
    let entry = entries.next();
    if entries.next().is_some() {
        return Err(BasisFault::SeveralDims);
    }
    match entry {
        Some((_, value)) if !value.is_power_of_two() => Err(BasisFault::NotPowerOfTwo),
        entry => Ok(entry),
    }
}
