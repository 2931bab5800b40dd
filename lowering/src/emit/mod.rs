//! From a tile to one thread: tile IR at stage `Allocated` to a PTX module.
//!
//! A tensor becomes one element for each register of its layout (`element`); every thread runs the same code on its
//! own elements. What ptxas does well (common subexpressions across statements, scheduling, unrolling, register
//! allocation) is left to it; what it does not do is done here: vector accesses, addresses with constant offsets,
//! division by constants, index widths, state spaces, approximate forms. `mul` and `add` of floats are printed without a
//! rounding, so that ptxas may contract them to one `fma`, as Triton and nvcc do by default.

#![allow(
    clippy::wrong_self_convention,
    reason = "`to_f32`, `from_bits32` and the like convert an element; self is the code that grows by it"
)]
#![allow(
    clippy::result_large_err,
    reason = "an error ends the emission, so its size costs nothing"
)]
#![allow(
    clippy::needless_pass_by_value,
    reason = "instructions and operands are made for the call"
)]
#![allow(
    clippy::excessive_precision,
    clippy::unreadable_literal,
    reason = "coefficients stand as they were published"
)]
#![allow(
    clippy::verbose_bit_mask,
    clippy::precedence,
    reason = "bit fields of floats and products of twice the width read best as the papers write them"
)]

mod addressing;
mod arith;
mod atomic;
mod blank;
mod bounds;
mod bulk;
mod cast;
mod cluster;
mod code;
mod control;
mod cp_async;
mod create;
mod debug;
mod distribute;
mod divide;
mod dot;
mod element;
mod exchange;
mod flat;
mod float;
mod gather;
mod global;
mod guards;
mod histogram;
mod in_place;
mod indexed;
mod inline;
mod integer;
mod issued;
mod layout;
mod locations;
mod loop_end;
mod map;
mod math;
mod mbarrier;
mod narrow;
mod owners;
mod partition;
mod peers;
mod poll;
mod reduce;
mod redundant;
mod remote;
mod rescale;
mod scale_d;
mod scan;
mod shape;
mod shared;
mod shuffle;
mod sink;
mod sort;
mod sparse;
mod split;
mod sync;
mod tensor_map;
mod thread;
mod tidy;
mod tma;
mod trace;
mod vector;
mod vote;
mod warps;
mod wgmma;
mod wide_red;

use std::rc::Rc;

use ::layout::{Axis, Dims, Layout};
use cranelift_entity::SecondaryMap;
use diag::{Code as ErrorCode, Diagnostic, Diagnostics};
use ir::elem::Elem;
use ir::entity::{Inst, Loc, Region, Value};
use ir::for_each_op;
use ir::ops::{self, Op};
use ir::{Func, SmemType, Stage, TensorType, Type};
use ptx::{Linkage, Module, Operand, Param, PtrAttribute, Reg, Space, Symbol, Variable};
use rustc_hash::FxHashMap;

use crate::analysis::access::{Accesses, GlobalPlan};
use crate::analysis::axis::Axes;
use crate::analysis::roots::Roots;
use crate::analysis::uses::Uses;
use crate::options::Options;
use crate::trace::TraceTable;
use code::{Code, Kind, key};
use distribute::Distribution;
use element::{Element, Elements};
use partition::Partition;
use scale_d::Blank;

/// How an op becomes PTX. The registry calls it for every op, so an op without it does not compile.
trait Lower {
    /// Appends the code of `inst`, whose op this is, and enters its results.
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted;
}

/// Emission fails only for what no verifier can see: the text of inline PTX.
type Emitted = Result<(), Diagnostic>;

macro_rules! declare_dispatch {
    ($($name:ident in $family:ident,)*) => {
        fn lower(op: &Op, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
            match op {
                $(Op::$name(op) => <ops::$family::$name as Lower>::lower(op, inst, cx),)*
            }
        }
    };
}

for_each_op!(declare_dispatch);

/// The PTX of a kernel at stage `Allocated`.
///
/// # Errors
/// Inline PTX that does not parse or does not fit, at its place.
///
/// # Panics
/// When the kernel breaks a rule of its stage, which is a bug of the passes before.
pub fn emit(func: &Func, options: &Options) -> Result<Module, Diagnostics> {
    emit_traced(func, options).map(|(module, _)| module)
}

