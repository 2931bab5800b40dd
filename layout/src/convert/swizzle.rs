//! Numbering the elements of an exchange through shared memory so that neither side has bank conflicts.
//!
//! Elements are vectors over GF(2); the bits of a byte offset are, from the lowest: the vector that a thread accesses
//! at once, the 128 bytes of all banks, the segments. Lanes conflict when the elements of one wavefront share a bank
//! and differ in the segment, that is where the span of the lanes of a wavefront meets the span of the segment bits.
//! So the segment bits are chosen to stay outside both sides' spans: bits that neither side's lanes touch, and XORs of
//! a bit that only the stores' lanes touch with one that only the loads' lanes touch. There are always enough of them.

use smallvec::SmallVec;

use super::exchange::{AccessKind, MATRIX_ROW_BYTES};
use crate::banks::WAVEFRONT_BYTES;
use crate::linear::gf2::Span;

/// One side's bases, as vectors of elements.
#[derive(Clone)]
pub(super) struct Side {
    pub(super) register: SmallVec<[u64; 8]>,
    pub(super) lane: SmallVec<[u64; 5]>,
    pub(super) kind: AccessKind,
    /// The registers of a matrix access that share 32 bits.
    pub(super) word: SmallVec<[u64; 2]>,
    /// Elements of either side that no access moves together with the first one.
    pub(super) apart: SmallVec<[u64; 4]>,
}

impl Side {
    /// The registers that an access may move together.
    fn together(&self) -> impl Iterator<Item = u64> + Clone + '_ {
        let all = self.register.iter().copied();
        all.filter(|unit| !self.apart.contains(unit))
    }

    /// How many registers there are that no access moves together with others.
    pub(super) fn registers_apart(&self) -> u32 {
        (self.register.len() - self.together().count()) as u32
    }

    /// The lanes that one wavefront serves, each with `1 << vector_bits` elements: of vectors all for accesses of up to
    /// 4 bytes, a half for 8, a quarter for 16; of a matrix what tells its eight rows apart.
    pub(super) fn wavefront(&self, vector_bits: u32, elem_bytes: u32) -> SmallVec<[u64; 5]> {
        match self.kind {
            AccessKind::Vector => {
                let words = (elem_bytes << vector_bits).max(4) / 4;
                let lanes = 5 - words.trailing_zeros() as usize;
                self.lane.iter().copied().take(lanes).collect()
            }
            AccessKind::Matrix => self.lane.iter().copied().skip(2).collect(),
            AccessKind::Transposed => {
                let lanes = self.lane.iter().take(2);
                self.word.iter().chain(lanes).copied().collect()
            }
        }
    }

    /// The same side accessed as matrices, if it holds them; `other` says which registers had best share a word.
    fn as_matrices(&self, kind: AccessKind, other: &Self, elem_bytes: u32) -> Option<Self> {
        let in_word = (4_u32.checked_div(elem_bytes)?.checked_ilog2()?) as usize;
        let wanted = match (kind, other.kind) {
            (AccessKind::Matrix, AccessKind::Vector) => &other.register[..],
            (AccessKind::Matrix, AccessKind::Matrix) => &other.word[..],
            (AccessKind::Matrix, AccessKind::Transposed) => &other.lane[2..],
            (AccessKind::Transposed, _) if elem_bytes == 2 => &[],
            (AccessKind::Transposed | AccessKind::Vector, _) => return None,
        };
        let own = |unit: &u64| self.register.contains(unit) && !self.apart.contains(unit);
        let first = wanted.iter().copied().filter(own);
        let rest = self.together().filter(|unit| !wanted.contains(unit));
        let word: SmallVec<[u64; 2]> = first.chain(rest).take(in_word).collect();
        let holds = word.len() == in_word && self.lane.len() == 5;
        holds.then(|| Self {
            kind,
            word,
            ..self.clone()
        })
    }

    /// The elements of a matrix row, lowest first (PTX ISA 9.7.14.5.15): those of one register, then of four lanes; of a
    /// transposed one those of eight lanes.
    fn matrix_row(&self) -> SmallVec<[u64; 4]> {
        match self.kind {
            AccessKind::Transposed => self.lane[2..].iter().copied().collect(),
            AccessKind::Vector | AccessKind::Matrix => {
                self.word.iter().chain(&self.lane[..2]).copied().collect()
            }
        }
    }
}

