//! An operation of burn by a kernel that `cargo tilekit export` wrote: a trait over backends, here of CUDA's.
//!
//! cubecl, on which burn's CUDA backend stands, gives the address of a tensor and neither its stream nor a way to bring memory of others in (tracel-ai/cubecl 291). So memory is burn's, the
//! launch is on a stream of ours, and both wait for each other on the host.

use std::fmt::Display;
use std::sync::Arc;

use burn::backend::Cuda;
use burn::tensor::ops::FloatTensor;
use burn::tensor::{DType, Tensor, TensorMetadata, TensorPrimitive, backend::Backend};
use burn_cubecl::cubecl::cuda::CudaRuntime;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::ops::numeric::empty_device_contiguous_dtype;
use burn_cubecl::tensor::CubeTensor;
use cudarc::driver::CudaContext;
use examples_exported::softmax_f32_1024_8 as kernel;
use examples_exported::tilekit_launch::{Context, DevMut, DevRef, Queue};

/// Backends that have the operation.
pub trait SoftmaxRows: Backend {
    /// The softmax of each row.
    ///
    /// # Errors
    /// What the kernel does not take, and what the driver refuses.
    fn softmax_rows(x: FloatTensor<Self>) -> Result<FloatTensor<Self>, String>;
}

/// The softmax of each row of `x`, of up to 1024 columns.
pub fn softmax_rows<B: SoftmaxRows>(x: Tensor<B, 2>) -> Result<Tensor<B, 2>, String> {
    let out = B::softmax_rows(x.into_primitive().tensor())?;
    Ok(Tensor::from_primitive(TensorPrimitive::Float(out)))
}

impl SoftmaxRows for Cuda<f32, i32> {
    fn softmax_rows(x: FloatTensor<Self>) -> Result<FloatTensor<Self>, String> {
        if x.dtype != DType::F32 {
            return Err(format!(
                "softmax_rows: x has elements of {:?}; it must have F32",
                x.dtype
            ));
        }
        let x = into_contiguous(x);
        let (client, device) = (x.client.clone(), x.device.clone());
        let out = empty_device_contiguous_dtype(client, device, x.shape(), x.dtype);
        launch(&x, &out)?;
        Ok(out)
    }
}

/// Launches on a stream of ours, between what burn has enqueued and what it will.
fn launch(x: &CubeTensor<CudaRuntime>, out: &CubeTensor<CudaRuntime>) -> Result<(), String> {
    let [read, written] = [address(x)?, address(out)?];
    let shape: [usize; 2] = [x.shape()[0], x.shape()[1]];
    burn_is_idle(x)?;
    let context: Arc<CudaContext> = CudaContext::new(x.device.index).map_err(said)?;
    let stream = context.default_stream();
    // SAFETY: the addresses are of contiguous tensors of burn, which are borrowed and alive until the launch has ended; nothing of burn is pending. Both contexts are the GPU's primary one.
    let (queue, x, out) = unsafe {
        (
            Queue::new(
                Context::primary(x.device.index).map_err(said)?,
                stream.cu_stream().cast(),
            ),
            DevRef::<f32>::from_raw(read, shape[0] * shape[1]),
            DevMut::<f32>::from_raw(written, shape[0] * shape[1]),
        )
    };
    kernel::launch(&queue, &x.view(shape), &mut out.view(shape)).map_err(said)?;
    stream.synchronize().map_err(said)
}

/// Where a tensor's first element is.
fn address(tensor: &CubeTensor<CudaRuntime>) -> Result<u64, String> {
    let held = tensor.client.get_resource(tensor.handle.clone());
    Ok(held.map_err(|error| format!("{error:?}"))?.resource().ptr)
}

/// Waits for what burn has enqueued.
fn burn_is_idle(tensor: &CubeTensor<CudaRuntime>) -> Result<(), String> {
    burn_cubecl::cubecl::future::block_on(tensor.client.sync())
        .map_err(|error| format!("{error:?}"))
}

fn said(error: impl Display) -> String {
    error.to_string()
}
