//! Parses statements.

use super::Parser;
use crate::ast::{
    ArrayJoin, Body, Bound, Column, ColumnSet, Expr, ExprKind, Frame, FrameUnit, From, LimitBy,
    Literal, Name, Order, Query, Select, SetOp, Source, SourceKind, Window, With, WithValue,
};
use crate::error::{Checked, Fault, Span};
use crate::token::Token;

impl Parser {
    pub(super) fn query(&mut self) -> Checked<Query> {
        self.nested(|parser| {
            let mut with = Vec::new();
            if parser.eat_word("with") {
                // Whether a query may refer to itself; one that does is an unknown table.
                if parser.is_word("recursive") && !parser.word_ahead(1, "as") {
                    parser.advance();
                }
                with.push(parser.with()?);
                while parser.eat(",") && !parser.is_word("select") && !parser.is("(") {
                    parser.push(&mut with, Self::with)?;
                }
            }
            let mut first = parser.intersection()?;
            let mut rest = Vec::new();
            while let Some(op) = parser.union_or_except()? {
                parser.push(&mut rest, |parser| Ok((op, parser.intersection()?)))?;
            }
            parser.grow()?;
            if rest.is_empty() && !parser.orders_or_limits() {
                with.append(&mut first.with);
                return Ok(Query { with, body: first.body });
            }
            let body = if rest.is_empty() {
                first
            } else {
                Query { with: Vec::new(), body: Body::Set { first: Box::new(first), rest } }
            };
            if !parser.orders_or_limits() {
                return Ok(Query { with, body: body.body });
            }
            let select = Box::new(parser.ordered(body)?);
            Ok(Query { with, body: Body::Select(select) })
        })
    }

    fn orders_or_limits(&self) -> bool {
        ["order", "limit", "offset"].iter().any(|word| self.is_word(word))
    }

    /// `(SELECT …) UNION ALL (SELECT …) ORDER BY … LIMIT …`: after parentheses, an order or limit
    /// belongs to the whole.
    fn ordered(&mut self, query: Query) -> Checked<Select> {
        let span = self.span();
        let kind = SourceKind::Query(Box::new(query));
        let first = Source { kind, alias: None, columns: Vec::new(), span };
        let star = Expr { kind: ExprKind::Star(None), span };
        let mut select = Select {
            columns: vec![Column { expr: star, alias: None }],
            from: Some(From { first, joins: Vec::new() }),
            ..Select::default()
        };
        self.grow()?;
        if self.eat_words(&["order", "by"]) {
            select.order = self.clause(Self::order)?;
        }
        self.limits(&mut select)?;
        select.span = span.to(self.last_span());
        Ok(select)
    }

    fn union_or_except(&mut self) -> Checked<Option<SetOp>> {
        let op = if self.eat_word("union") {
            // As in standard SQL, a plain UNION removes duplicates.
            if self.eat_word("all") {
                SetOp::UnionAll
            } else {
                self.eat_word("distinct");
                SetOp::UnionDistinct
            }
        } else if self.eat_word("except") {
            if self.set_distinct() { SetOp::ExceptDistinct } else { SetOp::Except }
        } else {
            return Ok(None);
        };
        self.refuse(&["by", "name"], "BY NAME")?;
        Ok(Some(op))
    }

    /// `ALL` or `DISTINCT` after `EXCEPT` and `INTERSECT`; neither means `ALL`, as in ClickHouse.
    fn set_distinct(&mut self) -> bool {
        !self.eat_word("all") && self.eat_word("distinct")
    }

