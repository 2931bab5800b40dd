//! From a kernel function to PTX, and from PTX to code on a device.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use diag::{Code, Diagnostic, Diagnostics};
use gluon_lang::lang::Printed;
use ir::Contracts;
use lowering::trace::{TraceOptions, TraceTable};
use lowering::{LaunchInfo, Options, Source};

use super::Instance;
use super::promises::{self, Roles};
use crate::code::Entry;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::launch::{EntryShape, ParameterBlock};
use crate::toolchain::{Image, Toolchain};

/// How kernels are compiled. The default is what `cargo tilekit run` does.
#[derive(Clone, Default)]
pub struct Compiler {
    options: Options,
    replace: Option<Arc<Replace>>,
    known: Option<Arc<HashMap<String, Compiled>>>,
}

/// Gives PTX to use in place of what a kernel compiles to, by the entry's name.
type Replace = dyn Fn(&str) -> Option<String> + Send + Sync;

impl Compiler {
    /// A compiler with these options.
    pub fn new(options: Options) -> Compiler {
        Compiler {
            options,
            ..Compiler::default()
        }
    }

    /// The same, but with PTX edited by hand where `replace` gives some for the name of an entry. It goes to ptxas word
    /// for word. The launch information stays that of the kernel.
    #[must_use]
    pub fn replacing(
        mut self,
        replace: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Compiler {
        self.replace = Some(Arc::new(replace));
        self
    }

    /// The same, but with these kernels as they are, by the [`path`](Instance::path) of their instance: they are not traced
    /// and lowered again.
    #[must_use]
    pub fn knowing(mut self, known: HashMap<String, Compiled>) -> Compiler {
        self.known = Some(Arc::new(known));
        self
    }

    /// The same, but kernels record what happens when; a kernel that is known or edited by hand does not.
    #[must_use]
    pub fn tracing(mut self, trace: TraceOptions) -> Compiler {
        self.options.trace = Some(trace);
        self
    }

    /// How kernels are lowered.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Traces and lowers a kernel.
    ///
    /// # Errors
    /// [`Error::Kernel`] with what is wrong with it, [`Error::PtxText`] for a replacement that cannot be read.
    pub fn compile(&self, instance: &Instance) -> Result<Compiled> {
        let known = self.known.as_ref();
        if let Some(compiled) = known.and_then(|known| known.get(instance.path())) {
            return Ok(compiled.clone());
        }
        self.compile_instance(instance)
            .map_err(|error| match error {
                Error::Kernel(diagnostics) => Error::Kernel(of_instance(diagnostics, instance)),
                other => other,
            })
    }

    fn compile_instance(&self, instance: &Instance) -> Result<Compiled> {
        let started = Instant::now();
        let traced = instance.trace()?;
        let tracing = StepTime {
            name: "trace",
            time: started.elapsed(),
        };
        let contracts = traced.func.contracts;
        let options = Options {
            source: Source::Tracer,
            ..self.options.clone()
        };
        let lowered = lowering::compile(traced.func, &options)?;
        let steps = lowered.timings.iter().map(|step| StepTime {
            name: step.name,
            time: step.time,
        });
        let steps = std::iter::once(tracing).chain(steps).collect();
        let mut warnings = traced.warnings;
        warnings.0.extend(lowered.warnings.0);
        let by_hand = self
            .replace
            .as_ref()
            .and_then(|replace| replace(&lowered.launch.entry));
        let (module, text) = match by_hand {
            Some(text) => (ptx::Module::parse(&text)?, OnceLock::from(text)),
            None => (lowered.module, OnceLock::new()),
        };
        // What was edited by hand records nothing.
        let trace = lowered.trace.filter(|_| text.get().is_none());
        Ok(Compiled(Arc::new(Product {
            display: traced.display,
            printed: traced.printed,
            contracts,
            is_replaced: text.get().is_some(),
            module: Arc::new(module),
            roles: Roles::of(&lowered.launch.params),
            info: lowered.launch,
            warnings: of_instance(warnings, instance),
            steps,
            text,
            trace: trace.map(Arc::new),
        })))
    }
}

/// What is wrong with one instance of a generic kernel may be right in the others, so it is said which one is meant.
fn of_instance(mut diagnostics: Diagnostics, instance: &Instance) -> Diagnostics {
    let display = instance.display();
    if display.contains('<') {
        for diagnostic in &mut diagnostics.0 {
            diagnostic.notes.push(format!("in `{display}`"));
        }
    }
    diagnostics
}

impl fmt::Debug for Compiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compiler")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// What one step of compiling took.
#[derive(Clone, Copy, Debug)]
pub struct StepTime {
    /// `trace`, a pass, or `emit`.
    pub name: &'static str,
    /// Its wall time.
    pub time: Duration,
}

/// A compiled kernel. Cloning it gives another name for the same.
#[derive(Clone)]
pub struct Compiled(Arc<Product>);

struct Product {
    display: Arc<str>,
    printed: Vec<Printed>,
    contracts: Contracts,
    is_replaced: bool,
    module: Arc<ptx::Module>,
    info: LaunchInfo,
    roles: Roles,
    warnings: Diagnostics,
    steps: Vec<StepTime>,
    text: OnceLock<String>,
    trace: Option<Arc<TraceTable>>,
}

impl Compiled {
    /// The kernel's name with its compile-time parameters, for people: `vector_add<1024>`.
    pub fn display(&self) -> &str {
        &self.0.display
    }

    /// What a launch must know.
    pub fn info(&self) -> &LaunchInfo {
        &self.0.info
    }

