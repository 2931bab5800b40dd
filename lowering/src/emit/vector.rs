//! Several neighbouring elements in one access, to whichever memory.

use ir::elem::Elem;
use ptx::{Addr, Operand, Predicate, Reg, RegClass, Space, Type, VecWidth};

use super::code::Code;
use super::element::{Element, class, memory};

/// How contiguous elements lie in the registers of an access.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    elem: Elem,
    /// The PTX type of each register.
    ty: Type,
    /// Registers of the access.
    regs: usize,
    /// Elements in each register.
    per_reg: usize,
}

impl Shape {
    /// The shape of `count` elements, a power of two of at most 16 bytes.
    pub(super) fn new(elem: Elem, count: usize) -> Shape {
        let bytes = elem.bytes() as usize * count;
        if elem.bytes() >= 4 || count == 1 {
            return Shape {
                elem,
                ty: memory(elem),
                regs: count,
                per_reg: 1,
            };
        }
        let ty = if bytes >= 4 { Type::B32 } else { Type::U16 };
        Shape {
            elem,
            ty,
            regs: bytes.div_ceil(4),
            per_reg: count / bytes.div_ceil(4),
        }
    }

    fn class(self) -> RegClass {
        match (self.per_reg, class(self.elem)) {
            (1, RegClass::Pred) => RegClass::B32,
            (1, class) => class,
            _ => RegClass::B32,
        }
    }

    fn vec(self) -> Option<VecWidth> {
        VecWidth::of_len(self.regs)
    }
}

/// Modifiers of a load.
pub(super) type Load = ptx::Ld;

impl Code {
    /// Fresh registers for an access, holding the given elements, or nothing yet.
    pub(super) fn vector_regs(&mut self, shape: Shape, preset: Option<&[Element]>) -> Vec<Reg> {
        let regs: Vec<Reg> = (0..shape.regs).map(|_| self.reg(shape.class())).collect();
        if let Some(elements) = preset {
            let words = self.vector_words(shape, elements);
            for (&reg, word) in regs.iter().zip(words) {
                self.copy(reg, word);
            }
        }
        regs
    }

    /// The elements as the registers of an access hold them.
    pub(super) fn vector_words(&mut self, shape: Shape, elements: &[Element]) -> Vec<Operand> {
        match (shape.per_reg, class(shape.elem)) {
            (1, RegClass::Pred) => elements
                .iter()
                .map(|&e| self.bits32(e, shape.elem))
                .collect(),
            (1, _) => elements
                .iter()
                .map(|&e| self.operand(e, shape.elem))
                .collect(),
            // A pair of bytes fills half a word.
            (2, _) if shape.elem.bytes() == 1 => {
                let padded: Vec<Element> = elements
                    .iter()
                    .copied()
                    .chain([Element::int(0), Element::int(0)])
                    .collect();
                self.pack_words(&padded, shape.elem)
            }
            _ => self.pack_words(elements, shape.elem),
        }
    }

    /// The elements that the registers of an access hold.
    pub(super) fn vector_elements(&mut self, shape: Shape, regs: &[Reg]) -> Vec<Element> {
        if shape.per_reg == 1 {
            let is_bool = class(shape.elem) == RegClass::Pred;
            let one = |code: &mut Code, reg: Reg| {
                if is_bool {
                    code.from_bits32(reg, shape.elem)
                } else {
                    reg.into()
                }
            };
            return regs.iter().map(|&reg| one(self, reg)).collect();
        }
        let step = 8 * shape.elem.bytes();
        let parts = (0..shape.per_reg as u32).map(|at| (at * step) as u8);
        regs.iter()
            .flat_map(|&reg| parts.clone().map(move |shift| Element::Part(reg, shift)))
            .collect()
    }

    /// Loads into the registers where the guard holds. `like` gives the modifiers.
    pub(super) fn load_into(
        &mut self,
        shape: Shape,
        regs: &[Reg],
        addr: Addr,
        guard: Option<Predicate>,
        like: &Load,
    ) {
        let dst: ptx::Dests = regs.iter().copied().collect();
        let load = ptx::Ld {
            vec: shape.vec(),
            ty: shape.ty,
            dst,
            addr,
            ..like.clone()
        };
        self.push_guarded(guard, load);
    }

    /// Stores elements where the guard holds. `like` gives the modifiers.
    pub(super) fn store(
        &mut self,
        shape: Shape,
        elements: &[Element],
        addr: Addr,
        guard: Option<Predicate>,
        like: &ptx::St,
    ) {
        let words = self.vector_words(shape, elements);
        let regs: Vec<Operand> = words
            .into_iter()
            .map(|w| self.in_register(w, shape))
            .collect();
        let src: ptx::Values = regs.into_iter().collect();
        let store = ptx::St {
            vec: shape.vec(),
            ty: shape.ty,
            addr,
            src,
            ..like.clone()
        };
        self.push_guarded(guard, store);
    }

    /// Has the kernel launched in clusters, if only of one CTA: outside of such a launch `st.async` is an illegal instruction, which the PTX
    /// ISA does not say; an H200 does.
    pub(super) fn launch_in_clusters(&mut self) {
        let directives = &mut self.entry.directives;
        directives.explicitcluster = true;
        directives.reqnctapercluster.get_or_insert([1; 3]);
    }

    /// Stores elements into another CTA where the guard holds; their bytes complete on the barrier there.
    pub(super) fn store_async(
        &mut self,
        shape: Shape,
        elements: &[Element],
        addr: Addr,
        mbar: Addr,
        guard: Option<Predicate>,
    ) {
        self.launch_in_clusters();
        let words = self.vector_words(shape, elements);
        let regs = words.into_iter().map(|w| self.in_register(w, shape));
        let src: ptx::Values = regs.collect();
        let store = ptx::StAsync {
            vec: shape.vec(),
            ..ptx::StAsync::new(shape.ty, addr, src, mbar)
        };
        self.push_guarded(guard, store);
    }

    /// Vectors hold registers, not immediates.
    fn in_register(&mut self, word: Operand, shape: Shape) -> Operand {
        match word {
            Operand::Reg(_) => word,
            _ => self.mov(super::code::move_type(shape.class()), word).into(),
        }
    }
}

/// A plain load from a memory.
pub(super) fn plain_load(space: Space) -> Load {
    let load = ptx::Ld::new(Type::B32, Reg(0), Addr::reg(Reg(0), 0));
    ptx::Ld {
        space: Some(space),
        ..load
    }
}

/// A plain store to a memory.
pub(super) fn plain_store(space: Space) -> ptx::St {
    let store = ptx::St::new(Type::B32, Addr::reg(Reg(0), 0), Operand::Int(0));
    ptx::St {
        space: Some(space),
        ..store
    }
}
