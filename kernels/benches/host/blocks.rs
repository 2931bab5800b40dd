//! Attention by block-sparse masks beside the kernels whose masks are the same: depth 128, 16 heads of 16384 tokens.

use tilekit::prelude::*;
use tilekit_kernels::attention::{Attention, BlockKind, BlockMask, BlockShape, Options, Plain};

use super::normal::normal;
use super::timing::{Call, Times, time};

const HEADS: usize = 16;
const TOKENS: usize = 16384;
const DEPTH: usize = 128;
const BLOCK: usize = 128;

struct Set {
    qkv: [Buffer<bf16>; 3],
    out: Buffer<bf16>,
    lse: Buffer<f32>,
}

/// The keys before its own that a query sees besides those of its block.
type Window = Option<usize>;

pub(crate) fn run(device: &Device, filter: &str) {
    let attention = Attention::new(device);
    for (name, window) in [
        ("blocks causal", None),
        ("blocks window of 1024", Some(1024)),
        ("blocks window of 4096", Some(4096)),
    ] {
        if name.contains(filter) {
            run_row(device, &attention, name, window);
        }
    }
}

fn run_row(device: &Device, attention: &Attention, name: &str, window: Window) {
    let stream = Stream::new(device).unwrap();
    let shape = BlockShape {
        batch: 1,
        heads: 1,
        tokens: [TOKENS; 2],
        block: [BLOCK; 2],
    };
    let blocks = window.map_or(TOKENS, |keys| keys / BLOCK);
    let mask = BlockMask::from_fn(device, shape, |_, _, query, key| {
        match query.checked_sub(key) {
            Some(before) if before == 0 || before == blocks => BlockKind::Partial,
            Some(before) if before < blocks => BlockKind::Full,
            _ => BlockKind::Hidden,
        }
    })
    .unwrap();
    let options = Options {
        causal: true,
        window: [window, None],
        ..Options::default()
    };
    let sets: Vec<Set> = (0..2).map(|seed| Set::new(device, seed)).collect();
    let mut times = Vec::new();
    for is_listed in [false, true] {
        let calls = sets.iter().map(|set| {
            let mask = is_listed.then_some(&mask);
            Box::new(move |stream: &Stream| set.call(attention, stream, mask, &options)) as Call<'_>
        });
        let calls: Vec<Call<'_>> = calls.collect();
        for call in &calls {
            call(&stream);
        }
        stream.synchronize().unwrap();
        times.push((time(device, &stream, &calls), sets[0].out.to_vec().unwrap()));
    }
    let [(without, out), (with, of_blocks)] = &times[..] else {
        unreachable!("both kinds are timed")
    };
    for (at, (x, y)) in out.iter().zip(of_blocks).enumerate() {
        assert!(
            (x.to_f64() - y.to_f64()).abs() < 0.02,
            "element {at}: {x} and {y}"
        );
    }
    let of = |times: &Times| [times.single, times.back_to_back];
    let ([s, b], [of_s, of_b]) = (of(without), of(with));
    println!("{name:24} without lists {s:8.1}, {b:8.1} us  with {of_s:8.1}, {of_b:8.1} us");
}

impl Set {
    fn new(device: &Device, seed: u64) -> Set {
        let len = HEADS * TOKENS * DEPTH;
        let of = |seed| Buffer::from_slice(device, &normal(len, seed)).unwrap();
        Set {
            qkv: [0, 1, 2].map(|part| of(3 * seed + part + 1)),
            out: Buffer::new(device, len).unwrap(),
            lse: Buffer::new(device, HEADS * TOKENS).unwrap(),
        }
    }

    fn call(
        &self,
        attention: &Attention,
        stream: &Stream,
        mask: Option<&BlockMask>,
        options: &Options<'_>,
    ) {
        let shape = [1, HEADS, TOKENS, DEPTH];
        let [q, k, v] = self.qkv.each_ref().map(|x| x.view(shape));
        let (qkv, out) = ([&q, &k, &v], self.out.view(shape));
        match mask {
            Some(mask) => attention
                .forward_blocks::<_, Plain>(stream, qkv, &out, &self.lse, mask, options, None),
            None => attention.forward_into(stream, qkv, &out, &self.lse, options),
        }
        .unwrap();
    }
}
