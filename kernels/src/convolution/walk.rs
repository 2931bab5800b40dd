//! Which pixel of an image lies under a tap of a filter: the arithmetic that kernels share.

use tilekit::prelude::*;

/// Where output pixels and taps lead, by dimension: depth, height, width. Images without depth have an extent of 1 there.
#[derive(Clone, Copy, Aggregate, KernelParam)]
pub struct Walk {
    /// Output pixels.
    pub(super) out: [Scalar<i32>; 3],
    /// Input pixels from one output pixel to the next.
    pub(super) step: [Scalar<i32>; 3],
    /// The input pixel under the first tap of the first output pixel: minus the padding.
    pub(super) lower: [Scalar<i32>; 3],
    /// Taps.
    pub(super) taps: [Scalar<i32>; 3],
    /// Input pixels from one tap to the next.
    pub(super) spread: [Scalar<i32>; 3],
}

/// Which tap of the filters is taken under each of a [`Walk`]'s: the first of all, and how far the next ones along depth, height and width are from it.
#[derive(Clone, Copy, Aggregate, KernelParam)]
pub struct TapOrder {
    pub(super) first: Scalar<i32>,
    pub(super) step: [Scalar<i32>; 3],
}

/// An output pixel of an image.
#[derive(Clone, Copy, Aggregate)]
pub(super) struct Place {
    pub(super) image: Scalar<i32>,
    /// Depth, height, width.
    pub(super) at: [Scalar<i32>; 3],
}

impl Walk {
    /// Output pixel `pixel`, counted through all images.
    #[device]
    pub(super) fn place(self, pixel: Scalar<i32>, has_depth: bool) -> Place {
        let [planes, rows, columns] = self.out;
        let (line, column) = (pixel / columns, pixel % columns);
        let (plane, row) = (line / rows, line % rows);
        let (image, plane) = if has_depth {
            (plane / planes, plane % planes)
        } else {
            (plane, scalar(0))
        };
        Place {
            image,
            at: [plane, row, column],
        }
    }

    /// The pixel as many after `place` as `by` is after the first one: without divisions, of which a step of a producer would take longer than its loads.
    #[device]
    pub(super) fn after(self, place: Place, by: Place, has_depth: bool) -> Place {
        let [planes, rows, columns] = self.out;
        let carried = |sum: Scalar<i32>, extent: Scalar<i32>| {
            let is_past = sum >= extent;
            let within = select(is_past, sum - extent, sum);
            (within, select(is_past, scalar(1), scalar(0)))
        };
        let (column, line) = carried(place.at[2] + by.at[2], columns);
        let (row, plane) = carried(place.at[1] + by.at[1] + line, rows);
        let (plane, image) = if has_depth {
            carried(place.at[0] + by.at[0] + plane, planes)
        } else {
            (scalar(0), plane)
        };
        Place {
            image: place.image + by.image + image,
            at: [plane, row, column],
        }
    }

    /// Image, depth, height and width under the first tap of an output pixel.
    #[device]
    pub(super) fn under(self, place: Place) -> [Scalar<i32>; 4] {
        let [plane, row, column] = place.at;
        let [deep, high, wide] = self.step;
        let [front, top, left] = self.lower;
        [
            place.image,
            plane * deep + front,
            row * high + top,
            column * wide + left,
        ]
    }

    /// Image, depth, height and width under the first tap of output pixel `pixel`, counted through all images.
    #[device]
    pub(super) fn first(self, pixel: Scalar<i32>, has_depth: bool) -> [Scalar<i32>; 4] {
        self.under(self.place(pixel, has_depth))
    }

    /// The offsets of tap `number` from the first one, in pixels: depth, height, width.
    #[device]
    pub(super) fn tap(self, number: Scalar<i32>) -> [Scalar<i32>; 3] {
        let [_, rows, columns] = self.taps;
        let [deep, high, wide] = self.spread;
        let (line, k) = (number / columns, number % columns);
        let (i, j) = (line / rows, line % rows);
        [i * deep, j * high, k * wide]
    }

    /// How many taps a filter has.
    #[device]
    pub(super) fn count(self) -> Scalar<i32> {
        let [planes, rows, columns] = self.taps;
        planes * rows * columns
    }
}
