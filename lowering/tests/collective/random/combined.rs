//! Steps that bring elements together: reductions, scans, gathers, histograms, orders.

use ir::elem::DType;
use layout::{Blocked, Layout, relate};

use super::program::{Program, Tile, count, float, float_bits, integer, mask};
use crate::kernel::{coordinates, number};

pub(crate) const STEPS: &[(&str, super::movement::Step)] = &[
    ("reduce", reduce),
    ("place of the largest", largest),
    ("scan", scan),
    ("scan of maps", maps),
    ("gather", gather),
    ("sort", sort),
    ("histogram", histogram),
];

/// An operation on two elements that is associative and exact for the elements at hand.
pub(crate) fn operation(program: &mut Program, tile: &Tile) -> Option<&'static str> {
    let ops: &[&str] = match tile.dtype {
        _ if tile.is_pointer => return None,
        DType::I1 => &["and", "or", "xor"],
        d if d.is_narrow_float() => return None,
        d if d.is_float() => {
            let whole = match d {
                DType::F16 => 11,
                DType::Bf16 => 8,
                DType::F32 => 24,
                _ => 53,
            };
            let sum: f64 = tile.bits.iter().map(|&b| float(b, d).abs()).sum();
            if sum < f64::from(whole).exp2() {
                &["add", "min", "max"]
            } else {
                &["min", "max"]
            }
        }
        _ => &["add", "mul", "min", "max", "and", "or", "xor"],
    };
    Some(program.dice.pick(ops))
}

/// Two elements as one.
pub(crate) fn combine(op: &str, a: u64, b: u64, dtype: DType) -> u64 {
    if dtype.is_float() {
        let (x, y) = (float(a, dtype), float(b, dtype));
        let both = match op {
            "add" => x + y,
            "min" => x.min(y),
            _ => x.max(y),
        };
        return float_bits(both, dtype);
    }
    let (x, y) = (integer(a, dtype), integer(b, dtype));
    let both = match op {
        "add" => x + y,
        "mul" => return a.wrapping_mul(b) & mask(dtype),
        "min" => x.min(y),
        "max" => x.max(y),
        "and" => x & y,
        "or" => x | y,
        _ => x ^ y,
    };
    both as u64 & mask(dtype)
}

/// The lines of elements along an axis: for each the numbers of its elements in order.
pub(crate) fn lines(shape: &[u32], axis: usize) -> Vec<Vec<usize>> {
    let starts = (0..count(shape)).filter(|&at| coordinates(at, shape)[axis] == 0);
    let line = |at: usize| {
        let mut coords = coordinates(at, shape);
        let step = |step: u32| {
            coords[axis] = step as usize;
            number(&coords, shape)
        };
        (0..shape[axis]).map(step).collect()
    };
    starts.map(line).collect()
}

fn reduce(program: &mut Program, tile: &Tile) -> Option<Tile> {
    let op = operation(program, tile)?;
    let axis = program.dice.below(tile.shape.len());
    let dtype = tile.dtype;
    let [a, b, c] = ["a", "b", "c"].map(|hint| program.name(hint));
    let region = format!("%{c} = binary %{a}, %{b} {{op={op}}} : {dtype}");
    let bits: Vec<u64> = lines(&tile.shape, axis)
        .into_iter()
        .map(|line| {
            let elements = line.into_iter().map(|at| tile.bits[at]);
            elements
                .reduce(|a, b| combine(op, a, b, dtype))
                .expect("an element")
        })
        .collect();
    let head = format!(
        "reduce [%{}] {{axis={axis}}} (%{a}: {dtype}, %{b}: {dtype}) {{",
        tile.value
    );
    let text = format!("{head}\n  {region}\n  yield [%{c}]\n}}");
    reduced(program, tile, axis, &text, &[(dtype, bits)])
}

