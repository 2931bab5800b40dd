//! Products by cublasLt outside of cases.

use std::marker::PhantomData;

use super::cublas_lt::{Algorithm, Described};
use super::gemm::{ColumnMajor, Types};
use super::library::libraries;
use super::place::place_of;
use crate::buffer::Buffer;
use crate::element::DeviceElement;
use crate::error::{Error, Result};
use crate::stream::Stream;

/// `C[M, N] = A[M, K] · B[N, K]ᵀ` by the first three candidates of cublasLt's heuristic on one stream, all three matrices row-major and packed, with a workspace of 32 MiB: what
/// products of our own are timed beside, outside of cases. A and B have elements `T`, C `O`; sums are f32, of i8 i32. In a case [`Peer::Cublas`](crate::Peer::Cublas) does so, and says where the library is
/// looked for.
pub struct LtProduct<'s, T, O> {
    described: Described,
    algorithms: Vec<Algorithm>,
    size: [usize; 3],
    stream: &'s Stream,
    version: &'static str,
    elements: PhantomData<(T, O)>,
}

impl<'s, T: DeviceElement, O: DeviceElement> LtProduct<'s, T, O> {
    /// A product of this M, N and K, of which the heuristic is asked.
    ///
    /// # Errors
    /// [`Error::Peer`] on the emulator, with where cublasLt was looked for, and with what it says.
    pub fn new(stream: &'s Stream, size: [usize; 3]) -> Result<Self> {
        let [m, n, k] = size;
        let open = || -> Result<_, String> {
            stream.raw_cuda().ok_or("it needs a GPU")?;
            let libraries = libraries()?;
            stream.bind().map_err(|error| error.to_string())?;
            let product = ColumnMajor {
                rows: n,
                columns: m,
                inner: k,
                left_is_transposed: true,
                left_stride: k,
                right_is_transposed: false,
                right_stride: k,
                result_stride: n,
                types: Types::of(T::DTYPE, T::DTYPE, O::DTYPE)?,
            };
            let described = Described::new(&libraries.lt, product, stream)?;
            let algorithms = described.candidates()?;
            Ok((described, algorithms, libraries.version.as_str()))
        };
        let (described, algorithms, version) = open().map_err(failure)?;
        Ok(LtProduct {
            described,
            algorithms,
            size,
            stream,
            version,
            elements: PhantomData,
        })
    }

    /// How many candidates there are: at most three, and perhaps none.
    pub fn candidates(&self) -> usize {
        self.algorithms.len()
    }

    /// Its release, such as `13.1.0`.
    pub fn version(&self) -> &str {
        self.version
    }

    /// Puts the product by a candidate on the stream. Matrices begin at these elements of their buffers. It can be captured.
    ///
    /// # Errors
    /// [`Error::Peer`] for a candidate that there is not, for a matrix that ends outside of its buffer or is on another device, and with what cublasLt says.
    pub fn multiply(
        &self,
        candidate: usize,
        [(a, of_a), (b, of_b)]: [(&Buffer<T>, usize); 2],
        (c, of_c): (&Buffer<O>, usize),
    ) -> Result<()> {
        let [m, n, k] = self.size;
        let device = self.stream.device();
        let places = [
            place_of(device, "b", (b, of_b), n * k).map_err(failure)?,
            place_of(device, "a", (a, of_a), m * k).map_err(failure)?,
            place_of(device, "c", (c, of_c), m * n).map_err(failure)?,
        ];
        let algorithm = self.algorithms.get(candidate).ok_or_else(|| {
            failure(format!(
                "candidate {candidate} of {}",
                self.algorithms.len()
            ))
        })?;
        self.stream.bind()?;
        let raw = self.stream.raw_cuda().unwrap_or(std::ptr::null_mut());
        let done = self.described.multiply(algorithm, places, raw);
        done.map_err(failure)
    }
}

fn failure(reason: impl Into<String>) -> Error {
    Error::Peer {
        peer: "cublasLt",
        reason: reason.into(),
    }
}

#[cfg(test)]
mod tests {
    use half::bf16;

    use super::*;
    use crate::device::Device;

    #[test]
    fn the_emulator_has_none() {
        let stream = Stream::new(&Device::emulator()).unwrap();
        let why = LtProduct::<bf16, f32>::new(&stream, [8, 8, 8]).err();
        let why = why.expect("it needs a GPU").to_string();
        assert!(
            why.contains("cublasLt") && why.contains("it needs a GPU"),
            "{why}"
        );
    }
}
