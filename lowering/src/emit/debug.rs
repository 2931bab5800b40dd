//! Facts, which cost nothing, and checks and prints, which call `vprintf`.
//!
//! `vprintf` takes a format and the generic address of its values, which lie behind each other in local memory, each
//! aligned to its size and promoted as C does it (CUDA C++ Programming Guide, "Formatted Output").

use ir::Type as TileType;
use ir::elem::{DType, Elem};
use ir::entity::{Inst, Value};
use ir::ops::debug::{Assert, Assume, Hint, Print};
use ptx::smallvec::smallvec;
use ptx::{
    Addr, Arguments, BinaryOp, Call, Cvta, CvtaSpace, Exit, Func, Initializer, Linkage, Operand,
    Param, Predicate, Reg, RegClass, Space, Special, St, Symbol, Trap, Type, Variable,
};

use super::code::{Code, Kind, key};
use super::distribute::Distribution;
use super::element::{Element, class};
use super::{Emitted, Emitter, Lower};

impl Lower for Hint {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let elements = cx.elements(self.operand);
        cx.set_result(inst, elements);
        Ok(())
    }
}

impl Lower for Assume {
    fn lower(&self, _: Inst, _: &mut Emitter<'_>) -> Emitted {
        // Analyses have used it; PTX has no such hint.
        Ok(())
    }
}

impl Lower for Assert {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let elements = cx.elements(self.condition);
        let distribution = match cx.func.ty(self.condition) {
            TileType::Tensor(t) => Some(cx.distribution(t)),
            _ => None,
        };
        let is_own = |at: usize| distribution.as_ref().is_none_or(|d| d.is_own(at));
        let checked = elements
            .iter()
            .enumerate()
            .filter(|&(at, e)| is_own(at) && e.as_int() != Some(1));
        let conditions: Vec<Reg> = checked.map(|(_, &e)| cx.code.whole(e, Elem::I1)).collect();
        if conditions.is_empty() {
            return Ok(());
        }
        let failed = cx.code.label("assert_failed");
        for condition in conditions {
            cx.code
                .branch(Some(Predicate::not(condition)), failed, false);
        }
        // One lane of each warp prints a scalar: the CTA's first thread need not execute this.
        let speaker = match &distribution {
            Some(distribution) => distribution.owner(&mut cx.code),
            None => Some(cx.code.thread_bits_clear(31)),
        };
        let place = cx.func.place(inst).map_or_else(String::new, |p| {
            format!("{}:{}:{}: ", p.file, p.line, p.column)
        });
        let format = format!("{place}assertion failed: {}\n", self.message.0);
        let printer = cx.printer(&escaped(&format), 0);
        cx.code.in_cold(|code| {
            code.bind(failed);
            // A thread with a copy must neither trap before the owner has printed nor continue.
            if let Some(speaker) = speaker {
                code.push_guarded(Some(Predicate::not(speaker)), Exit::new());
            }
            printer.call(code, &[]);
            code.push(Trap::new());
        });
        Ok(())
    }
}

impl Lower for Print {
    fn lower(&self, _: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let prefix = escaped(self.prefix.0.trim_end().trim_end_matches(':'));
        if self.operands.is_empty() {
            let format = format!("{PROGRAM} idx () {prefix}\n");
            let owner = cx.code.thread_bits_clear(u32::MAX);
            cx.print_lines(&format, Some(owner), |code| vec![program(code)]);
        }
        for (number, &operand) in self.operands.iter().enumerate() {
            let number = if self.operands.len() > 1 {
                format!("(operand {number}) ")
            } else {
                String::new()
            };
            let separator = if prefix.is_empty() { "" } else { ": " };
            cx.print(&format!("{prefix}{separator}{number}"), operand);
        }
        Ok(())
    }
}

/// How a line begins, and the values that belong to it.
const PROGRAM: &str = "pid (%u, %u, %u)";

