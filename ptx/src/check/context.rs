//! The function body being checked, and the checks of operands that all families share.

use super::error::{CheckError, Problem};
use super::legal::Need;
use crate::module::{Body, Module, Param};
use crate::operand::{
    Addr, Base, Dest, Dests, Fragment, Operand, PairDest, Predicate, Reg, Symbol, Values,
};
use crate::registers::RegClass;
use crate::statement::Instruction;
use crate::types::{Space, Type, VecWidth};
use std::borrow::Cow;
use target::Target;

/// Collects the errors of one body.
pub(crate) struct Checker<'m> {
    pub(super) module: &'m Module,
    /// The machine whose limits hold.
    pub(super) machine: &'m Target,
    pub(super) body: &'m Body,
    pub(super) params: &'m [Param],
    pub(super) returns: &'m [Param],
    pub(super) function: &'m str,
    pub(super) statement: Option<usize>,
    pub(super) errors: Vec<CheckError>,
}

impl<'m> Checker<'m> {
    pub(super) fn report(&mut self, problem: Problem) {
        let instruction = self
            .statement
            .and_then(|index| self.body.statements.get(index)?.instruction());
        let text =
            |instruction: &Instruction| instruction.to_text(self.module, self.body, self.params);
        self.errors.push(CheckError {
            function: self.function.to_owned(),
            statement: self.statement,
            instruction: instruction.map(text).unwrap_or_default(),
            loc: instruction.and_then(|instruction| instruction.loc),
            problem,
        });
    }

    /// Reports a combination of modifiers that does not exist unless `condition` holds.
    pub(super) fn require(&mut self, condition: bool, message: impl FnOnce() -> String) {
        if !condition {
            self.report(Problem::Modifier(message()));
        }
    }

    /// The type must be one of those that the instruction has.
    pub(super) fn one_of(&mut self, what: &str, ty: Type, allowed: &[Type]) -> bool {
        let found = allowed.contains(&ty);
        self.require(found, || {
            let list: Vec<String> = allowed.iter().map(|ty| format!(".{}", ty.text())).collect();
            format!(
                "{what} has no type .{}; expected one of {}",
                ty.text(),
                list.join(", ")
            )
        });
        found
    }

    /// The type must stand in one of these lists.
    pub(super) fn one_of_lists(&mut self, what: &str, ty: Type, allowed: &[&[Type]]) -> bool {
        allowed.iter().any(|list| list.contains(&ty)) || self.one_of(what, ty, &allowed.concat())
    }

    pub(super) fn reg(&mut self, operand: &'static str, reg: Reg, need: Need) {
        match self.body.registers.get(reg) {
            None => self.report(Problem::UnknownRegister(reg)),
            Some(class) if !need.fits(class) => {
                self.report(Problem::RegisterClass {
                    operand,
                    class,
                    expected: need.describe(),
                });
            }
            Some(_) => {}
        }
    }

    pub(super) fn value(&mut self, operand: &'static str, value: &Operand, need: Need) {
        let (found, fits) = match *value {
            Operand::Reg(reg) => return self.reg(operand, reg, need),
            Operand::Int(_) => ("an integer", need.takes_integer()),
            Operand::F32(_) => ("an .f32 constant", need.takes_float(Type::F32)),
            Operand::F64(_) => ("an .f64 constant", need.takes_float(Type::F64)),
            Operand::Special(_) => ("a special register, which only `mov` and `cvt` read", false),
            Operand::Symbol(..) => ("a symbol, whose address only `mov` and `cvta` take", false),
        };
        if !fits {
            let expected = need.describe();
            self.report(Problem::OperandKind {
                operand,
                found,
                expected,
            });
        }
    }

    pub(super) fn optional(&mut self, operand: &'static str, value: Option<&Operand>, need: Need) {
        if let Some(value) = value {
            self.value(operand, value, need);
        }
    }

    pub(super) fn dest(&mut self, operand: &'static str, dest: Dest, need: Need) {
        if let Dest::Reg(reg) = dest {
            self.reg(operand, reg, need);
        }
    }

