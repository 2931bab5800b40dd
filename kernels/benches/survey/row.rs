//! One shape.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use tilekit::case::{BenchOptions, Entrant, Series, StreamContest};
use tilekit::{CublasHandle, LtProduct};
use tilekit_kernels::products::instances::Instance;
use tilekit_kernels::products::need::Need;
use tilekit_kernels::products::{Choice, Dispatch, Operand, Products, ResultOf};

use crate::beside;
use crate::options::Options;
use crate::pool::{Places, Pool, Standard};
use crate::shapes::Shape;

/// A launch that takes longer has hung.
const LIMIT: Duration = Duration::from_secs(20);
/// Shapes whose product takes longer than so many µs by the model are timed fewer times.
const LONG_US: f64 = 1500.0;

/// What was found of a shape.
pub(crate) struct Row {
    pub(crate) shape: Shape,
    pub(crate) choice: Choice,
    /// Ours, then other instances of ours.
    pub(crate) ours: Vec<Entrant>,
    /// Candidates of cublasLt, and cuBLAS where it was asked for.
    pub(crate) lt: Vec<Entrant>,
    /// Elements of results that are wrong, of each of `ours`.
    wrong: Vec<(String, i32)>,
}

/// A mode of timing.
pub(crate) const MODES: [fn(&Entrant) -> &Series; 2] =
    [|entrant| &entrant.single, |entrant| &entrant.back_to_back];

/// The fastest of several in a mode.
fn best(of: &[Entrant], mode: usize) -> Option<&Entrant> {
    let of_mode = |entrant: &&Entrant| MODES[mode](entrant).median_ms();
    of.iter().min_by(|x, y| of_mode(x).total_cmp(&of_mode(y)))
}

impl Row {
    /// Time of the fastest of `lt` over ours, single and back to back.
    pub(crate) fn ratios(&self) -> Option<[f32; 2]> {
        let ratio = |mode: usize| {
            let best = best(&self.lt, mode)?;
            Some(MODES[mode](best).ratio_to(MODES[mode](&self.ours[0])))
        };
        Some([ratio(0)?, ratio(1)?])
    }

    /// The fastest of our instances and its time over that of the chosen one: by the geometric mean of both modes.
    pub(crate) fn fastest(&self) -> (&Entrant, f32) {
        let ratio = |other: &Entrant| {
            let of_mode = |mode: usize| MODES[mode](other).ratio_to(MODES[mode](&self.ours[0]));
            (of_mode(0) * of_mode(1)).sqrt()
        };
        let all = self.ours.iter().map(|other| (other, ratio(other)));
        let fastest = all.min_by(|(_, x), (_, y)| x.total_cmp(y));
        fastest.unwrap_or((&self.ours[0], 1.0))
    }

    pub(crate) fn is_right(&self) -> bool {
        self.wrong.is_empty()
    }

