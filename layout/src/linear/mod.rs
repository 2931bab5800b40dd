//! The linear map over GF(2) under every layout.

mod algebra;
pub mod cut;
mod fields;
pub mod gf2;
mod inverse;
mod registers;
mod resize;

use std::fmt;

use smallvec::SmallVec;

use super::{Axis, Dims};
pub use cut::Piece;
use cut::{bits_below, is_cut};
pub use registers::Registers;

/// A linear map over GF(2) from named inputs to named outputs. The inputs have sizes of powers of two; the outputs too, or
/// sizes that [cut] the map onto the next powers of two.
///
/// The image of an input is the XOR of the images (bases) of its set bits. Both sides are packed into one `u64`: the
/// first axis takes the lowest bits. A basis is then one word and applying the map is a handful of XORs.
///
/// A distributed layout maps (register, lane, warp, block) to tensor dimensions, a shared layout (offset, block);
/// conversions map one set of inputs to another.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct LinearLayout {
    ins: Ports,
    outs: Ports,
    /// The packed image of each packed input bit, bit 0 first.
    columns: SmallVec<[u64; 20]>,
    /// The sizes of the outputs where one of them is no power of two, and else nothing.
    extents: Dims,
}

/// The axes of one side with their sizes, lowest bits first.
type Ports = SmallVec<[Port; 4]>;

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Port {
    axis: Axis,
    bits: u8,
}

impl LinearLayout {
    /// The map between nothing and nothing: the unit of [`LinearLayout::product`].
    pub fn empty() -> Self {
        Self {
            ins: Ports::new(),
            outs: Ports::new(),
            columns: SmallVec::new(),
            extents: Dims::empty(),
        }
    }

    /// `2^bits` values of `input` to the same values of `output`.
    pub fn identity(input: Axis, output: Axis, bits: u32) -> Self {
        Self {
            ins: ports([(input, bits)]),
            outs: ports([(output, bits)]),
            columns: (0..bits).map(|bit| 1 << bit).collect(),
            extents: Dims::empty(),
        }
    }

    /// `2^in_bits` values of `input`, all to coordinate 0 of an `output` of `2^out_bits` values.
    pub fn zeros(input: Axis, in_bits: u32, output: Axis, out_bits: u32) -> Self {
        Self {
            ins: ports([(input, in_bits)]),
            outs: ports([(output, out_bits)]),
            columns: SmallVec::from_elem(0, in_bits as usize),
            extents: Dims::empty(),
        }
    }

    /// `input` enumerates a grid of `sizes` (powers of two), the dimension `order[0]` fastest. The outputs are the
    /// dimensions `0..sizes.len()`.
    pub fn grid(input: Axis, sizes: &[u32], order: &[u32]) -> Self {
        let outs = Axis::dims(sizes.len()).zip(sizes.iter().map(|size| size.trailing_zeros()));
        let mut grid = Self {
            ins: Ports::new(),
            outs: ports(outs),
            columns: SmallVec::new(),
            extents: Dims::empty(),
        };
        for &dim in order {
            let shift = grid.out_shift_at(dim as usize);
            let bits = sizes[dim as usize].trailing_zeros();
            grid.columns.extend((0..bits).map(|bit| 1 << (shift + bit)));
        }
        grid.ins = ports([(input, grid.columns.len() as u32)]);
        grid
    }

    /// A map given by its bases, one list per input axis, bit 0 first; every basis has one coordinate per output.
    /// `sizes` are the sizes of the outputs `dim0..`; no coordinate reaches the next power of two.
    pub fn from_bases<'a>(
        groups: impl IntoIterator<Item = (Axis, &'a [Dims])>,
        sizes: &[u32],
    ) -> Self {
        let outs = Axis::dims(sizes.len()).zip(sizes.iter().map(|size| bits_below(*size)));
        let mut layout = Self {
            ins: Ports::new(),
            outs: ports(outs),
            columns: SmallVec::new(),
            extents: if is_cut(sizes) {
                sizes.into()
            } else {
                Dims::empty()
            },
        };
        for (axis, bases) in groups {
            layout.ins.push(port(axis, bases.len() as u32));
            for basis in bases {
                let packed = layout.pack_out(basis);
                layout.columns.push(packed);
            }
        }
        layout
    }

    /// A map given by packed columns, one per packed input bit.
    pub fn from_columns(
        ins: impl IntoIterator<Item = (Axis, u32)>,
        outs: impl IntoIterator<Item = (Axis, u32)>,
        columns: impl IntoIterator<Item = u64>,
    ) -> Self {
        let layout = Self {
            ins: ports(ins),
            outs: ports(outs),
            columns: columns.into_iter().collect(),
            extents: Dims::empty(),
        };
        assert_eq!(
            layout.columns.len() as u32,
            layout.total_in_bits(),
            "one column per input bit"
        );
        layout
    }

