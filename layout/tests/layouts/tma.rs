//! Blocks cut into the boxes of the TMA unit.

use layout::tma::{BoxKind, tma_box, tma_messages, tma_messages_in};
use layout::{Nvmma, NvmmaSwizzle, SharedLayout, Swizzled};
use target::SM_90A;

fn layout(swizzle: NvmmaSwizzle, bits: u32, block: &[u32]) -> SharedLayout {
    swizzle.of(bits).with_rank(block.len() as u32).into()
}

/// The box, and of each message its origin and offset in bytes.
fn cut(block: &[u32], layout: &SharedLayout, bits: u32, kind: BoxKind) -> String {
    let size = match tma_box(&SM_90A, block, layout, bits, kind) {
        Ok(size) => size,
        Err(error) => return error.to_string(),
    };
    let messages = match tma_messages(&SM_90A, block, layout, bits, kind) {
        Ok(messages) => messages,
        Err(error) => return error.to_string(),
    };
    let parts: Vec<String> = messages
        .iter()
        .map(|m| format!("{} at {}", m.origin, m.offset_bytes))
        .collect();
    format!("{size}: {}", parts.join(", "))
}

#[track_caller]
fn check(block: &[u32], swizzle: NvmmaSwizzle, bits: u32, expected: &str) {
    let found = cut(block, &layout(swizzle, bits, block), bits, BoxKind::Tiled);
    assert_eq!(found, expected);
}

#[test]
fn a_block_within_the_limits_is_one_box() {
    check(&[64, 64], Nvmma::B128, 16, "[64, 64]: [0, 0] at 0");
    check(&[16, 16], Nvmma::B32, 16, "[16, 16]: [0, 0] at 0");
    check(&[256, 32], Nvmma::B128, 32, "[256, 32]: [0, 0] at 0");
    check(&[256], Nvmma::PLAIN, 32, "[256]: [0] at 0");
    check(&[4, 64], Nvmma::B128, 16, "[4, 64]: [0, 0] at 0");
    check(
        &[2, 8, 8, 2, 8],
        Nvmma::PLAIN,
        16,
        "[2, 8, 8, 2, 8]: [0, 0, 0, 0, 0] at 0",
    );
}

#[test]
fn rows_wider_than_the_swizzle_are_several_boxes() {
    check(
        &[64, 256],
        Nvmma::B128,
        16,
        "[64, 64]: [0, 0] at 0, [0, 64] at 8192, [0, 128] at 16384, [0, 192] at 24576",
    );
    check(
        &[8, 32],
        Nvmma::B32,
        16,
        "[8, 16]: [0, 0] at 0, [0, 16] at 256",
    );
    check(
        &[2, 64, 128],
        Nvmma::B128,
        16,
        "[2, 64, 64]: [0, 0, 0] at 0, [0, 0, 64] at 16384",
    );
}

#[test]
fn more_than_256_elements_are_several_boxes() {
    check(&[512], Nvmma::PLAIN, 32, "[256]: [0] at 0, [256] at 1024");
    check(
        &[512, 64],
        Nvmma::B128,
        16,
        "[256, 64]: [0, 0] at 0, [256, 0] at 32768",
    );
    check(
        &[512, 128],
        Nvmma::B128,
        16,
        "[256, 64]: [0, 0] at 0, [0, 64] at 65536, [256, 0] at 32768, [256, 64] at 98304",
    );
    check(
        &[4, 512],
        Nvmma::PLAIN,
        8,
        "[4, 256]: [0, 0] at 0, [0, 256] at 1024",
    );
}

#[test]
fn an_im2col_block_keeps_its_pixels_together() {
    let layout: SharedLayout = Nvmma::new(64, 16).into();
    assert_eq!(
        cut(&[512, 64], &layout, 16, BoxKind::Im2col),
        "[512, 32]: [0, 0] at 0, [0, 32] at 32768"
    );
}

