//! Memory of the host that kernels access too: page-locked and mapped into the address space of every GPU.

#![allow(unsafe_code, reason = "foreign functions of the driver")]

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use machine::driver::DeviceAddress;

use super::{Context, CudaFailure};

/// An allocation of the host, freed when dropped. Zero bytes allocate nothing and have address 0.
///
/// A kernel may access it at the same time, so that the host does by atomics alone.
pub(crate) struct HostMemory {
    context: Arc<Context>,
    host: NonNull<u8>,
    address: DeviceAddress,
    bytes: usize,
}

// SAFETY: the pointer is to memory of this allocation, which no thread owns; all accesses are atomic.
unsafe impl Send for HostMemory {}
// SAFETY: as above.
unsafe impl Sync for HostMemory {}

/// `CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP`
const PORTABLE_AND_MAPPED: u32 = 1 | 2;

impl HostMemory {
    /// Allocates zeros.
    pub(crate) fn allocate(
        context: &Arc<Context>,
        bytes: usize,
    ) -> Result<HostMemory, CudaFailure> {
        let mut memory = HostMemory {
            context: Arc::clone(context),
            host: NonNull::dangling(),
            address: 0,
            bytes: 0,
        };
        if bytes == 0 {
            return Ok(memory);
        }
        context.bind()?;
        let driver = context.driver;
        let mut host: *mut c_void = std::ptr::null_mut();
        // SAFETY: writes one pointer; a context is current.
        let code = unsafe { (driver.cuMemHostAlloc)(&raw mut host, bytes, PORTABLE_AND_MAPPED) };
        driver.check("cuMemHostAlloc", code)?;
        memory.host = NonNull::new(host.cast()).expect("the driver's allocations are not null");
        memory.bytes = bytes;
        // SAFETY: the allocation has so many bytes, and nothing else refers to it yet.
        unsafe { memory.host.write_bytes(0, bytes) };
        // SAFETY: writes one address; the pointer is to the start of a mapped allocation; the flags must be 0.
        let code = unsafe { (driver.cuMemHostGetDevicePointer)(&raw mut memory.address, host, 0) };
        driver.check("cuMemHostGetDevicePointer", code)?;
        Ok(memory)
    }

    /// The address, as kernels see it.
    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    /// Its first byte and its length, for copies that the driver makes.
    pub(super) fn whole(&self) -> (*mut c_void, usize) {
        (self.host.as_ptr().cast(), self.bytes)
    }

    /// Copies bytes from `offset` out.
    ///
    /// # Panics
    /// If they are not inside of the allocation.
    pub(crate) fn read<'a>(
        &self,
        offset: usize,
        target: &'a mut [MaybeUninit<u8>],
    ) -> &'a mut [u8] {
        let mut at = self.inside(offset, target.len());
        let mut rest = &mut *target;
        while !rest.is_empty() {
            let is_word = is_aligned_to_word(at) && rest.len() >= size_of::<u64>();
            let (piece, others) = rest.split_at_mut(if is_word { 8 } else { 1 });
            if is_word {
                // SAFETY: eight aligned bytes inside of the allocation, accessed by atomics alone.
                let word = unsafe { AtomicU64::from_ptr(at.cast()) }.load(Ordering::Relaxed);
                piece.write_copy_of_slice(&word.to_ne_bytes());
            } else {
                // SAFETY: a byte inside of the allocation, accessed by atomics alone.
                piece[0].write(unsafe { AtomicU8::from_ptr(at) }.load(Ordering::Relaxed));
            }
            at = at.wrapping_add(piece.len());
            rest = others;
        }
        // SAFETY: the loop has written every byte.
        unsafe { target.assume_init_mut() }
    }

    /// Copies bytes in, from `offset` on.
    ///
    /// # Panics
    /// If they are not inside of the allocation.
    pub(crate) fn write(&self, offset: usize, source: &[u8]) {
        let mut at = self.inside(offset, source.len());
        let mut rest = source;
        while let Some((&first, others)) = rest.split_first() {
            match rest.split_first_chunk::<8>() {
                Some((word, others)) if is_aligned_to_word(at) => {
                    let word = u64::from_ne_bytes(*word);
                    // SAFETY: eight aligned bytes inside of the allocation, accessed by atomics alone.
                    unsafe { AtomicU64::from_ptr(at.cast()) }.store(word, Ordering::Relaxed);
                    (at, rest) = (at.wrapping_add(8), others);
                }
                _ => {
                    // SAFETY: a byte inside of the allocation, accessed by atomics alone.
                    unsafe { AtomicU8::from_ptr(at) }.store(first, Ordering::Relaxed);
                    (at, rest) = (at.wrapping_add(1), others);
                }
            }
        }
    }

    /// Loads the four bytes at `offset`, and acquires.
    ///
    /// # Panics
    /// If they are not inside of the allocation, or not aligned.
    pub(crate) fn acquire(&self, offset: usize) -> u32 {
        self.word(offset).load(Ordering::Acquire)
    }

    /// Stores the four bytes at `offset`, and releases.
    ///
    /// # Panics
    /// If they are not inside of the allocation, or not aligned.
    pub(crate) fn release(&self, offset: usize, value: u32) {
        self.word(offset).store(value, Ordering::Release);
    }

    #[allow(
        clippy::cast_ptr_alignment,
        reason = "the alignment is asserted before the pointer is used"
    )]
    fn word(&self, offset: usize) -> &AtomicU32 {
        let at = self.inside(offset, 4).cast::<u32>();
        assert!(at.is_aligned(), "a flag lies at a multiple of four bytes");
        // SAFETY: four aligned bytes inside of the allocation, which lives as long as `self`, accessed by atomics alone.
        unsafe { AtomicU32::from_ptr(at) }
    }

    fn inside(&self, offset: usize, bytes: usize) -> *mut u8 {
        let fits = offset <= self.bytes && bytes <= self.bytes - offset;
        assert!(fits, "callers check ranges where they can name the buffer");
        self.host.as_ptr().wrapping_add(offset)
    }
}

/// Whether a pointer is one to a word of eight bytes.
fn is_aligned_to_word(pointer: *mut u8) -> bool {
    pointer.addr().is_multiple_of(size_of::<u64>())
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        // Kernels in flight may still access it.
        if self.bytes == 0 || self.context.is_abandoned() || self.context.synchronize().is_err() {
            return;
        }
        // SAFETY: allocated once, freed once.
        let _ = unsafe { (self.context.driver.cuMemFreeHost)(self.host.as_ptr().cast()) };
    }
}
