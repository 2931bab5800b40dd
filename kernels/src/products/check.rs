//! Checks of a call, and what follows from them.

use std::fmt;

use tilekit::{DeviceElement, TensorView};

use super::check_matrices::{
    check_numbers, check_own_source, check_precision, check_result, check_shapes, check_source,
    check_turned,
};
use super::dispatch::{Choice, Dispatch};
use super::epilogue_kind::{Finishing, Together};
use super::error::Result;
use super::every_other_row::begin_between_sectors;
use super::factor::{Operand, ResultOf, Stored, UNIT_BYTES};
use super::form::Side;
use super::instances::Instance;
use super::matrix::Matrix;
use super::need::{Loose, Need};
use super::options::{Options, Precision};
use super::output_handles::GivenOutputs;
use super::overlap::{check_apart, check_numbers_apart, check_source_apart};

pub(super) type View<'a, T> = TensorView<'a, T>;

/// How a call computes its product.
#[derive(Clone, Debug, PartialEq)]
pub struct CallPlan {
    /// The kernel, its grid, and why; none where there is nothing to compute.
    pub product: Option<Choice>,
    /// Cᵀ = Bᵀ · Aᵀ is computed, since C lies column by column.
    pub is_transposed: bool,
    /// The launch begins when the one in front of it on the stream has ended, and does not overlap with it.
    pub is_apart: bool,
    /// What is copied, and why.
    pub copies: Vec<String>,
}

impl fmt::Display for CallPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.product {
            Some(choice) => write!(f, "{choice}")?,
            None => write!(f, "no product")?,
        }
        if self.is_transposed {
            write!(f, "; as the transpose")?;
        }
        if self.is_apart {
            write!(f, "; behind the end of the launch in front")?;
        }
        self.copies
            .iter()
            .try_for_each(|copy| write!(f, "; {copy}"))
    }
}

/// Where an operand is taken from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Taken {
    /// From where it lies: as rows of M or N, or as rows of K.
    InPlace(Matrix, Side),
    /// From a copy in rows of K.
    Copied(Matrix, Side),
    /// Nothing along K counts as one zero.
    Zeros(Matrix),
}

impl Taken {
    /// Operands of 16 bits may be contiguous along M or N; all others are along K.
    pub(crate) fn of(matrix: Matrix, element_bytes: usize) -> Taken {
        let [rows, along_k] = matrix.shape;
        if along_k == 0 {
            let zeros = Matrix {
                shape: [rows, 1],
                batches: [1, 0],
                ..matrix
            };
            return Taken::Zeros(Matrix::padded(zeros, element_bytes));
        }
        let side = |is_mn_major| Side {
            is_mn_major,
            is_batched: matrix.is_batched(),
            is_settled: false,
        };
        let turned = || matrix.transposed().in_rows(element_bytes);
        match matrix.in_rows(element_bytes) {
            Some(place) => Taken::InPlace(place, side(false)),
            None => match turned().filter(|_| element_bytes == 2) {
                Some(place) => Taken::InPlace(place, side(true)),
                None => Taken::Copied(Matrix::padded(matrix, element_bytes), side(false)),
            },
        }
    }

    /// Operands that are along K, of whatever type.
    pub(crate) fn along_k(matrix: Matrix, element_bytes: usize) -> Taken {
        match matrix.in_rows(element_bytes) {
            Some(place) => Taken::InPlace(place, Side::default()),
            None => Taken::Copied(Matrix::padded(matrix, element_bytes), Side::default()),
        }
    }

    pub(crate) fn side(self) -> Side {
        match self {
            Taken::InPlace(_, side) | Taken::Copied(_, side) => side,
            Taken::Zeros(_) => Side::default(),
        }
    }
}

