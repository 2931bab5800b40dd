//! Tensors as a launch passes them for a kernel's tensor maps.

use std::marker::PhantomData;
use target::Target;

use gluon_lang::lang;
use ir::{TensorMapMode, TensorMapType};
use layout::SharedLayout;

use super::describe::{Room, describe};
use super::kept::KeptMap;
use super::sequences::Sequences;
use super::{
    CopyOptions, Cut, EncodedTensorMap, L2Promotion, TensorMapDescriptor, TensorPlace, Window,
};
use crate::buffer::Buffer;
use crate::case::{Input, Output, Shape};
use crate::element::DeviceElement;
use crate::error::{Error, Result};
use crate::kernel::{Argument, Packing};

/// A tensor in a buffer, passed for a parameter of type `TensorMap<T>`: its address, sizes and strides. The kernel's parameter has the
/// element type, the block of a copy and its layout in shared memory.
///
/// Dimensions are in row-major order, the innermost last and contiguous; the other strides and the address are multiples of
/// [`unit_bytes`](target::TensorMapLimits::unit_bytes) (CUDA driver API, `cuTensorMapEncodeTiled`).
///
/// ```
/// # use tilekit::prelude::*;
/// # fn main() -> tilekit::Result<()> {
/// # let device = Device::emulator();
/// let buffer = Buffer::<f32>::zeros(&device, 100 * 128)?;
/// let all = buffer.view([100, 128]);
/// let left_half = buffer.view([100, 64]).with_strides([128, 1]);
/// let right_half = buffer.view([100, 64]).with_strides([128, 1]).with_offset(64);
/// # let _ = (all, left_half, right_half);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TensorView<'s, T, S = Buffer<T>> {
    source: &'s S,
    place: TensorPlace,
    options: CopyOptions,
    steps: Option<Vec<u32>>,
    window: Option<Window>,
    element: PhantomData<fn() -> T>,
}

/// Another view of the same tensor, whose source need not be `Clone`.
impl<T, S> Clone for TensorView<'_, T, S> {
    fn clone(&self) -> Self {
        TensorView {
            source: self.source,
            place: self.place.clone(),
            options: self.options,
            steps: self.steps.clone(),
            window: self.window.clone(),
            element: PhantomData,
        }
    }
}

/// What holds a tensor: a [`Buffer`], or an [`Input`] or [`Output`] of a case.
pub trait TensorSource<T> {
    /// Address and number of elements on `device`, of the copy that is packed.
    ///
    /// # Errors
    /// [`Error::DeviceMismatch`] for a buffer of another device, and what copying an input there ended with.
    fn place_on(&self, packing: &Packing<'_>) -> Result<(u64, usize)>;
}

impl<T: DeviceElement> TensorSource<T> for Buffer<T> {
    fn place_on(&self, packing: &Packing<'_>) -> Result<(u64, usize)> {
        packing.expect_own(self.device())?;
        self.note_use();
        Ok((self.address(), self.len()))
    }
}

impl<T: DeviceElement> TensorSource<T> for Input<T> {
    fn place_on(&self, packing: &Packing<'_>) -> Result<(u64, usize)> {
        let buffer = self.copy_on_device(packing.device(), packing.copy())?;
        buffer.place_on(packing)
    }
}

impl<T: DeviceElement> TensorSource<T> for Output<T> {
    fn place_on(&self, packing: &Packing<'_>) -> Result<(u64, usize)> {
        let buffer = self.copy_on_device(packing.device(), packing.copy())?;
        buffer.place_on(packing)
    }
}

impl<T: DeviceElement> Buffer<T> {
    /// A tensor of this shape, without gaps, from the buffer's begin.
    pub fn view(&self, shape: impl Into<Shape>) -> TensorView<'_, T> {
        TensorView::dense(self, shape.into().extents())
    }
}

impl<T: DeviceElement> Input<T> {
    /// The whole input, for a tensor map.
    pub fn view(&self) -> TensorView<'_, T, Input<T>> {
        TensorView::dense(self, self.shape())
    }
}

impl<T: DeviceElement> Output<T> {
    /// The whole output, for a tensor map.
    pub fn view(&self) -> TensorView<'_, T, Output<T>> {
        TensorView::dense(self, self.shape())
    }
}

