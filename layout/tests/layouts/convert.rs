//! Conversion plans, executed lane by lane by a machine that knows nothing of how they were made.

use layout::convert::{
    AccessKind, Conversion, ConversionPlan, LaneAccess, Limits, PerThread, Scope, SelectStage,
    SharedPlan, ShufflePlan, plan_conversion,
};
use layout::{Axis, LinearLayout};
use target::SM_90A;

use crate::family::{CUT_SHAPES, MATRIX_LAYOUTS, MATRIX_SHAPES, layout};

/// The threads of a cluster and what each holds in its registers: elements, named by their packed coordinates.
struct Machine {
    lanes: u32,
    warps: u32,
    blocks: u32,
}

pub(crate) type Registers = Vec<u32>;

impl Machine {
    fn new(map: &LinearLayout, warps: u32) -> Self {
        Self {
            lanes: map.in_size(Axis::Lane),
            warps,
            blocks: map.in_size(Axis::Block),
        }
    }

    /// (lane, warp, block) of every thread, lanes fastest.
    fn threads(&self) -> impl Iterator<Item = (u32, u32, u32)> + use<> {
        let (lanes, warps, blocks) = (self.lanes, self.warps, self.blocks);
        (0..blocks).flat_map(move |block| {
            (0..warps).flat_map(move |warp| (0..lanes).map(move |lane| (lane, warp, block)))
        })
    }

    fn index(&self, lane: u32, warp: u32, block: u32) -> usize {
        ((block * self.warps + warp) * self.lanes + lane) as usize
    }

    /// What every thread holds under a layout.
    fn registers(&self, map: &LinearLayout) -> Vec<Registers> {
        let place = |register, lane, warp, block| {
            [
                (Axis::Register, register),
                (Axis::Lane, lane),
                (Axis::Warp, warp),
                (Axis::Block, block),
            ]
        };
        // Linear: one table of registers, XORed with the thread's own part.
        let by_register: Vec<u32> = map
            .registers()
            .into_iter()
            .map(|at| map.apply_packed(map.pack_in(&place(at, 0, 0, 0))) as u32)
            .collect();
        self.threads()
            .map(|(lane, warp, block)| {
                let own = map.apply_packed(map.pack_in(&place(0, lane, warp, block))) as u32;
                by_register.iter().map(|element| element ^ own).collect()
            })
            .collect()
    }

    fn run(&self, plan: &ConversionPlan, held: &[Registers]) -> Vec<Registers> {
        let values = match &plan.conversion {
            Conversion::Registers => held.to_vec(),
            Conversion::Shuffle(shuffle) => self.shuffle(shuffle, plan.elem_bits, held),
            Conversion::Shared(shared) => self.exchange(shared, plan, held),
            Conversion::Pieces(pieces) => {
                let mut values = vec![Registers::new(); held.len()];
                for piece in pieces {
                    let part = |held: &Registers| {
                        let registers = piece.registers.iter();
                        registers.map(|&r| held[r as usize]).collect()
                    };
                    let held: Vec<Registers> = held.iter().map(part).collect();
                    let found = self.run(&piece.plan, &held);
                    for (values, found) in values.iter_mut().zip(found) {
                        values.extend(found);
                    }
                }
                values
            }
        };
        values
            .iter()
            .map(|values| {
                plan.results
                    .iter()
                    .map(|&value| values[value as usize])
                    .collect()
            })
            .collect()
    }

    fn shuffle(&self, plan: &ShufflePlan, elem_bits: u32, held: &[Registers]) -> Vec<Registers> {
        let size = plan.src_words[0].len();
        assert!(
            size == 1 || size as u32 * elem_bits <= 32,
            "a word has 32 bits"
        );
        assert!(plan.src_words.iter().all(|word| word.len() == size));
        // All elements of a thread's words in one list: word `i` is its chunk `i`.
        let mut words: Vec<Registers> = held
            .iter()
            .map(|held| {
                plan.src_words
                    .iter()
                    .flatten()
                    .map(|&register| held[register as usize])
                    .collect()
            })
            .collect();
        for stage in &plan.before {
            self.select(stage, size, &mut words);
        }
        let mut got: Vec<Registers> = vec![Vec::new(); words.len()];
        for ((lane, warp, block), got) in self.threads().zip(&mut got) {
            let source = plan.source_lane.of(lane, warp, block);
            for round in &plan.rounds {
                let from = source ^ round.lane_xor;
                assert!(!plan.stays(round) || from == lane);
                let first = round.word as usize * size;
                got.extend_from_slice(&words[self.index(from, warp, block)][first..first + size]);
            }
        }
        for stage in &plan.after {
            self.select(stage, size, &mut got);
        }
        got
    }

