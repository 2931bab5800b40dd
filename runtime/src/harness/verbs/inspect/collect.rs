//! Gathers all that a sheet holds.

use std::collections::BTreeMap;

use diag::Diagnostics;
use ir::Stage;
use ir::text::print_with_lines;
use lowering::costs::{self, Cost, Entry};
use lowering::{Options, StopAt, run_to};

use super::places::Places;
use super::sheet::{Access, IrRow, Local, PtxRow, SassRow, SharedRow, Sheet, TileRow, Totals};
use super::tally::{Counted, lines};
use super::{memory, occupancy, ptx_lines, tiles};
use crate::error::{Error, Result};
use crate::harness::artifact::excess_sectors;
use crate::harness::catalog::Variant;
use crate::kernel::Compiled;
use crate::ptxas::{Environment, MachineInst, Work, find_nvdisasm, listing};
use crate::report::Sources;
use crate::toolchain::{Image, Toolchain};

/// The sheet of a compiled variant. Without ptxas or nvdisasm it has no machine code, and says so.
///
/// # Errors
/// What is wrong with the kernel, or what ptxas or nvdisasm has against its code.
pub(super) fn sheet(variant: &Variant, compiled: &Compiled, sources: &Sources) -> Result<Sheet> {
    let mut places = Places::default();
    let mut notes = Vec::new();
    let traced = if compiled.is_replaced() {
        notes.push("edited by hand: its tile IR, accesses and memory are not those of the source; `cargo tilekit build --reset` removes the edited text".to_string());
        Traced::default()
    } else {
        Traced::of(variant, &mut places, sources).map_err(Error::Kernel)?
    };
    let Traced {
        ir,
        accesses,
        shared,
        tiles,
    } = traced;
    let ptx = ptx_lines::rows(compiled.ptx(), &mut places);
    let mut totals = totals(compiled);
    let sass = match assembled(compiled, &mut totals)? {
        Ok(cubin) => machine_code(&cubin, compiled, &ptx, &mut notes)?,
        Err(why) => {
            notes.push(why);
            Vec::new()
        }
    };
    sum_up(&sass, &mut totals);
    let counted = Counted {
        ir: &ir,
        ptx: &ptx,
        sass: &sass,
        accesses: &accesses,
    };
    let lines = lines(&counted, &places);
    let (places, files) = places.finish(sources);
    Ok(Sheet {
        variant: variant.display.clone(),
        totals,
        files,
        places,
        ir,
        ptx,
        sass,
        lines,
        accesses,
        shared,
        tiles,
        notes,
    })
}

/// What the tile IR says.
#[derive(Default)]
struct Traced {
    ir: Vec<IrRow>,
    accesses: Vec<Access>,
    shared: Vec<SharedRow>,
    tiles: Vec<TileRow>,
}

impl Traced {
    fn of(
        variant: &Variant,
        places: &mut Places,
        sources: &Sources,
    ) -> Result<Traced, Diagnostics> {
        let traced = variant.instance.trace()?;
        let entries = costs::of(&traced.func)?;
        let stop = StopAt::Stage(Stage::Allocated);
        let func = run_to(traced.func, &stop, &Options::default())?.func;
        let (text, insts) = print_with_lines(&func);
        let mut ir: Vec<IrRow> = text
            .lines()
            .map(|text| IrRow {
                text: text.to_string(),
                place: None,
            })
            .collect();
        let mut rows = Vec::with_capacity(insts.len());
        for (inst, row) in insts {
            ir[row].place = func.place(inst).map(|place| places.place(&place));
            rows.push(row);
        }
        let accesses = entries.into_iter();
        Ok(Traced {
            accesses: accesses.map(|entry| access(entry, places)).collect(),
            shared: memory::rows(&func, &rows, places, sources),
            tiles: tiles::rows(&func, places),
            ir,
        })
    }
}

