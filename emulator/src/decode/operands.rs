//! Operands: which slot holds them.

use super::decoder::{Decoded, Decoder};
use crate::lanes::{Exec, Slots};
use crate::program::{Cell, Constant, File, Op};
use ptx::{Dest, Operand, Reg, Special, Type};

impl Decoder<'_> {
    /// File and slot of a register of the body at hand.
    pub(crate) fn register(&self, reg: Reg) -> Decoded<(File, u32)> {
        let found = self.frame().registers.get(&reg);
        found
            .map(|register| (register.file, register.slot))
            .ok_or_else(|| format!("register {} is not declared", reg.0))
    }

    fn register_in(&self, reg: Reg, file: File) -> Decoded<u32> {
        let (found, slot) = self.register(reg)?;
        if found == file {
            return Ok(slot);
        }
        let name = self.frame().body.registers.name(reg);
        Err(format!(
            "register {name} does not have the width that the instruction asks for"
        ))
    }

    /// Slot of a predicate register.
    pub(crate) fn predicate_reg(&self, reg: Reg) -> Decoded<u32> {
        self.register_in(reg, File::Predicate)
    }

    /// Slot of a constant, which becomes a register.
    pub(crate) fn constant(&mut self, file: File, constant: Constant) -> u32 {
        if let Some(&slot) = self.constants.get(&(file, constant)) {
            return slot;
        }
        let slot = self.new_slots(file, 1);
        self.constants.insert((file, constant), slot);
        slot
    }

    /// Slot of an operand in `file`.
    pub(crate) fn operand_in(&mut self, operand: Operand, file: File, ty: Type) -> Decoded<u32> {
        match operand {
            Operand::Reg(reg) => self.register_in(reg, file),
            Operand::Int(value) => Ok(self.immediate(value as u64, file, ty)),
            Operand::F32(bits) => match ty {
                Type::F64 => {
                    Ok(self.immediate(f64::from(f32::from_bits(bits)).to_bits(), file, ty))
                }
                _ => Ok(self.immediate(bits.into(), file, ty)),
            },
            Operand::F64(bits) => match ty {
                Type::F32 => Ok(self.immediate(
                    u64::from((f64::from_bits(bits) as f32).to_bits()),
                    file,
                    ty,
                )),
                _ => Ok(self.immediate(bits, file, ty)),
            },
            Operand::Special(special) => self.special(special, file),
            Operand::Symbol(symbol, offset) => {
                let place = self.symbol(symbol)?;
                Ok(self.constant(file, Self::place_constant(place, offset.into())))
            }
        }
    }

    fn immediate(&mut self, bits: u64, file: File, ty: Type) -> u32 {
        let bits = match file {
            File::Predicate if bits == 0 => 0,
            File::Predicate => u64::MAX,
            File::Word if ty.bits() <= 16 => bits & 0xffff,
            File::Word => bits & 0xffff_ffff,
            File::Double => bits,
        };
        self.constant(file, Constant::Bits(bits))
    }

    fn special(&mut self, special: Special, file: File) -> Decoded<u32> {
        match special {
            Special::Clock
            | Special::ClockHi
            | Special::Clock64
            | Special::GlobalTimer
            | Special::GlobalTimerLo
            | Special::GlobalTimerHi => {
                let slot = self.new_slots(file, 1);
                self.push_before(Op::ReadClock {
                    file,
                    slot,
                    special,
                });
                Ok(slot)
            }
            _ => Ok(self.constant(file, Constant::Special(special))),
        }
    }

    /// The file in which values of `ty` are.
    pub(crate) fn file(ty: Type) -> File {
        match ty.bits() {
            _ if ty == Type::Pred => File::Predicate,
            64 => File::Double,
            _ => File::Word,
        }
    }

    /// Slot of an operand of type `ty`.
    pub(crate) fn source(&mut self, operand: Operand, ty: Type) -> Decoded<u32> {
        self.operand_in(operand, Self::file(ty), ty)
    }

    /// Slot of a result of type `ty`; an unwanted one gets a slot that is never read.
    pub(crate) fn target(&mut self, dest: Dest, ty: Type) -> Decoded<u32> {
        self.target_in(dest, Self::file(ty))
    }

    /// Slot of a result in `file`.
    pub(crate) fn target_in(&mut self, dest: Dest, file: File) -> Decoded<u32> {
        match dest {
            Dest::Reg(reg) => self.register_in(reg, file),
            Dest::Sink => Ok(self.new_slots(file, 1)),
        }
    }

    /// Slot and flip of a predicate operand.
    pub(crate) fn condition(&self, predicate: ptx::Predicate) -> Decoded<(u32, u32)> {
        Ok((
            self.predicate_reg(predicate.reg)?,
            if predicate.negated { u32::MAX } else { 0 },
        ))
    }

    /// Appends a lane-wise step.
    pub(crate) fn lanes(&mut self, exec: Exec, slots: Slots) {
        self.push(Op::Lanes(exec, slots));
    }

    /// Appends a lane-wise step that prepares the instruction.
    pub(crate) fn lanes_before(&mut self, exec: Exec, slots: Slots) {
        self.push_before(Op::Lanes(exec, slots));
    }

    /// The register of a memory operand. Registers may be wider than the access; an immediate has its width.
    pub(crate) fn cell(&mut self, operand: Operand, ty: Type) -> Decoded<Cell> {
        if let Operand::Reg(reg) = operand {
            let (file, slot) = self.register(reg)?;
            let bits = self.frame().body.registers.class(reg).bits();
            if bits < ty.bits() || file == File::Predicate {
                let name = self.frame().body.registers.name(reg);
                return Err(format!("register {name} is too narrow for .{}", ty.text()));
            }
            return Ok(Cell { file, slot, bits });
        }
        let file = Self::file(ty);
        let slot = self.operand_in(operand, file, ty)?;
        Ok(Cell {
            file,
            slot,
            bits: ty.bits(),
        })
    }
}