    fn select(&self, stage: &SelectStage, size: usize, words: &mut [Registers]) {
        for ((lane, warp, block), words) in self.threads().zip(words) {
            if stage.swaps(lane, warp, block) {
                let old = words.clone();
                for (at, word) in words.chunks_mut(size).enumerate() {
                    let from = (at ^ stage.xor as usize) * size;
                    word.copy_from_slice(&old[from..from + size]);
                }
            }
        }
    }

    fn exchange(
        &self,
        plan: &SharedPlan,
        whole: &ConversionPlan,
        held: &[Registers],
    ) -> Vec<Registers> {
        let elem_bytes = whole.elem_bits / 8;
        let values = plan
            .exchanges
            .iter()
            .flat_map(|exchange| &exchange.loads)
            .map(|load| load.registers.len())
            .sum();
        let mut got = vec![vec![u32::MAX; values]; held.len()];
        for exchange in &plan.exchanges {
            // One slot per element: who wrote it, and what. Empty at the start of each round: what an earlier round
            // left must not be read.
            let slots = (plan.scratch_bytes / elem_bytes) as usize;
            let mut memory: Vec<Vec<Option<(u32, u32)>>> =
                vec![vec![None; slots]; self.blocks as usize];
            for ((lane, warp, block), held) in self.threads().zip(held) {
                if lane & plan.idle_lanes != 0 || warp & plan.idle_warps != 0 {
                    continue;
                }
                for store in &exchange.stores {
                    let slots = Self::slots(
                        plan.store_kind,
                        store,
                        &plan.store_thread,
                        elem_bytes,
                        (lane, warp, block),
                    );
                    for (slot, &register) in slots.into_iter().zip(&store.registers) {
                        let written =
                            memory[block as usize][slot].replace((warp, held[register as usize]));
                        assert_eq!(written, None, "two threads write one place");
                    }
                }
            }
            for ((lane, warp, block), got) in self.threads().zip(&mut got) {
                for load in &exchange.loads {
                    let from = match &plan.remote {
                        None => block,
                        Some(remote) => remote.thread.of(lane, warp, block) ^ load.block_xor,
                    };
                    assert!(plan.scope == Scope::Cluster || from == block);
                    let slots = Self::slots(
                        plan.load_kind,
                        load,
                        &plan.load_thread,
                        elem_bytes,
                        (lane, warp, block),
                    );
                    for (slot, &value) in slots.into_iter().zip(&load.registers) {
                        let (writer, element) =
                            memory[from as usize][slot].expect("what is read was written");
                        assert!(
                            plan.scope != Scope::Warp || writer == warp,
                            "a warp barrier orders one warp"
                        );
                        got[value as usize] = element;
                    }
                }
            }
        }
        self.count_conflicts(plan, elem_bytes);
        got
    }

    /// The place of each of a thread's elements in one access, in the order of its registers, up to 16 of them.
    fn slots(
        kind: AccessKind,
        access: &LaneAccess,
        thread: &PerThread,
        elem_bytes: u32,
        (lane, warp, block): (u32, u32, u32),
    ) -> [usize; 16] {
        let offset = |lane| access.offset_bytes(thread.of(lane, warp, block));
        let count = access.registers.len() as u32;
        let bytes = count * elem_bytes;
        let mut slots = [0; 16];
        match kind {
            AccessKind::Vector => {
                let first = offset(lane);
                assert!(
                    bytes <= 16 && first.is_multiple_of(bytes),
                    "{bytes} bytes at {first}"
                );
                for at in 0..count {
                    slots[at as usize] = (first / elem_bytes + at) as usize;
                }
            }
            // As the PTX ISA has it: the row's address comes from another lane.
            AccessKind::Matrix => {
                assert!([4, 8, 16].contains(&bytes), "one, two or four matrices");
                let in_word = 4 / elem_bytes;
                for at in 0..count {
                    let row = offset(8 * (at / in_word) + lane / 4);
                    assert!(row.is_multiple_of(16), "a row at {row}");
                    slots[at as usize] =
                        ((row + 4 * (lane % 4)) / elem_bytes + at % in_word) as usize;
                }
            }
            // A lane's two elements are in two rows, at the same place.
            AccessKind::Transposed => {
                assert!([4, 8, 16].contains(&bytes) && elem_bytes == 2);
                for at in 0..count {
                    let row = offset(8 * (at / 2) + 2 * (lane % 4) + at % 2);
                    assert!(row.is_multiple_of(16), "a row at {row}");
                    slots[at as usize] = (row / 2 + lane / 4) as usize;
                }
            }
        }
        slots
    }

