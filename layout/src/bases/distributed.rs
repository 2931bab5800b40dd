//! The bases of the layouts of tensors in registers.

use super::{over_ctas, splits_cut};
use crate::linear::cut::{granule, is_cut, rounded_up};
use crate::warp_sets::{WarpSets, grid_of_set};
use crate::{
    Axis, Blocked, Dims, DistributedLinear, DotOperand, Layout, LayoutError, LinearLayout, Mma,
    Slice, Wgmma,
};

/// The inputs of every distributed layout, in this order.
const INS: [Axis; 4] = [Axis::Register, Axis::Lane, Axis::Warp, Axis::Block];

impl Layout {
    /// The linear map from (register, lane, warp, block) to the coordinates of a tensor of `shape`.
    pub fn linear(&self, shape: &[u32]) -> Result<LinearLayout, LayoutError> {
        self.check(shape)?;
        if !self.is_resolved() {
            return Err(LayoutError::Unresolved {
                layout: self.kind(),
            });
        }
        let map = self.bases(shape).with_ins_ordered(&INS);
        Ok(if is_cut(shape) {
            map.cut_to(shape)
        } else {
            map
        })
    }

    /// Do the CTAs of a cluster split a dimension whose size is no power of two?
    pub(crate) fn splits_cut(&self, shape: &[u32]) -> bool {
        match self {
            Self::Auto | Self::Coalesced => false,
            Self::Blocked(blocked) => splits_cut(&blocked.cta_bases, shape),
            Self::Slice(slice) => {
                let shape = Dims::from(shape).with_inserted(slice.dim as usize, 1);
                slice.parent.splits_cut(&shape)
            }
            Self::Linear(linear) => splits_cut(&linear.block, shape),
            Self::Mma(mma) => splits_cut(&mma.cta_bases, shape),
            Self::Wgmma(wgmma) => splits_cut(&wgmma.cta_bases, shape),
            Self::DotOperand(operand) => {
                // K is never split.
                let shape = Dims::from(shape).with(operand.k_dim(), 1);
                operand.parent.splits_cut(&shape)
            }
        }
    }

    /// The map of a checked layout. Its inputs may be in any order, or lack axes of size 1.
    fn bases(&self, shape: &[u32]) -> LinearLayout {
        match self {
            Self::Auto | Self::Coalesced => {
                panic!("a placeholder has no bases: callers ask is_resolved first")
            }
            Self::Blocked(blocked) => blocked_bases(blocked, shape),
            Self::Slice(slice) => slice_bases(slice, shape),
            Self::Linear(linear) => linear_bases(linear, shape),
            Self::Mma(mma) => mma_bases(mma, shape),
            Self::Wgmma(wgmma) => wgmma_bases(wgmma, shape),
            Self::DotOperand(operand) => operand_bases(operand, shape),
        }
    }
}

/// The map of a CTA's share of the tensor, given the tile that one set of its warps covers at once.
fn cover_in_sets(
    sets: WarpSets,
    tile: &LinearLayout,
    share: &[u32],
    repeat_order: &[u32],
) -> LinearLayout {
    sets.over(share, |share| cover(tile, share, repeat_order))
}

/// A tile of one CTA on its share of the tensor, rounded up to powers of two: what is missing repeats in registers, what
/// is too much broadcasts.
fn cover(tile: &LinearLayout, share: &[u32], repeat_order: &[u32]) -> LinearLayout {
    let whole = rounded_up(share);
    let tile = if is_cut(share) {
        &within_granules(tile, share, repeat_order)
    } else {
        tile
    };
    tile.repeated_to(&whole, repeat_order, Axis::Register)
        .clipped_to(&whole)
}

/// The tile with lanes and warps within the granules of the sizes that are no powers of two. Those beyond hold copies, and
/// registers take their places.
fn within_granules(tile: &LinearLayout, share: &[u32], repeat_order: &[u32]) -> LinearLayout {
    let (mut beyond, mut shift) = (0, 0);
    let mut starts = Vec::new();
    for ((_, bits), &size) in tile.outs().zip(share) {
        let low = if size.is_power_of_two() {
            bits
        } else {
            bits.min(granule(size).trailing_zeros())
        };
        beyond |= ((1_u64 << bits) - (1 << low)) << shift;
        starts.push(shift..shift + bits);
        shift += bits;
    }
    let missing = [Axis::Lane, Axis::Warp]
        .iter()
        .flat_map(|axis| tile.bases(*axis))
        .fold(0, |all, basis| all | basis & beyond);
    let dims = repeat_order.iter().map(|&dim| starts[dim as usize].clone());
    let registers: Vec<u64> = dims
        .flatten()
        .map(|bit| 1 << bit)
        .filter(|bit| missing & bit != 0)
        .collect();
    let ins = tile.ins().map(|(axis, bits)| match axis {
        Axis::Register => (axis, bits + registers.len() as u32),
        axis => (axis, bits),
    });
    let columns = tile.ins().flat_map(|(axis, _)| {
        let further = if axis == Axis::Register {
            &registers[..]
        } else {
            &[]
        };
        let is_thread = matches!(axis, Axis::Lane | Axis::Warp);
        let kept = if is_thread { !beyond } else { u64::MAX };
        let own = tile.bases(axis).iter().map(move |basis| basis & kept);
        own.chain(further.iter().copied())
    });
    LinearLayout::from_columns(ins, tile.outs(), columns)
}

