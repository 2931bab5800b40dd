//! What a case expects of its outputs.

use std::sync::Arc;

use super::compare::{Agreement, compare};
use super::{Case, CaseResult, Mode, Output, Shape, Tolerance};
use crate::element::DeviceElement;
use crate::error::{Error, Result};
use crate::number::Reference;

impl Case {
    /// Compares every element of `output` with `want([i, j, ..])`.
    ///
    /// # Errors
    /// [`Error::WrongResult`] with the first and the worst wrong elements.
    pub fn expect<T: DeviceElement, R: Reference, const N: usize>(
        &mut self,
        output: &Output<T>,
        want: impl Fn([usize; N]) -> R + Sync,
        tolerance: Tolerance,
    ) -> CaseResult {
        let Some(got) = self.fetch(output)? else {
            return Ok(());
        };
        let agreement = compare(output.name(), output.extents(), &got, want, tolerance)?;
        self.agree(agreement);
        Ok(())
    }

    /// Compares every element of `output` with a reference for the whole of it, in memory order. `want` is called only
    /// if there is something to compare.
    ///
    /// # Errors
    /// [`Error::WrongResult`] with the first and the worst wrong elements.
    ///
    /// # Panics
    /// If the reference is not as long as the output: that is a mistake in the case.
    #[track_caller]
    pub fn expect_all<T: DeviceElement, R: Reference + Sync + 'static>(
        &mut self,
        output: &Output<T>,
        want: impl FnOnce() -> Vec<R>,
        tolerance: Tolerance,
    ) -> CaseResult {
        let Some(got) = self.fetch(output)? else {
            return Ok(());
        };
        let want = self.reference(want);
        self.compare_flat(output.name(), output.extents(), &got, &want, tolerance)
    }

    /// Compares the elements of `output` whose index lies below `part` in every dimension with a reference for them, in
    /// row-major order; all others must be as they were before the launch.
    ///
    /// # Errors
    /// [`Error::WrongResult`] with the first and the worst wrong elements, or [`Error::WrittenOutside`].
    ///
    /// # Panics
    /// If the reference is not as long as the part: that is a mistake in the case.
    #[track_caller]
    pub fn expect_part<T: DeviceElement, R: Reference + Sync + 'static, const N: usize>(
        &mut self,
        output: &Output<T>,
        part: [usize; N],
        want: impl FnOnce() -> Vec<R>,
        tolerance: Tolerance,
    ) -> CaseResult {
        self.compare_part(output, part, 1, want, tolerance)
    }

    /// The same for an output that TMA stores write: they store rows in whole units of
    /// [`unit_bytes`](target::TensorMapLimits::unit_bytes), so that elements between the end of a row of the part and the next multiple
    /// of that may have any value. All others outside of the part must be unchanged.
    ///
    /// # Errors
    /// [`Error::WrongResult`] with the first and the worst wrong elements, or [`Error::WrittenOutside`].
    ///
    /// # Panics
    /// If the reference is not as long as the part: that is a mistake in the case.
    #[track_caller]
    pub fn expect_part_in_units<T: DeviceElement, R: Reference + Sync + 'static, const N: usize>(
        &mut self,
        output: &Output<T>,
        part: [usize; N],
        want: impl FnOnce() -> Vec<R>,
        tolerance: Tolerance,
    ) -> CaseResult {
        let unit = 16 / size_of::<T>().clamp(1, 16);
        self.compare_part(output, part, unit, want, tolerance)
    }

    /// Compares a part whose rows are written in whole units of `unit` elements.
    #[track_caller]
    fn compare_part<T: DeviceElement, R: Reference + Sync + 'static, const N: usize>(
        &mut self,
        output: &Output<T>,
        part: [usize; N],
        unit: usize,
        want: impl FnOnce() -> Vec<R>,
        tolerance: Tolerance,
    ) -> CaseResult {
        let Some(got) = self.fetch(output)? else {
            return Ok(());
        };
        let inside = elements_of_part(output, got, &part, unit)?;
        let shape = Shape::from(part);
        let want = self.reference(want);
        self.compare_flat(output.name(), &shape, &inside, &want, tolerance)
    }

    /// Compares elements with a reference for all of them, in memory order.
    #[track_caller]
    fn compare_flat<T: DeviceElement, R: Reference + Sync + 'static>(
        &mut self,
        output: &str,
        shape: &Shape,
        got: &[T],
        want: &[R],
        tolerance: Tolerance,
    ) -> CaseResult {
        let (wanted, there) = (want.len(), got.len());
        assert_eq!(
            wanted, there,
            "the reference of `{output}` is as long as what it is for"
        );
        let flat = Shape::from([there]);
        let compared = compare(output, &flat, got, |[place]| want[place], tolerance);
        let agreement = compared.map_err(|mut mismatch| {
            mismatch.reshape(shape);
            mismatch
        })?;
        self.agree(agreement);
        Ok(())
    }

    /// The elements of an output, if this run compares it; a run that times does so here. What is known to be right is
    /// not compared again.
    fn fetch<T: DeviceElement>(&mut self, output: &Output<T>) -> Result<Option<Vec<T>>> {
        let bed = match &self.mode {
            Mode::Check(bed)
            | Mode::Ready {
                bed,
                is_checked: false,
                ..
            } => bed,
            Mode::Bench(..) => return self.time_chain().map(|()| None),
            Mode::Describe | Mode::Launch(_) | Mode::Ready { .. } => return Ok(None),
        };
        let got = output.where_written(&bed.device)?.to_vec_with_poison()?;
        let Some(cache) = &bed.cache else {
            return Ok(Some(got));
        };
        let bytes = T::bytes_of(&got);
        if let Some(agreement) = cache.agreement(self.report.agreements.len(), bytes) {
            self.report.agreements.push(agreement);
            return Ok(None);
        }
        self.compared = Some(bytes.to_vec());
        Ok(Some(got))
    }

    /// The reference of the comparison at hand, from another candidate of the same run where there was one.
    fn reference<R: Send + Sync + 'static>(&self, want: impl FnOnce() -> Vec<R>) -> Arc<Vec<R>> {
        match &self.mode {
            Mode::Check(bed) | Mode::Ready { bed, .. } if self.pick.is_some() => match &bed.cache {
                Some(cache) => cache.reference(self.report.agreements.len(), want),
                None => Arc::new(want()),
            },
            _ => Arc::new(want()),
        }
    }

    /// The comparison at hand ended well.
    fn agree(&mut self, agreement: Agreement) {
        let bytes = self.compared.take();
        let cache = self.bed().and_then(|bed| bed.cache.as_ref());
        if let Some((cache, bytes)) = cache.zip(bytes) {
            cache.note(self.report.agreements.len(), bytes, agreement.clone());
        }
        self.report.agreements.push(agreement);
    }
}

