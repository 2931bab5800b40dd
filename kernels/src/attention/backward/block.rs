//! The block of keys of a CTA of the backward pass: how warpgroups divide it, its buffers in shared memory, its loads and stores.

use std::ops::Range;

use tilekit::prelude::*;

use super::beside::Beside;
use super::exchange::{Exchange, PAIR, load_share, loaded_key_bytes, ticket_of_cluster};
use super::key_blocks::KeyBlock;
use super::lines::{Lines, LinesFrom};
use super::part::{
    GROUPS, divides_columns, has_adders, has_query_rows, stages_of_dout, swizzle_of_keys,
};
use super::sections::Sections;
use super::step::{Member, Step};
use super::terms::Terms;
use super::turns::Turn;
use super::walk::Walk;
use crate::attention::mainloop::shape::swizzle;
use crate::attention::masked::lengths::from_column;
use crate::attention::modifier::Place;

/// Blocks of Q, of dO, and of dS in shared memory.
pub(super) const STAGES: usize = 2;

/// Blocks of queries, or of dO, and what stands beside their rows.
pub(super) type OfQueries<T> = Pipeline<(Smem<T>, Lines)>;

/// The loads of a step into a pipeline: tiles from the map.
type Load<T> = (OfQueries<T>, TensorMap<T>);

/// The buffers of a CTA.
#[derive(Clone, Copy)]
pub(super) struct Tiles<T> {
    pub(super) k: Smem<T>,
    pub(super) v: Smem<T>,
    pub(super) keys_full: Mbarrier,
    /// Q and LSE, or the parts of LSE and delta.
    pub(super) of_q: OfQueries<T>,
    /// dO, and delta if it is numbers.
    pub(super) of_dout: OfQueries<T>,
    pub(super) ds: Smem<T>,
    /// P, where it passes through shared memory.
    pub(super) p: Option<Smem<T>>,
    /// Each warpgroup's half of a block of dQ, where other warps add it.
    pub(super) dq: Option<[Pipeline<Terms>; GROUPS]>,
    /// Where they add it themselves, in a fixed order.
    pub(super) turns: Option<[Turn; GROUPS]>,
    /// What the CTAs of a cluster exchange.
    pub(super) exchange: Option<Exchange<T>>,
    /// Both consumer warpgroups.
    pub(super) both: NamedBarrier,
}

impl<T: Element> Tiles<T> {
    #[device]
    pub(super) fn alloc(
        [depth, values]: [usize; 2],
        [queries, keys]: [usize; 2],
        is_ordered: bool,
        has_passes: bool,
        has_parts: bool,
        ctas: usize,
    ) -> Self {
        let is_pair = ctas > 1;
        let k = Smem::<T>::alloc([1, keys, depth], swizzle_of_keys::<T>(depth, queries, 2));
        let v = Smem::<T>::alloc([1, keys, values], swizzle::<T>(values, 2));
        let keys_full = Mbarrier::alloc(1);
        let of_queries = |columns: usize, stages: usize, is_first: bool| {
            let layout = swizzle::<T>(columns, 2);
            let tiles = Smem::<T>::alloc([stages, queries, columns], layout);
            let lines = match (has_parts, is_first) {
                (false, _) => Lines::numbers(stages, queries),
                (true, true) => Lines::parts(stages, queries),
                (true, false) => Lines::Nothing(stages),
            };
            let consumers = Consumers::warpgroups(GROUPS).of_ctas(ctas);
            Pipeline::new((tiles, lines), Producers::Tma, consumers)
        };
        let of_q = of_queries(depth, STAGES, true);
        let of_dout = of_queries(values, stages_of_dout(depth, keys), false);
        let of_scores =
            |stages: usize| Smem::<T>::alloc([stages, keys, queries], swizzle::<T>(queries, 2));
        // Of a cluster, dS of each CTA.
        let ds = of_scores(if is_pair { PAIR } else { STAGES });
        let p_stages = if divides_columns(depth) && !is_pair {
            STAGES
        } else {
            1
        };
        let p = has_query_rows(depth).then(|| of_scores(p_stages));
        // At depth 96 there is room for the parts and two terms.
        let has_more = has_passes || has_parts && depth > 96;
        let of_dq = |_| Terms::alloc(depth, queries, is_ordered, has_more);
        let dq = has_adders(depth).then(|| [0, 1].map(of_dq));
        let turns = (is_ordered && dq.is_none()).then(|| {
            if is_pair {
                [Turn::alloc(GROUPS); GROUPS]
            } else {
                [0, 1].map(|_| Turn::alloc(1))
            }
        });
        let exchange = is_pair.then(|| Exchange::alloc(depth, keys));
        let both = NamedBarrier::new(GROUPS * 128);
        Tiles {
            k,
            v,
            keys_full,
            of_q,
            of_dout,
            ds,
            p,
            dq,
            turns,
            exchange,
            both,
        }
    }
}

/// A CTA's block of keys.
#[derive(Clone, Copy)]
pub(super) struct Block<W: Walk> {
    pub(super) walk: W,
    pub(super) at: KeyBlock,
    pub(super) seen: W::Seen,
    /// The index of the block in its head of K and V, and the head.
    pub(super) number: Scalar<i32>,
    pub(super) kv_head: Scalar<i32>,
    /// A ticket, and a counter for each half of a block of dQ.
    pub(super) turns: Ptr<i32>,
    pub(super) is_ordered: bool,
    /// Whether steps ascend in a fixed order, which is that of descending blocks of keys then. Masks of lists stand in front alone, so steps of lists descend.
    pub(super) ascends: Option<Scalar<bool>>,
}

