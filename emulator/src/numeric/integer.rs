//! Conversions between floats and integers, and bit-field operations whose corner values need care.

use super::Mode;
use super::format::Format;

/// Rounds to an integral value.
pub(crate) fn round_integral(value: f64, mode: Mode) -> f64 {
    match mode {
        Mode::NearestEven => value.round_ties_even(),
        Mode::NearestAway => value.round(),
        Mode::Zero => value.trunc(),
        Mode::Down => value.floor(),
        Mode::Up => value.ceil(),
    }
}

/// A float as an integer of `bits` bits: out of range clamps; NaN gives zero, or for 64-bit sources and
/// destinations the pattern with only the top bit set (PTX ISA 9.7.9.21).
pub(crate) fn float_to_int(value: f64, mode: Mode, bits: u32, signed: bool, wide: bool) -> u64 {
    if value.is_nan() {
        return if wide { 1 << (bits - 1) } else { 0 };
    }
    let value = round_integral(value, mode);
    let keep = u64::MAX >> (64 - bits);
    if signed {
        let limit = i64::MAX >> (64 - bits);
        return (value as i64).clamp(-limit - 1, limit) as u64 & keep;
    }
    (value as u64).min(keep)
}

/// An integer as a 32-bit or shorter float.
pub(crate) fn int_to_format(value: i128, format: Format, mode: Mode) -> u32 {
    format.round_parts(value < 0, value.unsigned_abs() as u64, 0, false, mode)
}

/// An integer as an f64.
pub(crate) fn int_to_f64(value: i128, mode: Mode) -> f64 {
    let nearest = value as f64;
    let error = value - nearest as i128;
    super::exact::adjust(nearest, error as f64, mode)
}

/// Position and length of a bit field. Only the low eight bits count (PTX ISA 9.7.1.19), but an H200 takes those of
/// 64-bit fields as they are.
fn field_place(pos: u32, len: u32, bits: u32) -> (u32, u32) {
    if bits == 64 {
        (pos.min(255), len.min(255))
    } else {
        (pos & 0xff, len & 0xff)
    }
}

/// `bfe`: `len` bits of `a` from `pos`, extended by the field's top bit when signed (PTX ISA 9.7.1.19).
pub(crate) fn bit_field_extract(a: u64, pos: u32, len: u32, bits: u32, signed: bool) -> u64 {
    let (pos, len) = field_place(pos, len, bits);
    let keep = u64::MAX >> (64 - bits);
    let sign_at = (pos + len).saturating_sub(1).min(bits - 1);
    let sign = signed && len > 0 && a >> sign_at & 1 == 1;
    let field_mask = if len >= 64 { u64::MAX } else { (1 << len) - 1 };
    let field = if pos >= bits {
        0
    } else {
        (a & keep) >> pos & field_mask
    };
    let available = len.min(bits.saturating_sub(pos));
    let fill = if available >= 64 {
        0
    } else {
        u64::MAX << available
    };
    (if sign { field | fill } else { field }) & keep
}

/// `bfi`: the low `len` bits of `a` into `b` at `pos` (PTX ISA 9.7.1.20).
pub(crate) fn bit_field_insert(a: u64, b: u64, pos: u32, len: u32, bits: u32) -> u64 {
    let (pos, len) = field_place(pos, len, bits);
    if pos >= bits || len == 0 {
        return b;
    }
    let keep = u64::MAX >> (64 - bits);
    let field = (if len >= 64 { u64::MAX } else { (1 << len) - 1 }) << pos & keep;
    b & !field | a << pos & field
}

/// `fns`: the position of the n-th set bit from `base` (PTX ISA 9.7.1.16).
pub(crate) fn find_nth_set(mask: u32, base: u32, offset: i32) -> u32 {
    if base >= 32 {
        return u32::MAX;
    }
    if offset == 0 {
        return if mask >> base & 1 == 1 {
            base
        } else {
            u32::MAX
        };
    }
    let mut position = base as i32;
    let step = offset.signum();
    let mut left = offset.unsigned_abs();
    while (0..32).contains(&position) {
        if mask >> position & 1 == 1 {
            left -= 1;
            if left == 0 {
                return position as u32;
            }
        }
        position += step;
    }
    u32::MAX
}

