//! Attention to a cache of latent vectors as a program calls it, on the emulator.

#![allow(
    clippy::unwrap_used,
    reason = "what fails here ends the test at its line"
)]

use tilekit::prelude::*;
use tilekit_kernels::attention::{Attention, Error, LatentCache};

const DEPTH: usize = 576;
const VALUES: usize = 512;
const PAGE: usize = 64;

/// Numbers that repeat after no tensor's extent.
fn numbers(len: usize, seed: usize) -> Vec<bf16> {
    let of = |at: usize| ((at * 37 + seed * 101) % 211) as f32 / 105.0 - 1.0;
    (0..len).map(|at| bf16::from_f32(of(at))).collect()
}

/// A row of the output in f64, and its LSE.
fn attend(query: &[bf16], rows: &[&[bf16]], scale: f64) -> (Vec<f64>, f64) {
    let score = |row: &&[bf16]| {
        let products = query.iter().zip(*row).map(|(x, y)| x.to_f64() * y.to_f64());
        products.sum::<f64>() * scale
    };
    let scores: Vec<f64> = rows.iter().map(score).collect();
    let lse = scores.iter().map(|score| score.exp()).sum::<f64>().ln();
    let mut out = vec![0.0; VALUES];
    for (score, row) in scores.iter().zip(rows) {
        for (sum, value) in out.iter_mut().zip(*row) {
            *sum += (score - lse).exp() * value.to_f64();
        }
    }
    (out, lse)
}

/// Two tokens of 5 heads, inside of heads or outside; two lists of lengths with one workspace.
#[test]
fn rows_are_read_and_written_where_the_strides_say() {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let attention = Attention::new(&device);
    let rows = numbers(7 * PAGE * DEPTH, 1);
    let of_rows = Buffer::from_slice(&device, &rows).unwrap();
    let of_rows = of_rows.view([7, 1, PAGE, DEPTH]);
    let table = [6, 2, 4, -1, 0, 5];
    let of_table = Buffer::from_slice(&device, &table).unwrap();
    let q = numbers(2 * 5 * 2 * DEPTH, 3);
    let of_q = Buffer::from_slice(&device, &q).unwrap();
    let scale = 0.05;
    for (strides, lengths) in [
        ([10 * DEPTH, DEPTH, 5 * DEPTH, 1], [150, 0]),
        ([10 * DEPTH, 2 * DEPTH, DEPTH, 1], [64, 0]),
    ] {
        let view = of_q.view([2, 5, 2, DEPTH]).with_strides(strides);
        let of_lengths = Buffer::from_slice(&device, &lengths.map(|x| x as i32)).unwrap();
        let cache = LatentCache {
            rows: &of_rows,
            lengths: &of_lengths,
            table: &of_table,
            checked: true,
        };
        let result = attention
            .decode_latent(&stream, &view, &cache, Some(scale))
            .unwrap();
        stream.synchronize().unwrap();
        let (out, lse) = (result.out.to_vec().unwrap(), result.lse.to_vec().unwrap());
        for row in 0..2 * 5 * 2 {
            let (batch, head, token) = (row / 10, row / 2 % 5, row % 2);
            let seen = (lengths[batch] + token).saturating_sub(1);
            let key = |key: usize| {
                let page = table[batch * 3 + key / PAGE] as usize;
                &rows[(page * PAGE + key % PAGE) * DEPTH..][..DEPTH]
            };
            let keys: Vec<&[bf16]> = (0..seen).map(key).collect();
            let first = batch * strides[0] + head * strides[1] + token * strides[2];
            let (wanted, of_row) = attend(&q[first..first + DEPTH], &keys, f64::from(scale));
            let got = &out[row * VALUES..(row + 1) * VALUES];
            for (got, wanted) in got.iter().zip(wanted) {
                assert!((got.to_f64() - wanted).abs() < 2e-2, "{got} {wanted}");
            }
            let got = f64::from(lse[row]);
            assert!(
                got.total_cmp(&of_row).is_eq() || (got - of_row).abs() < 1e-3,
                "{got} {of_row}"
            );
        }
    }
}

