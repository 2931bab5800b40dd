//! Which pixel of an image lies under a tap of a filter: the arithmetic that kernels share.

use tilekit::prelude::*;

/// Where output pixels and taps lead, by dimension: depth, height, width. Images without depth have an extent of 1 there.
#[derive(Clone, Copy, Aggregate)]
pub(super) struct Walk {
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

impl Walk {
    /// Image, depth, height and width under the first tap of output pixel `pixel`, counted through all images.
    #[device]
    pub(super) fn first(self, pixel: Scalar<i32>, has_depth: bool) -> [Scalar<i32>; 4] {
        let [planes, rows, columns] = self.out;
        let (line, column) = (pixel / columns, pixel % columns);
        let (plane, row) = (line / rows, line % rows);
        let (image, plane) = if has_depth {
            (plane / planes, plane % planes)
        } else {
            (plane, scalar(0))
        };
        let [deep, high, wide] = self.step;
        let [front, top, left] = self.lower;
        [
            image,
            plane * deep + front,
            row * high + top,
            column * wide + left,
        ]
    }

    /// How many taps a filter has.
    #[device]
    pub(super) fn count(self) -> Scalar<i32> {
        let [planes, rows, columns] = self.taps;
        planes * rows * columns
    }
}
