//! Steps that bring together elements of several tensors of different types.

use ir::elem::DType;
use layout::relate;

use super::combined::{combine, direction, kept, lines, operation, reduced, scanned};
use super::program::{Program, Tile, count, integer};

pub(crate) const STEPS: &[(&str, super::movement::Step)] = &[
    ("reduce several", reduce),
    ("scan several", scan),
    ("sort several", sort),
];

/// The tile and one or two more of its layout and shape.
fn together(program: &mut Program, tile: &Tile, dtypes: &[DType]) -> Vec<Tile> {
    let more = 1 + program.dice.below(2);
    let mut tiles = vec![tile.clone()];
    for _ in 0..more {
        let dtype = program.dice.pick(dtypes);
        let bits = program.elements(dtype, &tile.shape);
        tiles.push(program.load(dtype, &tile.shape, &tile.layout, bits));
    }
    tiles
}

const ANY: &[DType] = &[
    DType::I1,
    DType::I8,
    DType::U16,
    DType::I32,
    DType::U64,
    DType::F16,
    DType::F32,
    DType::F64,
];

fn listed(tiles: &[Tile]) -> String {
    let names: Vec<String> = tiles
        .iter()
        .map(|tile| format!("%{}", tile.value))
        .collect();
    names.join(", ")
}

/// A region that combines each pair by an operation of its own, and the operations.
fn region(program: &mut Program, tiles: &[Tile]) -> Option<(String, Vec<&'static str>)> {
    let ops: Vec<&str> = tiles
        .iter()
        .map(|tile| operation(program, tile))
        .collect::<Option<_>>()?;
    let mut names = |hint: &str| -> Vec<String> {
        let tiles = tiles.iter();
        tiles.map(|_| format!("%{}", program.name(hint))).collect()
    };
    let (left, right, both) = (names("l"), names("r"), names("b"));
    let typed = |names: &[String]| -> Vec<String> {
        let pairs = names.iter().zip(tiles);
        pairs
            .map(|(name, t)| format!("{name}: {}", t.dtype))
            .collect()
    };
    let mut text = format!(
        "({}) {{\n",
        [typed(&left), typed(&right)].concat().join(", ")
    );
    for at in 0..tiles.len() {
        text += &format!(
            "  {} = binary {}, {} {{op={}}} : {}\n",
            both[at], left[at], right[at], ops[at], tiles[at].dtype
        );
    }
    text += &format!("  yield [{}]\n}}", both.join(", "));
    Some((text, ops))
}

fn reduce(program: &mut Program, tile: &Tile) -> Option<Tile> {
    operation(program, tile)?;
    let tiles = together(program, tile, ANY);
    let axis = program.dice.below(tile.shape.len());
    let (region, ops) = region(program, &tiles)?;
    let text = format!("reduce [{}] {{axis={axis}}} {region}", listed(&tiles));
    let results: Vec<(DType, Vec<u64>)> = tiles
        .iter()
        .zip(ops)
        .map(|(tile, op)| {
            let of_line = |line: Vec<usize>| {
                let elements = line.into_iter().map(|at| tile.bits[at]);
                let both = |a, b| combine(op, a, b, tile.dtype);
                elements.reduce(both).expect("an element")
            };
            let lines = lines(&tile.shape, axis).into_iter();
            (tile.dtype, lines.map(of_line).collect())
        })
        .collect();
    reduced(program, tile, axis, &text, &results)
}

/// Appends what gives these tiles, and looks at all but the first.
fn defined(program: &mut Program, what: &str, text: &str, tiles: Vec<Tile>) -> Option<Tile> {
    let tiles: Vec<Tile> = tiles
        .into_iter()
        .map(|tile| Tile {
            value: program.name("v"),
            ..tile
        })
        .collect();
    let types: Vec<String> = tiles.iter().map(|tile| program.ty(tile)).collect();
    let line = format!("{} = {text} : {}", listed(&tiles), types.join(", "));
    program.kernel.line(&line);
    for tile in &tiles[1..] {
        program.observe(what, tile);
    }
    tiles.into_iter().next()
}

fn scan(program: &mut Program, tile: &Tile) -> Option<Tile> {
    operation(program, tile)?;
    let tiles = together(program, tile, ANY);
    let (scan, attributes) = direction(program, tile);
    let (region, ops) = region(program, &tiles)?;
    let text = format!("scan [{}] {attributes} {region}", listed(&tiles));
    let found = tiles.into_iter().zip(ops).map(|(tile, op)| Tile {
        bits: scanned(&tile.bits, &tile.shape, scan, |a, b| {
            combine(op, a, b, tile.dtype)
        }),
        ..tile
    });
    let found = found.collect();
    defined(program, "another of a scan", &text, found)
}

/// Equal first elements are in the order of the second ones, and so on.
fn sort(program: &mut Program, tile: &Tile) -> Option<Tile> {
    if tile.is_pointer || !tile.dtype.is_int() || tile.bits.len() > 1024 {
        return None;
    }
    let whole = [DType::I8, DType::U16, DType::I32, DType::U64];
    let tiles = together(program, tile, &whole);
    let axis = program.dice.below(tile.shape.len());
    let is_descending = program.dice.once_in(2);
    let mut shape = tile.shape.clone();
    shape[axis] = kept(program, shape[axis]);
    let layout = relate::keep(&tile.layout, &tile.shape, &shape);
    let mut found: Vec<Tile> = tiles
        .iter()
        .map(|tile| Tile {
            shape: shape.clone(),
            layout: layout.clone(),
            bits: vec![0; count(&shape)],
            ..tile.clone()
        })
        .collect();
    let ends = lines(&tile.shape, axis)
        .into_iter()
        .zip(lines(&shape, axis));
    for (mut line, out) in ends {
        let key = |at: usize| -> Vec<i128> {
            tiles
                .iter()
                .map(|tile| integer(tile.bits[at], tile.dtype))
                .collect()
        };
        line.sort_by_key(|&at| key(at));
        if is_descending {
            line.reverse();
        }
        for (to, from) in out.into_iter().zip(line) {
            for (found, tile) in found.iter_mut().zip(&tiles) {
                found.bits[to] = tile.bits[from];
            }
        }
    }
    let descending = if is_descending {
        ", is_descending=true"
    } else {
        ""
    };
    let text = format!(
        "sort [{}] {{axis={axis}, count={}{descending}}}",
        listed(&tiles),
        shape[axis]
    );
    defined(program, "another of a sort", &text, found)
}