    /// The bank conflicts that the plan claims are those of its accesses.
    fn count_conflicts(&self, plan: &SharedPlan, elem_bytes: u32) {
        for exchange in &plan.exchanges {
            let sides = [
                (
                    &exchange.stores,
                    plan.store_kind,
                    &plan.store_thread,
                    plan.store_conflicts,
                    plan.idle_lanes,
                ),
                (
                    &exchange.loads,
                    plan.load_kind,
                    &plan.load_thread,
                    plan.load_conflicts,
                    0,
                ),
            ];
            for (accesses, kind, thread, claimed, idle) in sides {
                for access in accesses.first().into_iter().chain(accesses.last()) {
                    let bytes = match kind {
                        AccessKind::Vector => elem_bytes * access.registers.len() as u32,
                        AccessKind::Matrix | AccessKind::Transposed => 16,
                    };
                    let offset = |lane| access.offset_bytes(thread.of(lane, self.warps - 1, 0));
                    assert_eq!(extra_wavefronts(self.lanes, idle, bytes, offset), claimed);
                }
            }
        }
    }
}

/// Wavefronts beyond one of each group of lanes that the hardware serves together: the most words in one bank.
pub(crate) fn extra_wavefronts(
    lanes: u32,
    idle: u32,
    bytes: u32,
    offset: impl Fn(u32) -> u32,
) -> u32 {
    let together = (128 / bytes.max(4)).min(lanes);
    let groups = (0..lanes).step_by(together as usize).map(|first| {
        let active = (first..first + together).filter(|lane| lane & idle == 0);
        let mut words: Vec<u32> = active
            .flat_map(|lane| (0..bytes).step_by(4).map(move |byte| (lane, byte)))
            .map(|(lane, byte)| (offset(lane) + byte) / 4)
            .collect();
        words.sort_unstable();
        words.dedup();
        let mut in_bank = [0; 32];
        for word in words {
            in_bank[word as usize % 32] += 1;
        }
        in_bank.into_iter().max().unwrap_or(0)
    });
    groups.max().unwrap_or(0_u32).saturating_sub(1)
}

/// A layout with what every thread holds under it.
pub(crate) struct Held {
    pub(crate) map: LinearLayout,
    pub(crate) registers: Vec<Registers>,
    warps: u32,
}

impl Held {
    pub(crate) fn new(map: LinearLayout) -> Self {
        let warps = map.in_size(Axis::Warp);
        Self::by_warps(map, warps)
    }

    /// What so many warps hold; no others run.
    pub(crate) fn by_warps(map: LinearLayout, warps: u32) -> Self {
        let registers = Machine::new(&map, warps).registers(&map);
        Self {
            map,
            registers,
            warps,
        }
    }
}

/// The plan between two layouts, once it has left in every thread what the result wants there.
pub(crate) fn check(src: &Held, dst: &Held, elem_bits: u32, limits: Limits) -> ConversionPlan {
    let plan = plan_conversion(&src.map, &dst.map, elem_bits, limits).unwrap();
    let machine = Machine::new(&src.map, src.warps);
    let result = machine.run(&plan, &src.registers);
    assert!(
        result == dst.registers,
        "{}\n to {}\n of {elem_bits} bits by {plan:#?}",
        src.map,
        dst.map
    );
    plan
}

fn check_text(src: &str, dst: &str, shape: &[u32], elem_bits: u32) -> ConversionPlan {
    let held = |text: &str| Held::new(layout(text).linear(shape).unwrap());
    check(&held(src), &held(dst), elem_bits, Limits::of(&SM_90A))
}

