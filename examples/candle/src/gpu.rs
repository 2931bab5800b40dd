//! The operations on a GPU: kernels that `cargo tilekit export` wrote, on candle's memory and its stream. Nothing waits on the host. Memory of results is
//! cleared: an example without `unsafe` has none that is uninitialised.

use candle_core::cuda_backend::cudarc::driver::CudaView;
use candle_core::{CudaStorage, Error, Layout, Result, Shape, bail};
use candle_exported::tilekit_launch::{Bf16, DevRef, View};
use candle_exported::{
    forward_bf16_128_2_128_true_true as causal, many_tiles_bf16_2_64_256_4 as many_tiles,
    rmsnorm_bf16_4096_8 as rmsnorm, swiglu_bf16 as swiglu,
};
use half::bf16;

use crate::operations::{EPSILON, scale};
use crate::tilekit::{attention_sizes, equal_sizes, norm_sizes, product_sizes};

/// Memory of a tensor on a GPU.
pub type Storage = CudaStorage;

/// An operand: its memory, and its shape and strides there.
pub type Operand<'a> = (&'a CudaStorage, &'a Layout);

/// The memory of an operand of bf16 from its first element on.
fn slice<'a>((storage, layout): Operand<'a>) -> Result<CudaView<'a, bf16>> {
    let all = storage.as_cuda_slice::<bf16>()?;
    Ok(all.slice(layout.start_offset()..))
}

/// An operand with its strides.
fn strided<'m>(memory: DevRef<'m, Bf16>, layout: &Layout) -> View<'m, Bf16> {
    memory.view(layout.dims()).with_strides(layout.stride())
}

/// Refuses an operand with gaps.
fn contiguous(name: &str, layout: &Layout) -> Result<()> {
    if !layout.is_contiguous() {
        bail!(
            "{name}: {:?} with strides {:?} must be contiguous",
            layout.dims(),
            layout.stride()
        )
    }
    Ok(())
}

fn refused(error: tilekit_cudarc::Error) -> Error {
    Error::wrap(error)
}

/// `x · weightᵀ`.
pub fn product(x: Operand, weight: Operand) -> Result<(CudaStorage, Shape)> {
    let [m, n, _] = product_sizes(x.1, weight.1)?;
    let device = x.0.device.clone();
    let mut out = device.alloc_zeros::<bf16>(m * n)?;
    let (of_x, of_weight) = (slice(x)?, slice(weight)?);
    tilekit_cudarc::launch(
        &device.cuda_stream(),
        (&of_x, &of_weight, &mut out),
        |queue, (a, b, out)| {
            many_tiles::launch(
                queue,
                &strided(a, x.1),
                &strided(b, weight.1),
                &mut out.view([m, n]),
            )
        },
    )
    .map_err(refused)?;
    Ok((
        CudaStorage::wrap_cuda_slice(out, device),
        Shape::from((m, n)),
    ))
}

/// Each row of `x` over the root of its mean square, times `weight`.
pub fn rms_norm(x: Operand, weight: Operand) -> Result<(CudaStorage, Shape)> {
    let [rows, columns] = norm_sizes(x.1, weight.1)?;
    contiguous("x", x.1)?;
    let device = x.0.device.clone();
    let mut out = device.alloc_zeros::<bf16>(rows * columns)?;
    let mut rstd = device.alloc_zeros::<f32>(rows)?;
    let (of_x, of_weight) = (slice(x)?, slice(weight)?);
    tilekit_cudarc::launch(
        &device.cuda_stream(),
        (&of_x, &of_weight, &mut out, &mut rstd),
        |queue, (x, weight, out, rstd)| {
            let (x, weight) = (x.view([rows, columns]), weight.view([columns]));
            rmsnorm::launch(
                queue,
                &x,
                &weight,
                &mut out.view([rows, columns]),
                &mut rstd.view([rows]),
                EPSILON,
            )
        },
    )
    .map_err(refused)?;
    Ok((
        CudaStorage::wrap_cuda_slice(out, device),
        Shape::from((rows, columns)),
    ))
}

/// `silu(gate) * up`.
pub fn gated(gate: Operand, up: Operand) -> Result<(CudaStorage, Shape)> {
    let shape = equal_sizes(gate.1, up.1)?;
    contiguous("gate", gate.1)?;
    contiguous("up", up.1)?;
    let elements = shape.elem_count();
    let device = gate.0.device.clone();
    let mut out = device.alloc_zeros::<bf16>(elements)?;
    let (of_gate, of_up) = (slice(gate)?, slice(up)?);
    tilekit_cudarc::launch(
        &device.cuda_stream(),
        (&of_gate, &of_up, &mut out),
        |queue, (gate, up, out)| {
            swiglu::launch(
                queue,
                &gate.view([elements]),
                &up.view([elements]),
                &mut out.view([elements]),
            )
        },
    )
    .map_err(refused)?;
    Ok((CudaStorage::wrap_cuda_slice(out, device), shape))
}

/// Causal attention. Q, K and V may be views with any strides of heads and tokens; the result is `[tokens, heads, depth]`.
pub fn attention(q: Operand, k: Operand, v: Operand) -> Result<(CudaStorage, Shape)> {
    let sizes = attention_sizes(q.1, k.1, v.1)?;
    let (heads, tokens, depth) = (sizes.heads, sizes.tokens, sizes.depth);
    let device = q.0.device.clone();
    let mut out = device.alloc_zeros::<bf16>(tokens * heads * depth)?;
    let mut lse = device.alloc_zeros::<f32>(heads * tokens)?;
    // The kernel counts its tiles from 0.
    let mut counter = device.alloc_zeros::<i32>(1)?;
    let (of_q, of_k, of_v) = (slice(q)?, slice(k)?, slice(v)?);
    let log2_scale = (scale(depth) * std::f64::consts::LOG2_E) as f32;
    let memory = (&of_q, &of_k, &of_v, &mut out, &mut lse, &mut counter);
    tilekit_cudarc::launch(
        &device.cuda_stream(),
        memory,
        |queue, (a, b, c, out, lse, counter)| {
            let (a, b, c) = (strided(a, q.1), strided(b, k.1), strided(c, v.1));
            let mut out = out
                .view([heads, tokens, depth])
                .with_strides([depth, heads * depth, 1]);
            let (mut lse, mut counter) = (lse.view([heads, tokens]), counter.view([1]));
            causal::launch(
                queue,
                &a,
                &b,
                &c,
                &mut out,
                &mut lse,
                &mut counter,
                log2_scale,
            )
        },
    )
    .map_err(refused)?;
    Ok((
        CudaStorage::wrap_cuda_slice(out, device),
        Shape::from((tokens, heads, depth)),
    ))
}
