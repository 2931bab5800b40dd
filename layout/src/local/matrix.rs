//! Matrices: eight rows of 16 bytes, spread over a warp by `ldmatrix` or collected by `stmatrix`.
//!
//! Lane `l` holds 32 bits of each matrix: the bytes `4 * (l % 4)` on of row `l / 4`, and with `.trans` the elements of the
//! rows `2 * (l % 4)` and the next in column `l / 4`. So the bits of a place in the row must come from certain lanes (and
//! registers), and nothing else may reach into a row.

use smallvec::SmallVec;

use super::{Direction, LocalAccess, LocalPlan, Tile, xor_of};
use crate::convert::{AccessKind, MATRIX_ROW_BYTES};

/// Register bits as sets of the tile's: those within 32 bits, and the others.
struct Registers {
    word: SmallVec<[u32; 2]>,
    rest: SmallVec<[u32; 8]>,
}

impl Tile {
    /// Every plan by matrices that the layouts allow.
    pub(super) fn matrices(&self, direction: Direction) -> Vec<LocalPlan> {
        // A row that several lanes hold would be stored several times.
        let is_copied = direction == Direction::Store && self.copied_lanes != 0;
        if is_copied || self.elem_bits > 32 || self.lane.len() != 5 || !self.has_whole_rows() {
            return Vec::new();
        }
        self.plain_matrices()
            .into_iter()
            .chain(self.transposed_matrices())
            .collect()
    }

    fn row(&self) -> u32 {
        MATRIX_ROW_BYTES * 8 / self.elem_bits
    }

    /// Does neither padding nor the view's place nor another warp reach into a row?
    fn has_whole_rows(&self) -> bool {
        let others = self.warp.iter().fold(self.start_reach, |all, w| all | w);
        self.unbroken >= self.row() && !self.reaches_into_row(others)
    }

    fn reaches_into_row(&self, offset: u32) -> bool {
        offset & (self.row() - 1) != 0
    }

    fn plain_matrices(&self) -> Option<LocalPlan> {
        let in_word = (32 / self.elem_bits).trailing_zeros();
        let (columns, rows) = self.lane.split_at(2);
        let are_columns = *columns == [1 << in_word, 2 << in_word];
        if !are_columns || rows.iter().any(|&row| self.reaches_into_row(row)) {
            return None;
        }
        let span = self.span();
        let word: Option<SmallVec<[u32; 2]>> = (0..in_word)
            .map(|bit| span.solve(1 << bit).map(|set| set as u32))
            .collect();
        let word = word?;
        let rest = self.rest_of(&word);
        let is_clear = |&set: &u32| !self.reaches_into_row(self.offset_of(set));
        rest.iter()
            .all(is_clear)
            .then(|| self.matrix_plan(AccessKind::Matrix, rows, &Registers { word, rest }))
    }

    /// One plan for each register that may tell the two rows of a lane apart.
    fn transposed_matrices(&self) -> Vec<LocalPlan> {
        let (rows, columns) = self.lane.split_at(2);
        let all = self.rest_of(&[]);
        let offsets = all.iter().map(|&set| self.offset_of(set));
        let reaches = offsets
            .chain(rows.iter().copied())
            .any(|o| self.reaches_into_row(o));
        if self.elem_bits != 16 || *columns != [1, 2, 4] || reaches {
            return Vec::new();
        }
        let with = |&first: &u32| {
            let registers = Registers {
                word: [first].into_iter().collect(),
                rest: all.iter().copied().filter(|&set| set != first).collect(),
            };
            let rows = [self.offset_of(first), rows[0], rows[1]];
            self.matrix_plan(AccessKind::Transposed, &rows, &registers)
        };
        let is_whole = |&&set: &&u32| set & self.cut_registers == 0;
        all.iter().filter(is_whole).map(with).collect()
    }

    /// A basis of the register sets that add no offset below `1 << word.len()`, where `word` adds 1, 2 and so on. Those that
    /// no access reaches across come last.
    fn rest_of(&self, word: &[u32]) -> SmallVec<[u32; 8]> {
        let low = (1 << word.len()) - 1;
        let mut span = crate::linear::gf2::Span::of(word.iter().map(|&set| set.into()));
        let is_cut = |bit: &usize| self.cut_registers >> bit & 1 == 1;
        let bits = 0..self.register.len();
        (bits.clone().filter(|bit| !is_cut(bit)))
            .chain(bits.filter(is_cut))
            .filter(|bit| self.copied_registers >> bit & 1 == 0)
            .map(|bit| 1 << bit ^ xor_of(word, self.register[bit] & low))
            .filter(|&set| span.insert(set.into()))
            .collect()
    }

    fn matrix_plan(&self, kind: AccessKind, rows: &[u32], registers: &Registers) -> LocalPlan {
        let is_whole = |set: &&u32| *set & self.cut_registers == 0;
        let together = registers.rest.iter().take_while(is_whole).count().min(2);
        let (matrices, others) = registers.rest.split_at(together);
        let step = |at: usize| matrices.get(at).map_or(0, |&set| self.offset_of(set));
        let thread = rows.iter().copied().chain([step(0), step(1)]);
        let thread = thread.chain(self.warp.iter().copied()).collect();
        let words: SmallVec<[u32; 4]> = registers.word.iter().chain(matrices).copied().collect();
        let accesses = (0..1_u32 << others.len()).map(|number| {
            let first = xor_of(others, number);
            LocalAccess {
                offset: self.offset_of(first),
                registers: (0..1 << words.len())
                    .map(|at| first ^ xor_of(&words, at))
                    .collect(),
            }
        });
        self.plan(kind, thread, accesses.collect())
    }
}
