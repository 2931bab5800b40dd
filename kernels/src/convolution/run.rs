//! Launches of forward passes and of gradients of images.

use std::any::TypeId;
use std::sync::Arc;

use tilekit::Buffer;
use tilekit::prelude::*;

use super::call::{Convolutions, Pixel};
use super::copies::{Lines, begin_of, whole};
use super::depthwise::{Depthwise, places_of};
use super::error::Result;
use super::implicit::{convolve, convolve_apart};
use super::launch::{
    ApartHandles, DepthwiseHandles, Handles, arguments, of_depthwise, of_pixels_apart,
};
use super::options::Options;
use super::patches::Patches;
use super::plan::Tiled;
use super::residue::Residue;
use super::shape::{Shape, UNIT};
use super::sizes::View;
use super::ways::{Algorithm, Loaded, Way};
use crate::products::epilogue::{Axis, Epilogue, Plain};
use crate::products::output_handles::NoOutputs;
use crate::products::workspace::{Role, workspace};

/// Tensors of a call as they are loaded and stored.
struct Tensors<'v, T: DeviceElement> {
    image: View<'v, T>,
    filters: View<'v, T>,
    result: View<'v, T>,
}

/// The image, or its copy, as it is loaded.
fn image_of<'v, T: DeviceElement>(
    way: &Way,
    shape: &Shape,
    loaded: Loaded,
    view: View<'v, T>,
) -> View<'v, T> {
    let Loaded::Lines { channels, length } = loaded else {
        return shape.image(view);
    };
    let [_, high, wide] = shape.along;
    let step = way.asked.along[2].stride * channels;
    shape.lines(view, [high.input * length, length, step], wide.input)
}

impl Way {
    /// The channels of filters as they are loaded, those of all merged groups.
    fn channels_of_filters(&self) -> usize {
        let channels = self.asked.channels * self.merged;
        match self.algorithm {
            Algorithm::Implicit { .. } => channels.next_multiple_of(UNIT),
            Algorithm::Depthwise { .. } | Algorithm::Product { .. } => channels,
        }
    }

    /// Lines of the image for its copy, if there is one.
    fn lines_of_image(&self) -> Option<Lines> {
        let Algorithm::Implicit { loaded, .. } = self.algorithm else {
            return None;
        };
        let [channels, _] = self.channels();
        let [deep, high, wide] = self.asked.along;
        let [planes, rows, pixels] = [deep, high, wide].map(|along| {
            if self.is_gradient {
                along.output
            } else {
                along.input
            }
        });
        let count = self.asked.images * planes * rows;
        match loaded {
            Loaded::InPlace => None,
            Loaded::Padded => {
                let to = channels.next_multiple_of(UNIT);
                Some(Lines::of(count, pixels, [channels, to]))
            }
            Loaded::Lines {
                channels: to,
                length,
            } => Some(Lines {
                to: [length, to],
                before: -wide.lower,
                ..Lines::of(count, pixels, [channels, to])
            }),
        }
    }

    /// Lines of the filters for their copy, if there is one.
    fn lines_of_filters(&self) -> Option<Lines> {
        if !self.copies.filters {
            return None;
        }
        let Algorithm::Implicit {
            loaded: Loaded::Lines { channels, .. },
            ..
        } = self.algorithm
        else {
            let channels = self.channels_of_filters();
            return Some(Lines::of_filters(&self.asked, self.merged, channels));
        };
        let lines = Lines::of_filters(&self.asked, self.merged, channels);
        let [length, _] = lines.to;
        Some(Lines {
            to: [length.next_multiple_of(UNIT), channels],
            ..lines
        })
    }

    /// Lines of the result, as it is stored with these channels.
    fn lines_of_result(&self, [from, to]: [usize; 2]) -> Lines {
        let [deep, high, wide] = self.asked.along;
        let [planes, rows, pixels] = [deep, high, wide].map(|along| {
            if self.is_gradient {
                along.input
            } else {
                along.output
            }
        });
        Lines::of(self.asked.images * planes * rows, pixels, [from, to])
    }
}

