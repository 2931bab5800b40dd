//! Atomics on global memory: `counter.at(0).relaxed().atomic_add(1)`.
//!
//! Each element is updated once, however many threads hold replicas, and all of them observe the result. By default an atomic acquires
//! and releases at GPU scope, for the whole CTA: writes of any of its threads before it are visible to threads that acquire, and accesses
//! after it are ordered after it. That takes two CTA barriers and a fence; counting needs only [`relaxed`](Access::relaxed).

use super::access::{Access, Fits, Target};
use super::mix::Handle;
use super::trace::{self, here};
use super::{Element, Pointers, Ptr, Scalar};
use ir::ops::atomic::{AtomicOp, Scope, Semantics};

/// What an atomic found: [`old`](Old::old) is what was there before. May be left where only the change matters, which is
/// also faster.
#[derive(Clone, Copy, Debug)]
pub struct Old<H>(H);

impl<H: Handle> Old<H> {
    /// The old value; 0 where the mask is false.
    #[inline]
    pub fn old(self) -> H {
        self.0
    }
}

/// What a [poll](Access::atomic_poll) waited for: [`seen`](Seen::seen) is the value that made its test true. May be left
/// where only the wait matters: where several warps hold copies of the value, using it takes a CTA barrier.
#[derive(Clone, Copy, Debug)]
pub struct Seen<H>(H);

impl<H: Handle> Seen<H> {
    /// The value that made the test true; 0 where the mask is false.
    #[inline]
    pub fn seen(self) -> H {
        self.0
    }
}

