//! Loads and stores.

use super::decoder::{Decoded, Decoder};
use crate::program::copy::Spot;
use crate::program::{Access, AccessSpace, AddressBase, Cell, Constant, Extend, File, Op, Strong};
use ptx::{
    AccessSem, Addr, Base, Dest, Dests, Ld, Operand, Scope, Space, St, Type, TypeKind, Values,
    Visit,
};
use smallvec::SmallVec;

impl Decoder<'_> {
    /// Where an instruction other than a load or store accesses memory.
    pub(crate) fn spot(&mut self, space: Option<Space>, addr: Addr) -> Decoded<Spot> {
        let (space, base) = self.address(space, addr)?;
        Ok(Spot { space, base })
    }

    /// Where an access goes: the space that the instruction names, and for parameters of functions local memory.
    pub(crate) fn address(
        &mut self,
        space: Option<Space>,
        addr: Addr,
    ) -> Decoded<(AccessSpace, AddressBase)> {
        let named = match space {
            None => AccessSpace::Generic,
            Some(Space::Global) => AccessSpace::Global,
            Some(Space::Shared) => AccessSpace::Shared,
            Some(Space::SharedCluster) => AccessSpace::SharedCluster,
            Some(Space::Local) => AccessSpace::Local,
            Some(Space::Const) => AccessSpace::Const,
            Some(Space::Param) => AccessSpace::Param,
        };
        match addr.base {
            Base::Reg(reg) => {
                let (file, slot) = self.register(reg)?;
                if file == File::Predicate {
                    return Err("an address must be a 32- or 64-bit register".to_owned());
                }
                Ok((
                    named,
                    AddressBase {
                        file,
                        slot,
                        offset: addr.offset.into(),
                    },
                ))
            }
            Base::Zero => {
                let slot = self.constant(File::Double, Constant::Bits(0));
                Ok((
                    named,
                    AddressBase {
                        file: File::Double,
                        slot,
                        offset: addr.offset.into(),
                    },
                ))
            }
            Base::Symbol(symbol) => {
                let place = self.symbol(symbol)?;
                // Parameters of functions and of calls lie in local memory; an address of a symbol is one of its space.
                let space = place.space;
                if !matches!(
                    (named, space),
                    (AccessSpace::Param | AccessSpace::Generic, _)
                        | (AccessSpace::SharedCluster, AccessSpace::Shared)
                ) && named != space
                {
                    return Err(format!(
                        "the symbol lies in {space:?}, the instruction says {named:?}"
                    ));
                }
                let slot = self.place_slot(place, 0);
                Ok((
                    space,
                    AddressBase {
                        file: File::Double,
                        slot,
                        offset: addr.offset.into(),
                    },
                ))
            }
        }
    }

    fn access(
        &mut self,
        space: Option<Space>,
        addr: Addr,
        ty: Type,
        cells: SmallVec<[Cell; 4]>,
    ) -> Decoded<Access> {
        let (space, base) = self.address(space, addr)?;
        let element = ty.bytes();
        if element == 0 {
            return Err(format!(".{} is not a type in memory", ty.text()));
        }
        let bytes = element * cells.len() as u32;
        if bytes > 16 {
            return Err(format!(
                "an access of {bytes} bytes per thread; the limit is 16"
            ));
        }
        let extend = if ty.kind() == TypeKind::Signed {
            Extend::Sign
        } else {
            Extend::Zero
        };
        if element == 16 {
            let Cell { slot, .. } = cells[0];
            let halves = [slot, slot + 1].map(|slot| Cell {
                file: File::Double,
                slot,
                bits: 64,
            });
            return Ok(Access {
                space,
                base,
                element: 8,
                bytes,
                strong: None,
                extend,
                cells: SmallVec::from_slice(&halves),
            });
        }
        Ok(Access {
            space,
            base,
            element,
            bytes,
            strong: None,
            extend,
            cells,
        })
    }

    /// The registers that a load writes; unwanted ones get slots that are never read.
    pub(crate) fn dest_cells(&mut self, dsts: &Dests, ty: Type) -> Decoded<SmallVec<[Cell; 4]>> {
        dsts.0
            .iter()
            .map(|&dest| self.dest_cell(dest, ty))
            .collect()
    }

    pub(crate) fn dest_cell(&mut self, dest: Dest, ty: Type) -> Decoded<Cell> {
        if let Dest::Reg(reg) = dest {
            return self.cell(Operand::Reg(reg), ty);
        }
        let file = if ty.bits() > 32 {
            File::Double
        } else {
            File::Word
        };
        let slot = self.new_slots(file, if ty.bits() == 128 { 2 } else { 1 });
        Ok(Cell {
            file,
            slot,
            bits: ty.bits(),
        })
    }

    pub(crate) fn source_cells(
        &mut self,
        values: &Values,
        ty: Type,
    ) -> Decoded<SmallVec<[Cell; 4]>> {
        values.0.iter().map(|&value| self.cell(value, ty)).collect()
    }
}

impl Visit<Ld> for Decoder<'_> {
    fn visit(&mut self, i: &Ld) -> Decoded {
        check_vector(i.vec.map(ptx::VecWidth::len), i.dst.0.len())?;
        let cells = self.dest_cells(&i.dst, i.ty)?;
        let access = Access {
            strong: strong(i.sem, i.scope),
            ..self.access(i.space, i.addr, i.ty, cells)?
        };
        self.push(Op::Load(Box::new(access)));
        Ok(())
    }
}

impl Visit<St> for Decoder<'_> {
    fn visit(&mut self, i: &St) -> Decoded {
        check_vector(i.vec.map(ptx::VecWidth::len), i.src.0.len())?;
        let cells = self.source_cells(&i.src, i.ty)?;
        let access = Access {
            strong: strong(i.sem, i.scope),
            ..self.access(i.space, i.addr, i.ty, cells)?
        };
        self.push(Op::Store(Box::new(access)));
        Ok(())
    }
}

/// Accesses without semantics are weak; volatile ones are relaxed at the scope of the system (PTX ISA 8.4).
fn strong(sem: Option<AccessSem>, scope: Option<Scope>) -> Option<Strong> {
    let sem = sem.filter(|sem| *sem != AccessSem::Weak)?;
    let scope = if sem == AccessSem::Volatile {
        Scope::Sys
    } else {
        scope.unwrap_or(Scope::Gpu)
    };
    Some(Strong::of(sem, scope))
}

impl Strong {
    pub(crate) fn of(sem: AccessSem, scope: Scope) -> Self {
        Self {
            scope,
            acquires: matches!(sem, AccessSem::Acquire | AccessSem::AcqRel),
            releases: matches!(sem, AccessSem::Release | AccessSem::AcqRel),
        }
    }
}

fn check_vector(width: Option<usize>, registers: usize) -> Decoded {
    let expected = width.unwrap_or(1);
    if expected == registers {
        return Ok(());
    }
    Err(format!(
        "the instruction moves {expected} elements but names {registers} registers"
    ))
}
