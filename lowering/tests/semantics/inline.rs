//! PTX of authors: packed operands of every width, and tiles of shared memory.

use gluon_lang::lang::prelude::*;
use half::f16;

use crate::machine::{LEN, run_func};

/// Eight elements of each lane.
fn places() -> Tensor<i32> {
    arange(0..LEN, Blocked::new([8], [32], [1], [0]))
}

/// Each byte of four by its place in the register; the operand is written, and must stay what it was for others.
#[kernel(warps = 1)]
fn bytes_of_words(x: Ptr<u8>, out: Ptr<u8>, same: Ptr<u8>) {
    let at = places();
    let x = x.at(at).load();
    let changed: Tensor<u8> =
        inline_ptx_packed(4, "xor.b32 $1, $1, 0x04030201; mov.b32 $0, $1;", x);
    out.at(at).store(changed);
    same.at(at).store(x);
}

#[test]
fn four_bytes_share_a_register() {
    let x: Vec<u8> = (0..LEN).map(|i| (i * 7 % 251) as u8).collect();
    let poison = vec![0x55; LEN];
    let func = bytes_of_words.trace().unwrap().func;
    let same = run_func(func, &[&x, &poison], LEN);
    assert_eq!(same, x);
}

#[kernel(warps = 1)]
fn xored(x: Ptr<u8>, out: Ptr<u8>) {
    let at = places();
    let text = "xor.b32 $0, $1, 0x04030201;";
    let changed: Tensor<u8> = inline_ptx_packed(4, text, x.at(at).load());
    out.at(at).store(changed);
}

/// Eight bytes are two registers.
#[kernel(warps = 1)]
fn swapped(x: Ptr<u8>, out: Ptr<u8>) {
    let at = places();
    let text = "mov.b32 $0, $3; mov.b32 $1, $2;";
    let changed: Tensor<u8> = inline_ptx_packed(8, text, x.at(at).load());
    out.at(at).store(changed);
}

/// Two bytes leave the upper half of a register 0.
#[kernel(warps = 1)]
fn pairs(x: Ptr<u8>, out: Ptr<u8>) {
    let at = places();
    let text = "{ .reg .pred p; setp.lt.u32 p, $1, 0x10000; selp.b32 $0, $1, 0, p; xor.b32 $0, $0, 0xffff0201; }";
    let changed: Tensor<u8> = inline_ptx_packed(2, text, x.at(at).load());
    out.at(at).store(changed);
}

#[test]
fn bytes_lie_in_their_order() {
    let x: Vec<u8> = (0..LEN).map(|i| (i * 7 % 251) as u8).collect();
    for (at, found) in run_func(xored.trace().unwrap().func, &[&x], LEN)
        .into_iter()
        .enumerate()
    {
        assert_eq!(found, x[at] ^ (at % 4 + 1) as u8, "{at}");
    }
    for (at, found) in run_func(swapped.trace().unwrap().func, &[&x], LEN)
        .into_iter()
        .enumerate()
    {
        assert_eq!(found, x[at ^ 4], "{at}");
    }
    for (at, found) in run_func(pairs.trace().unwrap().func, &[&x], LEN)
        .into_iter()
        .enumerate()
    {
        assert_eq!(found, x[at] ^ (at % 2 + 1) as u8, "{at}");
    }
}

/// Two f16 have one number, two f32 and two booleans two each.
#[kernel(warps = 1)]
fn mixed_widths(x: Ptr<f16>, y: Ptr<f32>, out: Ptr<f32>) {
    let at = places();
    let (x, y) = (x.at(at).load(), y.at(at).load());
    let text = "{
        .reg .b16 low, high;
        .reg .b32 twice;
        add.rn.f16x2 twice, $2, $2;
        mov.b32 {low, high}, twice;
        cvt.f32.f16 $0, low;
        cvt.f32.f16 $1, high;
        @$5 add.f32 $0, $0, $3;
        @$6 add.f32 $1, $1, $4;
    }";
    let sum: Tensor<f32> = inline_ptx_packed(2, text, (x, y, y > 0.0));
    out.at(at).store(sum);
}

