//! The printer. It has no arm for any op.

use std::collections::HashMap;
use std::fmt::Write;

use cranelift_entity::SecondaryMap;

use crate::entity::{Inst, Region, Value};
use crate::ops::{FieldWriter, TextOperand};
use crate::{Func, Stage, TensorMapMode, TensorType, Type};
use layout::{AnyLayout, Layout, SharedLayout};

/// The text of a kernel. Deterministic, and without places.
pub fn print(func: &Func) -> String {
    Printer::new(func, false).kernel()
}

/// The same with the author's place behind every instruction, as a comment.
pub fn print_with_locations(func: &Func) -> String {
    Printer::new(func, true).kernel()
}

/// The text of [`print()`], and its instructions in order, each with the line at which it begins, counted from 0.
pub fn print_with_lines(func: &Func) -> (String, Vec<(Inst, usize)>) {
    let mut printer = Printer::new(func, false);
    printer.write_kernel();
    let mut begun = std::mem::take(&mut printer.begun).into_iter().peekable();
    let mut lines = Vec::with_capacity(begun.len());
    let mut at = 0;
    for (number, text) in printer.out.split_inclusive('\n').enumerate() {
        at += text.len();
        while let Some((inst, _)) = begun.next_if(|(_, offset)| *offset < at) {
            lines.push((inst, printer.layouts.len() + number));
        }
    }
    (printer.with_layouts(), lines)
}

/// The values of a kernel in order of appearance, with the names that its text gives them.
pub fn names(func: &Func) -> Vec<(Value, String)> {
    let mut printer = Printer::new(func, false);
    printer.write_kernel();
    let Printer {
        mut names, named, ..
    } = printer;
    let take = |value: Value| (value, names[value].take().unwrap_or_default());
    named.into_iter().map(take).collect()
}

struct Printer<'f> {
    func: &'f Func,
    with_locations: bool,
    names: SecondaryMap<Value, Option<String>>,
    /// Those that have a name, in the order in which they got it.
    named: Vec<Value>,
    taken: HashMap<String, u32>,
    next_number: u32,
    layouts: Vec<(AnyLayout, String)>,
    /// The instructions in order, each with the length of `out` before it.
    begun: Vec<(Inst, usize)>,
    out: String,
}

impl<'f> Printer<'f> {
    fn new(func: &'f Func, with_locations: bool) -> Self {
        Printer {
            func,
            with_locations,
            names: SecondaryMap::new(),
            named: Vec::new(),
            taken: HashMap::new(),
            next_number: 0,
            layouts: Vec::new(),
            begun: Vec::new(),
            out: String::new(),
        }
    }

    fn kernel(mut self) -> String {
        self.write_kernel();
        self.with_layouts()
    }

    /// What was written, below the layouts that it names.
    fn with_layouts(&self) -> String {
        let mut text = String::with_capacity(self.out.len() + 128);
        for (layout, name) in &self.layouts {
            let _ = writeln!(text, "#{name} = {layout}");
        }
        text.push_str(&self.out);
        text
    }

    /// Writes all but the layouts, which are known only then.
    fn write_kernel(&mut self) {
        let f = self.func;
        let _ = write!(self.out, "kernel @{}(", f.name);
        for (i, param) in f.params.iter().enumerate() {
            if i > 0 {
                self.out.push_str(", ");
            }
            self.declare(param.value);
            let promises: Vec<String> = [
                (param.divisor != 1).then(|| format!("divisor={}", param.divisor)),
                param.is_readonly.then(|| "readonly".to_owned()),
            ]
            .into_iter()
            .flatten()
            .collect();
            if !promises.is_empty() {
                let _ = write!(self.out, " {{{}}}", promises.join(", "));
            }
        }
        let _ = write!(self.out, ") warps({})", f.warps);
        if f.target.arch != Func::DEFAULT_TARGET.arch {
            let _ = write!(self.out, " target({})", f.target.arch);
        }
        if let Some(n) = f.max_registers {
            let _ = write!(self.out, " max_registers({n})");
        }
        if let Some(n) = f.min_ctas_per_sm {
            let _ = write!(self.out, " min_ctas_per_sm({n})");
        }
        if f.has_cluster() || f.says_cluster {
            let [x, y, z] = f.cluster;
            let _ = write!(self.out, " cluster({x}, {y}, {z})");
        }
        if f.is_cooperative {
            self.out.push_str(" cooperative");
        }
        self.contracts();
        if f.shared_bytes != 0 {
            let _ = write!(self.out, " shared_bytes({})", f.shared_bytes);
        }
        if f.stage != Stage::Built {
            let _ = write!(self.out, " stage({})", f.stage);
        }
        self.out.push_str(" {\n");
        self.insts(f.body, 1);
        self.out.push_str("}\n");
    }

