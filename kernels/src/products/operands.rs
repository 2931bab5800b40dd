//! Matrices of a call as kernels take them: where they are, or copies in workspaces of the stream.

use std::any::TypeId;
use std::sync::Arc;

use tilekit::Buffer;
use tilekit::prelude::*;

use super::call::Products;
use super::check::{Taken, View};
use super::error::Result;
use super::factor::{FETCHED, Operand, Stored};
use super::kept_kernels::Which;
use super::matrix::Matrix;
use super::options::Options;
use super::pad_rows::{pad_rows, tiles};
use super::plan::MOST_ALONG_Y;
use super::repack::{TILE, repack};
use super::workspace::{Role, workspace, zeroed_workspace};
use crate::handles::handles;

/// The parameters of `pad_rows`.
type PadHandles<T> = handles! {
    x: Ptr<T>,
    x_pitch: Scalar<i64>,
    x_target: Ptr<T>,
    x_target_pitch: Scalar<i64>,
    x_rows x_columns: Scalar<i32>,
    y: Ptr<T>,
    y_pitch: Scalar<i64>,
    y_target: Ptr<T>,
    y_target_pitch: Scalar<i64>,
    y_rows y_columns tiles_of_x: Scalar<i32>,
};

/// A result in rows, and what is added to it if that is another matrix.
pub(super) type ResultAndSource<O> = (InRows<O>, Option<InRows<<O as Stored>::Addend>>);

/// A matrix in rows that begin anywhere, and its copy.
struct Padding<'a, T> {
    own: &'a Buffer<T>,
    copy: &'a Buffer<T>,
    /// Where it lies in each.
    places: [Matrix; 2],
}

impl<T: DeviceElement> Padding<'_, T> {
    fn source(&self) -> View<'_, T> {
        let [place, _] = self.places;
        let view = self.own.view(place.shape).with_strides(place.strides);
        view.with_offset(place.offset)
    }
}

impl Products {
    /// An operand as kernels take it: where it is, or a copy.
    pub(crate) fn factor<T: Operand>(
        &self,
        stream: &Stream,
        (role, source): (Role, &Buffer<T>),
        (matrix, taken): (Matrix, Taken),
    ) -> Result<InRows<T>> {
        let (place, from) = match taken {
            Taken::InPlace(place, _) => return Ok(InRows { copy: None, place }),
            Taken::Copied(place, _) => (place, Some((source, matrix))),
            Taken::Zeros(place) => (place, None),
        };
        let workspace = workspace::<T>(stream, role, place.room()[1])?;
        self.copy(stream, from, (&*workspace, place))?;
        Ok(InRows {
            copy: Some(workspace),
            place,
        })
    }

    /// Both operands as kernels take them. Those in rows that begin anywhere are copied by one launch.
    pub(super) fn both_factors<T: Operand>(
        &self,
        stream: &Stream,
        [x, y]: [(&Buffer<T>, Matrix, Taken); 2],
    ) -> Result<[InRows<T>; 2]> {
        let padded = |matrix: Matrix, taken: Taken| match taken {
            Taken::Copied(to, _) if !matrix.is_batched() => {
                matrix.in_any_rows().map(|from| [from, to])
            }
            _ => None,
        };
        let of = [padded(x.1, x.2), padded(y.1, y.2)];
        if of == [None; 2] {
            return Ok([
                self.factor(stream, (Role::X, x.0), (x.1, x.2))?,
                self.factor(stream, (Role::Y, y.0), (y.1, y.2))?,
            ]);
        }
        let of_one = |(own, matrix, taken), role, padded: Option<[Matrix; 2]>| match padded {
            None => self.factor(stream, (role, own), (matrix, taken)),
            Some([_, place]) => Ok(InRows {
                copy: Some(workspace::<T>(stream, role, place.room()[1])?),
                place,
            }),
        };
        let factors = [of_one(x, Role::X, of[0])?, of_one(y, Role::Y, of[1])?];
        let [to_x, to_y] = factors.each_ref().map(|factor| factor.copy.as_deref());
        let padding = |own, copy: Option<_>, places: Option<[Matrix; 2]>| Padding {
            own,
            copy: copy.unwrap_or(own),
            places: places.unwrap_or([Matrix::EMPTY; 2]),
        };
        let (x, y) = (padding(x.0, to_x, of[0]), padding(y.0, to_y, of[1]));
        self.pad(stream, &x, &y)?;
        Ok(factors)
    }

