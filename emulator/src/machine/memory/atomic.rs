//! Atomic read-modify-write operations.

use crate::fault::Stepped;
use crate::global::Allocation;
use crate::lanes::{LANES, lanes_of};
use crate::machine::memory::address::{Target, addresses};
use crate::machine::memory::element::{put_elements, read, write};
use crate::machine::memory::lane_group::mark_written;
use crate::machine::memory::misuse::{check_aligned, unwritten};
use crate::machine::memory::time::Does;
use crate::machine::order::Kind;
use crate::machine::state::peers::{Effect, RemoteWrite};
use crate::machine::state::scene::{Scene, Worker};
use crate::numeric::{half, single};
use crate::program::{Atomic, AtomicOp, Cell, Extend, File};
use ptx::Type;
use std::sync::Arc;

impl Worker<'_> {
    pub(crate) fn atomic(&mut self, scene: &mut Scene<'_>, atomic: &Atomic) -> Stepped {
        let addresses = addresses(&scene.warp.regs, &atomic.base);
        scene.warp.has_accessed = true;
        let bytes = atomic.ty.bytes() * atomic.sources.len() as u32;
        let mut rest = scene.mask;
        let mut old = vec![[0u64; LANES]; atomic.sources.len()];
        while let Some((target, lanes, addresses)) =
            Target::next(atomic.space, &addresses, &mut rest)
        {
            check_aligned(target.memory(), "atomic access", &addresses, lanes, bytes)?;
            self.counts.load(target.memory(), lanes, bytes);
            self.counts.store(target.memory(), lanes, bytes);
            if target == Target::Global {
                let does = (bytes, Does::Store);
                self.time_access(scene, target, (lanes, &addresses), does);
            }
            match target {
                Target::Global => self.atomic_global(scene, atomic, lanes, &addresses, &mut old)?,
                _ => self.atomic_linear(scene, atomic, (target, lanes), &addresses, &mut old)?,
            }
        }
        for (dst, old) in atomic.dsts.iter().zip(&old) {
            if let Some(cell) = dst {
                put_elements(
                    &mut scene.warp.regs,
                    *cell,
                    (atomic.ty.bytes(), Extend::Zero),
                    scene.mask,
                    old,
                );
            }
        }
        Ok(())
    }

    fn atomic_global(
        &mut self,
        scene: &mut Scene<'_>,
        atomic: &Atomic,
        lanes: u32,
        addresses: &[u64; LANES],
        old: &mut [[u64; LANES]],
    ) -> Stepped {
        let element = atomic.ty.bytes();
        let bytes = element * atomic.sources.len() as u32;
        let mut rest = lanes;
        while let Some(group) = self.group(scene, "atomic access", addresses, bytes, &mut rest)? {
            let strong = atomic.strong;
            self.access_group(scene, &group, bytes, Kind::STRONG_WRITE, Some(strong))?;
            if atomic.op != AtomicOp::Exchange {
                self.check_written(&group, bytes)?;
            }
            let arrives_later = self.arrives_later(&group) && atomic.is_sent();
            if self.is_remote(&group.allocation) && !arrives_later {
                self.deliver_all();
            }
            for lane in lanes_of(group.lanes) {
                for (part, source) in atomic.sources.iter().enumerate() {
                    let offset = group.offsets[lane] + part * element as usize;
                    let (step, c) = (value(scene, *source, lane), swap_value(scene, atomic, lane));
                    let address = group.allocation.base + offset as u64;
                    let drawn = self.draw(scene, atomic, (address, step));
                    let b = drawn.map_or(step, |share| step.wrapping_mul(share.takes));
                    let change = |a: u64| apply(atomic.op, atomic.ty, a, b, c);
                    if arrives_later {
                        let write = RemoteWrite {
                            allocation: Arc::clone(&group.allocation),
                            offset,
                            ty: atomic.ty,
                            effect: Effect::Update(atomic.op, b),
                            strong: None,
                        };
                        self.send_strongly(scene, (strong, true), write);
                        continue;
                    }
                    old[part][lane] = self.strongly(scene, address, strong, (true, true), || {
                        let _guard =
                            (element == 8).then(|| self.context.locks.lock(addresses[lane]));
                        update_global(&group.allocation, offset, atomic.ty, change)
                    });
                    if change(old[part][lane]) == old[part][lane] {
                        self.note_poll(scene, address, element);
                    } else {
                        self.note_change(scene, address);
                    }
                    if let Some(share) = drawn {
                        let skipped = step.wrapping_mul(share.gives);
                        old[part][lane] = add(atomic.ty, old[part][lane], skipped);
                    }
                }
            }
            if strong.releases {
                scene.warp.begin_epoch();
            }
            mark_written(&group, bytes);
        }
        Ok(())
    }

    fn atomic_linear(
        &mut self,
        scene: &mut Scene<'_>,
        atomic: &Atomic,
        (target, lanes): (Target, u32),
        addresses: &[u64; LANES],
        old: &mut [[u64; LANES]],
    ) -> Stepped {
        let element = atomic.ty.bytes();
        let bytes = element * atomic.sources.len() as u32;
        let checks = self.context.launch.checks.uninitialised && atomic.op != AtomicOp::Exchange;
        for lane in lanes_of(lanes) {
            let sources: smallvec::SmallVec<[u64; 4]> = atomic
                .sources
                .iter()
                .map(|&source| value(scene, source, lane))
                .collect();
            let c = swap_value(scene, atomic, lane);
            if target == Target::Shared {
                let (owner, index) =
                    self.locate(scene, target, "atomic access", lane, addresses[lane], bytes)?;
                let range = (index, bytes as usize);
                self.access_shared(scene, owner, lane, range, Kind::STRONG_WRITE)?;
            }
            let (memory, address) = self.memory_mut(scene, target, lane, addresses[lane], bytes)?;
            let Some(index) = memory.index(address, bytes) else {
                return Err(memory.outside(target.memory(), "atomic access", lane, address, bytes));
            };
            if checks && let Some(missing) = memory.first_unwritten(index, bytes) {
                let trouble = unwritten(target.memory(), lane, addresses[lane], bytes, missing);
                if target != Target::Shared {
                    return Err(trouble);
                }
                self.note_first_use(scene, trouble)?;
            }
            let (memory, _) = self.memory_mut(scene, target, lane, addresses[lane], bytes)?;
            for (part, &b) in sources.iter().enumerate() {
                let index = index + part * element as usize;
                let a = read(memory, index, element);
                old[part][lane] = a;
                write(memory, index, element, apply(atomic.op, atomic.ty, a, b, c));
            }
        }
        Ok(())
    }
}

