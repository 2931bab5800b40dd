//! Where the parameters of an entry lie.

use crate::module::Param;

/// Offsets of parameters in the block that a launch passes: each at the next multiple of its alignment, in the order of the list
/// (PTX ISA 7.1; the driver packs `cuLaunchKernelEx` arguments alike).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ParameterOffsets {
    end: u64,
}

impl ParameterOffsets {
    /// The offset of the next parameter, of `bytes` bytes at a multiple of `align_bytes`. What ends past 64 bits ends at the last of them, which no entry can have.
    pub fn place(&mut self, bytes: u64, align_bytes: u32) -> u64 {
        let offset = self
            .end
            .checked_next_multiple_of(align_bytes.max(1).into())
            .unwrap_or(u64::MAX);
        self.end = offset.saturating_add(bytes);
        offset
    }

    /// The same of a declared parameter.
    pub fn place_param(&mut self, param: &Param) -> u64 {
        self.place(param.size_bytes(), param.align_bytes())
    }

    /// Bytes of all parameters so far.
    pub fn bytes(self) -> u64 {
        self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Type;

    #[test]
    fn each_parameter_lies_at_the_next_multiple_of_its_alignment() {
        let mut list = ParameterOffsets::default();
        let params = [
            Param::scalar("n", Type::U32),
            Param::tensor_map("map"),
            Param::scalar("flag", Type::U8),
            Param::global_ptr("out", 16),
        ];
        let offsets = params.map(|param| list.place_param(&param));
        assert_eq!(offsets, [0, 64, 192, 200]);
        assert_eq!(list.bytes(), 208);
    }
}