    /// Copies two matrices in rows by one launch; an empty one is none.
    fn pad<T: Operand>(
        &self,
        stream: &Stream,
        x: &Padding<'_, T>,
        y: &Padding<'_, T>,
    ) -> Result<()> {
        let key = (TypeId::of::<T>(), Which::Named("pad_rows".to_owned()));
        let compile = || pad_rows::<T>.compile(self.compiler());
        let load = || compile()?.load(self.device())?.programmatic();
        let kernel = self.loaded::<PadHandles<T>>(key, load)?;
        let [from_x, from_y] = [x.source(), y.source()];
        let tiles = [x, y].map(|padding| tiles(padding.places[0].shape));
        let pitches = |padding: &Padding<'_, T>| padding.places.map(|of| of.strides[0] as i64);
        let ([x_pitch, x_target], [y_pitch, y_target]) = (pitches(x), pitches(y));
        let extents = |padding: &Padding<'_, T>| padding.places[0].shape.map(|of| of as i32);
        let ([x_rows, x_columns], [y_rows, y_columns]) = (extents(x), extents(y));
        let arguments = (
            &from_x,
            x_pitch,
            x.copy,
            x_target,
            x_rows,
            x_columns,
            &from_y,
            y_pitch,
            y.copy,
            y_target,
            y_rows,
            y_columns,
            tiles[0] as i32,
        );
        kernel.launch(stream, [tiles[0] + tiles[1], 1, 1], arguments)?;
        Ok(())
    }

