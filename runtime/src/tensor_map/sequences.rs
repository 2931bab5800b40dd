//! Tensor maps of concatenated sequences, by which a copy ends where its sequence does.

use ptx::{TensorAccess, TensorMap};

/// The coordinate along the rows at which each sequence ends, in a map [with sequences](super::TensorView::with_sequences).
pub const SEQUENCE_END: i32 = 1 << 30;

/// Bytes that [`SEQUENCE_END`] steps of one dimension and of another sum to 2^64 with, in one step.
const WRAPPING: u64 = 1 << 34;

/// What stands for the stride of a tensor of one row, in bytes.
const OF_ONE_ROW: u64 = 1 << 10;

/// What a map of sequences is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sequences {
    /// Loads and stores; the rows are along this dimension.
    Along(usize),
    /// Stores alone.
    StoredAlong(usize),
}

impl Sequences {
    /// The dimension of the rows, and how many dimensions in front of it are taken.
    fn place(self) -> (usize, usize) {
        match self {
            Sequences::Along(along) => (along, 2),
            Sequences::StoredAlong(along) => (along, 1),
        }
    }
}

/// Makes a map of sequences of `map`, whose rows are those of the sequences.
///
/// Row `r` of a sequence of `length` rows that ends in front of row `end` has the index [`SEQUENCE_END`]` - length + r` along the rows, so that what is behind the sequence is outside of the tensor. A
/// dimension in front has an index for each row at which a sequence may end. Addresses are sums modulo 2^64, in which another dimension takes [`SEQUENCE_END`] rows back:
///
/// ```text
/// address + SEQUENCE_END · (2^34 - stride) + end · stride + (SEQUENCE_END - length + r) · stride = address + (end - length + r) · stride + 2^64
/// ```
///
/// The address stays that of the tensor, since the hardware faults at a load whose map begins outside of mapped memory. At a store it does not, so there the address itself may be in front, and no dimension
/// is needed (Triton has both, in `ragged_tma.py`). The driver takes no address below 0, so that is in front by the rows of the tensor, and the index along them `rows - length + r`.
pub(super) fn cut_into_sequences(map: &mut TensorMap, sequences: Sequences) -> Result<(), String> {
    let rank = map.rank as usize;
    let (along, taken) = sequences.place();
    check(map, along, taken)?;
    let rows = rank - 1 - along;
    let (count, ends) = (map.dims[rows], rank - taken);
    if count == 1 {
        // The steps along one row, which may have any stride, are back and forth.
        map.strides[rows - 1] = OF_ONE_ROW;
    }
    let stride = map.strides[rows - 1];
    map.dims[ends] = count + 1;
    map.strides[ends - 1] = stride;
    match sequences {
        Sequences::Along(_) => take_rows_back(map, rows, stride),
        Sequences::StoredAlong(_) => {
            map.address = map.address.wrapping_sub(count.saturating_mul(stride));
            Ok(())
        }
    }
}

/// Makes [`SEQUENCE_END`] rows of dimension `rows`, and the outermost dimension one that takes them back.
fn take_rows_back(map: &mut TensorMap, rows: usize, stride: u64) -> Result<(), String> {
    let (count, outermost) = (map.dims[rows], map.rank as usize - 1);
    if stride >= WRAPPING || count > SEQUENCE_END as u64 {
        return Err(format!(
            "{count} rows of sequences, {stride} bytes apart; there can be {SEQUENCE_END}, less than {WRAPPING} bytes apart"
        ));
    }
    map.dims[rows] = SEQUENCE_END as u64;
    map.dims[outermost] = SEQUENCE_END as u64 + 1;
    map.strides[outermost - 1] = WRAPPING - stride;
    Ok(())
}

/// Whether a map has rows along dimension `along`, behind `taken` dimensions of one index.
fn check(map: &TensorMap, along: usize, taken: usize) -> Result<(), String> {
    let rank = map.rank as usize;
    if !(taken..rank.saturating_sub(1)).contains(&along) {
        return Err(format!(
            "sequences along dimension {along} of {rank}; it must lie behind the first {taken}, and in front of the last"
        ));
    }
    let TensorAccess::Tiled { box_dims } = map.access else {
        return Err("sequences of an image; only blocks end with a sequence".to_string());
    };
    for dim in 0..taken {
        let (count, of_block) = (map.dims[rank - 1 - dim], box_dims[rank - 1 - dim]);
        if count != 1 || of_block != 1 {
            return Err(format!(
                "dimension {dim} has {count} indices and {of_block} in a block, beside sequences along dimension {along}; it must have 1 and 1"
            ));
        }
    }
    Ok(())
}