/// The same, and what the records of a traced build mean.
pub(crate) fn emit_traced(
    func: &Func,
    options: &Options,
) -> Result<(Module, Option<TraceTable>), Diagnostics> {
    assert!(
        func.stage == Stage::Allocated,
        "a kernel at stage {} cannot be emitted",
        func.stage
    );
    let axes = Axes::of(func);
    let roots = Roots::of(func);
    let mut emitter = Emitter::new(func, (&axes, &roots), options);
    emitter.params();
    emitter.begin_trace();
    if let Err(diagnostic) = emitter.region(func.body) {
        return Err(diagnostic.into());
    }
    let table = emitter.end_trace()?;
    Ok((emitter.finish(), table))
}

/// The emission of one kernel.
struct Emitter<'f> {
    pub(super) func: &'f Func,
    pub(super) axes: &'f Axes,
    pub(super) roots: &'f Roots,
    /// The launch before may still write what this kernel reads behind its wait.
    pub(super) waits_for_launch: bool,
    pub(super) code: Code,
    pub(super) module: Module,
    values: SecondaryMap<Value, Option<Elements>>,
    /// Accumulators whose registers hold nothing yet.
    blank: SecondaryMap<Value, Option<Blank>>,
    /// How wide each access to memory is.
    pub(super) accesses: Accesses<'f>,
    /// Registers in which a loop wants an accumulator that its body begins.
    continued: SecondaryMap<Value, Option<Vec<Reg>>>,
    distributions: FxHashMap<(Layout, Dims), Rc<Distribution>>,
    /// How elements of views are addressed, by the type of the view.
    addressings: Vec<(&'f SmemType, Rc<addressing::Addressing>)>,
    locations: locations::Places,
    /// The CTA's shared memory, once it is used.
    shared: Option<Symbol>,
    /// What addresses in shared memory are made of.
    buffers: FxHashMap<Reg, addressing::Buffer>,
    /// What a traced build records.
    tracer: Option<trace::Tracer>,
}

/// Whether the kernel waits for the launch before it somewhere.
fn waits_for_launch(func: &Func) -> bool {
    let is_wait = |inst: &Inst| matches!(func.op(*inst), Op::LaunchWait(_));
    func.walk().iter().any(is_wait)
}

