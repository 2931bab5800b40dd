//! Reading JSON: the few kilobytes of a manifest, without a dependency.

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    /// Manifests hold whole numbers alone.
    Number(i64),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

/// Values inside of each other; a manifest has five.
const MOST_DEPTH: usize = 16;

impl Json {
    /// Reads a whole text, or says what is wrong at which byte.
    pub(crate) fn read(text: &str) -> Result<Json, String> {
        let mut reader = Reader { text, at: 0 };
        let value = reader.value(0)?;
        reader.skip_space();
        if reader.at < text.len() {
            return Err(reader.wrong("the end of the text"));
        }
        Ok(value)
    }

    /// The field of an object.
    pub(crate) fn field(&self, name: &str) -> Option<&Json> {
        match self {
            Json::Object(fields) => fields.iter().find(|(key, _)| key == name).map(|(_, v)| v),
            _ => None,
        }
    }
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl Reader<'_> {
    fn wrong(&self, expected: &str) -> String {
        format!("byte {}: expected {expected}", self.at)
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn skip_space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches([' ', '\n', '\r', '\t']).len();
    }

    fn take(&mut self, word: &str) -> bool {
        let is_there = self.rest().starts_with(word);
        self.at += if is_there { word.len() } else { 0 };
        is_there
    }

    fn value(&mut self, depth: usize) -> Result<Json, String> {
        if depth > MOST_DEPTH {
            return Err(self.wrong("fewer values inside of each other"));
        }
        self.skip_space();
        match self.rest().bytes().next() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.list(depth),
            Some(b'"') => self.string().map(Json::Text),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ if self.take("true") => Ok(Json::Bool(true)),
            _ if self.take("false") => Ok(Json::Bool(false)),
            _ if self.take("null") => Ok(Json::Null),
            _ => Err(self.wrong("a value")),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Json, String> {
        self.at += 1;
        let mut fields: Vec<(String, Json)> = Vec::new();
        self.skip_space();
        if self.take("}") {
            return Ok(Json::Object(fields));
        }
        loop {
            self.skip_space();
            if !self.rest().starts_with('"') {
                return Err(self.wrong("the name of a field"));
            }
            let name = self.string()?;
            if fields.iter().any(|(known, _)| *known == name) {
                return Err(self.wrong(&format!("one field `{name}`, and this is the second")));
            }
            self.skip_space();
            if !self.take(":") {
                return Err(self.wrong("`:`"));
            }
            fields.push((name, self.value(depth + 1)?));
            self.skip_space();
            if self.take("}") {
                return Ok(Json::Object(fields));
            }
            if !self.take(",") {
                return Err(self.wrong("`,` or `}`"));
            }
        }
    }

    fn list(&mut self, depth: usize) -> Result<Json, String> {
        self.at += 1;
        let mut values = Vec::new();
        self.skip_space();
        if self.take("]") {
            return Ok(Json::List(values));
        }
        loop {
            values.push(self.value(depth + 1)?);
            self.skip_space();
            if self.take("]") {
                return Ok(Json::List(values));
            }
            if !self.take(",") {
                return Err(self.wrong("`,` or `]`"));
            }
        }
    }

    fn number(&mut self) -> Result<Json, String> {
        let rest = self.rest();
        let digits = rest.find(|c: char| !(c.is_ascii_digit() || "+-.eE".contains(c)));
        let digits = &rest[..digits.unwrap_or(rest.len())];
        let number = digits
            .parse()
            .map_err(|_| self.wrong("a whole number of 64 bits"))?;
        self.at += digits.len();
        Ok(Json::Number(number))
    }

    fn string(&mut self) -> Result<String, String> {
        self.at += 1;
        let mut text = String::new();
        loop {
            let Some(c) = self.rest().chars().next() else {
                return Err(self.wrong("`\"`"));
            };
            match c {
                '"' => {
                    self.at += 1;
                    return Ok(text);
                }
                '\\' => text.push(self.escape()?),
                c if c < ' ' => return Err(self.wrong("no control character in a string")),
                c => {
                    text.push(c);
                    self.at += c.len_utf8();
                }
            }
        }
    }

    /// One escaped character; pairs of surrogates do not occur in a manifest.
    fn escape(&mut self) -> Result<char, String> {
        let rest = self.rest();
        let escaped = match rest.as_bytes().get(1) {
            Some(b'n') => Some(('\n', 2)),
            Some(b't') => Some(('\t', 2)),
            Some(b'r') => Some(('\r', 2)),
            Some(b'b') => Some(('\u{8}', 2)),
            Some(b'f') => Some(('\u{c}', 2)),
            Some(&c @ (b'"' | b'\\' | b'/')) => Some((c.into(), 2)),
            Some(b'u') => {
                let code = rest
                    .get(2..6)
                    .and_then(|hex| u32::from_str_radix(hex, 16).ok());
                code.and_then(char::from_u32).map(|c| (c, 6))
            }
            _ => None,
        };
        let (c, length) = escaped.ok_or_else(|| self.wrong("an escaped character"))?;
        self.at += length;
        Ok(c)
    }
}

#[cfg(test)]
mod tests {
    use super::Json;

    #[test]
    fn values_are_read() {
        let read =
            Json::read(r#" {"a": [1, -2, true, null], "b": {"c": "x\"\u0041\n"}, "d": []} "#);
        let read = read.unwrap();
        let list = [
            Json::Number(1),
            Json::Number(-2),
            Json::Bool(true),
            Json::Null,
        ];
        assert_eq!(read.field("a"), Some(&Json::List(list.to_vec())));
        let inner = read.field("b").and_then(|b| b.field("c"));
        assert_eq!(inner, Some(&Json::Text("x\"A\n".to_owned())));
        assert_eq!(read.field("e"), None);
    }

    #[test]
    fn mistakes_say_where_they_are() {
        for (text, said) in [
            ("", "byte 0: expected a value"),
            ("[1, 2", "byte 5: expected `,` or `]`"),
            ("{\"a\" 1}", "byte 5: expected `:`"),
            ("1.5", "byte 0: expected a whole number"),
            ("[1] x", "byte 4: expected the end"),
            ("{\"a\": 1, \"a\": 2}", "one field `a`"),
            ("\"a", "byte 2: expected `\"`"),
            ("\"\\x\"", "byte 1: expected an escaped"),
            ("\"\\u00", "an escaped character"),
            ("99999999999999999999", "64 bits"),
        ] {
            let error = Json::read(text).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
        let deep = "[".repeat(1 << 16);
        assert!(Json::read(&deep).unwrap_err().contains("fewer values"));
    }
}
