//! The memory that an address refers to.

use crate::fault::{FaultKind, Memory, Stepped, Trouble};
use crate::lanes::{LANES, PerLane, Registers, lanes_of};
use crate::machine::memory::misuse::unwritten;
use crate::machine::memory::remote::ENDS_FIRST;
use crate::machine::order::Kind;
use crate::machine::state::linear::Linear;
use crate::machine::state::scene::{Scene, Worker};
use crate::program::windows::SHARED_BASE;
use crate::program::{AccessSpace, AddressBase, File, windows};

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
            Target::Global => unreachable!("global memory belongs to no CTA"),
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
            _ => Err(read_only(target, lane, address, bytes)),
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
            let trouble = unwritten(Memory::Shared, lane, address, bytes, missing);
            self.note_first_use(scene, trouble)?;
        }
        Ok(scene.cluster.ctas[cta].shared.get(index))
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

/// The shared memory of a CTA exists until all of its threads have exited.
pub(crate) fn check_running(scene: &Scene<'_>, cta: usize, lane: usize) -> Stepped {
    if cta == scene.cta || !scene.cluster.ctas[cta].is_done() {
        return Ok(());
    }
    let message = format!(
        "CTA {cta} of the cluster has exited, and its shared memory with it; it must wait until other CTAs have finished their accesses"
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

/// The addresses of an access in its state space.
#[inline(always)]
pub(crate) fn addresses(regs: &Registers, base: &AddressBase) -> PerLane {
    let mut result = [0; LANES];
    if base.file == File::Double {
        let cells = &regs.doubles[base.slot as usize].0;
        for lane in 0..LANES {
            result[lane] = cells[lane].wrapping_add_signed(base.offset);
        }
    } else {
        // A 32-bit address is one of a window, in which offsets wrap.
        let cells = &regs.words[base.slot as usize].0;
        for lane in 0..LANES {
            result[lane] = cells[lane].wrapping_add(base.offset as u32).into();
        }
    }
    result
}

/// The index in shared memory of an address that has been checked.
pub(crate) fn shared_index(address: u64) -> u32 {
    address as u32 - SHARED_BASE
}

/// The shared address of an index.
pub(crate) fn shared_address(index: usize) -> u64 {
    index as u64 + u64::from(SHARED_BASE)
}

/// Refuses to write constants and parameters.
#[inline(always)]
pub(crate) fn check_writable(target: Target, lane: usize, address: u64, bytes: u32) -> Stepped {
    match target {
        Target::Shared | Target::Local | Target::Global => Ok(()),
        Target::Const | Target::Param => Err(read_only(target, lane, address, bytes)),
    }
}

fn read_only(target: Target, lane: usize, address: u64, bytes: u32) -> Box<Trouble> {
    let memory = target.memory();
    let message = format!(
        "store of {bytes} bytes to {memory} memory at {address:#x}, which kernels may only read"
    );
    Trouble::access(FaultKind::ReadOnly, lane, address, bytes, message)
}