macro_rules! orders {
    ($($(#[$doc:meta])* $name:ident = $semantics:ident;)*) => {
        /// The order and the scope of an atomic.
        impl<P: Target> Access<P> {
            $(
                $(#[$doc])*
                #[inline]
                pub fn $name(mut self) -> Self {
                    self.core.semantics = Some(Semantics::$semantics);
                    self
                }
            )*

            /// Atomic among these threads: of the GPU unless this is said.
            #[inline]
            pub fn scope(mut self, scope: Scope) -> Self {
                self.core.scope = Some(scope);
                self
            }
        }
    };
}

orders! {
    /// Orders nothing: for counting and adding up.
    relaxed = Relaxed;
    /// Accesses after it are ordered after it, and observe what was released by the write that it reads.
    acquire = Acquire;
    /// Accesses before it are ordered before it: a thread that acquires from it observes them.
    release = Release;
    /// Both.
    acq_rel = AcqRel;
}

macro_rules! read_modify_writes {
    ($($(#[$doc:meta])* $name:ident = $op:ident;)*) => {
        /// Reads and writes atomically.
        impl<P: Target> Access<P> {
            $(
                $(#[$doc])*
                #[inline]
                #[track_caller]
                pub fn $name(self, value: impl Fits<P, P::Element>) -> Old<P::Loaded> {
                    let value = value.into_fitting();
                    let old = trace::atomic_rmw(&self.core, AtomicOp::$op, value, here());
                    Old(P::Loaded::from_value(old))
                }
            )*

            /// Writes `value` where memory holds the bits of `compare`, and returns the old value; 0 where the mask is false.
            /// For elements of 16, 32 and 64 bits.
            #[inline]
            #[track_caller]
            pub fn atomic_cas(
                self,
                compare: impl Fits<P, P::Element>,
                value: impl Fits<P, P::Element>,
            ) -> P::Loaded {
                let (compare, value) = (compare.into_fitting(), value.into_fitting());
                P::Loaded::from_value(trace::atomic_cas(&self.core, compare, value, here()))
            }

            /// Reads atomically. Acquires unless it is relaxed. All threads get the same value, so that a loop may wait for it.
            #[inline]
            #[track_caller]
            pub fn atomic_load(self) -> P::Loaded {
                P::Loaded::from_value(trace::atomic_load(&self.core, here()))
            }

            /// Reads atomically until `until` of the value is true:
            /// `flag.at(0).relaxed().atomic_poll(|seen| seen >= 3)`. Acquires unless it is relaxed.
            ///
            /// Each warp waits by itself for the elements that its lanes hold, one lane for each, and then its lanes
            /// synchronize (`bar.warp.sync`). All threads of the CTA, or of the partition, acquire. Through a scalar pointer
            /// every warp waits for it, and in a partition of one warp that one waits: neither takes a CTA barrier. A tensor of
            /// flags of which warps hold different ones takes one barrier at the end, unless it is relaxed.
            ///
            /// `until` only computes on scalars (TK0034), and may branch. The element may change again after the wait.
            #[inline]
            #[track_caller]
            pub fn atomic_poll(
                self,
                until: impl FnOnce(Scalar<P::Element>) -> Scalar<bool>,
            ) -> Seen<P::Loaded> {
                let at = here();
                let (fitted, read) = trace::open_poll(&self.core, at);
                let answer = until(Scalar::wrap(read)).value();
                Seen(P::Loaded::from_value(trace::close_poll(&self.core, fitted, answer, None, at)))
            }

            /// As [`atomic_poll`](Access::atomic_poll), but a wait also ends when `limit` nanoseconds have passed since the first read that did
            /// not end it: [`seen`](Seen::seen) is then what was read last, which the kernel has to look at. The time is that of
            /// `%globaltimer` (PTX ISA, special registers), which steps by 32 ns on an H200 and up to 1 µs elsewhere.
            #[inline]
            #[track_caller]
            pub fn atomic_poll_within(
                self,
                limit: Scalar<i64>,
                until: impl FnOnce(Scalar<P::Element>) -> Scalar<bool>,
            ) -> Seen<P::Loaded> {
                let at = here();
                let (fitted, read) = trace::open_poll(&self.core, at);
                let answer = until(Scalar::wrap(read)).value();
                let limit = Some(limit.value());
                Seen(P::Loaded::from_value(trace::close_poll(&self.core, fitted, answer, limit, at)))
            }

            /// Writes atomically. Releases unless it is relaxed.
            #[inline]
            #[track_caller]
            pub fn atomic_store(self, value: impl Fits<P, P::Element>) {
                trace::atomic_store(&self.core, value.into_fitting(), here());
            }
        }

        read_modify_writes!(@direct Ptr { $($(#[$doc])* $name)* });
        read_modify_writes!(@direct Pointers { $($(#[$doc])* $name)* });
    };
    (@direct $pointer:ident { $($(#[$doc:meta])* $name:ident)* }) => {
        /// Atomics on the elements pointed to, as [`Access`] has them.
        impl<T: Element> $pointer<T> {
            $(
                $(#[$doc])*
                #[inline]
                #[track_caller]
                pub fn $name(self, value: impl Fits<Self, T>) -> Old<<Self as Target>::Loaded> {
                    Access::new(self).$name(value)
                }
            )*

            /// Writes `value` where memory holds the bits of `compare`, and returns the old value; 0 where the mask is false.
            /// For elements of 16, 32 and 64 bits.
            #[inline]
            #[track_caller]
            pub fn atomic_cas(
                self,
                compare: impl Fits<Self, T>,
                value: impl Fits<Self, T>,
            ) -> <Self as Target>::Loaded {
                Access::new(self).atomic_cas(compare, value)
            }

            /// Reads atomically, and acquires. All threads get the same value, so that a loop may wait for it.
            #[inline]
            #[track_caller]
            pub fn atomic_load(self) -> <Self as Target>::Loaded {
                Access::new(self).atomic_load()
            }

            /// Reads atomically until `until` of the value is true, and acquires; see [`Access::atomic_poll`].
            #[inline]
            #[track_caller]
            pub fn atomic_poll(
                self,
                until: impl FnOnce(Scalar<T>) -> Scalar<bool>,
            ) -> Seen<<Self as Target>::Loaded> {
                Access::new(self).atomic_poll(until)
            }

            /// The same for at most `limit` nanoseconds; see [`Access::atomic_poll_within`].
            #[inline]
            #[track_caller]
            pub fn atomic_poll_within(
                self,
                limit: Scalar<i64>,
                until: impl FnOnce(Scalar<T>) -> Scalar<bool>,
            ) -> Seen<<Self as Target>::Loaded> {
                Access::new(self).atomic_poll_within(limit, until)
            }

            /// Writes atomically, and releases.
            #[inline]
            #[track_caller]
            pub fn atomic_store(self, value: impl Fits<Self, T>) {
                Access::new(self).atomic_store(value);
            }
        }
    };
}

read_modify_writes! {
    /// Adds: integers of 32 and 64 bits, f16, bf16, f32 and f64. Neighbouring f16, bf16 and f32 go up to 16 bytes at a time
    /// where the addition is relaxed or releases and its result goes unused.
    atomic_add = Add;
    /// Keeps the smaller: integers of 32 and 64 bits, f32 and f64. -0 is less than 0.
    atomic_min = Min;
    /// Keeps the larger: integers of 32 and 64 bits, f32 and f64. -0 is less than 0.
    atomic_max = Max;
    /// Bitwise and: integers of 32 and 64 bits.
    atomic_and = And;
    /// Bitwise or: integers of 32 and 64 bits.
    atomic_or = Or;
    /// Bitwise exclusive or: integers of 32 and 64 bits.
    atomic_xor = Xor;
    /// Writes: integers of 32 and 64 bits, f32 and f64.
    atomic_xchg = Exchange;
}
