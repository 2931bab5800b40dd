//! `wgmma`: products of a warpgroup, which complete at their wait (PTX ISA 9.7.15).
//!
//! Each of the four warps has 16 rows of the result. The unit starts when all four have issued a product, and what
//! one of them has waited for is complete for all.

use crate::fault::{FaultKind, Stepped, Trouble};
use crate::lanes::Registers;
use crate::machine::memory::address::shared_index;
use crate::machine::order::{Actor, ActorId, Clocks, Kind, Lane, Stamp};
use crate::machine::state::costs::PRODUCT_LATENCY;
use crate::machine::state::matrix_descriptor::{CHUNK, Descriptor};
use crate::machine::state::policy::When;
use crate::machine::state::products::ProductInFlight;
use crate::machine::state::scene::{Flow, Scene, Worker};
use crate::machine::state::warp::{Wait, Warp};
use crate::machine::units::tensor_cores::mma::left_fragment;
use crate::machine::units::tensor_cores::operands::{
    ROWS, add_to_accumulators, left_chunks, multiply_row, right_chunks,
};
use crate::machine::units::tensor_cores::sparse::{multiply_sparse_row, places_of_kept};
use crate::program::matrix::{GroupMultiply, LeftMatrix};
use crate::program::source::name_step;
use crate::program::{Code, Op};

