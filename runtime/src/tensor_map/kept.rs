//! Tensor maps that are made once and passed to many launches.

use std::cell::RefCell;

use gluon_lang::lang;
use ir::TensorMapType;
use ptx::EncodedTensorMap;

use super::{TensorMapDescriptor, TensorSource, TensorView};
use crate::buffer::Buffer;
use crate::device::Device;
use crate::element::DeviceElement;
use crate::error::Result;
use crate::kernel::{Argument, Packing};

/// A view whose maps are made once: the first launch that takes it checks and encodes the map that its kernel wants, and later ones copy
/// it. Kernels that want different blocks of it have a map each. Where all arguments stay the same,
/// [`prepare`](crate::LoadedKernel::prepare) keeps the maps with them.
///
/// ```
/// # use tilekit::prelude::*;
/// # #[kernel(warps = 1)]
/// # fn scale(#[block([8, 32], Nvmma::PLAIN)] x: TensorMap<f32>, factor: f32) {
/// #     let tile = Smem::<f32>::alloc(x.block(), x.layout());
/// #     let full = Mbarrier::alloc(1);
/// #     full.expect(x.block_bytes());
/// #     x.load([0, 0], tile, full);
/// #     full.wait(0);
/// #     let layout = Blocked::new([8, 1], [1, 32], [1, 1], [1, 0]);
/// #     tile.store(tile.load(layout) * factor);
/// #     x.store([0, 0], tile);
/// #     tma_store_wait(0);
/// # }
/// # fn main() -> tilekit::Result<()> {
/// # let device = Device::emulator();
/// # let stream = Stream::new(&device)?;
/// # let kernel = scale.compile(&Compiler::default())?.load(&device)?;
/// let buffer = Buffer::from_slice(&device, &[1.0f32; 8 * 32])?;
/// let x = buffer.view([8, 32]).kept();
/// for factor in [2.0, 3.0] {
///     kernel.launch(&stream, grid(1u32), (&x, factor))?;
/// }
/// stream.synchronize()?;
/// assert_eq!(buffer.to_vec()?, [6.0; 8 * 32]);
/// assert_eq!(x.made(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct KeptMap<'s, T, S = Buffer<T>> {
    view: TensorView<'s, T, S>,
    maps: RefCell<Vec<Made>>,
}

/// A map, and what it was made for.
#[derive(Debug)]
struct Made {
    device: Device,
    address: u64,
    ty: TensorMapType,
    map: EncodedTensorMap,
}

impl<'s, T: DeviceElement, S: TensorSource<T>> KeptMap<'s, T, S> {
    pub(super) fn new(view: TensorView<'s, T, S>) -> Self {
        KeptMap {
            view,
            maps: RefCell::default(),
        }
    }

    /// How many maps have been made so far.
    pub fn made(&self) -> usize {
        self.maps.borrow().len()
    }

    /// Makes the map that the next parameter wants, unless it has been made.
    fn pack_map(&self, packing: &mut Packing<'_>) -> Result<()> {
        let (address, _) = self.view.place_on(packing)?;
        let device = packing.device();
        let mut maps = self.maps.borrow_mut();
        let ty = TensorView::<T, S>::wanted(packing);
        let is_it =
            |made: &Made| made.address == address && made.ty == *ty && made.device == *device;
        let found = maps.iter().position(is_it);
        let at = found.unwrap_or(maps.len());
        if found.is_none() {
            maps.push(Made {
                device: device.clone(),
                address,
                ty: ty.clone(),
                map: self.view.make_map(packing)?,
            });
        }
        packing.push(&maps[at].map, TensorMapDescriptor::ALIGN);
        Ok(())
    }
}

impl<T: DeviceElement, S: TensorSource<T>> Argument<lang::TensorMap<T>> for &KeptMap<'_, T, S> {
    fn pack(&self, packing: &mut Packing<'_>) -> Result<()> {
        self.pack_map(packing)
    }
}
