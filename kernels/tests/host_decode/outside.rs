//! Lengths and pages that the cache does not have.

use tilekit::prelude::*;
use tilekit_kernels::attention::{Attention, Cache, Options};

use super::problem::numbers;

/// Found by random calls: an entry behind the table was read.
#[test]
fn lengths_that_no_sequence_has_count_as_the_nearest_without_a_check() {
    const DEPTH: usize = 64;
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let attention = Attention::new(&device);
    let rows = Buffer::from_slice(&device, &numbers(4 * 32 * DEPTH, 1)).unwrap();
    let rows = rows.view([4, 1, 32, DEPTH]);
    let table = Buffer::from_slice(&device, &[3, 1, 0, 2]).unwrap();
    let q = Buffer::from_slice(&device, &numbers(2 * 4 * DEPTH, 3)).unwrap();
    let q = q.view([2, 4, 1, DEPTH]);
    let decode = |lengths: [i32; 2]| {
        let lengths = Buffer::from_slice(&device, &lengths).unwrap();
        let cache = Cache {
            keys: &rows,
            values: &rows,
            lengths: &lengths,
            table: Some(&table),
            scales: None,
            checked: false,
        };
        let options = Options::default();
        let result = attention.decode(&stream, &q, &cache, &options).unwrap();
        stream.synchronize().unwrap();
        (result.out.to_vec().unwrap(), result.lse.to_vec().unwrap())
    };
    let nearest = decode([64, 0]);
    for wild in [[65, -1], [i32::MAX, i32::MIN]] {
        assert_eq!(decode(wild), nearest, "{wild:?}");
    }
    assert_eq!(decode([i32::MIN, i32::MAX]), decode([0, 64]));
}

#[test]
fn lengths_and_pages_outside_of_the_cache_are_found() {
    let device = Device::emulator();
    let buffer = Buffer::<bf16>::zeros(&device, 4 * 16 * 64).unwrap();
    let pages = buffer.view([4, 1, 16, 64]);
    let q = Buffer::<bf16>::zeros(&device, 64).unwrap();
    for (length, table, expected) in [
        (33, [0, 1], "found a length beyond the room of its sequence"),
        (-1, [0, 1], "found a length beyond the room of its sequence"),
        (17, [0, 4], "found a page that is none of the cache"),
        (17, [-1, 1], "found a page that is none of the cache"),
        (16, [3, 4], ""),
    ] {
        let stream = Stream::new(&device).unwrap();
        let lengths = Buffer::from_slice(&device, &[length]).unwrap();
        let table = Buffer::from_slice(&device, &table).unwrap();
        let cache = Cache {
            keys: &pages,
            values: &pages,
            lengths: &lengths,
            table: Some(&table),
            scales: None,
            checked: true,
        };
        let attention = Attention::new(&device);
        let result = attention.decode(&stream, &q.view([1, 1, 1, 64]), &cache, &Options::default());
        let error = match result {
            Err(error) => error.to_string(),
            Ok(_) => match stream.synchronize() {
                Err(error) => error.to_string(),
                Ok(()) => String::new(),
            },
        };
        assert_eq!(error.is_empty(), expected.is_empty(), "{error}");
        // The message of the assertion is printed by the device; the error names the kernel and the line.
        assert!(
            expected.is_empty() || error.contains("check_pages"),
            "{error}"
        );
    }
}
