//! The buffers of a pipeline's stages.

use gluon_lang::lang::prelude::*;

/// The buffers of all stages: a tile whose first dimension counts stages, or a tuple or array of payloads. A struct of several
/// is a payload by those of its fields:
///
/// ```
/// use tilekit::prelude::*;
///
/// #[derive(Clone, Copy, Aggregate)]
/// struct Scaled {
///     a: Smem<E4m3>,
///     a_scale: Smem<f32>,
/// }
///
/// impl Payload for Scaled {
///     type Stage = Scaled;
///     fn stages(self) -> usize {
///         (self.a, self.a_scale).stages()
///     }
///     fn stage(self, index: Scalar<i32>) -> Scaled {
///         let (a, a_scale) = (self.a, self.a_scale).stage(index);
///         Scaled { a, a_scale }
///     }
///     fn stage_bytes(self) -> usize {
///         (self.a, self.a_scale).stage_bytes()
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be what the stages of a pipeline hold",
    note = "a payload is a `Smem` whose first dimension counts stages, or a tuple, array or struct of payloads"
)]
pub trait Payload: Copy {
    /// The buffers of one stage.
    type Stage;

    /// How many stages there are.
    #[track_caller]
    fn stages(self) -> usize;

    /// The buffers of stage `index`.
    #[track_caller]
    fn stage(self, index: Scalar<i32>) -> Self::Stage;

    /// Bytes of one stage in one CTA: those that the TMA loads of a stage fill.
    #[track_caller]
    fn stage_bytes(self) -> usize;
}

impl<T: Element> Payload for Smem<T> {
    type Stage = Smem<T>;

    #[track_caller]
    fn stages(self) -> usize {
        self.shape().first().map_or(1, |stages| *stages as usize)
    }

    #[track_caller]
    fn stage(self, index: Scalar<i32>) -> Smem<T> {
        self.index(index)
    }

    #[track_caller]
    fn stage_bytes(self) -> usize {
        self.bytes() / self.stages()
    }
}

impl<P: Payload, const COUNT: usize> Payload for [P; COUNT] {
    type Stage = [P::Stage; COUNT];

    #[track_caller]
    fn stages(self) -> usize {
        let mut counts = self.into_iter().map(|part| part.stages());
        let stages = counts.next().unwrap_or(1);
        for count in counts {
            assert_same(stages, count);
        }
        stages
    }

    #[track_caller]
    fn stage(self, index: Scalar<i32>) -> Self::Stage {
        self.map(|part| part.stage(index))
    }

    #[track_caller]
    fn stage_bytes(self) -> usize {
        self.into_iter().map(|part| part.stage_bytes()).sum()
    }
}

macro_rules! tuples {
    ($(($first:ident $($rest:ident)*))*) => {$(
        #[allow(non_snake_case, reason = "the names are those of the type parameters")]
        impl<$first: Payload, $($rest: Payload),*> Payload for ($first, $($rest,)*) {
            type Stage = ($first::Stage, $($rest::Stage,)*);

            #[track_caller]
            fn stages(self) -> usize {
                let ($first, $($rest,)*) = self;
                let stages = $first.stages();
                $(assert_same(stages, $rest.stages());)*
                stages
            }

            #[track_caller]
            fn stage(self, index: Scalar<i32>) -> Self::Stage {
                let ($first, $($rest,)*) = self;
                ($first.stage(index), $($rest.stage(index),)*)
            }

            #[track_caller]
            fn stage_bytes(self) -> usize {
                let ($first, $($rest,)*) = self;
                $first.stage_bytes() $(+ $rest.stage_bytes())*
            }
        }
    )*};
}

tuples!((A)(A B)(A B C)(A B C D));

#[track_caller]
fn assert_same(stages: usize, others: usize) {
    static_assert!(
        stages == others,
        "the buffers of a pipeline have {stages} and {others} stages"
    );
}

/// Tensor maps whose blocks one stage holds: a map, or a tuple or array of them.
pub trait StageMaps {
    /// The buffers of all stages.
    type Payload: Payload;

    /// Allocates `stages` blocks of each map, laid out as the map says.
    #[track_caller]
    fn alloc(self, stages: usize) -> Self::Payload;
}

impl<T: Element> StageMaps for TensorMap<T> {
    type Payload = Smem<T>;

    #[track_caller]
    fn alloc(self, stages: usize) -> Smem<T> {
        Smem::alloc(self.block().with_inserted(0, stages), self.layout())
    }
}

impl<M: StageMaps, const COUNT: usize> StageMaps for [M; COUNT] {
    type Payload = [M::Payload; COUNT];

    #[track_caller]
    fn alloc(self, stages: usize) -> Self::Payload {
        self.map(|map| map.alloc(stages))
    }
}

macro_rules! map_tuples {
    ($(($($name:ident)*))*) => {$(
        #[allow(non_snake_case, reason = "the names are those of the type parameters")]
        impl<$($name: StageMaps),*> StageMaps for ($($name,)*) {
            type Payload = ($($name::Payload,)*);

            #[track_caller]
            fn alloc(self, stages: usize) -> Self::Payload {
                let ($($name,)*) = self;
                ($($name.alloc(stages),)*)
            }
        }
    )*};
}

map_tuples!((A)(A B)(A B C)(A B C D));
