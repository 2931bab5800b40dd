//! Ring attention over the ranks, beside attention of the whole sequence on one of them, and beside an all-gather of K and V in front of it.

use tilekit::prelude::*;
use tilekit::{Buffer, Nccl, TensorView, World};
use tilekit_kernels::attention::ring::{Placement, RingOptions};
use tilekit_kernels::attention::{Attention, Options};
use tilekit_kernels::parallel::Parallel;

use crate::layers::contest;
use crate::numbers::normal;

/// Heads of Q, heads of K and V, tokens of all ranks (of [`SMALL`] those of one), and elements of a row.
pub(crate) struct Sequence {
    pub(crate) size: [usize; 4],
    pub(crate) causal: bool,
    pub(crate) placement: Placement,
}

const fn sequence(size: [usize; 4], causal: bool, placement: Placement) -> Sequence {
    Sequence {
        size,
        causal,
        placement,
    }
}

use Placement::{Contiguous, ZigZag};

/// Small and ragged.
pub(crate) const SMALL: [Sequence; 8] = [
    sequence([2, 1, 1001, 64], false, Contiguous),
    sequence([3, 3, 1001, 128], false, Contiguous),
    sequence([2, 1, 999, 64], true, Contiguous),
    sequence([4, 2, 999, 128], true, Contiguous),
    sequence([2, 2, 1002, 64], true, ZigZag),
    sequence([4, 1, 1334, 128], true, ZigZag),
    sequence([1, 1, 700, 256], true, ZigZag),
    sequence([2, 1, 333, 256], false, Contiguous),
];

/// Those that are timed.
pub(crate) const LONG: [Sequence; 17] = [
    sequence([8, 8, 16384, 128], false, Contiguous),
    sequence([8, 8, 32768, 128], false, Contiguous),
    sequence([8, 8, 65536, 128], false, Contiguous),
    sequence([32, 32, 16384, 128], false, Contiguous),
    sequence([32, 32, 32768, 128], false, Contiguous),
    sequence([32, 32, 65536, 128], false, Contiguous),
    sequence([32, 8, 32768, 128], false, Contiguous),
    sequence([64, 8, 32768, 128], false, Contiguous),
    sequence([64, 8, 32768, 128], true, ZigZag),
    sequence([8, 8, 16384, 128], true, ZigZag),
    sequence([8, 8, 32768, 128], true, ZigZag),
    sequence([8, 8, 65536, 128], true, ZigZag),
    sequence([32, 32, 16384, 128], true, ZigZag),
    sequence([32, 32, 32768, 128], true, ZigZag),
    sequence([32, 32, 65536, 128], true, ZigZag),
    sequence([32, 8, 32768, 128], true, ZigZag),
    sequence([32, 32, 32768, 128], true, Contiguous),
];

/// Q, K and V of the whole sequence, `[tokens, heads, depth]`, and what each rank has of them.
struct Tensors {
    heads: [usize; 2],
    tokens: usize,
    depth: usize,
    ranks: usize,
    options: RingOptions<'static>,
    host: [Vec<bf16>; 3],
    /// By rank.
    shards: [Vec<Buffer<bf16>>; 3],
    out: Vec<Buffer<bf16>>,
    lse: Vec<Buffer<f32>>,
}

fn view(buffer: &Buffer<bf16>, [heads, tokens, depth]: [usize; 3]) -> TensorView<'_, bf16> {
    let view = buffer.view([1, heads, tokens, depth]);
    view.with_strides([tokens * heads * depth, depth, heads * depth, 1])
}

impl Tensors {
    fn new(world: &World, sequence: &Sequence) -> Tensors {
        let [heads, kv_heads, tokens, depth] = sequence.size;
        let ranks = world.ranks();
        let options = RingOptions {
            causal: sequence.causal,
            placement: sequence.placement,
            ..RingOptions::default()
        };
        let mut tensors = Tensors {
            heads: [heads, kv_heads],
            tokens,
            depth,
            ranks,
            options,
            host: [heads, kv_heads, kv_heads].map(|heads| normal(heads * tokens * depth, heads)),
            shards: [const { Vec::new() }; 3],
            out: Vec::new(),
            lse: Vec::new(),
        };
        let nan = bf16::from_f32(f32::NAN);
        for (rank, device) in world.devices().iter().enumerate() {
            for side in 0..3 {
                let shard = tensors.shard(side, rank);
                tensors.shards[side].push(Buffer::from_slice(device, &shard).unwrap());
            }
            let rows = heads * tokens / ranks;
            let out = Buffer::from_slice(device, &vec![nan; rows * depth]).unwrap();
            tensors.out.push(out);
            let lse = Buffer::from_slice(device, &vec![f32::NAN; rows]).unwrap();
            tensors.lse.push(lse);
        }
        tensors
    }

