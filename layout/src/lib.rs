//! The layout algebra: which thread owns each element of a tensor.
//!
//! A layout is an ordinary value. It can be computed, printed, parsed, compared, drawn and requested its bank
//! conflicts on the host, without a kernel:
//!
//! ```
//! use layout::{Blocked, Layout};
//!
//! let layout: Layout = Blocked::new([1, 4], [8, 4], [4, 1], [1, 0]).into();
//! assert_eq!(layout.to_string(), "Blocked([1, 4], [8, 4], [4, 1], [1, 0])");
//! assert!(layout.check(&[64, 64]).is_ok());
//! ```
//!
//! Under every name lies one algebra: a [`LinearLayout`], a linear map over GF(2) from (register, lane, warp, block)
//! or (offset, block) to the coordinates of the tensor. [`Layout::linear`] and [`SharedLayout::linear`] are the only
//! places where a name turns into a map; everything else asks the map.
#![forbid(unsafe_code)]

mod axis;
mod bases;
mod blocked;
mod coalesce;
mod dims;
mod distributed;
mod distributed_linear;
mod dot_operand;
mod error;
mod mma;
mod nvmma;
mod padded;
mod rules;
mod shared;
mod shared_linear;
mod slice;
mod sparse;
mod swizzled;
mod text;
mod warp_sets;
mod wgmma;

mod banks;
pub mod convert;
pub mod linear;
pub mod local;
pub mod matrix;
pub mod relate;
pub mod tma;
pub mod view;

pub use axis::Axis;
pub use blocked::Blocked;
pub use coalesce::{AccessFacts, spread};
pub use dims::{Dims, Extent, Shape};
pub use distributed::{Auto, Coalesced, Layout};
pub use distributed_linear::DistributedLinear;
pub use dot_operand::DotOperand;
pub use error::{BasisFault, LayoutError};
pub use linear::LinearLayout;
pub use mma::Mma;
pub use nvmma::{Nvmma, NvmmaSwizzle, SplitNvmma};
pub use padded::{Padded, Unpadded};
pub use shared::SharedLayout;
pub use shared_linear::SharedLinear;
pub use slice::Slice;
pub use sparse::elements_of_metadata;
pub use swizzled::Swizzled;
pub use text::{AnyLayout, ParseLayoutError};
pub use warp_sets::{WarpSets, sets_of, warps_of_set};
pub use wgmma::Wgmma;
