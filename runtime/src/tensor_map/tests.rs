//! Tensor maps as kernels use them, and what cannot be one.

use super::*;
use crate::code::EntryShape;
use crate::launch::grid;
use crate::stream::Stream;

/// Copies block (1, 1) of blocks of 4×8 to shared memory, and from there to `out`.
const COPY: &str = "
.version 8.0
.target sm_90a
.address_size 64
.visible .entry copy(.param .align 64 .b8 map[128], .param .u64 out)
.reqntid 32, 1, 1
{
    .reg .pred %p<2>;
    .reg .b32 %r<8>;
    .reg .b64 %rd<6>;
    .shared .align 128 .b8 tile[128];
    .shared .align 8 .b8 bar[8];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, tile;
    mov.u32 %r3, bar;
    mov.u64 %rd1, map;
    cvta.param.u64 %rd1, %rd1;
    ld.param.u64 %rd2, [out];
    mov.u32 %r4, 8;
    mov.u32 %r5, 4;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra READY;
    mbarrier.init.shared::cta.b64 [%r3], 1;
    fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared::cta.b64 %rd3, [%r3], 128;
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r2], [%rd1, {%r4, %r5}], [%r3];
READY:
    bar.sync 0;
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r3], 0;
    @!%p1 bra WAIT;
    shl.b32 %r6, %r1, 2;
    add.u32 %r7, %r2, %r6;
    ld.shared.u32 %r6, [%r7];
    mul.wide.u32 %rd4, %r1, 4;
    add.u64 %rd5, %rd2, %rd4;
    st.global.u32 [%rd5], %r6;
    ret;
}
";

fn copied(device: &Device, columns: usize) -> Result<Vec<i32>> {
    let place = TensorPlace {
        shape: vec![6, columns],
        strides: vec![16, 1],
        offset: 0,
    };
    let elements: Vec<i32> = (0..6 * 16).collect();
    let buffer = Buffer::from_slice(device, &elements)?;
    let map = TensorMap::tiled(&buffer, &place, &Tiling::new(&[4, 8], 0))?;
    assert_eq!(map.block_bytes(), 128);
    let out = Buffer::<i32>::zeros(device, 32)?;
    let mut parameters = ParameterBlock::new();
    map.push_to(&mut parameters);
    parameters.push(&out.address().to_le_bytes(), 8);
    let shape = EntryShape {
        name: "copy".to_string(),
        threads: [32, 1, 1],
        cluster: [1; 3],
        shared_bytes: 0,
        overlaps_previous: false,
    };
    let stream = Stream::new(device)?;
    device
        .load_ptx(COPY)?
        .entry(shape)?
        .launch(&stream, grid(1u32), &parameters)?;
    stream.synchronize()?;
    out.to_vec()
}

#[test]
fn a_copy_brings_the_block_with_zeros_outside_the_tensor() {
    for device in [Some(Device::emulator()), Device::cuda(0).ok()]
        .into_iter()
        .flatten()
    {
        // Rows 4 to 7 and columns 8 to 15 of a 6×13 tensor whose rows are 16 apart.
        let expected: Vec<i32> = (4..8)
            .flat_map(|row| {
                (8..16).map(move |column| {
                    if row < 6 && column < 13 {
                        row * 16 + column
                    } else {
                        0
                    }
                })
            })
            .collect();
        assert_eq!(copied(&device, 13).unwrap(), expected, "{device:?}");
    }
}

fn refused(place: &TensorPlace, tiling: &Tiling) -> String {
    let buffer = Buffer::<f32>::zeros(&Device::emulator(), 1024).unwrap();
    TensorMap::tiled(&buffer, place, tiling)
        .unwrap_err()
        .to_string()
}

#[test]
fn each_broken_rule_is_named_with_its_value() {
    let dense = TensorPlace::dense(&[32, 32]);
    let check = |place: &TensorPlace, tiling: &Tiling, part: &str| {
        let line = refused(place, tiling);
        assert!(line.contains(part), "{line}");
    };
    check(&dense, &Tiling::new(&[8], 0), "a block of 1");
    check(
        &dense,
        &Tiling::new(&[8, 3], 0),
        "12 bytes along the innermost",
    );
    check(
        &dense,
        &Tiling::new(&[8, 32], 64),
        "128 bytes along the innermost",
    );
    check(&dense, &Tiling::new(&[8, 16], 48), "a swizzle of 48 bytes");
    check(&dense, &Tiling::new(&[512, 16], 0), "a box of 512");
    check(
        &TensorPlace::dense(&[32, 33]),
        &Tiling::new(&[8, 16], 0),
        "ends after element 1056",
    );
    check(
        &TensorPlace::dense(&[32, 31]),
        &Tiling::new(&[8, 16], 0),
        "a stride of 124 bytes",
    );
    check(
        &TensorPlace {
            offset: 1,
            ..TensorPlace::dense(&[31, 32])
        },
        &Tiling::new(&[8, 16], 0),
        "multiple of 16",
    );
    check(
        &TensorPlace {
            strides: vec![32, 2],
            ..TensorPlace::dense(&[8, 8])
        },
        &Tiling::new(&[8, 8], 0),
        "stride of 2 elements",
    );
    check(
        &TensorPlace::dense(&[1; 6]),
        &Tiling::new(&[1; 6], 0),
        "6 dimensions",
    );
}
