//! Loops around products of a warpgroup that are left early: the accumulator goes along by every way out.

#![allow(clippy::float_cmp, reason = "sums of small whole numbers are exact")]

use tilekit::prelude::*;

const TILE: usize = 64;

/// Adds up the products of blocks along K. After a block, its entry of `stops` says: 0 adds it once more, 1 stops, 2 goes on to the next one.
/// `out` has the sums, and then how the loop was left.
#[kernel(warps = 4)]
fn until_told(
    #[block([TILE, TILE], Nvmma::B128)] a: TensorMap<f16>,
    #[block([TILE, TILE], Nvmma::B128)] b: TensorMap<f16>,
    stops: Ptr<i32>,
    out: Ptr<f32>,
    steps: i32,
) {
    let layout = Wgmma::new([4, 1], [64, TILE, 16]);
    let row = arange(0..TILE, Slice::new(1, layout.clone())).expand_dims(1);
    let column = arange(0..TILE, Slice::new(0, layout.clone())).expand_dims(0);
    let place = row * TILE + column;
    let x = Smem::<f16>::alloc(a.block(), a.layout());
    let y = Smem::<f16>::alloc(b.block(), b.layout());
    let full = Mbarrier::alloc(1);
    let mut acc = Accumulator::<f32>::zeros([TILE, TILE], layout);
    let mut step = scalar(0_i32);
    let left = loop {
        if step >= steps {
            break scalar(-1);
        }
        full.expect(a.block_bytes() + b.block_bytes());
        a.load((0, step * TILE), x, full);
        b.load((0, step * TILE), y, full);
        full.wait(step % 2);
        acc = acc.mma(x, y.transpose()).wait(0);
        step += 1;
        match stops.at(step - 1).load() {
            1 => break step,
            2 => continue,
            _ => {}
        }
        acc = acc.mma(x, y.transpose()).wait(0);
    };
    out.at(place).store(acc.wait_all());
    out.at(TILE * TILE).store(left.cast::<f32>());
}

#[test]
fn sums_of_a_product_leave_with_the_loop() -> tilekit::Result<()> {
    let k = 5 * TILE;
    let number = |i: usize| f16::from_f32((i * 7 % 5) as f32 - 2.0);
    let [x, y]: [Vec<f16>; 2] =
        [1, 3].map(|step| (0..TILE * k).map(|i| number(i * step + i / k)).collect());
    for device in [Some(Device::emulator()), Device::cuda(0).ok()]
        .into_iter()
        .flatten()
    {
        let (a, b) = (
            Buffer::from_slice(&device, &x)?,
            Buffer::from_slice(&device, &y)?,
        );
        let kernel = until_told.compile(&Compiler::default())?.load(&device)?;
        let stream = Stream::new(&device)?;
        for (stops, steps) in [
            ([0, 0, 0, 0, 0], 5),
            ([2, 0, 1, 0, 0], 5),
            ([2, 2, 2, 0, 2], 4),
            ([1, 0, 0, 0, 0], 5),
            ([0, 2, 1, 0, 0], 5),
            ([0; 5], 0),
        ] {
            let told = Buffer::from_slice(&device, &stops)?;
            let out = Buffer::<f32>::zeros(&device, TILE * TILE + 1)?;
            let (a_map, b_map) = (a.view([TILE, k]), b.view([TILE, k]));
            kernel.launch(&stream, grid(1u32), (a_map, b_map, &told, &out, steps))?;
            stream.synchronize()?;
            // How often each block is added, and how it ends.
            let mut times = [0.0; 5];
            let mut left = -1.0;
            for step in 0..steps as usize {
                times[step] = 1.0;
                match stops[step] {
                    0 => times[step] = 2.0,
                    2 => {}
                    _ => {
                        left = step as f64 + 1.0;
                        break;
                    }
                }
            }
            let found = out.to_vec()?;
            assert_eq!(f64::from(found[TILE * TILE]), left, "{stops:?}");
            for (at, found) in found[..TILE * TILE].iter().enumerate() {
                let (row, column) = (at / TILE, at % TILE);
                let term = |l: usize| x[row * k + l].to_f64() * y[column * k + l].to_f64();
                let sum: f64 = (0..k).map(|l| term(l) * times[l / TILE]).sum();
                assert_eq!(f64::from(*found), sum, "{stops:?} at {row}, {column}");
            }
        }
    }
    Ok(())
}
