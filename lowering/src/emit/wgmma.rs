//! Matrix products on the tensor cores, started and waited for.
//!
//! The registers of an accumulator are the same from its beginning to its last wait: every `wgmma` adds into them in
//! place, and a loop carries them without a move. ptxas serialises products whose registers anything else touches.
//!
//! No registers are written by products in two places with a wait in between: ptxas 13.0 takes what is computed from such a
//! register after the second wait for what was computed from it after the first, and drops the product. So sums that are
//! made apart get registers of their own each time, and loops with products are not unrolled.
//!
//! A matrix in shared memory is named by a descriptor of two words (PTX ISA, matrix-descriptor format). The upper is a
//! constant, and so is what the lower adds to the address of the view for each instruction.

use std::rc::Rc;

use ir::elem::{DType, Elem};
use ir::entity::{Inst, Value};
use ir::ops::arith::BinaryOp as Op;
use ir::ops::wgmma::{AccumulatorBegin, FenceAsyncShared, InputPrecision, WgmmaStart, WgmmaWait};
use ir::{SmemType, TensorType};
use layout::matrix::{MatrixDescriptor, MatrixTile, plan_matrix};
use layout::{Axis, Dims, Layout};
use ptx::{Binary, BinaryOp, Fragment, MatrixA, Operand, Reg, RegClass, Shape, TernaryOp, Type};

use super::blank::Blank;
use super::code::Code;
use super::element::{Element, class};
use super::shared::Addressing;
use super::sparse::Metadata;
use super::{Emitted, Emitter, Lower};

impl Lower for FenceAsyncShared {
    fn lower(&self, _: Inst, cx: &mut Emitter<'_>) -> Emitted {
        cx.code.push(ptx::FenceProxyAsync {
            space: Some(ptx::ProxySpace::SharedCta),
        });
        Ok(())
    }
}

impl Lower for AccumulatorBegin {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let result = cx.func.result(inst);
        let continued = cx.continued[result].take();
        let registers = if cx.begins_blank(inst, self.init) {
            cx.blank[result] = Some(Blank::Always);
            continued.unwrap_or_else(|| cx.blank_accumulator(self.init))
        } else {
            cx.new_accumulator(self.init, continued)
        };
        cx.set_in_flight(result, &registers);
        Ok(())
    }
}

impl Lower for WgmmaStart {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let product = Product::of(self, cx);
        let accumulator = if cx.func.ty(self.accumulator).as_in_flight().is_some() {
            cx.in_flight(self.accumulator)
        } else {
            let continued = cx.continued[cx.func.result(inst)].take();
            cx.new_accumulator(self.accumulator, continued)
        };
        let use_old = cx.use_old(self);
        // Everything that is computed stands before the fence, so that nothing but products follows it.
        let steps = product.steps(cx);
        if self.promote_every == 0 {
            cx.code.push(ptx::WgmmaFence::new());
            for step in &steps {
                let d = product.registers_of(step.tile, &accumulator);
                let old = if step.k == 0 {
                    use_old
                } else {
                    Operand::Int(1)
                };
                cx.code.push(product.instruction(step, d, old));
            }
            cx.code.push(ptx::WgmmaCommitGroup::new());
        } else {
            cx.clear_unless(use_old, &accumulator, product.acc.elem);
            cx.promoted(&product, &steps, &accumulator, self.promote_every);
        }
        cx.set_in_flight(cx.func.result(inst), &accumulator);
        Ok(())
    }
}

impl Lower for WgmmaWait {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        cx.code.push(ptx::WgmmaWaitGroup::new(self.pending));
        let results = cx.func.results(inst).to_vec();
        for (&from, to) in self.accumulators.iter().zip(results) {
            let registers = cx.in_flight(from);
            cx.clear_blank(from, &registers);
            if cx.func.ty(to).as_in_flight().is_some() {
                cx.set_in_flight(to, &registers);
            } else {
                let elements = elements_of(&registers, cx.elem(to));
                cx.set(to, elements);
            }
        }
        Ok(())
    }
}

/// The elements that accumulator registers hold: of half floats two each.
pub(super) fn elements_of(registers: &[Reg], elem: Elem) -> Vec<Element> {
    if is_packed(elem) {
        let halves = |&reg: &Reg| [Element::Part(reg, 0), Element::Part(reg, 16)];
        return registers.iter().flat_map(halves).collect();
    }
    registers.iter().map(|&reg| reg.into()).collect()
}

