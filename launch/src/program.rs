//! A kernel's code in the contexts that it is launched in.

#![allow(unsafe_code, reason = "foreign functions of the driver")]

use std::ffi::CString;
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::argument::Argument;
use crate::block::Block;
use crate::check::{Bound, Kernel, Place};
use crate::context::{Context, Queue};
use crate::driver::{Driver, Failure, FunctionHandle, LaunchShape};
use crate::error::Error;
use crate::manifest::Manifest;
use crate::nvtx;
use crate::prepared::Prepared;

/// Bytes at an address that is a multiple of 16, as the driver wants a cubin:
/// `static CODE: &Aligned<[u8]> = &Aligned(*include_bytes!("softmax.cubin"));`
#[derive(Debug)]
#[repr(C, align(16))]
pub struct Aligned<T: ?Sized>(pub T);

/// One kernel: its manifest and its code, which is loaded once for each context.
pub struct Program {
    manifest: &'static str,
    cubin: &'static Aligned<[u8]>,
    kernel: OnceLock<Result<Kernel, Error>>,
    /// Filled from the front, so that a launch finds its context without a lock.
    loaded: [OnceLock<Loaded>; CONTEXTS],
    loading: Mutex<()>,
}

/// Contexts that one process launches a kernel in. They are never forgotten, for a context's number is never used again.
const CONTEXTS: usize = 64;

/// Code in one context.
#[derive(Clone, Copy)]
struct Loaded {
    /// The driver's number of the context.
    context: u64,
    function: FunctionHandle,
}

impl Program {
    /// A kernel of this manifest and cubin. Nothing is read or loaded before the first launch.
    pub const fn new(manifest: &'static str, cubin: &'static Aligned<[u8]>) -> Program {
        Program {
            manifest,
            cubin,
            kernel: OnceLock::new(),
            loaded: [const { OnceLock::new() }; CONTEXTS],
            loading: Mutex::new(()),
        }
    }

    /// The table of the kernel.
    ///
    /// # Errors
    /// A manifest of a newer form, or a broken one.
    pub fn manifest(&self) -> Result<&Manifest, Error> {
        self.kernel().map(|kernel| &kernel.manifest)
    }

    fn kernel(&self) -> Result<&Kernel, Error> {
        let kernel = self.kernel.get_or_init(|| Kernel::read(self.manifest));
        kernel.as_ref().map_err(Clone::clone)
    }

    /// Loads the code, so that no later launch in this context loads: before a stream is captured, and before kernels that
    /// wait for one another.
    ///
    /// # Errors
    /// No driver, a GPU that cannot run the kernel, or what the driver refuses.
    pub fn warm(&self, context: &Context) -> Result<(), Error> {
        let (kernel, driver) = (self.kernel()?, Driver::get()?);
        context.check_process()?;
        let _entered = context.enter(driver).map_err(|f| about(kernel, f))?;
        self.function(kernel, driver, context, None).map(|_| ())
    }

