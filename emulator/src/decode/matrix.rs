//! Matrix moves and products.

use super::decoder::{Decoded, Decoder};
use crate::program::matrix::{
    Element, GroupMultiply, LeftMatrix, MoveMatrix, Multiply, SparseRows,
};
use crate::program::{File, Op};
use ptx::{Fragment, Ldmatrix, MatrixA, Mma, Movmatrix, Operand, Stmatrix, Type, Visit, Wgmma};
use smallvec::SmallVec;

impl Decoder<'_> {
    fn fragment(&mut self, fragment: &Fragment, file: File) -> Decoded<SmallVec<[u32; 4]>> {
        fragment
            .0
            .iter()
            .map(|&reg| self.operand_in(Operand::Reg(reg), file, Type::B32))
            .collect()
    }
}

impl Visit<Ldmatrix> for Decoder<'_> {
    fn visit(&mut self, i: &Ldmatrix) -> Decoded {
        let (space, base) = self.address(i.space, i.addr)?;
        let registers = self.fragment(&i.dst, File::Word)?;
        check_count(registers.len(), i.count.registers())?;
        let op = MoveMatrix {
            space,
            base,
            is_store: false,
            transposed: i.trans,
            registers,
        };
        self.push(Op::MoveMatrix(Box::new(op)));
        Ok(())
    }
}

impl Visit<Stmatrix> for Decoder<'_> {
    fn visit(&mut self, i: &Stmatrix) -> Decoded {
        let (space, base) = self.address(i.space, i.addr)?;
        let registers = self.fragment(&i.src, File::Word)?;
        check_count(registers.len(), i.count.registers())?;
        let op = MoveMatrix {
            space,
            base,
            is_store: true,
            transposed: i.trans,
            registers,
        };
        self.push(Op::MoveMatrix(Box::new(op)));
        Ok(())
    }
}

impl Visit<Movmatrix> for Decoder<'_> {
    fn visit(&mut self, i: &Movmatrix) -> Decoded {
        let src = self.operand_in(Operand::Reg(i.src), File::Word, Type::B32)?;
        let dst = self.operand_in(Operand::Reg(i.dst), File::Word, Type::B32)?;
        self.push(Op::TransposeMatrix { dst, src });
        Ok(())
    }
}

impl Visit<Mma> for Decoder<'_> {
    fn visit(&mut self, i: &Mma) -> Decoded {
        let (Some(a_element), Some(b_element)) = (Element::of(i.a_ty), Element::of(i.b_ty)) else {
            return Err(format!(
                "the emulator has no mma.sync of .{} and .{}",
                i.a_ty.text(),
                i.b_ty.text()
            ));
        };
        let (m, n, k) = (
            usize::from(i.shape.m),
            usize::from(i.shape.n),
            usize::from(i.shape.k),
        );
        let is_f64 = a_element == Element::F64;
        let file = if is_f64 { File::Double } else { File::Word };
        let (a, b) = (self.fragment(&i.a, file)?, self.fragment(&i.b, file)?);
        let (c, d) = (self.fragment(&i.c, file)?, self.fragment(&i.d, file)?);
        let per_register = if is_f64 { 1 } else { 4 / a_element.bytes() };
        let accumulators = |ty: Type| m * n / 32 / if ty == Type::F16 { 2 } else { 1 };
        check_count(a.len(), m * k / 32 / per_register)?;
        check_count(b.len(), n * k / 32 / per_register)?;
        check_count(c.len(), accumulators(i.c_ty))?;
        check_count(d.len(), accumulators(i.d_ty))?;
        let op = Multiply {
            m,
            n,
            k,
            a_element,
            b_element,
            c_type: i.c_ty,
            d_type: i.d_ty,
            saturate: i.satfinite,
            a,
            b,
            c,
            d,
        };
        self.push(Op::Multiply(Box::new(op)));
        Ok(())
    }
}

impl Visit<Wgmma> for Decoder<'_> {
    fn visit(&mut self, i: &Wgmma) -> Decoded {
        let (Some(a_element), Some(b_element)) = (Element::of(i.a_ty), Element::of(i.b_ty)) else {
            return Err(format!(
                "the emulator has no wgmma of .{} and .{}",
                i.a_ty.text(),
                i.b_ty.text()
            ));
        };
        let (n, k) = (usize::from(i.shape.n), usize::from(i.shape.k));
        check_group_shape(&self.machine.wgmma, i)?;
        let d: Vec<u32> = self.fragment(&i.d, File::Word)?.into_vec();
        check_count(d.len(), n / 2 / if i.d_ty == Type::F16 { 2 } else { 1 })?;
        let a = match &i.a {
            MatrixA::Descriptor(reg) => LeftMatrix::Descriptor(self.operand_in(
                Operand::Reg(*reg),
                File::Double,
                Type::B64,
            )?),
            MatrixA::Registers(fragment) => {
                let registers = self.fragment(fragment, File::Word)?;
                check_count(registers.len(), 4)?;
                LeftMatrix::Registers(registers)
            }
        };
        let sparse = match i.sparse {
            Some(sparse) => Some(SparseRows {
                metadata: self.operand_in(Operand::Reg(sparse.metadata), File::Word, Type::B32)?,
                selector: sparse.selector,
            }),
            None => None,
        };
        let compression = match sparse {
            Some(_) => self.machine.wgmma.sparse_depth_factor as usize,
            None => 1,
        };
        let op = GroupMultiply {
            n,
            k,
            columns: k / compression,
            sparse,
            a_element,
            b_element,
            d_type: i.d_ty,
            saturate: i.satfinite,
            d,
            a,
            b: self.operand_in(Operand::Reg(i.b), File::Double, Type::B64)?,
            accumulate: self.operand_in(i.scale_d, File::Predicate, Type::Pred)?,
            negate_a: i.negate_a,
            negate_b: i.negate_b,
            a_transposed: i.trans_a,
            b_transposed: i.trans_b,
        };
        self.push(Op::GroupMultiply(Box::new(op)));
        Ok(())
    }
}

fn check_count(found: usize, expected: usize) -> Decoded {
    if found == expected {
        return Ok(());
    }
    Err(format!(
        "a fragment has {found} registers where the shape asks for {expected}"
    ))
}

fn check_group_shape(wgmma: &target::Wgmma, i: &Wgmma) -> Decoded {
    let [m, n, k] = [i.shape.m, i.shape.n, i.shape.k].map(u32::from);
    let is_integer = i.d_ty == Type::S32;
    let types = ptx::matrix_types([i.a_ty, i.b_ty, i.d_ty]);
    let depth = types.and_then(|types| match i.sparse {
        Some(_) => wgmma.sparse_depth(types),
        None => wgmma.depth(types),
    });
    if m != wgmma.m || depth != Some(k) || !wgmma.has_columns(n, is_integer) {
        return Err(format!(
            "there is no {}wgmma of shape m{m}n{n}k{k} for .{}",
            if i.sparse.is_some() { "sparse " } else { "" },
            i.a_ty.text()
        ));
    }
    Ok(())
}
