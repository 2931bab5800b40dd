//! Calls that are refused, and what is said of them.

use tilekit::prelude::*;
use tilekit_kernels::attention::{Attention, Dropout, Error, Lengths, Options, Upstream};

/// What one tensor of a call is changed to.
#[derive(Clone, Copy)]
struct Place {
    shape: [usize; 4],
    strides: [usize; 4],
    offset: usize,
}

/// Q, K, V, the output and four gradients, interleaved in one buffer, of which one is changed.
#[track_caller]
fn refused(changed: usize, change: impl Fn(&mut Place), expected: &str) {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let buffer = Buffer::<bf16>::zeros(&device, 1 << 16).unwrap();
    let lse = Buffer::<f32>::zeros(&device, 16).unwrap();
    let views: Vec<_> = (0..8)
        .map(|at| {
            let mut place = Place {
                shape: [1, 2, 8, 64],
                strides: [8 * 8 * 2 * 64, 64, 8 * 2 * 64, 1],
                offset: at * 2 * 64,
            };
            if at == changed {
                change(&mut place);
            }
            buffer
                .view(place.shape)
                .with_strides(place.strides)
                .with_offset(place.offset)
        })
        .collect();
    let upstream = Upstream {
        out: &views[3],
        lse: &lse,
        dout: &views[4],
    };
    let result = Attention::new(&device).backward_into(
        &stream,
        [&views[0], &views[1], &views[2]],
        upstream,
        [&views[5], &views[6], &views[7]],
        &Options::default(),
    );
    match result {
        Err(error @ Error::Argument { .. }) => assert_eq!(error.to_string(), expected),
        Err(error) => panic!("refused otherwise: {error}"),
        Ok(()) => assert_eq!("taken", expected),
    }
}

#[test]
fn places_that_do_not_fit_are_named() {
    refused(8, |_| (), "taken");
    refused(
        4,
        |dout| dout.shape = [1, 2, 7, 64],
        "attention: `dout`: found shape [1, 2, 7, 64]; expected [1, 2, 8, 64]",
    );
    refused(
        6,
        |dk| dk.shape = [1, 1, 8, 64],
        "attention: `dk`: found shape [1, 1, 8, 64]; expected [1, 2, 8, 64]",
    );
    refused(
        5,
        |dq| dq.offset += 1,
        "attention: `dq`: found an offset of 641 elements; expected a multiple of 8, 16 bytes",
    );
    refused(
        7,
        |dv| dv.strides[2] = 68,
        "attention: `dv`: found a stride of 68 elements from one of the tokens to the next; expected a multiple of 8, 16 bytes",
    );
    refused(
        5,
        |dq| dq.offset = 0,
        "attention: `dq`: found elements of `q`; expected memory of its own",
    );
    refused(
        7,
        |dv| dv.offset -= 64,
        "attention: `dv`: found elements of `dk`; expected memory of its own",
    );
    refused(
        6,
        |dk| dk.strides[1] = 0,
        "attention: `dk`: found strides [8192, 0, 1024, 1]; expected strides by which no two elements are in the same place",
    );
}

#[test]
fn a_scale_by_which_no_sum_can_be_divided_is_named() {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let buffer = Buffer::<bf16>::zeros(&device, 128).unwrap();
    let lse = Buffer::<f32>::zeros(&device, 1).unwrap();
    let x = buffer.view([1, 1, 1, 128]);
    let upstream = Upstream {
        out: &x,
        lse: &lse,
        dout: &x,
    };
    let options = Options {
        scale: Some(1e-31),
        ..Options::default()
    };
    let result = Attention::new(&device).backward(&stream, [&x, &x, &x], upstream, &options);
    assert_eq!(
        result.err().unwrap().to_string(),
        "attention: `options.scale`: found 1e-31; expected 1e-30 or more, for gradients"
    );
}

#[test]
fn depths_that_are_not_built_are_named() {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let buffer = Buffer::<bf16>::zeros(&device, 8 * 80).unwrap();
    let lse = Buffer::<f32>::zeros(&device, 8).unwrap();
    let x = buffer.view([1, 1, 8, 80]);
    let upstream = Upstream {
        out: &x,
        lse: &lse,
        dout: &x,
    };
    let result =
        Attention::new(&device).backward(&stream, [&x, &x, &x], upstream, &Options::default());
    let Err(error) = result else {
        panic!("not refused");
    };
    assert_eq!(
        error.to_string(),
        "attention: `q`: found depth 80 with values of 80; expected one that is built (depth/values): 64/64, 96/96, 128/128, 192/128, 256/256"
    );
}

/// Extents whose product is no number, of views that repeat elements.
#[test]
fn rows_that_are_too_many_are_named() {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let x = Buffer::<bf16>::zeros(&device, 64).unwrap();
    let lse = Buffer::<f32>::zeros(&device, 1).unwrap();
    let many = x.view([1 << 28, 1 << 28, 1 << 28, 64]);
    let many = many.with_strides([0, 0, 0, 1]);
    let upstream = Upstream {
        out: &many,
        lse: &lse,
        dout: &many,
    };
    let result = Attention::new(&device).backward(
        &stream,
        [&many, &many, &many],
        upstream,
        &Options::default(),
    );
    let error = result.err().map(|error| error.to_string());
    let expected = format!(
        "attention: `q`: found {} rows in all heads; expected at most 268435456",
        usize::MAX
    );
    assert_eq!(error, Some(expected));
}

/// Heads are a dimension of a grid; so are batches whose dropout follows from their number, and sequences of several lengths.
#[test]
fn more_lines_than_a_grid_is_wide_are_named() {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let x = Buffer::<bf16>::zeros(&device, 65_536 * 64).unwrap();
    let lse = Buffer::<f32>::zeros(&device, 65_536).unwrap();
    let offsets = Buffer::<i32>::zeros(&device, 65_537).unwrap();
    let plain = Options::default();
    let dropped = Options {
        dropout: Some(Dropout { rate: 0.5, seed: 1 }),
        ..plain
    };
    let of_lengths = Options {
        lengths: Some(Lengths {
            query_offsets: &offsets,
            key_offsets: &offsets,
            longest: 1,
            longest_keys: 1,
        }),
        ..plain
    };
    for (shape, options, found) in [
        ([1, 65_536, 1, 64], plain, "`q`: found heads 65536"),
        ([65_536, 1, 1, 64], dropped, "`q`: found batch 65536"),
        (
            [1, 1, 65_536, 64],
            of_lengths,
            "`options.lengths.query_offsets`: found sequences 65536",
        ),
    ] {
        let x = x.view(shape);
        let upstream = Upstream {
            out: &x,
            lse: &lse,
            dout: &x,
        };
        let result = Attention::new(&device).backward(&stream, [&x, &x, &x], upstream, &options);
        let error = result.err().map(|error| error.to_string());
        let expected = format!("attention: {found}; expected at most 65535 for gradients");
        assert_eq!(error, Some(expected));
    }
}
