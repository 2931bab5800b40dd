//! Asynchronous copies.

use super::context::Checker;
use super::legal::Need::Exact;
use crate::inst::{
    AtomOp, BulkLoad, BulkReduce, BulkReduceCluster, BulkSharedToCluster, BulkStore, CpAsync,
    CpAsyncCache, TensorDim, TensorLoad, TensorMode, TensorPrefetch, TensorReduce, TensorStore,
    Visit,
};
use crate::operand::{Addr, CtaMask, Im2colOffsets, Operand, TensorAddr};
use crate::registers::RegClass;
use crate::types::{Space, Type};
use target::{MBARRIER_BYTES, TENSOR_MAP_ALIGNMENT_BYTES, TENSOR_MAP_BYTES};

impl Visit<CpAsync> for Checker<'_> {
    fn visit(&mut self, inst: &CpAsync) {
        let [most, middle, least] = self.machine.access.async_bytes;
        let (allowed, sizes): (_, &[u32]) = match inst.cache {
            CpAsyncCache::Ca => (
                format!("{} bytes", self.machine.access.async_bytes_in_words()),
                &[least, middle, most],
            ),
            CpAsyncCache::Cg => (format!("{most} bytes"), &[most]),
        };
        self.immediate("bytes", &inst.bytes, allowed, |value| {
            sizes.iter().any(|size| i64::from(*size) == value)
        });
        let bytes = if let Operand::Int(bytes) = inst.bytes {
            bytes.clamp(1, most.into()) as u32
        } else {
            1
        };
        self.addr("dst", inst.dst, Some(Space::Shared), bytes, bytes);
        self.addr("src", inst.src, Some(Space::Global), 1, 1);
        if let Some(limit) = &inst.src_bytes {
            let class = limit.reg().and_then(|reg| self.body.registers.get(reg));
            if class != Some(RegClass::Pred) {
                let is_legal = |value: i64| (0..=i64::from(bytes)).contains(&value);
                self.ranged(
                    "src_bytes",
                    limit,
                    "at most the bytes of the copy",
                    is_legal,
                );
            }
        }
        self.cache_policy(inst.policy.as_ref());
    }
}

impl Checker<'_> {
    pub(super) fn pending(&mut self, operand: &Operand) {
        self.immediate("pending", operand, "a number of groups", |value| {
            (0..1 << 31).contains(&value)
        });
    }

    pub(super) fn wgmma_pending(&mut self, operand: &Operand) {
        let most = self.machine.wgmma.pending_groups;
        let allowed = format!("0 to {most} groups");
        self.immediate("pending", operand, allowed, |value| {
            (0..=most.into()).contains(&value)
        });
    }

    fn bulk_bytes(&mut self, bytes: &Operand) {
        let unit = self.bulk_unit();
        let is_legal = |value: i64| value > 0 && value % i64::from(unit) == 0;
        self.ranged(
            "bytes",
            bytes,
            format!("a multiple of {unit} bytes"),
            is_legal,
        );
    }

    /// What a bulk copy counts and aligns in, in bytes.
    fn bulk_unit(&self) -> u32 {
        self.machine.tensor_map.unit_bytes
    }

    /// The mbarrier that a copy completes on, of any CTA of the cluster.
    fn completion(&mut self, mbar: Addr) {
        self.shared("mbar", mbar, Space::SharedCluster, MBARRIER_BYTES);
    }

    /// A box in shared memory.
    fn tensor_box(&mut self, operand: &'static str, addr: Addr, space: Space) {
        self.shared(
            operand,
            addr,
            space,
            self.machine.tensor_map.box_alignment_bytes,
        );
    }

    /// What a bulk copy accesses of shared memory.
    fn bulk_place(&mut self, operand: &'static str, addr: Addr, space: Space) {
        self.shared(operand, addr, space, self.bulk_unit());
    }

    /// What a bulk copy accesses of global memory.
    fn bulk_global(&mut self, operand: &'static str, addr: Addr) {
        let unit = self.bulk_unit();
        self.addr(operand, addr, Some(Space::Global), unit, unit);
    }

    fn shared(&mut self, operand: &'static str, addr: Addr, space: Space, align: u32) {
        self.addr(operand, addr, Some(space), 1, align);
    }

    fn multicast(&mut self, mask: Option<&CtaMask>) {
        if let Some(CtaMask(mask)) = mask {
            self.value("multicast", mask, Exact(Type::B16));
        }
    }
}

