//! An operation of burn by a kernel that `cargo tilekit export` wrote: a trait over backends, here of CUDA's.

use burn::backend::Cuda;
use burn::tensor::ops::FloatTensor;
use burn::tensor::{Tensor, TensorMetadata, TensorPrimitive, backend::Backend};
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::ops::numeric::empty_device_contiguous_dtype;
use examples_exported::softmax_f32_1024_8 as kernel;

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
        let x = into_contiguous(x);
        let (client, device) = (x.client.clone(), x.device.clone());
        let mut out = empty_device_contiguous_dtype(client, device, x.shape(), x.dtype);
        let shape: [usize; 2] = [x.shape()[0], x.shape()[1]];
        let done = tilekit_burn::launch(&x, |launches| {
            let (x, out) = (launches.read(&x)?, launches.write(&mut out)?);
            kernel::launch(launches.queue(), &x.view(shape), &mut out.view(shape))?;
            Ok(())
        });
        done.map_err(|error| format!("softmax_rows: {error}"))?;
        Ok(out)
    }
}
