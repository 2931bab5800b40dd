//! Gather, scatter and atomic scatter on views of shared memory, along every dimension.

use gluon_lang::lang::KernelFn;
use gluon_lang::lang::prelude::*;

use crate::machine::run_func;
use crate::views::{
    Dice, Plan, SHARED, bytes_of, coords, current, emptied, filled, number, numbers, reference, set,
};

thread_local! {
    /// The dimension indexed, and the shape of the indices.
    static INDEXED: std::cell::RefCell<(usize, Vec<u32>)> = const { std::cell::RefCell::new((0, Vec::new())) };
}

/// What the indices name goes to the beginning of `out`; then `y` to there, if no place is named twice, and the allocation
/// to the rest of `out`.
#[kernel(warps = 4)]
fn moves<T: Element, I: Int>(x: Ptr<T>, y: Ptr<T>, indices: Ptr<I>, index: Ptr<i32>, out: Ptr<T>) {
    let plan = current();
    let (axis, shape) = INDEXED.with_borrow(Clone::clone);
    let (tile, view) = filled(&plan, x, index);
    let places = numbers(&shape, &plan.to);
    let at = indices.at(places).load();
    out.at(places).store(view.gather(at, axis));
    if shape[axis] <= view.shape()[axis] {
        view.scatter(y.at(places).load(), at, axis);
    }
    emptied(&plan, tile, out, shape.iter().product());
}

#[track_caller]
pub(crate) fn check<T: Element, I: Int>(plan: &Plan, dice: &mut Dice) {
    set(plan);
    let (view_shape, held) = reference(plan);
    let axis = dice.below(view_shape.len());
    let size = view_shape[axis];
    let mut shape = view_shape.clone();
    shape[axis] = (size * 2).max(2) >> dice.below(3);
    shape[axis] = shape[axis].max(1);
    INDEXED.set((axis, shape.clone()));
    let traced = KernelFn::trace(moves::<T, I>);
    let func = traced.unwrap_or_else(|e| panic!("{e}\n{plan:?}")).func;
    let len: u32 = shape.iter().product();
    let bytes = T::DTYPE.bytes() as usize;
    let total: u32 = plan.alloc.iter().product();
    let x = bytes_of((0..u64::from(total)).map(|n| n + 1), T::DTYPE);
    let y = bytes_of((0..u64::from(len)).map(|n| n + 100_000), T::DTYPE);
    // In each line every index once, as far as there are others.
    let (odd, first) = (2 * dice.below(8) as u32 + 1, dice.below(64) as u32);
    let index = |c: &[u32]| (c[axis] * odd + first + c.iter().sum::<u32>() - c[axis]) % size;
    let at: Vec<u32> = (0..len).map(|n| index(&coords(n, &shape))).collect();
    let places: Vec<u32> = (0..len)
        .map(|n| {
            let mut c = coords(n, &shape);
            c[axis] = at[n as usize];
            held[number(&c, &view_shape) as usize]
        })
        .collect();
    let index_bytes = I::DTYPE.bytes() as usize;
    let indices: Vec<u8> = at
        .iter()
        .flat_map(|&i| u64::from(i).to_le_bytes()[..index_bytes].to_vec())
        .collect();
    let zero = 0_i32.to_le_bytes();
    let found = run_func(
        func,
        &[&x, &y, &indices, &zero],
        len as usize * bytes + x.len(),
    );
    let read: Vec<u8> = places
        .iter()
        .flat_map(|&at| x[at as usize * bytes..][..bytes].to_vec())
        .collect();
    assert!(
        found[..read.len()] == read,
        "gather: {axis} {shape:?} {plan:?}"
    );
    let mut written = x.clone();
    if shape[axis] <= size {
        for (n, &at) in places.iter().enumerate() {
            let from = &y[n * bytes..][..bytes];
            written[at as usize * bytes..][..bytes].copy_from_slice(from);
        }
    }
    assert!(
        found[read.len()..] == written,
        "scatter: {axis} {shape:?} {plan:?}"
    );
}

fn sweep<T: Element, I: Int>(seed: u64) {
    let mut dice = Dice(seed);
    let bits = (T::DTYPE.bytes() * 8).to_string();
    for shared in SHARED {
        let shared = shared.replace("BITS", &bits);
        if shared.contains("Nvmma(128") && T::DTYPE.bytes() * 32 < 128 {
            continue;
        }
        for round in 0..6 {
            let plan = dice.plan(&shared, (round % 2 == 0).then_some(3));
            check::<T, I>(&plan, &mut dice);
        }
    }
}

#[test]
fn indices_move_booleans_by_long_numbers() {
    sweep::<bool, i64>(11);
}

#[test]
fn indices_move_halves_by_words() {
    sweep::<f16, i32>(12);
}

#[test]
fn indices_move_words_by_short_numbers() {
    sweep::<f32, i16>(13);
}

#[test]
fn indices_move_double_words_by_unsigned_numbers() {
    sweep::<f64, u32>(14);
}

