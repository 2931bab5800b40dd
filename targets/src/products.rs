//! Matrix instructions: their shapes, and the types that they multiply.

/// The type of an element of a matrix instruction (PTX ISA 5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are those of PTX")]
pub enum MatrixType {
    F16,
    Bf16,
    Tf32,
    F32,
    F64,
    E4m3,
    E5m2,
    S8,
    U8,
    S4,
    U4,
    S32,
}

impl MatrixType {
    /// Its name in a kernel: an integer with a sign is `i8`, and not `s8` as in PTX.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::Tf32 => "tf32",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::E4m3 => "e4m3",
            Self::E5m2 => "e5m2",
            Self::S8 => "i8",
            Self::U8 => "u8",
            Self::S4 => "i4",
            Self::U4 => "u4",
            Self::S32 => "i32",
        }
    }
}

/// Operands that can be multiplied, with their accumulators and the instruction's shapes `[m, n, k]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProductTypes<S: 'static> {
    /// What the operands are called in messages.
    pub name: &'static str,
    /// Types of A and of B, in any pairing.
    pub factors: &'static [MatrixType],
    /// Types of the accumulator.
    pub accumulators: &'static [MatrixType],
    /// The shapes of one instruction.
    pub shapes: S,
}

impl<S> ProductTypes<S> {
    /// `f16 into f16 or f32`.
    fn describe(&self) -> String {
        let sums: Vec<&str> = self.accumulators.iter().map(|ty| ty.name()).collect();
        format!("{} into {}", self.name, sums.join(" or "))
    }

    /// Does it multiply A by B into an accumulator of the type `sum`?
    pub fn has(&self, [a, b, sum]: [MatrixType; 3]) -> bool {
        self.factors.contains(&a) && self.factors.contains(&b) && self.accumulators.contains(&sum)
    }
}

/// Products of a warpgroup (PTX ISA 9.7.15.2, "Matrix Shape", and 9.7.15.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wgmma {
    /// Rows of one instruction.
    pub m: u32,
    /// The most columns of one instruction.
    pub most_n: u32,
    /// Columns are a multiple of this, and at least this.
    pub n_unit: u32,
    /// Columns of integer products are a multiple of this, or one of [`small_integer_n`](Wgmma::small_integer_n).
    pub integer_n_unit: u32,
    /// Columns of integer products that are no multiple of their unit.
    pub small_integer_n: [u32; 2],
    /// Groups that a wait may leave pending, at most (PTX ISA 9.7.15.7.2).
    pub pending_groups: u32,
    /// Pairs of types, each with the depth K of one instruction.
    pub types: &'static [ProductTypes<u32>],
    /// A sparse product is so many times as deep as the dense one of its types: A keeps one of as many elements
    /// (PTX ISA 9.7.15.6, `wgmma.mma_async.sp`).
    pub sparse_depth_factor: u32,
}

impl Wgmma {
    /// The depth K of one instruction for A, B and accumulator of these types; none where there is no such product.
    pub fn depth(&self, types: [MatrixType; 3]) -> Option<u32> {
        Some(self.types.iter().find(|line| line.has(types))?.shapes)
    }

    /// The depth K of one sparse instruction for these types, counted in elements of B.
    pub fn sparse_depth(&self, types: [MatrixType; 3]) -> Option<u32> {
        Some(self.depth(types)? * self.sparse_depth_factor)
    }

    /// The depths K that dense instructions have, each once, in ascending order.
    pub fn depths(&self) -> Vec<u32> {
        let mut depths: Vec<u32> = self.types.iter().map(|line| line.shapes).collect();
        depths.sort_unstable();
        depths.dedup();
        depths
    }

    /// Has an instruction so many columns? Integer products have fewer widths.
    pub fn has_columns(&self, n: u32, is_integer: bool) -> bool {
        let is_wide = (self.n_unit..=self.most_n).contains(&n) && n.is_multiple_of(self.n_unit);
        let has_integer =
            n.is_multiple_of(self.integer_n_unit) || self.small_integer_n.contains(&n);
        is_wide && (!is_integer || has_integer)
    }
}

/// Products of a warp (PTX ISA 9.7.14.5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mma {
    /// Pairs of types, each with the shapes `[m, n, k]` of its instructions.
    pub types: &'static [ProductTypes<&'static [[u32; 3]]>],
}

impl Mma {
    /// The shapes of instructions for A, B and accumulator of these types; none where there is no such product.
    pub fn shapes(&self, types: [MatrixType; 3]) -> Option<&'static [[u32; 3]]> {
        Some(self.types.iter().find(|line| line.has(types))?.shapes)
    }
}

/// What a list of products multiplies, for a note: `f16 into f16 or f32, and bf16 into f32`. Lines with a type that `is_known`
/// rejects are left out.
pub fn describe_products<S>(
    types: &[ProductTypes<S>],
    is_known: impl Fn(MatrixType) -> bool,
) -> String {
    let known = |line: &&ProductTypes<S>| line.factors.iter().all(|ty| is_known(*ty));
    let lines: Vec<String> = types
        .iter()
        .filter(known)
        .map(ProductTypes::describe)
        .collect();
    match lines.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{}, and {last}", rest.join(", ")),
        None => "nothing".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SM_90A;

    #[test]
    fn a_list_of_products_names_known_types_alone() {
        let is_known = |ty| matches!(ty, MatrixType::F16 | MatrixType::S8 | MatrixType::U8);
        assert_eq!(
            describe_products(SM_90A.wgmma.types, is_known),
            "f16 into f16 or f32, and 8-bit integers into i32"
        );
        assert_eq!(describe_products(SM_90A.wgmma.types, |_| false), "nothing");
    }

    #[test]
    fn integer_products_have_fewer_columns() {
        let wgmma = &SM_90A.wgmma;
        let columns = |is_integer| {
            (0..300)
                .filter(|n| wgmma.has_columns(*n, is_integer))
                .count()
        };
        assert_eq!(columns(false), 32);
        assert_eq!(columns(true), 18);
    }
}
