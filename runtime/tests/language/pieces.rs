//! Slices of tensors and tensors put together: what each element is, in layouts of all kinds.

use tilekit::prelude::*;

fn rows() -> Blocked {
    Blocked::new([1, 2], [8, 4], [4, 1], [1, 0])
}

/// The middle of each row, and then the first columns and the last ones.
#[kernel(warps = 4)]
fn middle_first<T: Numeric>(input: Ptr<T>, out: Ptr<T>) {
    let row = arange(0..2, Slice::new(1, rows())).expand_dims(1);
    let x = input
        .at(row * 32 + arange(0..32, Slice::new(0, rows())).expand_dims(0))
        .load();
    let (first, middle, last) = (x.slice(1, 0..8), x.slice(1, 8..24), x.slice(1, 24..32));
    let turned = cat([middle, first, last], 1);
    let [left, right] = turned.chunks::<2>(1);
    let all = right.cat(left, 1);
    let at = row * 32 + arange(0..32, Slice::new(0, all.layout())).expand_dims(0);
    out.at(at).store(all);
}

fn middle_first_on_host<T: Copy>(input: &[T], out: &mut [T]) {
    for (from, to) in input.chunks(32).zip(out.chunks_mut(32)) {
        let turned: Vec<T> = from[8..24]
            .iter()
            .chain(&from[..8])
            .chain(&from[24..])
            .copied()
            .collect();
        to[..16].copy_from_slice(&turned[16..]);
        to[16..].copy_from_slice(&turned[..16]);
    }
}

#[test]
fn ranges_change_places_in_all_element_types() {
    macro_rules! check {
        ($($dtype:ident)*) => {$({
            let numbers: Vec<$dtype> = (0..64_u8).map(|i| <$dtype>::from(i) * <$dtype>::from(1_u8)).collect();
            crate::check!(middle_first::<$dtype>, [numbers], |input: &[$dtype], out: &mut [$dtype]| {
                middle_first_on_host(input, out);
            });
        })*};
    }
    check!(i32 f32 f64 u8 i64 u16 f16 bf16);
}

/// Extents that are no powers of two: 48 is taken apart into 16 and 32, and 48 and 32 are 80.
#[kernel(warps = 1)]
fn odd_extents(input: Ptr<i32>, out: Ptr<i32>) {
    let tile = Blocked::new([1, 1], [2, 16], [1, 1], [1, 0]);
    let line = Slice::new(0, tile);
    let x = input.at(arange(0..48, line.clone())).load();
    let turned = cat([x.slice(0, 16..48), x.slice(0, 0..16)], 0);
    out.at(arange(0..48, turned.layout())).store(turned);
    let long = cat([turned, x.slice(0, 0..32)], 0);
    let part = long.slice(0, 48..64);
    out.at(48 + arange(0..16, part.layout())).store(part);
}

#[test]
fn odd_extents_are_exact() {
    let numbers: Vec<i32> = (0..48).map(|i| i * 3 - 7).collect();
    crate::check!(odd_extents, [numbers], |input: &[i32], out: &mut [i32]| {
        out[..32].copy_from_slice(&input[16..]);
        out[32..48].copy_from_slice(&input[..16]);
        out[48..].copy_from_slice(&input[..16]);
    });
}

/// Two vectors in turns, of which layouts are open.
#[kernel(warps = 4)]
fn in_turns(input: Ptr<i64>, out: Ptr<i64>) {
    let at = arange(0..32, Auto);
    let both = interleave(input.at(at).load(), input.at(at + 32).load());
    let line = Blocked::new([2], [32], [4], [0]);
    out.at(arange(0..64, line)).store(both);
}

/// Rows of 24 and 24 become rows of 48.
#[kernel(warps = 1)]
fn rows_in_turns(input: Ptr<i32>, out: Ptr<i32>) {
    let tile = Blocked::new([1, 1], [4, 8], [1, 1], [1, 0]);
    let row = arange(0..1, Slice::new(1, tile.clone())).expand_dims(1);
    let col = arange(0..24, Slice::new(0, tile)).expand_dims(0);
    let x = input.at(row * 24 + col).load();
    let both = x.interleave(x + 100);
    let place = arange(0..48, Slice::new(0, both.layout())).expand_dims(0);
    out.at(place).store(both);
}

