//! Steps through memory: masked loads, tiles in shared memory, atomics.

use ir::elem::DType;
use ir::ops::atomic::AtomicOp;
use layout::{Axis, Blocked, Layout, SharedLayout, Swizzled};

use super::program::{Program, Tile, count, mask};
use super::{combined, shared_layouts};
use crate::kernel::{coordinates, number};

/// Steps that leave the same in memory however often they are done.
pub(crate) const AGAIN: &[(&str, super::movement::Step)] = &[
    ("masked load", masked_load),
    ("masked store", masked_store),
    ("round trip", round_trip),
    ("trip through a split tile", split_trip),
    ("shared gather", shared_gather),
    ("shared scatter", shared_scatter),
    ("shared counters", counters),
];

pub(crate) const STEPS: &[(&str, super::movement::Step)] = &[
    ("masked load", masked_load),
    ("masked store", masked_store),
    ("round trip", round_trip),
    ("trip through a split tile", split_trip),
    ("shared gather", shared_gather),
    ("shared scatter", shared_scatter),
    ("shared counters", counters),
    ("atomic", atomic),
    ("atomic", atomic),
    ("compare and swap", swap),
    ("atomic load and store", load_and_store),
];

/// A mask of a layout and shape.
fn some(program: &mut Program, shape: &[u32], layout: &Layout) -> Tile {
    let bits = program.elements(DType::I1, shape);
    program.load(DType::I1, shape, layout, bits)
}

fn masked_load(program: &mut Program, tile: &Tile) -> Option<Tile> {
    let mask = some(program, &tile.shape, &tile.layout);
    let form = program.form(&tile.layout, &tile.shape);
    let name = program.name("p");
    let numbers = form.numbers();
    program.kernel.pointers(&name, tile.dtype, &form, &numbers);
    let memory = program.elements(tile.dtype, &tile.shape);
    program.buffer(tile.dtype, &memory);
    let bits = (0..memory.len())
        .map(|at| {
            if mask.bits[at] == 1 {
                memory[at]
            } else {
                tile.bits[at]
            }
        })
        .collect();
    let text = format!(
        "load %{name}_p, mask=%{}, other=%{}",
        mask.value, tile.value
    );
    Some(program.define(
        &text,
        Tile {
            bits,
            ..tile.clone()
        },
    ))
}

fn masked_store(program: &mut Program, tile: &Tile) -> Option<Tile> {
    let mask = some(program, &tile.shape, &tile.layout);
    let form = program.form(&tile.layout, &tile.shape);
    let name = program.name("p");
    let numbers = form.numbers();
    program.kernel.pointers(&name, tile.dtype, &form, &numbers);
    let mut memory = program.elements(tile.dtype, &tile.shape);
    program.buffer(tile.dtype, &memory);
    for (at, place) in memory.iter_mut().enumerate() {
        if mask.bits[at] == 1 {
            *place = tile.bits[at];
        }
    }
    program.kernel.line(&format!(
        "store %{name}_p, %{}, mask=%{}",
        tile.value, mask.value
    ));
    let what = format!("masked store {:?} in {}", tile.shape, tile.layout);
    program.expect(&what, tile.dtype, &memory);
    None
}

/// Through a tile that the CTAs of the cluster split as they split the tensor.
fn split_trip(program: &mut Program, tile: &Tile) -> Option<Tile> {
    let Layout::Blocked(blocked) = &tile.layout else {
        return None;
    };
    if tile.is_pointer {
        return None;
    }
    let rank = tile.shape.len();
    let bases = blocked.cta_bases.clone();
    let mut power = |most: usize| 1 << program.dice.below(most);
    let (vec, per_phase, max_phase) = (power(4), power(4), power(4));
    let order = program.dice.order(rank);
    let swizzled = Swizzled::new(vec, per_phase, max_phase, order).with_ctas(bases.clone());
    let swizzled = SharedLayout::from(swizzled);
    // Not every swizzle holds an extent that is no power of two.
    swizzled.check(&tile.shape).ok()?;
    let ty = program.ty_of_shared(&swizzled, &tile.shape, &tile.elem());
    let name = program.name("s");
    program
        .kernel
        .line(&format!("%{name} = smem_alloc init=%{} : {ty}", tile.value));
    let bits = program.dice.below(4) as u32;
    let layout = Blocked::new(
        program.dice.spread(rank, bits),
        program.dice.spread(rank, 5),
        program.dice.spread(rank, program.team.warp_bits),
        program.dice.order(rank),
    );
    let layout = layout.with_ctas(bases).into();
    let to = Tile {
        layout,
        ..tile.clone()
    };
    Some(program.define(&format!("smem_load %{name}"), to))
}