impl Visit<BulkLoad> for Checker<'_> {
    fn visit(&mut self, inst: &BulkLoad) {
        self.bulk_place("dst", inst.dst, Space::SharedCluster);
        self.bulk_global("src", inst.src);
        self.bulk_bytes(&inst.bytes);
        self.completion(inst.mbar);
        self.multicast(inst.multicast.as_ref());
        self.cache_policy(inst.policy.as_ref());
    }
}

impl Visit<BulkSharedToCluster> for Checker<'_> {
    fn visit(&mut self, inst: &BulkSharedToCluster) {
        self.bulk_place("dst", inst.dst, Space::SharedCluster);
        self.bulk_place("src", inst.src, Space::Shared);
        self.bulk_bytes(&inst.bytes);
        self.completion(inst.mbar);
    }
}

impl Visit<BulkStore> for Checker<'_> {
    fn visit(&mut self, inst: &BulkStore) {
        self.bulk_global("dst", inst.dst);
        self.bulk_place("src", inst.src, Space::Shared);
        self.bulk_bytes(&inst.bytes);
        self.cache_policy(inst.policy.as_ref());
    }
}

impl Checker<'_> {
    pub(super) fn bulk_prefetch(&mut self, src: Addr, bytes: &Operand) {
        self.bulk_global("src", src);
        self.bulk_bytes(bytes);
    }
}

impl Visit<BulkReduce> for Checker<'_> {
    fn visit(&mut self, inst: &BulkReduce) {
        let types: &[Type] = match inst.op {
            AtomOp::Add => &[Type::U32, Type::S32, Type::U64, Type::F32, Type::F64],
            AtomOp::AddNoFtz => &[Type::F16, Type::Bf16],
            AtomOp::Min | AtomOp::Max => &[
                Type::U32,
                Type::S32,
                Type::U64,
                Type::S64,
                Type::F16,
                Type::Bf16,
            ],
            AtomOp::Inc | AtomOp::Dec => &[Type::U32],
            AtomOp::And | AtomOp::Or | AtomOp::Xor => &[Type::B32, Type::B64],
            _ => &[],
        };
        self.one_of(
            &format!("`cp.reduce.async.bulk` with .{}", inst.op.text()),
            inst.ty,
            types,
        );
        self.bulk_global("dst", inst.dst);
        self.bulk_place("src", inst.src, Space::Shared);
        self.bulk_bytes(&inst.bytes);
        self.cache_policy(inst.policy.as_ref());
    }
}

impl Visit<BulkReduceCluster> for Checker<'_> {
    fn visit(&mut self, inst: &BulkReduceCluster) {
        let types: &[Type] = match inst.op {
            AtomOp::Add => &[Type::U32, Type::S32, Type::U64],
            AtomOp::Min | AtomOp::Max => &[Type::U32, Type::S32],
            AtomOp::Inc | AtomOp::Dec => &[Type::U32],
            AtomOp::And | AtomOp::Or | AtomOp::Xor => &[Type::B32],
            _ => &[],
        };
        self.one_of(
            &format!("`cp.reduce.async.bulk` with .{}", inst.op.text()),
            inst.ty,
            types,
        );
        self.bulk_place("dst", inst.dst, Space::SharedCluster);
        self.bulk_place("src", inst.src, Space::Shared);
        self.bulk_bytes(&inst.bytes);
        self.completion(inst.mbar);
    }
}

