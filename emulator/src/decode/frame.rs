//! The scope of one body: the entry's, or that of a function put in place of a call.

use super::{Decoded, Decoder, SHARED_BASE};
use crate::program::{AccessSpace, File, NONE};
use ptx::{Body, Param, RegClass, Space};

/// Where a symbol lies: its state space and its address there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Location {
    pub(crate) space: AccessSpace,
    pub(crate) base: Base,
}

/// What the address of a symbol starts from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Base {
    Offset(u64),
    /// A `.global` variable, placed when a program meets an emulator.
    Global(u32),
    /// Behind the static shared memory, whose size is known at the end.
    DynamicShared,
}

impl Location {
    pub(crate) fn param(offset: u32) -> Self {
        Self {
            space: AccessSpace::Param,
            base: Base::Offset(offset.into()),
        }
    }

    pub(crate) fn local(offset: u32) -> Self {
        Self {
            space: AccessSpace::Local,
            base: Base::Offset(offset.into()),
        }
    }
}

/// A body that is being decoded.
pub(crate) struct Frame<'m> {
    pub(crate) body: &'m Body,
    pub(crate) params: &'m [Param],
    /// File and slot of every register; a 128-bit one has two doubles in a row.
    pub(crate) registers: Vec<(File, u32)>,
    pub(crate) label_base: u32,
    pub(crate) param_places: Vec<Location>,
    pub(crate) return_places: Vec<Location>,
    pub(crate) variable_places: Vec<Location>,
    /// Index of the call that this body stands for, or [`NONE`].
    pub(crate) call: u32,
    /// Label of the end of a function.
    pub(crate) end_label: u32,
    /// Number of the first register among those of all frames.
    pub(crate) first_unique: u32,
}

impl<'m> Decoder<'m> {
    pub(crate) fn frame(&self) -> &Frame<'m> {
        self.frames
            .last()
            .expect("decoding starts by entering the body of the entry")
    }

    /// Starts a body: its registers get slots, its variables places.
    pub(crate) fn enter(
        &mut self,
        body: &'m Body,
        params: &'m [Param],
        param_places: Vec<Location>,
        return_places: Vec<Location>,
        call: u32,
    ) -> Decoded {
        let registers = body
            .registers
            .iter()
            .map(|(_, class)| self.new_register(class))
            .collect();
        let label_base = self.labels.len() as u32;
        self.labels
            .extend(std::iter::repeat_n(NONE, body.labels.len() + 1));
        let variable_places = body
            .variables
            .iter()
            .map(|v| self.place_variable(v))
            .collect::<Decoded<_>>()?;
        let first_unique = self
            .frames
            .iter()
            .map(|frame| frame.first_unique + frame.registers.len() as u32)
            .max();
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
            first_unique: first_unique.unwrap_or(0),
        });
        Ok(())
    }

    fn new_register(&mut self, class: RegClass) -> (File, u32) {
        match class {
            RegClass::Pred => (File::Predicate, self.new_slots(File::Predicate, 1)),
            RegClass::B128 => (File::Double, self.new_slots(File::Double, 2)),
            RegClass::B64 | RegClass::F64 => (File::Double, self.new_slots(File::Double, 1)),
            RegClass::B16 | RegClass::B32 | RegClass::F32 => {
                (File::Word, self.new_slots(File::Word, 1))
            }
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
                let offset = self.shared_bytes.next_multiple_of(align);
                self.shared_bytes = offset + bytes;
                let base = Base::Offset(u64::from(SHARED_BASE + offset));
                Ok(Location {
                    space: AccessSpace::Shared,
                    base,
                })
            }
            Space::Local | Space::Param => Ok(Location::local(self.new_local(align, bytes))),
            Space::Const => {
                let offset = self.const_image.len().next_multiple_of(align as usize);
                self.const_image.resize(offset, 0);
                let image = super::symbols::initial_bytes(variable);
                self.const_image
                    .extend_from_slice(&image.unwrap_or_else(|| vec![0; bytes as usize]));
                Ok(Location {
                    space: AccessSpace::Const,
                    base: Base::Offset(offset as u64),
                })
            }
            _ => Err(format!(
                "variable {} of a body must be .shared, .local, .const or .param",
                variable.name
            )),
        }
    }

    /// The offset of `bytes` new bytes of local memory.
    pub(crate) fn new_local(&mut self, align: u32, bytes: u32) -> u32 {
        let offset = self.local_bytes.next_multiple_of(align.max(1));
        self.local_bytes = offset + bytes;
        offset
    }
}
