//! A product as its instructions see it: tiles of the accumulator, steps along K, and the operands of each.

use ir::elem::{DType, Elem};
use ir::ops::wgmma::{InputPrecision, WgmmaStart};
use ir::{SmemType, TensorType};
use layout::matrix::MatrixDescriptor;
use layout::{Axis, Layout};
use ptx::{Fragment, MatrixA, Operand, Reg, Shape, Type};

use super::accumulator::is_packed;
use super::descriptor::{Matrix, plan};
use crate::emit::Emitter;
use crate::emit::sparse::Metadata;

/// One instruction: which tile of the accumulator, which step along K, and its operands.
pub(super) struct Step {
    pub(super) tile: u32,
    pub(super) k: u32,
    a: MatrixA,
    b: Reg,
    sparse: Option<ptx::Sparse>,
}

/// A product as its instructions see it.
pub(super) struct Product<'f> {
    op: WgmmaStart,
    pub(super) acc: &'f TensorType,
    a_elem: Elem,
    b_ty: &'f SmemType,
    /// Rows, columns and depth of one instruction, the last counted in elements of A.
    m: u32,
    n: u32,
    k: u32,
    /// Depth of one instruction in elements of B: that of A, unless A is sparse.
    pub(super) k_of_b: u32,
    /// Steps along K.
    depth: u32,
    /// Registers of one tile of the accumulator.
    pub(super) registers: usize,
    /// Row and column where each tile of the first warpgroup begins.
    pub(super) tiles: Vec<[u32; 2]>,
    /// The row and column that each bit of a warpgroup's number adds.
    groups: Vec<[u32; 2]>,
    a_plan: Option<MatrixDescriptor>,
    b_plan: MatrixDescriptor,
}

impl<'f> Product<'f> {
    pub(super) fn of(op: &WgmmaStart, cx: &mut Emitter<'f>) -> Product<'f> {
        let ty = cx.func.ty(op.accumulator);
        let acc = ty.as_in_flight().or_else(|| ty.as_tensor());
        let acc = acc.expect("the verifier admits only accumulators here");
        let Layout::Wgmma(layout) = &acc.layout else {
            panic!("the verifier admits only accumulators in the layout of `wgmma`");
        };
        let b_ty = cx.func.ty(op.b).as_smem();
        let b_ty = b_ty.expect("operand B is in shared memory");
        let [m, n, k] = [0, 1, 2].map(|dim| layout.instr_shape[dim]);
        let k_of_b = k * op.compression(cx.func);
        let distribution = cx.distribution(acc);
        let elements = (n / 2) as usize;
        let place = |packed: u64| [0, 1].map(|dim| distribution.coordinate(packed, dim));
        let tiles = distribution.offsets.iter().step_by(elements);
        let warps = distribution.map.bases(Axis::Warp);
        let mut product = Product {
            op: op.clone(),
            acc,
            a_elem: cx.elem(op.a),
            b_ty,
            m,
            n,
            k,
            k_of_b,
            depth: b_ty.shape[0] / k_of_b,
            registers: if is_packed(acc.elem) {
                elements / 2
            } else {
                elements
            },
            tiles: tiles.map(|&packed| place(packed)).collect(),
            groups: warps.iter().skip(2).map(|&packed| place(packed)).collect(),
            a_plan: None,
            b_plan: plan(b_ty, 1, n, k_of_b),
        };
        if let Some(a_ty) = cx.func.ty(op.a).as_smem() {
            product.a_plan = Some(plan(a_ty, 0, m, k));
        }
        product
    }

    pub(super) fn registers_of<'r>(&self, tile: u32, all: &'r [Reg]) -> &'r [Reg] {
        let first = tile as usize * self.registers;
        &all[first..first + self.registers]
    }

    /// The operands of every instruction.
    pub(super) fn steps(&self, cx: &mut Emitter<'_>) -> Vec<Step> {
        let a = if let Some(plan) = self.a_plan {
            let matrix = Matrix::of(cx, self.op.a, plan, 0, &self.groups);
            OperandA::Shared(Box::new(matrix))
        } else {
            let elements = cx.elements(self.op.a);
            OperandA::Words(cx.code.operand_words(&elements, self.a_elem))
        };
        let b = Matrix::of(cx, self.op.b, self.b_plan, 1, &self.groups);
        let metadata = self.op.metadata.expand();
        let metadata = metadata.map(|value| Metadata::of(cx, value, self.a_elem.bits()));
        let mut rows: Vec<u32> = self.tiles.iter().map(|tile| tile[0]).collect();
        rows.sort_unstable();
        rows.dedup();
        let mut steps = Vec::new();
        for k in 0..self.depth {
            for (tile, &[row, column]) in self.tiles.iter().enumerate() {
                let a = match &a {
                    OperandA::Shared(matrix) => {
                        MatrixA::Descriptor(matrix.descriptor(cx, [row, k * self.k]))
                    }
                    OperandA::Words(words) => {
                        // Tiles side by side share their rows, and so operand A.
                        let at = rows.iter().position(|r| *r == row).unwrap_or(0);
                        let first = (at * self.depth as usize + k as usize) * 4;
                        MatrixA::Registers(words[first..first + 4].iter().copied().collect())
                    }
                };
                let b = b.descriptor(cx, [k * self.k_of_b, column]);
                let sparse = metadata.as_ref().map(|m| m.word(cx, row, k * self.k_of_b));
                let tile = tile as u32;
                steps.push(Step {
                    tile,
                    k,
                    a,
                    b,
                    sparse,
                });
            }
        }
        steps
    }

    pub(super) fn instruction(&self, step: &Step, d: &[Reg], use_old: Operand) -> ptx::Wgmma {
        let shape = Shape::new(self.m as u16, self.n as u16, self.k_of_b as u16);
        let is_tf32 = self.op.precision == InputPrecision::Tf32;
        let types = [
            element_type(self.acc.elem, false),
            element_type(self.a_elem, is_tf32),
            element_type(self.b_ty.elem, is_tf32),
        ];
        let d: Fragment = d.iter().copied().collect();
        ptx::Wgmma {
            trans_a: self.a_plan.is_some_and(|plan| plan.is_mn_major),
            trans_b: self.b_plan.is_mn_major,
            sparse: step.sparse,
            ..ptx::Wgmma::new(shape, types, d, step.a.clone(), step.b, use_old)
        }
    }
}

/// Operand A: shared memory, or the words of a tensor in the order of the instructions.
enum OperandA {
    Shared(Box<Matrix>),
    Words(Vec<Reg>),
}

pub(in crate::emit) fn element_type(elem: Elem, is_tf32: bool) -> Type {
    let Elem::Data(dtype) = elem else {
        panic!("the tensor cores multiply numbers, not {elem}");
    };
    match dtype {
        DType::F32 if is_tf32 => Type::Tf32,
        DType::F32 => Type::F32,
        DType::F64 => Type::F64,
        DType::F16 => Type::F16,
        DType::Bf16 => Type::Bf16,
        DType::E4m3 => Type::E4m3,
        DType::E5m2 => Type::E5m2,
        DType::I8 => Type::S8,
        DType::U8 => Type::U8,
        DType::I32 => Type::S32,
        other => panic!("the tensor cores do not multiply {other}"),
    }
}