    /// What the records mean that it makes, if it was compiled to be traced. Its code then takes a buffer for them as one parameter more
    /// than [`info`](Compiled::info) says.
    pub fn trace(&self) -> Option<&Arc<TraceTable>> {
        self.0.trace.as_ref()
    }

    /// The PTX, as data.
    pub fn module(&self) -> &Arc<ptx::Module> {
        &self.0.module
    }

    /// The PTX, as text.
    pub fn ptx(&self) -> &str {
        self.0.text.get_or_init(|| self.0.module.to_text())
    }

    /// Whether the PTX was edited by hand.
    pub fn is_replaced(&self) -> bool {
        self.0.is_replaced
    }

    /// The same kernel with other PTX: a change that keeps its parameters and what a launch must know.
    #[must_use]
    pub(crate) fn with_module(&self, module: ptx::Module) -> Compiled {
        let product = &*self.0;
        Compiled(Arc::new(Product {
            display: Arc::clone(&product.display),
            printed: Vec::new(),
            contracts: product.contracts,
            is_replaced: true,
            module: Arc::new(module),
            info: product.info.clone(),
            roles: product.roles,
            warnings: Diagnostics::default(),
            steps: Vec::new(),
            text: OnceLock::new(),
            trace: product.trace.clone(),
        }))
    }

    /// What is probably not what the author wants.
    pub fn warnings(&self) -> &Diagnostics {
        &self.0.warnings
    }

    /// What `static_print!` said.
    pub fn printed(&self) -> &[Printed] {
        &self.0.printed
    }

    /// What each step took, in order; tracing comes first.
    pub fn steps(&self) -> &[StepTime] {
        &self.0.steps
    }

    /// An error where no GPU can run the kernel as it is meant, but the emulator can: a print beside `wgmma`.
    ///
    /// # Errors
    /// [`Error::Kernel`] with what stands in the way.
    pub fn check_assembly(&self) -> Result<()> {
        let stops = |d: &&Diagnostic| d.code == Code::CallBesideWgmma && !self.is_replaced();
        let stopping = self.0.warnings.0.iter().filter(stops).cloned();
        let errors = Diagnostics(stopping.map(Diagnostic::error_instead).collect());
        if errors.has_errors() {
            return Err(Error::Kernel(errors));
        }
        Ok(())
    }

    /// CTAs that an SM holds at a time: by the registers that ptxas gives a thread, or without a ptxas by threads and shared memory alone.
    ///
    /// # Errors
    /// What ptxas has against the code.
    pub(crate) fn resident_ctas(&self, toolchain: &Toolchain) -> Result<u32> {
        let info = self.info();
        let (mut registers, mut shared_bytes) = (1, info.shared_bytes);
        if toolchain.assembles()
            && let Image::Cubin { assembled, .. } = toolchain.assemble(self.ptx())?
            && let Some(report) = assembled.report.entry(&info.entry)
        {
            registers = report.registers;
            shared_bytes += report.shared_bytes;
        }
        let occupancy = info.target.occupancy(info.threads, registers, shared_bytes);
        Ok(occupancy.ctas)
    }

    /// Puts the code on `device`.
    ///
    /// # Errors
    /// What stops the kernel on a GPU, what ptxas or the driver has against the code, or [`Error::Spills`] if the kernel forbids them.
    pub fn load(&self, device: &Device) -> Result<Arc<Entry>> {
        let info = &self.0.info;
        let shape = EntryShape {
            name: info.entry.to_string(),
            threads: [info.threads, 1, 1],
            cluster: info.cluster,
            shared_bytes: info.shared_bytes,
            overlaps_previous: false,
            is_cooperative: info.is_cooperative,
            parameters: Some(info.params.len() + usize::from(self.0.trace.is_some())),
        };
        if device.is_cuda() {
            self.check_assembly()?;
        }
        let entry = device
            .load_module(&self.0.module, self.ptx())?
            .entry(shape)?;
        self.check_spills(&entry)?;
        Ok(entry)
    }

    /// Whether the kernel waits for the launch before it (`launch_wait()`), and so may overlap with that.
    pub fn waits_for_previous(&self) -> bool {
        let waits = |statement: &ptx::Stmt| {
            let wait = ptx::GridDepOp::Wait;
            let inst = statement.instruction().map(|instruction| &instruction.inst);
            matches!(inst, Some(ptx::Inst::GridDepControl(control)) if control.op == wait)
        };
        let entry = self.0.module.entry(&self.0.info.entry);
        entry.is_some_and(|entry| entry.body.statements.iter().any(waits))
    }

    /// An error unless the kernel waits for the launch before it.
    pub(crate) fn check_waits(&self) -> Result<()> {
        if self.waits_for_previous() {
            return Ok(());
        }
        Err(Error::NeverWaits {
            kernel: self.0.display.to_string(),
        })
    }

    /// An error unless the packed arguments are as the kernel was promised; notes which buffers it reads and writes.
    #[inline]
    pub(crate) fn check_promises(&self, parameters: &mut ParameterBlock) -> Result<()> {
        promises::check(
            &self.0.info.entry,
            &self.0.info.params,
            self.0.roles,
            parameters,
        )
    }

    fn check_spills(&self, entry: &Entry) -> Result<()> {
        let Some(assembly) = entry.assembly() else {
            return Ok(());
        };
        let (store_bytes, load_bytes) = (assembly.spill_store_bytes, assembly.spill_load_bytes);
        if self.0.contracts.denies_spills && store_bytes + load_bytes > 0 {
            let kernel = self.0.display.to_string();
            return Err(Error::Spills {
                kernel,
                store_bytes,
                load_bytes,
            });
        }
        Ok(())
    }
}

impl fmt::Debug for Compiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Compiled({})", self.0.display)
    }
}
