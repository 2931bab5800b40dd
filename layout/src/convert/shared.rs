//! Exchange through shared memory.

use smallvec::SmallVec;

use super::cost::{Cost, exchange_cost};
use super::elements::{Elements, Offsets};
use super::exchange::{AccessKind, Exchange, LaneAccess, RemoteRead, Scope};
use super::limits::Limits;
use super::per_thread::PerThread;
use super::pull::Pull;
use super::swizzle::{self, Allowed, Order, Side, ways};
use crate::banks::BANKS;
use crate::linear::gf2::Span;
use crate::{Axis, LinearLayout};

/// An exchange through `scratch_bytes` of shared memory per CTA, aligned to 16 bytes.
///
/// ```text
/// for exchange in exchanges:
///     (all but the first: a barrier of `scope`, so that all threads have loaded)
///     threads with lane & idle_lanes == 0 and warp & idle_warps == 0:
///         for access in exchange.stores: write the registers to store_thread ^ access.xor_bytes + access.add_bytes
///     a barrier of `scope`
///     for access in exchange.loads: read the values from load_thread ^ access.xor_bytes + access.add_bytes
/// ```
///
/// No thread may be using the scratch when the first store happens, nor use it again before all threads of `scope` have
/// loaded; these two barriers are the caller's, which knows the accesses before and after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedPlan {
    /// Bytes of shared memory per CTA.
    pub scratch_bytes: u32,
    /// Who must wait for whom.
    pub scope: Scope,
    /// How the stores are made.
    pub store_kind: AccessKind,
    /// How the loads are made.
    pub load_kind: AccessKind,
    /// The passes; one unless shared memory is to be saved.
    pub exchanges: Vec<Exchange>,
    /// The part of a store's byte offset that depends on the thread.
    pub store_thread: PerThread,
    /// The part of a load's byte offset that depends on the thread.
    pub load_thread: PerThread,
    /// Elements of a thread per store.
    pub store_vec: u32,
    /// Elements of a thread per load.
    pub load_vec: u32,
    /// Wavefronts per store beyond those that its bytes need.
    pub store_conflicts: u32,
    /// Wavefronts per load beyond those that its bytes need.
    pub load_conflicts: u32,
    /// Lane bits that only tell copies apart: threads where one is set do not store.
    pub idle_lanes: u32,
    /// Warp bits that only tell copies apart: threads where one is set do not store.
    pub idle_warps: u32,
    /// Whose scratch the loads read, when [`Scope::Cluster`]; else everyone reads its own CTA's.
    pub remote: Option<RemoteRead>,
}

impl SharedPlan {
    /// The cheapest plan; registers are numbered as [`Pull`] does, stores name the source's own.
    pub(super) fn new(pull: &Pull, elem_bits: u32, limits: Limits) -> Self {
        let plan = Self::within(scope(pull), pull, elem_bits, limits);
        if plan.scope != Scope::Warp || plan.scratch_bytes <= limits.scratch_bytes {
            return plan;
        }
        // Warps that hold the same take one part together where a part for each is too large.
        let together = Self::within(Scope::Cta, pull, elem_bits, limits);
        if together.scratch_bytes < plan.scratch_bytes {
            together
        } else {
            plan
        }
    }

    fn within(scope: Scope, pull: &Pull, elem_bits: u32, limits: Limits) -> Self {
        let elements = Elements::new(pull, scope);
        let side = |map: &LinearLayout| side(map, &elements.apart);
        let (store, load) = (side(&elements.stored), side(&elements.loaded));
        // Matrices move within one CTA, and every lane takes part.
        let is_near = scope != Scope::Cluster;
        let allowed = Allowed {
            widest_bytes: limits.widest_bytes,
            store_matrices: is_near && elements.idle_lanes == 0,
            load_matrices: is_near,
        };
        let drafts = ways(&store, &load, elem_bits / 8, allowed)
            .into_iter()
            .map(|access| {
                let draft = Draft::new(access, elements.bits, elem_bits, limits);
                let bytes = draft.offsets.pass_bytes().max(limits.scratch_bytes);
                ((bytes, draft.cost(elem_bits, scope).total()), draft)
            });
        // The first of equals: plain accesses before matrices.
        let best = drafts.reduce(|best, next| if next.0 < best.0 { next } else { best });
        let (_, draft) = best.expect("vectors of one element suit every layout");
        Self::of(&draft, scope, pull, &elements)
    }

