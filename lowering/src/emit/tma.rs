//! TMA copies (PTX ISA 9.7.9.27): one elected thread issues a copy for each box of a block.

use ir::elem::Elem;
use ir::entity::{Inst, Value};
use ir::ops::arith::BinaryOp;
use ir::ops::global::{L2Policy, L2Priority, L2Rest};
use ir::ops::tma::{TensorMapPrefetch, TmaLoad, TmaPrefetch, TmaReduceOp, TmaStore, TmaStoreWait};
use ir::{TensorMapMode, TensorMapType};
use layout::tma::TmaMessage;
use ptx::{
    Addr, AtomOp, BulkSharedDst, CachePolicy, Coords, CreatePolicyFractional, CtaMask, Cvta,
    CvtaSpace, Im2colOffsets, L2Eviction, Operand, Param, RegClass, TensorAddr, TensorDim,
    TensorMode, Type,
};

use super::code::{Kind, key};
use super::element::{Element, MAP};
use super::{Emitted, Emitter, Lower};

impl Lower for TmaLoad {
    fn lower(&self, _: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let mut guard = cx.one_thread(self.predicate.expand());
        let mbar = cx.view_address(self.barrier, 0);
        let policy = cx.l2_policy(self.policy);
        let mut multicast = self.multicast.expand().map(|mask| cx.cta_mask(mask));
        if self.to_copies {
            let origins = cx.map_type(self.map).part_origins();
            guard = cx.first_of_copies(guard, &origins);
            multicast = Some(cx.mask_of_copies(&origins));
        }
        let offsets = (!self.offsets.is_empty()).then(|| cx.im2col_offsets(&self.offsets));
        for message in cx.messages_in(self.map, self.view) {
            let src = cx.tensor_address(self.map, &self.coordinates, &message);
            let dst = cx.view_address(self.view, message.offset_bytes);
            let load = ptx::TensorLoad {
                mode: offsets.is_some().then_some(TensorMode::Im2col),
                policy,
                multicast,
                offsets: offsets.clone(),
                ..ptx::TensorLoad::new(
                    dim(&self.coordinates),
                    BulkSharedDst::Cluster,
                    dst,
                    src,
                    mbar,
                )
            };
            cx.code.push_guarded(guard, load);
        }
        Ok(())
    }
}

impl Lower for TmaStore {
    fn lower(&self, _: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let asker = cx.one_thread(None);
        let guard = cx.one_thread(self.predicate.expand());
        let guard = cx.first_of_copies(guard, &cx.map_type(self.map).part_origins());
        let policy = cx.l2_policy(self.policy);
        let dim = dim(&self.coordinates);
        // The pixels of a store are those from its coordinates on, under no tap.
        let is_im2col = matches!(cx.map_type(self.map).mode, TensorMapMode::Im2col { .. });
        let mode = is_im2col.then_some(TensorMode::Im2colNoOffsets);
        let messages = cx.messages_in(self.map, self.view).into_iter();
        // All addresses first, so that the messages follow one another.
        let addresses: Vec<_> = messages
            .map(|message| {
                let dst = cx.tensor_address(self.map, &self.coordinates, &message);
                (dst, cx.view_address(self.view, message.offset_bytes))
            })
            .collect();
        for (dst, src) in addresses {
            match atom_op(self.op) {
                None => {
                    let store = ptx::TensorStore {
                        mode,
                        policy,
                        ..ptx::TensorStore::new(dim, dst, src)
                    };
                    cx.code.push_guarded(guard, store);
                }
                Some(op) => {
                    let reduce = ptx::TensorReduce {
                        mode,
                        policy,
                        ..ptx::TensorReduce::new(dim, op, dst, src)
                    };
                    cx.code.push_guarded(guard, reduce);
                }
            }
        }
        cx.code.push_guarded(asker, ptx::BulkCommitGroup::new());
        Ok(())
    }
}

fn dim(coordinates: &[Value]) -> TensorDim {
    TensorDim::of_rank(coordinates.len()).expect("the verifier admits 1 to 5 coordinates")
}

pub(super) fn atom_op(op: TmaReduceOp) -> Option<AtomOp> {
    Some(match op {
        TmaReduceOp::Store => return None,
        TmaReduceOp::Add => AtomOp::Add,
        TmaReduceOp::Min => AtomOp::Min,
        TmaReduceOp::Max => AtomOp::Max,
        TmaReduceOp::And => AtomOp::And,
        TmaReduceOp::Or => AtomOp::Or,
        TmaReduceOp::Xor => AtomOp::Xor,
    })
}

impl Lower for TmaStoreWait {
    /// Groups belong to the thread that asked; all others have nothing to wait for.
    fn lower(&self, _: Inst, cx: &mut Emitter<'_>) -> Emitted {
        cx.code.push(ptx::BulkWaitGroup {
            read: self.is_read,
            ..ptx::BulkWaitGroup::new(self.pending)
        });
        Ok(())
    }
}

impl Lower for TmaPrefetch {
    fn lower(&self, _: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let guard = cx.one_thread(self.predicate.expand());
        let guard = cx.first_of_copies(guard, &cx.map_type(self.map).part_origins());
        let policy = cx.l2_policy(self.policy);
        for message in cx.messages(self.map) {
            let src = cx.tensor_address(self.map, &self.coordinates, &message);
            let prefetch = ptx::TensorPrefetch {
                policy,
                ..ptx::TensorPrefetch::new(dim(&self.coordinates), src)
            };
            cx.code.push_guarded(guard, prefetch);
        }
        Ok(())
    }
}

