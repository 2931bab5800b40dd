//! Steps that move elements: conversions and changes of shape.

use ir::elem::DType;
use layout::relate;

use super::combined;
use super::program::{Program, Tile, count, integer, mask};
use crate::kernel::{coordinates, number};

/// A step, where it is possible.
pub(crate) type Step = fn(&mut Program, &Tile) -> Option<Tile>;

pub(crate) const STEPS: &[(&str, Step)] = &[
    ("convert", convert),
    ("convert", convert),
    ("permute", permute),
    ("reshape", reshape),
    ("expand", expand),
    ("broadcast", broadcast),
    ("join", join),
    ("split", split),
];

/// Steps that change elements where they are.
pub(crate) const CHANGES: &[(&str, Step)] = &[("binary", binary), ("cast", cast)];

/// The elements of a tensor of `shape`, each from where `from` says.
fn moved(tile: &Tile, shape: &[u32], from: impl Fn(&[usize]) -> Vec<usize>) -> Vec<u64> {
    (0..count(shape))
        .map(|at| tile.bits[number(&from(&coordinates(at, shape)), &tile.shape)])
        .collect()
}

/// Pointers to the elements of a buffer, in another order than theirs.
pub(crate) fn pointers(program: &mut Program) -> Tile {
    let dtype = program.dice.pick(&[DType::F32, DType::I8, DType::I64]);
    let rank = 1 + program.dice.below(3);
    let shape = program.shape(rank, 9);
    let layout = program.layout(rank);
    let bits = program.elements(dtype, &shape);
    let form = program.form(&layout, &shape);
    let last = program.define(
        &format!("constant {{value={}}}", count(&shape) - 1),
        Tile {
            value: String::new(),
            shape: shape.clone(),
            layout: layout.clone(),
            dtype: DType::I32,
            is_pointer: false,
            bits: Vec::new(),
        },
    );
    let reversed = program.define(
        &format!("binary %{}, %{} {{op=sub}}", last.value, form.numbers()),
        last.clone(),
    );
    let name = program.name("p");
    program
        .kernel
        .pointers(&name, dtype, &form, &reversed.value);
    program.buffer(dtype, &bits);
    Tile {
        value: format!("{name}_p"),
        dtype,
        is_pointer: true,
        bits: bits.into_iter().rev().collect(),
        ..reversed
    }
}

pub(crate) fn convert(program: &mut Program, tile: &Tile) -> Option<Tile> {
    let layout = program.layout(tile.shape.len());
    let text = format!("convert_layout %{}", tile.value);
    let to = Tile {
        layout,
        ..tile.clone()
    };
    Some(program.define(&text, to))
}

fn permute(program: &mut Program, tile: &Tile) -> Option<Tile> {
    let order = program.dice.order(tile.shape.len());
    let layout = relate::permute(&tile.layout, &tile.shape, &order).ok()?;
    let shape: Vec<u32> = order.iter().map(|&dim| tile.shape[dim as usize]).collect();
    let bits = moved(tile, &shape, |coords| {
        let mut from = vec![0; coords.len()];
        for (coord, &dim) in coords.iter().zip(&order) {
            from[dim as usize] = *coord;
        }
        from
    });
    let text = format!("permute %{} {{order={order:?}}}", tile.value);
    let to = Tile {
        shape,
        layout,
        bits,
        ..tile.clone()
    };
    Some(program.define(&text, to))
}

fn reshape(program: &mut Program, tile: &Tile) -> Option<Tile> {
    let rank = 1 + program.dice.below(5);
    let bits = count(&tile.shape).trailing_zeros();
    let mut shape = program.dice.spread(rank, bits);
    shape[0] *= count(&tile.shape) as u32 >> bits;
    let layout = relate::reshape(&tile.layout, &tile.shape, &shape).ok()?;
    let text = format!("reshape %{}", tile.value);
    let to = Tile {
        shape,
        layout,
        ..tile.clone()
    };
    Some(program.define(&text, to))
}

fn expand(program: &mut Program, tile: &Tile) -> Option<Tile> {
    let rank = tile.shape.len();
    if rank > 4 {
        return None;
    }
    let axis = program.dice.below(rank + 1);
    let layout = program.layout(rank + 1);
    let sliced = Tile {
        layout: relate::reduce(&layout, axis),
        ..tile.clone()
    };
    let sliced = program.define(&format!("convert_layout %{}", tile.value), sliced);
    let mut shape = tile.shape.clone();
    shape.insert(axis, 1);
    let text = format!("expand_dims %{} {{axis={axis}}}", sliced.value);
    let to = Tile {
        shape,
        layout,
        ..sliced
    };
    Some(program.define(&text, to))
}

