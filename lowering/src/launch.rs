//! What a launch of the kernel must know.

use std::sync::Arc;

use gluon_lang::ir::{Func, Type};

use crate::analysis::roots::Roots;

/// How a kernel is launched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchInfo {
    /// The name of the PTX entry.
    pub entry: Arc<str>,
    /// Threads in a CTA.
    pub threads: u32,
    /// CTAs of a cluster in x, y and z; all 1 without clusters.
    pub cluster: [u32; 3],
    /// Shared memory in bytes that each CTA is launched with, at most 232448.
    pub shared_bytes: u32,
    /// The parameters, in order.
    pub params: Vec<ParamInfo>,
    /// Size of all parameters together in bytes.
    pub param_bytes: u32,
}

/// One parameter of a kernel as the launch passes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamInfo {
    /// The author's name for it.
    pub name: Arc<str>,
    /// A scalar that is a number or a pointer into global memory, or a tensor map.
    pub ty: Type,
    /// Offset in the parameter block in bytes: a multiple of `align`.
    pub offset: u32,
    /// Size in bytes; a boolean takes one.
    pub size: u32,
    /// Alignment in bytes.
    pub align: u32,
    /// A power of two that the author promised to divide the address in bytes, or the integer. Checked at each launch.
    pub divisor: u32,
    /// Nothing else may store to its buffer while the kernel runs. Checked at each launch.
    pub is_readonly: bool,
    /// The kernel may store through it.
    pub is_written: bool,
}

impl LaunchInfo {
    /// What the kernel itself says of its launch.
    pub fn of(func: &Func) -> LaunchInfo {
        let mut end = 0_u32;
        let written = Roots::of(func).written(func);
        let params = func.params.iter().enumerate().map(|(at, param)| {
            let ty = func.ty(param.value).clone();
            let (size, align) = size_and_align(&ty);
            let offset = end.next_multiple_of(align);
            end = offset + size;
            ParamInfo {
                name: param.name.clone(),
                ty,
                offset,
                size,
                align,
                divisor: param.divisor,
                is_readonly: param.is_readonly,
                is_written: written
                    .checked_shr(at as u32)
                    .is_some_and(|bits| bits & 1 == 1),
            }
        });
        let params = params.collect();
        LaunchInfo {
            entry: func.name.clone(),
            threads: func.launch_warps() * 32,
            cluster: func.cluster,
            shared_bytes: func.shared_bytes,
            params,
            param_bytes: end,
        }
    }
}

/// Bytes that a parameter takes and is aligned to: PTX aligns a number to its own size, and the copy engine wants a
/// tensor map at a multiple of 64 (PTX ISA 9.7.9.27, "Tensor-map").
fn size_and_align(ty: &Type) -> (u32, u32) {
    if ty.as_tensor_map().is_some() {
        return (128, 64);
    }
    let elem = ty
        .elem()
        .expect("a verified kernel takes scalars and tensor maps");
    (elem.bytes(), elem.bytes())
}
