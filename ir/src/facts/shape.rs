//! Facts through shape operations.

use super::{DimFacts, Facts, log2};
use crate::Type;
use crate::elem::Elem;
use layout::relate::Part;

/// A dimension of 1 before dimension `axis`.
pub(crate) fn expand_dims(operand: &Facts, axis: usize) -> Facts {
    let new = DimFacts {
        divisibility: operand.divisibility(),
        stride: Some(0),
        ..DimFacts::default()
    };
    let mut facts = operand.clone();
    facts.dims.insert(axis.min(facts.dims.len()), new);
    facts
}

/// Dimensions of 1 repeated.
pub(crate) fn broadcast(operand: &Facts, from: &[u32], to: &[u32]) -> Facts {
    let mut facts = operand.clone();
    for (dim, (&from, &to)) in facts.dims.iter_mut().zip(from.iter().zip(to)) {
        if from == 1 && to > 1 {
            dim.constancy = log2(to);
            dim.stride = Some(0);
        }
    }
    facts
}

/// Dimension `i` of the result is dimension `order[i]` of the operand.
pub(crate) fn permute(operand: &Facts, order: &[u32]) -> Facts {
    let dims = order.iter().map(|&d| operand.dims[d as usize]).collect();
    Facts {
        dims,
        range: operand.range,
    }
}

/// The last dimension, which is 2, taken apart.
pub(crate) fn split(operand: &Facts) -> Facts {
    let mut facts = operand.clone();
    facts.dims.pop();
    facts
}

/// Two tensors along a new last dimension.
pub(crate) fn join(lhs: &Facts, rhs: &Facts) -> Facts {
    let divisibility = lhs.divisibility().min(rhs.divisibility());
    let mut facts = lhs.join(rhs);
    facts.dims.push(DimFacts {
        divisibility,
        ..DimFacts::default()
    });
    facts
}

/// A range of a dimension: runs that are aligned there are aligned in the whole if they are no longer than what divides the
/// start.
pub(crate) fn part(operand: &Facts, range: Part, ty: &Type) -> Facts {
    let mut facts = operand.clone();
    let start = match range.start {
        0 => u8::MAX,
        start => start.trailing_zeros() as u8,
    };
    if let Some(dim) = facts.dims.get_mut(range.axis) {
        *dim = within(*dim, start.min(log2(range.length.next_power_of_two())), ty);
    }
    facts
}

/// Tensors one after the other.
pub(crate) fn cat(parts: &[&Facts], ranges: &[Part], ty: &Type) -> Facts {
    let Some((first, rest)) = parts.split_first() else {
        return Facts::default();
    };
    let mut facts = rest
        .iter()
        .fold((*first).clone(), |all, part| all.join(part));
    let ends = ranges.iter().map(|range| range.start + range.length);
    let run = ends.map(|end| end.trailing_zeros() as u8).min();
    let axis = ranges.first().map_or(0, |range| range.axis);
    if let Some(dim) = facts.dims.get_mut(axis) {
        *dim = within(*dim, run.unwrap_or(0), ty);
        dim.stride = None;
    }
    facts
}

/// The facts about runs that are no longer than `2^run`. Pointers count up by the size of an element.
fn within(dim: DimFacts, run: u8, ty: &Type) -> DimFacts {
    let contiguity = dim.contiguity.min(run);
    let pointee = ty.elem().and_then(Elem::pointee);
    let step = pointee.map_or(0, |dtype| log2(dtype.bytes()));
    let divisibility = if contiguity < dim.contiguity {
        dim.divisibility.min(contiguity + step)
    } else {
        dim.divisibility
    };
    DimFacts {
        contiguity,
        divisibility,
        constancy: dim.constancy.min(run),
        stride: dim.stride,
    }
}

/// The same elements in row-major order in another shape. Dimensions are matched from the last; facts survive
/// where a dimension of one shape is a whole number of dimensions of the other.
pub(crate) fn reshape(operand: &Facts, from: &[u32], to: &[u32]) -> Facts {
    let divisibility = operand.divisibility();
    let mut dims = smallvec::SmallVec::<[DimFacts; 2]>::new();
    let mut source = Source {
        operand,
        sizes: from,
        next: from.len(),
        current: None,
    };
    for &size in to.iter().rev() {
        dims.push(source.take(log2(size), divisibility));
    }
    dims.reverse();
    Facts {
        dims,
        range: operand.range,
    }
}

/// The operand's dimensions as they are used up, the last first.
struct Source<'a> {
    operand: &'a Facts,
    sizes: &'a [u32],
    /// Dimensions below this one are untouched.
    next: usize,
    /// What is left of the dimension in use: its facts and the logarithm of its remaining size.
    current: Option<(DimFacts, u8)>,
}

impl Source<'_> {
    /// The facts of the next `2^size` elements in row-major order from the back.
    fn take(&mut self, size: u8, divisibility: u8) -> DimFacts {
        let unknown = DimFacts {
            divisibility,
            ..DimFacts::default()
        };
        if size == 0 {
            return unknown;
        }
        let Some((dim, left)) = self.open() else {
            return unknown;
        };
        let taken = size.min(left);
        let contiguity = dim.contiguity.min(taken);
        let facts = DimFacts {
            contiguity,
            divisibility: dim.divisibility_at(contiguity).max(divisibility),
            constancy: dim.constancy.min(taken),
            // A dimension that spans several of the operand's has no one stride.
            stride: dim.stride.filter(|_| size <= left),
        };
        // Along what is left, the elements are `2^taken` apart: they do not count up, but long equal runs continue.
        let rest = DimFacts {
            contiguity: 0,
            divisibility,
            constancy: dim.constancy.saturating_sub(taken),
            stride: dim.stride.and_then(|by| by.checked_mul(1 << taken)),
        };
        self.current = (left > taken).then_some((rest, left - taken));
        self.skip(size - taken, divisibility);
        facts
    }

    fn open(&mut self) -> Option<(DimFacts, u8)> {
        while self.current.is_none() && self.next > 0 {
            self.next -= 1;
            let size = log2(self.sizes[self.next]);
            self.current = (size > 0).then(|| (self.operand.dims[self.next], size));
        }
        self.current
    }

    /// Uses up elements of further dimensions, of which nothing is kept.
    fn skip(&mut self, mut size: u8, divisibility: u8) {
        while size > 0 {
            let Some((dim, left)) = self.open() else {
                return;
            };
            let taken = size.min(left);
            let rest = DimFacts {
                contiguity: 0,
                divisibility,
                constancy: dim.constancy.saturating_sub(taken),
                stride: dim.stride.and_then(|by| by.checked_mul(1 << taken)),
            };
            self.current = (left > taken).then_some((rest, left - taken));
            size -= taken;
        }
    }
}
