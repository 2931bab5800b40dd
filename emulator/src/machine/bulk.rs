//! Starting bulk and TMA copies, and waiting for them (PTX ISA 9.7.9.25 and 9.7.9.27).

use super::access::{addresses, check_aligned, unwritten};
use super::engine::{
    Destination, Fill, MAX_GIVEN_BYTES, Other, Pending, Piece, Work, shared_index,
};
use super::generic::{Target, check_running, shared_owner};
use super::mbarrier::MbarrierId;
use super::order::{Actor, ActorId};
use super::run::{Scene, Stepped, Worker};
use super::windows;
use crate::fault::{FaultKind, Memory, Trouble};
use crate::lanes::lanes_of;
use crate::program::copy::{BulkCopy, BulkKind, GroupOp, RemoteStore, Spot, TensorBox};
use crate::program::{Cell, File};
use crate::tensor_map::{TensorAccess, TensorMap};
use ptx::Type;

/// Alignment of both sides of a bulk copy, and of its size.
const BULK_ALIGN: u32 = 16;
/// Alignment of the tile of a TMA copy in shared memory.
const TILE_ALIGN: u32 = 128;

/// Bulk groups of a thread.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BulkGroups {
    /// Number of the open group.
    current: u64,
    /// The open group has copies.
    has_open: bool,
    /// Groups below are complete as far as the thread knows.
    waited: u64,
    /// The step of the last store.
    last_store: u32,
}

impl BulkGroups {
    pub(crate) fn last_store(self) -> u32 {
        self.last_store
    }

    /// The thread has copies that it has not waited for.
    pub(crate) fn is_unfinished(self) -> bool {
        self.has_open || self.waited < self.current
    }
}

/// What one copy moves.
struct Moved {
    pieces: Vec<Piece>,
    fill: Fill,
    /// The type of the elements where a tensor map says it.
    element: Option<Type>,
}

impl Moved {
    /// Bytes that follow one another on both sides.
    fn run(shared: u64, bytes: u32, other: Other) -> Moved {
        let piece = Piece {
            shared: shared_index(shared),
            bytes,
            other,
        };
        Moved {
            pieces: vec![piece],
            fill: Fill::Zero,
            element: None,
        }
    }
}

/// One side of a copy of a run begins where the engine can.
fn check_bulk(memory: Memory, address: u64, lane: usize) -> Stepped {
    check_aligned(memory, "bulk copy", &[address; 32], 1 << lane, BULK_ALIGN)
}

impl Scene<'_> {
    /// The bulk stores of a thread as one who accesses shared memory.
    pub(crate) fn bulk_actor(&mut self, lane: u32) -> ActorId {
        self.cluster.actors.number(Actor::BulkGroups {
            cta: self.cta as u16,
            warp: self.warp.index as u16,
            lane: lane as u16,
        })
    }
}

