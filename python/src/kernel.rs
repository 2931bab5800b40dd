//! A kernel as Python sees it.

#![allow(unsafe_code, reason = "a stream's handle is the word of who passes it")]

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use tilekit_launch::{Manifest, Program};

use crate::arguments::Passed;
use crate::context;
use crate::recent::{How, Recent, Seen};
use crate::refusal::{Refusal, raised};
use crate::stream;
use crate::tensor::Place;

/// One kernel of the package, compiled for one set of its compile-time parameters.
#[pyclass(frozen, module = "tilekit")]
pub struct Kernel {
    name: &'static str,
    text: &'static str,
    program: &'static Program,
    recent: Recent,
}

impl Kernel {
    /// Of this name, manifest and code.
    pub fn new(name: &'static str, manifest: &'static str, program: &'static Program) -> Kernel {
        Kernel {
            name,
            text: manifest,
            program,
            recent: Recent::default(),
        }
    }

    fn table(&self) -> PyResult<&'static Manifest> {
        self.program.manifest().map_err(|error| raised(&error))
    }
}

#[pymethods]
impl Kernel {
    /// The kernel's name in the package.
    #[getter(__name__)]
    fn name(&self) -> &'static str {
        self.name
    }

    /// The kernel's table as JSON.
    #[getter]
    fn manifest(&self) -> &'static str {
        self.text
    }

    fn __repr__(&self) -> PyResult<String> {
        let table = self.table()?;
        Ok(format!("<kernel {}: {}>", table.kernel, table.signature()))
    }

    /// Loads the code on this GPU, so that no later launch there loads: before a stream is captured.
    #[pyo3(signature = (device = 0))]
    fn warm(&self, py: Python<'_>, device: i32) -> PyResult<()> {
        let warm = || self.program.warm(&context::primary(device)?);
        py.detach(warm).map_err(|error| raised(&error))
    }

    /// Puts a launch with these arguments on a stream, and does not wait for it.
    ///
    /// `stream`: its handle or a stream of torch or CuPy; without, the one on which the tensors' framework works now.
    /// `grid`: CTAs in x, y and z, for a kernel whose signature has no rule for it.
    /// `overlap`: whether the launch may begin before the one in front of it has ended.
    #[pyo3(signature = (arguments, stream = None, grid = None, overlap = false))]
    fn launch(
        &self,
        py: Python<'_>,
        arguments: &Bound<'_, PyTuple>,
        stream: Option<&Bound<'_, PyAny>>,
        grid: Option<&Bound<'_, PyAny>>,
        overlap: bool,
    ) -> PyResult<()> {
        let table = self.table()?;
        let about = |name| move |refusal: Refusal| refusal.of_argument(py, table, name);
        let named = stream
            .map(stream::named)
            .transpose()
            .map_err(about("stream"))?;
        let grid = grid.map(|grid| grid_of(grid, table)).transpose()?;
        let how = How {
            grid,
            overlaps: overlap,
        };
        let seen = Seen::read(table, arguments);
        if let Some(seen) = &seen
            && stream.is_none_or(stream::is_number)
            && self.recent.launch(py, seen, named, how)?
        {
            return Ok(());
        }
        let passed = Passed::read(table, arguments, Place::Gpu, named)?;
        let device = passed.device();
        if let Some(stream) = stream {
            passed.check_stream(stream, device)?;
        }
        let handle = match named {
            Some(handle) => handle,
            None => passed.stream(py, device)?,
        };
        let arguments = passed.arguments();
        let (program, values) = (self.program, seen.as_ref().map(|seen| &seen.values));
        let launch = || {
            // SAFETY: the stream lives and is of the primary context by the word of the caller or of the tensors' framework.
            let queue = unsafe { stream::queue(device, handle, overlap) }?;
            let Some(values) = values else {
                return program.launch(&queue, grid, &arguments).map(|()| None);
            };
            let mut prepared = program.prepare(&queue, grid, &arguments)?;
            if let Some(prepared) = &mut prepared
                && !prepared.launch(&queue, values)?
            {
                program.launch(&queue, grid, &arguments)?;
            }
            Ok(prepared)
        };
        let prepared = py.detach(launch).map_err(|error| raised(&error))?;
        if let (Some(prepared), Some(seen)) = (prepared, &seen) {
            self.recent.keep(prepared, seen, how);
        }
        Ok(())
    }

    /// The same with the arguments as its own.
    #[pyo3(signature = (*arguments, stream = None, grid = None, overlap = false))]
    fn __call__(
        &self,
        py: Python<'_>,
        arguments: &Bound<'_, PyTuple>,
        stream: Option<&Bound<'_, PyAny>>,
        grid: Option<&Bound<'_, PyAny>>,
        overlap: bool,
    ) -> PyResult<()> {
        self.launch(py, arguments, stream, grid, overlap)
    }
}

/// CTAs in x, y and z of what a caller passes for `grid`.
///
/// # Errors
/// What is no one to three counts.
pub fn grid_of(grid: &Bound<'_, PyAny>, table: &Manifest) -> PyResult<[i64; 3]> {
    counts(grid).map_err(|refusal| refusal.of_argument(grid.py(), table, "grid"))
}

/// `8`, `(8, 2)` or `(8, 2, 1)`.
fn counts(grid: &Bound<'_, PyAny>) -> Result<[i64; 3], Refusal> {
    if let Ok(x) = grid.extract::<i64>() {
        return Ok([x, 1, 1]);
    }
    let counts = grid.extract::<Vec<i64>>().ok();
    let counts = counts.filter(|counts| (1..=3).contains(&counts.len()));
    let Some(counts) = counts else {
        return Err(Refusal::Type(format!(
            "is {grid}; it must be one to three counts of CTAs: along x, y and z"
        )));
    };
    let mut grid = [1; 3];
    grid[..counts.len()].copy_from_slice(&counts);
    Ok(grid)
}
