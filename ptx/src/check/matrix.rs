//! Matrix instructions: which shapes exist for which types, and how many registers each fragment takes.

use super::context::Checker;
use super::legal::Need::Exact;
use crate::inst::{Ldmatrix, Mma, Shape, Stmatrix, Visit, Wgmma};
use crate::operand::{MatrixA, Operand};
use crate::types::{Space, Type, matrix_types};

impl Visit<Wgmma> for Checker<'_> {
    fn visit(&mut self, inst: &Wgmma) {
        let name = format!(
            "{}wgmma with .{}.{}.{}",
            if inst.sparse.is_some() { "sparse " } else { "" },
            inst.d_ty.text(),
            inst.a_ty.text(),
            inst.b_ty.text()
        );
        let wgmma = &self.machine.wgmma;
        let types = matrix_types([inst.a_ty, inst.b_ty, inst.d_ty]);
        let depth_of = |types| match inst.sparse {
            Some(_) => wgmma.sparse_depth(types),
            None => wgmma.depth(types),
        };
        let Some(k) = types.and_then(depth_of) else {
            return self.require(false, || format!("there is no {name}"));
        };
        let is_integer = inst.d_ty == Type::S32;
        let [m, n, depth] = [inst.shape.m, inst.shape.n, inst.shape.k].map(u32::from);
        let has_shape = m == wgmma.m && depth == k && wgmma.has_columns(n, is_integer);
        self.require(has_shape, || {
            let [_, above] = wgmma.small_integer_n;
            let widths = if is_integer {
                format!(" ({} above {above})", wgmma.integer_n_unit)
            } else {
                String::new()
            };
            format!(
                "{name} has the shapes m{}nNk{k} with N a multiple of {} up to {}{widths}, not m{m}n{n}k{depth}",
                wgmma.m, wgmma.n_unit, wgmma.most_n
            )
        });
        self.require(!inst.satfinite || inst.d_ty == Type::S32, || {
            format!("{name} has no modifier .satfinite")
        });
        self.wgmma_immediates(inst, &name);
        let packed = if inst.d_ty == Type::F16 { 2 } else { 1 };
        let d_need = match inst.d_ty {
            Type::F32 => Type::F32,
            Type::F16 => Type::F16x2,
            _ => Type::S32,
        };
        self.fragment("d", &inst.d, n as usize / 2 / packed, Exact(d_need));
        match &inst.a {
            MatrixA::Descriptor(reg) => self.reg("a", *reg, Exact(Type::U64)),
            MatrixA::Registers(fragment) => self.fragment("a", fragment, 4, Exact(Type::F16x2)),
        }
        self.reg("b", inst.b, Exact(Type::U64));
        if let Some(sparse) = inst.sparse {
            self.reg("metadata", sparse.metadata, Exact(Type::B32));
            // All four lanes give metadata of 8-bit elements.
            let has_selector = !sparse.selector || inst.a_ty.bits() > 8;
            self.require(has_selector, || {
                format!("{name} has the sparsity selector 0, not 1")
            });
        }
        match inst.scale_d {
            Operand::Int(_) => self.immediate("scale_d", &inst.scale_d, "0 or 1", |value| {
                matches!(value, 0 | 1)
            }),
            ref value => self.value("scale_d", value, Exact(Type::Pred)),
        }
    }
}

impl Checker<'_> {
    fn wgmma_immediates(&mut self, inst: &Wgmma, name: &str) {
        self.require(
            inst.has_scales() || !(inst.negate_a || inst.negate_b),
            || format!("{name} cannot negate A or B"),
        );
        self.require(
            inst.has_transposes() || !(inst.trans_a || inst.trans_b),
            || format!("{name} reads A and B K-major only"),
        );
        let a_in_registers = matches!(inst.a, MatrixA::Registers(_));
        self.require(!(a_in_registers && inst.trans_a), || {
            "A in registers cannot be transposed".to_owned()
        });
    }
}

impl Visit<Mma> for Checker<'_> {
    fn visit(&mut self, inst: &Mma) {
        let Shape { m, n, k } = inst.shape;
        let name = format!(
            "mma with .{}.{}.{}.{}",
            inst.d_ty.text(),
            inst.a_ty.text(),
            inst.b_ty.text(),
            inst.c_ty.text()
        );
        let types = matrix_types([inst.a_ty, inst.b_ty, inst.d_ty]);
        let types = types.filter(|_| inst.c_ty == inst.d_ty);
        let Some(shapes) = types.and_then(|types| self.machine.mma.shapes(types)) else {
            return self.require(false, || format!("there is no {name}"));
        };
        let has_shape = shapes.contains(&[m, n, k].map(u32::from));
        self.require(has_shape, || {
            let list: Vec<String> = shapes
                .iter()
                .map(|[m, n, k]| format!("m{m}n{n}k{k}"))
                .collect();
            format!(
                "{name} has the shapes {}, not m{m}n{n}k{k}",
                list.join(", ")
            )
        });
        self.require(!inst.satfinite || inst.d_ty == Type::S32, || {
            format!("{name} has no modifier .satfinite")
        });
        if !has_shape {
            return;
        }
        let registers = |rows: u16, columns: u16, ty: Type| -> usize {
            let bits = u32::from(rows)
                * u32::from(columns)
                * ty.bits().max(if ty == Type::Tf32 { 32 } else { 0 })
                / 32;
            (bits / ty.bits().max(32)) as usize
        };
        let need = |ty: Type| match ty {
            Type::F64 => Exact(Type::F64),
            Type::F32 => Exact(Type::F32),
            _ => Exact(Type::F16x2),
        };
        self.fragment("d", &inst.d, registers(m, n, inst.d_ty), need(inst.d_ty));
        self.fragment("a", &inst.a, registers(m, k, inst.a_ty), need(inst.a_ty));
        self.fragment("b", &inst.b, registers(k, n, inst.b_ty), need(inst.b_ty));
        self.fragment("c", &inst.c, registers(m, n, inst.c_ty), need(inst.c_ty));
    }
}

impl Visit<Ldmatrix> for Checker<'_> {
    fn visit(&mut self, inst: &Ldmatrix) {
        self.matrix_space("ldmatrix", inst.space);
        self.fragment("dst", &inst.dst, inst.count.registers(), Exact(Type::B32));
        self.addr("addr", inst.addr, inst.space, 16, 16);
    }
}

impl Visit<Stmatrix> for Checker<'_> {
    fn visit(&mut self, inst: &Stmatrix) {
        self.matrix_space("stmatrix", inst.space);
        self.fragment("src", &inst.src, inst.count.registers(), Exact(Type::B32));
        self.addr("addr", inst.addr, inst.space, 16, 16);
    }
}

impl Checker<'_> {
    fn matrix_space(&mut self, op: &str, space: Option<Space>) {
        self.require(matches!(space, None | Some(Space::Shared)), || {
            format!("`{op}` works on shared memory")
        });
    }
}
