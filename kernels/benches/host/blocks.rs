//! Attention by block-sparse masks, forward and backward, beside the kernels whose masks are the same: depth 128, 16 heads of 16384 tokens; forward at depth 256, 8 heads, too.

use tilekit::prelude::*;
use tilekit_kernels::attention::{
    Attention, BlockKind, BlockMask, BlockShape, Options, Plain, Upstream,
};

use super::normal::normal;
use super::timing::{Times, time};

const TOKENS: usize = 16384;
const BLOCK: usize = 128;

/// A row: heads, depth, the keys before its own that a query sees besides those of its block, and whether gradients are computed.
#[derive(Clone, Copy)]
struct Row {
    heads: usize,
    depth: usize,
    window: Option<usize>,
    is_backward: bool,
}

struct Set {
    qkv: [Buffer<bf16>; 3],
    out: Buffer<bf16>,
    lse: Buffer<f32>,
    dout: Buffer<bf16>,
    gradients: [Buffer<bf16>; 3],
}

pub(crate) fn run(device: &Device, filter: &str) {
    let attention = Attention::new(device);
    for (heads, depth, is_backward) in [(16, 128, false), (8, 256, false), (16, 128, true)] {
        for (mask, window) in [
            ("causal", None),
            ("window of 1024", Some(1024)),
            ("window of 4096", Some(4096)),
        ] {
            let pass = if is_backward { "backward" } else { "forward" };
            let name = format!("blocks {pass} {depth} {mask}");
            if name.contains(filter) {
                let row = Row {
                    heads,
                    depth,
                    window,
                    is_backward,
                };
                run_row(device, &attention, &name, row);
            }
        }
    }
}

fn run_row(device: &Device, attention: &Attention, name: &str, row: Row) {
    let stream = Stream::new(device).unwrap();
    let mask = mask_of(device, row.window);
    let options = Options {
        causal: true,
        window: [row.window, None],
        ..Options::default()
    };
    let sets: Vec<Set> = (0..2).map(|seed| Set::new(device, row, seed)).collect();
    let mut times = Vec::new();
    for is_listed in [false, true] {
        let mask = is_listed.then_some(&mask);
        for set in &sets {
            set.forward(attention, &stream, row, mask, &options);
        }
        let call = |set: &Set, stream: &Stream| {
            if row.is_backward {
                set.backward(attention, stream, row, mask, &options);
            } else {
                set.forward(attention, stream, row, mask, &options);
            }
        };
        for set in &sets {
            call(set, &stream);
        }
        stream.synchronize().unwrap();
        times.push((time(device, &stream, &sets, call), sets[0].results(row)));
    }
    let [(without, expected), (with, found)] = &times[..] else {
        unreachable!("both kinds are timed")
    };
    for (at, (x, y)) in expected.iter().zip(found).enumerate() {
        assert!(
            (x.to_f64() - y.to_f64()).abs() < 0.02 + 0.02 * x.to_f64().abs(),
            "element {at}: {x} and {y}"
        );
    }
    let of = |times: &Times| [times.single, times.back_to_back];
    let ([s, b], [of_s, of_b]) = (of(without), of(with));
    println!("{name:34} without lists {s:8.1}, {b:8.1} us  with {of_s:8.1}, {of_b:8.1} us");
}

fn mask_of(device: &Device, window: Option<usize>) -> BlockMask {
    let shape = BlockShape {
        batch: 1,
        heads: 1,
        tokens: [TOKENS; 2],
        block: [BLOCK; 2],
    };
    let blocks = window.map_or(TOKENS, |keys| keys / BLOCK);
    BlockMask::from_fn(device, shape, |_, _, query, key| {
        match query.checked_sub(key) {
            Some(before) if before == 0 || before == blocks => BlockKind::Partial,
            Some(before) if before < blocks => BlockKind::Full,
            _ => BlockKind::Hidden,
        }
    })
    .unwrap()
}

impl Set {
    fn new(device: &Device, row: Row, seed: u64) -> Set {
        let len = row.heads * TOKENS * row.depth;
        let of = |seed| Buffer::from_slice(device, &normal(len, seed)).unwrap();
        let gradient = || Buffer::new(device, if row.is_backward { len } else { 1 }).unwrap();
        Set {
            qkv: [0, 1, 2].map(|part| of(4 * seed + part + 1)),
            out: Buffer::new(device, len).unwrap(),
            lse: Buffer::new(device, row.heads * TOKENS).unwrap(),
            dout: of(4 * seed + 4),
            gradients: [gradient(), gradient(), gradient()],
        }
    }

    /// What a call has made: the output, or all gradients.
    fn results(&self, row: Row) -> Vec<bf16> {
        if row.is_backward {
            let all = self.gradients.iter().map(|x| x.to_vec().unwrap());
            all.collect::<Vec<_>>().concat()
        } else {
            self.out.to_vec().unwrap()
        }
    }

    fn forward(
        &self,
        attention: &Attention,
        stream: &Stream,
        row: Row,
        mask: Option<&BlockMask>,
        options: &Options<'_>,
    ) {
        let shape = [1, row.heads, TOKENS, row.depth];
        let [q, k, v] = self.qkv.each_ref().map(|x| x.view(shape));
        let (qkv, out) = ([&q, &k, &v], self.out.view(shape));
        match mask {
            Some(mask) => attention
                .forward_blocks::<_, Plain>(stream, qkv, &out, &self.lse, mask, options, None),
            None => attention.forward_into(stream, qkv, &out, &self.lse, options),
        }
        .unwrap();
    }

    fn backward(
        &self,
        attention: &Attention,
        stream: &Stream,
        row: Row,
        mask: Option<&BlockMask>,
        options: &Options<'_>,
    ) {
        let shape = [1, row.heads, TOKENS, row.depth];
        let [q, k, v] = self.qkv.each_ref().map(|x| x.view(shape));
        let [dq, dk, dv] = self.gradients.each_ref().map(|x| x.view(shape));
        let (qkv, gradients) = ([&q, &k, &v], [&dq, &dk, &dv]);
        let upstream = Upstream {
            out: &self.out.view(shape),
            lse: &self.lse,
            dout: &self.dout.view(shape),
        };
        match mask {
            Some(mask) => attention
                .backward_blocks::<_, Plain>(stream, qkv, upstream, gradients, mask, options, None),
            None => attention.backward_into(stream, qkv, upstream, gradients, options),
        }
        .unwrap();
    }
}