    /// The position of a token of a rank.
    fn position(&self, rank: usize, token: usize) -> usize {
        let of_rank = self.tokens / self.ranks;
        match self.options.placement {
            Contiguous => rank * of_rank + token,
            ZigZag => {
                let half = of_rank / 2;
                let chunk = [rank, 2 * self.ranks - 1 - rank][token / half];
                chunk * half + token % half
            }
        }
    }

    fn row(&self, side: usize, head: usize, position: usize) -> &[bf16] {
        let heads = self.heads[side.min(1)];
        &self.host[side][(position * heads + head) * self.depth..][..self.depth]
    }

    fn shard(&self, side: usize, rank: usize) -> Vec<bf16> {
        let of_token = self.heads[side.min(1)] * self.depth;
        let tokens = 0..self.tokens / self.ranks;
        let of =
            |token: usize| &self.host[side][self.position(rank, token) * of_token..][..of_token];
        tokens.flat_map(|token| of(token).iter().copied()).collect()
    }

    fn extents(&self, side: usize, tokens: usize) -> [usize; 3] {
        [self.heads[side.min(1)], tokens, self.depth]
    }

    fn ring(&self, parallel: &Parallel<'_>) {
        let of_rank = self.tokens / self.ranks;
        let views = |side: usize| -> Vec<TensorView<'_, bf16>> {
            let shards = self.shards[side].iter();
            shards
                .map(|shard| view(shard, self.extents(side, of_rank)))
                .collect()
        };
        let (q, k, v) = (views(0), views(1), views(2));
        let out = self.out.iter();
        let out: Vec<_> = out.map(|out| view(out, self.extents(0, of_rank))).collect();
        let lse: Vec<_> = self.lse.iter().collect();
        let called = parallel.ring_attention([&q, &k, &v], &out, &lse, &self.options);
        called.unwrap();
    }

    /// A row of the output in f64, and its LSE.
    fn reference(&self, head: usize, position: usize) -> (Vec<f64>, f64) {
        let kv_head = head / (self.heads[0] / self.heads[1]);
        let seen = if self.options.causal {
            position + 1
        } else {
            self.tokens
        };
        let q = self.row(0, head, position);
        let dot =
            |k: &[bf16]| -> f64 { q.iter().zip(k).map(|(q, k)| q.to_f64() * k.to_f64()).sum() };
        let scale = 1.0 / (self.depth as f64).sqrt();
        let scores = (0..seen).map(|key| dot(self.row(1, kv_head, key)) * scale);
        let scores: Vec<f64> = scores.collect();
        let most = scores.iter().copied().fold(f64::MIN, f64::max);
        let total: f64 = scores.iter().map(|score| (score - most).exp()).sum();
        let mut out = vec![0.0; self.depth];
        for (key, score) in scores.iter().enumerate() {
            let weight = (score - most).exp() / total;
            let row = self.row(2, kv_head, key).iter();
            out.iter_mut()
                .zip(row)
                .for_each(|(out, v)| *out += weight * v.to_f64());
        }
        (out, most + total.ln())
    }

    /// The largest error of every `step`-th row, in units of what is allowed, all elements being written.
    fn worst(&self, step: usize) -> f64 {
        let (of_rank, heads) = (self.tokens / self.ranks, self.heads[0]);
        let mut worst = 0_f64;
        for rank in 0..self.ranks {
            let (out, lse) = (
                self.out[rank].to_vec().unwrap(),
                self.lse[rank].to_vec().unwrap(),
            );
            let unwritten = out.iter().filter(|x| !x.to_f64().is_finite()).count();
            assert_eq!(unwritten, 0, "elements of rank {rank} that are no numbers");
            let unwritten = lse.iter().filter(|x| !x.is_finite()).count();
            assert_eq!(unwritten, 0, "LSE of rank {rank} that are no numbers");
            let last = heads * of_rank - 1;
            for row in (0..last).step_by(step).chain([last]) {
                let (head, token) = (row / of_rank, row % of_rank);
                let (want, of_lse) = self.reference(head, self.position(rank, token));
                let got = &out[(token * heads + head) * self.depth..][..self.depth];
                for (got, want) in got.iter().zip(&want) {
                    let allowed = 4e-3 + 8e-3 * want.abs();
                    worst = worst.max((got.to_f64() - want).abs() / allowed);
                }
                let allowed = 1e-4 + 1e-5 * of_lse.abs();
                worst = worst.max((f64::from(lse[row]) - of_lse).abs() / allowed);
            }
        }
        worst
    }
}

/// Our own attention: of the whole sequence on rank 0, and of each rank's queries behind an all-gather of K and V.
struct Peers<'w> {
    world: &'w World,
    nccl: &'w Nccl,
    tensors: &'w Tensors,
    attention: Vec<Attention>,
    out: Buffer<bf16>,
    lse: Buffer<f32>,
    all_q: Vec<Buffer<bf16>>,
    all: [Vec<Buffer<bf16>>; 2],
}

