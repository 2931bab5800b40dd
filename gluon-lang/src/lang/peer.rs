//! Memory of other ranks: GPUs of one host whose memory is mapped into each other's addresses.

use super::access::Access;
use super::trace::{self, here};
use super::{Element, Offset, PeerMap, PeerPtr, Ptr};
use ir::ops::atomic::Scope;

impl<T: Element> PeerMap<T> {
    /// The map whose table of addresses, one for each rank, lies there. The addresses are multiples of 16, as the runtime's are; the table does not
    /// change during a launch.
    #[inline]
    pub fn new(table: Ptr<u64>) -> Self {
        Self::wrap(table.value())
    }

    /// The table: the address of each rank's part, for code that takes the parts of several ranks at once. Atomics through a pointer that is made of
    /// one (`to_pointer`) have the scope of the GPU unless they say otherwise, which is an error (TK0039).
    #[inline]
    #[track_caller]
    pub fn table(self) -> Ptr<u64> {
        Ptr::wrap(trace::peer_table(self.value(), here()))
    }

    /// The part of a rank, 0 to the number of ranks less one: the same rank in all threads of the CTA.
    #[inline]
    #[track_caller]
    pub fn of<O: Offset<Moved<u64> = Ptr<u64>>>(self, rank: O) -> PeerPtr<T> {
        let address = Ptr::<u64>::wrap(self.value()).at(rank).load();
        PeerPtr::wrap(trace::peer_ptr(address.value(), T::DTYPE, here()))
    }
}

impl<T: Element> PeerPtr<T> {
    /// The elements `offset` away, to be loaded or stored. Atomics have the scope of the system.
    #[inline]
    #[track_caller]
    pub fn at<O: Offset>(self, offset: O) -> Access<O::Moved<T>> {
        let mut access = self.pointer().at(offset);
        access.core.usual_scope = Scope::Sys;
        access
    }

    /// The same place as a pointer, for bulk copies ([`Ptr::bulk`]) and tensor maps ([`Ptr::tensor`]). Atomics through it have the scope of the GPU
    /// unless they say otherwise, which is an error (TK0039).
    #[inline]
    pub fn pointer(self) -> Ptr<T> {
        Ptr::wrap(self.value())
    }
}
