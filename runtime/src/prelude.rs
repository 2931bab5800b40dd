//! Everything that kernels and their cases use, to be imported at once.

pub use gluon_lang::lang::prelude::*;
pub use library::prelude::*;

pub use crate::buffer::Buffer;
pub use crate::case::Tolerance::{self, Absolute, Close, Exactly, Frobenius, Relative, Ulps};
pub use crate::case::{Case, CaseResult, Input, Mapped, Output, Shared};
pub use crate::device::Device;
pub use crate::element::DeviceElement;
pub use crate::kernel::{Compiler, Kernel};
pub use crate::launch::{Grid, grid};
pub use crate::mapped::MappedBuffer;
pub use crate::number::{Number, Reference};
pub use crate::peer::{Collective, Gemm, Peer};
pub use crate::stream::Stream;
pub use crate::tensor_map::{L2Promotion, SEQUENCE_END, TensorView};
pub use crate::world::{Symmetric, World};
