//! What must compile, without a warning about code that the author did not write.
#![deny(warnings)]
use tilekit::lang::prelude::*;

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Fast,
    Exact,
}

const MODE: Mode = Mode::Fast;

/// Inference that the rewriting must not disturb.
#[kernel(warps = 1)]
pub fn inference<T: Float + PartialOrd, const N: usize>(x: Ptr<T>, n: i32) {
    let sizes = [1usize, 2, 3];
    let mut total = 0;
    for i in 0..3 {
        if i < 2 && MODE == Mode::Fast || MODE != Mode::Exact {
            total += 2 * i + sizes[i];
        }
    }
    let name = String::from("a");
    if name.as_str() == "a" || !name.is_empty() {
        total += 1 << total;
    }
    let scale = if N > 2 { 0.5 } else { 1.0 };
    let zero: [i32; 2 * 2] = [0; 2 * 2];
    let last = zero.iter().max().copied().unwrap_or_default();
    let text: Vec<_> = [3, 1].into_iter().map(|k| 10 - k).filter(|k| *k > 1 && k % 2 == 1).collect();
    let at = arange(0..32, Auto);
    let y = (1.0 - x.at(at + last).load()).exp();
    let z = 2 * at + (total + text.len());
    let kind = match n.max(1) {
        m if sizes.len() > 5 => m,
        m => m + 1,
    };
    let found = 'outer: loop {
        for size in sizes.iter().rev() {
            if *size == 2 {
                break 'outer *size;
            }
        }
    };
    let (moved, mut grown) = (vec![1, 2], Vec::new());
    if N > 2 {
        grown.extend(moved);
    }
    let Some(first) = text.first() else { return };
    while let Some(k) = Some(3) {
        if k > 2 {
            break;
        }
    }
    x.at(z).store(y * scale + kind.cast::<T>() + found + *first + grown.len());
}

/// What the host alone decides may move what it likes.
#[kernel]
pub fn moved_in_arms<const N: usize>(n: i32) {
    let mut list = vec![n, n + 1];
    let mut kept = Vec::new();
    for item in list.iter_mut() {
        if N > 2 {
            kept.push(item);
        }
    }
    let (first, rest) = ([n; 3].into_iter(), [1, 2].into_iter());
    let mut pair = [n; 2];
    let items = pair.iter_mut();
    if N > 4 {
        items.for_each(|item| *item += 1);
        kept.truncate(first.take(2).count() + rest.count());
    }
    let last = kept.pop();
    if N > 3 {
        kept.extend(last);
    }
}

#[device]
pub fn by_reference(list: &mut [Scalar<i32>], n: &Scalar<i32>) -> Scalar<i32> {
    for item in list.iter_mut() {
        *item += *n;
    }
    if *n > 0 {
        return *n;
    }
    list[0]
}

/// What has no value at first gets it in the arms, of hosts and kernels.
#[kernel]
pub fn assigned_later<const N: usize>(out: Ptr<i32>, n: i32) {
    let x;
    let mut y;
    if n > 3 {
        x = n;
        y = n;
        y += 1;
    } else {
        x = n + 1;
        y = x;
    }
    let z: i32;
    if N > 3 {
        z = 1;
    } else if N > 2 {
        panic!("3 is none");
    } else {
        z = 2;
    }
    let list;
    if n > 5 {
        list = [x, y];
        out.at(1).store(list[0]);
    }
    let text;
    match N {
        0 => text = "none",
        1 => {
            out.at(2).store(n);
            text = "one";
        }
        _ => unreachable!(),
    }
    let values: &[i32];
    if N == 1 {
        values = &[1];
    } else {
        values = &[];
    }
    out.at(x).store(y + z + text.len() + values.len());
}

