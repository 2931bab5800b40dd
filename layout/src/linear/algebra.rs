//! Products, quotients, composition and rearrangement.

use std::ops::Mul;

use smallvec::SmallVec;

use super::cut::is_cut;
use super::fields::Fields;
use super::{LinearLayout, Ports, port};
use crate::{Axis, Dims};

impl LinearLayout {
    /// The direct sum: on every axis, `self` has the low bits and `other` the high bits. Axes of `other` that `self`
    /// does not have are added at the end.
    #[must_use]
    pub fn product(&self, other: &Self) -> Self {
        let ins = joined(&self.ins, &other.ins);
        let outs = joined(&self.outs, &other.outs);
        let mut result = Self {
            ins,
            outs,
            columns: SmallVec::new(),
            extents: Dims::empty(),
        };
        result.extents = result.joined_extents(self, other);
        let low = result.out_fields(self, |_| 0);
        let high = result.out_fields(other, |axis| self.out_bits(axis));
        for port in &result.ins {
            let (first, then) = (self.bases(port.axis), other.bases(port.axis));
            let columns = &mut result.columns;
            columns.extend(first.iter().map(|&basis| low.moved(basis)));
            columns.extend(then.iter().map(|&basis| high.moved(basis)));
        }
        result
    }

    /// The sizes of the outputs of a product. What `low` has on an axis that both have is repeated, and so not cut.
    fn joined_extents(&self, low: &Self, high: &Self) -> Dims {
        if !low.is_cut() && !high.is_cut() {
            return Dims::empty();
        }
        let sizes = self.outs().map(|(axis, _)| {
            let (below, above) = (low.out_size(axis), high.out_size(axis));
            debug_assert!(
                above == 1 || below.is_power_of_two(),
                "{axis} is cut within"
            );
            below * above
        });
        sizes.collect()
    }

    /// Where the output bits of `part` lie among this map's output bits, `offset` bits up within their axis.
    fn out_fields(&self, part: &Self, offset: impl Fn(Axis) -> u32) -> Fields {
        let (mut fields, mut from) = (Fields::default(), 0);
        for (axis, bits) in part.outs() {
            fields.push(bits, from, self.out_shift(axis) + offset(axis));
            from += bits;
        }
        fields
    }

    /// First this map, then `outer`, whose inputs are this map's outputs (by name; same sizes or larger).
    ///
    /// # Panics
    /// When `outer` lacks an output of this map or is too small for it: layouts of one tensor always fit.
    #[must_use]
    pub fn then(&self, outer: &Self) -> Self {
        let wires: SmallVec<[u64; 32]> = self
            .outs()
            .flat_map(|(axis, bits)| {
                assert!(
                    outer.in_bits(axis) >= bits,
                    "{axis} of {outer} takes 2^{bits} values"
                );
                outer.bases(axis)[..bits as usize].iter().copied()
            })
            .collect();
        let image = |column: u64| bits_of(column).fold(0, |image, bit| image ^ wires[bit]);
        let columns = self.columns.iter().map(|&column| image(column)).collect();
        Self {
            ins: self.ins.clone(),
            outs: outer.outs.clone(),
            columns,
            extents: outer.extents.clone(),
        }
    }

    /// Equality that overlooks the order of the axes and axes of size 1.
    pub fn same_map(&self, other: &Self) -> bool {
        let sized = |ports: &Ports| {
            let mut axes: SmallVec<[(Axis, u8); 4]> = ports
                .iter()
                .filter(|port| port.bits > 0)
                .map(|port| (port.axis, port.bits))
                .collect();
            axes.sort_unstable();
            axes
        };
        if sized(&self.ins) != sized(&other.ins) || sized(&self.outs) != sized(&other.outs) {
            return false;
        }
        if (self.outs()).any(|(axis, _)| self.out_size(axis) != other.out_size(axis)) {
            return false;
        }
        let wires = other.out_fields(self, |_| 0);
        self.ins().all(|(axis, _)| {
            let mine = self.bases(axis).iter().map(|&basis| wires.moved(basis));
            mine.eq(other.bases(axis).iter().copied())
        })
    }

    /// Whether the map is the identity from `axis` to `axis` and the rest of it never touches that axis.
    pub fn is_identity_on(&self, axis: Axis) -> bool {
        let bits = self.in_bits(axis);
        if bits != self.out_bits(axis) {
            return false;
        }
        let (first, shift) = (self.in_shift(axis), self.out_shift(axis));
        let mask = ((1_u64 << bits) - 1) << shift;
        self.columns.iter().zip(0_u32..).all(|(&column, at)| {
            let inside = (first..first + bits).contains(&at);
            if inside {
                column == 1 << (shift + at - first)
            } else {
                column & mask == 0
            }
        })
    }

