//! Starting bulk and TMA copies, and waiting for them (PTX ISA 9.7.9.25 and 9.7.9.27).

use crate::fault::{FaultKind, Memory, Stepped, Trouble};
use crate::lanes::lanes_of;
use crate::machine::memory::address::{check_running, shared_address, shared_index};
use crate::machine::memory::misuse::check_aligned;
use crate::machine::order::MbarrierId;
use crate::machine::state::copies::{Destination, Fill, Other, Pending, Piece, Work};
use crate::machine::state::scene::{Scene, Worker};
use crate::machine::units::tma::map::{check_rank, check_store, tensor_coords};
use crate::machine::units::tma::pieces::pieces;
use crate::program::copy::{BulkCopy, BulkKind, Spot};
use crate::tensor_map::written_in_whole_units;
use ptx::{TensorElement, Type};

/// What one copy moves.
struct Moved {
    pieces: Vec<Piece>,
    /// Where a tensor map in global memory lies.
    map: Option<u64>,
    fill: Fill,
    /// The type of the elements where a tensor map says it.
    element: Option<Type>,
    /// A load rounds f32 to tf32.
    rounds_to_tf32: bool,
}

impl Moved {
    /// Bytes that are contiguous in source and destination.
    fn run(shared: u64, bytes: u32, other: Other) -> Moved {
        let piece = Piece {
            shared: shared_index(shared),
            bytes,
            other,
        };
        Moved {
            pieces: vec![piece],
            map: None,
            fill: Fill::Zero,
            element: None,
            rounds_to_tf32: false,
        }
    }
}

impl Worker<'_> {
    /// Bytes that addresses and sizes of bulk copies are multiples of.
    fn bulk_unit(&self) -> u32 {
        self.context.target.tensor_map.unit_bytes
    }

    /// Refuses a misaligned address of a bulk copy.
    fn check_bulk(&self, memory: Memory, address: u64, lane: usize) -> Stepped {
        let unit = self.bulk_unit();
        check_aligned(memory, "bulk copy", &[address; 32], 1 << lane, unit)
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
            BulkKind::FromTensor(_) | BulkKind::ToTensor(_) => {
                self.context.target.tensor_map.box_alignment_bytes
            }
            _ => self.bulk_unit(),
        };
        check_aligned(Memory::Shared, "bulk copy", &[shared; 32], 1 << lane, align)?;
        self.inside(scene, cta, shared, self.bulk_unit(), lane)?;
        let Moved {
            pieces,
            map,
            fill,
            element,
            rounds_to_tf32,
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
            map,
            work: Work::Store { reduction },
            shared_reduction: None,
            carried: scene.warp.carried_by(lane, scene.mask),
            arrives_at: 0,
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
                    rounds_to_tf32,
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
                self.check_bulk(Memory::Global, address, lane)?;
                Ok(Moved::run(shared, bytes, Other::Global(address)))
            }
            BulkKind::ToCluster { src, bytes } => {
                let bytes = self.bulk_bytes(scene, *bytes, lane)?;
                let (_, from) = self.shared_place(scene, src, lane, "the source of a bulk copy")?;
                self.check_bulk(Memory::Shared, from, lane)?;
                self.inside(scene, scene.cta, from, bytes, lane)?;
                Ok(Moved::run(shared, bytes, Other::Shared(shared_index(from))))
            }
            BulkKind::FromTensor(tensor) | BulkKind::ToTensor(tensor) => {
                let (mut map, at) = self.tensor_map(scene, &tensor.map, lane)?;
                if matches!(copy.kind, BulkKind::FromTensor(_)) {
                    self.check_begin(&map, lane)?;
                } else if copy.reduction.is_none() {
                    map = written_in_whole_units(map);
                }
                let coords = tensor_coords(scene, tensor, lane);
                check_rank(&map, tensor, lane)?;
                if matches!(copy.kind, BulkKind::ToTensor(_)) {
                    check_store(&map, &coords, lane)?;
                }
                self.check_innermost(&map, &coords, lane)?;
                let words = &scene.warp.regs.words;
                let offset = |&slot: &u32| words[slot as usize].0[lane] as u16;
                let offsets: Vec<u16> = tensor.offsets.iter().map(offset).collect();
                let element = map.element.reduction_type();
                Ok(Moved {
                    pieces: pieces(&map, &coords, &offsets, shared_index(shared)),
                    map: at,
                    fill: if map.nan_fill {
                        Fill::Nan(element)
                    } else {
                        Fill::Zero
                    },
                    element: Some(element),
                    rounds_to_tf32: matches!(
                        map.element,
                        TensorElement::Tf32 | TensorElement::Tf32Ftz
                    ),
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
                shared_address(piece.shared as usize),
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
        let unit = self.bulk_unit();
        if bytes != 0 && bytes.is_multiple_of(unit) {
            return Ok(bytes);
        }
        let message = format!(
            "a bulk copy of {bytes} bytes; the size must be a multiple of {unit} above zero"
        );
        Err(Trouble::new(FaultKind::Misaligned, 1 << lane, message))
    }

    /// A bulk prefetch has no effect; its address and size must be legal. Its range may lie outside of allocations.
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
            check_aligned(
                Memory::Global,
                "bulk prefetch",
                &all,
                lanes,
                self.bulk_unit(),
            )?;
        }
        Ok(())
    }
}