/// How both sides access the elements that follow one another.
#[derive(Clone)]
pub(super) struct AccessScheme {
    pub(super) store: Side,
    pub(super) load: Side,
    /// The elements at the lowest offsets: a vector of one side at least, or the row of a matrix.
    pub(super) units: SmallVec<[u64; 4]>,
    /// How many of the units a store moves at once.
    pub(super) store_bits: u32,
    /// How many of the units a load moves at once.
    pub(super) load_bits: u32,
}

/// The ways to access an exchange, plain vectors first.
pub(super) fn ways(
    store: &Side,
    load: &Side,
    elem_bytes: u32,
    allowed: Allowed,
) -> Vec<AccessScheme> {
    let mut found = vectors(store, load, elem_bytes, allowed.widest_bytes);
    let kinds = |allowed: bool| {
        let count = if allowed { 3 } else { 1 };
        [
            AccessKind::Vector,
            AccessKind::Matrix,
            AccessKind::Transposed,
        ]
        .into_iter()
        .take(count)
    };
    for store_kind in kinds(allowed.store_matrices) {
        for load_kind in kinds(allowed.load_matrices) {
            found.extend(rows(store, load, (store_kind, load_kind), elem_bytes));
        }
    }
    found
}

/// Which accesses may be taken.
#[derive(Clone, Copy)]
pub(super) struct Allowed {
    /// Bytes of the widest vector.
    pub(super) widest_bytes: u32,
    /// `stmatrix`.
    pub(super) store_matrices: bool,
    /// `ldmatrix`.
    pub(super) load_matrices: bool,
}

/// Vectors of what both sides hold in registers, and beyond that of what one side does: the other one then accesses a
/// part of the vector at a time.
fn vectors(store: &Side, load: &Side, elem_bytes: u32, widest_bytes: u32) -> Vec<AccessScheme> {
    let most = (widest_bytes / elem_bytes).trailing_zeros() as usize;
    let mut common: SmallVec<[u64; 8]> = common_units(&store.register, &load.register);
    common.retain(|unit| !store.apart.contains(unit));
    let shared = common.len().min(most);
    let access = |units: &[u64], store_bits: usize, load_bits: usize| AccessScheme {
        store: store.clone(),
        load: load.clone(),
        units: units.iter().copied().collect(),
        store_bits: store_bits as u32,
        load_bits: load_bits as u32,
    };
    let mut found = vec![access(&common[..shared], shared, shared)];
    // Narrower ones leave registers to number more passes with.
    found.extend((0..shared).map(|count| access(&common[..count], count, count)));
    for (mine, other, is_store) in [(store, load, true), (load, store, false)] {
        // What the other side's lanes walk through anyway takes no banks from them.
        let is_own = |unit: &u64| *unit != 0 && !common.contains(unit);
        let own = mine.together().filter(is_own);
        let (walked, rest): (Vec<u64>, Vec<u64>) = own.partition(|unit| other.lane.contains(unit));
        let units: SmallVec<[u64; 8]> = common.iter().copied().chain(walked).chain(rest).collect();
        for count in shared + 1..=most.min(units.len()) {
            found.push(if is_store {
                access(&units[..count], count, shared)
            } else {
                access(&units[..count], shared, count)
            });
        }
    }
    found
}