fn blocked_bases(blocked: &Blocked, shape: &[u32]) -> LinearLayout {
    let order = &blocked.order;
    let tile = LinearLayout::grid(Axis::Register, &blocked.size_per_thread, order)
        * LinearLayout::grid(Axis::Lane, &blocked.threads_per_warp, order)
        * LinearLayout::grid(Axis::Warp, &grid_of_set(&blocked.warps), order);
    let sets = WarpSets::of_grid(&blocked.warps);
    over_ctas(&blocked.cta_bases, shape, |share| {
        cover_in_sets(sets, &tile, share, order)
    })
}

/// The parent on the shape with the lost dimension of size 1. Registers that only repeat an element are dropped;
/// lanes, warps and CTAs that do so exist all the same and hold copies.
fn slice_bases(slice: &Slice, shape: &[u32]) -> LinearLayout {
    let parent = slice
        .parent
        .bases(&Dims::from(shape).with_inserted(slice.dim as usize, 1));
    let lost = Axis::dim(slice.dim as usize);
    let kept: Vec<Axis> = parent
        .outs()
        .map(|(axis, _)| axis)
        .filter(|&axis| axis != lost)
        .collect();
    let renumber = |axis| match axis {
        Axis::Dim(dim) if u32::from(dim) > slice.dim => Axis::Dim(dim - 1),
        axis => axis,
    };
    let sliced = parent.with_outs_ordered(&kept).with_outs_renamed(renumber);
    sliced.with_bases_kept(Axis::Register, |_, basis| basis != 0)
}

fn linear_bases(linear: &DistributedLinear, shape: &[u32]) -> LinearLayout {
    let sets = linear.warp_sets();
    sets.over(shape, |share| linear_bases_of_set(linear, share))
}

/// Repeats walk the dimensions in the order in which the bases first touch them.
fn linear_bases_of_set(linear: &DistributedLinear, shape: &[u32]) -> LinearLayout {
    let groups = linear.groups_of_set();
    let bases = groups.into_iter().flat_map(|(_, bases)| bases);
    let mut natural = Dims::filled(1, shape.len());
    let mut order = Dims::empty();
    for basis in bases {
        for (dim, &entry) in basis.iter().enumerate().filter(|&(_, &entry)| entry != 0) {
            natural[dim] = natural[dim].max(entry * 2);
            if !order.contains(&(dim as u32)) {
                order.push(dim as u32);
            }
        }
    }
    let untouched: Vec<u32> = (0..shape.len() as u32)
        .rev()
        .filter(|dim| !order.contains(dim))
        .collect();
    for dim in untouched {
        order.push(dim);
    }
    let tile = LinearLayout::from_bases(groups, &natural);
    let whole = rounded_up(shape);
    let fits = natural.iter().zip(&whole).all(|(have, want)| have <= want);
    let covered = cover(&tile, shape, &order);
    if fits {
        covered
    } else {
        covered.with_bases_kept(Axis::Register, |_, basis| basis != 0)
    }
}

/// The fragment of one warp in a tensor-core tile of `outer_size` x `inner_size`: 8 lanes along the outer dimension,
/// 4 along the inner, `k_width` neighbours along the inner dimension per lane (PTX ISA 9.7.14.5).
struct Fragment {
    rank: usize,
    outer_dim: usize,
    outer_size: u32,
    inner_dim: usize,
    inner_size: u32,
    k_width: u32,
}

impl Fragment {
    fn bases(&self) -> LinearLayout {
        let inner = |axis, size: u32| along(axis, self.inner_dim, size);
        let outer = |axis, size: u32| along(axis, self.outer_dim, size);
        let everywhere = LinearLayout::grid(Axis::Register, &Dims::filled(1, self.rank), &[]);
        everywhere
            * inner(Axis::Register, self.k_width)
            * inner(Axis::Lane, 4)
            * outer(Axis::Lane, 8)
            * outer(Axis::Register, self.outer_size / 8)
            * inner(Axis::Register, self.inner_size / (4 * self.k_width))
    }
}

fn along(axis: Axis, dim: usize, size: u32) -> LinearLayout {
    LinearLayout::identity(axis, Axis::dim(dim), size.trailing_zeros())
}

