//! Launching an entry, with nothing allocated on the way.

#![allow(unsafe_code, reason = "foreign functions of the driver")]

use std::ffi::{c_int, c_uint, c_void};
use std::mem::MaybeUninit;

use cudarc::driver::sys::{self, CUlaunchAttributeID_enum as AttributeId};
use smallvec::SmallVec;

use super::{CudaFailure, Function, Stream};
use crate::error::Error;
use crate::launch::ParameterBlock;

/// What a launch says beside its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LaunchShape {
    /// CTAs in x, y and z.
    pub(crate) grid: [u32; 3],
    /// Threads in x, y and z of a CTA.
    pub(crate) threads: [u32; 3],
    /// CTAs of a cluster in x, y and z; all 1 for no cluster.
    pub(crate) cluster: [u32; 3],
    /// Whether the kernel may start before the one in front of it on the stream has ended (programmatic dependent
    /// launch); it then waits by `griddepcontrol.wait`.
    pub(crate) overlaps_previous: bool,
    /// Whether all CTAs must be resident at once (cooperative launch).
    pub(crate) is_cooperative: bool,
}

impl Function {
    /// Puts a launch on `stream`. A failure of the kernel itself shows at a later synchronisation.
    ///
    /// # Panics
    /// If the parameters do not match [`Function::parameter_bytes`], which callers check.
    pub(crate) fn launch(
        &self,
        stream: &Stream,
        shape: &LaunchShape,
        parameters: &ParameterBlock,
    ) -> Result<(), Error> {
        let count = self.parameter_bytes().len();
        assert_eq!(parameters.len(), count, "one argument a parameter");
        let mut pointers: SmallVec<[*mut c_void; 32]> = SmallVec::new();
        for (index, &bytes) in self.parameter_bytes().iter().enumerate() {
            let parameter = &parameters.parameter(index)[..bytes as usize];
            pointers.push(parameter.as_ptr().cast_mut().cast());
        }
        let launched = with_config(stream.raw(), shape, self.shared_bytes, |config| {
            self.context().bind()?;
            let driver = self.context().driver;
            // SAFETY: the configuration lives for the call; there are as many pointers as the entry has parameters, each
            // to as many bytes as the driver says that the parameter has; it copies them before it returns.
            let code = unsafe {
                (driver.cuLaunchKernelEx)(
                    config,
                    self.raw.0,
                    pointers.as_mut_ptr(),
                    std::ptr::null_mut(),
                )
            };
            driver.check("cuLaunchKernelEx", code)
        });
        launched.map_err(|failure| self.blame(stream, failure))?;
        stream.remember(&self.name);
        Ok(())
    }

    /// How many clusters of this size the GPU holds at a time. Of a launch without clusters the driver would say 0.
    pub(crate) fn max_active_clusters(
        &self,
        threads: [u32; 3],
        cluster: [u32; 3],
    ) -> Result<u32, CudaFailure> {
        if cluster == [1; 3] {
            let each = self.ctas_per_multiprocessor(threads.iter().product())?;
            return Ok(each * self.context().facts().multiprocessors);
        }
        let shape = LaunchShape {
            grid: cluster,
            threads,
            cluster,
            overlaps_previous: false,
            is_cooperative: false,
        };
        let mut clusters: c_int = 0;
        // The question is of no stream.
        with_config(std::ptr::null_mut(), &shape, self.shared_bytes, |config| {
            self.context().bind()?;
            let driver = self.context().driver;
            // SAFETY: writes one int; function and configuration live.
            let code = unsafe {
                (driver.cuOccupancyMaxActiveClusters)(&raw mut clusters, self.raw.0, config)
            };
            driver.check("cuOccupancyMaxActiveClusters", code)
        })?;
        Ok(u32::try_from(clusters).unwrap_or(0))
    }

    /// An error unless the GPU can hold one cluster of this size, which a launch would only call a lack of resources.
    pub(crate) fn expect_room(&self, threads: [u32; 3], cluster: [u32; 3]) -> Result<(), Error> {
        let ctas: u32 = cluster.iter().product();
        if ctas > self.context().target().cluster.portable_ctas {
            self.allow_large_clusters()?;
        }
        let threads_of_cta: u32 = threads.iter().product();
        let fits = self.ctas_per_multiprocessor(threads_of_cta)? > 0
            && (ctas == 1 || self.max_active_clusters(threads, cluster)? > 0);
        if fits {
            return Ok(());
        }
        Err(Error::DoesNotFit {
            kernel: self.name.to_string(),
            cluster,
            threads: threads_of_cta,
            registers: self.facts()?.registers,
            shared_bytes: self.shared_bytes,
        })
    }

    /// A launch can fail because of itself or because of a kernel that ran before it.
    #[cold]
    fn blame(&self, stream: &Stream, failure: CudaFailure) -> Error {
        if failure.is_kernel_fault() {
            stream.blame(failure)
        } else {
            Error::Launch {
                kernel: self.name.to_string(),
                failure,
            }
        }
    }
}

/// Calls `use_config` with the driver's form of `shape`, made on the stack.
#[inline]
fn with_config<R>(
    stream: sys::CUstream,
    shape: &LaunchShape,
    shared_bytes: u32,
    use_config: impl FnOnce(*const sys::CUlaunchConfig) -> R,
) -> R {
    let mut attributes = [const { MaybeUninit::<sys::CUlaunchAttribute>::uninit() }; 3];
    let mut count = 0;
    if shape.cluster != [1; 3] {
        attributes[count].write(cluster_attribute(shape.cluster));
        count += 1;
    }
    if shape.overlaps_previous {
        attributes[count].write(overlap_attribute());
        count += 1;
    }
    if shape.is_cooperative {
        attributes[count].write(cooperative_attribute());
        count += 1;
    }
    let config = sys::CUlaunchConfig {
        gridDimX: shape.grid[0],
        gridDimY: shape.grid[1],
        gridDimZ: shape.grid[2],
        blockDimX: shape.threads[0],
        blockDimY: shape.threads[1],
        blockDimZ: shape.threads[2],
        sharedMemBytes: shared_bytes,
        hStream: stream,
        // The first `count` are written, and the driver reads no more.
        attrs: attributes.as_mut_ptr().cast(),
        numAttrs: count as c_uint,
    };
    use_config(&raw const config)
}

fn cluster_attribute(cluster: [u32; 3]) -> sys::CUlaunchAttribute {
    let mut value = sys::CUlaunchAttributeValue { pad: [0; 64] };
    value.clusterDim = sys::CUlaunchAttributeValue_union__bindgen_ty_1 {
        x: cluster[0],
        y: cluster[1],
        z: cluster[2],
    };
    sys::CUlaunchAttribute {
        id: AttributeId::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
        pad: [0; 4],
        value,
    }
}

fn overlap_attribute() -> sys::CUlaunchAttribute {
    let mut value = sys::CUlaunchAttributeValue { pad: [0; 64] };
    value.programmaticStreamSerializationAllowed = 1;
    sys::CUlaunchAttribute {
        id: AttributeId::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
        pad: [0; 4],
        value,
    }
}

fn cooperative_attribute() -> sys::CUlaunchAttribute {
    let mut value = sys::CUlaunchAttributeValue { pad: [0; 64] };
    value.cooperative = 1;
    sys::CUlaunchAttribute {
        id: AttributeId::CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
        pad: [0; 4],
        value,
    }
}
