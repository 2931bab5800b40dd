//! Tensors of the host in the memory of the emulated GPU.

#![allow(unsafe_code, reason = "memory of the host that Python lends")]

use std::ops::Range;

use emulator::{GlobalMemory, MemoryError};
use tilekit_launch::{Argument, Tensor};
use tilekit_python::pyo3::PyErr;
use tilekit_python::pyo3::exceptions::PyRuntimeError;

/// Copies of tensors. Those that overlap lie in one region, as they do on the host.
pub(crate) struct Memory {
    regions: Vec<Region>,
}

struct Region {
    host: Range<u64>,
    /// Of the first byte, in the memory of the emulated GPU.
    device: u64,
    /// What the kernel may have changed.
    written: Vec<Range<u64>>,
}

/// Addresses keep their remainder by this, so that what is aligned or not on the host is so there.
const ALIGNMENT: u64 = 256;

impl Memory {
    /// Copies the memory of these tensors, whose arguments have been checked; `written` says of each argument whether the kernel
    /// stores to it.
    ///
    /// # Errors
    /// No memory.
    pub(crate) fn of(
        memory: &GlobalMemory,
        arguments: &[Argument<'_>],
        written: impl Iterator<Item = bool>,
    ) -> Result<Memory, PyErr> {
        let mut spans: Vec<(Range<u64>, bool)> = Vec::new();
        for (argument, is_written) in arguments.iter().zip(written) {
            if let Argument::Tensor(tensor) = argument {
                spans.push((span(tensor), is_written));
            }
        }
        spans.retain(|(span, _)| !span.is_empty());
        spans.sort_by_key(|(span, _)| span.start);
        let mut regions: Vec<Region> = Vec::new();
        for (span, is_written) in spans {
            let written = is_written.then(|| span.clone());
            match regions.last_mut() {
                Some(last) if span.start < last.host.end => {
                    last.host.end = last.host.end.max(span.end);
                    last.written.extend(written);
                }
                _ => regions.push(Region {
                    host: span,
                    device: 0,
                    written: written.into_iter().collect(),
                }),
            }
        }
        for region in &mut regions {
            region.copy_in(memory).map_err(|error| no_memory(&error))?;
        }
        Ok(Memory { regions })
    }

    /// The arguments with the addresses of the copies.
    pub(crate) fn moved<'a>(&self, arguments: &[Argument<'a>]) -> Vec<Argument<'a>> {
        let moved = |argument: &Argument<'a>| match *argument {
            Argument::Tensor(tensor) => Argument::Tensor(Tensor {
                address: self.address(&tensor),
                ..tensor
            }),
            scalar @ Argument::Scalar(..) => scalar,
        };
        arguments.iter().map(moved).collect()
    }

    fn address(&self, tensor: &Tensor<'_>) -> u64 {
        let inside = |region: &&Region| region.host.contains(&tensor.address);
        // One without elements has none.
        let region = self.regions.iter().find(inside);
        region.map_or(0, |region| {
            region.device + (tensor.address - region.host.start)
        })
    }

    /// Copies what may have changed back.
    ///
    /// # Errors
    /// None but a mistake of the emulator's.
    pub(crate) fn copy_back(&self, memory: &GlobalMemory) -> Result<(), PyErr> {
        for region in &self.regions {
            for written in &region.written {
                let at = region.device + (written.start - region.host.start);
                // SAFETY: the producer lends this range for the call, to be written; nobody else looks at it while Python waits for the
                // call, by the word of who calls.
                let bytes = unsafe {
                    std::slice::from_raw_parts_mut(
                        std::ptr::with_exposed_provenance_mut(written.start as usize),
                        (written.end - written.start) as usize,
                    )
                };
                memory.read(at, bytes).map_err(|error| no_memory(&error))?;
            }
        }
        Ok(())
    }
}

impl Region {
    fn copy_in(&mut self, memory: &GlobalMemory) -> Result<(), MemoryError> {
        let bytes = self.host.end - self.host.start;
        let offset = self.host.start % ALIGNMENT;
        self.device = memory.alloc(bytes + offset)? + offset;
        // SAFETY: the union of ranges that the producers lend for the call, each of which overlaps the one before.
        let source = unsafe {
            std::slice::from_raw_parts(
                std::ptr::with_exposed_provenance(self.host.start as usize),
                bytes as usize,
            )
        };
        memory.write(self.device, source)
    }
}

fn span(tensor: &Tensor<'_>) -> Range<u64> {
    let bytes = tensor
        .reach()
        .saturating_mul(tensor.data_type.bytes().into());
    tensor.address..tensor.address.saturating_add(bytes)
}

fn no_memory(error: &MemoryError) -> PyErr {
    PyRuntimeError::new_err(format!("the emulator's memory: {error}"))
}
