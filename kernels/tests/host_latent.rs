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
