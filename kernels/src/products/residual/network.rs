//! A network of two layers of rectified linear units.

use std::sync::OnceLock;

use super::inputs::COUNT;

/// Units of the two layers.
const UNITS: [usize; 2] = [160, 64];

/// How far inputs count that lie outside of those of the fit, in standard deviations.
const FARTHEST: f32 = 4.0;

/// Weights, as `bench/fit/residual.py` writes them.
const WEIGHTS: &str = include_str!("weights.txt");

/// Weights by input, so that those of all units of a layer follow each other.
pub(super) struct Network {
    mean: [f32; COUNT],
    /// Reciprocals of standard deviations.
    scale: [f32; COUNT],
    first: ([[f32; UNITS[0]]; COUNT], [f32; UNITS[0]]),
    second: ([[f32; UNITS[1]]; UNITS[0]], [f32; UNITS[1]]),
    last: ([f32; UNITS[1]], f32),
}

impl Network {
    /// That of the crate.
    pub(super) fn shipped() -> &'static Network {
        static SHIPPED: OnceLock<Network> = OnceLock::new();
        SHIPPED.get_or_init(|| Network::read(WEIGHTS))
    }

    /// Numbers in the order of the fields, separated by white space; lines that begin with `#` say what follows.
    fn read(text: &str) -> Network {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let words = lines.flat_map(str::split_whitespace);
        let mut numbers = words.map(|word| {
            word.parse()
                .unwrap_or_else(|_| panic!("weights.txt: {word} is not a number"))
        });
        let network = Network {
            mean: row(&mut numbers),
            scale: row(&mut numbers),
            first: (rows(&mut numbers), row(&mut numbers)),
            second: (rows(&mut numbers), row(&mut numbers)),
            last: (row(&mut numbers), row::<1>(&mut numbers)[0]),
        };
        assert!(
            numbers.next().is_none(),
            "weights.txt has more numbers than the network"
        );
        network
    }

    pub(super) fn output(&self, inputs: &[f32; COUNT]) -> f32 {
        let scaled: [f32; COUNT] = std::array::from_fn(|at| {
            let apart = (inputs[at] - self.mean[at]) * self.scale[at];
            apart.clamp(-FARTHEST, FARTHEST)
        });
        let first = layer(&scaled, &self.first);
        let second = layer(&first, &self.second);
        let products = second.iter().zip(self.last.0).map(|(unit, by)| unit * by);
        products.sum::<f32>() + self.last.1
    }
}

/// Sums of weighted inputs, of which those above 0 count.
fn layer<const IN: usize, const OUT: usize>(
    inputs: &[f32; IN],
    (weights, bias): &([[f32; OUT]; IN], [f32; OUT]),
) -> [f32; OUT] {
    let mut sums = *bias;
    for (input, weights) in inputs.iter().zip(weights) {
        for (sum, weight) in sums.iter_mut().zip(weights) {
            *sum += input * weight;
        }
    }
    sums.map(|sum| sum.max(0.0))
}

fn row<const LEN: usize>(numbers: &mut impl Iterator<Item = f32>) -> [f32; LEN] {
    std::array::from_fn(|_| {
        numbers
            .next()
            .expect("weights.txt has fewer numbers than the network")
    })
}

fn rows<const LEN: usize, const COUNT: usize>(
    numbers: &mut impl Iterator<Item = f32>,
) -> [[f32; LEN]; COUNT] {
    std::array::from_fn(|_| row(numbers))
}
