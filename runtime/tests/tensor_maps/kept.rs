//! Tensor maps that are made once: for each kernel's block.

use tilekit::Error;
use tilekit::prelude::*;

use crate::devices;

/// Adds `by` to the block of `[ROWS, 32]` at row `first`.
#[kernel(warps = 1)]
fn add<const ROWS: usize>(
    #[block([ROWS, 32], Nvmma::PLAIN)] x: TensorMap<f32>,
    first: i32,
    by: f32,
) {
    let tile = Smem::<f32>::alloc(x.block(), x.layout());
    let full = Mbarrier::alloc(1);
    full.expect(x.block_bytes());
    x.load([first, scalar(0)], tile, full);
    full.wait(0);
    let layout = Blocked::new([ROWS, 1], [1, 32], [1, 1], [1, 0]);
    tile.store(tile.load(layout) + by);
    x.store([first, scalar(0)], tile);
    tma_store_wait(0);
}

#[test]
fn a_map_is_made_once_for_each_block() -> tilekit::Result<()> {
    for device in devices() {
        let stream = Stream::new(&device)?;
        let high = add::<8>.compile(&Compiler::default())?.load(&device)?;
        let low = add::<4>.compile(&Compiler::default())?.load(&device)?;
        let x = Buffer::<f32>::zeros(&device, 16 * 32)?;
        let kept = x.view([16, 32]).kept();
        assert_eq!(kept.made(), 0);
        for (round, by) in [1.0, 2.0, 4.0].into_iter().enumerate() {
            high.launch(&stream, grid(1u32), (&kept, 8, by))?;
            low.launch(&stream, grid(1u32), (&kept, round as i32 * 4, by))?;
        }
        stream.synchronize()?;
        assert_eq!(kept.made(), 2);
        let of_row = [1.0, 2.0, 7.0 + 4.0, 7.0].map(|value| [value; 4 * 32]);
        assert_eq!(x.to_vec()?, of_row.concat());
    }
    Ok(())
}

/// What is wrong is said at each launch, and no map is kept of it.
#[test]
fn a_tensor_that_cannot_be_copied_stays_refused() -> tilekit::Result<()> {
    for device in devices() {
        let stream = Stream::new(&device)?;
        let kernel = add::<8>.compile(&Compiler::default())?.load(&device)?;
        let x = Buffer::<f32>::zeros(&device, 16 * 32)?;
        let kept = x.view([16, 16, 2]).kept();
        for _ in 0..2 {
            let refused = kernel.launch(&stream, grid(1u32), (&kept, 0, 1.0));
            assert!(matches!(refused, Err(Error::TensorArgument { .. })));
        }
        assert_eq!(kept.made(), 0);
    }
    Ok(())
}
