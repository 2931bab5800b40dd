//! Launches of gradients of filters.

use std::any::TypeId;

use tilekit::prelude::*;
use tilekit::{Argument, Buffer};

use super::call::{Convolutions, Pixel};
use super::check::begins_whole;
use super::copies::{Lines, begin_of, whole};
use super::depthwise_filters::{DepthwiseFilters, depthwise_filters};
use super::error::Result;
use super::filters::{
    ADDED, GATHERED, add_parts, adding, filter_gradient, gather_parts, with_added,
};
use super::filters_call::{FilterAlgorithm, FilterWay, Gathered};
use super::filters_plan::FilterPlan;
use super::launch::{DepthwiseFiltersHandles, FilterHandles, of_depthwise_filters, of_walk};
use super::patches::Patches;
use super::shape::{Shape, UNIT};
use super::sizes::View;
use super::ways::Loaded;
use crate::products::workspace::{Role, workspace};

impl FilterWay {
    /// Lines of the image for its copy, if there is one.
    fn lines_of_image(&self, loaded: Loaded) -> Option<Lines> {
        let [deep, high, wide] = self.asked.along;
        let (count, channels) = (
            self.asked.images * deep.input * high.input,
            self.asked.channels * self.asked.groups,
        );
        match loaded {
            Loaded::InPlace => None,
            Loaded::Padded => {
                let to = channels.next_multiple_of(UNIT);
                Some(Lines::of(count, wide.input, [channels, to]))
            }
            Loaded::Lines {
                channels: to,
                length,
            } => Some(Lines {
                to: [length, to],
                before: -wide.lower,
                ..Lines::of(count, wide.input, [channels, to])
            }),
        }
    }

    /// Lines of the gradient of the result for its copy.
    fn lines_of_dy(&self) -> Lines {
        let [deep, high, wide] = self.asked.along;
        let count = self.asked.images * deep.output * high.output;
        let filters = self.asked.filters * self.asked.groups;
        let to = filters.next_multiple_of(UNIT);
        Lines::of(count, wide.output, [filters, to])
    }
}

