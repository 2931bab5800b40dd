//! Conversions between layouts whose CTAs hold any bits of the coordinates, or copies.

use layout::convert::{Conversion, Limits, Scope};
use layout::{Axis, Dims, LinearLayout};
use target::SM_90A;

use crate::convert::{Held, check};

/// Numbers without a pattern.
struct Noise(u64);

impl Noise {
    fn below(&mut self, count: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % count as u64) as usize
    }
}

const SHAPE: [u32; 2] = [16, 32];

/// Lanes, warps and CTAs each take coordinate bits at random, or none, and registers what is left.
fn layout(noise: &mut Noise, block_bits: usize) -> LinearLayout {
    let dims = SHAPE.iter().enumerate();
    let mut left: Vec<Dims> = dims
        .flat_map(|(dim, size)| (0..size.trailing_zeros()).map(move |bit| (dim, 1 << bit)))
        .map(|(dim, step)| {
            let mut basis = Dims::filled(0, 2);
            basis[dim] = step;
            basis
        })
        .collect();
    let mut take = |count: usize, zero_in: usize| -> Vec<Dims> {
        let mut basis = || match left.len() {
            0 => Dims::filled(0, 2),
            _ if noise.below(zero_in) == 0 => Dims::filled(0, 2),
            many => left.swap_remove(noise.below(many)),
        };
        (0..count).map(|_| basis()).collect()
    };
    let (block, lane, warp) = (take(block_bits, 3), take(5, 8), take(2, 4));
    let register = take(9, usize::MAX);
    let groups = [
        (Axis::Register, register),
        (Axis::Lane, lane),
        (Axis::Warp, warp),
        (Axis::Block, block),
    ];
    let groups = groups.iter().map(|(axis, bases)| (*axis, &bases[..]));
    LinearLayout::from_bases(groups, &SHAPE)
}

/// Registers beyond those that a layout needs hold copies; the fewest do here.
fn without_copies(map: &LinearLayout) -> LinearLayout {
    map.with_bases_kept(Axis::Register, |_, basis| basis != 0)
}

#[test]
fn all_bits_may_move_between_ctas() {
    let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
    let (mut within, mut beyond) = (0, 0);
    for turn in 0..120 {
        let block_bits = 1 + turn % 3;
        let mut next = || Held::new(without_copies(&layout(&mut noise, block_bits)));
        let (src, dst) = (next(), next());
        for elem_bits in [8, 16, 32, 64] {
            let plan = check(&src, &dst, elem_bits, Limits::of(&SM_90A));
            match &plan.conversion {
                Conversion::Shared(shared) if shared.scope == Scope::Cluster => beyond += 1,
                _ => within += 1,
            }
        }
        let small = Limits {
            scratch_bytes: 256,
            ..Limits::of(&SM_90A)
        };
        check(&src, &dst, 32, small);
        assert!(check(&src, &src, 16, Limits::of(&SM_90A)).is_nothing());
    }
    // CTAs that split the result alike, or have copies, need nothing of each other.
    assert!(
        within > 20 && beyond > 200,
        "{within} within, {beyond} beyond"
    );
}