    /// What is added to the result, in rows, where that is another matrix; else the result as it was is read, and is copied to where the result is computed.
    pub(super) fn source<O: Stored>(
        &self,
        stream: &Stream,
        (c, options): (&Buffer<O>, &Options<'_, O>),
        (own, source): (Matrix, Option<Matrix>),
        result: &InRows<O>,
    ) -> Result<Option<InRows<O::Addend>>> {
        if let (Some(view), Some(matrix)) = (options.source, source) {
            let placed = self.placed(stream, (Role::Source, view.source()), matrix, true);
            return placed.map(Some);
        }
        if let Some(workspace) = result.copy.as_ref().filter(|_| options.has_source()) {
            let from = Some((c, own));
            self.copy(stream, from, (&**workspace, result.place))?;
        }
        Ok(None)
    }

    /// A matrix of results in rows: where it is, or in a workspace, which it is copied to if it is read.
    pub(crate) fn placed<O: Stored>(
        &self,
        stream: &Stream,
        (role, buffer): (Role, &Buffer<O>),
        matrix: Matrix,
        is_read: bool,
    ) -> Result<InRows<O>> {
        match matrix.in_rows(size_of::<O>()) {
            Some(place) => Ok(InRows { copy: None, place }),
            None => self.apart(stream, (role, buffer), matrix, is_read),
        }
    }

    /// A matrix of results in a workspace, which it is copied to if it is read.
    pub(crate) fn apart<O: Stored>(
        &self,
        stream: &Stream,
        (role, buffer): (Role, &Buffer<O>),
        matrix: Matrix,
        is_read: bool,
    ) -> Result<InRows<O>> {
        let place = Matrix::padded(matrix, size_of::<O>());
        let workspace = workspace::<O>(stream, role, place.room()[1])?;
        if is_read {
            self.copy(stream, Some((buffer, matrix)), (&*workspace, place))?;
        }
        Ok(InRows {
            copy: Some(workspace),
            place,
        })
    }

    /// A matrix in a workspace that has more rows, of which nothing is known; it is copied there if it is read. Nothing along K counts as one zero.
    pub(crate) fn longer<O: Stored>(
        &self,
        stream: &Stream,
        (role, buffer): (Role, &Buffer<O>),
        matrix: Matrix,
        (rows, is_read): (usize, bool),
    ) -> Result<InRows<O>> {
        let [own_rows, columns] = matrix.shape;
        let is_there = columns > 0;
        let place = Matrix::padded(
            Matrix {
                shape: [rows, columns.max(1)],
                ..matrix
            },
            size_of::<O>(),
        );
        let workspace = zeroed_workspace::<O>(stream, role, place.room()[1])?;
        if is_read {
            let own = Matrix {
                shape: [own_rows, columns.max(1)],
                ..place
            };
            let from = is_there.then_some((buffer, matrix));
            self.copy(stream, from, (&*workspace, own))?;
        }
        Ok(InRows {
            copy: Some(workspace),
            place,
        })
    }

    /// The result and what is added to it, in rows; the result apart if its rows end within what TMA stores write.
    pub(super) fn stored<O: Stored>(
        &self,
        stream: &Stream,
        (c, options): (&Buffer<O>, &Options<'_, O>),
        (own, source): (Matrix, Option<Matrix>),
        ends_early: bool,
    ) -> Result<ResultAndSource<O>> {
        let result = if ends_early {
            self.apart(stream, (Role::Result, c), own, false)?
        } else {
            self.placed(stream, (Role::Result, c), own, false)?
        };
        let source = self.source(stream, (c, options), (own, source), &result)?;
        Ok((result, source))
    }

    /// Copies a result from a workspace to where it belongs.
    pub(crate) fn copy_back<O: Stored>(
        &self,
        stream: &Stream,
        result: &InRows<O>,
        own: (&Buffer<O>, Matrix),
    ) -> Result<()> {
        match &result.copy {
            None => Ok(()),
            Some(workspace) => self.copy(stream, Some((&**workspace, result.place)), own),
        }
    }

    /// Copies matrices, or zeros where there are none.
    pub(super) fn copy<T: Stored>(
        &self,
        stream: &Stream,
        source: Option<(&Buffer<T>, Matrix)>,
        (target, to): (&Buffer<T>, Matrix),
    ) -> Result<()> {
        let is_there = i32::from(source.is_some());
        let (source, from) = source.unwrap_or((target, to));
        // A grid has fewer CTAs along y than along x.
        let (from, to) = if to.shape[1].div_ceil(TILE) > MOST_ALONG_Y {
            (from.transposed(), to.transposed())
        } else {
            (from, to)
        };
        let which = Which::Repack(from.along(), to.along());
        let compile = || match (from.along(), to.along()) {
            (0, 0) => repack::<T, 0, 0>.compile(self.compiler()),
            (0, _) => repack::<T, 0, 1>.compile(self.compiler()),
            (_, 0) => repack::<T, 1, 0>.compile(self.compiler()),
            _ => repack::<T, 1, 1>.compile(self.compiler()),
        };
        let load = || compile()?.load(self.device())?.programmatic();
        let kernel = self.loaded((TypeId::of::<T>(), which), load)?;
        let [rows, columns] = to.shape;
        let [from_row, from_column] = from.strides.map(|stride| stride as i64);
        let [to_row, to_column] = to.strides.map(|stride| stride as i64);
        let steps = [from, to].map(|matrix| matrix.step_of_batch());
        // Groups may be more than a grid has CTAs along z.
        for first in (0..to.batches[0]).step_by(MOST_ALONG_Y) {
            let count = MOST_ALONG_Y.min(to.batches[0] - first);
            kernel.launch(
                stream,
                [rows.div_ceil(TILE), columns.div_ceil(TILE), count],
                (
                    source,
                    (from.offset + first * steps[0]) as i64,
                    from_row,
                    from_column,
                    steps[0] as i64,
                    target,
                    (to.offset + first * steps[1]) as i64,
                    to_row,
                    to_column,
                    steps[1] as i64,
                    rows as i32,
                    columns as i32,
                    is_there,
                ),
            )?;
        }
        Ok(())
    }
}

/// A matrix whose rows a tensor map takes.
pub(crate) struct InRows<T> {
    copy: Option<Arc<Buffer<T>>>,
    pub(crate) place: Matrix,
}

impl<T> Clone for InRows<T> {
    fn clone(&self) -> Self {
        InRows {
            copy: self.copy.clone(),
            place: self.place,
        }
    }
}

/// What a kernel reads as what is added to the result; nothing where there is none and the result is of another type.
pub(super) fn added<'a, O: Stored>(
    (source, options): (&'a Option<InRows<O::Addend>>, &Options<'a, O>),
    (result, c): (&'a InRows<O>, &'a Buffer<O>),
    nothing: &'a Buffer<O::Addend>,
) -> (View<'a, O::Addend>, Matrix) {
    if let (Some(source), Some(own)) = (source, options.source) {
        return (source.view(own.source()), source.place);
    }
    let of_result = O::addends(result.copy.as_deref().unwrap_or(c));
    let (buffer, place) = match of_result {
        Some(buffer) => (buffer, result.place),
        None => (nothing, Matrix::EMPTY),
    };
    (view_of(buffer, place), place)
}

/// What stands for what is added to results of another type, if nothing is; none where that is the result itself.
pub(super) fn no_addends<O: Stored>(stream: &Stream) -> Result<Option<Arc<Buffer<O::Addend>>>> {
    if O::DTYPE == O::Addend::DTYPE {
        return Ok(None);
    }
    Ok(Some(workspace::<O::Addend>(stream, Role::Nothing, 1)?))
}

/// A matrix in rows, or all of a batch.
fn view_of<T: DeviceElement>(buffer: &Buffer<T>, place: Matrix) -> View<'_, T> {
    if place.is_batched() {
        return view_of_all(buffer, place);
    }
    let view = buffer.view(place.shape).with_strides(place.strides);
    view.with_offset(place.offset)
}

/// All matrices of a batch, be it one.
fn view_of_all<T: DeviceElement>(buffer: &Buffer<T>, place: Matrix) -> View<'_, T> {
    let ([rows, columns], [row, column]) = (place.shape, place.strides);
    // The stride of a single matrix is anything that a tensor map takes.
    let [batches, batch] = if place.is_batched() {
        place.batches
    } else {
        [1, rows * row]
    };
    let view = buffer.view([batches, rows, columns]);
    view.with_strides([batch, row, column])
        .with_offset(place.offset)
}

impl<T: DeviceElement> InRows<T> {
    pub(crate) fn view<'a>(&'a self, own: &'a Buffer<T>) -> View<'a, T> {
        view_of(self.copy.as_deref().unwrap_or(own), self.place)
    }

    /// The same for a tensor map of an operand of a product.
    pub(super) fn mapped<'a>(&'a self, own: &'a Buffer<T>) -> View<'a, T> {
        self.view(own).with_l2_promotion(FETCHED)
    }

    /// All matrices of a batch, be it one.
    pub(super) fn view_of_all<'a>(&'a self, own: &'a Buffer<T>) -> View<'a, T> {
        view_of_all(self.copy.as_deref().unwrap_or(own), self.place)
    }
}
