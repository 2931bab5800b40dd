//! Choosing a blocked layout so that global memory accesses coalesce (Gluon's `coalesced` formula, steps 1 to 5).

use super::linear::cut::granule;
use super::{Blocked, Dims, WarpSets, sets_of, warps_of_set};

const LANES: u32 = 32;

/// What an analysis knows of the addresses of one memory operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessFacts {
    /// The shape of the tensor of pointers that one CTA accesses.
    pub shape: Dims,
    /// Bits of an element.
    pub elem_bits: u32,
    /// Per dimension, how many consecutive elements have consecutive addresses.
    pub contiguity: Dims,
    /// Per dimension, a power of two that divides the address in bytes of the first element of each such run.
    pub divisibility_bytes: Dims,
    /// Bytes of the widest access of a thread.
    pub widest_bytes: u32,
    /// Loads may take more per thread than they can vectorise; everything else may not.
    pub is_load: bool,
}

impl AccessFacts {
    /// Step 1: the dimensions by descending contiguity, of equals the higher dimension first.
    pub fn order(&self) -> Dims {
        let mut order: Vec<u32> = (0..self.contiguity.rank() as u32).rev().collect();
        order.sort_by_key(|&dim| std::cmp::Reverse(self.contiguity[dim as usize]));
        order.into()
    }

    /// Step 2: how many elements one thread can access at once.
    pub fn elements_at_once(&self) -> u32 {
        let Some(&fastest) = self.order().first() else {
            return 1;
        };
        let fastest = fastest as usize;
        let elem_bytes = (self.elem_bits / 8).max(1);
        let aligned = (self.divisibility_bytes[fastest] / elem_bytes).max(1);
        let contiguous =
            floor_power_of_two(self.contiguity[fastest].min(granule(self.shape[fastest])));
        aligned
            .min(contiguous)
            .min(8 * self.widest_bytes / self.elem_bits.max(8))
    }

    /// Step 3: how many elements one thread gets along the fastest dimension. `others` are the accesses of this one's
    /// forward and backward slice; those of the same shape and order share one choice.
    pub fn elements_per_thread<'a>(
        &self,
        others: impl IntoIterator<Item = &'a Self>,
        warps: u32,
    ) -> u32 {
        let order = self.order();
        let alike = others
            .into_iter()
            .filter(|other| other.shape == self.shape && other.order() == order);
        let widest = alike
            .map(Self::elements_at_once)
            .fold(self.elements_at_once(), u32::max);
        // What a size has beyond its granule repeats in registers, and is nobody's share.
        let granules: Dims = self.shape.iter().map(|&size| granule(size)).collect();
        let threads = u64::from(warps_of_set(warps) * LANES);
        let fair_share = (granules.product() / threads).max(1);
        let per_thread = fair_share.min(u64::from(widest)) as u32;
        if self.is_load {
            per_thread
        } else {
            per_thread.min(self.elements_at_once())
        }
    }

    /// All five steps: the layout for this access.
    pub fn coalesced_blocked<'a>(
        &self,
        others: impl IntoIterator<Item = &'a Self>,
        warps: u32,
    ) -> Blocked {
        let per_thread = self.elements_per_thread(others, warps);
        spread(&self.shape, &self.order(), per_thread, warps)
    }
}

/// Steps 4 and 5: `per_thread` elements of the fastest dimension in each thread, lanes and then warps along the
/// dimensions from the fastest, as far as there are elements for them; the slowest dimension takes what is left. Sets of warps
/// divide the slowest dimension that they can.
pub fn spread(shape: &[u32], order: &Dims, per_thread: u32, warps: u32) -> Blocked {
    let sets = sets_along(shape, order, warps);
    let mut blocked = spread_set(&sets.share(shape), order, per_thread, warps / sets.count);
    if let Some(dim) = sets.dim {
        blocked.warps[dim] *= sets.count;
    }
    blocked
}

/// The sets of so many warps, along the dimension that [`spread`] gives them.
fn sets_along(shape: &[u32], order: &[u32], warps: u32) -> WarpSets {
    let count = sets_of(warps);
    if count <= 1 {
        return WarpSets::ONE;
    }
    let along = |dim: u32| WarpSets {
        count,
        dim: Some(dim as usize),
    };
    let slowest_first = order.iter().rev().map(|&dim| along(dim));
    let divided = slowest_first
        .clone()
        .find(|sets| sets.divided(shape).is_some());
    divided
        .or_else(|| slowest_first.clone().next())
        .unwrap_or(WarpSets { count, dim: None })
}

fn spread_set(shape: &[u32], order: &Dims, per_thread: u32, warps: u32) -> Blocked {
    let mut size_per_thread = Dims::filled(1, shape.len());
    let mut threads_per_warp = size_per_thread.clone();
    let mut warps_per_dim = size_per_thread.clone();
    let (mut lanes_left, mut warps_left, mut threads_left) = (LANES, warps, LANES * warps);
    if let Some(&fastest) = order.first() {
        size_per_thread[fastest as usize] = per_thread;
    }
    if let Some((&slowest, faster)) = order.split_last() {
        for &dim in faster {
            let dim = dim as usize;
            // What a size has beyond its granule repeats in registers.
            let spread = granule(shape[dim]);
            let threads = threads_left.min((spread / size_per_thread[dim]).max(1));
            threads_per_warp[dim] = threads.min(lanes_left);
            warps_per_dim[dim] = (threads / threads_per_warp[dim]).clamp(1, warps_left);
            lanes_left /= threads_per_warp[dim];
            warps_left /= warps_per_dim[dim];
            threads_left /= threads;
        }
        threads_per_warp[slowest as usize] = lanes_left;
        warps_per_dim[slowest as usize] = warps_left;
    }
    Blocked::new(
        size_per_thread,
        threads_per_warp,
        warps_per_dim,
        order.clone(),
    )
}

impl Blocked {
    /// The layout for a tensor of which nothing is known: one element per thread, the last dimension fastest.
    pub fn default_for(shape: &[u32], warps: u32) -> Self {
        let order: Dims = (0..shape.len() as u32).rev().collect();
        spread(shape, &order, 1, warps)
    }
}

fn floor_power_of_two(value: u32) -> u32 {
    1 << value.max(1).ilog2()
}
