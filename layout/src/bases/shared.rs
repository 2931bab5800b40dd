//! The bases of the layouts of tensors in shared memory.

use smallvec::SmallVec;

use super::{cta_split, over_ctas, splits_cut};
use crate::linear::cut::{is_cut, rounded_up};
use crate::linear::gf2::Span;
use crate::local::cut_fields;
use crate::{
    Axis, BasisFault, Dims, LayoutError, LinearLayout, Nvmma, Padded, SharedLayout, SharedLinear,
    Swizzled, Unpadded, rules,
};

/// Rows and columns of the boxes that `Nvmma` is made of: those of Hopper's TMA. That is what the layout means, on any target: where
/// another cuts blocks otherwise, [`tma_messages`](crate::tma::tma_messages) refuses what does not lie as it writes.
const TMA_BOX: u32 = target::SM_90A.tensor_map.box_elements;

impl SharedLayout {
    /// The linear map from (offset, block) to the coordinates of a tensor of `shape`; offsets count elements. For
    /// [`Padded`] these are the offsets before padding.
    pub fn linear(&self, shape: &[u32]) -> Result<LinearLayout, LayoutError> {
        self.check_parameters()?;
        rules::shape(self, self.rank(), shape)?;
        if is_cut(shape) {
            return self.cut_linear(shape);
        }
        Ok(self
            .bases(shape)?
            .with_ins_ordered(&[Axis::Offset, Axis::Block]))
    }

    /// The map of a checked layout on a shape of powers of two.
    fn bases(&self, shape: &[u32]) -> Result<LinearLayout, LayoutError> {
        match self {
            Self::Nvmma(nvmma) => nvmma_bases(nvmma, shape),
            Self::Swizzled(swizzled) => Ok(swizzled_bases(swizzled, shape)),
            Self::Padded(padded) => padded_bases(padded, shape),
            Self::Linear(linear) => linear_bases(linear, shape),
        }
    }

    /// The map onto a shape that cuts it: its offsets are those of the shape rounded up, and [`Storage`] closes them up.
    ///
    /// [`Storage`]: crate::local::Storage
    fn cut_linear(&self, shape: &[u32]) -> Result<LinearLayout, LayoutError> {
        if splits_cut(self.cta_bases(), shape) {
            let (layout, shape) = (self.to_string(), shape.into());
            return Err(LayoutError::SplitCut { layout, shape });
        }
        let refuse = |why: String| LayoutError::NotCut {
            layout: self.to_string(),
            shape: shape.into(),
            why,
        };
        if let Self::Padded(_) = self {
            return Err(refuse("padded layouts take powers of two".to_owned()));
        }
        if let Self::Nvmma(nvmma) = self {
            check_rows(nvmma, shape)?;
        }
        let map = self.bases(&rounded_up(shape))?;
        let map = map
            .with_ins_ordered(&[Axis::Offset, Axis::Block])
            .cut_to(shape);
        cut_fields(&map).map_err(refuse)?;
        Ok(map)
    }
}

/// Rows of a swizzled layout are made of whole swizzles.
fn check_rows(nvmma: &Nvmma, shape: &[u32]) -> Result<(), LayoutError> {
    let columns_dim = if nvmma.transposed { 0 } else { shape.len() - 1 };
    let row_bits = u64::from(shape[columns_dim]) * u64::from(nvmma.element_bits);
    let row_bytes = row_bits / 8 * if nvmma.fp4_padded { 2 } else { 1 };
    if nvmma.swizzle_bytes == 0 || row_bytes.is_multiple_of(nvmma.swizzle_bytes.into()) {
        return Ok(());
    }
    Err(LayoutError::RowNotOfSwizzles {
        row_bytes,
        swizzle_bytes: nvmma.swizzle_bytes,
        shape: shape.into(),
    })
}

fn nvmma_bases(nvmma: &Nvmma, shape: &[u32]) -> Result<LinearLayout, LayoutError> {
    let rank = shape.len();
    let split = cta_split(&nvmma.cta_bases, shape);
    let columns_dim = if nvmma.transposed { 0 } else { rank - 1 };
    let columns = shape[columns_dim] / split[columns_dim];
    let row_bits = u64::from(columns) * u64::from(nvmma.element_bits);
    let row_bytes = row_bits / 8 * if nvmma.fp4_padded { 2 } else { 1 };
    if let Ok(row_bytes) = u32::try_from(row_bytes)
        && row_bytes < nvmma.swizzle_bytes
    {
        let swizzle_bytes = nvmma.swizzle_bytes;
        return Err(LayoutError::RowShorterThanSwizzle {
            row_bytes,
            swizzle_bytes,
            shape: shape.iter().zip(&split).map(|(n, ctas)| n / ctas).collect(),
        });
    }
    Ok(over_ctas(&nvmma.cta_bases, shape, |share| {
        let rows = row_dims(rank, columns_dim);
        if nvmma.swizzle_bytes == 0 {
            plain_boxes(share, columns_dim, &rows)
        } else {
            swizzled_boxes(nvmma, share, columns_dim, &rows)
        }
    }))
}

/// The dimensions that count as rows, the fastest first.
fn row_dims(rank: usize, columns_dim: usize) -> Dims {
    (0..rank as u32)
        .rev()
        .filter(|&dim| dim as usize != columns_dim)
        .collect()
}

