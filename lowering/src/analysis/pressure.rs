//! How many registers the tiles of a region need at the least.
//!
//! Only tiles of numbers that were computed or read are counted: indices, masks and pointers are cheap to make again, and
//! ptxas does so. What one elementwise op hands to the next is made and used one element after the other, and is not
//! counted either. What is counted must be in registers, so the result is a lower bound.

use cranelift_entity::SecondaryMap;
use ir::entity::{Inst, Region, Value};
use ir::{Func, TensorType, Type};
use layout::linear::Registers;

/// The moment when most registers are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peak {
    /// Registers of 32 bits per thread.
    pub registers: u32,
    /// The instruction after which it is so.
    pub at: Option<Inst>,
}

/// The peak within a region, the regions inside included.
pub fn of_region(func: &Func, region: Region) -> Peak {
    let insts = &func.region(region).insts;
    let in_parts = taken_in_parts(func, region);
    let renamed = renamed(func, region, &in_parts);
    let mut last_use: SecondaryMap<Value, Option<u32>> = SecondaryMap::new();
    for (at, &inst) in insts.iter().enumerate() {
        visit_tiles_used(func, inst, &mut |value| {
            if !(in_parts[value] && last_use[value].is_some()) {
                last_use[value] = Some(at as u32);
            }
            if let Some(source) = renamed[value] {
                last_use[source] = Some(at as u32);
            }
        });
    }
    let passing = passing(func, region);
    // Each value with its registers, which take a look at its layout.
    let weighed = |value: Value| {
        let registers = if passing[value] || renamed[value].is_some() {
            0
        } else {
            weight(func, value)
        };
        (registers > 0).then_some((value, registers))
    };
    let is_alive_after =
        |value: Value, at: usize| last_use[value].is_some_and(|last| last as usize > at);
    let params = func.region(region).params.iter().copied();
    let mut alive: Vec<(Value, u32)> = params.filter_map(weighed).collect();
    let mut peak = Peak::default();
    for (at, &inst) in insts.iter().enumerate() {
        // While the regions of an instruction run, what is needed after it stays.
        alive.retain(|(v, _)| is_alive_after(*v, at));
        let around: u32 = alive.iter().map(|(_, registers)| registers).sum();
        for inner in func.op(inst).regions() {
            let inner = of_region(func, inner);
            peak = larger(
                peak,
                Peak {
                    registers: around + inner.registers,
                    at: inner.at.or(Some(inst)),
                },
            );
        }
        let made = func.results(inst).iter().copied();
        alive.extend(made.filter(|v| is_alive_after(*v, at)).filter_map(weighed));
        let now = alive.iter().map(|(_, registers)| registers).sum();
        peak = larger(
            peak,
            Peak {
                registers: now,
                at: Some(inst),
            },
        );
    }
    peak
}

/// For each tile of a region that is another one with its elements in other places, that one: both are the same registers. A
/// conversion between threads has registers of its own while it runs, which a lower bound may leave out.
fn renamed(
    func: &Func,
    region: Region,
    in_parts: &SecondaryMap<Value, bool>,
) -> SecondaryMap<Value, Option<Value>> {
    let mut renamed: SecondaryMap<Value, Option<Value>> = SecondaryMap::new();
    for &inst in &func.region(region).insts {
        if let Some((result, moved)) = moved_tile(func, inst)
            && !in_parts[moved]
        {
            renamed[result] = Some(renamed[moved].unwrap_or(moved));
        }
    }
    renamed
}

/// Which tiles of a region are read only by ops that take parts of them, as `slice` does, parts that have no more elements than the tile. From the first of these ops on the registers of such a tile are
/// those of its parts, each of which is needed as long as it is used itself. A part that is taken later is left out of the bound until then.
fn taken_in_parts(func: &Func, region: Region) -> SecondaryMap<Value, bool> {
    let mut in_parts: SecondaryMap<Value, bool> = SecondaryMap::new();
    let mut taken: SecondaryMap<Value, u64> = SecondaryMap::new();
    for &inst in &func.region(region).insts {
        let part = moved_tile(func, inst)
            .filter(|&(result, moved)| elements(func, result) < elements(func, moved));
        visit_tiles_used(func, inst, &mut |value| {
            taken[value] += match part {
                Some((result, moved)) if moved == value => elements(func, result),
                _ => u64::from(u32::MAX),
            };
            in_parts[value] = taken[value] <= elements(func, value);
        });
    }
    in_parts
}

