//! Times of a block on a GPU, by both in turn.

use std::time::Instant;

use candle_core::{Device, Result, Tensor};

use crate::block::{Block, Sizes, normal};
use crate::operations::{Candle, Operations};
use crate::tilekit::TileKit;

/// A block of a model with 8 billion parameters.
const LARGE: Sizes = Sizes {
    tokens: 0,
    hidden: 4096,
    heads: 32,
    kv_heads: 8,
    depth: 128,
    between: 14336,
};
const ROUNDS: usize = 15;

/// Milliseconds of one forward pass, from an idle GPU to its end.
fn once(block: &Block, x: &Tensor, by: &impl Operations) -> Result<f64> {
    x.device().synchronize()?;
    let start = Instant::now();
    let out = block.forward(x, by)?;
    x.device().synchronize()?;
    drop(out);
    Ok(start.elapsed().as_secs_f64() * 1e3)
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Prints the medians of both for 1024, 2048 and 4096 tokens, with the least and the most.
pub fn time(gpu: &Device) -> Result<()> {
    for tokens in [1024, 2048, 4096] {
        let sizes = Sizes { tokens, ..LARGE };
        let block = Block::random(sizes, gpu)?;
        let x = (normal(&[tokens, sizes.hidden], gpu)? * (sizes.hidden as f64).sqrt())?;
        let candle = Candle::new(&x, tokens)?;
        let (mut own, mut ours) = (Vec::new(), Vec::new());
        for round in 0..ROUNDS + 3 {
            let pair = (once(&block, &x, &candle)?, once(&block, &x, &TileKit)?);
            // The first load code and memory.
            if round >= 3 {
                own.push(pair.0);
                ours.push(pair.1);
            }
        }
        let mut ratios: Vec<f64> = own
            .iter()
            .zip(&ours)
            .map(|(own, ours)| own / ours)
            .collect();
        println!(
            "{tokens} tokens: candle {:.3} ms, TileKit {:.3} ms, ratio {:.3} ({:.3} to {:.3})",
            median(&mut own),
            median(&mut ours),
            median(&mut ratios),
            ratios[0],
            ratios[ROUNDS - 1]
        );
    }
    Ok(())
}
