//! Attention to a cache of latent vectors (MLA), pages of 64 tokens, by a plan that is made before.

use tilekit::prelude::*;
use tilekit_kernels::attention::{Attention, LatentCache, LatentPlan};

use super::normal::normal;
use super::timing::{Times, sets, time};

const DEPTH: usize = 576;
const VALUES: usize = 512;
const PAGE: usize = 64;
/// Sequences, tokens of each, heads.
const ROWS: [[usize; 3]; 9] = [
    [128, 4096, 128],
    [128, 8192, 128],
    [64, 16384, 128],
    [128, 4096, 64],
    [128, 8192, 16],
    [1, 16384, 128],
    [1, 4096, 128],
    [4, 16384, 128],
    [8, 2048, 16],
];

struct Set {
    q: Buffer<bf16>,
    rows: Buffer<bf16>,
    table: Buffer<i32>,
    lengths: Buffer<i32>,
    out: Buffer<bf16>,
    lse: Buffer<f32>,
}

pub(crate) fn run(device: &Device, filter: &str) {
    let attention = Attention::new(device);
    for [batch, tokens, heads] in ROWS {
        let name = format!("latent {batch}x{tokens}x{heads}");
        if name.contains(filter) {
            run_row(device, &attention, &name, [batch, tokens, heads]);
        }
    }
}

fn run_row(device: &Device, attention: &Attention, name: &str, sizes: [usize; 3]) {
    let [batch, tokens, heads] = sizes;
    let stream = Stream::new(device).unwrap();
    let bytes = 2 * batch * tokens * DEPTH;
    let sets: Vec<Set> = (0..sets(bytes))
        .map(|number| Set::new(device, sizes, number as u64))
        .collect();
    let plan = sets[0].plan(attention, &stream, sizes);
    for set in &sets {
        set.call(attention, &stream, &plan, sizes);
    }
    stream.synchronize().unwrap();
    let Times {
        single,
        back_to_back,
        host,
    } = time(device, &stream, &sets, |set, stream| {
        set.call(attention, stream, &plan, sizes);
    });
    let flops = (2 * batch * heads * tokens * (DEPTH + VALUES)) as f64;
    println!(
        "{name:20} single {single:8.1} us {:5.1} TFLOP/s {:5.2} TB/s  back to back {back_to_back:8.1} us {:5.1} TFLOP/s {:5.2} TB/s  host {host:5.1} us",
        flops / single / 1e6,
        bytes as f64 / single / 1e6,
        flops / back_to_back / 1e6,
        bytes as f64 / back_to_back / 1e6,
    );
}

impl Set {
    fn new(device: &Device, [batch, tokens, heads]: [usize; 3], seed: u64) -> Set {
        let pages = batch * tokens / PAGE;
        // An odd factor deals pages out in a scattered order.
        let table: Vec<i32> = (0..pages).map(|at| (at * 7919 % pages) as i32).collect();
        let of = |len: usize, seed: u64| Buffer::from_slice(device, &normal(len, seed)).unwrap();
        Set {
            q: of(batch * heads * DEPTH, 2 * seed + 1),
            rows: of(pages * PAGE * DEPTH, 2 * seed + 2),
            table: Buffer::from_slice(device, &table).unwrap(),
            lengths: Buffer::from_slice(device, &vec![tokens as i32; batch]).unwrap(),
            out: Buffer::new(device, batch * heads * VALUES).unwrap(),
            lse: Buffer::new(device, batch * heads).unwrap(),
        }
    }

    fn plan(
        &self,
        attention: &Attention,
        stream: &Stream,
        [_, _, heads]: [usize; 3],
    ) -> LatentPlan {
        let rows = self.rows.view([self.table.len(), 1, PAGE, DEPTH]);
        attention
            .plan_latent(stream, &self.cache(&rows), [heads, 1])
            .unwrap()
    }

    fn cache<'a>(&'a self, rows: &'a TensorView<'a, bf16>) -> LatentCache<'a, bf16> {
        LatentCache {
            rows,
            lengths: &self.lengths,
            table: &self.table,
            checked: false,
        }
    }

    fn call(
        &self,
        attention: &Attention,
        stream: &Stream,
        plan: &LatentPlan,
        [batch, _, heads]: [usize; 3],
    ) {
        let rows = self.rows.view([self.table.len(), 1, PAGE, DEPTH]);
        let q = self.q.view([batch, heads, 1, DEPTH]);
        let out = self.out.view([batch, heads, 1, VALUES]);
        let results = (&out, &self.lse);
        attention
            .decode_latent_planned_into(stream, &q, &self.cache(&rows), plan, results, None)
            .unwrap();
    }
}