    /// The map without `axis` on either side, if it is the identity on it.
    pub fn quotient(&self, axis: Axis) -> Option<Self> {
        self.is_identity_on(axis).then(|| {
            let others = |axes: &mut dyn Iterator<Item = (Axis, u32)>| -> SmallVec<[Axis; 4]> {
                axes.map(|(have, _)| have)
                    .filter(|&have| have != axis)
                    .collect()
            };
            self.sublayout(&others(&mut self.ins()), &others(&mut self.outs()))
        })
    }

    /// The part of the map from `ins` to `outs`; other inputs are held at 0, other outputs forgotten.
    #[must_use]
    pub fn sublayout(&self, ins: &[Axis], outs: &[Axis]) -> Self {
        let mut part = Self::empty();
        let (mut fields, mut to) = (Fields::default(), 0);
        for &axis in outs {
            let bits = self.out_bits(axis);
            part.outs.push(port(axis, bits));
            fields.push(bits, self.out_shift(axis), to);
            to += bits;
        }
        for &axis in ins {
            let bases = self.bases(axis);
            part.ins.push(port(axis, bases.len() as u32));
            part.columns
                .extend(bases.iter().map(|&basis| fields.moved(basis)));
        }
        if self.is_cut() {
            let sizes: Dims = outs.iter().map(|&axis| self.out_size(axis)).collect();
            part.extents = if is_cut(&sizes) { sizes } else { Dims::empty() };
        }
        part
    }

    /// The same map with its inputs in another order; axes that it does not have get size 1.
    #[must_use]
    pub fn with_ins_ordered(&self, ins: &[Axis]) -> Self {
        let mut part = Self {
            ins: Ports::new(),
            outs: self.outs.clone(),
            columns: SmallVec::new(),
            extents: self.extents.clone(),
        };
        for &axis in ins {
            let bases = self.bases(axis);
            part.ins.push(port(axis, bases.len() as u32));
            part.columns.extend_from_slice(bases);
        }
        part
    }

    /// The same map with its outputs in another order; axes that it does not have get size 1.
    #[must_use]
    pub fn with_outs_ordered(&self, outs: &[Axis]) -> Self {
        let ins: SmallVec<[Axis; 4]> = self.ins().map(|(axis, _)| axis).collect();
        self.sublayout(&ins, outs)
    }

    /// The packed output bits cut into other axes, lowest bits first.
    #[must_use]
    pub fn with_outs_reshaped(&self, outs: impl IntoIterator<Item = (Axis, u32)>) -> Self {
        debug_assert!(
            !self.is_cut(),
            "packed bits do not number the elements of {self}"
        );
        let reshaped = Self::from_columns(self.ins(), outs, self.columns.iter().copied());
        assert_eq!(
            reshaped.total_out_bits(),
            self.total_out_bits(),
            "a reshape keeps the number of elements"
        );
        reshaped
    }

    /// The same map with the output axes renamed by `rename`.
    #[must_use]
    pub fn with_outs_renamed(&self, rename: impl Fn(Axis) -> Axis) -> Self {
        let outs: SmallVec<[_; 4]> = self
            .outs()
            .map(|(axis, bits)| (rename(axis), bits))
            .collect();
        let renamed = Self::from_columns(self.ins(), outs, self.columns.iter().copied());
        Self {
            extents: self.extents.clone(),
            ..renamed
        }
    }

    /// The same map from only those bits of `axis` whose basis passes `keep`.
    #[must_use]
    pub fn with_bases_kept(&self, axis: Axis, keep: impl Fn(u32, u64) -> bool) -> Self {
        let mut kept = Self {
            ins: Ports::new(),
            outs: self.outs.clone(),
            columns: SmallVec::new(),
            extents: self.extents.clone(),
        };
        for (have, _) in self.ins() {
            let start = kept.columns.len();
            let bases = self.bases(have).iter().zip(0..);
            let wanted = bases.filter(|&(&basis, bit)| have != axis || keep(bit, basis));
            kept.columns.extend(wanted.map(|(&basis, _)| basis));
            kept.ins
                .push(port(have, (kept.columns.len() - start) as u32));
        }
        kept
    }
}

impl Mul for &LinearLayout {
    type Output = LinearLayout;

    fn mul(self, other: &LinearLayout) -> LinearLayout {
        self.product(other)
    }
}

impl Mul for LinearLayout {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        self.product(&other)
    }
}

fn joined(low: &Ports, high: &Ports) -> Ports {
    let mut all = low.clone();
    for &extra in high {
        match all.iter_mut().find(|have| have.axis == extra.axis) {
            Some(have) => have.bits += extra.bits,
            None => all.push(extra),
        }
    }
    assert!(
        all.iter().map(|port| u32::from(port.bits)).sum::<u32>() <= 64,
        "one side packs into 64 bits"
    );
    all
}

/// The positions of the set bits, lowest first.
pub(super) fn bits_of(word: u64) -> impl Iterator<Item = usize> {
    let mut rest = word;
    std::iter::from_fn(move || {
        (rest != 0).then(|| {
            let bit = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            bit
        })
    })
}