impl<'s, T: DeviceElement, S: TensorSource<T>> TensorView<'s, T, S> {
    fn dense(source: &'s S, shape: &[usize]) -> TensorView<'s, T, S> {
        TensorView {
            source,
            place: TensorPlace::dense(shape),
            options: CopyOptions::default(),
            steps: None,
            window: None,
            element: PhantomData,
        }
    }

    /// Another shape, without gaps.
    #[must_use]
    pub fn with_shape(mut self, shape: impl Into<Shape>) -> Self {
        let offset = self.place.offset;
        self.place = TensorPlace {
            offset,
            ..TensorPlace::dense(shape.into().extents())
        };
        self
    }

    /// Elements from one index to the next along each dimension; the innermost is 1.
    #[must_use]
    pub fn with_strides(mut self, strides: impl Into<Shape>) -> Self {
        self.place.strides = strides.into().extents().to_vec();
        self
    }

    /// Elements in front of the first.
    #[must_use]
    pub fn with_offset(mut self, elements: usize) -> Self {
        self.place.offset = elements;
        self
    }

    /// Elements outside of the tensor are read as NaN and not as 0; for floats.
    #[must_use]
    pub fn filled_with_nan(mut self) -> Self {
        self.options.fills_with_nan = true;
        self
    }

    /// Loads round each element to the nearest tf32, as the tensor cores want operands; for f32. The elements stay f32, whose
    /// lower 13 bits are 0 in shared memory (`CU_TENSOR_MAP_DATA_TYPE_TFLOAT32`).
    #[must_use]
    pub fn rounded_to_tf32(mut self) -> Self {
        self.options.rounds_to_tf32 = true;
        self
    }

    /// How much is fetched into L2 around what a copy asks for; 128 bytes unless it is said.
    #[must_use]
    pub fn with_l2_promotion(mut self, promotion: L2Promotion) -> Self {
        self.options.l2_promotion = promotion;
        self
    }

    /// Rows along dimension `along` are sequences one behind the other, and copies end with their own: what is behind it is loaded as 0 and is not stored, as outside of the tensor.
    ///
    /// Dimensions 0 and 1 have one index each. Row `row` of a sequence of `length` rows that ends in front of row `end` has the coordinates [`SEQUENCE_END`](crate::SEQUENCE_END) along dimension 0, `end` along
    /// dimension 1, and `SEQUENCE_END - length + row` along `along`. A kernel that gives 0, batch and row there where there are no sequences takes both kinds of views. Sequences lie inside of the rows; coordinates
    /// that say otherwise reach outside of the buffer.
    ///
    /// ```
    /// use tilekit::prelude::*;
    ///
    /// /// Copies 16 rows from row `row` on of the sequence `start..end`.
    /// #[kernel(warps = 4)]
    /// fn copy(
    ///     #[block([1, 1, 16, 64], Nvmma::B128)] x: TensorMap<bf16>,
    ///     #[block([1, 1, 16, 64], Nvmma::B128)] out: TensorMap<bf16>,
    ///     start: i32,
    ///     end: i32,
    ///     row: i32,
    /// ) {
    ///     let tile = Smem::<bf16>::alloc(x.block(), x.layout());
    ///     let full = Mbarrier::alloc(1);
    ///     full.expect(x.block_bytes());
    ///     let at = [scalar(SEQUENCE_END), end, SEQUENCE_END - (end - start) + row, scalar(0)];
    ///     x.load(at, tile, full);
    ///     full.wait(0);
    ///     out.store(at, tile);
    ///     tma_store_wait_read(0);
    /// }
    ///
    /// # fn main() -> tilekit::Result<()> {
    /// let device = Device::emulator();
    /// let x = Buffer::from_slice(&device, &vec![bf16::ONE; 50 * 64])?;
    /// let out = Buffer::<bf16>::zeros(&device, 50 * 64)?;
    /// let [from, to] = [&x, &out].map(|x| x.view([1, 1, 50, 64]).with_sequences(2));
    /// let kernel = copy.compile(&Compiler::default())?.load(&device)?;
    /// // The last 4 rows of 20..40, of a block of 16.
    /// kernel.launch(&Stream::new(&device)?, grid(1u32), (from, to, 20, 40, 16))?;
    /// let rows = out.to_vec()?;
    /// assert!(rows.iter().enumerate().all(|(at, x)| (36..40).contains(&(at / 64)) == (*x == bf16::ONE)));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_sequences(mut self, along: usize) -> Self {
        self.options.sequences = Some(Sequences::Along(along));
        self
    }

    /// [`with_sequences`](TensorView::with_sequences) for stores alone, with one dimension less: dimension 0 has one index, and the coordinate `end` along it. Of `rows` rows in all, `row` has the coordinate
    /// `rows - length + row` along `along`.
    ///
    /// The map's address is as many rows in front of the tensor. A load by it faults.
    #[must_use]
    pub fn with_stored_sequences(mut self, along: usize) -> Self {
        self.options.sequences = Some(Sequences::StoredAlong(along));
        self
    }

    /// A copy takes every `steps[dim]`-th element along a dimension, 1 to 8: the stride of a convolution. Its coordinates
    /// still count all elements of the tensor, and it reaches over 256 of them at most. The innermost step is 1.
    #[must_use]
    pub fn with_steps(mut self, steps: &[u32]) -> Self {
        self.steps = Some(steps.to_vec());
        self
    }

    /// For an im2col parameter: the pixels that a copy may start at lie between `lower` from the begin of the image and
    /// `upper` from its end, along each dimension between batch and channels. For a 3×3 filter with padding 1 both are
    /// `[-1, -1]`; without padding `[0, 0]` and `[-2, -2]`.
    #[must_use]
    pub fn with_window(mut self, lower: &[i32], upper: &[i32]) -> Self {
        self.window = Some(Window {
            lower: lower.to_vec(),
            upper: upper.to_vec(),
        });
        self
    }