impl Worker<'_> {
    pub(crate) fn group_fence(&mut self, scene: &mut Scene<'_>) -> Stepped {
        scene.check_whole_warp("wgmma.fence")?;
        scene.warp.meet(u32::MAX);
        scene.warp.products.has_fenced = true;
        scene.warp.products.touched.clear();
        Ok(())
    }

    pub(crate) fn group_multiply(&mut self, scene: &mut Scene<'_>, op: &GroupMultiply) -> Stepped {
        scene.check_whole_warp("wgmma")?;
        scene.warp.meet(u32::MAX);
        self.check_warpgroup(scene)?;
        self.check_fenced(scene.warp, op)?;
        let regs = &scene.warp.regs;
        let b = descriptor(regs, op.b)?;
        let (a, left) = match &op.a {
            LeftMatrix::Descriptor(slot) => (Some(descriptor(regs, *slot)?), None),
            LeftMatrix::Registers(slots) => (
                None,
                Some(left_fragment(regs, slots, op.a_element, op.columns)),
            ),
        };
        let accumulate = uniform_predicate(regs, op.accumulate)?;
        let places = op.sparse.map(|sparse| places_of_kept(regs, op, sparse));
        let started = ProductInFlight {
            step: scene.path.pc,
            left,
            places: places.transpose()?,
            metadata: op.sparse.map(|sparse| {
                let slot = sparse.metadata;
                (slot, regs.words[slot as usize])
            }),
            a,
            b,
            accumulate,
            completes_at: scene.cluster.ctas[scene.cta].units.product(
                scene.warp.index,
                scene.warp.time.issued,
                (op.n, op.columns * op.a_element.bytes()),
                operand_bytes(op),
            ),
        };
        self.read_chunks(scene, &right_chunks(&started.b, op))?;
        if let Some(a) = &started.a {
            self.read_chunks(scene, &left_chunks(a, op, scene.warp.index % 4))?;
        }
        scene.warp.products.started.push_back(started);
        self.wake_siblings(scene);
        Ok(())
    }

    fn check_warpgroup(&self, scene: &Scene<'_>) -> Stepped {
        let warps = scene.cluster.ctas[scene.cta].warps.len() as u32;
        if scene.warp.index / 4 * 4 + 3 < warps {
            return Ok(());
        }
        let message = format!(
            "warp {} is in no warpgroup: the CTA has {warps} warps",
            scene.warp.index
        );
        Err(Trouble::new(FaultKind::Wgmma, scene.mask, message))
    }

    /// Registers that other instructions accessed need a `wgmma.fence` first (PTX ISA 9.7.15.7.1).
    fn check_fenced(&self, warp: &Warp, op: &GroupMultiply) -> Stepped {
        let products = &warp.products;
        if !products.has_fenced {
            let message =
                "wgmma without a wgmma.fence before it: the first product of a warpgroup needs one"
                    .to_owned();
            return Err(Trouble::new(FaultKind::Wgmma, u32::MAX, message));
        }
        let inputs: &[u32] = match &op.a {
            LeftMatrix::Registers(slots) => slots,
            LeftMatrix::Descriptor(_) => &[],
        };
        let found =
            op.d.iter()
                .chain(inputs)
                .find_map(|slot| products.touched.get(slot));
        match found {
            None => Ok(()),
            Some(&step) => {
                let place = name_step(self.context.program, self.context.code, step);
                let message = format!(
                    "wgmma uses a register that was accessed at {place}, without a wgmma.fence in between"
                );
                Err(Trouble::new(FaultKind::Wgmma, u32::MAX, message))
            }
        }
    }

    /// The products of the warpgroup as an actor that accesses shared memory. Where a launch is strict, a warp that waits for them does not
    /// wait for what other warps have issued.
    fn products_actor(&self, scene: &mut Scene<'_>) -> ActorId {
        let (cta, warp) = (scene.cta as u16, scene.warp.index as u16);
        let actor = if self.context.launch.checks.strict {
            Actor::ProductsOfWarp { cta, warp }
        } else {
            let warpgroup = warp / 4;
            Actor::Products { cta, warpgroup }
        };
        scene.cluster.actors.number(actor)
    }

    /// The next product of the warp begins to read chunks of shared memory, until it is waited for.
    fn read_chunks(&self, scene: &mut Scene<'_>, chunks: &[u32]) -> Stepped {
        for &address in chunks {
            self.chunk(scene, address)?;
        }
        let stamp = Stamp {
            actor: self.products_actor(scene),
            epoch: scene.warp.products.issued() as u32 + 1,
            step: scene.path.pc,
            kind: Kind::ASYNC_READ,
            lane: Lane::UNKNOWN,
        };
        let ranges = chunks
            .iter()
            .map(|&at| (shared_index(at.into()) as usize, CHUNK));
        self.access_to_read(scene, scene.mask, ranges, stamp)
    }

    pub(crate) fn group_commit(&mut self, scene: &mut Scene<'_>) -> Stepped {
        scene.check_whole_warp("wgmma.commit_group")?;
        let issued = scene.warp.products.issued();
        scene.warp.products.boundaries.push_back(issued);
        let is_quick = match self.context.policy.products {
            When::Soon => true,
            When::Random => scene.cluster.next_random().is_multiple_of(3),
            When::Late => false,
        };
        if is_quick && self.have_issued(scene, issued) {
            self.complete_until(scene, issued)?;
        }
        Ok(())
    }

    /// Waits until at most `pending` groups are open. The unit starts a product when all four warps have issued it.
    pub(crate) fn group_wait(&mut self, scene: &mut Scene<'_>, pending: u32) -> Stepped<Flow> {
        scene.check_whole_warp("wgmma.wait_group")?;
        scene.warp.meet(u32::MAX);
        let boundaries = &scene.warp.products.boundaries;
        let Some(last) = boundaries.len().checked_sub(pending as usize + 1) else {
            return Ok(Flow::Next);
        };
        let target = boundaries[last];
        if !self.have_issued(scene, target) {
            return Ok(Flow::Park(Wait::Warpgroup));
        }
        self.check_metadata(scene.warp, target)?;
        self.complete_until(scene, target)?;
        let products = &mut scene.warp.products;
        let due = products.started.range(..(target - products.first) as usize);
        let completes_at = due.map(|product| product.completes_at).max();
        let until = completes_at.map_or(0, |time| time + PRODUCT_LATENCY);
        scene.warp.time.wait_until(until);
        products.boundaries.drain(..=last);
        products.started.drain(..(target - products.first) as usize);
        products.first = target;
        let actor = self.products_actor(scene);
        let learn = |clocks: &mut Clocks| clocks.advance(actor, target as u32);
        scene.warp.acquire(u32::MAX, learn);
        Ok(Flow::Next)
    }

    /// The other warps of the group.
    fn siblings(scene: &Scene<'_>) -> impl Iterator<Item = usize> + use<> {
        let (own, first) = (scene.warp.index as usize, scene.warp.index as usize / 4 * 4);
        (first..first + 4).filter(move |&warp| warp != own)
    }

    fn have_issued(&self, scene: &Scene<'_>, target: u64) -> bool {
        let warps = &scene.cluster.ctas[scene.cta].warps;
        Self::siblings(scene).all(|warp| {
            warps
                .get(warp)
                .is_some_and(|warp| warp.products.issued() >= target)
        })
    }

    fn wake_siblings(&self, scene: &mut Scene<'_>) {
        for warp in Self::siblings(scene) {
            if let Some(warp) = scene.cluster.ctas[scene.cta].warps.get_mut(warp) {
                let waiting = warp
                    .paths
                    .iter_mut()
                    .filter(|path| path.wait == Wait::Warpgroup);
                waiting.for_each(|path| path.wait = Wait::Ready);
            }
        }
    }

    /// Completes products of all four warps.
    fn complete_until(&mut self, scene: &mut Scene<'_>, target: u64) -> Stepped {
        while scene.warp.products.completed < target {
            let mut right = None;
            self.complete_next(scene, &mut right)?;
            for sibling in Self::siblings(scene) {
                // The sibling takes the place of the running warp for its part of the product.
                let other = std::mem::take(&mut scene.cluster.ctas[scene.cta].warps[sibling]);
                let own = std::mem::replace(scene.warp, other);
                let outcome = self.complete_next(scene, &mut right);
                let other = std::mem::replace(scene.warp, own);
                scene.cluster.ctas[scene.cta].warps[sibling] = other;
                outcome?;
            }
        }
        Ok(())
    }

    /// Completes the next product of the scene's warp. `right` keeps matrix B for the warps that follow.
    fn complete_next(
        &mut self,
        scene: &mut Scene<'_>,
        right: &mut Option<(ProductInFlight, Vec<f32>)>,
    ) -> Stepped {
        let products = &scene.warp.products;
        let started = products.started[(products.completed - products.first) as usize].clone();
        let Op::GroupMultiply(op) = &self.context.code.steps[started.step as usize].op else {
            return Ok(());
        };
        if let Some((first, _)) = right
            && (first.step != started.step || first.b != started.b)
        {
            let message = "the warps of a warpgroup issue different products".to_owned();
            return Err(Trouble::new(FaultKind::Wgmma, u32::MAX, message));
        }
        if right.is_none() {
            let mut b = vec![0.0; op.k * op.n];
            self.read_right(scene, op, &started.b, &mut b)?;
            *right = Some((started.clone(), b));
        }
        let Some((_, b)) = right else { return Ok(()) };
        let a = match (&started.left, &started.a) {
            (Some(left), _) => left.clone(),
            (None, Some(descriptor)) => self.read_left(scene, op, descriptor)?,
            (None, None) => return Ok(()),
        };
        let sign = if op.negate_a == op.negate_b {
            1.0
        } else {
            -1.0
        };
        let mut sums = vec![0.0f32; ROWS * op.n];
        let rows = sums.chunks_exact_mut(op.n).zip(a.chunks_exact(op.columns));
        for (row, (sums, a)) in rows.enumerate() {
            match &started.places {
                Some(places) => {
                    let places = &places[row * op.columns..][..op.columns];
                    multiply_sparse_row(sums, a, places, b, sign);
                }
                None => multiply_row(sums, a, b, op.n, sign),
            }
        }
        add_to_accumulators(&mut scene.warp.regs, op, &sums, started.accumulate);
        scene.warp.products.completed += 1;
        Ok(())
    }

    /// Other instructions must not touch registers of products in flight; what they touch otherwise is noted.
    pub(crate) fn check_fragments(&self, warp: &mut Warp, slots: &[u32], step: u32) -> Stepped {
        let code = self.context.code;
        let in_use = warp.products.in_flight().find_map(|started| {
            let mut uses = slots
                .iter()
                .filter_map(|slot| held(code, started.step, *slot));
            uses.next().map(|held| (started.step, held))
        });
        if let Some((product, held)) = in_use {
            let place = name_step(self.context.program, code, product);
            let (name, help) = held.said();
            let message = format!(
                "a register of {name} of the wgmma at {place} is accessed while that product is in flight; wgmma.wait_group must precede the access"
            );
            return Err(Trouble::new(FaultKind::Wgmma, u32::MAX, message).help(help));
        }
        let of_step = || slots.iter().map(|&slot| (slot, step));
        warp.products.touched.extend(of_step());
        warp.products.written.extend(of_step());
        Ok(())
    }

    /// The metadata of products that are waited for is what it was when they began: they read the registers while they run. Another write of the same values does no harm.
    fn check_metadata(&self, warp: &Warp, target: u64) -> Stepped {
        let products = &warp.products;
        let due = products.started.range(..(target - products.first) as usize);
        let changed = due.filter_map(|product| {
            let (slot, words) = product.metadata.as_ref()?;
            let is_changed = warp.regs.words[*slot as usize].0 != words.0;
            is_changed.then_some((product.step, *slot))
        });
        let Some((step, slot)) = changed.into_iter().next() else {
            return Ok(());
        };
        let name = |step| name_step(self.context.program, self.context.code, step);
        let wgmma = name(step);
        let place = products.written.get(&slot).copied().map(name);
        let place = place.unwrap_or_else(|| "a place that is not known".to_owned());
        let message = format!(
            "the metadata of the wgmma at {wgmma} is changed at {place} while that product is in flight; wgmma.wait_group must precede the write"
        );
        let help = "wait for all products in front before the next metadata is loaded (`wait(0)`)";
        Err(Trouble::new(FaultKind::Wgmma, u32::MAX, message).help(help))
    }

    /// A warp must not end with products in flight.
    pub(crate) fn check_products_done(&self, warp: &Warp) -> Stepped {
        let Some(started) = warp.products.in_flight().next() else {
            return Ok(());
        };
        let place = name_step(self.context.program, self.context.code, started.step);
        let message = format!(
            "the warp ends while the wgmma at {place} is in flight; wgmma.wait_group is missing"
        );
        Err(Trouble::new(FaultKind::Wgmma, u32::MAX, message))
    }
}

