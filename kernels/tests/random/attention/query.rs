//! What a query of attention gets from the keys that it sees, in f64.

use tilekit::reference::add;

use super::mask::{Mask, Scores};
use super::modified;
use crate::numbers::{Number, fractions};
use crate::tensor::Tensor;

/// Rows of a tensor, by batch, head and token.
pub(crate) struct Rows<'a, T> {
    tensor: &'a Tensor<T, 4>,
    numbers: Vec<f64>,
}

impl<T: Number> Rows<'_, T> {
    pub(crate) fn of(tensor: &Tensor<T, 4>) -> Rows<'_, T> {
        Rows {
            tensor,
            numbers: tensor.numbers(),
        }
    }

    /// Elements times factors of their rows.
    pub(crate) fn scaled(mut self, factor: impl Fn([usize; 3]) -> f64) -> Self {
        let [batches, heads, tokens, columns] = self.tensor.shape;
        for row in 0..batches * heads * tokens {
            let at = [row / tokens / heads, row / tokens % heads, row % tokens];
            let first = self.tensor.at([at[0], at[1], at[2], 0]);
            let factor = factor(at);
            for x in &mut self.numbers[first..first + columns] {
                *x *= factor;
            }
        }
        self
    }

    pub(crate) fn row(&self, [batch, head, token]: [usize; 3]) -> &[f64] {
        let first = self.tensor.at([batch, head, token, 0]);
        &self.numbers[first..first + self.tensor.shape[3]]
    }
}

/// Numbers that heads have.
pub(crate) struct Factors {
    pub(crate) slopes: Vec<f32>,
    pub(crate) sinks: Vec<f32>,
}

impl Factors {
    pub(crate) fn of(heads: usize) -> Factors {
        let slopes = fractions::<f32>(heads, 11);
        Factors {
            slopes: slopes.into_iter().map(|slope| slope.abs() / 8.0).collect(),
            sinks: fractions(heads, 12),
        }
    }

    /// What [`modified::Biased`] captures.
    pub(crate) fn biases(&self) -> Vec<f32> {
        let of_head = |slope: &f32| {
            let slope = *slope;
            (0..modified::BIASES as i64).map(move |at| slope * modified::bias(at) as f32)
        };
        self.slopes.iter().flat_map(of_head).collect()
    }
}

/// A query beside its elements.
pub(crate) struct Query {
    /// Its position among the keys.
    pub(crate) place: i64,
    pub(crate) mask: Mask,
    pub(crate) scale: f64,
    pub(crate) scores: Scores,
    /// The slope of its head, for [`Scores::Alibi`], or the factor of its biases.
    pub(crate) slope: f64,
    /// The sink of its head.
    pub(crate) sink: Option<f64>,
}

/// The keys that a query sees: their numbers, weights, and derivatives of scores by products.
pub(crate) struct Seen {
    pub(crate) keys: Vec<usize>,
    pub(crate) shares: Vec<f64>,
    pub(crate) slopes: Vec<f64>,
    pub(crate) lse: f64,
}

impl Query {
    /// The softmax of scores by a product of each of so many keys that the mask shows.
    pub(crate) fn attend(&self, keys: usize, product: impl Fn(usize) -> f64) -> Seen {
        let sees = |&key: &usize| self.mask.sees(self.place, key as i64);
        self.attend_to((0..keys).filter(sees).collect(), product)
    }

    /// The softmax of scores by a product of each of these keys.
    pub(crate) fn attend_to(&self, keys: Vec<usize>, product: impl Fn(usize) -> f64) -> Seen {
        let score = |&key: &usize| self.score(key, product(key) * self.scale);
        let (scores, slopes): (Vec<f64>, Vec<f64>) = keys.iter().map(score).unzip();
        let all = || scores.iter().copied().chain(self.sink);
        let max = all().fold(f64::NEG_INFINITY, f64::max);
        let lse = if max == f64::NEG_INFINITY {
            max
        } else {
            max + all().map(|score| (score - max).exp()).sum::<f64>().ln()
        };
        let shares = scores.iter().map(|score| (score - lse).exp()).collect();
        Seen {
            keys,
            shares,
            slopes,
            lse,
        }
    }

    /// What is made of a scaled product, and its derivative by the product.
    fn score(&self, key: usize, product: f64) -> (f64, f64) {
        match self.scores {
            Scores::Plain => (product, self.scale),
            Scores::Softcap(cap) => {
                let cap = f64::from(cap);
                let share = (product / cap).tanh();
                (cap * share, self.scale * (1.0 - share * share))
            }
            Scores::Alibi => {
                let distance = (self.place - key as i64).abs() as f64;
                (product - self.slope * distance, self.scale)
            }
            Scores::Biased(_) => {
                let bias = modified::bias(self.place - key as i64);
                (product + self.slope * bias, self.scale)
            }
        }
    }
}

impl Seen {
    /// The sum of rows of so many columns by their weights.
    pub(crate) fn sum<'a>(&self, columns: usize, row: impl Fn(usize) -> &'a [f64]) -> Vec<f64> {
        let mut sums = vec![0.0; columns];
        for (&share, &key) in self.shares.iter().zip(&self.keys) {
            add(&mut sums, share, row(key));
        }
        sums
    }
}
