//! Module, entries, functions and bodies.

use super::{Names, PrintOptions, Printer, StatementLines};
use crate::inst::Inst;
use crate::module::{
    Body, Directives, Entry, Extent, Func, Initializer, Linkage, Module, Param, Variable,
};
use crate::operand::{Label, Predicate};
use crate::registers::RegGroup;
use crate::statement::{Instruction, LocId, Location, Stmt};
use rustc_hash::FxHashMap;
use std::fmt::Write as _;

impl Module {
    /// The text of the module; it reads back as the same module.
    pub fn to_text(&self) -> String {
        self.print(PrintOptions::FULL)
    }

    /// The line of each statement of each of its [`bodies`](Module::bodies) in [`to_text`](Module::to_text), from one.
    pub fn statement_lines(&self) -> Vec<Vec<u32>> {
        let mut printer = Printer::new(names_of(self));
        printer.lines = Some(StatementLines::default());
        printer.module(self, PrintOptions::FULL);
        printer.lines.map(|lines| lines.bodies).unwrap_or_default()
    }

    /// The text of the module with or without locations and comments.
    pub fn print(&self, options: PrintOptions) -> String {
        let mut printer = Printer::new(names_of(self));
        printer.module(self, options);
        printer.into_text()
    }
}

impl std::fmt::Display for Module {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.to_text())
    }
}

impl Instruction {
    /// The text of one instruction of `body`, with guard and semicolon, for messages and views.
    pub fn to_text(&self, module: &Module, body: &Body, params: &[Param]) -> String {
        let mut printer = Printer::new(names_of(module));
        printer.names.params = names_of_params(params);
        printer.enter(body);
        printer.instruction(self);
        printer.into_text()
    }
}

impl<'m> Printer<'m> {
    fn module(&mut self, module: &'m Module, options: PrintOptions) {
        self.line(format_args!(".version {}", module.version));
        self.line(format_args!(".target {}", module.target));
        self.text(".address_size 64\n");
        if options.locations {
            for (index, file) in module.files.iter().enumerate() {
                self.line(format_args!(".file {} {}", index + 1, quoted(file)));
            }
        }
        if !module.globals.is_empty() {
            self.text("\n");
        }
        for variable in &module.globals {
            self.variable(variable);
        }
        for function in &module.functions {
            self.function(function, options);
        }
        for entry in &module.entries {
            self.entry(entry, options);
        }
        if options.locations && !module.inlined_functions.is_empty() {
            self.debug_strings(module);
        }
    }

    /// Names of inlined functions live in a debug section, as ptxas wants them.
    fn debug_strings(&mut self, module: &Module) {
        self.text("\n.section .debug_str\n{\n");
        for (index, name) in module.inlined_functions.iter().enumerate() {
            let bytes: Vec<String> = name
                .bytes()
                .chain([0])
                .map(|byte| byte.to_string())
                .collect();
            self.line(format_args!(
                "{}:\n\t.b8 {}",
                function_label(index as u32),
                bytes.join(", ")
            ));
        }
        self.text("}\n");
    }

    fn line(&mut self, arguments: std::fmt::Arguments<'_>) {
        self.fragment(arguments);
        self.text("\n");
    }

    fn fragment(&mut self, arguments: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = self.out.write_fmt(arguments);
    }

    fn entry(&mut self, entry: &'m Entry, options: PrintOptions) {
        self.names.params = names_of_params(&entry.params);
        self.names.returns = Vec::new();
        self.fragment(format_args!(
            "\n{}.entry {}(",
            linkage(entry.linkage),
            entry.name
        ));
        self.params(&entry.params);
        self.text(")\n");
        self.directives(&entry.directives);
        self.body(&entry.body, options);
    }

    fn function(&mut self, function: &'m Func, options: PrintOptions) {
        self.names.params = names_of_params(&function.params);
        self.names.returns = names_of_params(&function.returns);
        self.fragment(format_args!("\n{}.func ", linkage(function.linkage)));
        if !function.returns.is_empty() {
            self.text("(");
            self.params(&function.returns);
            self.text(") ");
        }
        self.fragment(format_args!("{}(", function.name));
        self.params(&function.params);
        self.text(")\n");
        self.directives(&function.directives);
        match &function.body {
            Some(body) => self.body(body, options),
            None => self.text(";\n"),
        }
    }

    fn params(&mut self, params: &[Param]) {
        for (index, param) in params.iter().enumerate() {
            self.text(if index == 0 { "\n\t" } else { ",\n\t" });
            self.param(param);
        }
        if !params.is_empty() {
            self.text("\n");
        }
    }