    /// With every sample, as a JSON object.
    pub(crate) fn json(&self) -> String {
        let samples = |series: &Series| {
            let us = series
                .samples_ms
                .iter()
                .map(|ms| format!("{:.3}", ms * 1e3));
            us.collect::<Vec<_>>().join(",")
        };
        let entrant = |entrant: &Entrant| {
            format!(
                r#"{{"name":"{}","single_us":[{}],"back_to_back_us":[{}]}}"#,
                entrant.name,
                samples(&entrant.single),
                samples(&entrant.back_to_back)
            )
        };
        let all: Vec<String> = self.ours.iter().chain(&self.lt).map(entrant).collect();
        let [m, n, k] = self.shape.size;
        format!(
            r#"{{"size":[{m},{n},{k}],"kind":"{}","why":"{}","wrong":{},"contestants":[{}]}}"#,
            self.shape.kind,
            self.choice.why,
            self.wrong.len(),
            all.join(",")
        )
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [m, n, k] = self.shape.size;
        let size = format!("{m}x{n}x{k}");
        write!(f, "{:7} {size:20} ", self.shape.kind)?;
        for (name, count) in &self.wrong {
            write!(f, "WRONG: {count} elements by {name}; ")?;
        }
        let us = |series: &Series| series.median_ms() * 1e3;
        let ours = &self.ours[0];
        write!(f, "{:7.1} {:7.1}", us(&ours.single), us(&ours.back_to_back))?;
        let lt = [0, 1].map(|mode| best(&self.lt, mode));
        if let ([Some(single), Some(many)], Some([x, y])) = (lt, self.ratios()) {
            write!(
                f,
                " | cublasLt {:7.1} {:7.1} | {x:.3} {y:.3}",
                us(&single.single),
                us(&many.back_to_back)
            )?;
        }
        let spreads = MODES.map(|mode| 100.0 * mode(ours).spread());
        // Operands and result once, of 16 bits each, by the time back to back.
        let bytes = 2.0 * (m * k + n * k + m * n) as f64;
        let rate = bytes * 1e-6 / f64::from(us(&ours.back_to_back));
        write!(f, " ±{:.1} {:.1} % {rate:.2} TB/s", spreads[0], spreads[1])?;
        write!(f, " | {}", ours.name)?;
        let (fastest, share) = self.fastest();
        if fastest.name != ours.name {
            write!(f, " | {share:.3} by {}", fastest.name)?;
        }
        Ok(())
    }
}

/// Compares and times a shape by the chosen plan, by the others, and by cublasLt.
pub(crate) fn run<T: Operand + ResultOf<T, Addend = T> + Standard>(
    pool: &Pool<T>,
    shape: Shape,
    (dispatched, others): (&Products, &HashMap<Instance, Products>),
    options: &Options,
) -> Row {
    let (need, places) = (Need::of_packed_16_bits(shape.size), Places::of(shape.size));
    let choice = Dispatch::of(pool.stream.device()).choose(&need);
    let choice = choice.expect("a shape is one that a call may need");
    let mut ours = vec![(choice.plan.instance.to_string(), dispatched)];
    for (instance, plan) in beside(shape, options) {
        let products = others.get(&instance);
        if let Some(products) = products.filter(|_| plan.instance != choice.plan.instance) {
            ours.push((plan.instance.to_string(), products));
        }
    }
    pool.refer(places);
    let mut wrong = Vec::new();
    for (name, products) in &ours {
        let count = pool.wrong(products, places);
        if count > 0 {
            wrong.push((name.clone(), count));
        }
    }
    let shorten = |times: usize| match choice.plan.microseconds {
        us if us > LONG_US => times.div_ceil(2),
        _ => times,
    };
    let timing = BenchOptions {
        samples: shorten(options.samples),
        rounds: shorten(options.rounds),
        slice: options.slice,
        ..BenchOptions::default()
    };
    let lt = LtProduct::<T, T>::new(&pool.stream, shape.size).unwrap();
    let cublas = options
        .has_cublas
        .then(|| CublasHandle::new(&pool.stream).unwrap());
    let mut contest = StreamContest::new(&pool.stream, timing, places.copies, LIMIT);
    for (name, products) in &ours {
        contest.add(name, |copy| pool.multiply(products, places, copy));
    }
    let of_lt = |candidate: usize, copy: usize| {
        pool.multiply_by_lt((&lt, candidate), (&pool.c, places, copy))
    };
    let runs = |candidate: &usize| {
        of_lt(*candidate, 0)
            .and_then(|()| pool.stream.synchronize())
            .is_ok()
    };
    for candidate in (0..lt.candidates()).filter(runs) {
        let name = format!("cublasLt {} candidate {}", lt.version(), candidate + 1);
        contest.add(&name, move |copy| of_lt(candidate, copy));
    }
    if let Some(cublas) = &cublas {
        let name = format!("cuBLAS {}", cublas.version());
        contest.add(&name, |copy| pool.multiply_by_cublas(cublas, places, copy));
    }
    let mut entrants = contest.hold().unwrap().entrants;
    let lt = entrants.split_off(ours.len());
    Row {
        shape,
        choice,
        ours: entrants,
        lt,
        wrong,
    }
}
