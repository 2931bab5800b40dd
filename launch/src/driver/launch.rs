//! `cuLaunchKernelEx`: the one place where a kernel is launched.

#![allow(unsafe_code, reason = "foreign functions of the driver")]

use std::ffi::{c_int, c_void};

use super::numbers::{CLUSTER_DIMENSION, COOPERATIVE, PROGRAMMATIC_STREAM_SERIALIZATION};
use super::{Driver, Failure, FunctionHandle, StreamHandle};

/// What a launch says beside its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchShape {
    /// CTAs in x, y and z.
    pub grid: [u32; 3],
    /// Threads in x, y and z of a CTA.
    pub threads: [u32; 3],
    /// CTAs of a cluster in x, y and z; all 1 for no cluster.
    pub cluster: [u32; 3],
    /// Dynamic shared memory of a CTA, bytes.
    pub shared_bytes: u32,
    /// Whether the kernel may start before the one in front of it on the stream has ended (programmatic dependent
    /// launch); it then waits by `griddepcontrol.wait`.
    pub overlaps_previous: bool,
    /// Whether all CTAs must be resident at once (cooperative launch).
    pub is_cooperative: bool,
}

/// `CUlaunchAttribute`, with the union as its bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct LaunchAttribute {
    /// `CUlaunchAttributeID`
    pub id: u32,
    /// Not used.
    pub pad: u32,
    /// The union, of 64 bytes aligned to 8.
    pub value: [u64; 8],
}

/// `CUlaunchConfig`.
#[derive(Debug)]
#[repr(C)]
pub struct LaunchConfig {
    /// CTAs in x, y and z.
    pub grid: [u32; 3],
    /// Threads in x, y and z.
    pub threads: [u32; 3],
    /// Dynamic shared memory, bytes.
    pub shared_bytes: u32,
    /// The stream.
    pub stream: StreamHandle,
    /// `attribute_count` of them.
    pub attributes: *mut LaunchAttribute,
    /// How many.
    pub attribute_count: u32,
}

impl LaunchShape {
    /// The same with a grid of one CTA or cluster, to ask whether there is room for it.
    #[must_use]
    pub fn of_one_cluster(mut self) -> LaunchShape {
        self.grid = self.cluster;
        self
    }

    /// Whether CTAs are in clusters.
    pub fn has_clusters(&self) -> bool {
        self.cluster != [1; 3]
    }

    /// Calls `use_config` with the driver's form, made on the stack.
    #[inline]
    pub fn with_config<R>(
        &self,
        stream: StreamHandle,
        use_config: impl FnOnce(*const LaunchConfig) -> R,
    ) -> R {
        let none = LaunchAttribute {
            id: 0,
            pad: 0,
            value: [0; 8],
        };
        let mut attributes = [none; 3];
        let mut count = 0;
        let mut say = |id, value: [u64; 2]| {
            attributes[count].id = id;
            attributes[count].value[..2].copy_from_slice(&value);
            count += 1;
        };
        if self.has_clusters() {
            let [x, y, z] = self.cluster.map(u64::from);
            // Three integers of 32 bits, one after the other.
            say(CLUSTER_DIMENSION, [x | y << 32, z]);
        }
        if self.overlaps_previous {
            say(PROGRAMMATIC_STREAM_SERIALIZATION, [1, 0]);
        }
        if self.is_cooperative {
            say(COOPERATIVE, [1, 0]);
        }
        let config = LaunchConfig {
            grid: self.grid,
            threads: self.threads,
            shared_bytes: self.shared_bytes,
            stream,
            attributes: attributes.as_mut_ptr(),
            attribute_count: count as u32,
        };
        use_config(&raw const config)
    }
}