/// The result of an op that moves elements of a tile, and that tile.
fn moved_tile(func: &Func, inst: Inst) -> Option<(Value, Value)> {
    let moved = func.op(inst).rules().moved_operand()?;
    let [result] = func.results(inst) else {
        return None;
    };
    is_tile(func, moved).then_some((*result, moved))
}

/// How many elements a tile has.
fn elements(func: &Func, value: Value) -> u64 {
    match func.ty(value) {
        Type::Tensor(t) | Type::InFlight(t) => t.shape.iter().map(|&n| n as u64).product(),
        _ => 0,
    }
}

/// What elementwise ops of a region make for no others than elementwise ops of the region, with no loop or branch between.
fn passing(func: &Func, region: Region) -> SecondaryMap<Value, bool> {
    let mut passing = SecondaryMap::new();
    // Between which loops and branches each value was made.
    let mut made: SecondaryMap<Value, u32> = SecondaryMap::new();
    let mut stretch = 0;
    for &inst in &func.region(region).insts {
        let op = func.op(inst);
        stretch += u32::from(!op.regions().is_empty());
        let is_elementwise = op.rules().is_elementwise();
        visit_tiles_used(func, inst, &mut |value| {
            passing[value] &= is_elementwise && made[value] == stretch;
        });
        for &value in func.results(inst) {
            if is_tile(func, value) {
                (passing[value], made[value]) = (is_elementwise, stretch);
            }
        }
    }
    passing
}

fn larger(a: Peak, b: Peak) -> Peak {
    if b.registers > a.registers { b } else { a }
}

/// Visits every tile that an instruction and its regions use.
fn visit_tiles_used(func: &Func, inst: Inst, visit: &mut dyn FnMut(Value)) {
    let rules = func.op(inst).rules();
    rules.visit(&mut |value| {
        if is_tile(func, value) {
            visit(value);
        }
    });
    rules.visit_regions(&mut |region| {
        for &inner in &func.region(region).insts {
            visit_tiles_used(func, inner, visit);
        }
    });
}

/// Can it be among what is counted?
fn is_tile(func: &Func, value: Value) -> bool {
    matches!(func.ty(value), Type::Tensor(_) | Type::InFlight(_))
}

/// The registers of a tile that must be kept.
fn weight(func: &Func, value: Value) -> u32 {
    match func.ty(value) {
        Type::InFlight(t) => registers(t),
        Type::Tensor(t) if t.elem.is_float() && !is_rematerialized(func, value) => registers(t),
        _ => 0,
    }
}

fn is_rematerialized(func: &Func, value: Value) -> bool {
    let maker = func.def_inst(value);
    maker.is_some_and(|inst| func.op(inst).rules().is_rematerializable())
}

/// Copies in the registers of a thread are one register under several names.
fn registers(t: &TensorType) -> u32 {
    let Ok(map) = t.layout.linear(&t.shape) else {
        return 0;
    };
    let held = Registers::of(&map);
    let own = (0..held.count()).filter(|&register| held.is_own(register));
    (own.count() as u32 * t.elem.bits()).div_ceil(32)
}

#[cfg(test)]
mod tests {
    use ir::ValueDef;

    use super::of_region;
    use crate::test::read;

    /// The peak of the whole kernel, and the name of what the instruction there makes.
    #[track_caller]
    fn check(body: &str, registers: u32, at: &str) {
        let lines: Vec<String> = body.lines().map(|l| format!("  {}\n", l.trim())).collect();
        let func = read(&format!(
            "#b = Blocked([4], [32], [4], [0])\n#p = Blocked([4, 4], [32, 1], [4, 1], [1, 0])\n#c = Blocked([4, 1], [32, 1], [4, 1], [1, 0])\n#s = Slice(1, Blocked([4, 1], [32, 1], [4, 1], [1, 0]))\nkernel @k(%x: ptr<f32>, %n: i32) warps(4) stage(resolved) {{\n{}  return\n}}\n",
            lines.concat()
        ));
        let peak = of_region(&func, func.body);
        let made = func
            .values()
            .find(|v| matches!(func.def(*v), ValueDef::Result(inst, 0) if Some(inst) == peak.at));
        let name = made.and_then(|v| func.name(v)).unwrap_or("");
        assert_eq!((peak.registers, name), (registers, at));
    }

