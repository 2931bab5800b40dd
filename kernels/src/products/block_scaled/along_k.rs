//! Products with a scale for 128 elements of each row of both factors, as gradients of weights want them: K is rows of activations. Groups of K have a result each.

use std::fmt;

use tilekit::prelude::*;

use super::factors::Factors;
use super::mainloop::Mainloop;
use super::tile::ScaledTile;
use crate::products::dense::rows_of_group;
use crate::products::factor::{BLOCK, Operand, ResultOf};
use crate::products::form::swizzle_of_results;
use crate::products::registers::registers_of;

/// What [`row_scaled`] is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AlongForm {
    /// Its tile, whose warpgroups have 64 rows and one instruction for all columns.
    pub tile: ScaledTile,
    /// Groups of K have a result each.
    pub is_grouped: bool,
    /// Products are added to what the result was.
    pub adds: bool,
}

impl fmt::Display for AlongForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let grouped = if self.is_grouped { "+grouped" } else { "" };
        let adds = if self.adds { "+adds" } else { "" };
        write!(f, "{}{grouped}{adds}", self.tile)
    }
}

/// Steps along K of a group: the first, and how many.
#[device]
fn steps_of(
    form: AlongForm,
    ends: Ptr<i32>,
    group: Scalar<i32>,
    k: Scalar<i32>,
) -> [Scalar<i32>; 2] {
    if !form.is_grouped {
        return [scalar(0), cdiv(k, BLOCK)];
    }
    // A group that begins at the end of K, or behind it, has none, also where the last step ends early.
    let step = |at: i32| cdiv(minimum(maximum(ends.at(group + at).load(), 0), k), BLOCK);
    let [first, end] = [0, 1].map(step);
    [first, maximum(end - first, 0)]
}

/// `C[g] = A[M, K] · B[N, K]ᵀ` for each group `g` of K, from `offsets[g]` to `offsets[g + 1]`, multiples of 128, or all of K. Elements of A count times
/// `a_scales[k / 128, m]`, those of B times `b_scales[k / 128, n]`.
#[kernel(warps = 4, min_ctas_per_sm = 1)]
pub fn row_scaled<T: Operand<Sum = f32>, O: ResultOf<T, Addend = O>>(
    #[fixed] form: AlongForm,
    #[block([form.tile.shape()[0], BLOCK], Nvmma::B128)] a: TensorMap<T>,
    #[block([form.tile.columns, BLOCK], Nvmma::B128)] b: TensorMap<T>,
    #[block([1, form.tile.shape()[0]], Nvmma::PLAIN)] a_scales: TensorMap<f32>,
    #[block([1, form.tile.columns], Nvmma::PLAIN)] b_scales: TensorMap<f32>,
    #[block([1, form.tile.rows, form.tile.columns], swizzle_of_results::<O>(form.tile.columns))]
    c: TensorMap<O>,
    #[readonly]
    #[align(4)]
    offsets: Ptr<i32>,
    groups: i32,
    m: i32,
    n: i32,
    k: i32,
) {
    let tile = form.tile;
    let [rows, columns] = tile.shape();
    let factors = Factors::alloc([a, b], a_scales, Some(b_scales), tile);
    let mainloop = Mainloop::new(factors, scalar(0), tile);
    let turns = Turns::of_warpgroups(tile.groups).with_buffers(tile.buffers(size_of::<O>()));
    let epilogue = EpilogueStore::alloc(c, turns);
    let of_group = GroupedRows::new([m, n], [rows, columns], rows_of_group([rows, columns]));
    let count = of_group.count();
    let of_program = || range(program_id(0), count * groups).step(num_programs(0));

    let multiply = |part: usize| {
        let (mut at, mut turn) = (mainloop.pipeline.start(), epilogue.start());
        mainloop.begin(part);
        for number in of_program() {
            let [_, steps] = steps_of(form, offsets, number / count, k);
            let (sums, next) = mainloop.with_steps(steps).of_columns(part, at);
            at = next;
            turn = epilogue.fill(part, turn, sums.cast::<O>());
        }
        mainloop.end(part);
    };
    let store = |part: usize| {
        let mut turn = epilogue.start();
        for number in of_program() {
            let [row, column] = of_group.place(number % count);
            let at = [
                number / count,
                row * rows + part * tile.rows,
                column * columns,
            ];
            turn = epilogue.store_by(part, turn, |tile| {
                if form.adds {
                    c.store_add(at, tile);
                } else {
                    c.store(at, tile);
                }
            });
        }
    };
    let load = || {
        let mut at = mainloop.pipeline.start();
        for number in of_program() {
            let [row, column] = of_group.place(number % count);
            let [first, steps] = steps_of(form, offsets, number / count, k);
            for step in range(first, first + steps) {
                let stage = mainloop.pipeline.producer_acquire(at);
                let tiles = stage.tiles;
                a.load([row * rows, step * BLOCK], tiles.a, stage.full);
                b.load([column * columns, step * BLOCK], tiles.b, stage.full);
                a_scales.load([step, row * rows], tiles.a_scales, stage.full);
                let of_b = tiles.b_scales.expect("rows of B have scales");
                b_scales.load([step, column * columns], of_b, stage.full);
                at = mainloop.pipeline.commit(stage).advance();
            }
        }
    };
    let [of_consumers, of_others] = registers_of(tile.groups);
    warp_specialize()
        .registers(of_consumers)
        .main(|| multiply(0))
        .workers(1..tile.groups, Warps(4).registers(of_consumers), multiply)
        .worker(Warps(1).registers(of_others), load)
        .workers(0..tile.groups, Warps(1).registers(of_others), store)
        .run();
}
