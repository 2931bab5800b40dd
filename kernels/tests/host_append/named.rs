//! Calls that are refused, and what is said of them.

use tilekit::prelude::*;
use tilekit_kernels::attention::{
    Attention, Cache, CacheScales, Error, NewLengths, NewTokens, Rotary,
};

use crate::inputs::{DEPTH, PAGE};

#[test]
fn new_tokens_that_do_not_fit_are_named() {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let attention = Attention::new(&device);
    let wide = Buffer::<bf16>::zeros(&device, 1 << 14).unwrap();
    let other = Buffer::<bf16>::zeros(&device, 1 << 14).unwrap();
    let narrow = [(); 2].map(|()| Buffer::<E4m3>::zeros(&device, 1 << 12).unwrap());
    let lengths = Buffer::<i32>::zeros(&device, 2).unwrap();
    let angles = Buffer::<f32>::zeros(&device, 64).unwrap();
    let scales = Buffer::<f32>::zeros(&device, 64).unwrap();
    let of_new = Buffer::<bf16>::zeros(&device, 1 << 14).unwrap();
    let new = of_new.view([2, 1, 1, DEPTH]);
    let of_cache = [&wide, &other].map(|buffer| buffer.view([2, 1, PAGE, DEPTH]));
    let of_narrow = narrow
        .each_ref()
        .map(|buffer| buffer.view([2, 1, PAGE, DEPTH]));
    let shared = scales.view([2, 1, PAGE]).with_strides([0, 0, 0]);
    let tokens = NewTokens {
        keys: &new,
        values: &new,
        queries: None,
        rotary: None,
        lengths: None,
        computes_scales: false,
    };
    let cache = Cache {
        keys: &of_cache[0],
        values: &of_cache[1],
        lengths: &lengths,
        table: None,
        scales: None,
        checked: false,
    };
    let rotary = Rotary {
        cos: &angles,
        sin: &angles,
        pairs: 32,
        interleaved: false,
    };
    let message = |result: Result<(), Error>| match result {
        Err(error @ Error::Argument { .. }) => error.to_string(),
        Err(error) => panic!("refused otherwise: {error}"),
        Ok(()) => panic!("not refused"),
    };
    let refused = |tokens: NewTokens<'_, bf16>, cache: Cache<'_, bf16>, expected: &str| {
        let found = message(attention.append(&stream, &tokens, &cache));
        assert_eq!(found, format!("attention: {expected}"));
    };
    let longer = other.view([2, 1, 2, DEPTH]);
    refused(
        NewTokens {
            values: &longer,
            ..tokens
        },
        cache,
        "`new.values`: found shape [2, 1, 2, 64]; expected [2, 1, 1, 64], that of new.keys",
    );
    let three = wide.view([3, 1, PAGE, DEPTH]);
    refused(
        tokens,
        Cache {
            keys: &three,
            values: &three,
            ..cache
        },
        "`cache.keys`: found batch 3; expected 2, one for each sequence, without a table of pages",
    );
    refused(
        tokens,
        Cache {
            values: &of_cache[0],
            ..cache
        },
        "`cache.values`: found some of the memory of cache.keys; expected memory of its own, since it is written",
    );
    refused(
        NewTokens {
            rotary: Some(Rotary {
                pairs: 24,
                ..rotary
            }),
            ..tokens
        },
        cache,
        "`new.rotary.pairs`: found 24; expected a power of two from 8 to 32, half of a row",
    );
    let short = Buffer::<f32>::zeros(&device, 32).unwrap();
    refused(
        NewTokens {
            rotary: Some(Rotary {
                sin: &short,
                ..rotary
            }),
            ..tokens
        },
        cache,
        "`new.rotary.sin`: found 32 elements; expected 64, as many as new.rotary.cos",
    );
    let of_queries = Buffer::<bf16>::zeros(&device, 1 << 14).unwrap();
    let queries = of_queries.view([2, 1, 1, DEPTH]);
    let shifted = of_queries.view([2, 1, 1, DEPTH]).with_offset(8);
    refused(
        NewTokens {
            queries: Some([&queries, &shifted]),
            ..tokens
        },
        cache,
        "`new.queries[1]`: found some of the memory of new.queries[0]; expected the same view, or memory of its own",
    );
    refused(
        NewTokens {
            computes_scales: true,
            ..tokens
        },
        cache,
        "`new.computes_scales`: found true; expected false: the cache has the elements of the new rows",
    );
    refused(
        NewTokens {
            lengths: Some(NewLengths {
                offsets: &lengths,
                longest: 1,
            }),
            ..tokens
        },
        cache,
        "`new.keys`: found batch 2; expected 1, since new.lengths says where sequences begin",
    );
    let cache = Cache {
        keys: &of_narrow[0],
        values: &of_narrow[1],
        lengths: &lengths,
        table: None,
        scales: Some(CacheScales {
            keys: &shared,
            values: &shared,
        }),
        checked: false,
    };
    let tokens = NewTokens {
        computes_scales: true,
        ..tokens
    };
    assert_eq!(
        message(attention.append(&stream, &tokens, &cache)),
        "attention: `cache.scales.keys`: found a scale that several rows share; expected one for each token and head, since new.computes_scales stores them"
    );
}