/// Two layers share a plan of ragged lengths, which is made anew for longer ones; each call gives the bits of a call that makes its own plan.
#[test]
fn a_plan_serves_layers_and_is_made_anew() {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let attention = Attention::new(&device);
    let layers = [1, 2].map(|seed| numbers(10 * PAGE * DEPTH, seed));
    let layers = layers.map(|rows| Buffer::from_slice(&device, &rows).unwrap());
    let layers = [&layers[0], &layers[1]].map(|rows| rows.view([10, 1, PAGE, DEPTH]));
    let table = Buffer::from_slice(&device, &[9, 8, 7, 6, 5, 4, 3, 2, 1, 0]).unwrap();
    let of_q = Buffer::from_slice(&device, &numbers(2 * 16 * 2 * DEPTH, 3)).unwrap();
    let q = of_q.view([2, 16, 2, DEPTH]);
    let mut plan = None;
    for lengths in [[300, 1], [64, 0], [129, 320]] {
        let lengths = Buffer::from_slice(&device, &lengths).unwrap();
        let cache = |layer: usize| LatentCache {
            rows: &layers[layer],
            lengths: &lengths,
            table: &table,
            checked: true,
        };
        match &plan {
            None => plan = Some(attention.plan_latent(&stream, &cache(0), [16, 2]).unwrap()),
            Some(plan) => attention
                .plan_latent_into(&stream, &cache(0), plan)
                .unwrap(),
        }
        let plan = plan.as_ref().unwrap();
        for layer in 0..2 {
            let cache = cache(layer);
            let got = attention
                .decode_latent_planned(&stream, &q, &cache, plan, None)
                .unwrap();
            let wanted = attention.decode_latent(&stream, &q, &cache, None).unwrap();
            stream.synchronize().unwrap();
            assert_eq!(got.out.to_vec().unwrap(), wanted.out.to_vec().unwrap());
            let [got, wanted] = [got.lse, wanted.lse].map(|lse| lse.to_vec().unwrap());
            assert!(got.iter().zip(&wanted).all(|(x, y)| x.total_cmp(y).is_eq()));
        }
    }
}

/// Lengths that have changed since a plan was made: found where asked, and else those of the plan count, so that nothing is read outside of it.
#[test]
fn lengths_that_are_not_those_of_the_plan_are_found_where_asked() {
    for checked in [false, true] {
        let device = Device::emulator();
        let stream = Stream::new(&device).unwrap();
        let attention = Attention::new(&device);
        let rows = Buffer::from_slice(&device, &numbers(4 * PAGE * DEPTH, 1)).unwrap();
        let rows = rows.view([4, 1, PAGE, DEPTH]);
        let table = Buffer::from_slice(&device, &[0, 1, 2, 3]).unwrap();
        let q = Buffer::from_slice(&device, &numbers(2 * 4 * DEPTH, 3)).unwrap();
        let q = q.view([2, 4, 1, DEPTH]);
        let [before, after] =
            [[70, 5], [70, 6]].map(|lengths| Buffer::from_slice(&device, &lengths).unwrap());
        let of = |lengths| LatentCache {
            rows: &rows,
            lengths,
            table: &table,
            checked,
        };
        let plan = attention
            .plan_latent(&stream, &of(&before), [4, 1])
            .unwrap();
        let wanted = attention
            .decode_latent(&stream, &q, &of(&before), None)
            .unwrap();
        stream.synchronize().unwrap();
        let made = attention.decode_latent_planned(&stream, &q, &of(&after), &plan, None);
        let error = match &made {
            Ok(_) => stream.synchronize().err().map(|error| error.to_string()),
            Err(error) => Some(error.to_string()),
        };
        let is_found = error
            .as_ref()
            .is_some_and(|error| error.contains("check_latent_plan"));
        assert_eq!(is_found, checked, "{error:?}");
        if !checked {
            assert_eq!(
                made.unwrap().out.to_vec().unwrap(),
                wanted.out.to_vec().unwrap()
            );
        }
    }
}

