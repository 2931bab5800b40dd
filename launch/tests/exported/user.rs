//! A program over two exported kernels: it launches `scale`, or `copied` if it has an argument.

use exported_to_rust_exported::{copied_128, scale_256};
use tilekit_launch::{Context, DevMut, DevRef, Queue};

fn main() -> Result<(), tilekit_launch::Error> {
    let context = Context::primary(0)?;
    // SAFETY: the stand-in for the driver follows no address.
    let (queue, x, out, a, b) = unsafe {
        (
            Queue::new(context, std::ptr::without_provenance_mut(0xab)),
            DevRef::from_raw(0x10000, 1000),
            DevMut::from_raw(0x20000, 1000),
            DevRef::from_raw(0x10000, 300 * 128),
            DevMut::from_raw(0x20000, 300 * 128),
        )
    };
    if std::env::args().len() == 1 {
        return scale_256::launch(&queue, &x.view([1000]), &mut out.view([1000]));
    }
    copied_128::launch(&queue, &a.view([300, 128]), &mut b.view([300, 128]))
}
