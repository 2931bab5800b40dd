//! Attention of 8-bit floats as a program calls it.

use tilekit::prelude::*;

use super::check_fp8::{check_fp8, check_fp8_inputs};
use super::table_fp8::narrow;
use crate::attention::call::{Attention, Forward, View, extent};
use crate::attention::check::scale_of;
use crate::attention::error::Result;
use crate::attention::options::Options;
use crate::attention::plan::section_of;
use crate::attention::workspace::Workspace;

/// What the elements of Q, K and V are multiplied by to be the numbers that are meant: a factor for each head of each batch, on the device.
#[derive(Clone, Copy)]
pub struct Factors<'a> {
    /// Of Q, `[batch, heads]`.
    pub q: &'a Buffer<f32>,
    /// Of K, `[batch, heads of k]`.
    pub k: &'a Buffer<f32>,
    /// Of V, `[batch, heads of k]`.
    pub v: &'a Buffer<f32>,
}

impl Attention {
    /// Attention of `[q, k, v]` in 8-bit floats, into new buffers of bf16. P is rounded to 8 bits too, a relative error of 2^-4 each, and the
    /// tensor cores add products of 8-bit floats with some 14 bits.
    ///
    /// There are as many queries as keys, and `options` has nothing but `causal` and `scale`.
    ///
    /// ```
    /// use tilekit::prelude::*;
    /// use tilekit_kernels::attention::{Attention, Factors, Options};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let device = Device::auto(); // a GPU where there is one, else the emulator
    /// let stream = Stream::new(&device)?;
    /// let attention = Attention::new(&device);
    ///
    /// let (batch, heads, tokens, depth) = (1, 2, 40, 64);
    /// let x = Buffer::from_slice(&device, &vec![E4m3::from_f32(1.0); batch * heads * tokens * depth])?;
    /// let view = x.view([batch, heads, tokens, depth]);
    /// let [one, two] = [1.0, 2.0].map(|factor| Buffer::from_slice(&device, &vec![factor; batch * heads]));
    /// let (one, two) = (one?, two?);
    /// let factors = Factors { q: &one, k: &one, v: &two };
    /// let result = attention.forward_fp8(&stream, [&view, &view, &view], &factors, &Options::default())?;
    /// stream.synchronize()?;
    /// assert!(result.out.to_vec()?.iter().all(|&x| x == bf16::from_f32(2.0)));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Argument`](crate::attention::Error::Argument) for an argument that is not supported; otherwise an error of the device.
    pub fn forward_fp8(
        &self,
        stream: &Stream,
        qkv: [&View<'_, E4m3>; 3],
        factors: &Factors<'_>,
        options: &Options<'_>,
    ) -> Result<Forward<bf16>> {
        check_fp8_inputs(qkv, factors, options)?;
        self.results(("q", qkv[0]), extent(qkv[0], 3), |out, lse| {
            self.forward_fp8_into(stream, qkv, factors, out, lse, options)
        })
    }

    /// [`forward_fp8`](Attention::forward_fp8) into `out`, whose strides follow the rules of q, k and v, and into `lse`.
    ///
    /// # Errors
    /// As for [`forward_fp8`](Attention::forward_fp8).
    pub fn forward_fp8_into(
        &self,
        stream: &Stream,
        qkv: [&View<'_, E4m3>; 3],
        factors: &Factors<'_>,
        out: &View<'_, bf16>,
        lse: &Buffer<f32>,
        options: &Options<'_>,
    ) -> Result<()> {
        let sizes = check_fp8(qkv, factors, out, lse, options)?;
        let (index, instance) = narrow()
            .into_iter()
            .enumerate()
            .find(|(_, row)| row.depths == sizes.depths && row.is_causal == options.causal)
            .expect("the check of a call knows the depths of this table");
        let kernel = self.kernel::<E4m3, _>("forward_fp8", index, &instance)?;
        let workspace = Workspace::of(stream)?;
        let heads = sizes.batch * sizes.heads;
        let row_bytes = 2 * sizes.depths[0];
        let tiles = sizes.queries.div_ceil(instance.tile.rows) * heads;
        kernel.launch(
            stream,
            self.programs(&kernel, tiles)?,
            (
                qkv[0],
                qkv[1],
                qkv[2],
                out,
                lse,
                &workspace.counter,
                factors.q,
                factors.k,
                factors.v,
                sizes.batch as i32,
                sizes.heads as i32,
                (sizes.heads / sizes.kv_heads) as i32,
                sizes.queries as i32,
                section_of(heads, sizes.keys, row_bytes, instance.is_causal) as i32,
                scale_of(options, sizes) * LOG2_E as f32,
            ),
        )?;
        Ok(())
    }
}
