//! Parses statements.

use super::Parser;
use crate::ast::{
    ArrayJoin, Body, Bound, Column, Expr, ExprKind, Frame, FrameUnit, From, Join, JoinKind,
    LimitBy, Name, On, Order, Query, Select, SetOp, Source, SourceKind, Window, With, WithValue,
};
use crate::error::{Checked, Fault, Span};
use crate::limits::LIST_MAX;
use crate::token::Token;

impl Parser {
    pub(super) fn query(&mut self) -> Checked<Query> {
        self.nested(|parser| {
            let mut with = Vec::new();
            if parser.eat_word("with") {
                with = parser.list(Self::with)?;
            }
            let mut first = parser.intersection()?;
            let mut rest = Vec::new();
            while let Some(op) = parser.union_or_except()? {
                parser.push(&mut rest, |parser| Ok((op, parser.intersection()?)))?;
            }
            parser.grow()?;
            if rest.is_empty() {
                with.append(&mut first.with);
                return Ok(Query { with, body: first.body });
            }
            Ok(Query { with, body: Body::Set { first: Box::new(first), rest } })
        })
    }

    fn union_or_except(&mut self) -> Checked<Option<SetOp>> {
        if self.eat_word("union") {
            if self.eat_word("all") {
                return Ok(Some(SetOp::UnionAll));
            }
            if self.eat_word("distinct") {
                return Ok(Some(SetOp::UnionDistinct));
            }
            return Err(self.unexpected("ALL or DISTINCT"));
        }
        Ok(self.eat_word("except").then_some(SetOp::Except))
    }

    fn intersection(&mut self) -> Checked<Query> {
        let first = self.operand()?;
        let mut rest = Vec::new();
        while self.eat_word("intersect") {
            self.push(&mut rest, |parser| Ok((SetOp::Intersect, parser.operand()?)))?;
        }
        if rest.is_empty() {
            return Ok(first);
        }
        Ok(Query { with: Vec::new(), body: Body::Set { first: Box::new(first), rest } })
    }

    fn operand(&mut self) -> Checked<Query> {
        if self.eat("(") {
            let query = self.query()?;
            self.expect(")")?;
            return Ok(query);
        }
        let start = self.span();
        if !self.eat_word("select") {
            return Err(self.unexpected("SELECT or WITH"));
        }
        let select = Box::new(self.select(start)?);
        Ok(Query { with: Vec::new(), body: Body::Select(select) })
    }

    pub(super) fn starts_query(&self) -> bool {
        self.is_word("select") || self.is_word("with")
    }

    fn with(&mut self) -> Checked<With> {
        let is_query = matches!(self.token(), Token::Word(_) | Token::Quoted(_))
            && self.word_ahead(1, "as")
            && *self.peek(2) == Token::Symbol("(");
        if is_query {
            let name = self.name("a name")?;
            self.expect_word("as")?;
            self.expect("(")?;
            let query = self.query()?;
            self.expect(")")?;
            return Ok(With { name, value: WithValue::Query(query) });
        }
        let expr = self.expr()?;
        self.expect_word("as")?;
        let name = self.name("a name")?;
        Ok(With { name, value: WithValue::Scalar(expr) })
    }