#[test]
fn each_width_has_its_own_numbers() {
    let x: Vec<f16> = (0..LEN)
        .map(|i| f16::from_f32(i as f32 / 4.0 - 20.0))
        .collect();
    let y: Vec<f32> = (0..LEN).map(|i| (i * 37 % 101) as f32 - 50.0).collect();
    let raw = |x: &[f16]| x.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let singles: Vec<u8> = y.iter().flat_map(|y| y.to_le_bytes()).collect();
    let out = run_func(
        mixed_widths.trace().unwrap().func,
        &[&raw(&x), &singles],
        4 * LEN,
    );
    for (at, found) in out.chunks(4).enumerate() {
        let wanted = 2.0 * x[at].to_f32() + y[at].max(0.0);
        assert_eq!(found, wanted.to_le_bytes(), "{at}: not {wanted}");
    }
}

/// What threads stored others read: the tile says that a barrier goes between.
#[kernel(warps = 4)]
fn read_by_others(x: Ptr<i32>, out: Ptr<i32>) {
    let at = arange(0..LEN, Blocked::new([2], [32], [4], [0]));
    let tile = Smem::<i32>::alloc([LEN], Swizzled::new(1, 1, 1, [0]));
    tile.store(x.at(at).load());
    let text = "{ .reg .b32 a; mad.lo.s32 a, $2, 4, $1; ld.shared.b32 $0, [a]; }";
    let last = LEN as i32 - 1;
    let found: Tensor<i32> = inline_ptx(text, (tile.read_by_ptx(), last - at));
    out.at(at).store(found);
}

/// What the PTX wrote, others load; and it adds to what others stored.
#[kernel(warps = 4)]
fn written_for_others(x: Ptr<i32>, out: Ptr<i32>) {
    let at = arange(0..LEN, Blocked::new([2], [32], [4], [0]));
    let tile = Smem::<i32>::alloc([LEN], Swizzled::new(1, 1, 1, [0]));
    let reversed = (LEN as i32 - 1) - at;
    let text = "{ .reg .b32 a; mad.lo.s32 a, $1, 4, $0; st.shared.b32 [a], $2; }";
    let _: () = inline_ptx_with_effects(text, (tile.written_by_ptx(), reversed, x.at(at).load()));
    let text = "{ .reg .b32 a; mad.lo.s32 a, $1, 4, $0; red.shared.add.s32 [a], 5; }";
    let _: () = inline_ptx_with_effects(text, (tile.updated_by_ptx(), at));
    out.at(at)
        .store(tile.load(Blocked::new([2], [32], [4], [0])));
}

#[test]
fn tiles_of_shared_memory_are_ordered() {
    let x: Vec<i32> = (0..LEN as i32).map(|i| i * 3 - 100).collect();
    let raw: Vec<u8> = x.iter().flat_map(|x| x.to_le_bytes()).collect();
    let reversed = |add: i32| -> Vec<u8> {
        x.iter()
            .rev()
            .flat_map(|x| (x + add).to_le_bytes())
            .collect()
    };
    let found = run_func(read_by_others.trace().unwrap().func, &[&raw], 4 * LEN);
    assert_eq!(found, reversed(0));
    let found = run_func(written_for_others.trace().unwrap().func, &[&raw], 4 * LEN);
    assert_eq!(found, reversed(5));
}

/// A read without effects is made once and not behind what changes the tile.
#[kernel(warps = 1)]
fn read_twice(out: Ptr<i32>) {
    let tile = Smem::<i32>::alloc([32], Swizzled::new(1, 1, 1, [0]));
    let at = arange(0..32, Blocked::new([1], [32], [1], [0]));
    let read = |tile: Smem<i32>| -> Tensor<i32> {
        let text = "{ .reg .b32 a; mad.lo.s32 a, $2, 4, $1; ld.shared.b32 $0, [a]; }";
        inline_ptx(text, (tile.read_by_ptx(), at))
    };
    tile.store(at);
    let (first, again) = (read(tile), read(tile));
    tile.store(at * 10);
    out.at(at).store(first + again + read(tile) * 100);
}

#[test]
fn reads_stay_before_what_changes_the_tile() {
    let func = read_twice.trace().unwrap().func;
    let text = ir::text::print(&func);
    let compiled = lowering::compile(func, &lowering::Options::default()).unwrap();
    let ptx = compiled.module.to_text();
    assert_eq!(ptx.matches("ld.shared").count(), 2, "{ptx}");
    let again = ir::text::parse("again.tile", &text).unwrap();
    assert_eq!(ir::text::print(&again), text, "the text reads back");
    let found = run_func(again, &[], 4 * 32);
    for (at, found) in found.chunks(4).enumerate() {
        assert_eq!(found, (at as i32 * 1002).to_le_bytes(), "{at}");
    }
}
