//! The start and the end of a trace, and how kernels are found.

use std::fmt::{Display, Write};
use std::sync::Arc;

use super::{At, TRACE, Trace, panic, place, with};
use crate::build::{Builder, Exits};
use crate::lang::parts::{Part, Parts, Promises};
use diag::Place;
use diag::{Code, Diagnostic, Diagnostics};
use ir::OpError;
use ir::elem::{DType, Elem};
use ir::entity::Value;
use ir::ops::control::Return;
use ir::verify::{Verifier, check_map};
use ir::{Contracts, Func, Stage, TensorMapMode, TensorMapType, Type};
use layout::{Dims, Nvmma, SharedLayout};

/// A kernel of one instance, as traced.
#[derive(Clone, Debug)]
pub struct Traced {
    /// The kernel, at stage `Built`, verified.
    pub func: Func,
    /// Its name with its generic arguments, for people: `vector_add<1024>`. The name in `func` is a PTX identifier.
    pub display: Arc<str>,
    /// Warnings.
    pub warnings: Diagnostics,
    /// What `static_print!` said.
    pub printed: Vec<Printed>,
    /// How a launch follows from its tensors, where the author says it.
    pub signature: Option<Signature>,
}

/// How a launch follows from its tensors, as rules over named sizes: texts, in which what is constant of the instance is a
/// number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signature {
    /// Parameters that are tensors, with their extents.
    pub tensors: Vec<(&'static str, Vec<String>)>,
    /// Of tensor maps of pixels, the offsets of the first pixel that a copy may start at from the image's begin, and of the last from its end.
    pub windows: Vec<(&'static str, [Vec<String>; 2])>,
    /// Of tensor maps, the elements from one that is taken to the next along each dimension.
    pub steps: Vec<(&'static str, Vec<String>)>,
    /// Parameters that are numbers, or elements of arrays, and follow from the tensors.
    pub scalars: Vec<(String, String)>,
    /// CTAs in x, y and z.
    pub grid: Option<[String; 3]>,
    /// Comparisons that hold in every launch.
    pub requires: Vec<String>,
    /// The function's name of the kernel of its gradients, in whose instance of the same constants they are.
    pub backward: Option<&'static str>,
}

/// One line of `static_print!`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Printed {
    /// Where it stands.
    pub at: Place,
    /// What it says.
    pub text: String,
}

/// What the attribute of a kernel says, for one instance: numbers as they are said, which are checked when the kernel begins.
#[derive(Clone, Copy, Debug)]
pub struct KernelHead {
    /// The function's name.
    pub name: &'static str,
    /// Warps in a CTA.
    pub warps: i128,
    /// Cap on registers per thread.
    pub max_registers: Option<i128>,
    /// CTAs per SM that must fit.
    pub min_ctas_per_sm: Option<i128>,
    /// CTAs of a cluster in x, y and z, where the attribute says them.
    pub cluster: Option<[i128; 3]>,
    /// Do its CTAs wait for one another?
    pub is_cooperative: bool,
    /// What the compiler must not do silently.
    pub contracts: Contracts,
    /// The parameters, in order.
    pub params: &'static [ParamHead],
}

impl KernelHead {
    /// The parameters that those of the signature are, each with what it is called: the author's name, and of the elements of an array and the fields of a
    /// struct that and theirs.
    fn parts(&self) -> Vec<(String, Part)> {
        let mut parts = Parts::default();
        for param in self.params {
            parts.promised(param.promises, |parts| {
                parts.within(param.name, param.parts);
            });
        }
        let parts = parts.all();
        let symbols = self.symbols(&parts);
        symbols.into_iter().zip(parts).collect()
    }

    /// What another parameter is called already gets one more `_`.
    fn symbols(&self, parts: &[Part]) -> Vec<String> {
        let mut symbols: Vec<String> = Vec::with_capacity(parts.len());
        for part in parts {
            let mut name = symbol(&part.path.join("_"));
            let is_whole = part.path.len() == 1;
            while !is_whole && (self.has(&name) || symbols.contains(&name)) {
                name.push('_');
            }
            symbols.push(name);
        }
        symbols
    }

    fn has(&self, name: &str) -> bool {
        self.params.iter().any(|param| symbol(param.name) == name)
    }
}

/// A parameter's name, and what its attributes say.
#[derive(Clone, Copy, Debug)]
pub struct ParamHead {
    /// The author's name for it.
    pub name: &'static str,
    /// Lists the parameters that it is.
    pub parts: fn(&mut Parts),
    /// What launches promise of it.
    pub promises: Promises,
}

/// A kernel that the program contains. `inventory` collects them.
#[derive(Debug)]
pub struct KernelEntry {
    /// The function's name.
    pub name: &'static str,
    /// The module it stands in, as `crate::module`.
    pub module: &'static str,
    /// The source file.
    pub file: &'static str,
    /// The line of its name, from 1.
    pub line: u32,
    /// What its author says of it, as rustdoc has it.
    pub docs: &'static str,
    /// Is it generic? Then only the declared instances are known.
    pub is_generic: bool,
    /// The instances to build: those declared, or the one of a kernel that is not generic.
    pub instances: &'static [KernelInstance],
}

/// One instance of a kernel.
#[derive(Clone, Copy, Debug)]
pub struct KernelInstance {
    /// The generic arguments as the author wrote them, without the angle brackets; empty if there are none.
    pub arguments: &'static str,
    /// Traces it.
    pub trace: fn() -> Result<Traced, Diagnostics>,
}

inventory::collect!(KernelEntry);

/// A generic argument as it appears in names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GenericArg(String);

/// A const argument.
pub(crate) fn const_arg(value: impl Display) -> GenericArg {
    GenericArg(value.to_string())
}

/// A type argument, named without its path.
pub(crate) fn type_arg<T: ?Sized>() -> GenericArg {
    let full = std::any::type_name::<T>();
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let mut out = String::new();
    for part in full.split_inclusive(|c| !is_part(c)) {
        out.push_str(part.rsplit("::").next().unwrap_or(part));
    }
    GenericArg(out)
}

/// Runs a kernel function with its parameters as handles, and gives the kernel it describes or what is wrong with it.
#[inline(never)]
pub(crate) fn trace_kernel(body: &mut dyn FnMut(), at: At) -> Result<Traced, Diagnostics> {
    let trace = Trace {
        builder: Builder::new("kernel", 4),
        verifier: Verifier::default(),
        at,
        display: "kernel".into(),
        has_begun: false,
        partition_warps: None,
        outer_partitions: Vec::new(),
        partition_depths: Vec::new(),
        named_barriers: 0,
        printed: Vec::new(),
        signature: None,
        exits: Exits::default(),
        refused_maps: Vec::new(),
        strayed: Vec::new(),
        panicked: None,
    };
    let outer = TRACE.with(|t| t.borrow_mut().replace(trace));
    let outcome = panic::run(body);
    let trace = TRACE.with(|t| std::mem::replace(&mut *t.borrow_mut(), outer));
    let trace = trace.expect("the trace that was begun is there to be ended");
    trace.finish(outcome)
}

impl Trace {
    fn finish(mut self, outcome: Result<(), ()>) -> Result<Traced, Diagnostics> {
        if outcome.is_err() && !self.builder.has_errors() {
            self.report_panic();
        }
        if outcome.is_ok() {
            self.close_left(1, self.at);
            let loc = self.loc(self.at);
            self.builder.push(Return {}, &[], loc);
        }
        let Trace {
            builder,
            mut verifier,
            at,
            display,
            printed,
            signature,
            ..
        } = self;
        let (func, mut diagnostics) = builder.finish();
        if !diagnostics.has_errors() {
            for mut found in verifier.verify(&func, Stage::Built).0 {
                // What is wrong with the kernel as a whole is shown at its name.
                found.primary.at = found.primary.at.or_else(|| Some(place(at)));
                diagnostics.push(found);
            }
        }
        if diagnostics.has_errors() {
            return Err(diagnostics);
        }
        Ok(Traced {
            func,
            display,
            warnings: diagnostics,
            printed,
            signature,
        })
    }

    fn report_panic(&mut self) {
        let (message, at) = match self.panicked.take() {
            Some(found) => (
                format!("the host code of this kernel panicked: {}", found.message),
                found.at,
            ),
            // Kept is what the author's code panics with; what panics in the builder itself was printed.
            None => (
                "tracing panicked, which is a bug of TileKit; the message above says where".into(),
                None,
            ),
        };
        let mut diagnostic = Diagnostic::error(Code::KernelPanicked, at, message)
            .note(format!("while tracing `{}`", self.display));
        // The kernel itself is a region.
        if self.builder.depth() > 1 {
            diagnostic = diagnostic
                .note("this is inside a runtime loop or branch, which is traced whether or not it runs")
                .help("`device_assert(condition, \"message\")` stops the kernel when it runs");
        }
        self.builder.diagnostic(diagnostic);
    }
}

/// A parameter of the kernel being traced, before its name is known.
#[inline(never)]
pub(crate) fn declare_param(index: usize, elem: Elem, divisor: u32, at: At) -> Value {
    with(at, |trace| {
        let func = trace.builder.func_mut();
        func.add_param(&format!("p{index}"), Type::Scalar(elem), divisor)
    })
}

/// A tensor map of the kernel being traced, before its blocks are known.
#[inline(never)]
pub(crate) fn declare_map(index: usize, elem: DType, at: At) -> Value {
    let ty = Type::TensorMap(TensorMapType {
        block: Dims::empty(),
        elem: elem.into(),
        layout: Nvmma::new(0, elem.bits()).into(),
        mode: TensorMapMode::Tiled,
    });
    with(at, |trace| {
        let func = trace.builder.func_mut();
        func.add_param(&format!("p{index}"), ty, 1)
    })
}

/// What one copy through a map moves. A block that TMA cannot move is reported here, once.
#[inline(never)]
pub(crate) fn set_block(
    map: Value,
    mode: TensorMapMode,
    block: Dims,
    layout: SharedLayout,
    at: At,
) {
    with(at, |trace| {
        let Type::TensorMap(m) = trace.ty(map) else {
            return;
        };
        let ty = TensorMapType {
            block,
            layout,
            mode,
            elem: m.elem,
        };
        let func = trace.builder.func_mut();
        match check_map(&ty, func) {
            Ok(()) => func.set_ty(map, Type::TensorMap(ty)),
            Err((code, message)) => {
                func.set_ty(map, Type::Poison);
                trace.refused_maps.push((map, ty.layout.clone()));
                let func = trace.builder.func_mut();
                let error = with_fitting_swizzle(OpError::new(code, message), &ty, func);
                trace.fail(error, at);
            }
        }
    });
}

/// Names the swizzle that a refused block could have, if that helps.
pub(super) fn with_fitting_swizzle(error: OpError, m: &TensorMapType, func: &Func) -> OpError {
    if error.code == Code::WrongWarps {
        return error.help(format!(
            "give the layout CTA bases for as many CTAs, or the kernel `cluster = {}`",
            m.layout.ctas()
        ));
    }
    let name = match fitting(m).swizzle_bytes {
        0 => "PLAIN".to_owned(),
        bytes => format!("B{bytes}"),
    };
    let is_as_written = matches!(&m.layout, SharedLayout::Nvmma(nvmma) if **nvmma == fitting(m));
    let fitting_map = TensorMapType {
        layout: fitting(m).into(),
        ..m.clone()
    };
    if !is_as_written && check_map(&fitting_map, func).is_ok() {
        error.help(format!("`Nvmma::{name}` fits this block"))
    } else {
        error
    }
}

/// The layout with the widest swizzle that the rows of a block have, or of a CTA's part of it.
fn fitting(m: &TensorMapType) -> Nvmma {
    let bits = m.elem.bits();
    let SharedLayout::Nvmma(asked) = &m.layout else {
        return Nvmma::default_for(&m.block, bits);
    };
    let plain = Nvmma {
        swizzle_bytes: 0,
        ..(**asked).clone()
    };
    let part = SharedLayout::from(&plain).part_of(&m.block);
    let part = part.unwrap_or_else(|_| m.block.clone());
    Nvmma {
        cta_bases: plain.cta_bases,
        ..Nvmma::default_for(&part, bits)
    }
}

/// The kernel function says who it is, before anything else.
#[inline(never)]
pub(crate) fn begin_kernel(head: &KernelHead, generics: &[GenericArg], at: At) {
    with(at, |trace| {
        if trace.has_begun {
            return trace.refuse_call(head, at);
        }
        trace.has_begun = true;
        trace.set_names(head, generics);
        trace.set_params(head, at);
        trace.at = at;
        let mut said = |name: &str, number: i128| trace.said(name, number, at);
        let warps = said("warps", head.warps);
        let max_registers = head.max_registers.map(|n| said("max_registers", n));
        let min_ctas_per_sm = head.min_ctas_per_sm.map(|n| said("min_ctas_per_sm", n));
        let cluster = head.cluster.unwrap_or([1; 3]);
        let cluster = cluster.map(|extent| said("cluster", extent));
        let func = trace.builder.func_mut();
        func.warps = warps;
        func.max_registers = max_registers;
        func.min_ctas_per_sm = min_ctas_per_sm;
        func.cluster = cluster;
        func.says_cluster = head.cluster.is_some();
        func.is_cooperative = head.is_cooperative;
        func.contracts = head.contracts;
    });
}

/// The kernel function says how its launches follow from their tensors.
pub(crate) fn set_signature(signature: Signature, at: At) {
    with(at, |trace| trace.signature = Some(signature));
}

impl Trace {
    fn refuse_call(&mut self, head: &KernelHead, at: At) {
        let error = OpError::new(
            Code::KernelCall,
            format!(
                "the kernel `{}` is called by the kernel `{}`",
                head.name, self.display
            ),
        )
        .help("move the shared code into a `#[device]` function");
        self.fail(error, at);
    }

    /// A number that the attribute says. One that counts nothing is reported, and 1 in its place keeps the verifier quiet.
    fn said(&mut self, name: &str, number: i128, at: At) -> u32 {
        u32::try_from(number).unwrap_or_else(|_| {
            let message = format!("`{name}` of a kernel is {number}");
            let error = OpError::new(Code::TooLarge, message);
            let help = if number < 0 {
                "it counts: take 1 or more"
            } else {
                "take fewer"
            };
            self.fail(error.help(help), at);
            1
        })
    }

    fn set_names(&mut self, head: &KernelHead, generics: &[GenericArg]) {
        let mut symbol = symbol(head.name);
        let mut display = head.name.to_owned();
        for (i, GenericArg(argument)) in generics.iter().enumerate() {
            symbol.push('_');
            symbol.extend(argument.chars().map(symbol_char));
            display.push_str(if i == 0 { "<" } else { ", " });
            display.push_str(argument);
        }
        if !generics.is_empty() {
            display.push('>');
        }
        self.builder.func_mut().name = symbol.into();
        self.display = display.into();
    }

    fn set_params(&mut self, head: &KernelHead, at: At) {
        let loc = self.loc(at);
        let parts = head.parts();
        self.check_promises(&parts, at);
        let func = self.builder.func_mut();
        for (entry, (name, part)) in func.params.iter_mut().zip(&parts) {
            let Promises {
                divisor,
                is_readonly,
            } = part.promises;
            entry.name = name.as_str().into();
            let promised = divisor.filter(|it| it.is_power_of_two());
            entry.divisor = promised.unwrap_or(entry.divisor);
            entry.is_readonly = is_readonly;
        }
        let values: Vec<Value> = func.params.iter().map(|param| param.value).collect();
        for (value, (name, _)) in values.into_iter().zip(&parts) {
            func.set_name(value, name);
            func.set_value_loc(value, loc);
        }
    }

    /// Of an array, what is promised of each element is reported once.
    fn check_promises(&mut self, parts: &[(String, Part)], at: At) {
        let wrong = parts.iter().filter_map(|(_, part)| {
            let divisor = part.promises.divisor.filter(|it| !it.is_power_of_two())?;
            Some((part.written(), divisor))
        });
        let mut wrong: Vec<_> = wrong.collect();
        wrong.dedup();
        for (name, divisor) in wrong {
            let message =
                format!("what every launch promises of `{name}` is a power of two, not {divisor}");
            self.fail(OpError::new(Code::NotPowerOfTwo, message), at);
        }
    }
}

/// A name of the author's as a symbol: what PTX and the text form have no letter for is spelt by its number.
fn symbol(name: &str) -> String {
    let mut symbol = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            c if c.is_ascii() => symbol.push(c),
            c => {
                let _ = write!(symbol, "u{:04x}_", u32::from(c));
            }
        }
    }
    symbol
}

/// PTX identifiers hold letters, digits, `_` and `$` (PTX ISA, identifiers); `$` is left to the assembler.
fn symbol_char(c: char) -> char {
    match c {
        c if c.is_ascii_alphanumeric() => c,
        '-' => 'm',
        _ => '_',
    }
}