fn program(code: &mut Code) -> Vec<(Type, Operand)> {
    [Special::CtaidX, Special::CtaidY, Special::CtaidZ]
        .map(|axis| {
            (
                Type::B32,
                code.in_prologue(|code| code.mov(Type::U32, axis)).into(),
            )
        })
        .to_vec()
}

impl Emitter<'_> {
    /// Prints a line for each element of a value, in the threads that own it.
    fn print(&mut self, head: &str, value: Value) {
        let elem = self.elem(value);
        let elements = self.elements(value);
        let TileType::Tensor(t) = self.func.ty(value) else {
            let format = format!("{PROGRAM} idx () {head}{}\n", conversion(elem));
            let owner = self.code.thread_bits_clear(u32::MAX);
            self.print_lines(&format, Some(owner), |code| {
                let mut line = program(code);
                line.push(promoted(code, elements[0], elem));
                vec![line]
            });
            return;
        };
        let distribution = self.distribution(t);
        let indices = vec!["%u"; t.shape.len()].join(", ");
        let format = format!("{PROGRAM} idx ({indices}) {head}{}\n", conversion(elem));
        let owner = distribution.owner(&mut self.code);
        self.print_lines(&format, owner, |code| {
            let own = (0..elements.len()).filter(|&register| distribution.is_own(register));
            own.map(|register| {
                let mut line = program(code);
                line.extend(
                    (0..t.shape.len()).map(|dim| coordinate(code, &distribution, register, dim)),
                );
                line.push(promoted(code, elements[register], elem));
                line
            })
            .collect()
        });
    }

    /// Prints the lines that `make` gives the values of, in the threads in which `owner` holds.
    fn print_lines(
        &mut self,
        format: &str,
        owner: Option<Reg>,
        make: impl FnOnce(&mut Code) -> Vec<Vec<(Type, Operand)>>,
    ) {
        // What only the owners compute is unknown to the code behind.
        self.code.open();
        let after = owner.map(|owner| {
            let after = self.code.label("printed");
            self.code.branch(Some(Predicate::not(owner)), after, false);
            after
        });
        let lines = make(&mut self.code);
        let bytes = lines.iter().map(|line| offsets(line).1).max().unwrap_or(0);
        let printer = self.printer(format, bytes);
        for line in &lines {
            printer.call(&mut self.code, line);
        }
        self.code.close();
        if let Some(after) = after {
            self.code.bind(after);
        }
    }

    /// What calls with one format share; `bytes` is the room for their values.
    fn printer(&mut self, format: &str, bytes: u32) -> Printer {
        let number = self.module.globals.len();
        let text: Vec<i64> = format.bytes().chain([0]).map(i64::from).collect();
        let variable = Variable::bytes(
            &format!("tilekit_text_{number}"),
            Space::Global,
            1,
            text.len() as u64,
        );
        let format = self.module.add_global(Variable {
            init: Some(Initializer::Int(text)),
            ..variable
        });
        let values = (bytes > 0).then(|| {
            let name = format!("tilekit_values_{number}");
            self.code
                .entry
                .add_variable(Variable::bytes(&name, Space::Local, 8, bytes.into()))
        });
        Printer {
            function: self.vprintf(),
            format,
            values,
        }
    }

    fn vprintf(&mut self) -> Symbol {
        let functions = &self.module.functions;
        if let Some(at) = functions.iter().position(|f| f.name == "vprintf") {
            return Symbol::Function(at as u32);
        }
        let params = vec![
            Param::scalar("format", Type::B64),
            Param::scalar("values", Type::B64),
        ];
        self.module.add_function(Func {
            name: "vprintf".to_owned(),
            linkage: Linkage::Extern,
            returns: vec![Param::scalar("count", Type::B32)],
            params,
            directives: ptx::Directives::default(),
            body: None,
        })
    }
}

/// A format, and local memory for the values of one line.
struct Printer {
    function: Symbol,
    format: Symbol,
    values: Option<Symbol>,
}