impl Convolutions {
    pub(super) fn run_filters<T: Pixel>(
        &self,
        stream: &Stream,
        way: &FilterWay,
        [x, dy, dfilters]: [&View<'_, T>; 3],
    ) -> Result<()> {
        let _turn = stream.turn();
        let (shape, loaded, is_dy_copied, plan, gathered) = match way.algorithm {
            FilterAlgorithm::Zeros => {
                let parts = workspace::<f32>(stream, Role::Result, 1)?;
                return self.add(stream, &parts, dfilters, [0, way.asked.of_filters()]);
            }
            FilterAlgorithm::Depthwise(depthwise) => {
                return self.one_by_one_filters(stream, (way, &depthwise), [x, dy, dfilters]);
            }
            FilterAlgorithm::Product { size, patches } => {
                return self.multiply_filters(stream, way, (size, patches), [x, dy, dfilters]);
            }
            FilterAlgorithm::Sums {
                shape,
                loaded,
                is_dy_copied,
                plan,
                gathered,
            } => (shape, loaded, is_dy_copied, plan, gathered),
        };
        let image = match way.lines_of_image(loaded) {
            None => None,
            Some(lines) => Some(self.copied(stream, Role::X, x, lines)?),
        };
        let gradient = if is_dy_copied {
            Some(self.copied(stream, Role::Y, dy, way.lines_of_dy())?)
        } else {
            None
        };
        let image = image.as_deref().map_or_else(|| begin_of(x), whole);
        let image = match loaded {
            Loaded::Lines { channels, length } => {
                let [_, high, wide] = shape.along;
                let step = way.asked.along[2].stride * channels;
                shape.lines(image, [high.input * length, length, step], wide.input)
            }
            Loaded::InPlace | Loaded::Padded => shape.image(image),
        };
        let filters = shape.filters * shape.groups;
        let gradient = gradient.as_deref().map_or_else(|| begin_of(dy), whole);
        let gradient = gradient.with_shape([shape.pixels(), filters]);
        let maps = (&image, &gradient);
        if plan.parts == 1 && gathered.is_none() && begins_whole(dfilters) {
            return self.sum_pixels(stream, (&shape, &plan), maps, dfilters);
        }
        let parts = workspace::<f32>(stream, Role::Result, plan.parts * shape.of_filters())?;
        self.sum_pixels(stream, (&shape, &plan), maps, &*parts)?;
        match gathered {
            None => {
                let counts = [plan.parts, shape.of_filters()];
                self.add(stream, &parts, dfilters, counts)
            }
            Some(gathered) => {
                let counts = [plan.parts, shape.of_filters()];
                self.gather(stream, (way, gathered), (&*parts, counts), dfilters)
            }
        }
    }

    /// The sums of all parts, one after the other from the beginning of `out`.
    fn sum_pixels<T: Pixel, O: Numeric + DeviceElement>(
        &self,
        stream: &Stream,
        (shape, plan): (&Shape, &FilterPlan),
        (image, gradient): (&View<'_, T>, &View<'_, T>),
        out: impl Argument<Ptr<O>>,
    ) -> Result<()> {
        let key = (
            TypeId::of::<(T, O)>(),
            format!("filter_gradient {}", plan.form),
        );
        let compile =
            || fixed(filter_gradient::<T, O>, plan.form).compile(self.products().compiler());
        let kernel = self
            .products()
            .named_programmatic::<FilterHandles<T, O>>(key, compile)?;
        let arguments = of_walk(shape, (image, gradient, out), plan.parts);
        kernel.launch(stream, grid(plan.programs), arguments)?;
        Ok(())
    }

    /// What so many parts of so many elements add up to; zeros of none.
    fn add<T: Pixel>(
        &self,
        stream: &Stream,
        parts: &Buffer<f32>,
        dfilters: &View<'_, T>,
        [count, length]: [usize; 2],
    ) -> Result<()> {
        let number = adding(count);
        let [elements, at_once] = ADDED[number];
        let key = (TypeId::of::<T>(), format!("add_parts {at_once}"));
        let compiler = self.products().compiler();
        let compile = || with_added!(number, T, kernel => kernel.compile(compiler));
        let kernel = self.products().named_programmatic(key, compile)?;
        let blocks = length.div_ceil(elements);
        let arguments = (parts, dfilters, count as i32, length as i32);
        kernel.launch(stream, grid(blocks), arguments)?;
        Ok(())
    }

    /// The same of sums that lie otherwise.
    fn gather<T: Pixel, P: Float + DeviceElement>(
        &self,
        stream: &Stream,
        (way, of): (&FilterWay, Gathered),
        (parts, [count, part]): (&Buffer<P>, [usize; 2]),
        dfilters: &View<'_, T>,
    ) -> Result<()> {
        let key = (TypeId::of::<(T, P)>(), "gather_parts".to_owned());
        let compile = || gather_parts::<T, P>.compile(self.products().compiler());
        let kernel = self.products().named_programmatic(key, compile)?;
        let (asked, [deep, high, wide]) = (&way.asked, way.asked.along);
        let length = asked.of_filters();
        let arguments = (
            parts,
            dfilters,
            count as i32,
            part as i64,
            length as i32,
            asked.channels as i32,
            wide.taps as i32,
            (deep.taps * high.taps) as i32,
            of.filter as i32,
            of.line as i32,
            of.tap as i32,
            asked.filters as i32,
            way.merged as i32,
        );
        kernel.launch(stream, grid(length.div_ceil(GATHERED)), arguments)?;
        Ok(())
    }

    /// Sums of channels one by one.
    fn one_by_one_filters<T: Pixel>(
        &self,
        stream: &Stream,
        (way, of): (&FilterWay, &DepthwiseFilters),
        [x, dy, dfilters]: [&View<'_, T>; 3],
    ) -> Result<()> {
        let length = way.asked.of_filters();
        let parts = workspace::<f32>(stream, Role::Result, of.parts * length)?;
        let key = (TypeId::of::<T>(), format!("depthwise_filters {}", of.form));
        let compile = || fixed(depthwise_filters::<T>, of.form).compile(self.products().compiler());
        let kernel = self
            .products()
            .named_programmatic::<DepthwiseFiltersHandles<T>>(key, compile)?;
        let arguments = of_depthwise_filters(&way.asked, (x, dy, &*parts), of.parts);
        kernel.launch(stream, grid(of.programs), arguments)?;
        self.add(stream, &parts, dfilters, [of.parts, length])
    }

    /// A product of matrices: filters by pixels, by channels or what lies under the filters.
    fn multiply_filters<T: Pixel>(
        &self,
        stream: &Stream,
        way: &FilterWay,
        ([m, n, k], patches): ([usize; 3], Option<Patches>),
        [x, dy, dfilters]: [&View<'_, T>; 3],
    ) -> Result<()> {
        let rows = match &patches {
            None => None,
            Some(patches) => Some((self.gathered(stream, x, patches, k)?, patches.row)),
        };
        let a = begin_of(dy).with_shape([m, k]).with_strides([1, m]);
        let b = match &rows {
            None => begin_of(x).with_shape([k, n]),
            Some((rows, row)) => whole(rows).with_shape([k, n]).with_strides([*row, 1]),
        };
        let options = crate::products::Options::default();
        if way.merged == 1 {
            let c = begin_of(dfilters).with_shape([m, n]);
            return self.products().call_in_turn(stream, [&a, &b], &c, &options);
        }
        // Those of a group's filters for its own channels are the gradient.
        let row = n.next_multiple_of(UNIT);
        let sums = workspace::<T>(stream, Role::Filters, m * row)?;
        let c = whole(&sums).with_shape([m, n]).with_strides([row, 1]);
        self.products()
            .call_in_turn(stream, [&a, &b], &c, &options)?;
        let channels = way.asked.channels * way.merged;
        let gathered = Gathered {
            filter: row,
            line: way.asked.along[2].taps * channels,
            tap: channels,
        };
        self.gather(stream, (way, gathered), (&*sums, [1, 0]), dfilters)
    }
}
