//! Opcodes as text.

/// The opcode of an instruction in the making: pieces joined by dots.
pub(crate) struct Opcode<'p> {
    out: &'p mut String,
    is_first: bool,
}

impl<'p> Opcode<'p> {
    /// One at the end of a text.
    pub(super) fn new(out: &'p mut String) -> Self {
        Self {
            out,
            is_first: true,
        }
    }

    pub(crate) fn piece(&mut self, text: &str) {
        if !self.is_first {
            self.out.push('.');
        }
        self.is_first = false;
        self.out.push_str(text);
    }

    pub(crate) fn shape(&mut self, m: u16, n: u16, k: u16) {
        self.piece("m");
        push_decimal(self.out, m.into());
        self.out.push('n');
        push_decimal(self.out, n.into());
        self.out.push('k');
        push_decimal(self.out, k.into());
    }
}

/// Decimal digits without the machinery of `fmt`, which is most of the time of printing a kernel otherwise.
pub(super) fn push_decimal(out: &mut String, mut value: u64) {
    let mut digits = [b'0'; 20];
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.push_str(std::str::from_utf8(&digits[start..]).expect("digits are ASCII"));
}
