//! Expressions over sizes: how scalars and the grid follow from the shapes of a launch's tensors.
//!
//! ```text
//! cdiv(rows, 4)      min(cdiv(m, 128) * cdiv(n, 256), sms)      x.stride(0)      x.shape[1]
//! ```

use std::fmt;

/// A number that follows from a launch's tensors and scalars.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    /// A constant.
    Number(i64),
    /// A named size, or an integer that the caller passes.
    Name(String),
    /// `x.shape[1]`: an extent of the tensor passed for a parameter.
    Extent(String, usize),
    /// `x.stride(0)`: elements from one index to the next.
    Stride(String, usize),
    /// `sms`: multiprocessors of the context's device.
    Multiprocessors,
    /// Two numbers combined.
    Pair(Operator, Box<[Expression; 2]>),
}

/// How two numbers are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `a + b`
    Add,
    /// `a - b`
    Subtract,
    /// `a * b`
    Multiply,
    /// `a / b`, towards zero.
    Divide,
    /// `a % b`
    Remainder,
    /// `cdiv(a, b)`: the quotient rounded up, of numbers that are not negative.
    CeilDivide,
    /// `min(a, b)`
    Min,
    /// `max(a, b)`
    Max,
}

/// How two numbers are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `a == b`
    Equal,
    /// `a <= b`
    AtMost,
    /// `a < b`
    Below,
    /// `a >= b`
    AtLeast,
    /// `a > b`
    Above,
}

/// What every launch must keep: `cols <= 4096`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The left side.
    pub left: Expression,
    /// How both are compared.
    pub comparison: Comparison,
    /// The right side.
    pub right: Expression,
}

/// The name of the multiprocessors' number.
pub(crate) const MULTIPROCESSORS: &str = "sms";

impl Operator {
    /// Combines two numbers; none where the result has more than 64 bits or is not defined.
    pub fn apply(self, a: i64, b: i64) -> Option<i64> {
        match self {
            Operator::Add => a.checked_add(b),
            Operator::Subtract => a.checked_sub(b),
            Operator::Multiply => a.checked_mul(b),
            Operator::Divide => a.checked_div(b),
            Operator::Remainder => a.checked_rem(b),
            Operator::CeilDivide if a >= 0 && b > 0 => Some(a / b + i64::from(a % b != 0)),
            Operator::CeilDivide => None,
            Operator::Min => Some(a.min(b)),
            Operator::Max => Some(a.max(b)),
        }
    }

    /// Its name as a function, for those that are written so.
    pub fn function(self) -> Option<&'static str> {
        match self {
            Operator::CeilDivide => Some("cdiv"),
            Operator::Min => Some("min"),
            Operator::Max => Some("max"),
            _ => None,
        }
    }

    fn symbol(self) -> (&'static str, u8) {
        match self {
            Operator::Add => ("+", 1),
            Operator::Subtract => ("-", 1),
            Operator::Multiply => ("*", 2),
            Operator::Divide => ("/", 2),
            Operator::Remainder => ("%", 2),
            Operator::CeilDivide | Operator::Min | Operator::Max => (",", 3),
        }
    }
}

impl Comparison {
    /// Whether it holds.
    pub fn holds(self, a: i64, b: i64) -> bool {
        match self {
            Comparison::Equal => a == b,
            Comparison::AtMost => a <= b,
            Comparison::Below => a < b,
            Comparison::AtLeast => a >= b,
            Comparison::Above => a > b,
        }
    }

    /// As it is written.
    pub fn symbol(self) -> &'static str {
        match self {
            Comparison::Equal => "==",
            Comparison::AtMost => "<=",
            Comparison::Below => "<",
            Comparison::AtLeast => ">=",
            Comparison::Above => ">",
        }
    }

    /// In words: `at most`.
    pub fn words(self) -> &'static str {
        match self {
            Comparison::Equal => "equal to",
            Comparison::AtMost => "at most",
            Comparison::Below => "below",
            Comparison::AtLeast => "at least",
            Comparison::Above => "above",
        }
    }
}

