//! One thing of a right call that is broken, so that the call has to be refused.

use std::ops::Range;

use proptest::prelude::*;
use tilekit::TensorPlace;
use tilekit::prelude::*;
use tilekit_kernels::products::Error;

/// How a view is broken.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// It ends behind its buffer.
    Long,
    /// It has one more along a dimension, or one less.
    Larger,
    Smaller,
    /// It has one dimension.
    Flat,
    /// Elements of a result are in the same place.
    Repeated,
    /// An extent, a stride or the offset is so large that sums and products of it overflow.
    Huge,
}

/// What integers of 31, 32, 63 and 64 bits do not hold, alone, by the bytes of an element or twice.
const HUGE: [usize; 6] = [1 << 31, 1 << 32, 1 << 61, 1 << 62, 1 << 63, usize::MAX];

/// What is broken: a view by its number, and one of its dimensions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Broken {
    kind: Kind,
    number: usize,
    dimension: usize,
}

impl Broken {
    pub(crate) fn any() -> impl Strategy<Value = Broken> {
        let kind = prop_oneof![
            Just(Kind::Long),
            Just(Kind::Larger),
            Just(Kind::Smaller),
            Just(Kind::Flat),
            Just(Kind::Repeated),
            Just(Kind::Huge),
        ];
        (kind, 0..60_usize, 0..60_usize).prop_map(|(kind, number, dimension)| Broken {
            kind,
            number,
            dimension,
        })
    }

    /// Whether the first of two calls is broken.
    pub(crate) fn is_first(self) -> bool {
        self.number < 30
    }

    /// Which of so many views is broken.
    pub(crate) fn which(self, count: usize) -> usize {
        self.number % count
    }
}

/// The views and lists of a call, one of which may be broken.
#[derive(Clone)]
pub(crate) struct Views {
    pub(crate) broken: Option<Broken>,
    /// How many there are.
    pub(crate) count: usize,
    /// Those that are written.
    pub(crate) results: Range<usize>,
    /// Whether other tensors say the extent of a dimension, the last ones first.
    pub(crate) is_fixed: fn(usize, usize) -> bool,
}

impl Views {
    /// View `number` of the call.
    pub(crate) fn view<'a, T: DeviceElement>(
        &self,
        number: usize,
        view: &TensorView<'a, T>,
    ) -> TensorView<'a, T> {
        let place = view.place();
        let (shape, strides, offset) = match self.broken {
            Some(broken) if broken.which(self.count) == number => {
                self.place(broken, place, view.source().len())
            }
            _ => (place.shape.clone(), place.strides.clone(), place.offset),
        };
        let view = view.source().view(&*shape);
        view.with_strides(&*strides).with_offset(offset)
    }

    /// Whether it is view or list `number` that is broken.
    pub(crate) fn is_broken(&self, number: usize) -> bool {
        let which = self.broken.map(|broken| broken.which(self.count));
        which == Some(number)
    }

    /// How long list `number` of the call is: `len`, or, if it is broken, of none of the lengths that are right.
    pub(crate) fn length(&self, number: usize, len: usize, right: &[usize]) -> usize {
        let Some(broken) = self.broken.filter(|_| self.is_broken(number)) else {
            return len;
        };
        let most = right.iter().max().unwrap();
        let near = [0, most + 1, most.saturating_sub(1), 2 * most + 1, 2, 3];
        let mut turn = near.iter().cycle().skip(broken.dimension % near.len());
        *turn.find(|length| !right.contains(length)).unwrap()
    }

    /// Shape, strides and offset of what is broken, in a buffer of so many elements.
    fn place(
        &self,
        broken: Broken,
        place: &TensorPlace,
        room: usize,
    ) -> (Vec<usize>, Vec<usize>, usize) {
        let (mut shape, mut strides) = (place.shape.clone(), place.strides.clone());
        let rank = shape.len();
        let fixed = (0..rank).filter(|&dimension| (self.is_fixed)(dimension, rank));
        let fixed: Vec<usize> = fixed.collect();
        let dimension = fixed[broken.dimension % fixed.len()];
        let is_result = self.results.contains(&broken.which(self.count));
        let is_empty = shape.contains(&0);
        match broken.kind {
            Kind::Long if !is_empty => {
                let dims = shape.iter().zip(&strides);
                let reach: usize = dims.map(|(extent, stride)| (extent - 1) * stride).sum();
                // Aligned as before.
                let past = (room - reach).next_multiple_of(64);
                return (shape, strides, place.offset % 64 + past);
            }
            Kind::Repeated if is_result && shape[dimension] > 1 && !is_empty => {
                strides[dimension] = 0;
            }
            Kind::Huge => {
                let huge = HUGE[broken.dimension % HUGE.len()];
                match broken.number / self.count % 3 {
                    0 if !is_empty && shape[dimension] > 1 => strides[dimension] = huge,
                    1 if !is_empty => return (shape, strides, huge),
                    _ => shape[dimension] = huge,
                }
            }
            Kind::Smaller if shape[dimension] > 0 => shape[dimension] -= 1,
            Kind::Smaller | Kind::Larger => shape[dimension] += 1,
            Kind::Long | Kind::Repeated | Kind::Flat => {
                shape = vec![shape.iter().product()];
                strides = vec![1];
            }
        }
        (shape, strides, place.offset)
    }
}

/// Checks that a call was refused by an error that names an argument, and that its results are what they were.
pub(crate) fn refused(result: Result<(), Error>, results: &[[Vec<f64>; 2]]) {
    match result {
        Ok(()) => panic!("a broken call is not refused"),
        Err(Error::Argument { .. }) => {}
        Err(error) => panic!("no argument is named: {error}"),
    }
    for (number, [before, after]) in results.iter().enumerate() {
        let same = |(x, y): (&f64, &f64)| x.to_bits() == y.to_bits();
        assert!(
            before.iter().zip(after).all(same),
            "result {number} of a refused call is written"
        );
    }
}
