//! Exchange through shared memory: every thread stores its elements, a barrier of the exchange's scope follows, and every
//! thread loads the elements that the new layout gives it.

use ir::elem::Elem;
use layout::convert::{AccessKind, LaneAccess, PerThread, RemoteRead, Scope, SharedPlan};
use ptx::{Addr, Fragment, MatrixCount, Operand, Predicate, Reg, RegClass, Space};

use super::Emitter;
use super::code::Code;
use super::element::{Element, class};
use super::vector::{Shape, plain_load, plain_store};

impl Emitter<'_> {
    /// The elements that the plan leaves in a thread, on their way through the shared memory at `place`. `is_repeated` says
    /// that the same code may have run before.
    pub(super) fn exchange(
        &mut self,
        plan: &SharedPlan,
        elem: Elem,
        elements: &[Element],
        place: u32,
        is_repeated: bool,
    ) -> Vec<Element> {
        let loads = plan.exchanges.iter().flat_map(|exchange| &exchange.loads);
        let count = loads.map(|load| load.registers.len()).sum();
        let mut got = vec![Element::int(0); count];
        let storing = self.storing(plan);
        if plan.scope == Scope::Warp && is_repeated {
            // The planner lets a warp use its own part again without a barrier of the CTA.
            self.sync_scope(Scope::Warp);
        }
        for (at, exchange) in plan.exchanges.iter().enumerate() {
            if at > 0 {
                self.sync_scope(plan.scope);
            }
            for access in &exchange.stores {
                let held: Vec<Element> = access
                    .registers
                    .iter()
                    .map(|&r| elements[r as usize])
                    .collect();
                let addr = self.exchange_addr(&plan.store_thread, access, place);
                self.store_shared(plan.store_kind, elem, &held, addr, storing);
            }
            self.sync_scope(plan.scope);
            for access in &exchange.loads {
                let addr = self.exchange_addr(&plan.load_thread, access, place);
                let addr = match &plan.remote {
                    None => addr,
                    Some(remote) => self.remote_addr(addr, remote, access),
                };
                let space = match plan.remote {
                    None => Space::Shared,
                    Some(_) => Space::SharedCluster,
                };
                let loaded =
                    self.load_shared(plan.load_kind, elem, access.registers.len(), addr, space);
                for (&value, element) in access.registers.iter().zip(loaded) {
                    got[value as usize] = element;
                }
            }
        }
        if plan.scope == Scope::Cluster {
            // Nobody may write here again, or leave, while another CTA still reads.
            self.sync_cluster();
        }
        got
    }

    /// The threads that store: those that hold no copies of what others store.
    fn storing(&mut self, plan: &SharedPlan) -> Option<Predicate> {
        self.code.holders(plan.idle_lanes | plan.idle_warps << 5)
    }

    pub(super) fn sync_scope(&mut self, scope: Scope) {
        match scope {
            // Warps without tiles read along, what other warps wrote.
            Scope::Warp if self.code.partition.followers > 0 => self.sync_partition(),
            Scope::Warp => self.sync_warp(),
            Scope::Cta => self.sync_partition(),
            Scope::Cluster => self.sync_cluster(),
        }
    }

    fn exchange_addr(&mut self, thread: &PerThread, access: &LaneAccess, place: u32) -> Addr {
        let number = self.code.per_thread(thread);
        let number = self.code.flipped(number, access.xor_bytes);
        let (number, constant) = match number {
            Operand::Int(value) => (Operand::Int(0), value as u32),
            number => (number, 0),
        };
        self.shared_place(place + access.add_bytes + constant, number)
    }

    /// The same place in the shared memory of the CTA that the access reads.
    fn remote_addr(&mut self, addr: Addr, remote: &RemoteRead, access: &LaneAccess) -> Addr {
        let cta = self.code.per_thread(&remote.thread);
        let cta = self.code.flipped(cta, access.block_xor);
        let ptx::Base::Reg(own) = addr.base else {
            panic!("shared memory is addressed through a register");
        };
        let mapped = self.code.in_prologue(|code| code.mapa(own, cta));
        Addr::reg(mapped, addr.offset)
    }

    /// One store of every thread; where matrices move, the guard holds in all lanes of a warp or in none.
    pub(super) fn store_shared(
        &mut self,
        kind: AccessKind,
        elem: Elem,
        elements: &[Element],
        addr: Addr,
        guard: Option<Predicate>,
    ) {
        let shape = Shape::new(elem, elements.len());
        match kind {
            AccessKind::Vector => {
                let like = plain_store(Space::Shared);
                self.code.store(shape, elements, addr, guard, &like);
            }
            AccessKind::Matrix | AccessKind::Transposed => {
                let src = self.code.matrix_words(elements, elem);
                let count = matrix_count(src.0.len());
                let store = ptx::Stmatrix {
                    space: Some(Space::Shared),
                    trans: kind == AccessKind::Transposed,
                    ..ptx::Stmatrix::new(count, addr, src)
                };
                self.code.push_guarded(guard, store);
            }
        }
    }

    /// The elements that one load of every thread gives.
    pub(super) fn load_shared(
        &mut self,
        kind: AccessKind,
        elem: Elem,
        count: usize,
        addr: Addr,
        space: Space,
    ) -> Vec<Element> {
        let shape = Shape::new(elem, count);
        match kind {
            AccessKind::Vector => {
                let regs = self.code.vector_regs(shape, None);
                let like = plain_load(space);
                self.code.load_into(shape, &regs, addr, None, &like);
                self.code.vector_elements(shape, &regs)
            }
            AccessKind::Matrix | AccessKind::Transposed => {
                let words = count * elem.bytes() as usize / 4;
                let regs: Vec<Reg> = (0..words).map(|_| self.code.reg(RegClass::B32)).collect();
                let dst: Fragment = regs.iter().copied().collect();
                self.code.push(ptx::Ldmatrix {
                    space: Some(space),
                    trans: kind == AccessKind::Transposed,
                    ..ptx::Ldmatrix::new(matrix_count(words), dst, addr)
                });
                self.code.matrix_elements(&regs, elem)
            }
        }
    }
}

fn matrix_count(words: usize) -> MatrixCount {
    match words {
        1 => MatrixCount::X1,
        2 => MatrixCount::X2,
        4 => MatrixCount::X4,
        _ => panic!("{words} matrices in one access"),
    }
}

impl Code {
    /// The elements as 32-bit registers of a matrix access.
    fn matrix_words(&mut self, elements: &[Element], elem: Elem) -> Fragment {
        let words: Vec<Operand> = if elem.bytes() == 4 {
            elements.iter().map(|&e| self.operand(e, elem)).collect()
        } else {
            self.pack_words(elements, elem)
        };
        let in_register = |word: Operand| match word {
            Operand::Reg(reg) if self.class(reg) == RegClass::B32 => reg,
            word => self.mov_bits(RegClass::B32, word),
        };
        words.into_iter().map(in_register).collect()
    }

    /// The elements that the registers of a matrix access hold.
    fn matrix_elements(&mut self, regs: &[Reg], elem: Elem) -> Vec<Element> {
        if elem.bytes() == 4 {
            let whole = |&reg: &Reg| match class(elem) {
                RegClass::F32 => self.mov_bits(RegClass::F32, reg).into(),
                _ => reg.into(),
            };
            return regs.iter().map(whole).collect();
        }
        let step = 8 * elem.bytes();
        let parts = (0..4 / elem.bytes()).map(|at| (at * step) as u8);
        regs.iter()
            .flat_map(|&reg| parts.clone().map(move |shift| Element::Part(reg, shift)))
            .collect()
    }
}
