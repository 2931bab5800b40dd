//! A matrix product, as libraries take it.

use std::sync::Arc;

use ir::elem::DType;

use crate::case::{Input, Output, Tolerance, parallel};
use crate::device::Device;
use crate::element::DeviceElement;
use crate::error::Result;
use crate::reference::{Matrix, product};

/// `C = A·B` of a case's tensors: A is `[M, K]`, B `[K, N]` and C `[M, N]`, all row-major.
///
/// It is what a library is given ([`Peer::Cublas`](crate::Peer::Cublas)), and computes the reference.
///
/// ```
/// # use tilekit::prelude::*;
/// # fn matmul(case: &mut Case) -> CaseResult {
/// let (m, n, k) = (case.size("m"), case.size("n"), case.size("k"));
/// let (a, b) = (case.normal::<bf16>("a", [m, k]), case.normal::<bf16>("b", [n, k]));
/// let c = case.output::<bf16>("c", [m, n]);
/// let gemm = Gemm::new(&a, &b, &c).transposed_b();
/// case.peer(Peer::Cublas(gemm.clone()));
/// // case.launch(..)?;
/// case.expect_all(&c, || gemm.reference(), gemm.tolerance())
/// # }
/// ```
#[derive(Clone)]
pub struct Gemm {
    a: Operand,
    b: Operand,
    c: Operand,
    values: [Arc<Values>; 2],
    a_is_transposed: bool,
    b_is_transposed: bool,
    size: Option<[usize; 3]>,
    scales: Option<Arc<[Scale; 2]>>,
    is_timed_only: bool,
    inputs: F32Inputs,
}

/// How a library multiplies inputs in `f32`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum F32Inputs {
    RoundedToTf32,
    AsTheyAre,
}

/// A number that an operand is multiplied by, which lies in memory.
#[derive(Clone)]
struct Scale {
    address: Arc<AddressOf>,
    value: Arc<dyn Fn() -> f64 + Send + Sync>,
}