impl Checker<'_> {
    /// A tensor map has a generic address, which in global memory is the same; one coordinate per dimension.
    fn tensor(&mut self, tensor: &TensorAddr, dim: TensorDim) {
        self.tensor_map("map", tensor.map, Some(Space::Global));
        self.count("coords", tensor.coords.len(), dim.rank());
        for coord in &tensor.coords {
            self.value("coords", coord, Exact(Type::S32));
        }
    }

    /// An encoded tensor map.
    pub(super) fn tensor_map(&mut self, operand: &'static str, addr: Addr, space: Option<Space>) {
        self.addr(
            operand,
            addr,
            space,
            TENSOR_MAP_BYTES,
            TENSOR_MAP_ALIGNMENT_BYTES,
        );
    }

    /// A tensor needs so many dimensions for an image.
    fn image(&mut self, is_im2col: bool, dim: TensorDim) {
        let limits = &self.machine.tensor_map;
        let (least, most) = (limits.least_im2col_rank, limits.rank);
        self.require(!is_im2col || dim.rank() >= least as usize, || {
            format!("im2col needs {least} to {most} dimensions")
        });
    }

    fn im2col(
        &mut self,
        dim: TensorDim,
        mode: Option<TensorMode>,
        offsets: Option<&Im2colOffsets>,
    ) {
        let is_im2col = mode == Some(TensorMode::Im2col);
        let is_known = matches!(mode, None | Some(TensorMode::Tile | TensorMode::Im2col));
        self.require(is_known, || "a load is .tile or .im2col".to_owned());
        self.require(is_im2col == offsets.is_some(), || {
            "im2col offsets belong to .im2col".to_owned()
        });
        self.image(is_im2col, dim);
        if let Some(Im2colOffsets(offsets)) = offsets {
            self.count("offsets", offsets.len(), dim.rank().saturating_sub(2));
            for offset in offsets {
                self.value("offsets", offset, Exact(Type::B16));
            }
        }
    }

    fn store_mode(&mut self, dim: TensorDim, mode: Option<TensorMode>) {
        let is_im2col = mode == Some(TensorMode::Im2colNoOffsets);
        let is_known = matches!(
            mode,
            None | Some(TensorMode::Tile | TensorMode::Im2colNoOffsets)
        );
        self.require(is_known, || {
            "a store is .tile or .im2col_no_offs".to_owned()
        });
        self.image(is_im2col, dim);
    }
}

impl Visit<TensorLoad> for Checker<'_> {
    fn visit(&mut self, inst: &TensorLoad) {
        self.tensor_box("dst", inst.dst, Space::SharedCluster);
        self.tensor(&inst.src, inst.dim);
        self.completion(inst.mbar);
        self.im2col(inst.dim, inst.mode, inst.offsets.as_ref());
        self.multicast(inst.multicast.as_ref());
        self.cache_policy(inst.policy.as_ref());
    }
}

impl Visit<TensorStore> for Checker<'_> {
    fn visit(&mut self, inst: &TensorStore) {
        self.tensor(&inst.dst, inst.dim);
        self.tensor_box("src", inst.src, Space::Shared);
        self.store_mode(inst.dim, inst.mode);
        self.cache_policy(inst.policy.as_ref());
    }
}

impl Visit<TensorReduce> for Checker<'_> {
    fn visit(&mut self, inst: &TensorReduce) {
        use AtomOp::{Add, And, Dec, Inc, Max, Min, Or, Xor};
        self.require(
            matches!(inst.op, Add | Min | Max | Inc | Dec | And | Or | Xor),
            || {
                format!(
                    "`cp.reduce.async.bulk.tensor` has no operation .{}",
                    inst.op.text()
                )
            },
        );
        self.tensor(&inst.dst, inst.dim);
        self.tensor_box("src", inst.src, Space::Shared);
        self.store_mode(inst.dim, inst.mode);
        self.cache_policy(inst.policy.as_ref());
    }
}

impl Visit<TensorPrefetch> for Checker<'_> {
    fn visit(&mut self, inst: &TensorPrefetch) {
        self.tensor(&inst.src, inst.dim);
        self.im2col(inst.dim, inst.mode, inst.offsets.as_ref());
        self.cache_policy(inst.policy.as_ref());
    }
}