pub(super) fn is_packed(elem: Elem) -> bool {
    elem == Elem::Data(DType::F16)
}

impl Emitter<'_> {
    /// The registers of what is in flight.
    pub(super) fn in_flight(&self, value: Value) -> Vec<Reg> {
        let elements = self.elements(value);
        let register = |e: &Element| match e {
            Element::Whole(Operand::Reg(reg)) => *reg,
            other => panic!("an accumulator in flight is held in registers, not {other:?}"),
        };
        elements.iter().map(register).collect()
    }

    /// An address in units of 16 bytes, as the lower word of a descriptor has it. That of a buffer is one step away from its
    /// number: shared memory ends long before the 18 bits that the word holds.
    fn descriptor_address(&mut self, address: Reg) -> Reg {
        let in_units = |code: &mut Code, address: Reg| {
            code.ternary(TernaryOp::Bfe, Type::U32, address, 4_u32, 14_u32)
        };
        match self.buffers.get(&address) {
            Some(&buffer) if buffer.stride_bytes.is_multiple_of(16) => {
                let window = self.shared_address(0);
                let first = self.code.in_prologue(|code| in_units(code, window));
                let stride = Element::int((buffer.stride_bytes / 16).into());
                let elem = Elem::Data(DType::U32);
                let units = self
                    .code
                    .int_binary(Op::Mul, buffer.index.into(), stride, elem);
                let units = self.code.whole(units, elem);
                self.code.binary(BinaryOp::Add, Type::U32, first, units)
            }
            _ => in_units(&mut self.code, address),
        }
    }

    /// Whether what the accumulator held before counts.
    fn use_old(&mut self, op: &WgmmaStart) -> Operand {
        let keep = self.blank[op.accumulator].map_or(Operand::Int(1), Blank::keep);
        let Some(asked) = op.use_accumulator.expand() else {
            return keep;
        };
        let asked = self.scalar(asked);
        let both = self.code.int_binary(Op::And, asked, keep.into(), Elem::I1);
        match both.as_int() {
            Some(known) => Operand::Int(known),
            None => self.code.whole(both, Elem::I1).into(),
        }
    }

    fn set_in_flight(&mut self, value: Value, registers: &[Reg]) {
        let elements: Vec<Element> = registers.iter().map(|&reg| reg.into()).collect();
        self.set(value, elements);
    }

    /// New registers for the elements of a tensor.
    fn blank_accumulator(&mut self, like: Value) -> Vec<Reg> {
        let elem = self.elem(like);
        let elements = self.elements(like).len();
        let count = if is_packed(elem) {
            elements / 2
        } else {
            elements
        };
        (0..count)
            .map(|_| self.code.reg(accumulator_class(elem)))
            .collect()
    }

    /// Registers that begin with the elements of a tensor: new ones, or those of the accumulator that it continues in.
    fn new_accumulator(&mut self, init: Value, continued: Option<Vec<Reg>>) -> Vec<Reg> {
        let elem = self.elem(init);
        let elements = self.elements(init);
        let operands: Vec<Operand> = if is_packed(elem) {
            self.code.pack_words(&elements, elem)
        } else {
            let code = &mut self.code;
            elements.iter().map(|&e| code.operand(e, elem)).collect()
        };
        let registers = continued.unwrap_or_else(|| {
            let class = accumulator_class(elem);
            operands.iter().map(|_| self.code.reg(class)).collect()
        });
        for (&reg, operand) in registers.iter().zip(operands) {
            self.code.copy(reg, operand);
        }
        registers
    }

    /// Zeroes registers where a condition does not hold.
    fn clear_unless(&mut self, condition: Operand, registers: &[Reg], elem: Elem) {
        let Operand::Reg(condition) = condition else {
            return;
        };
        let zero = zero(elem);
        for &reg in registers {
            let ty = super::code::move_type(self.code.class(reg));
            let guard = Some(ptx::Predicate::not(condition));
            self.code.push_guarded(guard, ptx::Mov::new(ty, reg, zero));
        }
    }

    /// Sums over `every` elements of K are made apart and then added in full precision: the tensor cores keep fewer
    /// bits of sums of 8-bit floats than a binary32 has.
    fn promoted(&mut self, product: &Product<'_>, steps: &[Step], sums: &[Reg], every: u32) {
        let class = accumulator_class(product.acc.elem);
        let chunk = (every / product.k_of_b).max(1);
        let count = product.tiles.len() as u32;
        for tile in 0..count {
            let of_tile: Vec<&Step> = steps.iter().filter(|s| s.tile == tile).collect();
            for chunk in of_tile.chunks(chunk as usize) {
                let parts = (0..product.registers).map(|_| self.code.reg(class));
                let parts: Vec<Reg> = parts.collect();
                self.code.push(ptx::WgmmaFence::new());
                for (at, step) in chunk.iter().enumerate() {
                    let old = Operand::Int(i64::from(at > 0));
                    self.code.push(product.instruction(step, &parts, old));
                }
                self.code.push(ptx::WgmmaCommitGroup::new());
                self.code.push(ptx::WgmmaWaitGroup::new(0_u32));
                let into = product.registers_of(tile, sums);
                for (&sum, &part) in into.iter().zip(&parts) {
                    self.code
                        .push(Binary::new(BinaryOp::Add, Type::F32, sum, sum, part));
                }
            }
        }
    }
}

