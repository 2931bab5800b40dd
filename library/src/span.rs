//! Stretches of a row that are read together: one 16-byte access per thread and tile, neighbouring threads next to each
//! other, with the fragment of a thread along one dimension, so that a reduction along it needs no shuffle.

use gluon_lang::lang::prelude::*;

/// Below every logit, and finite: the difference of two of them is 0, and not NaN.
pub const LOW: f32 = -1e30;

/// What all threads of a program read at once.
#[derive(Clone, Debug)]
pub struct Span {
    layout: Blocked,
    threads: usize,
    per_thread: usize,
}

impl Span {
    /// One access of every thread of `warps` warps to elements of type `T`.
    #[must_use]
    pub fn of<T>(warps: usize) -> Span {
        let per_thread = 16 / size_of::<T>();
        Span {
            layout: Blocked::new([1, per_thread], [32, 1], [warps, 1], [1, 0]),
            threads: 32 * warps,
            per_thread,
        }
    }

    /// Elements of a tile.
    #[must_use]
    pub fn elements(&self) -> usize {
        self.threads * self.per_thread
    }

    /// A number for each thread.
    pub fn per_thread(&self, value: f32) -> Tensor<f32> {
        full([self.threads], value, Slice::new(1, self.layout.clone()))
    }

    /// The places of the tile that begins at `start`.
    pub fn places(&self, start: Scalar<i32>) -> Tensor<i32> {
        let (outer, inner) = (
            Slice::new(1, self.layout.clone()),
            Slice::new(0, self.layout.clone()),
        );
        let thread = arange(0..self.threads, outer).expand_dims(1) * self.per_thread;
        let element = arange(0..self.per_thread, inner).expand_dims(0);
        thread + element + start
    }

    /// `TILES` tiles of a row from `start` on, times log2(e); [`LOW`] past the end of the row.
    #[device]
    pub fn load<T: Float, const TILES: usize>(
        &self,
        row: Ptr<T>,
        start: Scalar<i32>,
        cols: Scalar<i32>,
        policy: L2Policy,
    ) -> [Tensor<f32>; TILES] {
        let places: [_; TILES] =
            std::array::from_fn(|tile| self.places(start + tile * self.elements()));
        let loaded = places.map(|at| row.at(at).mask(at < cols).other(0).policy(policy).load());
        let mut tiles = [self.per_thread(LOW); TILES];
        for (tile, (at, v)) in tiles.iter_mut().zip(places.into_iter().zip(loaded)) {
            *tile = select(at < cols, v.cast::<f32>() * LOG2_E, LOW);
        }
        tiles
    }
}
