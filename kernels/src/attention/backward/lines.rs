//! LSE and delta of the queries of a step, which scores and dP subtract: numbers that threads load, or parts that the tensor cores subtract.
//!
//! Up to depth 128 rows of scores are keys, and a thread has 16 columns, at depth 64 32. It would load both numbers of each in every step: 16 accesses to shared memory while products read it, 32 subtractions, and 32 registers.
//! At depths 96 and 128 each product has 16 elements of K more instead: operand A is minus one in three of them, and operand B has the number of each query there as the sum of three bf16, all 24 bits of it
//! (`bench/results/attention.md`, "Subtracted by the tensor cores").

use tilekit::prelude::*;

use crate::attention::mainloop::problem::ROWS;
use crate::attention::modifier::Modifier;

/// Elements of a row of parts: 16 bytes.
pub(super) const WIDTH: usize = 8;

/// LSE and delta.
pub(super) const LINES: usize = 2;

/// bf16 parts of a number.
const PARTS: usize = 3;

/// What stands for the LSE of a row that sees no key: finite, so that it has parts, and far above any other.
const FAR: f32 = 3e38;

/// Whether the tensor cores subtract LSE and delta: where scores are multiplied by nothing but the scale, in the exponent, and weights are not dropped.
pub(super) const fn has_parts<M: Modifier>(depth: usize) -> bool {
    has_depth_of_parts(depth) && M::SCALES_LATER && !M::DROPS
}

/// Whether a main loop of this depth may take parts. At depth 64, where products are half as long and tiles twice as wide, they cost more than loads.
pub(super) const fn has_depth_of_parts(depth: usize) -> bool {
    matches!(depth, 96 | 128)
}

/// Elements of the parts of a block of queries.
pub(in crate::attention) const fn parts_of_block(queries: usize) -> usize {
    LINES * queries * WIDTH
}

/// The buffers of a pipeline beside its tiles.
#[derive(Clone, Copy)]
pub(super) enum Lines {
    /// A number for each row of the tile.
    Numbers(Smem<f32>),
    /// The parts of both lines.
    Parts(Smem<bf16>),
    /// Nothing, of so many stages.
    Nothing(usize),
}

/// Where LSE and delta of the rows of all blocks lie in global memory.
#[derive(Clone, Copy)]
pub(super) enum LinesFrom {
    /// A number for each row, of either line.
    Numbers([Ptr<f32>; LINES]),
    /// The parts of a block of queries after those of the one before.
    Parts(Ptr<bf16>),
}

/// Where a line of a block of queries lies.
#[derive(Clone, Copy)]
pub(super) enum LineOfBlock {
    Numbers(Ptr<f32>),
    Parts(Ptr<bf16>),
}

impl LineOfBlock {
    /// The same from row `rows` on.
    pub(super) fn after(self, rows: i32) -> Self {
        match self {
            LineOfBlock::Numbers(line) => LineOfBlock::Numbers(line + rows),
            LineOfBlock::Parts(line) => LineOfBlock::Parts(line + rows * WIDTH as i32),
        }
    }

    /// What stands for LSE of rows, whose scores are multiplied by `scale`: of those that see no key what makes their P 0. An LSE of NaN stays NaN, and so do P and all gradients that it has a part in.
    #[device]
    pub(super) fn sum_of(self, lse: Tensor<f32>, scale: Scalar<f32>) -> Tensor<f32> {
        let (sum, of_none) = match self {
            LineOfBlock::Numbers(_) => (lse * LOG2_E as f32, f32::INFINITY),
            LineOfBlock::Parts(_) => (minimum_nan(lse / scale, FAR), FAR),
        };
        select(lse == f32::NEG_INFINITY, of_none, sum)
    }

