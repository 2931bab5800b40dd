//! Planning the conversion of a tensor from one distributed layout to another.
//!
//! A [`ConversionPlan`] is pure data: it says which register moves where, lane by lane, and leaves only the spelling
//! in PTX to the emitter. The cheapest possible kind is taken:
//!
//! 1. [`Conversion::Registers`]: every thread already holds what it needs; registers are renamed.
//! 2. [`Conversion::Shuffle`]: every warp already holds what it needs; lanes exchange words.
//! 3. [`Conversion::Shared`]: the tensor goes through shared memory, laid out so that both sides are free of bank
//!    conflicts, with barriers no wider than the exchange (warp, CTA or cluster).
//!
//! Threads are written (lane, warp, block), block being the CTA's rank in its cluster. All dependence on the thread is
//! linear over GF(2): a value for bit 0, bit 1, ... of the lane and so on, combined by XOR over the bits that are set
//! ([`PerThread`]).

mod across;
mod cost;
mod elements;
mod exchange;
mod limits;
mod per_thread;
mod pull;
mod shared;
mod shuffle;
mod swizzle;

use super::relate::registers_in;
use super::{Axis, LayoutError, LinearLayout};

pub use cost::Cost;
pub(crate) use exchange::MATRIX_ROW_BYTES;
pub use exchange::{AccessKind, Exchange, LaneAccess, RemoteRead, Scope};
pub use limits::Limits;
pub use per_thread::PerThread;
pub use shared::SharedPlan;
pub use shuffle::{Round, SelectStage, ShufflePlan, Word};

/// How to convert a tensor between two layouts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConversionPlan {
    /// Bits of an element in a register: 8, 16, 32 or 64.
    pub elem_bits: u32,
    /// What to do.
    pub conversion: Conversion,
    /// For each register of the result, the number of the value that [`ConversionPlan::conversion`] leaves and that
    /// it takes. Registers are counted among those that [hold elements](LinearLayout::registers). The numbers repeat where the result's layout holds copies.
    pub results: Vec<u32>,
}

/// The kinds of conversion, from the cheapest. Each leaves a list of values per thread; the results pick from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conversion {
    /// Value `i` is the source's register `i`: nothing moves between threads.
    Registers,
    /// Lanes of a warp exchange words; see [`ShufflePlan`].
    Shuffle(ShufflePlan),
    /// The tensor goes through shared memory; see [`SharedPlan`].
    Shared(SharedPlan),
    /// A tensor with sizes that are no powers of two: its parts, one after another. The values are those that the results
    /// of all parts are, in this order.
    Pieces(Vec<PieceConversion>),
}

/// The conversion of a part of a tensor whose sizes are powers of two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PieceConversion {
    /// For each register of the part, the source's register.
    pub registers: Vec<u32>,
    /// What to do with these.
    pub plan: ConversionPlan,
}

/// Plans the conversion of a tensor of elements of `elem_bits` bits (8, 16, 32 or 64; `i1` counts as 8) from the
/// layout `src` to the layout `dst`, both maps from (register, lane, warp, block) to the same tensor dimensions, with
/// the same number of lanes, warps and blocks.
pub fn plan_conversion(
    src: &LinearLayout,
    dst: &LinearLayout,
    elem_bits: u32,
    limits: Limits,
) -> Result<ConversionPlan, LayoutError> {
    check_pair(src, dst, elem_bits)?;
    if let Some(results) = registers_in(src, dst) {
        return Ok(ConversionPlan {
            elem_bits,
            conversion: Conversion::Registers,
            results,
        });
    }
    match (src.divided(), dst.divided()) {
        (None, None) if src.is_cut() => return plan_pieces(src, dst, elem_bits, limits),
        (None, None) => {}
        (Some((dim, _)), other) if other.is_some_and(|(other, _)| other == dim) => {
            // No thread moves what belongs to another set, and none has what would belong to warps beyond the last one.
            let (src, dst) = (src.clone().uncut_along(dim), dst.clone().uncut_along(dim));
            return plan_conversion(&src, &dst, elem_bits, limits);
        }
        _ => return Ok(across::plan(src, dst, elem_bits, limits)),
    }
    let pull = pull::Pull::new(src, dst);
    let shared = SharedPlan::new(&pull, elem_bits, limits);
    let shuffle = ShufflePlan::new(&pull, elem_bits);
    let (conversion, values) = match shuffle {
        Some((shuffle, values))
            if shuffle.cost(elem_bits).total() <= shared.cost(elem_bits).total() =>
        {
            (Conversion::Shuffle(shuffle), values)
        }
        _ => (
            Conversion::Shared(shared),
            (0..pull.dst.num_registers()).collect(),
        ),
    };
    let results = pull
        .results
        .iter()
        .map(|&register| values[register as usize])
        .collect();
    Ok(ConversionPlan {
        elem_bits,
        conversion,
        results,
    })
}

