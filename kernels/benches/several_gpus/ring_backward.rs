//! Gradients of ring attention, beside those of the whole sequence on one GPU, and beside NCCL in front of and behind those of each rank's queries.

use tilekit::prelude::*;
use tilekit::{Buffer, Nccl, TensorView, World};
use tilekit_kernels::attention::ring::ShardGradients;
use tilekit_kernels::attention::{Attention, Upstream};
use tilekit_kernels::parallel::Parallel;

use crate::layers::contest;
use crate::numbers::normal;
use crate::ring::{Sequence, Tensors, view};

/// Tensors of the whole sequence on a rank, or of the queries of a rank.
struct Whole {
    q: Buffer<bf16>,
    kv: [Buffer<bf16>; 2],
    out: Buffer<bf16>,
    lse: Buffer<f32>,
    dout: Buffer<bf16>,
    dq: Buffer<bf16>,
    dkv: [Buffer<bf16>; 2],
    queries: usize,
}

impl Whole {
    /// Queries of a rank if there is one; keys are those of the whole sequence.
    fn new(of: &Tensors, dout: &[bf16], device: &Device, rank: Option<usize>) -> Whole {
        let queries = rank.map_or(of.tokens, |_| of.tokens / of.ranks);
        let of_token = of.heads[0] * of.depth;
        let first = rank.unwrap_or(0) * queries * of_token;
        let put = |whole: &[bf16]| {
            Buffer::from_slice(device, &whole[first..][..queries * of_token]).unwrap()
        };
        let all = |side: usize| Buffer::from_slice(device, &of.host[side]).unwrap();
        let zeros = |len: usize| Buffer::from_slice(device, &vec![bf16::ZERO; len]).unwrap();
        let of_keys = of.tokens * of.heads[1] * of.depth;
        Whole {
            q: put(&of.host[0]),
            kv: [all(1), all(2)],
            out: zeros(queries * of_token),
            lse: Buffer::new(device, of.heads[0] * queries).unwrap(),
            dout: put(dout),
            dq: zeros(queries * of_token),
            dkv: [zeros(of_keys), zeros(of_keys)],
            queries,
        }
    }

    fn views<'a>(&'a self, of: &Tensors, seen: usize) -> [TensorView<'a, bf16>; 8] {
        let queries = |buffer: &'a Buffer<bf16>| view(buffer, of.extents(0, self.queries));
        let keys = |buffer: &'a Buffer<bf16>| view(buffer, of.extents(1, seen));
        let ([k, v], [dk, dv]) = (&self.kv, &self.dkv);
        let (q, out) = (queries(&self.q), queries(&self.out));
        let (dout, dq) = (queries(&self.dout), queries(&self.dq));
        [q, keys(k), keys(v), out, dout, dq, keys(dk), keys(dv)]
    }

    fn attend(&self, of: &Tensors, attention: &Attention, stream: &Stream, seen: usize) {
        let [q, k, v, out, ..] = self.views(of, seen);
        let called = attention.forward_into(stream, [&q, &k, &v], &out, &self.lse, &of.of_one());
        called.unwrap();
    }

    fn differentiate(&self, of: &Tensors, attention: &Attention, stream: &Stream, seen: usize) {
        let [q, k, v, out, dout, dq, dk, dv] = self.views(of, seen);
        let upstream = Upstream {
            out: &out,
            lse: &self.lse,
            dout: &dout,
        };
        let gradients = [&dq, &dk, &dv];
        let called =
            attention.backward_into(stream, [&q, &k, &v], upstream, gradients, &of.of_one());
        called.unwrap();
    }
}

/// The gradients of ring attention.
struct Ring {
    dout: Vec<Buffer<bf16>>,
    gradients: [Vec<Buffer<bf16>>; 3],
}

impl Ring {
    fn new(world: &World, of: &Tensors, dout: &[bf16]) -> Ring {
        let devices = || world.devices().iter().enumerate();
        let put = |of: &[bf16], device| Buffer::from_slice(device, of).unwrap();
        let nan = bf16::from_f32(f32::NAN);
        let poisoned = |side: usize| {
            let len = of.heads[side.min(1)] * of.tokens / of.ranks * of.depth;
            devices()
                .map(|(_, device)| put(&vec![nan; len], device))
                .collect()
        };
        Ring {
            dout: devices()
                .map(|(rank, device)| put(&of.shard_of(dout, of.heads[0], rank), device))
                .collect(),
            gradients: [poisoned(0), poisoned(1), poisoned(2)],
        }
    }

