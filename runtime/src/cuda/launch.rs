//! Launching an entry, with nothing allocated on the way.

#![allow(unsafe_code, reason = "foreign functions of the driver")]

use std::ffi::c_void;

use ::launch::driver::LaunchShape;
use smallvec::SmallVec;

use super::{CudaFailure, Function, Stream};
use crate::error::Error;
use crate::launch::ParameterBlock;

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
        let launched = self.context().bind().and_then(|()| {
            let launcher = self.context().driver.launcher;
            // SAFETY: the context of function and stream is current; there are as many pointers as the entry has parameters,
            // each to as many bytes as the driver says that the parameter has.
            unsafe { launcher.enqueue(shape, self.raw, stream.raw(), &mut pointers) }
        });
        launched.map_err(|failure| self.blame(stream, failure))?;
        stream.remember(&self.name);
        Ok(())
    }

    /// How many clusters of this size, or single CTAs, the GPU holds at a time.
    pub(crate) fn max_active_clusters(
        &self,
        threads: [u32; 3],
        cluster: [u32; 3],
    ) -> Result<u32, CudaFailure> {
        let shape = self.one_cluster(threads, cluster);
        if !shape.has_clusters() {
            let each = self.active_ctas(&shape)?;
            return Ok(each * self.context().facts().multiprocessors);
        }
        self.context().bind()?;
        // SAFETY: the function lives, and its context is current.
        unsafe {
            let launcher = self.context().driver.launcher;
            launcher.active_clusters(&shape, self.raw)
        }
    }

    /// How many CTAs of `threads` threads fit on one multiprocessor at a time.
    pub(crate) fn ctas_per_multiprocessor(&self, threads: u32) -> Result<u32, CudaFailure> {
        self.active_ctas(&self.one_cluster([threads, 1, 1], [1; 3]))
    }

    fn active_ctas(&self, shape: &LaunchShape) -> Result<u32, CudaFailure> {
        self.context().bind()?;
        // SAFETY: the function lives, and its context is current.
        unsafe { self.context().driver.launcher.active_ctas(shape, self.raw) }
    }

    /// A launch of one cluster, or of one CTA without clusters, to ask whether there is room for it.
    fn one_cluster(&self, threads: [u32; 3], cluster: [u32; 3]) -> LaunchShape {
        LaunchShape {
            grid: cluster,
            threads,
            cluster,
            shared_bytes: self.shared_bytes,
            overlaps_previous: false,
            is_cooperative: false,
        }
    }

    /// An error unless the GPU can hold one cluster of this size, which a launch would only call a lack of resources.
    pub(crate) fn expect_room(&self, threads: [u32; 3], cluster: [u32; 3]) -> Result<(), Error> {
        let shape = self.one_cluster(threads, cluster);
        self.context().bind()?;
        let launcher = self.context().driver.launcher;
        // SAFETY: the function lives, and its context is current.
        let has_room = unsafe {
            launcher.allow_cluster(self.raw, cluster)?;
            launcher.has_room(&shape, self.raw)?
        };
        if has_room {
            return Ok(());
        }
        Err(Error::DoesNotFit {
            kernel: self.name.to_string(),
            cluster,
            threads: threads.iter().product(),
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
