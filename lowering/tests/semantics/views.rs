//! Views of views of shared memory, read and written: slices, indices, permutations and reshapes in random chains.

use std::cell::RefCell;

use gluon_lang::lang::KernelFn;
use gluon_lang::lang::prelude::*;
use ir::elem::DType;

use crate::machine::run_func;

/// One step from a view to another.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    Slice(usize, u32, u32),
    Permute(Vec<u32>),
    Reshape(Vec<u32>),
    /// By a constant, or by a number that the kernel loads.
    Index(u32, bool),
}

/// What the kernel does.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) alloc: Vec<u32>,
    pub(crate) shared: SharedLayout,
    /// Registers of one buffer of the allocation.
    pub(crate) from: Layout,
    pub(crate) steps: Vec<Step>,
    /// Registers of the view.
    pub(crate) to: Layout,
}

thread_local! {
    static PLAN: RefCell<Option<Plan>> = const { RefCell::new(None) };
}

pub(crate) fn set(plan: &Plan) {
    PLAN.set(Some(plan.clone()));
}

/// The row-major numbers of a tensor's elements.
pub(crate) fn numbers(shape: &[u32], layout: &Layout) -> Tensor<i32> {
    let len: u32 = shape.iter().product();
    if let [rows, columns] = *shape
        && !len.is_power_of_two()
    {
        // `reshape` leaves the layout of such a tensor to nobody.
        let along = |dim: usize, size: u32| {
            let line = Slice::new(1 - dim, layout.clone());
            arange(0..size, line).expand_dims(1 - dim)
        };
        return along(0, rows) * columns + along(1, columns);
    }
    arange(0..len, Auto)
        .reshape(shape)
        .set_layout(layout.clone())
}

/// `x` goes into the allocation, the view of it to the beginning of `out`; then `y` into the view, and the allocation to
/// the rest of `out`.
#[kernel(warps = 4)]
fn views<T: Element>(x: Ptr<T>, y: Ptr<T>, index: Ptr<i32>, out: Ptr<T>) {
    let plan = current();
    let (tile, view) = filled(&plan, x, index);
    let places = numbers(&view.shape(), &plan.to);
    let read = view.load(plan.to.clone());
    out.at(places).store(read);
    view.store(y.at(places).load());
    emptied(&plan, tile, out, view.shape().iter().product());
}

/// The plan of the test that traces.
pub(crate) fn current() -> Plan {
    PLAN.with_borrow(|plan| plan.clone().expect("a test has set the plan"))
}

/// How many buffers an allocation has, and the shape of one.
fn buffers(plan: &Plan) -> (bool, u32, Vec<u32>) {
    if plan.alloc.len() > plan.shared.rank() {
        (true, plan.alloc[0], plan.alloc[1..].to_vec())
    } else {
        (false, 1, plan.alloc.clone())
    }
}

/// The allocation with the elements of `x`, and the view of it.
pub(crate) fn filled<T: Element>(plan: &Plan, x: Ptr<T>, index: Ptr<i32>) -> (Smem<T>, Smem<T>) {
    let tile = Smem::<T>::alloc(&*plan.alloc, plan.shared.clone());
    let (has_buffers, count, shape) = buffers(plan);
    let len: u32 = shape.iter().product();
    let at = numbers(&shape, &plan.from);
    for buffer in 0..count {
        let part = if has_buffers {
            tile.index(buffer)
        } else {
            tile
        };
        part.store(x.at(at + buffer * len).load());
    }
    let mut view = tile;
    for step in &plan.steps {
        view = match step {
            Step::Slice(axis, start, end) => view.slice(*axis, *start..*end),
            Step::Permute(order) => view.permute(&**order),
            Step::Reshape(shape) => view.reshape(&**shape),
            Step::Index(at, false) => view.index(*at),
            Step::Index(at, true) => view.index(index.load() + *at),
        };
    }
    (tile, view)
}

/// Stores the whole allocation behind the first elements of `out`.
pub(crate) fn emptied<T: Element>(plan: &Plan, tile: Smem<T>, out: Ptr<T>, first: u32) {
    let (has_buffers, count, shape) = buffers(plan);
    let len: u32 = shape.iter().product();
    let at = numbers(&shape, &plan.from);
    for buffer in 0..count {
        let part = if has_buffers {
            tile.index(buffer)
        } else {
            tile
        };
        let part = part.load(plan.from.clone());
        out.at(at + (first + buffer * len)).store(part);
    }
}

