//! Which memory an address means.

use super::access::{PerLane, unwritten};
use super::cluster_life::ENDS_FIRST;
use super::linear::Linear;
use super::order::Kind;
use super::run::{Scene, Stepped, Worker};
use super::windows;
use crate::fault::{FaultKind, Memory, Trouble};
use crate::lanes::lanes_of;
use crate::program::AccessSpace;

/// The memory of some lanes of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Global,
    /// Shared memory; addresses may name a CTA of the cluster.
    Shared,
    Local,
    Const,
    Param,
}

impl Target {
    fn of(space: AccessSpace) -> Self {
        match space {
            AccessSpace::Global | AccessSpace::Generic => Self::Global,
            AccessSpace::Shared | AccessSpace::SharedCluster => Self::Shared,
            AccessSpace::Local => Self::Local,
            AccessSpace::Const => Self::Const,
            AccessSpace::Param => Self::Param,
        }
    }

    pub(crate) fn memory(self) -> Memory {
        match self {
            Self::Global => Memory::Global,
            Self::Shared => Memory::Shared,
            Self::Local => Memory::Local,
            Self::Const => Memory::Const,
            Self::Param => Memory::Param,
        }
    }

    /// Takes lanes off `rest` that go to the same memory: the memory, the lanes, and their addresses in it.
    #[inline(always)]
    pub(crate) fn next(
        space: AccessSpace,
        addresses: &PerLane,
        rest: &mut u32,
    ) -> Option<(Self, u32, PerLane)> {
        if *rest == 0 {
            return None;
        }
        if space != AccessSpace::Generic {
            let lanes = std::mem::take(rest);
            return Some((Self::of(space), lanes, *addresses));
        }
        let first = windows::of(addresses[rest.trailing_zeros() as usize]).0;
        let mut lanes = 0;
        let mut within = [0; 32];
        for lane in lanes_of(*rest) {
            let (space, address) = windows::of(addresses[lane]);
            if space == first {
                lanes |= 1 << lane;
                within[lane] = address;
            }
        }
        *rest &= !lanes;
        Some((Self::of(first), lanes, within))
    }
}

/// Constants and parameters cannot be changed.
#[inline(always)]
pub(crate) fn check_writable(target: Target, lane: usize, address: u64, bytes: u32) -> Stepped {
    if matches!(target, Target::Shared | Target::Local | Target::Global) {
        return Ok(());
    }
    let memory = target.memory();
    let message = format!(
        "store of {bytes} bytes to {memory} memory at {address:#x}, which kernels may only read"
    );
    Err(Trouble::access(
        FaultKind::ReadOnly,
        lane,
        address,
        bytes,
        message,
    ))
}

impl Worker<'_> {
    /// The CTA that owns an address other than a global one (zero where there is one owner only), and the index of
    /// the access in its memory.
    #[inline(always)]
    pub(crate) fn locate(
        &self,
        scene: &Scene<'_>,
        target: Target,
        verb: &str,
        lane: usize,
        address: u64,
        bytes: u32,
    ) -> Stepped<(usize, usize)> {
        let (owner, within) = match target {
            Target::Shared => shared_owner(scene, lane, address)?,
            Target::Local => (0, local_address(scene, lane, address)?),
            _ => (0, address),
        };
        let memory = self.linear(scene, target, owner);
        match memory.index(within, bytes) {
            Some(index) => Ok((owner, index)),
            None => Err(memory.outside(target.memory(), verb, lane, within, bytes)),
        }
    }

    /// The memory of an owner that [`locate`](Self::locate) found.
    #[inline(always)]
    pub(crate) fn linear<'s>(
        &'s self,
        scene: &'s Scene<'_>,
        target: Target,
        owner: usize,
    ) -> &'s Linear {
        match target {
            Target::Shared => &scene.cluster.ctas[owner].shared,
            Target::Local => &scene.warp.local,
            Target::Const => &self.context.constants,
            Target::Param | Target::Global => &self.context.params,
        }
    }
}

