//! Which elements of memory two strided tensors share.

use tilekit::prelude::*;

/// Whether two tensors share elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overlap {
    None,
    Some,
    /// The search was too long.
    Unknown,
}

/// The most dimensions of a tensor, and one for the bytes of an element.
const MOST_DIMS: usize = 6;

/// The addresses of a tensor's elements, in elements of its type. Every call makes some of them, in memory of their own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Elements {
    first: i64,
    /// Extent and stride of each dimension; 1 and 0 of those that there are not.
    dims: [[i64; 2]; MOST_DIMS],
}

/// Steps after which the search for a common element ends.
const STEPS: usize = 10_000;

/// Whether two views are the same elements in the same order.
pub(crate) fn is_same_view<T: DeviceElement, U: DeviceElement>(
    a: &TensorView<'_, T>,
    b: &TensorView<'_, U>,
) -> bool {
    let (x, y) = (Elements::of(a), Elements::of(b));
    T::DTYPE == U::DTYPE && x.first == y.first && x.steps().eq(y.steps())
}

impl Elements {
    pub(crate) fn of<T: DeviceElement>(view: &TensorView<'_, T>) -> Elements {
        let place = view.place();
        if place.shape.contains(&0) {
            // Strides and offset of no elements are any numbers, which need not fit.
            return Elements::new(0, [[0, 0]]);
        }
        let buffer = view.source().address() as i64 / size_of::<T>() as i64;
        let dims = place.shape.iter().zip(&place.strides);
        Elements::new(
            buffer + place.offset as i64,
            dims.map(|(&extent, &stride)| [extent as i64, stride as i64]),
        )
    }

    /// The addresses of all bytes of a tensor, so that tensors of other types can be compared with it.
    pub(crate) fn bytes_of<T: DeviceElement>(view: &TensorView<'_, T>) -> Elements {
        let Elements { first, dims } = Elements::of(view);
        let size = size_of::<T>() as i64;
        let of_elements = dims.map(|[extent, stride]| [extent, stride * size]);
        let rank = view.place().shape.len();
        let bytes = of_elements.into_iter().take(rank).chain([[size, 1]]);
        Elements::new(first * size, bytes)
    }

    /// The address of the last element.
    fn last(&self) -> i64 {
        let reach = |&[extent, stride]: &[i64; 2]| (extent - 1) * stride;
        self.first + self.dims.iter().map(reach).sum::<i64>()
    }

    fn new(first: i64, dims: impl IntoIterator<Item = [i64; 2]>) -> Elements {
        let mut all = [[1, 0]; MOST_DIMS];
        for (at, [extent, stride]) in dims.into_iter().enumerate() {
            // Where there is one index no step is taken, however long it is.
            all[at] = [extent, if extent > 1 { stride } else { 0 }];
        }
        Elements { first, dims: all }
    }

    /// The dimensions along which there are several indices.
    fn steps(&self) -> impl Iterator<Item = [i64; 2]> {
        self.dims.into_iter().filter(|&[extent, _]| extent > 1)
    }

    fn is_empty(&self) -> bool {
        self.dims.iter().any(|&[extent, _]| extent == 0)
    }

    /// Whether each element has an address of its own. Interleaved dimensions count as overlapping.
    pub(crate) fn are_apart(&self) -> bool {
        let mut dims = self.dims;
        dims.sort_unstable_by_key(|&[_, stride]| stride);
        let mut dims = dims.into_iter().filter(|&[extent, _]| extent > 1);
        let mut reach = 0;
        self.is_empty()
            || dims.all(|[extent, stride]| {
                let is_apart = stride > reach;
                reach += (extent - 1) * stride;
                is_apart
            })
    }

    /// Whether it shares elements with `other`: is there an index into each so that the addresses are equal?
    pub(crate) fn overlap(&self, other: &Elements) -> Overlap {
        if self.is_empty() || other.is_empty() {
            return Overlap::None;
        }
        if self.last() < other.first || other.last() < self.first {
            return Overlap::None;
        }
        // For each stride, the range of the difference of the two indices.
        let mut terms: Vec<(i64, [i64; 2])> = Vec::new();
        let of_self = self
            .dims
            .iter()
            .map(|&[extent, stride]| (stride, [0, extent - 1]));
        let of_other = other
            .dims
            .iter()
            .map(|&[extent, stride]| (stride, [1 - extent, 0]));
        for (stride, [low, high]) in of_self.chain(of_other) {
            match terms.iter_mut().find(|term| term.0 == stride) {
                Some((_, range)) => *range = [range[0] + low, range[1] + high],
                None => terms.push((stride, [low, high])),
            }
        }
        terms.retain(|&(stride, _)| stride > 0);
        terms.sort_unstable_by_key(|&(stride, _)| std::cmp::Reverse(stride));
        let mut steps = STEPS;
        match reaches(&terms, other.first - self.first, &mut steps) {
            Some(true) => Overlap::Some,
            Some(false) => Overlap::None,
            None => Overlap::Unknown,
        }
    }
}

