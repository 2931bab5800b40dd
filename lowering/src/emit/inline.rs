//! PTX that the author wrote: parsed, checked, and put in place once for each element.
//!
//! `$` may stand in PTX names, so the text is read as it is, as the body of an entry that declares `$0`, `$1`, ...; the
//! places of errors are those of the text.

use ir::elem::Elem;
use ir::entity::{Inst, Value};
use ir::ops::inline_ptx::InlinePtx;
use ptx::{Body, Label, Module, ParseError, Reg, Role, Stmt};

use super::element::{Element, class};
use super::{Emitted, Emitter, Lower};

impl Lower for InlinePtx {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let func = cx.func;
        let results = func.results(inst);
        let elems: Vec<Elem> = results
            .iter()
            .chain(&self.operands)
            .map(|&v| cx.elem(v))
            .collect();
        let template = Template::new(&self.text.0, &elems, results.len()).map_err(|message| {
            let error = cx.inline_error(inst, message);
            match elems.len() {
                0 => error,
                count => error.note(legend(results.len(), count)),
            }
        })?;
        cx.module.version = cx.module.version.max(template.version);
        let count = results
            .iter()
            .chain(&self.operands)
            .next()
            .map_or(1, |&v| cx.count(func.ty(v)));
        let mut columns: Vec<Vec<Element>> = vec![Vec::with_capacity(count); results.len()];
        for at in 0..count {
            let made = template.put(cx, &elems, &self.operands, at);
            for (column, element) in columns.iter_mut().zip(made) {
                column.push(element);
            }
        }
        for (&result, column) in results.iter().zip(columns) {
            cx.set(result, column);
        }
        Ok(())
    }
}

/// What the numbers stand for.
fn legend(results: usize, count: usize) -> String {
    let range = |from: usize, to: usize| match to - from {
        0 => "nothing".to_owned(),
        1 => format!("`${from}`"),
        _ => format!("`${from}` to `${}`", to - 1),
    };
    format!(
        "the results are {}, the operands {}",
        range(0, results),
        range(results, count)
    )
}

/// The text as data, to be put in place for each element.
struct Template {
    body: Body,
    version: ptx::Version,
    /// For each register of the body the number that it has in the text as `$n`, unless it is the text's own.
    numbers: Vec<Option<usize>>,
    /// Which of `$0`, `$1`, ... the text writes.
    is_written: Vec<bool>,
    results: usize,
}

impl Template {
    /// Reads the text; an error says where it is wrong.
    fn new(text: &str, elems: &[Elem], results: usize) -> Result<Template, String> {
        let module = parse(text, elems)?;
        let version = module.version;
        let body = module
            .entries
            .into_iter()
            .next()
            .expect("a parsed text is one entry")
            .body;
        let numbers: Vec<Option<usize>> = body
            .registers
            .iter()
            .map(|(reg, _)| {
                let name = body.registers.name(reg);
                (0..elems.len()).find(|number| name == format!("${number}"))
            })
            .collect();
        let mut is_written = vec![false; elems.len()];
        for instruction in body.statements.iter().filter_map(Stmt::instruction) {
            instruction.inst.visit_registers(|reg, role| {
                if let Some(number) = numbers[reg.0 as usize] {
                    is_written[number] |= role != Role::Read;
                }
            });
        }
        if let Some(unwritten) = is_written[..results].iter().position(|written| !written) {
            return Err(format!(
                "the inline PTX never writes its result `${unwritten}`"
            ));
        }
        Ok(Template {
            body,
            version,
            numbers,
            is_written,
            results,
        })
    }

    /// Appends the text for the elements at `at`, and gives its results.
    fn put(
        &self,
        cx: &mut Emitter<'_>,
        elems: &[Elem],
        operands: &[Value],
        at: usize,
    ) -> Vec<Element> {
        let named: Vec<Reg> = (0..elems.len())
            .map(|number| {
                if number < self.results {
                    return cx.code.reg(class(elems[number]));
                }
                let element = cx.elements(operands[number - self.results])[at];
                let value = cx.code.whole(element, elems[number]);
                if !self.is_written[number] {
                    return value;
                }
                // The value may have other readers.
                let own = cx.code.reg(class(elems[number]));
                cx.code.copy(own, value);
                own
            })
            .collect();
        let registers: Vec<Reg> = self
            .body
            .registers
            .iter()
            .zip(&self.numbers)
            .map(|((_, class), number)| {
                number.map_or_else(|| cx.code.reg(class), |number| named[number])
            })
            .collect();
        let labels: Vec<Label> = self
            .body
            .labels
            .iter()
            .map(|name| cx.code.label(name))
            .collect();
        for statement in &self.body.statements {
            push(cx, statement, &registers, &labels);
        }
        (0..self.results)
            .map(|number| result(named[number], elems[number]))
            .collect()
    }
}