    fn of(draft: &Draft, scope: Scope, pull: &Pull, elements: &Elements) -> Self {
        let offsets = &draft.offsets;
        let values: Vec<u32> = (0..pull.dst.num_registers()).collect();
        let (access, blocks) = (&draft.access, &elements.remote.register);
        let (store_thread, stores) = one_side(
            &elements.stored,
            &access.store,
            access.store_bits,
            offsets,
            &pull.src_registers,
            &[],
        );
        let (load_thread, loads) = one_side(
            &elements.loaded,
            &access.load,
            access.load_bits,
            offsets,
            &values,
            blocks,
        );
        let elements_of = |lists: &[Vec<LaneAccess>]| lists[0][0].registers.len() as u32;
        let block_of = |at| elements.remote.block_of(pull.map.apply_packed(at));
        Self {
            scratch_bytes: offsets.pass_bytes(),
            scope,
            store_kind: access.store.kind,
            load_kind: access.load.kind,
            store_conflicts: draft.store_conflicts,
            load_conflicts: draft.load_conflicts,
            store_vec: elements_of(&stores),
            load_vec: elements_of(&loads),
            exchanges: stores
                .into_iter()
                .zip(loads)
                .map(|(stores, loads)| Exchange { stores, loads })
                .collect(),
            store_thread,
            load_thread,
            idle_lanes: elements.idle_lanes,
            idle_warps: elements.idle_warps,
            remote: (scope == Scope::Cluster).then(|| RemoteRead {
                thread: PerThread::collect(&pull.map, block_of),
            }),
        }
    }
}

/// A candidate for the exchange, computed as far as its cost needs.
struct Draft {
    access: swizzle::AccessScheme,
    offsets: Offsets,
    store_conflicts: u32,
    load_conflicts: u32,
}

impl Draft {
    fn new(access: swizzle::AccessScheme, bits: u32, elem_bits: u32, limits: Limits) -> Self {
        let elem_bytes = elem_bits / 8;
        let order = Order::new(&access, bits, elem_bytes, limits.scratch_bytes);
        let offsets = Offsets::new(&order, elem_bytes);
        Self {
            store_conflicts: conflicts(&access.store, &offsets, access.store_bits),
            load_conflicts: conflicts(&access.load, &offsets, access.load_bits),
            access,
            offsets,
        }
    }

    fn cost(&self, elem_bits: u32, scope: Scope) -> Cost {
        let at_once = |side: &Side, bits: u32| {
            if side.kind == AccessKind::Vector {
                return 1 << bits;
            }
            let matrices = side.register.len() as u32 - side.word.len() as u32;
            let matrices = matrices.saturating_sub(self.offsets.pass_bits + side.registers_apart());
            1_u32 << (side.word.len() as u32 + matrices.min(2))
        };
        let (store, load) = (&self.access.store, &self.access.load);
        let (store_vec, load_vec) = (
            at_once(store, self.access.store_bits),
            at_once(load, self.access.load_bits),
        );
        exchange_cost(
            scope,
            1 << self.offsets.pass_bits,
            elem_bits,
            [
                (
                    (1 << store.register.len()) / store_vec,
                    store_vec,
                    self.store_conflicts,
                ),
                (
                    (1 << load.register.len()) / load_vec,
                    load_vec,
                    self.load_conflicts,
                ),
            ],
        )
    }
}

/// The thread's part of the offsets and the accesses of every pass.
fn one_side(
    map: &LinearLayout,
    side: &Side,
    vector_bits: u32,
    offsets: &Offsets,
    names: &[u32],
    blocks: &[u32],
) -> (PerThread, Vec<Vec<LaneAccess>>) {
    if side.kind != AccessKind::Vector {
        return matrix_accesses(map, side, offsets, names);
    }
    let thread = PerThread::collect(map, |at| offsets.of(map.apply_packed(at)));
    let lists = accesses(map, offsets, vector_bits, &thread, names, blocks);
    (thread, lists)
}