    /// Stores the numbers of rows.
    #[device]
    pub(super) fn store(self, row: Tensor<i32>, numbers: Tensor<f32>) {
        match self {
            LineOfBlock::Numbers(line) => line.at(row).store(numbers),
            LineOfBlock::Parts(line) => {
                let rows = numbers.shape()[0];
                let (numbers, row) = (numbers.reshape([rows, 1]), row.reshape([rows, 1]));
                let column = arange(0..WIDTH, Slice::new(0, numbers.layout())).expand_dims(0);
                let at = row * WIDTH as i32 + column;
                line.at(at).store(parts_of(numbers, column));
            }
        }
    }
}

/// The parts of numbers, `[rows, 1]`: the first columns of each row, whose sum each number is, and zeros.
#[device]
fn parts_of(numbers: Tensor<f32>, column: Tensor<i32>) -> Tensor<bf16> {
    let rounded = |number: Tensor<f32>| number.cast::<bf16>().cast::<f32>();
    let high = rounded(numbers);
    let middle = rounded(numbers - high);
    let low = numbers - high - middle;
    let parts = select(column == 2, low, 0.0);
    let parts = select(column == 1, middle, parts);
    select(column == 0, high, parts).cast::<bf16>()
}

impl LinesFrom {
    /// Line `line` from row `row` of all blocks of `queries` on, up to the end of its block.
    #[device]
    pub(super) fn from_row(self, line: usize, row: Scalar<i32>, queries: usize) -> LineOfBlock {
        match self {
            LinesFrom::Numbers(lines) => LineOfBlock::Numbers(lines[line] + row),
            LinesFrom::Parts(parts) => {
                let queries = queries as i32;
                let (block, row) = ((row / queries).cast::<i64>(), row % queries);
                let first = block * parts_of_block(queries as usize) as i64;
                let of_line = row * WIDTH + line * (queries as usize * WIDTH);
                LineOfBlock::Parts(parts + (first + of_line.cast::<i64>()))
            }
        }
    }

    /// Issues the load of what a stage has beside tile `tile` of block `block` of queries: of Q, or of dO.
    #[device]
    pub(super) fn load(
        self,
        tile: usize,
        block: Scalar<i32>,
        queries: usize,
        to: Lines,
        full: Mbarrier,
    ) {
        match (self, to) {
            (LinesFrom::Numbers(from), Lines::Numbers(to)) => {
                from[tile].bulk(block * queries).load(to, full);
            }
            (LinesFrom::Parts(from), Lines::Parts(to)) => {
                let first = block.cast::<i64>() * parts_of_block(queries) as i64;
                from.bulk(first).load(to, full);
            }
            (_, Lines::Nothing(_)) => {}
            _ => unreachable!("a stage has the lines of its kernel"),
        }
    }
}

impl Payload for Lines {
    type Stage = Lines;

    fn stages(self) -> usize {
        match self {
            Lines::Numbers(numbers) => numbers.stages(),
            Lines::Parts(parts) => parts.stages(),
            Lines::Nothing(stages) => stages,
        }
    }

    fn stage(self, index: Scalar<i32>) -> Lines {
        match self {
            Lines::Numbers(numbers) => Lines::Numbers(numbers.index(index)),
            Lines::Parts(parts) => Lines::Parts(parts.index(index)),
            nothing @ Lines::Nothing(_) => nothing,
        }
    }

    fn stage_bytes(self) -> usize {
        match self {
            Lines::Numbers(numbers) => numbers.bytes() / numbers.stages(),
            Lines::Parts(parts) => parts.bytes() / parts.stages(),
            Lines::Nothing(_) => 0,
        }
    }
}

impl Lines {
    /// The buffers for numbers.
    #[device]
    pub(super) fn numbers(stages: usize, queries: usize) -> Self {
        Lines::Numbers(Smem::alloc([stages, queries], Swizzled::plain([0])))
    }

    /// The buffers for parts.
    #[device]
    pub(super) fn parts(stages: usize, queries: usize) -> Self {
        let shape = [stages, parts_of_block(queries)];
        Lines::Parts(Smem::alloc(shape, Swizzled::plain([0])))
    }

