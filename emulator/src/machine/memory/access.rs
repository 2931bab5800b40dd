//! Loads and stores of a warp.

use crate::fault::Stepped;
use crate::lanes::{LANES, PerLane, lanes_of};
use crate::machine::memory::address::{Target, addresses, check_writable};
use crate::machine::memory::element::{put_elements, read, write};
use crate::machine::memory::misuse::{check_aligned, unwritten};
use crate::machine::memory::time::Does;
use crate::machine::order::Kind;
use crate::machine::state::scene::{Scene, Worker};
use crate::program::{Access, Cell, File};

impl Worker<'_> {
    pub(crate) fn load(&mut self, scene: &mut Scene<'_>, access: &Access) -> Stepped {
        let addresses = addresses(&scene.warp.regs, &access.base);
        scene.warp.has_accessed = true;
        let mut rest = scene.mask;
        while let Some((target, lanes, addresses)) =
            Target::next(access.space, &addresses, &mut rest)
        {
            check_aligned(target.memory(), "load", &addresses, lanes, access.bytes)?;
            self.counts.load(target.memory(), lanes, access.bytes);
            let asks_l1 = access.strong.is_none();
            let does = (access.bytes, Does::Load { asks_l1 });
            self.time_access(scene, target, (lanes, &addresses), does);
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
        scene.warp.has_accessed = true;
        let mut rest = scene.mask;
        while let Some((target, lanes, addresses)) =
            Target::next(access.space, &addresses, &mut rest)
        {
            check_aligned(target.memory(), "store", &addresses, lanes, access.bytes)?;
            self.counts.store(target.memory(), lanes, access.bytes);
            let does = (access.bytes, Does::Store);
            self.time_access(scene, target, (lanes, &addresses), does);
            match target {
                Target::Global => self.store_global(scene, access, lanes, &addresses)?,
                Target::Shared if self.store_words(scene, access, lanes, &addresses) => {}
                _ => self.store_linear(scene, access, target, lanes, &addresses)?,
            }
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
            // First, as what a copy in flight will write is not written yet either.
            if target == Target::Shared {
                let range = (index, access.bytes as usize);
                self.access_shared(scene, owner, lane, range, read_kind(access))?;
            }
            let memory = self.linear(scene, target, owner);
            if checks && let Some(missing) = memory.first_unwritten(index, access.bytes) {
                let address = addresses[lane];
                let trouble = unwritten(target.memory(), lane, address, access.bytes, missing);
                if target != Target::Shared {
                    return Err(trouble);
                }
                self.note_first_use(scene, trouble)?;
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
                let repeats = self.repeats(scene, access, (owner, index), lane);
                let kind = (write_kind(access), repeats);
                self.access_repeated(scene, owner, lane, range, kind)?;
            }
            for (part, cell) in access.cells.iter().enumerate() {
                let value = value(scene, *cell, lane);
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

impl Worker<'_> {
    /// Is what a lane stores there already?
    fn repeats(
        &self,
        scene: &Scene<'_>,
        access: &Access,
        (owner, index): (usize, usize),
        lane: usize,
    ) -> bool {
        let memory = &scene.cluster.ctas[owner].shared;
        let keep = u64::MAX >> (64 - access.element * 8);
        access.cells.iter().enumerate().all(|(part, cell)| {
            let at = index + part * access.element as usize;
            read(memory, at, access.element) & keep == value(scene, *cell, lane) & keep
        })
    }
}

fn value(scene: &Scene<'_>, cell: Cell, lane: usize) -> u64 {
    match cell.file {
        File::Double => scene.warp.regs.doubles[cell.slot as usize].0[lane],
        _ => scene.warp.regs.words[cell.slot as usize].0[lane].into(),
    }
}

pub(crate) fn read_kind(access: &Access) -> Kind {
    if access.strong.is_some() {
        Kind::STRONG_READ
    } else {
        Kind::READ
    }
}

pub(crate) fn write_kind(access: &Access) -> Kind {
    if access.strong.is_some() {
        Kind::STRONG_WRITE
    } else {
        Kind::WRITE
    }
}