/// The elements of an operand, in memory order.
type Values = dyn Fn() -> Vec<f64> + Send + Sync;

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
            values: [values(a), values(b)],
            a_is_transposed: false,
            b_is_transposed: false,
            size: None,
            scales: None,
            is_timed_only: false,
            inputs: F32Inputs::RoundedToTf32,
        }
    }

    /// Products of `f32` are those of `f32`, and not of TF32: of cuBLAS `CUBLAS_COMPUTE_32F_PEDANTIC`, which takes no tensor cores.
    #[must_use]
    pub fn in_f32(mut self) -> Gemm {
        self.inputs = F32Inputs::AsTheyAre;
        self
    }

    /// The kernel does more than the product, such as an epilogue: a library is timed beside it, and its results are not
    /// compared with the kernel's.
    #[must_use]
    pub fn timed_only(mut self) -> Gemm {
        self.is_timed_only = true;
        self
    }

    /// Whether a library's results are those of the kernel.
    pub(super) fn is_compared(&self) -> bool {
        !self.is_timed_only
    }

    /// The product is of the first rows and columns alone, `[M, N, K]`: the tensors' rows are longer, so that they begin
    /// where tensor maps want them.
    #[must_use]
    pub fn with_size(mut self, size: [usize; 3]) -> Gemm {
        self.size = Some(size);
        self
    }

    /// The operands stand for themselves times one number each, the first element of these: the scales of whole tensors that
    /// go with 8-bit floats.
    #[must_use]
    pub fn scaled(mut self, a: &Input<f32>, b: &Input<f32>) -> Gemm {
        let scales = [a, b].map(|tensor| {
            let (there, here) = (tensor.clone(), tensor.clone());
            Scale {
                address: Arc::new(move |device, copy| {
                    Ok(there.copy_on_device(device, copy)?.address())
                }),
                value: Arc::new(move || f64::from(here[0])),
            }
        });
        self.scales = Some(Arc::new(scales));
        self
    }

    /// What both scales together multiply a sum by.
    fn scale(&self) -> f64 {
        let scales = self.scales.iter().flat_map(|scales| scales.iter());
        scales.map(|scale| (scale.value)()).product()
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

    /// The product in f64, `[M, N]` row-major, on all cores: exact but for rounding to 53 bits, and fast enough to check
    /// every element of large ones (8192³ in some seconds of 16 cores).
    ///
    /// # Panics
    /// If the shapes do not go together: that is a mistake in the case.
    pub fn reference(&self) -> Vec<f64> {
        let (size, [a, b, _]) = self
            .extents()
            .unwrap_or_else(|why| panic!("the reference of a product: {why}"));
        let (left, right) = rayon::join(|| (self.values[0])(), || (self.values[1])());
        let left = (Matrix::rows(&left, a[1]), self.a_is_transposed);
        let right = (Matrix::rows(&right, b[1]), self.b_is_transposed);
        let [left, right] = [left, right].map(|(matrix, is_transposed)| {
            if is_transposed {
                matrix.transposed()
            } else {
                matrix
            }
        });
        let mut result = product(size, left, right);
        if self.scales.is_some() {
            let scale = self.scale();
            for sum in &mut result {
                *sum *= scale;
            }
        }
        result
    }

    /// How far a result may be from the reference, or two results from each other, element by element: half an ulp of
    /// the output's type for each rounding, and what sums of `K` products of numbers around 1 lose, with room: `K`·2⁻¹⁷
    /// in `f32`, `K`·2⁻¹² where fp8 is summed in fewer bits. Operands in `f32` become TF32, each by up to 2⁻¹⁰ of itself:
    /// that is `√K`·2⁻⁸; [in `f32`](Gemm::in_f32), where a library adds one product after the other, `K`·2⁻²¹. Scales scale this too. Integers are exact.
    pub fn tolerance(&self) -> Tolerance {
        let terms = self.extents().map_or(0, |([_, _, k], _)| k) as f64;
        let absolute = match self.a.dtype {
            DType::I8 | DType::U8 => return Tolerance::Exactly,
            DType::E4m3 | DType::E5m2 => terms * 2f64.powi(-12),
            DType::F64 => terms * 2f64.powi(-46),
            DType::F32 if self.inputs == F32Inputs::AsTheyAre => terms * 2f64.powi(-21),
            DType::F32 => terms.sqrt() * 2f64.powi(-8),
            _ => terms * 2f64.powi(-17),
        };
        let relative = match self.c.dtype {
            DType::Bf16 => 2f64.powi(-7),
            DType::F32 if self.inputs == F32Inputs::AsTheyAre => 2f64.powi(-20),
            // An operand that is cut off is always smaller, and so is the sum.
            _ if self.a.dtype == DType::F32 => 2f64.powi(-9),
            DType::F16 => 2f64.powi(-10),
            DType::F64 => 2f64.powi(-50),
            _ => 2f64.powi(-12),
        };
        let absolute = absolute * self.scale().abs();
        Tolerance::Close { relative, absolute }
    }

    /// How far a library's result may be from a kernel's: as far as from the reference, and by the roundings of its parts along `K`, which cuBLAS adds in
    /// the type of a 16-bit result. Of numbers around 1 a part is around `√K`, and half an ulp of it 2⁻⁹ or 2⁻¹² of that; with room for several.
    pub(crate) fn tolerance_of_library(&self) -> Tolerance {
        let terms = self.extents().map_or(0, |([_, _, k], _)| k) as f64;
        let of_parts = match self.c.dtype {
            DType::Bf16 => terms.sqrt() * 2f64.powi(-7),
            DType::F16 => terms.sqrt() * 2f64.powi(-10),
            _ => 0.0,
        };
        match self.tolerance() {
            Tolerance::Close { relative, absolute } => Tolerance::Close {
                relative,
                absolute: absolute + of_parts * self.scale().abs(),
            },
            other => other,
        }
    }

    /// `[M, N, K]`, and the tensors' own shapes.
    fn extents(&self) -> Result<([usize; 3], [[usize; 2]; 3]), String> {
        let [a, b, c] = [&self.a, &self.b, &self.c].map(|operand| {
            <[usize; 2]>::try_from(operand.shape.as_slice())
                .map_err(|_| format!("a matrix has 2 dimensions, not {}", operand.shape.len()))
        });
        let shapes @ [a, b, c] = [a?, b?, c?];
        let [m, a_k] = if self.a_is_transposed {
            [a[1], a[0]]
        } else {
            a
        };
        let [b_k, n] = if self.b_is_transposed {
            [b[1], b[0]]
        } else {
            b
        };
        let Some(size @ [m_part, n_part, k_part]) = self.size else {
            if b_k != a_k || c != [m, n] {
                return Err(format!(
                    "{a:?} times {b:?} does not give {c:?}; is one of them transposed?"
                ));
            }
            return Ok(([m, n, a_k], shapes));
        };
        let fits = m_part <= m.min(c[0]) && n_part <= n.min(c[1]) && k_part <= a_k.min(b_k);
        if !fits {
            return Err(format!(
                "a product of {m_part}×{n_part}×{k_part} is not inside of {a:?} times {b:?} in {c:?}"
            ));
        }
        Ok((size, shapes))
    }

    /// The product as cuBLAS sees it, whose matrices are column-major: `Cᵀ = Bᵀ·Aᵀ`, where a row-major matrix is its own
    /// transpose.
    pub(super) fn column_major(&self) -> Result<ColumnMajor, String> {
        let ([m, n, k], [a, b, c]) = self.extents()?;
        let mut types = Types::of(self.a.dtype, self.b.dtype, self.c.dtype)?;
        if self.inputs == F32Inputs::AsTheyAre && self.a.dtype == DType::F32 {
            // CUBLAS_COMPUTE_32F_PEDANTIC
            types.compute = 69;
        }
        Ok(ColumnMajor {
            rows: n,
            columns: m,
            inner: k,
            left_is_transposed: self.b_is_transposed,
            left_stride: b[1],
            right_is_transposed: self.a_is_transposed,
            right_stride: a[1],
            result_stride: c[1],
            types,
        })
    }

    /// Where the scales of left (B) and right (A) lie. All copies hold the same numbers, so the first serves all.
    pub(super) fn scale_addresses(&self, device: &Device) -> Result<Option<[u64; 2]>> {
        let Some([a, b]) = self.scales.as_deref() else {
            return Ok(None);
        };
        Ok(Some([(b.address)(device, 0)?, (a.address)(device, 0)?]))
    }

    /// Whether the operands have scales.
    pub(super) fn is_scaled(&self) -> bool {
        self.scales.is_some()
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

/// Elements that one task converts.
const CHUNK: usize = 1 << 16;

fn values<T: DeviceElement>(tensor: &Input<T>) -> Arc<Values> {
    let tensor = tensor.clone();
    Arc::new(move || {
        let chunks: Vec<&[T]> = tensor.host().chunks(CHUNK).collect();
        let widened = |x: &T| x.number().to_f64();
        parallel::map(chunks.len(), |chunk| -> Vec<f64> {
            chunks[chunk].iter().map(widened).collect()
        })
        .concat()
    })
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
    pub(super) result_stride: usize,
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
    pub(super) fn of(a: DType, b: DType, c: DType) -> Result<Types, String> {
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

    fn gemm(a: [usize; 2], b: [usize; 2], c: [usize; 2]) -> Gemm {
        let mut case = Case::new("k", Sizes::default(), Mode::Describe).expect("a case");
        let (a, b) = (case.normal::<bf16>("a", a), case.normal::<bf16>("b", b));
        Gemm::new(&a, &b, &case.output::<bf16>("c", c))
    }

    #[test]
    fn a_row_major_product_is_a_column_major_one_of_the_transposes() {
        let seen = |gemm: &Gemm| {
            let seen = gemm.column_major().expect("shapes fit");
            (
                [seen.rows, seen.columns, seen.inner, seen.result_stride],
                (seen.left_is_transposed, seen.left_stride),
                (seen.right_is_transposed, seen.right_stride),
            )
        };
        let plain = gemm([2, 4], [4, 3], [2, 3]);
        assert_eq!(seen(&plain), ([3, 2, 4, 3], (false, 3), (false, 4)));
        let usual = gemm([2, 4], [3, 4], [2, 3]).transposed_b();
        assert_eq!(seen(&usual), ([3, 2, 4, 3], (true, 4), (false, 4)));
        let both = gemm([4, 2], [3, 4], [2, 3]).transposed_a().transposed_b();
        assert_eq!(seen(&both), ([3, 2, 4, 3], (true, 4), (true, 2)));
    }

    #[test]
    fn shapes_that_do_not_go_together_are_named() {
        let why = gemm([2, 4], [3, 4], [2, 3])
            .column_major()
            .expect_err("B lies transposed");
        assert!(
            why.contains("[2, 4] times [3, 4]") && why.contains("transposed"),
            "{why}"
        );
    }

    #[test]
    fn a_part_keeps_the_rows_of_its_tensors() {
        let part = gemm([8, 16], [8, 16], [8, 24])
            .transposed_b()
            .with_size([5, 7, 9]);
        let seen = part.column_major().expect("it lies inside");
        assert_eq!([seen.rows, seen.columns, seen.inner], [7, 5, 9]);
        assert_eq!(
            [seen.left_stride, seen.right_stride, seen.result_stride],
            [16, 16, 24]
        );
        assert_eq!(part.reference().len(), 35);
        let why = part
            .with_size([9, 7, 9])
            .column_major()
            .expect_err("a row too many");
        assert!(why.contains("9×7×9 is not inside"), "{why}");
    }

    #[test]
    fn the_reference_is_the_product_of_the_inputs() {
        let mut case = Case::new("k", Sizes::default(), Mode::Describe).expect("a case");
        let a = case.input::<bf16>("a", [2, 3], |place| bf16::from_f32(place as f32));
        let b = case.input::<bf16>("b", [2, 3], |place| bf16::from_f32(1.0 - place as f32));
        let c = case.output::<bf16>("c", [2, 2]);
        let gemm = Gemm::new(&a, &b, &c).transposed_b();
        // [0 1 2; 3 4 5] times the transpose of [1 0 -1; -2 -3 -4].
        assert_eq!(gemm.reference(), [-2.0, -11.0, -2.0, -38.0]);
    }

    #[test]
    fn scales_multiply_the_reference_and_what_it_may_be_off() {
        let mut case = Case::new("k", Sizes::default(), Mode::Describe).expect("a case");
        let number =
            |case: &mut Case, name: &str, value: f32| case.input::<f32>(name, [1], move |_| value);
        let (half, three) = (
            number(&mut case, "half", 0.5),
            number(&mut case, "three", -3.0),
        );
        let a = case.input::<bf16>("a", [1, 2], |place| bf16::from_f32(place as f32 + 1.0));
        let c = case.output::<bf16>("c", [1, 1]);
        let gemm = Gemm::new(&a, &a, &c).transposed_b();
        let scaled = gemm.clone().scaled(&half, &three);
        assert_eq!(
            (gemm.reference(), scaled.reference()),
            (vec![5.0], vec![-7.5])
        );
        let absolute = |gemm: &Gemm| match gemm.tolerance() {
            Tolerance::Close { absolute, .. } => absolute,
            other => panic!("{other:?}"),
        };
        assert!((absolute(&scaled) - 1.5 * absolute(&gemm)).abs() < 1e-12);
        assert!(scaled.is_scaled() && !gemm.is_scaled());
    }

    #[test]
    fn products_of_f32_are_of_tf32_or_of_f32() {
        let mut case = Case::new("k", Sizes::default(), Mode::Describe).expect("a case");
        let a = case.normal::<f32>("a", [4, 1024]);
        let gemm = Gemm::new(&a, &a, &case.output::<f32>("c", [4, 4])).transposed_b();
        let compute = |gemm: &Gemm| gemm.column_major().expect("shapes fit").types.compute;
        let exact = gemm.clone().in_f32();
        assert_eq!((compute(&gemm), compute(&exact)), (77, 69));
        // An error of 2^-10 of the square root of K is one of tf32.
        let is_off = |gemm: &Gemm| gemm.tolerance().judge(32.0 + 2f64.powi(-5), 32.0, 0).1;
        assert!(!is_off(&gemm) && is_off(&exact));
    }

    #[test]
    fn results_are_compared_unless_the_kernel_does_more() {
        let product = gemm([2, 4], [3, 4], [2, 3]).transposed_b();
        let tolerance = |gemm: &Gemm| crate::Peer::Cublas(gemm.clone()).tolerance();
        assert_eq!(tolerance(&product), Some(product.tolerance_of_library()));
        assert_eq!(tolerance(&product.timed_only()), None);
    }

    #[test]
    fn parts_of_a_library_are_rounded_to_results_of_16_bits() {
        // At 300 x 700 x 12000 in bf16 cuBLAS 13.1 gave -1.1640625 where f64 and the kernel have -0.546875.
        let mut case = Case::new("k", Sizes::default(), Mode::Describe).expect("a case");
        let [a, b] = ["a", "b"].map(|name| case.normal::<bf16>(name, [1, 12000]));
        let (c, wide) = (
            case.output::<bf16>("c", [1, 1]),
            case.output::<f32>("wide", [1, 1]),
        );
        let narrow = Gemm::new(&a, &b, &c).transposed_b();
        let is_off = |tolerance: Tolerance| tolerance.judge(-1.164_062_5, -0.546_875, 0).1;
        assert!(is_off(narrow.tolerance()) && !is_off(narrow.tolerance_of_library()));
        let wide = Gemm::new(&a, &b, &wide).transposed_b();
        assert_eq!(wide.tolerance(), wide.tolerance_of_library());
    }
}
