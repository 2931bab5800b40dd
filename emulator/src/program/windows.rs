//! Addresses of the state spaces: each is a window of the generic addresses.

use super::operand::AccessSpace;

/// Shared memory of the cluster. The low 32 bits are the `.shared` address.
pub(crate) const SHARED: u64 = 0x6000_0000_0000;
/// Private memory of the thread.
pub(crate) const LOCAL: u64 = 0x5000_0000_0000;
/// Parameters of the kernel.
pub(crate) const PARAM: u64 = 0x4000_0000_0000;
/// Constants of the module.
pub(crate) const CONST: u64 = 0x3000_0000_0000;

/// Bits of a shared address below the number of the CTA: zero means the own CTA, otherwise it is the rank plus one.
pub(crate) const CTA_SHIFT: u32 = 24;

/// The state space of a generic address and the address in it.
pub(crate) fn of(address: u64) -> (AccessSpace, u64) {
    let low = address & 0xffff_ffff;
    match address & !0xffff_ffff {
        SHARED => (AccessSpace::SharedCluster, low),
        LOCAL => (AccessSpace::Local, low),
        PARAM => (AccessSpace::Param, low),
        CONST => (AccessSpace::Const, low),
        _ => (AccessSpace::Global, address),
    }
}

/// Where the shared memory of a CTA starts in its window. Like the windows it is the emulator's choice: not 0, so that a null
/// address faults, and aligned for every swizzle.
pub(crate) const SHARED_BASE: u32 = 0x400;
