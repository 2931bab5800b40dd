//! Copies of tensors that no map takes as they lie, a line of pixels at a time.

use std::any::TypeId;
use std::sync::Arc;

use tilekit::Buffer;
use tilekit::prelude::*;

use super::call::{Convolutions, Pixel};
use super::error::Result;
use super::pad::{ELEMENTS, FILLED, fill, pad};
use super::patches::{Patches, gather_patches, scatter_patches};
use super::shape::Shape;
use super::sizes::View;
use crate::products::workspace::{Role, workspace};

/// Lines that are copied: how many, pixels and channels of one, elements and channels of its copy, and pixels of zeros before it. Channels of the lines of a group begin behind those of the group before,
/// of so many groups as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lines {
    pub(super) count: usize,
    pub(super) from: [usize; 2],
    pub(super) to: [usize; 2],
    pub(super) before: i64,
    pub(super) of_group: usize,
    pub(super) merged: usize,
}

impl Lines {
    /// Of lines of so many pixels, from so many channels each to others.
    pub(super) fn of(count: usize, pixels: usize, [from, to]: [usize; 2]) -> Lines {
        Lines {
            count,
            from: [pixels, from],
            to: [pixels * to, to],
            before: 0,
            of_group: 1,
            merged: 1,
        }
    }

    /// Of all filters of a shape, for so many groups as one of these channels.
    pub(super) fn of_filters(asked: &Shape, merged: usize, channels: usize) -> Lines {
        let [deep, high, wide] = asked.along;
        let of_filter = deep.taps * high.taps;
        Lines {
            of_group: asked.filters * of_filter,
            merged,
            ..Lines::of(
                asked.filters * asked.groups * of_filter,
                wide.taps,
                [asked.channels, channels],
            )
        }
    }

    /// Elements of the copy.
    pub(super) fn elements(&self) -> usize {
        self.count * self.to[0]
    }
}

/// What begins where a tensor without gaps does.
pub(super) fn begin_of<'v, T: DeviceElement>(view: &View<'v, T>) -> View<'v, T> {
    let place = view.place();
    let all = view.source().view(place.shape.as_slice());
    all.with_offset(place.offset)
}

/// All of a workspace.
pub(super) fn whole<T: DeviceElement>(room: &Buffer<T>) -> View<'_, T> {
    room.view([room.len()])
}

impl Convolutions {
    /// Lines of a tensor in a workspace.
    pub(super) fn copied<T: Pixel>(
        &self,
        stream: &Stream,
        role: Role,
        view: &View<'_, T>,
        lines: Lines,
    ) -> Result<Arc<Buffer<T>>> {
        let room = workspace::<T>(stream, role, lines.elements())?;
        self.pad(stream, view, &whole(&room), lines)?;
        Ok(room)
    }

    /// Zeros for so many elements, a multiple of 8.
    pub(super) fn fill<T: Pixel>(
        &self,
        stream: &Stream,
        to: &View<'_, T>,
        count: usize,
    ) -> Result<()> {
        let key = (TypeId::of::<T>(), "fill".to_owned());
        let compile = || fill::<T>.compile(self.products().compiler());
        let kernel = self.products().named(key, compile)?;
        let programs = count.div_ceil(FILLED);
        kernel.launch(stream, grid(programs), (to, count as i64))?;
        Ok(())
    }

    /// Copies lines.
    pub(super) fn pad<T: Pixel>(
        &self,
        stream: &Stream,
        from: &View<'_, T>,
        to: &View<'_, T>,
        lines: Lines,
    ) -> Result<()> {
        let key = (TypeId::of::<T>(), "pad".to_owned());
        let compile = || pad::<T>.compile(self.products().compiler());
        let kernel = self.products().named(key, compile)?;
        let [pixels, channels] = lines.from.map(|count| count as i32);
        let [length, to_channels] = lines.to.map(|count| count as i32);
        let blocks = lines.to[0].div_ceil(ELEMENTS);
        kernel.launch(
            stream,
            grid(lines.count * blocks),
            (
                from,
                pixels,
                channels,
                to,
                length,
                to_channels,
                lines.before as i32,
                lines.of_group as i32,
                lines.merged as i32,
            ),
        )?;
        Ok(())
    }

    /// The gradient of an image, from that of what lies under the filters.
    pub(super) fn scattered<T: Pixel>(
        &self,
        stream: &Stream,
        dx: &View<'_, T>,
        patches: &Patches,
        rows: &Buffer<T>,
    ) -> Result<()> {
        let key = (TypeId::of::<T>(), "scatter_patches".to_owned());
        let compile = || scatter_patches::<T>.compile(self.products().compiler());
        let kernel = self.products().named(key, compile)?;
        let from = whole(rows);
        let arguments = patches.arguments(dx, &from);
        kernel.launch(stream, grid(patches.programs_of_image()), arguments)?;
        Ok(())
    }

    /// What lies under the filters at each pixel of the result, in a workspace.
    pub(super) fn gathered<T: Pixel>(
        &self,
        stream: &Stream,
        x: &View<'_, T>,
        patches: &Patches,
        pixels: usize,
    ) -> Result<Arc<Buffer<T>>> {
        let rows = workspace::<T>(stream, Role::Patches, pixels * patches.row)?;
        let key = (TypeId::of::<T>(), "gather_patches".to_owned());
        let compile = || gather_patches::<T>.compile(self.products().compiler());
        let kernel = self.products().named(key, compile)?;
        let to = whole(&rows);
        let arguments = patches.arguments(x, &to);
        kernel.launch(stream, grid(patches.programs()), arguments)?;
        Ok(rows)
    }
}
