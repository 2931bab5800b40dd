//! Unified memory: its pages move to who uses them, the host or the device.

use crate::advice::{Advice, Near};
use crate::backend::{Backend, On};
use crate::buffer::Buffer;
use crate::cuda::Context;
use crate::element::DeviceElement;
use crate::emulated::EmulatedDevice;
use crate::error::{Error, Result};
use crate::stream::Stream;

impl<T: DeviceElement> Buffer<T> {
    /// Says how a [unified](Buffer::unified) buffer will be used. The emulator, whose memory is one, does nothing.
    ///
    /// # Errors
    /// [`Error::NotUnified`], or what the driver refuses.
    pub fn advise(&self, advice: Advice) -> Result<()> {
        self.check_unified()?;
        match self.memory() {
            On::Cuda(memory) => Context::advise(memory, advice),
            On::Emulator(memory) => EmulatedDevice::advise(memory, advice),
        }
    }

    fn check_unified(&self) -> Result<()> {
        if self.is_unified() {
            Ok(())
        } else {
            Err(Error::NotUnified)
        }
    }
}

impl Stream {
    /// Moves the pages of a [unified](Buffer::unified) buffer, after the work before it and before the work behind it, so that who uses them next
    /// does not wait for one after the other. The emulator, whose memory is one, does nothing.
    ///
    /// # Errors
    /// [`Error::NotUnified`], a buffer of another device, or what the driver refuses.
    pub fn prefetch<T: DeviceElement>(&self, buffer: &Buffer<T>, near: Near) -> Result<()> {
        buffer.check_unified()?;
        buffer.note_use();
        match self.with("a buffer", buffer.device(), buffer.memory())? {
            On::Cuda((stream, memory)) => Context::prefetch(stream, memory, near),
            On::Emulator((stream, memory)) => EmulatedDevice::prefetch(stream, memory, near),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Device, devices};

    #[test]
    fn unified_memory_is_moved_and_keeps_its_elements() {
        for device in devices() {
            let stream = Stream::new(&device).unwrap();
            let buffer = Buffer::<i32>::unified(&device, 3).unwrap();
            buffer.write(&[1, 2, 3]).unwrap();
            for advice in [
                Advice::ReadMostly,
                Advice::Prefer(Near::Device),
                Advice::AccessedBy(Near::Host),
            ] {
                buffer.advise(advice).unwrap();
            }
            stream.prefetch(&buffer, Near::Device).unwrap();
            stream.prefetch(&buffer, Near::Host).unwrap();
            stream.synchronize().unwrap();
            assert_eq!(buffer.to_vec().unwrap(), [1, 2, 3]);
            let empty = Buffer::<i32>::unified(&device, 0).unwrap();
            stream.prefetch(&empty, Near::Device).unwrap();
        }
    }

    #[test]
    fn memory_is_there_and_goes_in_the_order_of_a_stream() {
        for device in devices() {
            let stream = Stream::new(&device).unwrap();
            let source = Buffer::from_slice(&device, &[7i16, 8]).unwrap();
            for _ in 0..3 {
                let between = Buffer::<i16>::in_order(&stream, 2).unwrap();
                stream.copy(&source, &between).unwrap();
                let target = Buffer::<i16>::in_order(&stream, 2).unwrap();
                stream.copy(&between, &target).unwrap();
                drop(between);
                assert_eq!(target.to_vec().unwrap(), [7, 8]);
            }
            let last = Buffer::<i16>::in_order(&stream, 2).unwrap();
            drop(stream);
            drop(last);
        }
    }

    #[test]
    fn mistakes_are_named() {
        let device = Device::emulator();
        let stream = Stream::new(&device).unwrap();
        let plain = Buffer::<i32>::new(&device, 4).unwrap();
        let moved = stream.prefetch(&plain, Near::Device);
        assert!(matches!(moved, Err(Error::NotUnified)));
        let advised = plain.advise(Advice::ReadMostly);
        assert!(matches!(advised, Err(Error::NotUnified)));
        assert!(Error::NotUnified.to_string().contains("Buffer::unified"));
        let unified = Buffer::<i32>::unified(&Device::emulator(), 4).unwrap();
        let moved = stream.prefetch(&unified, Near::Device);
        assert!(matches!(moved, Err(Error::DeviceMismatch { .. })));
        let captured = stream.capture(|| Buffer::<i32>::in_order(&stream, 4).map(|_| ()));
        assert!(matches!(captured, Err(Error::Capturing { .. })));
    }
}
