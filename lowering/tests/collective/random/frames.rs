//! What stands around the steps of a program: nothing, a loop, a branch, or warp-specialized partitions.

use super::dice::Dice;
use super::program::{Program, Tile};
use ir::elem::DType;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// Nothing.
    Straight,
    /// A loop, each turn of which does the same.
    Loop,
    /// The branch that is taken, with another beside it.
    Branch,
    /// A loop that hands the tile on, in another layout for a while.
    Carried,
}

impl Frame {
    pub(crate) fn any(dice: &mut Dice) -> Frame {
        dice.pick(&[
            Frame::Straight,
            Frame::Straight,
            Frame::Loop,
            Frame::Branch,
            Frame::Carried,
        ])
    }

    /// Begins it; gives the tile as it is known within, and what hands it on.
    pub(crate) fn open(self, program: &mut Program, tile: Tile) -> (Tile, Option<Carried>) {
        let tile = match self {
            Frame::Straight => tile,
            Frame::Carried => return carried(program, tile),
            Frame::Loop => opened_loop(program, tile),
            Frame::Branch => {
                let is_taken = taken(program);
                program.kernel.line(&format!("if %{is_taken} () {{"));
                tile
            }
        };
        (tile, None)
    }

    /// Ends it.
    pub(crate) fn close(self, program: &mut Program, carried: Option<Carried>) {
        if let Some(carried) = carried {
            carried.close(program);
            return;
        }
        match self {
            Frame::Straight => {}
            Frame::Loop | Frame::Carried => program.kernel.line("yield []\n  }"),
            Frame::Branch => program.kernel.line("yield []\n  } () {\n  yield []\n  }"),
        }
    }
}

/// A boolean that is true, which only memory says.
fn taken(program: &mut Program) -> String {
    let [from, number, zero, is_taken] =
        ["flag", "number", "zero", "taken"].map(|hint| program.name(hint));
    program.kernel.pointer(&from, DType::I32);
    program.buffer(DType::I32, &[1]);
    for line in [
        format!("%{number} = load %{from} : i32"),
        format!("%{zero} = constant {{value=0}} : i32"),
        format!("%{is_taken} = compare %{number}, %{zero} {{op=gt}} : i1"),
    ] {
        program.kernel.line(&line);
    }
    is_taken
}

/// What a loop yields.
pub(crate) struct Carried {
    tile: Tile,
    /// The name of the loop's result.
    result: String,
    is_taken: String,
}

fn carried(program: &mut Program, tile: Tile) -> (Tile, Option<Carried>) {
    if tile.is_pointer {
        return (opened_loop(program, tile), None);
    }
    let is_taken = taken(program);
    let ty = program.ty(&tile);
    let [zero, end, one, turn, result, held] =
        ["zero", "end", "one", "turn", "result", "held"].map(|hint| program.name(hint));
    for line in [
        format!("%{zero} = constant {{value=0}} : i32"),
        format!("%{end} = constant {{value=2}} : i32"),
        format!("%{one} = constant {{value=1}} : i32"),
        format!(
            "%{result} = for %{zero}, %{end}, %{one}, [%{}] (%{turn}: i32, %{held}: {ty}) {{",
            tile.value
        ),
    ] {
        program.kernel.line(&line);
    }
    let within = Tile {
        value: held,
        ..tile
    };
    let carried = Carried {
        tile: within.clone(),
        result,
        is_taken,
    };
    (within, Some(carried))
}

impl Carried {
    /// Chosen in another layout between the tile and others, it is what it was.
    fn close(self, program: &mut Program) {
        let tile = self.tile;
        let layout = program.layout(tile.shape.len());
        let other = Tile {
            layout: layout.clone(),
            ..tile.clone()
        };
        let converted = program.define(&format!("convert_layout %{}", tile.value), other);
        let bits = program.elements(tile.dtype, &tile.shape);
        let noise = program.load(tile.dtype, &tile.shape, &layout, bits);
        let all = program.name("all");
        let ty = program.ty_of(&layout, &tile.shape, "i1");
        program
            .kernel
            .line(&format!("%{all} = splat %{} : {ty}", self.is_taken));
        let text = format!("select %{all}, %{}, %{}", converted.value, noise.value);
        let chosen = program.define(&text, converted);
        let back = program.define(&format!("convert_layout %{}", chosen.value), tile.clone());
        let ty = program.ty(&tile);
        program
            .kernel
            .line(&format!("yield [%{}]\n  }} : {ty}", back.value));
        let result = Tile {
            value: self.result,
            ..tile
        };
        program.observe("what a loop handed on", &result);
    }
}

/// Each turn takes the tile anew, so that nothing of the turn can be done before the loop.
fn opened_loop(program: &mut Program, tile: Tile) -> Tile {
    let turns = 2 + program.dice.below(2);
    let is_taken = taken(program);
    let [zero, end, one, turn] = ["zero", "end", "one", "turn"].map(|hint| program.name(hint));
    for line in [
        format!("%{zero} = constant {{value=0}} : i32"),
        format!("%{end} = constant {{value={turns}}} : i32"),
        format!("%{one} = constant {{value=1}} : i32"),
        format!("for %{zero}, %{end}, %{one}, [] (%{turn}: i32) {{"),
    ] {
        program.kernel.line(&line);
    }
    if tile.is_pointer {
        return tile;
    }
    let bits = program.elements(tile.dtype, &tile.shape);
    let other = program.load(tile.dtype, &tile.shape, &tile.layout, bits);
    let [is_later, mixed, all] = ["later", "mixed", "all"].map(|hint| program.name(hint));
    program.kernel.line(&format!(
        "%{is_later} = compare %{turn}, %{zero} {{op=ge}} : i1"
    ));
    program.kernel.line(&format!(
        "%{mixed} = binary %{is_later}, %{is_taken} {{op=and}} : i1"
    ));
    let ty = program.ty_of(&tile.layout, &tile.shape, "i1");
    program
        .kernel
        .line(&format!("%{all} = splat %{mixed} : {ty}"));
    let text = format!("select %{all}, %{}, %{}", tile.value, other.value);
    program.define(&text, tile)
}
