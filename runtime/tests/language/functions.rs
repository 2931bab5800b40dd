//! Device functions, closures, generics, and data of the author's own.

use tilekit::prelude::*;

use crate::check;

#[device]
fn gcd(a: Scalar<u32>, b: Scalar<u32>) -> Scalar<u32> {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[device]
fn twice<F: Fn(Scalar<u32>) -> Scalar<u32>>(f: F, x: Scalar<u32>) -> Scalar<u32> {
    f(f(x))
}

#[kernel(warps = 1)]
fn calls(input: Ptr<u32>, out: Ptr<u32>) {
    let (a, b) = (input.at(0).load(), input.at(1).load());
    let divisor = gcd(a, b);
    out.at(0).store(divisor);
    let factor = 3_u32;
    out.at(1).store(twice(|x| x * factor + divisor, a));
    out.at(2).store(twice(|x| gcd(x, b + 1), a));
}

#[test]
fn functions_take_closures_that_capture() {
    fn host_gcd(a: u32, b: u32) -> u32 {
        if b == 0 { a } else { host_gcd(b, a % b) }
    }
    check!(
        calls,
        [[12, 18], [0, 5], [17, 0], [1 << 20, 48]],
        |input: &[u32], out: &mut [u32]| {
            let (a, b) = (input[0], input[1]);
            let divisor = host_gcd(a, b);
            out[0] = divisor;
            out[1] = (a * 3 + divisor) * 3 + divisor;
            out[2] = host_gcd(host_gcd(a, b + 1), b + 1);
        }
    );
}

/// Recursion over a host number ends while tracing.
#[device]
fn power(x: Scalar<i64>, exponent: u32) -> Scalar<i64> {
    match exponent {
        0 => scalar(1_i64),
        e if e % 2 == 0 => {
            let half = power(x, e / 2);
            half * half
        }
        e => x * power(x, e - 1),
    }
}

#[kernel(warps = 1)]
fn powers(input: Ptr<i64>, out: Ptr<i64>) {
    let x = input.at(0).load();
    for exponent in [0, 1, 2, 7, 13] {
        out.at(exponent as usize).store(power(x, exponent));
    }
}

#[test]
fn functions_recur_over_host_numbers() {
    check!(
        powers,
        [[0], [1], [-3], [5]],
        |input: &[i64], out: &mut [i64]| {
            for exponent in [0, 1, 2, 7, 13] {
                out[exponent as usize] = input[0].pow(exponent);
            }
        }
    );
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Sum,
    Product { start: i32 },
    Largest(i32),
}

impl Kind {
    const fn start(self) -> i32 {
        match self {
            Kind::Sum => 0,
            Kind::Product { start } => start,
            Kind::Largest(least) => least,
        }
    }
}

#[device]
fn folded(kind: Kind, input: Ptr<i32>, n: Scalar<i32>) -> Scalar<i32> {
    let mut all = scalar(kind.start());
    for i in range(1, n) {
        let x = input.at(i).load();
        all = match kind {
            Kind::Sum => all + x,
            Kind::Product { .. } => all * x,
            Kind::Largest(_) if x.value() == all.value() => all,
            Kind::Largest(_) => all.maximum(x),
        };
    }
    all
}

#[kernel(warps = 1)]
fn host_enums(input: Ptr<i32>, out: Ptr<i32>) {
    let n = input.at(0).load();
    let kinds = [Kind::Sum, Kind::Product { start: 2 }, Kind::Largest(-5)];
    for (at, kind) in kinds.iter().enumerate() {
        out.at(at).store(folded(*kind, input, n));
        if *kind == Kind::Sum {
            out.at(10).store(n);
        }
    }
}

#[test]
fn host_enums_choose_while_tracing() {
    let inputs = [vec![1], vec![4, 3, -2, 7], vec![3, -9, -8]];
    check!(host_enums, inputs, |input: &[i32], out: &mut [i32]| {
        let rest = &input[1..];
        out[0] = rest.iter().sum();
        out[1] = 2 * rest.iter().product::<i32>();
        out[2] = rest.iter().copied().fold(-5, i32::max);
        out[10] = input[0];
    });
}

#[derive(Clone, Copy, Aggregate)]
struct Window<const N: usize> {
    last: [Scalar<i32>; N],
    filled: Scalar<i32>,
    weights: [i32; N],
}

impl<const N: usize> Window<N> {
    #[device]
    fn push(mut self, x: Scalar<i32>) -> Self {
        for i in (1..N).rev() {
            self.last[i] = self.last[i - 1];
        }
        self.last[0] = x;
        if self.filled < N as i32 {
            self.filled += 1;
        }
        self
    }

    #[device]
    fn weighted(&self) -> Scalar<i32> {
        self.last
            .iter()
            .zip(self.weights)
            .map(|(x, weight)| *x * weight)
            .reduce(|a, b| a + b)
            .unwrap_or_else(|| scalar(0))
    }
}

#[kernel(warps = 1)]
fn windows<const N: usize>(input: Ptr<i32>, out: Ptr<i32>) {
    let n = input.at(0).load();
    let mut window = Window::<N> {
        last: [scalar(0); N],
        filled: scalar(0),
        weights: std::array::from_fn(|i| i as i32 + 1),
    };
    for i in range(0, n) {
        window = window.push(input.at(i + 1).load());
        if window.filled == N as i32 {
            out.at(i).store(window.weighted());
        }
    }
    out.at(63).store(window.filled);
}

#[test]
fn loops_carry_structs_with_arrays() {
    fn host<const N: usize>(input: &[i32], out: &mut [i32]) {
        let n = input[0] as usize;
        for i in 0..n {
            if i + 1 >= N {
                out[i] = (0..N).map(|k| input[i + 1 - k] * (k as i32 + 1)).sum();
            }
        }
        out[63] = n.min(N) as i32;
    }
    let inputs = [vec![0], vec![2, 5, 6], vec![5, 1, -2, 3, -4, 5]];
    check!(windows::<1>, inputs.clone(), host::<1>);
    check!(windows::<3>, inputs.clone(), host::<3>);
    check!(windows::<4>, inputs, host::<4>);
}

const fn half_rounded_up(n: usize) -> usize {
    n.div_ceil(2)
}

trait Scheme {
    const STEPS: usize;
    fn apply(x: Scalar<i32>, step: usize) -> Scalar<i32>;
}

struct Rising;
struct Alternating;

impl Scheme for Rising {
    const STEPS: usize = 3;
    fn apply(x: Scalar<i32>, step: usize) -> Scalar<i32> {
        x + step as i32
    }
}

impl Scheme for Alternating {
    const STEPS: usize = half_rounded_up(7);
    fn apply(x: Scalar<i32>, step: usize) -> Scalar<i32> {
        if step % 2 == 0 { x * 2 } else { -x }
    }
}

#[kernel(warps = 1)]
fn schemes<S: Scheme + 'static, const TIMES: usize>(input: Ptr<i32>, out: Ptr<i32>) {
    let mut x = input.at(0).load();
    for _ in 0..TIMES * 2 - 1 {
        for step in 0..S::STEPS {
            x = S::apply(x, step);
        }
    }
    out.at(TIMES % 3).store(x);
}