#[test]
fn plans_that_do_not_fit_are_named() {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let attention = Attention::new(&device);
    let buffer = Buffer::<bf16>::zeros(&device, 1 << 18).unwrap();
    let rows = buffer.view([2, 1, PAGE, DEPTH]);
    let of = |count: usize| Buffer::<i32>::zeros(&device, count).unwrap();
    let (lengths, three, table, other) = (of(2), of(3), of(4), of(6));
    let cache = |lengths, table| LatentCache {
        rows: &rows,
        lengths,
        table,
        checked: false,
    };
    let plan = attention
        .plan_latent(&stream, &cache(&lengths, &table), [8, 1])
        .unwrap();
    let said = |q: [usize; 4], lengths, table| {
        let q = buffer.view(q);
        let made =
            attention.decode_latent_planned(&stream, &q, &cache(lengths, table), &plan, None);
        made.err().unwrap().to_string()
    };
    let found = "attention: `plan`: found one for 2 sequences of 2 pages, 1 tokens of 8 heads each";
    for (q, lengths, table, call) in [
        (
            [2, 8, 2, DEPTH],
            &lengths,
            &table,
            "2 sequences of 2 pages, 2 tokens of 8 heads each",
        ),
        (
            [2, 16, 1, DEPTH],
            &lengths,
            &table,
            "2 sequences of 2 pages, 1 tokens of 16 heads each",
        ),
        (
            [2, 8, 1, DEPTH],
            &lengths,
            &other,
            "2 sequences of 3 pages, 1 tokens of 8 heads each",
        ),
        (
            [3, 8, 1, DEPTH],
            &three,
            &other,
            "3 sequences of 2 pages, 1 tokens of 8 heads each",
        ),
    ] {
        let expected = format!("{found}; expected one for {call}, as the call has");
        assert_eq!(said(q, lengths, table), expected);
    }
    let renewed = attention.plan_latent_into(&stream, &cache(&three, &other), &plan);
    let expected = format!(
        "{found}; expected one for 3 sequences of 2 pages, 1 tokens of 8 heads each, as the call has"
    );
    assert_eq!(renewed.unwrap_err().to_string(), expected);
    for (counts, [heads, tokens], expected) in [
        ([2, 4], [0, 1], "`heads`: found 0; expected 1 or more"),
        ([2, 4], [8, 0], "`tokens`: found 0; expected 1 or more"),
        (
            [2, 4],
            [129, 1],
            "`heads`: found heads 129; expected at most 128",
        ),
        (
            [0, 4],
            [8, 1],
            "`cache.lengths`: found 0; expected 1 or more",
        ),
        (
            [2, 5],
            [8, 1],
            "`cache.table`: found 5 entries; expected as many, 1 or more, for each of 2 sequences",
        ),
        (
            [1, 4],
            [8, usize::MAX],
            "`tokens`: found 18446744073709551615 rows of all sequences; expected at most 268435456",
        ),
    ] {
        let [lengths, table] = counts.map(|count| match count {
            0 => Buffer::<i32>::new(&device, 0).unwrap(),
            count => of(count),
        });
        let cache = LatentCache {
            rows: &rows,
            lengths: &lengths,
            table: &table,
            checked: false,
        };
        let made = attention.plan_latent(&stream, &cache, [heads, tokens]);
        assert_eq!(
            made.err().unwrap().to_string(),
            format!("attention: {expected}")
        );
    }
}