    /// A result that an instruction must write somewhere.
    pub(super) fn result(&mut self, operand: &'static str, dest: Dest, need: Need) {
        match dest {
            Dest::Reg(reg) => self.reg(operand, reg, need),
            Dest::Sink => {
                let expected = need.describe();
                self.report(Problem::OperandKind {
                    operand,
                    found: "the sink `_`",
                    expected,
                });
            }
        }
    }

    pub(super) fn pair(&mut self, dest: PairDest, first: Need, second: Need) {
        self.dest("dst", dest.first, first);
        if let Some(dest) = dest.second {
            self.dest("second result", dest, second);
        }
    }

    pub(super) fn predicate(&mut self, operand: &'static str, predicate: Predicate) {
        self.reg(operand, predicate.reg, Need::Exact(Type::Pred));
    }

    pub(super) fn arity(&mut self, operand: &'static str, found: usize, vec: Option<VecWidth>) {
        self.count(operand, found, vec.map_or(1, VecWidth::len));
    }

    pub(super) fn count(&mut self, operand: &'static str, found: usize, expected: usize) {
        if found != expected {
            self.report(Problem::Count {
                operand,
                found,
                expected,
            });
        }
    }

    pub(super) fn dests(&mut self, dests: &Dests, vec: Option<VecWidth>, need: Need) {
        self.arity("dst", dests.0.len(), vec);
        for &dest in &dests.0 {
            self.dest("dst", dest, need);
        }
        self.same_width("dst", dests.0.iter().map(|dest| dest.reg()));
    }

    /// The registers of a vector have one width.
    fn same_width(&mut self, operand: &'static str, regs: impl Iterator<Item = Option<Reg>>) {
        let classes: Vec<RegClass> = regs
            .flatten()
            .filter_map(|reg| self.body.registers.get(reg))
            .collect();
        if let Some(&class) = classes
            .iter()
            .find(|class| class.bits() != classes[0].bits())
        {
            let expected = format!("{} bits like the first element", classes[0].bits());
            self.report(Problem::RegisterClass {
                operand,
                class,
                expected,
            });
        }
    }

    pub(super) fn values(
        &mut self,
        operand: &'static str,
        values: &Values,
        vec: Option<VecWidth>,
        need: Need,
    ) {
        self.arity(operand, values.0.len(), vec);
        for value in &values.0 {
            self.value(operand, value, need);
        }
        self.same_width(operand, values.0.iter().map(|value| value.reg()));
    }

    pub(super) fn fragment(
        &mut self,
        operand: &'static str,
        fragment: &Fragment,
        len: usize,
        need: Need,
    ) {
        self.count(operand, fragment.0.len(), len);
        for &reg in &fragment.0 {
            self.reg(operand, reg, need);
        }
    }

    /// An operand that must be an immediate for which `is_legal` holds.
    pub(super) fn immediate(
        &mut self,
        operand: &'static str,
        value: &Operand,
        allowed: impl Into<Cow<'static, str>>,
        is_legal: impl FnOnce(i64) -> bool,
    ) {
        let allowed = allowed.into();
        match *value {
            Operand::Int(value) if is_legal(value) => {}
            Operand::Int(value) => self.report(Problem::Immediate {
                operand,
                value,
                allowed,
            }),
            _ => {
                let expected = format!("an immediate, {allowed}");
                self.report(Problem::OperandKind {
                    operand,
                    found: "not an immediate",
                    expected,
                });
            }
        }
    }

    /// A 32-bit value whose range is known when it is an immediate.
    pub(super) fn ranged(
        &mut self,
        operand: &'static str,
        value: &Operand,
        allowed: impl Into<Cow<'static, str>>,
        is_legal: impl FnOnce(i64) -> bool,
    ) {
        match *value {
            Operand::Int(_) => self.immediate(operand, value, allowed, is_legal),
            _ => self.value(operand, value, Need::Exact(Type::U32)),
        }
    }