/// Appends a reduction; gives the first result, and looks at all others.
pub(crate) fn reduced(
    program: &mut Program,
    tile: &Tile,
    axis: usize,
    text: &str,
    results: &[(DType, Vec<u64>)],
) -> Option<Tile> {
    let names: Vec<String> = results.iter().map(|_| program.name("r")).collect();
    let listed: Vec<String> = names.iter().map(|name| format!("%{name}")).collect();
    if tile.shape.len() == 1 {
        let types: Vec<String> = results.iter().map(|(d, _)| d.to_string()).collect();
        program.kernel.line(&format!(
            "{} = {text} : {}",
            listed.join(", "),
            types.join(", ")
        ));
        for (name, (dtype, bits)) in names.iter().zip(results) {
            let to = program.name("s");
            program.kernel.pointer(&to, *dtype);
            program.kernel.line(&format!("store %{to}, %{name}"));
            program.buffer(*dtype, &[0x55]);
            program.expect("reduction to a scalar", *dtype, bits);
        }
        return None;
    }
    let mut shape = tile.shape.clone();
    shape.remove(axis);
    let tiles: Vec<Tile> = names
        .into_iter()
        .zip(results)
        .map(|(value, (dtype, bits))| Tile {
            value,
            shape: shape.clone(),
            layout: relate::reduce(&tile.layout, axis),
            dtype: *dtype,
            is_pointer: false,
            bits: bits.clone(),
        })
        .collect();
    let types: Vec<String> = tiles.iter().map(|tile| program.ty(tile)).collect();
    program.kernel.line(&format!(
        "{} = {text} : {}",
        listed.join(", "),
        types.join(", ")
    ));
    for tile in &tiles[1..] {
        program.observe("another result of a reduction", tile);
    }
    tiles.into_iter().next()
}

fn largest(program: &mut Program, tile: &Tile) -> Option<Tile> {
    if tile.is_pointer || tile.dtype == DType::I1 || tile.dtype.is_narrow_float() {
        return None;
    }
    let axis = program.dice.below(tile.shape.len());
    let is_smallest = program.dice.once_in(2);
    let dtype = tile.dtype;
    let number_type = program.dice.pick(&[DType::I32, DType::U16, DType::I64]);
    let numbers: Vec<u64> = (0..tile.bits.len() as u64).collect();
    let numbers = program.load(number_type, &tile.shape, &tile.layout, numbers);
    let [a, i, b, j, more, same, before, tie, left, m, k] = [
        "a", "i", "b", "j", "more", "same", "before", "tie", "left", "m", "k",
    ]
    .map(|hint| program.name(hint));
    let op = if is_smallest { "lt" } else { "gt" };
    let text = format!(
        "reduce [%{}, %{}] {{axis={axis}}} (%{a}: {dtype}, %{i}: {number_type}, %{b}: {dtype}, %{j}: {number_type}) {{
  %{more} = compare %{a}, %{b} {{op={op}}} : i1
  %{same} = compare %{a}, %{b} {{op=eq}} : i1
  %{before} = compare %{i}, %{j} {{op=lt}} : i1
  %{tie} = binary %{same}, %{before} {{op=and}} : i1
  %{left} = binary %{more}, %{tie} {{op=or}} : i1
  %{m} = select %{left}, %{a}, %{b} : {dtype}
  %{k} = select %{left}, %{i}, %{j} : {number_type}
  yield [%{m}, %{k}]
}}",
        tile.value, numbers.value
    );
    let op = if is_smallest { "min" } else { "max" };
    let best: Vec<usize> = lines(&tile.shape, axis)
        .into_iter()
        .map(|line| {
            let value = |at: usize| tile.bits[at];
            let best = line
                .iter()
                .map(|&at| value(at))
                .reduce(|a, b| combine(op, a, b, dtype));
            let is_best = |at: &usize| Some(combine("min", value(*at), value(*at), dtype)) == best;
            line.into_iter().find(is_best).expect("an element")
        })
        .collect();
    let results = [
        (dtype, best.iter().map(|&at| tile.bits[at]).collect()),
        (number_type, best.iter().map(|&at| at as u64).collect()),
    ];
    reduced(program, tile, axis, &text, &results)
}

/// Each line with every element combined with those before it.
pub(crate) fn scanned<T: Copy>(
    values: &[T],
    shape: &[u32],
    (axis, is_reverse): (usize, bool),
    combine: impl Fn(T, T) -> T,
) -> Vec<T> {
    let mut found = values.to_vec();
    for mut line in lines(shape, axis) {
        if is_reverse {
            line.reverse();
        }
        for pair in line.windows(2) {
            found[pair[1]] = combine(found[pair[0]], values[pair[1]]);
        }
    }
    found
}

