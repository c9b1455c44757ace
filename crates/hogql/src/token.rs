//! The lexer.

use crate::ActionName;
use crate::error::{Checked, Fault, Reason, Span};
use crate::limits::{TEXT_BYTES_MAX, TOKENS_MAX};
use crate::parse::is_never_field;

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
    "=~*", "!~*", "->", "::", "??", "||", "==", "=~", "!=", "!~", "<>", "<=", ">=", "~*", "(", ")",
    "[", "]", "{", "}", ",", ";", ".", "+", "-", "*", "/", "%", "=", "<", ">", "?", ":", "~",
];

/// The tokens around the parts of a template string: strings, and expressions in braces.
pub(crate) const TEMPLATE_START: &str = "f'";
pub(crate) const TEMPLATE_END: &str = "'";

/// The end of a tag without children, and the start of a closing tag.
pub(crate) const TAG_END: &str = "/>";
pub(crate) const CLOSING_TAG: &str = "</";

pub(crate) fn tokenize(text: &str) -> Checked<Vec<SpannedToken>> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(Fault::too_large("bytes", TEXT_BYTES_MAX, Span::default()));
    }
    let mut lexer = Lexer::new(text);
    while lexer.next()? {
        if lexer.tokens.len() > TOKENS_MAX {
            return Err(Fault::too_large("tokens", TOKENS_MAX, Span::new(lexer.at, lexer.at)));
        }
    }
    Ok(lexer.tokens)
}

/// Tokens up to the first lexical error.
pub(crate) fn tokens_up_to_error(text: &str) -> Vec<SpannedToken> {
    if text.len() > TEXT_BYTES_MAX {
        return Vec::new();
    }
    let mut lexer = Lexer::new(text);
    while lexer.tokens.len() <= TOKENS_MAX && lexer.next().unwrap_or(false) {}
    lexer.tokens
}

/// Identifiers and string literals up to the first lexical error.
pub(crate) fn identifiers_and_strings(text: &str) -> Vec<String> {
    let word = |spanned: SpannedToken| match spanned.token {
        Token::Word(word) | Token::Quoted(word) | Token::String(word) => Some(word),
        Token::Int(_) | Token::Float(_) | Token::Symbol(_) | Token::End => None,
    };
    tokens_up_to_error(text).into_iter().filter_map(word).collect()
}

/// Names joined by dots, up to the first lexical error.
pub(crate) fn qualified_names(text: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let mut joins = false;
    for token in tokens_up_to_error(text) {
        match (token.token, names.last_mut()) {
            (Token::Word(word) | Token::Quoted(word), Some(last)) if joins => {
                last.push('.');
                last.push_str(&word);
                joins = false;
            }
            (Token::Word(word) | Token::Quoted(word), _) => names.push(word),
            (token, _) => joins = token == Token::Symbol("."),
        }
    }
    names.retain(|name| name.contains('.'));
    names
}

pub(crate) fn called_actions(text: &str) -> Vec<ActionName> {
    let named = |tokens: &[SpannedToken]| {
        let [function, open, name, close] = tokens else { return None };
        let brackets = [&open.token, &close.token] == [&Token::Symbol("("), &Token::Symbol(")")];
        let called = matches!(&function.token, Token::Word(word) | Token::Quoted(word)
            if word.eq_ignore_ascii_case("matchesAction"));
        match &name.token {
            Token::Int(id) if called && brackets => i64::try_from(*id).ok().map(ActionName::Id),
            Token::String(name) if called && brackets => Some(ActionName::Name(name.clone())),
            _ => None,
        }
    };
    tokens_up_to_error(text).windows(4).filter_map(named).collect()
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    tokens: Vec<SpannedToken>,
    /// Enclosing template strings, tags and expressions in them, innermost last.
    modes: Vec<Mode>,
}

/// How text is read where it is not the text of a statement.
#[derive(Clone, Copy, Debug)]
enum Mode {
    /// Between the quotes of a template string.
    Template,
    /// Between the name of a tag and its `>` or `/>`.
    Attributes,
    /// Between a tag and its closing tag.
    Children,
    /// An expression in braces within one of these, with so many braces of its own open.
    Braces(usize),
}

