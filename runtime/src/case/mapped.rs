//! Memory that the host of a case and its kernel access at the same time.

use std::sync::OnceLock;

use gluon_lang::lang::Ptr;

use crate::element::DeviceElement;
use crate::error::Result;
use crate::kernel::{Argument, Packing};
use crate::mapped::MappedBuffer;

/// A [`MappedBuffer`] of a case, which is made when a launch first uses it. It begins with zeros.
pub struct Mapped<T> {
    len: usize,
    buffer: OnceLock<MappedBuffer<T>>,
}

impl<T: DeviceElement> Mapped<T> {
    pub(super) fn new(len: usize) -> Mapped<T> {
        Mapped {
            len,
            buffer: OnceLock::new(),
        }
    }

    /// The buffer, for the host beside a launch.
    ///
    /// # Panics
    /// Before a launch has used it: that is a mistake in the case.
    #[track_caller]
    pub fn buffer(&self) -> &MappedBuffer<T> {
        let buffer = self.buffer.get();
        buffer.expect(
            "a mapped buffer of a case is an argument of the launch that the host goes on beside",
        )
    }
}

impl<T: DeviceElement> Argument<Ptr<T>> for &Mapped<T> {
    fn pack(&self, packing: &mut Packing<'_>) -> Result<()> {
        if self.buffer.get().is_none() {
            let made = MappedBuffer::zeros(packing.device(), self.len)?;
            // Only this thread packs the case's launches, so that no other one was made meanwhile.
            let _ = self.buffer.set(made);
        }
        Argument::<Ptr<T>>::pack(&self.buffer(), packing)
    }
}
