//! Experts that tokens are routed to, from logits to the sum of what a token's experts give: route, place, gather rows, two products of groups with `swiglu` between them, combine. Each step is compared with
//! what direct evaluation makes of its inputs: for experts without rows, choices of experts that another GPU holds, and numbers of experts and of rows that there are not.

use proptest::prelude::*;
use tilekit::library::rows::rows_per_program;
use tilekit::prelude::*;
use tilekit::{Arguments, Compiler};
use tilekit_kernels::products::{Options, Products};
use tilekit_kernels::training::{combine, embedding, place_by_expert, route, swiglu};

use crate::calls::{device, each, extent};
use crate::near::exact;
use crate::numbers::{Number, noise, small};

/// Rows of a program of the gate.
const ROWS: usize = 4;
/// Columns of instances, which is also the block of `swiglu`, and experts of the gate's.
const COLS: usize = 1024;
const EXPERTS: usize = 64;

/// A chain of calls.
#[derive(Clone, Debug)]
struct Chain {
    tokens: usize,
    experts: usize,
    /// Experts that this GPU holds, the first ones.
    held: usize,
    k: usize,
    cols: usize,
    inner: usize,
    normalize: bool,
    /// Most tokens want the same few experts, and others have no rows.
    is_skewed: bool,
    /// Some numbers of experts and of rows are wild.
    is_wild: bool,
    seed: u64,
}

impl Chain {
    fn any() -> impl Strategy<Value = Chain> {
        let extents = (extent(48), 1..=EXPERTS, 1..=EXPERTS, 1..=16_usize);
        let widths = (1..20_usize, 1..20_usize);
        let rest = (any::<[bool; 3]>(), 0..1000_u64);
        (extents, widths, rest).prop_map(|(extents, widths, (kinds, seed))| {
            let (tokens, experts, held, k) = extents;
            Chain {
                tokens: tokens.max(1),
                experts,
                held: held.min(experts),
                k: k.min(experts),
                cols: 8 * widths.0,
                inner: 8 * widths.1,
                normalize: kinds[0],
                is_skewed: kinds[1],
                is_wild: kinds[2],
                seed,
            }
        })
    }

    /// Rows of all choices, as many as all experts together may have.
    fn rows(&self) -> usize {
        self.tokens * self.k
    }

    /// Logits of each token, some of them equal.
    fn logits(&self) -> Vec<bf16> {
        let drawn = noise(self.tokens * self.experts, self.seed).enumerate();
        let logit = |(at, bits): (usize, u64)| {
            let is_favoured = self.is_skewed && at % self.experts % 5 == 1;
            (bits % 64) as f64 / 16.0 + if is_favoured { 8.0 } else { 0.0 }
        };
        drawn.map(|each| bf16::from_f64(logit(each))).collect()
    }

    /// With some of the numbers replaced by those of which there is nothing.
    fn with_wild(&self, numbers: Vec<i32>, most: usize) -> Vec<i32> {
        let all = [-1, most as i32, i32::MAX, i32::MIN];
        let wild = |(number, bits): (i32, u64)| match bits % 8 {
            0 if self.is_wild => all[(bits >> 8) as usize % all.len()],
            _ => number,
        };
        let noise = noise(numbers.len(), self.seed + 5);
        numbers.into_iter().zip(noise).map(wild).collect()
    }
}

/// Where kernels of a chain run.
struct Place {
    stream: Stream,
    products: Products,
}

impl Place {
    fn new() -> Place {
        let device = device();
        Place {
            stream: Stream::new(&device).unwrap(),
            products: Products::new(&device),
        }
    }

    fn put<T: Number>(&self, elements: &[T]) -> Buffer<T> {
        Buffer::from_slice(self.stream.device(), elements).unwrap()
    }

