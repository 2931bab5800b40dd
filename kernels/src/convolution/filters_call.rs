//! How the gradient of filters is computed: in which groups, by im2col maps or as a product of matrices, and what is copied for that.

use tilekit::prelude::*;

use super::call_plan::CallPlan;
use super::check::{are_apart, begins_whole, check_count, has_sums_alone, out_of_reach};
use super::depthwise::is_depthwise;
use super::depthwise_filters::DepthwiseFilters;
use super::error::{Result, expect};
use super::filters::ADDED;
use super::filters_plan::FilterPlan;
use super::options::Options;
use super::pad::check_line;
use super::patches::{Patches, patches_us};
use super::shape::{Shape, UNIT};
use super::sizes::{Sizes, View, sizes_of};
use super::ways::{COPIED, LAUNCH, Loaded, in_lines};
use crate::products::Products;
use crate::products::need::Need;

/// Elements of the gradient of filters: the last program that adds parts has indices past the end, which fit an i32 too.
const MOST_SUMS: usize = (i32::MAX as usize + 1) - ADDED[0][0];

/// Where the sums of an element lie: elements from one filter, one line of taps and one tap to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gathered {
    pub(super) filter: usize,
    pub(super) line: usize,
    pub(super) tap: usize,
}

/// What computes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum FilterAlgorithm {
    /// There are no pixels.
    Zeros,
    /// Sums over pixels, of a convolution with these channels and filters.
    Sums {
        shape: Shape,
        loaded: Loaded,
        is_dy_copied: bool,
        plan: FilterPlan,
        /// Where sums lie that are not those of the gradient one by one.
        gathered: Option<Gathered>,
    },
    /// Sums of channels one by one.
    Depthwise(DepthwiseFilters),
    /// A product of matrices: filters by pixels by channels, or by what lies under the filters.
    Product {
        size: [usize; 3],
        patches: Option<Patches>,
    },
}

/// The gradient of filters that has been checked, and what computes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct FilterWay {
    pub(super) asked: Shape,
    /// How many groups become one.
    pub(super) merged: usize,
    pub(super) algorithm: FilterAlgorithm,
    microseconds: f64,
}

/// Whether the image and the gradient of the result begin at multiples of what maps take.
#[derive(Clone, Copy)]
struct Aligned {
    x: bool,
    dy: bool,
}

