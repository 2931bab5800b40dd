//! Tiles of larger tensors of any strides, of which a part is within bounds.

use ir::elem::DType;
use ir::ops::atomic::AtomicOp;

use super::program::{Program, Tile, count};
use super::{combined, shared};
use crate::kernel::{Form, coordinates};

pub(crate) const STEPS: &[(&str, super::movement::Step)] =
    &[("ragged load", load), ("ragged store", store)];

/// A step that does something else each time that it is done.
pub(crate) const ATOMIC: &[(&str, super::movement::Step)] = &[("ragged atomic", atomic)];

/// Where the elements of a tile lie in memory, and which of them may be touched.
struct Part {
    pointers: String,
    mask: Option<String>,
    /// The place of each element that may be touched.
    places: Vec<Option<usize>>,
    /// One more than the last of them.
    len: usize,
}

/// Strides of dimensions in any order, with gaps between.
fn strides(program: &mut Program, shape: &[u32]) -> Vec<u32> {
    let mut strides = vec![0; shape.len()];
    let mut next = program.dice.pick(&[1, 1, 1, 2]);
    for dim in program.dice.order(shape.len()).into_iter().rev() {
        strides[dim as usize] = next;
        let gap = program.dice.pick(&[0, 0, 0, 1, 4, 8]);
        next = next * shape[dim as usize] + gap;
    }
    strides
}

/// A number that is a constant, or known to memory alone.
fn number(program: &mut Program, value: u32) -> String {
    let name = program.name("n");
    if program.dice.once_in(2) {
        program
            .kernel
            .line(&format!("%{name} = constant {{value={value}}} : i32"));
        return name;
    }
    let from = program.name("from");
    program.kernel.pointer(&from, DType::I32);
    program.buffer(DType::I32, &[value.into()]);
    program
        .kernel
        .line(&format!("%{name} = load %{from} : i32"));
    name
}

fn splat(program: &mut Program, form: &Form, scalar: &str) -> String {
    let name = program.name("all");
    let ty = form.of("i32");
    program
        .kernel
        .line(&format!("%{name} = splat %{scalar} : {ty}"));
    name
}

/// The mask of the elements below these limits; none where nothing is limited.
fn within(program: &mut Program, form: &Form, limits: &[Option<u32>]) -> Option<String> {
    let mut mask: Option<String> = None;
    let ty = form.of("i1");
    for (dim, limit) in limits.iter().enumerate() {
        let Some(limit) = *limit else { continue };
        let limit = number(program, limit);
        let limit = splat(program, form, &limit);
        let inside = program.name("inside");
        let coordinate = form.coordinate(dim);
        program.kernel.line(&format!(
            "%{inside} = compare %{coordinate}, %{limit} {{op=lt}} : {ty}"
        ));
        mask = Some(match mask {
            None => inside,
            Some(mask) => {
                let both = program.name("both");
                program.kernel.line(&format!(
                    "%{both} = binary %{mask}, %{inside} {{op=and}} : {ty}"
                ));
                both
            }
        });
    }
    mask
}

fn part(program: &mut Program, tile: &Tile) -> Part {
    let strides = strides(program, &tile.shape);
    let start = program.dice.pick(&[0, 0, 1, 4, 16]);
    let limits: Vec<Option<u32>> = tile
        .shape
        .iter()
        .map(|&size| {
            let limit = program.dice.below(size as usize + 2) as u32;
            program.dice.once_in(2).then_some(limit)
        })
        .collect();
    let name = program.name("f");
    let layout = tile.layout.to_string();
    let form = program
        .kernel
        .strided(&name, &layout, &tile.shape, &strides);
    let first = number(program, start);
    let first = splat(program, &form, &first);
    let at = program.name("at");
    program.kernel.line(&format!(
        "%{at} = binary %{first}, %{} {{op=add}} : {}",
        form.numbers(),
        form.of("i32")
    ));
    let mask = within(program, &form, &limits);
    let places: Vec<Option<usize>> = (0..count(&tile.shape))
        .map(|number| {
            let coords = coordinates(number, &tile.shape);
            let is_in = |(c, limit): (&usize, &Option<u32>)| limit.is_none_or(|l| *c < l as usize);
            let place = coords.iter().zip(&strides).map(|(c, s)| c * *s as usize);
            let place = start as usize + place.sum::<usize>();
            coords.iter().zip(&limits).all(is_in).then_some(place)
        })
        .collect();
    let pointers = program.name("p");
    program.kernel.pointers(&pointers, tile.dtype, &form, &at);
    Part {
        pointers: format!("{pointers}_p"),
        mask,
        len: places.iter().flatten().max().map_or(1, |last| last + 1),
        places,
    }
}