impl<'w> Peers<'w> {
    fn new(world: &'w World, nccl: &'w Nccl, tensors: &'w Tensors) -> Peers<'w> {
        let rows = tensors.heads[0] * tensors.tokens;
        let first = &world.devices()[0];
        let gathered = |side: usize| -> Vec<Buffer<bf16>> {
            let devices = world.devices().iter();
            devices
                .map(|device| Buffer::from_slice(device, &tensors.host[side]).unwrap())
                .collect()
        };
        Peers {
            world,
            nccl,
            tensors,
            attention: world.devices().iter().map(Attention::new).collect(),
            out: Buffer::new(first, rows * tensors.depth).unwrap(),
            lse: Buffer::new(first, rows).unwrap(),
            all_q: gathered(0),
            all: [gathered(1), gathered(2)],
        }
    }

    /// A part of the heads on each, of the whole sequence: no rank needs anything of another.
    fn by_heads(&self) {
        let of = self.tensors;
        let ranks = of.ranks;
        for (rank, attention) in self.attention.iter().enumerate() {
            let of_rank = |buffer, side: usize| {
                let [heads, tokens, depth] = of.extents(side, of.tokens);
                let view = view(buffer, [heads, tokens, depth]);
                let part = buffer.view([1, heads / ranks, tokens, depth]);
                let part = part.with_strides(&view.place().strides[..]);
                part.with_offset(rank * heads / ranks * depth)
            };
            let q = of_rank(&self.all_q[rank], 0);
            let [k, v] = [0, 1].map(|side| of_rank(&self.all[side][rank], 1));
            let rows = of.heads[0] / ranks * of.tokens;
            let out = view(&of.out[rank], [of.heads[0] / ranks, of.tokens, of.depth]);
            assert_eq!(of.lse[rank].len(), rows);
            let stream = self.world.stream(rank);
            let called =
                attention.forward_into(stream, [&q, &k, &v], &out, &of.lse[rank], &self.options());
            called.unwrap();
        }
    }

    fn options(&self) -> Options<'static> {
        Options {
            causal: self.tensors.options.causal,
            ..Options::default()
        }
    }

    fn on_one(&self) {
        let of = self.tensors;
        let whole = [&self.all_q[0], &self.all[0][0], &self.all[1][0]];
        let [q, k, v] = [0, 1, 2].map(|side| view(whole[side], of.extents(side, of.tokens)));
        let out = view(&self.out, of.extents(0, of.tokens));
        let stream = self.world.stream(0);
        let called =
            self.attention[0].forward_into(stream, [&q, &k, &v], &out, &self.lse, &self.options());
        called.unwrap();
    }

    /// Each rank has contiguous tokens.
    fn gathered(&self) {
        let of = self.tensors;
        for side in 0..2 {
            let sent: Vec<_> = of.shards[1 + side].iter().collect();
            let all: Vec<_> = self.all[side].iter().collect();
            self.nccl.all_gather(self.world, &sent, &all).unwrap();
        }
        let of_rank = of.tokens / of.ranks;
        for (rank, attention) in self.attention.iter().enumerate() {
            let seen = if of.options.causal {
                (rank + 1) * of_rank
            } else {
                of.tokens
            };
            let q = view(&of.shards[0][rank], of.extents(0, of_rank));
            let out = view(&of.out[rank], of.extents(0, of_rank));
            let [k, v] = [0, 1].map(|side| view(&self.all[side][rank], of.extents(1, seen)));
            let stream = self.world.stream(rank);
            let called =
                attention.forward_into(stream, [&q, &k, &v], &out, &of.lse[rank], &self.options());
            called.unwrap();
        }
    }
}

/// The same sequence with so many times as many tokens.
pub(crate) fn longer(sequence: &Sequence, times: usize) -> Sequence {
    let [heads, kv_heads, tokens, depth] = sequence.size;
    Sequence {
        size: [heads, kv_heads, tokens * times, depth],
        ..*sequence
    }
}

pub(crate) fn run(world: &World, nccl: &Nccl, sequence: &Sequence, step: usize, times: bool) {
    let [heads, kv_heads, tokens, depth] = sequence.size;
    let tensors = Tensors::new(world, sequence);
    let parallel = Parallel::new(world);
    let mask = if sequence.causal { "causal" } else { "full" };
    print!(
        "{heads} heads ({kv_heads}), {tokens} tokens, depth {depth}, {mask}, {:?}",
        sequence.placement
    );
    // A second time, memory of all ranks is overwritten.
    for _ in 0..2 {
        tensors.ring(&parallel);
    }
    world.synchronize().unwrap();
    println!(": error {:.3} of what is allowed", tensors.worst(step));
    if times {
        let peers = Peers::new(world, nccl, &tensors);
        let contestants: [(&str, &dyn Fn()); 4] = [
            ("ring attention", &|| tensors.ring(&parallel)),
            ("one GPU", &|| peers.on_one()),
            ("heads divided", &|| peers.by_heads()),
            ("NCCL, attention", &|| peers.gathered()),
        ];
        contest(world, &contestants);
    }
}