impl Convolutions {
    /// Of an image, or the gradient of a result, of filters and of what is stored.
    pub(super) fn run<T: Pixel, E: Epilogue<T, Outputs = NoOutputs>>(
        &self,
        stream: &Stream,
        way: &Way,
        views: [&View<'_, T>; 3],
        options: &Options<'_, T>,
        epilogue: E,
    ) -> Result<()> {
        let [x, filters, y] = views;
        let _turn = stream.turn();
        let of_filters = match way.lines_of_filters() {
            None => None,
            Some(lines) => Some(self.copied(stream, Role::Filters, filters, lines)?),
        };
        let of_filters = of_filters.as_deref();
        let filters = of_filters.map_or_else(|| begin_of(filters), whole);
        match &way.algorithm {
            Algorithm::Product { size, patches } => {
                let views = [x, &filters, y];
                self.multiply(stream, (way, *size, patches.as_ref()), views, options)
            }
            Algorithm::Depthwise { launches } => {
                let views = [x, &filters, y];
                self.run_depthwise(stream, (way, launches), views, options, epilogue)
            }
            Algorithm::Implicit { loaded, launches } => {
                let of = (way, *loaded, launches.as_slice());
                self.run_implicit(stream, of, [x, &filters, y], options, epilogue)
            }
        }
    }

    /// Launches for channels one by one.
    fn run_depthwise<T: Pixel, E: Epilogue<T, Outputs = NoOutputs>>(
        &self,
        stream: &Stream,
        (way, launches): (&Way, &[(Residue, Depthwise)]),
        [x, filters, y]: [&View<'_, T>; 3],
        options: &Options<'_, T>,
        epilogue: E,
    ) -> Result<()> {
        if way.copies.zeros {
            let [_, channels] = way.channels();
            let count = way.asked.input_pixels() * channels;
            self.fill(stream, &begin_of(y), count)?;
        }
        launches.iter().try_for_each(|launch| {
            self.one_by_one(stream, (way, launch), [x, filters, y], options, epilogue)
        })
    }

    /// Launches through im2col maps, of filters as they are loaded.
    fn run_implicit<T: Pixel, E: Epilogue<T, Outputs = NoOutputs>>(
        &self,
        stream: &Stream,
        (way, loaded, launches): (&Way, Loaded, &[(Residue, Tiled)]),
        [x, filters, y]: [&View<'_, T>; 3],
        options: &Options<'_, T>,
        epilogue: E,
    ) -> Result<()> {
        let image = match way.lines_of_image() {
            None => None,
            Some(lines) => Some(self.copied(stream, Role::X, x, lines)?),
        };
        let room = result_of(stream, way)?;
        let tensors = Tensors {
            image: image.as_deref().map_or_else(|| begin_of(x), whole),
            filters: filters.clone(),
            result: room.as_deref().map_or_else(|| begin_of(y), whole),
        };
        let [_, stored] = way.channels();
        let pitch = if room.is_some() {
            stored.next_multiple_of(UNIT)
        } else {
            stored
        };
        if way.copies.zeros {
            let count = way.asked.input_pixels() * pitch;
            self.fill(stream, &tensors.result, count)?;
        }
        for launch in launches {
            let of = (way, loaded, launch);
            self.launch(stream, of, (&tensors, pitch), (y, options), epilogue)?;
        }
        let Some(room) = &room else { return Ok(()) };
        let lines = way.lines_of_result([pitch, stored]);
        self.pad(stream, &whole(room), y, lines)
    }

    /// One launch through im2col maps.
    fn launch<T: Pixel, E: Epilogue<T, Outputs = NoOutputs>>(
        &self,
        stream: &Stream,
        (way, loaded, (residue, tiled)): (&Way, Loaded, &(Residue, Tiled)),
        (tensors, pitch): (&Tensors<'_, T>, usize),
        (y, options): (&View<'_, T>, &Options<'_, T>),
        epilogue: E,
    ) -> Result<()> {
        let image = image_of(way, &residue.shape, loaded, tensors.image.clone());
        let of_filters = [
            way.asked.filters * way.asked.groups,
            way.asked.taps(),
            way.channels_of_filters(),
        ];
        let of_filters = match loaded {
            Loaded::Lines { .. } => [of_filters[0], residue.shape.taps(), residue.shape.channels],
            Loaded::InPlace | Loaded::Padded => of_filters,
        };
        let filters = Shape::taps_of(tensors.filters.clone(), of_filters);
        let nothing = workspace::<f32>(stream, Role::Nothing, 1)?;
        if way.is_gradient && way.asked.has_strides() {
            let strides = way.asked.along.map(|along| along.stride);
            let inputs = way.asked.along.map(|along| along.input);
            let result = residue.stored_apart(tensors.result.clone(), (inputs, strides), pitch);
            let maps = (&image, &filters, &result);
            return self.launch_apart(stream, (residue, tiled), maps, (y.source(), &nothing));
        }
        let of_group = pitch / residue.shape.groups;
        let result = residue.shape.result(tensors.result.clone(), of_group);
        let form = tiled.form;
        let key = (
            TypeId::of::<(T, E)>(),
            format!("convolve {} {}", form.with(Plain), epilogue.name()),
        );
        let compile = || {
            let form = form.with(epilogue);
            fixed(convolve::<T, T, E>, form).compile(self.products().compiler())
        };
        let kernel = self.products().named::<Handles<T>>(key, compile)?;
        let numbers = (
            options.beta,
            options.source.unwrap_or(y),
            options.bias.unwrap_or(y.source()),
            options.scales.unwrap_or(&nothing),
        );
        let arguments = arguments(residue, (&image, &filters, &result), numbers);
        kernel.launch(stream, grid(tiled.programs), arguments)?;
        Ok(())
    }

    /// One launch for pixels that lie apart.
    fn launch_apart<T: Pixel>(
        &self,
        stream: &Stream,
        (residue, tiled): (&Residue, &Tiled),
        maps: (&View<'_, T>, &View<'_, T>, &View<'_, T>),
        nothing: (&Buffer<T>, &Buffer<f32>),
    ) -> Result<()> {
        let form = tiled.form.with(Plain);
        let key = (TypeId::of::<T>(), format!("convolve_apart {form}"));
        let compile = || fixed(convolve_apart::<T, T>, form).compile(self.products().compiler());
        let kernel = self
            .products()
            .named_programmatic::<ApartHandles<T>>(key, compile)?;
        let arguments = of_pixels_apart(residue, maps, nothing);
        kernel.launch(stream, grid(tiled.programs), arguments)?;
        Ok(())
    }

    /// One launch for channels one by one.
    fn one_by_one<T: Pixel, E: Epilogue<T, Outputs = NoOutputs>>(
        &self,
        stream: &Stream,
        (way, (residue, depthwise)): (&Way, &(Residue, Depthwise)),
        [x, filters, y]: [&View<'_, T>; 3],
        options: &Options<'_, T>,
        epilogue: E,
    ) -> Result<()> {
        let extents = if way.is_gradient {
            (
                way.asked.along.map(|along| along.input),
                way.asked.along.map(|along| along.stride),
            )
        } else {
            (way.asked.along.map(|along| along.output), [1; 3])
        };
        let (first, apart) = places_of(residue, extents, way.asked.groups);
        let out = y.source().view([1]).with_offset(y.place().offset + first);
        let nothing = workspace::<f32>(stream, Role::Nothing, 1)?;
        let form = depthwise.form;
        let key = (
            TypeId::of::<(T, E)>(),
            format!("depthwise {} {}", form.with(Plain), epilogue.name()),
        );
        let compile = || {
            let form = form.with(epilogue);
            fixed(super::depthwise::depthwise::<T, E>, form).compile(self.products().compiler())
        };
        let kernel = self.products().named::<DepthwiseHandles<T>>(key, compile)?;
        let numbers = (
            options.beta,
            options.source.unwrap_or(y),
            options.bias.unwrap_or(y.source()),
            options.scales.unwrap_or(&nothing),
        );
        let of = (residue, way.asked.taps());
        let arguments = of_depthwise(of, (x, filters, &out), apart, numbers);
        kernel.launch(stream, grid(depthwise.programs), arguments)?;
        Ok(())
    }

    /// A product of matrices.
    fn multiply<T: Pixel>(
        &self,
        stream: &Stream,
        (way, [m, n, k], patches): (&Way, [usize; 3], Option<&Patches>),
        [x, filters, y]: [&View<'_, T>; 3],
        options: &Options<'_, T>,
    ) -> Result<()> {
        if let (true, Some(patches)) = (way.is_gradient, patches) {
            let rows = workspace::<T>(stream, Role::Patches, m * patches.row)?;
            let a = begin_of(x).with_shape([m, k]);
            let b = filters.clone().with_shape([k, n]);
            let c = whole(&rows).with_shape([m, n]);
            let c = c.with_strides([patches.row, 1]);
            let plain = crate::products::Options::default();
            self.products().call_in_turn(stream, [&a, &b], &c, &plain)?;
            return self.scattered(stream, y, patches, &rows);
        }
        let rows = match patches {
            None => None,
            Some(patches) => Some((self.gathered(stream, x, patches, m)?, patches.row)),
        };
        let a = match &rows {
            None => begin_of(x).with_shape([m, k]),
            Some((rows, row)) => whole(rows).with_shape([m, k]).with_strides([*row, 1]),
        };
        let b = filters.clone().with_shape([k, n]);
        let b = if way.is_gradient {
            b
        } else {
            b.with_strides([1, k])
        };
        let c = begin_of(y).with_shape([m, n]);
        let source = options
            .source
            .map(|source| begin_of(source).with_shape([m, n]));
        let options = crate::products::Options {
            beta: options.beta,
            source: source.as_ref(),
            b_scales: options.scales,
            bias: options.bias.map(|bias| (bias, Axis::Columns)),
            activation: options.activation,
            ..crate::products::Options::default()
        };
        self.products().call_in_turn(stream, [&a, &b], &c, &options)
    }
}

/// Where a result is stored before it is copied, if it is. Where a source is the result itself, it is read from where it lies.
fn result_of<T: Pixel>(stream: &Stream, way: &Way) -> Result<Option<Arc<Buffer<T>>>> {
    if !way.copies.result {
        return Ok(None);
    }
    let [_, stored] = way.channels();
    let pixels = if way.is_gradient {
        way.asked.input_pixels()
    } else {
        way.asked.pixels()
    };
    let elements = pixels * stored.next_multiple_of(UNIT);
    Ok(Some(workspace::<T>(stream, Role::Result, elements)?))
}
