//! All-to-all of rows as a program calls it.

use tilekit::Buffer;
use tilekit::prelude::*;

use super::call::{Collectives, Reduced};
use super::check::{OfRanks, Report};
use super::error::Result;
use super::exchange::Exchange;
use super::form::Form;
use super::plan::{MOST_CTAS, Need, Operation};
use super::rows::all_to_all_rows;
use crate::handles::handles;

/// Which rows each rank sends to which one.
#[derive(Clone, Copy)]
pub struct Rows<'a> {
    /// On each rank `[ranks, ranks]` numbers of rows, the same on all: `[r, s]` of rank r to rank s.
    pub counts: &'a [&'a Buffer<i32>],
    /// Elements of a row.
    pub width: usize,
    /// The most rows of a pair of ranks: all ranks make as many steps as these take, and send no more than there is.
    pub most: usize,
}

/// The parameters of `all_to_all_rows`.
type RowsHandles<T> = handles! {
    x out: Ptr<T>,
    rows: Ptr<i32>,
    exchange: Exchange<T>,
    width most: Scalar<i64>,
    x_rows out_rows: Scalar<i32>,
};

impl Collectives {
    /// Each rank's rows for the others, whose numbers lie on the devices, so that a graph may repeat the call with other numbers. Of rank r, `x` has its rows for rank 0, then those for rank 1
    /// and so on; of rank s, `out` gets the rows of rank 0, then those of rank 1 and so on. What lies behind them is not written.
    ///
    /// Numbers that are above `rows.most` or do not fit the tensors end the launch with a trap, since only the device knows them.
    ///
    /// # Errors
    /// As for [`all_reduce`](Collectives::all_reduce).
    pub fn all_to_all_rows<T: Reduced>(
        &self,
        x: OfRanks<'_, T>,
        out: OfRanks<'_, T>,
        rows: &Rows<'_>,
    ) -> Result<()> {
        let [x_rows, out_rows] = self.check_rows([x, out], rows)?;
        let need = Need {
            operation: Operation::AllToAll,
            ranks: x.len(),
            len: rows.most * rows.width,
            element_bytes: size_of::<T>(),
            multiprocessors: self.multiprocessors(),
        };
        if need.len == 0 {
            return Ok(());
        }
        let form = Form {
            is_aligned: (rows.width * size_of::<T>()).is_multiple_of(16),
            ..need.form(16, 2)
        };
        let chunks = need.bytes().div_ceil(form.chunk_bytes());
        let ctas = chunks.clamp(1, MOST_CTAS.min(2 * need.multiprocessors));
        let compile = |form| fixed(all_to_all_rows::<T, 16>, form).compile(self.compiler());
        let kernel = self.kernel::<T, RowsHandles<T>>("all_to_all_rows", form, compile)?;
        let staging = self.staging::<T>()?;
        kernel.enqueue(self.world(), grid(ctas), |rank| {
            (
                x[rank],
                out[rank],
                rows.counts[rank],
                staging.of_rank(rank, self.limit_of(rank)),
                rows.width as i64,
                rows.most as i64,
                x_rows[rank],
                out_rows[rank],
            )
        })?;
        Ok(())
    }

    /// Rows of the tensors of each rank.
    fn check_rows<T: Reduced>(
        &self,
        [x, out]: [OfRanks<'_, T>; 2],
        rows: &Rows<'_>,
    ) -> Result<[Vec<i32>; 2]> {
        let report = Report("all_to_all_rows");
        let ranks = self.world().ranks();
        report.check_ranks(self.world(), "x", x)?;
        report.check_ranks(self.world(), "out", out)?;
        report.check_ranks(self.world(), "rows.counts", rows.counts)?;
        let square = (ranks * ranks, "a number for each pair of ranks");
        report.check_lengths("rows.counts", rows.counts, square)?;
        report.check_apart(x, out)?;
        let elements = rows.most.checked_mul(rows.width);
        let fits = elements.is_some_and(|elements| i32::try_from(elements).is_ok());
        report.unless(
            fits,
            "rows.most",
            || format!("{} rows of {} elements", rows.most, rows.width),
            || format!("at most {} elements from one rank to another", i32::MAX),
        )?;
        report.unless(
            rows.width > 0,
            "rows.width",
            || "0".to_owned(),
            || "elements of a row".to_owned(),
        )?;
        let whole = |argument, tensors: OfRanks<'_, T>| {
            let of_rank = |(rank, tensor): (usize, &&Buffer<T>)| {
                let (len, width) = (tensor.len(), rows.width);
                report.unless(
                    len.is_multiple_of(width) && i32::try_from(len / width).is_ok(),
                    argument,
                    || format!("{len} elements on rank {rank}"),
                    || format!("whole rows of {width}, fewer than 2^31"),
                )?;
                Ok((len / width) as i32)
            };
            let of_ranks = tensors.iter().enumerate().map(of_rank);
            of_ranks.collect::<Result<Vec<i32>>>()
        };
        Ok([whole("x", x)?, whole("out", out)?])
    }
}