    /// The numbers of a stage, if it has them.
    #[device]
    pub(super) fn load(self, layout: Slice) -> Option<Tensor<f32>> {
        match self {
            Lines::Numbers(numbers) => Some(numbers.load(layout)),
            Lines::Parts(_) | Lines::Nothing(_) => None,
        }
    }

    /// Scores of so many queries less line `line` of the stage, if it has parts.
    #[device]
    pub(super) fn subtracted(
        self,
        line: usize,
        scores: Accumulator<f32>,
        queries: usize,
        layout: Wgmma,
    ) -> Accumulator<f32> {
        let Lines::Parts(parts) = self else {
            return scores;
        };
        let operand = DotOperand::new(0, layout, 2);
        let column = arange(0..LINES * WIDTH, Slice::new(0, operand.clone())).expand_dims(0);
        let first = (line * WIDTH) as i32;
        let is_part = (column >= first) & (column < first + PARTS as i32);
        let minus: Tensor<f32> = full([ROWS, LINES * WIDTH], -1.0f32, operand);
        let minus = select(is_part, minus, 0.0);
        let rows = parts.reshape([LINES, queries, WIDTH]).permute([1, 0, 2]);
        let rows = rows.reshape([queries, LINES * WIDTH]);
        scores.mma(minus.cast::<bf16>(), rows.transpose())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS_OF_TEST: usize = 64;

    #[kernel(warps = 1)]
    fn write_parts(to: Ptr<bf16>, lse: Ptr<f32>, scale: f32) {
        let layout = Blocked::new([1, WIDTH as u32], [32, 1], [1, 1], [1, 0]);
        let row = arange(0..ROWS_OF_TEST, Slice::new(1, layout.clone()));
        let line = LinesFrom::Parts(to).from_row(1, scalar(0), ROWS_OF_TEST);
        let sum = line.sum_of(lse.at(row).load(), scale);
        line.store(row, sum);
    }

    /// The sum of each row's parts, of rows with these LSE.
    fn sums(lse: &[f32], scale: f32) -> Vec<f64> {
        let device = Device::emulator_with_seed(0);
        let stream = Stream::new(&device).unwrap();
        let kernel = write_parts.compile(&Compiler::default()).unwrap();
        let kernel = kernel.load(&device).unwrap();
        let to = Buffer::<bf16>::zeros(&device, parts_of_block(ROWS_OF_TEST)).unwrap();
        let lse = Buffer::from_slice(&device, lse).unwrap();
        kernel.launch(&stream, grid(1), (&to, &lse, scale)).unwrap();
        stream.synchronize().unwrap();
        let parts = to.to_vec().unwrap();
        let of_line = &parts[ROWS_OF_TEST * WIDTH..];
        let sum = |row: &[bf16]| row.iter().map(|part| f64::from(part.to_f32())).sum();
        of_line.chunks(WIDTH).map(sum).collect()
    }

    /// Whether all numbers are the same: no bit is lost.
    fn are(sums: &[f64], wanted: &[f32]) -> bool {
        let wanted = wanted.iter().map(|&x| f64::from(x).to_bits());
        sums.iter().map(|sum| sum.to_bits()).eq(wanted)
    }

    #[test]
    fn parts_have_all_bits_of_a_number() {
        let of_row = |row: usize| (row as f32 - 20.3).exp();
        let lse: Vec<f32> = (0..ROWS_OF_TEST).map(of_row).collect();
        assert!(are(&sums(&lse, 1.0), &lse));
    }

    #[test]
    fn an_lse_of_nan_has_parts_of_nan() {
        assert!(
            sums(&[f32::NAN; ROWS_OF_TEST], 1.0)
                .iter()
                .all(|sum| sum.is_nan())
        );
    }

    #[test]
    fn a_row_that_sees_no_key_has_a_finite_sum_above_all_others() {
        for lse in [f32::NEG_INFINITY, 3e38] {
            let sums = sums(&[lse; ROWS_OF_TEST], 1e-3);
            assert!(are(&sums, &[FAR; ROWS_OF_TEST]), "{lse}");
        }
    }
}
