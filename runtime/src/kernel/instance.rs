//! Kernel functions, with and without their types.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use gluon_lang::diag::Diagnostics;
use gluon_lang::lang::{KernelFn, Traced};
use gluon_lang::rt::{KernelEntry, KernelInstance};

use super::compile::Compiler;
use super::typed::CompiledKernel;
use crate::error::Result;

/// A `#[kernel]` function whose compile-time parameters are fixed, such as `vector_add::<1024>`, to be compiled and
/// launched. `H` is the tuple of its parameters' handles.
pub trait Kernel<H>: KernelFn<H> + Send + Sync + 'static {
    /// Compiles it to PTX.
    ///
    /// # Errors
    /// [`Error::Kernel`](crate::Error::Kernel) with what is wrong with it.
    fn compile(self, compiler: &Compiler) -> Result<CompiledKernel<H>> {
        Ok(CompiledKernel::new(compiler.compile(&Instance::of(self))?))
    }
}

impl<H, K: KernelFn<H> + Send + Sync + 'static> Kernel<H> for K {}

/// A kernel without its types: what can be listed, compiled and shown.
#[derive(Clone)]
pub struct Instance {
    trace: Arc<dyn Fn() -> Result<Traced, Diagnostics> + Send + Sync>,
    type_name: Cow<'static, str>,
}

impl Instance {
    /// That of a kernel function.
    pub fn of<H, K: Kernel<H>>(kernel: K) -> Instance {
        Instance {
            trace: Arc::new(move || kernel.trace()),
            type_name: std::any::type_name::<K>().into(),
        }
    }

    /// Runs the function once and records what it does.
    ///
    /// # Errors
    /// What is wrong with the kernel.
    pub fn trace(&self) -> Result<Traced, Diagnostics> {
        (self.trace)()
    }

    /// The function's full path with its compile-time parameters, as rustc writes it: unique in the program. For people
    /// there is [`Traced::display`].
    pub fn path(&self) -> &str {
        &self.type_name
    }
}

impl Instance {
    /// That of an instance which the kernel's attribute declares.
    pub(crate) fn declared(entry: &KernelEntry, instance: &KernelInstance) -> Instance {
        let arguments = instance.arguments;
        let path = format!("{}::{}", entry.module, entry.name);
        let path = if arguments.is_empty() {
            path
        } else {
            format!("{path}<{arguments}>")
        };
        let trace = instance.trace;
        Instance {
            trace: Arc::new(trace),
            type_name: path.into(),
        }
    }
}

impl PartialEq for Instance {
    fn eq(&self, other: &Instance) -> bool {
        self.type_name == other.type_name
    }
}

impl Eq for Instance {}

impl fmt::Debug for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Instance({})", self.type_name)
    }
}
