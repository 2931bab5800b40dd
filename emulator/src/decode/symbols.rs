//! Places and contents of variables and parameters.

use super::decoder::{Decoded, Decoder};
use super::frame::{Base, Location};
use crate::program::{AccessSpace, Constant, GlobalImage, ParamSlot};
use ptx::{Initializer, Param, ParameterOffsets, Space, Symbol, Variable};

/// Where each parameter lies in the bytes of a launch, and how many those are.
pub(crate) fn lay_out_params(params: &[Param]) -> (Vec<ParamSlot>, u32) {
    let mut list = ParameterOffsets::default();
    let slots = params
        .iter()
        .map(|param| ParamSlot {
            name: param.name.clone(),
            offset: list.place_param(param) as u32,
            bytes: param.size_bytes() as u32,
        })
        .collect();
    (slots, list.bytes() as u32)
}

/// What a variable holds at start, when it says so.
pub(crate) fn initial_bytes(variable: &Variable) -> Option<Vec<u8>> {
    let size = variable.size_bytes() as usize;
    let element = variable.ty.bytes() as usize;
    let mut bytes: Vec<u8> = match variable.init.as_ref()? {
        Initializer::Int(values) => values
            .iter()
            .flat_map(|v| v.to_le_bytes()[..element.min(8)].to_vec())
            .collect(),
        Initializer::F32(values) => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
        Initializer::F64(values) => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
    };
    // Elements that the list leaves out are zero (PTX ISA 5.4.4).
    bytes.resize(size, 0);
    Some(bytes)
}

/// The most initial values of one variable, in bytes: the host holds them twice.
const MAX_INITIAL_BYTES: u64 = 1 << 30;

/// Refuses initial values that the host could not hold.
pub(crate) fn check_initial_bytes(variable: &Variable) -> Decoded {
    let bytes = variable.size_bytes();
    if variable.init.is_none() || bytes <= MAX_INITIAL_BYTES {
        return Ok(());
    }
    Err(format!(
        "variable {} has {bytes} bytes of initial values; at most {MAX_INITIAL_BYTES} are supported",
        variable.name
    ))
}

/// A `.global` variable as memory at start; other spaces give an empty image.
pub(crate) fn global_image(variable: &Variable) -> GlobalImage {
    match variable.space {
        Space::Global => GlobalImage {
            bytes: variable.size_bytes(),
            init: initial_bytes(variable),
        },
        _ => GlobalImage {
            bytes: 0,
            init: None,
        },
    }
}

impl Decoder<'_> {
    /// Where a symbol lies.
    pub(crate) fn symbol(&mut self, symbol: Symbol) -> Decoded<Location> {
        let frame = self.frame();
        let found = match symbol {
            Symbol::Param(index) => frame.param_places.get(index as usize),
            Symbol::Return(index) => frame.return_places.get(index as usize),
            Symbol::Variable(index) => frame.variable_places.get(index as usize),
            Symbol::Global(index) => return self.module_variable(index),
            Symbol::Function(_) => {
                return Err("the address of a function is not a value here".to_owned());
            }
        };
        found
            .copied()
            .ok_or_else(|| format!("the symbol {symbol:?} is not declared"))
    }

    fn module_variable(&mut self, index: u32) -> Decoded<Location> {
        if let Some(&place) = self.globals.get(&index) {
            return Ok(place);
        }
        let variable = self
            .module
            .globals
            .get(index as usize)
            .ok_or_else(|| format!("variable {index} is not declared"))?;
        let place = if variable.space == Space::Global {
            Location {
                space: AccessSpace::Global,
                base: Base::Global(index),
            }
        } else {
            self.place_variable(variable)?
        };
        self.globals.insert(index, place);
        Ok(place)
    }

    /// The constant that holds the address of `place` plus `offset` in its own state space.
    pub(crate) fn place_constant(place: Location, offset: i64) -> Constant {
        match place.base {
            Base::Offset(base) => Constant::Bits(base.wrapping_add_signed(offset)),
            Base::Global(index) => Constant::Global(index, offset),
            Base::DynamicShared => Constant::DynamicShared(offset),
        }
    }
}