/// Registers alone step over the granules of a size that is no power of two, on both sides: so the elements of each part stay
/// in its own registers.
fn plan_pieces(
    src: &LinearLayout,
    dst: &LinearLayout,
    elem_bits: u32,
    limits: Limits,
) -> Result<ConversionPlan, LayoutError> {
    let mut results = vec![0; dst.num_registers() as usize];
    let mut pieces = Vec::new();
    let mut first = 0;
    for (from, to) in src.pieces().into_iter().zip(dst.pieces()) {
        for (value, register) in (first..).zip(&to.registers) {
            results[*register as usize] = value;
        }
        first += to.registers.len() as u32;
        pieces.push(PieceConversion {
            registers: from.registers,
            plan: plan_conversion(&from.map, &to.map, elem_bits, limits)?,
        });
    }
    Ok(ConversionPlan {
        elem_bits,
        conversion: Conversion::Pieces(pieces),
        results,
    })
}

fn check_pair(src: &LinearLayout, dst: &LinearLayout, elem_bits: u32) -> Result<(), LayoutError> {
    let fault = |field, found: String, wanted: String| LayoutError::Parameter {
        layout: "a conversion",
        field,
        found,
        wanted,
    };
    if ![8, 16, 32, 64].contains(&elem_bits) {
        let wanted = "registers hold 8, 16, 32 or 64 bits".to_owned();
        return Err(fault("elem_bits", elem_bits.to_string(), wanted));
    }
    if src.out_sizes() != dst.out_sizes() {
        let wanted = format!("the source has the shape {}", src.out_sizes());
        return Err(fault(
            "the result's shape",
            dst.out_sizes().to_string(),
            wanted,
        ));
    }
    for (side, map) in [("the source's layout", src), ("the result's layout", dst)] {
        if !map.is_permutation_with_zeros() {
            let wanted = "every basis must be zero or one coordinate bit of its own".to_owned();
            return Err(fault(side, map.to_string(), wanted));
        }
    }
    for axis in [Axis::Lane, Axis::Warp, Axis::Block] {
        if src.in_bits(axis) != dst.in_bits(axis) {
            let wanted = format!("the source is spread over {} {axis}s", src.in_size(axis));
            return Err(fault(
                "the result's layout",
                format!("spread over {}", dst.in_size(axis)),
                wanted,
            ));
        }
    }
    Ok(())
}

impl ConversionPlan {
    /// Whether nothing is to be done at all: every register keeps its place.
    pub fn is_nothing(&self) -> bool {
        self.conversion == Conversion::Registers
            && self
                .results
                .iter()
                .copied()
                .eq(0..self.results.len() as u32)
    }

    /// Whether no instruction is needed: registers may be renamed.
    pub fn is_free(&self) -> bool {
        self.conversion == Conversion::Registers
    }

    /// The scope of the barriers while data goes through shared memory; `None` where none does. Parts use the same memory one after
    /// another, and what belongs to a warp lies elsewhere for each, so that several parts are the whole CTA's.
    pub fn scope(&self) -> Option<Scope> {
        match &self.conversion {
            Conversion::Registers | Conversion::Shuffle(_) => None,
            Conversion::Shared(shared) => Some(shared.scope),
            Conversion::Pieces(pieces) => {
                let scopes = pieces.iter().filter_map(|piece| piece.plan.scope());
                scopes.reduce(|a, b| a.max(b).max(Scope::Cta))
            }
        }
    }

    /// The bytes of shared memory that the conversion needs.
    pub fn scratch_bytes(&self) -> u32 {
        match &self.conversion {
            Conversion::Shared(shared) => shared.scratch_bytes,
            Conversion::Pieces(pieces) => {
                let bytes = pieces.iter().map(|piece| piece.plan.scratch_bytes());
                bytes.max().unwrap_or(0)
            }
            Conversion::Registers | Conversion::Shuffle(_) => 0,
        }
    }

    /// What the conversion costs one warp.
    pub fn cost(&self) -> Cost {
        match &self.conversion {
            Conversion::Registers => Cost::default(),
            Conversion::Shuffle(shuffle) => shuffle.cost(self.elem_bits),
            Conversion::Shared(shared) => shared.cost(self.elem_bits),
            Conversion::Pieces(pieces) => pieces
                .iter()
                .fold(Cost::default(), |sum, piece| sum.and(piece.plan.cost())),
        }
    }
}
