//! Products as a program calls them: checks, the choice of an instance, copies where strides ask for them, launches.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tilekit::prelude::*;
use tilekit::{CompiledKernel, Compiler, Device, LoadedKernel};

use super::error::{Result, expect};
use super::instances::with_instance;
use super::matrix::Matrix;
use super::plan::{INSTANCES, Instance, Plan};
use super::repack::{TILE, repack};

/// An element type that products compute with: bf16 and f16.
pub trait Operand: Float + WgmmaOperand<Self, f32> + DeviceElement {}

impl Operand for bf16 {}
impl Operand for f16 {}

/// Matrix products on a device: the kernels that calls have needed so far, and what each stream needs of its own.
///
/// `C[M, N] = A[M, K] · B[K, N]`, each a view with any strides: row-major, column-major, a part of another matrix. Sums are f32, and results are rounded once.
/// [`Plan::best`] chooses the kernel. Kernels read K of both factors along rows whose pitch is a multiple of 16 bytes; a factor that
/// lies otherwise is copied first, and a result that does is written to a workspace and copied. A column-major C costs no copy: its transpose is computed.
/// [`plan`](Products::plan) says all that and launches nothing.
///
/// The first call that needs a kernel compiles and loads it, and the first one of a stream that copies allocates a workspace, which waits
/// for the device: neither may happen while a graph is captured.
///
/// ```
/// use tilekit::prelude::*;
/// use tilekit_kernels::products::Products;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let device = Device::auto(); // a GPU where there is one, else the emulator
/// let stream = Stream::new(&device)?;
/// let products = Products::new(&device);
///
/// let (m, n, k) = (40, 24, 16);
/// let a = Buffer::from_slice(&device, &vec![bf16::ONE; m * k])?;
/// let b = Buffer::from_slice(&device, &vec![bf16::ONE; k * n])?;
/// let (a, b) = (a.view([m, k]), b.view([k, n]));
/// let c = products.multiply(&stream, &a, &b)?;
/// stream.synchronize()?;
/// assert!(c.to_vec()?.iter().all(|&x| x == bf16::from_f32(16.0)));
/// # Ok(())
/// # }
/// ```
pub struct Products {
    device: Device,
    compiler: Compiler,
    kernels: Mutex<HashMap<(TypeId, Which), Box<dyn Any + Send>>>,
    workspaces: Mutex<Workspaces>,
    plans: Mutex<HashMap<[usize; 3], Planned>>,
}

/// The best plan of a size, and the place of its instance in [`INSTANCES`].
type Planned = (usize, Plan);

/// Sizes whose plans are kept. The model takes some microseconds, a look at the table a tenth of one.
const KEPT_PLANS: usize = 4096;

/// Workspaces by element type, stream and role.
type Workspaces = HashMap<(TypeId, u64, Role), Box<dyn Any + Send>>;

/// A kernel of an element type.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Which {
    /// By its place in [`INSTANCES`].
    Product(usize),
    /// From elements along this dimension to elements along that one.
    Repack(usize, usize),
}

/// A matrix of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Role {
    A,
    B,
    C,
}

/// How a call computes its product.
#[derive(Clone, Debug, PartialEq)]
pub struct CallPlan {
    /// The kernel and its grid; none where there is nothing to multiply.
    pub product: Option<Plan>,
    /// Cᵀ = Bᵀ · Aᵀ is computed, since C lies column by column.
    pub is_transposed: bool,
    /// What is copied, and why.
    pub copies: Vec<String>,
}

impl fmt::Display for CallPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.product {
            Some(plan) => write!(f, "{plan}")?,
            None => write!(f, "no product")?,
        }
        if self.is_transposed {
            write!(f, "; as the transpose")?;
        }
        self.copies
            .iter()
            .try_for_each(|copy| write!(f, "; {copy}"))
    }
}

type View<'a, T> = TensorView<'a, T>;

/// The parameters of `many_tiles`.
type ManyHandles<T> = (
    TensorMap<T>,
    TensorMap<T>,
    TensorMap<T>,
    Scalar<i32>,
    Scalar<i32>,
    Scalar<i32>,
);

/// The parameters of `few_tiles`.
type FewHandles<T> = (
    TensorMap<T>,
    TensorMap<T>,
    Ptr<T>,
    Scalar<i32>,
    Scalar<i32>,
    Scalar<i32>,
    Scalar<i32>,
);

