//! Memory of the device that somebody else owns, and tensors in it.

use std::marker::PhantomData;

use crate::argument::Tensor;
use crate::element::Element;
use crate::size::{Dims, MOST_RANK};

/// Elements in device memory that a launch reads.
#[derive(Clone, Copy, Debug)]
pub struct DevRef<'m, T> {
    address: u64,
    elements: u64,
    memory: PhantomData<&'m [T]>,
}

/// Elements in device memory that a launch may write.
#[derive(Debug)]
pub struct DevMut<'m, T> {
    address: u64,
    elements: u64,
    memory: PhantomData<&'m mut [T]>,
}

#[allow(
    unsafe_code,
    reason = "an address of the device is the word of who gives it"
)]
impl<T: Element> DevRef<'_, T> {
    /// `elements` elements from `address` on.
    ///
    /// # Safety
    /// They are memory of the device that the launch is on, they stay allocated until that launch is complete, and nothing
    /// that is not ordered behind it writes to them before.
    pub unsafe fn from_raw(address: u64, elements: usize) -> Self {
        DevRef {
            address,
            elements: elements as u64,
            memory: PhantomData,
        }
    }
}

#[allow(
    unsafe_code,
    reason = "an address of the device is the word of who gives it"
)]
impl<T: Element> DevMut<'_, T> {
    /// `elements` elements from `address` on.
    ///
    /// # Safety
    /// As for [`DevRef::from_raw`]; and nothing that is not ordered behind the launch reads them before it is complete.
    pub unsafe fn from_raw(address: u64, elements: usize) -> Self {
        DevMut {
            address,
            elements: elements as u64,
            memory: PhantomData,
        }
    }
}

impl<'m, T: Element> DevRef<'m, T> {
    /// A tensor of this shape in it, without gaps.
    ///
    /// # Panics
    /// Beyond 8 dimensions, which no kernel takes.
    pub fn view(self, shape: impl AsRef<[usize]>) -> View<'m, T> {
        View {
            place: Place::dense(self.address, self.elements, shape.as_ref()),
            memory: PhantomData,
        }
    }
}

impl<'m, T: Element> DevMut<'m, T> {
    /// A tensor of this shape in it, without gaps.
    ///
    /// # Panics
    /// Beyond 8 dimensions, which no kernel takes.
    pub fn view(self, shape: impl AsRef<[usize]>) -> ViewMut<'m, T> {
        ViewMut {
            place: Place::dense(self.address, self.elements, shape.as_ref()),
            memory: PhantomData,
        }
    }

    /// The same for a launch, which leaves it to be used again.
    pub fn reborrow(&mut self) -> DevMut<'_, T> {
        DevMut {
            address: self.address,
            elements: self.elements,
            memory: PhantomData,
        }
    }
}

/// Where a tensor lies.
#[derive(Clone, Copy, Debug)]
struct Place {
    address: u64,
    elements: u64,
    shape: Dims,
    strides: Option<Dims>,
}

impl Place {
    fn dense(address: u64, elements: u64, shape: &[usize]) -> Place {
        Place {
            address,
            elements,
            shape: Dims::of(shape),
            strides: None,
        }
    }

    fn tensor<T: Element>(&self) -> Tensor<'_> {
        let strides = self.strides.as_ref().map_or(&[][..], Dims::as_slice);
        Tensor {
            address: self.address,
            data_type: T::DATA_TYPE,
            shape: self.shape.as_slice(),
            strides,
            elements: Some(self.elements),
            device: None,
        }
    }
}

macro_rules! views {
    ($($name:ident = $text:literal,)*) => {
        $(
            #[doc = $text]
            #[derive(Debug)]
            pub struct $name<'m, T> {
                place: Place,
                memory: PhantomData<&'m [T]>,
            }

            impl<T: Element> $name<'_, T> {
                /// The same with so many elements from one index to the next along each dimension.
                ///
                /// # Panics
                /// Beyond 8 dimensions, which no kernel takes.
                #[must_use]
                pub fn with_strides(mut self, strides: impl AsRef<[usize]>) -> Self {
                    self.place.strides = Some(Dims::of(strides.as_ref()));
                    self
                }

                /// What a launch checks and passes.
                pub fn tensor(&self) -> Tensor<'_> {
                    self.place.tensor::<T>()
                }
            }
        )*
    };
}

views! {
    View = "A tensor that a launch reads.",
    ViewMut = "A tensor that a launch may write.",
}

const _: () = assert!(MOST_RANK == 8, "the documentation of `with_strides` says 8");
