//! Attention to a cache: 64 query heads of 8 heads of keys, depth 128, pages of 64 tokens.

use tilekit::prelude::*;
use tilekit_kernels::attention::{Attention, Cache, CacheElement, CacheScales, Options};

use super::normal::normal;
use super::timing::{Times, sets, time};

const KV_HEADS: usize = 8;
const GROUP: usize = 8;
const DEPTH: usize = 128;
const PAGE: usize = 64;
/// Sequences, and tokens of each.
const ROWS: [[usize; 2]; 14] = [
    [1, 1024],
    [1, 4096],
    [1, 16384],
    [1, 131_072],
    [4, 1024],
    [4, 8192],
    [16, 1024],
    [16, 8192],
    [16, 32768],
    [64, 1024],
    [64, 8192],
    [128, 1024],
    [128, 4096],
    [128, 8192],
];
/// What a copy kernel reads on an H200, bytes a µs.
const READ_LIMIT: f64 = 4.6e6;
/// What a small call may take above its bytes at the limit, in µs.
const FIXED_US: f64 = 8.0;

/// A call's tensors; the cache has elements `C`.
struct Set<C> {
    q: Buffer<bf16>,
    keys: Buffer<C>,
    values: Buffer<C>,
    /// Factors of keys and of values, one for each head, where the cache has elements of 8 bits.
    scales: Option<[Buffer<f32>; 2]>,
    table: Buffer<i32>,
    lengths: Buffer<i32>,
    out: Buffer<bf16>,
    lse: Buffer<f32>,
}

pub(crate) fn run(device: &Device, filter: &str) {
    let attention = Attention::new(device);
    for row in ROWS {
        run_row::<bf16>(device, &attention, filter, row);
        run_row::<E4m3>(device, &attention, filter, row);
    }
}

fn run_row<C: CacheElement<bf16>>(
    device: &Device,
    attention: &Attention,
    filter: &str,
    [batch, tokens]: [usize; 2],
) {
    let of = if size_of::<C>() == 1 { "e4m3 " } else { "" };
    let name = format!("decode {of}{batch}x{tokens}");
    if !name.contains(filter) {
        return;
    }
    let stream = Stream::new(device).unwrap();
    let bytes = 2 * size_of::<C>() * batch * KV_HEADS * tokens * DEPTH;
    let sets: Vec<Set<C>> = (0..sets(bytes))
        .map(|number| Set::new(device, batch, tokens, number as u64))
        .collect();
    for set in &sets {
        set.call(attention, &stream, batch);
    }
    stream.synchronize().unwrap();
    sets[0].check(tokens);
    let Times {
        single,
        back_to_back,
        host,
    } = time(device, &stream, &sets, |set, stream| {
        set.call(attention, stream, batch);
    });
    let bound = bytes as f64 / READ_LIMIT;
    let goal = 1.15 * bound + FIXED_US;
    println!(
        "{name:22} {:8.1} MB  single {single:8.1} us {:5.2} TB/s  back to back {back_to_back:8.1} us {:5.2} TB/s  host {host:5.1} us  bound {bound:7.1} us, goal {goal:7.1} us",
        bytes as f64 / 1e6,
        bytes as f64 / single / 1e6,
        bytes as f64 / back_to_back / 1e6,
    );
}

impl<C: CacheElement<bf16>> Set<C> {
    fn new(device: &Device, batch: usize, tokens: usize, seed: u64) -> Set<C> {
        let pages = batch * tokens / PAGE;
        let elements = pages * KV_HEADS * PAGE * DEPTH;
        let heads = KV_HEADS * GROUP;
        // An odd factor deals pages out in a scattered order.
        let table: Vec<i32> = (0..pages).map(|at| page(at, pages) as i32).collect();
        let of_cache = |seed: u64| Buffer::from_slice(device, &normal(elements, seed)).unwrap();
        let scales = |of: f32| {
            let factors: Vec<f32> = (0..KV_HEADS).map(|head| of + head as f32 / 8.0).collect();
            Buffer::from_slice(device, &factors).unwrap()
        };
        Set {
            q: Buffer::from_slice(device, &normal(batch * heads * DEPTH, 3 * seed + 1)).unwrap(),
            keys: of_cache(3 * seed + 2),
            values: of_cache(3 * seed + 3),
            scales: (size_of::<C>() == 1).then(|| [scales(0.5), scales(0.75)]),
            table: Buffer::from_slice(device, &table).unwrap(),
            lengths: Buffer::from_slice(device, &vec![tokens as i32; batch]).unwrap(),
            out: Buffer::new(device, batch * heads * DEPTH).unwrap(),
            lse: Buffer::new(device, batch * heads).unwrap(),
        }
    }