/// The elements whose index lies below `part` in every dimension, if no other was written.
fn elements_of_part<T: DeviceElement>(
    output: &Output<T>,
    got: Vec<T>,
    part: &[usize],
    unit: usize,
) -> Result<Vec<T>> {
    let shape = output.extents();
    let (Some(&row), Some((&columns, outer))) = (shape.extents().last(), part.split_last()) else {
        return Ok(got);
    };
    let mut inside = Vec::with_capacity(part.iter().product());
    // Row by row, because an index for every element takes longer than everything else.
    for (at, elements) in got.chunks(row.max(1)).enumerate() {
        let first = at * row;
        let index = shape.index(first);
        let is_inside = index.iter().zip(outer).all(|(at, end)| at < end);
        let (kept, rest) = elements.split_at(if is_inside { columns.min(row) } else { 0 });
        inside.extend_from_slice(kept);
        // The rest of the last unit goes with it.
        let free = (kept.len().next_multiple_of(unit) - kept.len()).min(rest.len());
        let written = rest[free..].iter().position(|element| !element.is_poison());
        if let Some(written) = written {
            return Err(Error::WrittenOutside {
                output: output.name().to_string(),
                index: shape.index(first + kept.len() + free + written).to_vec(),
            });
        }
    }
    Ok(inside)
}
