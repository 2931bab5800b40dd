//! PTX that the author wrote: parsed, checked, and put in place once for each element, or each pack of elements.
//!
//! `$` may stand in PTX names, so the text is read as it is, as the body of an entry that declares `$0`, `$1`, ...; the
//! places of errors are those of the text.

use ir::elem::Elem;
use ir::entity::{Inst, Value};
use ir::ops::inline_ptx::{InlinePtx, PtxUse};
use ptx::{Body, Label, Module, ParseError, Reg, RegClass, Role, Stmt};

use super::element::{ADDRESS, Element, class};
use super::{Emitted, Emitter, Lower};

impl Lower for InlinePtx {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let func = cx.func;
        let results = func.results(inst);
        let numbers = Numbers::of(self, inst, cx);
        let template = Template::new(&self.text.0, &numbers).map_err(|message| {
            let error = cx.inline_error(inst, message);
            match numbers.places.len() {
                0 => error,
                count => error.note(legend(numbers.results, count)),
            }
        })?;
        cx.module.version = cx.module.version.max(template.version);
        let first = results.iter().copied().chain(self.values()).next();
        let count = first.map_or(1, |v| cx.count(func.ty(v)));
        let mut columns: Vec<Vec<Element>> = vec![Vec::with_capacity(count); results.len()];
        for at in (0..count).step_by(numbers.pack) {
            let named = template.put(cx, &numbers, at);
            for (column, made) in columns.iter_mut().zip(numbers.made(&named)) {
                column.extend(made);
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

/// What one number stands for.
#[derive(Clone, Copy)]
enum Place {
    /// An element of a pack, by its position there.
    Element(usize),
    /// Elements of 8 or 16 bits in a 32-bit register, from this position in the pack on.
    Word(usize),
    /// The address of a tile of shared memory.
    Tile,
}

/// What `$0`, `$1`, ... stand for: the results, then the operands.
struct Numbers {
    /// Each number with its value and the type of that one's elements.
    places: Vec<(Value, Elem, Place)>,
    /// How many of them are results.
    results: usize,
    /// Elements of a tensor in one run.
    pack: usize,
}

impl Numbers {
    fn of(op: &InlinePtx, inst: Inst, cx: &Emitter<'_>) -> Numbers {
        let pack = op.pack.0 as usize;
        let mut places = Vec::new();
        for &result in cx.func.results(inst) {
            places.extend(places_of(result, cx.elem(result), pack));
        }
        let results = places.len();
        for (operand, used) in op.used() {
            if used == PtxUse::Value {
                places.extend(places_of(operand, cx.elem(operand), pack));
            } else {
                places.push((operand, ADDRESS, Place::Tile));
            }
        }
        Numbers {
            places,
            results,
            pack,
        }
    }

    /// The class of the register of a number.
    fn class(&self, number: usize) -> RegClass {
        match self.places[number] {
            (_, elem, Place::Element(_)) => class(elem),
            (_, _, Place::Word(_) | Place::Tile) => RegClass::B32,
        }
    }

    /// The elements of each result, from the registers that the text wrote.
    fn made(&self, named: &[Reg]) -> Vec<Vec<Element>> {
        let mut results: Vec<Vec<Element>> = Vec::new();
        for (&(_, elem, place), &reg) in self.places[..self.results].iter().zip(named) {
            if matches!(place, Place::Element(0) | Place::Word(0)) {
                results.push(Vec::with_capacity(self.pack));
            }
            let made = results
                .last_mut()
                .expect("the first number of a result is that of its first element");
            match place {
                Place::Word(from) => {
                    let held = (self.pack - from).min(per_word(elem));
                    let part = |at: usize| Element::Part(reg, (at as u32 * elem.bits()) as u8);
                    made.extend((0..held).map(part));
                }
                _ => made.push(result(reg, elem)),
            }
        }
        results
    }
}

/// Elements of 8 or 16 bits in a 32-bit register.
fn per_word(elem: Elem) -> usize {
    (32 / elem.bits()) as usize
}

/// The numbers of a value.
fn places_of(value: Value, elem: Elem, pack: usize) -> Vec<(Value, Elem, Place)> {
    let shares_words = pack > 1 && matches!(elem.bits(), 8 | 16);
    let places: Vec<Place> = if shares_words {
        (0..pack).step_by(per_word(elem)).map(Place::Word).collect()
    } else {
        (0..pack).map(Place::Element).collect()
    };
    places
        .into_iter()
        .map(|place| (value, elem, place))
        .collect()
}

/// The text as data, to be put in place for each element.
struct Template {
    body: Body,
    version: ptx::Version,
    /// For each register of the body the number that it has in the text as `$n`, unless it is the text's own.
    numbers: Vec<Option<usize>>,
    /// Which of `$0`, `$1`, ... the text writes.
    is_written: Vec<bool>,
}

impl Template {
    /// Reads the text; an error says where it is wrong.
    fn new(text: &str, named: &Numbers) -> Result<Template, String> {
        let count = named.places.len();
        let module = parse(text, (0..count).map(|number| named.class(number)))?;
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
                (0..count).find(|number| name == format!("${number}"))
            })
            .collect();
        let mut is_written = vec![false; count];
        for instruction in body.statements.iter().filter_map(Stmt::instruction) {
            instruction.inst.visit_registers(|reg, role| {
                if let Some(number) = numbers[reg.0 as usize] {
                    is_written[number] |= role != Role::Read;
                }
            });
        }
        if let Some(unwritten) = is_written[..named.results]
            .iter()
            .position(|written| !written)
        {
            return Err(format!(
                "the inline PTX never writes its result `${unwritten}`"
            ));
        }
        Ok(Template {
            body,
            version,
            numbers,
            is_written,
        })
    }

    /// Appends the text for the pack that begins with the elements at `at`, and gives the registers of the numbers.
    fn put(&self, cx: &mut Emitter<'_>, numbers: &Numbers, at: usize) -> Vec<Reg> {
        let named: Vec<Reg> = (0..numbers.places.len())
            .map(|number| {
                let class = numbers.class(number);
                if number < numbers.results {
                    return cx.code.reg(class);
                }
                let value = operand(cx, numbers, number, at);
                if !self.is_written[number] {
                    return value;
                }
                // The value may have other readers.
                let own = cx.code.reg(class);
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
        named
    }
}

/// The register that an operand's number stands for, in the pack that begins at `at`.
fn operand(cx: &mut Emitter<'_>, numbers: &Numbers, number: usize, at: usize) -> Reg {
    let (value, elem, place) = numbers.places[number];
    match place {
        Place::Element(of) => {
            let element = cx.elements(value)[at + of];
            cx.code.whole(element, elem)
        }
        Place::Word(from) => {
            let pack = &cx.elements(value)[at..at + numbers.pack];
            let mut held: Vec<Element> = pack
                .iter()
                .skip(from)
                .take(per_word(elem))
                .copied()
                .collect();
            held.resize(per_word(elem), Element::int(0));
            let word = cx.code.pack_words(&held, elem)[0];
            cx.code.whole(word.into(), ADDRESS)
        }
        Place::Tile => {
            let address = cx.scalar(value);
            cx.code.whole(address, ADDRESS)
        }
    }
}

/// Of a result of 8 or 16 bits in a wider register the text decides only the low bits.
fn result(reg: Reg, elem: Elem) -> Element {
    let is_narrow = class(elem) == RegClass::B32 && elem.bits() < 32;
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
fn parse(text: &str, classes: impl Iterator<Item = RegClass>) -> Result<Module, String> {
    let mut head =
        ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry inline_ptx()\n{\n"
            .to_owned();
    for (number, class) in classes.enumerate() {
        for part in [".reg .", declared(class), " $", &number.to_string(), ";\n"] {
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
fn declared(class: RegClass) -> &'static str {
    match class {
        RegClass::Pred => "pred",
        RegClass::B16 => "b16",
        RegClass::B32 => "b32",
        RegClass::B64 => "b64",
        RegClass::B128 => "b128",
        RegClass::F32 => "f32",
        RegClass::F64 => "f64",
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
