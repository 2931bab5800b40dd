//! A PTX file: header, variables, functions and entries.

use crate::operand::{Label, Symbol};
use crate::registers::Registers;
use crate::statement::{Location, Stmt};
use crate::types::{Space, Type};
use target::{SM_90A, TENSOR_MAP_ALIGNMENT_BYTES, TENSOR_MAP_BYTES, Target};

/// `.version major.minor`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Version {
    /// Before the dot.
    pub major: u32,
    /// After the dot.
    pub minor: u32,
}

impl Version {
    /// `major.minor`
    pub const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }

    /// The lowest version that knows `machine`.
    pub const fn least_for(machine: &Target) -> Self {
        let (major, minor) = machine.least_ptx;
        Self { major, minor }
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The directive `.target` (PTX ISA 11.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TargetDirective {
    /// Compute capability times ten.
    pub sm: u32,
    /// The architecture-specific target with the suffix `a`.
    pub arch_specific: bool,
    /// `, debug` after the target.
    pub debug: bool,
}

impl TargetDirective {
    /// Code for `machine`, with all of its own features.
    pub const fn of(machine: &Target) -> Self {
        Self {
            sm: machine.sm(),
            arch_specific: true,
            debug: false,
        }
    }

    /// The machine that such code is for, with its features or without; none for one that has no table.
    pub fn machine(self) -> Option<&'static Target> {
        target::TARGETS
            .into_iter()
            .find(|machine| machine.sm() == self.sm)
    }
}

impl std::fmt::Display for TargetDirective {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let suffix = if self.arch_specific { "a" } else { "" };
        let debug = if self.debug { ", debug" } else { "" };
        write!(f, "sm_{}{suffix}{debug}", self.sm)
    }
}

/// A source file that locations name; its number in `.file` is its index plus one.
pub type SourceFile = String;

/// A PTX module.
#[derive(Clone, Debug, PartialEq)]
pub struct Module {
    /// `.version`
    pub version: Version,
    /// `.target`
    pub target: TargetDirective,
    /// `.file 1 "..."`, and so on.
    pub files: Vec<SourceFile>,
    /// Names of inlined functions, which locations refer to.
    pub inlined_functions: Vec<String>,
    /// Variables of the module: `.extern .shared` arrays, `.global` and `.const` data.
    pub globals: Vec<Variable>,
    /// Functions, printed before the entries that call them.
    pub functions: Vec<Func>,
    /// Kernels.
    pub entries: Vec<Entry>,
}

impl Module {
    /// An empty module for `machine` at the lowest version that knows it.
    pub fn new(machine: &Target) -> Self {
        Self {
            version: Version::least_for(machine),
            target: TargetDirective::of(machine),
            files: Vec::new(),
            inlined_functions: Vec::new(),
            globals: Vec::new(),
            functions: Vec::new(),
            entries: Vec::new(),
        }
    }

    /// The number of a source file for [`Location::file`], added when it is new.
    pub fn file(&mut self, path: &str) -> u32 {
        intern(&mut self.files, path)
    }

    /// The number of a function name for [`Inlined::function`](crate::Inlined::function), added when it is new.
    pub fn inlined_function(&mut self, name: &str) -> u32 {
        intern(&mut self.inlined_functions, name)
    }

    /// Adds a variable and returns its symbol.
    pub fn add_global(&mut self, variable: Variable) -> Symbol {
        self.globals.push(variable);
        Symbol::Global(self.globals.len() as u32 - 1)
    }

    /// Adds a function and returns its symbol.
    pub fn add_function(&mut self, function: Func) -> Symbol {
        self.functions.push(function);
        Symbol::Function(self.functions.len() as u32 - 1)
    }