#[test]
fn traits_and_const_arithmetic_choose_the_code() {
    check!(
        schemes::<Rising, 2>,
        [[0], [-4]],
        |input: &[i32], out: &mut [i32]| out[2] = input[0] + 9
    );
    check!(
        schemes::<Alternating, 1>,
        [[1], [-4]],
        |input: &[i32], out: &mut [i32]| out[1] = input[0] * 4
    );
}

#[kernel(warps = 1)]
fn closures(input: Ptr<i32>, out: Ptr<i32>) {
    let (a, b) = (input.at(0).load(), input.at(1).load());
    let table = [a, b, a + b];
    let pick = |i: usize| table[i % 3];
    let choose = |condition: Scalar<bool>, x: Scalar<i32>, y: Scalar<i32>| select(condition, x, y);
    let compose = |x| choose(x > pick(0), pick(1), x);
    let mut all = Vec::new();
    for i in 0..4 {
        all.push(compose(pick(i) * 2));
    }
    let largest = all.iter().copied().reduce(|x, y| x.maximum(y));
    for (at, x) in all.into_iter().chain(largest).enumerate() {
        out.at(at).store(x);
    }
}

#[test]
fn closures_capture_handles_and_each_other() {
    check!(
        closures,
        [[1, 2], [-3, 5], [0, 0]],
        |input: &[i32], out: &mut [i32]| {
            let table = [input[0], input[1], input[0] + input[1]];
            for i in 0..4 {
                let x = table[i % 3] * 2;
                out[i] = if x > table[0] { table[1] } else { x };
            }
            out[4] = out[..4].iter().copied().max().unwrap();
        }
    );
}

