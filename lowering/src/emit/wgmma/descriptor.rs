//! A matrix in shared memory is named by a descriptor of two words (PTX ISA, matrix-descriptor format). The upper is a
//! constant, and so is what the lower adds to the address of the view for each instruction.

use std::rc::Rc;

use ir::SmemType;
use ir::elem::{DType, Elem};
use ir::entity::Value;
use ir::ops::arith::BinaryOp as Op;
use layout::Dims;
use layout::matrix::{MatrixDescriptor, MatrixTile, plan_matrix};
use ptx::{BinaryOp, Operand, Reg, RegClass, TernaryOp, Type};

use crate::emit::Emitter;
use crate::emit::addressing::Addressing;
use crate::emit::code::Code;
use crate::emit::element::Element;

const PLANNED: &str = "the verifier admits only matrices that the tensor cores can read";

/// How the tensor cores read a view tile by tile.
pub(super) fn plan(ty: &SmemType, mn_dim: usize, mn: u32, k: u32) -> MatrixDescriptor {
    let tile = MatrixTile {
        mn_dim,
        mn,
        k,
        elem_bits: ty.elem.bits(),
    };
    plan_matrix(&ty.layout, &ty.alloc_shape, tile).expect(PLANNED)
}

/// An operand in shared memory.
pub(super) struct Matrix {
    /// The lower word of the descriptor where the warpgroup's part of the view begins.
    low: Reg,
    /// What is added to it.
    constant: u32,
    high: Reg,
    addressing: Rc<Addressing>,
}

impl Matrix {
    pub(super) fn of(
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
    pub(super) fn descriptor(&self, cx: &mut Emitter<'_>, at: [u32; 2]) -> Reg {
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

    /// An operand in registers: words of neighbours along K.
    pub(in crate::emit) fn operand_words(&mut self, elements: &[Element], elem: Elem) -> Vec<Reg> {
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

impl Emitter<'_> {
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
}