impl Worker<'_> {
    /// The address of a spot in a lane, in the memory that it means.
    pub(crate) fn place(
        &self,
        scene: &Scene<'_>,
        spot: &Spot,
        lane: usize,
    ) -> Option<(Target, u64)> {
        let all = addresses(&scene.warp.regs, &spot.base);
        let mut rest = 1 << lane;
        Target::next(spot.space, &all, &mut rest).map(|(target, _, within)| (target, within[lane]))
    }

    /// A spot that must be in shared memory: its CTA and its address there.
    fn shared_place(
        &self,
        scene: &Scene<'_>,
        spot: &Spot,
        lane: usize,
        what: &str,
    ) -> Stepped<(usize, u64)> {
        match self.place(scene, spot, lane) {
            Some((Target::Shared, address)) => shared_owner(scene, lane, address),
            other => {
                let address = other.map_or(0, |(_, address)| address);
                let message = format!("{what} at {address:#x} must be in shared memory");
                Err(Trouble::access(
                    FaultKind::OutOfBounds,
                    lane,
                    address,
                    0,
                    message,
                ))
            }
        }
    }

    pub(crate) fn bulk_copy(&mut self, scene: &mut Scene<'_>, copy: &BulkCopy) -> Stepped {
        for lane in lanes_of(scene.mask) {
            self.bulk_copy_of_lane(scene, copy, lane)?;
        }
        Ok(())
    }

    fn bulk_copy_of_lane(
        &mut self,
        scene: &mut Scene<'_>,
        copy: &BulkCopy,
        lane: usize,
    ) -> Stepped {
        let (cta, shared) =
            self.shared_place(scene, &copy.shared, lane, "the tile of a bulk copy")?;
        let align = match copy.kind {
            BulkKind::FromTensor(_) | BulkKind::ToTensor(_) => TILE_ALIGN,
            _ => BULK_ALIGN,
        };
        check_aligned(Memory::Shared, "bulk copy", &[shared; 32], 1 << lane, align)?;
        let Moved {
            pieces,
            fill,
            element,
        } = self.moved(scene, copy, shared, lane)?;
        let total: u32 = pieces.iter().map(|piece| piece.bytes).sum();
        let reduction = copy
            .reduction
            .map(|(op, ty)| (op, ty.or(element).unwrap_or(Type::U32)));
        let pending = Pending {
            step: scene.path.pc,
            cta: scene.cta,
            warp: scene.warp.index,
            lane: lane as u32,
            group: None,
            pieces,
            work: Work::Store { reduction },
            shared_reduction: None,
            came: scene.warp.knows.came.clone(),
        };
        match (&copy.kind, &copy.mbarrier) {
            (BulkKind::ToGlobal { .. } | BulkKind::ToTensor(_), _) => {
                self.start_group_store(scene, pending, cta, lane)
            }
            (_, Some(mbarrier)) => {
                let first = self.lane_mbarrier(scene, mbarrier, lane)?;
                let targets = self.targets(scene, copy, cta, first, lane)?;
                let work = Work::Load {
                    targets,
                    fill,
                    bytes: total,
                };
                self.start_checked_load(
                    scene,
                    Pending {
                        work,
                        shared_reduction: reduction,
                        ..pending
                    },
                    lane,
                )
            }
            (_, None) => Err(Trouble::new(
                FaultKind::Mbarrier,
                1 << lane,
                "a bulk load needs an mbarrier".to_owned(),
            )),
        }
    }

    /// What a copy moves from or to `shared`, byte for byte.
    fn moved(
        &mut self,
        scene: &mut Scene<'_>,
        copy: &BulkCopy,
        shared: u64,
        lane: usize,
    ) -> Stepped<Moved> {
        match &copy.kind {
            BulkKind::FromGlobal { src: other, bytes }
            | BulkKind::ToGlobal { dst: other, bytes } => {
                let bytes = self.bulk_bytes(scene, *bytes, lane)?;
                let place = self.place(scene, other, lane);
                let address = place.map_or(0, |(_, address)| address);
                check_bulk(Memory::Global, address, lane)?;
                Ok(Moved::run(shared, bytes, Other::Global(address)))
            }
            BulkKind::ToCluster { src, bytes } => {
                let bytes = self.bulk_bytes(scene, *bytes, lane)?;
                let (_, from) = self.shared_place(scene, src, lane, "the source of a bulk copy")?;
                check_bulk(Memory::Shared, from, lane)?;
                self.inside(scene, scene.cta, from, bytes, lane)?;
                Ok(Moved::run(shared, bytes, Other::Shared(shared_index(from))))
            }
            BulkKind::FromTensor(tensor) | BulkKind::ToTensor(tensor) => {
                let mut map = self.tensor_map(scene, &tensor.map, lane)?;
                if matches!(copy.kind, BulkKind::ToTensor(_)) && copy.reduction.is_none() {
                    map = map.written_in_whole_units();
                }
                let coords = tensor_coords(scene, tensor, lane);
                check_rank(&map, tensor, lane)?;
                check_innermost(&map, &coords, lane)?;
                let words = &scene.warp.regs.words;
                let offset = |&slot: &u32| words[slot as usize].0[lane] as u16;
                let offsets: Vec<u16> = tensor.offsets.iter().map(offset).collect();
                let element = map.element.reduction_type();
                Ok(Moved {
                    pieces: super::tensor::pieces(&map, &coords, &offsets, shared_index(shared)),
                    fill: if map.nan_fill {
                        Fill::Nan(element)
                    } else {
                        Fill::Zero
                    },
                    element: Some(element),
                })
            }
        }
    }

    /// The CTAs that get the bytes, each with the mbarrier at the same address.
    fn targets(
        &self,
        scene: &Scene<'_>,
        copy: &BulkCopy,
        cta: usize,
        mbarrier: MbarrierId,
        lane: usize,
    ) -> Stepped<Vec<Destination>> {
        let targets = match copy.multicast {
            None => vec![Destination { cta, mbarrier }],
            Some(slot) => {
                let mask = scene.warp.regs.words[slot as usize].0[lane];
                let of = |cta: usize| Destination {
                    cta,
                    mbarrier: MbarrierId {
                        cta: cta as u16,
                        ..mbarrier
                    },
                };
                let ctas = scene.cluster.ctas.len();
                if let Some(beyond) = lanes_of(mask & 0xffff).find(|&cta| cta >= ctas) {
                    let message = format!(
                        "a multicast to CTA {beyond} of a cluster of {ctas}: its mask is {:#b}",
                        mask & 0xffff
                    );
                    return Err(Trouble::new(FaultKind::OutOfBounds, 1 << lane, message));
                }
                for cta in lanes_of(mask & 0xffff) {
                    check_running(scene, cta, lane)?;
                }
                lanes_of(mask & 0xffff).map(of).collect()
            }
        };
        Ok(targets)
    }

    fn lane_mbarrier(
        &self,
        scene: &mut Scene<'_>,
        spot: &Spot,
        lane: usize,
    ) -> Stepped<MbarrierId> {
        let all = addresses(&scene.warp.regs, &spot.base);
        let id = self.mbarrier_id(scene, spot.space, lane, all[lane])?;
        scene.cluster.mbarrier(id, 1 << lane)?;
        Ok(id)
    }

    fn inside(
        &self,
        scene: &Scene<'_>,
        cta: usize,
        address: u64,
        bytes: u32,
        lane: usize,
    ) -> Stepped<usize> {
        let memory = &scene.cluster.ctas[cta].shared;
        memory
            .index(address, bytes)
            .ok_or_else(|| memory.outside(Memory::Shared, "bulk copy", lane, address, bytes))
    }

    fn check_pieces_inside(
        &self,
        scene: &Scene<'_>,
        cta: usize,
        pieces: &[Piece],
        lane: usize,
    ) -> Stepped {
        for piece in pieces {
            self.inside(
                scene,
                cta,
                super::races::address(piece.shared as usize),
                piece.bytes,
                lane,
            )?;
        }
        Ok(())
    }

    fn start_checked_load(
        &mut self,
        scene: &mut Scene<'_>,
        pending: Pending,
        lane: usize,
    ) -> Stepped {
        if let Work::Load { targets, .. } = &pending.work {
            for target in targets {
                self.check_pieces_inside(scene, target.cta, &pending.pieces, lane)?;
            }
        }
        self.start_load(scene, pending)
    }

    fn start_group_store(
        &mut self,
        scene: &mut Scene<'_>,
        pending: Pending,
        cta: usize,
        lane: usize,
    ) -> Stepped {
        if cta != scene.cta {
            let message = "a bulk store reads the shared memory of its own CTA".to_owned();
            return Err(Trouble::new(FaultKind::IllegalOperand, 1 << lane, message));
        }
        self.check_pieces_inside(scene, cta, &pending.pieces, lane)?;
        let groups = scene.warp.bulk_groups.entry(lane as u32).or_default();
        groups.has_open = true;
        groups.last_store = scene.path.pc;
        let number = groups.current;
        let group = Some(number);
        self.start_store(scene, Pending { group, ..pending }, number)
    }

    fn bulk_bytes(&self, scene: &Scene<'_>, slot: u32, lane: usize) -> Stepped<u32> {
        let bytes = scene.warp.regs.words[slot as usize].0[lane];
        if bytes != 0 && bytes.is_multiple_of(BULK_ALIGN) {
            return Ok(bytes);
        }
        let message = format!(
            "a bulk copy of {bytes} bytes; the size must be a multiple of {BULK_ALIGN} above zero"
        );
        Err(Trouble::new(FaultKind::Misaligned, 1 << lane, message))
    }

    /// Reads the tensor map that an address names, in parameters, constants or global memory.
    pub(crate) fn tensor_map(
        &self,
        scene: &Scene<'_>,
        spot: &Spot,
        lane: usize,
    ) -> Stepped<TensorMap> {
        let Some((target, address)) = self.place(scene, spot, lane) else {
            return Err(Trouble::new(
                FaultKind::Descriptor,
                1 << lane,
                "no lane names a tensor map".to_owned(),
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
            64,
        )?;
        let mut bytes = [0; 128];
        if target == Target::Global {
            self.check_map_seen(scene, lane, address)?;
            self.read_global(address, &mut bytes)?;
        } else {
            let (memory, within) = self.memory(scene, target, lane, address)?;
            let index = memory.index(within, 128);
            let index = index.ok_or_else(|| {
                memory.outside(target.memory(), "tensor map access", lane, within, 128)
            })?;
            if let Some(missing) = memory.first_unwritten(index, 128) {
                return Err(unwritten(target.memory(), lane, address, 128, missing));
            }
            bytes = memory.get(index);
        }
        let memory = target.memory();
        let fail = |message| Trouble::access(FaultKind::Descriptor, lane, address, 128, message);
        let map = TensorMap::read(&bytes).ok_or_else(|| {
            fail(format!(
                "the 128 bytes in {memory} memory at {address:#x} are not a tensor map"
            ))
        })?;
        // The host's maps are checked where they are made, those of a kernel here.
        map.validate().map_err(|error| {
            fail(format!(
                "the tensor map in {memory} memory at {address:#x} has {error}"
            ))
        })?;
        Ok(map)
    }

    /// A prefetch moves nothing here, but its map and coordinates must be right.
    pub(crate) fn tensor_prefetch(&mut self, scene: &mut Scene<'_>, tensor: &TensorBox) -> Stepped {
        for lane in lanes_of(scene.mask) {
            let map = self.tensor_map(scene, &tensor.map, lane)?;
            if !tensor.coords.is_empty() {
                check_rank(&map, tensor, lane)?;
                check_innermost(&map, &tensor_coords(scene, tensor, lane), lane)?;
            }
        }
        Ok(())
    }

    /// The same of a run: where it begins and how many bytes it has must be right. What is not there is not brought.
    pub(crate) fn bulk_prefetch(
        &mut self,
        scene: &mut Scene<'_>,
        src: &Spot,
        bytes: u32,
    ) -> Stepped {
        for lane in lanes_of(scene.mask) {
            self.bulk_bytes(scene, bytes, lane)?;
            let address = self
                .place(scene, src, lane)
                .map_or(0, |(_, address)| address);
            let (all, lanes) = ([address; 32], 1 << lane);
            check_aligned(Memory::Global, "bulk prefetch", &all, lanes, BULK_ALIGN)?;
        }
        Ok(())
    }

    pub(crate) fn bulk_group(&mut self, scene: &mut Scene<'_>, op: GroupOp) -> Stepped {
        for lane in lanes_of(scene.mask) {
            let groups = scene.warp.bulk_groups.entry(lane as u32).or_default();
            match op {
                GroupOp::Commit => {
                    groups.current += 1;
                    groups.has_open = false;
                }
                GroupOp::Wait(open) => {
                    let done = groups.current.saturating_sub(open.into());
                    groups.waited = groups.waited.max(done);
                    self.complete_groups_below(scene, lane as u32, done)?;
                }
                GroupOp::WaitAll => {}
            }
        }
        Ok(())
    }

    fn complete_groups_below(&mut self, scene: &mut Scene<'_>, lane: u32, limit: u64) -> Stepped {
        let (cta, warp) = (scene.cta, scene.warp.index);
        let is_due = |pending: &Pending| {
            pending.cta == cta
                && pending.warp == warp
                && pending.lane == lane
                && pending.group.is_some_and(|g| g < limit)
        };
        while let Some(index) = scene.cluster.pending.iter().position(is_due) {
            if let Some(pending) = scene.cluster.pending.remove(index) {
                self.complete(scene.cluster, &pending)?;
            }
        }
        let actor = scene.bulk_actor(lane);
        scene.warp.knows.learn(actor, limit as u32);
        Ok(())
    }

    /// `st.async` and `red.async`: stores whose bytes an mbarrier counts.
    pub(crate) fn remote_store(&mut self, scene: &mut Scene<'_>, op: &RemoteStore) -> Stepped {
        for lane in lanes_of(scene.mask) {
            let (cta, address) =
                self.shared_place(scene, &op.dst, lane, "the destination of st.async")?;
            let bytes = op.element * op.sources.len() as u32;
            check_aligned(
                Memory::Shared,
                "asynchronous store",
                &[address; 32],
                1 << lane,
                bytes,
            )?;
            let index = self.inside(scene, cta, address, bytes, lane)?;
            let id = self.lane_mbarrier(scene, &op.mbarrier, lane)?;
            let mut given = [0; MAX_GIVEN_BYTES];
            let elements = given.chunks_exact_mut(op.element as usize);
            for (to, &source) in elements.zip(&op.sources) {
                let value = cell_value(scene, source, lane).to_le_bytes();
                to.copy_from_slice(&value[..to.len()]);
            }
            let piece = Piece {
                shared: index as u32,
                bytes,
                other: Other::Given(given),
            };
            let pending = Pending {
                step: scene.path.pc,
                cta: scene.cta,
                warp: scene.warp.index,
                lane: lane as u32,
                group: None,
                pieces: vec![piece],
                work: Work::Load {
                    targets: vec![Destination { cta, mbarrier: id }],
                    fill: Fill::Zero,
                    bytes,
                },
                shared_reduction: op.reduction,
                came: scene.warp.knows.came.clone(),
            };
            self.start_load(scene, pending)?;
        }
        Ok(())
    }
}

fn cell_value(scene: &Scene<'_>, cell: Cell, lane: usize) -> u64 {
    match cell.file {
        File::Double => scene.warp.regs.doubles[cell.slot as usize].0[lane],
        _ => scene.warp.regs.words[cell.slot as usize].0[lane].into(),
    }
}

fn tensor_coords(scene: &Scene<'_>, tensor: &TensorBox, lane: usize) -> Vec<i64> {
    tensor
        .coords
        .iter()
        .map(|&slot| i64::from(scene.warp.regs.words[slot as usize].0[lane] as i32))
        .collect()
}

fn check_rank(map: &TensorMap, tensor: &TensorBox, lane: usize) -> Stepped {
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

/// Where a box begins in global memory is a multiple of 16 bytes, and rows begin at such.
fn check_innermost(map: &TensorMap, coords: &[i64], lane: usize) -> Stepped {
    let bytes = i64::from(map.element.bytes());
    let first = coords[0];
    if first * bytes % i64::from(BULK_ALIGN) == 0 {
        return Ok(());
    }
    let message = format!(
        "the copy begins at element {first} of the innermost dimension, {bytes} bytes each; it must begin at a multiple of {BULK_ALIGN} bytes"
    );
    Err(Trouble::new(FaultKind::Misaligned, 1 << lane, message))
}