impl<'a> Lexer<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, at: 0, tokens: Vec::new(), modes: Vec::new() }
    }

    /// Reads one token, or a part of a template string or tag; false at the end.
    fn next(&mut self) -> Checked<bool> {
        match self.modes.last() {
            Some(Mode::Template) => return self.template_text().map(|()| true),
            Some(Mode::Attributes) => return self.attribute().map(|()| true),
            Some(Mode::Children) => return self.child().map(|()| true),
            Some(Mode::Braces(_)) | None => {}
        }
        self.skip_blanks()?;
        let start = self.at;
        let Some(first) = self.rest().chars().next() else {
            self.push(Token::End, start);
            return Ok(false);
        };
        if self.rest().starts_with(TEMPLATE_START) {
            self.at += TEMPLATE_START.len();
            self.push(Token::Symbol(TEMPLATE_START), start);
            self.modes.push(Mode::Template);
            return Ok(true);
        }
        if self.starts_tag() && !self.follows_operand() {
            self.tag_start();
            return Ok(true);
        }
        let token = match first {
            '\'' => Token::String(self.quoted('\'', "unterminated text")?),
            '`' => self.name('`')?,
            '"' => self.name('"')?,
            '0'..='9' => self.number()?,
            '.' if self.starts_fraction() => self.number()?,
            _ if is_word_start(first) => Token::Word(self.take(is_word)),
            _ => self.symbol()?,
        };
        match (&token, self.modes.last_mut()) {
            (Token::Symbol("}"), Some(Mode::Braces(0))) => drop(self.modes.pop()),
            (Token::Symbol("}"), Some(Mode::Braces(open))) => *open -= 1,
            (Token::Symbol("{"), Some(Mode::Braces(open))) => *open += 1,
            _ => {}
        }
        self.push(token, start);
        Ok(true)
    }

    /// Reads a template string up to its next expression or its end.
    fn template_text(&mut self) -> Checked<()> {
        let start = self.at;
        let mut chars = self.text[start..].char_indices().peekable();
        let mut out = String::new();
        while let Some((offset, one)) = chars.next() {
            match one {
                '\'' if chars.next_if(|(_, next)| *next == '\'').is_some() => out.push('\''),
                '\'' | '{' => {
                    self.at = start + offset;
                    if !out.is_empty() {
                        self.push(Token::String(out), start);
                    }
                    if one == '{' {
                        self.open_braces();
                    } else {
                        self.at += 1;
                        self.push(Token::Symbol(TEMPLATE_END), start + offset);
                        self.modes.pop();
                    }
                    return Ok(());
                }
                '\\' if chars.next_if(|(_, next)| *next == '{').is_some() => out.push('{'),
                '\\' => match chars.next() {
                    Some((_, escaped)) => push_escaped(&mut out, escaped),
                    None => break,
                },
                _ => out.push(one),
            }
        }
        self.at = self.text.len();
        Err(self.fault("unterminated text", start))
    }

    fn open_braces(&mut self) {
        self.at += 1;
        self.push(Token::Symbol("{"), self.at - 1);
        self.modes.push(Mode::Braces(0));
    }

    /// `<` directly before a name.
    fn starts_tag(&self) -> bool {
        let name = self.rest().strip_prefix('<');
        name.is_some_and(|name| name.starts_with(|first: char| first.is_ascii_alphabetic()))
    }

    /// Whether an operand has just ended, so that `<` compares it.
    fn follows_operand(&self) -> bool {
        self.tokens.last().is_some_and(|last| match &last.token {
            Token::Word(word) => !is_never_field(word),
            Token::Quoted(_) | Token::String(_) | Token::Int(_) | Token::Float(_) => true,
            Token::Symbol(symbol) => matches!(*symbol, ")" | "]" | "}" | TEMPLATE_END),
            Token::End => false,
        })
    }

    /// Reads `<` and the name of the tag.
    fn tag_start(&mut self) {
        self.at += 1;
        self.push(Token::Symbol("<"), self.at - 1);
        self.tag_name();
        self.modes.push(Mode::Attributes);
    }

    fn tag_name(&mut self) {
        let start = self.at;
        let name = self.take(is_word);
        self.push(Token::Word(name), start);
    }

    /// Reads one token of a tag's attributes, or its end.
    fn attribute(&mut self) -> Checked<()> {
        self.take(char::is_whitespace);
        let start = self.at;
        let token = match self.rest().chars().next() {
            None => return Err(self.fault("unterminated tag", start)),
            Some('{') => {
                self.open_braces();
                return Ok(());
            }
            Some(quote @ ('\'' | '"')) => Token::String(self.quoted(quote, "unterminated text")?),
            Some('=') => {
                self.at += 1;
                Token::Symbol("=")
            }
            Some('>') => {
                self.at += 1;
                self.modes.pop();
                self.modes.push(Mode::Children);
                Token::Symbol(">")
            }
            Some('/') if self.rest().starts_with(TAG_END) => {
                self.at += TAG_END.len();
                self.modes.pop();
                Token::Symbol(TAG_END)
            }
            Some(first) if is_word_start(first) => {
                Token::Word(self.take(|c| is_word(c) || c == '-'))
            }
            Some(first) => {
                self.at += first.len_utf8();
                return Err(self.fault("a character that means nothing in a tag", start));
            }
        };
        self.push(token, start);
        Ok(())
    }

    /// Reads the text up to the next expression, tag or closing tag, and the beginning of that.
    fn child(&mut self) -> Checked<()> {
        let start = self.at;
        let text = self.take(|c| !matches!(c, '{' | '<'));
        // Line breaks between tags are layout of the statement.
        let is_blank = text.contains('\n') && text.trim().is_empty();
        if !text.is_empty() && !is_blank {
            self.push(Token::String(text), start);
        }
        let start = self.at;
        if self.rest().starts_with('{') {
            self.open_braces();
        } else if self.starts_tag() {
            self.tag_start();
        } else if self.rest().starts_with(CLOSING_TAG) {
            self.at += CLOSING_TAG.len();
            self.push(Token::Symbol(CLOSING_TAG), start);
            self.tag_name();
            self.take(char::is_whitespace);
            if !self.rest().starts_with('>') {
                return Err(self.fault("unterminated tag", start));
            }
            self.at += 1;
            self.push(Token::Symbol(">"), self.at - 1);
            self.modes.pop();
        } else {
            return Err(self.fault("unterminated tag", start));
        }
        Ok(())
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
            // Files may begin with a byte-order mark.
            let is_blank = |c: char| c.is_whitespace() || c == '\u{feff}';
            let blank = rest.len() - rest.trim_start_matches(is_blank).len();
            if blank > 0 {
                self.at += blank;
            } else if rest.starts_with("--") || rest.starts_with("//") {
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
            push_escaped(&mut out, escaped);
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

fn push_escaped(out: &mut String, escaped: char) {
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

pub(crate) fn is_word_start(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_' || c == '$'
}

pub(crate) fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '$'
}
