//! Global memory: the allocation that an address means, and loads and stores of a warp.

use crate::fault::{FaultKind, Memory, Stepped, Trouble};
use crate::global::Allocation;
use crate::lanes::{LANES, PerLane, lanes_of};
use crate::machine::memory::access::{read_kind, write_kind};
use crate::machine::memory::element::{get_elements, put_elements};
use crate::machine::memory::lane_group::{
    Group, gather, gather_words, mark_written, scatter, scatter_words,
};
use crate::machine::memory::misuse::unwritten;
use crate::machine::memory::peers::Reach;
use crate::machine::state::peers::{Effect, RemoteWrite};
use crate::machine::state::scene::{Scene, Worker};
use crate::program::{Access, File, Strong};
use ptx::Type;
use std::sync::Arc;

impl Worker<'_> {
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
        let (number, allocation) = if let Some(allocation) = last {
            (scene.warp.last_allocation, allocation)
        } else {
            let index = map
                .find(address, size)
                .ok_or_else(|| self.out_of_bounds(verb, lane, address, bytes))?;
            scene.warp.last_allocation = index;
            (index, &map.list()[index])
        };
        let mut offsets = [0; LANES];
        let mut is_run = *rest == u32::MAX;
        for lane in 0..LANES {
            offsets[lane] = addresses[lane].wrapping_sub(allocation.base) as usize;
            is_run &= addresses[lane] == address.wrapping_add(lane as u64 * size);
        }
        // Of a run the first lane is the one that fits; else its offset may be anything.
        is_run = is_run && offsets[0] as u64 + 32 * size <= allocation.bytes;
        let lanes = if is_run {
            u32::MAX
        } else {
            lanes_of(*rest)
                .filter(|&lane| fits(allocation, addresses[lane]))
                .fold(0, |lanes, lane| lanes | 1 << lane)
        };
        *rest &= !lanes;
        if self.is_remote(allocation) {
            let how = Reach::of_verb(verb);
            for lane in lanes_of(lanes) {
                self.reach(allocation, (verb, how), lane, (addresses[lane], bytes))?;
            }
        }
        Ok(Some(Group {
            number,
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
            .help("mask the elements that are out of bounds (`.mask(at < n)`), or pass a buffer that holds them")
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

    /// Reads global memory for a copy; the bytes must lie in an allocation and be written.
    pub(crate) fn read_global(&self, address: u64, buffer: &mut [u8]) -> Stepped {
        let bytes = buffer.len();
        let index = self.context.map.find(address, bytes as u64);
        let index = index
            .ok_or_else(|| self.out_of_bounds("asynchronous load", 0, address, bytes as u32))?;
        let allocation = &self.context.map.list()[index];
        let access = ("asynchronous load", Reach::Read);
        self.reach(allocation, access, 0, (address, bytes as u32))?;
        let offset = (address - allocation.base) as usize;
        if self.context.launch.checks.uninitialised
            && let Some(missing) = allocation.written.first_missing(offset, bytes)
        {
            let missing = (missing - offset) as u32;
            return Err(unwritten(Memory::Global, 0, address, bytes as u32, missing));
        }
        allocation.read(offset, buffer);
        Ok(())
    }

    pub(crate) fn load_global(
        &mut self,
        scene: &mut Scene<'_>,
        access: &Access,
        lanes: u32,
        addresses: &PerLane,
    ) -> Stepped {
        let mut rest = lanes;
        while let Some(group) = self.group(scene, "load", addresses, access.bytes, &mut rest)? {
            // First, as what another warp will write is not written yet either.
            self.access_group(
                scene,
                &group,
                access.bytes,
                read_kind(access),
                access.strong,
            )?;
            self.check_written(&group, access.bytes)?;
            if let Some(strong) = access.strong {
                self.load_strongly(scene, access, &group, strong);
                continue;
            }
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

    pub(crate) fn store_global(
        &mut self,
        scene: &mut Scene<'_>,
        access: &Access,
        lanes: u32,
        addresses: &PerLane,
    ) -> Stepped {
        let mut rest = lanes;
        while let Some(group) = self.group(scene, "store", addresses, access.bytes, &mut rest)? {
            if let Some(strong) = access.strong {
                let kind = write_kind(access);
                self.access_group(scene, &group, access.bytes, kind, access.strong)?;
                self.store_strongly(scene, access, &group, strong);
                continue;
            }
            self.access_to_store(scene, access, &group)?;
            self.note_weak_change();
            let arrives_later = self.arrives_later(&group);
            for (index, &cell) in access.cells.iter().enumerate() {
                let at = index * access.element as usize;
                if arrives_later {
                    let values = get_elements(&scene.warp.regs, cell);
                    self.send_weakly(&group, (at, bits_of(access.element)), &values);
                    continue;
                }
                if access.element == 4 && cell.file == File::Word {
                    scatter_words(&group, at, &scene.warp.regs.words[cell.slot as usize]);
                    continue;
                }
                let values = get_elements(&scene.warp.regs, cell);
                scatter(&group, at, access.element, &values);
            }
            if !arrives_later {
                mark_written(&group, access.bytes);
            }
        }
        Ok(())
    }

    /// Loads that are ordered by themselves, lane by lane: each may acquire what was released at its address.
    fn load_strongly(&self, scene: &mut Scene<'_>, access: &Access, group: &Group, strong: Strong) {
        let mut values = vec![[0; LANES]; access.cells.len()];
        for lane in lanes_of(group.lanes) {
            let offset = group.offsets[lane];
            let address = group.allocation.base + offset as u64;
            self.strongly(scene, address, strong, (true, false), || {
                for (part, values) in values.iter_mut().enumerate() {
                    let at = offset + part * access.element as usize;
                    values[lane] = group.allocation.element(at, access.element);
                }
            });
            self.note_poll(scene, address, access.bytes);
        }
        for (&cell, values) in access.cells.iter().zip(&values) {
            let form = (access.element, access.extend);
            put_elements(&mut scene.warp.regs, cell, form, group.lanes, values);
        }
    }

    /// Stores that are ordered by themselves, lane by lane.
    fn store_strongly(
        &self,
        scene: &mut Scene<'_>,
        access: &Access,
        group: &Group,
        strong: Strong,
    ) {
        let cells = access.cells.iter();
        let values: Vec<PerLane> = cells
            .map(|cell| get_elements(&scene.warp.regs, *cell))
            .collect();
        for lane in lanes_of(group.lanes) {
            let offset = group.offsets[lane];
            let address = group.allocation.base + offset as u64;
            if self.arrives_later(group) {
                for (part, values) in values.iter().enumerate() {
                    let write = RemoteWrite {
                        allocation: Arc::clone(&group.allocation),
                        offset: offset + part * access.element as usize,
                        ty: bits_of(access.element),
                        effect: Effect::Store(values[lane]),
                        strong: None,
                    };
                    self.send_strongly(scene, (strong, false), write);
                }
                continue;
            }
            self.note_change(scene, address);
            self.strongly(scene, address, strong, (false, true), || {
                for (part, values) in values.iter().enumerate() {
                    let at = offset + part * access.element as usize;
                    group
                        .allocation
                        .put_element(at, access.element, values[lane]);
                }
                group
                    .allocation
                    .written
                    .insert(offset, access.bytes as usize);
            });
        }
        if strong.releases {
            scene.warp.begin_epoch();
        }
    }
}

/// The type of an element of so many bytes that is only moved.
fn bits_of(bytes: u32) -> Type {
    match bytes {
        1 => Type::B8,
        2 => Type::B16,
        4 => Type::B32,
        _ => Type::B64,
    }
}