impl Driver {
    /// Puts a launch on `stream`.
    ///
    /// # Errors
    /// What the driver refuses.
    ///
    /// # Safety
    /// `function` and `stream` are handles of the current context; `parameters` has a pointer for each parameter of the
    /// function, to as many bytes as that has.
    #[inline]
    pub unsafe fn enqueue(
        &self,
        shape: &LaunchShape,
        function: FunctionHandle,
        stream: StreamHandle,
        parameters: &mut [*mut c_void],
    ) -> Result<(), Failure> {
        let code = shape.with_config(stream, |config| {
            // SAFETY: the configuration lives for the call; the rest is the caller's word. The driver copies the parameters
            // before it returns.
            unsafe {
                (self.functions.cuLaunchKernelEx)(
                    config,
                    function,
                    parameters.as_mut_ptr(),
                    std::ptr::null_mut(),
                )
            }
        });
        self.check("cuLaunchKernelEx", code)
    }

    /// How many CTAs of this shape one multiprocessor holds at a time.
    ///
    /// # Errors
    /// What the driver refuses.
    ///
    /// # Safety
    /// `function` is a handle of the current context.
    pub unsafe fn active_ctas(
        &self,
        shape: &LaunchShape,
        function: FunctionHandle,
    ) -> Result<u32, Failure> {
        let (mut ctas, threads): (c_int, u32) = (0, shape.threads.iter().product());
        // SAFETY: writes one int; the function is of the current context by the caller's word.
        let code = unsafe {
            (self.functions.cuOccupancyMaxActiveBlocks)(
                &raw mut ctas,
                function,
                threads as c_int,
                shape.shared_bytes as usize,
            )
        };
        self.check("cuOccupancyMaxActiveBlocksPerMultiprocessor", code)?;
        Ok(u32::try_from(ctas).unwrap_or(0))
    }

    /// How many clusters of this shape the device holds at a time. Of a launch without clusters the driver says 0.
    ///
    /// # Errors
    /// What the driver refuses.
    ///
    /// # Safety
    /// As for [`active_ctas`](Driver::active_ctas).
    pub unsafe fn active_clusters(
        &self,
        shape: &LaunchShape,
        function: FunctionHandle,
    ) -> Result<u32, Failure> {
        let mut clusters: c_int = 0;
        // The question is of no stream.
        let code = shape.with_config(StreamHandle::NULL, |config| {
            // SAFETY: writes one int; the configuration lives for the call, the function by the caller's word.
            unsafe {
                (self.functions.cuOccupancyMaxActiveClusters)(&raw mut clusters, function, config)
            }
        });
        self.check("cuOccupancyMaxActiveClusters", code)?;
        Ok(u32::try_from(clusters).unwrap_or(0))
    }

    /// Whether the GPU, or the part of it that the context has, can hold one CTA or cluster of this shape, which a launch would
    /// only call a lack of resources.
    ///
    /// # Errors
    /// What the driver refuses.
    ///
    /// # Safety
    /// As for [`active_ctas`](Driver::active_ctas).
    pub unsafe fn has_room(
        &self,
        shape: &LaunchShape,
        function: FunctionHandle,
    ) -> Result<bool, Failure> {
        // SAFETY: the caller's word, twice.
        unsafe {
            Ok(self.active_ctas(shape, function)? > 0
                && (!shape.has_clusters() || self.active_clusters(shape, function)? > 0))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_lie_as_the_driver_reads_them() {
        assert_eq!(
            (size_of::<LaunchAttribute>(), align_of::<LaunchAttribute>()),
            (72, 8)
        );
        assert_eq!(std::mem::offset_of!(LaunchConfig, stream), 32);
        assert_eq!(size_of::<LaunchConfig>(), 56);
        let shape = LaunchShape {
            grid: [8, 1, 1],
            threads: [128, 1, 1],
            cluster: [2, 4, 1],
            shared_bytes: 7,
            overlaps_previous: true,
            is_cooperative: false,
        };
        shape.with_config(StreamHandle::NULL, |config| {
            // SAFETY: the configuration lives for the call, and has two attributes.
            let (count, attributes) = unsafe {
                let attributes = (*config).attributes;
                ((*config).attribute_count, [*attributes, *attributes.add(1)])
            };
            assert_eq!(count, 2);
            assert_eq!(
                (attributes[0].id, attributes[0].value[..2].to_vec()),
                (4, vec![2 | 4 << 32, 1])
            );
            assert_eq!((attributes[1].id, attributes[1].value[0]), (6, 1));
        });
    }
}