/// Zero in a register of an accumulator.
pub(super) fn zero(elem: Elem) -> Operand {
    if elem == Elem::F32 {
        Operand::F32(0)
    } else {
        Operand::Int(0)
    }
}

fn accumulator_class(elem: Elem) -> RegClass {
    if is_packed(elem) {
        RegClass::B32
    } else {
        class(elem)
    }
}

/// One instruction: which tile of the accumulator, which step along K, and its factors.
struct Step {
    tile: u32,
    k: u32,
    a: MatrixA,
    b: Reg,
    sparse: Option<ptx::Sparse>,
}

/// A product as its instructions see it.
struct Product<'f> {
    op: WgmmaStart,
    acc: &'f TensorType,
    a_elem: Elem,
    b_ty: &'f SmemType,
    /// Rows, columns and depth of one instruction, the last counted in elements of A.
    m: u32,
    n: u32,
    k: u32,
    /// Depth of one instruction in elements of B: that of A, unless A is sparse.
    k_of_b: u32,
    /// Steps along K.
    depth: u32,
    /// Registers of one tile of the accumulator.
    registers: usize,
    /// Row and column where each tile of the first warpgroup begins.
    tiles: Vec<[u32; 2]>,
    /// The row and column that each bit of a warpgroup's number adds.
    groups: Vec<[u32; 2]>,
    a_plan: Option<MatrixDescriptor>,
    b_plan: MatrixDescriptor,
}

const PLANNED: &str = "the verifier admits only matrices that the tensor cores can read";

impl<'f> Product<'f> {
    fn of(op: &WgmmaStart, cx: &mut Emitter<'f>) -> Product<'f> {
        let ty = cx.func.ty(op.accumulator);
        let acc = ty.as_in_flight().or_else(|| ty.as_tensor());
        let acc = acc.expect("the verifier admits only accumulators here");
        let Layout::Wgmma(layout) = &acc.layout else {
            panic!("the verifier admits only accumulators in the layout of `wgmma`");
        };
        let b_ty = cx.func.ty(op.b).as_smem();
        let b_ty = b_ty.expect("the right factor lies in shared memory");
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

    fn registers_of<'r>(&self, tile: u32, all: &'r [Reg]) -> &'r [Reg] {
        let first = tile as usize * self.registers;
        &all[first..first + self.registers]
    }

