//! `cublasLtMatmul`, by the candidates of its heuristic.

#![allow(unsafe_code, reason = "foreign functions of cublasLt")]

use std::ffi::{c_char, c_int, c_void};
use std::rc::Rc;

use super::cublas::{WORKSPACE_BYTES, text_of};
use super::dynamic::library_functions;
use super::gemm::{ColumnMajor, Gemm};
use super::library::libraries;
use super::rivals::Rival;
use crate::buffer::Buffer;
use crate::error::{Error, Result};
use crate::stream::Stream;

library_functions! {
    /// The part of `cublasLt.h` that is used.
    CublasLt {
        cublasLtCreate(*mut Opaque) -> u32;
        cublasLtDestroy(Opaque) -> u32;
        cublasLtGetStatusString(u32) -> *const c_char;
        cublasLtMatmulDescCreate(*mut Opaque, u32, u32) -> u32;
        cublasLtMatmulDescDestroy(Opaque) -> u32;
        cublasLtMatmulDescSetAttribute(Opaque, u32, *const c_void, usize) -> u32;
        cublasLtMatrixLayoutCreate(*mut Opaque, u32, u64, u64, i64) -> u32;
        cublasLtMatrixLayoutDestroy(Opaque) -> u32;
        cublasLtMatmulPreferenceCreate(*mut Opaque) -> u32;
        cublasLtMatmulPreferenceDestroy(Opaque) -> u32;
        cublasLtMatmulPreferenceSetAttribute(Opaque, u32, *const c_void, usize) -> u32;
        cublasLtMatmulAlgoGetHeuristic(
            Opaque, Opaque, Opaque, Opaque, Opaque, Opaque, Opaque, c_int, *mut Candidate, *mut c_int,
        ) -> u32;
        cublasLtMatmul(
            Opaque, Opaque, *const c_void, *const c_void, Opaque, *const c_void, Opaque, *const c_void, *const c_void,
            Opaque, *mut c_void, Opaque, *const Algorithm, *mut c_void, usize, *mut c_void,
        ) -> u32;
    }
}

/// A handle or a description.
type Opaque = *mut c_void;

/// `cublasLtMatmulAlgo_t`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Algorithm {
    data: [u64; 8],
}

/// `cublasLtMatmulHeuristicResult_t`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Candidate {
    algorithm: Algorithm,
    workspace_bytes: usize,
    status: u32,
    waves: f32,
    reserved: [c_int; 4],
}

/// How many candidates are timed: the heuristic's favourite is not always the fastest, and those far down never are.
const CANDIDATES: usize = 3;

/// What they are called together.
const FAMILY: &str = "cublasLt";

/// `CUBLASLT_MATMUL_DESC_TRANSA`, `CUBLASLT_MATMUL_DESC_TRANSB`.
const TRANSPOSE_LEFT: u32 = 3;
const TRANSPOSE_RIGHT: u32 = 4;

/// `CUBLASLT_MATMUL_DESC_A_SCALE_POINTER`, `CUBLASLT_MATMUL_DESC_B_SCALE_POINTER`.
const SCALE_LEFT: u32 = 17;
const SCALE_RIGHT: u32 = 18;

/// `CUBLASLT_MATMUL_DESC_FAST_ACCUM`: sums of 8-bit floats as the tensor cores keep them.
const FAST_SUMS: u32 = 25;

/// `CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES`.
const MAX_WORKSPACE: u32 = 1;

impl CublasLt {
    fn check(&self, call: &str, status: u32) -> Result<(), String> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: gives a static text for every number.
        let text = unsafe { (self.cublasLtGetStatusString)(status) };
        Err(format!("{call}: {}", text_of(text, status)))
    }
}

/// Something that cublasLt made and must destroy.
struct Made {
    raw: Opaque,
    destroy: unsafe extern "C" fn(Opaque) -> u32,
}

impl Drop for Made {
    fn drop(&mut self) {
        // SAFETY: created once by the function that `destroy` goes with, destroyed once.
        let _ = unsafe { (self.destroy)(self.raw) };
    }
}

