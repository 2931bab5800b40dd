//! Times of a block on a GPU, by both in turn.

use std::time::Instant;

use candle_core::{Device, Result, Tensor};

use crate::block::{Block, Sizes, normal};
#[cfg(feature = "flash-attn")]
use crate::flash::CandleFlash;
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

/// The times of all `ways`, which are visited in turn.
fn contest(ways: &[&dyn Fn() -> Result<f64>]) -> Result<Vec<Vec<f64>>> {
    let mut times = vec![Vec::new(); ways.len()];
    for round in 0..ROUNDS + 3 {
        for (way, times) in ways.iter().zip(&mut times) {
            let time = way()?;
            // The first load code and memory.
            if round >= 3 {
                times.push(time);
            }
        }
    }
    Ok(times)
}

/// Prints the medians of all for 1024, 2048 and 4096 tokens, and of the others over ours with the least and the most.
pub fn time(gpu: &Device) -> Result<()> {
    for tokens in [1024, 2048, 4096] {
        let sizes = Sizes { tokens, ..LARGE };
        let block = Block::random(sizes, gpu)?;
        let x = (normal(&[tokens, sizes.hidden], gpu)? * (sizes.hidden as f64).sqrt())?;
        let candle = Candle::new(&x, tokens)?;
        let mut names = vec!["TileKit", "candle"];
        let by_ours = || once(&block, &x, &TileKit);
        let by_candle = || once(&block, &x, &candle);
        let mut ways: Vec<&dyn Fn() -> Result<f64>> = vec![&by_ours, &by_candle];
        #[cfg(feature = "flash-attn")]
        let by_flash = || once(&block, &x, &CandleFlash(&candle));
        #[cfg(feature = "flash-attn")]
        {
            names.push("candle-flash-attn");
            ways.push(&by_flash);
        }
        let mut times = contest(&ways)?;
        let ours = times.remove(0);
        println!(
            "{tokens} tokens: TileKit {:.3} ms",
            median(&mut ours.clone())
        );
        for (name, mut theirs) in names.drain(..).skip(1).zip(times) {
            let ratios = theirs.iter().zip(&ours).map(|(theirs, ours)| theirs / ours);
            let mut ratios: Vec<f64> = ratios.collect();
            let ratio = median(&mut ratios);
            let (least, most) = (ratios[0], ratios[ROUNDS - 1]);
            println!(
                "  {name} {:.3} ms, ratio {ratio:.3} ({least:.3} to {most:.3})",
                median(&mut theirs)
            );
        }
    }
    Ok(())
}
