//! Entering a body: its registers get slots, its variables places.

use super::decoder::{Decoded, Decoder};
use super::frame::{Base, Frame, Location, Register};
use super::symbols::initial_bytes;
use crate::program::windows::SHARED_BASE;
use crate::program::{AccessSpace, File, NONE};
use ptx::{Body, Param, Reg, RegClass, Space, Stmt};
use std::collections::HashMap;

impl<'m> Decoder<'m> {
    /// Starts a body: its registers get slots, its variables places.
    pub(crate) fn enter(
        &mut self,
        body: &'m Body,
        params: &'m [Param],
        param_places: Vec<Location>,
        return_places: Vec<Location>,
        call: u32,
    ) -> Decoded {
        let registers = self.used_registers(body);
        let label_base = self.labels.len() as u32;
        self.labels
            .extend(std::iter::repeat_n(NONE, body.labels.len() + 1));
        let variable_places = body
            .variables
            .iter()
            .map(|v| self.place_variable(v))
            .collect::<Decoded<_>>()?;
        self.frames.push(Frame {
            body,
            params,
            registers,
            label_base,
            param_places,
            return_places,
            variable_places,
            call,
            end_label: label_base + body.labels.len() as u32,
        });
        Ok(())
    }

    /// Slots for the registers that instructions of a body name: declarations alone allocate nothing.
    fn used_registers(&mut self, body: &Body) -> HashMap<Reg, Register> {
        let mut registers = HashMap::new();
        let mut add = |reg: Reg| {
            if let Some(class) = body.registers.get(reg) {
                registers
                    .entry(reg)
                    .or_insert_with(|| self.new_register(class));
            }
        };
        for instruction in body.statements.iter().filter_map(Stmt::instruction) {
            if let Some(guard) = instruction.guard {
                add(guard.reg);
            }
            instruction.inst.visit_registers(|reg, _| add(reg));
        }
        registers
    }

    fn new_register(&mut self, class: RegClass) -> Register {
        let (file, count) = match class {
            RegClass::Pred => (File::Predicate, 1),
            RegClass::B128 => (File::Double, 2),
            RegClass::B64 | RegClass::F64 => (File::Double, 1),
            RegClass::B16 | RegClass::B32 | RegClass::F32 => (File::Word, 1),
        };
        self.register_count += 1;
        Register {
            file,
            slot: self.new_slots(file, count),
            unique: self.register_count - 1,
        }
    }

    /// The first of `count` new slots.
    pub(crate) fn new_slots(&mut self, file: File, count: u32) -> u32 {
        let next = match file {
            File::Word => &mut self.files.words,
            File::Double => &mut self.files.doubles,
            File::Predicate => &mut self.files.predicates,
        };
        *next += count;
        *next - count
    }

    /// A place for a variable of a body.
    pub(crate) fn place_variable(&mut self, variable: &ptx::Variable) -> Decoded<Location> {
        check_size(variable)?;
        let (align, bytes) = (variable.align_bytes(), variable.size_bytes() as u32);
        match variable.space {
            Space::Shared if variable.extent == ptx::Extent::Unsized => {
                self.dynamic_shared_align = self.dynamic_shared_align.max(align);
                Ok(Location {
                    space: AccessSpace::Shared,
                    base: Base::DynamicShared,
                })
            }
            Space::Shared => {
                let offset = place_after(self.shared_bytes, align, bytes, ".shared")?;
                self.shared_bytes = offset + bytes;
                let base = Base::Offset(u64::from(SHARED_BASE + offset));
                Ok(Location {
                    space: AccessSpace::Shared,
                    base,
                })
            }
            Space::Local | Space::Param => Ok(Location::local(self.new_local(align, bytes)?)),
            Space::Const => {
                let offset = place_after(self.const_image.len() as u32, align, bytes, ".const")?;
                self.const_image.resize(offset as usize, 0);
                let image = initial_bytes(variable);
                self.const_image
                    .extend_from_slice(&image.unwrap_or_else(|| vec![0; bytes as usize]));
                Ok(Location {
                    space: AccessSpace::Const,
                    base: Base::Offset(offset.into()),
                })
            }
            _ => Err(format!(
                "variable {} of a body must be .shared, .local, .const or .param",
                variable.name
            )),
        }
    }

    /// The offset of `bytes` new bytes of local memory.
    pub(crate) fn new_local(&mut self, align: u32, bytes: u32) -> Decoded<u32> {
        let offset = place_after(self.local_bytes, align.max(1), bytes, ".local")?;
        self.local_bytes = offset + bytes;
        Ok(offset)
    }
}

/// Bytes that a thread can have of local memory (CUDA programming guide, compute capability 9.0), and more than the shared
/// memory and the constants of a kernel.
const MAX_BYTES: u64 = 512 << 10;

/// Variables outside of global memory are small, whatever their declaration says.
fn check_size(variable: &ptx::Variable) -> Decoded {
    let bytes = variable.size_bytes();
    if bytes <= MAX_BYTES {
        return Ok(());
    }
    Err(format!(
        "variable {} takes {bytes} bytes of {} memory; at most {MAX_BYTES} are supported",
        variable.name,
        variable.space.text()
    ))
}

/// The offset of `bytes` bytes after `used` ones of a memory.
fn place_after(used: u32, align: u32, bytes: u32, memory: &str) -> Decoded<u32> {
    let offset = u64::from(used).next_multiple_of(align.into());
    let end = offset + u64::from(bytes);
    if end > MAX_BYTES {
        return Err(format!(
            "the kernel takes {end} bytes of {memory} memory; at most {MAX_BYTES} are supported"
        ));
    }
    Ok(offset as u32)
}

#[cfg(test)]
mod tests {
    use crate::program::Program;
    use ptx::Module;

    #[test]
    fn registers_that_no_instruction_names_have_no_slot() {
        let text = ".version 8.6 .target sm_90a .address_size 64
            .visible .entry kernel() {
                .reg .b64 %rd<1048560>; .reg .pred %p<8>; .reg .b128 %q;
                mov.b64 %rd1048559, 1;
                add.u64 %rd7, %rd1048559, %rd1048559;
                ret;
            }";
        let module = Module::parse(text).expect("the text is PTX");
        let program = Program::load(&module).expect("the kernel decodes");
        let files = program.entries[0].files;
        // Two registers and the constant 1; the predicate that is always true.
        assert_eq!((files.words, files.doubles, files.predicates), (0, 3, 1));
    }
}
