//! One product: its operands, its accumulator, and the instructions that tile them.

use cranelift_entity::packed_option::PackedOption;
use smallvec::smallvec;

use super::accumulator::accumulator;
use super::types::{InputPrecision, check_elements};
use super::wait::TENSOR_CORES;
use crate::OpError;
use crate::elem::{DType, Elem};
use crate::entity::Value;
use crate::ops::cut::{are_multiples, nearest_multiples};
use crate::ops::define::{answers, define_op};
use crate::ops::mbarrier::check_predicate;
use crate::ops::shared::descriptor;
use crate::ops::sparse::check_metadata;
use crate::ops::{OpRules, Types};
use crate::{Func, SmemType, TensorType, Type};
use diag::Code;
use layout::local::Places;
use layout::matrix::{MatrixTile, plan_matrix};
use layout::{Axis, Dims, Layout, Wgmma};

define_op! {
    /// `accumulator + a · b`, started. `a` is `[M, K]` in shared memory or registers, `b` is `[K, N]` in shared memory, the
    /// accumulator `[M, N]`. Without `use_accumulator` its old value counts as zero where that is false. With `metadata`, `a`
    /// is sparse: `[M, K / 2]`, the kept elements.
    pub struct WgmmaStart = "wgmma" {
        /// What 32-bit floats count as.
        precision: InputPrecision,
        /// For 8-bit floats: after how many elements of K partial sums are added in full precision; 0 for never.
        promote_every: u32,
        /// Operand A.
        a: Value,
        /// Operand B.
        b: Value,
        /// A tensor, or what is in flight from another `wgmma`.
        accumulator: Value,
        /// Whether the old value counts; a scalar boolean.
        use_accumulator: PackedOption<Value>,
        /// Which elements of its rows `a` has, half of K of each: a tensor of 16-bit numbers with four chunks of a row each.
        metadata: PackedOption<Value>,
    }
}

impl OpRules for WgmmaStart {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        check_predicate(func, "wgmma", self.use_accumulator)?;
        let acc = accumulator(func, self.accumulator)?;
        let b = descriptor(func, "wgmma", self.b)?;
        let a_ty = func.ty(self.a);
        let (a_shape, a_elem) = match a_ty {
            Type::Smem(s) => (&s.shape, s.elem),
            Type::Tensor(t) => {
                check_register_operand(self.a, t, acc)?;
                (&t.shape, t.elem)
            }
            other => {
                return Err(OpError::new(
                    Code::ElementMismatch,
                    format!("operand A of `wgmma` is a tile, not {other}"),
                ));
            }
        };
        self.check_shapes(a_shape, b, acc, self.compression(func))?;
        let elems = [a_elem, b.elem, acc.elem];
        let depth = check_elements(&func.target.wgmma, elems, self.precision)?;
        self.check_promotion(a_elem, acc.elem, depth * self.compression(func))?;
        self.check_ctas(func, acc, b)?;
        self.check_tiles(func, acc, b, depth)?;
        if let Some(metadata) = self.metadata.expand() {
            check_metadata(func, metadata, [a_elem.bits(), b.shape[0]], acc)?;
        }
        Ok(smallvec![Type::InFlight(acc.clone())])
    }
    answers!(effects(TENSOR_CORES), shared(a: OperandRead, b: OperandRead), cta_parts, free_layouts);
    fn in_place_operands(&self) -> &[Value] {
        std::slice::from_ref(&self.accumulator)
    }
    fn started_product(&self) -> Option<Value> {
        Some(self.accumulator)
    }
}

impl WgmmaStart {
    /// K of B over that of A: above 1 where A is sparse and keeps one of so many elements.
    pub fn compression(&self, func: &Func) -> u32 {
        match self.metadata.expand() {
            Some(_) => func.target.wgmma.sparse_depth_factor,
            None => 1,
        }
    }

    /// Each CTA of a cluster multiplies what lies in its own shared memory into its part of the accumulator: it has the rows
    /// of A and the columns of B that belong to that, and all of K.
    fn check_ctas(&self, func: &Func, acc: &TensorType, b: &SmemType) -> Result<(), OpError> {
        let Layout::Wgmma(layout) = &acc.layout else {
            return Ok(());
        };
        let a = func.ty(self.a).as_smem();
        let are_own = layout.cta_bases.is_empty() && b.layout.ctas() == 1;
        if are_own && a.is_none_or(|a| a.layout.ctas() == 1) {
            return Ok(());
        }
        let Ok(map) = acc.layout.linear(&acc.shape) else {
            // Wrong layouts are reported where they are made.
            return Ok(());
        };
        let places = map.basis_coords(Axis::Block);
        let part = part_of(acc, &places);
        let holds = |s: &SmemType, mn_dim: usize| {
            let of_k = |at: u32, k: u32| Dims::filled(k, 2).with(mn_dim, at);
            let origins: Vec<Dims> = places.iter().map(|at| of_k(at[mn_dim], 0)).collect();
            let part = of_k(part[mn_dim], s.shape[1 - mn_dim]);
            Places::new(&s.layout, &s.alloc_shape).is_ok_and(|p| p.hold_parts(&part, &origins))
        };
        match a {
            Some(a) if !holds(a, 0) => Err(self.split_otherwise(layout, self.a, a, 0)),
            _ if !holds(b, 1) => Err(self.split_otherwise(layout, self.b, b, 1)),
            _ => Ok(()),
        }
    }

