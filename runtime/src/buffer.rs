//! Typed memory on a device.

use std::marker::PhantomData;
use std::sync::Arc;

use crate::backend::{AnyMemory, Backend, On};
use crate::device::Device;
use crate::element::DeviceElement;
use crate::error::{Error, Result};
use crate::kept;
use crate::stream::Stream;

/// `len` elements of `T` on a device, freed when dropped.
///
/// What the host asks of a buffer ([`write`](Buffer::write), [`to_vec`](Buffer::to_vec), ...) waits for everything on
/// the device first and is complete on return, so it needs no thought about streams. For work in stream order there are
/// the methods of [`Stream`](crate::Stream).
pub struct Buffer<T> {
    device: Device,
    /// Graphs that use it keep it too.
    memory: Arc<AnyMemory>,
    len: usize,
    is_unified: bool,
    element: PhantomData<fn() -> T>,
}

impl<T: DeviceElement> Buffer<T> {
    /// `len` elements of undefined content.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] with the bytes requested and free.
    pub fn new(device: &Device, len: usize) -> Result<Buffer<T>> {
        let memory = device.allocate(Self::bytes_of(len))?;
        Ok(Buffer::of_memory(device, memory, len))
    }

    /// `len` elements of undefined content in unified memory, whose pages move to who uses them: there may be more of it than the device has.
    /// [`Stream::prefetch`](crate::Stream::prefetch) moves them ahead of their use, and [`advise`](Buffer::advise) says what that is.
    ///
    /// ```
    /// # use tilekit::prelude::*;
    /// use tilekit::{Advice, Near};
    /// # fn main() -> tilekit::Result<()> {
    /// # let device = Device::emulator();
    /// let stream = Stream::new(&device)?;
    /// let weights = Buffer::<f32>::unified(&device, 1024)?;
    /// weights.write(&[0.5; 1024])?;
    /// weights.advise(Advice::ReadMostly)?;
    /// stream.prefetch(&weights, Near::Device)?;
    /// # stream.synchronize()
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`Buffer::new`].
    pub fn unified(device: &Device, len: usize) -> Result<Buffer<T>> {
        let bytes = Self::bytes_of(len);
        let memory = match device.backend() {
            On::Cuda(context) => On::Cuda(context.allocate_unified(bytes)?),
            On::Emulator(emulator) => On::Emulator(emulator.allocate_unified(bytes)?),
        };
        let mut buffer = Buffer::of_memory(device, memory, len);
        buffer.is_unified = true;
        Ok(buffer)
    }

    /// `len` elements of undefined content for work behind this on `stream`, from a pool that the device keeps: neither this nor the drop, which
    /// frees the memory behind what the stream was given until then, waits for the device. Another stream waits for an event before it uses the buffer, and `stream`
    /// for that one's before the drop: the memory may be given to the next allocation at once.
    ///
    /// ```
    /// # use tilekit::prelude::*;
    /// # fn main() -> tilekit::Result<()> {
    /// # let device = Device::emulator();
    /// let stream = Stream::new(&device)?;
    /// for _ in 0..100 {
    ///     let scratch = Buffer::<f32>::in_order(&stream, 1024)?;
    ///     stream.fill_bytes(&scratch, 0)?;
    /// }
    /// stream.synchronize()
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`Buffer::new`], and [`Error::Capturing`] while the stream is captured.
    pub fn in_order(stream: &Stream, len: usize) -> Result<Buffer<T>> {
        let (device, bytes) = (stream.device(), Self::bytes_of(len));
        let memory = match (device.backend(), stream.queue()) {
            (On::Cuda(context), On::Cuda(stream)) => {
                On::Cuda(context.allocate_in_order(stream, bytes)?)
            }
            (On::Emulator(emulator), On::Emulator(stream)) => {
                On::Emulator(emulator.allocate_in_order(stream, bytes)?)
            }
            _ => unreachable!("a stream is of the backend of its device"),
        };
        Ok(Buffer::of_memory(device, memory, len))
    }

    fn bytes_of(len: usize) -> usize {
        len.saturating_mul(size_of::<T>())
    }

    pub(crate) fn of_memory(device: &Device, memory: AnyMemory, len: usize) -> Buffer<T> {
        Buffer {
            device: device.clone(),
            memory: Arc::new(memory),
            len,
            is_unified: false,
            element: PhantomData,
        }
    }

    /// A copy of `elements`.
    ///
    /// # Errors
    /// As for [`Buffer::new`].
    pub fn from_slice(device: &Device, elements: &[T]) -> Result<Buffer<T>> {
        let buffer = Buffer::new(device, elements.len())?;
        buffer.write(elements)?;
        Ok(buffer)
    }

    /// `len` elements whose every byte is 0.
    ///
    /// # Errors
    /// As for [`Buffer::new`].
    pub fn zeros(device: &Device, len: usize) -> Result<Buffer<T>> {
        let buffer = Buffer::new(device, len)?;
        buffer.fill_bytes(0)?;
        Ok(buffer)
    }

    /// Overwrites all elements.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] unless `elements` is as long as the buffer.
    pub fn write(&self, elements: &[T]) -> Result<()> {
        if elements.len() != self.len {
            return Err(Error::LengthMismatch {
                buffer: self.len,
                host: elements.len(),
            });
        }
        match &*self.memory {
            On::Cuda(memory) => Ok(memory.write(T::bytes_of(elements))?),
            On::Emulator(memory) => memory.write(T::bytes_of(elements)),
        }
    }

    /// Sets every byte.
    pub fn fill_bytes(&self, byte: u8) -> Result<()> {
        match &*self.memory {
            On::Cuda(memory) => memory.fill_now(byte).map_err(Error::from),
            On::Emulator(memory) => memory.fill(byte),
        }
    }

    /// Prepares a buffer whose unwritten elements are to be found by [`to_vec_with_poison`](Buffer::to_vec_with_poison).
    ///
    /// The emulator knows which bytes were written, so nothing is done there: a kernel that reads one faults.
    pub(crate) fn poison(&self) -> Result<()> {
        match &*self.memory {
            On::Cuda(memory) => Ok(memory.fill_now(T::POISON)?),
            On::Emulator(_) => Ok(()),
        }
    }

    /// The same for a buffer that was written before: what was written counts no more.
    pub(crate) fn forget(&self) -> Result<()> {
        match &*self.memory {
            On::Cuda(memory) => Ok(memory.fill_now(T::POISON)?),
            On::Emulator(memory) => memory.fill(T::POISON),
        }
    }

    /// Copies the elements to the host, with poison for those that were never written.
    pub(crate) fn to_vec_with_poison(&self) -> Result<Vec<T>> {
        if let On::Emulator(memory) = &*self.memory {
            memory.mark_unwritten(size_of::<T>(), T::POISON);
        }
        self.to_vec()
    }

    /// Copies the elements to the host.
    pub fn to_vec(&self) -> Result<Vec<T>> {
        T::collect(self.len, |room| match &*self.memory {
            On::Cuda(memory) => memory.read(room).map_err(Error::from),
            On::Emulator(memory) => memory.read(room),
        })
    }
}

