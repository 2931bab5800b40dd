//! Number literals (PTX ISA 4.5).

use crate::operand::Operand;

/// An integer: decimal, `0x`, `0b` or octal, with an optional `U`.
pub(crate) fn unsigned(text: &str) -> Option<u64> {
    let digits = text.strip_suffix('U').unwrap_or(text);
    let (digits, radix) = match digits.get(..2) {
        Some("0x" | "0X") => (&digits[2..], 16),
        Some("0b" | "0B") => (&digits[2..], 2),
        Some(_) if digits.starts_with('0') => (&digits[1..], 8),
        _ => (digits, 10),
    };
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if is_plain {
        u64::from_str_radix(digits, radix).ok()
    } else {
        None
    }
}

/// A number with its sign, as an operand; decimal fractions are doubles, as PTX says.
pub(crate) fn operand(text: &str, negative: bool) -> Option<Operand> {
    match text.get(..2) {
        Some("0f" | "0F") if text.len() == 10 => {
            let bits = u32::from_str_radix(&text[2..], 16).ok()?;
            Some(Operand::F32(if negative { bits ^ 1 << 31 } else { bits }))
        }
        Some("0d" | "0D") if text.len() == 18 => {
            let bits = u64::from_str_radix(&text[2..], 16).ok()?;
            Some(Operand::F64(if negative { bits ^ 1 << 63 } else { bits }))
        }
        _ if text.contains('.') => {
            let value: f64 = text.parse().ok()?;
            Some(Operand::f64(if negative { -value } else { value }))
        }
        _ => {
            let value = unsigned(text)? as i64;
            Some(Operand::Int(if negative {
                value.wrapping_neg()
            } else {
                value
            }))
        }
    }
}
