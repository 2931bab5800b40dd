//! Arguments drawn at random, most of them wild: what a program in C may pass by mistake is refused by an error or fits, and never ends in a panic.

use super::tests::{launch, tensor};
use super::*;
use crate::manifest::tests::{MATMUL, SOFTMAX};

/// Numbers without a pattern.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let bits = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits ^ (bits >> 31)
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.next() as usize % all.len()]
    }

    /// One of a list, which gets one if it is empty.
    fn one_in<'a>(&mut self, all: &'a mut Vec<i64>) -> &'a mut i64 {
        if all.is_empty() {
            all.push(1);
        }
        let at = self.next() as usize % all.len();
        &mut all[at]
    }
}

/// What no call means, and what overflows sums and products.
const WILD: [i64; 14] = [
    0,
    1,
    -1,
    3,
    1 << 31,
    (1 << 31) - 8,
    1 << 32,
    1 << 40,
    1 << 61,
    1 << 62,
    i64::MAX - 7,
    i64::MAX,
    i64::MIN,
    i64::MIN + 8,
];

/// Extents, strides, an address and how many elements there are; right ones but for some.
#[derive(Debug)]
struct Drawn {
    shape: Vec<i64>,
    strides: Vec<i64>,
    address: u64,
    elements: Option<u64>,
}

impl Drawn {
    fn new(noise: &mut Noise, shape: [i64; 2], address: u64) -> Drawn {
        let mut drawn = Drawn {
            strides: vec![shape[1], 1],
            shape: shape.to_vec(),
            address,
            elements: Some((shape[0] * shape[1]) as u64),
        };
        for _ in 0..noise.next() % 3 {
            let wild = noise.one_of(&WILD);
            match noise.next() % 8 {
                0 | 1 => *noise.one_in(&mut drawn.shape) = wild,
                2 | 3 => *noise.one_in(&mut drawn.strides) = wild,
                4 => drawn.address = wild as u64,
                5 => drawn.elements = noise.one_of(&[None, Some(0), Some(u64::MAX)]),
                6 => drawn.strides.truncate(noise.next() as usize % 2),
                _ => drawn.shape.push(wild),
            }
        }
        drawn
    }

    fn tensor(&self) -> Tensor<'_> {
        Tensor {
            elements: self.elements,
            ..tensor(self.address, &self.shape, &self.strides)
        }
    }

    /// Each dimension with its step, where there is more than one element.
    fn dims(&self) -> Vec<[i128; 2]> {
        let tensor = self.tensor();
        let dims = (0..self.shape.len()).map(|at| [tensor.stride(at), self.shape[at]]);
        let dims = dims.map(|dim| dim.map(i128::from));
        dims.filter(|&[_, extent]| extent > 1).collect()
    }

    /// Checks what was taken: it lies in its memory, and what is written has no element twice.
    fn check(&self, is_written: bool) {
        if self.shape.contains(&0) {
            return;
        }
        let mut dims = self.dims();
        dims.sort_unstable();
        let mut end = 1_i128;
        for [stride, extent] in dims {
            assert!(stride >= 0 && extent >= 0, "{self:?}");
            assert!(!is_written || stride >= end, "{self:?}");
            end += stride * (extent - 1);
        }
        if let Some(elements) = self.elements {
            assert!(end <= elements.into(), "{self:?}");
        }
    }
}

/// Launches so often with tensors of these shapes, the last of which is written, and says how many launches were taken.
fn check(manifest: &str, shapes: &[[i64; 2]], alpha: Option<Argument<'static>>) -> usize {
    let mut noise = Noise(7);
    let mut taken = 0;
    for _ in 0..3000 {
        let drawn: Vec<Drawn> = shapes
            .iter()
            .zip(1..)
            .map(|(&shape, at)| Drawn::new(&mut noise, shape, at << 24))
            .collect();
        let tensors = drawn.iter().map(|drawn| Argument::Tensor(drawn.tensor()));
        let arguments: Vec<Argument<'_>> = tensors.chain(alpha).collect();
        match launch(manifest, &arguments) {
            Ok(_) => {
                taken += 1;
                for (at, drawn) in drawn.iter().enumerate() {
                    drawn.check(at + 1 == shapes.len());
                }
            }
            Err(said) => assert!(said.contains("): "), "{said}"),
        }
    }
    taken
}

#[test]
fn wild_pointers_are_refused_or_fit() {
    let taken = check(SOFTMAX, &[[8, 4096]; 2], None);
    assert!((500..2500).contains(&taken), "{taken}");
}

#[test]
fn wild_tensor_maps_are_refused_or_fit() {
    let shapes = [[256, 64], [512, 64], [256, 512]];
    let taken = check(MATMUL, &shapes, Some(Argument::scalar(0.5_f32)));
    assert!((100..2500).contains(&taken), "{taken}");
}