    /// The entry called `name`.
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name == name)
    }

    /// The bodies of all functions and entries.
    pub fn bodies(&self) -> impl Iterator<Item = &Body> {
        self.functions
            .iter()
            .filter_map(|function| function.body.as_ref())
            .chain(self.entries.iter().map(|e| &e.body))
    }

    pub(crate) fn bodies_mut(&mut self) -> impl Iterator<Item = &mut Body> {
        self.functions
            .iter_mut()
            .filter_map(|function| function.body.as_mut())
            .chain(self.entries.iter_mut().map(|e| &mut e.body))
    }
}

impl Default for Module {
    /// An empty module for `sm_90a`.
    fn default() -> Self {
        Self::new(&SM_90A)
    }
}

fn intern(list: &mut Vec<String>, text: &str) -> u32 {
    if let Some(index) = list.iter().position(|entry| entry == text) {
        return index as u32;
    }
    list.push(text.to_owned());
    list.len() as u32 - 1
}

/// The visibility of a variable or a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Linkage {
    /// This module only.
    Internal,
    /// `.extern`: defined elsewhere, or sized at launch for shared memory.
    Extern,
    /// `.visible`
    Visible,
    /// `.weak`
    Weak,
}

/// How many elements a variable has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Extent {
    /// One, declared without brackets.
    Scalar,
    /// `[n]`
    Array(u64),
    /// `[]`: dynamic shared memory.
    Unsized,
}

impl Extent {
    /// Elements of the type in front; none when the launch decides.
    pub fn elements(self) -> u64 {
        match self {
            Extent::Scalar => 1,
            Extent::Array(count) => count,
            Extent::Unsized => 0,
        }
    }
}

/// Initial contents of a variable.
#[derive(Clone, Debug, PartialEq)]
pub enum Initializer {
    /// Integers of the variable's type.
    Int(Vec<i64>),
    /// Bit patterns of `f32` values.
    F32(Vec<u32>),
    /// Bit patterns of `f64` values.
    F64(Vec<u64>),
}

/// A variable of a module or of a body.
#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    /// Its name, unique among the names that its scope can see.
    pub name: String,
    /// Its visibility.
    pub linkage: Linkage,
    /// Where it lies.
    pub space: Space,
    /// Alignment in bytes; none means that of the type.
    pub align: Option<u32>,
    /// Type of an element.
    pub ty: Type,
    /// How many elements.
    pub extent: Extent,
    /// Contents at start, for `.global` and `.const`.
    pub init: Option<Initializer>,
}

impl Variable {
    /// An array of bytes.
    pub fn bytes(name: &str, space: Space, align: u32, bytes: u64) -> Self {
        Self {
            name: name.to_owned(),
            linkage: Linkage::Internal,
            space,
            align: Some(align),
            ty: Type::B8,
            extent: Extent::Array(bytes),
            init: None,
        }
    }

    /// `.extern .shared .align A .b8 name[];`: the dynamic shared memory of a launch.
    pub fn dynamic_shared(name: &str, align: u32) -> Self {
        let linkage = Linkage::Extern;
        Self {
            linkage,
            extent: Extent::Unsized,
            ..Self::bytes(name, Space::Shared, align, 0)
        }
    }

    /// Alignment in bytes.
    pub fn align_bytes(&self) -> u32 {
        self.align.unwrap_or_else(|| self.ty.bytes().max(1))
    }

    /// Size in bytes; zero when the launch decides.
    pub fn size_bytes(&self) -> u64 {
        self.extent
            .elements()
            .saturating_mul(u64::from(self.ty.bytes()))
    }
}

/// What a pointer parameter promises: `.ptr .global .align 16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PtrAttribute {
    /// State space of the pointee; none means generic.
    pub space: Option<Space>,
    /// Alignment of the pointee in bytes.
    pub align: Option<u32>,
}

/// A parameter of an entry or a function.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// Its name.
    pub name: String,
    /// Type of the value, or of an element of an array.
    pub ty: Type,
    /// Scalar, or an array of bytes passed by value (tensor maps).
    pub extent: Extent,
    /// Alignment in bytes; none means that of the type.
    pub align: Option<u32>,
    /// Set when the value is a pointer with known properties.
    pub ptr: Option<PtrAttribute>,
}