    fn contracts(&mut self) {
        let c = self.func.contracts;
        let words = [
            (c.denies_conversions, "conversions"),
            (c.denies_uncoalesced, "uncoalesced"),
            (c.denies_bank_conflicts, "bank_conflicts"),
            (c.denies_spills, "spills"),
        ];
        let denied: Vec<&str> = words
            .iter()
            .filter(|(on, _)| *on)
            .map(|(_, w)| *w)
            .collect();
        if !denied.is_empty() {
            let _ = write!(self.out, " deny({})", denied.join(", "));
        }
    }

    fn insts(&mut self, region: Region, depth: usize) {
        let func = self.func;
        for &inst in &func.region(region).insts {
            self.inst(inst, depth);
        }
    }

    fn inst(&mut self, inst: Inst, depth: usize) {
        let func = self.func;
        self.begun.push((inst, self.out.len()));
        self.indent(depth);
        let results = func.results(inst);
        for (i, &value) in results.iter().enumerate() {
            let name = self.name(value);
            let _ = write!(self.out, "{}%{name}", if i > 0 { ", " } else { "" });
        }
        if !results.is_empty() {
            self.out.push_str(" = ");
        }
        let mut fields = FieldWriter::default();
        let rules = func.op(inst).rules();
        rules.write(&mut fields);
        self.out.push_str(rules.mnemonic());
        self.operands(&fields.operands);
        if !fields.attrs.is_empty() {
            let attrs: Vec<String> = fields
                .attrs
                .iter()
                .map(|(n, t)| format!("{n}={t}"))
                .collect();
            let _ = write!(self.out, " {{{}}}", attrs.join(", "));
        }
        for region in fields.regions {
            self.region(region, depth);
        }
        for (i, &value) in results.iter().enumerate() {
            self.out.push_str(if i > 0 { ", " } else { " : " });
            self.ty(func.ty(value));
        }
        if self.with_locations
            && let Some(place) = func.place(inst)
        {
            let _ = write!(self.out, "  // {place}");
        }
        self.out.push('\n');
    }

    fn operands(&mut self, operands: &[TextOperand]) {
        for (i, operand) in operands.iter().enumerate() {
            self.out.push_str(if i > 0 { ", " } else { " " });
            match operand {
                TextOperand::One(v) => {
                    let name = self.name(*v);
                    let _ = write!(self.out, "%{name}");
                }
                TextOperand::Named(field, v) => {
                    let name = self.name(*v);
                    let _ = write!(self.out, "{field}=%{name}");
                }
                TextOperand::Many(values) => {
                    let names: Vec<String> = values
                        .iter()
                        .map(|v| format!("%{}", self.name(*v)))
                        .collect();
                    let _ = write!(self.out, "[{}]", names.join(", "));
                }
            }
        }
    }

    fn region(&mut self, region: Region, depth: usize) {
        self.out.push_str(" (");
        let func = self.func;
        for (i, &param) in func.region(region).params.iter().enumerate() {
            if i > 0 {
                self.out.push_str(", ");
            }
            self.declare(param);
        }
        self.out.push_str(") {\n");
        self.insts(region, depth + 1);
        self.indent(depth);
        self.out.push('}');
    }

    fn declare(&mut self, value: Value) {
        let name = self.name(value);
        let _ = write!(self.out, "%{name}: ");
        self.ty(self.func.ty(value));
    }

    fn indent(&mut self, depth: usize) {
        for _ in 0..depth {
            self.out.push_str("  ");
        }
    }