    /// The base of an address, and what is known about its place: `bytes` are accessed, aligned to `align`.
    pub(super) fn addr(
        &mut self,
        operand: &'static str,
        addr: Addr,
        space: Option<Space>,
        bytes: u32,
        align: u32,
    ) {
        match addr.base {
            Base::Zero if space == Some(Space::Local) => {}
            Base::Zero => {
                let expected =
                    "a register or a symbol; only .local memory has fixed addresses".to_owned();
                self.report(Problem::OperandKind {
                    operand,
                    found: "an absolute address",
                    expected,
                });
            }
            Base::Reg(reg) => match self.body.registers.get(reg) {
                None => self.report(Problem::UnknownRegister(reg)),
                Some(RegClass::B64) => {}
                Some(RegClass::B32) if space.is_some_and(|space| space != Space::Global) => {}
                Some(class) => {
                    let expected = match space {
                        None | Some(Space::Global) => "a 64-bit address",
                        Some(_) => "a 32-bit or 64-bit address",
                    };
                    self.report(Problem::RegisterClass {
                        operand,
                        class,
                        expected: expected.to_owned(),
                    });
                }
            },
            Base::Symbol(symbol) => {
                self.symbol_access(operand, symbol, addr.offset.into(), space, bytes, align);
            }
        }
    }

    fn symbol_access(
        &mut self,
        operand: &'static str,
        symbol: Symbol,
        offset: i64,
        space: Option<Space>,
        bytes: u32,
        align: u32,
    ) {
        let Some(place) = self.place(symbol) else {
            return;
        };
        let is_reachable = match space {
            None => matches!(place.space, Space::Global | Space::Shared | Space::Local),
            Some(Space::SharedCluster) => place.space == Space::Shared,
            Some(space) => place.space == space,
        };
        if !is_reachable {
            let expected = space.map_or("a generic address".to_owned(), |space| {
                format!("an address in .{}", space.text())
            });
            return self.report(Problem::OperandKind {
                operand,
                found: "a symbol of another space",
                expected,
            });
        }
        let name = place.name;
        if place.align < align || offset % i64::from(align) != 0 {
            let problem = Problem::Alignment {
                symbol: name.to_owned(),
                offset,
                align,
            };
            return self.report(problem);
        }
        if place
            .size
            .is_some_and(|size| offset < 0 || offset + i64::from(bytes) > size as i64)
        {
            let size = place.size.unwrap_or_default();
            let problem = Problem::OutOfBounds {
                symbol: name.to_owned(),
                offset,
                bytes,
                size,
            };
            self.report(problem);
        }
    }

    /// Where a symbol lies; reports one that does not exist.
    pub(super) fn place(&mut self, symbol: Symbol) -> Option<Place<'m>> {
        let of_param = |param: &Param| -> (u32, Option<u64>) {
            (param.align_bytes(), Some(param.size_bytes()))
        };
        let found = match symbol {
            Symbol::Param(i) => self
                .params
                .get(i as usize)
                .map(|p| (p.name.as_str(), Space::Param, of_param(p))),
            Symbol::Return(i) => self
                .returns
                .get(i as usize)
                .map(|p| (p.name.as_str(), Space::Param, of_param(p))),
            Symbol::Variable(i) | Symbol::Global(i) => {
                let is_local = matches!(symbol, Symbol::Variable(_));
                let list = if is_local {
                    &self.body.variables
                } else {
                    &self.module.globals
                };
                list.get(i as usize).map(|v| {
                    let size =
                        Some(v.size_bytes()).filter(|_| v.extent != crate::module::Extent::Unsized);
                    (v.name.as_str(), v.space, (v.align_bytes(), size))
                })
            }
            Symbol::Function(i) => self
                .module
                .functions
                .get(i as usize)
                .map(|f| (f.name.as_str(), Space::Const, (1, None))),
        };
        let Some((name, space, (align, size))) = found else {
            let (what, index) = match symbol {
                Symbol::Param(i) => ("parameter", i),
                Symbol::Return(i) => ("result", i),
                Symbol::Variable(i) => ("variable of this body", i),
                Symbol::Global(i) => ("variable of the module", i),
                Symbol::Function(i) => ("function", i),
            };
            self.report(Problem::UnknownSymbol(what, index));
            return None;
        };
        Some(Place {
            name,
            space,
            align,
            size,
        })
    }
}

/// What a symbol stands for.
pub(super) struct Place<'n> {
    pub(super) name: &'n str,
    pub(super) space: Space,
    /// Bytes.
    pub(super) align: u32,
    /// Bytes, when they are known before the launch.
    pub(super) size: Option<u64>,
}