    /// Launches a kernel in so many programs.
    fn launch<P: 'static, K: Kernel<P>, A: Arguments<P>>(
        &self,
        kernel: K,
        programs: usize,
        arguments: A,
    ) {
        let kernel = kernel.compile(&Compiler::default()).unwrap();
        let kernel = kernel.load(self.stream.device()).unwrap();
        let grid = [programs, 1, 1];
        kernel.launch(&self.stream, grid, arguments).unwrap();
        self.stream.synchronize().unwrap();
    }
}

/// The experts of each token, the one with the largest logit first and of equal ones the first, and their weights.
fn routed(chain: &Chain, logits: &[bf16]) -> (Vec<i32>, Vec<f64>) {
    let of_token = |logits: &[bf16]| {
        let logits: Vec<f64> = logits.iter().map(|logit| logit.to_f64()).collect();
        let mut experts: Vec<usize> = (0..chain.experts).collect();
        experts.sort_by(|&x, &y| logits[y].total_cmp(&logits[x]));
        experts.truncate(chain.k);
        let of_all: f64 = logits.iter().map(|logit| logit.exp()).sum();
        let chosen: Vec<f64> = experts.iter().map(|&e| logits[e].exp()).collect();
        let sum = if chain.normalize {
            chosen.iter().sum()
        } else {
            of_all
        };
        let weights = chosen.into_iter().map(move |share| share / sum);
        experts.into_iter().map(|e| e as i32).zip(weights)
    };
    logits.chunks(chain.experts).flat_map(of_token).unzip()
}

/// Of choices: where rows of experts begin, the token of each row, and the row of each choice.
fn placed(chain: &Chain, chosen: &[i32]) -> (Vec<i32>, Vec<i64>, Vec<i32>) {
    let (mut offsets, mut tokens, mut places) = (vec![0], Vec::new(), vec![-1; chosen.len()]);
    for expert in 0..chain.held as i32 {
        for (choice, _) in chosen.iter().enumerate().filter(|(_, e)| **e == expert) {
            places[choice] = tokens.len() as i32;
            tokens.push((choice / chain.k) as i64);
        }
        offsets.push(tokens.len() as i32);
    }
    (offsets, tokens, places)
}

/// The tensors of a chain.
struct Experts {
    x: Vec<bf16>,
    /// Gate, up and down, each of all experts that are held.
    weights: [Vec<bf16>; 3],
}

impl Experts {
    fn new(chain: &Chain) -> Experts {
        let of_expert = chain.held * chain.cols * chain.inner;
        Experts {
            x: small(chain.tokens * chain.cols, chain.seed),
            weights: [1, 2, 3].map(|matrix| small(of_expert, chain.seed + matrix)),
        }
    }
}

/// Rows of each group times a matrix of its own, in f64; each element with what a sum of f32 may be off by.
fn grouped(a: &[f64], b: &[bf16], offsets: &[i32], [k, n]: [usize; 2]) -> Vec<(f64, f64)> {
    let of_group = |group: usize| {
        let rows = offsets[group] as usize..offsets[group + 1] as usize;
        rows.flat_map(move |row| (0..n).map(move |column| (group, row, column)))
    };
    let of_place = |(group, row, column): (usize, usize, usize)| {
        let term = |l: usize| a[row * k + l] * b[(group * k + l) * n + column].to_f64();
        let (sum, size) = (0..k).map(term).fold((0.0, 0.0), |(sum, size), term| {
            (sum + term, size + f64::abs(term))
        });
        (sum, 1e-5 * size)
    };
    let groups = 0..offsets.len() - 1;
    groups.flat_map(of_group).map(of_place).collect()
}

fn numbers<T: Number>(buffer: &Buffer<T>) -> Vec<f64> {
    let elements = buffer.to_vec().unwrap();
    elements.into_iter().map(Number::back).collect()
}

/// Compares the first elements of a buffer with these, and those behind them with what was there.
fn compare(name: &str, found: &Buffer<bf16>, wanted: &[(f64, f64)]) {
    let found = numbers(found);
    let mut all = vec![None; found.len()];
    for (place, wanted) in all.iter_mut().zip(wanted) {
        *place = Some(*wanted);
    }
    let before = vec![bf16::beside().back(); found.len()];
    exact(name, &found, &all, &before, bf16::ROUNDING);
}

