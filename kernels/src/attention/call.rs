//! Attention as a program calls it: checks, the choice of an instance, launches.

use std::any::{Any, TypeId};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use tilekit::prelude::*;
use tilekit::{CompiledKernel, Compiler, Device, LoadedKernel};

use super::check::{Checked, Strides, check_inputs, check_lse_apart, check_positions, rows_of};
use super::dropout::Dropout;
use super::empty::empty_rows;
use super::error::{Result, expect};
use super::masked::kernel::masked_arguments;
use super::modifier::{Alibi, Dropped, Modifier, Plain, Softcap};
use super::options::Options;
use super::plan::{Numbers, section_of};
use super::table::{DenseHandles, Instance, Operand, masked};
use super::workspace::Workspace;
use super::written::check_forward;

/// Attention on a device: the kernels that calls have needed so far. Workspaces belong to streams.
/// [`backward`](Attention::backward) has the gradients, [`forward_blocks`](Attention::forward_blocks) and [`backward_blocks`](Attention::backward_blocks) take block-sparse masks, [`decode`](Attention::decode) attends to a cache, to which
/// [`append`](Attention::append) stores, and [`merge`](Attention::merge) merges results.
///
/// Tensors are views of `[batch, heads, tokens, depth]`. Rows are contiguous; other strides are multiples of 16 bytes. K and V may have fewer
/// heads than Q, each for a group of consecutive query heads. Accumulators are f32, and results are rounded once. Depths of Q and K are 64, 96, 128 and 256 with
/// values of the same, and 192 with values of 128 (the prefill of MLA); those of `decode` and `append` are 64, 128 and 256.
///
/// The first call that needs a kernel compiles and loads it, and the first one of a stream allocates its workspace, which waits
/// for the device: neither may happen while a graph is captured. Threads may share a stream: calls of several launches put them on it one call after the other.
///
/// ```
/// use tilekit::prelude::*;
/// use tilekit_kernels::attention::{Attention, Options};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let device = Device::auto(); // a GPU where there is one, else the emulator
/// let stream = Stream::new(&device)?;
/// let attention = Attention::new(&device);
///
/// // As torch has them: batch, tokens, heads, depth in memory.
/// let (batch, heads, tokens, depth) = (1, 2, 40, 64);
/// let x = Buffer::from_slice(&device, &vec![bf16::ONE; batch * heads * tokens * depth])?;
/// let view = x
///     .view([batch, heads, tokens, depth])
///     .with_strides([tokens * heads * depth, depth, heads * depth, 1]);
/// let options = Options { causal: true, window: [Some(15), None], ..Options::default() };
/// let result = attention.forward(&stream, [&view, &view, &view], &options)?;
/// stream.synchronize()?;
/// assert!(result.out.to_vec()?.iter().all(|&x| x == bf16::ONE));
/// # Ok(())
/// # }
/// ```
pub struct Attention {
    pub(super) device: Device,
    compiler: Compiler,
    kernels: Mutex<HashMap<KernelName, Box<dyn Any + Send>>>,
}