    fn select(&mut self, start: Span) -> Checked<Select> {
        let mut select = Select { distinct: self.eat_word("distinct"), ..Select::default() };
        select.columns = self.columns()?;
        if self.eat_word("from") {
            select.from = Some(self.from()?);
        }
        if self.eat_words(&["left", "array", "join"]) {
            select.array_join = Some(self.array_join(true)?);
        } else if self.eat_words(&["array", "join"]) {
            select.array_join = Some(self.array_join(false)?);
        }
        if self.eat_word("prewhere") {
            select.prewhere = Some(self.expr()?);
        }
        if self.eat_word("where") {
            select.filter = Some(self.expr()?);
        }
        if self.eat_words(&["group", "by"]) {
            select.group = self.list(Self::expr)?;
        }
        self.refuse(&["with", "totals"], "WITH TOTALS")?;
        self.refuse(&["with", "rollup"], "WITH ROLLUP")?;
        self.refuse(&["with", "cube"], "WITH CUBE")?;
        if self.eat_word("having") {
            select.having = Some(self.expr()?);
        }
        if self.eat_word("window") {
            select.windows = self.list(|parser| {
                let name = parser.name("the name of a window")?;
                parser.expect_word("as")?;
                Ok((name, parser.window()?))
            })?;
        }
        if self.eat_words(&["order", "by"]) {
            select.order = self.list(Self::order)?;
        }
        self.limits(&mut select)?;
        self.refuse(&["settings"], "SETTINGS")?;
        select.span = start.to(self.last_span());
        Ok(select)
    }

    fn refuse(&mut self, keywords: &[&str], what: &str) -> Checked<()> {
        let span = self.span();
        if self.eat_words(keywords) { Err(Fault::unsupported(what, span)) } else { Ok(()) }
    }

    /// Allows a trailing comma.
    fn columns(&mut self) -> Checked<Vec<Column>> {
        let mut columns = vec![self.column()?];
        while self.eat(",") {
            let ends = match self.token() {
                Token::End | Token::Symbol(")" | ";") => true,
                Token::Word(word) => word.eq_ignore_ascii_case("from"),
                _ => false,
            };
            if ends {
                break;
            }
            self.push(&mut columns, Self::column)?;
        }
        Ok(columns)
    }

    fn column(&mut self) -> Checked<Column> {
        let start = self.span();
        let table = match (self.peek(0), self.peek(1), self.peek(2)) {
            (Token::Symbol("*"), ..) => {
                self.advance();
                Some(None)
            }
            (Token::Word(_) | Token::Quoted(_), Token::Symbol("."), Token::Symbol("*")) => {
                let name = self.name("the name of a table")?;
                self.advance();
                self.advance();
                Some(Some(name))
            }
            _ => None,
        };
        if let Some(table) = table {
            let expr = Expr { kind: ExprKind::Star(table), span: start.to(self.last_span()) };
            return Ok(Column { expr, alias: None });
        }
        let expr = self.expr()?;
        Ok(Column { expr, alias: self.alias()? })
    }

    fn alias(&mut self) -> Checked<Option<Name>> {
        if self.eat_word("as") {
            return self.name("an alias").map(Some);
        }
        Ok(self.try_name())
    }

    fn array_join(&mut self, keep_empty: bool) -> Checked<ArrayJoin> {
        let arrays = self.list(|parser| {
            let expr = parser.expr()?;
            Ok(Column { expr, alias: parser.alias()? })
        })?;
        Ok(ArrayJoin { keep_empty, arrays })
    }

    fn from(&mut self) -> Checked<From> {
        let first = self.source()?;
        let mut joins = Vec::new();
        while let Some(kind) = self.join_kind()? {
            if joins.len() >= LIST_MAX {
                return Err(Fault::too_large("joins", LIST_MAX, self.span()));
            }
            let source = self.source()?;
            let on = match kind {
                JoinKind::Cross => None,
                _ => Some(self.on()?),
            };
            joins.push(Join { kind, source, on });
        }
        Ok(From { first, joins })
    }

