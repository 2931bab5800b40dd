//! What is added to a product whose rows or terms lie on several GPUs.

use tilekit::prelude::*;

use crate::products::epilogue::Data;
use crate::products::factor::{Stored, unit};

/// A source of the shape of the result and a bias of N; what an epilogue does not add is any memory, which nothing reads.
#[derive(Clone, Copy, Aggregate, KernelParam)]
pub struct Added<T> {
    pub(super) source: Ptr<T>,
    /// Elements from one row of the source to the next.
    #[multiple_of(unit::<T>())]
    pub(super) source_pitch: Scalar<i32>,
    pub(super) bias: Ptr<T>,
}

impl<T: Stored<Addend = T>> Added<T> {
    /// As epilogues take it, with so many rows from the source of one product to that of the next.
    #[device]
    pub(super) fn data(self, rows: Scalar<i64>) -> Data<T> {
        let pitch = self.source_pitch;
        Data::of_sum((self.source, pitch, rows * pitch.cast::<i64>()), self.bias)
    }
}
