//! How elements of views of shared memory are addressed: what is worked out once for each type.

use std::sync::Arc;

use ir::SmemType;
use layout::local::{Places, Storage};
use layout::relate;
use ptx::Reg;

/// The dynamic shared memory of a CTA begins at a multiple of this, as its declaration asks.
pub(super) const WINDOW_ALIGNMENT: u32 = 1024;

pub(super) const LAYOUTS_FIT: &str = "the layout of a verified view fits its shape";

/// Where an address lies: so many times this many bytes behind the beginning of the window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Buffer {
    /// The number of the buffer.
    pub(super) index: Reg,
    /// From one buffer to the next.
    pub(super) stride_bytes: u32,
}

/// How elements of views of one type are addressed.
pub(super) struct Addressing {
    /// Their offsets.
    pub(super) places: Arc<Places>,
    pub(super) storage: Storage,
    /// The bits that the offset of a view's first element may have.
    pub(super) start_reach: u32,
    /// Those that a swizzle changes: others that both have add up.
    pub(super) swizzled: u32,
    /// From one buffer to the next.
    pub(super) buffer_bytes: u32,
}

impl Addressing {
    pub(super) fn of(ty: &SmemType) -> Addressing {
        let elem_bytes = ty.elem.bytes();
        let places = Places::new(&ty.layout, &ty.alloc_shape).expect(LAYOUTS_FIT);
        let storage = Storage::new(&ty.layout, &ty.alloc_shape, elem_bytes);
        let buffer = relate::buffer_size(&ty.layout, &ty.alloc_shape, elem_bytes);
        Addressing {
            start_reach: places.start_reach(&ty.shape),
            swizzled: places.swizzled(),
            storage: storage.expect(LAYOUTS_FIT),
            buffer_bytes: buffer.expect(LAYOUTS_FIT).bytes,
            places,
        }
    }
}

impl Addressing {
    /// The bytes from a view's first element to another one, where sums of coordinates are sums of places.
    pub(super) fn bytes(&self, coords: &[u32]) -> u32 {
        self.storage.bytes(self.places.offset(coords))
    }
}
