//! A program over exported kernels: it launches `scale`, or the kernel that its argument names.

use exported_to_rust_exported::{copied_128, scale_256, taps_64};
use tilekit_launch::{Context, DevMut, DevRef, Queue};

fn main() -> Result<(), tilekit_launch::Error> {
    let context = Context::primary(0)?;
    // SAFETY: the stand-in for the driver follows no address.
    let (queue, x, out, a, b, image) = unsafe {
        (
            Queue::new(context, std::ptr::without_provenance_mut(0xab)),
            DevRef::from_raw(0x10000, 1000),
            DevMut::from_raw(0x20000, 1000),
            DevRef::from_raw(0x10000, 300 * 128),
            DevMut::from_raw(0x20000, 300 * 128),
            DevRef::from_raw(0x10000, 2 * 5 * 7 * 16),
        )
    };
    let kernel = std::env::args().nth(1);
    if kernel.as_deref() == Some("taps") {
        let image = image.view([2, 5, 7, 16]);
        for (count, padding, stride) in [(2 * 33 * 34, 130, 8), (24, 1, 2), (24, 1, 2), (126, 2, 1)] {
            // SAFETY: as above.
            let pixels = unsafe { DevMut::from_raw(0x20000, 9 * count * 16) };
            let mut out = pixels.view([9, count, 16]);
            if let Err(error) = taps_64::launch(&queue, &image, &mut out, padding, stride) {
                println!("{error}");
            }
        }
        return Ok(());
    }
    if kernel.is_none() {
        return scale_256::launch(&queue, &x.view([1000]), &mut out.view([1000]));
    }
    copied_128::launch(&queue, &a.view([300, 128]), &mut b.view([300, 128]))
}
