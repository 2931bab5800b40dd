//! The pixels that im2col maps reach.

use std::fmt;
use std::ops::RangeInclusive;

use tilekit::target::SM_90A;

use super::shape::{Along, Shape};

/// What a map reaches along each of its dimensions, of which more leave fewer bits for each.
pub(super) struct Reach {
    /// From the first input pixel to the first one under the first tap, and from the last one to the last.
    corners: RangeInclusive<i64>,
    /// From the first tap to the last.
    span: usize,
    stride: usize,
}

impl Reach {
    pub(super) fn of(shape: &Shape) -> Reach {
        let (limits, spatial) = (&SM_90A.tensor_map, shape.spatial().len());
        let corners = limits
            .corner_offsets(spatial + 2)
            .expect("an image has two or three spatial dimensions in its map");
        Reach {
            corners: i64::from(*corners.start())..=i64::from(*corners.end()),
            span: (1 << (16 / spatial)) - 2,
            stride: limits.element_stride as usize,
        }
    }

    fn has(&self, along: &Along) -> bool {
        let is_near = [along.lower, along.upper()]
            .iter()
            .all(|corner| self.corners.contains(corner));
        is_near && (along.taps - 1) * along.dilation <= self.span && along.stride <= self.stride
    }
}

impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "strides to {}, (taps - 1) · dilation to {}, and a first tap that begins {} to {} pixels behind the first pixel and ends as near to the last",
            self.stride,
            self.span,
            self.corners.start(),
            self.corners.end(),
        )
    }
}

impl Shape {
    /// Whether an im2col map reaches all pixels.
    pub(super) fn fits_maps(&self) -> bool {
        let reach = Reach::of(self);
        self.along.iter().all(|along| reach.has(along))
    }

    /// The dimensions of the tensor of this name along which no map reaches all pixels.
    pub(super) fn out_of_reach(&self, loaded: &str) -> String {
        let reach = Reach::of(self);
        let all = self.along.iter().zip(["depth", "height", "width"]);
        let found = all.filter(|(along, _)| !reach.has(along));
        let texts = found.map(|(along, name)| {
            let (taps, dilation, stride) = (along.taps, along.dilation, along.stride);
            format!(
                "a {name} of {} pixels of `{loaded}` with {taps} taps, dilation {dilation} and stride {stride}, the first tap from pixel {} to {}",
                along.input,
                along.lower,
                along.last()
            )
        });
        texts.collect::<Vec<_>>().join("; ")
    }
}
