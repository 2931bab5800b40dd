//! Calls that are refused, and what they are told.

use tilekit::prelude::*;
use tilekit_kernels::attention::{Attention, Cache, CacheScales, Error, Options};

#[track_caller]
fn refused(
    [q, keys, values]: [[usize; 4]; 3],
    [lengths, entries]: [usize; 2],
    options: &Options<'_>,
    expected: &str,
) {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let buffer = Buffer::<bf16>::zeros(&device, 1 << 17).unwrap();
    let [q, keys, values] = [q, keys, values].map(|shape| buffer.view(shape));
    let lengths = Buffer::<i32>::zeros(&device, lengths).unwrap();
    let table = Buffer::<i32>::zeros(&device, entries.max(1)).unwrap();
    let cache = Cache {
        keys: &keys,
        values: &values,
        lengths: &lengths,
        table: (entries > 0).then_some(&table),
        scales: None,
        checked: false,
    };
    match Attention::new(&device).decode(&stream, &q, &cache, options) {
        Err(error @ Error::Argument { .. }) => assert_eq!(error.to_string(), expected),
        Err(error) => panic!("refused otherwise: {error}"),
        Ok(_) => panic!("not refused"),
    }
}

#[test]
fn caches_that_do_not_fit_are_named() {
    let none = Options::default();
    let (q, x) = ([2, 8, 1, 64], [2, 1, 32, 64]);
    for (shapes, counts, expected) in [
        (
            [q, [3, 1, 32, 64], [3, 1, 32, 64]],
            [2, 0],
            "`cache.keys`: found batch 3; expected 2, one for each sequence, without a table of pages",
        ),
        (
            [q, [2, 3, 32, 64], [2, 3, 32, 64]],
            [2, 0],
            "`cache.keys`: found heads 3; expected a divisor of q's 8 heads",
        ),
        (
            [q, [2, 1, 32, 128], x],
            [2, 0],
            "`cache.keys`: found depth 128; expected 64, that of q",
        ),
        (
            [q, x, [2, 1, 31, 64]],
            [2, 0],
            "`cache.values`: found pages, heads and tokens [2, 1, 31]; expected [2, 1, 32], those of cache.keys",
        ),
        (
            [q, x, x],
            [1, 0],
            "`cache.lengths`: found 1 elements; expected 2, one for each sequence",
        ),
        (
            [q, x, x],
            [2, 3],
            "`cache.table`: found 3 entries; expected as many, 1 or more, for each of 2 sequences",
        ),
        (
            [q, [2, 1, 24, 64], [2, 1, 24, 64]],
            [2, 4],
            "`cache.keys`: found pages of 24 tokens; expected a multiple of 16",
        ),
        (
            [[2, 80, 1, 64], x, x],
            [2, 0],
            "`q`: found 80 heads for each head of the cache; expected at most 64",
        ),
        (
            [[2, 8, 1, 96], [2, 1, 32, 96], [2, 1, 32, 96]],
            [2, 0],
            "`q`: found depth 96 with values of 96; expected one that is built (depth/values): 64/64, 128/128, 256/256",
        ),
    ] {
        refused(shapes, counts, &none, &format!("attention: {expected}"));
    }
    refused(
        [q, x, x],
        [2, 0],
        &Options {
            chunk: Some(4),
            ..none
        },
        "attention: `options.chunk`: found a value; expected none: a sequence has the length that cache.lengths says, and its last query is at its last key",
    );
}

#[test]
fn scales_that_do_not_fit_a_cache_are_named() {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let attention = Attention::new(&device);
    let wide = Buffer::<bf16>::zeros(&device, 16 * 64).unwrap();
    let narrow = Buffer::<E4m3>::zeros(&device, 16 * 64).unwrap();
    let lengths = Buffer::<i32>::zeros(&device, 1).unwrap();
    let one = Buffer::<f32>::zeros(&device, 16).unwrap();
    let [good, bad] = [one.view([1, 1, 16]), one.view([1, 16])];
    let q = wide.view([1, 1, 1, 64]);
    let options = Options::default();
    let scales = |keys, values| Some(CacheScales { keys, values });
    let of_narrow = narrow.view([1, 1, 16, 64]);
    let decode = |scales| {
        let cache = Cache {
            keys: &of_narrow,
            values: &of_narrow,
            lengths: &lengths,
            table: None,
            scales,
            checked: false,
        };
        attention.decode(&stream, &q, &cache, &options)
    };
    let error = |result: Result<_, Error>| match result {
        Err(error @ Error::Argument { .. }) => error.to_string(),
        Err(error) => panic!("refused otherwise: {error}"),
        Ok::<tilekit_kernels::attention::Forward<bf16>, _>(_) => panic!("not refused"),
    };
    assert_eq!(
        error(decode(None)),
        "attention: `cache.scales`: found none; expected factors, since the cache has elements of 8 bits"
    );
    assert_eq!(
        error(decode(scales(&good, &bad))),
        "attention: `cache.scales.values`: found shape [1, 16] with 2 strides; expected [1, 1, 16], pages, heads and tokens of cache.keys"
    );
    let long = one.view([1, 1, 16]).with_strides([16, 16, 2]);
    assert_eq!(
        error(decode(scales(&long, &good))),
        "attention: `cache.scales.keys`: found a tensor that ends at element 31; expected one inside of its buffer of 16 elements"
    );
    let of_wide = wide.view([1, 1, 16, 64]);
    let cache = Cache {
        keys: &of_wide,
        values: &of_wide,
        lengths: &lengths,
        table: None,
        scales: scales(&good, &good),
        checked: false,
    };
    assert_eq!(
        error(attention.decode(&stream, &q, &cache, &options)),
        "attention: `cache.scales`: found a value; expected none: the cache has the elements of q"
    );
}