/// The type of a tile in shared memory of a random layout that a tensor fits; none for clusters.
fn shared_type(program: &mut Program, tile: &Tile) -> Option<String> {
    if program.team.cta_bits > 0 || tile.bits.len() * tile.dtype.bytes() as usize > 1 << 12 {
        return None;
    }
    let layout = shared_layouts::layout(&mut program.dice, &tile.shape, tile.dtype.bytes() * 8);
    let like = program.ty_of_shared(&layout, &tile.shape, &tile.elem());
    Some(like)
}

/// Appends an allocation that holds a tile.
fn allocated(program: &mut Program, tile: &Tile) -> Option<String> {
    let ty = shared_type(program, tile)?;
    let name = program.name("s");
    if program.dice.once_in(2) {
        program
            .kernel
            .line(&format!("%{name} = smem_alloc init=%{} : {ty}", tile.value));
    } else {
        program.kernel.line(&format!("%{name} = smem_alloc : {ty}"));
        program
            .kernel
            .line(&format!("smem_store %{name}, %{}", tile.value));
    }
    Some(name)
}

fn round_trip(program: &mut Program, tile: &Tile) -> Option<Tile> {
    if tile.is_pointer {
        return None;
    }
    let name = allocated(program, tile)?;
    let layout = program.layout(tile.shape.len());
    let text = format!("smem_load %{name}");
    Some(program.define(
        &text,
        Tile {
            layout,
            ..tile.clone()
        },
    ))
}

/// The next odd number that has no divisor in common with `size`: its multiples name each place once.
fn coprime(odd: u64, size: u64) -> u64 {
    let divisor = |mut a: u64, mut b: u64| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let mut steps = (odd..).step_by(2);
    steps
        .find(|step| divisor(*step, size) == 1)
        .expect("a prime comes")
}

/// Indices along an axis of a tile, in a layout of their own, and the numbers of what they name; `is_once` has none named
/// twice.
fn indices(program: &mut Program, tile: &Tile, axis: usize, is_once: bool) -> (Tile, Vec<usize>) {
    let mut shape = tile.shape.clone();
    for (dim, size) in shape.iter_mut().enumerate() {
        *size = if dim == axis && !is_once {
            1 << program.dice.below(6)
        } else {
            *size >> program.dice.below(size.trailing_zeros() as usize + 1)
        };
    }
    let size = u64::from(tile.shape[axis]);
    let (odd, first) = (
        2 * program.dice.below(9) as u64 + 1,
        program.dice.bits() % 99,
    );
    let odd = coprime(odd, size);
    let at: Vec<u64> = (0..count(&shape))
        .map(|place| {
            let coords = coordinates(place, &shape);
            let others: usize = coords.iter().sum::<usize>() - coords[axis];
            (coords[axis] as u64 * odd + first + others as u64) % size
        })
        .collect();
    let named = (0..at.len())
        .map(|place| {
            let mut coords = coordinates(place, &shape);
            coords[axis] = at[place] as usize;
            number(&coords, &tile.shape)
        })
        .collect();
    let dtype = program
        .dice
        .pick(&[DType::I32, DType::U16, DType::I64, DType::U32]);
    let layout = program.layout(shape.len());
    (program.load(dtype, &shape, &layout, at), named)
}

fn shared_gather(program: &mut Program, tile: &Tile) -> Option<Tile> {
    let name = allocated(program, tile)?;
    let axis = program.dice.below(tile.shape.len());
    let (at, named) = indices(program, tile, axis, false);
    let bits = named.into_iter().map(|from| tile.bits[from]).collect();
    let text = format!("smem_gather %{name}, %{} {{axis={axis}}}", at.value);
    let gathered = Tile {
        dtype: tile.dtype,
        bits,
        ..at
    };
    Some(program.define(&text, gathered))
}

fn shared_scatter(program: &mut Program, tile: &Tile) -> Option<Tile> {
    let name = allocated(program, tile)?;
    let axis = program.dice.below(tile.shape.len());
    let (at, named) = indices(program, tile, axis, true);
    let values = program.elements(tile.dtype, &at.shape);
    let values = program.load(tile.dtype, &at.shape, &at.layout, values);
    program.kernel.line(&format!(
        "smem_scatter %{name}, %{}, %{} {{axis={axis}}}",
        values.value, at.value
    ));
    let mut bits = tile.bits.clone();
    for (to, value) in named.into_iter().zip(values.bits) {
        bits[to] = value;
    }
    let layout = program.layout(tile.shape.len());
    let text = format!("smem_load %{name}");
    Some(program.define(
        &text,
        Tile {
            layout,
            bits,
            ..tile.clone()
        },
    ))
}