/// Bytes of shared memory that a warpgroup's product reads.
fn operand_bytes(op: &GroupMultiply) -> usize {
    let of_a = match op.a {
        LeftMatrix::Descriptor(_) => 4 * ROWS * op.columns * op.a_element.bytes(),
        LeftMatrix::Registers(_) => 0,
    };
    of_a + op.n * op.k * op.b_element.bytes()
}

/// What a register holds that belongs to a product until it is waited for.
#[derive(Clone, Copy)]
enum Held {
    Accumulator,
    OperandA,
}

impl Held {
    /// Its name, and what to do instead of an access while the product is in flight.
    fn said(self) -> (&'static str, &'static str) {
        match self {
            Held::Accumulator => (
                "the accumulator",
                "wait for the product before its accumulator is read or written: `acc.wait_all()`, or `acc.wait_older_than(n)` while later ones are \
                 in flight",
            ),
            Held::OperandA => (
                "operand A",
                "wait for the product before operand A changes (`wait(0)`); or unroll the loop by two, so that consecutive products have registers of \
                 their own, and leave one in flight (`wait(1)`)",
            ),
        }
    }
}

fn held(code: &Code, step: u32, slot: u32) -> Option<Held> {
    let Op::GroupMultiply(op) = &code.steps[step as usize].op else {
        return None;
    };
    let is_of_a = matches!(&op.a, LeftMatrix::Registers(slots) if slots.contains(&slot));
    let is_of_sums = op.d.contains(&slot).then_some(Held::Accumulator);
    is_of_sums.or(is_of_a.then_some(Held::OperandA))
}

fn descriptor(regs: &Registers, slot: u32) -> Stepped<Descriptor> {
    let cells = &regs.doubles[slot as usize].0;
    if cells.iter().any(|cell| *cell != cells[0]) {
        let message = "the lanes of a warp give different matrix descriptors".to_owned();
        return Err(Trouble::new(FaultKind::Descriptor, u32::MAX, message));
    }
    Descriptor::new(cells[0], u32::MAX)
}

fn uniform_predicate(regs: &Registers, slot: u32) -> Stepped<bool> {
    match regs.predicates[slot as usize] {
        0 => Ok(false),
        u32::MAX => Ok(true),
        mixed => {
            let message = "the lanes of a warp give different values of scale-d".to_owned();
            Err(Trouble::new(FaultKind::Wgmma, mixed, message))
        }
    }
}
