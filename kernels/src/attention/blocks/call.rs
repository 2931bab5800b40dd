//! Attention forward of block-sparse masks as a program calls it.

use tilekit::prelude::*;

use super::kernel::{GROUPS, forward_blocks};
use super::lists::BlockShape;
use super::mask::BlockMask;
use crate::attention::call::{Attention, View, blocked, packed};
use crate::attention::check::{Checked, check_built, check_lse_apart, check_positions};
use crate::attention::error::{Result, expect};
use crate::attention::mainloop::problem::ROWS;
use crate::attention::modifier::Modifier;
use crate::attention::options::Options;
use crate::attention::plan::{Sizes, Tile, reach};
use crate::attention::table::{Instance, Operand};
use crate::attention::workspace::Workspace;
use crate::attention::written::check_forward;
use crate::handles::handles;

/// The parameters of `forward_blocks`.
type BlocksHandles<T> = handles! {
    q k v out: TensorMap<T>,
    lse: Ptr<f32>,
    counter starts partial blocks: Ptr<i32>,
    sinks data: Ptr<f32>,
    batch heads query_heads queries keys has_sinks left right list_batch list_head list_tiles list_parts: Scalar<i32>,
    log2_scale score_scale: Scalar<f32>,
};

macro_rules! instances {
    ($($d:literal, $dv:literal, $keys:literal, $turns:literal;)*) => {
        vec![$(Instance {
            depths: [$d, $dv],
            tile: Tile { rows: GROUPS * ROWS, keys: $keys, pack: 1 },
            is_causal: false,
            compile: |compiler| forward_blocks::<T, $d, $dv, $keys, $turns, M>.compile(compiler),
        }),*]
    };
}

/// The instances of `forward_blocks`.
fn instances<T: Operand, M: Modifier>() -> Vec<Instance<BlocksHandles<T>>> {
    instances! {
        64, 64, 128, true;
        96, 96, 128, true;
        128, 128, 128, true;
        192, 128, 64, true;
        256, 256, 64, false;
    }
}