    /// The input axes with their sizes in bits, lowest bits first.
    pub fn ins(&self) -> impl DoubleEndedIterator<Item = (Axis, u32)> + ExactSizeIterator + '_ {
        self.ins
            .iter()
            .map(|port| (port.axis, u32::from(port.bits)))
    }

    /// The output axes with their sizes in bits, lowest bits first.
    pub fn outs(&self) -> impl DoubleEndedIterator<Item = (Axis, u32)> + ExactSizeIterator + '_ {
        self.outs
            .iter()
            .map(|port| (port.axis, u32::from(port.bits)))
    }

    /// The size of an input axis in bits; 0 for an axis that the map does not have.
    pub fn in_bits(&self, axis: Axis) -> u32 {
        self.ins()
            .find(|&(have, _)| have == axis)
            .map_or(0, |(_, bits)| bits)
    }

    /// The size of an output axis in bits; 0 for an axis that the map does not have.
    pub fn out_bits(&self, axis: Axis) -> u32 {
        self.outs()
            .find(|&(have, _)| have == axis)
            .map_or(0, |(_, bits)| bits)
    }

    /// The number of values of an input axis.
    pub fn in_size(&self, axis: Axis) -> u32 {
        1 << self.in_bits(axis)
    }

    /// The sizes of all outputs: for a layout of a tensor, its shape.
    pub fn out_sizes(&self) -> Dims {
        if self.is_cut() {
            return self.extents.clone();
        }
        self.outs().map(|(_, bits)| 1 << bits).collect()
    }

    /// Bits of all inputs together.
    pub fn total_in_bits(&self) -> u32 {
        self.ins().map(|(_, bits)| bits).sum()
    }

    /// Bits of all outputs together.
    pub fn total_out_bits(&self) -> u32 {
        self.outs().map(|(_, bits)| bits).sum()
    }

    /// The position of an input axis within the packed input; the end for an axis that the map does not have.
    pub fn in_shift(&self, axis: Axis) -> u32 {
        self.ins()
            .take_while(|&(have, _)| have != axis)
            .map(|(_, bits)| bits)
            .sum()
    }

    /// The position of an output axis within the packed output; the end for an axis that the map does not have.
    pub fn out_shift(&self, axis: Axis) -> u32 {
        self.outs()
            .take_while(|&(have, _)| have != axis)
            .map(|(_, bits)| bits)
            .sum()
    }

    fn out_shift_at(&self, position: usize) -> u32 {
        self.outs().take(position).map(|(_, bits)| bits).sum()
    }

    /// The packed images of all packed input bits, bit 0 first.
    pub fn columns(&self) -> &[u64] {
        &self.columns
    }

    /// The packed bases of one input axis, bit 0 first; none for an axis that the map does not have.
    pub fn bases(&self, axis: Axis) -> &[u64] {
        let mut start = 0;
        for port in &self.ins {
            let end = start + usize::from(port.bits);
            if port.axis == axis {
                return &self.columns[start..end];
            }
            start = end;
        }
        &[]
    }

    /// The bases of one input axis, unpacked, bit 0 first.
    pub fn basis_coords(&self, axis: Axis) -> Vec<Dims> {
        self.bases(axis)
            .iter()
            .map(|&basis| self.unpack_out(basis))
            .collect()
    }

    /// One coordinate per output from a packed output.
    pub fn unpack_out(&self, packed: u64) -> Dims {
        unpack(&self.outs, packed)
    }

    /// One coordinate per input from a packed input.
    pub fn unpack_in(&self, packed: u64) -> Dims {
        unpack(&self.ins, packed)
    }

    /// The packed output for one coordinate per output.
    pub fn pack_out(&self, coords: &[u32]) -> u64 {
        assert_eq!(coords.len(), self.outs.len(), "one coordinate per output");
        let mut shift = 0;
        let mut packed = 0;
        for (&coord, (axis, bits)) in coords.iter().zip(self.outs()) {
            assert!(
                u64::from(coord) < 1 << bits,
                "coordinate {coord} of {axis} is below its size"
            );
            packed |= u64::from(coord) << shift;
            shift += bits;
        }
        packed
    }

    /// The packed input for the given coordinates; axes left out are 0, axes that the map does not have are ignored.
    pub fn pack_in(&self, coords: &[(Axis, u32)]) -> u64 {
        let known = coords
            .iter()
            .filter(|&&(axis, _)| self.ins().any(|(have, _)| have == axis));
        known
            .map(|&(axis, coord)| u64::from(coord) << self.in_shift(axis))
            .sum()
    }

    /// The packed image of a packed input.
    pub fn apply_packed(&self, input: u64) -> u64 {
        let mut image = 0;
        let mut rest = input;
        while rest != 0 {
            image ^= self.columns[rest.trailing_zeros() as usize];
            rest &= rest - 1;
        }
        image
    }

    /// The image of the given inputs, one coordinate per output; inputs left out are 0.
    pub fn apply(&self, coords: &[(Axis, u32)]) -> Dims {
        self.unpack_out(self.apply_packed(self.pack_in(coords)))
    }
}

fn port(axis: Axis, bits: u32) -> Port {
    Port {
        axis,
        bits: u8::try_from(bits).expect("an axis has fewer than 2^32 values"),
    }
}

fn ports(axes: impl IntoIterator<Item = (Axis, u32)>) -> Ports {
    let ports: Ports = axes
        .into_iter()
        .map(|(axis, bits)| port(axis, bits))
        .collect();
    assert!(
        ports.iter().map(|port| u32::from(port.bits)).sum::<u32>() <= 64,
        "one side packs into 64 bits"
    );
    ports
}

fn unpack(ports: &Ports, packed: u64) -> Dims {
    let mut rest = packed;
    let coords = ports.iter().map(|port| {
        let coord = rest & ((1 << port.bits) - 1);
        rest >>= port.bits;
        coord as u32
    });
    coords.collect()
}

/// `register=[[0, 1]] lane=[...] -> dim0 64, dim1 32`: every input with its bases, every output with its size.
impl fmt::Display for LinearLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (axis, _) in self.ins() {
            write!(f, "{axis}={:?} ", self.basis_coords(axis))?;
        }
        f.write_str("->")?;
        for (at, (axis, bits)) in self.outs().enumerate() {
            let size = match self.extents.get(at) {
                Some(&size) => u64::from(size),
                None => 1 << bits,
            };
            write!(f, "{} {axis} {size}", if at == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl fmt::Debug for LinearLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