    #[test]
    fn counts_what_is_alive_at_once() {
        let loads = "%i = arange {start=0, end=512} : tensor<512xi32, #b>
            %s = splat %x : tensor<512xptr<f32>, #b>
            %p = ptr_add %s, %i : tensor<512xptr<f32>, #b>
            %a = load %p : tensor<512xf32, #b>
            %b = load %p : tensor<512xf32, #b>";
        check(
            &format!(
                "{loads}\n%c = binary %a, %b {{op=add}} : tensor<512xf32, #b>\nprint [%c] {{prefix=\"c\"}}"
            ),
            8,
            "b",
        );
        check(
            &format!(
                "{loads}\n%c = cast %a : tensor<512xf16, #b>\n%d = cast %b : tensor<512xf16, #b>\nprint [%c, %d] {{prefix=\"c\"}}"
            ),
            8,
            "b",
        );
    }

    #[test]
    fn elements_in_other_places_are_the_same_registers() {
        check(
            "%v = constant {value=1.0} : tensor<512xf32, #s>
            %a = unary %v {op=exp2} : tensor<512xf32, #s>
            %r = expand_dims %a {axis=1} : tensor<512x1xf32, #c>
            print [%r] {prefix=\"r\"}
            print [%a] {prefix=\"a\"}",
            4,
            "a",
        );
    }

    /// While the powers of the first half of %a are computed, the second half is needed: 8 registers each, not 16 and 8.
    #[test]
    fn a_tile_that_is_read_in_parts_is_needed_part_by_part() {
        check(
            "%v = constant {value=1.0} : tensor<512x4xf32, #p>
            %a = unary %v {op=exp2} : tensor<512x4xf32, #p>
            %f = slice %a {axis=1, start=0, length=2} : tensor<512x2xf32, #p>
            %s = slice %a {axis=1, start=2, length=2} : tensor<512x2xf32, #p>
            %y = unary %f {op=exp2} : tensor<512x2xf32, #p>
            print [%y] {prefix=\"y\"}
            print [%s] {prefix=\"s\"}",
            16,
            "a",
        );
        // Both parts are half of the same registers here, and %a is counted until the second has been read.
        check(
            "%v = constant {value=1.0} : tensor<512x4xf32, #p>
            %a = unary %v {op=exp2} : tensor<512x4xf32, #p>
            %f = slice %a {axis=1, start=0, length=2} : tensor<512x2xf32, #p>
            %s = slice %a {axis=1, start=0, length=2} : tensor<512x2xf32, #p>
            %t = slice %a {axis=1, start=2, length=2} : tensor<512x2xf32, #p>
            print [%f] {prefix=\"f\"}
            print [%s] {prefix=\"s\"}
            print [%t] {prefix=\"t\"}",
            16,
            "a",
        );
    }

    #[test]
    fn what_is_needed_after_a_loop_stays_during_it() {
        check(
            "%z = constant {value=0} : i32
            %o = constant {value=1} : i32
            %v = constant {value=1.0} : tensor<512xf32, #b>
            %a = unary %v {op=exp2} : tensor<512xf32, #b>
            %s = for %z, %n, %o, [%v] (%k: i32, %acc: tensor<512xf32, #b>) {
              %t = unary %acc {op=exp2} : tensor<512xf32, #b>
              %u = unary %t {op=exp2} : tensor<512xf32, #b>
              %w = binary %t, %u {op=add} : tensor<512xf32, #b>
              yield [%w]
            } : tensor<512xf32, #b>
            %r = binary %a, %s {op=add} : tensor<512xf32, #b>
            print [%r] {prefix=\"r\"}",
            8,
            "w",
        );
    }
}