impl Atomic {
    /// Does its thread go on without its result, so that it may arrive later where another device owns the memory?
    fn is_sent(&self) -> bool {
        self.dsts.iter().all(Option::is_none) && self.swap.is_none()
    }
}

fn value(scene: &Scene<'_>, cell: Cell, lane: usize) -> u64 {
    match cell.file {
        File::Double => scene.warp.regs.doubles[cell.slot as usize].0[lane],
        _ => scene.warp.regs.words[cell.slot as usize].0[lane].into(),
    }
}

fn swap_value(scene: &Scene<'_>, atomic: &Atomic, lane: usize) -> u64 {
    atomic.swap.map_or(0, |cell| value(scene, cell, lane))
}

/// Changes an element of global memory; 64-bit ones need the caller to hold their lock. Returns the old value.
pub(crate) fn update_global(
    memory: &Allocation,
    offset: usize,
    ty: Type,
    change: impl Fn(u64) -> u64,
) -> u64 {
    match ty.bytes() {
        8 => {
            let a = u64::from(memory.load(offset)) | u64::from(memory.load(offset + 4)) << 32;
            let new = change(a);
            memory.store(offset, 4, new as u32);
            memory.store(offset + 4, 4, (new >> 32) as u32);
            a
        }
        4 => memory.update(offset, |a| change(a.into()) as u32).into(),
        bytes => {
            let (shift, keep) = (offset % 4 * 8, u32::MAX >> (32 - bytes * 8));
            let word = memory.update(offset, |word| {
                let new = change(u64::from(word >> shift & keep)) as u32 & keep;
                word & !(keep << shift) | new << shift
            });
            u64::from(word >> shift & keep)
        }
    }
}

