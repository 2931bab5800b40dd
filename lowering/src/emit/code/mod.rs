//! PTX statements in the making: registers, scopes in which equal computations share one register, a prologue that runs
//! once, and cold blocks behind the end.

mod key;
mod pure;

pub(super) use key::{Kind, key};

use key::{Key, Known};
use ptx::{
    EntryBuilder, Inst, Instruction, Label, LocId, Mov, Operand, Predicate, Reg, RegClass, Stmt,
    Type,
};

use super::partition::Partition;

/// The statements of one kernel, in the order in which they will stand.
pub(super) struct Code {
    /// Registers, labels, parameters and places.
    pub(super) entry: EntryBuilder,
    prologue: Vec<Stmt>,
    body: Vec<Stmt>,
    cold: Vec<Stmt>,
    /// Computations that are visible here, the innermost scope last. The first scope is that of the prologue.
    scopes: Vec<Known>,
    into: Target,
    loc: Option<LocId>,
    /// Accesses left out so far, since their mask is known to be false.
    skipped: u32,
    /// May threads of a warp take branches differently here?
    is_divergent: bool,
    /// Who runs the statements.
    pub(super) partition: Partition,
}

/// A position in the emitted code.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    body: usize,
    cold: usize,
    skipped: u32,
}

/// Which list statements go to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    Prologue,
    Body,
    Cold,
}

impl Code {
    pub(super) fn new(name: &str, partition: Partition) -> Code {
        Code {
            entry: EntryBuilder::new(name),
            prologue: Vec::new(),
            body: Vec::new(),
            cold: Vec::new(),
            scopes: vec![Known::default(), Known::default()],
            into: Target::Body,
            loc: None,
            skipped: 0,
            is_divergent: false,
            partition,
        }
    }

    /// This moment.
    pub(super) fn mark(&self) -> Mark {
        Mark {
            body: self.body.len(),
            cold: self.cold.len(),
            skipped: self.skipped,
        }
    }

    /// The instructions issued since then, but for those of the prologue.
    pub(super) fn since(&self, mark: &Mark) -> impl Iterator<Item = &Inst> {
        let later = self.body[mark.body..].iter().chain(&self.cold[mark.cold..]);
        later.filter_map(|statement| Some(&statement.instruction()?.inst))
    }

    /// Enters that an access is left out, since its mask is known to be false everywhere.
    pub(super) fn skip_access(&mut self) {
        self.skipped += 1;
    }

    /// The accesses left out since then.
    pub(super) fn skipped_since(&self, mark: &Mark) -> u32 {
        self.skipped - mark.skipped
    }

    /// The place of the statements that follow.
    pub(super) fn set_loc(&mut self, loc: Option<LocId>) {
        self.loc = loc;
    }

    fn list(&mut self) -> &mut Vec<Stmt> {
        match self.into {
            Target::Prologue => &mut self.prologue,
            Target::Body => &mut self.body,
            Target::Cold => &mut self.cold,
        }
    }

    /// Appends an instruction.
    pub(super) fn push(&mut self, inst: impl Into<Inst>) {
        self.push_guarded(None, inst);
    }

    /// Appends an instruction that only threads with a true guard execute.
    pub(super) fn push_guarded(&mut self, guard: Option<Predicate>, inst: impl Into<Inst>) {
        // What every thread does once before everything else belongs to no line of the author's.
        let loc = if self.into == Target::Prologue {
            None
        } else {
            self.loc
        };
        let inst = inst.into();
        self.list()
            .push(Stmt::Inst(Instruction { guard, inst, loc }));
    }

    pub(super) fn bind(&mut self, label: Label) {
        self.list().push(Stmt::Label(label));
    }

    /// Asks ptxas to leave the loop whose label stands before as it is.
    pub(super) fn keep_rolled(&mut self) {
        self.list().push(Stmt::Pragma("nounroll".into()));
    }

    pub(super) fn label(&mut self, hint: &str) -> Label {
        self.entry.new_label(hint)
    }