/// All pairs of the family on one shape; the shapes are tests of their own, so that they run beside each other.
fn every_pair_converts_on(shape: [u32; 2]) {
    assert!(MATRIX_SHAPES.contains(&shape) || CUT_SHAPES.contains(&shape));
    // On small shapes some layouts are the same under several names.
    let mut maps: Vec<LinearLayout> = Vec::new();
    for text in MATRIX_LAYOUTS {
        let map = layout(text).linear(&shape).unwrap();
        if !maps.contains(&map) {
            maps.push(map);
        }
    }
    let maps: Vec<Held> = maps.into_iter().map(Held::new).collect();
    // Pieces of a cut shape are shapes of powers of two, which have all widths; there each pair has one.
    let is_cut = CUT_SHAPES.contains(&shape);
    let pairs = maps
        .iter()
        .flat_map(|src| maps.iter().map(move |dst| (src, dst)));
    for (at, (src, dst)) in pairs.enumerate() {
        let widths: &[u32] = match at % 4 {
            at if is_cut => &[8, 16, 32, 64][at..=at],
            _ => &[8, 16, 32, 64],
        };
        for &elem_bits in widths {
            let plan = check(src, dst, elem_bits, Limits::of(&SM_90A));
            // Where lanes hold copies, fewer accesses may be worth a conflict.
            let has_copies = [src, dst].map(|held| held.map.free_mask(Axis::Lane) != 0);
            if let Conversion::Shared(shared) = &plan.conversion
                && has_copies == [false, false]
            {
                let conflicts = (shared.store_conflicts, shared.load_conflicts);
                assert_eq!(conflicts, (0, 0), "{} to {}", src.map, dst.map);
            }
        }
    }
}

#[test]
fn every_pair_converts_on_64x64() {
    every_pair_converts_on([64, 64]);
}

#[test]
fn every_pair_converts_on_16x16() {
    every_pair_converts_on([16, 16]);
}

#[test]
fn every_pair_converts_on_16x64() {
    every_pair_converts_on([16, 64]);
}

#[test]
fn every_pair_converts_on_128x16() {
    every_pair_converts_on([128, 16]);
}

#[test]
fn every_pair_converts_on_2x64() {
    every_pair_converts_on([2, 64]);
}

#[test]
fn every_pair_converts_on_64x2() {
    every_pair_converts_on([64, 2]);
}

#[test]
fn every_pair_converts_on_16x80() {
    every_pair_converts_on([16, 80]);
}

#[test]
fn every_pair_converts_on_24x48() {
    every_pair_converts_on([24, 48]);
}

#[test]
fn every_pair_converts_on_3x64() {
    every_pair_converts_on([3, 64]);
}

#[test]
fn every_pair_converts_on_64x7() {
    every_pair_converts_on([64, 7]);
}

/// Shared memory holds the largest part, and no element that is not there.
#[test]
fn a_cut_tensor_converts_part_by_part() {
    let plan = check_text(
        "Wgmma([4, 1], [64, 176, 16])",
        "Blocked([1, 8], [4, 8], [1, 4], [1, 0])",
        &[64, 176],
        16,
    );
    let Conversion::Pieces(pieces) = &plan.conversion else {
        panic!("{plan:#?}")
    };
    let sizes: Vec<usize> = pieces.iter().map(|piece| piece.registers.len()).collect();
    assert_eq!(sizes, [64, 16, 8]);
    let bytes: Vec<u32> = pieces
        .iter()
        .map(|piece| piece.plan.scratch_bytes())
        .collect();
    assert_eq!(bytes, [64 * 128 * 2, 64 * 32 * 2, 64 * 16 * 2]);
}

#[test]
fn small_scratch_takes_several_passes() {
    let held = |text: &str| Held::new(layout(text).linear(&[64, 128]).unwrap());
    let src = held("Blocked([1, 8], [4, 8], [4, 1], [1, 0])");
    let dst = held("Blocked([1, 8], [8, 4], [1, 4], [1, 0])");
    for (limit, passes) in [(1 << 15, 1), (1 << 14, 2), (1 << 13, 4)] {
        let plan = check(
            &src,
            &dst,
            32,
            Limits {
                scratch_bytes: limit,
                ..Limits::of(&SM_90A)
            },
        );
        let Conversion::Shared(shared) = &plan.conversion else {
            panic!("{plan:#?}")
        };
        assert_eq!(
            (shared.exchanges.len(), shared.scratch_bytes <= limit),
            (passes, true)
        );
    }
}