fn access(entry: Entry, places: &mut Places) -> Access {
    let [global_bytes, sectors, wavefronts, conflicts] = match entry.cost {
        Cost::Global(plan, cost) => {
            let requests = plan.runs * plan.instructions;
            [cost.moved_bytes() * requests, cost.sectors * requests, 0, 0]
        }
        Cost::Shared(_, cost) => [0, 0, cost.wavefronts, cost.conflicts],
        Cost::Conversion(cost) => [0, 0, cost.work.wavefronts, 0],
    };
    let excess_sectors = excess_sectors(&entry.cost);
    Access {
        op: entry.mnemonic,
        place: entry.place.as_ref().map(|place| places.place(place)),
        cost: entry.cost.to_string(),
        is_free: matches!(entry.cost, Cost::Conversion(cost) if cost.is_free()),
        advice: entry.advice,
        global_bytes,
        sectors,
        excess_sectors,
        wavefronts,
        conflicts,
    }
}

fn totals(compiled: &Compiled) -> Totals {
    let info = compiled.info();
    let stats = ptx::Stats::of_module(compiled.module());
    let kinds = stats.iter().chain(stats.others());
    Totals {
        threads: info.threads,
        shared_bytes: info.shared_bytes,
        parameter_bytes: info.param_bytes,
        ptx: kinds
            .map(|(name, count)| (name.to_string(), count))
            .collect(),
        ptx_instructions: stats.instructions(),
        ..Totals::default()
    }
}

/// The cubin, or why there is none.
fn assembled(compiled: &Compiled, totals: &mut Totals) -> Result<Result<Vec<u8>, String>> {
    let toolchain = Toolchain::find(None);
    if !toolchain.assembles() {
        return Ok(Err(
            "no machine code: no ptxas was found; `cargo tilekit doctor --fix` fetches it"
                .to_string(),
        ));
    }
    compiled.check_assembly()?;
    let Image::Cubin { assembled, .. } = toolchain.assemble(compiled.ptx())? else {
        unreachable!("assembling gives a cubin or fails")
    };
    totals.ptxas = toolchain.ptxas().map(|ptxas| ptxas.version.to_string());
    let messages = assembled.report.messages.iter();
    totals.messages = messages.map(|message| message.text.clone()).collect();
    let info = compiled.info();
    if let Some(report) = assembled.report.entry(&info.entry) {
        totals.registers = Some(report.registers);
        totals.spilled_bytes = Some(report.spill_store_bytes + report.spill_load_bytes);
        totals.stack_bytes = Some(report.stack_bytes);
        let shared_bytes = info.shared_bytes + report.shared_bytes;
        let held = occupancy::of(info.target, info.threads, report.registers, shared_bytes);
        totals.occupancy = Some(held);
    }
    Ok(Ok(assembled.cubin))
}

fn machine_code(
    cubin: &[u8],
    compiled: &Compiled,
    ptx: &[PtxRow],
    notes: &mut Vec<String>,
) -> Result<Vec<SassRow>> {
    let Some(nvdisasm) = find_nvdisasm(&Environment::of_process()) else {
        notes.push(
            "no machine code: no nvdisasm was found; `cargo tilekit doctor --fix` fetches it"
                .to_string(),
        );
        return Ok(Vec::new());
    };
    let insts = listing(&nvdisasm, cubin, &compiled.info().entry)?;
    let of_line: BTreeMap<u32, usize> = (0..).zip(ptx).map(|(at, row)| (row.line, at)).collect();
    let row = |inst: MachineInst| {
        let ptx_row = inst.ptx_line.and_then(|line| of_line.get(&line)).copied();
        SassRow {
            offset: inst.offset,
            work: Work::of(&inst.text).name(),
            text: inst.text,
            ptx: ptx_row,
            place: ptx_row.and_then(|at| ptx[at].place),
            alive: inst.alive,
        }
    };
    Ok(insts.into_iter().map(row).collect())
}

/// What machine instructions say of the whole.
fn sum_up(sass: &[SassRow], totals: &mut Totals) {
    let mut local: BTreeMap<Option<usize>, [u32; 2]> = BTreeMap::new();
    for row in sass {
        *totals.sass.entry(row.work).or_default() += 1;
        if row.work == Work::Local.name() {
            let [stores, loads] = local.entry(row.place).or_default();
            *if row.text.contains("STL") {
                stores
            } else {
                loads
            } += 1;
        }
    }
    totals.sass_instructions = sass.len() as u32;
    let fullest = sass.iter().rev().max_by_key(|row| row.alive);
    totals.alive = fullest.and_then(|row| Some((row.alive?, row.place)));
    totals.local = local
        .into_iter()
        .map(|(place, [stores, loads])| Local {
            place,
            stores,
            loads,
        })
        .collect();
}
