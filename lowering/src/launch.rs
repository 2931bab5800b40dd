//! What a launch of the kernel must know.

use std::collections::HashSet;
use std::sync::Arc;

use ir::entity::Value;
use ir::{Func, Type};
use ptx::ParameterOffsets;
use target::{TENSOR_MAP_ALIGNMENT_BYTES, TENSOR_MAP_BYTES, Target};

use crate::analysis::roots::{Roots, stored};

/// How a kernel is launched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchInfo {
    /// The name of the PTX entry.
    pub entry: Arc<str>,
    /// What it was compiled for.
    pub target: &'static Target,
    /// Threads in a CTA.
    pub threads: u32,
    /// CTAs of a cluster in x, y and z; all 1 without clusters.
    pub cluster: [u32; 3],
    /// Do its CTAs wait for one another, so that the whole grid must be resident?
    pub is_cooperative: bool,
    /// Shared memory in bytes that each CTA is launched with, at most [`shared_bytes`](target::CtaLimits::shared_bytes).
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
    /// The kernel may store through it, a pointer or a tensor map.
    pub is_written: bool,
}

impl LaunchInfo {
    /// What the kernel itself says of its launch.
    pub fn of(func: &Func) -> LaunchInfo {
        let mut list = ParameterOffsets::default();
        let written = Roots::of(func).written(func);
        let maps = stored_maps(func);
        let params = func.params.iter().enumerate().map(|(at, param)| {
            let ty = func.ty(param.value).clone();
            let (size, align) = size_and_align(&ty);
            let offset = list.place(size.into(), align) as u32;
            ParamInfo {
                name: param.name.clone(),
                ty,
                offset,
                size,
                align,
                divisor: param.divisor,
                is_readonly: param.is_readonly,
                is_written: maps.contains(&param.value)
                    || written
                        .checked_shr(at as u32)
                        .is_some_and(|bits| bits & 1 == 1),
            }
        });
        let params = params.collect();
        LaunchInfo {
            entry: func.name.clone(),
            target: func.target,
            threads: func.launch_warps() * 32,
            cluster: func.cluster,
            is_cooperative: func.is_cooperative,
            shared_bytes: func.shared_bytes,
            params,
            param_bytes: list.bytes() as u32,
        }
    }
}

/// The tensor maps of the host through which a kernel stores: they are parameters and never results.
fn stored_maps(func: &Func) -> HashSet<Value> {
    let stores = func.walk().into_iter();
    let stored = stores.filter_map(|inst| stored(func, inst));
    stored
        .filter(|value| func.ty(*value).as_tensor_map().is_some())
        .collect()
}

/// Bytes that a parameter takes and is aligned to: PTX aligns a number to its own size.
fn size_and_align(ty: &Type) -> (u32, u32) {
    if ty.as_tensor_map().is_some() {
        return (TENSOR_MAP_BYTES, TENSOR_MAP_ALIGNMENT_BYTES);
    }
    let elem = ty
        .elem()
        .expect("a verified kernel takes scalars and tensor maps");
    (elem.bytes(), elem.bytes())
}
