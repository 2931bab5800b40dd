//! The types of kernels' parameters, by their names.

/// The tuple of a kernel's handles: for each name before a type that type, as `handles!(out lse: Ptr<f32>, batch: Scalar<i32>)`. Behind them `..epilogue(O)` stands for what an epilogue of
/// products with results of type `O` reads, and `..epilogue('l, O)` for arguments of it, which live for `'l`.
macro_rules! handles {
    ($($($name:ident)+: $ty:ty,)+ ..epilogue($l:lifetime, $of:ty) $(,)?) => {
        handles! {
            $($($name)+: $ty,)+
            alpha beta: f32,
            source: &$l View<$l, $of>,
            source_pitch: i32,
            source_batch: i64,
            bias: &$l Buffer<$of>,
            a_scales b_scales: &$l Buffer<f32>,
        }
    };
    ($($($name:ident)+: $ty:ty,)+ ..epilogue($of:ty) $(,)?) => {
        handles! {
            $($($name)+: $ty,)+
            alpha beta: Scalar<f32>,
            source: Ptr<$of>,
            source_pitch: Scalar<i32>,
            source_batch: Scalar<i64>,
            bias: Ptr<$of>,
            a_scales b_scales: Ptr<f32>,
        }
    };
    ($($($name:ident)+: $ty:ty),+ $(,)?) => {
        ($($(handles!(@of $name $ty),)+)+)
    };
    (@of $name:ident $ty:ty) => { $ty };
}

pub(crate) use handles;
