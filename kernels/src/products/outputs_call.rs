//! Calls whose epilogue stores more than the result.

use tilekit::prelude::*;
use tilekit::{Argument, Buffer, Packing, TensorView};

use super::blocks::largest_of;
use super::call::{Products, capturing_nothing, check_no_activation, product_of};
use super::call_any_rows::begun;
use super::check::View;
use super::check_matrices::{check_result, check_room};
use super::epilogue::Place;
use super::epilogue_arguments::{Beside, PackOutputs};
use super::error::{Result, expect};
use super::factor::{BLOCK, Operand, ResultOf, Stored};
use super::given::Given;
use super::matrix::Matrix;
use super::options::Options;
use super::output_handles::{GivenOutputs, Second};
use super::outputs::{OutputPtrs, Storing};
use super::overlap::{check_apart, check_numbers_apart};
use super::workspace::{Role, workspace};

/// What an epilogue stores beside the result. Numbers of reductions are combined with what is there: sums begin at zeros, maxima of magnitudes too.
#[derive(Clone, Copy)]
pub struct Outputs<'a, P> {
    /// A second matrix of the rows of A and the columns of B, for [`Place::store`], or of half as many columns, for [`Place::store_pairs`]. Its rows are contiguous.
    pub second: Option<&'a TensorView<'a, P>>,
    /// A number for each row of A, of a batch for each row of each product.
    pub rows: Option<&'a Buffer<f32>>,
    /// A number for each column of B, of a batch for each column of each product.
    pub columns: Option<&'a Buffer<f32>>,
    /// One number.
    pub all: Option<&'a Buffer<f32>>,
    /// Of a C of 8-bit floats, `[M, N / 128]`, rounded up: results are divided by a scale for each 128 columns of a row, the largest magnitude there over that of the type, which is
    /// stored here. As A of [`block_scaled`](Products::block_scaled) has them where the scales of rows follow each other. The closure is traced twice.
    pub scales: Option<&'a TensorView<'a, f32>>,
}

impl<P> Default for Outputs<'_, P> {
    fn default() -> Self {
        Outputs {
            second: None,
            rows: None,
            columns: None,
            all: None,
            scales: None,
        }
    }
}

