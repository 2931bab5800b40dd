//! Executing the steps of a warp.

use crate::fault::{FaultKind, LaneSet, Stepped, Trouble};
use crate::lanes::{LANES, Lanes32, Lanes64, lanes_of};
use crate::machine::order::Clocks;
use crate::machine::state::cluster::Cluster;
use crate::machine::state::costs::CYCLES_PER_MICROSECOND;
use crate::machine::state::scene::{Flow, Halt, Scene, Worker};
use crate::machine::state::warp::{Path, Wait, Warp};
use crate::program::{File, IndexBound, NONE, Op, Step, Strong, Watch};
use ptx::{Scope, Special};

impl Worker<'_> {
    /// Runs a warp until all of its paths wait or its slice ends.
    pub(crate) fn run(
        &mut self,
        cluster: &mut Cluster,
        cta: usize,
        warp: &mut Warp,
        slice: u64,
    ) -> Result<(), Halt> {
        let start = warp.clock;
        let end = start + slice;
        let mut outcome = Ok(());
        while warp.clock < end && warp.time.is_in_turn() {
            let Some(index) = warp.ready() else { break };
            let path = Path {
                wait: Wait::Ready,
                ..warp.paths.remove(index)
            };
            outcome = self.run_path(cluster, cta, warp, path, end);
            if outcome.is_err() {
                break;
            }
        }
        cluster.steps += warp.clock - start;
        outcome
    }

    /// Runs a path until it waits, ends, merges into another, or the slice ends.
    fn run_path(
        &mut self,
        cluster: &mut Cluster,
        cta: usize,
        warp: &mut Warp,
        path: Path,
        end: u64,
    ) -> Result<(), Halt> {
        let code = self.context.code;
        let mut path = path;
        let mut reconvergence = warp.reconvergence_pc(&path);
        loop {
            if path.pc == reconvergence {
                let Some(joined) = warp.arrive(&path) else {
                    return Ok(());
                };
                path = joined;
                reconvergence = warp.reconvergence_pc(&path);
                continue;
            }
            if warp.clock >= end || !warp.time.is_in_turn() {
                warp.paths.push(path);
                return Ok(());
            }
            let pc = path.pc;
            let step = &code.steps[pc as usize];
            warp.clock += 1;
            self.counts.steps[pc as usize] += 1;
            let mask = path.mask & (warp.regs.predicates[step.guard as usize] ^ step.flip);
            if let Some(timing) = &self.context.timing {
                let units = &mut cluster.ctas[cta].units;
                timing.issue((pc, mask), (warp.index, &mut warp.time), units);
            }
            if step.watch != NONE {
                let watch = &code.watches[step.watch as usize];
                self.check_reads(warp, watch, path.mask, mask)
                    .map_err(|trouble| Halt { trouble, step: pc })?;
                if !warp.regs.wraps.is_empty() {
                    self.check_addresses(warp, watch, mask, pc)?;
                }
            }
            if step.fragments != NONE && mask != 0 {
                let slots = &code.fragments[step.fragments as usize];
                self.check_fragments(warp, slots, pc)
                    .map_err(|trouble| Halt { trouble, step: pc })?;
            }
            match &step.op {
                Op::Lanes(exec, slots) => {
                    if mask != 0 {
                        exec(&mut warp.regs, slots, mask);
                    }
                    path.pc += 1;
                }
                Op::Linear(linear) => {
                    if mask != 0 {
                        linear.run(&mut warp.regs, mask, pc);
                    }
                    path.pc += 1;
                }
                Op::Branch { target, join } => {
                    if mask == path.mask {
                        path.pc = *target;
                    } else if mask == 0 {
                        path.pc += 1;
                    } else {
                        warp.diverge(&mut path, mask, *target, *join);
                        reconvergence = warp.reconvergence_pc(&path);
                    }
                }
                Op::Exit => {
                    self.check_end(warp, mask, pc)?;
                    self.lets_dependents_begin(warp, mask);
                    warp.end_lanes(path.reconvergence, mask);
                    if warp.is_done() {
                        cluster.end_warp(cta, warp);
                    }
                    path.mask &= !mask;
                    if path.mask == 0 {
                        return Ok(());
                    }
                    path.pc += 1;
                }
                _ if mask == 0 => path.pc += 1,
                op => {
                    let mut scene = Scene {
                        cluster: &mut *cluster,
                        cta,
                        warp: &mut *warp,
                        path,
                        mask,
                    };
                    let flow = self
                        .step(&mut scene, op)
                        .map_err(|trouble| Halt { trouble, step: pc })?;
                    match flow {
                        Flow::Next => path.pc += 1,
                        Flow::Park(wait) => {
                            warp.paths.push(Path { wait, ..path });
                            return Ok(());
                        }
                        Flow::Yield => {
                            path.pc += 1;
                            // At the front, so that the other paths of the warp run first.
                            warp.paths.insert(0, path);
                            return Ok(());
                        }
                    }
                }
            }
            if step.watch != NONE {
                note_writes(warp, step, &code.watches[step.watch as usize], mask);
            }
        }
    }

    fn check_reads(&self, warp: &Warp, watch: &Watch, active: u32, mask: u32) -> Stepped {
        if !self.context.launch.checks.uninitialised {
            return Ok(());
        }
        for read in &watch.reads {
            let lanes = match read.only_if {
                _ if read.is_guard => active,
                None => mask,
                Some((slot, true)) => mask & warp.regs.predicates[slot as usize],
                Some((slot, false)) => mask & !warp.regs.predicates[slot as usize],
            };
            let missing = lanes & !warp.written[read.index as usize];
            if missing != 0 {
                return Err(self.unwritten_register(read.reg, missing));
            }
        }
        Ok(())
    }

    fn unwritten_register(&self, reg: ptx::Reg, lanes: u32) -> Box<Trouble> {
        let entry = self.context.program.module.entry(&self.context.code.name);
        let name = entry.map_or_else(
            || format!("%{}", reg.0),
            |entry| entry.body.registers.name(reg),
        );
        let message = format!(
            "register {name} is read in lanes {} before anything is written to it",
            LaneSet(lanes)
        );
        Trouble::new(FaultKind::Uninitialised, lanes, message)
    }

    /// Executes a step that is more than arithmetic; `scene.mask` is not empty.
    fn step(&mut self, scene: &mut Scene<'_>, op: &Op) -> Stepped<Flow> {
        match op {
            Op::Load(access) => self.load(scene, access)?,
            Op::Store(access) => self.store(scene, access)?,
            Op::Atomic(atomic) => self.atomic(scene, atomic)?,
            Op::CheckDivisor { file, slot, bits } => {
                self.check_divisor(scene, *file, *slot, *bits)?;
            }
            Op::CheckBound(bound) => check_bound(scene, bound)?,
            Op::Nothing | Op::Lanes(..) | Op::Linear(_) | Op::Branch { .. } | Op::Exit => {}
            Op::ReadClock {
                file,
                slot,
                special,
            } => {
                let modelled = self.context.timing.as_ref().map(|_| scene.warp.time.now);
                let clock = modelled.unwrap_or(scene.warp.clock);
                read_clock(scene, *file, *slot, (*special, clock));
            }
            Op::Trap => {
                let message = match scene.warp.failed_assertion.take() {
                    Some(what) => format!("assertion failed: {what}"),
                    None => "the kernel executed trap".to_owned(),
                };
                return Err(Trouble::new(FaultKind::Trap, scene.mask, message));
            }
            Op::Shuffle(_)
            | Op::Vote { .. }
            | Op::Match { .. }
            | Op::Redux { .. }
            | Op::Elect { .. }
            | Op::WarpSync { .. } => return self.exchange(scene, op),
            Op::ActiveMask { dst } => {
                let value = Lanes32([scene.mask; 32]);
                scene.warp.regs.put32(*dst, scene.mask, &value);
            }
            Op::Sleep => return Ok(Flow::Yield),
            Op::Barrier(barrier) => return self.barrier(scene, barrier),
            Op::MoveMatrix(op) => self.move_matrix(scene, op)?,
            Op::TransposeMatrix { dst, src } => self.transpose_matrix(scene, *dst, *src)?,
            Op::Multiply(op) => self.multiply(scene, op)?,
            Op::GroupMultiply(op) => self.group_multiply(scene, op)?,
            Op::GroupFence => self.group_fence(scene)?,
            Op::GroupCommit => self.group_commit(scene)?,
            Op::GroupWait(open) => return self.group_wait(scene, *open),
            Op::Mbarrier(op) => return self.mbarrier(scene, op),
            Op::ThreadCopy(copy) => self.thread_copy(scene, copy)?,
            Op::ThreadGroup(op) => self.thread_group(scene, *op)?,
            Op::CopiesArrive { spot, noinc } => self.copies_arrive(scene, spot, *noinc)?,
            Op::BulkCopy(copy) => self.bulk_copy(scene, copy)?,
            Op::BulkGroup(op) => self.bulk_group(scene, *op)?,
            Op::TensorPrefetch(tensor) => self.tensor_prefetch(scene, tensor)?,
            Op::BulkPrefetch(src, bytes) => self.bulk_prefetch(scene, src, *bytes)?,
            Op::RemoteStore(op) => self.remote_store(scene, op)?,
            Op::ReplaceField(op) => self.replace_field(scene, op)?,
            Op::MapFence(None) => scene.release_maps(),
            Op::MapFence(Some(map)) => self.acquire_map(scene, map)?,
            Op::PublishMap(spots) => self.publish_map(scene, &spots.0, &spots.1)?,
            Op::ClusterArrive { releases } => self.cluster_arrive(scene, *releases)?,
            Op::ClusterWait => return self.cluster_wait(scene),
            Op::FenceAsync { shared, global } => fence_async(scene, *shared, *global),
            Op::Fence {
                scope,
                acquires,
                releases,
            } => {
                self.before_release(Strong {
                    scope: *scope,
                    acquires: *acquires,
                    releases: *releases,
                });
                fence(scene, *scope, (*acquires, *releases));
            }
            Op::FenceMbarrierInit => scene.publish_mbarriers(),
            Op::LaunchDependents => self.lets_dependents_begin(scene.warp, scene.mask),
            Op::LaunchWait => scene.warp.acquire(scene.mask, Clocks::wait_for_launches),
            Op::SetMaxRegisters { count, increases } => {
                return self.set_max_registers(scene, *count, *increases);
            }
            Op::Print(print) => self.print(scene, print)?,
            Op::Assert(assert) => return Err(self.assert_failed(scene, assert)),
        }
        Ok(Flow::Next)
    }

    /// Lanes do their part for later launches to begin. If those that this one overlaps may not have ended for them yet, they may not have for later ones.
    fn lets_dependents_begin(&self, warp: &Warp, lanes: u32) {
        let Some(overlap) = &self.context.overlap else {
            return;
        };
        let first = lanes.trailing_zeros() as usize % LANES;
        if lanes != 0 && !warp.clocks.of(first).foreign.launches_ended() {
            overlap.begins_early();
        }
    }

    /// Threads must not exit with asynchronous work in flight that uses their registers or shared memory.
    fn check_end(&self, warp: &Warp, lanes: u32, end: u32) -> Result<(), Halt> {
        if warp.alive & !lanes == 0 {
            self.check_products_done(warp)
                .map_err(|trouble| Halt { trouble, step: end })?;
        }
        if !self.context.launch.checks.races {
            return Ok(());
        }
        check_copies_done(warp, lanes, end)?;
        let threads = warp.bulk_groups.iter();
        let mut open =
            threads.filter(|(lane, groups)| lanes >> **lane & 1 != 0 && groups.is_unfinished());
        let Some((first, groups)) = open.next() else {
            return Ok(());
        };
        let unfinished = open.fold(1u32 << first, |all, (lane, _)| all | 1 << lane);
        let message = format!(
            "lanes {} exit while bulk stores may still read shared memory; cp.async.bulk.wait_group is missing",
            LaneSet(unfinished)
        );
        let trouble = Trouble::new(FaultKind::Race, unfinished, message)
            .see(end, "the threads exit here")
            .help("the threads that issue the stores must wait for them (`tma_store_wait(0)`): shared memory is gone when the CTA exits");
        // The fault is reported at the line of the store, not at the exit.
        let step = groups.last_store();
        Err(Halt { trouble, step })
    }

    fn check_divisor(&self, scene: &Scene<'_>, file: File, slot: u32, bits: u32) -> Stepped {
        if !self.context.launch.checks.division_by_zero {
            return Ok(());
        }
        let keep = u64::MAX >> (64 - bits);
        let regs = &scene.warp.regs;
        let is_zero = |lane: &usize| match file {
            File::Double => regs.doubles[slot as usize].0[*lane] == 0,
            _ => u64::from(regs.words[slot as usize].0[*lane]) & keep == 0,
        };
        let lanes = lanes_of(scene.mask)
            .filter(is_zero)
            .fold(0u32, |lanes, lane| lanes | 1 << lane);
        if lanes == 0 {
            return Ok(());
        }
        let message = format!(
            "integer division by zero in lanes {}; its result is undefined",
            LaneSet(lanes)
        );
        Err(Trouble::new(FaultKind::DivisionByZero, lanes, message))
    }
}