impl Param {
    /// A scalar.
    pub fn scalar(name: &str, ty: Type) -> Self {
        Self {
            name: name.to_owned(),
            ty,
            extent: Extent::Scalar,
            align: None,
            ptr: None,
        }
    }

    /// A pointer to global memory, whose pointee is aligned to `align` bytes.
    pub fn global_ptr(name: &str, align: u32) -> Self {
        let ptr = Some(PtrAttribute {
            space: Some(Space::Global),
            align: Some(align),
        });
        Self {
            ptr,
            ..Self::scalar(name, Type::U64)
        }
    }

    /// A tensor map, passed by value (PTX ISA 5.5.8).
    pub fn tensor_map(name: &str) -> Self {
        Self::bytes(name, TENSOR_MAP_ALIGNMENT_BYTES, TENSOR_MAP_BYTES.into())
    }

    /// Bytes passed by value.
    pub fn bytes(name: &str, align: u32, bytes: u64) -> Self {
        Self {
            extent: Extent::Array(bytes),
            align: Some(align),
            ..Self::scalar(name, Type::B8)
        }
    }

    /// Alignment in bytes.
    pub fn align_bytes(&self) -> u32 {
        self.align.unwrap_or_else(|| self.ty.bytes().max(1))
    }

    /// Size in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.extent
            .elements()
            .saturating_mul(u64::from(self.ty.bytes()))
    }
}

/// Performance and launch directives of an entry (PTX ISA 11.4 and 11.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Directives {
    /// `.reqntid x, y, z`: the launch must use exactly this block.
    pub reqntid: Option<[u32; 3]>,
    /// `.maxntid x, y, z`: the launch must not exceed this block.
    pub maxntid: Option<[u32; 3]>,
    /// `.minnctapersm n`
    pub minnctapersm: Option<u32>,
    /// `.maxnreg n`
    pub maxnreg: Option<u32>,
    /// `.explicitcluster`: the launch must name its cluster.
    pub explicitcluster: bool,
    /// `.reqnctapercluster x, y, z`
    pub reqnctapercluster: Option<[u32; 3]>,
    /// `.maxclusterrank n`
    pub maxclusterrank: Option<u32>,
    /// `.noreturn`, of functions.
    pub noreturn: bool,
}

/// Registers, variables and statements of an entry or a function.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Body {
    /// The virtual registers.
    pub registers: Registers,
    /// Variables of the body: `.shared`, `.local`, and `.param` for calls.
    pub variables: Vec<Variable>,
    /// Names of the labels.
    pub labels: Vec<String>,
    /// Source locations that instructions refer to.
    pub locations: Vec<Location>,
    /// The code.
    pub statements: Vec<Stmt>,
}

impl Body {
    /// The name of `label`.
    pub fn label_name(&self, label: Label) -> Option<&str> {
        self.labels.get(label.0 as usize).map(String::as_str)
    }
}

/// A kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The name that the host looks up.
    pub name: String,
    /// [`Linkage::Visible`] as a rule.
    pub linkage: Linkage,
    /// What the launch passes.
    pub params: Vec<Param>,
    /// Launch bounds and the like.
    pub directives: Directives,
    /// The code.
    pub body: Body,
}

/// A function; arguments and results are in the param space.
#[derive(Clone, Debug, PartialEq)]
pub struct Func {
    /// Its name.
    pub name: String,
    /// Its visibility; [`Linkage::Extern`] has no body.
    pub linkage: Linkage,
    /// Results.
    pub returns: Vec<Param>,
    /// Arguments.
    pub params: Vec<Param>,
    /// `.noreturn`
    pub directives: Directives,
    /// The code, when it is defined here.
    pub body: Option<Body>,
}
