//! How a convolution, or the gradient of an image, is computed: in which groups, by im2col maps or as a product of matrices, and what is copied for that.

use super::depthwise::{Depthwise, is_depthwise};
use super::error::Result;
use super::pad::check_line;
use super::patches::{Patches, patches_us};
use super::plan::Tiled;
use super::residue::Residue;
use super::shape::{Along, Shape, UNIT};
use crate::products::Products;
use crate::products::need::Need;

/// Microseconds of a launch beside others.
pub(super) const LAUNCH: f64 = 2.0;

/// Microseconds of an element that is copied or gathered, and of one that becomes zero.
pub(super) const COPIED: f64 = 2e-6;
const FILLED: f64 = 0.6e-6;

/// Bytes that DRAM gives in a microsecond, and operations of tensor cores in one.
const DRAM: f64 = 4.3e6;
const PRODUCTS: f64 = 6.0e8;

/// How an image gets to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loaded {
    /// From where it lies.
    InPlace,
    /// From a copy whose pixels have more channels, of zeros.
    Padded,
    /// From a copy whose lines have the padding, so that all taps of a line are channels of one: pixels of so many channels, in lines of so many elements.
    Lines { channels: usize, length: usize },
}

/// What computes it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Algorithm {
    /// Launches through im2col maps: one, or of a gradient one for each remainder of the strides that taps reach.
    Implicit {
        loaded: Loaded,
        launches: Vec<(Residue, Tiled)>,
    },
    /// Launches for channels one by one.
    Depthwise { launches: Vec<(Residue, Depthwise)> },
    /// A product of matrices: of pixels as they lie, or of what lies under the filters.
    Product {
        size: [usize; 3],
        patches: Option<Patches>,
    },
}

/// A convolution, or the gradient of an image, and what computes it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Way {
    /// The convolution that was asked for.
    pub(super) asked: Shape,
    pub(super) is_gradient: bool,
    /// How many groups become one.
    pub(super) merged: usize,
    pub(super) algorithm: Algorithm,
    pub(super) copies: Copies,
    pub(super) microseconds: f64,
}

/// What is copied beside the image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Copies {
    /// Filters, for other channels.
    pub(super) filters: bool,
    /// The result, from a workspace: its pixels are not multiples of 16 bytes.
    pub(super) result: bool,
    /// Zeros, for pixels of a gradient that no tap reaches.
    pub(super) zeros: bool,
}

/// Whether tensors begin at multiples of what maps take: the image, the filters and the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Aligned {
    pub(super) image: bool,
    pub(super) filters: bool,
    pub(super) result: bool,
}

impl Aligned {
    fn all(self) -> bool {
        self.image && self.filters && self.result
    }
}