#[device]
fn early_value(x: Scalar<i32>, is_checked: bool) -> Scalar<i32> {
    if !is_checked {
        return x;
    }
    let limited = if x > 100 {
        scalar(100)
    } else if x < 0 {
        -x
    } else {
        x
    };
    if is_checked && x == 7 {
        return scalar(777);
    }
    limited + 1
}

#[kernel(warps = 1)]
fn early_values(input: Ptr<i32>, out: Ptr<i32>) {
    let x = input.at(0).load();
    out.at(0).store(early_value(x, false));
    out.at(1).store(early_value(x, true));
}

#[test]
fn device_functions_return_early() {
    check!(
        early_values,
        [[0], [7], [-8], [500]],
        |input: &[i32], out: &mut [i32]| {
            let x = input[0];
            out[0] = x;
            out[1] = if x == 7 { 777 } else { x.abs().min(100) + 1 };
        }
    );
}

#[kernel(warps = 1)]
fn macros(input: Ptr<i32>, out: Ptr<i32>) {
    let n = input.at(0).load();
    let list = vec![
        if n > 3 { n } else { -n },
        n + 1,
        (n > 1 && n != 5).cast::<i32>(),
    ];
    let mut flags = vec![n > 2; 2];
    assert_eq!(list.len(), 3, "{:?}", n > 3);
    for (at, x) in list.into_iter().enumerate() {
        out.at(at).store(x);
    }
    if let Some(flag) = flags.pop() {
        out.at(3).store(flag.cast::<i32>());
    }
}

#[test]
fn arguments_of_known_macros_are_code_of_the_kernel() {
    check!(
        macros,
        [[0], [2], [3], [5]],
        |input: &[i32], out: &mut [i32]| {
            let n = input[0];
            out[0] = if n > 3 { n } else { -n };
            out[1..4].copy_from_slice(&[n + 1, (n > 1 && n != 5).into(), (n > 2).into()]);
        }
    );
}

#[kernel(warps = 1)]
fn options(input: Ptr<i32>, out: Ptr<i32>) {
    let n = input.at(0).load();
    let mut best: Option<Scalar<i32>> = Some(n);
    let mut pairs = vec![(n, scalar(false)); 2];
    for i in range(0, 4) {
        if let Some(b) = best.as_mut() {
            *b = b.maximum(input.at(i).load());
        }
        if pairs[0].0 > i {
            pairs.swap(0, 1);
            pairs[1].0 -= 1;
            pairs[1].1 = scalar(true);
        }
    }
    if let Some(b) = best.take() {
        out.at(0).store(b);
    }
    for (at, (x, flag)) in pairs.iter().enumerate() {
        out.at(1 + 2 * at).store(*x);
        out.at(2 + 2 * at).store(flag.cast::<i32>());
    }
}

#[test]
fn loops_carry_options_and_lists_of_tuples() {
    check!(
        options,
        [[1, 9, -3, 4], [5, 5, 5, 5], [-1, -2, -3, -4]],
        |input: &[i32], out: &mut [i32]| {
            out[0] = *input.iter().max().unwrap();
            let mut pairs = [(input[0], 0); 2];
            for i in 0..4 {
                if pairs[0].0 > i {
                    pairs = [pairs[1], (pairs[0].0 - 1, 1)];
                }
            }
            out[1..5].copy_from_slice(&[pairs[0].0, pairs[0].1, pairs[1].0, pairs[1].1]);
        }
    );
}