/// What a call with these shapes, counts of lengths and entries, and these strides of Q says.
fn said(
    q: [usize; 4],
    rows: [usize; 4],
    counts: [usize; 2],
    strides: Option<[usize; 4]>,
    scale: Option<f32>,
) -> String {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let buffer = Buffer::<bf16>::zeros(&device, 1 << 18).unwrap();
    let [q, rows] = [q, rows].map(|shape| buffer.view(shape));
    let q = match strides {
        Some(strides) => q.with_strides(strides),
        None => q,
    };
    let [lengths, table] = counts.map(|count| Buffer::<i32>::zeros(&device, count).unwrap());
    let cache = LatentCache {
        rows: &rows,
        lengths: &lengths,
        table: &table,
        checked: false,
    };
    match Attention::new(&device).decode_latent(&stream, &q, &cache, scale) {
        Err(error @ Error::Argument { .. }) => error.to_string(),
        Err(error) => panic!("refused otherwise: {error}"),
        Ok(_) => panic!("not refused"),
    }
}

#[test]
fn calls_that_do_not_fit_are_named() {
    let (q, rows) = ([2, 8, 1, 576], [2, 1, 64, 576]);
    for (q, rows, counts, expected) in [
        (
            [2, 8, 1, 512],
            rows,
            [2, 2],
            "`q`: found depth 512; expected 576: 512 of a value, and 64 that rotary embedding turns",
        ),
        (
            [2, 129, 1, 576],
            rows,
            [2, 2],
            "`q`: found heads 129; expected at most 128",
        ),
        (
            [2, 8, 0, 576],
            rows,
            [2, 2],
            "`q`: found tokens 0; expected tokens of 1 or more",
        ),
        (
            q,
            [2, 1, 32, 576],
            [2, 2],
            "`cache.rows`: found shape [2, 1, 32, 576]; expected [pages, 1, 64, 576] with a page or more",
        ),
        (
            q,
            rows,
            [3, 2],
            "`cache.lengths`: found 3 elements; expected 2, one for each sequence",
        ),
        (
            q,
            rows,
            [2, 3],
            "`cache.table`: found 3 entries; expected as many, 1 or more, for each of 2 sequences",
        ),
    ] {
        let expected = format!("attention: {expected}");
        assert_eq!(said(q, rows, counts, None, None), expected);
    }
    let two = [2, 8, 2, 576];
    assert_eq!(
        said(two, rows, [2, 2], Some([16384, 576, 5184, 1]), None),
        "attention: `q`: found strides of 576 (heads) and 5184 (tokens); expected rows that are equally far apart: 4608 (tokens) or 10368 (heads)"
    );
    assert_eq!(
        said(q, rows, [2, 2], Some([4616, 577, 576, 1]), None),
        "attention: `q`: found a stride of 577 elements from one of the heads to the next; expected a multiple of 8, 16 bytes"
    );
    assert_eq!(
        said(q, rows, [2, 2], None, Some(f32::NAN)),
        "attention: `scale`: found NaN; expected a number above 0"
    );
}

#[test]
fn lengths_and_pages_outside_are_found_where_asked() {
    for (lengths, table) in [([129], [0, 1]), ([-1], [0, 1]), ([65], [0, 2])] {
        let device = Device::emulator();
        let stream = Stream::new(&device).unwrap();
        let buffer = Buffer::<bf16>::zeros(&device, 2 * PAGE * DEPTH).unwrap();
        let (q, rows) = (
            buffer.view([1, 4, 1, DEPTH]),
            buffer.view([2, 1, PAGE, DEPTH]),
        );
        let lengths = Buffer::from_slice(&device, &lengths).unwrap();
        let table = Buffer::from_slice(&device, &table).unwrap();
        let attention = Attention::new(&device);
        for checked in [false, true] {
            let cache = LatentCache {
                rows: &rows,
                lengths: &lengths,
                table: &table,
                checked,
            };
            let made = attention.decode_latent(&stream, &q, &cache, None);
            let error = match made {
                Ok(_) => stream.synchronize().err().map(|error| error.to_string()),
                Err(error) => Some(error.to_string()),
            };
            // The message of the assertion is printed by the device; the error names the kernel.
            let is_found = error
                .as_ref()
                .is_some_and(|error| error.contains("check_pages"));
            assert_eq!(is_found, checked, "{error:?}");
        }
    }
}
