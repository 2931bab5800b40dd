//! Memory that the host and a running kernel both access.

use std::marker::PhantomData;
use std::ops::Range;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::{AnyMapped, On};
use crate::device::Device;
use crate::element::DeviceElement;
use crate::error::{Error, Result};
use crate::kept;
use crate::stream::Stream;

/// `len` elements of `T` in memory of the host, page-locked and mapped, so that kernels access them while the host does.
///
/// It is passed for a `Ptr<T>` like a [`Buffer`](crate::Buffer). A launch with one returns at once, on the emulator too, and runs beside the host
/// until [`Stream::synchronize`]; what a kernel ended with shows there. So a kernel can hand results on while it runs, and wait for answers.
///
/// It is pinned: [`Stream::upload`] and [`Stream::download`] copy between it and a [`Buffer`](crate::Buffer) while the host goes on.
///
/// # Order
///
/// Nothing orders the accesses of the host and those of a kernel in flight but flags: elements of 32 bits that one side
/// [releases](MappedBuffer::release) and the other [acquires](MappedBuffer::acquire), both at the scope of the system. In the kernel that is
/// [`HostFlag`](library::HostFlag), whose documentation has the proof. The emulator reports accesses without that order as races,
/// at the kernel's line or the host's, until the host has waited for the launch. All threads of the host count as one there.
///
/// Work given to the host's other methods while a kernel waits for the host is a deadlock: `Stream::synchronize`,
/// `Buffer::to_vec` and the drop of a buffer on a GPU wait for the kernel. So answer first.
///
/// ```
/// use tilekit::prelude::*;
///
/// /// Hands on twice what the host has handed in.
/// #[kernel(warps = 1)]
/// fn double(numbers: Ptr<f32>, flags: Ptr<i32>) {
///     HostFlag::new(flags).wait(|seen| seen == 1);
///     let at = arange(0..32, Coalesced);
///     numbers.at(at).store(numbers.at(at).load() * 2.0);
///     HostFlag::new(flags + 1).set(scalar(1));
/// }
///
/// # fn main() -> tilekit::Result<()> {
/// let device = Device::emulator(); // or Device::cuda(0)?
/// let stream = Stream::new(&device)?;
/// let numbers = MappedBuffer::<f32>::zeros(&device, 32)?;
/// let flags = MappedBuffer::<i32>::zeros(&device, 2)?;
/// let kernel = double.compile(&Compiler::default())?.load(&device)?;
/// kernel.launch(&stream, 1, (&numbers, &flags))?;
/// numbers.write(0, &[1.5; 32])?;
/// flags.release(0, 1)?;
/// flags.wait_until(&stream, 1, |seen| seen == 1)?;
/// assert_eq!(numbers.read(0..32)?, [3.0; 32]);
/// stream.synchronize()
/// # }
/// ```
pub struct MappedBuffer<T> {
    device: Device,
    /// Graphs that use it keep it too.
    memory: Arc<AnyMapped>,
    len: usize,
    element: PhantomData<fn() -> T>,
}

impl<T: DeviceElement> MappedBuffer<T> {
    /// `len` elements whose every byte is 0.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] on the emulator, or the driver's refusal to lock so many pages.
    pub fn zeros(device: &Device, len: usize) -> Result<MappedBuffer<T>> {
        let bytes = len.saturating_mul(size_of::<T>());
        Ok(MappedBuffer {
            device: device.clone(),
            memory: Arc::new(device.allocate_mapped(bytes, size_of::<T>())?),
            len,
            element: PhantomData,
        })
    }

    /// A copy of `elements`.
    ///
    /// # Errors
    /// As for [`MappedBuffer::zeros`].
    #[track_caller]
    pub fn from_slice(device: &Device, elements: &[T]) -> Result<MappedBuffer<T>> {
        let buffer = MappedBuffer::zeros(device, elements.len())?;
        buffer.write(0, elements)?;
        Ok(buffer)
    }

    /// Copies a range of elements out. It orders nothing: what a kernel in flight wrote, a flag has handed on.
    ///
    /// # Errors
    /// [`Error::OutsideOfMapped`], and [`Error::Fault`] for a race that the emulator has found.
    #[track_caller]
    pub fn read(&self, range: Range<usize>) -> Result<Vec<T>> {
        let line = Location::caller();
        self.check(&range)?;
        let offset = range.start * size_of::<T>();
        T::collect(range.len(), |room| match &*self.memory {
            On::Cuda(memory) => Ok(memory.read(offset, room)),
            On::Emulator(memory) => memory.read(offset, room, line),
        })
    }