/// A call that has been checked: `result[M, N] = x[M, K] · y[N, K]ᵀ`, and where the matrices lie.
struct Call {
    size: [usize; 3],
    x: Matrix,
    y: Matrix,
    result: Matrix,
    is_transposed: bool,
    element_bytes: usize,
}

impl Call {
    fn check<T: Operand>(a: &View<'_, T>, b: &View<'_, T>, c: &View<'_, T>) -> Result<Call> {
        let [x, y, result] = [
            Matrix::of("a", a)?,
            Matrix::of("b", b)?.transposed(),
            Matrix::of("c", c)?,
        ];
        let ([m, k], [n, depth]) = (x.shape, y.shape);
        let rows = || format!("{depth} rows");
        expect(depth == k, "b", rows, format!("{k}, the columns of a"))?;
        expect(
            result.shape == [m, n],
            "c",
            || format!("shape {:?}", result.shape),
            format!("{:?}: the rows of a, the columns of b", [m, n]),
        )?;
        expect(
            result.is_apart(),
            "c",
            || format!("{result}"),
            "rows or columns that do not overlap",
        )?;
        let element_bytes = size_of::<T>();
        let padded = Matrix::padded(result.shape, element_bytes).room();
        let room = result.room().max(padded);
        expect(
            i32::try_from(room).is_ok(),
            "c",
            || format!("{room} elements with their gaps"),
            format!("at most {}: indices have 32 bits", i32::MAX),
        )?;
        // The transpose of a column-major result is one in rows.
        let turned = result.transposed();
        let is_transposed =
            result.in_rows(element_bytes).is_none() && turned.in_rows(element_bytes).is_some();
        let (x, y, result) = if is_transposed {
            (y, x, turned)
        } else {
            (x, y, result)
        };
        Ok(Call {
            size: [x.shape[0], y.shape[0], k],
            x,
            y,
            result,
            is_transposed,
            element_bytes,
        })
    }

    fn plan(&self) -> CallPlan {
        let is_product = !self.size.contains(&0);
        let names = if self.is_transposed {
            ["b", "a"]
        } else {
            ["a", "b"]
        };
        let matrices = [self.x, self.y, self.result];
        let copies = matrices.iter().zip([names[0], names[1], "c"]);
        let copied = copies.filter(|(matrix, _)| is_product && self.is_copied(**matrix));
        CallPlan {
            product: is_product.then(|| Plan::best(self.size)),
            is_transposed: self.is_transposed,
            copies: copied
                .map(|(matrix, name)| {
                    let pitch = Matrix::padded(matrix.shape, self.element_bytes).strides[0];
                    // The strides of B itself: what is multiplied is its transpose.
                    let own = if name == "b" { matrix.transposed() } else { *matrix };
                    let [row, column] = own.strides;
                    format!("`{name}` copied: strides {row} and {column}, where rows of {pitch} are taken")
                })
                .collect(),
        }
    }

    fn is_copied(&self, matrix: Matrix) -> bool {
        matrix.in_rows(self.element_bytes).is_none()
    }
}

impl Products {
    /// On `device`. Nothing is compiled yet.
    pub fn new(device: &Device) -> Products {
        Products {
            device: device.clone(),
            compiler: Compiler::default(),
            kernels: Mutex::default(),
            workspaces: Mutex::default(),
            plans: Mutex::default(),
        }
    }

    /// `A[M, K] · B[K, N]`, into a new buffer of `[M, N]` without gaps.
    ///
    /// # Errors
    /// [`Error::Argument`](super::Error::Argument) names what does not fit; otherwise what the device has against it.
    pub fn multiply<T: Operand>(
        &self,
        stream: &Stream,
        a: &View<'_, T>,
        b: &View<'_, T>,
    ) -> Result<Buffer<T>> {
        let [m, n] = [Matrix::of("a", a)?.shape[0], Matrix::of("b", b)?.shape[1]];
        let c = Buffer::new(&self.device, m.saturating_mul(n))?;
        self.multiply_into(stream, a, b, &c.view([m, n]))?;
        Ok(c)
    }