impl Worker<'_> {
    /// The bytes that an address other than a global one means for a lane, and the address in them.
    #[inline(always)]
    pub(crate) fn memory<'s>(
        &'s self,
        scene: &'s Scene<'_>,
        target: Target,
        lane: usize,
        address: u64,
    ) -> Stepped<(&'s Linear, u64)> {
        match target {
            Target::Shared => {
                let (cta, address) = shared_owner(scene, lane, address)?;
                Ok((&scene.cluster.ctas[cta].shared, address))
            }
            Target::Local => Ok((&scene.warp.local, local_address(scene, lane, address)?)),
            Target::Const => Ok((&self.context.constants, address)),
            Target::Param => Ok((&self.context.params, address)),
            Target::Global => unreachable!("global accesses do not come here"),
        }
    }

    /// As [`memory`](Self::memory), to change it.
    #[inline(always)]
    pub(crate) fn memory_mut<'s>(
        &self,
        scene: &'s mut Scene<'_>,
        target: Target,
        lane: usize,
        address: u64,
        bytes: u32,
    ) -> Stepped<(&'s mut Linear, u64)> {
        match target {
            Target::Shared => {
                let (cta, address) = shared_owner(scene, lane, address)?;
                Ok((&mut scene.cluster.ctas[cta].shared, address))
            }
            Target::Local => {
                let address = local_address(scene, lane, address)?;
                Ok((&mut scene.warp.local, address))
            }
            _ => {
                let memory = target.memory();
                let message = format!(
                    "store of {bytes} bytes to {memory} memory at {address:#x}, which kernels may only read"
                );
                Err(Trouble::access(
                    FaultKind::ReadOnly,
                    lane,
                    address,
                    bytes,
                    message,
                ))
            }
        }
    }
}

impl Worker<'_> {
    /// Reads `N` bytes of shared memory for a lane.
    pub(crate) fn load_shared<const N: usize>(
        &self,
        scene: &mut Scene<'_>,
        lane: usize,
        address: u64,
    ) -> Stepped<[u8; N]> {
        let bytes = N as u32;
        let (cta, index) = self.locate(scene, Target::Shared, "load", lane, address, bytes)?;
        self.access_shared(scene, cta, lane, (index, N), Kind::READ)?;
        let memory = &scene.cluster.ctas[cta].shared;
        if self.context.launch.checks.uninitialised
            && let Some(missing) = memory.first_unwritten(index, bytes)
        {
            return Err(unwritten(Memory::Shared, lane, address, bytes, missing));
        }
        Ok(memory.get(index))
    }

    /// Writes `N` bytes of shared memory for a lane.
    pub(crate) fn store_shared<const N: usize>(
        &self,
        scene: &mut Scene<'_>,
        lane: usize,
        address: u64,
        bytes: &[u8; N],
    ) -> Stepped {
        let (cta, index) = self.locate(scene, Target::Shared, "store", lane, address, N as u32)?;
        self.access_shared(scene, cta, lane, (index, N), Kind::WRITE)?;
        scene.cluster.ctas[cta].shared.put(index, *bytes);
        Ok(())
    }
}

/// The CTA that owns a shared address, and the address in it.
#[inline(always)]
pub(crate) fn shared_owner(scene: &Scene<'_>, lane: usize, address: u64) -> Stepped<(usize, u64)> {
    let owner = (address >> windows::CTA_SHIFT) as usize;
    if owner == 0 {
        return Ok((scene.cta, address));
    }
    if owner <= scene.cluster.ctas.len() {
        check_running(scene, owner - 1, lane)?;
        return Ok((owner - 1, address & ((1 << windows::CTA_SHIFT) - 1)));
    }
    let message = format!(
        "{address:#x} is not an address of shared memory in this cluster of {}",
        scene.cluster.ctas.len()
    );
    Err(Trouble::access(
        FaultKind::OutOfBounds,
        lane,
        address,
        0,
        message,
    ))
}

/// The shared memory of a CTA is there until all of its threads have ended.
pub(crate) fn check_running(scene: &Scene<'_>, cta: usize, lane: usize) -> Stepped {
    if cta == scene.cta || !scene.cluster.ctas[cta].is_done() {
        return Ok(());
    }
    let message = format!(
        "CTA {cta} of the cluster has ended, and its shared memory with it; it must wait until the others are done with that"
    );
    Err(Trouble::new(FaultKind::Race, 1 << lane, message).help(ENDS_FIRST))
}

/// The place of a lane's local address in the memory of its warp.
fn local_address(scene: &Scene<'_>, lane: usize, address: u64) -> Stepped<u64> {
    let stride = u64::from(scene.warp.local_stride);
    if address < stride {
        return Ok(lane as u64 * stride + address);
    }
    let message =
        format!("local memory at {address:#x} is out of bounds: a thread has {stride} bytes of it");
    Err(Trouble::access(
        FaultKind::OutOfBounds,
        lane,
        address,
        0,
        message,
    ))
}
