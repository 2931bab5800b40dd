//! Convolutions as a program calls them.

use tilekit::Device;
use tilekit::prelude::*;

use super::call_plan::CallPlan;
use super::check;
use super::error::Result;
use super::filters_call::FilterWay;
use super::options::Options;
use super::sizes::View;
use crate::products::Products;
use crate::products::epilogue::Plain;
use crate::products::factor::{Operand, ResultOf};

/// An element type of images: bf16 or f16.
pub trait Pixel: Operand + ResultOf<Self, Addend = Self> + Float {}

impl Pixel for bf16 {}
impl Pixel for f16 {}

/// Convolutions on a device, channels last: the kernels that calls have needed so far, and what each stream needs of its own.
///
/// An image is `[images, height, width, channels]`, filters are `[filters, taps along height, taps along width, channels of a group]`, and the result is `[images,
/// height, width, filters]`, all without gaps; lines have no height, and volumes a depth before it. Sums are f32, and results are rounded once. [`Options`] has strides, padding, dilation,
/// groups, and what happens to sums.
///
/// Images are loaded in im2col mode, so that nothing is stored but the result. Channels that are no multiple of 8 are copied to others of zeros first, or, where that
/// multiplies fewer zeros, such as for images of 3 channels, so that all taps of a line are channels of one. Small groups, as those of one channel (depthwise), are computed several at a time,
/// by copies of their filters that have zeros for the channels of the others. Filters of one tap are a product of matrices ([`Products`]), and so is, with a copy of what lies under the filters at each pixel, what no
/// im2col map reaches: strides above 8, and many taps. [`plan`](Convolutions::plan) says all that and launches nothing.
///
/// The first call that needs a kernel compiles and loads it, and the first one of a stream that copies allocates a workspace, which waits for the device: neither may happen
/// while a graph is captured. Threads may share a stream: calls that use workspaces put their launches on it one call after the other.
///
/// ```
/// use tilekit::prelude::*;
/// use tilekit_kernels::convolution::{Convolutions, Options};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let device = Device::auto(); // a GPU where there is one, else the emulator
/// let stream = Stream::new(&device)?;
/// let convolutions = Convolutions::new(&device);
///
/// let x = Buffer::from_slice(&device, &[bf16::ONE; 5 * 6 * 16])?;
/// let filters = Buffer::from_slice(&device, &[bf16::ONE; 8 * 3 * 3 * 16])?;
/// let y = Buffer::<bf16>::zeros(&device, 5 * 6 * 8)?;
/// let options = Options { padding: &[1], ..Options::default() };
/// convolutions.forward(&stream, &x.view([1, 5, 6, 16]), &filters.view([8, 3, 3, 16]), &y.view([1, 5, 6, 8]), &options)?;
/// stream.synchronize()?;
/// let y = y.to_vec()?;
/// assert_eq!(y[0], bf16::from_f32(4.0 * 16.0)); // in a corner four taps are inside
/// assert_eq!(y[(6 + 1) * 8], bf16::from_f32(9.0 * 16.0));
/// # Ok(())
/// # }
/// ```
pub struct Convolutions {
    /// Kernels and workspaces are kept beside those of products.
    products: Products,
}

impl Convolutions {
    /// On `device`. Nothing is compiled yet.
    pub fn new(device: &Device) -> Convolutions {
        Convolutions {
            products: Products::new(device),
        }
    }

    pub(super) fn products(&self) -> &Products {
        &self.products
    }

    /// `y = activation(scales · (x convolved with filters) + bias + beta · source)`. No element of `y` is one of `x` or `filters`.
    ///
    /// # Errors
    /// [`Error::Argument`](super::Error::Argument) names what does not fit; otherwise what the device has against it.
    pub fn forward<T: Pixel>(
        &self,
        stream: &Stream,
        x: &View<'_, T>,
        filters: &View<'_, T>,
        y: &View<'_, T>,
        options: &Options<'_, T>,
    ) -> Result<()> {
        let Some(way) = check::forward([x, filters, y], options, &self.products)? else {
            return Ok(());
        };
        match options.epilogue() {
            None => self.run(stream, &way, [x, filters, y], options, Plain),
            Some(epilogue) => self.run(stream, &way, [x, filters, y], options, epilogue),
        }
    }

    /// The gradient of the image, `dx`, from that of the result, `dy`: the options are those of the forward pass, without what happens to sums. With strides there is a launch for the pixels of each remainder of
    /// them that taps reach; all others are zeros.
    ///
    /// # Errors
    /// As for [`forward`](Convolutions::forward).
    pub fn image_gradient<T: Pixel>(
        &self,
        stream: &Stream,
        dy: &View<'_, T>,
        filters: &View<'_, T>,
        dx: &View<'_, T>,
        options: &Options<'_, T>,
    ) -> Result<()> {
        match check::image_gradient([dy, filters, dx], options, &self.products)? {
            None => Ok(()),
            Some(way) => self.run(stream, &way, [dy, filters, dx], options, Plain),
        }
    }

    /// The gradient of the filters, `dfilters`, from an image and the gradient of the result, `dy`: the options are those of the forward pass, without what happens to sums. CTAs have some of the pixels each, and
    /// their sums are added in a fixed order, so that results have the same bits in every run.
    ///
    /// # Errors
    /// As for [`forward`](Convolutions::forward).
    pub fn filter_gradient<T: Pixel>(
        &self,
        stream: &Stream,
        x: &View<'_, T>,
        dy: &View<'_, T>,
        dfilters: &View<'_, T>,
        options: &Options<'_, T>,
    ) -> Result<()> {
        match FilterWay::check([x, dy, dfilters], options, &self.products)? {
            None => Ok(()),
            Some(way) => self.run_filters(stream, &way, [x, dy, dfilters]),
        }
    }

    /// How [`filter_gradient`](Convolutions::filter_gradient) would compute it. Nothing is compiled or launched.
    ///
    /// # Errors
    /// [`Error::Argument`](super::Error::Argument) names what does not fit.
    pub fn plan_filter_gradient<T: Pixel>(
        &self,
        x: &View<'_, T>,
        dy: &View<'_, T>,
        dfilters: &View<'_, T>,
        options: &Options<'_, T>,
    ) -> Result<CallPlan> {
        let way = FilterWay::check([x, dy, dfilters], options, &self.products)?;
        Ok(way.map_or(CallPlan::NOTHING, |way| way.plan()))
    }

    /// How [`image_gradient`](Convolutions::image_gradient) would compute it. Nothing is compiled or launched.
    ///
    /// # Errors
    /// [`Error::Argument`](super::Error::Argument) names what does not fit.
    pub fn plan_image_gradient<T: Pixel>(
        &self,
        dy: &View<'_, T>,
        filters: &View<'_, T>,
        dx: &View<'_, T>,
        options: &Options<'_, T>,
    ) -> Result<CallPlan> {
        let way = check::image_gradient([dy, filters, dx], options, &self.products)?;
        Ok(way.map_or(CallPlan::NOTHING, |way| way.plan()))
    }

    /// How [`forward`](Convolutions::forward) would compute it. Nothing is compiled or launched.
    ///
    /// # Errors
    /// [`Error::Argument`](super::Error::Argument) names what does not fit.
    pub fn plan<T: Pixel>(
        &self,
        x: &View<'_, T>,
        filters: &View<'_, T>,
        y: &View<'_, T>,
        options: &Options<'_, T>,
    ) -> Result<CallPlan> {
        let way = check::forward([x, filters, y], options, &self.products)?;
        Ok(way.map_or(CallPlan::NOTHING, |way| way.plan()))
    }
}
