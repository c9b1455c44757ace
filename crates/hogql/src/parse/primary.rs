//! Parses primary expressions: literals, names, calls, and member access.

use super::expr::Level;
use super::{Parser, is_never_field};
use crate::ast::{Call, Expr, ExprKind, Literal, Name, Over, TypeArg, TypeName, Unit};
use crate::error::{Checked, Fault, Span};
use crate::token::{TEMPLATE_START, Token};

/// Clause keywords, which are never the name of a function.
const CLAUSES: &[&str] = &[
    "as",
    "asc",
    "between",
    "by",
    "desc",
    "distinct",
    "else",
    "end",
    "except",
    "from",
    "group",
    "having",
    "intersect",
    "is",
    "join",
    "limit",
    "offset",
    "on",
    "order",
    "over",
    "prewhere",
    "select",
    "settings",
    "then",
    "union",
    "using",
    "when",
    "where",
    "window",
    "with",
];

impl Parser {
    pub(super) fn postfix(&mut self) -> Checked<Expr> {
        let mut base = self.primary()?;
        loop {
            let start = base.span;
            // A null member is null anyway, so `?.` is a dot.
            if self.is("?") && *self.peek(1) == Token::Symbol(".") {
                self.advance();
                if *self.peek(1) == Token::Symbol("[") {
                    self.advance();
                }
            }
            let kind = if self.eat("[") {
                self.index_or_slice(base)?
            } else if self.eat("::") {
                ExprKind::Cast(Box::new(base), self.type_name()?)
            } else if self.is(".") {
                self.advance();
                self.dotted(base)?
            } else {
                return Ok(base);
            };
            self.grow()?;
            base = Expr { kind, span: start.to(self.last_span()) };
        }
    }

    fn dotted(&mut self, base: Expr) -> Checked<ExprKind> {
        if let Token::Int(index) = *self.token() {
            self.advance();
            return Ok(ExprKind::Element(Box::new(base), index));
        }
        let name = self.member()?;
        Ok(match base.kind {
            ExprKind::Field(mut chain) => {
                chain.push(name);
                ExprKind::Field(chain)
            }
            _ => ExprKind::Member(Box::new(base), name),
        })
    }

    fn primary(&mut self) -> Checked<Expr> {
        let start = self.span();
        let kind = match self.token().clone() {
            Token::Int(value) => self.literal(Literal::Int(value)),
            Token::Float(value) => self.literal(Literal::Float(value)),
            Token::String(value) => self.literal(Literal::String(value)),
            Token::Quoted(name) => {
                self.advance();
                ExprKind::Field(vec![Name::new(name, start)])
            }
            Token::Word(word) => self.word(&word, start)?,
            Token::Symbol("(") => {
                self.advance();
                return self.parenthesis(start);
            }
            Token::Symbol("[") => {
                self.advance();
                ExprKind::Array(self.exprs_until("]")?)
            }
            Token::Symbol(TEMPLATE_START) => {
                self.advance();
                self.template(start)?
            }
            Token::Symbol("{") => {
                self.advance();
                if self.starts_object() { self.object(start)? } else { self.placeholder()? }
            }
            Token::Symbol("<") => {
                self.advance();
                self.tag(start)?
            }
            _ => return Err(self.unexpected("an expression")),
        };
        self.grow()?;
        Ok(Expr { kind, span: start.to(self.last_span()) })
    }

    pub(super) fn literal(&mut self, literal: Literal) -> ExprKind {
        self.advance();
        ExprKind::Literal(literal)
    }

    fn placeholder(&mut self) -> Checked<ExprKind> {
        let mut chain = vec![self.member()?];
        while self.eat(".") {
            self.push(&mut chain, Self::member)?;
        }
        self.expect("}")?;
        Ok(ExprKind::Placeholder(chain))
    }

    /// A subquery, a tuple, or a parenthesized expression, after its `(`.
    fn parenthesis(&mut self, start: Span) -> Checked<Expr> {
        let kind = if self.starts_query() {
            let query = self.query()?;
            self.expect(")")?;
            ExprKind::Query(Box::new(query))
        } else {
            let first = self.aliased()?;
            if self.eat(")") {
                return Ok(Expr { kind: first.kind, span: start.to(self.last_span()) });
            }
            if !self.eat(",") {
                return Err(self.unexpected("',' or ')'"));
            }
            let mut items = vec![first];
            if !self.eat(")") {
                loop {
                    self.push(&mut items, Self::aliased)?;
                    if !self.eat(",") || self.is(")") {
                        break;
                    }
                }
                if !self.eat(")") {
                    return Err(self.unexpected("',' or ')'"));
                }
            }
            ExprKind::Tuple(items)
        };
        self.grow()?;
        Ok(Expr { kind, span: start.to(self.last_span()) })
    }