fn mma_bases(mma: &Mma, shape: &[u32]) -> LinearLayout {
    let rank = mma.rank();
    let tile = accumulator_fragment(rank, 8)
        * LinearLayout::grid(Axis::Warp, &grid_of_set(&mma.warps), &row_major(rank));
    let sets = WarpSets::of_grid(&mma.warps);
    over_ctas(&mma.cta_bases, shape, |share| {
        cover_in_sets(sets, &tile, share, &row_major(rank))
    })
}

fn wgmma_bases(wgmma: &Wgmma, shape: &[u32]) -> LinearLayout {
    // Instructions side by side are repetitions along N, however many columns each has.
    let columns = granule(wgmma.n());
    let tile = accumulator_fragment(2, columns)
        * LinearLayout::grid(Axis::Warp, &grid_of_set(&wgmma.warps), &[0, 1]);
    let sets = WarpSets::of_grid(&wgmma.warps);
    over_ctas(&wgmma.cta_bases, shape, |share| {
        cover_in_sets(sets, &tile, share, &[1, 0])
    })
}

/// 16 rows and `n` columns per warp, two neighbouring columns per lane.
fn accumulator_fragment(rank: usize, n: u32) -> LinearLayout {
    Fragment {
        rank,
        outer_dim: rank - 2,
        outer_size: 16,
        inner_dim: rank - 1,
        inner_size: n,
        k_width: 2,
    }
    .bases()
}

fn operand_bases(operand: &DotOperand, shape: &[u32]) -> LinearLayout {
    let k_dim = operand.k_dim();
    let (warps, warp_order, cta_bases) = match &operand.parent {
        Layout::Mma(mma) => (&mma.warps, row_major(mma.rank()), &mma.cta_bases),
        Layout::Wgmma(wgmma) => (&wgmma.warps, Dims::from([0, 1]), &wgmma.cta_bases),
        Layout::Blocked(blocked) => return fma_operand_bases(blocked, k_dim, shape),
        parent => panic!("{parent} is no parent of a DotOperand: check has rejected it"),
    };
    let rank = shape.len();
    let outer_dim = if k_dim == rank - 1 {
        rank - 2
    } else {
        rank - 1
    };
    let fragment = Fragment {
        rank,
        outer_dim,
        outer_size: if operand.operand == 0 { 16 } else { 8 },
        inner_dim: k_dim,
        inner_size: 8 * operand.k_width,
        k_width: operand.k_width,
    };
    let grid = LinearLayout::grid(Axis::Warp, &grid_of_set(warps), &warp_order);
    let tile = fragment.bases() * shared_along(&grid, k_dim);
    let sets = outside_of_k(WarpSets::of_grid(warps), k_dim);
    let batch_dims = (0..rank - 2).rev();
    let repeat_order: Dims = [k_dim, outer_dim]
        .into_iter()
        .chain(batch_dims)
        .map(|dim| dim as u32)
        .collect();
    let cta_bases = without_k(cta_bases, k_dim);
    over_ctas(&cta_bases, shape, |share| {
        cover_in_sets(sets, &tile, share, &repeat_order)
    })
}

/// Each thread holds all of K for its rows or columns, enumerated in the parent's order.
fn fma_operand_bases(parent: &Blocked, k_dim: usize, shape: &[u32]) -> LinearLayout {
    let order = &parent.order;
    let registers = (parent.size_per_thread).with(k_dim, shape[k_dim].next_power_of_two());
    let tile = LinearLayout::grid(Axis::Register, &registers, order)
        * shared_along(
            &LinearLayout::grid(Axis::Lane, &parent.threads_per_warp, order),
            k_dim,
        )
        * shared_along(
            &LinearLayout::grid(Axis::Warp, &grid_of_set(&parent.warps), order),
            k_dim,
        );
    let sets = outside_of_k(WarpSets::of_grid(&parent.warps), k_dim);
    let cta_bases = without_k(&parent.cta_bases, k_dim);
    over_ctas(&cta_bases, shape, |share| {
        cover_in_sets(sets, &tile, share, order)
    })
}

/// The grid with all of `dim` folded onto one place: inputs that differed along it hold copies.
fn shared_along(grid: &LinearLayout, dim: usize) -> LinearLayout {
    let sizes = grid.out_sizes();
    grid.clipped_to(&sizes.with(dim, 1))
}

/// Sets of warps that the parent has along K hold copies of an operand.
fn outside_of_k(sets: WarpSets, k_dim: usize) -> WarpSets {
    WarpSets {
        dim: sets.dim.filter(|&dim| dim != k_dim),
        ..sets
    }
}

/// An operand is never split along K: CTAs that the parent spends there hold copies.
fn without_k(cta_bases: &[Dims], k_dim: usize) -> Vec<Dims> {
    cta_bases.iter().map(|basis| basis.with(k_dim, 0)).collect()
}

fn row_major(rank: usize) -> Dims {
    (0..rank as u32).rev().collect()
}
