//! All facts about one compiled variant, as data: texts of every stage with their places, costs, totals, memory, layouts.

use std::collections::BTreeMap;

use serde::Serialize;

use super::places::Chain;
use super::tally::LineCost;
use crate::harness::request::SourceLine;

/// One variant.
#[derive(Debug, Serialize)]
pub(super) struct Sheet {
    /// Its name with its compile-time parameters.
    pub(super) variant: String,
    pub(super) totals: Totals,
    pub(super) files: Vec<File>,
    /// Places of the author's with the calls around them, innermost first; all others name them by number.
    pub(super) places: Vec<Chain>,
    pub(super) ir: Vec<IrRow>,
    pub(super) ptx: Vec<PtxRow>,
    /// None where there is no ptxas or no nvdisasm, which `notes` says.
    pub(super) sass: Vec<SassRow>,
    /// Costs of each line of the author's that has any.
    pub(super) lines: Vec<LineCost>,
    /// Accesses to memory and conversions.
    pub(super) accesses: Vec<Access>,
    /// Who has which bytes of shared memory, and when.
    pub(super) shared: Vec<SharedRow>,
    /// Tiles with their layouts.
    pub(super) tiles: Vec<TileRow>,
    /// What is missing here and why.
    pub(super) notes: Vec<String>,
}

impl Sheet {
    /// Are these the costs of that line?
    pub(super) fn is_at(&self, cost: &LineCost, at: &SourceLine) -> bool {
        let name = &self.files[cost.file].name;
        let is_file = |file: &String| name.ends_with(file.as_str());
        cost.line == at.line && at.file.as_ref().is_none_or(is_file)
    }
}

/// A source file.
#[derive(Debug, Serialize)]
pub(super) struct File {
    pub(super) name: String,
    /// Its lines; none where it cannot be read.
    pub(super) lines: Vec<String>,
}

/// A line of tile IR, at the stage from which PTX is emitted.
#[derive(Debug, Serialize)]
pub(super) struct IrRow {
    pub(super) text: String,
    pub(super) place: Option<usize>,
}

/// A line of PTX.
#[derive(Debug, Serialize)]
pub(super) struct PtxRow {
    pub(super) text: String,
    pub(super) place: Option<usize>,
    /// Its number in the whole text, from 1.
    pub(super) line: u32,
    /// Is it an instruction?
    #[serde(skip)]
    pub(super) is_code: bool,
}

/// A machine instruction.
#[derive(Debug, Serialize)]
pub(super) struct SassRow {
    /// Its offset in the code, bytes.
    pub(super) offset: u32,
    pub(super) text: String,
    /// The index of its row of PTX.
    pub(super) ptx: Option<usize>,
    pub(super) place: Option<usize>,
    /// Registers of a thread that are alive at it.
    pub(super) alive: Option<u32>,
    /// What it works at.
    pub(super) work: &'static str,
}

/// An access to memory, or a conversion between layouts.
#[derive(Debug, Serialize)]
pub(super) struct Access {
    pub(super) op: &'static str,
    pub(super) place: Option<usize>,
    /// What it costs a warp, in words.
    pub(super) cost: String,
    /// Does it take no instruction?
    pub(super) is_free: bool,
    /// What keeps it from being wider or whole, and what the author can do.
    pub(super) advice: Vec<String>,
    /// Bytes of global memory that a warp moves, at most.
    pub(super) global_bytes: u32,
    /// Sectors that it touches for that.
    pub(super) sectors: u32,
    /// Sectors beyond those that the used bytes need.
    pub(super) excess_sectors: u32,
    /// Passes over the banks of shared memory.
    pub(super) wavefronts: u32,
    /// Those of them beyond what the bytes need.
    pub(super) conflicts: u32,
}

/// Bytes of shared memory that something has for a while.
#[derive(Debug, Serialize)]
pub(super) struct SharedRow {
    pub(super) user: String,
    pub(super) place: Option<usize>,
    pub(super) start: u32,
    pub(super) bytes: u32,
    /// Indices of the first and the last row of IR that needs them.
    pub(super) rows: [usize; 2],
    pub(super) partition: Option<usize>,
}

/// Tiles of one layout and shape.
#[derive(Debug, Serialize)]
pub(super) struct TileRow {
    /// Their names, as the IR has them.
    pub(super) names: Vec<String>,
    /// What they are, such as `smem 2x512xf32`.
    pub(super) ty: String,
    pub(super) place: Option<usize>,
    pub(super) shape: Vec<u32>,
    pub(super) layout: String,
    /// Bits of an element.
    pub(super) bits: u32,
    /// Inputs of the layout's map, `register`, `lane`, `warp`, `block` or `offset`, each with its bases: coordinates of the tensor that a
    /// bit of the input adds, by exclusive or. Empty where the map is not linear.
    pub(super) bases: Vec<(String, Vec<Vec<u32>>)>,
    /// After so many elements so many are left out: (interval, padding).
    pub(super) padding: Vec<[u32; 2]>,
}

/// Figures of the whole variant.
#[derive(Debug, Default, Serialize)]
pub(super) struct Totals {
    pub(super) threads: u32,
    pub(super) shared_bytes: u32,
    pub(super) parameter_bytes: u32,
    /// Release of ptxas, `13.0.88`.
    pub(super) ptxas: Option<String>,
    /// Registers of a thread.
    pub(super) registers: Option<u32>,
    /// The most that are alive at one instruction, and where.
    pub(super) alive: Option<(u32, Option<usize>)>,
    /// Bytes of a thread stored and loaded because registers ran out.
    pub(super) spilled_bytes: Option<u32>,
    pub(super) stack_bytes: Option<u32>,
    /// Stores to and loads from local memory by the places that cause them.
    pub(super) local: Vec<Local>,
    pub(super) occupancy: Option<Occupancy>,
    /// Instructions of PTX by kind.
    pub(super) ptx: BTreeMap<String, u32>,
    pub(super) ptx_instructions: u32,
    /// Machine instructions by what they work at.
    pub(super) sass: BTreeMap<&'static str, u32>,
    pub(super) sass_instructions: u32,
    /// What ptxas noted.
    pub(super) messages: Vec<String>,
}

/// Accesses to local memory of one place.
#[derive(Debug, Serialize)]
pub(super) struct Local {
    pub(super) place: Option<usize>,
    pub(super) stores: u32,
    pub(super) loads: u32,
}

/// What an SM holds.
#[derive(Debug, Serialize)]
pub(super) struct Occupancy {
    pub(super) ctas: u32,
    pub(super) warps: u32,
    pub(super) most_warps: u32,
    /// What keeps it from more.
    pub(super) limiter: &'static str,
    /// What one CTA more would need; none where threads or CTAs are the limit.
    pub(super) one_more: Option<String>,
}
