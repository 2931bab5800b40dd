//! Packed weights on a device.

use tilekit::Buffer;
use tilekit::prelude::*;

use super::decode::Unquantised;
use super::format::{STEP, STRIP, WeightFormat, place_of};
use crate::products::error::{Result, expect};

/// Weights `[N, K]` of 4 or 8 bits, packed as their [format](WeightFormat) says, for products with activations of type `T`.
/// [`Products::pack_weights`](crate::products::Products::pack_weights) packs what is on the device, [`PackedWeights::from_host`] what is not, and [`PackedWeights::new`] takes what was packed before.
pub struct PackedWeights<T> {
    words: Buffer<u32>,
    scales: Buffer<T>,
    shape: [usize; 2],
    format: WeightFormat,
}

/// Weights `[N, K]` in memory of the host, row by row.
#[derive(Clone, Copy, Debug)]
pub struct HostWeights<'a> {
    /// Codes, one in a byte.
    pub weights: &'a [u8],
    /// Scales, one for each group of each row.
    pub scales: &'a [f32],
    /// Zeros from 0 to 15, as many as there are scales. Without them they are 8.
    pub zeros: Option<&'a [u8]>,
}

impl<T: Unquantised> PackedWeights<T> {
    /// What was packed before: as many words and scales as [`WeightFormat::words`] and [`WeightFormat::scales`] say.
    ///
    /// # Errors
    /// [`Error::Argument`](crate::products::Error::Argument) if they are not so many, or if K is no multiple of the group.
    pub fn new(
        words: Buffer<u32>,
        scales: Buffer<T>,
        shape: [usize; 2],
        format: WeightFormat,
    ) -> Result<Self> {
        check_shape("shape", shape, format)?;
        let counts = [
            ("words", words.len(), format.words(shape)),
            ("scales", scales.len(), format.scales(shape)),
        ];
        for (name, found, wanted) in counts {
            let [n, k] = shape;
            expect(
                found == wanted,
                name,
                || format!("{found} elements"),
                format!(
                    "{wanted}: those of {n} rows of {k} weights, as `WeightFormat` counts them"
                ),
            )?;
        }
        Ok(PackedWeights {
            words,
            scales,
            shape,
            format,
        })
    }

    /// Packs weights of the host and copies them to the device. Scales are rounded to `T`.
    ///
    /// ```
    /// use tilekit::prelude::*;
    /// use tilekit_kernels::products::weight_only::{HostWeights, PackedWeights, WeightFormat, WeightGroup, WeightValues};
    /// use tilekit_kernels::products::{Options, Products};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let device = Device::emulator();
    /// let stream = Stream::new(&device)?;
    /// let products = Products::new(&device);
    ///
    /// let (m, n, k) = (4, 24, 128);
    /// let format = WeightFormat { values: WeightValues::Int4, group: WeightGroup::Of(64) };
    /// let weights = HostWeights { weights: &vec![11; n * k], scales: &vec![0.5; n * 2], zeros: None };
    /// let w = PackedWeights::from_host(&device, weights, [n, k], format)?;
    /// let x = Buffer::from_slice(&device, &vec![bf16::ONE; m * k])?;
    /// let y = Buffer::<bf16>::zeros(&device, m * n)?;
    /// products.weight_only(&stream, &x.view([m, k]), &w, &y.view([m, n]), &Options::default())?;
    /// stream.synchronize()?;
    /// // 128 · 0.5 · (11 - 8)
    /// assert!(y.to_vec()?.iter().all(|&y| y == bf16::from_f32(192.0)));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Argument`](crate::products::Error::Argument) names what does not fit; otherwise what the device has against it.
    pub fn from_host(
        device: &Device,
        host: HostWeights<'_>,
        shape: [usize; 2],
        format: WeightFormat,
    ) -> Result<Self> {
        check_shape("shape", shape, format)?;
        check_host(host, shape, format)?;
        let ([n, k], groups) = (shape, format.group.count(shape[1]));
        let mut words = vec![0_u32; format.words(shape)];
        let mut scales = vec![T::ZERO; format.scales(shape)];
        for row in 0..n.next_multiple_of(STRIP) {
            let zero = host.zeros.and_then(|zeros| zeros.get(row * groups));
            let nothing = format.values.nothing(zero.copied().unwrap_or(0));
            for at in 0..k.next_multiple_of(STEP) {
                let is_there = row < n && at < k;
                let code = is_there.then(|| host.weights[row * k + at]);
                let (word, bit) = place_of(format.values, [row, at], k);
                words[word] |= u32::from(code.unwrap_or(nothing)) << bit;
            }
        }
        for row in 0..n {
            for group in 0..groups {
                let (own, at) = (row * groups + group, format.scale_place([row, group], k));
                scales[at] = T::of(f64::from(host.scales[own]));
                if let Some(zeros) = host.zeros {
                    scales[at + STRIP] = T::of(f64::from(T::BASE) + f64::from(zeros[own]));
                }
            }
        }
        let words = Buffer::from_slice(device, &words)?;
        let scales = Buffer::from_slice(device, &scales)?;
        PackedWeights::new(words, scales, shape, format)
    }
}