#[kernel(warps = 1)]
fn functions_inside(input: Ptr<i32>, out: Ptr<i32>) {
    struct Limits {
        low: Scalar<i32>,
        high: i32,
    }
    impl Limits {
        fn hold(&self, x: Scalar<i32>) -> Scalar<i32> {
            if x < self.low {
                return self.low;
            }
            if x > self.high { scalar(self.high) } else { x }
        }
    }
    fn collatz(x: Scalar<i32>) -> Scalar<i32> {
        let (mut x, mut steps) = (x, scalar(0));
        while x > 1 {
            if x % 2 == 0 {
                x /= 2;
            } else {
                x = x * 3 + 1;
            }
            steps += 1;
        }
        steps
    }
    let n = input.at(0).load();
    out.at(0).store(collatz(n));
    out.at(1).store(
        Limits {
            low: n - 3,
            high: 9,
        }
        .hold(n * 2),
    );
    out.at(2).store(Limits { low: n, high: 9 }.hold(n - 2));
}

#[test]
fn functions_inside_a_kernel_are_device_functions() {
    check!(
        functions_inside,
        [[1], [6], [27]],
        |input: &[i32], out: &mut [i32]| {
            let n = input[0];
            let (mut x, mut steps) = (n, 0);
            while x > 1 {
                x = if x % 2 == 0 { x / 2 } else { x * 3 + 1 };
                steps += 1;
            }
            let hold = |low: i32, x: i32| if x < low { low } else { x.min(9) };
            out[..3].copy_from_slice(&[steps, hold(n - 3, n * 2), hold(n, n - 2)]);
        }
    );
}

#[kernel(warps = 1)]
fn changing_captures(input: Ptr<i32>, out: Ptr<i32>) {
    let (n, m) = (input.at(0).load(), input.at(1).load());
    let mut sum = scalar(0);
    let mut last = n;
    let mut add = |x: Scalar<i32>| {
        sum += x * m;
        if x > 2 {
            last = x;
        }
        last
    };
    for i in range(0, n) {
        let before = add(i);
        if before > 3 {
            let _ = add(i + before);
        }
    }
    let mut pair = Window::<2> {
        last: [n; 2],
        filled: scalar(0),
        weights: [1, 2],
    };
    let mut rounds = 0;
    let mut shift = |x| {
        pair.last[0] = pair.last[1];
        pair.last[1] = x;
        pair.filled += 1;
        let Window { last: all, .. } = pair;
        all[0] - all[1]
    };
    let mut differences = scalar(0);
    let mut step = |x: Scalar<i32>| {
        differences += shift(x);
    };
    for k in 0..2 {
        rounds += k;
        if n > k {
            step(n * k + 3);
        }
    }
    let mut left = n;
    while left > 0 {
        step(left - 4);
        left -= 2;
    }
    for (at, x) in [
        sum,
        last,
        differences,
        pair.last[0],
        pair.last[1],
        pair.filled,
    ]
    .into_iter()
    .enumerate()
    {
        out.at(at).store(x + rounds);
    }
}

#[test]
fn closures_change_what_they_capture_in_loops_and_branches() {
    check!(
        changing_captures,
        [[0, 2], [1, 3], [5, -1], [9, 2]],
        |input: &[i32], out: &mut [i32]| {
            let (n, m) = (input[0], input[1]);
            let (mut sum, mut last) = (0, n);
            let mut add = |x: i32| {
                sum += x * m;
                if x > 2 {
                    last = x;
                }
                last
            };
            for i in 0..n {
                let before = add(i);
                if before > 3 {
                    add(i + before);
                }
            }
            let (mut pair, mut filled, mut differences) = ([n; 2], 0, 0);
            let mut step = |x: i32| {
                pair = [pair[1], x];
                filled += 1;
                differences += pair[0] - pair[1];
            };
            for k in 0..2 {
                if n > k {
                    step(n * k + 3);
                }
            }
            let mut left = n;
            while left > 0 {
                step(left - 4);
                left -= 2;
            }
            let all = [sum, last, differences, pair[0], pair[1], filled];
            for (out, x) in out.iter_mut().zip(all) {
                *out = x + 1;
            }
        }
    );
}
