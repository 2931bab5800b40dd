//! A launch that was checked, to be repeated: what may change from call to call is where tensors lie, and floats.

#![allow(unsafe_code, reason = "foreign functions of the driver")]

use crate::argument::{Argument, Tensor};
use crate::block::Block;
use crate::check::{Bound, Kernel};
use crate::context::{Context, Queue};
use crate::driver::{Driver, FunctionHandle, LaunchShape, MapShape};
use crate::error::Error;
use crate::manifest::{Parameter, Role};
use crate::nvtx;
use crate::program::about;

/// A launch whose shapes, strides, types and whole numbers were checked by [`Program::prepare`](crate::Program::prepare). It is
/// repeated with tensors that have the same, wherever they lie; what checks of their addresses want was computed then.
pub struct Prepared<'p> {
    kernel: &'p Kernel,
    context: Context,
    function: FunctionHandle,
    shape: LaunchShape,
    block: Block,
    /// For each argument what it changes of the block.
    arguments: Vec<Change>,
    /// Arguments that may not overlap.
    kept_apart: Vec<[usize; 2]>,
}

/// What an argument changes.
enum Change {
    /// A tensor: the low bits that its address may not have, how many bytes it spans, and where its address or its map lies.
    Tensor {
        low_bits: u64,
        bytes: u64,
        map: Option<Box<MapShape>>,
        offset: usize,
    },
    /// A number that shapes may depend on stays the same.
    Fixed(u64),
    /// Any number of so many bytes.
    Free { offset: usize, bytes: usize },
}

impl<'p> Prepared<'p> {
    /// Of arguments that were checked.
    pub(crate) fn new(
        bound: &Bound<'p, '_>,
        driver: &Driver,
        context: Context,
        function: FunctionHandle,
        shape: LaunchShape,
    ) -> Result<Prepared<'p>, Error> {
        let kernel = bound.kernel;
        let mut block = Block::new(kernel.manifest.parameter_bytes);
        bound.pack(&mut block, |map| {
            map.shape()?
                .encode(driver)
                .map_err(|failure| about(kernel, failure))
        })?;
        let numbered = kernel.manifest.parameters.iter().enumerate();
        let passed = numbered.filter(|(_, parameter)| !parameter.is_derived());
        let arguments = passed.map(|(at, parameter)| Change::new(bound, at, parameter));
        let both = |&[read, written]: &[usize; 2]| {
            Some([kernel.argument_of[read]?, kernel.argument_of[written]?])
        };
        Ok(Prepared {
            kernel,
            context,
            function,
            shape,
            block,
            arguments: arguments.collect::<Result<_, _>>()?,
            kept_apart: kernel.kept_apart.iter().filter_map(both).collect(),
        })
    }

    /// Launches with the address of each tensor and the bits of each number, in the order of the arguments. It is true if it did;
    /// false, and nothing is launched, where these values were not checked by what was prepared, and
    /// [`launch`](crate::Program::launch) would say more.
    ///
    /// # Errors
    /// What the driver refuses, and a process that was forked.
    pub fn launch(&mut self, queue: &Queue<'_>, values: &[u64]) -> Result<bool, Error> {
        let fits = *queue.context() == self.context
            && queue.overlaps_previous() == self.shape.overlaps_previous
            && values.len() == self.arguments.len();
        if !fits || !self.is_checked(values) {
            return Ok(false);
        }
        self.context.check_process()?;
        let (driver, kernel) = (Driver::get()?, self.kernel);
        self.place(driver, values)?;
        let _entered = self.context.enter(driver).map_err(|f| about(kernel, f))?;
        let mut pointers = self.block.pointers(&kernel.manifest.parameters);
        let _range = nvtx::range(&kernel.manifest.entry);
        // SAFETY: as in `Program::launch`: the function is of the context, which is current, and was loaded for good.
        let launched =
            unsafe { driver.enqueue(&self.shape, self.function, queue.stream(), &mut pointers) };
        launched.map_err(|failure| about(kernel, failure))?;
        Ok(true)
    }

    /// Whether nothing else than in the call that was prepared is to be said of these values.
    fn is_checked(&self, values: &[u64]) -> bool {
        let is_same = |(change, &value): (&Change, &u64)| match change {
            Change::Tensor { low_bits, .. } => value & low_bits == 0,
            Change::Fixed(bits) => value == *bits,
            Change::Free { .. } => true,
        };
        self.arguments.iter().zip(values).all(is_same)
            && self.kept_apart.iter().all(|&[read, written]| {
                let (source, target) = (values[read], values[written]);
                source >= target.saturating_add(self.bytes(written))
                    || target >= source.saturating_add(self.bytes(read))
            })
    }

    fn bytes(&self, argument: usize) -> u64 {
        match self.arguments[argument] {
            Change::Tensor { bytes, .. } => bytes,
            _ => 0,
        }
    }

    /// Puts the values where the kernel reads them.
    fn place(&mut self, driver: &Driver, values: &[u64]) -> Result<(), Error> {
        for (change, &value) in self.arguments.iter_mut().zip(values) {
            match change {
                Change::Tensor {
                    map: Some(map),
                    offset,
                    ..
                } => {
                    if map.address != value {
                        let moved = MapShape {
                            address: value,
                            ..**map
                        };
                        let encoded = moved.encode_cached(driver);
                        let encoded = encoded.map_err(|failure| about(self.kernel, failure))?;
                        self.block.write(*offset, &encoded);
                        **map = moved;
                    }
                }
                Change::Tensor { offset, .. } => self.block.write(*offset, &value.to_le_bytes()),
                Change::Free { offset, bytes } => {
                    self.block.write(*offset, &value.to_le_bytes()[..*bytes]);
                }
                Change::Fixed(_) => {}
            }
        }
        Ok(())
    }
}

impl Change {
    fn new(bound: &Bound<'_, '_>, at: usize, parameter: &Parameter) -> Result<Change, Error> {
        let offset = parameter.offset_bytes as usize;
        if let Some(tensor) = bound.tensor(at) {
            return Change::of_tensor(bound, at, parameter, tensor);
        }
        let passed = bound.argument(at);
        Ok(match passed {
            Some(Argument::Scalar(data_type, _))
                if !data_type.is_integer() && parameter.divisor == 1 =>
            {
                let bytes = parameter.size_bytes as usize;
                Change::Free { offset, bytes }
            }
            Some(Argument::Scalar(_, bits)) => Change::Fixed(*bits),
            _ => Change::Fixed(0),
        })
    }

    fn of_tensor(
        bound: &Bound<'_, '_>,
        at: usize,
        parameter: &Parameter,
        tensor: &Tensor<'_>,
    ) -> Result<Change, Error> {
        let span = bound.span(at).unwrap_or_default();
        let map = match &parameter.role {
            Role::TensorMap { map, .. } => Some(bound.map_shape(at, parameter, map, tensor)?),
            _ => None,
        };
        let unit = if map.is_some() {
            bound.kernel.manifest.limits.tensor_map.unit_bytes
        } else {
            1
        };
        Ok(Change::Tensor {
            low_bits: unit.max(parameter.divisor.into()) - 1,
            bytes: span.end - span.start,
            map: map.map(Box::new),
            offset: parameter.offset_bytes as usize,
        })
    }
}