pub(crate) fn coords(mut number: u32, shape: &[u32]) -> Vec<u32> {
    let mut coords = vec![0; shape.len()];
    for (coord, size) in coords.iter_mut().zip(shape).rev() {
        *coord = number % size;
        number /= size;
    }
    coords
}

pub(crate) fn number(coords: &[u32], shape: &[u32]) -> u32 {
    coords.iter().zip(shape).fold(0, |n, (c, s)| n * s + c)
}

/// From the coordinates in a view to those in what it is a view of.
type From = Box<dyn Fn(&[u32]) -> Vec<u32>>;

/// The shape of the view, and the numbers of its elements in the allocation.
pub(crate) fn reference(plan: &Plan) -> (Vec<u32>, Vec<u32>) {
    let mut shape = plan.alloc.clone();
    let mut held: Vec<u32> = (0..shape.iter().product()).collect();
    for step in &plan.steps {
        let old = shape.clone();
        let from: From = match step.clone() {
            Step::Slice(axis, start, end) => {
                shape[axis] = end - start;
                Box::new(move |c| {
                    let mut c = c.to_vec();
                    c[axis] += start;
                    c
                })
            }
            Step::Permute(order) => {
                shape = order.iter().map(|&d| old[d as usize]).collect();
                Box::new(move |c| {
                    let place = |d: u32| order.iter().position(|&o| o == d).unwrap();
                    (0..order.len() as u32).map(|d| c[place(d)]).collect()
                })
            }
            Step::Reshape(to) => {
                shape.clone_from(&to);
                let old = old.clone();
                Box::new(move |c| coords(number(c, &to), &old))
            }
            Step::Index(at, _) => {
                shape.remove(0);
                Box::new(move |c| [&[at], c].concat())
            }
        };
        let len = shape.iter().product();
        held = (0..len)
            .map(|n| held[number(&from(&coords(n, &shape)), &old) as usize])
            .collect();
    }
    (shape, held)
}

pub(crate) fn bytes_of(numbers: impl Iterator<Item = u64>, dtype: DType) -> Vec<u8> {
    let bytes = dtype.bytes() as usize;
    numbers
        .flat_map(|n| {
            // Every value is another, as far as the type has so many; a boolean is 0 or 1.
            let mixed = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 7;
            let value = if dtype == DType::I1 { mixed & 1 } else { mixed };
            value.to_le_bytes()[..bytes].to_vec()
        })
        .collect()
}

#[track_caller]
pub(crate) fn check<T: Element>(plan: &Plan) {
    set(plan);
    let traced = KernelFn::trace(views::<T>);
    let func = traced.unwrap_or_else(|e| panic!("{e}\n{plan:?}")).func;
    let (shape, held) = reference(plan);
    assert_eq!(shape.iter().product::<u32>() as usize, held.len());
    let bytes = T::DTYPE.bytes() as usize;
    let total: u32 = plan.alloc.iter().product();
    let x = bytes_of((0..u64::from(total)).map(|n| n + 1), T::DTYPE);
    let y = bytes_of((0..held.len() as u64).map(|n| n + 100_000), T::DTYPE);
    let zero = 0_i32.to_le_bytes();
    let found = run_func(func, &[&x, &y, &zero], held.len() * bytes + x.len());
    let element = |at: u32| &x[at as usize * bytes..][..bytes];
    let read: Vec<u8> = held.iter().flat_map(|&at| element(at).to_vec()).collect();
    assert!(found[..read.len()] == read, "read: {} {plan:?}", T::DTYPE);
    let mut written = x.clone();
    for (n, &at) in held.iter().enumerate() {
        let from = &y[n * bytes..][..bytes];
        written[at as usize * bytes..][..bytes].copy_from_slice(from);
    }
    assert!(
        found[read.len()..] == written,
        "write: {} {plan:?}",
        T::DTYPE
    );
}

