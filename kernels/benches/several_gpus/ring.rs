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
    pub(crate) change: Change,
}

/// What the fused kernel does not have: keys before its own position that a query sees, a cap of scores, sinks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    window: Option<usize>,
    softcap: Option<f32>,
    sinks: bool,
}

const NONE: Change = Change {
    window: None,
    softcap: None,
    sinks: false,
};

const fn sequence(size: [usize; 4], causal: bool, placement: Placement) -> Sequence {
    Sequence {
        size,
        causal,
        placement,
        change: NONE,
    }
}

const fn changed(size: [usize; 4], placement: Placement, change: Change) -> Sequence {
    Sequence {
        change,
        ..sequence(size, true, placement)
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

const fn window(keys: usize, sinks: bool) -> Change {
    Change {
        window: Some(keys),
        sinks,
        ..NONE
    }
}

const fn capped(cap: f32) -> Change {
    Change {
        softcap: Some(cap),
        ..NONE
    }
}

/// Those whose K and V are gathered first.
pub(crate) const GATHERED: [Sequence; 5] = [
    changed([32, 8, 32768, 128], ZigZag, window(4095, false)),
    changed([64, 8, 32768, 64], ZigZag, window(127, true)),
    changed([16, 8, 16384, 256], ZigZag, capped(50.0)),
    changed([32, 32, 16384, 96], ZigZag, NONE),
    sequence([32, 32, 16384, 96], false, Contiguous),
];

/// Those that are differentiated.
pub(crate) const DIFFERENTIATED: [Sequence; 3] = [
    sequence([32, 8, 16384, 128], false, Contiguous),
    sequence([32, 8, 16384, 128], true, ZigZag),
    changed([32, 8, 32768, 128], ZigZag, window(4095, false)),
];

/// Q, K and V of the whole sequence, `[tokens, heads, depth]`, and what each rank has of them.
pub(crate) struct Tensors {
    pub(crate) heads: [usize; 2],
    pub(crate) tokens: usize,
    pub(crate) depth: usize,
    pub(crate) ranks: usize,
    pub(crate) options: RingOptions<'static>,
    pub(crate) host: [Vec<bf16>; 3],
    /// By rank.
    pub(crate) shards: [Vec<Buffer<bf16>>; 3],
    pub(crate) out: Vec<Buffer<bf16>>,
    pub(crate) lse: Vec<Buffer<f32>>,
    /// A number for each head on each rank, or none.
    sinks: Vec<Buffer<f32>>,
}

pub(crate) fn view(
    buffer: &Buffer<bf16>,
    [heads, tokens, depth]: [usize; 3],
) -> TensorView<'_, bf16> {
    let view = buffer.view([1, heads, tokens, depth]);
    view.with_strides([tokens * heads * depth, depth, heads * depth, 1])
}

/// That of a head.
fn sink(head: usize) -> f32 {
    0.1 * head as f32 - 1.0
}

impl Tensors {
    pub(crate) fn new(world: &World, sequence: &Sequence) -> Tensors {
        let [heads, kv_heads, tokens, depth] = sequence.size;
        let ranks = world.ranks();
        let options = RingOptions {
            causal: sequence.causal,
            placement: sequence.placement,
            window: [sequence.change.window, None],
            softcap: sequence.change.softcap,
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
            sinks: Vec::new(),
        };
        let sinks: Vec<f32> = (0..heads).map(sink).collect();
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
            if sequence.change.sinks {
                let sinks = Buffer::from_slice(device, &sinks).unwrap();
                tensors.sinks.push(sinks);
            }
        }
        tensors
    }

    /// The options of attention of the whole sequence, sinks aside.
    pub(crate) fn of_one(&self) -> Options<'static> {
        Options {
            causal: self.options.causal,
            window: self.options.window,
            softcap: self.options.softcap,
            ..Options::default()
        }
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
        self.shard_of(&self.host[side], self.heads[side.min(1)], rank)
    }

    /// What a rank has of a tensor of the whole sequence.
    pub(crate) fn shard_of(&self, whole: &[bf16], heads: usize, rank: usize) -> Vec<bf16> {
        let of_token = heads * self.depth;
        let tokens = 0..self.tokens / self.ranks;
        let of = |token: usize| &whole[self.position(rank, token) * of_token..][..of_token];
        tokens.flat_map(|token| of(token).iter().copied()).collect()
    }

    fn sinks_of_a_part(&self, world: &World) -> Vec<Buffer<f32>> {
        let heads = self.heads[0] / self.ranks;
        let part: Vec<f32> = (0..heads).map(sink).collect();
        let devices = world.devices().iter().take(self.sinks.len());
        devices
            .map(|device| Buffer::from_slice(device, &part).unwrap())
            .collect()
    }

    pub(crate) fn extents(&self, side: usize, tokens: usize) -> [usize; 3] {
        [self.heads[side.min(1)], tokens, self.depth]
    }

    /// A tensor with the heads of Q (side 0) or of K and V on each rank.
    pub(crate) fn views<'a>(
        &self,
        side: usize,
        shards: &'a [Buffer<bf16>],
    ) -> Vec<TensorView<'a, bf16>> {
        let extents = self.extents(side, self.tokens / self.ranks);
        shards.iter().map(|shard| view(shard, extents)).collect()
    }

    pub(crate) fn ring(&self, parallel: &Parallel<'_>) {
        let [q, k, v] = [0, 1, 2].map(|side| self.views(side, &self.shards[side]));
        let out = self.views(0, &self.out);
        let lse: Vec<_> = self.lse.iter().collect();
        let sinks: Vec<_> = self.sinks.iter().collect();
        let options = RingOptions {
            sinks: (!sinks.is_empty()).then_some(&sinks[..]),
            ..self.options
        };
        let called = parallel.ring_attention([&q, &k, &v], &out, &lse, &options);
        called.unwrap();
    }

    /// A row of the output in f64, and its LSE.
    fn reference(&self, head: usize, position: usize) -> (Vec<f64>, f64) {
        let kv_head = head / (self.heads[0] / self.heads[1]);
        let end = if self.options.causal {
            position + 1
        } else {
            self.tokens
        };
        let before = self.options.window[0].unwrap_or(position);
        let first = position.saturating_sub(before);
        let q = self.row(0, head, position);
        let dot =
            |k: &[bf16]| -> f64 { q.iter().zip(k).map(|(q, k)| q.to_f64() * k.to_f64()).sum() };
        let scale = 1.0 / (self.depth as f64).sqrt();
        let scores = (first..end).map(|key| dot(self.row(1, kv_head, key)) * scale);
        let capped = |score: f64| {
            let cap = self.options.softcap.map(f64::from);
            cap.map_or(score, |cap| cap * (score / cap).tanh())
        };
        let scores: Vec<f64> = scores.map(capped).collect();
        let sink = if self.sinks.is_empty() {
            f64::NEG_INFINITY
        } else {
            f64::from(sink(head))
        };
        let most = scores.iter().copied().fold(sink, f64::max);
        let of_keys: f64 = scores.iter().map(|score| (score - most).exp()).sum();
        let total = of_keys + (sink - most).exp();
        let mut out = vec![0.0; self.depth];
        for (key, score) in scores.iter().enumerate() {
            let weight = (score - most).exp() / total;
            let row = self.row(2, kv_head, first + key).iter();
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
                // `tanh.approx` has an error of 2^-11 of the cap.
                let of_cap = self
                    .options
                    .softcap
                    .map_or(0.0, |cap| f64::from(cap) / 2048.0);
                let allowed = 1e-4 + 1e-5 * of_lse.abs() + of_cap;
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
    /// Those of the heads that a rank has where heads are divided.
    sinks: Vec<Buffer<f32>>,
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
            sinks: tensors.sinks_of_a_part(world),
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
            let options = self.options(self.sinks.get(rank));
            let called =
                attention.forward_into(stream, [&q, &k, &v], &out, &of.lse[rank], &options);
            called.unwrap();
        }
    }

    fn options<'a>(&self, sinks: Option<&'a Buffer<f32>>) -> Options<'a> {
        Options {
            sinks,
            ..self.tensors.of_one()
        }
    }

    fn on_one(&self) {
        let of = self.tensors;
        let whole = [&self.all_q[0], &self.all[0][0], &self.all[1][0]];
        let [q, k, v] = [0, 1, 2].map(|side| view(whole[side], of.extents(side, of.tokens)));
        let out = view(&self.out, of.extents(0, of.tokens));
        let (stream, options) = (self.world.stream(0), self.options(of.sinks.first()));
        let called =
            self.attention[0].forward_into(stream, [&q, &k, &v], &out, &self.lse, &options);
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
            let (stream, options) = (self.world.stream(rank), self.options(of.sinks.get(rank)));
            let called =
                attention.forward_into(stream, [&q, &k, &v], &out, &of.lse[rank], &options);
            called.unwrap();
        }
    }
}

impl Sequence {
    pub(crate) fn name(&self) -> String {
        let [heads, kv_heads, tokens, depth] = self.size;
        let mask = if self.causal { "causal" } else { "full" };
        let (placement, change) = (self.placement, self.change);
        format!(
            "{heads} heads ({kv_heads}), {tokens} tokens, depth {depth}, {mask}, {placement:?}, {change:?}"
        )
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
    let tensors = Tensors::new(world, sequence);
    let parallel = Parallel::new(world);
    print!("{}", sequence.name());
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