/// An atomic that an element type has and in which order does not matter.
fn commutative(program: &mut Program, dtype: DType) -> Option<AtomicOp> {
    let all = [
        AtomicOp::Add,
        AtomicOp::Min,
        AtomicOp::Max,
        AtomicOp::And,
        AtomicOp::Or,
        AtomicOp::Xor,
    ];
    // Sums of many small numbers are not exact in it.
    let is_exact = |op: AtomicOp| op != AtomicOp::Add || dtype != DType::Bf16;
    let ops: Vec<AtomicOp> = all
        .into_iter()
        .filter(|op| op.accepts(dtype) && is_exact(*op))
        .collect();
    (!ops.is_empty()).then(|| program.dice.pick(&ops))
}

fn counters(program: &mut Program, _: &Tile) -> Option<Tile> {
    let dtype = program.dice.pick(&[
        DType::I32,
        DType::U64,
        DType::F32,
        DType::F16,
        DType::U32,
        DType::F64,
    ]);
    let op = commutative(program, dtype)?;
    let rank = 1 + program.dice.below(3);
    let shape = program.shape(rank, 8);
    let tile = program.loaded(dtype, &shape);
    let name = allocated(program, &tile)?;
    let axis = program.dice.below(rank);
    let (at, named) = indices(program, &tile, axis, false);
    let values = program.elements(dtype, &at.shape);
    let values = program.load(dtype, &at.shape, &at.layout, values);
    let mask = some(program, &at.shape, &at.layout);
    program.kernel.line(&format!(
        "smem_atomic_scatter %{name}, %{}, %{}, mask=%{} {{op={op}, axis={axis}}}",
        values.value, at.value, mask.value
    ));
    let mut bits = tile.bits.clone();
    for ((to, value), is_on) in named.into_iter().zip(values.bits).zip(mask.bits) {
        if is_on == 1 {
            bits[to] = combined::combine(op.name(), bits[to], value, dtype);
        }
    }
    let layout = program.layout(rank);
    let text = format!("smem_load %{name}");
    Some(program.define(
        &text,
        Tile {
            layout,
            bits,
            ..tile
        },
    ))
}

/// Does each element lie in one CTA alone, as atomics want it?
pub(crate) fn is_held_once(layout: &Layout, shape: &[u32]) -> bool {
    let map = layout.linear(shape).expect("a layout that fits");
    let bases = map.basis_coords(Axis::Block);
    bases.iter().all(|basis| basis.iter().any(|c| *c != 0))
}

/// Pointers of a shape to a new buffer of as many elements, which are given: each to one of its own in another order, or
/// several to some.
fn places(
    program: &mut Program,
    dtype: DType,
    is_once: bool,
) -> Option<(String, Tile, Vec<usize>)> {
    let rank = 1 + program.dice.below(3);
    let shape = program.shape(rank, 9);
    let layout = program.layout(rank);
    if !is_held_once(&layout, &shape) {
        return None;
    }
    let size = count(&shape) as u64;
    let odd = coprime(program.dice.bits() | 1, size);
    let slots = if is_once {
        size
    } else {
        1 + program.dice.bits() % 7
    };
    let at: Vec<u64> = (0..size)
        .map(|place| place.wrapping_mul(odd) % size % slots)
        .collect();
    let named = at.iter().map(|&at| at as usize).collect();
    let numbers = program.load(DType::I32, &shape, &layout, at);
    let memory = program.elements(dtype, &shape);
    let form = program.form(&layout, &shape);
    let name = program.name("p");
    program.kernel.pointers(&name, dtype, &form, &numbers.value);
    program.buffer(dtype, &memory);
    let tile = Tile {
        dtype,
        bits: memory,
        ..numbers
    };
    Some((format!("{name}_p"), tile, named))
}

fn order(program: &mut Program, from: &[&str]) -> String {
    let semantics = program.dice.pick(from);
    let scope = program.dice.pick(&["gpu", "cta", "cluster", "sys"]);
    // CTAs that are not one another's would not see it.
    let scope = if program.team.cta_bits > 0 {
        "gpu"
    } else {
        scope
    };
    format!("semantics={semantics}, scope={scope}")
}