/// 16 warps hold the same 16 KB, and would need 256 KB for a part of their own each.
#[test]
fn warps_that_hold_the_same_share_what_is_too_large_for_each() {
    let held = |text: &str| Held::new(layout(text).linear(&[2048]).unwrap());
    let src =
        held("Linear(register=[[8]], lane=[[16], [4], [32], [2], [1]], warp=[[0], [0], [0], [0]])");
    let dst = held("Blocked([8], [32], [16], [0])");
    let plan = check(&src, &dst, 64, Limits::of(&SM_90A));
    let found = (plan.scope(), plan.scratch_bytes());
    assert_eq!(found, (Some(Scope::Cta), 16 << 10));
}

#[test]
fn what_stays_in_a_thread_or_a_warp_needs_no_cta_barrier() {
    let free = |src: &str, dst: &str, shape: &[u32]| {
        assert!(check_text(src, dst, shape, 16).is_free(), "{src} to {dst}");
    };
    // Those that Gluon does without an instruction, too.
    free(
        "Mma([4, 1], [16, 8])",
        "DotOperand(0, Mma([4, 1], [16, 8]), 2)",
        &[64, 64],
    );
    free(
        "Wgmma([4, 1], [64, 64, 16])",
        "DotOperand(0, Wgmma([4, 1], [64, 64, 16]), 2)",
        &[64, 64],
    );
    free(
        "Wgmma([4, 1], [64, 64, 16])",
        "Wgmma([4, 1], [64, 32, 16])",
        &[64, 64],
    );
    // Same-warp changes of lanes: Gluon takes shared memory and seven CTA barriers for the first.
    for (src, dst) in [
        (
            "Blocked([1, 1], [32, 1], [1, 1], [1, 0])",
            "Blocked([1, 1], [16, 2], [1, 1], [1, 0])",
        ),
        (
            "Blocked([1, 2], [16, 2], [4, 1], [1, 0])",
            "Blocked([1, 4], [16, 2], [4, 1], [1, 0])",
        ),
    ] {
        for shape in [[128, 8], [128, 16]] {
            assert_eq!(
                check_text(src, dst, &shape, 32).cost().cta_barriers,
                0,
                "{src} to {dst}"
            );
        }
    }
    // Copies in other warps are used where they are.
    let copies = "Slice(0, Blocked([1, 1], [1, 32], [4, 1], [1, 0]))";
    assert_eq!(
        check_text(copies, "Blocked([1], [32], [4], [0])", &[128], 32)
            .cost()
            .cta_barriers,
        0
    );
}

#[test]
fn clusters_exchange_through_distributed_shared_memory() {
    let rows = "Blocked([1, 4], [8, 4], [4, 1], [1, 0], cta=[[1, 0]])";
    let columns = "Blocked([1, 4], [8, 4], [4, 1], [1, 0], cta=[[0, 1]])";
    let copies = "Blocked([1, 4], [8, 4], [4, 1], [1, 0], cta=[[0, 0]])";
    let other = "Blocked([4, 1], [4, 8], [1, 4], [0, 1], cta=[[1, 0]])";
    for (src, dst, scope) in [
        (rows, columns, Some(Scope::Cluster)),
        (rows, copies, Some(Scope::Cluster)),
        (rows, other, Some(Scope::Cta)),
        (copies, copies, None),
    ] {
        let plan = check_text(src, dst, &[64, 64], 16);
        match (&plan.conversion, scope) {
            (Conversion::Shared(shared), Some(scope)) => {
                assert_eq!(shared.scope, scope, "{src} to {dst}");
            }
            (Conversion::Registers, None) => {}
            _ => panic!("{src} to {dst}: {plan:#?}"),
        }
    }
    let own_half = check_text(copies, rows, &[64, 64], 16);
    assert!(
        !matches!(&own_half.conversion, Conversion::Shared(shared) if shared.scope == Scope::Cluster)
    );
}

#[test]
fn layouts_of_different_tensors_are_refused() {
    let map = |text: &str, shape: &[u32]| layout(text).linear(shape).unwrap();
    let four = map("Blocked([1], [32], [4], [0])", &[128]);
    let plan = |src, dst, bits| {
        plan_conversion(src, dst, bits, Limits::of(&SM_90A))
            .unwrap_err()
            .to_string()
    };
    let wide = map("Blocked([1], [32], [4], [0])", &[256]);
    assert!(plan(&four, &wide, 32).contains("the source has the shape [128]"));
    let eight = map("Blocked([1], [32], [8], [0])", &[128]);
    assert!(plan(&four, &eight, 32).contains("the source is spread over 4 warps"));
    assert!(plan(&four, &four, 12).contains("registers hold 8, 16, 32 or 64 bits"));
}