    fn differentiate(&self, of: &Tensors, parallel: &Parallel<'_>) {
        let [q, k, v] = [0, 1, 2].map(|side| of.views(side, &of.shards[side]));
        let [dq, dk, dv] = [0, 1, 2].map(|side| of.views(side, &self.gradients[side]));
        let lse: Vec<_> = of.lse.iter().collect();
        let upstream = ShardGradients {
            out: &of.views(0, &of.out),
            lse: &lse,
            dout: &of.views(0, &self.dout),
            gradients: [&dq, &dk, &dv],
        };
        let called = parallel.ring_attention_backward([&q, &k, &v], upstream, &of.options);
        called.unwrap();
    }

    /// The largest of the three distances from those of one GPU, in parts of their length.
    fn distance(&self, of: &Tensors, one: &Whole) -> f64 {
        let [dk, dv] = &one.dkv;
        let wholes = [&one.dq, dk, dv].map(|whole| whole.to_vec().unwrap());
        let mut most = 0_f64;
        for (side, whole) in wholes.iter().enumerate() {
            let (mut apart, mut length) = (0.0, 0.0);
            for (rank, shard) in self.gradients[side].iter().enumerate() {
                let want = of.shard_of(whole, of.heads[side.min(1)], rank);
                for (got, want) in shard.to_vec().unwrap().iter().zip(&want) {
                    apart += (got.to_f64() - want.to_f64()).powi(2);
                    length += want.to_f64().powi(2);
                }
            }
            let distance = (apart / length).sqrt();
            assert!(distance < 1e-2, "gradients of side {side}: {distance}");
            most = most.max(distance);
        }
        most
    }
}

pub(crate) fn run(world: &World, nccl: &Nccl, sequence: &Sequence) {
    let tensors = Tensors::new(world, sequence);
    let of = &tensors;
    let parallel = Parallel::new(world);
    let attention: Vec<Attention> = world.devices().iter().map(Attention::new).collect();
    let dout = normal(of.heads[0] * of.tokens * of.depth, 77);
    let one = Whole::new(of, &dout, &world.devices()[0], None);
    let ring = Ring::new(world, of, &dout);
    one.attend(of, &attention[0], world.stream(0), of.tokens);
    one.differentiate(of, &attention[0], world.stream(0), of.tokens);
    of.ring(&parallel);
    // A second time, memory of all ranks is overwritten.
    for _ in 0..2 {
        ring.differentiate(of, &parallel);
    }
    world.synchronize().unwrap();
    let distance = ring.distance(of, &one);
    println!(
        "gradients of {}: {distance:.4} from those of one GPU",
        sequence.name()
    );
    let of_rank = of.tokens / of.ranks;
    // Each rank has contiguous tokens here.
    let seen = |rank: usize| {
        if of.options.causal {
            (rank + 1) * of_rank
        } else {
            of.tokens
        }
    };
    let devices = world.devices().iter().enumerate();
    let apart: Vec<Whole> = devices
        .map(|(rank, device)| Whole::new(of, &dout, device, Some(rank)))
        .collect();
    for (rank, whole) in apart.iter().enumerate() {
        whole.attend(of, &attention[rank], world.stream(rank), seen(rank));
    }
    let around = || {
        for side in 0..2 {
            let sent: Vec<_> = of.shards[1 + side].iter().collect();
            let all: Vec<_> = apart.iter().map(|whole| &whole.kv[side]).collect();
            nccl.all_gather(world, &sent, &all).unwrap();
        }
        for (rank, whole) in apart.iter().enumerate() {
            whole.differentiate(of, &attention[rank], world.stream(rank), seen(rank));
        }
        for side in 0..2 {
            let parts: Vec<_> = apart.iter().map(|whole| &whole.dkv[side]).collect();
            let sums: Vec<_> = ring.gradients[1 + side].iter().collect();
            nccl.reduce_scatter(world, &parts, &sums).unwrap();
        }
    };
    contest(
        world,
        &[
            ("ring attention, backward", &|| {
                ring.differentiate(of, &parallel);
            }),
            ("one GPU", &|| {
                one.differentiate(of, &attention[0], world.stream(0), of.tokens);
            }),
            ("NCCL, attention, NCCL", &around),
        ],
    );
}
