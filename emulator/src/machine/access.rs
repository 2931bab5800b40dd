//! Loads and stores of a warp.

use super::generic::{Target, check_writable};
use super::lane_group::{Group, gather, gather_words, mark_written, scatter, scatter_words};
use super::linear::Linear;
use super::order::Kind;
use super::run::{Scene, Stepped, Worker};
use crate::fault::{FaultKind, Memory, Trouble};
use crate::global::Allocation;
use crate::lanes::{LANES, Lanes32, Lanes64, Registers, lanes_of};
use crate::program::{Access, AddressBase, Cell, Extend, File};
use std::sync::Arc;

/// An address, or an offset, in each lane.
pub(crate) type PerLane = [u64; LANES];

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

/// The value of an element of at most eight bytes as its register holds it.
#[inline(always)]
fn extended(value: u64, element: u32, extend: Extend, register_bits: u32) -> u64 {
    if extend == Extend::Zero || element * 8 >= register_bits {
        return value;
    }
    let shift = 64 - element * 8;
    ((value << shift) as i64 >> shift) as u64 & (u64::MAX >> (64 - register_bits))
}

/// Writes one element per lane to a register.
#[inline(always)]
pub(crate) fn put_elements(
    regs: &mut Registers,
    cell: Cell,
    (element, extend): (u32, Extend),
    mask: u32,
    values: &PerLane,
) {
    if cell.file == File::Double {
        let mut out = Lanes64([0; LANES]);
        for lane in 0..LANES {
            out.0[lane] = extended(values[lane], element, extend, 64);
        }
        regs.put64(cell.slot, mask, &out);
        return;
    }
    let mut out = Lanes32([0; LANES]);
    for lane in 0..LANES {
        out.0[lane] = extended(values[lane], element, extend, cell.bits) as u32;
    }
    regs.put32(cell.slot, mask, &out);
}

/// The register of a cell in all lanes, as 64 bits.
#[inline(always)]
pub(crate) fn get_elements(regs: &Registers, cell: Cell) -> PerLane {
    if cell.file == File::Double {
        return regs.doubles[cell.slot as usize].0;
    }
    regs.words[cell.slot as usize].0.map(u64::from)
}

/// Refuses addresses that are not multiples of the size of the access.
pub(crate) fn check_aligned(
    memory: Memory,
    verb: &str,
    addresses: &PerLane,
    mask: u32,
    bytes: u32,
) -> Stepped {
    let mut low = 0;
    for lane in 0..LANES {
        low |= if mask & (1 << lane) != 0 {
            addresses[lane]
        } else {
            0
        };
    }
    if low & u64::from(bytes - 1) == 0 {
        return Ok(());
    }
    let is_crooked = |lane: &usize| !addresses[*lane].is_multiple_of(bytes.into());
    let lane = lanes_of(mask).find(is_crooked).unwrap_or(0);
    let address = addresses[lane];
    let message = format!(
        "{verb} of {bytes} bytes in {memory} memory at {address:#x} is misaligned: the address must be a multiple of {bytes}"
    );
    Err(
        Trouble::access(FaultKind::Misaligned, lane, address, bytes, message).help(
            "begin at such a multiple: pad rows to it, and promise no more than holds (`#[multiple_of]`)",
        ),
    )
}

/// Complains about bytes that were read before anything wrote them.
pub(crate) fn unwritten(
    memory: Memory,
    lane: usize,
    address: u64,
    bytes: u32,
    missing: u32,
) -> Box<Trouble> {
    let message = format!(
        "load of {bytes} bytes from {memory} memory at {address:#x} reads uninitialised memory: nothing has written byte {missing} of it"
    );
    let help = match memory {
        Memory::Shared => {
            "store to it first; where a copy fills it, wait for the phase that the copy completes (a fresh mbarrier is in phase 0, and a \
             wait for phase 1 passes at once)"
        }
        _ => "write the buffer first, or mask what has not been written",
    };
    Trouble::access(FaultKind::Uninitialised, lane, address, bytes, message).help(help)
}