#[test]
fn tensor_core_layouts_go_through_matrices() {
    let blocked = "Blocked([1, 8], [4, 8], [4, 1], [1, 0])";
    let operand = "DotOperand(0, Mma([4, 1], [16, 8]), 2)";
    for accumulator in [
        "Wgmma([4, 1], [64, 64, 16])",
        "Mma([4, 1], [16, 8])",
        operand,
    ] {
        for (src, dst) in [(blocked, accumulator), (accumulator, blocked)] {
            let plan = check_text(src, dst, &[64, 64], 16);
            let Conversion::Shared(shared) = &plan.conversion else {
                panic!("{plan:#?}")
            };
            assert!(
                [shared.store_kind, shared.load_kind].contains(&AccessKind::Matrix),
                "{src} to {dst}"
            );
            let cost = plan.cost();
            assert_eq!(
                (
                    cost.stores,
                    cost.loads,
                    cost.cta_barriers,
                    plan.scratch_bytes()
                ),
                (4, 4, 1, 8192)
            );
        }
    }
}

#[test]
fn matrices_are_stored_where_the_loads_are_vectors() {
    // The result's lanes 0 and 1 walk rows: no matrix can be loaded, but the accumulator can be stored as matrices.
    let rows = "Blocked([1, 8], [32, 1], [2, 2], [0, 1])";
    let plan = check_text("Mma([4, 1], [16, 8])", rows, &[64, 16], 16);
    let Conversion::Shared(shared) = &plan.conversion else {
        panic!("{plan:#?}")
    };
    assert_eq!(
        (shared.store_kind, shared.load_kind),
        (AccessKind::Matrix, AccessKind::Vector)
    );
}

#[test]
fn matrices_are_transposed_on_their_way() {
    // The operand's lanes walk rows where the source's registers walk columns, and the other way round.
    let columns = "Blocked([8, 1], [8, 4], [1, 4], [0, 1])";
    let accumulator = "Wgmma([4, 1], [64, 64, 16])";
    for (src, dst, kinds) in [
        (
            columns,
            accumulator,
            (AccessKind::Vector, AccessKind::Transposed),
        ),
        (
            accumulator,
            columns,
            (AccessKind::Transposed, AccessKind::Vector),
        ),
    ] {
        let plan = check_text(src, dst, &[64, 64], 16);
        let Conversion::Shared(shared) = &plan.conversion else {
            panic!("{plan:#?}")
        };
        assert_eq!(
            (shared.store_kind, shared.load_kind),
            kinds,
            "{src} to {dst}"
        );
        let cost = plan.cost();
        let counts = (cost.stores, cost.loads, cost.cta_barriers);
        assert_eq!((counts, plan.scratch_bytes()), ((4, 4, 1), 8192));
    }
}

#[test]
fn each_side_is_as_wide_as_its_own_registers_allow() {
    let kinds = |src: &str, dst: &str, bits: u32| {
        let plan = check_text(src, dst, &[64, 64], bits);
        let Conversion::Shared(shared) = plan.conversion else {
            panic!("{plan:#?}")
        };
        let store = (shared.store_kind, shared.store_vec);
        (store, (shared.load_kind, shared.load_vec))
    };
    // Four elements of a thread follow one another, and eight are a row of a matrix.
    let tiles = "Blocked([4, 4], [1, 32], [4, 1], [0, 1])";
    let operand = "DotOperand(0, Wgmma([4, 1], [64, 64, 16]), 2)";
    let wanted = ((AccessKind::Vector, 4), (AccessKind::Matrix, 8));
    assert_eq!(kinds(tiles, operand, 16), wanted);
    // A transposition: one side has vectors, and the other takes them apart.
    let rows = "Blocked([1, 4], [2, 16], [4, 1], [1, 0])";
    let columns = "Blocked([4, 1], [16, 2], [1, 4], [0, 1])";
    let wanted = ((AccessKind::Vector, 4), (AccessKind::Vector, 1));
    assert_eq!(kinds(rows, columns, 32), wanted);
}