fn is_large(tile: &Tile) -> bool {
    tile.is_pointer || tile.bits.len() > 512
}

fn load(program: &mut Program, tile: &Tile) -> Option<Tile> {
    if is_large(tile) {
        return None;
    }
    let part = part(program, tile);
    // Nothing lies behind the last element.
    let memory = program.elements(tile.dtype, &[part.len as u32]);
    program.buffer(tile.dtype, &memory);
    let found = |(place, &other): (&Option<usize>, &u64)| place.map_or(other, |at| memory[at]);
    let bits = part.places.iter().zip(&tile.bits).map(found).collect();
    let masked = part.mask.map_or(String::new(), |mask| {
        format!(", mask=%{mask}, other=%{}", tile.value)
    });
    Some(program.define(
        &format!("load %{}{masked}", part.pointers),
        Tile {
            bits,
            ..tile.clone()
        },
    ))
}

fn store(program: &mut Program, tile: &Tile) -> Option<Tile> {
    if is_large(tile) {
        return None;
    }
    let part = part(program, tile);
    let mut memory = program.elements(tile.dtype, &[part.len as u32]);
    program.buffer(tile.dtype, &memory);
    for (place, &bits) in part.places.iter().zip(&tile.bits) {
        if let Some(at) = *place {
            memory[at] = bits;
        }
    }
    let masked = part
        .mask
        .map_or(String::new(), |mask| format!(", mask=%{mask}"));
    program.kernel.line(&format!(
        "store %{}, %{}{masked}",
        part.pointers, tile.value
    ));
    let what = format!("ragged store {:?} in {}", tile.shape, tile.layout);
    program.expect(&what, tile.dtype, &memory);
    None
}

/// Each element is counted once, whoever holds copies of it.
fn atomic(program: &mut Program, tile: &Tile) -> Option<Tile> {
    if is_large(tile) || !shared::is_held_once(&tile.layout, &tile.shape) {
        return None;
    }
    let dtype = program.dice.pick(&[
        DType::F32,
        DType::F16,
        DType::Bf16,
        DType::F32,
        DType::F64,
        DType::I32,
        DType::U64,
    ]);
    let ops = [AtomicOp::Add, AtomicOp::Add, AtomicOp::Max];
    let op = program.dice.pick(&ops);
    if !op.accepts(dtype) {
        return None;
    }
    let bits = program.elements(dtype, &tile.shape);
    let tile = &program.load(dtype, &tile.shape, &tile.layout, bits);
    let part = part(program, tile);
    let mut memory = program.elements(dtype, &[part.len as u32]);
    program.buffer(dtype, &memory);
    let buffer = program.newest();
    for (place, &bits) in part.places.iter().zip(&tile.bits) {
        if let Some(at) = *place {
            memory[at] = combined::combine(op.name(), memory[at], bits, dtype);
        }
    }
    let masked = part
        .mask
        .map_or(String::new(), |mask| format!(", mask=%{mask}"));
    let text = format!(
        "atomic_rmw %{}, %{}{masked} {{op={op}, semantics=relaxed, scope=gpu}}",
        part.pointers, tile.value
    );
    // An unused result is not requested.
    program.define(&text, tile.clone());
    program.expect_of(
        buffer,
        &format!("ragged atomic {op} of {:?} in {}", tile.shape, tile.layout),
        dtype,
        &memory,
    );
    None
}
