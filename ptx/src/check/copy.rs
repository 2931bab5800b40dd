//! Asynchronous copies.

use super::context::Checker;
use super::legal::Need::Exact;
use crate::inst::{
    AtomOp, BulkLoad, BulkReduce, BulkReduceCluster, BulkSharedToCluster, BulkStore, CpAsync,
    CpAsyncCache, TensorDim, TensorLoad, TensorMode, TensorPrefetch, TensorReduce, TensorStore,
};
use crate::operand::{Addr, CtaMask, Im2colOffsets, Operand, TensorAddr};
use crate::registers::RegClass;
use crate::types::{Space, Type};

impl Checker<'_> {
    pub(super) fn cp_async(&mut self, inst: &CpAsync) {
        let (allowed, sizes): (_, &[i64]) = match inst.cache {
            CpAsyncCache::Ca => ("4, 8 or 16 bytes", &[4, 8, 16]),
            CpAsyncCache::Cg => ("16 bytes", &[16]),
        };
        self.immediate("bytes", &inst.bytes, allowed, |value| {
            sizes.contains(&value)
        });
        let bytes = if let Operand::Int(bytes) = inst.bytes {
            bytes.clamp(1, 16) as u32
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

    pub(super) fn pending(&mut self, operand: &Operand) {
        self.immediate("pending", operand, "a number of groups", |value| {
            (0..1 << 31).contains(&value)
        });
    }

    pub(super) fn wgmma_pending(&mut self, operand: &Operand) {
        self.immediate("pending", operand, "0 to 7 groups", |value| {
            (0..8).contains(&value)
        });
    }

    fn bulk_bytes(&mut self, bytes: &Operand) {
        let is_legal = |value: i64| value > 0 && value % 16 == 0;
        self.ranged("bytes", bytes, "a multiple of 16 bytes", is_legal);
    }

    fn shared(&mut self, operand: &'static str, addr: Addr, space: Space, align: u32) {
        self.addr(operand, addr, Some(space), 1, align);
    }

    fn multicast(&mut self, mask: Option<&CtaMask>) {
        if let Some(CtaMask(mask)) = mask {
            self.value("multicast", mask, Exact(Type::B16));
        }
    }

    pub(super) fn bulk_load(&mut self, inst: &BulkLoad) {
        self.shared("dst", inst.dst, Space::SharedCluster, 16);
        self.addr("src", inst.src, Some(Space::Global), 16, 16);
        self.bulk_bytes(&inst.bytes);
        self.shared("mbar", inst.mbar, Space::SharedCluster, 8);
        self.multicast(inst.multicast.as_ref());
        self.cache_policy(inst.policy.as_ref());
    }

    pub(super) fn bulk_shared(&mut self, inst: &BulkSharedToCluster) {
        self.shared("dst", inst.dst, Space::SharedCluster, 16);
        self.shared("src", inst.src, Space::Shared, 16);
        self.bulk_bytes(&inst.bytes);
        self.shared("mbar", inst.mbar, Space::SharedCluster, 8);
    }

    pub(super) fn bulk_store(&mut self, inst: &BulkStore) {
        self.addr("dst", inst.dst, Some(Space::Global), 16, 16);
        self.shared("src", inst.src, Space::Shared, 16);
        self.bulk_bytes(&inst.bytes);
        self.cache_policy(inst.policy.as_ref());
    }

    pub(super) fn bulk_prefetch(&mut self, src: Addr, bytes: &Operand) {
        self.addr("src", src, Some(Space::Global), 16, 16);
        self.bulk_bytes(bytes);
    }

    pub(super) fn bulk_reduce(&mut self, inst: &BulkReduce) {
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
        self.addr("dst", inst.dst, Some(Space::Global), 16, 16);
        self.shared("src", inst.src, Space::Shared, 16);
        self.bulk_bytes(&inst.bytes);
        self.cache_policy(inst.policy.as_ref());
    }

    pub(super) fn bulk_reduce_cluster(&mut self, inst: &BulkReduceCluster) {
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
        self.shared("dst", inst.dst, Space::SharedCluster, 16);
        self.shared("src", inst.src, Space::Shared, 16);
        self.bulk_bytes(&inst.bytes);
        self.shared("mbar", inst.mbar, Space::SharedCluster, 8);
    }

    /// A tensor map has a generic address, which in global memory is the same; one coordinate per dimension.
    fn tensor(&mut self, tensor: &TensorAddr, dim: TensorDim) {
        self.addr("map", tensor.map, Some(Space::Global), 128, 64);
        self.count("coords", tensor.coords.len(), dim.rank());
        for coord in &tensor.coords {
            self.value("coords", coord, Exact(Type::S32));
        }
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
        self.require(!is_im2col || dim.rank() >= 3, || {
            "im2col needs 3 to 5 dimensions".to_owned()
        });
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
        self.require(!is_im2col || dim.rank() >= 3, || {
            "im2col needs 3 to 5 dimensions".to_owned()
        });
    }

    pub(super) fn tensor_load(&mut self, inst: &TensorLoad) {
        self.shared("dst", inst.dst, Space::SharedCluster, 128);
        self.tensor(&inst.src, inst.dim);
        self.shared("mbar", inst.mbar, Space::SharedCluster, 8);
        self.im2col(inst.dim, inst.mode, inst.offsets.as_ref());
        self.multicast(inst.multicast.as_ref());
        self.cache_policy(inst.policy.as_ref());
    }

    pub(super) fn tensor_store(&mut self, inst: &TensorStore) {
        self.tensor(&inst.dst, inst.dim);
        self.shared("src", inst.src, Space::Shared, 128);
        self.store_mode(inst.dim, inst.mode);
        self.cache_policy(inst.policy.as_ref());
    }

    pub(super) fn tensor_reduce(&mut self, inst: &TensorReduce) {
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
        self.shared("src", inst.src, Space::Shared, 128);
        self.store_mode(inst.dim, inst.mode);
        self.cache_policy(inst.policy.as_ref());
    }

    pub(super) fn tensor_prefetch(&mut self, inst: &TensorPrefetch) {
        self.tensor(&inst.src, inst.dim);
        self.im2col(inst.dim, inst.mode, inst.offsets.as_ref());
        self.cache_policy(inst.policy.as_ref());
    }
}
