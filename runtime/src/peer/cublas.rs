//! `cublasGemmEx`.

#![allow(unsafe_code, reason = "foreign functions of cuBLAS")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::marker::PhantomData;

use super::dynamic::library_functions;
use super::gemm::{ColumnMajor, Gemm, Types};
use super::library::libraries;
use super::place::place_of;
use super::rivals::Rival;
use crate::buffer::Buffer;
use crate::device::Device;
use crate::element::DeviceElement;
use crate::error::{Error, Result};
use crate::stream::Stream;

library_functions! {
    /// The part of `cublas_v2.h` that is used.
    Cublas {
        cublasCreate_v2(*mut Handle) -> u32;
        cublasDestroy_v2(Handle) -> u32;
        cublasSetStream_v2(Handle, *mut c_void) -> u32;
        cublasSetWorkspace_v2(Handle, *mut c_void, usize) -> u32;
        cublasGetStatusString(u32) -> *const c_char;
        cublasGemmEx(
            Handle, u32, u32, c_int, c_int, c_int, *const c_void, *const c_void, u32, c_int, *const c_void, u32, c_int,
            *const c_void, *mut c_void, u32, c_int, u32, c_int,
        ) -> u32;
    }
}

/// `cublasHandle_t`.
type Handle = *mut c_void;

/// What cuBLAS recommends on Hopper, bytes.
pub(super) const WORKSPACE_BYTES: usize = 32 << 20;

/// `CUBLAS_GEMM_DEFAULT`: its own choice of an algorithm.
const ITS_OWN_CHOICE: c_int = -1;

impl Cublas {
    fn check(&self, call: &str, status: u32) -> Result<(), String> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: gives a static text for every number.
        let text = unsafe { (self.cublasGetStatusString)(status) };
        Err(format!("{call}: {}", text_of(text, status)))
    }
}

/// The library's text for a status.
pub(super) fn text_of(text: *const c_char, status: u32) -> String {
    if text.is_null() {
        return format!("status {status}");
    }
    // SAFETY: the library's texts are static and end with a null.
    let text = unsafe { CStr::from_ptr(text) };
    format!("{} ({status})", text.to_string_lossy())
}

/// A handle that launches on one stream, with its workspace.
struct Session {
    library: &'static Cublas,
    handle: Handle,
    workspace: Buffer<u8>,
}

impl Session {
    fn new(library: &'static Cublas, stream: &Stream, raw: *mut c_void) -> Result<Session, String> {
        let workspace = Buffer::<u8>::new(stream.device(), WORKSPACE_BYTES);
        let workspace = workspace.map_err(|error| error.to_string())?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: writes one handle; the device's context is current.
        let status = unsafe { (library.cublasCreate_v2)(&raw mut handle) };
        library.check("cublasCreate", status)?;
        let place = std::ptr::without_provenance_mut(workspace.address() as usize);
        let session = Session {
            library,
            handle,
            workspace,
        };
        // SAFETY: handle and stream live. The workspace comes second, because another stream forgets it.
        let status = unsafe { (library.cublasSetStream_v2)(handle, raw) };
        library.check("cublasSetStream", status)?;
        // SAFETY: the workspace is device memory of that size and lives in the session.
        let status = unsafe { (library.cublasSetWorkspace_v2)(handle, place, WORKSPACE_BYTES) };
        library.check("cublasSetWorkspace", status)?;
        Ok(session)
    }

    fn gemm(
        &self,
        what: &Sizes,
        of: &ColumnMajor,
        [left, right, result]: [u64; 3],
    ) -> Result<(), String> {
        let types = of.types;
        let zero = [0u8; 8];
        let place = |address: u64| std::ptr::without_provenance_mut::<c_void>(address as usize);
        // SAFETY: alpha and beta are of the scale's type; the matrices are device memory of the sizes that were checked
        // against their tensors.
        let status = unsafe {
            (self.library.cublasGemmEx)(
                self.handle,
                u32::from(of.left_is_transposed),
                u32::from(of.right_is_transposed),
                what.rows,
                what.columns,
                what.inner,
                types.one.as_ptr().cast(),
                place(left),
                types.left,
                what.left_stride,
                place(right),
                types.right,
                what.right_stride,
                zero.as_ptr().cast(),
                place(result),
                types.result,
                what.result_stride,
                types.compute,
                ITS_OWN_CHOICE,
            )
        };
        self.library.check("cublasGemmEx", status)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // It would wait for a kernel that does not end.
        if self.workspace.device().is_abandoned() {
            return;
        }
        // SAFETY: created once, destroyed once.
        let _ = unsafe { (self.library.cublasDestroy_v2)(self.handle) };
    }
}

/// NVIDIA's cuBLAS on one stream, by `cublasGemmEx`: what products of our own are compared with and timed beside, outside of cases. In a case,
/// [`Peer::Cublas`](crate::Peer::Cublas) times the candidates of cublasLt too, and says where the libraries are looked for.
pub struct CublasHandle<'s> {
    session: Session,
    /// What the library launches on.
    _stream: PhantomData<&'s Stream>,
    device: Device,
    version: &'static str,
}