/// A call that has been checked: `result[M, N] = x[M, K] · y[N, K]ᵀ`, and where the matrices lie.
pub(super) struct Call {
    pub(super) size: [usize; 3],
    pub(super) batches: usize,
    /// X and Y.
    pub(super) factors: [Matrix; 2],
    pub(super) taken: [Taken; 2],
    pub(super) result: Matrix,
    /// What is added, if it is not the result itself.
    pub(super) source: Option<Matrix>,
    pub(super) is_transposed: bool,
    /// Where operands, result and source lie for a kernel that takes rows that begin anywhere; none where all have tensor maps, or where some are not in rows.
    pub(super) loose: Option<LooseCall>,
    /// No tile is of every other row of the result.
    all_rows: bool,
    /// Columns of the result that the epilogue finishes together, and what it does to sums.
    together: Together,
    finishing: Finishing,
    element_bytes: [usize; 2],
    precision: Precision,
}

/// Matrices in lines that begin anywhere.
#[derive(Clone, Copy)]
pub(super) struct LooseCall {
    pub(super) factors: [(Matrix, Side); 2],
    pub(super) result: Matrix,
    pub(super) source: Option<Matrix>,
}

/// Pitches of operands from which on indices within a tile take more than 31 bits.
const FARTHEST: usize = 1 << 23;

impl LooseCall {
    /// Of operands of 16 bits.
    fn of(factors: [Matrix; 2], result: Matrix, source: Option<Matrix>) -> Option<LooseCall> {
        let lines = |matrix: Matrix| {
            let side = |is_mn_major| Side {
                is_mn_major,
                is_batched: matrix.is_batched(),
                is_settled: false,
            };
            let in_rows = matrix.in_any_rows().map(|place| (place, side(false)));
            let in_columns = || Some((matrix.transposed().in_any_rows()?, side(true)));
            let (place, side) = in_rows.or_else(in_columns)?;
            (place.strides[0] < FARTHEST).then_some((place, side))
        };
        let [x, y] = factors;
        let source = match source {
            Some(source) => Some(source.in_any_rows()?),
            None => None,
        };
        Some(LooseCall {
            factors: [lines(x)?, lines(y)?],
            result: result.in_any_rows()?,
            source,
        })
    }
}

/// The address of the first element.
fn begin<T: DeviceElement>(view: &View<'_, T>) -> u64 {
    let before = view.place().offset * size_of::<T>();
    view.source().address() + before as u64
}

/// Whether tiles of every other row are none of a result in its place: it is read as it was, or its rows begin elsewhere than those of a matrix without gaps. A workspace has those.
fn has_all_rows<O: Stored>(c: &View<'_, O>, result: Matrix, options: &Options<'_, O>) -> bool {
    let is_c = |of: &View<'_, O::Addend>| begin(of) == begin(c);
    let is_read = options.has_source() && options.source.is_none_or(is_c);
    let in_place = result.in_rows(size_of::<O>());
    let begins = |place: Matrix| begin_between_sectors(begin(c), place.strides[0] * size_of::<O>());
    is_read || !in_place.is_none_or(begins)
}

impl Call {
    /// How X and Y lie, of which A and B are settled or not. What is copied, a launch in front writes.
    pub(super) fn sides(&self, are_settled: [bool; 2]) -> [Side; 2] {
        let [a, b] = are_settled;
        let are_settled = if self.is_transposed { [b, a] } else { [a, b] };
        [0, 1].map(|side| {
            let (taken, is_settled) = (self.taken[side], are_settled[side]);
            let is_settled = is_settled && matches!(taken, Taken::InPlace(..));
            Side {
                is_settled,
                ..taken.side()
            }
        })
    }

