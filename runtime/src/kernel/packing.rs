//! The parameters of a launch, while its arguments are packed.

use lowering::ParamInfo;

use crate::device::Device;
use crate::error::{Error, Result};
use crate::launch::ParameterBlock;

/// The parameters of a launch, while its arguments are packed one after the other.
pub struct Packing<'a> {
    device: &'a Device,
    kernel: &'a str,
    params: &'a [ParamInfo],
    copy: usize,
    block: &'a mut ParameterBlock,
}

impl<'a> Packing<'a> {
    /// Of a launch of `kernel` on `device`, whose parameters are `params`.
    pub(crate) fn new(
        device: &'a Device,
        kernel: &'a str,
        params: &'a [ParamInfo],
        block: &'a mut ParameterBlock,
    ) -> Packing<'a> {
        Packing {
            device,
            kernel,
            params,
            copy: 0,
            block,
        }
    }

    /// The same with another copy of a case's tensors: timed launches take them in turn.
    #[must_use]
    pub(crate) fn with_copy(self, copy: usize) -> Packing<'a> {
        Packing { copy, ..self }
    }

    /// What the launch is on.
    pub fn device(&self) -> &'a Device {
        self.device
    }

    /// Which copy of a case's tensors is packed.
    pub(crate) fn copy(&self) -> usize {
        self.copy
    }

    /// The name of the kernel's entry.
    pub(crate) fn kernel(&self) -> &'a str {
        self.kernel
    }

    /// The parameter that comes next.
    pub(crate) fn parameter(&self) -> &'a ParamInfo {
        &self.params[self.block.len()]
    }

    /// Appends a parameter, little-endian, aligned to `align` bytes.
    #[inline]
    pub fn push(&mut self, parameter: &[u8], align: usize) {
        self.block.push(parameter, align);
    }

    /// Appends the address of a buffer of `bytes` bytes.
    #[inline]
    pub fn push_buffer(&mut self, address: u64, bytes: u64) {
        self.block.push_buffer(address, bytes);
    }

    /// Appends the address of memory of the host, which goes on beside the launch.
    pub fn push_mapped(&mut self, address: u64, bytes: u64) {
        self.block.push_mapped(address, bytes);
    }

    /// An error unless `owner` is the launch's device.
    #[inline]
    pub(crate) fn expect_own(&self, owner: &Device) -> Result<()> {
        if owner == self.device {
            return Ok(());
        }
        Err(Error::DeviceMismatch {
            what: "a buffer",
            belongs_to: owner.facts().name.clone(),
            used_on: self.device.facts().name.clone(),
        })
    }
}