/// Routes tokens, and places rows of the experts that are held: choices, weights, places and tokens of rows as device memory, and where experts begin.
fn place_rows(place: &Place, chain: &Chain) -> Placed {
    let (choices, k) = (chain.rows(), chain.k as i32);
    let logits = chain.logits();
    let weights = place.put(&vec![f32::beside(); choices]);
    let chosen = place.put(&vec![i32::beside(); choices]);
    let [tokens, experts] = [chain.tokens, chain.experts].map(|extent| extent as i32);
    let normalize = i32::from(chain.normalize);
    let of_logits = place.put(&logits);
    let arguments = (
        &of_logits,
        &weights,
        &chosen,
        chain.experts as i64,
        tokens,
        experts,
        k,
        normalize,
    );
    let programs = chain.tokens.div_ceil(ROWS);
    place.launch(route::<bf16, EXPERTS>, programs, arguments);
    let (wanted, shares) = routed(chain, &logits);
    assert_eq!(chosen.to_vec().unwrap(), wanted, "chosen");
    for (found, share) in numbers(&weights).into_iter().zip(shares) {
        assert!((found - share).abs() <= 1e-6, "weight {found} for {share}");
    }

    let wild = chain.with_wild(wanted, chain.held);
    let chosen = place.put(&wild);
    let [token, offsets] = [choices, chain.held + 1];
    let token = Buffer::from_slice(place.stream.device(), &vec![-1_i64; token]).unwrap();
    let offsets = place.put(&vec![i32::beside(); offsets]);
    let places = place.put(&vec![i32::beside(); choices]);
    let arguments = (
        &chosen,
        &token,
        &places,
        &offsets,
        choices as i32,
        k,
        chain.held as i32,
    );
    place.launch(place_by_expert, chain.held, arguments);
    let (ends, mut tokens, rows) = placed(chain, &wild);
    tokens.resize(choices, -1);
    assert_eq!(offsets.to_vec().unwrap(), ends, "offsets");
    assert_eq!(token.to_vec().unwrap(), tokens, "token");
    assert_eq!(places.to_vec().unwrap(), rows, "place");
    Placed {
        weights,
        token,
        offsets,
        ends,
        places: rows,
    }
}

/// What placing rows gives.
struct Placed {
    weights: Buffer<f32>,
    token: Buffer<i64>,
    offsets: Buffer<i32>,
    /// The same on the host.
    ends: Vec<i32>,
    places: Vec<i32>,
}

/// Rows of experts times a matrix each, compared; the rows of no expert are left as they were.
fn multiplied(
    place: &Place,
    (rows, of_placed): (&Buffer<bf16>, &Placed),
    weights: &[bf16],
    [k, n]: [usize; 2],
) -> Buffer<bf16> {
    let (count, groups) = (rows.len() / k, of_placed.ends.len() - 1);
    let b = place.put(weights);
    let c = place.put(&vec![bf16::beside(); count * n]);
    let views = (
        rows.view([count, k]),
        b.view([groups, k, n]),
        c.view([count, n]),
    );
    let offsets = &of_placed.offsets;
    let options = Options::default();
    let (products, stream) = (&place.products, &place.stream);
    let made = products.grouped(stream, &views.0, &views.1, &views.2, offsets, &options);
    made.unwrap();
    stream.synchronize().unwrap();
    let wanted = grouped(&numbers(rows), weights, &of_placed.ends, [k, n]);
    compare("product", &c, &wanted);
    c
}