/// The channels of a pixel in lines whose pixels begin, a stride apart, at multiples of 16 bytes.
pub(super) fn in_lines(shape: &Shape) -> Option<(Shape, Loaded)> {
    let [_, _, wide] = shape.along;
    let fits = shape.groups == 1 && !shape.has_depth && wide.dilation == 1;
    let channels = shape
        .channels
        .next_multiple_of(UNIT / gcd(wide.stride, UNIT));
    let pixels = (wide.output - 1).saturating_mul(wide.stride) + wide.taps;
    let lines = Along {
        input: wide.output,
        taps: 1,
        stride: 1,
        lower: 0,
        ..wide
    };
    let shape = Shape {
        channels: wide.taps * channels,
        along: [Along::NONE, shape.along[1], lines],
        ..*shape
    };
    let length = pixels.saturating_mul(channels).next_multiple_of(UNIT);
    fits.then_some((shape, Loaded::Lines { channels, length }))
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The channels of a shape that are loaded, and the filters that are stored, with zeros behind them.
fn padded(shape: &Shape) -> Shape {
    Shape {
        channels: shape.channels.next_multiple_of(UNIT),
        ..*shape
    }
}

/// What a product of these extents, and of operands along M or N, needs: those of which rows are no multiples of 16 bytes are copied.
fn need_of(size: [usize; 3], is_mn_major: [bool; 2]) -> Need {
    let need = Need::of_packed_16_bits(size);
    if size.iter().all(|extent| extent.is_multiple_of(UNIT)) {
        Need {
            is_mn_major,
            ..need
        }
    } else {
        need
    }
}

/// Microseconds of a launch through im2col maps. The model of products counts pixels once for each tap among the bytes of DRAM, which has them once: these compare tiles alone.
fn implicit_us(shape: &Shape, tiled: &Tiled) -> f64 {
    let pixels = (shape.pixels() * shape.taps()).saturating_sub(shape.input_pixels());
    let beyond = (2 * pixels * shape.channels * shape.groups) as f64 / DRAM;
    let [_, columns] = tiled.form.tile.shape();
    let padded = Shape {
        channels: shape.channels.next_multiple_of(tiled.form.channels),
        filters: shape.filters.next_multiple_of(columns),
        ..*shape
    };
    let products = padded.flops() as f64 / PRODUCTS + 3.0;
    tiled
        .microseconds
        .min((tiled.microseconds - beyond).max(products) * 1.1)
}

impl Way {
    /// That with the least time; none where no kernel reaches all pixels.
    pub(super) fn best(
        asked: &Shape,
        is_gradient: bool,
        aligned: Aligned,
        products: &Products,
    ) -> Option<Way> {
        let of = |merged| Way::of_merged(asked, is_gradient, merged, (aligned, products));
        let depthwise = Way::depthwise(asked, is_gradient, aligned);
        let ways = asked.mergers().flat_map(of).chain(depthwise);
        // What has lines of too many elements for a copy is refused, if there is no other way.
        let order = |way: &Way| (way.check_lines().is_err(), way.microseconds);
        ways.min_by(|x, y| order(x).partial_cmp(&order(y)).expect("times are numbers"))
    }

    /// Those of so many groups as one.
    fn of_merged(
        asked: &Shape,
        is_gradient: bool,
        merged: usize,
        (aligned, products): (Aligned, &Products),
    ) -> Vec<Way> {
        let of = asked.merged(merged);
        let [loaded, stored] = if is_gradient {
            [of.filters, of.channels]
        } else {
            [of.channels, of.filters]
        };
        // What has several groups is not copied.
        let is_whole = loaded.is_multiple_of(UNIT) && aligned.image;
        let are_whole = loaded.is_multiple_of(16) && stored.is_multiple_of(UNIT);
        if of.groups > 1 && !(are_whole && aligned.all()) {
            return Vec::new();
        }
        let way = Way {
            asked: *asked,
            is_gradient,
            merged,
            algorithm: Algorithm::Implicit {
                loaded: if is_whole {
                    Loaded::InPlace
                } else {
                    Loaded::Padded
                },
                launches: Vec::new(),
            },
            copies: Copies {
                filters: merged > 1 || !aligned.filters || !of.channels.is_multiple_of(UNIT),
                result: !stored.is_multiple_of(UNIT) || !aligned.result,
                zeros: false,
            },
            microseconds: 0.0,
        };
        let mut ways = Vec::new();
        ways.extend(way.clone().by_product(&of, products));
        if is_gradient {
            ways.extend(way.gradient(&of));
            return ways;
        }
        ways.extend(way.clone().forward(&padded(&of)));
        if !is_whole {
            let lines = in_lines(&of).and_then(|(shape, loaded)| way.in_lines(&shape, loaded));
            ways.extend(lines);
        }
        ways
    }

    /// A forward pass through im2col maps.
    fn forward(mut self, shape: &Shape) -> Option<Way> {
        let tiled = Tiled::best(shape, false, false)?;
        if let Algorithm::Implicit { launches, .. } = &mut self.algorithm {
            launches.push((Residue::whole(shape), tiled));
        }
        self.microseconds = implicit_us(shape, &tiled) + self.copies_us();
        Some(self)
    }

    fn in_lines(mut self, shape: &Shape, loaded: Loaded) -> Option<Way> {
        self.algorithm = Algorithm::Implicit {
            loaded,
            launches: Vec::new(),
        };
        self.copies.filters = true;
        self.forward(shape)
    }

    /// The gradient of an image, with strides of 1 by one launch.
    fn gradient(mut self, of: &Shape) -> Option<Way> {
        let are_apart = of.has_strides();
        let stored = Shape {
            channels: of.channels.next_multiple_of(UNIT),
            filters: of.filters.next_multiple_of(UNIT),
            ..*of
        };
        let mut launches = Vec::new();
        for residue in Residue::of_gradient(&stored) {
            let tiled = Tiled::best(&residue.shape, true, are_apart)?;
            self.microseconds += implicit_us(&residue.shape, &tiled);
            launches.push((residue, tiled));
        }
        self.microseconds += LAUNCH * launches.len().saturating_sub(1) as f64;
        let reached = launches.iter().map(|(residue, _)| residue.shape.pixels());
        self.copies.zeros = reached.sum::<usize>() < of.input_pixels();
        if let Algorithm::Implicit { launches: all, .. } = &mut self.algorithm {
            *all = launches;
        }
        self.microseconds += self.copies_us();
        Some(self)
    }

    /// Of groups of one channel and one filter.
    fn depthwise(asked: &Shape, is_gradient: bool, aligned: Aligned) -> Option<Way> {
        if !is_depthwise(asked) || !aligned.image || !aligned.result {
            return None;
        }
        let residues = if is_gradient {
            Residue::of_gradient(asked)
        } else {
            vec![Residue::whole(asked)]
        };
        let mut way = Way {
            asked: *asked,
            is_gradient,
            merged: 1,
            algorithm: Algorithm::Depthwise {
                launches: Vec::new(),
            },
            copies: Copies::default(),
            microseconds: 0.0,
        };
        let mut launches = Vec::new();
        for residue in residues {
            let launch = Depthwise::of(&residue.shape)?;
            way.microseconds += launch.microseconds;
            launches.push((residue, launch));
        }
        let reached = launches.iter().map(|(residue, _)| residue.shape.pixels());
        way.copies.zeros = is_gradient && reached.sum::<usize>() < asked.input_pixels();
        way.algorithm = Algorithm::Depthwise { launches };
        way.microseconds += way.copies_us();
        Some(way)
    }

    /// A product of matrices: of pixels, or of what lies under the filters at each pixel of the result.
    fn by_product(mut self, of: &Shape, products: &Products) -> Option<Way> {
        let [pixels, depth] = [of.pixels(), of.channels * of.taps()];
        if of.groups > 1 {
            return None;
        }
        let patches = match (of.is_product(), self.is_gradient) {
            (true, _) => None,
            (false, false) => Some(Patches::of(of)),
            (false, true) => Some(Patches::apart(of)?),
        };
        let size = if self.is_gradient {
            [pixels, depth, of.filters]
        } else {
            [pixels, of.filters, depth]
        };
        let need = need_of(size, [false, self.is_gradient]);
        if !need.is_countable() {
            return None;
        }
        self.microseconds = products.planned(need).plan.microseconds;
        self.copies = Copies {
            filters: self.merged > 1,
            ..Copies::default()
        };
        if let Some(patches) = &patches {
            let rows = patches_us(pixels * patches.row);
            self.microseconds += if self.is_gradient {
                patches_us(of.input_pixels() * of.channels)
            } else {
                rows
            };
        }
        self.algorithm = Algorithm::Product { size, patches };
        self.microseconds += self.copies_us();
        Some(self)
    }

    /// Channels of a pixel of the tensor that is loaded, and of the one that is stored.
    pub(super) fn channels(&self) -> [usize; 2] {
        let Shape {
            channels,
            filters,
            groups,
            ..
        } = self.asked;
        let both = [channels * groups, filters * groups];
        if self.is_gradient {
            [both[1], both[0]]
        } else {
            both
        }
    }

    /// Microseconds of what is copied.
    fn copies_us(&self) -> f64 {
        let [loaded, stored] = self.channels();
        let [inputs, outputs] = [self.asked.input_pixels(), self.asked.pixels()];
        let [of_image, of_result] = if self.is_gradient {
            [outputs * loaded, inputs * stored]
        } else {
            [inputs * loaded, outputs * stored]
        };
        let is_image_copied = matches!(
            self.algorithm,
            Algorithm::Implicit {
                loaded: Loaded::Padded | Loaded::Lines { .. },
                ..
            }
        );
        let copies = [
            (is_image_copied, of_image),
            (self.copies.filters, self.asked.of_filters() * self.merged),
            (self.copies.result, of_result),
        ];
        let copied = copies.into_iter().filter(|(is_copied, _)| *is_copied);
        let copied = copied.map(|(_, elements)| LAUNCH + COPIED * elements as f64);
        let filled = if self.copies.zeros {
            LAUNCH + FILLED * of_result as f64
        } else {
            0.0
        };
        copied.sum::<f64>() + filled
    }

    /// Lines of the image and of the result, if they are copied, and those of the copies.
    pub(super) fn check_lines(&self) -> Result<()> {
        let [loaded, stored] = self.channels();
        let [_, _, wide] = self.asked.along;
        let ([image, result], [of_image, of_result]) = if self.is_gradient {
            (["dy", "dx"], [wide.output, wide.input])
        } else {
            (["x", "y"], [wide.input, wide.output])
        };
        let length = match &self.algorithm {
            Algorithm::Implicit { loaded: way, .. } => match way {
                Loaded::InPlace => 0,
                Loaded::Padded => of_image.saturating_mul(loaded.next_multiple_of(UNIT)),
                Loaded::Lines { length, .. } => (*length).max(of_image.saturating_mul(loaded)),
            },
            Algorithm::Depthwise { .. } => 0,
            Algorithm::Product { patches, .. } => patches.as_ref().map_or(0, |patches| {
                let of_image = wide.input.saturating_mul(self.asked.channels * self.merged);
                of_image.max(wide.output.saturating_mul(patches.row))
            }),
        };
        check_line(image, length)?;
        if !self.copies.result {
            return Ok(());
        }
        let stored = stored.next_multiple_of(UNIT);
        check_line(result, of_result.saturating_mul(stored))
    }
}