/// Of a result of 8 or 16 bits in a wider register the text decides only the low bits.
fn result(reg: Reg, elem: Elem) -> Element {
    let is_narrow = class(elem) == ptx::RegClass::B32 && elem.bits() < 32;
    if is_narrow {
        Element::Part(reg, 0)
    } else {
        reg.into()
    }
}

fn push(cx: &mut Emitter<'_>, statement: &Stmt, registers: &[Reg], labels: &[Label]) {
    let new = |reg: Reg| registers[reg.0 as usize];
    match statement {
        Stmt::Label(label) => cx.code.bind(labels[label.0 as usize]),
        Stmt::Inst(instruction) => {
            let guard = instruction.guard.map(|guard| ptx::Predicate {
                reg: new(guard.reg),
                ..guard
            });
            let mut inst = instruction.inst.clone();
            inst.visit_registers_mut(|reg, _| *reg = new(*reg));
            if let ptx::Inst::Bra(branch) = &mut inst {
                branch.target = labels[branch.target.0 as usize];
            }
            cx.code.push_guarded(guard, inst);
        }
        Stmt::Pragma(text) => {
            let [_, body, _] = cx.code.lists_mut();
            body.push(Stmt::Pragma(text.replace("$$", "$")));
        }
        Stmt::Comment(text) => {
            let [_, body, _] = cx.code.lists_mut();
            let lines = text.lines().map(|line| line.trim().replace("$$", "$"));
            body.extend(lines.map(Stmt::Comment));
        }
    }
}

/// The text as the body of the only entry of a module.
fn parse(text: &str, elems: &[Elem]) -> Result<Module, String> {
    let mut head =
        ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry inline_ptx()\n{\n"
            .to_owned();
    for (number, &elem) in elems.iter().enumerate() {
        for part in [".reg .", declared(elem), " $", &number.to_string(), ";\n"] {
            head += part;
        }
    }
    let lines_before = head.matches('\n').count() as u32;
    let parsed = Module::parse(&format!("{head}{text}\n}}\n"));
    let mut module = parsed.map_err(|error| located(text, lines_before, &error))?;
    let is_one_entry =
        module.entries.len() == 1 && module.globals.is_empty() && module.functions.is_empty();
    if !is_one_entry {
        return Err("inline PTX holds statements; its braces do not match".to_owned());
    }
    if let Some(variable) = module.entries[0].body.variables.first() {
        return Err(format!(
            "inline PTX cannot declare memory, and `{}` is a variable; memory belongs to the kernel",
            variable.name
        ));
    }
    module.version = module.version.max(module.required_version());
    match module.check().first() {
        Some(error) if error.instruction.is_empty() => {
            Err(format!("the inline PTX is wrong: {}", error.problem))
        }
        Some(error) => Err(format!(
            "in the inline PTX, `{}`: {}",
            error.instruction, error.problem
        )),
        None => Ok(module),
    }
}

/// The register type that a `.reg` line of the text names.
fn declared(elem: Elem) -> &'static str {
    match class(elem) {
        ptx::RegClass::Pred => "pred",
        ptx::RegClass::B16 => "b16",
        ptx::RegClass::B32 => "b32",
        ptx::RegClass::B64 => "b64",
        ptx::RegClass::B128 => "b128",
        ptx::RegClass::F32 => "f32",
        ptx::RegClass::F64 => "f64",
    }
}

/// The message of an error with its place in the text.
fn located(text: &str, lines_before: u32, error: &ParseError) -> String {
    let lines = text.split('\n').count() as u32;
    let line = error.line.saturating_sub(lines_before);
    let place = match (line, lines) {
        (line, lines) if line > lines => "at its end".to_owned(),
        (_, 1) => format!("at column {}", error.column),
        _ => format!("at line {line}, column {}", error.column),
    };
    format!("the inline PTX is wrong {place}: {}", error.message)
}
