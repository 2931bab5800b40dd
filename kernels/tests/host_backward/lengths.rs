//! Gradients of sequences of several lengths.

use tilekit::prelude::*;
use tilekit_kernels::attention::{Attention, Lengths, Options};

use crate::problem::{Problem, differentiated, near, numbers, scaled};

/// Sequences of several lengths, one of which has no queries and one no keys: what is outside of a pair has a gradient of zeros.
#[test]
fn sequences_of_several_lengths_keep_to_themselves() {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let attention = Attention::new(&device);
    let (queries, keys) = ([0, 40, 40, 45, 52], [0, 30, 80, 80, 90]);
    let problem = Problem {
        heads: 1,
        kv_heads: 1,
        queries: 52,
        keys: 90,
        depth: 64,
    };
    let host = [(52, 0), (90, 1), (90, 2), (52, 3)].map(|(rows, seed)| numbers(rows * 64, seed));
    let [q, k, v, dout] = [0, 1, 2, 3].map(|at| Buffer::from_slice(&device, &host[at]).unwrap());
    let (q, dout) = (q.view([1, 1, 52, 64]), dout.view([1, 1, 52, 64]));
    let (k, v) = (k.view([1, 1, 90, 64]), v.view([1, 1, 90, 64]));
    let [query_offsets, key_offsets] =
        [&queries, &keys].map(|offsets| Buffer::from_slice(&device, offsets).unwrap());
    let options = Options {
        lengths: Some(Lengths {
            query_offsets: &query_offsets,
            key_offsets: &key_offsets,
            longest: 40,
            longest_keys: 50,
        }),
        ..Options::default()
    };
    let (_, found) = differentiated(
        (&attention, &stream),
        [&q, &k, &v],
        (&dout, [1, 1, 52, 64]),
        &options,
    );
    let sequence = |offsets: &[i32; 5], token: usize| {
        (1..4).filter(|&at| offsets[at] as usize <= token).count()
    };
    let sees = |query: usize, key: usize| sequence(&queries, query) == sequence(&keys, key);
    let wanted = problem.gradients([&host[0], &host[1], &host[2], &host[3]], sees, scaled(64));
    near(&found.dq.to_vec().unwrap(), &wanted[0], "dq");
    near(&found.dk.to_vec().unwrap(), &wanted[1], "dk");
    near(&found.dv.to_vec().unwrap(), &wanted[2], "dv");
    assert!(wanted[1][30 * 64..80 * 64].iter().all(|&x| x == 0.0));
}