    /// `C[M, N] = A[M, K] · B[K, N]`. Zeros where K is 0. No element of C is one of A or B.
    ///
    /// # Errors
    /// As for [`multiply`](Products::multiply).
    pub fn multiply_into<T: Operand>(
        &self,
        stream: &Stream,
        a: &View<'_, T>,
        b: &View<'_, T>,
        c: &View<'_, T>,
    ) -> Result<()> {
        let call = Call::check(a, b, c)?;
        let [m, n, k] = call.size;
        if m == 0 || n == 0 {
            return Ok(());
        }
        if k == 0 {
            return self.copy(stream, None, (c.source(), call.result));
        }
        let (roles, sources) = if call.is_transposed {
            ([Role::B, Role::A], [b.source(), a.source()])
        } else {
            ([Role::A, Role::B], [a.source(), b.source()])
        };
        let x = self.factor(stream, roles[0], sources[0], call.x)?;
        let y = self.factor(stream, roles[1], sources[1], call.y)?;
        let factors = [x.as_view(sources[0]), y.as_view(sources[1])];
        if let Some(result) = call.result.in_rows(call.element_bytes) {
            return self.launch(stream, factors, (c.source(), result), k);
        }
        let padded = Matrix::padded(call.result.shape, call.element_bytes);
        let workspace = self.workspace::<T>(stream, Role::C, padded.room())?;
        self.launch(stream, factors, (&*workspace, padded), k)?;
        let padded = Some((&*workspace, padded));
        self.copy(stream, padded, (c.source(), call.result))
    }

    /// How [`multiply_into`](Products::multiply_into) would compute it. Nothing is compiled or launched.
    ///
    /// # Errors
    /// [`Error::Argument`](super::Error::Argument) names what does not fit.
    pub fn plan<T: Operand>(
        &self,
        a: &View<'_, T>,
        b: &View<'_, T>,
        c: &View<'_, T>,
    ) -> Result<CallPlan> {
        Ok(Call::check(a, b, c)?.plan())
    }

    /// A factor in rows: where it is, or a copy.
    fn factor<T: Operand>(
        &self,
        stream: &Stream,
        role: Role,
        source: &Buffer<T>,
        matrix: Matrix,
    ) -> Result<InRows<T>> {
        if let Some(place) = matrix.in_rows(size_of::<T>()) {
            return Ok(InRows { copy: None, place });
        }
        let place = Matrix::padded(matrix.shape, size_of::<T>());
        let workspace = self.workspace::<T>(stream, role, place.room())?;
        self.copy(stream, Some((source, matrix)), (&*workspace, place))?;
        Ok(InRows {
            copy: Some(workspace),
            place,
        })
    }

    fn launch<T: Operand>(
        &self,
        stream: &Stream,
        [x, y]: [View<'_, T>; 2],
        (buffer, result): (&Buffer<T>, Matrix),
        k: usize,
    ) -> Result<()> {
        let [m, n] = result.shape;
        let (index, plan) = self.planned([m, n, k]);
        let which = Which::Product(index);
        match plan.instance {
            Instance::Many { .. } => {
                let kernel = self.kernel(which, TypeId::of::<T>(), || self.many(plan.instance))?;
                let c = view_of(buffer, result);
                let arguments = (x, y, c, m as i32, n as i32, k as i32);
                kernel.launch(stream, plan.grid, arguments)?;
            }
            Instance::Few { turned, .. } => {
                let kernel = self.kernel(which, TypeId::of::<T>(), || self.few(plan.instance))?;
                let c = view_of(buffer, result);
                let (x, y, [rows, columns]) = if turned {
                    (y, x, [n, m])
                } else {
                    (x, y, [m, n])
                };
                let pitch = result.strides[0] as i32;
                let sizes = (rows as i32, columns as i32, k as i32);
                kernel.launch(
                    stream,
                    plan.grid,
                    (x, y, &c, pitch, sizes.0, sizes.1, sizes.2),
                )?;
            }
        }
        Ok(())
    }

    /// The plan of a size: that of the calls before, or the model's.
    fn planned(&self, size: [usize; 3]) -> Planned {
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&planned) = plans.get(&size) {
            return planned;
        }
        let plan = Plan::best(size);
        let known = INSTANCES.iter().position(|known| *known == plan.instance);
        let index = known.expect("a plan is of an instance in the list");
        if plans.len() == KEPT_PLANS {
            plans.clear();
        }
        plans.insert(size, (index, plan));
        (index, plan)
    }

