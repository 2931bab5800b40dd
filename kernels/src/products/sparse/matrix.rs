//! Compressed matrices on a device.

use tilekit::Buffer;

use super::compressed::check_shape;
use super::layout::{kept_pitch, numbers};
use super::{HostSparse, SparseOperand};
use crate::products::error::{Result, expect};

/// A matrix `[M, K]` of which two of four neighbours in a row are kept, on a device. [`Products::compress`](crate::products::Products::compress) makes it of a dense one there,
/// [`HostSparse::on`] of one of the host, and [`SparseMatrix::new`] takes what was compressed before.
pub struct SparseMatrix<T> {
    kept: Buffer<T>,
    places: Buffer<u16>,
    shape: [usize; 2],
}

impl<T: SparseOperand> SparseMatrix<T> {
    /// What was compressed before, as [`layout`](super::layout) says.
    ///
    /// # Errors
    /// [`Error::Argument`](crate::products::Error::Argument) if there are not as many elements and numbers as the layout has.
    pub fn new(kept: Buffer<T>, places: Buffer<u16>, shape: [usize; 2]) -> Result<Self> {
        check_shape("shape", shape)?;
        let [m, k] = shape;
        let counts = [
            ("kept", kept.len(), m * kept_pitch::<T>(k)),
            ("places", places.len(), numbers::<T>(shape)),
        ];
        for (name, found, wanted) in counts {
            expect(
                found == wanted,
                name,
                || format!("{found} numbers"),
                format!("{wanted}: those of {m} rows of {k} elements, as `layout` counts them"),
            )?;
        }
        Ok(SparseMatrix {
            kept,
            places,
            shape,
        })
    }

    /// Copies it to the host, once all launches before have ended.
    ///
    /// # Errors
    /// What the device has against it.
    pub fn to_host(&self) -> Result<HostSparse<T>> {
        Ok(HostSparse {
            kept: self.kept.to_vec()?,
            places: self.places.to_vec()?,
            shape: self.shape,
        })
    }
}

impl<T> SparseMatrix<T> {
    /// M and K.
    pub fn shape(&self) -> [usize; 2] {
        self.shape
    }

    /// The kept elements.
    pub fn kept(&self) -> &Buffer<T> {
        &self.kept
    }

    /// Where they were.
    pub fn places(&self) -> &Buffer<u16> {
        &self.places
    }
}
