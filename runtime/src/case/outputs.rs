//! Outputs of a case, and what each launch that is compared with another finds in them.

use std::any::Any;
use std::sync::Arc;

use super::compare::{Agreement, Mismatch, compare};
use super::shape::Shape;
use super::tensor::Output;
use super::tolerance::Tolerance;
use crate::device::Device;
use crate::element::DeviceElement;
use crate::error::Result;
use crate::number::Number;

/// All outputs of a case.
#[derive(Default)]
pub(super) struct Outputs {
    all: Vec<Arc<dyn AnyOutput>>,
    /// What launches before those at hand have left in each: a counter that they have set is read by what follows. None where nothing was written.
    left: Vec<Option<Box<dyn Any>>>,
}

impl Outputs {
    pub(super) fn push(&mut self, output: Arc<dyn AnyOutput>) {
        self.all.push(output);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &dyn AnyOutput> {
        self.all.iter().map(|output| &**output)
    }

    /// Keeps what is in them, where launches begin that are compared with others.
    pub(super) fn keep(&mut self, device: &Device) -> Result<()> {
        let left = self.all.iter().map(|output| output.left(device));
        self.left = left.collect::<Result<_>>()?;
        Ok(())
    }

    /// Gives them what was kept, and poison to those of which nothing was.
    pub(super) fn set_back(&self, device: &Device) -> Result<()> {
        self.all.iter().enumerate().try_for_each(|(at, output)| {
            match self.left.get(at).and_then(Option::as_ref) {
                Some(elements) => output.write(device, elements.as_ref()),
                None => output.poison(device),
            }
        })
    }
}

/// An output of a case, whatever its element type.
pub(super) trait AnyOutput {
    /// Forgets what was written to the first copy, on the device where a launch has put it.
    fn poison(&self, device: &Device) -> Result<()>;
    /// The elements of the first copy.
    fn elements(&self, device: &Device) -> Result<Box<dyn Any>>;
    /// The same, if any of them was written.
    fn left(&self, device: &Device) -> Result<Option<Box<dyn Any>>>;
    /// Gives the first copy these elements, which are of one earlier call of `elements`.
    fn write(&self, device: &Device, elements: &dyn Any) -> Result<()>;
    /// Has nothing been written to the first copy since it was poisoned?
    fn is_untouched(&self, device: &Device) -> Result<bool>;
    /// Compares the elements of the first copy with `want`, which are of one earlier call of `elements`.
    fn compare(&self, device: &Device, want: &dyn Any, tolerance: Tolerance) -> Result<Compared>;
}

/// Agreement, or how one that does not agree is wrong.
type Compared = std::result::Result<Agreement, Box<Mismatch>>;

impl<T: DeviceElement> AnyOutput for Output<T> {
    fn poison(&self, device: &Device) -> Result<()> {
        self.where_written(device)?.forget()
    }

    fn elements(&self, device: &Device) -> Result<Box<dyn Any>> {
        Ok(Box::new(self.where_written(device)?.to_vec_with_poison()?))
    }

    fn left(&self, device: &Device) -> Result<Option<Box<dyn Any>>> {
        let elements = self.where_written(device)?.to_vec_with_poison()?;
        let is_written = elements.iter().any(|element| !element.is_poison());
        Ok(is_written.then(|| Box::new(elements) as Box<dyn Any>))
    }

    fn write(&self, device: &Device, elements: &dyn Any) -> Result<()> {
        self.where_written(device)?.write(own::<T>(elements))
    }

    fn is_untouched(&self, device: &Device) -> Result<bool> {
        let elements = self.where_written(device)?.to_vec_with_poison()?;
        Ok(elements.iter().all(|element| element.is_poison()))
    }

    fn compare(&self, device: &Device, want: &dyn Any, tolerance: Tolerance) -> Result<Compared> {
        let mut got = self.where_written(device)?.to_vec_with_poison()?;
        let want = own::<T>(want);
        // What neither writes, such as the rest of a padded row, agrees.
        let zero = T::nearest(Number::Int(0)).expect("every element type has a zero");
        let untouched = got.iter().zip(want);
        let untouched: Vec<bool> = untouched
            .map(|(got, want)| got.is_poison() && want.is_poison())
            .collect();
        for (got, _) in got.iter_mut().zip(&untouched).filter(|(_, both)| **both) {
            *got = zero;
        }
        let compared = compare(
            self.name(),
            &Shape::from([got.len()]),
            &got,
            |[place]| if untouched[place] { zero } else { want[place] },
            tolerance,
        );
        Ok(compared.map_err(|mut mismatch| {
            mismatch.reshape(self.extents());
            mismatch
        }))
    }
}

/// The elements of an output, from what it gave.
fn own<T: 'static>(elements: &dyn Any) -> &Vec<T> {
    elements
        .downcast_ref()
        .expect("elements of this very output")
}
