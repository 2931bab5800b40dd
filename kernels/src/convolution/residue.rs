//! The gradient of an image as convolutions with strides of 1. Where taps move by a stride, pixels that far apart are reached by the same taps, and others by other taps or by none: so
//! pixels of each remainder of the strides are a convolution of the gradient of the result with some of the taps, which run backwards.

use tilekit::prelude::*;
use tilekit::{TensorSource, TensorView};

use super::shape::{Along, Shape};

/// Which tap of the filters is under each of a convolution's: the first one, and how far the next ones along depth, height and width are from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Taps {
    pub(super) first: i64,
    pub(super) step: [i64; 3],
}

/// A convolution whose results are pixels of a tensor: all of them, or some that lie apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Residue {
    pub(super) shape: Shape,
    pub(super) taps: Taps,
    /// The first of its pixels along depth, height and width.
    pub(super) first: [usize; 3],
}

/// Pixels along one dimension, from `first` on and a stride apart.
struct OfDimension {
    along: Along,
    /// The first tap, and how far the next one is from it.
    taps: [i64; 2],
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// None where no tap reaches them.
fn of_dimension(of: &Along, first: usize) -> Option<OfDimension> {
    let (stride, dilation) = (of.stride as i64, of.dilation as i64);
    let common = gcd(of.stride, of.dilation);
    // From a tap that reaches them to the next.
    let apart = of.stride / common;
    let behind = |tap: usize| first as i64 - of.lower - tap as i64 * dilation;
    let reaches = |tap: &usize| behind(*tap).rem_euclid(stride) == 0;
    let tap = (0..apart.min(of.taps)).find(reaches)?;
    let (taps, dilation) = ((of.taps - tap).div_ceil(apart), of.dilation / common);
    let backwards = ((taps - 1) * dilation) as i64;
    Some(OfDimension {
        along: Along {
            input: of.output,
            output: of.input.saturating_sub(first).div_ceil(of.stride),
            taps,
            stride: 1,
            lower: behind(tap) / stride - backwards,
            dilation,
        },
        taps: [(tap + (taps - 1) * apart) as i64, -(apart as i64)],
    })
}

impl Residue {
    /// A convolution as it is.
    pub(super) fn whole(shape: &Shape) -> Residue {
        let [_, high, wide] = shape.along;
        let step = [high.taps * wide.taps, wide.taps, 1].map(|step| step as i64);
        Residue {
            shape: *shape,
            taps: Taps { first: 0, step },
            first: [0; 3],
        }
    }

    /// Those of the gradient of the image of a convolution that have pixels and taps.
    pub(super) fn of_gradient(of: &Shape) -> Vec<Residue> {
        let firsts = of.along.map(|along| {
            let all = 0..along.stride.min(along.input);
            let reached = all.filter(|&first| of_dimension(&along, first).is_some());
            reached.collect::<Vec<usize>>()
        });
        let [planes, lines, pixels] = &firsts;
        let mut found = Vec::new();
        for &i in planes {
            for &j in lines {
                let firsts = pixels.iter().map(|&k| [i, j, k]);
                found.extend(firsts.filter_map(|first| Residue::at(of, first)));
            }
        }
        found
    }