impl<T> Buffer<T> {
    /// How many elements it holds.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.len * size_of::<T>()
    }

    /// The address that kernels see.
    pub fn address(&self) -> u64 {
        match &*self.memory {
            On::Cuda(memory) => memory.address(),
            On::Emulator(memory) => memory.address(),
        }
    }

    /// The device that holds it.
    pub fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) fn is_unified(&self) -> bool {
        self.is_unified
    }

    pub(crate) fn memory(&self) -> &AnyMemory {
        &self.memory
    }

    /// Says that work uses it: a graph that is captured now keeps its memory.
    #[inline]
    pub(crate) fn note_use(&self) {
        kept::note(|| Arc::clone(&self.memory) as kept::Kept);
    }
}

#[cfg(test)]
mod tests {
    use half::bf16;

    use super::*;
    use crate::device::devices;

    #[test]
    fn what_is_written_is_read_and_fills_reach_every_byte() {
        for device in devices() {
            let buffer = Buffer::from_slice(&device, &[1.5f32, -2.0, 3.25]).unwrap();
            assert_eq!(buffer.to_vec().unwrap(), [1.5, -2.0, 3.25]);
            assert_eq!((buffer.len(), buffer.bytes()), (3, 12));
            buffer.fill_bytes(0x3f).unwrap();
            assert_eq!(buffer.to_vec().unwrap(), [f32::from_bits(0x3f3f_3f3f); 3]);
            assert_eq!(
                Buffer::<u64>::zeros(&device, 2).unwrap().to_vec().unwrap(),
                [0, 0]
            );
        }
    }

    #[test]
    fn an_empty_buffer_is_a_buffer() {
        for device in devices() {
            let buffer = Buffer::<bf16>::from_slice(&device, &[]).unwrap();
            assert!(buffer.is_empty() && buffer.to_vec().unwrap().is_empty());
            buffer.fill_bytes(1).unwrap();
            buffer.poison().unwrap();
            assert!(buffer.to_vec_with_poison().unwrap().is_empty());
        }
    }

    #[test]
    fn a_stream_copies_and_fills_in_order() {
        for device in devices() {
            let stream = Stream::new(&device).unwrap();
            let source = Buffer::from_slice(&device, &[1i16, 2, 3]).unwrap();
            let target = Buffer::<i16>::new(&device, 3).unwrap();
            stream.copy(&source, &target).unwrap();
            stream.fill_bytes(&source, 0xff).unwrap();
            stream.synchronize().unwrap();
            assert_eq!(target.to_vec().unwrap(), [1, 2, 3]);
            assert_eq!(source.to_vec().unwrap(), [-1, -1, -1]);
            let (start, end) = (stream.record().unwrap(), stream.record().unwrap());
            assert!(end.milliseconds_since(&start).unwrap() >= 0.0);
        }
    }

    #[test]
    fn elements_that_nothing_wrote_come_back_as_poison() {
        for device in devices() {
            let buffer = Buffer::<f32>::new(&device, 4).unwrap();
            buffer.poison().unwrap();
            assert!(
                buffer
                    .to_vec_with_poison()
                    .unwrap()
                    .iter()
                    .all(|x| x.to_bits() == u32::MAX)
            );
            buffer.write(&[0.0; 4]).unwrap();
            assert_eq!(buffer.to_vec_with_poison().unwrap(), [0.0; 4]);
        }
    }

    #[test]
    fn mistakes_are_named() {
        let device = Device::emulator();
        let buffer = Buffer::<i32>::new(&device, 4).unwrap();
        assert!(matches!(
            buffer.write(&[1, 2]),
            Err(Error::LengthMismatch { buffer: 4, host: 2 })
        ));
        assert!(matches!(
            Buffer::<f64>::new(&device, usize::MAX),
            Err(Error::OutOfMemory { .. })
        ));
        let stream = Stream::new(&Device::emulator()).unwrap();
        assert!(matches!(
            stream.fill_bytes(&buffer, 0),
            Err(Error::DeviceMismatch { .. })
        ));
    }
}
