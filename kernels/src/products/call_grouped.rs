//! Products of groups of rows, as a program calls them.

use tilekit::Buffer;
use tilekit::prelude::*;

use std::any::TypeId;

use super::call::Products;
use super::check::{Taken, View};
use super::check_matrices::{check_precision, check_result};
use super::epilogue::{Axis, Epilogue, Plain};
use super::epilogue_kind::{Finishing, Together};
use super::error::{Result, expect};
use super::factor::{Operand, ResultOf, Stored};
use super::form::Form;
use super::grouped::{grouped, plan};
use super::kept_kernels::Which;
use super::matrix::Matrix;
use super::need::Need;
use super::options::{Options, Precision};
use super::output_handles::NoOutputs;
use super::overlap::{check_apart, check_numbers_apart};
use super::workspace::{Role, workspace};
use crate::handles::handles;

/// The parameters of `grouped`.
type Handles<T, O> = handles! {
    a b: TensorMap<T>,
    c: TensorMap<O>,
    out: Ptr<O>,
    pitch: Scalar<i32>,
    offsets: Ptr<i32>,
    groups m n k: Scalar<i32>,
    alpha beta: Scalar<f32>,
    source: Ptr<O>,
    source_pitch: Scalar<i32>,
    bias: Ptr<O>,
    bias_of_group: Scalar<i32>,
    a_scales b_scales: Ptr<f32>,
    b_scales_of_group: Scalar<i32>,
};

/// A call that has been checked.
struct Call {
    /// M, N, K.
    size: [usize; 3],
    groups: usize,
    factors: [Matrix; 2],
    taken: [Taken; 2],
    result: Matrix,
    /// Numbers of a group: of the bias and of the scales of B.
    of_group: [usize; 2],
}

impl Call {
    fn check<T: Operand, O: ResultOf<T, Addend = O>>(
        [a, b]: [&View<'_, T>; 2],
        c: &View<'_, O>,
        offsets: &Buffer<i32>,
        options: &Options<'_, O>,
    ) -> Result<Call> {
        let [x, y] = [Matrix::of("a", a)?, Matrix::of("b", b)?.transposed()];
        let result = Matrix::of("c", c)?;
        let ([m, k], [n, depth], groups) = (x.shape, y.shape, y.batches[0]);
        for (name, matrix) in [("a", x), ("c", result)] {
            let found = matrix.batches[0];
            let found = || format!("{found} matrices");
            expect(
                matrix.batches[0] == 1,
                name,
                found,
                "one: groups are rows of it",
            )?;
        }
        let rows = || format!("{depth} rows");
        expect(depth == k, "b", rows, format!("{k}, the columns of a"))?;
        let shape = || format!("shape {:?}", result.shape);
        let wanted = format!("{:?}: the rows of a, the columns of b", [m, n]);
        expect(result.shape == [m, n], "c", shape, wanted)?;
        check_result("c", result, size_of::<O>())?;
        check_apart(("a", a), ("c", c))?;
        check_apart(("b", b), ("c", c))?;
        check_numbers_apart(options, ("c", c))?;
        check_apart(("offsets", &offsets.view([offsets.len()])), ("c", c))?;
        let ends = offsets.len();
        expect(
            ends == groups + 1,
            "offsets",
            || format!("{ends} numbers"),
            format!(
                "{}: where each of {groups} groups begins, and where the last ends",
                groups + 1
            ),
        )?;
        check_precision::<T, O>(options, "groups")?;
        let source = options.source.is_none();
        let found = || "another matrix".to_owned();
        expect(
            source,
            "options.source",
            found,
            "none: of groups, what is added is c as it was",
        )?;
        Ok(Call {
            size: [m, n, k],
            groups,
            factors: [x, y],
            taken: [
                rows_of_groups(x, size_of::<T>()),
                Taken::of(y, size_of::<T>()),
            ],
            result,
            of_group: numbers_of_group(options, [m, n], groups)?,
        })
    }

    fn need<T, O>(&self) -> Need {
        let [m, n, k] = self.size;
        Need {
            // Nothing along K is a step of zeros.
            size: [m, n, k.max(1)],
            batches: 1,
            element_bytes: [size_of::<T>(), size_of::<O>()],
            is_mn_major: self.taken.map(|taken| taken.side().is_mn_major),
            precision: Precision::Tf32,
            loose: None,
            ends_early: false,
            all_rows: false,
            together: Together::One,
            finishing: Finishing::Nothing,
        }
    }
}

/// How the kernel takes A. Groups begin at any of its rows, and TMA loads of what lies along M begin at multiples of 16 bytes only: such an A is copied.
fn rows_of_groups(a: Matrix, element_bytes: usize) -> Taken {
    if a.shape[1] == 0 {
        Taken::of(a, element_bytes)
    } else {
        Taken::along_k(a, element_bytes)
    }
}

/// Numbers of a group in the bias and in the scales of B, which are for all groups, for each, or for each column of each.
fn numbers_of_group<O: Stored>(
    options: &Options<'_, O>,
    [m, n]: [usize; 2],
    groups: usize,
) -> Result<[usize; 2]> {
    let of_a = options.a_scales.map_or(1, Buffer::len);
    expect(
        of_a == 1 || of_a == m,
        "options.a_scales",
        || format!("{of_a} numbers"),
        format!("1, or {m}: one for each row of a"),
    )?;
    let each = groups.saturating_mul(n);
    let of_b = options.b_scales.map_or(1, Buffer::len);
    expect(
        of_b == 1 || of_b == groups || of_b == each,
        "options.b_scales",
        || format!("{of_b} numbers"),
        format!("1, {groups}: one for each group, or {each}: one for each column of each"),
    )?;
    if let Some((bias, axis)) = options.bias {
        let found = || format!("{} numbers along {axis:?}", bias.len());
        expect(
            bias.len() == each && axis == Axis::Columns,
            "options.bias",
            found,
            format!("{each} along Columns: one for each column of each group"),
        )?;
    }
    // Of no group there are none.
    let scales = if of_b == 1 { 0 } else { of_b / groups.max(1) };
    Ok([n, scales])
}

impl Products {
    /// `C[r, :] = A[r, :] · B[g]` for the rows `r` of each group `g`, from `offsets[g]` to `offsets[g + 1]`: A is `[M, K]`, B `[groups, K, N]`, C `[M, N]`. Rows of no group keep what
    /// they are. The options are those of [`call`](Products::call), with scales of B for each group or for each column of each, and a bias for each column of each group;
    /// `source` is C as it was. An A whose columns are contiguous is copied first, since groups begin at any row.
    ///
    /// The offsets ascend; they are on the device and are not checked, but rows outside of C are neither read nor written.
    ///
    /// # Errors
    /// As for [`multiply`](Products::multiply).
    pub fn grouped<T: Operand, O: ResultOf<T, Addend = O>>(
        &self,
        stream: &Stream,
        a: &View<'_, T>,
        b: &View<'_, T>,
        c: &View<'_, O>,
        offsets: &Buffer<i32>,
        options: &Options<'_, O>,
    ) -> Result<()> {
        let call = Call::check([a, b], c, offsets, options)?;
        if call.groups == 0 || call.result.is_empty() {
            return Ok(());
        }
        let views = ([a, b], c);
        if options.are_plain() {
            return self.run_grouped(stream, views, (offsets, options), &call, Plain);
        }
        let mut epilogue = options.epilogue();
        if call.of_group[1] == 1 {
            epilogue.scales[1] = super::epilogue::Scales::One;
        }
        self.run_grouped(stream, views, (offsets, options), &call, epilogue)
    }