    pub(super) fn reg(&mut self, class: RegClass) -> Reg {
        self.entry.new_reg(class)
    }

    pub(super) fn class(&self, reg: Reg) -> RegClass {
        self.entry.class(reg)
    }

    /// Runs `make` with statements going to the prologue, where only parameters and special registers are known.
    pub(super) fn in_prologue<T>(&mut self, make: impl FnOnce(&mut Code) -> T) -> T {
        let inner = self.scopes.split_off(1);
        let into = std::mem::replace(&mut self.into, Target::Prologue);
        let result = make(self);
        self.into = into;
        self.scopes.extend(inner);
        result
    }

    /// Opens a scope: what is computed in it is forgotten when it closes.
    pub(super) fn open(&mut self) {
        self.scopes.push(Known::default());
    }

    pub(super) fn close(&mut self) {
        self.scopes.pop();
    }

    /// Runs `make` with statements going behind the end of the kernel, in a scope of their own.
    pub(super) fn in_cold<T>(&mut self, make: impl FnOnce(&mut Code) -> T) -> T {
        let into = std::mem::replace(&mut self.into, Target::Cold);
        self.open();
        let result = make(self);
        self.close();
        self.into = into;
        result
    }

    /// Code behind the end of the kernel that is entered at `label` and continues at `back`.
    pub(super) fn out_of_line(&mut self, label: Label, back: Label, make: impl FnOnce(&mut Code)) {
        assert!(
            self.into != Target::Cold,
            "cold code has no cold code of its own"
        );
        self.in_cold(|code| {
            code.bind(label);
            make(code);
            code.branch(None, back, false);
        });
    }

    fn known(&self, key: &Key) -> Option<Reg> {
        self.scopes
            .iter()
            .rev()
            .find_map(|scope| scope.get(key))
            .copied()
    }

    /// Enters that `reg` holds what `key` says.
    fn remember(&mut self, key: Key, reg: Reg) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(key, reg);
        }
    }

    /// Copies into a register that may be written more than once.
    pub(super) fn copy(&mut self, to: Reg, from: impl Into<Operand>) {
        let from = from.into();
        if from == Operand::Reg(to) {
            return;
        }
        let ty = move_type(self.class(to));
        self.push(Mov::new(ty, to, from));
    }

    pub(super) fn branch(&mut self, guard: Option<Predicate>, target: Label, is_uniform: bool) {
        let bra = ptx::Bra {
            uniform: is_uniform && !self.is_divergent,
            ..ptx::Bra::new(target)
        };
        self.push_guarded(guard, bra);
    }

    /// Does each thread branch by itself here?
    pub(super) fn is_divergent(&self) -> bool {
        self.is_divergent
    }

    /// From here on each thread branches by itself. Gives what was so before.
    pub(super) fn begin_divergent(&mut self) -> bool {
        std::mem::replace(&mut self.is_divergent, true)
    }

    /// Branches are taken as they were before [`Code::begin_divergent`].
    pub(super) fn end_divergent(&mut self, was_divergent: bool) {
        self.is_divergent = was_divergent;
    }

    /// The finished kernel.
    pub(super) fn finish(mut self) -> ptx::Entry {
        for list in [self.prologue, self.body, self.cold] {
            self.entry.append(list);
        }
        self.entry.finish()
    }

    /// All statements, to clean them up before the end.
    pub(super) fn lists_mut(&mut self) -> [&mut Vec<Stmt>; 3] {
        [&mut self.prologue, &mut self.body, &mut self.cold]
    }
}

/// The type that `mov` names for a register of a class.
pub(super) fn move_type(class: RegClass) -> Type {
    match class {
        RegClass::Pred => Type::Pred,
        RegClass::B16 => Type::B16,
        RegClass::B32 => Type::B32,
        RegClass::B64 => Type::B64,
        RegClass::B128 => Type::B128,
        RegClass::F32 => Type::F32,
        RegClass::F64 => Type::F64,
    }
}