#[test]
fn blocks_that_tma_cannot_move_are_refused() {
    check(
        &[64, 32],
        Nvmma::B128,
        16,
        "the contiguous dimension of the block [64, 32] holds 64 bytes, less than the swizzle of 128 bytes",
    );
    let refused = |block: &[u32], layout: SharedLayout, bits, kind, part: &str| {
        let found = cut(block, &layout, bits, kind);
        assert!(found.contains(part), "{found}");
    };
    let tiled = BoxKind::Tiled;
    refused(
        &[64, 64],
        Nvmma::new(128, 32).into(),
        16,
        tiled,
        "the elements have 16 bits",
    );
    refused(
        &[64, 64],
        Nvmma::new(128, 16).transpose().into(),
        16,
        tiled,
        "without `transpose`",
    );
    refused(
        &[64, 64],
        Swizzled::new(8, 1, 8, [1, 0]).into(),
        16,
        tiled,
        "`Nvmma` layouts only",
    );
    refused(&[64, 4], Nvmma::new(0, 16).into(), 16, tiled, "has 8 bytes");
    refused(
        &[4, 128],
        Nvmma::new(128, 16).into(),
        16,
        tiled,
        "take at least 8 rows",
    );
    refused(
        &[512, 512],
        Nvmma::new(0, 16).into(),
        16,
        BoxKind::Im2col,
        "one piece",
    );
    refused(
        &[2048, 64],
        Nvmma::new(128, 16).into(),
        16,
        BoxKind::Im2col,
        "at most 1024 pixels",
    );
    refused(
        &[8, 8, 64],
        Nvmma::new(128, 16).with_rank(3).into(),
        16,
        BoxKind::Im2col,
        "pixels and channels",
    );
}

/// Where the boxes of a block of B128 begin in a part of an allocation of another shape.
fn held(block: &[u32], alloc_shape: &[u32]) -> String {
    let of = |shape: &[u32]| layout(Nvmma::B128, 16, shape);
    let held = (&of(alloc_shape), alloc_shape);
    match tma_messages_in(&SM_90A, held, block, &of(block), 16, BoxKind::Tiled) {
        Ok(messages) => format!(
            "{:?}",
            messages.iter().map(|m| m.offset_bytes).collect::<Vec<_>>()
        ),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_part_of_an_allocation_holds_boxes_apart() {
    assert_eq!(held(&[64, 128], &[64, 128]), "[0, 8192]");
    assert_eq!(held(&[64, 128], &[128, 128]), "[0, 16384]");
    assert_eq!(held(&[64, 64], &[128, 256]), "[0]");
    assert!(held(&[2, 8, 64], &[2, 16, 64]).contains("one piece"));
    assert!(held(&[4, 64], &[8, 64]).contains("multiple of 1024"));
}

#[test]
fn a_whole_allocation_begins_at_its_start_whatever_its_extents() {
    let block = [18, 40];
    let plain = layout(Nvmma::PLAIN, 32, &block);
    let held = (&plain, &block[..]);
    let messages = tma_messages_in(&SM_90A, held, &block, &plain, 32, BoxKind::Tiled);
    assert_eq!(messages.map(|messages| messages.len()), Ok(1));
}

#[test]
fn what_is_cut_is_the_part_of_one_cta() {
    let check = |block: &[u32], swizzle: NvmmaSwizzle, bases: &[[u32; 2]], expected: &str| {
        let layout = swizzle.with_ctas(bases.iter().copied()).of(16).into();
        assert_eq!(cut(block, &layout, 16, BoxKind::Tiled), expected);
    };
    check(
        &[64, 128],
        Nvmma::B128,
        &[[1, 0]],
        "[32, 64]: [0, 0] at 0, [0, 64] at 4096",
    );
    check(
        &[64, 128],
        Nvmma::B64,
        &[[0, 1], [0, 0], [0, 2]],
        "[64, 32]: [0, 0] at 0",
    );
    check(
        &[512, 64],
        Nvmma::B128,
        &[[0, 0]],
        "[256, 64]: [0, 0] at 0, [256, 0] at 32768",
    );
    check(
        &[64, 64],
        Nvmma::B128,
        &[[0, 1]],
        "the contiguous dimension of the block [64, 32] holds 64 bytes, less than the swizzle of 128 bytes",
    );
}
