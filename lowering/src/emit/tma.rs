//! The copy engine (PTX ISA 9.7.9.27): one thread asks for each box of a block.

use gluon_lang::entity::Value;
use ptx::{Cvta, CvtaSpace, Param, RegClass, Type};

use super::Emitter;
use super::code::key;

/// Bytes of a tensor map, and what they are aligned to (PTX ISA 5.5.8).
const MAP_BYTES: u64 = 128;
const MAP_ALIGNMENT: u32 = 64;

impl Emitter<'_> {
    /// A tensor map among the parameters: the engine wants its generic address. The map stays where the launch put it, so
    /// that it needs no fence and its address becomes a place in the constant bank.
    pub(super) fn map_param(&mut self, map: Value, name: &str) {
        let declared = Param::bytes(name, MAP_ALIGNMENT, MAP_BYTES);
        let symbol = self.code.entry.add_param(declared);
        let address = self.code.in_prologue(|code| {
            let place = code.mov(Type::U64, symbol);
            let key = key(13, CvtaSpace::Param as u8, Type::U64, 0, &[place.into()]);
            code.pure(key, RegClass::B64, |reg| {
                Cvta::new(CvtaSpace::Param, Type::U64, reg, place).into()
            })
        });
        self.set(map, vec![address.into()]);
    }
}