/// Matrices on one side or both. The other side must hold the first part of a row, at least, or the same rows.
fn rows(
    store: &Side,
    load: &Side,
    (store_kind, load_kind): (AccessKind, AccessKind),
    elem_bytes: u32,
) -> Option<AccessScheme> {
    let (store, load) = match (store_kind, load_kind) {
        (AccessKind::Vector, AccessKind::Vector) => return None,
        (AccessKind::Vector, kind) => (store.clone(), load.as_matrices(kind, store, elem_bytes)?),
        (kind, AccessKind::Vector) => (store.as_matrices(kind, load, elem_bytes)?, load.clone()),
        (AccessKind::Transposed, kind) => {
            let store = store.as_matrices(AccessKind::Transposed, load, elem_bytes)?;
            let load = load.as_matrices(kind, &store, elem_bytes)?;
            (store, load)
        }
        (kind, load_kind) => {
            let load = load.as_matrices(load_kind, store, elem_bytes)?;
            (store.as_matrices(kind, &load, elem_bytes)?, load)
        }
    };
    let units = if store_kind == AccessKind::Vector {
        load.matrix_row()
    } else {
        store.matrix_row()
    };
    let held = |side: &Side| match side.kind {
        AccessKind::Vector => {
            let held = units.iter().take_while(|unit| side.register.contains(unit));
            Some(held.count() as u32)
        }
        AccessKind::Matrix | AccessKind::Transposed => {
            (side.matrix_row() == units).then_some(units.len() as u32)
        }
    };
    let (store_bits, load_bits) = (held(&store)?, held(&load)?);
    let mut span = Span::new();
    let is_row = units.len() as u32 == (MATRIX_ROW_BYTES / elem_bytes).trailing_zeros();
    (is_row && units.iter().all(|&unit| span.insert(unit))).then_some(AccessScheme {
        store,
        load,
        units,
        store_bits,
        load_bits,
    })
}

/// The order of the elements in shared memory.
#[derive(Debug)]
pub(super) struct Order {
    /// The element vector of each offset bit (in elements), bit 0 first.
    pub(super) basis: Vec<u64>,
    /// How many of the highest bits number the passes: registers on both sides.
    pub(super) pass_bits: u32,
}

impl Order {
    /// The order for an exchange of `1 << bits` elements of `elem_bytes` in passes of at most `scratch_bytes`.
    pub(super) fn new(
        access: &AccessScheme,
        bits: u32,
        elem_bytes: u32,
        scratch_bytes: u32,
    ) -> Self {
        let (store, load) = (&access.store, &access.load);
        let mut chosen = Span::of(access.units.iter().copied());
        let mut basis = access.units.to_vec();
        let sub_word = sub_word_bits(
            store,
            load,
            bits,
            elem_bytes << access.units.len(),
            &mut chosen,
        );
        basis.extend(&sub_word);
        let row = bits.min((WAVEFRONT_BYTES / elem_bytes).trailing_zeros());
        let segments = (bits - row) as usize;

        let wanted_passes =
            (u64::from(elem_bytes) << bits).div_ceil(u64::from(scratch_bytes.max(1)));
        let pass_bits = wanted_passes.next_power_of_two().trailing_zeros() as usize;
        let mut passes: SmallVec<[u64; 8]> = common_units(&store.register, &load.register);
        let in_word = |unit: &u64| store.word.contains(unit) || load.word.contains(unit);
        passes.retain(|unit| !chosen.contains(*unit) && !in_word(unit));
        passes.truncate(pass_bits.min(segments));

        let lanes = (
            store.wavefront(access.store_bits, elem_bytes),
            load.wavefront(access.load_bits, elem_bytes),
        );
        let segment = segment_bits((&lanes.0, &lanes.1), bits, segments, &passes, &mut chosen);
        // The rest numbers the bytes of a row; lanes first, so that their addresses stay simple.
        let rest = lanes.0.iter().chain(&lanes.1).copied().chain(units(bits));
        basis.extend(rest.filter(|&vector| chosen.insert(vector)));
        basis.extend(segment);
        Self {
            basis,
            pass_bits: passes.len() as u32,
        }
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

/// The segment bits, those of the passes last. All of `chosen` counts as taken.
fn segment_bits(
    (store, load): (&[u64], &[u64]),
    bits: u32,
    wanted: usize,
    passes: &[u64],
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

    let candidates = passes
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
    segments.rotate_left(passes.len());
    segments
}

/// The vectors that both lists have. Register bits of layouts are single coordinate bits, so what their spans have in
/// common is spanned by what the lists have in common.
fn common_units(a: &[u64], b: &[u64]) -> SmallVec<[u64; 8]> {
    a.iter()
        .copied()
        .filter(|vector| b.contains(vector))
        .collect()
}

fn units(bits: u32) -> impl Iterator<Item = u64> {
    (0..bits).map(|bit| 1 << bit)
}
