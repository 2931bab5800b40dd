//! Peers: libraries that do the same work as a kernel and are timed beside it.
//!
//! They are found when a case is benchmarked, and never needed: where one is missing, the table says so and has the
//! kernel alone.

mod collective;
mod cublas;
mod cublas_lt;
mod dynamic;
mod gemm;
mod library;
mod lt_product;
mod nccl;
mod place;
mod rivals;

pub use collective::Collective;
pub use cublas::CublasHandle;
pub use gemm::Gemm;
pub use lt_product::LtProduct;
pub use nccl::Nccl;
pub(crate) use rivals::{LaunchCopy, Rivals};

use std::sync::Arc;

use crate::case::Tolerance;
use crate::stream::Stream;
use crate::world::World;

/// What a case can be timed beside; see [`Case::peer`](crate::case::Case::peer).
#[derive(Clone)]
pub enum Peer {
    /// NVIDIA's cuBLAS: `cublasGemmEx`, and the first candidates that cublasLt's heuristic offers, of which the best
    /// counts.
    ///
    /// The libraries are looked for as `libcublasLt.so.13` or `.12` with `libcublas.so` beside it, in this order: `lib64`
    /// and `lib` of `$CUDA_HOME` and `$CUDA_PATH`; what the loader knows (`LD_LIBRARY_PATH`, `ldconfig`);
    /// `/usr/local/cuda*/lib64`; `nvidia/*/lib` of the Python packages (`pip install nvidia-cublas`, which `PyTorch`
    /// brings along).
    Cublas(Gemm),
    /// NVIDIA's [`Nccl`] on the GPUs of a launch on ranks, in the process of the kernel: `libnccl.so.2` is looked for where cuBLAS is.
    Nccl(Collective),
}

impl Peer {
    /// What it is called.
    pub fn name(&self) -> &'static str {
        match self {
            Peer::Cublas(_) => "cuBLAS",
            Peer::Nccl(_) => "NCCL",
        }
    }

    /// How far its results may be from the kernel's; none if the kernel does something else.
    pub(crate) fn tolerance(&self) -> Option<Tolerance> {
        match self {
            Peer::Cublas(gemm) => gemm.is_compared().then(|| gemm.tolerance_of_library()),
            Peer::Nccl(collective) => Some(collective.tolerance()),
        }
    }

    /// What can be launched of it on `stream`, with `copies` copies of the tensors, and notes on what cannot.
    pub(crate) fn rivals(&self, stream: &Stream, copies: usize) -> Rivals {
        let mut rivals = Rivals::default();
        match self {
            Peer::Cublas(gemm) => {
                let contenders = [
                    ("cublasGemmEx", cublas::rivals(gemm, stream, copies)),
                    ("cublasLt", cublas_lt::rivals(gemm, stream, copies)),
                ];
                for (name, found) in contenders {
                    match found {
                        Ok(found) => rivals.found.extend(found),
                        Err(why) => rivals.note(format!("{name} is not timed: {why}")),
                    }
                }
            }
            Peer::Nccl(_) => {
                rivals.note("NCCL is not timed: it is of launches on ranks".to_owned());
            }
        }
        rivals
    }

    /// What can be launched of it on all ranks of a world.
    pub(crate) fn rivals_on_ranks(&self, world: &Arc<World>, copies: usize) -> Rivals {
        match self {
            Peer::Nccl(collective) => collective.rivals(world, copies),
            Peer::Cublas(_) => {
                let mut rivals = Rivals::default();
                rivals.note("cuBLAS is not timed: it is of launches on one device".to_owned());
                rivals
            }
        }
    }
}