/// 4096 numbers counted in 64 bins of two rows; odd ones not at all.
#[kernel(warps = 4)]
fn counts<T: Numeric>(x: Ptr<i32>, out: Ptr<T>) {
    let layout = Blocked::new([1, 4], [4, 8], [1, 4], [1, 0]);
    let flat = Blocked::new([1, 1], [1, 32], [2, 2], [1, 0]);
    let bins = Smem::<T>::alloc([4, 64], Swizzled::new(4, 1, 4, [1, 0]));
    bins.store(zeros([4, 64], flat.clone()));
    let rows = bins.slice(0, 2..4);
    let places = numbers(&[2, 2048], &layout.into());
    let at = x.at(places).load();
    rows.at_indices(at, 1)
        .mask((at & 1) == 0)
        .atomic_add(T::ONE);
    rows.at_indices(at, 1).atomic_max(T::ONE);
    out.at(numbers(&[4, 64], &flat.clone().into()))
        .store(bins.load(flat));
}

fn counted<T: Numeric>(from: impl Fn(u64) -> Vec<u8>) {
    let x: Vec<u32> = (0..4096_u32)
        .map(|n| n.wrapping_mul(2_654_435_761) >> 26)
        .collect();
    let bytes: Vec<u8> = x.iter().flat_map(|n| n.to_le_bytes()).collect();
    let mut bins = vec![0_u64; 256];
    for (n, &bin) in x.iter().enumerate() {
        let place = (2 + n / 2048) * 64 + bin as usize;
        bins[place] += u64::from(bin % 2 == 0);
    }
    for (n, &bin) in x.iter().enumerate() {
        let place = (2 + n / 2048) * 64 + bin as usize;
        bins[place] = bins[place].max(1);
    }
    let wanted: Vec<u8> = bins.iter().flat_map(|&n| from(n)).collect();
    let func = KernelFn::trace(counts::<T>)
        .unwrap_or_else(|e| panic!("{e}"))
        .func;
    assert_eq!(run_func(func, &[&bytes], wanted.len()), wanted);
}

#[test]
fn atomics_count_every_index() {
    counted::<i32>(|n| (n as i32).to_le_bytes().to_vec());
    counted::<u64>(|n| n.to_le_bytes().to_vec());
    counted::<f32>(|n| (n as f32).to_le_bytes().to_vec());
    counted::<f64>(|n| (n as f64).to_le_bytes().to_vec());
}

/// Every other operation, on one place for each thread and on one for all.
#[kernel(warps = 4)]
fn combines(x: Ptr<u32>, out: Ptr<u32>) {
    let layout = Blocked::new([1], [32], [4], [0]);
    let tile = Smem::<u32>::alloc([128], Swizzled::plain([0]));
    let at = arange(0..128, layout.clone());
    let v = x.at(at).load();
    tile.store(v);
    tile.at_indices(at ^ 1, 0).atomic_xor(v);
    tile.at_indices(at, 0).mask(at < 64).atomic_and(0xff_ffff);
    tile.at_indices(at, 0).mask(at >= 64).atomic_or(1);
    tile.at_indices(at & 7, 0).atomic_min(v);
    tile.at_indices(at, 0).mask(at == 100).atomic_xchg(7);
    out.at(at).store(tile.load(layout));
}

#[test]
fn atomics_combine_in_every_way() {
    let x: Vec<u32> = (1..=128_u32)
        .map(|n| n.wrapping_mul(2_654_435_761))
        .collect();
    let mut tile = x.clone();
    for (n, v) in x.iter().enumerate() {
        tile[n ^ 1] ^= v;
    }
    for (n, v) in tile.iter_mut().enumerate() {
        *v = if n < 64 { *v & 0xff_ffff } else { *v | 1 };
    }
    for (n, v) in x.iter().enumerate() {
        tile[n & 7] = tile[n & 7].min(*v);
    }
    tile[100] = 7;
    let bytes = |v: &[u32]| v.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>();
    let func = KernelFn::trace(combines)
        .unwrap_or_else(|e| panic!("{e}"))
        .func;
    assert_eq!(run_func(func, &[&bytes(&x)], 512), bytes(&tile));
}

/// Each number added to one of eight places.
#[kernel(warps = 4)]
fn sums<T: Float>(x: Ptr<T>, out: Ptr<T>) {
    let layout = Blocked::new([1], [32], [4], [0]);
    let tile = Smem::<T>::alloc([8], Swizzled::plain([0]));
    let few = arange(0..8, layout.clone());
    tile.store(zeros([8], layout.clone()));
    let at = arange(0..128, layout.clone());
    tile.at_indices(at & 7, 0).atomic_add(x.at(at).load());
    out.at(few).store(tile.load(layout));
}

fn summed<T: Float>(from: impl Fn(f32) -> Vec<u8>) {
    // Small integers, which every order adds up to the same.
    let x: Vec<f32> = (0..128).map(|n| ((n * 37) % 11) as f32 - 4.0).collect();
    let mut places = [0.0; 8];
    for (n, v) in x.iter().enumerate() {
        places[n & 7] += v;
    }
    let bytes = |v: &[f32]| v.iter().flat_map(|&n| from(n)).collect::<Vec<u8>>();
    let func = KernelFn::trace(sums::<T>)
        .unwrap_or_else(|e| panic!("{e}"))
        .func;
    let wanted = bytes(&places);
    assert_eq!(run_func(func, &[&bytes(&x)], wanted.len()), wanted);
}

#[test]
fn atomics_add_floats_of_every_width() {
    summed::<f16>(|n| f16::from_f32(n).to_le_bytes().to_vec());
    summed::<bf16>(|n| bf16::from_f32(n).to_le_bytes().to_vec());
    summed::<f32>(|n| n.to_le_bytes().to_vec());
    summed::<f64>(|n| f64::from(n).to_le_bytes().to_vec());
}