    fn param(&mut self, param: &Param) {
        self.text(".param ");
        if let Some(align) = param.align {
            self.fragment(format_args!(".align {align} "));
        }
        self.fragment(format_args!(".{} ", param.ty.text()));
        if let Some(ptr) = param.ptr {
            self.text(".ptr ");
            if let Some(space) = ptr.space {
                self.fragment(format_args!(".{} ", space.text()));
            }
            if let Some(align) = ptr.align {
                self.fragment(format_args!(".align {align} "));
            }
        }
        self.text(&param.name);
        self.extent(param.extent);
    }

    fn extent(&mut self, extent: Extent) {
        match extent {
            Extent::Scalar => {}
            Extent::Array(count) => self.fragment(format_args!("[{count}]")),
            Extent::Unsized => self.text("[]"),
        }
    }

    fn directives(&mut self, directives: &Directives) {
        let triple = |name: &str, value: Option<[u32; 3]>| {
            value.map(|[x, y, z]| format!("{name} {x}, {y}, {z}"))
        };
        let single = |name: &str, value: Option<u32>| value.map(|n| format!("{name} {n}"));
        let flag = |name: &str, value: bool| value.then(|| name.to_owned());
        let lines = [
            flag(".noreturn", directives.noreturn),
            triple(".maxntid", directives.maxntid),
            triple(".reqntid", directives.reqntid),
            single(".minnctapersm", directives.minnctapersm),
            single(".maxnreg", directives.maxnreg),
            flag(".explicitcluster", directives.explicitcluster),
            triple(".reqnctapercluster", directives.reqnctapercluster),
            single(".maxclusterrank", directives.maxclusterrank),
        ];
        for line in lines.into_iter().flatten() {
            self.line(format_args!("{line}"));
        }
    }

    fn variable(&mut self, variable: &Variable) {
        self.fragment(format_args!(
            "{}.{} ",
            linkage(variable.linkage),
            variable.space.text()
        ));
        if let Some(align) = variable.align {
            self.fragment(format_args!(".align {align} "));
        }
        self.fragment(format_args!(".{} {}", variable.ty.text(), variable.name));
        self.extent(variable.extent);
        if let Some(init) = &variable.init {
            self.text(" = ");
            self.initializer(init, variable.extent);
        }
        self.text(";\n");
    }

    fn initializer(&mut self, init: &Initializer, extent: Extent) {
        let values: Vec<String> = match init {
            Initializer::Int(values) => values.iter().map(ToString::to_string).collect(),
            Initializer::F32(values) => values.iter().map(|bits| format!("0f{bits:08X}")).collect(),
            Initializer::F64(values) => {
                values.iter().map(|bits| format!("0d{bits:016X}")).collect()
            }
        };
        match extent {
            Extent::Scalar => self.text(&values.join(", ")),
            _ => self.fragment(format_args!("{{{}}}", values.join(", "))),
        }
    }

    /// From here on the names are those of a body.
    fn enter(&mut self, body: &'m Body) {
        self.names.registers = Some(&body.registers);
        self.names.labels = &body.labels;
        self.names.variables = names_of_variables(&body.variables);
    }

    fn leave(&mut self) {
        self.names.registers = None;
        self.names.labels = &[];
        self.names.variables = Vec::new();
    }

    fn body(&mut self, body: &'m Body, options: PrintOptions) {
        self.enter(body);
        self.text("{\n");
        // A statement has about so many bytes.
        self.out.reserve(48 * body.statements.len());
        self.register_declarations(body.registers.groups());
        for variable in &body.variables {
            self.text("\t");
            self.variable(variable);
        }
        let mut current = None;
        let mut latest = Latest::default();
        if let Some(lines) = &mut self.lines {
            lines.bodies.push(Vec::new());
        }
        for statement in &body.statements {
            if let Stmt::Inst(instruction) = statement
                && options.locations
                && instruction.loc != current
            {
                self.location(body, current, instruction.loc, &mut latest);
                current = instruction.loc;
            }
            if let Some(lines) = &mut self.lines {
                lines.note(&self.out);
            }
            if options.comments || !is_comment(statement) {
                self.statement(statement);
            }
        }
        self.text("}\n");
        self.leave();
    }

    /// Ranges stand on their own line; single registers of one class share a line.
    fn register_declarations(&mut self, groups: &[RegGroup]) {
        for chunk in
            groups.chunk_by(|a, b| a.class == b.class && a.len.is_none() && b.len.is_none())
        {
            self.fragment(format_args!("\t.reg .{} ", chunk[0].class.text()));
            for (index, group) in chunk.iter().enumerate() {
                self.text(if index > 0 { ", " } else { "" });
                self.text(&group.name);
                if let Some(len) = group.len {
                    self.fragment(format_args!("<{len}>"));
                }
            }
            self.text(";\n");
        }
    }

