//! A case's inputs and outputs: host data made when it is looked at, device data made when it is launched with.

use std::fmt;
use std::ops::Index;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::cache::CaseCache;
use super::random::Generator;
use super::shape::Shape;
use crate::buffer::Buffer;
use crate::device::Device;
use crate::element::DeviceElement;
use crate::error::{Error, Result};

/// A tensor that the kernel reads, row-major.
///
/// It is indexed on the host as the reference needs it: `x[i]` by place in memory, `x[[row, column]]` by index. Its
/// elements are made when they are first needed, so that listing cases costs nothing.
pub struct Input<T> {
    tensor: Arc<InputData<T>>,
    shape: Shape,
}

struct InputData<T> {
    name: String,
    len: usize,
    source: Source<T>,
    cache: Option<Arc<CaseCache>>,
    host: OnceLock<Arc<Vec<T>>>,
    device: Copies<T>,
}

/// The copies of a tensor on its case's device, made when they are first requested. Checks use the first alone; timed
/// launches take several in turn.
type Copies<T> = Mutex<Vec<Arc<Buffer<T>>>>;

/// Where an input's elements come from.
enum Source<T> {
    Random { generator: Generator, seed: u64 },
    Function(Box<dyn Fn(usize) -> T + Send + Sync>),
}

impl<T> Clone for Input<T> {
    fn clone(&self) -> Self {
        Input {
            tensor: Arc::clone(&self.tensor),
            shape: self.shape.clone(),
        }
    }
}

impl<T: DeviceElement> Input<T> {
    pub(super) fn random(
        name: &str,
        shape: Shape,
        generator: Generator,
        seed: u64,
        cache: Option<Arc<CaseCache>>,
    ) -> Input<T> {
        Input::new(name, shape, Source::Random { generator, seed }, cache)
    }

    pub(super) fn from_fn(
        name: &str,
        shape: Shape,
        element: impl Fn(usize) -> T + Send + Sync + 'static,
    ) -> Input<T> {
        Input::new(name, shape, Source::Function(Box::new(element)), None)
    }

    fn new(name: &str, shape: Shape, source: Source<T>, cache: Option<Arc<CaseCache>>) -> Input<T> {
        let tensor = InputData {
            name: name.to_string(),
            len: shape.len(),
            source,
            cache,
            host: OnceLock::new(),
            device: Copies::default(),
        };
        Input {
            tensor: Arc::new(tensor),
            shape,
        }
    }

    /// Its name in the case.
    pub fn name(&self) -> &str {
        &self.tensor.name
    }

    /// Its extents.
    pub fn shape(&self) -> &[usize] {
        self.shape.extents()
    }

    /// All elements, in memory order.
    pub fn host(&self) -> &[T] {
        self.tensor.host.get_or_init(|| match &self.tensor.source {
            Source::Random { generator, seed } => {
                let (name, len) = (&self.tensor.name, self.tensor.len);
                match &self.tensor.cache {
                    Some(cache) => cache.input(name, generator, *seed, len),
                    None => Arc::new(generator.make(*seed, name, len)),
                }
            }
            Source::Function(element) => Arc::new((0..self.tensor.len).map(element).collect()),
        })
    }

    /// The elements on `device`, copied there on the first call.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], or what the copy ended with.
    pub fn on_device(&self, device: &Device) -> Result<Arc<Buffer<T>>> {
        self.copy_on_device(device, 0)
    }

    pub(crate) fn copy_on_device(&self, device: &Device, copy: usize) -> Result<Arc<Buffer<T>>> {
        keep(&self.tensor.device, device, copy, || {
            Buffer::from_slice(device, self.host())
        })
    }
}

impl<T: DeviceElement> Index<usize> for Input<T> {
    type Output = T;

    #[inline]
    #[track_caller]
    fn index(&self, place: usize) -> &T {
        &self.host()[place]
    }
}

impl<T: DeviceElement, const N: usize> Index<[usize; N]> for Input<T> {
    type Output = T;

    #[inline]
    #[track_caller]
    fn index(&self, index: [usize; N]) -> &T {
        &self.host()[self.shape.offset(&index)]
    }
}

/// A tensor that the kernel writes, row-major. Before the launch it holds poison, so that an element which is never
/// written is found.
pub struct Output<T> {
    tensor: Arc<OutputData<T>>,
    shape: Shape,
}

struct OutputData<T> {
    name: String,
    len: usize,
    device: Copies<T>,
}

impl<T> Clone for Output<T> {
    fn clone(&self) -> Self {
        Output {
            tensor: Arc::clone(&self.tensor),
            shape: self.shape.clone(),
        }
    }
}

impl<T: DeviceElement> Output<T> {
    pub(super) fn new(name: &str, shape: Shape) -> Output<T> {
        let tensor = OutputData {
            name: name.to_string(),
            len: shape.len(),
            device: Copies::default(),
        };
        Output {
            tensor: Arc::new(tensor),
            shape,
        }
    }

    /// Its name in the case.
    pub fn name(&self) -> &str {
        &self.tensor.name
    }

    /// Its extents.
    pub fn shape(&self) -> &[usize] {
        self.shape.extents()
    }

    pub(super) fn extents(&self) -> &Shape {
        &self.shape
    }

    /// The elements on `device`, poisoned on the first call.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], or what the fill ended with.
    pub fn on_device(&self, device: &Device) -> Result<Arc<Buffer<T>>> {
        self.copy_on_device(device, 0)
    }

    /// The elements where a launch has put them: on the device of its rank, or on `device` if none did.
    pub(super) fn where_written(&self, device: &Device) -> Result<Arc<Buffer<T>>> {
        let copies = self.tensor.device.lock();
        let first = copies
            .unwrap_or_else(PoisonError::into_inner)
            .first()
            .cloned();
        first.map_or_else(|| self.on_device(device), Ok)
    }

    pub(crate) fn copy_on_device(&self, device: &Device, copy: usize) -> Result<Arc<Buffer<T>>> {
        keep(&self.tensor.device, device, copy, || {
            let buffer = Buffer::new(device, self.tensor.len)?;
            buffer.poison()?;
            Ok(buffer)
        })
    }
}

/// Copy number `copy`, made now if it is not there. A tensor lives on one device at a time, that of its case.
fn keep<T: DeviceElement>(
    copies: &Copies<T>,
    device: &Device,
    copy: usize,
    make: impl Fn() -> Result<Buffer<T>>,
) -> Result<Arc<Buffer<T>>, Error> {
    let mut copies = copies.lock().unwrap_or_else(PoisonError::into_inner);
    copies.retain(|buffer| buffer.device() == device);
    while copies.len() <= copy {
        copies.push(Arc::new(make()?));
    }
    Ok(Arc::clone(&copies[copy]))
}

impl<T> fmt::Debug for Input<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Input({}, {})", self.tensor.name, self.shape)
    }
}

impl<T> fmt::Debug for Output<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Output({}, {})", self.tensor.name, self.shape)
    }
}
