//! Exchange within a warp by `shfl.sync`.
//!
//! A shuffle lets every lane choose *whose* word it reads, but not *which*: the sender offers one. So an exchange that
//! mixes registers and lanes is done in three steps, all linear over GF(2):
//!
//! 1. before: each lane reorders its words by XOR with a number that depends on the lane,
//! 2. rounds: in round `i`, each lane reads one fixed word of another lane,
//! 3. after: each lane reorders what it got by XOR with another such number.
//!
//! # Derivation
//! Let the result's place (register r, lane l, warp w) find its element at the source's register Rr(r)+Rl(l)+Rw(w) of
//! lane Lr(r)+Ll(l)+Lw(w). In round i lane l fetches result register i+T(l), so it reads lane Lr(i)+M(l)+Lw(w) with
//! M = Ll+Lr·T, and wants there register Rr(i)+N(l)+Rw(w) with N = Rl+Rr·T. T is chosen so that M(l) = 0 only where
//! N(l) = 0; then Q = N·M⁻¹ exists, and the sender l' offers register P(i)+Q(l')+Q(Lw(w))+Rw(w), P = Rr+Q·Lr.

use smallvec::SmallVec;

use super::per_thread::PerThread;
use super::pull::Pull;
use crate::linear::gf2::Span;
use crate::{Axis, LinearLayout};

/// An exchange within every warp.
///
/// ```text
/// word[i]  = the packed registers src_words[i]
/// for stage in before: word'[i] = word[i ^ stage.xor] where the thread's parity is odd, else word[i]
/// got[i]   = word[rounds[i].word] of lane source_lane ^ rounds[i].lane_xor
/// for stage in after: got'[i] = got[i ^ stage.xor] where the thread's parity is odd, else got[i]
/// values   = the elements of got[0], got[1], ..., lowest bits first
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShufflePlan {
    /// The source's registers that make up each word, lowest bits first. Several elements of less than 32 bits share a
    /// word where they travel together; an element of 64 bits is a word that takes two shuffles.
    pub src_words: Vec<Word>,
    /// The reordering before the rounds; each stage takes the words that the one before left.
    pub before: Vec<SelectStage>,
    /// The lane from which a thread reads, before the round's own part.
    pub source_lane: PerThread,
    /// One per word of the result.
    pub rounds: Vec<Round>,
    /// The reordering after the rounds.
    pub after: Vec<SelectStage>,
}

/// The registers packed into one word, lowest bits first.
pub type Word = SmallVec<[u32; 4]>;

/// In threads where an odd number of the selected bits is set, word `i` becomes word `i ^ xor`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectStage {
    /// Which word takes the place of which.
    pub xor: u32,
    /// The bits of the lane that count.
    pub lane_mask: u32,
    /// The bits of the warp that count.
    pub warp_mask: u32,
    /// The bits of the CTA's rank that count.
    pub block_mask: u32,
}

impl SelectStage {
    /// Whether the words of this thread change places.
    pub fn swaps(&self, lane: u32, warp: u32, block: u32) -> bool {
        let set = (lane & self.lane_mask).count_ones()
            + (warp & self.warp_mask).count_ones()
            + (block & self.block_mask).count_ones();
        set % 2 == 1
    }
}

/// One shuffle: every lane reads `word` of lane `source_lane ^ lane_xor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    /// The sender's word, after the stages before.
    pub word: u32,
    /// The round's part of the lane that is read.
    pub lane_xor: u32,
}

impl ShufflePlan {
    /// Whether every lane reads from itself, so that the round is no instruction.
    pub fn stays(&self, round: &Round) -> bool {
        round.lane_xor == 0 && self.source_lane.is_lane()
    }

    /// The plan and, for each register of the pull's result, the number of the value with its element. `None` when
    /// data leaves its warp.
    pub(super) fn new(pull: &Pull, elem_bits: u32) -> Option<(Self, Vec<u32>)> {
        if !pull.stays_in_warp() {
            return None;
        }
        let packing = Packing::new(pull, elem_bits);
        let parts = Parts::new(&packing.map);
        let spread = parts.spread()?;
        let plan = parts.plan(&spread, packing.src_words);
        Some((plan, packing.values))
    }
}

/// The registers grouped into words.
struct Packing {
    /// The pull from words to words.
    map: LinearLayout,
    src_words: Vec<Word>,
    /// For each register of the result, the number of its element in the list of all words' elements.
    values: Vec<u32>,
}

impl Packing {
    /// Elements travel together when a register bit of the result is a register bit of the source and nothing else
    /// has to do with either.
    fn new(pull: &Pull, elem_bits: u32) -> Self {
        let most = (32 / elem_bits.min(32)).trailing_zeros() as usize;
        let together: SmallVec<[(u32, u32); 2]> = companions(&pull.map).take(most).collect();
        let (dst_bits, src_bits): (SmallVec<[u32; 2]>, SmallVec<[u32; 2]>) =
            together.into_iter().unzip();
        let dropped = |bits: &[u32], of: u32| bits.iter().fold(of, |rest, bit| rest & !(1 << bit));
        let src_mask = dropped(&src_bits, pull.src.num_registers() - 1);
        let dst_mask = dropped(&dst_bits, pull.dst.num_registers() - 1);
        Self {
            map: squeezed(&pull.map, src_mask, dst_mask),
            src_words: words(&pull.src_registers, src_mask, &src_bits),
            values: (0..pull.dst.num_registers())
                .map(|register| {
                    let within = gather(register, dst_bits.iter().copied());
                    gather(register, bits_of(dst_mask)) << dst_bits.len() | within
                })
                .collect(),
        }
    }
}

