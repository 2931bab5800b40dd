//! Vectors over GF(2), packed into words: spans, bases and solutions.

use smallvec::SmallVec;

/// A growing set of independent vectors that answers whether, and how, a vector is the XOR of them.
///
/// Every stored vector's highest bit is clear in all others (reduced echelon form), so answers do not depend on the
/// order of elimination.
#[derive(Clone, Debug, Default)]
pub struct Span {
    rows: SmallVec<[Row; 16]>,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    vector: u64,
    /// Which of the vectors ever offered make up `vector`, as a bit set of their tags.
    tags: u64,
}

impl Span {
    /// The span of nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// The span of `vectors`; vector `i` has the tag `1 << i`.
    pub fn of(vectors: impl IntoIterator<Item = u64>) -> Self {
        let mut span = Self::new();
        for (at, vector) in vectors.into_iter().enumerate() {
            span.insert_tagged(vector, 1_u64.checked_shl(at as u32).unwrap_or(0));
        }
        span
    }

    /// The number of independent vectors.
    pub fn rank(&self) -> u32 {
        self.rows.len() as u32
    }

    /// Adds a vector; false when it was the XOR of earlier ones.
    pub fn insert(&mut self, vector: u64) -> bool {
        self.insert_tagged(vector, 0)
    }

    /// Adds a vector with its name for [`Span::solve`]; false when it was the XOR of earlier ones.
    pub fn insert_tagged(&mut self, vector: u64, tag: u64) -> bool {
        let row = self.reduce(Row { vector, tags: tag });
        if row.vector == 0 {
            return false;
        }
        let lead = highest_bit(row.vector);
        for other in &mut self.rows {
            if other.vector & lead != 0 {
                other.vector ^= row.vector;
                other.tags ^= row.tags;
            }
        }
        self.rows.push(row);
        true
    }

    /// Whether the vector is the XOR of some of the vectors.
    pub fn contains(&self, vector: u64) -> bool {
        self.reduce(Row { vector, tags: 0 }).vector == 0
    }

    /// The tags of the vectors whose XOR is `vector`; `None` when there are none.
    pub fn solve(&self, vector: u64) -> Option<u64> {
        let rest = self.reduce(Row { vector, tags: 0 });
        (rest.vector == 0).then_some(rest.tags)
    }

    fn reduce(&self, mut row: Row) -> Row {
        for other in &self.rows {
            if row.vector & highest_bit(other.vector) != 0 {
                row.vector ^= other.vector;
                row.tags ^= other.tags;
            }
        }
        row
    }

    /// A basis of the span, in reduced form, the largest leading bit last.
    pub fn basis(&self) -> Vec<u64> {
        let mut vectors: Vec<u64> = self.rows.iter().map(|row| row.vector).collect();
        vectors.sort_unstable();
        vectors
    }
}

/// Unit vectors below `1 << bits` that complete `vectors` to a basis of the whole space.
pub fn complement(vectors: &[u64], bits: u32) -> Vec<u64> {
    let mut span = Span::of(vectors.iter().copied());
    (0..bits)
        .map(|bit| 1 << bit)
        .filter(|&unit| span.insert(unit))
        .collect()
}

fn highest_bit(vector: u64) -> u64 {
    1 << vector.ilog2()
}
