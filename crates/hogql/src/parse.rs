//! The recursive-descent parser.

mod desugar;
mod expr;
mod from;
mod group;
mod primary;
mod select;
mod tags;

pub(crate) use expr::Level;

use crate::ast::{Expr, Name, Query, TypeName};
use crate::error::{Checked, Fault, Reason, Result, Span};
use crate::limits::{LIST_MAX, NESTING_MAX};
use crate::token::{SpannedToken, Token, tokenize};

/// Reserved words: an alias without `AS` and a table must be quoted to have such a name.
pub(crate) const RESERVED: &[&str] = &[
    "and",
    "array",
    "as",
    "asc",
    "between",
    "by",
    "case",
    "cast",
    "cross",
    "desc",
    "distinct",
    "else",
    "end",
    "except",
    "false",
    "final",
    "from",
    "full",
    "group",
    "having",
    "ilike",
    "in",
    "inf",
    "inner",
    "intersect",
    "interval",
    "is",
    "join",
    "left",
    "like",
    "limit",
    "nan",
    "not",
    "null",
    "offset",
    "on",
    "or",
    "order",
    "over",
    "prewhere",
    "qualify",
    "right",
    "sample",
    "select",
    "settings",
    "then",
    "true",
    "union",
    "using",
    "when",
    "where",
    "window",
    "with",
];

pub(crate) fn is_reserved(word: &str) -> bool {
    RESERVED.binary_search(&word.to_ascii_lowercase().as_str()).is_ok()
}

/// Reserved words that are no field either: where an expression is expected, they are a mistake.
const NEVER_FIELDS: &[&str] = &[
    "and",
    "as",
    "between",
    "by",
    "case",
    "distinct",
    "else",
    "except",
    "from",
    "having",
    "ilike",
    "in",
    "intersect",
    "is",
    "join",
    "like",
    "limit",
    "not",
    "on",
    "or",
    "select",
    "then",
    "union",
    "using",
    "when",
    "where",
    "with",
];

pub(crate) fn is_never_field(word: &str) -> bool {
    NEVER_FIELDS.binary_search(&word.to_ascii_lowercase().as_str()).is_ok()
}

/// Parses a statement.
pub fn parse(text: &str) -> Result<Query> {
    Parser::run(text, |parser| {
        let query = parser.query()?;
        while parser.eat(";") {}
        Ok(query)
    })
}

/// Parses an expression, as in filters, breakdowns and event lists.
pub fn parse_expr(text: &str) -> Result<Expr> {
    Parser::run(text, Parser::expr)
}

/// Parses a type name, as in the last argument of `JSONExtract`.
pub(crate) fn parse_type(text: &str) -> Result<TypeName> {
    Parser::run(text, Parser::type_name)
}

struct Parser {
    tokens: Vec<SpannedToken>,
    at: usize,
    /// Recursion depth of the parser.
    depth: usize,
    /// Height of the tallest subtree of the current expression so far.
    height: usize,
    /// Tokens whose expressions stand twice in the tree.
    copied: usize,
}

impl Parser {
    fn run<T>(text: &str, read: impl FnOnce(&mut Self) -> Checked<T>) -> Result<T> {
        let parsed = tokenize(text).and_then(|tokens| {
            let mut parser = Self { tokens, at: 0, depth: 0, height: 0, copied: 0 };
            let parsed = read(&mut parser)?;
            match parser.token() {
                Token::End => Ok(parsed),
                _ => Err(parser.unexpected("the end of the query")),
            }
        });
        parsed.map_err(|fault| fault.in_text(text))
    }

    fn token(&self) -> &Token {
        self.peek(0)
    }

    fn peek(&self, ahead: usize) -> &Token {
        self.tokens.get(self.at + ahead).map_or(&Token::End, |spanned| &spanned.token)
    }

    fn span(&self) -> Span {
        self.tokens.get(self.at).map_or_else(Span::default, |spanned| spanned.span)
    }

    /// Span of the last consumed token.
    fn last_span(&self) -> Span {
        self.tokens[self.at.saturating_sub(1)].span
    }

    fn advance(&mut self) {
        // The last token is `End`; the parser never advances past it.
        self.at = (self.at + 1).min(self.tokens.len() - 1);
    }

    fn unexpected(&self, expected: impl Into<String>) -> Fault {
        const SHOWN_CHARS_MAX: usize = 40;
        let token = match self.token() {
            Token::Word(word) | Token::Quoted(word) => format!("'{word}'"),
            Token::String(_) => "a text".to_owned(),
            Token::Int(number) => format!("'{number}'"),
            Token::Float(number) => format!("'{number:?}'"),
            Token::Symbol(symbol) => format!("'{symbol}'"),
            Token::End => "the end of the query".to_owned(),
        };
        let token = match token.char_indices().nth(SHOWN_CHARS_MAX) {
            Some((end, _)) => format!("{}…'", &token[..end]),
            None => token,
        };
        Fault::new(Reason::Syntax { expected: expected.into(), found: token }, self.span())
    }

    fn is(&self, symbol: &str) -> bool {
        matches!(self.token(), Token::Symbol(found) if *found == symbol)
    }

    fn eat(&mut self, symbol: &str) -> bool {
        let matches = self.is(symbol);
        if matches {
            self.advance();
        }
        matches
    }

    fn expect(&mut self, symbol: &str) -> Checked<()> {
        if self.eat(symbol) { Ok(()) } else { Err(self.unexpected(format!("'{symbol}'"))) }
    }

