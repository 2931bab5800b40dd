//! Matrix descriptors of the layouts that the fastest kernels use.

use layout::SharedLayout;
use layout::matrix::{MatrixTile, plan_matrix};

#[track_caller]
fn check(
    shared: &str,
    shape: [u32; 2],
    mn_dim: usize,
    mn: u32,
    k: u32,
    elem_bits: u32,
    expected: &str,
) {
    let shared: SharedLayout = shared.parse().unwrap();
    let tile = MatrixTile {
        mn_dim,
        mn,
        k,
        elem_bits,
    };
    let text = match plan_matrix(&shared, &shape, tile) {
        Ok(d) => format!(
            "swizzle {} leading {} stride {} {}-major",
            d.swizzle_bytes,
            d.leading_bytes,
            d.stride_bytes,
            if d.is_mn_major { "mn" } else { "k" }
        ),
        Err(e) => e.to_string(),
    };
    assert_eq!(text, expected);
}

#[test]
fn k_major_operands() {
    check(
        "Nvmma(128, 16)",
        [128, 64],
        0,
        64,
        16,
        16,
        "swizzle 128 leading 0 stride 1024 k-major",
    );
    check(
        "Nvmma(64, 16)",
        [128, 32],
        0,
        64,
        16,
        16,
        "swizzle 64 leading 0 stride 512 k-major",
    );
    check(
        "Nvmma(32, 16)",
        [128, 16],
        0,
        64,
        16,
        16,
        "swizzle 32 leading 0 stride 256 k-major",
    );
    check(
        "Nvmma(128, 8)",
        [128, 128],
        0,
        64,
        32,
        8,
        "swizzle 128 leading 0 stride 1024 k-major",
    );
    check(
        "Nvmma(128, 16, transposed=true)",
        [64, 256],
        1,
        256,
        16,
        16,
        "swizzle 128 leading 0 stride 1024 k-major",
    );
}

#[test]
fn mn_major_operands() {
    check(
        "Nvmma(128, 16)",
        [64, 256],
        1,
        256,
        16,
        16,
        "swizzle 128 leading 8192 stride 1024 mn-major",
    );
    check(
        "Nvmma(128, 16, transposed=true)",
        [128, 64],
        0,
        64,
        16,
        16,
        "swizzle 128 leading 0 stride 1024 mn-major",
    );
}

#[test]
fn refuses_what_the_tensor_cores_cannot_read() {
    check(
        "Nvmma(128, 8)",
        [128, 256],
        1,
        256,
        32,
        8,
        "cannot feed `wgmma` from Nvmma(128, 8): the tensor cores cannot address a tile of 256 by 32 of K in it; elements of other than 16 bits must have K contiguous",
    );
}