impl<'f> Emitter<'f> {
    fn new(func: &'f Func, (axes, roots): (&'f Axes, &'f Roots), options: &Options) -> Emitter<'f> {
        let mut code = Code::new(&func.name, Partition::whole(func));
        let directives = &mut code.entry.directives;
        directives.reqntid = Some([func.launch_warps() * 32, 1, 1]);
        directives.minnctapersm = func.min_ctas_per_sm;
        directives.maxnreg = func.max_registers;
        if func.has_cluster() {
            // Without `.explicitcluster` the code tests the cluster's size at run time.
            directives.explicitcluster = true;
            directives.reqnctapercluster = Some(func.cluster);
        }
        Emitter {
            func,
            axes,
            roots,
            waits_for_launch: waits_for_launch(func),
            code,
            module: Module::new(func.target),
            values: SecondaryMap::with_capacity(func.value_count()),
            blank: SecondaryMap::new(),
            accesses: Accesses::new(func, axes),
            continued: SecondaryMap::new(),
            distributions: FxHashMap::default(),
            addressings: Vec::new(),
            locations: locations::Places::new(options.emits_locations),
            shared: None,
            buffers: FxHashMap::default(),
            tracer: options.trace.map(|trace| trace::Tracer::new(func, trace)),
        }
    }

    fn params(&mut self) {
        let func = self.func;
        for param in &func.params {
            if let Type::TensorMap(_) = func.ty(param.value) {
                let name = param_name(&func.name, &param.name);
                self.map_param(param.value, &name);
                continue;
            }
            let elem = self.elem(param.value);
            let ty = match elem {
                Elem::Ptr(_) => ptx::Type::U64,
                Elem::Data(_) => element::memory(elem),
            };
            let mut declared = Param::scalar(&param_name(&func.name, &param.name), ty);
            if elem.is_ptr() {
                let align = Some(param.divisor.max(1));
                declared.ptr = Some(PtrAttribute {
                    space: Some(Space::Global),
                    align,
                });
            }
            let symbol = self.code.entry.add_param(declared);
            let element = self.code.in_prologue(|code| load_param(code, symbol, elem));
            self.set(param.value, vec![element]);
        }
    }

    /// Emits the instructions of a region, its terminator included.
    pub(super) fn region(&mut self, region: Region) -> Emitted {
        self.insts(&self.func.region(region).insts)
    }

    /// The same but for the branch in front of the end of the region, and that end.
    pub(super) fn region_but_its_branch(&mut self, region: Region) -> Emitted {
        let insts = &self.func.region(region).insts;
        let branch = insts.len().saturating_sub(2);
        self.insts(&insts[..branch])?;
        self.place(self.func.loc(insts[branch]));
        Ok(())
    }

    fn insts(&mut self, insts: &[Inst]) -> Emitted {
        let func = self.func;
        for &inst in insts {
            self.place(func.loc(inst));
            self.state_bounds(inst);
            let traced = self.trace_before(inst);
            let mark = self.code.mark();
            lower(func.op(inst), inst, self)?;
            self.check_issued(inst, &mark);
            self.trace_after(inst, traced);
        }
        Ok(())
    }

    /// Says where the code that follows comes from.
    pub(super) fn place(&mut self, loc: Option<Loc>) {
        let id = loc.and_then(|loc| {
            let locations = &self.func.locations;
            self.locations
                .enter(&mut self.module, &mut self.code.entry, locations, loc)
        });
        self.code.set_loc(id);
    }

    /// Who uses a value.
    pub(super) fn uses(&self) -> &Uses {
        self.accesses.uses()
    }

    /// Does any instruction take this value?
    pub(super) fn is_used(&self, value: Value) -> bool {
        !self.uses().of_value(value).is_empty()
    }

    /// How an instruction accesses global memory, whose pointers the verifier has seen.
    pub(super) fn global_plan(&self, inst: Inst) -> GlobalPlan {
        let plan = self.accesses.global(inst);
        plan.expect("an access of a verified kernel has pointers whose layout fits")
    }

    /// The elements of a value.
    pub(super) fn elements(&self, value: Value) -> Elements {
        let elements = self.values[value].clone();
        elements.expect("a value is emitted before its uses")
    }

    /// The only element of a scalar.
    pub(super) fn scalar(&self, value: Value) -> Element {
        self.elements(value)[0]
    }

    /// Enters the elements of a value.
    pub(super) fn set(&mut self, value: Value, elements: impl Into<Elements>) {
        self.values[value] = Some(elements.into());
    }

    /// Enters the elements of the only result of an instruction.
    pub(super) fn set_result(&mut self, inst: Inst, elements: impl Into<Elements>) {
        self.set(self.func.result(inst), elements);
    }

    /// The element type of a value.
    pub(super) fn elem(&self, value: Value) -> Elem {
        let elem = self.func.ty(value).elem();
        elem.expect("a value of a verified kernel has elements")
    }

    /// The type of the registers of a value: those of its elements, or the address of a map or of shared memory.
    pub(super) fn held(&self, value: Value) -> Elem {
        match self.func.ty(value) {
            Type::Smem(_) => element::ADDRESS,
            Type::TensorMap(_) => element::MAP,
            _ => self.elem(value),
        }
    }

    /// The tensor type of a value.
    pub(super) fn tensor(&self, value: Value) -> &'f TensorType {
        let tensor = self.func.ty(value).as_tensor();
        tensor.expect("the verifier admits only tensors here")
    }

    /// How a tensor lies in the threads.
    pub(super) fn distribution(&mut self, t: &TensorType) -> Rc<Distribution> {
        let key = (t.layout.clone(), t.shape.clone());
        let entry = self.distributions.entry(key);
        entry
            .or_insert_with(|| Rc::new(Distribution::new(t)))
            .clone()
    }

    /// The number of elements that a thread holds of a value.
    pub(super) fn count(&mut self, ty: &Type) -> usize {
        match ty {
            Type::Tensor(t) => self.distribution(t).registers(),
            _ => 1,
        }
    }

