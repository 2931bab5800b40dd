//! The extension module of the Python package `tilekit`: exported kernels on the emulator.

mod map;
mod memory;

use emulator::{Emulator, Launch, Program};
use ptx::Module;
use tilekit_launch::{Manifest, Table};
use tilekit_python::pyo3::exceptions::PyRuntimeError;
use tilekit_python::pyo3::prelude::*;
use tilekit_python::pyo3::types::{PyDict, PyTuple};
use tilekit_python::{Passed, Place, grid_of, raised};

use memory::Memory;

/// A kernel of an exported package, decoded.
#[pyclass(frozen, module = "tilekit", crate = "tilekit_python::pyo3")]
struct Emulated {
    table: Table,
    program: Program,
}

/// Memory of the emulated GPU, bytes. It is taken from the host only as it is used.
const MEMORY_BYTES: u64 = 64 << 30;

#[pymethods(crate = "tilekit_python::pyo3")]
impl Emulated {
    /// Reads the table and the code of a kernel.
    #[new]
    fn new(manifest: &str, ptx: &str) -> PyResult<Emulated> {
        let table = Table::read(manifest).map_err(|error| raised(&error))?;
        let about = |error: &dyn std::fmt::Display| {
            let kernel = &table.manifest().kernel;
            PyRuntimeError::new_err(format!("{kernel}: its PTX cannot be emulated: {error}"))
        };
        let module = Module::parse(ptx).map_err(|error| about(&error))?;
        let program = Program::load(&module).map_err(|error| about(&error))?;
        Ok(Emulated { table, program })
    }

    /// Runs the kernel with these arguments, which are memory of the CPU, to its end or to a fault; says what it printed until then.
    #[pyo3(signature = (arguments, grid = None, seed = 0))]
    fn run(
        &self,
        py: Python<'_>,
        arguments: &Bound<'_, PyTuple>,
        grid: Option<&Bound<'_, PyAny>>,
        seed: u64,
    ) -> PyResult<()> {
        let manifest = self.table.manifest();
        let grid = grid.map(|grid| grid_of(grid, manifest)).transpose()?;
        let passed = Passed::read(manifest, arguments, Place::Host, None)?;
        let arguments = passed.arguments();
        let emulator = Emulator::with_memory(MEMORY_BYTES);
        let ended = py.detach(|| self.emulate(&emulator, grid, &arguments, seed));
        print(py, &emulator.take_output())?;
        ended
    }
}

impl Emulated {
    fn emulate(
        &self,
        emulator: &Emulator,
        grid: Option<[i64; 3]>,
        arguments: &[tilekit_launch::Argument<'_>],
        seed: u64,
    ) -> PyResult<()> {
        // As many multiprocessors as run CTAs at a time here.
        let cores = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
        let target = emulator.target();
        // At their own addresses first, for nothing may be copied that is not checked.
        let checked = self.table.pack(cores, grid, arguments, |_| Ok([0; 128]));
        let checked = checked.map_err(|error| raised(&error))?;
        if checked.grid.contains(&0) {
            return Ok(());
        }
        let written = self
            .table
            .manifest()
            .arguments()
            .map(|parameter| parameter.is_written);
        let memory = Memory::of(emulator.memory(), arguments, written)?;
        let moved = memory.moved(arguments);
        let encode = |shape: &_| map::encoded(shape, target);
        let packed = self.table.pack(cores, grid, &moved, encode);
        let packed = packed.map_err(|error| raised(&error))?;
        let manifest = self.table.manifest();
        let launch = launch_of(manifest, packed.grid, seed);
        let ended = emulator.launch(&self.program, &manifest.entry, &launch, &packed.parameters);
        ended.map_err(|fault| PyRuntimeError::new_err(fault.to_string()))?;
        memory.copy_back(emulator.memory())
    }
}

/// As Python prints, which a program may have sent elsewhere.
fn print(py: Python<'_>, text: &str) -> PyResult<()> {
    if text.is_empty() {
        return Ok(());
    }
    let named = PyDict::new(py);
    named.set_item("end", "")?;
    let builtins = py.import("builtins")?;
    builtins.call_method("print", (text,), Some(&named))?;
    Ok(())
}

fn launch_of(manifest: &Manifest, grid: [u32; 3], seed: u64) -> Launch {
    Launch {
        grid,
        block: [manifest.threads, 1, 1],
        cluster: manifest.cluster,
        is_cooperative: manifest.is_cooperative,
        dynamic_shared_bytes: manifest.shared_bytes,
        seed,
        ..Launch::default()
    }
}

/// The module `tilekit._emulator`.
#[pymodule]
#[pyo3(crate = "tilekit_python::pyo3")]
fn _emulator(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Emulated>()
}