    /// Puts a launch with these arguments on `queue`: one for each parameter that is not derived. `grid` has the CTAs in x, y
    /// and z for a kernel whose signature has no rule for it. An empty grid is no launch.
    ///
    /// # Errors
    /// What does not fit the kernel's table, or what the driver refuses. A fault of the kernel itself shows at a later
    /// synchronisation.
    pub fn launch(
        &self,
        queue: &Queue<'_>,
        grid: Option<[i64; 3]>,
        arguments: &[Argument<'_>],
    ) -> Result<(), Error> {
        let (kernel, driver, context) = (self.kernel()?, Driver::get()?, queue.context());
        let manifest = &kernel.manifest;
        let mut bound = Bound::new(kernel, Place::of(context), arguments);
        let Some(grid) = admitted(kernel, queue, &mut bound, grid)? else {
            return Ok(());
        };
        let mut block = Block::new(manifest.parameter_bytes);
        bound.pack(&mut block, |map| {
            map.encode(|shape| shape.encode_cached(driver).map_err(|f| about(kernel, f)))
        })?;
        let _entered = context.enter(driver).map_err(|f| about(kernel, f))?;
        let function = self.function(kernel, driver, context, Some(queue))?;
        let mut pointers = block.pointers(&manifest.parameters);
        let shape = shape_in(manifest, grid, queue);
        let _range = nvtx::range(&manifest.entry);
        // SAFETY: the function is of the context, which is current, and so is the stream by the word of who made the queue;
        // the pointers are those of the manifest's parameters, which are the function's.
        let launched = unsafe { driver.enqueue(&shape, function, queue.stream(), &mut pointers) };
        launched.map_err(|failure| about(kernel, failure))
    }

    /// Checks a launch with these arguments as [`launch`](Program::launch) does, loads the code, and keeps what follows from
    /// everything but the addresses of tensors. None for an empty grid, which is no launch.
    ///
    /// # Errors
    /// As for [`launch`](Program::launch).
    pub fn prepare(
        &self,
        queue: &Queue<'_>,
        grid: Option<[i64; 3]>,
        arguments: &[Argument<'_>],
    ) -> Result<Option<Prepared<'_>>, Error> {
        let (kernel, driver, context) = (self.kernel()?, Driver::get()?, queue.context());
        let mut bound = Bound::new(kernel, Place::of(context), arguments);
        let Some(grid) = admitted(kernel, queue, &mut bound, grid)? else {
            return Ok(None);
        };
        let _entered = context.enter(driver).map_err(|f| about(kernel, f))?;
        let function = self.function(kernel, driver, context, Some(queue))?;
        let shape = shape_in(&kernel.manifest, grid, queue);
        Prepared::new(&bound, driver, *context, function, shape).map(Some)
    }

    /// The function in `context`, which is current.
    fn function(
        &self,
        kernel: &Kernel,
        driver: &Driver,
        context: &Context,
        queue: Option<&Queue<'_>>,
    ) -> Result<FunctionHandle, Error> {
        if let Some(function) = self.find(context) {
            return Ok(function);
        }
        let _guard = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(function) = self.find(context) {
            return Ok(function);
        }
        if let Some(queue) = queue
            && queue.is_capturing(driver).map_err(|f| about(kernel, f))?
        {
            return Err(Error::of_runtime(format!(
                "{}: the stream is being captured and the kernel is not loaded in its context; call `warm` before the capture",
                kernel.manifest.signature()
            )));
        }
        let function = load(kernel, &self.cubin.0, driver, context)?;
        let free = self.loaded.iter().find(|slot| slot.get().is_none());
        let free = free.ok_or_else(|| {
            Error::of_runtime(format!(
                "{}: the kernel is loaded in {CONTEXTS} contexts already; use the primary context of each GPU",
                kernel.manifest.signature()
            ))
        })?;
        // The lock is held: nobody else fills it.
        let _ = free.set(Loaded {
            context: context.id,
            function,
        });
        Ok(function)
    }

    fn find(&self, context: &Context) -> Option<FunctionHandle> {
        let filled = self.loaded.iter().map_while(OnceLock::get);
        let mut found = filled.filter(|loaded| loaded.context == context.id);
        found.next().map(|loaded| loaded.function)
    }
}

/// Checks the process, the arguments and the grid; none for an empty one.
fn admitted(
    kernel: &Kernel,
    queue: &Queue<'_>,
    bound: &mut Bound<'_, '_>,
    grid: Option<[i64; 3]>,
) -> Result<Option<[u32; 3]>, Error> {
    queue.context().check_process()?;
    bound.check()?;
    let grid = bound.grid(grid)?;
    if queue.overlaps_previous() && !kernel.manifest.waits_for_previous {
        return Err(Error::of_value(format!(
            "{}: the launch may overlap the one before it, and the kernel does not wait for that; launch it without",
            kernel.manifest.signature()
        )));
    }
    Ok((!grid.contains(&0)).then_some(grid))
}

/// What a launch of this grid on this queue says.
fn shape_in(manifest: &Manifest, grid: [u32; 3], queue: &Queue<'_>) -> LaunchShape {
    LaunchShape {
        grid,
        overlaps_previous: queue.overlaps_previous(),
        ..shape_of(manifest)
    }
}

pub(crate) fn about(kernel: &Kernel, failure: Failure) -> Error {
    Error::of_driver(&kernel.manifest.signature(), failure)
}

/// What every launch of the kernel says, with a grid of one cluster.
fn shape_of(manifest: &Manifest) -> LaunchShape {
    LaunchShape {
        grid: manifest.cluster,
        threads: [manifest.threads, 1, 1],
        cluster: manifest.cluster,
        shared_bytes: manifest.shared_bytes,
        overlaps_previous: false,
        is_cooperative: manifest.is_cooperative,
    }
}

/// Loads the code into the current context and makes it ready to be launched.
fn load(
    kernel: &Kernel,
    cubin: &[u8],
    driver: &Driver,
    context: &Context,
) -> Result<FunctionHandle, Error> {
    let manifest = &kernel.manifest;
    let (found, wanted) = (context.capability(), manifest.capability);
    if found != wanted {
        return Err(Error::of_runtime(format!(
            "{}: {} has compute capability {}.{}; {} code runs on {}.{} only",
            manifest.signature(),
            context.device_name(driver),
            found.0,
            found.1,
            manifest.arch,
            wanted.0,
            wanted.1
        )));
    }
    let refused = |failure| about(kernel, failure);
    // SAFETY: the image is a cubin, whose header says its length, aligned as its sections want, and the context is current. The
    // module is never unloaded: its functions are kept for the process.
    let module = unsafe { driver.load_module(cubin, None) }.map_err(refused)?;
    let entry = CString::new(manifest.entry.as_str()).map_err(|_| {
        Error::of_runtime(format!(
            "{}: the entry's name holds a null",
            manifest.signature()
        ))
    })?;
    // SAFETY: the module was loaded into the current context, and is never unloaded.
    let function = unsafe { driver.function(module, &entry) }.map_err(refused)?;
    let shape = shape_of(manifest);
    // SAFETY: the function is of the current context.
    let has_room = unsafe { make_ready(driver, &shape, function) }.map_err(refused)?;
    if has_room {
        return Ok(function);
    }
    let [x, y, z] = manifest.cluster;
    Err(Error::of_runtime(format!(
        "{}: the GPU, or the part of it that the context has, cannot hold a cluster of {x}x{y}x{z} CTAs of {} threads and {} \
         bytes of shared memory",
        manifest.signature(),
        manifest.threads,
        manifest.shared_bytes
    )))
}

/// Allows the function what launches of this shape need; whether the GPU has room for one.
///
/// # Safety
/// `function` is of the current context.
unsafe fn make_ready(
    driver: &Driver,
    shape: &LaunchShape,
    function: FunctionHandle,
) -> Result<bool, Failure> {
    // SAFETY: the caller's word, three times.
    unsafe {
        driver.allow_shared_bytes(function, shape.shared_bytes)?;
        driver.allow_cluster(function, shape.cluster)?;
        driver.has_room(shape, function)
    }
}
