//! Random programs of loops and branches that are left early, traced and emulated, against the same program interpreted by the host.
//!
//! A program changes four numbers and a tile. It is traced by what the macros expand to, statement by statement, as `rt` has it.

use std::cell::RefCell;

use gluon_lang::lang::prelude::*;
use gluon_lang::lang::{KernelExit, KernelLoop, KernelWhile};
use gluon_lang::rt::{
    Branch, Carrier, Decided, Ended, EndlessLoop, ExitTarget, FunctionScope, Inside, IntoLoop,
    WhileLoop,
};
use ir::elem::DType;

use crate::machine::run_func;
use crate::values::values;

const VARS: usize = 4;
const NAMES: [&str; VARS] = ["a", "b", "c", "d"];
/// Elements of the tile.
const LANES: usize = 32;
/// Iterations of all loops that count none of their own, together.
const FUEL: i32 = 25;
const SEEDS: u64 = 120;

#[derive(Clone, Debug)]
enum Stmt {
    /// `v[to] = v[to] * 3 + v[from] + add`, and the tile likewise.
    Change {
        to: usize,
        from: usize,
        add: i32,
    },
    If(Test, Vec<Stmt>, Vec<Stmt>),
    /// So many iterations as the variable modulo 4 says; its index goes into a variable.
    For {
        count: usize,
        into: usize,
        body: Vec<Stmt>,
    },
    /// While there is fuel and the test holds.
    While(Test, Vec<Stmt>),
    /// A `loop` that ends when the fuel does, or before.
    Loop(Vec<Stmt>),
    /// Of the loop so many further out.
    Break(usize),
    Continue(usize),
    /// With the value of a variable.
    Return(usize),
}

/// `v[of] % modulus == rest`.
#[derive(Clone, Copy, Debug)]
struct Test {
    of: usize,
    modulus: i32,
    rest: i32,
}

/// Chooses programs: xorshift.
struct Dice(u64);

impl Dice {
    fn below(&mut self, count: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % count
    }

    fn test(&mut self) -> Test {
        let modulus = 2 + self.below(3) as i32;
        Test {
            of: self.below(VARS),
            modulus,
            rest: self.below(modulus as usize) as i32,
        }
    }

    /// Statements in so many loops; `is_inside` something under a runtime condition.
    fn block(&mut self, depth: usize, loops: usize, is_inside: bool) -> Vec<Stmt> {
        let mut out = Vec::new();
        for _ in 0..=self.below(4) {
            let stmt = self.stmt(depth, loops, is_inside);
            let ends = matches!(stmt, Stmt::Break(_) | Stmt::Continue(_) | Stmt::Return(_));
            out.push(stmt);
            if ends {
                break;
            }
        }
        out
    }

    fn stmt(&mut self, depth: usize, loops: usize, is_inside: bool) -> Stmt {
        let deeper = depth.saturating_sub(1);
        match self.below(if depth == 0 { 6 } else { 14 }) {
            0 if loops > 0 => Stmt::Break(self.below(loops)),
            1 if loops > 0 => Stmt::Continue(self.below(loops)),
            2 if is_inside && self.below(3) == 0 => Stmt::Return(self.below(VARS)),
            6..=9 => {
                let test = self.test();
                let then = self.block(deeper, loops, true);
                let otherwise = match self.below(2) {
                    0 => Vec::new(),
                    _ => self.block(deeper, loops, true),
                };
                Stmt::If(test, then, otherwise)
            }
            10 | 11 => Stmt::For {
                count: self.below(VARS),
                into: self.below(VARS),
                body: self.block(deeper, loops + 1, true),
            },
            12 => Stmt::While(self.test(), self.block(deeper, loops + 1, true)),
            13 => Stmt::Loop(self.block(deeper, loops + 1, true)),
            _ => Stmt::Change {
                to: self.below(VARS),
                from: self.below(VARS),
                add: self.below(20) as i32 - 5,
            },
        }
    }
}

/// Where the host goes after a statement.
#[derive(Clone, Copy, PartialEq)]
enum Went {
    On,
    Break(usize),
    Continue(usize),
    Return(i32),
}

struct Host {
    vars: [i32; VARS],
    tile: [i32; LANES],
    fuel: i32,
}

