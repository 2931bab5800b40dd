//! What the fit of `kernels/src/products/residual` sees of plans: reads lines like `512 1024 4096|128x256 by pairs`, of M, N, K and an instance, and prints for each the time of the model in µs and the inputs of the network, or
//! `-` where no instance is displayed so. `bench/fit/residual.py` runs it.

use std::io::{self, BufRead, Write};

use tilekit_kernels::products::need::Need;
use tilekit_kernels::products::plan::Plan;

fn main() -> io::Result<()> {
    let mut output = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        match numbers(&line?) {
            Some(numbers) => writeln!(output, "{}", numbers.join(" "))?,
            None => writeln!(output, "-")?,
        }
    }
    Ok(())
}

fn numbers(line: &str) -> Option<Vec<String>> {
    let (size, name) = line.split_once('|')?;
    let size: Vec<usize> = size
        .split(' ')
        .filter_map(|word| word.parse().ok())
        .collect();
    let need = Need::of_packed_16_bits(size.try_into().ok()?);
    let plan = Plan::named(name, &need)?;
    let inputs = plan.inputs(&need)?;
    let us = plan.microseconds.to_string();
    Some(
        std::iter::once(us)
            .chain(inputs.iter().map(f32::to_string))
            .collect(),
    )
}
