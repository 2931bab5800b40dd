//! Slices and views of cudarc as memory of a launch.

#![allow(
    unsafe_code,
    reason = "addresses of cudarc's memory are given to the launcher"
)]

use cudarc::driver::{
    CudaSlice, CudaStream, CudaView, CudaViewMut, DevicePtr, DevicePtrMut, DeviceSlice, SyncOnDrop,
};
use tilekit_launch::{DevMut, DevRef};

use crate::element::Held;
use crate::error::Error;

/// A slice or a view of cudarc: borrowed if the launch reads it, mutably if the launch may write it.
pub trait Memory<'s>: sealed::Lend<'s> {}

/// A tuple of up to eight [`Memory`].
pub trait MemoryList<'s>: sealed::LendAll<'s> {}

pub(crate) mod sealed {
    use super::{CudaStream, Error, SyncOnDrop};

    /// Memory that a launch borrows.
    pub trait Lend<'s> {
        /// What the launch has of it.
        type Lent<'m>;

        /// The number of its GPU, if it is of another context than the stream.
        fn elsewhere(&self, stream: &CudaStream) -> Option<usize>;

        /// The stream waits for what others do with the memory. Others wait for what is on the stream when the guard is dropped.
        fn lend<'m>(self, stream: &'s CudaStream) -> (Self::Lent<'m>, SyncOnDrop<'s>);
    }

    /// All memory that a launch borrows.
    pub trait LendAll<'s> {
        /// What the launch has of it.
        type Lent<'m>;
        /// What has other streams wait when it is dropped.
        type Guards;

        /// As [`Lend::lend`] for each.
        fn lend<'m>(self, stream: &'s CudaStream) -> Result<(Self::Lent<'m>, Self::Guards), Error>;
    }
}

macro_rules! memory {
    ($($source:ty as $lent:ident by $pointer:ident,)*) => {
        $(
            impl<'s, T: Held> sealed::Lend<'s> for $source {
                type Lent<'m> = $lent<'m, T::Element>;

                fn elsewhere(&self, stream: &CudaStream) -> Option<usize> {
                    let context = DeviceSlice::stream(&**self).context();
                    (context != stream.context()).then(|| context.ordinal())
                }

                fn lend<'m>(self, stream: &'s CudaStream) -> (Self::Lent<'m>, SyncOnDrop<'s>) {
                    let elements = DeviceSlice::len(&*self);
                    let (address, guard) = self.$pointer(stream);
                    // SAFETY: the memory is of the stream's context, as was checked. cudarc frees it behind what the guard recorded, has
                    // other streams wait for that, and keeps Rust from writing to what is borrowed; elements have the same bytes.
                    let lent = unsafe { $lent::from_raw(address, elements) };
                    (lent, guard)
                }
            }

            impl<'s, T: Held> Memory<'s> for $source {}
        )*
    };
}

memory! {
    &'s CudaSlice<T> as DevRef by device_ptr,
    &'s CudaView<'_, T> as DevRef by device_ptr,
    &'s mut CudaSlice<T> as DevMut by device_ptr_mut,
    &'s mut CudaViewMut<'_, T> as DevMut by device_ptr_mut,
}

macro_rules! lists {
    ($(($($name:ident = $at:literal),*))*) => {
        $(
            impl<'s, $($name: Memory<'s>),*> sealed::LendAll<'s> for ($($name,)*) {
                type Lent<'m> = ($($name::Lent<'m>,)*);
                type Guards = [SyncOnDrop<'s>; const { [$($at),*].len() }];

                #[allow(non_snake_case, reason = "a variable for each type")]
                fn lend<'m>(
                    self,
                    stream: &'s CudaStream,
                ) -> Result<(Self::Lent<'m>, Self::Guards), Error> {
                    let ($($name,)*) = self;
                    $(
                        if let Some(found) = $name.elsewhere(stream) {
                            let expected = stream.context().ordinal();
                            return Err(Error::OtherContext { argument: $at, found, expected });
                        }
                    )*
                    $(let $name = $name.lend(stream);)*
                    Ok((($($name.0,)*), [$($name.1),*]))
                }
            }

            impl<'s, $($name: Memory<'s>),*> MemoryList<'s> for ($($name,)*) {}
        )*
    };
}

lists! {
    (A = 0)
    (A = 0, B = 1)
    (A = 0, B = 1, C = 2)
    (A = 0, B = 1, C = 2, D = 3)
    (A = 0, B = 1, C = 2, D = 3, E = 4)
    (A = 0, B = 1, C = 2, D = 3, E = 4, F = 5)
    (A = 0, B = 1, C = 2, D = 3, E = 4, F = 5, G = 6)
    (A = 0, B = 1, C = 2, D = 3, E = 4, F = 5, G = 6, H = 7)
}
