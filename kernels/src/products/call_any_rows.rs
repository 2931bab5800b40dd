//! Calls whose matrices lie in rows that begin anywhere, without a copy.

use std::any::TypeId;

use tilekit::Buffer;
use tilekit::prelude::*;

use super::any_rows::{AnyTile, any_rows};
use super::call::Products;
use super::check::{Call, LooseCall, View};
use super::copied_tiles::{CopiedTile, copied_tiles};
use super::epilogue::Epilogue;
use super::epilogue_arguments::{Beside, EpilogueArguments};
use super::error::Result;
use super::factor::{Operand, ResultOf, Stored};
use super::form::Form;
use super::instances::Instance;
use super::kept_kernels::Which;
use super::launch::{AnyHandles, CopiedHandles};
use super::matrix::Matrix;
use super::options::Options;
use super::plan::Plan;

/// A matrix from its first element on.
pub(super) fn begun<T: DeviceElement>(buffer: &Buffer<T>, place: Matrix) -> View<'_, T> {
    let view = buffer.view(place.shape).with_strides(place.strides);
    view.with_offset(place.offset)
}

/// What an epilogue reads of a call, where it is.
fn data_of<'a, O: Stored>(
    c: &'a Buffer<O>,
    loose: &LooseCall,
    (options, scales, beside, no_addends): Numbers<'a, O>,
) -> EpilogueArguments<'a, O> {
    let (source, place) = match (options.source, loose.source, O::addends(c)) {
        (Some(view), Some(place), _) => (view.source(), place),
        (_, _, Some(result)) => (result, loose.result),
        _ => (no_addends, Matrix::EMPTY),
    };
    EpilogueArguments {
        source: (begun(source, place), place),
        bias: options.bias.map_or(no_addends, |(bias, _)| bias),
        scales,
        alpha_beta: [options.alpha, options.beta],
        outputs: beside.outputs,
    }
}

/// The operands of a call and its result, where they are.
type Matrices<'m, T, O> = (&'m Buffer<T>, &'m Buffer<T>, &'m Buffer<O>);

/// What its epilogue reads and stores: the options, scales of X and Y, what is beside the result, and what stands for what is not added.
type Numbers<'n, O> = (
    &'n Options<'n, O>,
    [&'n Buffer<f32>; 2],
    Beside<'n>,
    &'n Buffer<<O as Stored>::Addend>,
);

impl Products {
    /// The plan of a call, if that is by a kernel that takes rows that begin anywhere.
    pub(super) fn in_place(&self, call: &Call) -> Option<Plan> {
        call.loose?;
        let plan = self.planned(call.need()).plan;
        let takes_any = matches!(plan.instance, Instance::Any(_) | Instance::Copied(_));
        takes_any.then_some(plan)
    }

    /// Launches it on the matrices where they are: X, Y and the result.
    pub(super) fn launch_in_place<T: Operand, O: ResultOf<T>, E: Epilogue<O>>(
        &self,
        stream: &Stream,
        (call, plan): (&Call, Plan),
        matrices: Matrices<'_, T, O>,
        numbers: Numbers<'_, O>,
        epilogue: E,
    ) -> Result<()> {
        match plan.instance {
            Instance::Any(tile) => {
                self.launch_any_rows(stream, (call, plan, tile), matrices, numbers, epilogue)
            }
            Instance::Copied(tile) => {
                self.launch_copied(stream, (call, plan, tile), matrices, numbers, epilogue)
            }
            _ => unreachable!("the plan is of a kernel that takes rows that begin anywhere"),
        }
    }

    fn launch_copied<T: Operand, O: ResultOf<T>, E: Epilogue<O>>(
        &self,
        stream: &Stream,
        (call, plan, tile): (&Call, Plan, CopiedTile),
        (x, y, c): Matrices<'_, T, O>,
        numbers: Numbers<'_, O>,
        epilogue: E,
    ) -> Result<()> {
        let loose = call.loose.expect("what it is planned for");
        let [(of_x, _), (of_y, _)] = loose.factors;
        let form = Form::new(tile, epilogue);
        let types = TypeId::of::<(T, O, E)>();
        let which = Which::Product(form.of(plan.instance), epilogue.name(), true);
        let compile = || fixed(copied_tiles::<T, O, E>, form).compile(self.compiler());
        let load = || compile()?.load(self.device())?.programmatic();
        let kernel = self.loaded::<CopiedHandles<T, O, E::Outputs>>((types, which), load)?;
        let data = data_of(c, &loose, numbers);
        let [m, n, k] = call.size.map(|extent| extent as i32);
        let pitch = |place: Matrix| place.strides[0] as i32;
        let [of_x, of_y] = [(x, of_x), (y, of_y)].map(|(own, of)| (begun(own, of), pitch(of)));
        let ((x, x_pitch), (y, y_pitch), m, n) = if tile.tile.turned {
            (of_y, of_x, n, m)
        } else {
            (of_x, of_y, m, n)
        };
        let out = begun(c, loose.result);
        kernel.launch(
            stream,
            plan.grid,
            (
                &x,
                x_pitch,
                &y,
                y_pitch,
                &out,
                pitch(loose.result),
                m,
                n,
                k,
                &data,
            ),
        )?;
        Ok(())
    }

    fn launch_any_rows<T: Operand, O: ResultOf<T>, E: Epilogue<O>>(
        &self,
        stream: &Stream,
        (call, plan, tile): (&Call, Plan, AnyTile),
        (x, y, c): Matrices<'_, T, O>,
        numbers: Numbers<'_, O>,
        epilogue: E,
    ) -> Result<()> {
        let loose = call.loose.expect("what it is planned for");
        let [(of_x, x_side), (of_y, y_side)] = loose.factors;
        let form = Form {
            tile,
            sides: [x_side, y_side],
            is_batched: call.batches > 1,
            epilogue,
        };
        let types = TypeId::of::<(T, O, E)>();
        let which = Which::Product(form.of(plan.instance), epilogue.name(), true);
        let compile = || fixed(any_rows::<T, O, E>, form).compile(self.compiler());
        let load = || compile()?.load(self.device())?.programmatic();
        let kernel = self.loaded::<AnyHandles<T, O, E::Outputs>>((types, which), load)?;
        let data = data_of(c, &loose, numbers);
        let [m, n, k] = call.size.map(|extent| extent as i32);
        let pitch = |place: Matrix| place.strides[0] as i32;
        let step = |place: Matrix| place.step_of_batch() as i64;
        let [x, y] = [begun(x, of_x), begun(y, of_y)];
        let out = begun(c, loose.result);
        kernel.launch(
            stream,
            plan.grid,
            (
                &x,
                pitch(of_x),
                step(of_x),
                &y,
                pitch(of_y),
                step(of_y),
                &out,
                pitch(loose.result),
                step(loose.result),
                m,
                n,
                k,
                &data,
            ),
        )?;
        Ok(())
    }
}