    /// Elementwise: `make` gives one element of the result for each tuple of operand elements. Registers that the axis
    /// analysis knows to be equal share one.
    pub(super) fn map<const N: usize>(
        &mut self,
        inst: Inst,
        operands: [Value; N],
        mut make: impl FnMut(&mut Code, [Element; N]) -> Element,
    ) {
        let lists = operands.map(|v| self.elements(v));
        let equal = self.equal_registers(self.func.result(inst));
        let count = lists[0].len();
        let mut elements: Vec<Element> = Vec::with_capacity(count);
        #[expect(
            clippy::needless_range_loop,
            reason = "each of the lists is indexed, and their number is generic"
        )]
        for at in 0..count {
            let first = match &equal {
                Some((distribution, bits)) => distribution.held.without(at, *bits),
                None => at,
            };
            let element = if first == at {
                make(&mut self.code, std::array::from_fn(|i| lists[i][at]))
            } else {
                elements[first]
            };
            elements.push(element);
        }
        self.set_result(inst, elements);
    }

    /// The register bits that do not change the element of a value, if there are any: it is constant along what they move.
    fn equal_registers(&mut self, value: Value) -> Option<(Rc<Distribution>, u32)> {
        let t = self.func.ty(value).as_tensor()?;
        let distribution = self.distribution(t);
        let bases = distribution.map.bases(Axis::Register);
        let stays = |basis: u64| {
            (0..t.rank()).all(|dim| {
                // A power of two below the length of a run never leaves it, for runs are aligned.
                let step = distribution.coordinate(basis, dim);
                step == 0 || step.is_power_of_two() && step < self.axes.constancy(value, dim)
            })
        };
        let bits = bases.iter().enumerate();
        let mask = bits
            .filter(|&(_, &basis)| stays(basis))
            .fold(0, |mask, (bit, _)| mask | 1 << bit);
        (mask != 0).then_some((distribution, mask))
    }

    /// The CTA's shared memory, whose size the launch gives.
    pub(super) fn shared(&mut self) -> Symbol {
        if let Some(symbol) = self.shared {
            return symbol;
        }
        let symbol = self.module.add_global(Variable::dynamic_shared(
            "tilekit_shared",
            addressing::WINDOW_ALIGNMENT,
        ));
        self.shared = Some(symbol);
        symbol
    }

    /// The address of a byte of shared memory in a register.
    pub(super) fn shared_address(&mut self, offset: u32) -> Reg {
        let symbol = self.shared();
        self.code.in_prologue(|code| {
            let base = code.mov(ptx::Type::U32, Operand::Symbol(symbol, 0));
            code.whole(Element::Sum(base, i64::from(offset)), Elem::I32)
        })
    }

    fn finish(mut self) -> Module {
        in_place::begin_in_place(&mut self.code);
        tidy::remove_unused(&mut self.code);
        sink::sink_into_cold(&mut self.code);
        // Before guards become branches: they tell what the first lane does alone.
        redundant::remove_redundant(&mut self.code);
        guards::branch_around_runs(&mut self.code);
        let mut entry = self.code.finish();
        entry.linkage = Linkage::Visible;
        self.module.entries.push(entry);
        self.module.version = self.module.version.max(self.module.required_version());
        // Inline PTX was checked where it stands, so what is wrong here is ours.
        #[cfg(debug_assertions)]
        if let Some(error) = self.module.check_for(self.func.target).first() {
            panic!("bug in emission: {error}\n\n{}", self.module.to_text());
        }
        self.module
    }

    /// A mistake in inline PTX.
    pub(super) fn inline_error(&self, inst: Inst, message: String) -> Diagnostic {
        Diagnostic::error(ErrorCode::InlinePtx, self.func.place(inst), message)
    }
}

/// The name of a parameter in PTX, where it must differ from every function's.
fn param_name(kernel: &str, param: &str) -> String {
    format!("{kernel}_{param}")
}

fn load_param(code: &mut Code, symbol: Symbol, elem: Elem) -> Element {
    let ty = match elem {
        Elem::Ptr(_) => ptx::Type::U64,
        Elem::Data(_) => element::memory(elem),
    };
    let class = match element::class(elem) {
        ptx::RegClass::Pred => ptx::RegClass::B32,
        class => class,
    };
    let reg = code.reg(class);
    let load = ptx::Ld::new(ty, reg, ptx::Addr::symbol(symbol, 0));
    code.push(ptx::Ld {
        space: Some(Space::Param),
        ..load
    });
    match elem {
        Elem::Ptr(_) => code.to_global(reg).into(),
        Elem::I1 => code
            .setp(ptx::Compare::Ne, ptx::Type::U32, reg, 0_u32)
            .into(),
        Elem::Data(_) => reg.into(),
    }
}

impl Code {
    /// A generic address as one of global memory.
    pub(super) fn to_global(&mut self, generic: impl Into<Operand>) -> Reg {
        let generic = generic.into();
        let key = key(Kind::ToGlobal, 0, ptx::Type::U64, 0, &[generic]);
        self.pure(key, ptx::RegClass::B64, |reg| {
            ptx::Cvta {
                to: true,
                ..ptx::Cvta::new(ptx::CvtaSpace::Global, ptx::Type::U64, reg, generic)
            }
            .into()
        })
    }
}