    fn word_ahead(&self, ahead: usize, keyword: &str) -> bool {
        matches!(self.peek(ahead), Token::Word(word) if word.eq_ignore_ascii_case(keyword))
    }

    fn is_word(&self, keyword: &str) -> bool {
        self.word_ahead(0, keyword)
    }

    fn eat_word(&mut self, keyword: &str) -> bool {
        let matches = self.is_word(keyword);
        if matches {
            self.advance();
        }
        matches
    }

    /// Consumes all of these words, or none.
    fn eat_words(&mut self, keywords: &[&str]) -> bool {
        let matches =
            keywords.iter().enumerate().all(|(ahead, keyword)| self.word_ahead(ahead, keyword));
        if matches {
            keywords.iter().for_each(|_| self.advance());
        }
        matches
    }

    fn expect_word(&mut self, keyword: &str) -> Checked<()> {
        if self.eat_word(keyword) {
            Ok(())
        } else {
            Err(self.unexpected(keyword.to_ascii_uppercase()))
        }
    }

    /// Consumes a name, if the next token is one.
    fn try_name(&mut self) -> Option<Name> {
        let text = match self.token() {
            Token::Word(word) if !is_reserved(word) => word.clone(),
            Token::Quoted(name) => name.clone(),
            _ => return None,
        };
        let span = self.span();
        self.advance();
        Some(Name { text, span })
    }

    fn name(&mut self, expected: &str) -> Checked<Name> {
        self.try_name().ok_or_else(|| self.unexpected(expected))
    }

    /// A name after `AS`: every word is one, and so is a string.
    fn alias_name(&mut self, expected: &str) -> Checked<Name> {
        match self.token() {
            Token::Word(text) | Token::Quoted(text) => {
                let name = Name::new(text.clone(), self.span());
                self.advance();
                Ok(name)
            }
            Token::String(text) if !text.is_empty() => {
                let name = Name::new(text.clone(), self.span());
                self.advance();
                Ok(name)
            }
            _ => Err(self.unexpected(expected)),
        }
    }

    /// A name where an expression or a table is expected: also a reserved word that is no mistake there.
    fn field_name(&mut self, expected: &str) -> Checked<Name> {
        match self.token() {
            Token::Word(word) if !is_never_field(word) => self.alias_name(expected),
            Token::Quoted(_) => self.alias_name(expected),
            _ => Err(self.unexpected(expected)),
        }
    }

    /// Names in parentheses.
    fn names(&mut self, expected: &str) -> Checked<Vec<Name>> {
        self.expect("(")?;
        let names = self.list(|parser| parser.alias_name(expected))?;
        self.expect(")")?;
        Ok(names)
    }

    /// After a dot, every word is a name.
    fn member(&mut self) -> Checked<Name> {
        if let Token::Word(word) = self.token() {
            let name = Name::new(word.clone(), self.span());
            self.advance();
            return Ok(name);
        }
        self.name("a name")
    }

    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Checked<T>) -> Checked<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.eat(",") {
            self.push(&mut items, &mut item)?;
        }
        Ok(items)
    }

    fn push<T>(
        &mut self,
        items: &mut Vec<T>,
        item: impl FnOnce(&mut Self) -> Checked<T>,
    ) -> Checked<()> {
        if items.len() >= LIST_MAX {
            return Err(Fault::too_large("items in a list", LIST_MAX, self.span()));
        }
        items.push(item(self)?);
        Ok(())
    }

    /// As [`Self::list`], with a comma allowed after the last item.
    fn clause<T>(&mut self, mut item: impl FnMut(&mut Self) -> Checked<T>) -> Checked<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.eat(",") {
            if self.ends_clause() {
                break;
            }
            self.push(&mut items, &mut item)?;
        }
        Ok(items)
    }

    /// Whether a list cannot go on here.
    fn ends_clause(&self) -> bool {
        const NEXT: [&str; 8] =
            ["from", "prewhere", "where", "having", "qualify", "limit", "union", "settings"];
        match self.token() {
            Token::End | Token::Symbol(")" | "]" | ";") => true,
            Token::Word(_) => {
                NEXT.iter().any(|word| self.is_word(word))
                    || ["group", "order"].iter().any(|word| self.is_word(word))
                        && self.word_ahead(1, "by")
            }
            _ => false,
        }
    }

    /// Comma-separated expressions up to a closing symbol, possibly none.
    fn exprs_until(&mut self, close: &str) -> Checked<Vec<Expr>> {
        if self.eat(close) {
            return Ok(Vec::new());
        }
        let items = self.clause(Self::aliased)?;
        if self.eat(close) { Ok(items) } else { Err(self.unexpected(format!("',' or '{close}'"))) }
    }

    /// Parses one level deeper and tracks the height of the parsed tree.
    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Checked<T>) -> Checked<T> {
        if self.depth >= NESTING_MAX {
            return Err(self.too_deep());
        }
        self.depth += 1;
        let before = std::mem::take(&mut self.height);
        let parsed = read(self)?;
        self.height = self.height.max(before);
        self.depth -= 1;
        Ok(parsed)
    }

    /// Grows the height by one: the parsed tree becomes a child.
    fn grow(&mut self) -> Checked<()> {
        self.height += 1;
        if self.height > NESTING_MAX { Err(self.too_deep()) } else { Ok(()) }
    }

    fn too_deep(&self) -> Fault {
        Fault::too_large("levels of nesting", NESTING_MAX, self.span())
    }
}
