//! Numbering the elements of an exchange through shared memory so that neither side has bank conflicts.
//!
//! Elements are vectors over GF(2); the bits of a byte offset are, from the lowest: the vector that a thread accesses
//! at once, the 128 bytes of all banks, the segments. Lanes conflict when the elements of one wavefront share a bank
//! and differ in the segment, that is where the span of the lanes of a wavefront meets the span of the segment bits.
//! So the segment bits are chosen to stay outside both sides' spans: bits that neither side's lanes touch, and XORs of
//! a bit that only the stores' lanes touch with one that only the loads' lanes touch. There are always enough of them.

use smallvec::SmallVec;

use super::AccessKind;
use crate::layout::linear::gf2::Span;

/// Banks times bytes of a bank (PTX ISA does not number them; every device since compute capability 2.0 has these).
pub(super) const ROW_BYTES: u32 = 128;

/// One side's bases, as vectors of elements.
pub(super) struct Side {
    pub(super) register: SmallVec<[u64; 8]>,
    pub(super) lane: SmallVec<[u64; 5]>,
    pub(super) kind: AccessKind,
}

impl Side {
    /// The lanes that one wavefront serves: of vectors all for accesses of up to 4 bytes, a half for 8, a quarter for
    /// 16; of a matrix those that tell its eight rows apart.
    pub(super) fn wavefront(&self, vector_bytes: u32) -> &[u64] {
        if self.kind == AccessKind::Matrix {
            return &self.lane[2..];
        }
        let lanes = 5 - (vector_bytes.max(4) / 4).trailing_zeros() as usize;
        &self.lane[..lanes.min(self.lane.len())]
    }

    /// The 16 bytes of a matrix row: the elements of one register, then four lanes (PTX ISA 9.7.14.5.15). `other` must
    /// hold them together: all in registers of a vector, or in the same places of a matrix.
    fn matrix_row(&self, other: &Self, elem_bytes: u32) -> Option<Vec<u64>> {
        let in_word = (4_u32.checked_div(elem_bytes)?.checked_ilog2()?) as usize;
        let together = self
            .register
            .iter()
            .filter(|unit| other.register.contains(unit));
        let mut row: Vec<u64> = together.copied().take(in_word).collect();
        let lanes = self.lane.get(..2)?;
        let held = match other.kind {
            AccessKind::Vector => lanes.iter().all(|lane| other.register.contains(lane)),
            AccessKind::Matrix => other.lane.get(..2)? == lanes,
        };
        row.extend(lanes);
        (held && lanes.iter().all(|&lane| lane != 0) && row.len() == in_word + 2).then_some(row)
    }
}

/// The elements that both sides access at once, lowest first.
fn contiguous(store: &Side, load: &Side, elem_bytes: u32) -> Option<Vec<u64>> {
    match (store.kind, load.kind) {
        (AccessKind::Vector, AccessKind::Vector) => {
            let most = (16 / elem_bytes).trailing_zeros() as usize;
            Some(
                common_units(&store.register, &load.register)
                    .into_iter()
                    .take(most)
                    .collect(),
            )
        }
        (AccessKind::Matrix, _) => store.matrix_row(load, elem_bytes),
        (AccessKind::Vector, AccessKind::Matrix) => load.matrix_row(store, elem_bytes),
    }
}

/// The order of the elements in shared memory.
#[derive(Debug)]
pub(super) struct Order {
    /// The element vector of each offset bit (in elements), bit 0 first.
    pub(super) basis: Vec<u64>,
    /// How many of the lowest bits form the vector that both sides access at once.
    pub(super) vector_bits: u32,
    /// How many of the highest bits number the rounds: registers on both sides.
    pub(super) round_bits: u32,
}