/// A kernel's element types and modifier, and its function with its index in the table of instances.
type KernelName = (TypeId, Cow<'static, str>, usize);

/// The results of attention: the output `[batch, heads, tokens, depth]` without gaps, and the natural logarithm of the sum of exponentials of each
/// query's scores, `[batch, heads, tokens]`. A query that sees no key has a row of zeros and -inf.
pub struct Forward<T> {
    /// The output.
    pub out: Buffer<T>,
    /// LSE of the output.
    pub lse: Buffer<f32>,
}

pub(super) type View<'a, T> = TensorView<'a, T>;

impl Attention {
    /// On `device`. Nothing is compiled yet.
    pub fn new(device: &Device) -> Attention {
        Attention {
            device: device.clone(),
            compiler: Compiler::default(),
            kernels: Mutex::default(),
        }
    }

    /// Attention of `[q, k, v]`, into new buffers.
    ///
    /// # Errors
    /// [`Error::Argument`](super::Error::Argument) for an argument that is not supported; otherwise an error of the device.
    pub fn forward<T: Operand>(
        &self,
        stream: &Stream,
        qkv: [&View<'_, T>; 3],
        options: &Options<'_>,
    ) -> Result<Forward<T>> {
        check_inputs(qkv, options)?;
        self.results(("q", qkv[0]), extent(qkv[2], 3), |out, lse| {
            self.forward_into(stream, qkv, out, lse, options)
        })
    }

    /// What `attend` gives: the results of `q`, which errors call `name`, of rows of so many columns, in new buffers. What `attend` reads has been checked: nothing is allocated for a wrong call.
    pub(super) fn results<T: DeviceElement, O: DeviceElement>(
        &self,
        (name, q): (&'static str, &View<'_, T>),
        columns: usize,
        attend: impl FnOnce(&View<'_, O>, &Buffer<f32>) -> Result<()>,
    ) -> Result<Forward<O>> {
        let [batch, heads, tokens] = [0, 1, 2].map(|dim| extent(q, dim));
        let rows = rows_of(name, [batch, heads, tokens])?;
        let out = Buffer::new(&self.device, rows * columns)?;
        let lse = Buffer::new(&self.device, rows)?;
        attend(&out.view([batch, heads, tokens, columns]), &lse)?;
        Ok(Forward { out, lse })
    }

    /// Attention of `[q, k, v]` into `out`, whose strides follow the rules of q, k and v, and into `lse`.
    ///
    /// # Errors
    /// As for [`forward`](Attention::forward).
    pub fn forward_into<T: Operand>(
        &self,
        stream: &Stream,
        qkv: [&View<'_, T>; 3],
        out: &View<'_, T>,
        lse: &Buffer<f32>,
        options: &Options<'_>,
    ) -> Result<()> {
        let checked = check_forward(qkv, out, lse, options)?;
        let call = Call {
            stream,
            qkv,
            out,
            lse,
            options,
            checked,
        };
        if checked.sizes.keys == 0 {
            return self.launch_empty(&call);
        }
        match (options.softcap, options.alibi) {
            (Some(_), _) => self.launch_beside_dropout::<T, Softcap>(&call, None),
            (None, Some(slopes)) => self.launch_beside_dropout::<T, Alibi>(&call, Some(slopes)),
            (None, None) => match Self::dense_instance(&call) {
                Some((index, instance)) => self.launch_dense(&call, index, &instance),
                None => self.launch_beside_dropout::<T, Plain>(&call, None),
            },
        }
    }

    /// Attention of `[q, k, v]` into `out` and `lse`, with scores that `M` changes or masks, besides the mask of `options`; `data` is
    /// what `M` finds as its [`data`](super::Place::data).
    ///
    /// # Errors
    /// As for [`forward`](Attention::forward); and `options` has neither `softcap` nor `alibi`.
    pub fn forward_modified<T: Operand, M: Modifier>(
        &self,
        stream: &Stream,
        qkv: [&View<'_, T>; 3],
        out: &View<'_, T>,
        lse: &Buffer<f32>,
        options: &Options<'_>,
        data: Option<&Buffer<f32>>,
    ) -> Result<()> {
        let checked = check_forward(qkv, out, lse, options)?;
        check_lse_apart(lse, [("data", data)])?;
        expect(
            options.softcap.is_none() && options.alibi.is_none(),
            "options",
            || "softcap or alibi beside a modifier".to_string(),
            "the modifier alone: it can do both",
        )?;
        let call = Call {
            stream,
            qkv,
            out,
            lse,
            options,
            checked,
        };
        if checked.sizes.keys == 0 {
            return self.launch_empty(&call);
        }
        self.launch_beside_dropout::<T, M>(&call, data)
    }

    /// The tuned instance for a call, if there is one.
    fn dense_instance<T: Operand>(
        call: &Call<'_, T>,
    ) -> Option<(usize, Instance<DenseHandles<T>>)> {
        let Checked { sizes, mask, .. } = call.checked;
        let is_causal = mask.right == Some(0) && mask.left.is_none() && mask.chunk.is_none();
        let is_dense = (mask.is_full() || is_causal)
            && sizes.queries == sizes.keys
            && call.options.sinks.is_none()
            && call.options.dropout.is_none()
            && call.options.lengths.is_none();
        let mut instances = T::dense().0.into_iter().enumerate();
        let fits = |(_, instance): &(usize, Instance<_>)| {
            instance.depths == sizes.depths && instance.is_causal == is_causal
        };
        instances.find(fits).filter(|_| is_dense)
    }

    fn launch_dense<T: Operand>(
        &self,
        call: &Call<'_, T>,
        index: usize,
        instance: &Instance<DenseHandles<T>>,
    ) -> Result<()> {
        let Checked { sizes, scale, .. } = call.checked;
        let kernel = self.kernel::<T, _>("forward", index, instance)?;
        let workspace = Workspace::of(call.stream)?;
        let heads = sizes.batch * sizes.heads;
        let row_bytes = 2 * sizes.depths[0] * size_of::<T>();
        let section = section_of(heads, sizes.keys, row_bytes, instance.is_causal);
        let tiles = sizes.queries.div_ceil(instance.tile.rows) * heads;
        kernel.launch(
            call.stream,
            self.programs(&kernel, tiles)?,
            (
                call.qkv[0],
                call.qkv[1],
                call.qkv[2],
                call.out,
                call.lse,
                &workspace.counter,
                sizes.batch as i32,
                sizes.heads as i32,
                (sizes.heads / sizes.kv_heads) as i32,
                sizes.queries as i32,
                section as i32,
                scale * LOG2_E as f32,
            ),
        )?;
        Ok(())
    }

    /// Launches the kernel of `M`, beside dropout if the options have it.
    fn launch_beside_dropout<T: Operand, M: Modifier>(
        &self,
        call: &Call<'_, T>,
        data: Option<&Buffer<f32>>,
    ) -> Result<()> {
        check_positions::<M>(call.options, call.checked.sizes)?;
        match call.options.dropout {
            Some(_) => self.launch_masked::<T, Dropped<M>>(call, data),
            None => self.launch_masked::<T, M>(call, data),
        }
    }

    fn launch_masked<T: Operand, M: Modifier>(
        &self,
        call: &Call<'_, T>,
        data: Option<&Buffer<f32>>,
    ) -> Result<()> {
        let Checked {
            sizes, mask, scale, ..
        } = call.checked;
        let group = sizes.heads / sizes.kv_heads;
        // Heads are packed if the queries of one head do not fill a tile.
        let fits = |(_, instance): &(usize, Instance<_>)| {
            let Instance { depths, tile, .. } = instance;
            let is_packed = tile.pack > 1;
            *depths == sizes.depths
                && !(is_packed && M::DROPS)
                && (!is_packed || (group.is_multiple_of(tile.pack) && sizes.queries < tile.rows))
        };
        let mut instances = masked::<T, M>().into_iter().enumerate();
        let (index, instance) = instances
            .find(fits)
            .expect("the check of a call knows the depths of this table");
        let kernel = self.kernel::<(T, M), _>("forward_masked", index, &instance)?;
        let workspace = Workspace::of(call.stream)?;
        let numbers = Numbers::new(sizes, mask, instance.tile, size_of::<T>());
        let pack = instance.tile.pack;
        let (no_offsets, no_numbers) = &workspace.nothing;
        let offsets = call.options.lengths.map_or([no_offsets; 2], |lengths| {
            [lengths.query_offsets, lengths.key_offsets]
        });
        let [q, out] = [call.qkv[0], call.out].map(|view| packed(view, pack));
        let v = blocked(call.qkv[2], call.options);
        let out = match call.options.lengths {
            Some(_) => out.with_stored_sequences(TOKENS),
            None => out,
        };
        kernel.launch(
            call.stream,
            self.programs(&kernel, numbers.tiles)?,
            masked_arguments!(
                maps: [q, call.qkv[1], v, out],
                results: [call.lse, &workspace.counter],
                offsets: [offsets[0], offsets[1]],
                data: [call.options.sinks.unwrap_or(no_numbers), data.unwrap_or(no_numbers)],
                numbers: numbers,
                flags: [call.options.lengths.is_some(), call.options.sinks.is_some()],
                factors: M::factors(scale, call.options.softcap.unwrap_or(1.0)),
                lse_stride: call.qkv[0].place().shape[2],
                dropout: call.options.dropout
            ),
        )?;
        Ok(())
    }

    /// Fills the output with zeros, and LSE with that of the sinks alone.
    fn launch_empty<T: Operand>(&self, call: &Call<'_, T>) -> Result<()> {
        let instance = Instance {
            depths: call.checked.sizes.depths,
            tile: super::plan::Tile {
                rows: 1,
                keys: 0,
                pack: 1,
            },
            is_causal: false,
            compile: |compiler| empty_rows::<T>.compile(compiler),
        };
        let kernel = self.kernel::<T, _>("empty_rows", 0, &instance)?;
        let workspace = Workspace::of(call.stream)?;
        let shape = &call.out.place().shape;
        let strides = Strides::of(call.out);
        kernel.launch(
            call.stream,
            shape[0] * shape[1] * shape[2],
            (
                call.out,
                call.lse,
                call.options.sinks.unwrap_or(&workspace.nothing.1),
                i32::from(call.options.sinks.is_some()),
                shape[1] as i32,
                shape[2] as i32,
                shape[3] as i32,
                strides.numbers(),
            ),
        )?;
        Ok(())
    }

    /// A kernel for element types and modifiers `K`, loaded at its first use.
    pub(super) fn kernel<K: 'static, H: 'static>(
        &self,
        name: &'static str,
        index: usize,
        instance: &Instance<H>,
    ) -> Result<LoadedKernel<H>> {
        let key = (TypeId::of::<K>(), name.into(), index);
        self.loaded(key, instance.compile)
    }

    /// A kernel without a table of instances, by its name.
    pub(super) fn kernel_of<K: 'static, H: 'static>(
        &self,
        name: String,
        compile: impl FnOnce(&Compiler) -> tilekit::Result<CompiledKernel<H>>,
    ) -> Result<LoadedKernel<H>> {
        self.loaded((TypeId::of::<K>(), name.into(), 0), compile)
    }

    fn loaded<H: 'static>(
        &self,
        key: KernelName,
        compile: impl FnOnce(&Compiler) -> tilekit::Result<CompiledKernel<H>>,
    ) -> Result<LoadedKernel<H>> {
        let mut kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        let loaded = kernels.get(&key).and_then(|kernel| kernel.downcast_ref());
        if let Some(loaded) = loaded {
            return Ok(LoadedKernel::clone(loaded));
        }
        let loaded = compile(&self.compiler)?.load(&self.device)?;
        // A kernel that waits for the launch in front of it may begin beside that one.
        let loaded = match loaded.programmatic() {
            Err(tilekit::Error::NeverWaits { .. }) => loaded,
            overlapping => overlapping?,
        };
        kernels.insert(key, Box::new(loaded.clone()));
        Ok(loaded)
    }

    /// Programs of a persistent kernel: as many as are resident at a time, and a few on the emulator, which has no such limit.
    pub(super) fn programs<H>(&self, kernel: &LoadedKernel<H>, tiles: usize) -> Result<usize> {
        if self.device.is_cuda() {
            Ok(kernel.resident()?.programs(tiles))
        } else {
            Ok(tiles.clamp(1, 4))
        }
    }
}

/// A call that has been checked.
struct Call<'a, T> {
    stream: &'a Stream,
    qkv: [&'a View<'a, T>; 3],
    out: &'a View<'a, T>,
    lse: &'a Buffer<f32>,
    options: &'a Options<'a>,
    checked: Checked,
}

/// Elements along a dimension of a view, 0 if it has fewer.
pub(super) fn extent<T: DeviceElement>(view: &View<'_, T>, dim: usize) -> usize {
    view.place().shape.get(dim).copied().unwrap_or(0)
}

/// The dimension of the tokens.
const TOKENS: usize = 2;

/// The view by which blocks of a tensor are moved, with a dimension in front: of concatenated sequences each copy ends with its own.
pub(super) fn blocked<'a, T: DeviceElement>(
    view: &View<'a, T>,
    options: &Options<'_>,
) -> View<'a, T> {
    let place = view.place();
    let behind = |first: usize, of_view: &[usize]| -> Vec<usize> {
        std::iter::once(first)
            .chain(of_view.iter().copied())
            .collect()
    };
    let (shape, strides) = (behind(1, &place.shape), behind(0, &place.strides));
    let view = view
        .clone()
        .with_shape(&shape[..])
        .with_strides(&strides[..]);
    match options.lengths {
        Some(_) => view.with_sequences(TOKENS + 1),
        None => view,
    }
}

/// The view with `pack` heads as a dimension after the tokens.
pub(super) fn packed<'a, T: DeviceElement>(view: &View<'a, T>, pack: usize) -> View<'a, T> {
    let (place, strides) = (view.place(), Strides::of(view));
    let shape = &place.shape;
    let packs = [shape[0], shape[1] / pack, shape[2], pack, shape[3]];
    let between = [
        strides.batch,
        strides.head * pack,
        strides.token,
        strides.head,
        1,
    ];
    let packs = view.source().view(packs).with_strides(between);
    packs.with_offset(place.offset)
}