    fn split_otherwise(&self, sums: &Wgmma, view: Value, s: &SmemType, mn_dim: usize) -> OpError {
        let (name, seen_as) = [("A", "[M, K]"), ("B", "[K, N]")][mn_dim];
        let bases = sums.cta_bases.iter();
        let bases = bases.map(|basis| basis.with(1 - mn_dim, 0).to_string());
        let bases = bases.collect::<Vec<_>>().join(", ");
        let message = format!(
            "the CTAs of the cluster split operand {name} of `wgmma` in another way than the accumulator: {s} and {sums}"
        );
        OpError::new(Code::LayoutMismatch, message)
            .typed(view, s)
            .origin(self.accumulator, "accumulator")
            .help(format!("a CTA multiplies the operands in its own shared memory over all of K: as {seen_as}, give {name} the CTA bases [{bases}]"))
    }

    /// Partial sums are worth a second set of registers only where the tensor cores round them.
    fn check_promotion(&self, a: Elem, acc: Elem, depth: u32) -> Result<(), OpError> {
        let every = self.promote_every;
        let is_of_fp8 = matches!(a, Elem::Data(DType::E4m3 | DType::E5m2)) && acc == Elem::F32;
        if every == 0 || is_of_fp8 && every.is_multiple_of(depth) {
            return Ok(());
        }
        let error = OpError::new(
            Code::ElementMismatch,
            format!("`promote_every({every})` does not apply to products of {a} into {acc}"),
        );
        let depth = if is_of_fp8 { depth } else { 32 };
        Err(error.note(format!(
            "only products of 8-bit floats into f32 are promoted, after a multiple of {depth} elements of K"
        )))
    }

    /// Instructions must tile the accumulator and K, and the tensor cores must be able to address the operands.
    fn check_tiles(
        &self,
        func: &Func,
        acc: &TensorType,
        b: &SmemType,
        depth: u32,
    ) -> Result<(), OpError> {
        let Layout::Wgmma(layout) = &acc.layout else {
            return Ok(());
        };
        let wgmma = &func.target.wgmma;
        let wrong = |message: String| {
            OpError::new(Code::ShapeMismatch, message)
                .origin(self.accumulator, format!("accumulator, {}", acc.layout))
        };
        // Of a sparse product, A has half of the K of B.
        let depth_of_b = depth * self.compression(func);
        let is_integer = acc.elem == Elem::I32;
        if !wgmma.has_columns(layout.n(), is_integer) {
            return Err(wrong(format!(
                "there is no `wgmma` of {} columns for {}; on {} they are multiples of {} up to {}",
                layout.n(),
                b.elem,
                func.target.arch,
                wgmma.n_unit,
                wgmma.most_n
            )));
        }
        if layout.instr_shape[2] != depth {
            let which = if depth_of_b == depth { "" } else { "kept " };
            return Err(wrong(format!(
                "one `wgmma` multiplies {depth} {which}elements of {} along K, and the layout says {}",
                b.elem, layout.instr_shape[2]
            ))
            .help(format!(
                "write `Wgmma::new(.., [{}, {}, {depth}])`",
                wgmma.m,
                layout.n()
            )));
        }
        let tile = [wgmma.m, layout.n() * layout.warps[1]];
        let of_ctas = acc.layout.linear(&acc.shape);
        let of_ctas = of_ctas.map_or_else(|_| Vec::new(), |map| map.basis_coords(Axis::Block));
        let part = part_of(acc, &of_ctas);
        if part[0] < tile[0] || part[1] < tile[1] || b.shape[0] < depth_of_b {
            let whose = if part == acc.shape {
                ""
            } else {
                "of each CTA "
            };
            return Err(wrong(format!(
                "an accumulator {whose}of {part} and a K of {} are smaller than what the warps' instructions cover, [{}, {}] by a K of {depth_of_b}",
                b.shape[0], tile[0], tile[1]
            ))
            .help("use instructions of fewer columns, or larger tiles"));
        }
        if !are_multiples(&part, &tile) || !b.shape[0].is_multiple_of(depth_of_b) {
            let (m, n) = (
                nearest_multiples(part[0], tile[0]),
                nearest_multiples(part[1], tile[1]),
            );
            return Err(wrong(format!(
                "an accumulator of {part} and a K of {} are no multiples of what the warps' instructions cover, [{}, {}] by a K of {depth_of_b}",
                b.shape[0], tile[0], tile[1]
            ))
            .help(format!(
                "with these instructions use {m} for M and {n} for N; n may be any multiple of {} up to {} that divides N, and K any multiple of {depth_of_b}",
                wgmma.n_unit, wgmma.most_n
            )));
        }
        if let Type::Smem(a) = func.ty(self.a) {
            check_readable(func, self.a, a, (0, wgmma.m, depth))?;
        }
        check_readable(func, self.b, b, (1, layout.n(), depth_of_b))
    }