impl Test {
    fn holds(self, vars: &[i32; VARS]) -> bool {
        vars[self.of] % self.modulus == self.rest
    }

    #[device]
    fn traced(self, vars: &[Scalar<i32>; VARS]) -> Scalar<bool> {
        vars[self.of] % self.modulus == self.rest
    }
}

impl Host {
    fn block(&mut self, stmts: &[Stmt]) -> Went {
        for stmt in stmts {
            match self.stmt(stmt) {
                Went::On => {}
                went => return went,
            }
        }
        Went::On
    }

    /// Goes through the body of a loop; gives where to go if the loop ends here.
    fn body(&mut self, stmts: &[Stmt]) -> Option<Went> {
        match self.block(stmts) {
            Went::On | Went::Continue(0) => None,
            Went::Break(0) => Some(Went::On),
            Went::Break(out) => Some(Went::Break(out - 1)),
            Went::Continue(out) => Some(Went::Continue(out - 1)),
            went @ Went::Return(_) => Some(went),
        }
    }

    fn stmt(&mut self, stmt: &Stmt) -> Went {
        match stmt {
            Stmt::Change { to, from, add } => {
                let (to, from) = (*to, *from);
                let new = self.vars[to].wrapping_mul(3).wrapping_add(self.vars[from]);
                self.vars[to] = new.wrapping_add(*add) & 0xfff;
                for (lane, v) in self.tile.iter_mut().enumerate() {
                    *v = v.wrapping_add(self.vars[to] ^ lane as i32);
                }
                Went::On
            }
            Stmt::If(test, then, otherwise) => {
                let arm = if test.holds(&self.vars) {
                    then
                } else {
                    otherwise
                };
                self.block(arm)
            }
            Stmt::For { count, into, body } => {
                for i in 0..self.vars[*count] % 4 {
                    self.vars[*into] += i;
                    if let Some(went) = self.body(body) {
                        return went;
                    }
                }
                Went::On
            }
            Stmt::While(test, body) => {
                while self.fuel > 0 && test.holds(&self.vars) {
                    self.fuel -= 1;
                    if let Some(went) = self.body(body) {
                        return went;
                    }
                }
                Went::On
            }
            Stmt::Loop(body) => loop {
                if self.fuel <= 0 {
                    return Went::On;
                }
                self.fuel -= 1;
                if let Some(went) = self.body(body) {
                    return went;
                }
            },
            Stmt::Break(out) => Went::Break(*out),
            Stmt::Continue(out) => Went::Continue(*out),
            Stmt::Return(of) => Went::Return(self.vars[*of]),
        }
    }
}

enum Looping {
    For(KernelLoop<i32>),
    While(KernelWhile),
}

impl Looping {
    fn target(&self) -> ExitTarget<'_> {
        match self {
            Looping::For(l) => l.target(),
            Looping::While(l) => l.target(),
        }
    }
}

struct Tracer {
    vars: [Scalar<i32>; VARS],
    tile: Tensor<i32>,
    fuel: Scalar<i32>,
    loops: Vec<Looping>,
    scope: FunctionScope<Scalar<i32>>,
}

/// What every region hands on.
macro_rules! all {
    ($tracer:ident) => {
        |carrier: &mut Carrier<'_>| {
            for (name, variable) in NAMES.into_iter().zip(&mut $tracer.vars) {
                carrier.add(name, variable);
            }
            carrier.add("tile", &mut $tracer.tile);
            carrier.add("fuel", &mut $tracer.fuel);
        }
    };
}

/// Every condition here is a runtime condition.
fn exit() -> KernelExit {
    match <Scalar<bool> as WhileLoop>::start().inside() {
        Inside::Kernel(exit) => exit,
        Inside::Host(never) => match never {},
    }
}

impl Tracer {
    /// Does what follows the statements run?
    fn block(&mut self, stmts: &[Stmt]) -> bool {
        stmts.iter().all(|stmt| self.stmt(stmt))
    }