    fn intersection(&mut self) -> Checked<Query> {
        let first = self.operand()?;
        let mut rest = Vec::new();
        while self.eat_word("intersect") {
            let op = if self.set_distinct() { SetOp::IntersectDistinct } else { SetOp::Intersect };
            self.refuse(&["by", "name"], "BY NAME")?;
            self.push(&mut rest, |parser| Ok((op, parser.operand()?)))?;
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
        if let Some((name, columns)) = self.with_query_name() {
            let query = self.query()?;
            self.expect(")")?;
            return Ok(With { name, columns, value: WithValue::Query(query) });
        }
        let expr = self.expr()?;
        self.expect_word("as")?;
        let name = self.alias_name("a name")?;
        Ok(With { name, columns: Vec::new(), value: WithValue::Scalar(expr) })
    }

    /// Consumes `name AS (` or `name(a, b) AS (` of a common table expression, or nothing.
    fn with_query_name(&mut self) -> Option<(Name, Vec<Name>)> {
        let start = self.at;
        let name = match self.token() {
            Token::Word(_) | Token::Quoted(_) => self.alias_name("a name").ok()?,
            _ => return None,
        };
        let has_columns = self.is("(");
        let columns = if has_columns { self.names("a column").ok() } else { Some(Vec::new()) };
        if let Some(columns) = columns
            && self.eat_word("as")
        {
            // Whether to keep the result is for the engine to decide.
            if !self.eat_words(&["not", "materialized"]) {
                self.eat_word("materialized");
            }
            if self.eat("(") && (!has_columns || self.starts_query() || self.is("(")) {
                return Some((name, columns));
            }
        }
        self.at = start;
        None
    }

    fn select(&mut self, start: Span) -> Checked<Select> {
        let mut select = Select::default();
        if self.eat_words(&["distinct", "on"]) {
            select.limit_by = Some(self.distinct_on()?);
        } else {
            select.distinct = self.eat_word("distinct");
        }
        select.columns = self.columns()?;
        if self.eat_word("from") {
            select.from = Some(self.from()?);
        }
        if self.eat_words(&["left", "array", "join"]) {
            select.array_join = Some(self.array_join(true)?);
        } else if self.eat_words(&["array", "join"]) || self.eat_words(&["inner", "array", "join"])
        {
            select.array_join = Some(self.array_join(false)?);
        }
        if self.eat_word("prewhere") {
            select.prewhere = Some(self.expr()?);
        }
        if self.eat_word("where") {
            select.filter = Some(self.expr()?);
        }
        if self.eat_words(&["group", "by"]) {
            self.group(&mut select)?;
        }
        self.refuse(&["with", "totals"], "WITH TOTALS")?;
        if self.eat_word("having") {
            select.having = Some(self.expr()?);
        }
        self.qualify(&mut select)?;
        if self.eat_word("window") {
            select.windows = self.list(|parser| {
                let name = parser.name("the name of a window")?;
                parser.expect_word("as")?;
                Ok((name, parser.window()?))
            })?;
        }
        self.qualify(&mut select)?;
        if self.eat_words(&["order", "by"]) {
            select.order = self.clause(Self::order)?;
        }
        self.limits(&mut select)?;
        self.refuse(&["settings"], "SETTINGS")?;
        select.span = start.to(self.last_span());
        Ok(select)
    }

    /// `QUALIFY`: before the named windows as in PostHog, or after them as in ClickHouse.
    fn qualify(&mut self, select: &mut Select) -> Checked<()> {
        if select.qualify.is_none() && self.eat_word("qualify") {
            select.qualify = Some(self.expr()?);
        }
        Ok(())
    }

    /// `DISTINCT ON (a, b)` is `LIMIT 1 BY a, b`.
    fn distinct_on(&mut self) -> Checked<LimitBy> {
        let span = self.span();
        self.expect("(")?;
        let by = self.exprs_until(")")?;
        if by.is_empty() {
            return Err(Fault::invalid("DISTINCT ON needs something to tell apart", span));
        }
        let limit = Expr { kind: ExprKind::Literal(Literal::Int(1)), span };
        Ok(LimitBy { limit, offset: None, by })
    }

    pub(super) fn refuse(&mut self, keywords: &[&str], what: &str) -> Checked<()> {
        let span = self.span();
        if self.eat_words(keywords) { Err(Fault::unsupported(what, span)) } else { Ok(()) }
    }

    fn columns(&mut self) -> Checked<Vec<Column>> {
        self.clause(Self::column)
    }

    fn column(&mut self) -> Checked<Column> {
        let start = self.span();
        if matches!(self.token(), Token::Word(_) | Token::Quoted(_))
            && *self.peek(1) == Token::Symbol(":")
        {
            let alias = Some(self.alias_name("an alias")?);
            self.advance();
            return Ok(Column { expr: self.expr()?, alias });
        }
        if let Some(kind) = self.column_set()? {
            let expr = Expr { kind, span: start.to(self.last_span()) };
            return Ok(Column { expr, alias: None });
        }
        let expr = self.expr()?;
        Ok(Column { expr, alias: self.alias()? })
    }

    /// `*`, `t.*` and `COLUMNS('pattern')`, with `EXCLUDE` (or `EXCEPT`) and `REPLACE`.
    fn column_set(&mut self) -> Checked<Option<ExprKind>> {
        let mut set = ColumnSet::default();
        let is_call = self.is_word("columns") && *self.peek(1) == Token::Symbol("(");
        let pattern = if is_call { self.peek(2).clone() } else { Token::End };
        if is_call {
            self.advance();
            self.advance();
        }
        match (self.peek(0).clone(), self.peek(1), self.peek(2)) {
            (Token::String(_), ..) if is_call => {
                if let Token::String(text) = pattern {
                    set.pattern = Some(text);
                }
                self.advance();
            }
            (Token::Symbol("*"), ..) => self.advance(),
            (Token::Word(_) | Token::Quoted(_), Token::Symbol("."), Token::Symbol("*")) => {
                set.table = Some(self.field_name("the name of a table")?);
                self.advance();
                self.advance();
            }
            _ if is_call => return Err(self.unexpected("'*' or a pattern in quotes")),
            _ => return Ok(None),
        }
        self.column_set_changes(&mut set)?;
        if is_call {
            self.expect(")")?;
            self.column_set_changes(&mut set)?;
        }
        if set.pattern.is_none() && set.exclude.is_empty() && set.replace.is_empty() {
            return Ok(Some(ExprKind::Star(set.table)));
        }
        Ok(Some(ExprKind::Columns(Box::new(set))))
    }

    fn column_set_changes(&mut self, set: &mut ColumnSet) -> Checked<()> {
        loop {
            let opens = *self.peek(1) == Token::Symbol("(");
            // `EXCEPT SELECT` and `EXCEPT (SELECT` are set operations.
            let selects = [1, 2].iter().any(|ahead| self.word_ahead(*ahead, "select"));
            if self.is_word("exclude") || self.is_word("except") && !selects {
                self.advance();
                if opens {
                    set.exclude.extend(self.names("a column")?);
                } else {
                    set.exclude.push(self.name("a column")?);
                }
            } else if self.is_word("replace") && opens {
                self.advance();
                self.advance();
                let replaced = self.list(|parser| {
                    let expr = parser.expr()?;
                    parser.expect_word("as")?;
                    Ok((expr, parser.alias_name("a column")?))
                })?;
                set.replace.extend(replaced);
                self.expect(")")?;
            } else {
                return Ok(());
            }
        }
    }

    pub(super) fn alias(&mut self) -> Checked<Option<Name>> {
        if self.eat_word("as") {
            return self.alias_name("an alias").map(Some);
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

    pub(super) fn order(&mut self) -> Checked<Order> {
        let expr = self.aliased()?;
        let ascending = self.eat_word("asc") || self.eat_word("ascending");
        let descending = !ascending && (self.eat_word("desc") || self.eat_word("descending"));
        let nulls_first = if !self.eat_word("nulls") {
            None
        } else if self.eat_word("first") {
            Some(true)
        } else if self.eat_word("last") {
            Some(false)
        } else {
            return Err(self.unexpected("FIRST or LAST"));
        };
        self.refuse(&["collate"], "COLLATE")?;
        self.refuse(&["with", "fill"], "WITH FILL")?;
        Ok(Order { expr, descending, nulls_first })
    }

    /// `LIMIT n [OFFSET m] [BY …]`; the form with `BY` may precede a plain one.
    fn limits(&mut self, select: &mut Select) -> Checked<()> {
        while self.is_word("limit") && select.limit.is_none() {
            let start = self.span();
            self.advance();
            let (limit, offset) = self.limit()?;
            if self.is_word("by") {
                if select.limit_by.is_some() {
                    return Err(Fault::invalid("Two clauses LIMIT BY or DISTINCT ON", start));
                }
                self.advance();
                let by = self.clause(Self::expr)?;
                select.limit_by = Some(LimitBy { limit, offset, by });
                continue;
            }
            select.with_ties = self.eat_words(&["with", "ties"]);
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
