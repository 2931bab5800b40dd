//! The operations of a block by kernels of TileKit, as `CustomOp`s of candle: on a GPU by what `cargo tilekit export` wrote (`gpu`), on the CPU by loops
//! (`reference`), both in bf16 with sums in f32.

use candle_core::{CpuStorage, CustomOp2, CustomOp3, Layout, Result, Shape, Tensor, bail};

#[cfg(feature = "cuda")]
use crate::gpu;
use crate::operations::Operations;
use crate::reference;

/// Operations by kernels of TileKit.
pub struct TileKit;

impl Operations for TileKit {
    fn product(&self, x: &Tensor, weight: &Tensor) -> Result<Tensor> {
        x.apply_op2_no_bwd(weight, &PRODUCT)
    }

    fn rms_norm(&self, x: &Tensor, weight: &Tensor) -> Result<Tensor> {
        x.apply_op2_no_bwd(weight, &RMS_NORM)
    }

    fn attention(&self, q: &Tensor, k: &Tensor, v: &Tensor) -> Result<Tensor> {
        q.apply_op3_no_bwd(k, v, &Attention)
    }

    fn gated(&self, gate: &Tensor, up: &Tensor) -> Result<Tensor> {
        gate.apply_op2_no_bwd(up, &GATED)
    }
}

/// `[m, n, k]` of `x: [m, k]` and `weight: [n, k]`.
pub fn product_sizes(x: &Layout, weight: &Layout) -> Result<[usize; 3]> {
    match (x.dims(), weight.dims()) {
        (&[m, k], &[n, of_weight]) if k == of_weight => Ok([m, n, k]),
        (x, weight) => {
            bail!("product: x is {x:?} and weight {weight:?}; they must be [m, k] and [n, k]")
        }
    }
}

/// `[rows, columns]` of `x`, whose rows are as long as `weight`.
pub fn norm_sizes(x: &Layout, weight: &Layout) -> Result<[usize; 2]> {
    match (x.dims(), weight.dims()) {
        (&[rows, columns], &[of_weight]) if columns == of_weight => Ok([rows, columns]),
        (x, weight) => bail!(
            "rms_norm: x is {x:?} and weight {weight:?}; they must be [rows, columns] and [columns]"
        ),
    }
}

/// Sizes of attention.
#[derive(Clone, Copy)]
pub struct Heads {
    pub heads: usize,
    pub kv_heads: usize,
    pub tokens: usize,
    pub depth: usize,
}

/// The sizes of `q: [heads, tokens, depth]` and `k`, `v: [kv_heads, tokens, depth]`.
pub fn attention_sizes(q: &Layout, k: &Layout, v: &Layout) -> Result<Heads> {
    match (q.dims(), k.dims()) {
        (&[heads, tokens, depth], &[kv_heads, of_k, depth_of_k])
            if of_k == tokens
                && depth_of_k == depth
                && kv_heads > 0
                && heads % kv_heads == 0
                && v.dims() == k.dims() =>
        {
            Ok(Heads {
                heads,
                kv_heads,
                tokens,
                depth,
            })
        }
        (q, k) => bail!(
            "attention: q is {q:?}, k {k:?} and v {:?}; they must be [heads, tokens, depth] and twice [kv_heads, tokens, depth], heads a multiple of kv_heads",
            v.dims()
        ),
    }
}

/// The shape of two equal operands.
pub fn equal_sizes(gate: &Layout, up: &Layout) -> Result<Shape> {
    if gate.shape() != up.shape() {
        bail!(
            "gated: gate is {:?} and up {:?}; they must be equal",
            gate.dims(),
            up.dims()
        )
    }
    Ok(gate.shape().clone())
}

/// A tensor in candle's memory on the CPU.
type OnCpu<'a> = (&'a CpuStorage, &'a Layout);

/// An operation on two tensors: its function on the CPU, and the one on a GPU.
struct Binary {
    name: &'static str,
    on_cpu: fn(OnCpu, OnCpu) -> Result<(CpuStorage, Shape)>,
    #[cfg(feature = "cuda")]
    on_gpu: fn(gpu::Operand, gpu::Operand) -> Result<(gpu::Storage, Shape)>,
}

const PRODUCT: Binary = Binary {
    name: "tilekit-product",
    on_cpu: |x, weight| {
        let [m, n, k] = product_sizes(x.1, weight.1)?;
        let (x, weight) = (reference::elements(x)?, reference::elements(weight)?);
        let out = reference::product(&x, &weight, [m, n, k]);
        Ok((reference::stored(&out), Shape::from((m, n))))
    },
    #[cfg(feature = "cuda")]
    on_gpu: gpu::product,
};

const RMS_NORM: Binary = Binary {
    name: "tilekit-rms-norm",
    on_cpu: |x, weight| {
        let [rows, columns] = norm_sizes(x.1, weight.1)?;
        let (x, weight) = (reference::elements(x)?, reference::elements(weight)?);
        let out = reference::rms_norm(&x, &weight);
        Ok((reference::stored(&out), Shape::from((rows, columns))))
    },
    #[cfg(feature = "cuda")]
    on_gpu: gpu::rms_norm,
};

const GATED: Binary = Binary {
    name: "tilekit-gated",
    on_cpu: |gate, up| {
        let shape = equal_sizes(gate.1, up.1)?;
        let out = reference::gated(&reference::elements(gate)?, &reference::elements(up)?);
        Ok((reference::stored(&out), shape))
    },
    #[cfg(feature = "cuda")]
    on_gpu: gpu::gated,
};

impl CustomOp2 for Binary {
    fn name(&self) -> &'static str {
        self.name
    }

    fn cpu_fwd(
        &self,
        a: &CpuStorage,
        a_at: &Layout,
        b: &CpuStorage,
        b_at: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        (self.on_cpu)((a, a_at), (b, b_at))
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(
        &self,
        a: &gpu::Storage,
        a_at: &Layout,
        b: &gpu::Storage,
        b_at: &Layout,
    ) -> Result<(gpu::Storage, Shape)> {
        (self.on_gpu)((a, a_at), (b, b_at))
    }
}

struct Attention;

impl CustomOp3 for Attention {
    fn name(&self) -> &'static str {
        "tilekit-attention"
    }

    fn cpu_fwd(
        &self,
        q: &CpuStorage,
        q_at: &Layout,
        k: &CpuStorage,
        k_at: &Layout,
        v: &CpuStorage,
        v_at: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let sizes = attention_sizes(q_at, k_at, v_at)?;
        let [q, k, v] = [(q, q_at), (k, k_at), (v, v_at)].map(reference::elements);
        let out = reference::attention([&q?, &k?, &v?], sizes);
        Ok((
            reference::stored(&out),
            Shape::from((sizes.tokens, sizes.heads, sizes.depth)),
        ))
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(
        &self,
        q: &gpu::Storage,
        q_at: &Layout,
        k: &gpu::Storage,
        k_at: &Layout,
        v: &gpu::Storage,
        v_at: &Layout,
    ) -> Result<(gpu::Storage, Shape)> {
        gpu::attention((q, q_at), (k, k_at), (v, v_at))
    }
}