impl Expression {
    /// Reads a whole text.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(text: &str) -> Result<Expression, String> {
        let mut reader = Reader { text, rest: text };
        let expression = reader.sum(0)?;
        reader.end()?;
        Ok(expression)
    }

    /// The number, with what `value_of` gives for whatever has no parts; none where it has more than 64 bits or divides by 0.
    pub fn evaluate(&self, value_of: &impl Fn(&Expression) -> Option<i64>) -> Option<i64> {
        match self {
            Expression::Number(number) => Some(*number),
            Expression::Pair(operator, pair) => {
                let [a, b] = &**pair;
                operator.apply(a.evaluate(value_of)?, b.evaluate(value_of)?)
            }
            leaf => value_of(leaf),
        }
    }

    /// Calls `see` for everything that has no parts.
    pub fn for_each_leaf<'e>(&'e self, see: &mut impl FnMut(&'e Expression)) {
        match self {
            Expression::Pair(_, pair) => pair.iter().for_each(|part| part.for_each_leaf(see)),
            leaf => see(leaf),
        }
    }
}

impl Condition {
    /// Reads a whole text.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(text: &str) -> Result<Condition, String> {
        let mut reader = Reader { text, rest: text };
        let left = reader.sum(0)?;
        // Longer symbols first.
        let found = [
            Comparison::Equal,
            Comparison::AtMost,
            Comparison::AtLeast,
            Comparison::Below,
            Comparison::Above,
        ];
        let comparison = found.into_iter().find(|c| reader.take(c.symbol()));
        let comparison = comparison.ok_or_else(|| reader.wrong("a comparison"))?;
        let right = reader.sum(0)?;
        reader.end()?;
        Ok(Condition {
            left,
            comparison,
            right,
        })
    }
}

/// Expressions inside of each other.
const MOST_DEPTH: usize = 32;

struct Reader<'t> {
    text: &'t str,
    rest: &'t str,
}

impl<'t> Reader<'t> {
    fn wrong(&self, expected: &str) -> String {
        let at = self.text.len() - self.rest.len();
        format!("`{}`: expected {expected} at byte {at}", self.text)
    }