impl Worker<'_> {
    pub(crate) fn load(&mut self, scene: &mut Scene<'_>, access: &Access) -> Stepped {
        let addresses = addresses(&scene.warp.regs, &access.base);
        let mut rest = scene.mask;
        while let Some((target, lanes, addresses)) =
            Target::next(access.space, &addresses, &mut rest)
        {
            check_aligned(target.memory(), "load", &addresses, lanes, access.bytes)?;
            self.counts.load(target.memory(), lanes, access.bytes);
            match target {
                Target::Global => self.load_global(scene, access, lanes, &addresses)?,
                Target::Shared if self.load_words(scene, access, lanes, &addresses) => {}
                _ => self.load_linear(scene, access, target, lanes, &addresses)?,
            }
        }
        Ok(())
    }

    pub(crate) fn store(&mut self, scene: &mut Scene<'_>, access: &Access) -> Stepped {
        let addresses = addresses(&scene.warp.regs, &access.base);
        let mut rest = scene.mask;
        while let Some((target, lanes, addresses)) =
            Target::next(access.space, &addresses, &mut rest)
        {
            check_aligned(target.memory(), "store", &addresses, lanes, access.bytes)?;
            self.counts.store(target.memory(), lanes, access.bytes);
            match target {
                Target::Global => self.store_global(scene, access, lanes, &addresses)?,
                Target::Shared if self.store_words(scene, access, lanes, &addresses) => {}
                _ => self.store_linear(scene, access, target, lanes, &addresses)?,
            }
        }
        Ok(())
    }

    /// The lanes of `rest` that access the same allocation as its first lane.
    pub(crate) fn group(
        &self,
        scene: &mut Scene<'_>,
        verb: &str,
        addresses: &PerLane,
        bytes: u32,
        rest: &mut u32,
    ) -> Stepped<Option<Group>> {
        if *rest == 0 {
            return Ok(None);
        }
        let lane = rest.trailing_zeros() as usize;
        let address = addresses[lane];
        let map = &self.context.map;
        let size = u64::from(bytes);
        let fits = |allocation: &Allocation, address: u64| {
            let offset = address.wrapping_sub(allocation.base);
            offset <= allocation.bytes && size <= allocation.bytes - offset
        };
        let last = map
            .list()
            .get(scene.warp.last_allocation)
            .filter(|allocation| fits(allocation, address));
        let allocation = if let Some(allocation) = last {
            allocation
        } else {
            let index = map
                .find(address, size)
                .ok_or_else(|| self.out_of_bounds(verb, lane, address, bytes))?;
            scene.warp.last_allocation = index;
            &map.list()[index]
        };
        let mut offsets = [0; LANES];
        let mut is_run = *rest == u32::MAX;
        for lane in 0..LANES {
            offsets[lane] = addresses[lane].wrapping_sub(allocation.base) as usize;
            is_run &= addresses[lane] == address.wrapping_add(lane as u64 * size);
        }
        is_run &= offsets[0] as u64 + 32 * size <= allocation.bytes;
        let lanes = if is_run {
            u32::MAX
        } else {
            lanes_of(*rest)
                .filter(|&lane| fits(allocation, addresses[lane]))
                .fold(0, |lanes, lane| lanes | 1 << lane)
        };
        *rest &= !lanes;
        Ok(Some(Group {
            allocation: Arc::clone(allocation),
            lanes,
            offsets,
            is_run,
        }))
    }

    pub(crate) fn out_of_bounds(
        &self,
        verb: &str,
        lane: usize,
        address: u64,
        bytes: u32,
    ) -> Box<Trouble> {
        let place = self.context.map.describe(address, bytes.into());
        let hint = if address < 0x1_0000 {
            " (a null pointer?)"
        } else {
            ""
        };
        let message = format!(
            "{verb} of {bytes} bytes in global memory at {address:#x}{hint} is out of bounds: {place}"
        );
        Trouble::access(FaultKind::OutOfBounds, lane, address, bytes, message)
            .help("mask the elements that lie outside (`.mask(at < n)`), or pass a buffer that holds them")
    }

    /// Refuses to read bytes of global memory that nothing wrote.
    pub(crate) fn check_written(&self, group: &Group, bytes: u32) -> Stepped {
        if !self.context.launch.checks.uninitialised {
            return Ok(());
        }
        let written = &group.allocation.written;
        if group.is_run
            && written
                .first_missing(group.offsets[0], LANES * bytes as usize)
                .is_none()
        {
            return Ok(());
        }
        for lane in lanes_of(group.lanes) {
            if let Some(missing) = written.first_missing(group.offsets[lane], bytes as usize) {
                let offset = group.offsets[lane];
                let address = group.allocation.base + offset as u64;
                return Err(unwritten(
                    Memory::Global,
                    lane,
                    address,
                    bytes,
                    (missing - offset) as u32,
                ));
            }
        }
        Ok(())
    }

    fn load_global(
        &mut self,
        scene: &mut Scene<'_>,
        access: &Access,
        lanes: u32,
        addresses: &PerLane,
    ) -> Stepped {
        let mut rest = lanes;
        while let Some(group) = self.group(scene, "load", addresses, access.bytes, &mut rest)? {
            self.check_written(&group, access.bytes)?;
            for (index, &cell) in access.cells.iter().enumerate() {
                let at = index * access.element as usize;
                if access.element == 4 && cell.file == File::Word {
                    let out = gather_words(&group, at);
                    scene.warp.regs.put32(cell.slot, group.lanes, &out);
                    continue;
                }
                let values = gather(&group, at, access.element);
                put_elements(
                    &mut scene.warp.regs,
                    cell,
                    (access.element, access.extend),
                    group.lanes,
                    &values,
                );
            }
        }
        Ok(())
    }

    fn store_global(
        &mut self,
        scene: &mut Scene<'_>,
        access: &Access,
        lanes: u32,
        addresses: &PerLane,
    ) -> Stepped {
        let mut rest = lanes;
        while let Some(group) = self.group(scene, "store", addresses, access.bytes, &mut rest)? {
            for (index, &cell) in access.cells.iter().enumerate() {
                let at = index * access.element as usize;
                if access.element == 4 && cell.file == File::Word {
                    scatter_words(&group, at, &scene.warp.regs.words[cell.slot as usize]);
                    continue;
                }
                let values = get_elements(&scene.warp.regs, cell);
                scatter(&group, at, access.element, &values);
            }
            mark_written(&group, access.bytes);
        }
        Ok(())
    }

    fn load_linear(
        &mut self,
        scene: &mut Scene<'_>,
        access: &Access,
        target: Target,
        lanes: u32,
        addresses: &PerLane,
    ) -> Stepped {
        let checks = self.context.launch.checks.uninitialised;
        let mut places = [(0, 0); LANES];
        for lane in lanes_of(lanes) {
            let (owner, index) =
                self.locate(scene, target, "load", lane, addresses[lane], access.bytes)?;
            // First, for what a copy under way will write is not written yet either.
            if target == Target::Shared {
                let range = (index, access.bytes as usize);
                self.access_shared(scene, owner, lane, range, read_kind(access))?;
            }
            let memory = self.linear(scene, target, owner);
            if checks && let Some(missing) = memory.first_unwritten(index, access.bytes) {
                let address = addresses[lane];
                return Err(unwritten(
                    target.memory(),
                    lane,
                    address,
                    access.bytes,
                    missing,
                ));
            }
            places[lane] = (owner, index);
        }
        for (part, &cell) in access.cells.iter().enumerate() {
            let at = part * access.element as usize;
            let mut values = [0; LANES];
            for lane in lanes_of(lanes) {
                let (owner, index) = places[lane];
                values[lane] = read(
                    self.linear(scene, target, owner),
                    index + at,
                    access.element,
                );
            }
            let form = (access.element, access.extend);
            put_elements(&mut scene.warp.regs, cell, form, lanes, &values);
        }
        Ok(())
    }

    fn store_linear(
        &mut self,
        scene: &mut Scene<'_>,
        access: &Access,
        target: Target,
        lanes: u32,
        addresses: &PerLane,
    ) -> Stepped {
        for lane in lanes_of(lanes) {
            let address = addresses[lane];
            check_writable(target, lane, address, access.bytes)?;
            let (owner, index) =
                self.locate(scene, target, "store", lane, address, access.bytes)?;
            if target == Target::Shared {
                let range = (index, access.bytes as usize);
                self.access_shared(scene, owner, lane, range, write_kind(access))?;
            }
            for (part, cell) in access.cells.iter().enumerate() {
                let value = match cell.file {
                    File::Double => scene.warp.regs.doubles[cell.slot as usize].0[lane],
                    _ => scene.warp.regs.words[cell.slot as usize].0[lane].into(),
                };
                let at = index + part * access.element as usize;
                let memory = match target {
                    Target::Shared => &mut scene.cluster.ctas[owner].shared,
                    _ => &mut scene.warp.local,
                };
                write(memory, at, access.element, value);
            }
        }
        Ok(())
    }
}

pub(crate) fn read_kind(access: &Access) -> Kind {
    if access.is_strong {
        Kind::STRONG_READ
    } else {
        Kind::READ
    }
}

pub(crate) fn write_kind(access: &Access) -> Kind {
    if access.is_strong {
        Kind::STRONG_WRITE
    } else {
        Kind::WRITE
    }
}

/// Reads an element of at most eight bytes.
#[inline(always)]
pub(crate) fn read(memory: &Linear, index: usize, element: u32) -> u64 {
    match element {
        1 => memory.bytes[index].into(),
        2 => u16::from_le_bytes(memory.get(index)).into(),
        4 => u32::from_le_bytes(memory.get(index)).into(),
        _ => u64::from_le_bytes(memory.get(index)),
    }
}

/// Writes an element of at most eight bytes.
#[inline(always)]
pub(crate) fn write(memory: &mut Linear, index: usize, element: u32, value: u64) {
    match element {
        1 => memory.put(index, [value as u8]),
        2 => memory.put(index, (value as u16).to_le_bytes()),
        4 => memory.put(index, (value as u32).to_le_bytes()),
        _ => memory.put(index, value.to_le_bytes()),
    }
}
