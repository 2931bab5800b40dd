//! Arithmetic, logic, comparison and conversion (PTX ISA 9.7.1 to 9.7.8 and `cvt`, `mov`).

use super::family::family;
use crate::operand::{Dest, Dests, Operand, PairDest, Predicate, Values};
use crate::registers::RegClass;
use crate::spelling::spelled;
use crate::types::{DivPrecision, Rounding, Type};

spelled! {
    /// Operations on two values.
    BinaryOp {
        Add = "add", Sub = "sub",
        AddCc = "add.cc", Addc = "addc", AddcCc = "addc.cc", SubCc = "sub.cc", Subc = "subc", SubcCc = "subc.cc",
        Mul = "mul", MulLo = "mul.lo", MulHi = "mul.hi", MulWide = "mul.wide",
        Div = "div", Rem = "rem", Min = "min", Max = "max", CopySign = "copysign",
        And = "and", Or = "or", Xor = "xor", Shl = "shl", Shr = "shr",
    }

    /// Operations on one value.
    UnaryOp {
        Neg = "neg", Abs = "abs", Not = "not", Cnot = "cnot",
        Popc = "popc", Clz = "clz", Brev = "brev", Bfind = "bfind", BfindShiftAmount = "bfind.shiftamt",
        Sqrt = "sqrt", Rcp = "rcp", Rsqrt = "rsqrt", Ex2 = "ex2", Lg2 = "lg2", Sin = "sin", Cos = "cos",
        Tanh = "tanh",
    }

    /// Operations on three values: `a * b + c` and its kin.
    TernaryOp {
        Fma = "fma", Mad = "mad", MadLo = "mad.lo", MadHi = "mad.hi", MadWide = "mad.wide",
        MadLoCc = "mad.lo.cc", MadHiCc = "mad.hi.cc", MadcLo = "madc.lo", MadcHi = "madc.hi",
        MadcLoCc = "madc.lo.cc", MadcHiCc = "madc.hi.cc",
        Sad = "sad", Bfe = "bfe", Fns = "fns",
    }

    /// Comparison of `setp` and `set`. The `u` forms are also true when an operand is NaN; `lo`, `ls`, `hi`
    /// and `hs` are unsigned.
    Compare {
        Eq = "eq", Ne = "ne", Lt = "lt", Le = "le", Gt = "gt", Ge = "ge",
        Lo = "lo", Ls = "ls", Hi = "hi", Hs = "hs",
        Equ = "equ", Neu = "neu", Ltu = "ltu", Leu = "leu", Gtu = "gtu", Geu = "geu",
        Num = "num", Nan = "nan",
    }

    /// How the result of a comparison is combined with a further predicate.
    BoolOp { And = "and", Or = "or", Xor = "xor" }

    /// Direction and overflow of a funnel shift.
    FunnelShift {
        LeftClamp = "shf.l.clamp", LeftWrap = "shf.l.wrap", RightClamp = "shf.r.clamp", RightWrap = "shf.r.wrap",
    }

    /// How `prmt` reads its selector when it is not four byte indices.
    PermuteMode { F4e = "f4e", B4e = "b4e", Rc8 = "rc8", Ecl = "ecl", Ecr = "ecr", Rc16 = "rc16" }

    /// Property that `testp` asks a float for.
    FloatTest {
        Finite = "finite", Infinite = "infinite", Number = "number", NotANumber = "notanumber", Normal = "normal",
        Subnormal = "subnormal",
    }
}

impl BinaryOp {
    /// The register class of the result on operands of type `ty`; `mul.wide` has twice their width.
    pub fn result_class(self, ty: Type) -> RegClass {
        match self {
            BinaryOp::MulWide => twice_as_wide(ty),
            _ => RegClass::of(ty),
        }
    }
}

impl UnaryOp {
    /// The type of the result on an operand of type `ty`: what counts bits answers in 32.
    pub fn result_type(self, ty: Type) -> Type {
        match self {
            UnaryOp::Popc | UnaryOp::Clz | UnaryOp::Bfind | UnaryOp::BfindShiftAmount => Type::U32,
            _ => ty,
        }
    }
}

impl TernaryOp {
    /// The register class of the result on factors of type `ty`; `mad.wide` has twice their width.
    pub fn result_class(self, ty: Type) -> RegClass {
        match self {
            TernaryOp::MadWide => twice_as_wide(ty),
            _ => RegClass::of(ty),
        }
    }
}

fn twice_as_wide(ty: Type) -> RegClass {
    if ty.bits() == 16 {
        RegClass::B32
    } else {
        RegClass::B64
    }
}