    fn ty(&mut self, ty: &Type) {
        match ty {
            Type::Tensor(t) => self.tensor("tensor", t),
            Type::InFlight(t) => self.tensor("in_flight", t),
            Type::TensorMap(m) => {
                self.out.push_str("tensor_map<");
                for d in &m.block {
                    let _ = write!(self.out, "{d}x");
                }
                let _ = write!(self.out, "{}, ", m.elem);
                self.shared_layout(&m.layout);
                if let TensorMapMode::Im2col { rank } = m.mode {
                    let _ = write!(self.out, ", im2col={rank}");
                }
                self.out.push('>');
            }
            Type::Smem(t) => {
                self.out.push_str("smem<");
                for d in &t.shape {
                    let _ = write!(self.out, "{d}x");
                }
                let _ = write!(self.out, "{}, ", t.elem);
                self.shared_layout(&t.layout);
                if t.alloc_shape != t.shape {
                    let _ = write!(self.out, ", alloc={}", t.alloc_shape);
                }
                self.out.push('>');
            }
            Type::Poison | Type::Scalar(_) => {
                let _ = write!(self.out, "{ty}");
            }
        }
    }

    fn tensor(&mut self, word: &str, t: &TensorType) {
        let _ = write!(self.out, "{word}<");
        for d in &t.shape {
            let _ = write!(self.out, "{d}x");
        }
        let _ = write!(self.out, "{}, ", t.elem);
        self.layout(&t.layout);
        self.out.push('>');
    }

    fn layout(&mut self, layout: &Layout) {
        let word = match layout {
            Layout::Auto => "auto",
            Layout::Coalesced => "coalesced",
            Layout::Blocked(_) => "blocked",
            Layout::Slice(_) => "slice",
            Layout::Linear(_) => "linear",
            Layout::Mma(_) => "mma",
            Layout::Wgmma(_) => "wgmma",
            Layout::DotOperand(_) => "dot",
        };
        if matches!(layout, Layout::Auto | Layout::Coalesced) {
            self.out.push_str(word);
            return;
        }
        self.alias(AnyLayout::Distributed(layout.clone()), word);
    }

    fn shared_layout(&mut self, layout: &SharedLayout) {
        let word = match layout {
            SharedLayout::Nvmma(_) => "nvmma",
            SharedLayout::Swizzled(_) => "swizzled",
            SharedLayout::Padded(_) => "padded",
            SharedLayout::Linear(_) => "shared",
        };
        self.alias(AnyLayout::Shared(layout.clone()), word);
    }

    /// Writes the alias of a layout, named after its kind when it is first met.
    fn alias(&mut self, layout: AnyLayout, word: &str) {
        let known = self.layouts.iter().position(|(l, _)| *l == layout);
        let at = known.unwrap_or_else(|| {
            let is_same_kind =
                |name: &str| name.trim_end_matches(|c: char| c.is_ascii_digit()) == word;
            let same = self.layouts.iter().filter(|(_, n)| is_same_kind(n));
            let name = match same.count() {
                0 => word.to_owned(),
                n => format!("{word}{n}"),
            };
            self.layouts.push((layout, name));
            self.layouts.len() - 1
        });
        let name = &self.layouts[at].1;
        let _ = write!(self.out, "#{name}");
    }

    /// A number that is no name: a parameter may be called by one.
    fn next_free_number(&mut self) -> String {
        loop {
            let number = self.next_number.to_string();
            self.next_number += 1;
            if !self.taken.contains_key(&number) {
                return number;
            }
        }
    }

    /// The name of a value, decided at its first occurrence.
    fn name(&mut self, value: Value) -> String {
        if let Some(name) = &self.names[value] {
            return name.clone();
        }
        let name = if let Some(hint) = self.func.name(value) {
            let seen = self.taken.entry(hint.to_owned()).or_insert(0);
            *seen += 1;
            match *seen {
                1 => hint.to_owned(),
                n => format!("{hint}.{}", n - 1),
            }
        } else {
            self.next_free_number()
        };
        self.names[value] = Some(name.clone());
        self.named.push(value);
        name
    }
}
