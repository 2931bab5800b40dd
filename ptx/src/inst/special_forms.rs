//! The two families whose operands depend on more than their declaration can say.

use super::control::Call;
use super::family::Family;
use super::matrix::{Sparse, Wgmma};
use super::operands::OperandSyntax as _;
use crate::operand::{Arguments, Fragment, MatrixA, Operand, Reg, Role};
use crate::parse::{OperandParser, Reject};
use crate::print::Printer;
use crate::spelling::{Mismatch, Modifier as _, Modifiers, Spelled as _};
use crate::types::Type;

const WGMMA: &str = "wgmma.mma_async.sync.aligned";
const SPARSE_WGMMA: &str = "wgmma.mma_async.sp.sync.aligned";

fn required<T: crate::spelling::Modifier>(modifiers: &mut Modifiers<'_>) -> Result<T, Mismatch> {
    T::parse(modifiers).ok_or(Mismatch)
}

impl Family for Wgmma {
    fn print(&self, printer: &mut Printer<'_>) {
        let mut opcode = printer.opcode();
        opcode.piece(match self.sparse {
            Some(_) => SPARSE_WGMMA,
            None => WGMMA,
        });
        self.shape.print(&mut opcode);
        if self.satfinite {
            opcode.piece("satfinite");
        }
        for ty in [self.d_ty, self.a_ty, self.b_ty] {
            opcode.piece(ty.spelling());
        }
        printer.operand(&self.d);
        printer.operand(&self.a);
        printer.operand(&self.b);
        if let Some(sparse) = &self.sparse {
            printer.operand(&sparse.metadata);
            printer.operand(&Operand::Int(sparse.selector.into()));
        }
        printer.operand(&self.scale_d);
        if self.has_scales() {
            printer.operand(&Operand::Int(if self.negate_a { -1 } else { 1 }));
            printer.operand(&Operand::Int(if self.negate_b { -1 } else { 1 }));
        }
        if self.has_transposes() {
            if matches!(self.a, MatrixA::Descriptor(_)) {
                printer.operand(&Operand::Int(self.trans_a.into()));
            }
            printer.operand(&Operand::Int(self.trans_b.into()));
        }
    }

    fn parse(
        modifiers: &mut Modifiers<'_>,
        operands: &mut OperandParser<'_, '_>,
    ) -> Result<Self, Reject> {
        let is_sparse = modifiers.eat(SPARSE_WGMMA);
        if !is_sparse {
            modifiers.require(WGMMA)?;
        }
        let shape = required(modifiers)?;
        let satfinite = modifiers.eat("satfinite");
        let types = [
            required::<Type>(modifiers)?,
            required(modifiers)?,
            required(modifiers)?,
        ];
        modifiers.end()?;
        operands.begin(if is_sparse { 6 } else { 4 });
        let (d, a) = (
            operands.required::<Fragment>()?,
            operands.required::<MatrixA>()?,
        );
        let b = operands.required::<Reg>()?;
        let sparse = if is_sparse {
            Some(Sparse {
                metadata: operands.required()?,
                selector: operands.choice([0, 1])?,
            })
        } else {
            None
        };
        let scale_d = operands.required::<Operand>()?;
        let mut inst = Self {
            satfinite,
            sparse,
            ..Self::new(shape, types, d, a, b, scale_d)
        };
        if inst.has_scales() {
            inst.negate_a = operands.choice([1, -1])?;
            inst.negate_b = operands.choice([1, -1])?;
        }
        if inst.has_transposes() {
            if matches!(inst.a, MatrixA::Descriptor(_)) {
                inst.trans_a = operands.choice([0, 1])?;
            }
            inst.trans_b = operands.choice([0, 1])?;
        }
        operands.finish()?;
        Ok(inst)
    }

    fn visit(&self, f: &mut dyn FnMut(Reg, Role)) {
        self.d.visit(Role::ReadWrite, f);
        self.a.visit(Role::Read, f);
        self.b.visit(Role::Read, f);
        if let Some(sparse) = &self.sparse {
            sparse.metadata.visit(Role::Read, f);
        }
        self.scale_d.visit(Role::Read, f);
    }

    fn visit_mut(&mut self, f: &mut dyn FnMut(&mut Reg, Role)) {
        self.d.visit_mut(Role::ReadWrite, f);
        self.a.visit_mut(Role::Read, f);
        self.b.visit_mut(Role::Read, f);
        if let Some(sparse) = &mut self.sparse {
            sparse.metadata.visit_mut(Role::Read, f);
        }
        self.scale_d.visit_mut(Role::Read, f);
    }
}

impl From<Wgmma> for super::Inst {
    fn from(inst: Wgmma) -> Self {
        Self::Wgmma(inst)
    }
}

impl Family for Call {
    fn print(&self, printer: &mut Printer<'_>) {
        let mut opcode = printer.opcode();
        opcode.piece("call");
        if self.uniform {
            opcode.piece("uni");
        }
        if !self.returns.0.is_empty() {
            printer.operand(&self.returns);
        }
        printer.operand(&Operand::Symbol(self.function, 0));
        if !self.arguments.0.is_empty() {
            printer.operand(&self.arguments);
        }
    }

    fn parse(
        modifiers: &mut Modifiers<'_>,
        operands: &mut OperandParser<'_, '_>,
    ) -> Result<Self, Reject> {
        modifiers.require("call")?;
        let uniform = modifiers.eat("uni");
        modifiers.end()?;
        operands.begin(1);
        let returns = if operands.is_next('(') {
            operands.leading::<Arguments>()?
        } else {
            Arguments::default()
        };
        let function = operands.function()?;
        let arguments = operands.optional::<Arguments>()?.unwrap_or_default();
        operands.finish()?;
        Ok(Self {
            uniform,
            returns,
            function,
            arguments,
        })
    }

    fn visit(&self, f: &mut dyn FnMut(Reg, Role)) {
        self.returns.visit(Role::Write, f);
        self.arguments.visit(Role::Read, f);
    }

    fn visit_mut(&mut self, f: &mut dyn FnMut(&mut Reg, Role)) {
        self.returns.visit_mut(Role::Write, f);
        self.arguments.visit_mut(Role::Read, f);
    }
}

impl From<Call> for super::Inst {
    fn from(inst: Call) -> Self {
        Self::Call(inst)
    }
}