    fn check_shapes(
        &self,
        a: &[u32],
        b: &SmemType,
        acc: &TensorType,
        compression: u32,
    ) -> Result<(), OpError> {
        let fits = a.len() == 2
            && b.shape.rank() == 2
            && acc.rank() == 2
            && a[1].checked_mul(compression) == Some(b.shape[0])
            && a[0] == acc.shape[0]
            && b.shape[1] == acc.shape[1];
        if fits {
            return Ok(());
        }
        let (what, left, help) = if compression == 1 {
            (
                "`wgmma` multiplies [M, K] by [K, N]",
                "A",
                "write `b.transpose()` for a tile of `[N, K]`, `a.transpose()` for one of `[K, M]`",
            )
        } else {
            (
                "a sparse `wgmma` multiplies [M, K / 2] with its metadata by [K, N]",
                "A, the kept half of each row",
                "`tilekit::sparse::Compressed` compresses A on the host; write `b.transpose()` for a tile of `[N, K]`",
            )
        };
        let is_of_matrices = a.len() == 2 && b.shape.rank() == 2;
        let is_deep = is_of_matrices && a[1].checked_mul(compression) == Some(b.shape[0]);
        let help = match acc.rank() {
            2 if is_deep && a[0] != acc.shape[0] => "give A and the accumulator the same M",
            2 if is_deep => "give B and the accumulator the same N",
            _ => help,
        };
        Err(OpError::new(
            Code::ShapeMismatch,
            format!(
                "{what} into [M, N]; these are {a:?}, {} and {}",
                b.shape, acc.shape
            ),
        )
        .origin(self.a, format!("{left}, {a:?}"))
        .origin(self.b, format!("B, {}", b.shape))
        .origin(self.accumulator, format!("accumulator, {}", acc.shape))
        .help(help))
    }
}

/// What one CTA has of an accumulator whose CTAs begin at the XOR of these places.
fn part_of(acc: &TensorType, places: &[Dims]) -> Dims {
    let reached = |dim: usize| places.iter().fold(0, |all, at| all | at[dim]);
    let sizes = acc.shape.iter().enumerate();
    sizes
        .map(|(dim, size)| size >> u32::count_ones(reached(dim)))
        .collect()
}

/// The tensor cores read only what some matrix descriptor describes.
fn check_readable(
    func: &Func,
    view: Value,
    s: &SmemType,
    (mn_dim, mn, k): (usize, u32, u32),
) -> Result<(), OpError> {
    let tile = MatrixTile {
        mn_dim,
        mn,
        k,
        elem_bits: s.elem.bits(),
    };
    let Err(error) = plan_matrix(&s.layout, &s.alloc_shape, tile) else {
        return Ok(());
    };
    Err(OpError::new(Code::LayoutMismatch, error.to_string())
        .typed(view, s)
        .help(readable_help(func, s)))
}

/// What to write for a tile that no descriptor describes.
fn readable_help(func: &Func, s: &SmemType) -> String {
    let widths = func.target.tensor_map.swizzles;
    let least = widths.into_iter().find(|&width| width > 0).unwrap_or(1);
    let rows = row_bytes(s).unwrap_or(least);
    if !rows.is_multiple_of(least) {
        return format!(
            "rows of {rows} bytes fit no swizzle: make the tile wider, to a multiple of {least} bytes"
        );
    }
    let swizzled = "give it a layout `Nvmma` with the widest swizzle that fits its rows";
    if s.elem.bits() == 16 {
        return swizzled.to_owned();
    }
    format!(
        "{swizzled}, and rows along K; transpose other tiles through registers: `other.store(tile.load(layout).transpose())`"
    )
}

/// The bytes of the dimension that is contiguous, if one is.
fn row_bytes(s: &SmemType) -> Option<u32> {
    let places = Places::new(&s.layout, &s.alloc_shape).ok()?;
    let steps_by_one = |&(dim, &size): &(usize, &u32)| places.along(dim, size).first() == Some(&1);
    let (_, columns) = s.alloc_shape.iter().enumerate().find(steps_by_one)?;
    Some(columns * s.elem.bits() / 8)
}

fn check_register_operand(a: Value, t: &TensorType, acc: &TensorType) -> Result<(), OpError> {
    let wanted_width = 32 / t.elem.bits();
    let fits = matches!(&t.layout, Layout::DotOperand(d)
        if d.operand == 0 && d.k_width == wanted_width && d.parent == acc.layout);
    if fits {
        return Ok(());
    }
    Err(OpError::new(
        Code::LayoutMismatch,
        format!("operand A in registers has the layout `DotOperand(0, {}, {wanted_width})`, not {}", acc.layout, t.layout),
    )
    .typed(a, t)
    .help(format!(
        "convert it by `.convert_layout(DotOperand::new(0, acc, {wanted_width}))`, where `acc` is the layout of the accumulator"
    )))
}