/// Row-major boxes of at most [`TMA_BOX`] elements per dimension, boxes column by column first.
fn plain_boxes(share: &[u32], columns_dim: usize, rows: &Dims) -> LinearLayout {
    let order: Dims = [columns_dim as u32]
        .into_iter()
        .chain(rows.iter().copied())
        .collect();
    let tma_box: Dims = share.iter().map(|&size| size.min(TMA_BOX)).collect();
    LinearLayout::grid(Axis::Offset, &tma_box, &order).repeated_to(share, &order, Axis::Offset)
}

/// Boxes as wide as the swizzle and at most [`TMA_BOX`] rows; within a box the 16-byte vectors of row `r` are exchanged by XOR
/// with `(r / per_phase) % max_phase` (PTX ISA 5.5.6). Boxes repeat along the rows first.
fn swizzled_boxes(nvmma: &Nvmma, share: &[u32], columns_dim: usize, rows: &Dims) -> LinearLayout {
    // Of 16 padded 4-bit slots only 8 are real: the padding's offset bit falls away.
    let pack = |column: u32| {
        if nvmma.fp4_padded {
            column / 16 * 8 + column % 8
        } else {
            column
        }
    };
    let box_columns = 8 * nvmma.swizzle_bytes / nvmma.element_bits;
    let tma_box: Dims = share.iter().map(|&size| size.min(TMA_BOX)).collect();
    let box_sizes = tma_box.with(columns_dim, pack(box_columns - 1) + 1);
    let start = |dim: usize| -> u32 { box_sizes[..dim].iter().map(|s| s.trailing_zeros()).sum() };
    let along_columns = |column: u32| u64::from(column) << start(columns_dim);
    let mut bases: SmallVec<[u64; 20]> = (0..box_columns.trailing_zeros())
        .map(|bit| along_columns(pack(1 << bit)))
        .collect();
    let mut row = 1;
    for &dim in rows {
        for bit in 0..tma_box[dim as usize].trailing_zeros() {
            let phase = row / nvmma.per_phase() % nvmma.max_phase();
            let swizzle = if row < 8 {
                pack(nvmma.vec() * phase)
            } else {
                0
            };
            bases.push(1 << (start(dim as usize) + bit) | along_columns(swizzle));
            row *= 2;
        }
    }
    let outs = Axis::dims(share.len()).zip(box_sizes.iter().map(|size| size.trailing_zeros()));
    let ins = [(Axis::Offset, bases.len() as u32)];
    let order: Dims = (0..share.len() as u32).collect();
    LinearLayout::from_columns(ins, outs, bases).repeated_to(share, &order, Axis::Offset)
}

fn swizzled_bases(swizzled: &Swizzled, shape: &[u32]) -> LinearLayout {
    over_ctas(&swizzled.cta_bases, shape, |share| {
        let plain = LinearLayout::grid(Axis::Offset, share, &swizzled.order);
        let &[columns_dim, rows_dim, ..] = &*swizzled.order else {
            return plain;
        };
        let columns = share[columns_dim as usize];
        let mut bases = plain.basis_coords(Axis::Offset);
        for basis in &mut bases {
            let row = basis[rows_dim as usize];
            if row != 0 {
                let phase = row / swizzled.per_phase % swizzled.max_phase;
                basis[columns_dim as usize] = swizzled.vec.wrapping_mul(phase) % columns;
            }
        }
        LinearLayout::from_bases([(Axis::Offset, &*bases)], share)
    })
}

fn padded_bases(padded: &Padded, shape: &[u32]) -> Result<LinearLayout, LayoutError> {
    match &padded.unpadded {
        Unpadded::Rows(order) => Ok(over_ctas(&padded.cta_bases, shape, |share| {
            LinearLayout::grid(Axis::Offset, share, order)
        })),
        Unpadded::Bases(bases) => exact_bases("Padded", bases, &padded.cta_bases, shape),
    }
}

fn linear_bases(linear: &SharedLinear, shape: &[u32]) -> Result<LinearLayout, LayoutError> {
    exact_bases("SharedLinear", &linear.offset, &linear.block, shape)
}

/// Bases that must cover the shape, each either zero or independent of the others.
fn exact_bases(
    layout: &'static str,
    offset: &[Dims],
    block: &[Dims],
    shape: &[u32],
) -> Result<LinearLayout, LayoutError> {
    for (axis, bases) in [(Axis::Offset, offset), (Axis::Block, block)] {
        let outside = |basis: &Dims| basis.iter().zip(shape).any(|(entry, size)| entry >= size);
        if let Some(bit) = bases.iter().position(outside) {
            let (basis, fault) = (bases[bit].clone(), BasisFault::OutsideShape);
            return Err(LayoutError::Basis {
                layout,
                axis,
                bit,
                basis,
                fault,
            });
        }
    }
    let map = LinearLayout::from_bases([(Axis::Offset, offset), (Axis::Block, block)], shape);
    let mut span = Span::new();
    for (axis, bases) in [(Axis::Offset, offset), (Axis::Block, block)] {
        for (bit, basis) in bases.iter().enumerate() {
            let packed = map.pack_out(basis);
            if packed != 0 && !span.insert(packed) {
                let (basis, fault) = (basis.clone(), BasisFault::Dependent);
                return Err(LayoutError::Basis {
                    layout,
                    axis,
                    bit,
                    basis,
                    fault,
                });
            }
        }
    }
    let unreached = (0..map.total_out_bits()).find(|&bit| !span.contains(1 << bit));
    match unreached {
        None => Ok(map),
        Some(bit) => {
            let missing = map.unpack_out(1 << bit);
            let dim = missing
                .iter()
                .position(|&entry| entry != 0)
                .expect("a unit vector has one non-zero entry");
            Err(LayoutError::NotCovered {
                layout,
                dim,
                coordinate: missing[dim],
            })
        }
    }
}