/// Register bits of a matrix access: those within a 32-bit register, up to two that tell matrices apart, the others.
fn matrix_accesses(
    map: &LinearLayout,
    side: &Side,
    offsets: &Offsets,
    names: &[u32],
) -> (PerThread, Vec<Vec<LaneAccess>>) {
    let registers = map.bases(Axis::Register);
    let bits_where = |wanted: &dyn Fn(u64) -> bool| -> SmallVec<[usize; 8]> {
        (0..registers.len())
            .filter(|&bit| wanted(registers[bit]))
            .collect()
    };
    let in_word = |unit: u64| side.word.contains(&unit);
    let is_apart = |unit: u64| side.apart.contains(&unit);
    let mut word = bits_where(&in_word);
    word.sort_by_key(|&bit| offsets.number(registers[bit]));
    let is_alone = |unit: u64| offsets.pass(unit) != 0 || is_apart(unit);
    let mut others = bits_where(&|unit| !in_word(unit) && !is_alone(unit));
    let matrices: SmallVec<[usize; 2]> = others.drain(..others.len().min(2)).collect();
    others.extend(bits_where(&|unit| !in_word(unit) && is_alone(unit)));

    let offset_of_register = |bit: Option<&usize>| bit.map_or(0, |&bit| offsets.of(registers[bit]));
    let mut thread = PerThread::collect(map, |at| offsets.of(map.apply_packed(at)));
    // The lanes that give the addresses of a matrix's rows, in their order: those that hold the rows, or where these run
    // through a register and four lanes, their stand-ins.
    let rows: SmallVec<[u32; 5]> = match side.kind {
        AccessKind::Transposed => [offset_of_register(word.first())]
            .into_iter()
            .chain(thread.lane[..2].iter().copied())
            .collect(),
        AccessKind::Vector | AccessKind::Matrix => thread.lane[2..].iter().copied().collect(),
    };
    thread.lane = rows;
    thread.lane.extend([
        offset_of_register(matrices.first()),
        offset_of_register(matrices.get(1)),
    ]);
    let reach = thread.reach();

    let spread = |number: usize, bits: &[usize]| {
        bits.iter()
            .enumerate()
            .filter(|&(at, _)| number >> at & 1 == 1)
            .fold(0, |all, (_, bit)| all | 1_usize << bit)
    };
    let mut lists = vec![Vec::new(); 1 << offsets.pass_bits];
    for number in 0..1_usize << others.len() {
        let base = spread(number, &others);
        let element = map.apply_packed(base as u64);
        let offset = offsets.of(element);
        let matrix = |at: usize| (0..1_usize << word.len()).map(move |within| (at, within));
        let within = (0..1_usize << matrices.len()).flat_map(matrix);
        lists[offsets.pass(element)].push(LaneAccess {
            registers: within
                .map(|(at, within)| names[base | spread(at, &matrices) | spread(within, &word)])
                .collect(),
            xor_bytes: offset & reach,
            add_bytes: offset & !reach,
            block_xor: 0,
        });
    }
    (thread, lists)
}

fn scope(pull: &Pull) -> Scope {
    if pull.stays_in_warp() {
        Scope::Warp
    } else if pull.stays_in_block() {
        Scope::Cta
    } else {
        Scope::Cluster
    }
}

fn side(map: &LinearLayout, apart: &[u64]) -> Side {
    Side {
        apart: apart.iter().copied().collect(),
        kind: AccessKind::Vector,
        register: map.bases(Axis::Register).iter().copied().collect(),
        lane: map.bases(Axis::Lane).iter().copied().collect(),
        word: SmallVec::new(),
    }
}

/// The accesses of one side, one list per pass, each of ascending offset for a thread at 0. `blocks` are the parts of
/// the register bits in the CTA to read from.
fn accesses(
    map: &LinearLayout,
    offsets: &Offsets,
    vector_bits: u32,
    thread: &PerThread,
    names: &[u32],
    blocks: &[u32],
) -> Vec<Vec<LaneAccess>> {
    let passes = 1_usize << offsets.pass_bits;
    let vec_bytes = offsets.elem_bytes << vector_bits;
    let mut by_place: Vec<(usize, u32, u32, u32)> = (0..map.num_registers())
        .map(|register| {
            let element = map.apply_packed(u64::from(register));
            (
                offsets.pass(element),
                parity_sum(blocks, register),
                offsets.of(element),
                register,
            )
        })
        .collect();
    by_place.sort_unstable();
    let reach = thread.reach();
    let mut lists = vec![Vec::new(); passes];
    for group in
        by_place.chunk_by(|a, b| (a.0, a.1, a.2 / vec_bytes) == (b.0, b.1, b.2 / vec_bytes))
    {
        let (pass, block_xor, offset, _) = group[0];
        lists[pass].push(LaneAccess {
            registers: group
                .iter()
                .map(|&(.., register)| names[register as usize])
                .collect(),
            xor_bytes: offset & reach,
            add_bytes: offset & !reach,
            block_xor,
        });
    }
    lists
}

fn parity_sum(entries: &[u32], bits: u32) -> u32 {
    entries
        .iter()
        .enumerate()
        .filter(|&(bit, _)| bits >> bit & 1 == 1)
        .fold(0, |sum, (_, entry)| sum ^ entry)
}

/// Extra wavefronts per access: lanes of one wavefront in one bank, at different words.
fn conflicts(side: &Side, offsets: &Offsets, vector_bits: u32) -> u32 {
    let words: SmallVec<[u64; 5]> = side
        .wavefront(vector_bits, offsets.elem_bytes)
        .iter()
        .map(|&lane| u64::from(offsets.of(lane) / 4))
        .collect();
    let banks = u64::from(BANKS - 1);
    let different = Span::of(words.iter().copied()).rank();
    let spread = Span::of(words.iter().map(|word| word & banks)).rank();
    (1 << (different - spread)) - 1
}
