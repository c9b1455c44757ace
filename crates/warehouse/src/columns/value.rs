//! JSON values as the warehouse stores them: a tag and the string that reproduces the value.

/// A property's value. Numbers keep their literal, so `1.0` never becomes `1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Value<'a> {
    Null,
    Bool(bool),
    /// The JSON literal.
    Number(&'a str),
    /// A string, without quotes and escapes.
    Text(&'a str),
    /// An object or an array, as JSON.
    Json(&'a str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Tag {
    Null,
    False,
    True,
    Number,
    Text,
    Json,
}

impl Tag {
    pub fn from_u8(tag: u8) -> Option<Self> {
        const ALL: [Tag; 6] = [Tag::Null, Tag::False, Tag::True, Tag::Number, Tag::Text, Tag::Json];
        ALL.get(usize::from(tag)).copied()
    }
}

impl<'a> Value<'a> {
    pub fn as_f64(self) -> Option<f64> {
        match self {
            Value::Number(literal) => literal.parse().ok(),
            _ => None,
        }
    }

    /// Appends the value as JSON.
    pub fn write_json(self, out: &mut String) {
        match self {
            Value::Null => out.push_str("null"),
            Value::Bool(true) => out.push_str("true"),
            Value::Bool(false) => out.push_str("false"),
            Value::Number(json) | Value::Json(json) => out.push_str(json),
            Value::Text(text) => write_json_string(text, out),
        }
    }

    pub fn to_json(self) -> String {
        let mut out = String::new();
        self.write_json(&mut out);
        out
    }

    pub(crate) fn tag(self) -> Tag {
        match self {
            Value::Null => Tag::Null,
            Value::Bool(false) => Tag::False,
            Value::Bool(true) => Tag::True,
            Value::Number(_) => Tag::Number,
            Value::Text(_) => Tag::Text,
            Value::Json(_) => Tag::Json,
        }
    }

    pub(crate) fn text(self) -> &'a str {
        match self {
            Value::Null | Value::Bool(_) => "",
            Value::Number(text) | Value::Text(text) | Value::Json(text) => text,
        }
    }

    pub(crate) fn new(tag: Tag, text: &'a str) -> Value<'a> {
        match tag {
            Tag::Null => Value::Null,
            Tag::False => Value::Bool(false),
            Tag::True => Value::Bool(true),
            Tag::Number => Value::Number(text),
            Tag::Text => Value::Text(text),
            Tag::Json => Value::Json(text),
        }
    }
}

pub(crate) fn write_json_string(text: &str, out: &mut String) {
    out.push('"');
    let mut plain = 0;
    for (at, byte) in text.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0..=0x1f => "",
            _ => continue,
        };
        out.push_str(&text[plain..at]);
        match escape {
            "" => out.push_str(&format!("\\u{byte:04x}")),
            escape => out.push_str(escape),
        }
        plain = at + 1;
    }
    out.push_str(&text[plain..]);
    out.push('"');
}