impl Attention {
    /// Attention of `[q, k, v]` into `out` and `lse`, of the blocks that `mask` shows. In partial blocks a query sees the keys that `causal` and `window` of the options and
    /// [`M::sees`](Modifier::sees) let it see; full blocks are not masked, hidden ones are not computed. A query that sees no key has a row of zeros and an LSE of -inf. Scores are
    /// changed by `M`, [`Plain`](crate::attention::Plain) for none, of which `data` is the [`data`](crate::attention::Place::data).
    ///
    /// `options` has neither `chunk`, `lengths`, `dropout`, `softcap` nor `alibi`; the last two are modifiers.
    ///
    /// ```
    /// use tilekit::prelude::*;
    /// use tilekit_kernels::attention::{Attention, BlockKind, BlockMask, BlockShape, Options, Plain};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let device = Device::auto(); // a GPU where there is one, else the emulator
    /// let stream = Stream::new(&device)?;
    /// // Queries see the first 128 keys and their own 128.
    /// let shape = BlockShape { batch: 1, heads: 1, tokens: [300, 300], block: [128, 128] };
    /// let mask = BlockMask::from_fn(&device, shape, |_, _, query, key| {
    ///     if key == 0 || key == query { BlockKind::Full } else { BlockKind::Hidden }
    /// })?;
    /// let x = Buffer::from_slice(&device, &vec![bf16::ONE; 2 * 300 * 64])?;
    /// let x = x.view([1, 2, 300, 64]);
    /// let (out, lse) = (Buffer::<bf16>::zeros(&device, 2 * 300 * 64)?, Buffer::zeros(&device, 2 * 300)?);
    /// let to = out.view([1, 2, 300, 64]);
    /// Attention::new(&device).forward_blocks::<_, Plain>(&stream, [&x, &x, &x], &to, &lse, &mask, &Options::default(), None)?;
    /// stream.synchronize()?;
    /// assert!(out.to_vec()?.iter().all(|&x| x == bf16::ONE));
    /// // A query of the last block sees 128 + 44 keys, whose scores are 8.
    /// assert!((lse.to_vec()?[299] - (8.0 + (128.0_f32 + 44.0).ln())).abs() < 1e-3);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Argument`](crate::attention::Error::Argument) for an argument that is not supported; otherwise an error of the device.
    #[expect(
        clippy::too_many_arguments,
        reason = "those of `forward_modified`, and the mask"
    )]
    pub fn forward_blocks<T: Operand, M: Modifier>(
        &self,
        stream: &Stream,
        qkv: [&View<'_, T>; 3],
        out: &View<'_, T>,
        lse: &Buffer<f32>,
        mask: &BlockMask,
        options: &Options<'_>,
        data: Option<&Buffer<f32>>,
    ) -> Result<()> {
        let Checked {
            sizes,
            mask: of_options,
            scale,
        } = check_forward(qkv, out, lse, options)?;
        check_lse_apart(lse, [("data", data)])?;
        check_mask(mask.shape(), sizes)?;
        check_options::<M>(options)?;
        check_positions::<M>(options, sizes)?;
        let table = instances::<T, M>();
        check_built(sizes.depths, table.iter().map(|row| row.depths))?;
        let mut rows = table.into_iter().enumerate();
        let (index, instance) = rows
            .find(|(_, row)| row.depths == sizes.depths)
            .expect("the depths are those of a row");
        let kernel = self.kernel::<(T, M), _>("forward_blocks", index, &instance)?;
        let workspace = Workspace::of(stream)?;
        let shape = mask.shape();
        let [of_batch, of_head] = shape.lists_of_queries();
        let tiles = sizes.queries.div_ceil(instance.tile.rows) * sizes.heads * sizes.batch;
        let shift = if of_options.from_first {
            sizes.keys as i32 - sizes.queries as i32
        } else {
            0
        };
        let [score_scale, exponent_scale] = M::factors(scale, 1.0);
        let no_numbers = &workspace.nothing.1;
        kernel.launch(
            stream,
            self.programs(&kernel, tiles)?,
            (
                packed(qkv[0], 1),
                qkv[1],
                blocked(qkv[2], options),
                packed(out, 1),
                lse,
                &workspace.counter,
                &mask.keys.starts,
                &mask.keys.partial,
                &mask.keys.blocks,
                options.sinks.unwrap_or(no_numbers),
                data.unwrap_or(no_numbers),
                sizes.batch as i32,
                sizes.heads as i32,
                (sizes.heads / sizes.kv_heads) as i32,
                sizes.queries as i32,
                sizes.keys as i32,
                i32::from(options.sinks.is_some()),
                reach(of_options.left, shift),
                reach(of_options.right, -shift),
                of_batch as i32,
                of_head as i32,
                (shape.block[0] / instance.tile.rows) as i32,
                (shape.walked()[1] / instance.tile.keys) as i32,
                exponent_scale * LOG2_E as f32,
                score_scale,
            ),
        )?;
        Ok(())
    }
}

/// Checks that a mask has the extents of a call.
pub(in crate::attention) fn check_mask(shape: BlockShape, sizes: Sizes) -> Result<()> {
    let tokens = [sizes.queries, sizes.keys];
    expect(
        shape.tokens == tokens,
        "mask",
        || format!("{:?} queries and keys", shape.tokens),
        format!("{tokens:?}, those of q and k"),
    )?;
    for (name, found, expected) in [
        ("batch", shape.batch, sizes.batch),
        ("heads", shape.heads, sizes.heads),
    ] {
        expect(
            found == 1 || found == expected,
            "mask",
            || format!("{name} {found}"),
            format!("1, or {expected} as q"),
        )?;
    }
    Ok(())
}

pub(in crate::attention) fn check_options<M: Modifier>(options: &Options<'_>) -> Result<()> {
    for (name, is_there) in [
        ("the modifier's dropout", M::DROPS),
        ("options.chunk", options.chunk.is_some()),
        ("options.lengths", options.lengths.is_some()),
        ("options.dropout", options.dropout.is_some()),
        ("options.softcap", options.softcap.is_some()),
        ("options.alibi", options.alibi.is_some()),
    ] {
        expect(
            !is_there,
            name,
            || "a value".to_string(),
            "none beside a mask of blocks; softcap and alibi are modifiers",
        )?;
    }
    Ok(())
}
