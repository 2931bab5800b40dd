//! Launches kernels that TileKit built ahead of time on tensors of burn's CUDA backend.
//!
//! cubecl, on which that backend stands, gives the address of a tensor and neither its stream nor a way to bring memory of others in (tracel-ai/cubecl 291). So memory is burn's, launches are on
//! a stream of their own, and both wait for each other on the host: [`launch`] waits for what burn has enqueued on its tensors, and returns when its launches are complete.

use std::fmt;
use std::marker::PhantomData;

use burn_cubecl::cubecl::cuda::CudaRuntime;
use burn_cubecl::tensor::CubeTensor;
use cudarc::driver::CudaContext;
use tilekit_launch::{Context, DevMut, DevRef, Element, Queue};

/// What stops a launch on tensors of burn.
#[derive(Debug)]
pub enum Error {
    /// A tensor has other elements than the kernel takes.
    Elements {
        /// What the kernel takes.
        expected: &'static str,
        /// What the tensor has.
        found: &'static str,
    },
    /// A tensor has gaps, or its rows lie in another order; `into_contiguous` copies it.
    Gaps,
    /// A tensor that is to be written has others on its memory.
    Shared,
    /// A tensor is on another GPU than the launch.
    OtherGpu {
        /// The number of the tensor's GPU.
        found: usize,
        /// The number of the launch's.
        expected: usize,
    },
    /// What cubecl or the driver refuses.
    Device(String),
    /// What does not fit the kernel.
    Launch(tilekit_launch::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Elements { expected, found } => {
                write!(f, "a tensor has elements of {found}; the kernel takes {expected}")
            }
            Error::Gaps => f.write_str("a tensor has gaps, or its rows lie in another order; pass `into_contiguous(tensor)`"),
            Error::Shared => f.write_str("a tensor that is to be written shares its memory with another one; pass a new one"),
            Error::OtherGpu { found, expected } => write!(f, "a tensor is on GPU {found}, and the launch on GPU {expected}; move it there"),
            Error::Device(text) => f.write_str(text),
            Error::Launch(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {}

impl From<tilekit_launch::Error> for Error {
    fn from(error: tilekit_launch::Error) -> Error {
        Error::Launch(error)
    }
}

/// A stream of a GPU for the launches of one closure, and the tensors `'m` that they use.
pub struct Launches<'m> {
    queue: Queue<'static>,
    gpu: usize,
    tensors: PhantomData<fn(&'m ()) -> &'m ()>,
}

impl<'m> Launches<'m> {
    /// Where launches go.
    pub fn queue(&self) -> &Queue<'static> {
        &self.queue
    }

    /// A tensor that launches read, once burn has written it. The memory is borrowed no longer than the closure runs.
    ///
    /// # Errors
    /// [`Error::Elements`], [`Error::Gaps`], [`Error::OtherGpu`] and [`Error::Device`].
    #[allow(unsafe_code, reason = "cubecl gives an address")]
    pub fn read<T: Element>(
        &self,
        tensor: &'m CubeTensor<CudaRuntime>,
    ) -> Result<DevRef<'_, T>, Error> {
        let (address, elements) = self.idle::<T>(tensor)?;
        // SAFETY: the tensor has so many elements of `T` there, without gaps, and burn has written them. It is borrowed for longer than the closure runs, behind which all launches end.
        Ok(unsafe { DevRef::from_raw(address, elements) })
    }

    /// A tensor that launches write, once burn does nothing with it.
    ///
    /// # Errors
    /// Those of [`read`](Self::read), and [`Error::Shared`].
    #[allow(unsafe_code, reason = "cubecl gives an address")]
    pub fn write<T: Element>(
        &self,
        tensor: &'m mut CubeTensor<CudaRuntime>,
    ) -> Result<DevMut<'_, T>, Error> {
        if !tensor.can_mut() {
            return Err(Error::Shared);
        }
        let (address, elements) = self.idle::<T>(tensor)?;
        // SAFETY: as in `read`; and the tensor is the only one on its memory, borrowed alone.
        Ok(unsafe { DevMut::from_raw(address, elements) })
    }

    /// Where a tensor's elements are and how many, once burn does nothing with them.
    fn idle<T: Element>(&self, tensor: &CubeTensor<CudaRuntime>) -> Result<(u64, usize), Error> {
        let (expected, found) = (T::DATA_TYPE.name(), tensor.dtype.name());
        if found != expected {
            return Err(Error::Elements { expected, found });
        }
        if !tensor.is_contiguous() {
            return Err(Error::Gaps);
        }
        if tensor.device.index != self.gpu {
            return Err(Error::OtherGpu {
                found: tensor.device.index,
                expected: self.gpu,
            });
        }
        // The calling thread's stream waits for that on which the tensor was written, and the host for the stream.
        let held = tensor
            .client
            .get_resource(tensor.handle.clone())
            .map_err(said)?;
        burn_cubecl::cubecl::future::block_on(tensor.client.sync()).map_err(said)?;
        Ok((held.resource().ptr, tensor.meta.shape().num_elements()))
    }
}

/// Runs `run`, which puts launches on the stream that it is given, on the GPU of `of`; returns when they are complete, also behind an error.
///
/// # Errors
/// What `run` ends with, and [`Error::Device`].
pub fn launch<'m, R>(
    of: &CubeTensor<CudaRuntime>,
    run: impl for<'q> FnOnce(&'q Launches<'m>) -> Result<R, Error>,
) -> Result<R, Error> {
    let gpu = of.device.index;
    let context = CudaContext::new(gpu).map_err(said)?;
    let launches = Launches {
        queue: queue(gpu)?,
        gpu,
        tensors: PhantomData,
    };
    let ended = Ended(&context);
    let done = run(&launches);
    std::mem::forget(ended);
    context.default_stream().synchronize().map_err(said)?;
    done
}

/// The default stream of a GPU's primary context, which burn's is too.
#[allow(unsafe_code, reason = "a stream is a pointer of the driver")]
fn queue(gpu: usize) -> Result<Queue<'static>, Error> {
    let context = Context::primary(gpu)?;
    // SAFETY: a context has its default stream as long as it lives itself.
    Ok(unsafe { Queue::new(context, std::ptr::null_mut()) })
}

/// Waits for launches where `run` panics: tensors are dropped behind it.
struct Ended<'c>(&'c std::sync::Arc<CudaContext>);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        // What has stopped the GPU stops its launches too.
        let _ = self.0.default_stream().synchronize();
    }
}

fn said(error: impl fmt::Debug) -> Error {
    Error::Device(format!("{error:?}"))
}
