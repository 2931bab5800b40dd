//! What an emitter needs to make the body of a kernel.

use crate::inst::Compare;
use crate::inst::{Binary, BinaryOp, Bra, Inst, Ld, Mov, Setp, Ternary, TernaryOp, Unary, UnaryOp};
use crate::module::{Body, Directives, Entry, Linkage, Param, Variable};
use crate::operand::{Addr, Dest, Label, Operand, PairDest, Predicate, Reg, Symbol};
use crate::registers::RegClass;
use crate::statement::{Instruction, LocId, Location, Stmt};
use crate::types::{Space, Type};
use rustc_hash::{FxHashMap, FxHashSet};

/// Builds an [`Entry`] statement by statement.
#[derive(Clone, Debug)]
pub struct EntryBuilder {
    name: String,
    /// What the launch passes.
    pub params: Vec<Param>,
    /// Launch bounds and the like.
    pub directives: Directives,
    body: Body,
    loc: Option<LocId>,
    location_ids: FxHashMap<Location, LocId>,
    label_names: FxHashSet<String>,
}

impl EntryBuilder {
    /// An empty kernel called `name`.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            params: Vec::new(),
            directives: Directives::default(),
            body: Body::default(),
            loc: None,
            location_ids: FxHashMap::default(),
            label_names: FxHashSet::default(),
        }
    }

    /// Adds a parameter.
    pub fn add_param(&mut self, param: Param) -> Symbol {
        self.params.push(param);
        Symbol::Param(self.params.len() as u32 - 1)
    }

    /// Adds a variable of the body.
    pub fn add_variable(&mut self, variable: Variable) -> Symbol {
        self.body.variables.push(variable);
        Symbol::Variable(self.body.variables.len() as u32 - 1)
    }

    /// A new register, numbered within its class: `%r7`.
    pub fn new_reg(&mut self, class: RegClass) -> Reg {
        self.body.registers.add(class)
    }

    /// A new register of the class that holds `ty`.
    pub fn new_reg_for(&mut self, ty: Type) -> Reg {
        self.new_reg(RegClass::of(ty))
    }

    /// A new register with a name of its own: `%row`.
    pub fn new_named_reg(&mut self, name: &str, class: RegClass) -> Reg {
        self.body.registers.add_named(name, class)
    }

    /// New registers that share a name: `%acc0`, `%acc1`, ... Inserting code elsewhere does not rename them.
    pub fn new_regs(&mut self, name: &str, class: RegClass, len: u32) -> Vec<Reg> {
        self.body.registers.add_range(name, class, len)
    }

    /// The class of a register of this builder.
    pub fn class(&self, reg: Reg) -> RegClass {
        self.body.registers.class(reg)
    }

    /// A new label called `$L_hint`, with a number after it when the name is taken.
    pub fn new_label(&mut self, hint: &str) -> Label {
        let clean: String = hint
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
            .collect();
        let mut name = format!("$L_{clean}");
        let mut number = 1;
        while !self.label_names.insert(name.clone()) {
            number += 1;
            name = format!("$L_{clean}_{number}");
        }
        self.body.labels.push(name);
        Label(self.body.labels.len() as u32 - 1)
    }

    /// Puts a label here.
    pub fn bind(&mut self, label: Label) {
        self.body.statements.push(Stmt::Label(label));
    }

    /// The number of a location of this body; equal locations share one.
    pub fn location(&mut self, location: Location) -> LocId {
        let next = LocId(self.body.locations.len() as u32);
        let id = *self.location_ids.entry(location).or_insert(next);
        if id == next {
            self.body.locations.push(location);
        }
        id
    }

    /// The location of the instructions that follow.
    pub fn set_loc(&mut self, loc: Option<LocId>) {
        self.loc = loc;
    }

    /// The current location.
    pub fn loc(&self) -> Option<LocId> {
        self.loc
    }

    /// Appends an instruction.
    pub fn push(&mut self, inst: impl Into<Inst>) {
        self.push_guarded(None, inst);
    }

    /// Appends an instruction that only threads with a true `guard` execute.
    pub fn push_if(&mut self, guard: impl Into<Predicate>, inst: impl Into<Inst>) {
        self.push_guarded(Some(guard.into()), inst);
    }

    /// Appends an instruction with or without a guard.
    pub fn push_guarded(&mut self, guard: Option<Predicate>, inst: impl Into<Inst>) {
        self.body.statements.push(Stmt::Inst(Instruction {
            guard,
            inst: inst.into(),
            loc: self.loc,
        }));
    }

    /// Appends statements with the places that they have.
    pub fn append(&mut self, mut statements: Vec<Stmt>) {
        self.body.statements.append(&mut statements);
    }

    /// Appends a comment, one line for each of its lines.
    pub fn comment(&mut self, text: &str) {
        self.body.statements.extend(
            text.lines()
                .map(|line| Stmt::Comment(line.trim().to_owned())),
        );
    }

    /// Appends a pragma, such as `nounroll`.
    pub fn pragma(&mut self, text: &str) {
        self.body.statements.push(Stmt::Pragma(text.to_owned()));
    }

    /// Branches always.
    pub fn branch(&mut self, target: Label) {
        self.push(Bra::new(target));
    }

    /// Branches where `guard` holds.
    pub fn branch_if(&mut self, guard: impl Into<Predicate>, target: Label) {
        self.push_if(guard, Bra::new(target));
    }

    /// `mov` of a value into a new register.
    pub fn mov(&mut self, ty: Type, value: impl Into<Operand>) -> Reg {
        let dst = self.new_reg_for(ty);
        self.push(Mov::new(ty, dst, value.into()));
        dst
    }

    /// The value of a scalar parameter in a new register.
    pub fn load_param(&mut self, param: Symbol, ty: Type) -> Reg {
        let dst = self.new_reg_for(ty);
        self.push(Ld {
            space: Some(Space::Param),
            ..Ld::new(ty, dst, Addr::symbol(param, 0))
        });
        dst
    }

    /// `a op b` in a new register; the result of `mul.wide` has twice the width.
    pub fn binary(
        &mut self,
        op: BinaryOp,
        ty: Type,
        a: impl Into<Operand>,
        b: impl Into<Operand>,
    ) -> Reg {
        let dst = self.new_reg(op.result_class(ty));
        self.push(Binary::new(op, ty, dst, a, b));
        dst
    }

    /// `op a` in a new register.
    pub fn unary(&mut self, op: UnaryOp, ty: Type, a: impl Into<Operand>) -> Reg {
        let dst = self.new_reg_for(op.result_type(ty));
        self.push(Unary::new(op, ty, dst, a));
        dst
    }

    /// An operation on three values in a new register; the result of `mad.wide` has twice the width.
    pub fn ternary(
        &mut self,
        op: TernaryOp,
        ty: Type,
        a: impl Into<Operand>,
        b: impl Into<Operand>,
        c: impl Into<Operand>,
    ) -> Reg {
        let dst = self.new_reg(op.result_class(ty));
        self.push(Ternary::new(op, ty, dst, a, b, c));
        dst
    }

    /// A comparison in a new predicate.
    pub fn setp(
        &mut self,
        compare: Compare,
        ty: Type,
        a: impl Into<Operand>,
        b: impl Into<Operand>,
    ) -> Reg {
        let dst = self.new_reg(RegClass::Pred);
        self.push(Setp::new(
            compare,
            ty,
            PairDest {
                first: Dest::Reg(dst),
                second: None,
            },
            a,
            b,
        ));
        dst
    }

    /// The statements so far.
    pub fn statements(&self) -> &[Stmt] {
        &self.body.statements
    }

    /// The kernel, in the form that its text reads back as (see [`Body::canonicalize`]): registers, labels and
    /// locations are renumbered, so their old numbers mean nothing in it.
    pub fn finish(self) -> Entry {
        let mut body = self.body;
        body.canonicalize();
        Entry {
            name: self.name,
            linkage: Linkage::Visible,
            params: self.params,
            directives: self.directives,
            body,
        }
    }
}