    /// Copies elements in, from element `at` on. It orders nothing: a flag hands them on.
    ///
    /// # Errors
    /// As for [`read`](MappedBuffer::read).
    #[track_caller]
    pub fn write(&self, at: usize, elements: &[T]) -> Result<()> {
        let line = Location::caller();
        self.check(&(at..at.saturating_add(elements.len())))?;
        let (offset, bytes) = (at * size_of::<T>(), T::bytes_of(elements));
        match &*self.memory {
            On::Cuda(memory) => {
                memory.write(offset, bytes);
                Ok(())
            }
            On::Emulator(memory) => memory.write(offset, bytes, line),
        }
    }

    fn check(&self, range: &Range<usize>) -> Result<()> {
        if range.start <= range.end && range.end <= self.len {
            return Ok(());
        }
        Err(Error::OutsideOfMapped {
            range: range.clone(),
            len: self.len,
        })
    }
}

impl MappedBuffer<i32> {
    /// Loads the flag at `index` and acquires, at the scope of the system: what came before its release happens before what follows.
    ///
    /// # Errors
    /// As for [`read`](MappedBuffer::read).
    #[track_caller]
    pub fn acquire(&self, index: usize) -> Result<i32> {
        let line = Location::caller();
        self.check(&(index..index.saturating_add(1)))?;
        let offset = index * size_of::<i32>();
        Ok(match &*self.memory {
            On::Cuda(memory) => memory.acquire(offset),
            On::Emulator(memory) => memory.acquire(offset, line)?,
        }
        .cast_signed())
    }

    /// Stores the flag at `index` and releases, at the scope of the system: a kernel that acquires it observes what the host wrote before.
    ///
    /// # Errors
    /// As for [`read`](MappedBuffer::read).
    #[track_caller]
    pub fn release(&self, index: usize, value: i32) -> Result<()> {
        let line = Location::caller();
        self.check(&(index..index.saturating_add(1)))?;
        let offset = index * size_of::<i32>();
        match &*self.memory {
            On::Cuda(memory) => {
                memory.release(offset, value.cast_unsigned());
                Ok(())
            }
            On::Emulator(memory) => memory.release(offset, value.cast_unsigned(), line),
        }
    }

    /// Acquires the flag at `index` again and again until `until` of it is true, and gives what it was.
    ///
    /// It ends with an error, and not never, where nobody is left to set the flag: once all work of `stream` is over. A kernel that waits for the host
    /// meanwhile is not: on a GPU that takes a [`Watchdog`](crate::Watchdog), on the emulator it ends at
    /// [`EmulatorOptions::max_steps`](crate::EmulatorOptions::max_steps).
    ///
    /// # Errors
    /// What a kernel of the stream ended with, [`Error::NeverSet`] if they ended well, and those of [`acquire`](MappedBuffer::acquire).
    #[track_caller]
    pub fn wait_until(
        &self,
        stream: &Stream,
        index: usize,
        until: impl Fn(i32) -> bool,
    ) -> Result<i32> {
        let mut polls = 0_u32;
        loop {
            let seen = self.acquire(index)?;
            if until(seen) {
                return Ok(seen);
            }
            polls = polls.wrapping_add(1);
            if polls.is_multiple_of(POLLS_A_QUESTION) && stream.is_done()? {
                let seen = self.acquire(index)?;
                return if until(seen) {
                    Ok(seen)
                } else {
                    Err(Error::NeverSet { index, seen })
                };
            }
            self.pause();
        }
    }

    /// Between two polls: the emulator needs the cores of the host.
    fn pause(&self) {
        match &*self.memory {
            On::Cuda(_) => std::hint::spin_loop(),
            On::Emulator(_) => std::thread::sleep(Duration::from_micros(20)),
        }
    }
}

/// Polls between two questions whether the stream is done, which take the driver a microsecond or so.
const POLLS_A_QUESTION: u32 = 64;

impl<T> MappedBuffer<T> {
    /// How many elements it holds.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The address that kernels see.
    pub fn address(&self) -> u64 {
        match &*self.memory {
            On::Cuda(memory) => memory.address(),
            On::Emulator(memory) => memory.address(),
        }
    }

    pub(crate) fn memory(&self) -> &AnyMapped {
        &self.memory
    }

    /// Says that work uses it: a graph that is captured now keeps its memory.
    pub(crate) fn note_use(&self) {
        kept::note(|| Arc::clone(&self.memory) as kept::Kept);
    }

    /// The device whose kernels access it.
    pub fn device(&self) -> &Device {
        &self.device
    }
}