    fn join_kind(&mut self) -> Checked<Option<JoinKind>> {
        if self.eat(",") {
            return Ok(Some(JoinKind::Cross));
        }
        for modifier in ["any", "all", "asof", "semi", "anti", "global"] {
            self.refuse(&[modifier, "join"], &format!("{} JOIN", modifier.to_ascii_uppercase()))?;
        }
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
        if matches!(kind, JoinKind::Left | JoinKind::Right | JoinKind::Full) {
            self.eat_word("outer");
        }
        if word != "join" {
            self.expect_word("join")?;
        }
        Ok(Some(kind))
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
            let name = self.name("a table or a subquery")?;
            if self.eat("(") {
                SourceKind::Call(name, self.exprs_until(")")?)
            } else {
                SourceKind::Table(name)
            }
        };
        let span = start.to(self.last_span());
        self.refuse(&["final"], "FINAL")?;
        let joins_by = ["any", "all", "asof", "semi", "anti", "global"];
        let alias = if joins_by.iter().any(|word| self.is_word(word) && self.word_ahead(1, "join"))
        {
            None
        } else {
            self.alias()?
        };
        self.refuse(&["final"], "FINAL")?;
        self.refuse(&["sample"], "SAMPLE")?;
        Ok(Source { kind, alias, span })
    }

    pub(super) fn order(&mut self) -> Checked<Order> {
        let expr = self.expr()?;
        let descending = !self.eat_word("asc") && self.eat_word("desc");
        let nulls_first = if !self.eat_word("nulls") {
            None
        } else if self.eat_word("first") {
            Some(true)
        } else if self.eat_word("last") {
            Some(false)
        } else {
            return Err(self.unexpected("FIRST or LAST"));
        };
        self.refuse(&["with", "fill"], "WITH FILL")?;
        Ok(Order { expr, descending, nulls_first })
    }

    /// `LIMIT n [OFFSET m] [BY …]`; the form with `BY` may precede a plain one.
    fn limits(&mut self, select: &mut Select) -> Checked<()> {
        while self.is_word("limit") && select.limit.is_none() {
            self.advance();
            let (limit, offset) = self.limit()?;
            if self.is_word("by") && select.limit_by.is_none() {
                self.advance();
                let by = self.list(Self::expr)?;
                select.limit_by = Some(LimitBy { limit, offset, by });
                continue;
            }
            self.refuse(&["with", "ties"], "WITH TIES")?;
            (select.limit, select.offset) = (Some(limit), offset);
        }
        if select.offset.is_none() && self.eat_word("offset") {
            select.offset = Some(self.expr()?);
        }
        Ok(())
    }

    fn limit(&mut self) -> Checked<(Expr, Option<Expr>)> {
        let first = self.expr()?;
        if self.eat(",") {
            return Ok((self.expr()?, Some(first)));
        }
        let offset = if self.eat_word("offset") { Some(self.expr()?) } else { None };
        Ok((first, offset))
    }

    pub(super) fn window(&mut self) -> Checked<Window> {
        self.expect("(")?;
        let mut window = Window::default();
        if self.eat_words(&["partition", "by"]) {
            window.partition = self.list(Self::expr)?;
        }
        if self.eat_words(&["order", "by"]) {
            window.order = self.list(Self::order)?;
        }
        let unit = if self.eat_word("rows") {
            Some(FrameUnit::Rows)
        } else if self.eat_word("range") {
            Some(FrameUnit::Range)
        } else {
            None
        };
        if let Some(unit) = unit {
            let (start, end) = if self.eat_word("between") {
                let start = self.bound()?;
                self.expect_word("and")?;
                (start, self.bound()?)
            } else {
                (self.bound()?, Bound::CurrentRow)
            };
            window.frame = Some(Frame { unit, start, end });
        }
        self.expect(")")?;
        Ok(window)
    }

    fn bound(&mut self) -> Checked<Bound> {
        if self.eat_words(&["current", "row"]) {
            return Ok(Bound::CurrentRow);
        }
        let rows = match self.token() {
            Token::Int(rows) => Some(*rows),
            Token::Word(word) if word.eq_ignore_ascii_case("unbounded") => None,
            _ => return Err(self.unexpected("UNBOUNDED, CURRENT ROW or a number of rows")),
        };
        self.advance();
        if self.eat_word("preceding") {
            return Ok(rows.map_or(Bound::UnboundedPreceding, Bound::Preceding));
        }
        if self.eat_word("following") {
            return Ok(rows.map_or(Bound::UnboundedFollowing, Bound::Following));
        }
        Err(self.unexpected("PRECEDING or FOLLOWING"))
    }
}
