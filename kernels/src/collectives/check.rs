//! Checks of a call.

use tilekit::prelude::*;
use tilekit::{Buffer, World};

use super::error::{Error, Result};
use super::exchange::SLOT_BYTES;
use super::form::MOST_RANKS;
use super::packets::PACKETS;
use super::plan::{Need, Operation, Plan, Variant};
use super::sentinel::WORDS;

/// The tensors of all ranks.
pub(super) type OfRanks<'a, T> = &'a [&'a Buffer<T>];

/// A call whose tensors fit together: elements of a piece.
pub(super) struct Call<'a, T> {
    pub(super) operation: Operation,
    pub(super) x: OfRanks<'a, T>,
    pub(super) out: OfRanks<'a, T>,
    pub(super) len: usize,
}

impl<'a, T: DeviceElement> Call<'a, T> {
    pub(super) fn check(
        world: &World,
        operation: Operation,
        [x, out]: [OfRanks<'a, T>; 2],
    ) -> Result<Self> {
        let ranks = world.ranks();
        let report = Report(operation.name());
        report.unless(
            ranks <= MOST_RANKS,
            "world",
            || format!("{ranks} ranks"),
            || format!("at most {MOST_RANKS}"),
        )?;
        for (argument, tensors) in [("x", x), ("out", out)] {
            report.check_ranks(world, argument, tensors)?;
        }
        let [of_x, of_result] = operation.pieces(ranks);
        let len = x.first().map_or(0, |x| x.len());
        report.unless(
            len.is_multiple_of(of_x),
            "x",
            || format!("{len} elements on each rank"),
            || format!("a multiple of {ranks}: a piece for each rank"),
        )?;
        let piece = len / of_x;
        report.check_lengths("x", x, (len, "as on rank 0"))?;
        let why = match operation {
            Operation::AllReduce | Operation::AllToAll => "as in `x`",
            Operation::ReduceScatter => "a piece of `x`",
            Operation::AllGather => "`x` of all ranks",
        };
        report.check_lengths("out", out, (piece * of_result, why))?;
        if operation != Operation::AllReduce {
            report.check_apart(x, out)?;
        }
        Ok(Call {
            operation,
            x,
            out,
            len: piece,
        })
    }

    pub(super) fn need(&self, multiprocessors: usize) -> Need {
        Need {
            operation: self.operation,
            ranks: self.x.len(),
            len: self.len,
            element_bytes: size_of::<T>(),
            multiprocessors,
        }
    }

    /// Elements from a piece to the next one, in `x` and in the result.
    pub(super) fn steps(&self) -> [i64; 2] {
        let pieces = self.operation.pieces(self.x.len());
        pieces.map(|pieces| if pieces == 1 { 0 } else { self.len as i64 })
    }
}

/// Reports of an operation.
pub(super) struct Report(pub(super) &'static str);

impl Report {
    pub(super) fn unless(
        &self,
        holds: bool,
        argument: &'static str,
        found: impl FnOnce() -> String,
        expected: impl FnOnce() -> String,
    ) -> Result<()> {
        if holds {
            return Ok(());
        }
        Err(Error::Argument {
            operation: self.0,
            argument,
            found: found(),
            expected: expected(),
        })
    }

    /// A buffer for each rank, on its device.
    pub(super) fn check_ranks<T: DeviceElement>(
        &self,
        world: &World,
        argument: &'static str,
        tensors: OfRanks<'_, T>,
    ) -> Result<()> {
        let (ranks, count) = (world.ranks(), tensors.len());
        self.unless(
            count == ranks,
            argument,
            || format!("{count} buffers"),
            || format!("{ranks}: one for each rank"),
        )?;
        for (rank, (tensor, device)) in tensors.iter().zip(world.devices()).enumerate() {
            self.unless(
                tensor.device() == device,
                argument,
                || format!("for rank {rank} a buffer on another device"),
                || format!("one on device {rank} of the world"),
            )?;
        }
        Ok(())
    }

    pub(super) fn check_lengths<T: DeviceElement>(
        &self,
        argument: &'static str,
        tensors: OfRanks<'_, T>,
        (len, why): (usize, &str),
    ) -> Result<()> {
        for (rank, tensor) in tensors.iter().enumerate() {
            self.unless(
                tensor.len() == len,
                argument,
                || format!("{} elements on rank {rank}", tensor.len()),
                || format!("{len}, {why}"),
            )?;
        }
        Ok(())
    }

    /// No rank's result is what it sends.
    pub(super) fn check_apart<T: DeviceElement>(
        &self,
        x: OfRanks<'_, T>,
        out: OfRanks<'_, T>,
    ) -> Result<()> {
        for (rank, (x, out)) in x.iter().zip(out).enumerate() {
            self.unless(
                out.is_empty() || x.address() != out.address(),
                "out",
                || format!("on rank {rank} the buffer that is `x`"),
                || "another one: only `all_reduce` may overwrite what it reads".to_owned(),
            )?;
        }
        Ok(())
    }
}

/// Accesses of a thread that a plan may name.
const MOST_ACCESSES: usize = 16;

/// A plan that there is a kernel and room for.
pub(super) fn check_plan(need: &Need, plan: &Plan) -> Result<()> {
    let (form, most) = (plan.form, need.most_ctas(plan.variant));
    let warps: &[usize] = match plan.variant {
        Variant::Packets | Variant::Sentinel | Variant::SentinelTwoShot => &[8],
        Variant::OneShot => &[8, 16],
        Variant::TwoShot => &[16],
    };
    let room = || match plan.variant {
        Variant::Packets => form.packets() <= PACKETS,
        Variant::Sentinel | Variant::SentinelTwoShot => form.packets() <= WORDS,
        Variant::OneShot | Variant::TwoShot => form.chunk_bytes() <= SLOT_BYTES,
    };
    let is_form = form.ranks == need.ranks
        && (1..=MOST_ACCESSES).contains(&form.accesses)
        && warps.contains(&form.warps);
    let is_whole = || need.is_aligned(plan.variant) || !form.is_aligned;
    // A CTA without a chunk would signal and leave its epoch as it is.
    let chunks = |pieces: usize| need.bytes().div_ceil(form.chunk_bytes() * pieces).max(1);
    let is_few = || {
        let ctas = need.few_ctas(plan.variant, form);
        need.bytes().is_multiple_of(4) && plan.ctas == ctas
    };
    let computes = || match plan.variant {
        Variant::Packets => is_few() && !need.operation.sums(),
        Variant::Sentinel => is_few() && need.operation.sums(),
        Variant::SentinelTwoShot => is_few() && need.operation == Operation::AllReduce,
        Variant::OneShot => plan.ctas <= chunks(1),
        Variant::TwoShot => {
            need.operation == Operation::AllReduce && plan.ctas <= chunks(need.ranks)
        }
    };
    Report(need.operation.name()).unless(
        is_form && room() && is_whole() && computes() && (1..=most).contains(&plan.ctas),
        "plan",
        || plan.to_string(),
        || {
            let Need { ranks, len, .. } = need;
            format!(
                "one for pieces of {len} elements on {ranks} ranks, of {warps:?} warps, {SLOT_BYTES} bytes or {PACKETS} packets for a CTA, and 1 to {most} CTAs, each with a chunk"
            )
        },
    )
}
