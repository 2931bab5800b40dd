//! A machine that executes PTX on the CPU, for `sm_90a`: every instruction of crate `ptx`.
//!
//! - Warps of 32 lanes execute decoded steps, all lanes of a register in one loop. Lanes diverge at branches and
//!   reconverge at the immediate postdominator, at `bar.warp.sync` and at exchanges between lanes.
//! - CTAs run on all cores, the CTAs of a cluster together. Within a cluster
//!   [`Launch::seed`] chooses the order: which warp runs for how long, and when asynchronous copies and products complete.
//! - It is strict. What the PTX ISA forbids or leaves undefined is a [`Fault`] that names the author's line: accesses
//!   out of bounds, misaligned, uninitialised or unordered, barriers that part of a warp misses, mbarriers that
//!   are misused, matrix products read in flight, a missing `fence.proxy.async`, and for a deadlock what each warp waits for.
//! - Races in shared memory are found by vector clocks, in whatever order warps run here: barriers, mbarriers, waits and
//!   fences carry happens-before, and of two conflicting accesses one must happen before the other.
//! - So are races in global memory, between warps, CTAs and launches that overlap ([`Launch::overlaps_previous`]), with the scopes,
//!   releases, acquires and fences of the PTX memory model.
//!
//! - Several devices run as one ([`World`]): their addresses are disjoint, a device accesses memory of another one only through a window
//!   that is open to it, and what they hand to each other must be ordered at the scope of the system. Their launches are one schedule on one
//!   thread, which the seed determines; some seeds delay writes to other devices.
//!
//! Where things are:
//!
//! ```text
//! decode    from a module to steps; flow: where paths reconverge; watch: registers that may be read unwritten
//! program   what decoding gives: steps, their operands, the windows of the state spaces, the author's places
//! lanes, numeric   registers as arrays over 32 lanes, and the arithmetic on them
//! global    device memory and its allocations
//! tensor_map   the 128 bytes of a tensor map, as this machine lays them out
//! machine   executes: seven layers, each using only those before it
//!   order     vector clocks, and the shadows of shared and global memory: their last accesses
//!   state     what a launch, a cluster, a CTA and a warp hold, and what is in flight
//!   memory    loads, stores and atomics of a warp: state spaces, bounds, initialisation, races
//!   units     tma, cp_async, tensor_cores (wgmma, mma.sync, ldmatrix), mbarrier
//!   execute   the steps of a warp: guards, branches, exchanges of lanes, barriers
//!   schedule  which warp runs when and when copies complete; deadlocks; checks at CTA exit; reports of faults
//!   emulator  an emulated device, and several that run as one
//! ```
//!
//! A TMA load is issued in `machine::units::tma::copy`, moves its boxes (`pieces`) and counts its bytes in
//! `machine::units::in_flight`, and ends its phase in `machine::units::mbarrier::phase`. `tests/layers.rs` checks the layers.
//!
//! Results are those of IEEE arithmetic with the rounding that an instruction names. Approximate functions are
//! computed more exactly than the hardware does; products of matrices are exact before each addition to f32.
//!
//! ```text
//! let program = Program::load(&module)?;
//! let emulator = Emulator::new();
//! let x = emulator.memory().alloc(4096)?;
//! let stats = emulator.launch(&program, "kernel", &Launch::linear(8, 128), &params)?;
//! ```
#![forbid(unsafe_code)]
#![allow(
    clippy::bool_to_int_with_if,
    clippy::double_comparisons,
    clippy::float_cmp,
    clippy::nonminimal_bool,
    clippy::precedence,
    reason = "exact comparisons, unordered ones, and shifts of products are what an instruction set is made of"
)]
#![allow(
    clippy::inline_always,
    reason = "lane loops become vector code only when what they call is inlined"
)]
#![allow(
    clippy::unnecessary_box_returns,
    reason = "trouble is rare, and its results travel through hot code"
)]
#![allow(
    clippy::unused_self,
    reason = "methods of the decoder and the worker read alike"
)]
#![allow(
    clippy::unnecessary_wraps,
    reason = "every instruction decodes through the same signature"
)]
#![allow(
    clippy::needless_range_loop,
    reason = "loops over lanes index several arrays at once"
)]

mod decode;
mod fault;
mod global;
mod lanes;
mod machine;
mod numeric;
mod program;
mod tensor_map;

pub use fault::{CallSite, Fault, FaultKind, Memory, Place, Related};
pub use global::{GlobalMemory, MemoryError};
pub use machine::{
    Announced, Checks, CtaTime, Emulator, HostAccess, HostOrder, Launch, RankLaunch, Right,
    SM_COUNT, Stats, World, WorldError,
};
pub use program::{LoadError, Program};
pub use tensor_map::encode_tensor_map;