/// What an atomic stores when it finds `a`. `b` and `c` are its operands.
pub(crate) fn apply(op: AtomicOp, ty: Type, a: u64, b: u64, c: u64) -> u64 {
    match op {
        AtomicOp::Add => add(ty, a, b),
        AtomicOp::Min => extremum(ty, a, b, true),
        AtomicOp::Max => extremum(ty, a, b, false),
        // inc wraps to zero at b; dec wraps to b at zero or above b (PTX ISA 9.7.13.5).
        AtomicOp::Inc => u64::from(if a as u32 >= b as u32 {
            0
        } else {
            a as u32 + 1
        }),
        AtomicOp::Dec => u64::from(if a as u32 == 0 || a as u32 > b as u32 {
            b as u32
        } else {
            a as u32 - 1
        }),
        AtomicOp::And => a & b,
        AtomicOp::Or => a | b,
        AtomicOp::Xor => a ^ b,
        AtomicOp::Exchange => b,
        AtomicOp::CompareSwap => {
            let keep = u64::MAX >> (64 - ty.bits());
            if a & keep == b & keep { c } else { a }
        }
    }
}

fn add(ty: Type, a: u64, b: u64) -> u64 {
    match ty {
        Type::F32 => single::canonical(f32::from_bits(a as u32) + f32::from_bits(b as u32))
            .to_bits()
            .into(),
        Type::F64 => (f64::from_bits(a) + f64::from_bits(b)).to_bits(),
        Type::F16 | Type::Bf16 | Type::F16x2 | Type::Bf16x2 => {
            by_halves(ty, a, b, |a, b| f64::from(a) + f64::from(b))
        }
        ty if ty.bits() == 64 => a.wrapping_add(b),
        _ => (a as u32).wrapping_add(b as u32).into(),
    }
}

fn extremum(ty: Type, a: u64, b: u64, min: bool) -> u64 {
    let pick = |a_is_less: bool| if a_is_less == min { a } else { b };
    match ty {
        Type::S32 => pick((a as i32) < b as i32),
        Type::S64 => pick((a as i64) < b as i64),
        Type::U32 => pick((a as u32) < b as u32),
        Type::F16 | Type::Bf16 | Type::F16x2 | Type::Bf16x2 => by_halves(ty, a, b, |a, b| {
            if min {
                single::min(a, b).into()
            } else {
                single::max(a, b).into()
            }
        }),
        _ => pick(a < b),
    }
}

/// A 16-bit float operation on one value or on both of a pair.
fn by_halves(ty: Type, a: u64, b: u64, f: impl Fn(f32, f32) -> f64) -> u64 {
    let is_f16 = matches!(ty, Type::F16 | Type::F16x2);
    let one = |a: u16, b: u16| {
        if is_f16 {
            half::f64_to_f16(f(half::f16_to_f32(a), half::f16_to_f32(b)))
        } else {
            half::f64_to_bf16(f(half::bf16_to_f32(a), half::bf16_to_f32(b)))
        }
    };
    let low = u64::from(one(a as u16, b as u16));
    if ty.bits() == 16 {
        low
    } else {
        low | u64::from(one((a >> 16) as u16, (b >> 16) as u16)) << 16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn atomics_at_corner_values_give_the_result_of_the_isa() {
        let check = |op, ty, a: u64, b: u64, expected: u64| {
            assert_eq!(apply(op, ty, a, b, 9), expected, "{op:?}");
        };
        check(AtomicOp::Inc, Type::U32, 7, 7, 0);
        check(AtomicOp::Inc, Type::U32, 6, 7, 7);
        check(AtomicOp::Dec, Type::U32, 0, 7, 7);
        check(AtomicOp::Dec, Type::U32, 8, 7, 7);
        check(AtomicOp::Dec, Type::U32, 3, 7, 2);
        check(AtomicOp::Min, Type::S32, 0xffff_ffff, 1, 0xffff_ffff);
        check(AtomicOp::Min, Type::U32, 0xffff_ffff, 1, 1);
        check(AtomicOp::Max, Type::S64, u64::MAX, 1, 1);
        check(
            AtomicOp::Add,
            Type::F32,
            0x3f80_0000,
            0x3f80_0000,
            0x4000_0000,
        );
        check(AtomicOp::Add, Type::U32, 0xffff_ffff, 2, 1);
        check(
            AtomicOp::Add,
            Type::F16x2,
            0x3c00_3c00,
            0x3c00_4000,
            0x4000_4200,
        );
        check(
            AtomicOp::Add,
            Type::Bf16x2,
            0x3f80_3f80,
            0x3f80_4000,
            0x4000_4040,
        );
        check(AtomicOp::CompareSwap, Type::B32, 5, 5, 9);
        check(AtomicOp::CompareSwap, Type::B32, 6, 5, 6);
        check(AtomicOp::Exchange, Type::B64, 6, 5, 5);
    }
}
