//! What cannot be a tensor map; `tests/tensor_maps.rs` copies through those that can.

use super::*;

fn refused(place: &TensorPlace, tiling: &Tiling) -> String {
    let buffer = Buffer::<f32>::zeros(&Device::emulator(), 1024).unwrap();
    TensorMapDescriptor::tiled(&buffer, place, tiling)
        .unwrap_err()
        .to_string()
}

/// Along a dimension with one index no step is taken, however long.
#[test]
fn a_step_that_is_never_taken_may_be_any() {
    let buffer = Buffer::<f32>::zeros(&Device::emulator(), 1024).unwrap();
    for stride in [1, 33, usize::MAX] {
        let place = TensorPlace {
            strides: vec![stride, 1],
            ..TensorPlace::dense(&[1, 32])
        };
        TensorMapDescriptor::tiled(&buffer, &place, &Tiling::new(&[1, 32], 0)).unwrap();
    }
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
    check(
        &dense,
        &Tiling::new(&[512, 16], 0),
        "512 elements in steps of 1 reach over 512",
    );
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
        &TensorPlace::dense(&[2, 1 << 62, 4]),
        &Tiling::new(&[1, 8, 4], 0),
        "its buffer has 1024",
    );
    check(
        &TensorPlace::dense(&[1; 6]),
        &Tiling::new(&[1; 6], 0),
        "6 dimensions",
    );
}