    fn many<T: Operand>(
        &self,
        instance: Instance,
    ) -> tilekit::Result<CompiledKernel<ManyHandles<T>>> {
        with_instance!(
            T,
            instance,
            many kernel => kernel.compile(&self.compiler),
            few _kernel => unreachable!("{instance} has another signature")
        )
    }

    fn few<T: Operand>(
        &self,
        instance: Instance,
    ) -> tilekit::Result<CompiledKernel<FewHandles<T>>> {
        with_instance!(
            T,
            instance,
            many _kernel => unreachable!("{instance} has another signature"),
            few kernel => kernel.compile(&self.compiler)
        )
    }

    /// Copies a matrix, or zeros where there is none.
    fn copy<T: Operand>(
        &self,
        stream: &Stream,
        source: Option<(&Buffer<T>, Matrix)>,
        (target, to): (&Buffer<T>, Matrix),
    ) -> Result<()> {
        let is_there = i32::from(source.is_some());
        let (source, from) = source.unwrap_or((target, to));
        let which = Which::Repack(from.along(), to.along());
        let kernel = self.kernel(which, TypeId::of::<T>(), || match which {
            Which::Repack(0, 0) => repack::<T, 0, 0>.compile(&self.compiler),
            Which::Repack(0, _) => repack::<T, 0, 1>.compile(&self.compiler),
            Which::Repack(_, 0) => repack::<T, 1, 0>.compile(&self.compiler),
            _ => repack::<T, 1, 1>.compile(&self.compiler),
        })?;
        let [rows, columns] = to.shape;
        let [from_row, from_column] = from.strides.map(|stride| stride as i64);
        let [to_row, to_column] = to.strides.map(|stride| stride as i64);
        kernel.launch(
            stream,
            [rows.div_ceil(TILE), columns.div_ceil(TILE)],
            (
                source,
                from.offset as i64,
                from_row,
                from_column,
                target,
                to.offset as i64,
                to_row,
                to_column,
                rows as i32,
                columns as i32,
                is_there,
            ),
        )?;
        Ok(())
    }

    /// A kernel, loaded at its first use.
    fn kernel<H: 'static>(
        &self,
        which: Which,
        element: TypeId,
        compile: impl FnOnce() -> tilekit::Result<CompiledKernel<H>>,
    ) -> Result<LoadedKernel<H>> {
        let mut kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        let loaded = kernels.get(&(element, which));
        if let Some(loaded) = loaded.and_then(|kernel| kernel.downcast_ref()) {
            return Ok(LoadedKernel::clone(loaded));
        }
        let loaded = compile()?.load(&self.device)?;
        kernels.insert((element, which), Box::new(loaded.clone()));
        Ok(loaded)
    }

    /// Memory of a stream for a copy, of so many elements or more.
    fn workspace<T: Operand>(
        &self,
        stream: &Stream,
        role: Role,
        elements: usize,
    ) -> Result<Arc<Buffer<T>>> {
        let locked = self.workspaces.lock();
        let mut workspaces = locked.unwrap_or_else(PoisonError::into_inner);
        let key = (TypeId::of::<T>(), stream.number(), role);
        let known = workspaces.get(&key);
        let known = known.and_then(|known| known.downcast_ref::<Arc<Buffer<T>>>());
        if let Some(known) = known.filter(|known| known.len() >= elements) {
            return Ok(Arc::clone(known));
        }
        let made = Arc::new(Buffer::<T>::new(&self.device, elements)?);
        workspaces.insert(key, Box::new(Arc::clone(&made)));
        Ok(made)
    }
}

/// A factor whose rows a tensor map takes.
struct InRows<T> {
    copy: Option<Arc<Buffer<T>>>,
    place: Matrix,
}

impl<T: DeviceElement> InRows<T> {
    fn as_view<'a>(&'a self, own: &'a Buffer<T>) -> View<'a, T> {
        view_of(self.copy.as_deref().unwrap_or(own), self.place)
    }
}

fn view_of<T: DeviceElement>(buffer: &Buffer<T>, matrix: Matrix) -> View<'_, T> {
    let view = buffer.view(matrix.shape).with_strides(matrix.strides);
    view.with_offset(matrix.offset)
}