/// A product that is described to cublasLt.
pub(super) struct Described {
    library: &'static CublasLt,
    product: ColumnMajor,
    handle: Made,
    operation: Made,
    left: Made,
    right: Made,
    result: Made,
    workspace: Buffer<u8>,
}

impl Described {
    pub(super) fn new(
        library: &'static CublasLt,
        product: ColumnMajor,
        stream: &Stream,
    ) -> Result<Described, String> {
        let workspace = Buffer::<u8>::new(stream.device(), WORKSPACE_BYTES);
        let types = product.types;
        let made = |call: &str, destroy, create: &dyn Fn(*mut Opaque) -> u32| {
            let mut raw = std::ptr::null_mut();
            library.check(call, create(&raw mut raw))?;
            Ok::<Made, String>(Made { raw, destroy })
        };
        let matrix = |ty: u32, is_transposed: bool, [rows, columns]: [usize; 2], stride: usize| {
            // Rows and columns are those in memory.
            let [rows, columns] = if is_transposed {
                [columns, rows]
            } else {
                [rows, columns]
            };
            made(
                "cublasLtMatrixLayoutCreate",
                library.cublasLtMatrixLayoutDestroy,
                &|raw| {
                    // SAFETY: writes one description.
                    unsafe {
                        (library.cublasLtMatrixLayoutCreate)(
                            raw,
                            ty,
                            rows as u64,
                            columns as u64,
                            stride as i64,
                        )
                    }
                },
            )
        };
        let [rows, columns, inner] = [product.rows, product.columns, product.inner];
        let described = Described {
            library,
            handle: made("cublasLtCreate", library.cublasLtDestroy, &|raw| {
                // SAFETY: writes one handle; the device's context is current.
                unsafe { (library.cublasLtCreate)(raw) }
            })?,
            operation: made(
                "cublasLtMatmulDescCreate",
                library.cublasLtMatmulDescDestroy,
                &|raw| {
                    // SAFETY: writes one description.
                    unsafe { (library.cublasLtMatmulDescCreate)(raw, types.compute, types.scale) }
                },
            )?,
            left: matrix(
                types.left,
                product.left_is_transposed,
                [rows, inner],
                product.left_stride,
            )?,
            right: matrix(
                types.right,
                product.right_is_transposed,
                [inner, columns],
                product.right_stride,
            )?,
            result: matrix(types.result, false, [rows, columns], product.result_stride)?,
            workspace: workspace.map_err(|error| error.to_string())?,
            product,
        };
        let is_transposed = [product.left_is_transposed, product.right_is_transposed];
        let [left, right] = is_transposed.map(u32::from);
        described.set(TRANSPOSE_LEFT, &left.to_le_bytes())?;
        described.set(TRANSPOSE_RIGHT, &right.to_le_bytes())?;
        Ok(described)
    }

    /// Gives operands of 8-bit floats their scales, which lie on the device, and the sums that the tensor cores keep.
    fn set_scales(&self, [left, right]: [u64; 2]) -> Result<(), String> {
        self.set(SCALE_LEFT, &left.to_le_bytes())?;
        self.set(SCALE_RIGHT, &right.to_le_bytes())?;
        self.set(FAST_SUMS, &[1])
    }

    fn set(&self, attribute: u32, value: &[u8]) -> Result<(), String> {
        // SAFETY: reads as many bytes as there are.
        let status = unsafe {
            (self.library.cublasLtMatmulDescSetAttribute)(
                self.operation.raw,
                attribute,
                value.as_ptr().cast(),
                value.len(),
            )
        };
        self.library.check("cublasLtMatmulDescSetAttribute", status)
    }

