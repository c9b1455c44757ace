//! Parses `FROM`: tables, subqueries and joins.

use super::Parser;
use crate::ast::{
    ExprKind, From, Join, JoinKind, Literal, Name, On, Source, SourceKind, Strictness,
};
use crate::error::{Checked, Fault};
use crate::limits::LIST_MAX;
use crate::token::Token;

/// The schema of all tables: `posthog.events` is `events`.
const SCHEMA: &str = "posthog";

/// Words before `JOIN` or the kind of a join; elsewhere they are names.
const MODIFIERS: [&str; 8] =
    ["any", "all", "asof", "semi", "anti", "global", "natural", "positional"];

impl Parser {
    pub(super) fn from(&mut self) -> Checked<From> {
        let first = self.source()?;
        let mut joins = Vec::new();
        while let Some((kind, strictness)) = self.join_kind()? {
            if joins.len() >= LIST_MAX {
                return Err(Fault::too_large("joins", LIST_MAX, self.span()));
            }
            let source = self.source()?;
            let on = match kind {
                JoinKind::Cross => None,
                _ => Some(self.on()?),
            };
            joins.push(Join { kind, strictness, source, on });
        }
        Ok(From { first, joins })
    }

    fn join_kind(&mut self) -> Checked<Option<(JoinKind, Strictness)>> {
        if self.eat(",") {
            return Ok(Some((JoinKind::Cross, Strictness::All)));
        }
        let start = self.span();
        let before = self.strictness()?;
        let kinds = [
            ("join", JoinKind::Inner),
            ("inner", JoinKind::Inner),
            ("left", JoinKind::Left),
            ("right", JoinKind::Right),
            ("full", JoinKind::Full),
            ("cross", JoinKind::Cross),
        ];
        let Some((word, kind)) = kinds.into_iter().find(|(word, _)| self.is_word(word)) else {
            return Ok(None);
        };
        if self.word_ahead(1, "array") {
            return Ok(None);
        }
        self.advance();
        let outer = matches!(kind, JoinKind::Left | JoinKind::Right | JoinKind::Full);
        if outer {
            self.eat_word("outer");
        }
        let mut after = Strictness::All;
        if word != "join" {
            after = self.strictness()?;
            if outer {
                self.eat_word("outer");
            }
            self.expect_word("join")?;
        }
        let strictness = if before == Strictness::All { after } else { before };
        let (kind, strictness) = match (kind, strictness) {
            // Without a side, the rows of the left one are chosen.
            (JoinKind::Inner, Strictness::Semi | Strictness::Anti) => (JoinKind::Left, strictness),
            (JoinKind::Full | JoinKind::Cross, Strictness::Any) => {
                return Err(Fault::unsupported("ANY of this join", start));
            }
            (JoinKind::Full | JoinKind::Cross, Strictness::Semi | Strictness::Anti) => {
                return Err(Fault::invalid("SEMI and ANTI JOIN are LEFT or RIGHT", start));
            }
            other => other,
        };
        Ok(Some((kind, strictness)))
    }

    /// Consumes the words that say how many matches a join returns.
    fn strictness(&mut self) -> Checked<Strictness> {
        let mut strictness = Strictness::All;
        while self.modifies_join() {
            for word in ["asof", "natural", "positional"] {
                let what = format!("{} JOIN", word.to_ascii_uppercase());
                self.refuse(&[word], &what)?;
            }
            if self.is_word("any") {
                strictness = Strictness::Any;
            } else if self.is_word("semi") {
                strictness = Strictness::Semi;
            } else if self.is_word("anti") {
                strictness = Strictness::Anti;
            }
            // `ALL` is the default, and `GLOBAL` concerns clusters.
            self.advance();
        }
        Ok(strictness)
    }

    /// Whether a word such as `ANY` comes next, and belongs to a join.
    fn modifies_join(&self) -> bool {
        let followed = ["join", "left", "right", "inner", "full", "outer"];
        let modifier = |ahead: usize| MODIFIERS.iter().any(|word| self.word_ahead(ahead, word));
        let joins = |ahead: usize| followed.iter().any(|word| self.word_ahead(ahead, word));
        modifier(0) && (joins(1) || modifier(1) && joins(2))
    }

    fn on(&mut self) -> Checked<On> {
        if self.eat_word("on") {
            return self.expr().map(On::Condition);
        }
        if !self.eat_word("using") {
            return Err(self.unexpected("ON or USING"));
        }
        let open = self.eat("(");
        let names = self.list(|parser| parser.name("the name of a column"))?;
        if open {
            self.expect(")")?;
        }
        Ok(On::Using(names))
    }

    fn source(&mut self) -> Checked<Source> {
        let start = self.span();
        let kind = if self.eat("(") {
            let query = self.query()?;
            self.expect(")")?;
            SourceKind::Query(Box::new(query))
        } else {
            let name = self.table_name()?;
            if self.eat("(") {
                SourceKind::Call(name, self.exprs_until(")")?)
            } else {
                SourceKind::Table(name)
            }
        };
        let span = start.to(self.last_span());
        self.table_modifiers()?;
        let is_alias = !self.modifies_join() && !self.samples();
        let alias = if is_alias { self.alias()? } else { None };
        let mut columns = Vec::new();
        if alias.is_some() && self.is("(") {
            columns = self.names("a column")?;
        }
        self.table_modifiers()?;
        Ok(Source { kind, alias, columns, span })
    }

    /// A table, with or without its schema.
    fn table_name(&mut self) -> Checked<Name> {
        let mut name = self.field_name("a table or a subquery")?;
        while self.eat(".") {
            let member = self.member()?;
            name = if name.text.eq_ignore_ascii_case(SCHEMA) {
                member
            } else {
                Name::new(format!("{}.{}", name.text, member.text), name.span.to(member.span))
            };
        }
        Ok(name)
    }

    /// `FINAL` and `SAMPLE 1`, which change nothing: tables hold every row once, and all of them.
    fn table_modifiers(&mut self) -> Checked<()> {
        self.eat_word("final");
        if !self.samples() {
            return Ok(());
        }
        let start = self.span();
        self.advance();
        let ratio = self.ratio()?;
        if ratio != Some(1.0) {
            let what = "SAMPLE of less than all rows";
            return Err(Fault::unsupported(what, start.to(self.last_span())));
        }
        if self.eat_word("offset") {
            self.ratio()?;
        }
        Ok(())
    }

    fn samples(&self) -> bool {
        let ratio = matches!(self.peek(1), Token::Int(_) | Token::Float(_) | Token::Symbol("{"));
        self.is_word("sample") && ratio
    }

    /// `0.1` or `1/10`; none if it is not a constant.
    fn ratio(&mut self) -> Checked<Option<f64>> {
        let expr = self.level(super::Level::Multiply)?;
        let number = |kind: &ExprKind| match kind {
            ExprKind::Literal(Literal::Int(value)) => Some(*value as f64),
            ExprKind::Literal(Literal::Float(value)) => Some(*value),
            _ => None,
        };
        Ok(match &expr.kind {
            ExprKind::Binary(crate::ast::BinaryOp::Divide, parts, whole) => {
                number(&parts.kind).zip(number(&whole.kind)).map(|(parts, whole)| parts / whole)
            }
            kind => number(kind),
        })
    }
}
