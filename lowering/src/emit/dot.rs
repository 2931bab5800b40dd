//! Products of tiles in registers: `mma.sync`, and chains of multiplications and additions.
//!
//! The layouts of the operands are those of the accumulator with K in place of a dimension. So what a thread multiplies is in
//! its registers, and is found there by the coordinates that registers add to those of their thread.

use std::collections::HashMap;
use std::rc::Rc;

use ir::elem::Elem;
use ir::entity::{Inst, Value};
use ir::ops::arith::BinaryOp as Op;
use ir::ops::dot::{DotFma, MmaV2};
use ir::ops::wgmma::InputPrecision;
use layout::Dims;
use ptx::{Fragment, MmaLayout, Operand, Reg, RegClass, Shape, TernaryOp};

use super::code::{Code, move_type};
use super::distribute::Distribution;
use super::element::{Element, Elements, arithmetic, class};
use super::wgmma::{element_type, is_packed};
use super::{Emitted, Emitter, Lower};

/// Registers of a thread in one tile of an accumulator: two neighbours in a row, and two below them (PTX ISA 9.7.14.5).
const TILE: usize = 4;

impl Lower for MmaV2 {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let sums = Tile::of(cx, self.accumulator);
        let mut product = Product::of(self, cx);
        let mut fragments: Vec<Vec<Reg>> = sums
            .elements
            .chunks(TILE)
            .map(|chunk| cx.code.accumulator(chunk, sums.elem))
            .collect();
        for words in product.steps() {
            for (at, fragment) in fragments.iter_mut().enumerate() {
                let place = |register: usize| sums.place(at * TILE + register);
                let a = product.left(cx, [place(0), place(2)], &words);
                let b = product.right(cx, &place(0), &words);
                *fragment = product.multiply(cx, [&a, &b, fragment], words.len());
            }
        }
        let elements: Vec<Element> = fragments
            .iter()
            .flat_map(|registers| super::wgmma::elements_of(registers, sums.elem))
            .collect();
        cx.set_result(inst, elements);
        Ok(())
    }
}

impl Lower for DotFma {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let [a, b, sums] = [self.a, self.b, self.accumulator].map(|value| Tile::of(cx, value));
        let mut results = sums.elements.to_vec();
        // The sums of a thread do not depend on one another, so K is outside: each finds the units free.
        for k in a.along(a.rank() - 1) {
            for (register, sum) in results.iter_mut().enumerate() {
                if sums.distribution.is_own(register) {
                    let place = sums.place(register);
                    let x = a.at(&place.with(a.rank() - 1, k));
                    let y = b.at(&place.with(b.rank() - 2, k));
                    let factors = [(x, a.elem), (y, b.elem)];
                    *sum = cx.code.multiply_add(factors, *sum, sums.elem);
                }
            }
        }
        let original = |r: usize| results[sums.distribution.original(r)];
        let elements: Vec<Element> = (0..results.len()).map(original).collect();
        cx.set_result(inst, elements);
        Ok(())
    }
}

/// A tensor as one thread holds it.
struct Tile {
    elem: Elem,
    elements: Elements,
    distribution: Rc<Distribution>,
    /// For each packed place, the first register that adds it.
    registers: HashMap<u64, usize>,
}

impl Tile {
    fn of(cx: &mut Emitter<'_>, value: Value) -> Tile {
        let t = cx.tensor(value);
        let distribution = cx.distribution(t);
        Tile {
            elem: t.elem,
            elements: cx.elements(value),
            registers: distribution.by_offset(),
            distribution,
        }
    }

    fn rank(&self) -> usize {
        self.distribution.map.out_sizes().rank()
    }

    /// What a register adds to the coordinates of its thread.
    fn place(&self, register: usize) -> Dims {
        let packed = self.distribution.offsets[register];
        self.distribution.map.unpack_out(packed)
    }

    /// The first register that adds these coordinates.
    fn register(&self, place: &[u32]) -> usize {
        let packed = self.distribution.map.pack_out(place);
        let register = self.registers.get(&packed);
        *register.expect("an operand's layout has its accumulator's places, and all of K")
    }

    fn at(&self, place: &[u32]) -> Element {
        self.elements[self.register(place)]
    }