impl<'s> CublasHandle<'s> {
    /// A handle that launches on this stream, with a workspace of 32 MiB.
    ///
    /// # Errors
    /// [`Error::Peer`] on the emulator, with where cuBLAS was looked for, and with what cuBLAS says.
    pub fn new(stream: &'s Stream) -> Result<CublasHandle<'s>> {
        let open = || {
            let raw = stream.raw_cuda().ok_or("it needs a GPU")?;
            let libraries = libraries()?;
            stream.bind().map_err(|error| error.to_string())?;
            let session = Session::new(&libraries.cublas, stream, raw)?;
            Ok((session, libraries.version.as_str()))
        };
        let (session, version) = open().map_err(failure)?;
        Ok(CublasHandle {
            session,
            _stream: PhantomData,
            device: stream.device().clone(),
            version,
        })
    }

    /// Its release, such as `13.1.0`.
    pub fn version(&self) -> &str {
        self.version
    }

    /// `C[M, N] = A[M, K] · B[K, N]`, all row-major and packed, of one element type; with `is_transposed`, B lies as `[N, K]`. It is put on the
    /// stream and can be captured.
    ///
    /// # Errors
    /// [`Error::Peer`] for buffers of other lengths or another device, for an element type that cuBLAS does not multiply, and with what cuBLAS says.
    pub fn multiply<T: DeviceElement>(
        &self,
        size: [usize; 3],
        buffers: [&Buffer<T>; 3],
        is_transposed: bool,
    ) -> Result<()> {
        let [m, n, k] = size;
        let lengths = buffers.map(Buffer::len);
        if lengths != [m * k, k * n, m * n] {
            return Err(failure(format!(
                "buffers of {lengths:?} elements hold no product of {m}×{n}×{k}"
            )));
        }
        self.multiply_at(size, buffers.map(|buffer| (buffer, 0)), is_transposed)
    }

    /// As [`multiply`](Self::multiply), of matrices that begin at these elements of their buffers.
    ///
    /// # Errors
    /// Those of [`multiply`](Self::multiply), and [`Error::Peer`] for a matrix that ends outside of its buffer.
    pub fn multiply_at<T: DeviceElement>(
        &self,
        [m, n, k]: [usize; 3],
        [a, b, c]: [(&Buffer<T>, usize); 3],
        is_transposed: bool,
    ) -> Result<()> {
        let place = |name, matrix, elements| {
            place_of(&self.device, name, matrix, elements).map_err(failure)
        };
        let places = [
            place("b", b, k * n)?,
            place("a", a, m * k)?,
            place("c", c, m * n)?,
        ];
        let product = ColumnMajor {
            rows: n,
            columns: m,
            inner: k,
            left_is_transposed: is_transposed,
            left_stride: if is_transposed { k } else { n },
            right_is_transposed: false,
            right_stride: k,
            result_stride: n,
            types: Types::of(T::DTYPE, T::DTYPE, T::DTYPE).map_err(failure)?,
        };
        self.device.bind()?;
        let sizes = Sizes::of(&product).map_err(failure)?;
        let done = self.session.gemm(&sizes, &product, places);
        done.map_err(failure)
    }
}

fn failure(reason: String) -> Error {
    Error::Peer {
        peer: "cublasGemmEx",
        reason,
    }
}

/// Extents as cuBLAS counts them.
struct Sizes {
    rows: c_int,
    columns: c_int,
    inner: c_int,
    left_stride: c_int,
    right_stride: c_int,
    result_stride: c_int,
}

impl Sizes {
    fn of(product: &ColumnMajor) -> Result<Sizes, String> {
        let count = |value: usize| {
            c_int::try_from(value).map_err(|_| format!("{value} is more than it can count"))
        };
        Ok(Sizes {
            rows: count(product.rows)?,
            columns: count(product.columns)?,
            inner: count(product.inner)?,
            left_stride: count(product.left_stride)?,
            right_stride: count(product.right_stride)?,
            result_stride: count(product.result_stride)?,
        })
    }
}

/// The product by `cublasGemmEx`, tried once.
pub(super) fn rivals(gemm: &Gemm, stream: &Stream, copies: usize) -> Result<Vec<Rival>, String> {
    let raw = stream.raw_cuda().ok_or("it needs a GPU")?;
    if gemm.is_scaled() {
        return Err("it takes no scales".to_string());
    }
    let libraries = libraries()?;
    let product = gemm.column_major()?;
    let sizes = Sizes::of(&product)?;
    let places = gemm.addresses(stream.device(), copies);
    let places = places.map_err(|error| error.to_string())?;
    let session = Session::new(&libraries.cublas, stream, raw)?;
    session.gemm(&sizes, &product, places[0])?;
    stream.synchronize().map_err(|error| error.to_string())?;
    Ok(vec![Rival {
        name: format!("cublasGemmEx {}", libraries.version),
        family: None,
        launch: Box::new(move |stream, copy| {
            stream.bind()?;
            let done = session.gemm(&sizes, &product, places[copy]);
            done.map_err(failure)
        }),
    }])
}
