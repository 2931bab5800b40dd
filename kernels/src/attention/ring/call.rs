//! Ring attention as a program calls it: checks, memory that all ranks access, launches on all of them.

use std::any::TypeId;

use tilekit::prelude::*;

use super::check::{Tensors, check};
use super::options::RingOptions;
use super::plan::Need;
use super::send::row_of;
use super::table::{RingHandles, arguments, instances};
use crate::attention::call::View;
use crate::attention::plan::Tile;
use crate::attention::table::{Instance, Operand};
use crate::error::Result;
use crate::parallel::Parallel;

/// CTAs of a rank on the emulator.
const EMULATED: usize = 4;

impl Parallel<'_> {
    /// Attention of a sequence whose tokens are divided among the ranks: into `out` and `lse` of each rank the results of its queries, which attend to the keys of all.
    ///
    /// `[q, k, v]` and `out` have a view `[batch, heads, tokens, depth]` for each rank, of the same shapes on all; `tokens` are those of a rank. As for [`Attention`](crate::attention::Attention), rows are contiguous
    /// and other strides are multiples of 16 bytes, K and V may have fewer heads than Q, and depths are 64, 96, 128 and 256, and 192 with values of 128. `lse` is `[batch, heads, tokens]` of each rank. No rank's `out` may share elements with its q, k or
    /// v. Which tokens a rank has is [`RingOptions::placement`].
    ///
    /// Without a window, softcap and sinks, and for depths other than 96, one kernel sends K and V while it multiplies; else they are gathered first. Each rank keeps room for K and V of all others from the first call on, until the [`Parallel`] is dropped; a call that needs more than those before waits for the world. Keys are added up in an order that is fixed for each rank, so that results are bit-identical in every run. Launches go to the
    /// [streams](tilekit::World::stream) of the world and are not waited for.
    ///
    /// # Errors
    /// [`Error::Argument`](crate::attention::Error::Argument) names what does not fit, and its rank; otherwise what the devices have against it.
    ///
    /// ```
    /// use tilekit::prelude::*;
    /// use tilekit::{EmulatorOptions, World};
    /// use tilekit_kernels::attention::ring::{Placement, RingOptions};
    /// use tilekit_kernels::parallel::Parallel;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let world = World::emulators(2, EmulatorOptions::default())?; // or World::cuda(2)
    /// let parallel = Parallel::new(&world);
    /// let (shape, rows) = ([1, 1, 40, 64], 40);
    /// let ones = || -> tilekit::Result<Vec<Buffer<bf16>>> {
    ///     world.devices().iter().map(|device| Buffer::from_slice(device, &vec![bf16::ONE; rows * 64])).collect()
    /// };
    /// let (x, out) = (ones()?, ones()?);
    /// let lse: Vec<Buffer<f32>> = world.devices().iter().map(|device| Buffer::new(device, rows)).collect::<Result<_, _>>()?;
    /// let x: Vec<_> = x.iter().map(|x| x.view(shape)).collect();
    /// let of_out: Vec<_> = out.iter().map(|out| out.view(shape)).collect();
    /// let options = RingOptions { causal: true, placement: Placement::ZigZag, ..RingOptions::default() };
    /// parallel.ring_attention([&x, &x, &x], &of_out, &lse.iter().collect::<Vec<_>>(), &options)?;
    /// world.synchronize()?;
    /// assert!(out[1].to_vec()?.iter().all(|&x| x == bf16::ONE));
    /// // Rank 0 has tokens 0 to 19 and 60 to 79; the last one sees 80 keys with scores of 8.
    /// assert!((lse[0].to_vec()?[39] - (8.0 + 80_f32.ln())).abs() < 1e-4);
    /// # Ok(())
    /// # }
    /// ```
    pub fn ring_attention<T: Operand>(
        &self,
        qkv: [&[View<'_, T>]; 3],
        out: &[View<'_, T>],
        lse: &[&Buffer<f32>],
        options: &RingOptions<'_>,
    ) -> Result<()> {
        let tensors = Tensors { qkv, out, lse };
        let need = check(self.world.ranks(), tensors, options)?;
        let fits = |(_, instance): &(usize, Instance<RingHandles<T>>)| {
            instance.depths == need.sizes.depths && instance.is_causal == need.is_causal
        };
        let mut all = instances::<T>().into_iter().enumerate();
        match all.find(fits).filter(|_| options.are_fused()) {
            Some((index, instance)) => {
                self.attend_fused(&need, (index, &instance), tensors, options)
            }
            None => self.attend_gathered(&need, tensors, options),
        }
    }

    fn attend_fused<T: Operand>(
        &self,
        need: &Need,
        (index, instance): (usize, &Instance<RingHandles<T>>),
        Tensors { qkv, out, lse }: Tensors<'_, '_, T>,
        options: &RingOptions<'_>,
    ) -> Result<()> {
        let world = self.world;
        let ctas = self.ctas(need, instance.tile);
        let numbers = need.numbers(instance.tile, ctas);
        let memory = self.memory.of::<T>(world, need.shared(numbers.segment))?;
        let counters = self.memory.counters(world)?;
        let compile = || (instance.compile)(&self.compiler);
        let which = (TypeId::of::<T>(), format!("ring attention {index}"));
        let kernel = self
            .memory
            .kernel::<RingHandles<T>>(world, which, compile)?;
        let [received_k, received_v] = [0, 1].map(|side| need.received(side));
        let of_values = received_k.iter().product();
        let scale = options
            .scale
            .unwrap_or(1.0 / (need.sizes.depths[0] as f32).sqrt());
        kernel.enqueue(world, ctas, |rank| {
            let elements = memory.elements.part(rank);
            arguments!(
                [
                    in_chunks(&qkv[0][rank], need.chunks),
                    in_chunks(&qkv[1][rank], need.chunks),
                    in_chunks(&qkv[2][rank], need.chunks),
                    elements.view(received_k),
                    elements.view(received_v).with_offset(of_values),
                    in_pieces(&qkv[1][rank]),
                    in_pieces(&qkv[2][rank]),
                    in_chunks(&out[rank], need.chunks),
                    lse[rank],
                    counters.part(rank),
                    memory.elements.peers(rank),
                    memory.mailbox([rank, need.ranks], self.limit_of(rank)),
                ],
                rank,
                (need, numbers, instance.tile),
                scale * LOG2_E as f32
            )
        })?;
        Ok(())
    }

    /// CTAs of each rank: one for each multiprocessor, for all of them send. The emulator has no such limit, and a few are enough.
    fn ctas(&self, need: &Need, tile: Tile) -> usize {
        let devices = self.world.devices().iter();
        let fewest = devices.map(|device| device.facts().multiprocessors as usize);
        let fewest = fewest.min().unwrap_or(1);
        if self.world.devices().iter().all(Device::is_cuda) {
            fewest
        } else {
            need.numbers(tile, EMULATED).tiles.clamp(1, EMULATED)
        }
    }
}

/// The view with chunks of tokens as a dimension in front of them.
fn in_chunks<'a, T: DeviceElement>(view: &'a View<'_, T>, chunks: usize) -> View<'a, T> {
    let place = view.place();
    let [shape, strides] = extents_in_chunks(&place.shape, &place.strides, chunks);
    let view = view.source().view(shape).with_strides(strides);
    view.with_offset(place.offset)
}

/// The view for pieces that are sent.
fn in_pieces<'a, T: DeviceElement>(view: &'a View<'_, T>) -> View<'a, T> {
    let place = view.place();
    let [shape, strides] = extents_in_pieces(&place.shape, &place.strides);
    let view = view.source().view(shape).with_strides(strides);
    view.with_offset(place.offset)
}

/// Shape and strides of `[batch, heads, tokens, depth]` with rows as pieces have them.
pub(super) fn extents_in_pieces(shape: &[usize], strides: &[usize]) -> [[usize; 5]; 2] {
    let [outer, inner] = row_of(shape[3]);
    [
        [shape[0], shape[1], shape[2], outer, inner],
        [strides[0], strides[1], strides[2], inner, 1],
    ]
}

/// Shape and strides of `[batch, heads, tokens, depth]` with chunks of tokens as a dimension in front of them.
pub(super) fn extents_in_chunks(
    shape: &[usize],
    strides: &[usize],
    chunks: usize,
) -> [[usize; 5]; 2] {
    let tokens = shape[2] / chunks;
    [
        [shape[0], shape[1], chunks, tokens, shape[3]],
        [strides[0], strides[1], tokens * strides[2], strides[2], 1],
    ]
}
