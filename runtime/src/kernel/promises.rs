//! What the code relies on and the launch must keep: divisors of addresses and integers, and buffers that are only read.

use std::ops::Range;

use ir::elem::Elem;
use lowering::ParamInfo;

use crate::error::{Error, Result};
use crate::launch::ParameterBlock;

/// What a kernel does with its first 64 parameters' buffers, a bit for each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Roles {
    readonly: u64,
    written: u64,
}

impl Roles {
    pub(crate) fn of(params: &[ParamInfo]) -> Roles {
        let of_all = |has_role: fn(&ParamInfo) -> bool| {
            let of_one = |(index, param)| u64::from(has_role(param)) << index;
            params.iter().take(64).enumerate().map(of_one).sum()
        };
        Roles {
            readonly: of_all(|param| param.is_readonly),
            written: of_all(|param| param.is_written),
        }
    }
}

/// An error unless every argument is divisible as its parameter promises. The compiler made wide accesses of the
/// promises, so a broken one would be a misaligned access on the device.
#[inline]
pub(crate) fn check(
    kernel: &str,
    params: &[ParamInfo],
    roles: Roles,
    block: &mut ParameterBlock,
) -> Result<()> {
    params
        .iter()
        .enumerate()
        .filter(|(_, param)| param.divisor > 1)
        .try_for_each(|(index, param)| check_one(kernel, param, block.parameter(index)))?;
    block.set_roles(roles.readonly, roles.written);
    check_apart(kernel, params, block)
}

/// An error if a buffer that the kernel stores to overlaps one that is only read.
fn check_apart(kernel: &str, params: &[ParamInfo], block: &ParameterBlock) -> Result<()> {
    for (readonly, read) in block.readonly() {
        if let Some((written, _)) = block.written().find(|(_, stored)| overlap(&read, stored)) {
            return Err(Error::ReadonlyOverlap {
                kernel: kernel.to_string(),
                readonly: params[readonly].name.to_string(),
                written: params[written].name.to_string(),
            });
        }
    }
    Ok(())
}

/// Whether two buffers have a byte in common.
pub(crate) fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

fn check_one(kernel: &str, param: &ParamInfo, bytes: &[u8]) -> Result<()> {
    // Two's complement: a negative integer is divisible by a power of two exactly if its low bits are zero.
    let value = bytes
        .iter()
        .rev()
        .fold(0u64, |value, byte| value << 8 | u64::from(*byte));
    if value & (u64::from(param.divisor) - 1) == 0 {
        return Ok(());
    }
    let (kernel, parameter, divisor) = (kernel.to_string(), param.name.to_string(), param.divisor);
    let elem = param
        .ty
        .elem()
        .expect("only scalars are promised to be divisible");
    Err(match elem {
        Elem::Ptr(_) => Error::Misaligned {
            kernel,
            parameter,
            address: value,
            divisor,
        },
        Elem::Data(dtype) => {
            let unused = 64 - 8 * param.size;
            let signed = ((value << unused) as i64) >> unused;
            let value = if dtype.is_signed_int() {
                i128::from(signed)
            } else {
                i128::from(value)
            };
            Error::NotMultiple {
                kernel,
                parameter,
                value,
                divisor,
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use ir::Type;
    use ir::elem::DType;

    use super::*;

    fn param(name: &str, elem: Elem, offset: u32, divisor: u32) -> ParamInfo {
        ParamInfo {
            name: name.into(),
            ty: Type::Scalar(elem),
            offset,
            size: elem.bytes(),
            align: elem.bytes(),
            divisor,
            is_readonly: false,
            is_written: false,
        }
    }

    fn check_with(address: u64, stride: i64, count: u8) -> String {
        let params = [
            param("x", Elem::Ptr(DType::F32), 0, 16),
            param("stride", Elem::I64, 8, 8),
            param("count", Elem::Data(DType::U8), 16, 4),
        ];
        let mut block = ParameterBlock::new();
        block.push(&address.to_le_bytes(), 8);
        block.push(&stride.to_le_bytes(), 8);
        block.push(&[count], 1);
        check("k", &params, Roles::of(&params), &mut block)
            .map_or_else(|error| error.to_string(), |()| "kept".to_string())
    }

    #[test]
    fn what_is_only_read_lies_apart_from_what_is_written() {
        let pointer = |name, offset| param(name, Elem::Ptr(DType::F32), offset, 1);
        let mut params = [pointer("x", 0), pointer("y", 8), pointer("out", 16)];
        params[0].is_readonly = true;
        params[2].is_written = true;
        let check = |x: u64, y: u64, out: u64| {
            let mut block = ParameterBlock::new();
            for address in [x, y, out] {
                block.push_buffer(address, 64);
            }
            check("k", &params, Roles::of(&params), &mut block)
                .map_or_else(|e| e.to_string(), |()| "kept".to_owned())
        };
        assert_eq!(check(0x1000, 0x1040, 0x1040), "kept");
        assert_eq!(check(0x1000, 0x1000, 0x0fc0), "kept");
        assert!(check(0x1000, 0x2000, 0x103f).contains("`x` and `out` of `k` overlap"));
        assert!(check(0x1000, 0x2000, 0x1000).contains("`x` and `out` of `k` overlap"));
    }

    #[test]
    fn each_promise_is_checked_and_named() {
        assert_eq!(check_with(0x1000, 24, 252), "kept");
        assert_eq!(check_with(0x1000, -8, 0), "kept");
        assert!(check_with(0x1008, 24, 0).contains("`x` of `k` is at address 0x1008"));
        assert!(check_with(0x1000, -12, 0).contains("`stride` of `k` is -12"));
        assert!(check_with(0x1000, 24, 254).contains("`count` of `k` is 254"));
    }
}