/// What `cp.async` writes must be there before the memory of the CTA is gone.
fn check_copies_done(warp: &Warp, lanes: u32, end: u32) -> Result<(), Halt> {
    let mut copies = warp.copies.started.iter();
    let Some(copy) = copies.find(|copy| copy.lanes & lanes != 0) else {
        return Ok(());
    };
    let unfinished = copy.lanes & lanes;
    let message = format!(
        "lanes {} exit while an asynchronous copy (cp.async) in flight writes shared memory; cp.async.wait_group is missing",
        LaneSet(unfinished)
    );
    let trouble = Trouble::new(FaultKind::Race, unfinished, message)
        .see(end, "the threads exit here")
        .help("the threads that issue copies must wait for them (`async_copy_wait(0)`): shared memory is gone when the CTA exits");
    Err(Halt {
        trouble,
        step: copy.step,
    })
}

fn fence_async(scene: &mut Scene<'_>, shared: bool, global: bool) {
    let warp = &mut *scene.warp;
    let (actor, lanes, epoch) = (warp.actor, warp.all_of(scene.mask), warp.epoch);
    warp.acquire(scene.mask, |clocks| {
        if shared {
            clocks.fence_async_shared();
            clocks.visible_async.advance_lanes(actor, lanes, epoch);
        }
        if global {
            clocks.fence_async_global();
            let known = &mut clocks.visible_async_global;
            known.advance_lanes(actor, lanes, epoch);
        }
    });
    warp.has_accessed = true;
    warp.begin_epoch();
}

