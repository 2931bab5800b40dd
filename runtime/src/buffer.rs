//! Typed memory on a device.

use std::marker::PhantomData;

use crate::cuda;
use crate::device::Device;
use crate::element::Element;
use crate::error::{Error, Result};

/// `len` elements of `T` on a device, freed when dropped.
///
/// What the host asks of a buffer ([`write`](Buffer::write), [`to_vec`](Buffer::to_vec), ...) waits for everything on
/// the device first and is complete on return, so it needs no thought about streams. For work in stream order there are
/// the methods of [`Stream`](crate::Stream).
pub struct Buffer<T> {
    device: Device,
    memory: Memory,
    len: usize,
    element: PhantomData<fn() -> T>,
}

/// Where the elements are.
pub(crate) enum Memory {
    Cuda(cuda::DeviceMemory),
}

impl<T: Element> Buffer<T> {
    /// `len` elements of undefined content.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] with the bytes asked for and free.
    pub fn new(device: &Device, len: usize) -> Result<Buffer<T>> {
        let bytes = len.saturating_mul(size_of::<T>());
        let memory = device.allocate(bytes)?;
        Ok(Buffer {
            device: device.clone(),
            memory,
            len,
            element: PhantomData,
        })
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
        match &self.memory {
            Memory::Cuda(memory) => Ok(memory.write(T::bytes_of(elements))?),
        }
    }

    /// Sets every byte.
    pub fn fill_bytes(&self, byte: u8) -> Result<()> {
        match &self.memory {
            Memory::Cuda(memory) => memory.fill_now(byte).map_err(Error::from),
        }
    }

    /// Copies the elements to the host.
    pub fn to_vec(&self) -> Result<Vec<T>> {
        T::collect(self.len, |room| match &self.memory {
            Memory::Cuda(memory) => memory.read(room).map_err(Error::from),
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
        match &self.memory {
            Memory::Cuda(memory) => memory.address(),
        }
    }

    /// The device that holds it.
    pub fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }
}