    /// Its pixels in an image of so many, which begin every `pitch` elements, as an image of their own for im2col stores.
    pub(super) fn stored_apart<'s, T: DeviceElement, S: TensorSource<T>>(
        &self,
        view: TensorView<'s, T, S>,
        ([deep, high, wide], strides): ([usize; 3], [usize; 3]),
        pitch: usize,
    ) -> TensorView<'s, T, S> {
        let steps = [high * wide * pitch, wide * pitch, pitch];
        let begin = view.place().offset;
        let first: usize = self
            .first
            .iter()
            .zip(steps)
            .map(|(at, step)| at * step)
            .sum();
        let spatial = self.shape.spatial().len();
        let (mut shape, mut apart) = (vec![self.shape.images], vec![deep * steps[0]]);
        for dim in 3 - spatial..3 {
            shape.push(self.shape.along[dim].output);
            apart.push(strides[dim] * steps[dim]);
        }
        shape.push(self.shape.filters * self.shape.groups);
        apart.push(1);
        let none = vec![0; spatial];
        let view = view.with_shape(shape.as_slice());
        let view = view.with_strides(apart.as_slice());
        view.with_offset(begin + first).with_window(&none, &none)
    }

    fn at(of: &Shape, first: [usize; 3]) -> Option<Residue> {
        let dimension = |dim: usize| of_dimension(&of.along[dim], first[dim]);
        let all = [dimension(0)?, dimension(1)?, dimension(2)?];
        let [_, high, wide] = of.along;
        let pitches = [high.taps * wide.taps, wide.taps, 1].map(|pitch| pitch as i64);
        let taps: [[i64; 2]; 3] =
            std::array::from_fn(|dim| all[dim].taps.map(|tap| tap * pitches[dim]));
        Some(Residue {
            shape: Shape {
                channels: of.filters,
                filters: of.channels,
                along: all.map(|found| found.along),
                ..*of
            },
            taps: Taps {
                first: taps.iter().map(|[first, _]| first).sum(),
                step: taps.map(|[_, step]| step),
            },
            first,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Pixels of the image, pixels of the result and taps of a convolution of lines.
    fn products(along: &Along) -> BTreeSet<[i64; 3]> {
        let (outputs, taps) = (0..along.output as i64, 0..along.taps as i64);
        let all = outputs.flat_map(|output| taps.clone().map(move |tap| [output, tap]));
        let under = |[output, tap]: [i64; 2]| {
            let pixel = output * along.stride as i64 + along.lower + tap * along.dilation as i64;
            [pixel, output, tap]
        };
        let inside = |[pixel, ..]: &[i64; 3]| (0..along.input as i64).contains(pixel);
        all.map(under).filter(inside).collect()
    }

    /// The same of those of its gradient.
    fn of_gradient(along: &Along) -> BTreeSet<[i64; 3]> {
        let shape = Shape {
            images: 1,
            channels: 1,
            filters: 1,
            groups: 1,
            along: [Along::NONE, Along::NONE, *along],
            has_depth: false,
        };
        let mut found = BTreeSet::new();
        for residue in Residue::of_gradient(&shape) {
            let wide = residue.shape.along[2];
            for [output, pixel, tap] in products(&wide) {
                let image = residue.first[2] as i64 + pixel * along.stride as i64;
                let tap = residue.taps.first + tap * residue.taps.step[2];
                assert!(found.insert([image, output, tap]), "{along:?}: twice");
            }
        }
        found
    }

    #[test]
    fn each_product_of_a_convolution_is_one_of_its_gradient() {
        for (stride, dilation) in (1..=6).flat_map(|x| (1..=6).map(move |y| (x, y))) {
            for (taps, padding) in (1..=5).flat_map(|x| (0..=4).map(move |y| (x, y))) {
                for input in [1, 2, 5, 12, 23] {
                    let along = Along::new([input, taps], [stride, padding, dilation]);
                    let Some(along) = along else { continue };
                    assert_eq!(of_gradient(&along), products(&along), "{along:?}");
                }
            }
        }
    }

    #[test]
    fn taps_of_strides_of_1_run_backwards() {
        let along = Along::new([9, 3], [1, 1, 2]).expect("taps fit");
        let shape = Shape {
            images: 2,
            channels: 8,
            filters: 16,
            groups: 1,
            along: [Along::NONE, along, along],
            has_depth: false,
        };
        let all = Residue::of_gradient(&shape);
        assert_eq!(all.len(), 1);
        let taps = Taps {
            first: 8,
            step: [-9, -3, -1],
        };
        assert_eq!((all[0].taps, all[0].first), (taps, [0; 3]));
        assert_eq!(all[0].shape.along[2].lower, -3);
    }
}
