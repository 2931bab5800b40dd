//! ptxas, NVIDIA's assembler: found on this machine, run, and its notes read.
//!
//! No CUDA toolkit is needed: the `nvidia-cuda-nvcc` wheel or Triton's own copy will do, and without any of them the
//! driver compiles the PTX when it is loaded. ptxas is the better way where there is one: it works without a GPU, its
//! messages are better, and a cubin can be kept.
//!
//! ptxas reports the costliest facts as "info": that `wgmma` was serialised, that `setmaxnreg` was ignored. Those
//! notes (C75xx, C76xx) are errors here, see [`Code`].

mod budget;
mod codes;
mod dropped;
mod fetch;
mod find;
mod listing;
mod report;
mod run;
mod sass;
mod version;
mod work;

pub use codes::Code;
pub use fetch::{Fetchable, NVDISASM, PTXAS, fetched_folder};
pub use find::{Candidate, Environment, Origin, Ptxas, Search};
pub use listing::{MachineInst, find_nvdisasm, listing};
pub use report::{AssemblyReport, EntryReport, Message, Severity};
pub use run::{Assembled, Problem, PtxasFailure, SourcePlace, flags, watch};
pub use sass::{disassemble, find_disassembler};
pub use version::Version;
pub use work::Work;

#[cfg(test)]
mod tests;