    fn run_grouped<T: Operand, O: ResultOf<T, Addend = O>, E: Epilogue<O, Outputs = NoOutputs>>(
        &self,
        stream: &Stream,
        ([a, b], c): ([&View<'_, T>; 2], &View<'_, O>),
        (offsets, options): (&Buffer<i32>, &Options<'_, O>),
        call: &Call,
        epilogue: E,
    ) -> Result<()> {
        let need = call.need::<T, O>();
        let (tile, programs) = plan(call.size[0], call.groups, &need);
        let sides = call.taken.map(Taken::side);
        let form = Form {
            tile,
            sides,
            is_batched: false,
            epilogue,
        };
        let key = (
            TypeId::of::<(T, O, E)>(),
            Which::Grouped(form.with(()), epilogue.name()),
        );
        let kernel = self.kernel::<Handles<T, O>>(key, || {
            fixed(grouped::<T, O, E>, form).compile(self.compiler())
        })?;
        let _turn = stream.turn();
        let x = self.factor(
            stream,
            (Role::X, a.source()),
            (call.factors[0], call.taken[0]),
        )?;
        let y = self.factor(
            stream,
            (Role::Y, b.source()),
            (call.factors[1], call.taken[1]),
        )?;
        // Rows of no group are copied back as they were.
        let result = self.placed(stream, (Role::Result, c.source()), call.result, true)?;
        let nothing = workspace::<f32>(stream, Role::Nothing, 1)?;
        let scales = [options.a_scales, options.b_scales].map(|scales| scales.unwrap_or(&nothing));
        let bias = options.bias.map_or(c.source(), |(bias, _)| bias);
        let [m, n, k] = need.size.map(|extent| extent as i32);
        let [of_bias, of_scales] = call.of_group.map(|count| count as i32);
        let out = result.view(c.source());
        let pitch = result.place.strides[0] as i32;
        kernel.launch(
            stream,
            if self.device().is_cuda() {
                programs
            } else {
                programs.min(3)
            },
            (
                T::loaded(x.view(a.source())),
                T::loaded(y.view(b.source())),
                &out,
                &out,
                pitch,
                offsets,
                call.groups as i32,
                m,
                n,
                k,
                options.alpha,
                options.beta,
                &out,
                pitch,
                bias,
                of_bias,
                scales[0],
                scales[1],
                of_scales,
            ),
        )?;
        self.copy_back(stream, &result, (c.source(), call.result))
    }
}