/// Numbers of the host are matched, counted and converted as ever.
#[kernel]
pub fn of_the_host<const N: usize, const MODE: u8>(x: Ptr<f32>, n: i32) {
    #[derive(Clone, Copy)]
    enum Way {
        Up = 1,
        Down = 2,
    }
    fn next(k: usize) -> usize {
        if k > 2 { k } else { next(k + 1) }
    }
    const fn twice(k: usize) -> usize {
        if k > 2 { k } else { 2 * k }
    }
    const TWO: usize = twice(1);
    let table = [1u8, 2, 3];
    let scale = match MODE {
        0 => 1.0,
        1 | 2 => 2.0,
        m @ 3..=9 => m as f32,
        _ => -1.0,
    };
    let flag = match N > 3 {
        true => 1,
        false => 2,
    };
    let letter = match &table[0] {
        1 => 'a',
        _ => 'b',
    };
    let boxed: Box<dyn Fn(Scalar<f32>) -> Scalar<f32>> = match table.len() {
        0 => Box::new(|v| v),
        _ => Box::new(move |v| v * scale),
    };
    let mut total = 0;
    for i in 0..table.len() {
        total += table[i] as usize * N;
    }
    for i in (0..=3u64).rev().step_by(2) {
        total += i as usize + Way::Up as usize + Way::Down as usize;
    }
    for (k, c) in ('a'..='c').enumerate() {
        total += k + (c as u32 - letter as u32) as usize;
    }
    for i in -2i64..3 {
        total += (i + 2) as usize;
    }
    assert!(total > 0);
    assert!(next(0) == 3 && TWO == 2, "{total} is wrong");
    debug_assert!(flag < 3);
    static_assert!(N < 1 << 20);
    x.at(n).store(boxed(x.at(total + flag).load()));
}

/// Closures that change what they capture, of hosts and kernels, and what std compares with other types.
#[kernel]
pub fn changing_captures(x: Ptr<i32>, n: i32) {
    struct Pair {
        low: u32,
        high: [u32; 2],
    }
    let mut sum = n;
    let mut add = |by: Scalar<i32>| -> Scalar<i32> {
        sum += by;
        sum
    };
    let mut count = 0;
    let mut pair = Pair { low: 1, high: [2, 3] };
    let mut tally = |k: u32| {
        count += k;
        pair.high[1] = pair.low + pair.high[0];
        let Pair { low, .. } = &mut pair;
        *low = count;
        Pair { low: count, high: [k; 2] }.low + pair.high[1]
    };
    for k in 0..3 {
        if tally(k) > 2 {
            x.at(2).store(k);
        }
    }
    if n > 3 {
        x.at(1).store(add(n));
    }
    let (text, list) = (String::from("a"), vec![1, 2]);
    if text == "a" && list == [1, 2] && "a" == text && list[..] == [1, 2] && text != *"b" {
        x.at(0).store(sum + count + pair.low + pair.high[1]);
    }
}

/// What arms of the host use up, they may, whatever its name stands for later.
#[kernel]
pub fn used_up<const N: usize>(x: Ptr<i32>, n: i32) {
    #[derive(Default)]
    struct Builder(Vec<usize>);
    impl Builder {
        fn add(mut self, k: usize) -> Builder {
            self.0.push(k);
            self
        }
        fn done(self) -> usize {
            self.0.len()
        }
        fn len(&self) -> usize {
            self.0.len()
        }
    }
    let builder = Builder::default();
    let builder = if N > 3 { builder.add(1) } else { builder };
    let other = Builder::default();
    let count = if N > builder.len() {
        other.done()
    } else {
        let other = builder.len();
        other + 1
    };
    let list = vec![n, n + 1];
    let all: Vec<Scalar<i32>> = if N > 2 {
        list.into_iter().map(|k| k + 1).collect()
    } else {
        Vec::new()
    };
    let text = String::from("a");
    let long = if N > 4 { text + "b" } else { text };
    let pairs = all.iter().zip(long.chars());
    let length = if N > 5 { pairs.count() } else { 0 };
    let maybe = Some(Builder::default());
    if let Some(inner) = maybe {
        if N > 6 {
            x.at(inner.done()).store(n);
        } else {
            drop(inner);
        }
    }
    for (k, item) in [Builder::default(), Builder::default()].into_iter().enumerate() {
        let item = if k > N { item.add(k) } else { item };
        if n > 3 {
            x.at(item.len()).store(k);
        }
        if N > 7 {
            x.at(item.done()).store(n);
        }
    }
    let kept = move || builder.len();
    if n > 4 {
        x.at(kept()).store(count + length);
    }
}

macro_rules! stop {
    () => {
        break
    };
}

/// A macro may leave a loop from an arm of a host `match`.
#[kernel]
pub fn left_by_macros<const N: usize>(x: Ptr<i32>, n: i32) {
    for k in 0..8 {
        if k == N {
            stop!();
        } else if k > 5 {
            continue;
        }
        x.at(k).store(n);
    }
    let mut k = 0;
    let found = loop {
        k += 1;
        if matches!(k, 3..9) {
            break k;
        }
        while k < 2 {
            if k + N > 3 {
                break;
            }
            k += 2;
        }
    };
    x.at(found).store(k);
}