    /// The heuristic's first candidates.
    pub(super) fn candidates(&self) -> Result<Vec<Algorithm>, String> {
        let library = self.library;
        let mut raw = std::ptr::null_mut();
        // SAFETY: writes one description.
        let status = unsafe { (library.cublasLtMatmulPreferenceCreate)(&raw mut raw) };
        library.check("cublasLtMatmulPreferenceCreate", status)?;
        let preference = Made {
            raw,
            destroy: library.cublasLtMatmulPreferenceDestroy,
        };
        let bytes: u64 = WORKSPACE_BYTES as u64;
        // SAFETY: reads eight bytes.
        let status = unsafe {
            (library.cublasLtMatmulPreferenceSetAttribute)(
                preference.raw,
                MAX_WORKSPACE,
                (&raw const bytes).cast(),
                size_of::<u64>(),
            )
        };
        library.check("cublasLtMatmulPreferenceSetAttribute", status)?;
        let mut found = [Candidate::default(); CANDIDATES];
        let mut count: c_int = 0;
        // SAFETY: all descriptions live; writes at most `CANDIDATES` entries and their number.
        let status = unsafe {
            (library.cublasLtMatmulAlgoGetHeuristic)(
                self.handle.raw,
                self.operation.raw,
                self.left.raw,
                self.right.raw,
                self.result.raw,
                self.result.raw,
                preference.raw,
                CANDIDATES as c_int,
                found.as_mut_ptr(),
                &raw mut count,
            )
        };
        library.check("cublasLtMatmulAlgoGetHeuristic", status)?;
        let count = usize::try_from(count).unwrap_or(0).min(CANDIDATES);
        let usable = found[..count].iter().filter(|candidate| {
            candidate.status == 0 && candidate.workspace_bytes <= WORKSPACE_BYTES
        });
        Ok(usable.map(|candidate| candidate.algorithm).collect())
    }

    pub(super) fn multiply(
        &self,
        algorithm: &Algorithm,
        [left, right, result]: [u64; 3],
        stream: *mut c_void,
    ) -> Result<(), String> {
        let zero = [0u8; 8];
        let place = |address: u64| std::ptr::without_provenance_mut::<c_void>(address as usize);
        // SAFETY: all descriptions live; alpha and beta are of the scale's type; the matrices are device memory of the
        // sizes that were checked against their tensors, and the workspace of its size.
        let status = unsafe {
            (self.library.cublasLtMatmul)(
                self.handle.raw,
                self.operation.raw,
                self.product.types.one.as_ptr().cast(),
                place(left),
                self.left.raw,
                place(right),
                self.right.raw,
                zero.as_ptr().cast(),
                place(result),
                self.result.raw,
                place(result),
                self.result.raw,
                algorithm,
                place(self.workspace.address()),
                WORKSPACE_BYTES,
                stream,
            )
        };
        self.library.check("cublasLtMatmul", status)
    }
}

/// The product by each candidate that runs.
pub(super) fn rivals(gemm: &Gemm, stream: &Stream, copies: usize) -> Result<Vec<Rival>, String> {
    stream.raw_cuda().ok_or("it needs a GPU")?;
    let libraries = libraries()?;
    let product = gemm.column_major()?;
    let places = gemm.addresses(stream.device(), copies);
    let places = Rc::new(places.map_err(|error| error.to_string())?);
    stream.bind().map_err(|error| error.to_string())?;
    let described = Described::new(&libraries.lt, product, stream)?;
    let scales = gemm.scale_addresses(stream.device());
    if let Some(scales) = scales.map_err(|error| error.to_string())? {
        described.set_scales(scales)?;
    }
    let described = Rc::new(described);
    let mut rivals = Vec::new();
    let mut refusal = "its heuristic has no candidate".to_string();
    for (at, algorithm) in described.candidates()?.into_iter().enumerate() {
        let (described, places) = (Rc::clone(&described), Rc::clone(&places));
        let launch = move |stream: &Stream, copy: usize| {
            stream.bind()?;
            let raw = stream.raw_cuda().unwrap_or(std::ptr::null_mut());
            let done = described.multiply(&algorithm, places[copy], raw);
            done.map_err(|reason| Error::Peer {
                peer: FAMILY,
                reason,
            })
        };
        match launch(stream, 0).and_then(|()| stream.synchronize()) {
            Ok(()) => rivals.push(Rival {
                name: format!("cublasLt {} candidate {}", libraries.version, at + 1),
                family: Some(FAMILY.to_string()),
                launch: Box::new(launch),
            }),
            Err(error) => refusal = error.to_string(),
        }
    }
    if rivals.is_empty() {
        return Err(refusal);
    }
    Ok(rivals)
}