    fn call(&self, attention: &Attention, stream: &Stream, batch: usize) {
        let pages = self.table.len();
        let shape = [pages, KV_HEADS, PAGE, DEPTH];
        let (keys, values) = (self.keys.view(shape), self.values.view(shape));
        let of_heads = [pages, KV_HEADS, PAGE];
        let scales = self.scales.as_ref().map(|scales| {
            let by_head = |at: usize| scales[at].view(of_heads).with_strides([0, 1, 0]);
            [by_head(0), by_head(1)]
        });
        let cache = Cache {
            keys: &keys,
            values: &values,
            lengths: &self.lengths,
            table: Some(&self.table),
            scales: scales
                .as_ref()
                .map(|[keys, values]| CacheScales { keys, values }),
            checked: false,
        };
        let of_rows = [batch, KV_HEADS * GROUP, 1, DEPTH];
        let (q, out) = (self.q.view(of_rows), self.out.view(of_rows));
        let options = Options::default();
        attention
            .decode_into(stream, &q, &cache, &out, &self.lse, &options)
            .unwrap();
    }

    /// The last head of the first sequence, against f64.
    fn check(&self, tokens: usize) {
        let (q, keys, values) = (
            self.q.to_vec().unwrap(),
            self.keys.to_vec().unwrap(),
            self.values.to_vec().unwrap(),
        );
        let factors = self.scales.as_ref().map_or([1.0; 2], |scales| {
            let last = |scales: &Buffer<f32>| f64::from(scales.to_vec().unwrap()[KV_HEADS - 1]);
            [last(&scales[0]), last(&scales[1])]
        });
        // An element is what it stands for, rounded once.
        let meant = |x: C, factor: f64| bf16::from_f64(x.number().to_f64() * factor).to_f64();
        let head = KV_HEADS * GROUP - 1;
        let q: Vec<f64> = q[head * DEPTH..][..DEPTH]
            .iter()
            .map(|x| x.to_f64())
            .collect();
        let pages = self.table.len();
        let row = |token: usize| {
            let page = page(token / PAGE, pages);
            ((page * KV_HEADS + KV_HEADS - 1) * PAGE + token % PAGE) * DEPTH
        };
        let scores: Vec<f64> = (0..tokens)
            .map(|token| {
                let key = &keys[row(token)..][..DEPTH];
                let dot: f64 = key
                    .iter()
                    .zip(&q)
                    .map(|(&k, q)| meant(k, factors[0]) * q)
                    .sum();
                dot / (DEPTH as f64).sqrt()
            })
            .collect();
        let largest = scores.iter().copied().fold(f64::MIN, f64::max);
        let powers: Vec<f64> = scores.iter().map(|s| (s - largest).exp()).collect();
        let total: f64 = powers.iter().sum();
        let out = self.out.to_vec().unwrap();
        for (column, found) in out[head * DEPTH..][..DEPTH].iter().enumerate() {
            let at = |token: usize| meant(values[row(token) + column], factors[1]);
            let sum: f64 = powers
                .iter()
                .enumerate()
                .map(|(token, p)| p * at(token))
                .sum();
            let (expected, found) = (sum / total, found.to_f64());
            assert!(
                (expected - found).abs() < 5e-3 + 1e-2 * expected.abs(),
                "column {column}: {found}, expected {expected}"
            );
        }
        let lse = f64::from(self.lse.to_vec().unwrap()[head]);
        assert!((lse - largest - total.ln()).abs() < 1e-4, "lse {lse}");
    }
}

/// The page of an entry of the table.
fn page(entry: usize, pages: usize) -> usize {
    entry * 7919 % pages
}