    fn stmt(&mut self, stmt: &Stmt) -> bool {
        match stmt {
            Stmt::Change { to, from, add } => {
                let new = self.vars[*to] * 3 + self.vars[*from] + *add;
                self.vars[*to] = new & 0xfff;
                let lane = arange(0..LANES, self.tile.layout());
                self.tile += lane ^ self.vars[*to];
                true
            }
            Stmt::If(test, then, otherwise) => {
                self.branch(test.traced(&self.vars), then, otherwise)
            }
            Stmt::For { count, into, body } => {
                let range = range(0, self.vars[*count] % 4);
                self.loops.push(Looping::For(range.into_loop()));
                if let Some(i) = self.step() {
                    self.vars[*into] += i;
                    self.block(body);
                    self.step();
                }
                self.loops.pop();
                true
            }
            Stmt::While(test, body) => {
                self.loops
                    .push(Looping::While(<Scalar<bool> as WhileLoop>::start()));
                self.test();
                let goes_on = self.has_fuel() & test.traced(&self.vars);
                self.decide(goes_on);
                self.fuel -= 1;
                self.block(body);
                self.test();
                self.loops.pop();
                true
            }
            Stmt::Loop(body) => {
                self.loops
                    .push(Looping::While(<Scalar<bool> as EndlessLoop>::start()));
                self.again();
                let goes_on = self.has_fuel();
                if self.branch(goes_on, &[], &[Stmt::Break(0)]) {
                    self.fuel -= 1;
                    self.block(body);
                }
                self.again();
                self.loops.pop();
                true
            }
            Stmt::Break(out) => self.leave(*out, "break"),
            Stmt::Continue(out) => self.leave(*out, "continue"),
            Stmt::Return(of) => {
                let value = self.vars[*of];
                exit().give(&mut self.scope, value, all!(self));
                false
            }
        }
    }

    #[device]
    fn has_fuel(&self) -> Scalar<bool> {
        self.fuel > 0
    }

    fn step(&mut self) -> Option<Scalar<i32>> {
        match self.loops.last_mut() {
            Some(Looping::For(l)) => l.step("i", all!(self)),
            _ => None,
        }
    }

    fn test(&mut self) {
        if let Some(Looping::While(l)) = self.loops.last_mut() {
            l.test(all!(self));
        }
    }

    fn decide(&mut self, condition: Scalar<bool>) {
        if let Some(Looping::While(l)) = self.loops.last_mut() {
            l.decide(condition, all!(self));
        }
    }

    fn again(&mut self) {
        if let Some(Looping::While(l)) = self.loops.last_mut() {
            l.again(all!(self));
        }
    }

    fn leave(&mut self, out: usize, what: &'static str) -> bool {
        let at = self.loops.len() - 1 - out;
        exit().leave(self.loops[at].target(), what, all!(self));
        false
    }

    fn branch(&mut self, condition: Scalar<bool>, then: &[Stmt], otherwise: &[Stmt]) -> bool {
        let mut state = condition.begin();
        state.then(all!(self));
        let mut first = self.block(then).then_some(());
        if first.is_some() {
            match state.decided(()) {
                Decided::Both((), again) => state.go_on(again),
                Decided::Alone(()) => {}
            }
        }
        state.otherwise(all!(self), &mut first);
        let second = self.block(otherwise).then_some(());
        matches!(state.end_left(all!(self), first, second), Ended::Value(()))
    }
}

thread_local! {
    static PROGRAM: RefCell<Vec<Stmt>> = const { RefCell::new(Vec::new()) };
}

/// The program of this thread, with the numbers that it begins with.
fn program(x: Ptr<i32>, out: Ptr<i32>) {
    let stmts = PROGRAM.with_borrow(Clone::clone);
    let lanes = arange(0..LANES, Blocked::new([1], [32], [1], [0]));
    let mut tracer = Tracer {
        vars: std::array::from_fn(|at| x.at(at).load()),
        tile: lanes * 5,
        fuel: scalar(FUEL),
        loops: Vec::new(),
        scope: FunctionScope::begin(),
    };
    let ends = tracer.block(&stmts).then(|| scalar(-1));
    let scope = std::mem::replace(&mut tracer.scope, FunctionScope::begin());
    let value = scope.end(ends, all!(tracer));
    out.at(lanes).store(tracer.tile);
    for (at, variable) in tracer.vars.into_iter().enumerate() {
        out.at(LANES + at).store(variable);
    }
    out.at(LANES + VARS).store(value);
    out.at(LANES + VARS + 1).store(tracer.fuel);
}