/// A small generator, so that a failure comes again.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }

    fn order(&mut self, rank: usize) -> Vec<u32> {
        let mut order: Vec<u32> = (0..rank as u32).collect();
        for at in (1..rank).rev() {
            order.swap(at, self.below(at + 1));
        }
        order
    }

    /// `bits` bits over `rank` dimensions, as sizes.
    fn spread(&mut self, rank: usize, bits: u32) -> Vec<u32> {
        let mut sizes = vec![1; rank];
        for _ in 0..bits {
            let dim = self.below(rank);
            sizes[dim] *= 2;
        }
        sizes
    }

    pub(crate) fn registers(&mut self, rank: usize) -> Layout {
        let each = self.below(4) as u32;
        Blocked::new(
            self.spread(rank, each),
            self.spread(rank, 5),
            self.spread(rank, 2),
            self.order(rank),
        )
        .into()
    }

    /// A step that is possible from a view of this shape.
    pub(crate) fn step(&mut self, shape: &[u32], has_buffers: bool) -> Step {
        let rank = shape.len();
        match self.below(if has_buffers { 3 } else { 4 }) {
            0 => {
                let axis = self.below(rank);
                let size = shape[axis];
                if has_buffers && axis == 0 {
                    let start = self.below(size as usize) as u32;
                    let length = 1 + self.below((size - start) as usize) as u32;
                    return Step::Slice(0, start, start + length);
                }
                let length = 1 << self.below(size.trailing_zeros() as usize + 1);
                let start = self.below((size / length) as usize) as u32 * length;
                Step::Slice(axis, start, start + length)
            }
            1 => {
                let mut order = self.order(rank);
                if has_buffers {
                    order.retain(|&d| d != 0);
                    order.insert(0, 0);
                }
                Step::Permute(order)
            }
            2 if has_buffers => {
                Step::Index(self.below(shape[0] as usize) as u32, self.below(2) == 0)
            }
            _ => {
                let rank = 1 + self.below(3);
                let bits = shape.iter().map(|d| d.trailing_zeros()).sum();
                Step::Reshape(self.spread(rank, bits))
            }
        }
    }

    pub(crate) fn plan(&mut self, shared: &str, buffers: Option<u32>) -> Plan {
        let shared: SharedLayout = shared.parse().expect("a layout");
        let alloc: Vec<u32> = buffers.into_iter().chain([32, 64]).collect();
        let mut plan = Plan {
            alloc,
            shared,
            from: self.registers(2),
            steps: Vec::new(),
            to: Auto.into(),
        };
        let mut has_buffers = buffers.is_some();
        for _ in 0..=self.below(4) {
            let shape = reference(&plan).0;
            let step = self.step(&shape, has_buffers);
            has_buffers &= !matches!(step, Step::Index(..));
            plan.steps.push(step);
        }
        // Tensors have powers of two: what still counts buffers is indexed.
        if has_buffers {
            let count = reference(&plan).0[0];
            plan.steps
                .push(Step::Index(self.below(count as usize) as u32, true));
        }
        plan.to = self.registers(reference(&plan).0.len());
        plan
    }
}

pub(crate) const SHARED: [&str; 13] = [
    // A swizzle that exchanges 2 KiB of words, more than shared memory itself is aligned to.
    "SharedLinear(offset=[[0, 1], [0, 2], [0, 4], [0, 8], [1, 16], [2, 0], [4, 0], [8, 0], [16, 0], [0, 16], [0, 32]])",
    "Swizzled(1, 1, 1, [1, 0])",
    "Swizzled(4, 2, 8, [1, 0])",
    "Swizzled(2, 1, 4, [0, 1])",
    "Swizzled(1, 1, 32, [1, 0])",
    "Padded([[16, 4]], [1, 0])",
    "Padded([[32, 1], [128, 2]], [0, 1])",
    "SharedLinear(offset=[[0, 1], [1, 0], [0, 2], [2, 0], [0, 4], [4, 0], [0, 8], [8, 0], [0, 16], [16, 0], [0, 32]])",
    "SharedLinear(offset=[[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [1, 9], [2, 18], [4, 36], [8, 8], [16, 16]])",
    "Nvmma(0, BITS)",
    "Nvmma(32, BITS)",
    "Nvmma(128, BITS)",
    "Nvmma(128, BITS, transposed=true)",
];