impl<P: Stored> Outputs<'_, P> {
    /// Names, buffers and the counts that they should have.
    fn reduced(&self, result: Matrix) -> [(&'static str, Option<&Buffer<f32>>, usize); 3] {
        let ([m, n], [batches, _]) = (result.shape, result.batches);
        [
            ("outputs.rows", self.rows, batches * m),
            ("outputs.columns", self.columns, batches * n),
            ("outputs.all", self.all, 1),
        ]
    }

    /// What there is, of a result of this shape.
    fn check<O: Stored>(&self, product: Matrix, result: Matrix) -> Result<GivenOutputs> {
        for (name, numbers, count) in self.reduced(product) {
            let found = numbers.map_or(count, Buffer::len);
            let expected = format!("{count}, for a product of {product}");
            expect(
                found == count,
                name,
                || format!("{found} numbers"),
                expected,
            )?;
        }
        let second = match self.second {
            None => None,
            Some(view) => Some(check_second(Matrix::of("outputs.second", view)?, product)?),
        };
        if let Some((_, matrix)) = second {
            check_result("outputs.second", matrix, size_of::<P>())?;
        }
        if let Some(view) = self.scales {
            check_scales::<O>(Matrix::of("outputs.scales", view)?, result)?;
        }
        Ok(GivenOutputs {
            second: second.map(|(second, _)| second),
            lines: [self.rows.is_some(), self.columns.is_some()],
            all: self.all.is_some(),
            scales: self.scales.is_some(),
        })
    }

    /// No output is one that is read or written otherwise.
    fn check_apart<T: Operand, O: ResultOf<T>>(
        &self,
        operands: [&View<'_, T>; 2],
        (c, options): (&View<'_, O>, &Options<'_, O>),
        result: Matrix,
    ) -> Result<()> {
        if let Some(second) = self.second {
            apart_from_all(("outputs.second", second), operands, (c, options))?;
        }
        if let Some(scales) = self.scales {
            apart_from_all(("outputs.scales", scales), operands, (c, options))?;
            if let Some(second) = self.second {
                check_apart(("outputs.second", second), ("outputs.scales", scales))?;
            }
        }
        for (name, numbers, _) in self.reduced(result) {
            let Some(numbers) = numbers else { continue };
            let numbers = numbers.view([numbers.len()]);
            apart_from_all((name, &numbers), operands, (c, options))?;
            if let Some(second) = self.second {
                check_apart(("outputs.second", second), (name, &numbers))?;
            }
            if let Some(scales) = self.scales {
                check_apart(("outputs.scales", scales), (name, &numbers))?;
            }
        }
        Ok(())
    }
}

/// An output is no operand, not the result, and nothing that the epilogue reads.
fn apart_from_all<T: Operand, O: ResultOf<T>, P: DeviceElement>(
    (name, output): (&'static str, &View<'_, P>),
    [a, b]: [&View<'_, T>; 2],
    (c, options): (&View<'_, O>, &Options<'_, O>),
) -> Result<()> {
    check_apart(("a", a), (name, output))?;
    check_apart(("b", b), (name, output))?;
    check_apart(("c", c), (name, output))?;
    if let Some(source) = options.source.filter(|_| options.has_source()) {
        check_apart(("options.source", source), (name, output))?;
    }
    check_numbers_apart(options, (name, output))
}

/// How the second matrix lies: as the result, or with an element for two of its columns.
fn check_second(second: Matrix, result: Matrix) -> Result<(Second, Matrix)> {
    let name = "outputs.second";
    let ([m, n], of_pairs) = (result.shape, second.shape != result.shape);
    let is_half = n.is_multiple_of(2) && second.shape == [m, n / 2];
    expect(
        !of_pairs || is_half,
        name,
        || format!("shape {:?}", second.shape),
        format!(
            "{:?}, as the product, or for pairs of columns half as many",
            [m, n]
        ),
    )?;
    let (found, wanted) = (second.batches[0], result.batches[0]);
    let matrices = || format!("{found} matrices");
    expect(
        found == wanted,
        name,
        matrices,
        format!("{wanted}, as c has"),
    )?;
    let Some(in_rows) = second.in_any_rows() else {
        let found = || format!("{second}");
        return expect(false, name, found, "contiguous rows").map(|()| unreachable!());
    };
    let unit = in_rows.unit();
    Ok((Second { of_pairs, unit }, in_rows))
}

/// Scales of a result of bytes, in any order.
fn check_scales<O: Stored>(scales: Matrix, result: Matrix) -> Result<()> {
    let name = "outputs.scales";
    expect(
        largest_of::<O>().is_some(),
        name,
        || format!("scales of results of {}", O::DTYPE),
        "none: results of e4m3 and e5m2 have scales",
    )?;
    let ([m, n], batches) = (result.shape, result.batches[0]);
    let wanted = [m, n.div_ceil(BLOCK)];
    let found = (scales.batches[0], scales.shape);
    expect(
        found == (batches, wanted),
        name,
        || format!("{} matrices of {:?}", found.0, found.1),
        format!("{batches} of {wanted:?}: one for each {BLOCK} columns of a row of c"),
    )?;
    check_result(name, scales, size_of::<f32>())?;
    check_room(name, scales.transposed(), size_of::<f32>())
}

/// The arguments of outputs; what a call does not have is any buffer, which nothing writes.
struct OutputArguments<'a, P> {
    second: (&'a Buffer<P>, Matrix),
    lines: [&'a Buffer<f32>; 2],
    all: &'a Buffer<f32>,
    scales: (&'a Buffer<f32>, Matrix),
}

impl<P: DeviceElement> PackOutputs for OutputArguments<'_, P> {
    fn pack(&self, packing: &mut Packing<'_>) -> tilekit::Result<()> {
        let (second, place) = self.second;
        let (scales, of_scales) = self.scales;
        let [rows, blocks] = of_scales.strides.map(|stride| stride as i32);
        let fields = (
            &begun(second, place),
            place.strides[0] as i32,
            place.step_of_batch() as i64,
            self.lines,
            self.all,
            &begun(scales, of_scales),
            [rows, blocks],
            of_scales.step_of_batch() as i64,
        );
        Argument::<OutputPtrs<P>>::pack(&fields, packing)
    }
}

/// [`Products`] for calls whose epilogue stores more than the result: see [`Products::storing`].
pub struct StoringProducts<'p, P> {
    products: &'p Products,
    outputs: Outputs<'p, P>,
}

impl Products {
    /// Calls by closures that store `outputs` too.
    ///
    /// ```
    /// use tilekit::prelude::*;
    /// use tilekit::library::epilogue::silu;
    /// use tilekit_kernels::products::{Options, Outputs, Products, Reduction};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let device = Device::emulator();
    /// let stream = Stream::new(&device)?;
    /// let products = Products::new(&device);
    /// let ones = Buffer::from_slice(&device, &[bf16::ONE; 64])?;
    /// let c = Buffer::<bf16>::zeros(&device, 64)?;
    /// // SwiGLU: columns of gates and of what they gate alternate.
    /// let gated = Buffer::<bf16>::zeros(&device, 32)?;
    /// let largest = Buffer::<f32>::zeros(&device, 1)?;
    /// let gated_view = gated.view([8, 4]);
    /// let outputs = Outputs { second: Some(&gated_view), all: Some(&largest), ..Outputs::default() };
    /// let (x, w) = (ones.view([8, 8]), ones.view([8, 8]));
    /// let options = Options::default();
    /// products.storing(outputs).call_with(&stream, &x, &w, &c.view([8, 8]), &options, |sums, at| {
    ///     let [gate, up] = at.pairs(sums);
    ///     at.store_pairs(silu(gate) * up);
    ///     at.reduce_all(Reduction::Max, sums.abs());
    ///     sums
    /// })?;
    /// stream.synchronize()?;
    /// assert_eq!(largest.to_vec()?, [8.0]);
    /// let expected = 8.0 * 8.0 / (1.0 + (-8.0_f32).exp());
    /// assert!(gated.to_vec()?.iter().all(|&x| (x.to_f32() - expected).abs() < 0.25));
    /// # Ok(())
    /// # }
    /// ```
    pub fn storing<'p, P: Stored>(&'p self, outputs: Outputs<'p, P>) -> StoringProducts<'p, P> {
        StoringProducts {
            products: self,
            outputs,
        }
    }
}

impl<P: Stored> StoringProducts<'_, P> {
    /// [`Products::call_with`] of a closure that stores outputs by its [`Place`]: storing what there is not is an error at its line.
    ///
    /// # Errors
    /// As for [`Products::call_with`].
    pub fn call_with<T: Operand, O: ResultOf<T>, F>(
        &self,
        stream: &Stream,
        a: &View<'_, T>,
        b: &View<'_, T>,
        c: &View<'_, O>,
        options: &Options<'_, O>,
        epilogue: F,
    ) -> Result<()>
    where
        F: Fn(Tensor<f32>, Place<O, OutputPtrs<P>>) -> Tensor<f32> + Copy + Send + Sync + 'static,
    {
        check_no_activation(options)?;
        let (product, halves) = product_of(b, c)?;
        let given = self.outputs.check::<O>(product, Matrix::of("c", c)?)?;
        self.outputs.check_apart([a, b], (c, options), product)?;
        let numbers = Given {
            halves,
            ..options.given(product.shape)
        };
        let epilogue = Storing::<F, P>::new(epilogue, numbers, given);
        let epilogue = capturing_nothing(epilogue)?;
        let nothing = workspace::<f32>(stream, Role::Nothing, 1)?;
        let no_second = workspace::<P>(stream, Role::Nothing, 1)?;
        let second = match self.outputs.second {
            None => (&*no_second, Matrix::EMPTY),
            Some(view) => {
                let matrix = Matrix::of("outputs.second", view)?;
                let in_rows = matrix.in_any_rows();
                (view.source(), in_rows.expect("it has been checked"))
            }
        };
        let arguments = OutputArguments {
            second,
            lines: [self.outputs.rows, self.outputs.columns]
                .map(|numbers| numbers.unwrap_or(&nothing)),
            all: self.outputs.all.unwrap_or(&nothing),
            scales: match self.outputs.scales {
                None => (&*nothing, Matrix::EMPTY),
                Some(view) => (view.source(), Matrix::of("outputs.scales", view)?),
            },
        };
        let beside = Beside {
            given,
            outputs: &arguments,
        };
        self.products
            .run(stream, [a, b], c, options, (epilogue, beside))
    }
}
