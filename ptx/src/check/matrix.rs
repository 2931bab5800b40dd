//! Matrix instructions: which shapes exist for which types, and how many registers each fragment takes.

use super::context::Checker;
use super::legal::Need::Exact;
use crate::inst::{Ldmatrix, Mma, Shape, Stmatrix, Wgmma};
use crate::operand::{MatrixA, Operand};
use crate::types::{Space, Type};

/// Types of D, A and B of `wgmma.mma_async`, and the depth of one instruction (PTX ISA 9.7.15.2).
const WGMMA: &[(&[Type], &[Type], u16)] = &[
    (&[Type::F16, Type::F32], &[Type::F16], 16),
    (&[Type::F32], &[Type::Bf16], 16),
    (&[Type::F32], &[Type::Tf32], 8),
    (&[Type::F16, Type::F32], &[Type::E4m3, Type::E5m2], 32),
    (&[Type::S32], &[Type::S8, Type::U8], 32),
];

/// Widths that integer `wgmma` has besides 8 and 24: the multiples of 16.
fn has_integer_width(n: u16) -> bool {
    n == 8 || n == 24 || n.is_multiple_of(16)
}

/// One line of the `mma.sync` table (PTX ISA 9.7.14.5.1): D and C, A, B, shapes.
type MmaLine = (&'static [Type], &'static [Type], &'static [(u16, u16, u16)]);

const MMA: &[MmaLine] = &[
    (
        &[Type::F16, Type::F32],
        &[Type::F16],
        &[(16, 8, 8), (16, 8, 16)],
    ),
    (&[Type::F32], &[Type::Bf16], &[(16, 8, 8), (16, 8, 16)]),
    (&[Type::F32], &[Type::Tf32], &[(16, 8, 4), (16, 8, 8)]),
    (
        &[Type::F16, Type::F32],
        &[Type::E4m3, Type::E5m2],
        &[(16, 8, 16), (16, 8, 32)],
    ),
    (
        &[Type::S32],
        &[Type::S8, Type::U8],
        &[(8, 8, 16), (16, 8, 16), (16, 8, 32)],
    ),
    (
        &[Type::S32],
        &[Type::S4, Type::U4],
        &[(8, 8, 32), (16, 8, 32), (16, 8, 64)],
    ),
    (
        &[Type::F64],
        &[Type::F64],
        &[(8, 8, 4), (16, 8, 4), (16, 8, 8), (16, 8, 16)],
    ),
];

impl Checker<'_> {
    pub(super) fn wgmma(&mut self, inst: &Wgmma) {
        let name = format!(
            "wgmma with .{}.{}.{}",
            inst.d_ty.text(),
            inst.a_ty.text(),
            inst.b_ty.text()
        );
        let line = WGMMA.iter().find(|(d, ab, _)| {
            d.contains(&inst.d_ty) && ab.contains(&inst.a_ty) && ab.contains(&inst.b_ty)
        });
        let Some(&(_, _, k)) = line else {
            return self.require(false, || format!("there is no {name}"));
        };
        let Shape { m, n, .. } = inst.shape;
        let has_width = (8..=256).contains(&n)
            && n % 8 == 0
            && (inst.d_ty != Type::S32 || has_integer_width(n));
        self.require(m == 64 && inst.shape.k == k && has_width, || {
            format!("{name} has the shapes m64nNk{k} with N a multiple of 8 up to 256{}, not m{m}n{n}k{}",
                if inst.d_ty == Type::S32 { " (16 above 24)" } else { "" }, inst.shape.k)
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
        self.fragment("d", &inst.d, usize::from(n) / 2 / packed, Exact(d_need));
        match &inst.a {
            MatrixA::Descriptor(reg) => self.reg("a", *reg, Exact(Type::U64)),
            MatrixA::Registers(fragment) => self.fragment("a", fragment, 4, Exact(Type::F16x2)),
        }
        self.reg("b", inst.b, Exact(Type::U64));
        match inst.scale_d {
            Operand::Int(_) => self.immediate("scale_d", &inst.scale_d, "0 or 1", |value| {
                matches!(value, 0 | 1)
            }),
            ref value => self.value("scale_d", value, Exact(Type::Pred)),
        }
    }

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

    pub(super) fn mma(&mut self, inst: &Mma) {
        let Shape { m, n, k } = inst.shape;
        let name = format!(
            "mma with .{}.{}.{}.{}",
            inst.d_ty.text(),
            inst.a_ty.text(),
            inst.b_ty.text(),
            inst.c_ty.text()
        );
        let line = MMA.iter().find(|(d, ab, _)| {
            let has_result = d.contains(&inst.d_ty) && inst.c_ty == inst.d_ty;
            has_result && ab.contains(&inst.a_ty) && ab.contains(&inst.b_ty)
        });
        let Some((_, _, shapes)) = line else {
            return self.require(false, || format!("there is no {name}"));
        };
        let has_shape = shapes.contains(&(m, n, k));
        self.require(has_shape, || {
            let list: Vec<String> = shapes
                .iter()
                .map(|(m, n, k)| format!("m{m}n{n}k{k}"))
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

    pub(super) fn ldmatrix(&mut self, inst: &Ldmatrix) {
        self.matrix_space("ldmatrix", inst.space);
        self.fragment("dst", &inst.dst, inst.count.registers(), Exact(Type::B32));
        self.addr("addr", inst.addr, inst.space, 16, 16);
    }

    pub(super) fn stmatrix(&mut self, inst: &Stmatrix) {
        self.matrix_space("stmatrix", inst.space);
        self.fragment("src", &inst.src, inst.count.registers(), Exact(Type::B32));
        self.addr("addr", inst.addr, inst.space, 16, 16);
    }

    fn matrix_space(&mut self, op: &str, space: Option<Space>) {
        self.require(matches!(space, None | Some(Space::Shared)), || {
            format!("`{op}` works on shared memory")
        });
    }
}