/// Each view that is written against those that are read, and against those that are written beside it.
#[test]
fn what_is_written_has_memory_of_its_own() {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let attention = Attention::new(&device);
    let wide = [(); 5].map(|()| Buffer::<bf16>::zeros(&device, 1 << 12).unwrap());
    let [new_keys, new_values, queries] =
        [0, 1, 2].map(|at| wide[at].view([2, 1, 1, DEPTH]).with_offset(DEPTH));
    let [keys, values] = [3, 4].map(|at| wide[at].view([2, 1, PAGE, DEPTH]));
    let lengths = Buffer::<i32>::zeros(&device, 2).unwrap();
    let tokens = NewTokens {
        keys: &new_keys,
        values: &new_values,
        queries: Some([&queries, &queries]),
        rotary: None,
        lengths: None,
        computes_scales: false,
    };
    let cache = Cache {
        keys: &keys,
        values: &values,
        lengths: &lengths,
        table: None,
        scales: None,
        checked: false,
    };
    attention.append(&stream, &tokens, &cache).unwrap();
    stream.synchronize().unwrap();
    let expect = |result: Result<(), Error>, name: &str, other: &str| {
        let expected = format!(
            "attention: `{name}`: found some of the memory of {other}; expected memory of its own, since it is written"
        );
        assert_eq!(result.unwrap_err().to_string(), expected);
    };
    let in_keys = wide[3].view([2, 1, 1, DEPTH]).with_offset(5 * DEPTH);
    let in_values = wide[4].view([2, 1, 1, DEPTH]).with_offset(5 * DEPTH);
    for (to, other) in [
        (&in_keys, "cache.keys"),
        (&in_values, "cache.values"),
        (&new_keys, "new.keys"),
        (&new_values, "new.values"),
    ] {
        let tokens = NewTokens {
            queries: Some([&queries, to]),
            ..tokens
        };
        let result = attention.append(&stream, &tokens, &cache);
        expect(result, "new.queries[1]", other);
    }
    for (of_keys, of_values, name, other) in [
        (&in_keys, &new_values, "cache.keys", "new.keys"),
        (&new_keys, &in_keys, "cache.keys", "new.values"),
        (&in_values, &new_values, "cache.values", "new.keys"),
        (&new_keys, &in_values, "cache.values", "new.values"),
    ] {
        let tokens = NewTokens {
            keys: of_keys,
            values: of_values,
            ..tokens
        };
        expect(attention.append(&stream, &tokens, &cache), name, other);
    }
    let from_keys = NewTokens {
        queries: Some([&in_keys, &queries]),
        ..tokens
    };
    let result = attention.append(&stream, &from_keys, &cache);
    expect(result, "cache.keys", "new.queries[0]");

    let narrow = [(); 2].map(|()| Buffer::<E4m3>::zeros(&device, 1 << 12).unwrap());
    let [keys, values] = narrow
        .each_ref()
        .map(|buffer| buffer.view([2, 1, PAGE, DEPTH]));
    let numbers = [(); 4].map(|()| Buffer::<f32>::zeros(&device, 32 * 8).unwrap());
    let scales = numbers
        .each_ref()
        .map(|buffer| buffer.view([2, 1, PAGE]).with_strides([PAGE, PAGE, 1]));
    let [a, b, cos, sin] = [0, 1, 2, 3];
    for (of_keys, of_values, name, other) in [
        (cos, b, "cache.scales.keys", "new.rotary.cos"),
        (sin, b, "cache.scales.keys", "new.rotary.sin"),
        (a, cos, "cache.scales.values", "new.rotary.cos"),
        (a, a, "cache.scales.values", "cache.scales.keys"),
    ] {
        let tokens = NewTokens {
            rotary: Some(Rotary {
                cos: &numbers[cos],
                sin: &numbers[sin],
                pairs: 8,
                interleaved: false,
            }),
            computes_scales: true,
            ..tokens
        };
        let cache = Cache {
            keys: &keys,
            values: &values,
            lengths: &lengths,
            table: None,
            scales: Some(CacheScales {
                keys: &scales[of_keys],
                values: &scales[of_values],
            }),
            checked: false,
        };
        expect(attention.append(&stream, &tokens, &cache), name, other);
    }
}