/// `prmt`: four bytes picked out of `b:a` (PTX ISA 9.7.9.7).
pub(crate) const fn permute_bytes(a: u32, b: u32, selector: u32) -> u32 {
    let bytes = (b as u64) << 32 | a as u64;
    let mut result = 0;
    let mut index = 0;
    while index < 4 {
        let pick = selector >> (4 * index);
        let byte = (bytes >> (8 * (pick & 7))) as u8;
        let byte = if pick & 8 != 0 {
            ((byte as i8) >> 7) as u8
        } else {
            byte
        };
        result |= (byte as u32) << (8 * index);
        index += 1;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bit_fields_at_their_limits() {
        assert_eq!(bit_field_extract(0xf0, 4, 4, 32, false), 0xf);
        assert_eq!(bit_field_extract(0xf0, 4, 4, 32, true), 0xffff_ffff);
        assert_eq!(bit_field_extract(0x7000_0000, 28, 8, 32, true), 0x7);
        assert_eq!(bit_field_extract(0x8000_0000, 28, 8, 32, true), 0xffff_fff8);
        assert_eq!(bit_field_extract(0x8000_0000, 40, 8, 32, true), 0xffff_ffff);
        assert_eq!(bit_field_extract(0x8000_0000, 40, 8, 32, false), 0);
        assert_eq!(bit_field_extract(u64::MAX, 3, 0, 64, true), 0);
        assert_eq!(bit_field_insert(0xff, 0, 28, 8, 32), 0xf000_0000);
        assert_eq!(bit_field_insert(0xff, 7, 32, 8, 32), 7);
        assert_eq!(bit_field_insert(u64::MAX, 0, 0, 64, 64), u64::MAX);
        assert_eq!(bit_field_extract(1, 0, 0xffc0_0000, 64, false), 1);
        assert_eq!(bit_field_extract(1, 0, 0xffc0_0000, 32, false), 0);
    }

    #[test]
    fn float_to_integer_clamps() {
        assert_eq!(float_to_int(3e9, Mode::Zero, 32, true, false), 0x7fff_ffff);
        assert_eq!(float_to_int(-3e9, Mode::Zero, 32, true, false), 0x8000_0000);
        assert_eq!(float_to_int(-1.0, Mode::Zero, 32, false, false), 0);
        assert_eq!(float_to_int(300.0, Mode::Zero, 8, false, false), 255);
        assert_eq!(float_to_int(f64::NAN, Mode::Zero, 32, true, false), 0);
        assert_eq!(float_to_int(f64::NAN, Mode::Zero, 64, true, true), 1 << 63);
        assert_eq!(float_to_int(2.5, Mode::NearestEven, 32, true, false), 2);
        assert_eq!(float_to_int(-2.5, Mode::Down, 32, true, false), 0xffff_fffd);
        assert_eq!(float_to_int(1e30, Mode::Zero, 64, false, false), u64::MAX);
    }

    #[test]
    fn integers_round_to_floats_in_every_mode() {
        assert_eq!(
            int_to_format(16_777_217, Format::F32, Mode::NearestEven),
            16_777_216f32.to_bits()
        );
        assert_eq!(
            int_to_format(16_777_217, Format::F32, Mode::Up),
            16_777_218f32.to_bits()
        );
        assert_eq!(
            int_to_format(i128::from(u64::MAX), Format::F32, Mode::Zero),
            0x5f7f_ffff
        );
        assert_eq!(
            int_to_f64((1 << 53) + 1, Mode::Up).to_bits(),
            (9_007_199_254_740_994f64).to_bits()
        );
        assert_eq!(
            int_to_f64(-(1 << 53) - 1, Mode::Zero).to_bits(),
            (-9_007_199_254_740_992f64).to_bits()
        );
    }

    #[test]
    fn prmt_selects_bytes_and_signs() {
        assert_eq!(permute_bytes(0x3322_1100, 0x7766_5544, 0x7654), 0x7766_5544);
        assert_eq!(permute_bytes(0x3322_1180, 0x7766_5544, 0x8888), 0xffff_ffff);
        assert_eq!(permute_bytes(0x3322_1100, 0x7766_5544, 0x0123), 0x0011_2233);
    }

    #[test]
    fn fns_finds_the_nth_set_bit() {
        assert_eq!(find_nth_set(0b1011_0100, 0, 2), 4);
        assert_eq!(find_nth_set(0b1011_0100, 7, -2), 5);
        assert_eq!(find_nth_set(0b1011_0100, 2, 0), 2);
        assert_eq!(find_nth_set(0b1011_0100, 3, 9), u32::MAX);
    }
}
