//! Loads and stores of global memory.

use std::marker::PhantomData;

use super::mix::{Handle, Operand};
use super::trace::{self, AccessCore, Raw, here};
use super::{
    Element, HostInt, HostNumber, HostValue, Pointers, Ptr, Scalar, Smem, Tensor, WidensTo,
};
use ir::entity::Value;
use ir::ops::global::{CacheOp, Eviction, L2Policy, PrefetchInto};

/// The target of an access: one element through a [`Ptr`], or a tile through [`Pointers`].
pub trait Target: Copy {
    /// The type of an element.
    type Element: Element;
    /// What a load gives.
    type Loaded: Handle;
    /// The pointers' handle.
    #[doc(hidden)]
    fn from_value(value: Value) -> Self;
    /// The pointers' value.
    #[doc(hidden)]
    fn to_value(self) -> Value;
}

impl<T: Element> Target for Ptr<T> {
    type Element = T;
    type Loaded = Scalar<T>;
    #[inline]
    fn from_value(value: Value) -> Self {
        Self::wrap(value)
    }
    #[inline]
    fn to_value(self) -> Value {
        self.value()
    }
}

impl<T: Element> Target for Pointers<T> {
    type Element = T;
    type Loaded = Tensor<T>;
    #[inline]
    fn from_value(value: Value) -> Self {
        Self::wrap(value)
    }
    #[inline]
    fn to_value(self) -> Value {
        self.value()
    }
}

/// What can stand where `P` wants booleans or elements: for a tile also a tensor, for one element a scalar.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not fit an access of `{T}` through `{P}`",
    note = "one element takes scalars, tensors of rank 0 and host values, a tile takes any tensors; the element types are equal, so cast first"
)]
pub trait Fits<P, T: Element> {
    /// The operand before it is fitted.
    #[doc(hidden)]
    #[track_caller]
    fn into_fitting(self) -> Raw;
}

/// One element takes a tensor of rank 0 too, as a reduction leaves it.
impl<P: Element, T: Element, U: WidensTo<T>> Fits<Ptr<P>, T> for Tensor<U> {
    #[inline]
    #[track_caller]
    fn into_fitting(self) -> Raw {
        self.scalar().raw()
    }
}

impl<P: Element, T: Element, U: WidensTo<T>> Fits<Ptr<P>, T> for Scalar<U> {
    #[inline]
    fn into_fitting(self) -> Raw {
        self.raw()
    }
}

impl<P: Element, T: Element, H: HostNumber + HostValue<T>> Fits<Ptr<P>, T> for H {
    #[inline]
    fn into_fitting(self) -> Raw {
        Raw::Const(self.constant())
    }
}

impl<P: Element, T: Element, V: Operand<T>> Fits<Pointers<P>, T> for V {
    #[inline]
    fn into_fitting(self) -> Raw {
        self.into_raw()
    }
}

/// A load, store or atomic being described: `x.at(offsets).mask(inside).other(0.0).load()`.
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing is accessed before `load` or `store`"]
pub struct Access<P> {
    pub(super) core: AccessCore,
    target: PhantomData<P>,
}

impl<P: Target> Access<P> {
    #[inline]
    pub(super) fn new(target: P) -> Self {
        Access {
            core: AccessCore::new(target.to_value(), P::Element::DTYPE),
            target: PhantomData,
        }
    }

    /// Accesses only the elements where this is true.
    #[inline]
    pub fn mask(mut self, mask: impl Fits<P, bool>) -> Self {
        self.core.mask = Some(mask.into_fitting());
        self
    }

    /// The value of masked-off elements of a load; undefined without this.
    #[inline]
    pub fn other(mut self, other: impl Fits<P, P::Element>) -> Self {
        self.core.other = Some(other.into_fitting());
        self
    }

    /// With a cache operator (PTX ISA, cache operators). It excludes an eviction priority; an operator of loads is none of
    /// stores.
    #[inline]
    pub fn cache(mut self, cache: CacheOp) -> Self {
        self.core.cache = cache;
        self
    }