    fn word(&mut self, word: &str, start: Span) -> Checked<ExprKind> {
        let lower = word.to_ascii_lowercase();
        let calls = *self.peek(1) == Token::Symbol("(");
        match lower.as_str() {
            "case" => return self.case(),
            "cast" | "try_cast" if calls => return self.cast(lower == "cast"),
            "extract" if calls && self.word_ahead(3, "from") => return self.extract(start),
            "interval" if self.starts_interval() => return self.interval(),
            "array" if *self.peek(1) == Token::Symbol("[") => {
                self.advance();
                self.advance();
                return Ok(ExprKind::Array(self.exprs_until("]")?));
            }
            "null" => return Ok(self.literal(Literal::Null)),
            "true" => return Ok(self.literal(Literal::Bool(true))),
            "false" => return Ok(self.literal(Literal::Bool(false))),
            "inf" => return Ok(self.literal(Literal::Float(f64::INFINITY))),
            "nan" => return Ok(self.literal(Literal::Float(f64::NAN))),
            "date" | "timestamp" if matches!(self.peek(1), Token::String(_)) => {
                return Ok(self.typed_literal(&lower, start));
            }
            _ => {}
        }
        if calls && CLAUSES.binary_search(&lower.as_str()).is_err() {
            self.advance();
            self.advance();
            return self.call(Name::new(word, start));
        }
        let starts_clause = matches!(lower.as_str(), "group" | "order") && self.word_ahead(1, "by");
        if starts_clause || is_never_field(&lower) {
            return Err(self.unexpected("an expression"));
        }
        self.advance();
        Ok(ExprKind::Field(vec![Name::new(word, start)]))
    }

    /// `DATE '2024-01-01'` parses as a call.
    fn typed_literal(&mut self, word: &str, start: Span) -> ExprKind {
        self.advance();
        let function = if word == "date" { "toDate" } else { "toDateTime" };
        let span = self.span();
        let args = match self.token().clone() {
            Token::String(text) => vec![Expr { kind: self.literal(Literal::String(text)), span }],
            _ => Vec::new(),
        };
        ExprKind::Call(Box::new(Call {
            name: Name::new(function, start),
            parameters: Vec::new(),
            distinct: false,
            args,
            over: None,
        }))
    }

    /// The rest of a call, after the first `(`.
    fn call(&mut self, name: Name) -> Checked<ExprKind> {
        let mut parameters = Vec::new();
        let (mut distinct, mut args) = self.args()?;
        if self.is("(") {
            if distinct {
                return Err(self.unexpected("no second list after DISTINCT"));
            }
            self.advance();
            parameters = args;
            (distinct, args) = self.args()?;
        }
        let mut name = name;
        if self.eat_words(&["within", "group"]) {
            if distinct || !parameters.is_empty() {
                let message = "WITHIN GROUP takes one list of arguments, without DISTINCT";
                return Err(Fault::invalid(message, name.span));
            }
            (name, parameters, args) = self.within_group(name, args)?;
        }
        if self.is_word("filter")
            && *self.peek(1) == Token::Symbol("(")
            && self.word_ahead(2, "where")
        {
            // `sum(x) FILTER (WHERE c)` is `sumIf(x, c)`.
            (0..3).for_each(|_| self.advance());
            args.retain(|arg| !matches!(arg.kind, ExprKind::Star(_)));
            self.push(&mut args, Self::expr)?;
            self.expect(")")?;
            name.text.push_str("If");
        }
        let over = if !self.eat_word("over") {
            None
        } else if self.is("(") {
            Some(Over::Window(self.window()?))
        } else {
            Some(Over::Named(self.name("a window")?))
        };
        Ok(ExprKind::Call(Box::new(Call { name, parameters, distinct, args, over })))
    }

    fn args(&mut self) -> Checked<(bool, Vec<Expr>)> {
        let distinct = self.is_word("distinct");
        if distinct {
            self.advance();
        }
        if self.is("*") && *self.peek(1) == Token::Symbol(")") {
            let star = Expr { kind: ExprKind::Star(None), span: self.span() };
            self.advance();
            self.advance();
            return Ok((distinct, vec![star]));
        }
        if self.starts_query() {
            let start = self.span();
            let query = ExprKind::Query(Box::new(self.query()?));
            self.expect(")")?;
            return Ok((distinct, vec![Expr { kind: query, span: start.to(self.last_span()) }]));
        }
        Ok((distinct, self.exprs_until(")")?))
    }

