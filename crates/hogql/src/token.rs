//! The lexer.

use crate::error::{Checked, Fault, Reason, Span};
use crate::limits::{TEXT_BYTES_MAX, TOKENS_MAX};

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token {
    /// A keyword or an unquoted name.
    Word(String),
    /// A name in backticks or double quotes: never a keyword.
    Quoted(String),
    String(String),
    Int(u64),
    Float(f64),
    Symbol(&'static str),
    End,
}

#[derive(Clone, Debug)]
pub(crate) struct SpannedToken {
    pub token: Token,
    pub span: Span,
}

/// Longest first, for longest match.
const SYMBOLS: &[&str] = &[
    "=~*", "!~*", "->", "::", "??", "||", "==", "=~", "!=", "!~", "<>", "<=", ">=", "(", ")", "[",
    "]", "{", "}", ",", ";", ".", "+", "-", "*", "/", "%", "=", "<", ">", "?", ":",
];

pub(crate) fn tokenize(text: &str) -> Checked<Vec<SpannedToken>> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(Fault::too_large("bytes", TEXT_BYTES_MAX, Span::default()));
    }
    let mut lexer = Lexer { text, at: 0, tokens: Vec::new() };
    while lexer.next()? {
        if lexer.tokens.len() > TOKENS_MAX {
            return Err(Fault::too_large("tokens", TOKENS_MAX, Span::new(lexer.at, lexer.at)));
        }
    }
    Ok(lexer.tokens)
}

/// Identifiers and string literals up to the first lexical error.
pub(crate) fn identifiers_and_strings(text: &str) -> Vec<String> {
    if text.len() > TEXT_BYTES_MAX {
        return Vec::new();
    }
    let mut lexer = Lexer { text, at: 0, tokens: Vec::new() };
    while lexer.tokens.len() <= TOKENS_MAX && lexer.next().unwrap_or(false) {}
    let word = |spanned: SpannedToken| match spanned.token {
        Token::Word(word) | Token::Quoted(word) | Token::String(word) => Some(word),
        Token::Int(_) | Token::Float(_) | Token::Symbol(_) | Token::End => None,
    };
    lexer.tokens.into_iter().filter_map(word).collect()
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    tokens: Vec<SpannedToken>,
}

