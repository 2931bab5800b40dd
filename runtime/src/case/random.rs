//! Deterministic data: an element depends on the seed, the tensor's name and its place, and on nothing else.
//!
//! So tensors are made by as many threads as there are, and the same on every machine.

use std::ops::Range;

use super::parallel;
use crate::element::DeviceElement;
use crate::number::Number;

/// How a tensor's elements are made.
#[derive(Clone, Debug, PartialEq)]
pub enum Generator {
    /// Standard normal, mean 0 and variance 1.
    Normal,
    /// Uniform in a range.
    Uniform(Range<f64>),
    /// Whole numbers, uniform in a range.
    Integers(Range<i64>),
}

/// Elements made by one task at a time; even, because normals come in pairs.
const CHUNK: usize = 1 << 14;

impl Generator {
    /// `len` elements of the tensor `name`.
    pub fn make<T: DeviceElement>(&self, seed: u64, name: &str, len: usize) -> Vec<T> {
        let stream = name
            .bytes()
            .fold(mix(seed), |state, byte| mix(state ^ u64::from(byte)));
        let chunk = |chunk: usize| {
            let start = chunk * CHUNK;
            T::nearest_all(&self.chunk(stream, start..len.min(start + CHUNK)))
        };
        let mut all = Vec::with_capacity(len);
        // Each chunk is freed once it is copied: a tensor can be larger than half of the memory.
        for chunk in parallel::map(len.div_ceil(CHUNK), chunk) {
            all.extend_from_slice(&chunk);
        }
        all
    }

    fn chunk(&self, stream: u64, places: Range<usize>) -> Vec<Number> {
        let draw = |place: usize| mix(stream.wrapping_add((place as u64).wrapping_mul(GOLDEN)));
        match self {
            Generator::Normal => {
                let pairs = places
                    .clone()
                    .step_by(2)
                    .flat_map(|place| normal_pair(draw(place)));
                pairs.take(places.len()).map(Number::Float).collect()
            }
            Generator::Uniform(range) => {
                let unit = |place| (draw(place) >> 11) as f64 / (1u64 << 53) as f64;
                let span = range.end - range.start;
                places
                    .map(|place| Number::Float(range.start + unit(place) * span))
                    .collect()
            }
            Generator::Integers(range) => {
                // The high half of a product is uniform enough: the bias is below 2⁻⁶⁴ times the range.
                let span = u128::from(range.end.abs_diff(range.start));
                let step = |place| (u128::from(draw(place)) * span) >> 64;
                let start = i128::from(range.start);
                places
                    .map(|place| Number::Int(start + step(place) as i128))
                    .collect()
            }
        }
    }
}

/// 2⁶⁴ divided by the golden ratio, odd: the step of `SplitMix64`.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The output function of `SplitMix64` (Steele, Lea, Flood: "Fast splittable pseudorandom number generators").
pub(super) fn mix(state: u64) -> u64 {
    let mut bits = state.wrapping_add(GOLDEN);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// Two independent normals from 64 random bits (Box and Muller); 32 bits each reach 6.6 standard deviations.
fn normal_pair(bits: u64) -> [f64; 2] {
    let unit = |bits: u32| (f64::from(bits) + 0.5) / 4_294_967_296.0;
    let radius = (-2.0 * unit((bits >> 32) as u32).ln()).sqrt();
    let (sine, cosine) = (std::f64::consts::TAU * unit(bits as u32)).sin_cos();
    [radius * cosine, radius * sine]
}

#[cfg(test)]
mod tests {
    use half::bf16;

    use super::*;

    #[test]
    fn the_same_question_gets_the_same_answer_and_any_change_another() {
        let make = |seed, name| Generator::Normal.make::<f32>(seed, name, 3 * CHUNK + 5);
        assert_eq!(make(1, "x"), make(1, "x"));
        assert_ne!(make(1, "x"), make(2, "x"));
        assert_ne!(make(1, "x"), make(1, "y"));
    }

    #[test]
    fn a_longer_tensor_begins_as_the_shorter_one() {
        let generators = [
            Generator::Normal,
            Generator::Uniform(0.0..1.0),
            Generator::Integers(-9..9),
        ];
        for generator in generators {
            let long = generator.make::<f64>(7, "x", CHUNK + 3);
            assert_eq!(
                generator.make::<f64>(7, "x", 101),
                long[..101],
                "{generator:?}"
            );
        }
    }

    #[test]
    fn normals_have_the_moments_of_normals() {
        let sample = Generator::Normal.make::<f64>(3, "x", 1 << 18);
        let mean =
            |power: i32| sample.iter().map(|x| x.powi(power)).sum::<f64>() / sample.len() as f64;
        for (power, moment) in [(1, 0.0), (2, 1.0), (3, 0.0), (4, 3.0)] {
            assert!(
                (mean(power) - moment).abs() < 0.05,
                "moment {power} is {}",
                mean(power)
            );
        }
        let neighbours = sample.windows(2).map(|pair| pair[0] * pair[1]).sum::<f64>();
        assert!((neighbours / sample.len() as f64).abs() < 0.01);
    }

    #[test]
    fn ranges_are_kept_and_filled() {
        let uniform = Generator::Uniform(-2.0..3.0).make::<f64>(1, "u", 100_000);
        assert!(uniform.iter().all(|x| (-2.0..3.0).contains(x)));
        assert!((uniform.iter().sum::<f64>() / 1e5 - 0.5).abs() < 0.02);
        let integers = Generator::Integers(-3..4).make::<i8>(1, "i", 10_000);
        for value in -3..4 {
            let count = integers.iter().filter(|x| **x == value).count();
            assert!((1200..1700).contains(&count), "{value} came {count} times");
        }
        let whole = Generator::Integers(i64::MIN..i64::MAX).make::<i64>(1, "w", 1000);
        assert!(whole.iter().any(|x| *x > i64::MAX / 2) && whole.iter().any(|x| *x < i64::MIN / 2));
    }

    #[test]
    fn every_element_type_can_be_made() {
        assert!(
            Generator::Normal
                .make::<bf16>(1, "b", 100)
                .iter()
                .any(|x| x.to_f32() < 0.0)
        );
        assert!(Generator::Normal.make::<i32>(1, "i", 100).contains(&-1));
        assert!(
            Generator::Integers(0..2)
                .make::<bool>(1, "p", 100)
                .iter()
                .any(|x| *x)
        );
        assert_eq!(Generator::Integers(300..301).make::<u8>(1, "o", 1), [0]);
    }
}
