//! Reading the tensor map of a TMA copy, and checking coordinates against it.

use crate::fault::{FaultKind, Stepped, Trouble};
use crate::lanes::lanes_of;
use crate::machine::memory::address::Target;
use crate::machine::memory::misuse::{check_aligned, unwritten};
use crate::machine::state::scene::{Scene, Worker};
use crate::program::copy::{Spot, TensorBox};
use crate::program::windows;
use crate::tensor_map::read_tensor_map;
use ptx::{EncodedTensorMap, TensorAccess, TensorMap};
use target::{TENSOR_MAP_ALIGNMENT_BYTES, TENSOR_MAP_BYTES};

impl Worker<'_> {
    /// Reads the tensor map that an address names, in parameters, constants or global memory, and says where in global memory.
    pub(crate) fn tensor_map(
        &self,
        scene: &Scene<'_>,
        spot: &Spot,
        lane: usize,
    ) -> Stepped<(TensorMap, Option<u64>)> {
        let Some((target, address)) = self.place(scene, spot, lane) else {
            return Err(Trouble::new(
                FaultKind::Descriptor,
                1 << lane,
                "no active lane has the address of a tensor map".to_owned(),
            ));
        };
        // A parameter's address in its own space is small; as a generic address it is in the window of parameters.
        let (target, address) = match target {
            Target::Global if address < windows::CONST => (Target::Param, address),
            other => (other, address),
        };
        check_aligned(
            target.memory(),
            "tensor map access",
            &[address; 32],
            1 << lane,
            TENSOR_MAP_ALIGNMENT_BYTES,
        )?;
        let mut bytes = [0; size_of::<EncodedTensorMap>()];
        if target == Target::Global {
            self.check_map_acquired(scene, lane, address)?;
            self.read_global(address, &mut bytes)?;
        } else {
            let (memory, within) = self.memory(scene, target, lane, address)?;
            let index = memory.index(within, TENSOR_MAP_BYTES);
            let index = index.ok_or_else(|| {
                memory.outside(
                    target.memory(),
                    "tensor map access",
                    lane,
                    within,
                    TENSOR_MAP_BYTES,
                )
            })?;
            if let Some(missing) = memory.first_unwritten(index, TENSOR_MAP_BYTES) {
                return Err(unwritten(
                    target.memory(),
                    lane,
                    address,
                    TENSOR_MAP_BYTES,
                    missing,
                ));
            }
            bytes = memory.get(index);
        }
        let memory = target.memory();
        let fail = |message| {
            Trouble::access(
                FaultKind::Descriptor,
                lane,
                address,
                TENSOR_MAP_BYTES,
                message,
            )
        };
        let map = read_tensor_map(&bytes).ok_or_else(|| {
            fail(format!(
                "the {TENSOR_MAP_BYTES} bytes in {memory} memory at {address:#x} are not a tensor map"
            ))
        })?;
        // The host's maps are checked where they are encoded, those of a kernel here.
        map.validate(self.context.target).map_err(|error| {
            fail(format!(
                "the tensor map in {memory} memory at {address:#x} has {error}"
            ))
        })?;
        Ok((map, (target == Target::Global).then_some(address)))
    }

    /// The hardware faults at a load whose map begins outside of mapped memory, wherever its box lies; a store may be by such a map.
    pub(crate) fn check_begin(&self, map: &TensorMap, lane: usize) -> Stepped {
        let allocations = &self.context.map;
        if allocations.find(map.address, 1).is_some() {
            return Ok(());
        }
        let message = format!(
            "a TMA load by a tensor map that begins at {:#x}, outside of allocations: {}",
            map.address,
            allocations.describe(map.address, 1)
        );
        let help = "let the map begin in the tensor, and reach other places by coordinates";
        Err(Trouble::new(FaultKind::OutOfBounds, 1 << lane, message).help(help))
    }

    /// A prefetch has no effect, but its map and coordinates must be legal.
    pub(crate) fn tensor_prefetch(&mut self, scene: &mut Scene<'_>, tensor: &TensorBox) -> Stepped {
        for lane in lanes_of(scene.mask) {
            let (map, _) = self.tensor_map(scene, &tensor.map, lane)?;
            if !tensor.coords.is_empty() {
                check_rank(&map, tensor, lane)?;
                self.check_innermost(&map, &tensor_coords(scene, tensor, lane), lane)?;
            }
        }
        Ok(())
    }

    /// The first element of a box is aligned to the bytes that TMA copies, and so are rows.
    pub(crate) fn check_innermost(&self, map: &TensorMap, coords: &[i64], lane: usize) -> Stepped {
        let unit = self.context.target.tensor_map.unit_bytes;
        let bytes = i64::from(map.element.bytes());
        let first = coords[0];
        if first * bytes % i64::from(unit) == 0 {
            return Ok(());
        }
        let message = format!(
            "the copy begins at element {first} of the innermost dimension, {bytes} bytes each; it must begin at a multiple of {unit} bytes"
        );
        let help = format!(
            "begin at a multiple of {} elements, further in front where a halo is read, with a block that is as much wider",
            i64::from(unit) / bytes
        );
        Err(Trouble::new(FaultKind::Misaligned, 1 << lane, message).help(help))
    }
}

/// A store or a reduction of a box that begins in front of the tensor, along any dimension and be it outside as a whole, is an illegal instruction on an H200; loads fill what lies there.
pub(crate) fn check_store(map: &TensorMap, coords: &[i64], lane: usize) -> Stepped {
    let is_tiled = matches!(map.access, TensorAccess::Tiled { .. });
    let innermost_last = coords.iter().rev().enumerate();
    match innermost_last.into_iter().find(|(_, at)| **at < 0) {
        Some((dim, at)) if is_tiled => {
            let message = format!(
                "a TMA store to coordinate {at} of dimension {dim}, in front of the tensor; the hardware loads from there, and cannot store to there"
            );
            let help = "begin at 0 at least: let the first block be a narrower one, or store its part by threads";
            Err(Trouble::new(FaultKind::OutOfBounds, 1 << lane, message).help(help))
        }
        _ => Ok(()),
    }
}

pub(crate) fn tensor_coords(scene: &Scene<'_>, tensor: &TensorBox, lane: usize) -> Vec<i64> {
    tensor
        .coords
        .iter()
        .map(|&slot| i64::from(scene.warp.regs.words[slot as usize].0[lane] as i32))
        .collect()
}

pub(crate) fn check_rank(map: &TensorMap, tensor: &TensorBox, lane: usize) -> Stepped {
    let coords = &tensor.coords;
    if tensor.im2col != matches!(map.access, TensorAccess::Im2col { .. }) {
        let message = "the copy and its tensor map disagree about im2col".to_owned();
        return Err(Trouble::new(FaultKind::Descriptor, 1 << lane, message));
    }
    if map.rank as usize == coords.len() {
        return Ok(());
    }
    let message = format!(
        "the copy gives {} coordinates, and its tensor map has {} dimensions",
        coords.len(),
        map.rank
    );
    Err(Trouble::new(FaultKind::Descriptor, 1 << lane, message))
}