    /// `turns` says that the transpose may be computed instead.
    pub(super) fn check<T: Operand, O: ResultOf<T>>(
        [a, b]: [&View<'_, T>; 2],
        c: &View<'_, O>,
        options: &Options<'_, O>,
        (turns, halves): (bool, bool),
    ) -> Result<Call> {
        let [x, y] = [Matrix::of("a", a)?, Matrix::of("b", b)?.transposed()];
        let result = Matrix::of("c", c)?;
        let product = if halves { result.doubled() } else { result };
        check_shapes([x, y], product)?;
        check_result("c", result, size_of::<O>())?;
        check_apart(("a", a), ("c", c))?;
        check_apart(("b", b), ("c", c))?;
        check_own_source(options, halves)?;
        let source = options.source.filter(|_| options.has_source());
        let source = match source {
            None => None,
            Some(view) => {
                let source = check_source(Matrix::of("options.source", view)?, product)?;
                check_source_apart(view, c)?;
                Some(source)
            }
        };
        check_numbers(options, product.shape)?;
        check_numbers_apart(options, ("c", c))?;
        check_precision::<T, O>(options, None)?;
        let element_bytes = [size_of::<T>(), size_of::<O>()];
        // The transpose of a column-major result is one in rows.
        let turned = result.transposed();
        let in_rows = |matrix: Matrix| matrix.in_rows(element_bytes[1]).is_some();
        let in_any_rows = |matrix: Matrix| matrix.in_any_rows().is_some();
        let is_turned = in_rows(turned) || (!in_any_rows(result) && in_any_rows(turned));
        let is_transposed = turns && !in_rows(result) && is_turned;
        let (x, y, result, source) = if is_transposed {
            (y, x, turned, source.map(Matrix::transposed))
        } else {
            (x, y, result, source)
        };
        if is_transposed {
            check_turned(("c", result), source, element_bytes[1])?;
        }
        let taken = [x, y].map(|matrix| Taken::of(matrix, element_bytes[0]));
        let is_mapped = taken
            .iter()
            .all(|taken| matches!(taken, Taken::InPlace(..)))
            && [Some(result), source].into_iter().flatten().all(in_rows);
        let is_able = !is_mapped && element_bytes[0] == 2 && x.shape[1] > 0;
        let loose = LooseCall::of([x, y], result, source).filter(|_| is_able);
        let all_rows = halves || has_all_rows(c, result, options);
        Ok(Call {
            size: [x.shape[0], y.shape[0], x.shape[1]],
            batches: result.batches[0],
            factors: [x, y],
            taken,
            result,
            source,
            is_transposed,
            loose,
            all_rows,
            together: if halves {
                Together::Halves
            } else {
                Together::One
            },
            finishing: Finishing::Nothing,
            element_bytes,
            precision: options.precision,
        })
    }

    /// The same of an epilogue that does this to sums, and stores these outputs beside the result.
    pub(super) fn with_epilogue(self, finishing: Finishing, given: GivenOutputs) -> Call {
        Call {
            finishing,
            all_rows: self.all_rows || given.are_reduced(),
            together: given.together(self.together == Together::Halves),
            ..self
        }
    }

    /// Whether there is nothing to compute.
    pub(super) fn is_empty(&self) -> bool {
        self.result.is_empty()
    }

    pub(super) fn need(&self) -> Need {
        let [m, n, k] = self.size;
        Need {
            // Nothing along K is a step of zeros.
            size: [m, n, k.max(1)],
            batches: self.batches,
            element_bytes: self.element_bytes,
            is_mn_major: self.taken.map(|taken| taken.side().is_mn_major),
            precision: self.precision,
            loose: self.loose.map(|loose| self.loose_need(loose)),
            ends_early: self.result_ends_early(),
            all_rows: self.all_rows,
            together: self.together,
            finishing: self.finishing,
        }
    }

    fn loose_need(&self, loose: LooseCall) -> Loose {
        let [(x, of_x), (y, of_y)] = loose.factors;
        let [x_taken, y_taken] = self.taken.map(|taken| matches!(taken, Taken::Copied(..)));
        Loose {
            units: [x, y, loose.result].map(|matrix| matrix.unit()),
            are_copied: [x_taken, y_taken, self.is_copied(self.result)],
            is_mn_major: [of_x, of_y].map(|side| side.is_mn_major),
        }
    }

    pub(super) fn plan<O: Stored>(
        &self,
        dispatch: &Dispatch,
        options: &Options<'_, O>,
    ) -> CallPlan {
        // Without steps along K there is a product for what is added to it.
        let is_product = !self.is_empty() && (self.size[2] > 0 || !options.are_plain());
        let product = is_product.then(|| dispatch.choose(&self.need())).flatten();
        let is_mapped = |choice: &Choice| {
            !matches!(choice.plan.instance, Instance::Any(_) | Instance::Copied(_))
        };
        let is_settled = self
            .sides(options.are_settled)
            .iter()
            .any(|side| side.is_settled);
        let overlaps = |choice: Choice| is_settled || choice.plan.overlaps(&self.need());
        CallPlan {
            product,
            is_transposed: self.is_transposed,
            is_apart: !product.is_none_or(overlaps),
            copies: match product.filter(is_mapped) {
                Some(choice) => self.copies(choice.plan.instance),
                None => Vec::new(),
            },
        }
    }

    /// TMA stores write rows in units of 16 bytes, and what lies beside C is not written.
    fn result_ends_early(&self) -> bool {
        let unit = UNIT_BYTES / self.element_bytes[1];
        !self.result.shape[1].is_multiple_of(unit) && !self.is_copied(self.result)
    }

    /// Whether the result goes through a workspace by this instance where others leave it in its place.
    pub(super) fn is_apart(&self, instance: Instance) -> bool {
        instance.stores_by_tma() && self.result_ends_early()
    }

    /// Of a call by this instance.
    fn copies(&self, instance: Instance) -> Vec<String> {
        let names = if self.is_transposed {
            ["b", "a"]
        } else {
            ["a", "b"]
        };
        let mut copies = Vec::new();
        for ((matrix, taken), name) in self.factors.iter().zip(self.taken).zip(names) {
            if let Taken::Copied(to, _) = taken {
                copies.push(copied(name, *matrix, to.strides[0]));
            }
        }
        let results = [
            ("c", Some(self.result), self.is_apart(instance)),
            ("options.source", self.source, false),
        ];
        for (name, matrix, ends_early) in results {
            let is_copied = |matrix: &Matrix| self.is_copied(*matrix) || ends_early;
            if let Some(matrix) = matrix.filter(is_copied) {
                let pitch = self.padded(matrix).strides[0];
                copies.push(copied(name, matrix, pitch));
            }
        }
        copies
    }

    /// Whether a matrix of results goes through a workspace.
    fn is_copied(&self, matrix: Matrix) -> bool {
        matrix.in_rows(self.element_bytes[1]).is_none()
    }

    /// How results lie in a workspace.
    pub(super) fn padded(&self, matrix: Matrix) -> Matrix {
        Matrix::padded(matrix, self.element_bytes[1])
    }
}

fn copied(name: &str, matrix: Matrix, pitch: usize) -> String {
    // The strides of B itself: what is multiplied is its transpose.
    let own = if name == "b" {
        matrix.transposed()
    } else {
        matrix
    };
    let [row, column] = own.strides;
    format!("`{name}` copied: strides {row} and {column}, where rows of {pitch} are taken")
}

/// What is copied of an operand, and of results in rows: some of them since their rows end within what TMA stores write.
pub(super) fn copies_of(
    (name, operand, taken): (&str, Matrix, Taken),
    results: [(&str, Option<Matrix>, bool); 2],
    element_bytes: usize,
) -> Vec<String> {
    let mut copies = Vec::new();
    if let Taken::Copied(to, _) = taken {
        copies.push(copied(name, operand, to.strides[0]));
    }
    for (name, matrix, ends_early) in results {
        let is_copied = |matrix: &Matrix| matrix.in_rows(element_bytes).is_none() || ends_early;
        if let Some(matrix) = matrix.filter(is_copied) {
            let to = Matrix::padded(matrix, element_bytes);
            copies.push(copied(name, matrix, to.strides[0]));
        }
    }
    copies
}
