//! Calls of more batches than a grid has programs along its third dimension: launches for some of the batches after another.

use tilekit::prelude::*;
use tilekit::target::SM_90A;

use super::call::{Call, Upstream};
use crate::attention::call::View;
use crate::attention::check::Checked;
use crate::attention::error::Result;
use crate::attention::plan::Sizes;
use crate::attention::table::Operand;

/// Batches of a slice: a multiple of 4, so that LSE of each begins at a multiple of 16 bytes.
pub(super) const OF_SLICE: usize = SM_90A.grid[2] as usize / 4 * 4;

/// Some of the batches of a tensor.
fn batches_of<'a, T: DeviceElement>(view: &View<'a, T>, [first, count]: [usize; 2]) -> View<'a, T> {
    let place = view.place();
    let mut shape = place.shape.clone();
    shape[0] = count;
    let some = view.source().view(&shape[..]);
    let some = some.with_strides(&place.strides[..]);
    some.with_offset(place.offset + first * place.strides[0])
}

impl<T: Operand> Call<'_, T> {
    /// Launches for `most` batches at a time. Sequences of several lengths and lists of blocks are one slice, whose number the check of a call limits.
    pub(super) fn each_slice(
        &self,
        most: usize,
        launch: impl Fn(&Call<'_, T>) -> Result<()>,
    ) -> Result<()> {
        let all = self.checked.sizes.batch;
        if all <= most || self.options.lengths.is_some() {
            return launch(self);
        }
        for first in (0..all).step_by(most) {
            self.slice([first, most.min(all - first)], &launch)?;
        }
        Ok(())
    }

    fn slice(
        &self,
        batches: [usize; 2],
        launch: impl Fn(&Call<'_, T>) -> Result<()>,
    ) -> Result<()> {
        let [qkv, gradients] =
            [self.qkv, self.gradients].map(|views| views.map(|view| batches_of(view, batches)));
        let [out, dout] =
            [self.upstream.out, self.upstream.dout].map(|view| batches_of(view, batches));
        let Checked { sizes, .. } = self.checked;
        launch(&Call {
            qkv: qkv.each_ref(),
            upstream: Upstream {
                out: &out,
                dout: &dout,
                ..self.upstream
            },
            lse: batches_of(&self.lse, batches),
            gradients: gradients.each_ref(),
            checked: Checked {
                sizes: Sizes {
                    batch: batches[1],
                    ..sizes
                },
                ..self.checked
            },
            ..*self
        })
    }
}

#[cfg(test)]
mod tests {
    use tilekit::Device;

    use super::*;
    use crate::attention::backward::call::lse_of;
    use crate::attention::backward::check::check_backward;
    use crate::attention::modifier::Plain;
    use crate::attention::{Attention, Options};

    const SHAPE: [usize; 4] = [5, 2, 4, 64];
    const ELEMENTS: usize = 5 * 2 * 4 * 64;

    /// Gradients by launches for `most` batches at a time.
    fn gradients(most: usize) -> Vec<Vec<bf16>> {
        let device = Device::emulator_with_seed(0);
        let stream = Stream::new(&device).unwrap();
        let attention = Attention::new(&device);
        let options = Options::default();
        let of = |seed: usize| {
            let number = |at: usize| bf16::from_f32((at * (seed + 3) % 17) as f32 * 0.125 - 1.0);
            let numbers: Vec<bf16> = (0..ELEMENTS).map(number).collect();
            Buffer::from_slice(&device, &numbers).unwrap()
        };
        let inputs = [0, 1, 2, 3].map(of);
        let [q, k, v, dout] = inputs.each_ref().map(|buffer| buffer.view(SHAPE));
        let qkv = [&q, &k, &v];
        let forward = attention.forward(&stream, qkv, &options).unwrap();
        let upstream = Upstream {
            out: &forward.out.view(SHAPE),
            lse: &forward.lse,
            dout: &dout,
        };
        let results = [(); 3].map(|()| Buffer::<bf16>::zeros(&device, ELEMENTS).unwrap());
        let [dq, dk, dv] = results.each_ref().map(|buffer| buffer.view(SHAPE));
        let gradients = [&dq, &dk, &dv];
        let call = Call {
            stream: &stream,
            qkv,
            upstream,
            lse: lse_of(&q, upstream),
            gradients,
            options: &options,
            checked: check_backward(qkv, upstream, gradients, &options).unwrap(),
            masked: None,
            is_crowded: false,
            has_passes: true,
        };
        let launch = |call: &Call<'_, bf16>| attention.differentiate::<_, Plain>(call, None);
        call.each_slice(most, launch).unwrap();
        stream.synchronize().unwrap();
        results.map(|buffer| buffer.to_vec().unwrap()).into()
    }

    #[test]
    fn batches_have_the_gradients_that_they_have_in_one_launch() {
        let whole = gradients(5);
        assert!(whole.iter().flatten().any(|&x| x != bf16::ZERO));
        assert!(gradients(2) == whole);
    }
}
