//! A matrix product, as libraries are told of it.

use std::sync::Arc;

use gluon_lang::elem::DType;

use crate::case::{Input, Output, Tolerance};
use crate::device::Device;
use crate::element::DeviceElement;
use crate::error::Result;

/// `C = A·B` of a case's tensors: A is `[M, K]`, B `[K, N]` and C `[M, N]`, all row-major.
#[derive(Clone)]
pub struct Gemm {
    a: Operand,
    b: Operand,
    c: Operand,
    a_is_transposed: bool,
    b_is_transposed: bool,
}

/// A matrix as it lies in memory.
#[derive(Clone)]
struct Operand {
    shape: Vec<usize>,
    dtype: DType,
    address: Arc<AddressOf>,
}

/// Where a copy of a matrix lies on a device.
type AddressOf = dyn Fn(&Device, usize) -> Result<u64> + Send + Sync;

impl Gemm {
    /// The product of two inputs. Sums are taken in `f32`, of `f32` inputs rounded to TF32; those of integers in `i32`,
    /// of `f64` in `f64`.
    pub fn new<A: DeviceElement, B: DeviceElement, C: DeviceElement>(
        a: &Input<A>,
        b: &Input<B>,
        c: &Output<C>,
    ) -> Gemm {
        Gemm {
            a: operand(a),
            b: operand(b),
            c: {
                let tensor = c.clone();
                Operand {
                    shape: c.shape().to_vec(),
                    dtype: C::DTYPE,
                    address: Arc::new(move |device, copy| {
                        Ok(tensor.copy_on_device(device, copy)?.address())
                    }),
                }
            },
            a_is_transposed: false,
            b_is_transposed: false,
        }
    }

    /// A lies in memory as `[K, M]`.
    #[must_use]
    pub fn transposed_a(mut self) -> Gemm {
        self.a_is_transposed = true;
        self
    }

    /// B lies in memory as `[N, K]`.
    #[must_use]
    pub fn transposed_b(mut self) -> Gemm {
        self.b_is_transposed = true;
        self
    }

    /// How far two libraries' results may be apart: half an ulp of the output each, and what sums of `K` products of
    /// numbers around 1 lose, with room: a `K`·2⁻¹⁷-th in `f32`, a `K`·2⁻¹²-th where fp8 is summed in fewer bits.
    pub(super) fn tolerance(&self) -> Tolerance {
        let terms = self.inner() as f64;
        let absolute = match self.a.dtype {
            DType::I8 | DType::U8 => return Tolerance::Exactly,
            DType::E4m3 | DType::E5m2 => terms * 2f64.powi(-12),
            DType::F64 => terms * 2f64.powi(-46),
            _ => terms * 2f64.powi(-17),
        };
        let relative = match self.c.dtype {
            DType::Bf16 => 2f64.powi(-7),
            DType::F16 => 2f64.powi(-10),
            DType::F64 => 2f64.powi(-50),
            _ => 2f64.powi(-12),
        };
        Tolerance::Close { relative, absolute }
    }

    fn inner(&self) -> usize {
        let along = usize::from(!self.a_is_transposed);
        self.a.shape.get(along).copied().unwrap_or(0)
    }

    /// The product as cuBLAS sees it, whose matrices are column-major: `Cᵀ = Bᵀ·Aᵀ`, where a row-major matrix is its own
    /// transpose.
    pub(super) fn column_major(&self) -> Result<ColumnMajor, String> {
        let [a, b, c] = [&self.a, &self.b, &self.c].map(|operand| {
            <[usize; 2]>::try_from(operand.shape.as_slice())
                .map_err(|_| format!("a matrix has 2 dimensions, not {}", operand.shape.len()))
        });
        let (a, b, c) = (a?, b?, c?);
        let [m, k] = if self.a_is_transposed {
            [a[1], a[0]]
        } else {
            a
        };
        let [b_k, n] = if self.b_is_transposed {
            [b[1], b[0]]
        } else {
            b
        };
        if b_k != k || c != [m, n] {
            return Err(format!(
                "{a:?} times {b:?} does not give {c:?}; is one of them transposed?"
            ));
        }
        let types = Types::of(self.a.dtype, self.b.dtype, self.c.dtype)?;
        Ok(ColumnMajor {
            rows: n,
            columns: m,
            inner: k,
            left_is_transposed: self.b_is_transposed,
            left_stride: b[1],
            right_is_transposed: self.a_is_transposed,
            right_stride: a[1],
            types,
        })
    }