impl<T> PackedWeights<T> {
    /// N and K.
    pub fn shape(&self) -> [usize; 2] {
        self.shape
    }

    /// How they are packed.
    pub fn format(&self) -> WeightFormat {
        self.format
    }

    /// The packed words.
    pub fn words(&self) -> &Buffer<u32> {
        &self.words
    }

    /// The packed scales, and zeros if there are some.
    pub fn scales(&self) -> &Buffer<T> {
        &self.scales
    }
}

/// A group is one of those that there are and divides K, and indices have 32 bits.
pub(super) fn check_shape(
    name: &'static str,
    shape: [usize; 2],
    format: WeightFormat,
) -> Result<()> {
    let [n, k] = shape;
    expect(
        n.max(k) <= 1 << 28,
        name,
        || format!("{n} rows of {k} weights"),
        format!("at most {} of each", 1 << 28),
    )?;
    if let super::WeightGroup::Of(weights) = format.group {
        expect(
            [32, 64, 128].contains(&weights),
            "format.group",
            || format!("groups of {weights}"),
            "groups of 32, 64 or 128, or whole rows: `WeightGroup::Row`",
        )?;
        expect(
            k.is_multiple_of(weights),
            name,
            || format!("rows of {k} weights"),
            format!("a multiple of {weights}, the group: pad rows with weights that are zero"),
        )?;
    }
    let most = format.words(shape).max(format.scales(shape));
    expect(
        i32::try_from(most).is_ok(),
        name,
        || format!("{most} packed words or scales"),
        format!("at most {}: indices have 32 bits", i32::MAX),
    )
}

/// As many numbers as there are weights and groups, and codes of 4 bits where those of the format are.
fn check_host(host: HostWeights<'_>, [n, k]: [usize; 2], format: WeightFormat) -> Result<()> {
    let groups = n * format.group.count(k);
    let counts = [
        ("host.weights", Some(host.weights.len()), n * k),
        ("host.scales", Some(host.scales.len()), groups),
        ("host.zeros", host.zeros.map(<[u8]>::len), groups),
    ];
    for (name, found, wanted) in counts {
        let found = found.unwrap_or(wanted);
        expect(
            found == wanted,
            name,
            || format!("{found} numbers"),
            format!("{wanted}: those of {n} rows of {k} weights"),
        )?;
    }
    check_zeros("host.zeros", host.zeros.is_some(), format)?;
    let bytes = [
        ("host.weights", Some(host.weights)),
        ("host.zeros", host.zeros),
    ];
    // Of 8 bits every byte is a code.
    let bytes = bytes.into_iter().filter(|_| format.values.bits() == 4);
    for (name, bytes) in bytes {
        let large = bytes.unwrap_or_default().iter().position(|&byte| byte > 15);
        expect(
            large.is_none(),
            name,
            || format!("a number beyond 15 at {}", large.unwrap_or_default()),
            "numbers of 4 bits, from 0 to 15, one in a byte",
        )?;
    }
    Ok(())
}

/// There are zeros where the format has them, and only there.
pub(super) fn check_zeros(name: &'static str, are_there: bool, format: WeightFormat) -> Result<()> {
    let [found, wanted] = if format.values.has_zeros() {
        ["none", "zeros: the values of the format have them"]
    } else {
        ["zeros", "none: the values of the format have none"]
    };
    expect(
        are_there == format.values.has_zeros(),
        name,
        || found.to_owned(),
        wanted,
    )
}