fn sweep<T: Element>(seed: u64) {
    let mut dice = Dice(seed);
    let bits = (T::DTYPE.bytes() * 8).to_string();
    for shared in SHARED {
        let shared = shared.replace("BITS", &bits);
        // The rows of a swizzle are as long as the tile has elements.
        let is_short = shared.contains("Nvmma(128") && T::DTYPE.bytes() * 32 < 128;
        if is_short {
            continue;
        }
        for round in 0..6 {
            let buffers = (round % 2 == 0).then_some(3);
            let plan = dice.plan(&shared, buffers);
            check::<T>(&plan);
        }
    }
}

#[test]
fn views_of_booleans() {
    sweep::<bool>(1);
}

#[test]
fn views_of_bytes() {
    sweep::<u8>(2);
}

#[test]
fn views_of_halves() {
    sweep::<bf16>(3);
}

#[test]
fn views_of_words() {
    sweep::<f32>(4);
}

#[test]
fn views_of_double_words() {
    sweep::<f64>(5);
}

/// Tiles of three dimensions, whose layout covers the first one too: an index into it is a pattern of bits.
const THREE: [&str; 7] = [
    "Swizzled(4, 2, 8, [2, 1, 0])",
    "Swizzled(4, 1, 4, [2, 1, 0])",
    "Swizzled(2, 1, 4, [1, 2, 0])",
    "Nvmma(64, 16, rank=3)",
    "Nvmma(0, 16, rank=3)",
    "SharedLinear(offset=[[0, 0, 1], [0, 0, 2], [0, 0, 4], [1, 0, 0], [3, 0, 0], [0, 1, 8], [0, 2, 16], [0, 4, 0], [0, 0, 8], [0, 0, 16], [0, 8, 0], [7, 0, 0]])",
    "Padded([[32, 8]], [2, 1, 0])",
];

#[test]
fn indices_into_what_the_layout_covers() {
    let mut dice = Dice(21);
    for shared in THREE {
        for round in 0..8 {
            let mut plan = Plan {
                alloc: vec![8, 16, 32],
                shared: shared.parse().expect("a layout"),
                from: dice.registers(3),
                steps: Vec::new(),
                to: Auto.into(),
            };
            if round % 2 == 1 {
                plan.steps.push(Step::Slice(0, 4, 8));
            }
            let count = reference(&plan).0[0];
            let at = dice.below(count as usize) as u32;
            plan.steps.push(Step::Index(at, round % 4 < 2));
            if round > 3 {
                plan.steps.push(dice.step(&reference(&plan).0, false));
            }
            plan.to = dice.registers(reference(&plan).0.len());
            check::<f16>(&plan);
        }
    }
}

/// Two buffers change places in a loop, and a branch picks one.
#[kernel(warps = 4)]
fn carried(x: Ptr<i32>, n: Ptr<i32>, out: Ptr<i32>) {
    let layout = Blocked::new([1], [32], [4], [0]);
    let at = arange(0..128, layout.clone());
    let both = Smem::<i32>::alloc([2, 128], Swizzled::plain([0]));
    let (mut front, mut back) = (both.index(0), both.index(1));
    front.store(x.at(at).load());
    for i in range(0, n.load()) {
        back.store(front.load(layout.clone()) * 2 + i);
        (front, back) = (back, front);
    }
    let last = if n.load() > 3 { front } else { back };
    out.at(at).store(last.load(layout));
}

#[test]
fn views_go_round_loops_and_out_of_branches() {
    for n in [2, 5] {
        let x: Vec<i32> = (0..128).map(|i| i * 37 - 500).collect();
        let (mut front, mut back) = (x.clone(), vec![0; 128]);
        for i in 0..n {
            back = front.iter().map(|v| v * 2 + i).collect();
            std::mem::swap(&mut front, &mut back);
        }
        let wanted = if n > 3 { front } else { back };
        let bytes = |v: &[i32]| v.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>();
        let func = KernelFn::trace(carried)
            .unwrap_or_else(|e| panic!("{e}"))
            .func;
        let found = run_func(func, &[&bytes(&x), &n.to_le_bytes()], 512);
        assert_eq!(found, bytes(&wanted));
    }
}

#[test]
fn buffers_move_all_at_once() {
    let mut dice = Dice(31);
    for shared in SHARED {
        let mut plan = Plan {
            alloc: vec![4, 32, 64],
            shared: shared.replace("BITS", "32").parse().expect("a layout"),
            from: dice.registers(2),
            steps: Vec::new(),
            to: dice.registers(3),
        };
        check::<f32>(&plan);
        plan.steps = vec![Step::Slice(0, 1, 3), Step::Slice(2, 16, 32)];
        check::<f32>(&plan);
    }
}