impl Order {
    /// The order for an exchange of `1 << bits` elements of `elem_bytes` in rounds of at most `scratch_bytes`; `None`
    /// when the kinds of access do not suit the sides.
    pub(super) fn new(
        store: &Side,
        load: &Side,
        bits: u32,
        elem_bytes: u32,
        scratch_bytes: u32,
    ) -> Option<Self> {
        let vector = contiguous(store, load, elem_bytes)?;
        let vector_bytes = elem_bytes << vector.len();

        let mut chosen = Span::of(vector.iter().copied());
        let mut basis = vector.clone();
        let sub_word = sub_word_bits(store, load, bits, vector_bytes, &mut chosen);
        basis.extend(&sub_word);
        let row = bits.min((ROW_BYTES / elem_bytes).trailing_zeros());
        let segments = (bits - row) as usize;

        let wanted_rounds =
            (u64::from(elem_bytes) << bits).div_ceil(u64::from(scratch_bytes.max(1)));
        let round_bits = wanted_rounds.next_power_of_two().trailing_zeros() as usize;
        let mut rounds = common_units(&store.register, &load.register);
        rounds.retain(|unit| !vector.contains(unit));
        rounds.truncate(round_bits.min(segments));

        let lanes = (store.wavefront(vector_bytes), load.wavefront(vector_bytes));
        let segment = segment_bits(lanes, bits, segments, &rounds, &mut chosen);
        // The rest numbers the bytes of a row; lanes first, so that their addresses stay simple.
        let rest = lanes.0.iter().chain(lanes.1).copied().chain(units(bits));
        basis.extend(rest.filter(|&vector| chosen.insert(vector)));
        basis.extend(segment);
        Some(Self {
            basis,
            vector_bits: vector.len() as u32,
            round_bits: rounds.len() as u32,
        })
    }
}

/// Vectors that number the elements of one 4-byte word where a thread's own vector is smaller: two lanes in one word
/// never conflict. Registers of one side do best: the other side's lanes then share words.
fn sub_word_bits(
    store: &Side,
    load: &Side,
    bits: u32,
    vector_bytes: u32,
    chosen: &mut Span,
) -> Vec<u64> {
    let wanted = (4 / vector_bytes.min(4)).trailing_zeros() as usize;
    let candidates = load
        .lane
        .iter()
        .chain(&store.lane)
        .chain(&load.register)
        .chain(&store.register)
        .copied();
    let candidates = candidates.chain(units(bits));
    candidates
        .filter(|&vector| vector != 0 && chosen.insert(vector))
        .take(wanted)
        .collect()
}

/// The segment bits, those of the rounds last. All of `chosen` counts as taken.
fn segment_bits(
    (store, load): (&[u64], &[u64]),
    bits: u32,
    wanted: usize,
    rounds: &[u64],
    chosen: &mut Span,
) -> Vec<u64> {
    let taken = |span: &Span, vectors: &[u64]| -> Vec<u64> {
        let mut span = span.clone();
        vectors
            .iter()
            .copied()
            .filter(|&vector| span.insert(vector))
            .collect()
    };
    let (store, load) = (taken(chosen, store), taken(chosen, load));
    // Outside both: what completes both spans.
    let mut both = chosen.clone();
    for &vector in store.iter().chain(&load) {
        both.insert(vector);
    }
    let outside = units(bits).filter(|&unit| both.insert(unit));
    // On one side only: what each side adds to the other.
    let only = |mine: &[u64], other: &[u64]| -> Vec<u64> {
        let mut span = chosen.clone();
        for &vector in other {
            span.insert(vector);
        }
        mine.iter()
            .copied()
            .filter(|&vector| span.insert(vector))
            .collect()
    };
    let (store_only, load_only) = (only(&store, &load), only(&load, &store));
    let pairs: Vec<u64> = store_only
        .iter()
        .zip(&load_only)
        .map(|(a, b)| a ^ b)
        .collect();
    let last_resort = store_only
        .iter()
        .chain(&load_only)
        .chain(&store)
        .chain(&load);

    let candidates = rounds
        .iter()
        .copied()
        .chain(outside)
        .chain(pairs)
        .chain(last_resort.copied());
    let mut segments: Vec<u64> = Vec::with_capacity(wanted);
    for vector in candidates {
        if segments.len() < wanted && chosen.insert(vector) {
            segments.push(vector);
        }
    }
    segments.rotate_left(rounds.len());
    segments
}

/// The vectors that both lists have. Register bits of layouts are single coordinate bits, so what their spans have in
/// common is spanned by what the lists have in common.
fn common_units(a: &[u64], b: &[u64]) -> Vec<u64> {
    a.iter()
        .copied()
        .filter(|vector| b.contains(vector))
        .collect()
}

fn units(bits: u32) -> impl Iterator<Item = u64> {
    (0..bits).map(|bit| 1 << bit)
}