family! {
    /// Moves a value, packs `mov.b32 d, {a, b}` or unpacks `mov.b32 {a, b}, s` (PTX ISA 9.7.9.3 and 9.7.9.4).
    Mov: ["mov" ty: Type] (out dst: Dests, in src: Values);

    /// `d = a op b` (PTX ISA 9.7.1, 9.7.3, 9.7.4, 9.7.8). `Mul` is the float form; integers say lo, hi or wide.
    Binary: [op: BinaryOp, precision ? DivPrecision, rounding ? Rounding, ftz = "ftz", nan = "NaN",
             xorsign_abs = "xorsign.abs", sat = "sat", relu = "relu", ty: Type]
        (out dst: Dest, in a: Operand, in b: Operand);

    /// `d = op a` (PTX ISA 9.7.1, 9.7.3, 9.7.8).
    Unary: [op: UnaryOp, approx = "approx", rounding ? Rounding, ftz = "ftz", ty: Type]
        (out dst: Dest, in a: Operand);

    /// `d = a * b + c` and others of three operands (PTX ISA 9.7.1, 9.7.3).
    Ternary: [op: TernaryOp, rounding ? Rounding, ftz = "ftz", sat = "sat", relu = "relu", ty: Type]
        (out dst: Dest, in a: Operand, in b: Operand, in c: Operand);

    /// Inserts the low `len` bits of `a` into `b` at `pos` (PTX ISA 9.7.1).
    Bfi: ["bfi" ty: Type] (out dst: Dest, in a: Operand, in b: Operand, in pos: Operand, in len: Operand);

    /// Any function of three bits, by truth table (PTX ISA 9.7.8).
    Lop3: [; "lop3" "b32"]
        (out dst: Dest, in a: Operand, in b: Operand, in c: Operand,
         /// Eight bits: the value for `a = 0xF0, b = 0xCC, c = 0xAA`.
         in table: Operand);

    /// Picks bytes out of two registers (PTX ISA 9.7.9.7).
    Prmt: ["prmt" "b32" mode ? PermuteMode] (out dst: Dest, in a: Operand, in b: Operand, in selector: Operand);

    /// Shifts the 64-bit pair `b:a` and keeps one half (PTX ISA 9.7.8).
    Shf: [shift: FunnelShift; "b32"] (out dst: Dest, in a: Operand, in b: Operand, in amount: Operand);

    /// Dot product of four bytes, added to `c` (PTX ISA 9.7.1).
    Dp4a: ["dp4a" a_ty: Type, b_ty: Type] (out dst: Dest, in a: Operand, in b: Operand, in c: Operand);

    /// Compares into one or two predicates (PTX ISA 9.7.6 and 9.7.7).
    Setp: ["setp" compare: Compare, combine ? BoolOp, ftz = "ftz", ty: Type]
        (out dst: PairDest, in a: Operand, in b: Operand, in c ? Predicate);

    /// Compares into a register: all ones or 1.0 where true (PTX ISA 9.7.6 and 9.7.7).
    Set: ["set" compare: Compare, combine ? BoolOp, ftz = "ftz", dst_ty: Type, ty: Type]
        (out dst: Dest, in a: Operand, in b: Operand, in c ? Predicate);

    /// `d = p ? a : b` (PTX ISA 9.7.6.3).
    Selp: ["selp" ty: Type] (out dst: Dest, in a: Operand, in b: Operand, in p: Operand);

    /// `d = c >= 0 ? a : b` (PTX ISA 9.7.6.4).
    Slct: ["slct" ftz = "ftz", ty: Type, c_ty: Type] (out dst: Dest, in a: Operand, in b: Operand, in c: Operand);

    /// Asks a float for a property (PTX ISA 9.7.3).
    Testp: ["testp" test: FloatTest, ty: Type] (out dst: Dest, in a: Operand);

    /// Converts (PTX ISA 9.7.9.21). With two sources the first goes to the upper half of the packed result.
    Cvt: ["cvt" rounding ? Rounding, ftz = "ftz", sat = "sat", satfinite = "satfinite", relu = "relu", dst_ty: Type, src_ty: Type]
        (out dst: Dest, in a: Operand, in b ? Operand);

    /// Saturates two integers and packs them below `c` (PTX ISA 9.7.9.22).
    CvtPack: ["cvt.pack.sat" dst_ty: Type, src_ty: Type, c_ty ? Type]
        (out dst: Dest, in a: Operand, in b: Operand, in c ? Operand);
}