/// Padding stands behind 8 elements, and a buffer has 4: no buffer has any.
#[test]
fn slices_of_buffers_that_are_shorter_than_what_is_padded() {
    let registers = || {
        "Blocked([1, 1], [16, 2], [4, 1], [1, 0])"
            .parse::<Layout>()
            .expect("a layout")
    };
    for index in [false, true] {
        let plan = Plan {
            alloc: vec![3, 2, 2],
            shared: "Padded([[8, 8], [256, 8]], [1, 0])"
                .parse()
                .expect("a layout"),
            from: registers(),
            steps: vec![Step::Slice(0, 2, 3), Step::Index(0, index)],
            to: registers(),
        };
        check::<bool>(&plan);
        check::<f32>(&plan);
    }
}

/// Every part of a row, if the language takes it: a start where alignment or a swizzle would have to follow is refused.
#[test]
fn slices_of_any_length_begin_where_the_language_lets_them() {
    let registers: Layout = "Blocked([1, 1], [32, 1], [4, 1], [1, 0])"
        .parse()
        .expect("a layout");
    for shared in [
        "Swizzled(1, 1, 1, [1, 0])",
        "Swizzled(1, 1, 1, [0, 1])",
        "Swizzled(2, 1, 4, [1, 0])",
        "Nvmma(32, 32)",
        "Padded([[4, 4]], [1, 0])",
        "Padded([[16, 4]], [1, 0])",
    ] {
        // What is no power of two has gaps behind its rows, and an `Nvmma` has whole swizzles there.
        let columns = if shared.starts_with("Swizzled(1") {
            12
        } else {
            8
        };
        let parts =
            (0..columns).flat_map(|start| (start + 1..=columns).map(move |end| (start, end)));
        let mut taken = 0;
        for (start, end) in parts {
            let plan = Plan {
                alloc: vec![8, columns],
                shared: shared.parse().expect("a layout"),
                from: registers.clone(),
                steps: vec![Step::Slice(1, start, end)],
                to: registers.clone(),
            };
            set(&plan);
            match KernelFn::trace(views::<f32>) {
                Ok(_) => check::<f32>(&plan),
                Err(refused) => {
                    assert!(refused.to_string().contains("TK0013"), "{refused}");
                    continue;
                }
            }
            taken += 1;
        }
        assert!(taken >= 15, "{taken} of {shared}");
    }
}

#[test]
fn slices_of_wide_swizzles_begin_inside_the_pattern() {
    let mut dice = Dice(41);
    for index in [false, true] {
        let plan = Plan {
            alloc: vec![3, 32, 64],
            shared: SHARED[0].parse().expect("a layout"),
            from: dice.registers(2),
            steps: vec![
                Step::Index(1, index),
                Step::Slice(1, 16, 32),
                Step::Slice(1, 8, 16),
                Step::Slice(0, 16, 32),
            ],
            to: dice.registers(2),
        };
        check::<f32>(&plan);
        check::<u8>(&plan);
    }
}

/// The layout of the indices decides that of what is gathered, and the other way round.
#[kernel(warps = 4)]
fn open_layouts(x: Ptr<i32>, out: Ptr<i32>) {
    let layout = Blocked::new([1], [32], [4], [0]);
    let at = arange(0..128, layout.clone());
    let tile = Smem::alloc_with(x.at(at).load(), Swizzled::plain([0]));
    let turned = tile.gather(127 - arange(0..128, Auto), 0);
    tile.scatter(turned + 1, arange(0..128, Auto), 0);
    out.at(at).store(turned + tile.load(Auto));
}

#[test]
fn layouts_are_inferred_through_shared_memory() {
    let x: Vec<i32> = (0..128).map(|i| i * 37 - 500).collect();
    let wanted: Vec<i32> = (0..128).map(|i| 2 * x[127 - i] + 1).collect();
    let bytes = |v: &[i32]| v.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>();
    let func = KernelFn::trace(open_layouts)
        .unwrap_or_else(|e| panic!("{e}"))
        .func;
    assert_eq!(run_func(func, &[&bytes(&x)], 512), bytes(&wanted));
}