impl Lexer<'_> {
    /// Reads one token; false at the end.
    fn next(&mut self) -> Checked<bool> {
        self.skip_blanks()?;
        let start = self.at;
        let Some(first) = self.rest().chars().next() else {
            self.push(Token::End, start);
            return Ok(false);
        };
        let token = match first {
            '\'' => Token::String(self.quoted('\'', "unterminated text")?),
            '`' => self.name('`')?,
            '"' => self.name('"')?,
            '0'..='9' => self.number()?,
            '.' if self.starts_fraction() => self.number()?,
            _ if is_word_start(first) => {
                let len = self.rest().find(|c| !is_word(c)).unwrap_or(self.rest().len());
                self.at += len;
                Token::Word(self.text[start..self.at].to_owned())
            }
            _ => self.symbol()?,
        };
        self.push(token, start);
        Ok(true)
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn push(&mut self, token: Token, start: usize) {
        self.tokens.push(SpannedToken { token, span: Span::new(start, self.at) });
    }

    fn fault(&self, message: &'static str, start: usize) -> Fault {
        Fault::new(Reason::Token(message), Span::new(start, self.at))
    }

    fn skip_blanks(&mut self) -> Checked<()> {
        loop {
            let rest = self.rest();
            let blank = rest.len() - rest.trim_start().len();
            if blank > 0 {
                self.at += blank;
            } else if rest.starts_with("--") {
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else if let Some(inside) = rest.strip_prefix("/*") {
                let Some(end) = inside.find("*/") else {
                    return Err(self.fault("unterminated comment", self.at));
                };
                self.at += end + 4;
            } else {
                return Ok(());
            }
        }
    }

    fn name(&mut self, quote: char) -> Checked<Token> {
        let start = self.at;
        let name = self.quoted(quote, "unterminated name")?;
        if name.is_empty() {
            return Err(self.fault("a name cannot be empty", start));
        }
        Ok(Token::Quoted(name))
    }

    /// Reads a quoted literal with ClickHouse's escapes. An unknown escape keeps its backslash, so that
    /// `'\d+'` works as a regex.
    fn quoted(&mut self, quote: char, unterminated: &'static str) -> Checked<String> {
        let start = self.at;
        let mut chars = self.text[start..].char_indices().skip(1).peekable();
        let mut out = String::new();
        while let Some((offset, one)) = chars.next() {
            if one == quote {
                if chars.next_if(|(_, next)| *next == quote).is_some() {
                    out.push(quote);
                    continue;
                }
                self.at = start + offset + quote.len_utf8();
                return Ok(out);
            }
            if one != '\\' {
                out.push(one);
                continue;
            }
            let Some((_, escaped)) = chars.next() else { break };
            match escaped {
                'n' => out.push('\n'),
                't' => out.push('\t'),
                'r' => out.push('\r'),
                '0' => out.push('\0'),
                'b' => out.push('\u{8}'),
                'f' => out.push('\u{c}'),
                'a' => out.push('\u{7}'),
                'v' => out.push('\u{b}'),
                '\\' | '\'' | '"' | '`' => out.push(escaped),
                other => out.extend(['\\', other]),
            }
        }
        self.at = self.text.len();
        Err(self.fault(unterminated, start))
    }

    /// After an operand, `.1` is element access; elsewhere it is the number 0.1.
    fn starts_fraction(&self) -> bool {
        let digit = self.rest()[1..].starts_with(|c: char| c.is_ascii_digit());
        let has_elements = self.tokens.last().is_some_and(|last| match &last.token {
            Token::Word(_) | Token::Quoted(_) | Token::Int(_) | Token::String(_) => true,
            Token::Symbol(symbol) => matches!(*symbol, ")" | "]" | "}"),
            Token::Float(_) | Token::End => false,
        });
        digit && !has_elements
    }

    fn number(&mut self) -> Checked<Token> {
        let start = self.at;
        let is_index = matches!(self.tokens.last(), Some(last) if last.token == Token::Symbol("."));
        if !is_index && (self.rest().starts_with("0x") || self.rest().starts_with("0X")) {
            self.at += 2;
            let digits = self.take(|c| c.is_ascii_hexdigit());
            let value = u64::from_str_radix(&digits, 16)
                .map_err(|_| self.fault("a hexadecimal number needs 1 to 16 digits", start))?;
            return self.end_of_number(Token::Int(value), start);
        }
        self.take(|c| c.is_ascii_digit());
        let mut whole = true;
        if !is_index {
            if self.rest().starts_with('.') {
                self.at += 1;
                self.take(|c| c.is_ascii_digit());
                whole = false;
            }
            if self.rest().starts_with(['e', 'E']) {
                let sign = usize::from(self.rest()[1..].starts_with(['+', '-']));
                if self.rest()[1 + sign..].starts_with(|c: char| c.is_ascii_digit()) {
                    self.at += 1 + sign;
                    self.take(|c| c.is_ascii_digit());
                    whole = false;
                }
            }
        }
        let literal = &self.text[start..self.at];
        let token = match literal.parse() {
            Ok(value) if whole => Token::Int(value),
            _ if is_index => return Err(self.fault("an index this large has no element", start)),
            _ => Token::Float(literal.parse().map_err(|_| self.fault("a bad number", start))?),
        };
        self.end_of_number(token, start)
    }

    fn end_of_number(&self, token: Token, start: usize) -> Checked<Token> {
        if self.rest().starts_with(is_word) {
            return Err(self.fault("a name cannot begin with a digit", start));
        }
        Ok(token)
    }

    fn take(&mut self, wanted: impl Fn(char) -> bool) -> String {
        let len = self.rest().find(|c| !wanted(c)).unwrap_or(self.rest().len());
        let taken = self.rest()[..len].to_owned();
        self.at += len;
        taken
    }

    fn symbol(&mut self) -> Checked<Token> {
        let matching = SYMBOLS.iter().find(|symbol| self.rest().starts_with(**symbol));
        let Some(symbol) = matching else {
            let end = self.at + self.rest().chars().next().map_or(0, char::len_utf8);
            let span = Span::new(self.at, end);
            return Err(Fault::new(Reason::Token("a character that means nothing here"), span));
        };
        self.at += symbol.len();
        Ok(Token::Symbol(symbol))
    }
}

pub(crate) fn is_word_start(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_' || c == '$'
}

pub(crate) fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '$'
}