impl Printer {
    /// Calls `vprintf` with these values, which are promoted already.
    fn call(&self, code: &mut Code, values: &[(Type, Operand)]) {
        let mut address = Operand::Int(0);
        if let Some(symbol) = self.values {
            for (&(ty, value), offset) in values.iter().zip(offsets(values).0) {
                let store = St::new(ty, Addr::symbol(symbol, offset as i32), value);
                code.push(St {
                    space: Some(Space::Local),
                    ..store
                });
            }
            address = generic(code, CvtaSpace::Local, symbol).into();
        } else {
            address = code.mov(Type::B64, address).into();
        }
        let format = generic(code, CvtaSpace::Global, self.format);
        let count = code.reg(RegClass::B32);
        code.push(Call {
            uniform: false,
            returns: Arguments(smallvec![count.into()]),
            function: self.function,
            arguments: Arguments(smallvec![format.into(), address]),
        });
    }
}

/// The generic address of a variable.
fn generic(code: &mut Code, space: CvtaSpace, symbol: Symbol) -> Reg {
    let address = code.mov(Type::U64, symbol);
    let key = key(
        Kind::ToGeneric,
        space as u8,
        Type::U64,
        0,
        &[address.into()],
    );
    code.pure(key, RegClass::B64, |reg| {
        Cvta::new(space, Type::U64, reg, address).into()
    })
}

/// Where each value lies in the memory of its line, and the bytes of the line.
fn offsets(values: &[(Type, Operand)]) -> (Vec<u32>, u32) {
    let mut end = 0_u32;
    let places = values.iter().map(|(ty, _)| {
        let place = end.next_multiple_of(ty.bytes());
        end = place + ty.bytes();
        place
    });
    (places.collect(), end)
}

/// The coordinate along `dim` of what a register of the thread holds.
fn coordinate(
    code: &mut Code,
    distribution: &Distribution,
    register: usize,
    dim: usize,
) -> (Type, Operand) {
    let offset = distribution.coordinate(distribution.offsets[register], dim);
    let whole = match distribution.thread_coordinate(code, dim) {
        Operand::Reg(base) if offset == 0 => base.into(),
        // Coordinates are sums without carry, and in general their parts share bits.
        Operand::Reg(base) => code.binary(BinaryOp::Xor, Type::B32, base, offset).into(),
        _ => code.mov(Type::U32, offset).into(),
    };
    (Type::B32, whole)
}

/// The conversion that prints an element.
fn conversion(elem: Elem) -> &'static str {
    match elem {
        Elem::Ptr(_) => "%p",
        Elem::Data(dtype) => match dtype {
            DType::I64 => "%lld",
            DType::U64 => "%llu",
            DType::U8 | DType::U16 | DType::U32 => "%u",
            _ if dtype.is_float() => "%f",
            _ => "%d",
        },
    }
}

/// An element as `vprintf` takes it, in a register: floats as f64, integers of 32 bits at least.
fn promoted(code: &mut Code, element: Element, elem: Elem) -> (Type, Operand) {
    if let Elem::Data(dtype) = elem
        && dtype.is_float()
    {
        return (Type::F64, as_f64(code, element, dtype).into());
    }
    match class(elem) {
        RegClass::B64 => (Type::B64, code.whole(element, elem).into()),
        RegClass::Pred => (Type::B32, code.bits32(element, elem)),
        _ => (Type::B32, code.whole(element, elem).into()),
    }
}

fn as_f64(code: &mut Code, element: Element, dtype: DType) -> Reg {
    let single = match dtype {
        DType::F64 => return code.whole(element, dtype.into()),
        DType::F32 => code.whole(element, dtype.into()).into(),
        _ => code.to_f32(element, dtype),
    };
    code.convert(Type::F64, Type::F32, None, single)
}

/// A text that `vprintf` prints as it is.
fn escaped(text: &str) -> String {
    text.replace('%', "%%")
}
