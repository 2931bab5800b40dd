//! Tensor maps that kernels make or change (PTX ISA 9.7.9.28 and 9.7.13.16).

use crate::fault::{FaultKind, Stepped, Trouble};
use crate::lanes::lanes_of;
use crate::machine::memory::address::Target;
use crate::machine::memory::peers::Reach;
use crate::machine::order::Kind;
use crate::machine::state::cluster::WrittenMap;
use crate::machine::state::scene::{Scene, Worker};
use crate::machine::units::in_flight::deposit;
use crate::program::File;
use crate::program::copy::{ReplaceField, Spot};
use crate::tensor_map::{MARK, replacement};
use ptx::Scope;
use std::collections::BTreeSet;
use target::TENSOR_MAP_BYTES;

impl Scene<'_> {
    /// The warp releases the tensor maps that it wrote.
    pub(crate) fn release_maps(&mut self) {
        let actor = self.warp.actor;
        let maps = self.cluster.maps.values_mut();
        for map in maps.filter(|map| map.maker == actor) {
            map.is_released = true;
        }
    }
}

impl Worker<'_> {
    /// A map that the kernel wrote must be released, and acquired by the warp that uses it.
    pub(crate) fn check_map_acquired(
        &self,
        scene: &Scene<'_>,
        lane: usize,
        address: u64,
    ) -> Stepped {
        let made = scene.cluster.maps.get(&address);
        let Some(map) = made.filter(|_| self.context.launch.checks.races) else {
            return Ok(());
        };
        let missing = if !map.is_released {
            "release it"
        } else if !map.acquirers.contains(&scene.warp.actor) {
            "acquire it"
        } else {
            return Ok(());
        };
        let message = format!(
            "the kernel wrote the tensor map in global memory at {address:#x}, and the fence.proxy.tensormap to {missing} is missing"
        );
        Err(Trouble::access(
            FaultKind::Race,
            lane,
            address,
            TENSOR_MAP_BYTES,
            message,
        ))
    }

    /// The warp observes a map as its writer released it.
    pub(crate) fn acquire_map(&mut self, scene: &mut Scene<'_>, map: &Spot) -> Stepped {
        for lane in lanes_of(scene.mask) {
            if let Some((Target::Global, address)) = self.place(scene, map, lane)
                && let Some(made) = scene.cluster.maps.get_mut(&address)
                && made.is_released
            {
                made.acquirers.insert(scene.warp.actor);
            }
        }
        Ok(())
    }

    pub(crate) fn replace_field(&mut self, scene: &mut Scene<'_>, op: &ReplaceField) -> Stepped {
        for lane in lanes_of(scene.mask) {
            let value = match op.value.file {
                File::Double => scene.warp.regs.doubles[op.value.slot as usize].0[lane],
                _ => scene.warp.regs.words[op.value.slot as usize].0[lane].into(),
            };
            let (at, bytes) = replacement(op.field, op.index, value)
                .map_err(|message| Trouble::new(FaultKind::Descriptor, 1 << lane, message))?;
            self.check_place(scene, &op.map, lane)?;
            self.patch(scene, &op.map, lane, 0, &MARK)?;
            self.patch(scene, &op.map, lane, at, &bytes)?;
        }
        Ok(())
    }

    /// A map is one word of 1024 bits, which lies as others do.
    fn check_place(&self, scene: &Scene<'_>, map: &Spot, lane: usize) -> Stepped {
        match self.place(scene, map, lane) {
            Some((_, address)) if !address.is_multiple_of(TENSOR_MAP_BYTES.into()) => {
                let message = format!(
                    "the tensor map at {address:#x} is misaligned: the address must be a multiple of {TENSOR_MAP_BYTES} bytes"
                );
                Err(Trouble::access(
                    FaultKind::Misaligned,
                    lane,
                    address,
                    TENSOR_MAP_BYTES,
                    message,
                ))
            }
            _ => Ok(()),
        }
    }

    /// Writes bytes at an offset of a tensor map.
    fn patch(
        &mut self,
        scene: &mut Scene<'_>,
        map: &Spot,
        lane: usize,
        at: usize,
        bytes: &[u8],
    ) -> Stepped {
        let length = bytes.len() as u32;
        match self.place(scene, map, lane) {
            Some((Target::Global, base)) => {
                let address = base + at as u64;
                let index = self.context.map.find(address, length.into());
                let index =
                    index.ok_or_else(|| self.out_of_bounds("store", lane, address, length))?;
                let allocation = &self.context.map.list()[index];
                self.reach(
                    allocation,
                    ("store", Reach::Update),
                    lane,
                    (address, length),
                )?;
                let range = ((address - allocation.base) as usize, bytes.len());
                let stamp = (scene.stamp(Kind::WRITE), Scope::Gpu);
                self.access_global(scene, index, 1 << lane, std::iter::once(range), stamp)?;
                allocation.write((address - allocation.base) as usize, bytes);
                let made = WrittenMap {
                    maker: scene.warp.actor,
                    is_released: false,
                    acquirers: BTreeSet::new(),
                };
                scene.cluster.maps.insert(base, made);
                Ok(())
            }
            Some((Target::Shared, base)) => {
                let address = base + at as u64;
                let (owner, index) =
                    self.locate(scene, Target::Shared, "store", lane, address, length)?;
                let range = (index, bytes.len());
                self.access_shared(scene, owner, lane, range, Kind::WRITE)?;
                deposit(&mut scene.cluster.ctas[owner].shared, index, bytes, None);
                Ok(())
            }
            _ => {
                let message =
                    "a tensor map that is changed lies in global or shared memory".to_owned();
                Err(Trouble::new(FaultKind::Descriptor, 1 << lane, message))
            }
        }
    }

    /// `tensormap.cp_fenceproxy`: the warp copies a map to where TMA reads it.
    pub(crate) fn publish_map(&mut self, scene: &mut Scene<'_>, dst: &Spot, src: &Spot) -> Stepped {
        scene.check_whole_warp("tensormap.cp_fenceproxy")?;
        let Some((Target::Shared, from)) = self.place(scene, src, 0) else {
            let message = "the source of a tensor map's copy must be in shared memory".to_owned();
            return Err(Trouble::new(FaultKind::Descriptor, 1, message));
        };
        let bytes: ptx::EncodedTensorMap = self.load_shared(scene, 0, from)?;
        self.check_place(scene, dst, 0)?;
        self.check_place(scene, src, 0)?;
        self.patch(scene, dst, 0, 0, &bytes)?;
        scene.release_maps();
        Ok(())
    }
}