    fn take(&mut self, symbol: &str) -> bool {
        self.rest = self.rest.trim_start();
        let after = self.rest.strip_prefix(symbol);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    fn expect(&mut self, symbol: &str) -> Result<(), String> {
        if self.take(symbol) {
            return Ok(());
        }
        Err(self.wrong(&format!("`{symbol}`")))
    }

    fn end(&mut self) -> Result<(), String> {
        self.rest = self.rest.trim_start();
        if self.rest.is_empty() {
            return Ok(());
        }
        Err(self.wrong("the end"))
    }

    fn operator(&mut self, operators: &[Operator]) -> Option<Operator> {
        let mut all = operators.iter().copied();
        all.find(|operator| self.take(operator.symbol().0))
    }

    fn sum(&mut self, depth: usize) -> Result<Expression, String> {
        let mut left = self.product(depth)?;
        while let Some(operator) = self.operator(&[Operator::Add, Operator::Subtract]) {
            let right = self.product(depth)?;
            left = Expression::Pair(operator, Box::new([left, right]));
        }
        Ok(left)
    }

    fn product(&mut self, depth: usize) -> Result<Expression, String> {
        let operators = [Operator::Multiply, Operator::Divide, Operator::Remainder];
        let mut left = self.leaf(depth)?;
        while let Some(operator) = self.operator(&operators) {
            let right = self.leaf(depth)?;
            left = Expression::Pair(operator, Box::new([left, right]));
        }
        Ok(left)
    }

    fn leaf(&mut self, depth: usize) -> Result<Expression, String> {
        if depth > MOST_DEPTH {
            return Err(self.wrong("fewer parentheses"));
        }
        if self.take("(") {
            let inner = self.sum(depth + 1)?;
            self.expect(")")?;
            return Ok(inner);
        }
        if self.take("-") {
            let digits = self.word();
            let number = format!("-{digits}").parse().map(Expression::Number);
            return number.map_err(|_| self.wrong("a number of 63 bits behind `-`"));
        }
        let word = self.word();
        match word {
            "" => Err(self.wrong("a number or a name")),
            "cdiv" => self.call(Operator::CeilDivide, depth),
            "min" => self.call(Operator::Min, depth),
            "max" => self.call(Operator::Max, depth),
            MULTIPROCESSORS => Ok(Expression::Multiprocessors),
            digits if digits.starts_with(|c: char| c.is_ascii_digit()) => digits
                .parse()
                .map(Expression::Number)
                .map_err(|_| self.wrong("a number of 63 bits")),
            name => self.of_tensor(name),
        }
    }

    fn word(&mut self) -> &'t str {
        self.rest = self.rest.trim_start();
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    fn call(&mut self, operator: Operator, depth: usize) -> Result<Expression, String> {
        self.expect("(")?;
        let a = self.sum(depth + 1)?;
        self.expect(",")?;
        let b = self.sum(depth + 1)?;
        self.expect(")")?;
        Ok(Expression::Pair(operator, Box::new([a, b])))
    }

    /// `x`, `x.shape[0]` or `x.stride(0)`.
    fn of_tensor(&mut self, name: &str) -> Result<Expression, String> {
        if !self.take(".") {
            return Ok(Expression::Name(name.to_owned()));
        }
        let (property, open, close) = match self.word() {
            "shape" => (
                Expression::Extent as fn(String, usize) -> Expression,
                "[",
                "]",
            ),
            "stride" => (Expression::Stride as _, "(", ")"),
            _ => return Err(self.wrong("`shape[0]` or `stride(0)`")),
        };
        self.expect(open)?;
        let dimension = self.word();
        let dimension = dimension.parse().map_err(|_| self.wrong("a dimension"))?;
        self.expect(close)?;
        Ok(property(name.to_owned(), dimension))
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expression::Number(number) => write!(f, "{number}"),
            Expression::Name(name) => f.write_str(name),
            Expression::Extent(tensor, dimension) => write!(f, "{tensor}.shape[{dimension}]"),
            Expression::Stride(tensor, dimension) => write!(f, "{tensor}.stride({dimension})"),
            Expression::Multiprocessors => f.write_str(MULTIPROCESSORS),
            Expression::Pair(operator, pair) => {
                let [a, b] = &**pair;
                if let Some(function) = operator.function() {
                    return write!(f, "{function}({a}, {b})");
                }
                let (symbol, binds) = operator.symbol();
                let rank = |part: &Expression| match part {
                    Expression::Pair(inner, _) => inner.symbol().1,
                    _ => 3,
                };
                // Operators associate to the left.
                let part = |f: &mut fmt::Formatter<'_>, part: &Expression, is_bare: bool| {
                    if is_bare {
                        write!(f, "{part}")
                    } else {
                        write!(f, "({part})")
                    }
                };
                part(f, a, rank(a) >= binds)?;
                write!(f, " {symbol} ")?;
                part(f, b, rank(b) > binds)
            }
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} {}",
            self.left,
            self.comparison.symbol(),
            self.right
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<i64>) {
        let expression = Expression::read(text).unwrap();
        assert_eq!(expression.to_string(), text);
        let value_of = |leaf: &Expression| match leaf {
            Expression::Name(name) if name == "rows" => Some(9),
            Expression::Extent(_, dimension) => Some(100 + *dimension as i64),
            Expression::Stride(_, dimension) => Some(200 + *dimension as i64),
            Expression::Multiprocessors => Some(132),
            _ => None,
        };
        assert_eq!(expression.evaluate(&value_of), expected, "{text}");
    }

    #[test]
    fn expressions_read_back_and_have_values() {
        check("cdiv(rows, 4)", Some(3));
        check("min(cdiv(x.shape[1], 10) * rows, sms)", Some(99));
        check("rows - (3 - 1)", Some(7));
        check("rows - 3 - 1", Some(5));
        check("(rows + 1) * 2 % 7", Some(6));
        check("x.stride(0) / 2", Some(100));
        check("max(rows, 10)", Some(10));
        check("unknown + 1", None);
        check("rows / (rows - 9)", None);
        check("cdiv(rows, 0)", None);
        check("9223372036854775807 + rows", None);
    }

    #[test]
    fn conditions_read_back() {
        for text in ["cols <= 4096", "x.stride(0) == out.stride(0)", "k % 8 > 0"] {
            assert_eq!(Condition::read(text).unwrap().to_string(), text);
        }
        assert!(
            Condition::read("cols")
                .unwrap_err()
                .contains("a comparison")
        );
    }

    #[test]
    fn mistakes_say_where_they_are() {
        for (text, said) in [
            ("", "a number or a name at byte 0"),
            ("cdiv(rows)", "`,` at byte 9"),
            ("x.size(0)", "`shape[0]` or `stride(0)`"),
            ("x.shape[y]", "a dimension"),
            ("rows rows", "the end at byte 5"),
            ("99999999999999999999", "63 bits"),
        ] {
            let error = Expression::read(text).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
        let deep = format!("{}1{}", "(".repeat(1 << 16), ")".repeat(1 << 16));
        assert!(
            Expression::read(&deep)
                .unwrap_err()
                .contains("fewer parentheses")
        );
    }
}