impl Lower for TensorMapPrefetch {
    fn lower(&self, _: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let guard = cx.one_thread(None);
        let map = cx.scalar(self.map);
        let base = cx.code.whole(map, MAP);
        let prefetch = ptx::PrefetchTensormap::new(Addr::reg(base, 0));
        cx.code.push_guarded(guard, prefetch);
        Ok(())
    }
}

impl<'f> Emitter<'f> {
    /// A tensor map among the parameters: TMA takes its generic address. The map stays where the launch put it, so
    /// that it needs no fence and its address becomes a place in the constant bank.
    pub(super) fn map_param(&mut self, map: Value, name: &str) {
        let declared = Param::tensor_map(name);
        let symbol = self.code.entry.add_param(declared);
        let address = self.code.in_prologue(|code| {
            let place = code.mov(Type::U64, symbol);
            let key = key(
                Kind::ToGeneric,
                CvtaSpace::Param as u8,
                Type::U64,
                0,
                &[place.into()],
            );
            code.pure(key, RegClass::B64, |reg| {
                Cvta::new(CvtaSpace::Param, Type::U64, reg, place).into()
            })
        });
        self.set(map, vec![address.into()]);
        // The first copy would wait for the map to be fetched from memory.
        let guard = self.one_thread(None);
        let addr = Addr::reg(address, 0);
        self.code
            .push_guarded(guard, ptx::PrefetchTensormap::new(addr));
    }

    pub(super) fn map_type(&self, map: Value) -> &'f TensorMapType {
        let m = self.func.ty(map).as_tensor_map();
        m.expect("the verifier admits only tensor maps here")
    }

    fn messages(&self, map: Value) -> Vec<TmaMessage> {
        let messages = self.map_type(map).messages(self.func.target);
        messages.expect("the blocks of a verified map can be moved")
    }

    /// The messages that move a block between its tensor and a view.
    fn messages_in(&self, map: Value, view: Value) -> Vec<TmaMessage> {
        let view = self.func.ty(view).as_smem();
        let view = view.expect("the verifier admits only shared memory here");
        let messages = self.map_type(map).messages_in(self.func.target, view);
        messages.expect("the verifier admits only views that hold blocks as TMA moves them")
    }

    /// Where the box of a message begins in its tensor, innermost first.
    fn tensor_address(
        &mut self,
        map: Value,
        coordinates: &[Value],
        message: &TmaMessage,
    ) -> TensorAddr {
        let ty = self.map_type(map);
        let is_im2col = matches!(ty.mode, TensorMapMode::Im2col { .. });
        let part_origins = ty.part_origins();
        let innermost = coordinates.len() - 1;
        let mut coords = Coords::new();
        for (at, &value) in coordinates.iter().enumerate().rev() {
            // An im2col block has pixels, which are never cut, and channels, which are the tensor's innermost dimension.
            let along = match (is_im2col, at == innermost) {
                (false, _) => Some(at),
                (true, true) => Some(1),
                (true, false) => None,
            };
            let mut moved = self.scalar(value);
            if let Some(dim) = along {
                let origin = Element::int(message.origin[dim].into());
                let start = self.part_start(&part_origins, dim);
                let code = &mut self.code;
                moved = code.int_binary(BinaryOp::Add, moved, start, Elem::I32);
                moved = code.int_binary(BinaryOp::Add, moved, origin, Elem::I32);
            }
            coords.push(self.code.operand(moved, Elem::I32));
        }
        let base = self.code.whole(self.scalar(map), MAP);
        TensorAddr {
            map: Addr::reg(base, 0),
            coords,
        }
    }

    fn im2col_offsets(&mut self, offsets: &[Value]) -> Im2colOffsets {
        let half = |&value: &Value| self.half_word(value);
        Im2colOffsets(offsets.iter().rev().map(half).collect())
    }

    pub(super) fn cta_mask(&mut self, mask: Value) -> CtaMask {
        CtaMask(self.half_word(mask))
    }

    /// The low 16 bits of an i32.
    fn half_word(&mut self, value: Value) -> Operand {
        let element = self.scalar(value);
        if let Some(constant) = element.as_int() {
            return self
                .code
                .mov(Type::B16, Operand::Int(constant & 0xffff))
                .into();
        }
        let word = self.code.operand(element, Elem::I32);
        self.code.convert(Type::U16, Type::U32, None, word).into()
    }

    /// The L2 policy of an access; those of a kernel are made once.
    pub(super) fn l2_policy(&mut self, policy: L2Policy) -> Option<CachePolicy> {
        let (primary, fraction) = policy.parts()?;
        let primary = match primary {
            L2Priority::First => L2Eviction::First,
            L2Priority::Last => L2Eviction::Last,
            L2Priority::Normal => L2Eviction::Normal,
            L2Priority::Unchanged => L2Eviction::Unchanged,
        };
        let secondary = fraction.map(|(_, rest)| match rest {
            L2Rest::Unchanged => L2Eviction::Unchanged,
            L2Rest::First => L2Eviction::First,
        });
        let share: Option<Operand> = fraction.map(|(share, _)| Operand::f32(share));
        let reg = self.code.in_prologue(|code| {
            let detail = secondary.map_or(0, |s| 1 + s as u32);
            let operands = share.as_slice();
            let key = key(
                Kind::CachePolicy,
                primary as u8,
                Type::B64,
                detail,
                operands,
            );
            code.pure(key, RegClass::B64, |reg| {
                CreatePolicyFractional {
                    secondary,
                    fraction: share,
                    ..CreatePolicyFractional::new(primary, reg)
                }
                .into()
            })
        });
        Some(CachePolicy(reg.into()))
    }
}