    /// With an eviction priority in L1.
    #[inline]
    pub fn eviction(mut self, eviction: Eviction) -> Self {
        self.core.eviction = eviction;
        self
    }

    /// Not kept in L1.
    #[inline]
    pub fn no_allocate(self) -> Self {
        self.eviction(Eviction::NoAllocate)
    }

    /// With an eviction priority in L2. `EvictLast` on the loads makes L2 evict written lines first: rows that are read once and written
    /// once gain 2 to 3 % on an H200
    /// (`bench/results/memory_bound.md`).
    #[inline]
    pub fn policy(mut self, policy: L2Policy) -> Self {
        self.core.policy = policy;
        self
    }

    /// A miss prefetches this many bytes into L2: 64, 128 or 256.
    #[inline]
    #[track_caller]
    pub fn l2_prefetch(mut self, bytes: u32) -> Self {
        self.core.set_prefetch(bytes, here());
        self
    }

    /// Prefetches the lines ahead of their use, into this cache. Nothing is read, so the pointers may lie past the end.
    #[inline]
    #[track_caller]
    pub fn prefetch(self, into: PrefetchInto) {
        trace::prefetch_lines(&self.core, into, here());
    }

    /// Never merged with another access, moved or dropped.
    #[inline]
    pub fn volatile(mut self) -> Self {
        self.core.is_volatile = true;
        self
    }

    /// Reads.
    #[inline]
    #[track_caller]
    pub fn load(self) -> P::Loaded {
        P::Loaded::from_value(trace::load(&self.core, here()))
    }

    /// Writes. Scalars and host numbers are written to every place, dimensions of 1 are repeated.
    #[inline]
    #[track_caller]
    pub fn store(self, value: impl Fits<P, P::Element>) {
        trace::store(&self.core, value.into_fitting(), here());
    }
}

impl<T: Element> Access<Pointers<T>> {
    /// Copies the elements into a tile of shared memory, without passing through registers (PTX `cp.async`): each thread those of its own
    /// pointers, by copies as wide as layouts and alignment allow (TK0028 if that is too narrow). Masked-off elements become zero. The copies of a thread are
    /// complete once it [waits](async_copy_wait) for their group, or once a [barrier](super::Mbarrier::arrive_after_copies)
    /// completes.
    #[inline]
    #[track_caller]
    pub fn copy_to(self, tile: Smem<T>) {
        trace::async_copy(&self.core, tile.value(), here());
    }
}

/// The [copies](Access::copy_to) requested since the last commit become a group (PTX `cp.async.commit_group`). One without
/// copies is a group too, so that a loop may count groups.
#[inline]
#[track_caller]
pub fn async_copy_commit() {
    trace::async_commit(here());
}

/// Waits until at most `pending` groups of [copies](Access::copy_to), the newest, are in flight (PTX `cp.async.wait_group`).
/// The copies of all threads are visible after it.
#[inline]
#[track_caller]
pub fn async_copy_wait(pending: impl HostInt) {
    let at = here();
    let pending = trace::count_of(pending.to_i128(), "the groups that stay in flight", at);
    trace::async_wait(pending, at);
}

macro_rules! direct_access {
    ($($pointer:ident)*) => {$(
        impl<T: Element> $pointer<T> {
            /// The elements pointed to, where this is true.
            #[inline]
            pub fn mask(self, mask: impl Fits<Self, bool>) -> Access<Self> {
                Access::new(self).mask(mask)
            }

            /// The elements pointed to, for a load or store with settings.
            #[inline]
            pub fn access(self) -> Access<Self> {
                Access::new(self)
            }

            /// Reads the elements pointed to.
            #[inline]
            #[track_caller]
            pub fn load(self) -> <Self as Target>::Loaded {
                Access::new(self).load()
            }

            /// Writes the elements pointed to.
            #[inline]
            #[track_caller]
            pub fn store(self, value: impl Fits<Self, T>) {
                Access::new(self).store(value);
            }
        }
    )*};
}

direct_access!(Ptr Pointers);