pub(crate) fn direction(program: &mut Program, tile: &Tile) -> ((usize, bool), String) {
    let axis = program.dice.below(tile.shape.len());
    let is_reverse = program.dice.once_in(2);
    let reverse = if is_reverse { ", is_reverse=true" } else { "" };
    ((axis, is_reverse), format!("{{axis={axis}{reverse}}}"))
}

fn scan(program: &mut Program, tile: &Tile) -> Option<Tile> {
    let op = operation(program, tile)?;
    let (scan, attributes) = direction(program, tile);
    let dtype = tile.dtype;
    let [a, b, c] = ["a", "b", "c"].map(|hint| program.name(hint));
    let text = format!(
        "scan [%{}] {attributes} (%{a}: {dtype}, %{b}: {dtype}) {{\n  %{c} = binary %{a}, %{b} {{op={op}}} : {dtype}\n  yield [%{c}]\n}}",
        tile.value
    );
    let bits = scanned(&tile.bits, &tile.shape, scan, |a, b| {
        combine(op, a, b, dtype)
    });
    Some(program.define(
        &text,
        Tile {
            bits,
            ..tile.clone()
        },
    ))
}

/// Maps `x -> a x + b`, whose composition is associative and not commutative.
fn maps(program: &mut Program, tile: &Tile) -> Option<Tile> {
    if tile.is_pointer || !tile.dtype.is_int() {
        return None;
    }
    let (scan, attributes) = direction(program, tile);
    let dtype = tile.dtype;
    let bits = program.elements(dtype, &tile.shape);
    let other = program.load(dtype, &tile.shape, &tile.layout, bits);
    let [la, lb, ra, rb, p, q, t] =
        ["la", "lb", "ra", "rb", "p", "q", "t"].map(|hint| program.name(hint));
    let text = format!(
        "scan [%{}, %{}] {attributes} (%{la}: {dtype}, %{lb}: {dtype}, %{ra}: {dtype}, %{rb}: {dtype}) {{
  %{p} = binary %{la}, %{ra} {{op=mul}} : {dtype}
  %{q} = binary %{lb}, %{ra} {{op=mul}} : {dtype}
  %{t} = binary %{q}, %{rb} {{op=add}} : {dtype}
  yield [%{p}, %{t}]
}}",
        tile.value, other.value
    );
    let pairs: Vec<(u64, u64)> = tile
        .bits
        .iter()
        .copied()
        .zip(other.bits.iter().copied())
        .collect();
    let found = scanned(&pairs, &tile.shape, scan, |l, r| {
        (
            combine("mul", l.0, r.0, dtype),
            combine("add", combine("mul", l.1, r.0, dtype), r.1, dtype),
        )
    });
    let (x, y) = (program.name("m"), program.name("m"));
    let ty = program.ty(tile);
    program
        .kernel
        .line(&format!("%{x}, %{y} = {text} : {ty}, {ty}"));
    let second = Tile {
        value: y,
        bits: found.iter().map(|f| f.1).collect(),
        ..other
    };
    program.observe("second of a scan", &second);
    Some(Tile {
        value: x,
        bits: found.iter().map(|f| f.0).collect(),
        ..tile.clone()
    })
}

/// A layout for the indices of a tile: its own, or one that CTAs split as they do that.
fn indices(program: &mut Program, tile: &Tile) -> Option<Layout> {
    let rank = tile.shape.len();
    if program.dice.once_in(2) {
        return Some(tile.layout.clone());
    }
    if program.team.cta_bits == 0 {
        return Some(program.layout(rank));
    }
    let Layout::Blocked(blocked) = &tile.layout else {
        return None;
    };
    let bits = program.dice.below(4) as u32;
    let other = Blocked::new(
        program.dice.spread(rank, bits),
        program.dice.spread(rank, 5),
        program.dice.spread(rank, program.team.warp_bits),
        program.dice.order(rank),
    );
    Some(other.with_ctas(blocked.cta_bases.clone()).into())
}

