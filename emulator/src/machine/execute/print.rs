//! `vprintf` and failed assertions.

use crate::fault::{FaultKind, Stepped, Trouble};
use crate::lanes::lanes_of;
use crate::machine::memory::address::Target;
use crate::machine::state::scene::{Scene, Worker};
use crate::program::{AccessSpace, AssertFail, Print, windows};
use std::sync::PoisonError;

/// The longest text that a kernel may pass.
const MAX_TEXT_BYTES: u64 = 64 * 1024;

impl Worker<'_> {
    pub(crate) fn print(&mut self, scene: &mut Scene<'_>, print: &Print) -> Stepped {
        let mut text = String::new();
        for lane in lanes_of(scene.mask) {
            let format = self.local_value(scene, lane, print.format, 8)?;
            let arguments = self.local_value(scene, lane, print.arguments, 8)?;
            let format = self.text(scene, lane, format)?;
            let before = text.len();
            self.format(scene, lane, &format, arguments, &mut text)?;
            if let Some(result) = print.result {
                let count = (text.len() - before) as u32;
                let (memory, address) =
                    self.memory_mut(scene, Target::Local, lane, result.into(), 4)?;
                if let Some(index) = memory.index(address, 4) {
                    memory.put(index, count.to_le_bytes());
                }
            }
        }
        // The compiler's assertions print before they trap.
        let assertion = text
            .lines()
            .find_map(|line| line.split_once("assertion failed: "));
        scene.warp.failed_assertion = assertion.map(|(_, what)| what.to_owned());
        let output = &self.context.output;
        output
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push_str(&text);
        Ok(())
    }

    pub(crate) fn assert_failed(
        &mut self,
        scene: &mut Scene<'_>,
        assert: &AssertFail,
    ) -> Box<Trouble> {
        match self.assert_message(scene, assert) {
            Ok(message) => Trouble::new(FaultKind::Trap, scene.mask, message),
            Err(trouble) => trouble,
        }
    }

    fn assert_message(&mut self, scene: &Scene<'_>, assert: &AssertFail) -> Stepped<String> {
        let lane = scene.mask.trailing_zeros() as usize;
        let mut texts = Vec::new();
        for offset in [assert.message, assert.file, assert.function] {
            let address = self.local_value(scene, lane, offset, 8)?;
            texts.push(self.text(scene, lane, address)?);
        }
        let line = self.local_value(scene, lane, assert.line, 4)?;
        Ok(format!(
            "{}:{line}: {}: device assertion failed: {}",
            texts[1], texts[2], texts[0]
        ))
    }

    /// Reads bytes at a generic address.
    fn peek(&self, scene: &Scene<'_>, lane: usize, address: u64, bytes: u32) -> Stepped<u64> {
        let mut rest = 1 << lane;
        let mut addresses = [0; 32];
        addresses[lane] = address;
        let found = Target::next(AccessSpace::Generic, &addresses, &mut rest);
        let Some((target, _, within)) = found else {
            return Ok(0);
        };
        if target == Target::Global {
            let index = self.context.map.find(address, bytes.into());
            let index = index.ok_or_else(|| self.out_of_bounds("load", lane, address, bytes))?;
            let allocation = &self.context.map.list()[index];
            let mut data = [0; 8];
            allocation.read(
                (address - allocation.base) as usize,
                &mut data[..bytes as usize],
            );
            return Ok(u64::from_le_bytes(data));
        }
        let (memory, address) = self.memory(scene, target, lane, within[lane])?;
        let index = memory.index(address, bytes);
        let index =
            index.ok_or_else(|| memory.outside(target.memory(), "load", lane, address, bytes))?;
        let mut data = [0; 8];
        data[..bytes as usize].copy_from_slice(&memory.bytes[index..index + bytes as usize]);
        Ok(u64::from_le_bytes(data))
    }

    fn local_value(&self, scene: &Scene<'_>, lane: usize, offset: u32, bytes: u32) -> Stepped<u64> {
        self.peek(scene, lane, windows::LOCAL + u64::from(offset), bytes)
    }

    /// The text at a generic address, to its zero byte.
    fn text(&self, scene: &Scene<'_>, lane: usize, address: u64) -> Stepped<String> {
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < MAX_TEXT_BYTES {
            match self.peek(scene, lane, address + bytes.len() as u64, 1)? {
                0 => break,
                byte => bytes.push(byte as u8),
            }
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Formats as C does. Arguments lie one after another: 4 bytes for int, 8 for long, double and pointers, aligned.
    fn format(
        &self,
        scene: &Scene<'_>,
        lane: usize,
        format: &str,
        arguments: u64,
        out: &mut String,
    ) -> Stepped {
        let mut offset = 0u64;
        let mut rest = format;
        while let Some(percent) = rest.find('%') {
            out.push_str(&rest[..percent]);
            let spec = Spec::parse(&rest[percent + 1..]);
            rest = &rest[percent + 1 + spec.length..];
            if spec.conversion == '%' {
                out.push('%');
                continue;
            }
            let bytes = spec.argument_bytes();
            offset = offset.next_multiple_of(bytes.into());
            let value = self.peek(scene, lane, arguments + offset, bytes)?;
            offset += u64::from(bytes);
            if spec.conversion == 's' {
                let text = self.text(scene, lane, value)?;
                out.push_str(&spec.padded(text, false));
            } else {
                out.push_str(&spec.number(value));
            }
        }
        out.push_str(rest);
        Ok(())
    }
}

/// A conversion of a format string, without its percent sign.
#[derive(Clone, Debug, Default)]
#[allow(clippy::struct_excessive_bools, reason = "these are the flags of C")]
struct Spec {
    length: usize,
    left: bool,
    plus: bool,
    space: bool,
    alternate: bool,
    zero: bool,
    width: usize,
    precision: Option<usize>,
    is_long: bool,
    conversion: char,
}

impl Spec {
    fn parse(text: &str) -> Self {
        let mut spec = Self::default();
        let mut chars = text.char_indices().peekable();
        while let Some(&(_, flag)) = chars.peek() {
            match flag {
                '-' => spec.left = true,
                '+' => spec.plus = true,
                ' ' => spec.space = true,
                '#' => spec.alternate = true,
                '0' => spec.zero = true,
                _ => break,
            }
            chars.next();
        }
        let number = |chars: &mut std::iter::Peekable<std::str::CharIndices<'_>>| {
            let mut value = 0usize;
            while let Some(digit) = chars.peek().and_then(|(_, c)| c.to_digit(10)) {
                value = (value * 10 + digit as usize).min(4096);
                chars.next();
            }
            value
        };
        spec.width = number(&mut chars);
        if chars.next_if(|(_, c)| *c == '.').is_some() {
            spec.precision = Some(number(&mut chars));
        }
        while chars
            .next_if(|(_, c)| matches!(c, 'l' | 'h' | 'z' | 'j' | 't'))
            .is_some_and(|(_, c)| {
                spec.is_long |= c != 'h';
                true
            })
        {}
        let (at, conversion) = chars.next().unwrap_or((text.len(), '%'));
        spec.conversion = conversion;
        spec.length = (at + conversion.len_utf8()).min(text.len());
        spec
    }

    fn argument_bytes(&self) -> u32 {
        match self.conversion {
            'd' | 'i' | 'u' | 'x' | 'X' | 'o' | 'c' if !self.is_long => 4,
            _ => 8,
        }
    }

    fn number(&self, value: u64) -> String {
        let float = f64::from_bits(value);
        match self.conversion {
            'd' | 'i' => {
                let value = if self.is_long {
                    value as i64
                } else {
                    i64::from(value as i32)
                };
                self.signed(value < 0, &self.digits(&value.unsigned_abs().to_string()))
            }
            'u' => self.padded(self.digits(&value.to_string()), true),
            'x' => self.padded(
                self.prefixed("0x", self.digits(&format!("{value:x}"))),
                true,
            ),
            'X' => self.padded(
                self.prefixed("0X", self.digits(&format!("{value:X}"))),
                true,
            ),
            'o' => self.padded(self.digits(&format!("{value:o}")), true),
            'p' => self.padded(format!("{value:#x}"), false),
            'c' => self.padded(char::from(value as u8).to_string(), false),
            'f' | 'F' => self.float(float, |v| format!("{v:.*}", self.precision.unwrap_or(6))),
            'e' | 'E' => self.float(float, |v| {
                self.exponent(v, self.precision.unwrap_or(6), false)
            }),
            'g' | 'G' => self.float(float, |v| self.general(v)),
            other => format!("%{other}"),
        }
    }

    fn digits(&self, digits: &str) -> String {
        let missing = self.precision.unwrap_or(0).saturating_sub(digits.len());
        "0".repeat(missing) + digits
    }

    fn prefixed(&self, prefix: &str, digits: String) -> String {
        if self.alternate {
            format!("{prefix}{digits}")
        } else {
            digits
        }
    }

    fn float(&self, value: f64, finite: impl Fn(f64) -> String) -> String {
        let text = match () {
            () if value.is_nan() => "nan".to_owned(),
            () if value.is_infinite() => "inf".to_owned(),
            () => finite(value.abs()),
        };
        let text = if self.conversion.is_ascii_uppercase() {
            text.to_uppercase()
        } else {
            text
        };
        self.signed(value.is_sign_negative() && !value.is_nan(), &text)
    }

    /// C prints exponents with a sign and at least two digits.
    fn exponent(&self, value: f64, precision: usize, trim: bool) -> String {
        let text = format!("{value:.precision$e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let mantissa = if trim && mantissa.contains('.') {
            mantissa.trim_end_matches('0').trim_end_matches('.')
        } else {
            mantissa
        };
        let (sign, digits) = match exponent.strip_prefix('-') {
            Some(digits) => ('-', digits),
            None => ('+', exponent),
        };
        format!("{mantissa}e{sign}{digits:0>2}")
    }

    fn general(&self, value: f64) -> String {
        let precision = self.precision.unwrap_or(6).max(1);
        let rounded = format!("{value:.*e}", precision - 1);
        let exponent: i32 = rounded
            .split_once('e')
            .and_then(|(_, e)| e.parse().ok())
            .unwrap_or(0);
        if exponent < -4 || exponent >= precision as i32 {
            return self.exponent(value, precision - 1, !self.alternate);
        }
        let text = format!("{value:.*}", (precision as i32 - 1 - exponent) as usize);
        if self.alternate || !text.contains('.') {
            return text;
        }
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }

    fn signed(&self, negative: bool, digits: &str) -> String {
        let sign = match (negative, self.plus, self.space) {
            (true, ..) => "-",
            (_, true, _) => "+",
            (_, _, true) => " ",
            _ => "",
        };
        if self.zero && !self.left && sign.len() + digits.len() < self.width {
            return format!("{sign}{digits:0>width$}", width = self.width - sign.len());
        }
        self.padded(format!("{sign}{digits}"), false)
    }

    fn padded(&self, text: String, numeric: bool) -> String {
        let text = match self.precision {
            Some(limit) if self.conversion == 's' => text.chars().take(limit).collect(),
            _ => text,
        };
        match (self.left, self.zero && numeric) {
            (true, _) => format!("{text:<width$}", width = self.width),
            (_, true) => format!("{text:0>width$}", width = self.width),
            _ => format!("{text:>width$}", width = self.width),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_print_as_in_c() {
        let check = |format: &str, value: u64, expected: &str| {
            let spec = Spec::parse(format);
            assert_eq!(spec.length, format.len(), "{format}");
            assert_eq!(spec.number(value), expected, "{format}");
        };
        check("d", (-5i32 as u32).into(), "-5");
        check("5d", 42, "   42");
        check("-5d", 42, "42   ");
        check("05d", (-42i32 as u32).into(), "-0042");
        check("+d", 7, "+7");
        check("lld", (-7i64) as u64, "-7");
        check("08x", 0xbeef, "0000beef");
        check("#x", 0xbeef, "0xbeef");
        check("f", 1.5f64.to_bits(), "1.500000");
        check(".2f", (-1.0f64).to_bits(), "-1.00");
        check("e", 12345.678f64.to_bits(), "1.234568e+04");
        check("g", 0.0001f64.to_bits(), "0.0001");
        check("g", 1e-5f64.to_bits(), "1e-05");
        check("g", 1_234_567.0f64.to_bits(), "1.23457e+06");
        check("g", 100.0f64.to_bits(), "100");
        check("c", 65, "A");
        check("f", f64::NEG_INFINITY.to_bits(), "-inf");
    }
}