    /// What registers add to the coordinate along `dim`, in order.
    fn along(&self, dim: usize) -> Vec<u32> {
        let offsets = self.distribution.offsets.iter();
        let mut all: Vec<u32> = offsets
            .map(|&packed| self.distribution.coordinate(packed, dim))
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// The K coordinates of one register of a fragment.
type Word = Vec<u32>;

/// A product as its instructions see it.
struct Product {
    a: Tile,
    b: Tile,
    sum: Elem,
    precision: InputPrecision,
    /// The registers that hold words of the operands, by the register of the word's first element.
    words: [HashMap<usize, Reg>; 2],
}

impl Product {
    fn of(op: &MmaV2, cx: &mut Emitter<'_>) -> Product {
        Product {
            a: Tile::of(cx, op.a),
            b: Tile::of(cx, op.b),
            sum: cx.elem(op.accumulator),
            precision: op.precision,
            words: Default::default(),
        }
    }

    /// K in steps of one instruction. Both operands have the same places of K in the same lanes, so that any order will do.
    fn steps(&self) -> Vec<Vec<Word>> {
        let per_word = (32 / self.a.elem.bits()).max(1) as usize;
        let along = self.a.along(self.a.rank() - 1);
        let words: Vec<Word> = along.chunks(per_word).map(<[u32]>::to_vec).collect();
        // Of f64 there are instructions of up to four words along K, of other types of up to two.
        let most = if self.a.elem.bits() == 64 { 4 } else { 2 };
        words.chunks(most).map(<[Word]>::to_vec).collect()
    }

    /// The fragment of A: for each word along K, the upper and the lower row.
    fn left(&mut self, cx: &mut Emitter<'_>, rows: [Dims; 2], words: &[Word]) -> Vec<Reg> {
        let k_dim = self.a.rank() - 1;
        let mut fragment = Vec::with_capacity(2 * words.len());
        for word in words {
            for row in &rows {
                fragment.push(word_of(cx, &self.a, &mut self.words[0], (row, k_dim), word));
            }
        }
        fragment
    }

    /// The fragment of B: the words along K of one column.
    fn right(&mut self, cx: &mut Emitter<'_>, column: &Dims, words: &[Word]) -> Vec<Reg> {
        let k_dim = self.b.rank() - 2;
        let words = words
            .iter()
            .map(|word| word_of(cx, &self.b, &mut self.words[1], (column, k_dim), word));
        words.collect()
    }

    /// One instruction over so many words along K; gives the new sums.
    fn multiply(&self, cx: &mut Emitter<'_>, [a, b, c]: [&[Reg]; 3], words: usize) -> Vec<Reg> {
        let d: Vec<Reg> = c.iter().map(|&c| cx.code.reg(cx.code.class(c))).collect();
        let depth = 4 * words as u32 * (32 / self.a.elem.bits()).max(1);
        let is_tf32 = self.precision == InputPrecision::Tf32;
        let sum = element_type(self.sum, false);
        let fragment = |registers: &[Reg]| registers.iter().copied().collect::<Fragment>();
        cx.code.push(ptx::Mma {
            shape: Shape::new(16, 8, depth as u16),
            layout: MmaLayout::RowCol,
            satfinite: false,
            d_ty: sum,
            a_ty: element_type(self.a.elem, is_tf32),
            b_ty: element_type(self.b.elem, is_tf32),
            c_ty: sum,
            d: fragment(&d),
            a: fragment(a),
            b: fragment(b),
            c: fragment(c),
        });
        d
    }
}

/// The register with the elements at a place and these coordinates along K.
fn word_of(
    cx: &mut Emitter<'_>,
    tile: &Tile,
    known: &mut HashMap<usize, Reg>,
    (place, k_dim): (&Dims, usize),
    word: &[u32],
) -> Reg {
    let register = |&k: &u32| tile.register(&place.with(k_dim, k));
    let first = register(&word[0]);
    *known.entry(first).or_insert_with(|| {
        let registers = word.iter().map(register);
        let elements: Vec<Element> = registers.map(|at| tile.elements[at]).collect();
        cx.code.factor_word(&elements, tile.elem)
    })
}

impl Code {
    /// Neighbours along K as `mma.sync` takes them: 32 bits, or one element of 64.
    fn factor_word(&mut self, elements: &[Element], elem: Elem) -> Reg {
        match elem.bits() {
            64 => self.whole(elements[0], elem),
            _ => self.operand_words(elements, elem)[0],
        }
    }

    /// The elements of one tile of an accumulator in registers as `mma.sync` takes them.
    fn accumulator(&mut self, elements: &[Element], elem: Elem) -> Vec<Reg> {
        let (operands, class): (Vec<Operand>, RegClass) = if is_packed(elem) {
            (self.pack_words(elements, elem), RegClass::B32)
        } else {
            let whole = elements.iter().map(|&e| self.operand(e, elem));
            (whole.collect(), class(elem))
        };
        let operands = operands.into_iter().map(|operand| match operand {
            Operand::Reg(reg) => reg,
            constant => self.mov(move_type(class), constant),
        });
        operands.collect()
    }

    /// `a * b + sum`, of floats in one rounding.
    fn multiply_add(&mut self, factors: [(Element, Elem); 2], sum: Element, elem: Elem) -> Element {
        if !elem.is_float() {
            return self.int_multiply_add(factors, sum, elem);
        }
        let [a, b] = factors.map(|(factor, from)| {
            if from == elem {
                self.operand(factor, elem)
            } else {
                self.widen(factor, from)
            }
        });
        let sum = self.operand(sum, elem);
        self.fma(arithmetic(elem), a, b, sum).into()
    }

    /// The same of integers; what is held of narrow ones is as wide as their sum.
    fn int_multiply_add(
        &mut self,
        factors: [(Element, Elem); 2],
        sum: Element,
        elem: Elem,
    ) -> Element {
        if let [(Some(_), a), (Some(_), b)] = factors.map(|(factor, _)| (factor.as_int(), factor)) {
            let product = self.int_binary(Op::Mul, a, b, elem);
            return self.int_binary(Op::Add, product, sum, elem);
        }
        let [a, b] = factors.map(|(factor, from)| self.operand(factor, from));
        let sum = self.operand(sum, elem);
        let all = self.ternary(TernaryOp::MadLo, arithmetic(elem), a, b, sum);
        self.cut(all.into(), elem)
    }
}