/// Pairs (bit of the result's register, bit of the source's register) that only have to do with each other.
fn companions(map: &LinearLayout) -> impl Iterator<Item = (u32, u32)> {
    let bases: SmallVec<[u64; 8]> = map.bases(Axis::Register).iter().copied().collect();
    let registers = map.out_bits(Axis::Register);
    let mask = (1_u64 << registers) - 1;
    let columns: SmallVec<[u64; 20]> = map.columns().iter().copied().collect();
    bases
        .into_iter()
        .zip(0..)
        .filter_map(move |(basis, dst_bit)| {
            let alone = basis.is_power_of_two()
                && basis & mask != 0
                && columns
                    .iter()
                    .filter(|&&column| column & basis != 0)
                    .count()
                    == 1;
            alone.then(|| (dst_bit, basis.trailing_zeros()))
        })
}

/// The map on the register bits that the masks leave.
fn squeezed(map: &LinearLayout, src_mask: u32, dst_mask: u32) -> LinearLayout {
    let kept = map.with_bases_kept(Axis::Register, |bit, _| dst_mask >> bit & 1 == 1);
    let registers = map.out_bits(Axis::Register);
    let columns = kept.columns().iter().map(|&column| {
        let register = gather(column as u32 & ((1 << registers) - 1), bits_of(src_mask));
        u64::from(register) | column >> registers << src_mask.count_ones()
    });
    let outs = map.outs().map(|(axis, bits)| match axis {
        Axis::Register => (axis, src_mask.count_ones()),
        _ => (axis, bits),
    });
    LinearLayout::from_columns(kept.ins(), outs, columns)
}

/// The registers of each word: the bits of the mask number the words, `within` the elements of one.
fn words(registers: &[u32], mask: u32, within: &[u32]) -> Vec<Word> {
    let word = |number: u32| -> Word {
        let base = scatter(number, bits_of(mask));
        let element = |at: u32| registers[(base | scatter(at, within.iter().copied())) as usize];
        (0..1 << within.len()).map(element).collect()
    };
    (0..1 << mask.count_ones()).map(word).collect()
}

/// The four parts of the pull, and what depends on warps and blocks.
struct Parts<'a> {
    map: &'a LinearLayout,
    registers: u32,
}

/// T of the derivation, one entry per lane bit.
type Spread = SmallVec<[u64; 5]>;

impl<'a> Parts<'a> {
    fn new(map: &'a LinearLayout) -> Self {
        Self {
            map,
            registers: map.out_bits(Axis::Register),
        }
    }

    /// The register part of a packed source place.
    fn register(&self, place: u64) -> u64 {
        place & ((1 << self.registers) - 1)
    }

    /// The lane part of a packed source place.
    fn lane(&self, place: u64) -> u64 {
        place >> self.registers & 31
    }

    /// The smallest T: registers of the result that reach lanes of the source which Ll does not reach, given to those
    /// lane combinations that Ll sends to 0 although they want different registers.
    fn spread(&self) -> Option<Spread> {
        let lanes = self.map.bases(Axis::Lane);
        // Kernel vectors of Ll with something left to fetch, as (lane combination, register wanted).
        let mut reached = Span::new();
        let mut wanting = Span::new();
        let mut lost: SmallVec<[u64; 5]> = SmallVec::new();
        for (bit, &place) in lanes.iter().enumerate() {
            let lane = self.lane(place);
            let combination = reached.solve(lane).map(|earlier| earlier | 1 << bit);
            match combination {
                None => {
                    reached.insert_tagged(lane, 1 << bit);
                }
                Some(combination) => {
                    let register =
                        lane_bits(combination).fold(0, |sum, bit| sum ^ self.register(lanes[bit]));
                    if wanting.insert(register) {
                        lost.push(bit as u64);
                    } else if register != 0 {
                        // Two combinations want one register: their XOR wants none, but T would have to tell them
                        // apart. Bases of layouts are single bits, so this does not arise from them.
                        return None;
                    }
                }
            }
        }
        // T(lost bit) = a register that reaches a new lane; all other lane bits keep 0. In the basis made of the other
        // bits and the kernel vectors this is zero on the former, since a kernel vector holds one lost bit.
        let registers = self.map.bases(Axis::Register);
        let mut spread = Spread::from_elem(0, lanes.len());
        for bit in lost {
            // A register that reaches the lane itself saves the shuffle of round 0; else any new lane will do.
            let own = registers
                .iter()
                .position(|&place| self.lane(place) == 1 << bit);
            let own = own.filter(|&register| !reached.contains(self.lane(registers[register])));
            let any = || {
                registers
                    .iter()
                    .position(|&place| !reached.contains(self.lane(place)))
            };
            let register = own.or_else(any)?;
            reached.insert(self.lane(registers[register]));
            spread[bit as usize] = 1 << register;
        }
        Some(spread)
    }