    /// Where the tensor lies in its buffer: shape, strides and offset, in elements.
    pub fn place(&self) -> &TensorPlace {
        &self.place
    }

    /// What holds the tensor.
    pub fn source(&self) -> &'s S {
        self.source
    }

    /// A view whose maps are made once, for a sequence of launches.
    pub fn kept(self) -> KeptMap<'s, T, S> {
        KeptMap::new(self)
    }

    /// Appends the map that the next parameter wants.
    fn pack_map(&self, packing: &mut Packing<'_>) -> Result<()> {
        let map = self.make_map(packing)?;
        packing.push(&map, TensorMapDescriptor::ALIGN);
        Ok(())
    }

    /// What the next parameter wants of a tensor.
    pub(super) fn wanted<'p>(packing: &Packing<'p>) -> &'p TensorMapType {
        let ty = packing.parameter().ty.as_tensor_map();
        ty.expect("the handle of a tensor map stands for a parameter that is one")
    }

    /// Address and number of elements of the buffer that it is in.
    pub(super) fn place_on(&self, packing: &Packing<'_>) -> Result<(u64, usize)> {
        self.source.place_on(packing)
    }

    /// Makes the map that the next parameter wants.
    pub(super) fn make_map(&self, packing: &Packing<'_>) -> Result<EncodedTensorMap> {
        let device = packing.device();
        let (address, elements) = self.place_on(packing)?;
        let room = Room {
            address,
            elements,
            dtype: T::DTYPE,
        };
        let map = self
            .cut(device.target(), Self::wanted(packing))
            .and_then(|cut| describe(device.target(), room, &self.place, &cut, self.options));
        let map = map.map_err(|rule| Error::TensorArgument {
            kernel: packing.kernel().to_string(),
            parameter: packing.parameter().name.to_string(),
            rule,
        })?;
        device.encode_tensor_map(&map)
    }

    /// What the kernel's parameter takes of this tensor.
    fn cut(&self, target: &Target, ty: &TensorMapType) -> Result<Cut, String> {
        let rank = self.place.shape.len();
        if rank != ty.coordinates() {
            return Err(format!(
                "the tensor has {rank} dimensions, and the kernel's copies give {} coordinates",
                ty.coordinates()
            ));
        }
        let window = match (ty.mode, &self.window) {
            (TensorMapMode::Tiled, Some(_)) => {
                return Err(
                    "it has a window, which only an `#[im2col]` parameter takes".to_string()
                );
            }
            (TensorMapMode::Tiled, None) => None,
            (TensorMapMode::Im2col { .. }, window) => {
                let none = || Window {
                    lower: vec![0; rank.saturating_sub(2)],
                    upper: vec![0; rank.saturating_sub(2)],
                };
                Some(window.clone().unwrap_or_else(none))
            }
        };
        let block = ty.box_dims(target).map_err(|error| error.to_string())?;
        let swizzle_bytes = match &ty.layout {
            SharedLayout::Nvmma(nvmma) => nvmma.swizzle_bytes,
            _ => 0,
        };
        Ok(Cut {
            block: block.to_vec(),
            steps: self.steps.clone().unwrap_or_else(|| vec![1; rank]),
            swizzle_bytes,
            window,
        })
    }
}

impl<T: DeviceElement, S: TensorSource<T>> Argument<lang::TensorMap<T>> for TensorView<'_, T, S> {
    fn pack(&self, packing: &mut Packing<'_>) -> Result<()> {
        self.pack_map(packing)
    }
}

impl<T: DeviceElement, S: TensorSource<T>> Argument<lang::TensorMap<T>> for &TensorView<'_, T, S> {
    fn pack(&self, packing: &mut Packing<'_>) -> Result<()> {
        self.pack_map(packing)
    }
}

/// The first element of the view: what is in front of it in the buffer is out of the kernel's reach.
impl<T: DeviceElement, S: TensorSource<T>> Argument<lang::Ptr<T>> for &TensorView<'_, T, S> {
    fn pack(&self, packing: &mut Packing<'_>) -> Result<()> {
        let (address, elements) = self.place_on(packing)?;
        let offset = self.place.offset.min(elements);
        let bytes = |elements: usize| (elements * size_of::<T>()) as u64;
        packing.push_buffer(address + bytes(offset), bytes(elements - offset));
        Ok(())
    }
}

impl<T: DeviceElement> Argument<lang::TensorMap<T>> for &Input<T> {
    fn pack(&self, packing: &mut Packing<'_>) -> Result<()> {
        self.view().pack_map(packing)
    }
}

impl<T: DeviceElement> Argument<lang::TensorMap<T>> for &Output<T> {
    fn pack(&self, packing: &mut Packing<'_>) -> Result<()> {
        self.view().pack_map(packing)
    }
}
