//! Random layouts of shared memory.

use layout::SharedLayout;

use super::dice::Dice;

/// A layout of any kind that fits a shape and the width of its elements.
pub(crate) fn layout(dice: &mut Dice, shape: &[u32], elem_bits: u32) -> SharedLayout {
    if shape.iter().any(|size| !size.is_power_of_two()) {
        return cut(dice, shape, elem_bits);
    }
    let text = match dice.below(4) {
        0 => swizzled(dice, shape),
        1 => padded(dice, shape),
        2 if shape.len() > 1 => nvmma(dice, shape, elem_bits),
        _ => linear(dice, shape),
    };
    text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
}

/// A layout that holds a shape which is no powers of two, unswizzled rows if none of a few others does.
fn cut(dice: &mut Dice, shape: &[u32], elem_bits: u32) -> SharedLayout {
    let plain = format!("Swizzled(1, 1, 1, {:?})", dice.order(shape.len()));
    let mut texts: Vec<String> = (0..4).map(|_| swizzled(dice, shape)).collect();
    if shape.len() > 1 {
        let swizzles = [0, 32, 64, 128];
        let nvmma = |dice: &mut Dice| {
            let (swizzle, turned) = (dice.pick(&swizzles), dice.once_in(2));
            format!(
                "Nvmma({swizzle}, {elem_bits}, transposed={turned}, rank={})",
                shape.len()
            )
        };
        texts.extend((0..4).map(|_| nvmma(dice)));
    }
    dice.shuffle(&mut texts);
    let layouts = texts.iter().chain([&plain]);
    let mut layouts = layouts.map(|text| {
        text.parse::<SharedLayout>()
            .unwrap_or_else(|e| panic!("{text}: {e}"))
    });
    layouts
        .find(|layout| layout.check(shape).is_ok())
        .expect("unswizzled rows hold any shape")
}

fn swizzled(dice: &mut Dice, shape: &[u32]) -> String {
    let mut power = |most: usize| 1 << dice.below(most);
    let (vec, per_phase, max_phase) = (power(5), power(4), power(5));
    format!(
        "Swizzled({vec}, {per_phase}, {max_phase}, {:?})",
        dice.order(shape.len())
    )
}

fn padded(dice: &mut Dice, shape: &[u32]) -> String {
    let mut intervals: Vec<u32> = (0..10).map(|bit| 1 << bit).collect();
    dice.shuffle(&mut intervals);
    intervals.truncate(1 + dice.below(3));
    let pairs: Vec<[u32; 2]> = intervals
        .into_iter()
        .map(|interval| [interval, 1 << dice.below(4)])
        .collect();
    if dice.once_in(3) && shape.iter().any(|size| *size > 1) {
        let bases = units(dice, shape);
        return format!("Padded({pairs:?}, offset={bases:?})");
    }
    format!("Padded({pairs:?}, {:?})", dice.order(shape.len()))
}

/// The widest swizzle is chosen as often as the others, as far as rows are long enough for it.
fn nvmma(dice: &mut Dice, shape: &[u32], elem_bits: u32) -> String {
    let transposed = dice.once_in(2);
    let columns = if transposed {
        shape[0]
    } else {
        shape[shape.len() - 1]
    };
    let row_bytes = columns * elem_bits / 8;
    let swizzles: Vec<u32> = [0, 32, 64, 128]
        .into_iter()
        .filter(|s| *s <= row_bytes)
        .collect();
    format!(
        "Nvmma({}, {elem_bits}, transposed={transposed}, rank={})",
        dice.pick(&swizzles),
        shape.len()
    )
}

/// One basis a bit of the shape, in any order.
fn units(dice: &mut Dice, shape: &[u32]) -> Vec<Vec<u32>> {
    let mut bases = Vec::new();
    for (dim, size) in shape.iter().enumerate() {
        for bit in 0..size.trailing_zeros() {
            let mut basis = vec![0; shape.len()];
            basis[dim] = 1 << bit;
            bases.push(basis);
        }
    }
    dice.shuffle(&mut bases);
    bases
}

/// Independent bases that are sums of others as often as not, and offsets that nothing uses.
fn linear(dice: &mut Dice, shape: &[u32]) -> String {
    let mut bases = units(dice, shape);
    for _ in 0..dice.below(2 * bases.len() + 1) {
        let (to, from) = (dice.below(bases.len()), dice.below(bases.len()));
        if to != from {
            let added = bases[from].clone();
            for (entry, added) in bases[to].iter_mut().zip(added) {
                *entry ^= added;
            }
        }
    }
    if bases.is_empty() || dice.once_in(5) {
        let at = dice.below(bases.len() + 1);
        bases.insert(at, vec![0; shape.len()]);
    }
    format!("SharedLinear(offset={bases:?})")
}