fn gather(program: &mut Program, tile: &Tile) -> Option<Tile> {
    let axis = program.dice.below(tile.shape.len());
    let mut shape = tile.shape.clone();
    shape[axis] = 1 << program.dice.below(7);
    if count(&shape) > 2048 {
        return None;
    }
    let layout = indices(program, tile)?;
    let index = program
        .dice
        .pick(&[DType::I32, DType::U8, DType::I64, DType::U16]);
    let size = u64::from(tile.shape[axis]).min(if index == DType::U8 { 256 } else { 1 << 15 });
    let at: Vec<u64> = (0..count(&shape))
        .map(|_| program.dice.bits() % size)
        .collect();
    let bits = (0..count(&shape))
        .map(|place| {
            let mut coords = coordinates(place, &shape);
            coords[axis] = at[place] as usize;
            tile.bits[number(&coords, &tile.shape)]
        })
        .collect();
    let indices = program.load(index, &shape, &layout, at);
    let text = format!("gather %{}, %{} {{axis={axis}}}", tile.value, indices.value);
    Some(program.define(
        &text,
        Tile {
            shape,
            layout,
            bits,
            ..tile.clone()
        },
    ))
}

/// How many of so many elements a sort keeps: all, or a power of two.
pub(crate) fn kept(program: &mut Program, size: u32) -> u32 {
    let powers = (0..32)
        .map(|bit| 1_u32 << bit)
        .filter(|count| *count < size);
    let counts: Vec<u32> = powers.chain([size]).collect();
    program.dice.pick(&counts)
}

fn sort(program: &mut Program, tile: &Tile) -> Option<Tile> {
    if tile.is_pointer || !tile.dtype.is_int() {
        return None;
    }
    let axis = program.dice.below(tile.shape.len());
    let is_descending = program.dice.once_in(2);
    let mut shape = tile.shape.clone();
    shape[axis] = kept(program, shape[axis]);
    let layout = relate::keep(&tile.layout, &tile.shape, &shape);
    let mut bits = vec![0; count(&shape)];
    for (line, out) in lines(&tile.shape, axis)
        .into_iter()
        .zip(lines(&shape, axis))
    {
        let mut values: Vec<u64> = line.into_iter().map(|at| tile.bits[at]).collect();
        values.sort_by_key(|&v| integer(v, tile.dtype));
        if is_descending {
            values.reverse();
        }
        for (to, value) in out.into_iter().zip(values) {
            bits[to] = value;
        }
    }
    let descending = if is_descending {
        ", is_descending=true"
    } else {
        ""
    };
    let text = format!(
        "sort [%{}] {{axis={axis}, count={}{descending}}}",
        tile.value, shape[axis]
    );
    Some(program.define(
        &text,
        Tile {
            shape,
            layout,
            bits,
            ..tile.clone()
        },
    ))
}

/// Counts of numbers of its own, some of which no bin counts.
fn histogram(program: &mut Program, _: &Tile) -> Option<Tile> {
    let shape = program.shape(1, 11);
    let layout = program.layout(1);
    let bins = 1_u32 << program.dice.below(10);
    let dtype = program.dice.pick(&[DType::I32, DType::U32]);
    let numbers: Vec<u64> = (0..shape[0])
        .map(|_| ((program.dice.bits() % u64::from(bins + 5)).wrapping_sub(2)) & 0xffff_ffff)
        .collect();
    let is_masked = program.dice.once_in(2);
    let is_counted = program.elements(DType::I1, &shape);
    let numbers = program.load(dtype, &shape, &layout, numbers);
    let mut text = format!("histogram %{}", numbers.value);
    if is_masked {
        let mask = program.load(DType::I1, &shape, &layout, is_counted.clone());
        text += &format!(", mask=%{}", mask.value);
    }
    let mut bits = vec![0; bins as usize];
    for (number, counts) in numbers.bits.iter().zip(is_counted) {
        if let Some(bin) = bits.get_mut(*number as usize)
            && (counts == 1 || !is_masked)
        {
            *bin += 1;
        }
    }
    let layout = program.layout(1);
    let counts = Tile {
        shape: vec![bins],
        layout,
        dtype: DType::I32,
        bits,
        ..numbers
    };
    Some(program.define(&text, counts))
}