/// The hidden rows, `silu(gate) * up`, of rows of experts.
fn activated(place: &Place, [gate, up]: [Buffer<bf16>; 2], used: usize) -> Buffer<bf16> {
    let out = place.put(&vec![bf16::beside(); gate.len()]);
    let programs = gate.len().div_ceil(COLS);
    let arguments = (&gate, &up, &out, gate.len() as i64);
    place.launch(swiglu::<bf16>, programs, arguments);
    let wanted = numbers(&gate).into_iter().zip(numbers(&up)).take(used);
    let wanted = wanted.map(|(gate, up)| {
        let out = gate / (1.0 + (-gate).exp()) * up;
        (out, 1e-5 * out.abs() + 1e-6)
    });
    compare("swiglu", &out, &wanted.collect::<Vec<_>>());
    out
}

/// The sums of what the experts of each token give, compared; wild rows count for nothing.
fn combined(place: &Place, chain: &Chain, y: &Buffer<bf16>, of_placed: &Placed) {
    let (rows, cols) = (chain.rows(), chain.cols);
    let places = chain.with_wild(of_placed.places.clone(), rows);
    let of_places = place.put(&places);
    let out = place.put(&vec![bf16::beside(); chain.tokens * cols]);
    let stride = cols as i64;
    let [count, tokens, k, width] = [rows, chain.tokens, chain.k, cols].map(|x| x as i32);
    let weights = &of_placed.weights;
    let arguments = (
        y, &of_places, weights, &out, stride, stride, count, tokens, k, width,
    );
    let programs = chain.tokens.div_ceil(rows_per_program::<bf16>(COLS));
    place.launch(combine::<bf16, COLS, 8>, programs, arguments);
    let (y, weights) = (numbers(y), numbers(weights));
    let of_element = |at: usize| {
        let (token, column) = (at / cols, at % cols);
        let choices = token * chain.k..(token + 1) * chain.k;
        let exists = choices.filter(|&choice| (0..rows as i32).contains(&places[choice]));
        let term = |choice: usize| weights[choice] * y[places[choice] as usize * cols + column];
        let (sum, size) = exists.map(term).fold((0.0, 0.0), |(sum, size), term| {
            (sum + term, size + f64::abs(term))
        });
        (sum, 1e-5 * size)
    };
    let wanted: Vec<(f64, f64)> = (0..chain.tokens * cols).map(of_element).collect();
    compare("out", &out, &wanted);
}

/// The whole chain of a call.
fn run(place: &Place, chain: &Chain) {
    let (rows, cols, inner) = (chain.rows(), chain.cols, chain.inner);
    let experts = Experts::new(chain);
    let of_placed = place_rows(place, chain);
    let used = *of_placed.ends.last().unwrap() as usize;

    let x = place.put(&experts.x);
    let gathered = place.put(&vec![bf16::beside(); rows * cols]);
    let (stride, token) = (cols as i64, &of_placed.token);
    let [count, width] = [rows, cols].map(|extent| extent as i32);
    let entries = chain.tokens as i64;
    let arguments = (&x, token, &gathered, stride, stride, entries, count, width);
    let programs = rows.div_ceil(rows_per_program::<bf16>(COLS));
    place.launch(embedding::<bf16, COLS, 8>, programs, arguments);
    // Rows of no expert have the number -1, and are zeros.
    let of_row = |token: i64| match usize::try_from(token) {
        Ok(token) => experts.x[token * cols..][..cols].to_vec(),
        Err(_) => vec![bf16::ZERO; cols],
    };
    let tokens = token.to_vec().unwrap();
    let wanted: Vec<bf16> = tokens.into_iter().flat_map(of_row).collect();
    assert_eq!(gathered.to_vec().unwrap(), wanted, "rows");

    let [gate, up, down] = &experts.weights;
    let of_rows = (&gathered, &of_placed);
    let both = [gate, up].map(|matrix| multiplied(place, of_rows, matrix, [cols, inner]));
    let hidden = activated(place, both, used * inner);
    let y = multiplied(place, (&hidden, &of_placed), down, [inner, cols]);
    combined(place, chain, &y, &of_placed);
}

#[test]
fn chains_of_bf16() {
    let place = Place::new();
    each(8, &Chain::any(), |chain| run(&place, &chain));
}