#[kernel(warps = 1)]
fn random_program(x: Ptr<i32>, out: Ptr<i32>) {
    program(x, out);
}

/// What the host gives, and what the emulator does.
fn both(stmts: &[Stmt], input: [i32; VARS]) -> (Vec<i32>, Vec<i32>, bool) {
    PROGRAM.set(stmts.to_vec());
    let traced = KernelFn::trace(random_program);
    let func = traced.unwrap_or_else(|e| panic!("{e}\n{stmts:#?}")).func;
    let mut host = Host {
        vars: input,
        tile: std::array::from_fn(|lane| lane as i32 * 5),
        fuel: FUEL,
    };
    let went = host.block(stmts);
    let value = match went {
        Went::Return(value) => value,
        _ => -1,
    };
    let bytes: Vec<u8> = input.iter().flat_map(|v| v.to_le_bytes()).collect();
    let found = run_func(func, &[&bytes], 4 * (LANES + VARS + 2));
    let found = values(&found, DType::I32);
    let mut wanted = host.tile.to_vec();
    wanted.extend(host.vars);
    wanted.extend([value, host.fuel]);
    let found = found.iter().map(|v| *v as i32).collect();
    (wanted, found, went != Went::On)
}

/// The program without one of its statements, for each of them.
fn smaller(stmts: &[Stmt]) -> Vec<Vec<Stmt>> {
    let mut out = Vec::new();
    for (at, stmt) in stmts.iter().enumerate() {
        let with = |other: Option<Stmt>| {
            let (before, after) = (stmts[..at].iter(), stmts[at + 1..].iter());
            before.cloned().chain(other).chain(after.cloned()).collect()
        };
        out.push(with(None));
        match stmt {
            Stmt::If(test, then, otherwise) => {
                let first = smaller(then).into_iter();
                out.extend(first.map(|then| with(Some(Stmt::If(*test, then, otherwise.clone())))));
                let second = smaller(otherwise).into_iter();
                out.extend(second.map(|other| with(Some(Stmt::If(*test, then.clone(), other)))));
            }
            Stmt::For { count, into, body } => out.extend(smaller(body).into_iter().map(|body| {
                let (count, into) = (*count, *into);
                with(Some(Stmt::For { count, into, body }))
            })),
            Stmt::While(test, body) => {
                out.extend(
                    smaller(body)
                        .into_iter()
                        .map(|b| with(Some(Stmt::While(*test, b)))),
                );
            }
            Stmt::Loop(body) => {
                out.extend(smaller(body).into_iter().map(|b| with(Some(Stmt::Loop(b)))));
            }
            _ => {}
        }
    }
    out
}

/// The smallest program that still fails, by taking away one statement after the other.
fn shrunk(mut stmts: Vec<Stmt>, input: [i32; VARS]) -> Vec<Stmt> {
    let fails = |stmts: &Vec<Stmt>| {
        let (wanted, found, _) = both(stmts, input);
        wanted != found
    };
    while let Some(next) = smaller(&stmts).into_iter().find(fails) {
        stmts = next;
    }
    stmts
}

#[test]
fn programs_end_where_the_host_ends() {
    let mut left = 0;
    for seed in 0..SEEDS {
        let mut dice = Dice(0x9e37_79b9_7f4a_7c15 ^ (seed + 1).wrapping_mul(0x2545_f491_4f6c_dd1d));
        let stmts = dice.block(4, 0, false);
        for input in [[0, 1, 2, 3], [7, 5, 3, 9], [dice.below(99) as i32, 2, 8, 1]] {
            let (wanted, found, is_left) = both(&stmts, input);
            left += u32::from(is_left);
            if found != wanted {
                let small = shrunk(stmts, input);
                let (wanted, found, _) = both(&small, input);
                panic!("seed {seed} of {input:?}: {found:?} and not {wanted:?}: {small:?}");
            }
        }
    }
    // The programs do return early, and do not always.
    assert!(
        (20..3 * SEEDS as u32 - 20).contains(&left),
        "{left} returns"
    );
}