/// A memory fence: with strong accesses before and after it, it makes patterns that acquire and release (PTX ISA 8.8).
fn fence(scene: &mut Scene<'_>, scope: Scope, (acquires, releases): (bool, bool)) {
    let place = scene.place();
    let warp = &mut *scene.warp;
    if acquires {
        let (observed, fences) = (warp.fences.clone(), &mut warp.fences);
        warp.clocks.acquire(scene.mask, warp.alive, |clocks| {
            fences.clone_from(&observed);
            fences.acquire(clocks, place, scope);
        });
    }
    if releases {
        let mut known = Clocks::default();
        warp.release_to(scene.mask, &mut known);
        warp.fences.release(&known, place, scope);
    } else {
        warp.begin_epoch();
    }
    warp.has_accessed = true;
}

fn note_writes(warp: &mut Warp, step: &Step, watch: &Watch, mask: u32) {
    debug_assert!(step.watch != NONE);
    for &index in &watch.writes {
        warp.written[index as usize] |= mask;
    }
    if !warp.regs.wraps.is_empty() {
        for slot in &watch.overwrites {
            warp.regs.wraps.forget(*slot, mask);
        }
    }
}

/// Clocks count the steps of the warp, or modelled cycles: they grow, and a launch gives the same ones every time.
fn read_clock(scene: &mut Scene<'_>, file: File, slot: u32, (special, clock): (Special, u64)) {
    let nanoseconds = clock * 1000 / CYCLES_PER_MICROSECOND;
    let value = match special {
        Special::ClockHi => clock >> 32,
        Special::GlobalTimerHi => nanoseconds >> 32,
        Special::GlobalTimer | Special::GlobalTimerLo => nanoseconds,
        _ => clock,
    };
    let regs = &mut scene.warp.regs;
    match file {
        File::Double => regs.put64(slot, scene.mask, &Lanes64([value; 32])),
        _ => regs.put32(slot, scene.mask, &Lanes32([value as u32; 32])),
    }
}

/// The index in every lane, unsigned, must be below the limit.
fn check_bound(scene: &Scene<'_>, bound: &IndexBound) -> Stepped {
    let (regs, slot) = (&scene.warp.regs, bound.slot as usize);
    let index = |lane: usize| match bound.file {
        File::Double => regs.doubles[slot].0[lane].wrapping_add_signed(bound.plus.into()) as i64,
        _ => i64::from(regs.words[slot].0[lane].wrapping_add_signed(bound.plus) as i32),
    };
    let lanes = lanes_of(scene.mask)
        .filter(|&lane| !(0..i64::from(bound.limit)).contains(&index(lane)))
        .fold(0u32, |lanes, lane| lanes | 1 << lane);
    if lanes == 0 {
        return Ok(());
    }
    let first = index(lanes.trailing_zeros() as usize);
    let message = format!(
        "index {first} is outside 0..{}: {}",
        bound.limit, bound.what
    );
    Err(Trouble::new(FaultKind::OutOfBounds, lanes, message).help(
        "reduce the index modulo the length (`% stages`), mask or clamp it, or allocate more",
    ))
}
