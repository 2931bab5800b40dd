//! Scores that an author changes and masks.

use tilekit::prelude::*;
use tilekit_kernels::attention::{Attention, Modifier, Options, Place};

use super::problem::{check_heads, numbers};

/// A query sees the keys of its own 32, and each key further away counts less.
#[derive(Clone, Copy)]
struct Local;

impl Modifier for Local {
    const MASKS: bool = true;

    fn scores(scores: Tensor<f32>, at: Place) -> Tensor<f32> {
        scores * at.scale - (at.query - at.key).abs().cast::<f32>() * 0.125
    }

    #[device]
    fn sees(at: Place) -> Tensor<bool> {
        at.key / 32 == at.query / 32
    }
}

#[test]
fn an_author_changes_and_masks_scores() {
    let device = Device::emulator();
    let stream = Stream::new(&device).unwrap();
    let attention = Attention::new(&device);
    let sizes = [2, 2, 140, 140, 64, 64];
    let host = [1, 2, 3].map(|seed| numbers::<bf16>(2 * 140 * 64, seed));
    let buffers = [0, 1, 2].map(|at| Buffer::from_slice(&device, &host[at]).unwrap());
    let [q, k, v] = [0, 1, 2].map(|at| buffers[at].view([1, 2, 140, 64]));
    let out = Buffer::<bf16>::new(&device, 2 * 140 * 64).unwrap();
    let lse = Buffer::<f32>::new(&device, 2 * 140).unwrap();
    let of_out = out.view([1, 2, 140, 64]);
    let options = Options::default();
    attention
        .forward_modified::<bf16, Local>(&stream, [&q, &k, &v], &of_out, &lse, &options, None)
        .unwrap();
    stream.synchronize().unwrap();
    check_heads(
        [&host[0], &host[1], &host[2]],
        (&out.to_vec().unwrap(), &lse.to_vec().unwrap()),
        sizes,
        |query, key| query / 32 == key / 32,
        |score, query, key| score - query.abs_diff(key) as f64 * 0.125,
    );
}
