//! The types of kernels' parameters, by their names.

/// The tuple of a kernel's handles: for each name before a type that type, as `handles!(out lse: Ptr<f32>, batch: Scalar<i32>)`.
macro_rules! handles {
    ($($($name:ident)+: $ty:ty),+ $(,)?) => {
        ($($(handles!(@of $name $ty),)+)+)
    };
    (@of $name:ident $ty:ty) => { $ty };
}

pub(crate) use handles;