    /// Whether `interval` begins an interval; elsewhere it is a name.
    fn starts_interval(&self) -> bool {
        match self.peek(1) {
            Token::Int(_) | Token::Float(_) | Token::String(_) | Token::Symbol("{") => true,
            Token::Symbol("(") => true,
            Token::Symbol("-") => {
                matches!(self.peek(3), Token::Word(unit) if Unit::parse(unit).is_some())
            }
            Token::Word(word) if word.eq_ignore_ascii_case("interval") => true,
            Token::Word(word) => !super::is_reserved(word) && !word.eq_ignore_ascii_case("nulls"),
            Token::Quoted(_) => true,
            Token::Symbol(_) | Token::End => false,
        }
    }

    fn case(&mut self) -> Checked<ExprKind> {
        self.advance();
        if self.is_word("end") {
            return Err(self.unexpected("an expression"));
        }
        let operand = if self.is_word("when") { None } else { Some(Box::new(self.expr()?)) };
        let mut branches = Vec::new();
        while self.eat_word("when") {
            self.push(&mut branches, |parser| {
                let when = parser.expr()?;
                parser.expect_word("then")?;
                Ok((when, parser.expr()?))
            })?;
        }
        if branches.is_empty() {
            return Err(self.unexpected("WHEN"));
        }
        let otherwise = if self.eat_word("else") { Some(Box::new(self.expr()?)) } else { None };
        if !self.eat_word("end") {
            return Err(self.unexpected("WHEN, ELSE or END"));
        }
        Ok(ExprKind::Case { operand, branches, otherwise })
    }

    /// `CAST(x AS T)` or `CAST(x, 'T')`; `strict` tells it from `TRY_CAST`.
    fn cast(&mut self, strict: bool) -> Checked<ExprKind> {
        self.advance();
        self.advance();
        let expr = Box::new(self.expr()?);
        let to = if self.eat(",") {
            let Token::String(text) = self.token().clone() else {
                return Err(self.unexpected("the name of a type"));
            };
            let Ok(to) = super::parse_type(&text) else {
                return Err(Fault::invalid(format!("Unknown type '{text}'"), self.span()));
            };
            self.advance();
            to
        } else {
            self.expect_word("as")?;
            self.type_name()?
        };
        self.expect(")")?;
        Ok(if strict { ExprKind::Cast(expr, to) } else { ExprKind::TryCast(expr, to) })
    }

    pub(super) fn type_name(&mut self) -> Checked<TypeName> {
        self.nested(|parser| {
            let name = match parser.token() {
                // `Array(String)`: `array` is reserved elsewhere, but names a type here.
                Token::Word(word) => Name::new(word.clone(), parser.span()),
                _ => return Err(parser.unexpected("a type")),
            };
            parser.advance();
            let mut args = Vec::new();
            if parser.eat("(") {
                args = parser.list(Self::type_arg)?;
                parser.expect(")")?;
            }
            parser.grow()?;
            let mut to = TypeName { name, args };
            // `String[]` is `Array(String)`.
            while parser.is("[") && *parser.peek(1) == Token::Symbol("]") {
                parser.advance();
                parser.advance();
                parser.grow()?;
                let name = Name::new("Array", parser.last_span());
                to = TypeName { name, args: vec![TypeArg::Type(to)] };
            }
            Ok(to)
        })
    }

    fn type_arg(&mut self) -> Checked<TypeArg> {
        let arg = match self.token() {
            Token::Int(value) => TypeArg::Int(*value),
            Token::String(text) => TypeArg::String(text.clone()),
            _ => return self.type_name().map(TypeArg::Type),
        };
        self.advance();
        Ok(arg)
    }

    /// `INTERVAL 7 DAY`, `INTERVAL '7' DAY` or `INTERVAL '7 days'`.
    fn interval(&mut self) -> Checked<ExprKind> {
        self.advance();
        let start = self.span();
        if let Token::String(text) = self.token().clone() {
            self.advance();
            let mut words = text.split_whitespace();
            let count = words.next().and_then(|word| word.parse().ok());
            let unit = match words.next() {
                Some(word) => Unit::parse(word),
                None => Some(self.unit()?),
            };
            let (Some(count), Some(unit), None) = (count, unit, words.next()) else {
                return Err(Fault::invalid("An interval is a number and a unit", start));
            };
            let count = Expr { kind: ExprKind::Literal(Literal::Int(count)), span: start };
            return Ok(ExprKind::Interval(Box::new(count), unit));
        }
        let count = self.level(Level::Negate)?;
        Ok(ExprKind::Interval(Box::new(count), self.unit()?))
    }

    fn unit(&mut self) -> Checked<Unit> {
        let unit = match self.token() {
            Token::Word(word) => Unit::parse(word),
            _ => None,
        };
        let unit = unit.ok_or_else(|| self.unexpected("a unit of time"))?;
        self.advance();
        Ok(unit)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn word_lists_are_sorted_for_binary_search() {
        assert!(super::CLAUSES.is_sorted());
        assert!(crate::parse::NEVER_FIELDS.is_sorted());
        assert!(crate::parse::RESERVED.is_sorted());
    }
}