#[test]
fn elements_come_in_turns() {
    let numbers: Vec<i64> = (0..64).map(|i| i * i).collect();
    crate::check!(in_turns, [numbers], |input: &[i64], out: &mut [i64]| {
        for at in 0..64 {
            out[at] = input[at / 2 + at % 2 * 32];
        }
    });
    let numbers: Vec<i32> = (0..24).map(|i| i * 5).collect();
    crate::check!(
        rows_in_turns,
        [numbers],
        |input: &[i32], out: &mut [i32]| {
            for at in 0..48 {
                out[at] = input[at / 2] + at as i32 % 2 * 100;
            }
        }
    );
}

/// Pointers are sliced as well, and the accesses stay as wide as the range allows.
#[kernel(warps = 1)]
fn half_of_the_pointers(input: Ptr<i32>, out: Ptr<i32>) {
    let at = arange(0..64, Blocked::new([2], [32], [1], [0]));
    let tile = Blocked::new([1, 4], [32, 1], [1, 1], [1, 0]);
    let row = arange(0..2, Slice::new(1, tile.clone())).expand_dims(1);
    let col = arange(0..16, Slice::new(0, tile)).expand_dims(0);
    let ends = (input + (row * 16 + col)).slice(1, 12..16);
    let x = ends.load();
    out.at(at).store(x.sum(0).sum(0).scalar());
}

#[test]
fn pointers_have_parts() {
    let numbers: Vec<i32> = (0..32).map(|i| i * i - 40).collect();
    crate::check!(
        half_of_the_pointers,
        [numbers],
        |input: &[i32], out: &mut [i32]| {
            let sum: i32 = input.chunks(16).flat_map(|row| &row[12..]).sum();
            out.fill(sum);
        }
    );
    let compiled = half_of_the_pointers.compile(&Compiler::default()).unwrap();
    let ptx = compiled.compiled().ptx().to_owned();
    assert!(ptx.contains("ld.global.v4.b32"), "{ptx}");
}

/// Where the elements that a mask keeps go, and how many there are.
#[kernel(warps = 4)]
fn compacted(input: Ptr<i32>, out: Ptr<i32>) {
    let line = Blocked::new([1], [32], [4], [0]);
    let at = arange(0..128, line);
    let x = input.at(at).load();
    let keep = x > 0;
    let (places, count) = keep.cast::<i32>().cumsum_with_total(0);
    out.at(places).mask(keep).store(x);
    out.at(0).store(count.scalar());
}

/// Of each row: the last of its running pairs, and both totals of a combination that is not commutative.
#[kernel(warps = 4)]
fn last_of_rows(input: Ptr<i32>, out: Ptr<i32>) {
    let tile = Blocked::new([1, 1], [1, 32], [1, 4], [1, 0]);
    let row = arange(0..4, Slice::new(1, tile.clone()));
    let col = arange(0..32, Slice::new(0, tile)).expand_dims(0);
    let x = input.at(row.expand_dims(1) * 32 + col).load();
    let (_, (first, last)) = scan_with_total((x, x), 1, |a, b| (a.0, b.1));
    out.at(row).store(first);
    out.at(row + 4).store(last);
}

#[test]
fn scans_give_their_totals() {
    let numbers: Vec<i32> = (0..128).map(|i| i * 37 % 101 - 60).collect();
    let none = vec![-1; 128];
    crate::check!(
        compacted,
        [numbers.clone(), none],
        |input: &[i32], out: &mut [i32]| {
            let kept: Vec<i32> = input.iter().copied().filter(|x| *x > 0).collect();
            out[0] = kept.len() as i32;
            out[1..=kept.len()].copy_from_slice(&kept);
        }
    );
    crate::check!(last_of_rows, [numbers], |input: &[i32], out: &mut [i32]| {
        for (row, all) in input.chunks(32).enumerate() {
            (out[row], out[row + 4]) = (all[0], all[31]);
        }
    });
}