fn broadcast(program: &mut Program, tile: &Tile) -> Option<Tile> {
    let mut shape = tile.shape.clone();
    for size in shape.iter_mut().filter(|size| **size == 1) {
        *size <<= program.dice.below(5);
        if program.has_cuts && program.dice.once_in(2) {
            *size *= 3;
        }
    }
    if count(&shape) > 2048 || shape == tile.shape {
        return None;
    }
    let bits = moved(tile, &shape, |coords| {
        let fixed = coords.iter().zip(&tile.shape);
        fixed
            .map(|(c, &size)| if size == 1 { 0 } else { *c })
            .collect()
    });
    let text = format!("broadcast %{}", tile.value);
    let to = Tile {
        shape,
        bits,
        ..tile.clone()
    };
    Some(program.define(&text, to))
}

fn join(program: &mut Program, tile: &Tile) -> Option<Tile> {
    if tile.is_pointer || tile.shape.len() > 4 || tile.bits.len() > 1024 {
        return None;
    }
    let layout = relate::join(&tile.layout, &tile.shape).ok()?;
    let bits = program.elements(tile.dtype, &tile.shape);
    let other = program.load(tile.dtype, &tile.shape, &tile.layout, bits);
    let bits = tile
        .bits
        .iter()
        .zip(&other.bits)
        .flat_map(|(a, b)| [*a, *b])
        .collect();
    let mut shape = tile.shape.clone();
    shape.push(2);
    let text = format!("join %{}, %{}", tile.value, other.value);
    let to = Tile {
        shape,
        layout,
        bits,
        ..tile.clone()
    };
    Some(program.define(&text, to))
}

fn split(program: &mut Program, tile: &Tile) -> Option<Tile> {
    let (last, rest) = tile.shape.split_last()?;
    if *last != 2 || rest.is_empty() {
        return None;
    }
    let layout = relate::split(&tile.layout, &tile.shape).ok()?;
    let half = |which: usize| Tile {
        value: String::new(),
        shape: rest.to_vec(),
        layout: layout.clone(),
        bits: tile.bits.iter().skip(which).step_by(2).copied().collect(),
        ..tile.clone()
    };
    let (a, b) = (program.name("a"), program.name("b"));
    let (first, second) = (half(0), half(1));
    let ty = program.ty(&first);
    program
        .kernel
        .line(&format!("%{a}, %{b} = split %{} : {ty}, {ty}", tile.value));
    program.observe("second of split", &Tile { value: b, ..second });
    Some(Tile { value: a, ..first })
}

fn binary(program: &mut Program, tile: &Tile) -> Option<Tile> {
    let ops: &[&str] = match tile.dtype {
        _ if tile.is_pointer => return None,
        DType::I1 => &["and", "or", "xor"],
        d if d.is_narrow_float() => return None,
        d if d.is_float() => &["min", "max"],
        _ => &["add", "mul", "min", "max", "and", "or", "xor"],
    };
    let op = program.dice.pick(ops);
    let bits = program.elements(tile.dtype, &tile.shape);
    let other = program.load(tile.dtype, &tile.shape, &tile.layout, bits);
    let pairs = tile.bits.iter().zip(&other.bits);
    let bits = pairs
        .map(|(&a, &b)| combined::combine(op, a, b, tile.dtype))
        .collect();
    let text = format!("binary %{}, %{} {{op={op}}}", tile.value, other.value);
    let to = Tile {
        bits,
        ..tile.clone()
    };
    Some(program.define(&text, to))
}

/// To an integer of another width: cut off, or with more bits of its sign.
fn cast(program: &mut Program, tile: &Tile) -> Option<Tile> {
    if tile.is_pointer || !tile.dtype.is_int() || tile.dtype == DType::I1 {
        return None;
    }
    let dtypes = [DType::I8, DType::U8, DType::I16, DType::U32, DType::I64];
    let dtype = program.dice.pick(&dtypes);
    let cut = |&bits: &u64| integer(bits, tile.dtype) as u64 & mask(dtype);
    let to = Tile {
        dtype,
        bits: tile.bits.iter().map(cut).collect(),
        ..tile.clone()
    };
    Some(program.define(&format!("cast %{}", tile.value), to))
}