    /// Where left (B), right (A) and result (C) lie, of each copy.
    pub(super) fn addresses(&self, device: &Device, copies: usize) -> Result<Vec<[u64; 3]>> {
        let of_copy = |copy: usize| {
            let [b, a, c] =
                [&self.b, &self.a, &self.c].map(|operand| (operand.address)(device, copy));
            Ok([b?, a?, c?])
        };
        (0..copies).map(of_copy).collect()
    }
}

fn operand<T: DeviceElement>(tensor: &Input<T>) -> Operand {
    let tensor = tensor.clone();
    Operand {
        shape: tensor.shape().to_vec(),
        dtype: T::DTYPE,
        address: Arc::new(move |device, copy| Ok(tensor.copy_on_device(device, copy)?.address())),
    }
}

/// `result[rows, columns] = left · right`, column-major.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ColumnMajor {
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) inner: usize,
    /// Whether left lies as `[inner, rows]`.
    pub(super) left_is_transposed: bool,
    pub(super) left_stride: usize,
    /// Whether right lies as `[columns, inner]`.
    pub(super) right_is_transposed: bool,
    pub(super) right_stride: usize,
    pub(super) types: Types,
}

/// Element types in the numbering of `library_types.h`, and how sums are taken in that of `cublas_api.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Types {
    /// `cudaDataType` of left, right and result.
    pub(super) left: u32,
    pub(super) right: u32,
    pub(super) result: u32,
    /// `cublasComputeType_t`.
    pub(super) compute: u32,
    /// `cudaDataType` of alpha and beta.
    pub(super) scale: u32,
    /// 1 and 0 of that type, in the first bytes.
    pub(super) one: [u8; 8],
}

impl Types {
    fn of(a: DType, b: DType, c: DType) -> Result<Types, String> {
        const R_32F: u32 = 0;
        let (compute, scale, one) = match a {
            DType::F16 | DType::Bf16 | DType::E4m3 | DType::E5m2 => (68, R_32F, f32_bytes(1.0)),
            // CUBLAS_COMPUTE_32F_FAST_TF32
            DType::F32 => (77, R_32F, f32_bytes(1.0)),
            DType::F64 => (70, 1, 1f64.to_le_bytes()),
            DType::I8 => (72, 10, 1u64.to_le_bytes()),
            other => return Err(format!("it has no product of {other:?}")),
        };
        Ok(Types {
            left: data_type(b)?,
            right: data_type(a)?,
            result: data_type(c)?,
            compute,
            scale,
            one,
        })
    }
}

fn f32_bytes(value: f32) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&value.to_le_bytes());
    bytes
}

/// `cudaDataType` of an element type.
fn data_type(dtype: DType) -> Result<u32, String> {
    Ok(match dtype {
        DType::F32 => 0,
        DType::F64 => 1,
        DType::F16 => 2,
        DType::I8 => 3,
        DType::I32 => 10,
        DType::Bf16 => 14,
        DType::E4m3 => 28,
        DType::E5m2 => 29,
        other => return Err(format!("it has no matrices of {other:?}")),
    })
}

#[cfg(test)]
mod tests {
    use half::bf16;

    use super::*;
    use crate::case::{Case, Mode, Sizes};

    fn product(a: [usize; 2], b: [usize; 2], c: [usize; 2]) -> Gemm {
        let mut case = Case::new("k", Sizes::default(), Mode::Describe).expect("a case");
        let (a, b) = (case.normal::<bf16>("a", a), case.normal::<bf16>("b", b));
        Gemm::new(&a, &b, &case.output::<bf16>("c", c))
    }

    #[test]
    fn a_row_major_product_is_a_column_major_one_of_the_transposes() {
        let seen = |gemm: &Gemm| {
            let seen = gemm.column_major().expect("shapes fit");
            (
                [seen.rows, seen.columns, seen.inner],
                (seen.left_is_transposed, seen.left_stride),
                (seen.right_is_transposed, seen.right_stride),
            )
        };
        let plain = product([2, 4], [4, 3], [2, 3]);
        assert_eq!(seen(&plain), ([3, 2, 4], (false, 3), (false, 4)));
        let usual = product([2, 4], [3, 4], [2, 3]).transposed_b();
        assert_eq!(seen(&usual), ([3, 2, 4], (true, 4), (false, 4)));
        let both = product([4, 2], [3, 4], [2, 3])
            .transposed_a()
            .transposed_b();
        assert_eq!(seen(&both), ([3, 2, 4], (true, 4), (true, 2)));
    }

    #[test]
    fn shapes_that_do_not_go_together_are_named() {
        let why = product([2, 4], [3, 4], [2, 3])
            .column_major()
            .expect_err("B lies transposed");
        assert!(
            why.contains("[2, 4] times [3, 4]") && why.contains("transposed"),
            "{why}"
        );
    }
}