    fn plan(&self, spread: &Spread, src_words: Vec<Word>) -> ShufflePlan {
        // M and N together: where lane l finds what it fetches in round 0.
        let fetched: SmallVec<[u64; 5]> = self
            .map
            .bases(Axis::Lane)
            .iter()
            .zip(spread)
            .map(|(&place, &t)| place ^ self.map.apply_packed(t))
            .collect();
        let found = Span::of(fetched.iter().map(|&place| self.lane(place)));
        // Q: the register that the lane l' = M(l) offers to l; lanes that are not read may offer anything.
        let offered = |lane: u64| {
            let reader = found.solve(lane).unwrap_or(0);
            lane_bits(reader).fold(0, |sum, bit| sum ^ self.register(fetched[bit]))
        };
        let offers: SmallVec<[u64; 5]> = linear_extension(&found, offered);
        let q = |lane: u64| lane_bits(lane).fold(0, |sum, bit| sum ^ offers[bit]);
        let by_thread = |axis: Axis| -> SmallVec<[u64; 8]> {
            self.map
                .bases(axis)
                .iter()
                .map(|&place| self.register(place) ^ q(self.lane(place)))
                .collect()
        };
        let round = |number: u64| {
            let place = self.map.apply_packed(number);
            let lane = self.lane(place);
            Round {
                word: (self.register(place) ^ q(lane)) as u32,
                lane_xor: lane as u32,
            }
        };
        let words = 1_u64 << self.map.in_bits(Axis::Register);
        let lanes_of = |axis: Axis| {
            self.map
                .bases(axis)
                .iter()
                .map(|&place| self.lane(place) as u32)
        };
        ShufflePlan {
            src_words,
            before: stages(&offers, &by_thread(Axis::Warp), &by_thread(Axis::Block)),
            source_lane: PerThread {
                lane: fetched
                    .iter()
                    .map(|&place| self.lane(place) as u32)
                    .collect(),
                warp: lanes_of(Axis::Warp).collect(),
                block: lanes_of(Axis::Block).collect(),
            },
            rounds: (0..words).map(round).collect(),
            after: stages(spread, &[], &[]),
        }
    }
}

/// `value` on the unit vectors of the five lane bits, extended linearly from where the span reaches: on what it does
/// not reach, the extension is 0.
fn linear_extension(reached: &Span, value: impl Fn(u64) -> u64) -> SmallVec<[u64; 5]> {
    let mut known = Span::new();
    let mut values: SmallVec<[(u64, u64); 5]> = SmallVec::new();
    let anything = (0..5).map(|bit| (1 << bit, 0));
    let given = reached.basis().into_iter().map(|lane| (lane, value(lane)));
    for (lane, value) in given.chain(anything) {
        if known.insert_tagged(lane, 1 << values.len()) {
            values.push((lane, value));
        }
    }
    (0..5)
        .map(|bit| {
            let parts = known
                .solve(1 << bit)
                .expect("the unit vectors complete the basis");
            lane_bits(parts).fold(0, |sum, at| sum ^ values[at].1)
        })
        .collect()
}

/// One stage per independent value of the linear function with these entries per lane, warp and block bit.
fn stages(lane: &[u64], warp: &[u64], block: &[u64]) -> Vec<SelectStage> {
    let image = Span::of(lane.iter().chain(warp).chain(block).copied());
    let stage = |xor: u64| {
        // In a reduced basis each vector alone has its leading bit: that bit says whether it takes part.
        let lead = xor.ilog2();
        let mask = |entries: &[u64]| {
            let odd = entries
                .iter()
                .enumerate()
                .filter(|&(_, entry)| entry >> lead & 1 == 1);
            odd.map(|(bit, _)| 1_u32 << bit).sum()
        };
        SelectStage {
            xor: xor as u32,
            lane_mask: mask(lane),
            warp_mask: mask(warp),
            block_mask: mask(block),
        }
    };
    image.basis().into_iter().map(stage).collect()
}

fn lane_bits(word: u64) -> impl Iterator<Item = usize> {
    (0..64).filter(move |&bit| word >> bit & 1 == 1)
}

fn bits_of(mask: u32) -> impl Iterator<Item = u32> + Clone {
    (0..32).filter(move |&bit| mask >> bit & 1 == 1)
}

/// Moves the bits at `positions` to bits 0, 1, ...
fn gather(word: u32, positions: impl Iterator<Item = u32>) -> u32 {
    positions
        .enumerate()
        .fold(0, |moved, (to, from)| moved | (word >> from & 1) << to)
}

/// Moves bits 0, 1, ... to `positions`.
fn scatter(word: u32, positions: impl Iterator<Item = u32>) -> u32 {
    positions
        .enumerate()
        .fold(0, |moved, (from, to)| moved | (word >> from & 1) << to)
}