    /// The factors of every instruction.
    fn steps(&self, cx: &mut Emitter<'_>) -> Vec<Step> {
        let a = if let Some(plan) = self.a_plan {
            let matrix = Matrix::of(cx, self.op.a, plan, 0, &self.groups);
            Factor::Shared(Box::new(matrix))
        } else {
            let elements = cx.elements(self.op.a);
            Factor::Words(cx.code.factor_words(&elements, self.a_elem))
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
                    Factor::Shared(matrix) => {
                        MatrixA::Descriptor(matrix.descriptor(cx, [row, k * self.k]))
                    }
                    Factor::Words(words) => {
                        // Tiles side by side share their rows, and so the left factor.
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

    fn instruction(&self, step: &Step, d: &[Reg], use_old: Operand) -> ptx::Wgmma {
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

/// The left factor: shared memory, or the words of a tensor in the order of the instructions.
enum Factor {
    Shared(Box<Matrix>),
    Words(Vec<Reg>),
}

fn plan(ty: &SmemType, mn_dim: usize, mn: u32, k: u32) -> MatrixDescriptor {
    let tile = MatrixTile {
        mn_dim,
        mn,
        k,
        elem_bits: ty.elem.bits(),
    };
    plan_matrix(&ty.layout, &ty.alloc_shape, tile).expect(PLANNED)
}

pub(super) fn element_type(elem: Elem, is_tf32: bool) -> Type {
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

/// A factor in shared memory.
struct Matrix {
    /// The lower word of the descriptor where the warpgroup's part of the view begins.
    low: Reg,
    /// What is added to it.
    constant: u32,
    high: Reg,
    addressing: Rc<Addressing>,
}

impl Matrix {
    fn of(
        cx: &mut Emitter<'_>,
        view: Value,
        plan: MatrixDescriptor,
        mn_dim: usize,
        groups: &[[u32; 2]],
    ) -> Matrix {
        let ty = cx.func.ty(view).as_smem();
        let ty = ty.expect("a matrix descriptor is made of shared memory");
        let addressing = cx.addressing(ty);
        let (address, constant) = cx.code.split_address(cx.elements(view)[0]);
        let low = cx.descriptor_address(address);
        let entries: Vec<u32> = groups
            .iter()
            .map(|place| {
                let mut coords = Dims::filled(0, 2);
                coords[mn_dim] = place[mn_dim];
                addressing.bytes(&coords) >> 4
            })
            .collect();
        let low = cx.code.add_of_warpgroup(low, &entries);
        let high = cx
            .code
            .in_prologue(|code| code.mov(Type::B32, plan.high_word()));
        Matrix {
            low,
            constant: (constant >> 4) + plan.low_word(),
            high,
            addressing,
        }
    }

    /// The descriptor of the instruction's tile at a row and column of the view.
    fn descriptor(&self, cx: &mut Emitter<'_>, at: [u32; 2]) -> Reg {
        let bytes = self.addressing.bytes(&at);
        let added = Element::int((self.constant + (bytes >> 4)).into());
        let low = cx
            .code
            .int_binary(Op::Add, self.low.into(), added, Elem::Data(DType::U32));
        let low = cx.code.whole(low, Elem::Data(DType::U32));
        cx.code.pack(Type::B64, &[low.into(), self.high.into()])
    }
}

impl Code {
    /// The register and the constant of an address.
    fn split_address(&mut self, address: Element) -> (Reg, u32) {
        match address {
            Element::Sum(reg, add) => (reg, add as u32),
            other => (self.whole(other, Elem::Data(DType::U32)), 0),
        }
    }

    /// Adds an entry for each bit set in the number of the warpgroup.
    fn add_of_warpgroup(&mut self, sum: Reg, entries: &[u32]) -> Reg {
        if entries.iter().all(|&entry| entry == 0) {
            return sum;
        }
        // Bits of the lane and of the warp in its warpgroup add nothing; that all lanes agree shows ptxas a uniform value.
        let of_bits = |bits: &[u32]| [&[0; 7], bits].concat();
        let all = entries.iter().fold(0, |all, entry| all | entry);
        if entries.iter().map(|entry| entry.count_ones()).sum::<u32>() == all.count_ones() {
            return self.add_of_thread(sum, &of_bits(entries));
        }
        // Strides that are no powers of two share bits, and add up one after the other.
        (0..entries.len()).fold(sum, |sum, bit| {
            let mut alone = vec![0; entries.len()];
            alone[bit] = entries[bit];
            self.add_of_thread(sum, &of_bits(&alone))
        })
    }

    fn add_of_thread(&mut self, sum: Reg, entries: &[u32]) -> Reg {
        let part = self.in_prologue(|code| {
            let part = code.of_thread(entries);
            let part = code.whole(part.into(), Elem::Data(DType::U32));
            code.from_first_lane(part)
        });
        self.binary(BinaryOp::Add, Type::U32, sum, part)
    }

    /// A factor in registers: words of neighbours along K.
    pub(super) fn factor_words(&mut self, elements: &[Element], elem: Elem) -> Vec<Reg> {
        let words: Vec<Operand> = if elem.bits() == 32 {
            elements.iter().map(|&e| self.bits32(e, elem)).collect()
        } else {
            self.pack_words(elements, elem)
        };
        let word = |code: &mut Code, operand: Operand| match operand {
            Operand::Reg(reg) if code.class(reg) == RegClass::B32 => reg,
            other => code.mov_bits(RegClass::B32, other),
        };
        words.into_iter().map(|w| word(self, w)).collect()
    }
}