const ALL: &[&str] = &["acq_rel", "acquire", "release", "relaxed"];

fn atomic(program: &mut Program, _: &Tile) -> Option<Tile> {
    let dtype = program.dice.pick(&[
        DType::I32,
        DType::U32,
        DType::I64,
        DType::U64,
        DType::F16,
        DType::Bf16,
        DType::F32,
        DType::F64,
    ]);
    let is_once = program.dice.once_in(2);
    let op = if is_once && dtype.bits() > 16 && program.dice.once_in(4) {
        AtomicOp::Exchange
    } else if is_once && dtype == DType::Bf16 {
        AtomicOp::Add
    } else {
        commutative(program, dtype)?
    };
    let (pointers, mut memory, named) = places(program, dtype, is_once)?;
    let buffer = program.newest();
    let values = program.elements(dtype, &memory.shape);
    let values = program.load(dtype, &memory.shape, &memory.layout, values);
    let mask = some(program, &memory.shape, &memory.layout);
    let order = order(program, ALL);
    let old: Vec<u64> = (0..named.len())
        .map(|at| {
            if mask.bits[at] == 1 {
                memory.bits[named[at]]
            } else {
                0
            }
        })
        .collect();
    for (at, &to) in named.iter().enumerate() {
        if mask.bits[at] == 1 {
            memory.bits[to] = match op {
                AtomicOp::Exchange => values.bits[at],
                op => combined::combine(op.name(), memory.bits[to], values.bits[at], dtype),
            };
        }
    }
    program.expect_of(
        buffer,
        &format!("memory after atomic {op}"),
        dtype,
        &memory.bits,
    );
    let text = format!(
        "atomic_rmw %{pointers}, %{}, mask=%{} {{op={op}, {order}}}",
        values.value, mask.value
    );
    let result = program.define(
        &text,
        Tile {
            bits: old,
            ..memory
        },
    );
    is_once.then_some(result)
}

fn swap(program: &mut Program, _: &Tile) -> Option<Tile> {
    let dtype = program.dice.pick(&[
        DType::I32,
        DType::U64,
        DType::F16,
        DType::I16,
        DType::F32,
        DType::F64,
    ]);
    let (pointers, mut memory, named) = places(program, dtype, true)?;
    let buffer = program.newest();
    let compare: Vec<u64> = named
        .iter()
        .map(|&at| memory.bits[at] ^ (program.dice.bits() & 1) & mask(dtype))
        .collect();
    let compare = program.load(dtype, &memory.shape, &memory.layout, compare);
    let values = program.elements(dtype, &memory.shape);
    let values = program.load(dtype, &memory.shape, &memory.layout, values);
    let old: Vec<u64> = named.iter().map(|&at| memory.bits[at]).collect();
    for (at, &to) in named.iter().enumerate() {
        if memory.bits[to] == compare.bits[at] {
            memory.bits[to] = values.bits[at];
        }
    }
    program.expect_of(buffer, "memory after compare and swap", dtype, &memory.bits);
    let text = format!(
        "atomic_cas %{pointers}, %{}, %{} {{{}}}",
        compare.value,
        values.value,
        order(program, ALL)
    );
    Some(program.define(
        &text,
        Tile {
            bits: old,
            ..memory
        },
    ))
}

fn load_and_store(program: &mut Program, _: &Tile) -> Option<Tile> {
    let dtype = program.dice.pick(&[
        DType::I8,
        DType::I32,
        DType::U64,
        DType::F16,
        DType::I16,
        DType::F64,
    ]);
    let (pointers, memory, named) = places(program, dtype, true)?;
    let loaded: Vec<u64> = named.iter().map(|&at| memory.bits[at]).collect();
    let text = format!(
        "atomic_load %{pointers} {{{}}}",
        order(program, &["acquire", "relaxed"])
    );
    let loaded = program.define(
        &text,
        Tile {
            bits: loaded,
            ..memory
        },
    );
    let (pointers, mut memory, named) = places(program, dtype, true)?;
    let buffer = program.newest();
    let values = program.elements(dtype, &memory.shape);
    let values = program.load(dtype, &memory.shape, &memory.layout, values);
    for (at, &to) in named.iter().enumerate() {
        memory.bits[to] = values.bits[at];
    }
    let order = order(program, &["release", "relaxed"]);
    program.kernel.line(&format!(
        "atomic_store %{pointers}, %{} {{{order}}}",
        values.value
    ));
    program.expect_of(buffer, "memory after atomic store", dtype, &memory.bits);
    Some(loaded)
}