impl FilterWay {
    /// None where there are no filters.
    pub(super) fn check<T: DeviceElement>(
        [x, dy, dfilters]: [&View<'_, T>; 3],
        options: &Options<'_, T>,
        products: &Products,
    ) -> Result<Option<FilterWay>> {
        let views = [("x", x), ("dfilters", dfilters), ("dy", dy)];
        let Sizes { shape, .. } = sizes_of(views, options)?;
        are_apart(("dfilters", dfilters), [("x", x), ("dy", dy)])?;
        has_sums_alone(options)?;
        if shape.filters == 0 {
            return Ok(None);
        }
        check_count("x", shape.pixels())?;
        let numbers = shape.of_filters();
        expect(
            numbers <= MOST_SUMS,
            "dfilters",
            || format!("{numbers} elements"),
            format!("at most {MOST_SUMS}: indices have 32 bits"),
        )?;
        let aligned = Aligned {
            x: begins_whole(x),
            dy: begins_whole(dy),
        };
        let Some(way) = FilterWay::best(&shape, aligned, products) else {
            return out_of_reach("x", &shape);
        };
        way.check_lines()?;
        Ok(Some(way))
    }

    fn best(asked: &Shape, aligned: Aligned, products: &Products) -> Option<FilterWay> {
        if asked.pixels() == 0 {
            return Some(FilterWay {
                asked: *asked,
                merged: 1,
                algorithm: FilterAlgorithm::Zeros,
                microseconds: 0.0,
            });
        }
        let sums = |merged| FilterWay::of_merged(asked, merged, aligned);
        let ways = asked.mergers().flat_map(sums);
        let ways = ways.chain(FilterWay::by_product(asked, products));
        let ways = ways.chain(FilterWay::depthwise(asked, aligned));
        // What has lines of too many elements for a copy is refused, if there is no other way.
        let order = |way: &FilterWay| (way.check_lines().is_err(), way.microseconds);
        ways.min_by(|x, y| order(x).partial_cmp(&order(y)).expect("times are numbers"))
    }

    /// Sums over pixels, of so many groups as one.
    fn of_merged(asked: &Shape, merged: usize, aligned: Aligned) -> Vec<FilterWay> {
        let of = asked.merged(merged);
        let is_whole = aligned.x && of.channels.is_multiple_of(UNIT);
        let is_dy_copied = !aligned.dy || !of.filters.is_multiple_of(UNIT);
        // What has several groups is not copied.
        if of.groups > 1 && (!is_whole || is_dy_copied) {
            return Vec::new();
        }
        let stored = Shape {
            channels: of.channels.next_multiple_of(UNIT),
            filters: of.filters.next_multiple_of(UNIT),
            ..of
        };
        let pitch = stored.channels;
        let padded = Gathered {
            filter: stored.taps() * pitch,
            line: stored.along[2].taps * pitch,
            tap: pitch,
        };
        let loaded = if is_whole {
            Loaded::InPlace
        } else {
            Loaded::Padded
        };
        let mut shapes = vec![(stored, loaded, padded)];
        if !is_whole {
            shapes.extend(FilterWay::in_lines(&of));
        }
        let ways = shapes.into_iter().filter_map(|(shape, loaded, gathered)| {
            let plan = FilterPlan::best(&shape)?;
            let is_as_asked = shape == *asked;
            let copied = match loaded {
                Loaded::InPlace => 0.0,
                Loaded::Padded | Loaded::Lines { .. } => {
                    let elements = of.input_pixels() * of.channels;
                    LAUNCH + COPIED * elements as f64
                }
            };
            let of_dy = if is_dy_copied {
                LAUNCH + COPIED * (of.pixels() * of.filters) as f64
            } else {
                0.0
            };
            let of_sums = if is_as_asked {
                0.0
            } else {
                LAUNCH + COPIED * (plan.parts * asked.of_filters()) as f64
            };
            Some(FilterWay {
                asked: *asked,
                merged,
                algorithm: FilterAlgorithm::Sums {
                    shape,
                    loaded,
                    is_dy_copied,
                    plan,
                    gathered: (!is_as_asked).then_some(gathered),
                },
                microseconds: plan.microseconds + copied + of_dy + of_sums,
            })
        });
        ways.collect()
    }

    /// Lines whose taps are channels of one, as many as blocks are loaded of.
    fn in_lines(of: &Shape) -> Option<(Shape, Loaded, Gathered)> {
        let (shape, loaded) = in_lines(of)?;
        let Loaded::Lines { channels, length } = loaded else {
            return None;
        };
        let wide = of.along[2];
        let taken = shape.channels.next_multiple_of(UNIT);
        let last = (wide.output - 1).saturating_mul(wide.stride * channels);
        let end = last.saturating_add(taken).next_multiple_of(UNIT);
        let length = length.max(end);
        let gathered = Gathered {
            filter: shape.along[1].taps * taken,
            line: taken,
            tap: channels,
        };
        let shape = Shape {
            channels: taken,
            filters: shape.filters.next_multiple_of(UNIT),
            ..shape
        };
        Some((shape, Loaded::Lines { channels, length }, gathered))
    }

    /// Sums of channels one by one.
    fn depthwise(asked: &Shape, aligned: Aligned) -> Option<FilterWay> {
        if !is_depthwise(asked) || !aligned.x || !aligned.dy {
            return None;
        }
        let depthwise = DepthwiseFilters::of(asked)?;
        Some(FilterWay {
            asked: *asked,
            merged: 1,
            algorithm: FilterAlgorithm::Depthwise(depthwise),
            microseconds: depthwise.microseconds,
        })
    }

    /// A product of matrices, of all groups as one.
    fn by_product(asked: &Shape, products: &Products) -> Option<FilterWay> {
        let merged = asked.groups;
        let of = asked.merged(merged);
        let patches = (!of.is_product()).then(|| Patches::of(&of));
        let pixels = of.pixels();
        let size = [of.filters, of.channels * of.taps(), pixels];
        let need = Need::of_packed_16_bits(size);
        if !need.is_countable() {
            return None;
        }
        let gathering = patches.map_or(0.0, |patches| patches_us(pixels * patches.row));
        let of_sums = if merged > 1 {
            LAUNCH + COPIED * asked.of_filters() as f64
        } else {
            0.0
        };
        Some(FilterWay {
            asked: *asked,
            merged,
            algorithm: FilterAlgorithm::Product { size, patches },
            microseconds: products.planned(need).plan.microseconds + gathering + of_sums,
        })
    }

    /// Lines that are copied, and those of the copies.
    fn check_lines(&self) -> Result<()> {
        let [_, _, wide] = self.asked.along;
        let [channels, filters] =
            [self.asked.channels, self.asked.filters].map(|count| count * self.asked.groups);
        let [of_x, of_dy] = match self.algorithm {
            FilterAlgorithm::Zeros | FilterAlgorithm::Depthwise(_) => [0, 0],
            FilterAlgorithm::Product { patches, .. } => {
                let row = patches.map_or(0, |patches| patches.row);
                [wide.output.saturating_mul(row), 0]
            }
            FilterAlgorithm::Sums {
                loaded,
                is_dy_copied,
                ..
            } => {
                let of_x = match loaded {
                    Loaded::InPlace => 0,
                    Loaded::Padded => wide.input.saturating_mul(channels.next_multiple_of(UNIT)),
                    Loaded::Lines { length, .. } => length.max(wide.input.saturating_mul(channels)),
                };
                let of_dy = wide.output.saturating_mul(filters.next_multiple_of(UNIT));
                [of_x, if is_dy_copied { of_dy } else { 0 }]
            }
        };
        check_line("x", of_x)?;
        check_line("dy", of_dy)
    }

    pub(super) fn plan(&self) -> CallPlan {
        let [channels, filters] =
            [self.asked.channels, self.asked.filters].map(|count| count * self.asked.groups);
        let mut copies = Vec::new();
        if self.merged > 1 {
            copies.push(format!("{} groups are one", self.merged));
        }
        let kernel = match self.algorithm {
            FilterAlgorithm::Zeros => None,
            FilterAlgorithm::Depthwise(of) => Some(format!(
                "channels one by one, pixels divided by {}, {} CTAs",
                of.parts, of.programs
            )),
            FilterAlgorithm::Product { size, patches } => {
                let [m, n, k] = size;
                if let Some(patches) = patches {
                    copies.push(format!(
                        "`x` copied: what lies under the filters, {} numbers a pixel",
                        patches.row
                    ));
                }
                if self.merged > 1 {
                    copies.push("sums gathered into `dfilters`".to_owned());
                }
                Some(format!("a product of {m} x {n} x {k}"))
            }
            FilterAlgorithm::Sums {
                shape,
                loaded,
                is_dy_copied,
                plan,
                gathered,
            } => {
                match loaded {
                    Loaded::InPlace => {}
                    Loaded::Padded => copies.push(format!(
                        "`x` copied: {channels} channels, where {} are taken",
                        shape.channels
                    )),
                    Loaded::Lines { channels: of, .. } => copies.push(format!(
                        "`x` copied: {channels} channels, where the {} of a line of taps of {of} are taken",
                        shape.channels
                    )),
                }
                if is_dy_copied {
                    copies.push(if filters.is_multiple_of(UNIT) {
                        format!("`dy` copied: it begins between multiples of {UNIT} elements")
                    } else {
                        format!(
                            "`dy` copied: {filters} filters, where multiples of {UNIT} are taken"
                        )
                    });
                }
                if gathered.is_some() {
                    copies.push("sums gathered into `dfilters`".to_owned());
                }
                Some(plan.to_string())
            }
        };
        CallPlan { kernel, copies }
    }
}