impl<W: Walk> Block<W> {
    /// That of this program, or, if it waits for others, of the next ticket, whose head may ascend with a mask.
    #[device]
    pub(super) fn of_program(
        walk: W,
        sections: Option<Sections>,
        turns: Ptr<i32>,
        is_ordered: bool,
        takes_ticket: bool,
        has_ascending_heads: bool,
    ) -> Self {
        let kv_heads = walk.keys().kv_heads;
        let mut ascends = None;
        let (number, kv_head, batch) = match sections {
            Some(sections) => {
                let is_pair = walk.keys().ctas > 1;
                let begun = if takes_ticket && is_pair {
                    ticket_of_cluster(turns)
                } else if takes_ticket {
                    turns.at(0).relaxed().atomic_add(1).old()
                } else {
                    let head = program_id(2) * num_programs(1) + program_id(1);
                    if is_pair {
                        head * num_clusters(0) + cluster_id(0)
                    } else {
                        head * num_programs(0) + program_id(0)
                    }
                };
                let [mut number, head] = sections.of(begun);
                if has_ascending_heads {
                    let of_head = sections.ascends(head);
                    number = select(of_head, sections.blocks - 1 - number, number);
                    ascends = Some(of_head);
                }
                (number, head % kv_heads, head / kv_heads)
            }
            None => (program_id(0), program_id(1), program_id(2)),
        };
        let at = walk.keys().block(number, batch);
        Block {
            walk,
            at,
            seen: walk.seen(at, number, kv_head),
            number,
            kv_head,
            turns,
            is_ordered,
            ascends,
        }
    }

    /// The head of K and V among those of all batches.
    pub(super) fn head_of_all(self) -> Scalar<i32> {
        self.at.sequence * self.walk.keys().kv_heads + self.kv_head
    }

    /// Queries of a block.
    pub(super) fn queries(self) -> usize {
        self.walk.keys().block[0]
    }

    /// The edges of warpgroup `group`.
    #[device]
    pub(super) fn edges(self, group: usize) -> W::Edges {
        self.walk.edges(self.at, self.seen, group)
    }

    /// Whether the queries of a masked step see the keys, of which `place` has the positions.
    #[device]
    pub(super) fn sees(self, member: Member<W>, step: Step, place: Place) -> Tensor<bool> {
        self.walk.sees(self.at, member.of_walk, step.number, place)
    }

    /// Issues the loads of K and V, and of all steps.
    #[device]
    pub(super) fn load<T: Element>(
        self,
        [q, k, v, dout]: [TensorMap<T>; 4],
        lines: LinesFrom,
        tiles: Tiles<T>,
        beside: Option<Beside<T>>,
    ) {
        let (at, full) = (self.at, tiles.keys_full);
        let keys = at.origin.at(self.kv_head, scalar(0));
        let load_whole = |(map, tile): (TensorMap<T>, Smem<T>)| {
            let tile = tile.index(0).reshape(map.block());
            map.load(from_column(keys, scalar(0)), tile, full);
        };
        if let Some(exchange) = tiles.exchange {
            full.expect(loaded_key_bytes(k) + v.block_bytes());
            exchange.load_keys(k, keys, tiles.k, full);
            load_whole((v, tiles.v));
        } else {
            full.expect(k.block_bytes() + v.block_bytes());
            load_whole((k, tiles.k));
            load_whole((v, tiles.v));
        }
        let first = self.walk.keys().first_query(at);
        self.each_step(|member, step| {
            let rows = first.at(member.head, step.block * self.queries());
            let loads = [(tiles.of_q, q), (tiles.of_dout, dout)];
            let load_tile = |(pipeline, map): Load<T>| {
                let stage = pipeline.producer_acquire(pipeline.of_fill(step.fill));
                let tile = stage.tiles.0;
                if tiles.exchange.is_some() {
                    load_share(map, rows, tile, stage.full);
                } else {
                    let at = from_column(rows, scalar(0));
                    map.load(at, tile.reshape(map.block()), stage.full);
                }
                stage
            };
            let load_line = |at: usize, stage: Filling<(Smem<T>, Lines)>| {
                let to = stage.tiles.1;
                lines.load(at, step.row_block, self.queries(), to, stage.full);
                loads[at].0.commit(stage);
            };
            match beside {
                Some(beside) => {
                    let stages = loads.map(load_tile);
                    // Tiles are on their way when the numbers of their rows are waited for.
                    if step.fill == 0 {
                        beside.await_rows(self.head_of_all());
                    }
                    for (at, stage) in stages.into_iter().enumerate() {
                        load_line(at, stage);
                    }
                }
                // dO may have one stage, for which Q does not wait.
                None => {
                    for (at, load) in loads.into_iter().enumerate() {
                        load_line(at, load_tile(load));
                    }
                }
            }
        });
    }

    /// Stores a warpgroup's part of dK or dV, its keys and columns, from shared memory: up to the end of the sequence.
    #[device]
    pub(super) fn store<T: Element>(
        self,
        map: TensorMap<T>,
        place: Smem<T>,
        [keys, columns]: [Range<usize>; 2],
    ) {
        let Block { at, kv_head, .. } = self;
        let rows = at.origin.at(kv_head, scalar(keys.start as i32));
        let at = from_column(rows, scalar(columns.start as i32));
        map.store(at, place.reshape(map.block()));
    }
}