/// Whether multiples of the strides, each within its range, add up to `distance`; none when the steps are used up.
fn reaches(terms: &[(i64, [i64; 2])], distance: i64, steps: &mut usize) -> Option<bool> {
    *steps = steps.checked_sub(1)?;
    let Some((&(stride, [low, high]), rest)) = terms.split_first() else {
        return Some(distance == 0);
    };
    let reach = |at: usize| {
        rest.iter()
            .map(|&(stride, range)| stride * range[at])
            .sum::<i64>()
    };
    // The smaller strides must be able to make up the rest.
    let from = low.max((distance - reach(1)).div_euclid(stride));
    let to = high.min((distance - reach(0)).div_euclid(stride));
    for factor in from..=to {
        if reaches(rest, distance - factor * stride, steps)? {
            return Some(true);
        }
    }
    Some(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elements(first: i64, dims: &[[i64; 2]]) -> Elements {
        Elements::new(first, dims.iter().copied())
    }

    #[test]
    fn interleaved_tensors_share_nothing() {
        // [tokens, 3, heads, depth] in memory.
        let part = |at: i64| elements(at * 2 * 64, &[[1, 0], [2, 64], [100, 3 * 2 * 64], [64, 1]]);
        assert_eq!(part(0).overlap(&part(1)), Overlap::None);
        assert_eq!(part(2).overlap(&part(1)), Overlap::None);
        assert_eq!(part(1).overlap(&part(1)), Overlap::Some);
        let shifted = elements(63, &[[1, 0], [2, 64], [100, 3 * 2 * 64], [64, 1]]);
        assert_eq!(shifted.overlap(&part(1)), Overlap::Some);
        assert!(part(0).are_apart());
        assert!(!elements(0, &[[2, 32], [3, 100], [64, 1]]).are_apart());
        assert!(!elements(0, &[[2, 0], [64, 1]]).are_apart());
        assert!(elements(0, &[[2, 0], [0, 1]]).are_apart());
    }

    #[test]
    fn bytes_of_other_types_are_compared() {
        let device = Device::emulator();
        let [a, b] = [(); 2].map(|()| Buffer::<bf16>::zeros(&device, 64).unwrap());
        let bytes = Elements::bytes_of(&a.view([4, 2]).with_strides([16, 1]));
        let expected = Elements::new(a.address() as i64, [[4, 32], [2, 2], [2, 1]]);
        assert_eq!(format!("{bytes:?}"), format!("{expected:?}"));
        let between = Elements::new(expected.first + 4, [[4, 32], [28, 1]]);
        assert_eq!(bytes.overlap(&between), Overlap::None);
        let touching = Elements::new(expected.first + 4, [[4, 32], [29, 1]]);
        assert_eq!(bytes.overlap(&touching), Overlap::Some);
        assert_eq!(
            bytes.overlap(&Elements::bytes_of(&b.view([64]))),
            Overlap::None
        );
    }

    /// A call may have a tensor without elements, whose strides and offset none is at.
    #[test]
    fn strides_of_no_elements_are_any_numbers() {
        let device = Device::emulator();
        let buffer = Buffer::<bf16>::zeros(&device, 64).unwrap();
        let nothing = buffer.view([2, 0, 4]).with_offset(usize::MAX / 2);
        let nothing = nothing.with_strides([usize::MAX, usize::MAX / 2, 1]);
        let all = Elements::bytes_of(&buffer.view([64]));
        for elements in [Elements::of(&nothing), Elements::bytes_of(&nothing)] {
            assert!(elements.are_apart());
            assert_eq!(elements.overlap(&all), Overlap::None);
            assert_eq!(all.overlap(&elements), Overlap::None);
        }
    }

    /// Every pair of small tensors against the sets of their addresses.
    #[test]
    fn overlaps_are_those_of_sets() {
        let mut state = 7_u64;
        let mut next = |below: i64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            ((state >> 33) as i64) % below
        };
        let mut counts = [0, 0];
        for _ in 0..2000 {
            let pair = [(); 2].map(|()| {
                let first = next(40);
                let dims = [(); 3].map(|()| [next(4), next(9)]);
                elements(first, &dims)
            });
            let [a, b] = pair.each_ref().map(|elements| {
                let mut all = vec![elements.first];
                for &[extent, stride] in &elements.dims {
                    all = (0..extent)
                        .flat_map(|at| all.iter().map(move |x| x + at * stride).collect::<Vec<_>>())
                        .collect();
                }
                all
            });
            let expected = a.iter().any(|x| b.contains(x));
            let found = pair[0].overlap(&pair[1]);
            assert_eq!(found == Overlap::Some, expected, "{pair:?}");
            assert_ne!(found, Overlap::Unknown, "{pair:?}");
            counts[usize::from(expected)] += 1;
            if pair[0].are_apart() {
                let mut apart = a.clone();
                apart.sort_unstable();
                apart.dedup();
                assert_eq!(apart.len(), a.len(), "{:?}", pair[0]);
            }
        }
        assert!(counts.iter().all(|&count| count > 100), "{counts:?}");
    }
}