    fn statement(&mut self, statement: &Stmt) {
        match statement {
            Stmt::Label(label) => self.label_line(*label),
            Stmt::Inst(instruction) => {
                self.text("\t");
                self.instruction(instruction);
                self.text("\n");
            }
            Stmt::Pragma(text) => self.line(format_args!("\t.pragma {};", quoted(text))),
            Stmt::Comment(text) => self.line(format_args!("\t// {text}")),
        }
    }

    fn label_line(&mut self, label: Label) {
        self.label(label);
        self.text(":\n");
    }

    pub(crate) fn instruction(&mut self, instruction: &Instruction) {
        let is_comment = matches!(instruction.inst, Inst::Bound(_));
        if is_comment {
            self.text("// ");
        }
        if let Some(Predicate { reg, negated }) = instruction.guard {
            self.text(if negated { "@!" } else { "@" });
            self.register(reg);
            self.text(" ");
        }
        instruction.inst.print(self);
        if !is_comment {
            self.text(";");
        }
    }

    /// A `.loc` line, after those of the calls through which its code was inlined. Line 0 means no location.
    ///
    /// `inlined_at` means the latest location at its place, so the call is printed again when it is not that.
    fn location(
        &mut self,
        body: &Body,
        previous: Option<LocId>,
        loc: Option<LocId>,
        latest: &mut Latest,
    ) {
        let found = loc.and_then(|id| Some((id, body.locations.get(id.0 as usize)?)));
        let Some((id, location)) = found else {
            let file = previous
                .and_then(|id| body.locations.get(id.0 as usize))
                .map_or(0, |location| location.file);
            return self.line(format_args!("\t.loc {} 0 0", file + 1));
        };
        let call = location.inlined.filter(|inlined| inlined.at < id);
        let call =
            call.and_then(|inlined| Some((inlined, body.locations.get(inlined.at.0 as usize)?)));
        if let Some((inlined, at)) = call
            && latest.get(&place(at)) != Some(&inlined.at)
        {
            self.location(body, previous, Some(inlined.at), latest);
        }
        latest.insert(place(location), id);
        self.text("\t.loc ");
        self.place_numbers(location);
        if let Some((inlined, at)) = call {
            self.text(", function_name ");
            self.numbered(FUNCTION_LABEL, inlined.function);
            self.text(", inlined_at ");
            self.place_numbers(at);
        }
        self.text("\n");
    }

    /// File, line and column.
    fn place_numbers(&mut self, location: &Location) {
        self.numbered("", location.file + 1);
        self.numbered(" ", location.line);
        self.numbered(" ", location.column);
    }
}

/// The names outside of entries and functions.
fn names_of(module: &Module) -> Names<'_> {
    Names {
        globals: names_of_variables(&module.globals),
        functions: module.functions.iter().map(|f| f.name.as_str()).collect(),
        ..Names::default()
    }
}

fn names_of_params(params: &[Param]) -> Vec<&str> {
    params.iter().map(|param| param.name.as_str()).collect()
}

fn names_of_variables(variables: &[Variable]) -> Vec<&str> {
    variables.iter().map(|v| v.name.as_str()).collect()
}

/// The location that was printed last at each place.
type Latest = FxHashMap<(u32, u32, u32), LocId>;

fn place(location: &Location) -> (u32, u32, u32) {
    (location.file, location.line, location.column)
}

/// With a number after it, the label of an inlined function's name in the debug section.
const FUNCTION_LABEL: &str = "$L__info_string";

/// The label of an inlined function's name in the debug section.
fn function_label(index: u32) -> String {
    format!("{FUNCTION_LABEL}{index}")
}

fn linkage(linkage: Linkage) -> &'static str {
    match linkage {
        Linkage::Internal => "",
        Linkage::Extern => ".extern ",
        Linkage::Visible => ".visible ",
        Linkage::Weak => ".weak ",
    }
}

/// A string literal; PTX has no escapes, so a quote or a line break inside becomes an apostrophe or a blank.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "'").replace(['\n', '\r'], " "))
}

fn is_comment(statement: &Stmt) -> bool {
    let is_bound = |i: &Instruction| matches!(i.inst, Inst::Bound(_));
    matches!(statement, Stmt::Comment(_)) || statement.instruction().is_some_and(is_bound)
}
