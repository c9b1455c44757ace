//! Relations: selects, set operations and the page of the result.

use std::collections::BTreeSet;

use hogql::ast::{Bound, FrameUnit, JoinKind, SetOp, Strictness};
use hogql::plan::{
    Body, Comparison, Expr, ExprKind, Grouping, JoinedSource, Order, Relation, Select, Unnest,
    WindowCall,
};
use hogql::types::Kind;

use super::reads::{conjuncts, reads_of};
use super::sources::Leaf;
use super::{Printer, output, unsupported};
use crate::error::Result;

/// The names of one select, and what it reads of its sources.
pub(super) struct Scope {
    pub id: usize,
    pub leaves: Vec<Vec<Leaf>>,
    /// The columns that it reads of its sources that are queries.
    pub outputs: Vec<BTreeSet<usize>>,
    pub windows: Vec<String>,
    /// Whether all sources stand for one: the rows that several selects read.
    pub is_merged: bool,
}

/// Which columns of a relation are read. The others are not printed.
#[derive(Clone, Copy)]
pub(super) enum Demand<'d> {
    All,
    Columns(&'d BTreeSet<usize>),
}

impl Demand<'_> {
    fn contains(self, column: usize) -> bool {
        match self {
            Self::All => true,
            Self::Columns(columns) => columns.contains(&column),
        }
    }
}

impl Printer<'_> {
    /// The rows of the result.
    pub fn page(&mut self, root: &Relation, limit: u64) -> Result<String> {
        let outputs = root.columns.iter().enumerate();
        let outputs = outputs.map(|(no, column)| output(no, &column.ty));
        let outputs = outputs.collect::<Result<Vec<String>>>()?.join(", ");
        let offset = self.plan.page.offset;
        let page = format!(" LIMIT {limit} OFFSET {offset}");
        Ok(match &root.body {
            Body::Select(select) if !select.with_ties => {
                let tail = if select.limit.is_some() || select.offset > 0 {
                    return Err(unsupported("a limit beside the page"));
                } else {
                    page
                };
                self.select(root, select, Demand::All, &outputs, &tail)?
            }
            Body::Select(_) | Body::Set { .. } => {
                format!("SELECT {outputs} FROM ({}){page}", self.relation(root, Demand::All)?)
            }
        })
    }

    pub fn relation(&mut self, relation: &Relation, demand: Demand<'_>) -> Result<String> {
        match &relation.body {
            Body::Select(select) => {
                // Rows that differ in any column are distinct.
                let demand = if select.distinct { Demand::All } else { demand };
                let outputs = (0..relation.columns.len()).filter(|no| demand.contains(*no));
                let outputs: Vec<String> = outputs.map(|no| format!("c{no}")).collect();
                let outputs =
                    if outputs.is_empty() { "1 AS nothing".to_owned() } else { outputs.join(", ") };
                let mut tail = String::new();
                if let Some(limit) = select.limit {
                    tail = format!(" LIMIT {limit} OFFSET {}", select.offset);
                    tail.push_str(if select.with_ties { " WITH TIES" } else { "" });
                } else if select.offset > 0 {
                    tail = format!(" OFFSET {}", select.offset);
                }
                if select.with_ties && select.offset > 0 {
                    return Err(unsupported("WITH TIES and an offset"));
                }
                if select.with_ties {
                    tail = tail.replace(" OFFSET 0", "");
                }
                self.select(relation, select, demand, &outputs, &tail)
            }
            Body::Set { first, rest } => {
                let mut text = self.set_member(relation, first)?;
                for (op, member) in rest {
                    let op = match op {
                        SetOp::UnionAll => "UNION ALL",
                        SetOp::UnionDistinct => "UNION DISTINCT",
                        SetOp::Intersect => "INTERSECT ALL",
                        SetOp::IntersectDistinct => "INTERSECT DISTINCT",
                        SetOp::Except => "EXCEPT ALL",
                        SetOp::ExceptDistinct => "EXCEPT DISTINCT",
                    };
                    let member = self.set_member(relation, member)?;
                    text = format!("SELECT * FROM ({text} {op} {member})");
                }
                Ok(text)
            }
        }
    }

    /// A member of a set operation, with the columns' common types.
    fn set_member(&mut self, set: &Relation, member: &Relation) -> Result<String> {
        let columns = set.columns.iter().zip(&member.columns).enumerate();
        let columns = columns.map(|(no, (common, own))| match common.ty == own.ty {
            true => format!("c{no}"),
            false => format!("CAST(c{no} AS {}) AS c{no}", self.type_name(&common.ty)),
        });
        let columns = columns.collect::<Vec<_>>().join(", ");
        Ok(format!("SELECT {columns} FROM ({})", self.relation(member, Demand::All)?))
    }

    /// `outputs` are made of `c0` and so on; `tail` follows the order.
    fn select(
        &mut self,
        relation: &Relation,
        select: &Select,
        demand: Demand<'_>,
        outputs: &str,
        tail: &str,
    ) -> Result<String> {
        self.selects += 1;
        let mut scope = Scope {
            id: self.selects,
            leaves: select.sources.iter().map(|_| Vec::new()).collect(),
            outputs: select.sources.iter().map(|_| BTreeSet::new()).collect(),
            windows: Vec::new(),
            is_merged: false,
        };
        let joins = select.sources.iter().enumerate().map(|(no, source)| {
            source.on.as_ref().map(|on| self.join_condition(&mut scope, on, no)).transpose()
        });
        let joins = joins.collect::<Result<Vec<_>>>()?;
        let unnests = self.unnests(&mut scope, &select.unnests, 0)?;
        let filter = select.filter.as_ref().map(|filter| self.expr(&mut scope, filter));
        let filter = filter.transpose()?.map(|filter| format!(" WHERE {filter}"));
        let grouping = select.grouping.as_ref().map(|one| self.grouping(&mut scope, one));
        let grouping = grouping.transpose()?;
        let having = select.grouping.as_ref().and_then(|grouping| grouping.having.as_ref());
        let having = having.map(|having| self.expr(&mut scope, having)).transpose()?;
        let having = having.map(|having| format!(" WHERE {having}"));
        let late = self.unnests(&mut scope, &select.late_unnests, select.unnests.len())?;
        for window in &select.windows {
            let window = self.window(&mut scope, window)?;
            scope.windows.push(window);
        }
        let mut columns = Vec::new();
        for (no, column) in select.columns.iter().enumerate() {
            if !demand.contains(no) {
                continue;
            }
            let value = self.expr(&mut scope, column)?;
            // Where the relation has another type than the expression, as members of sets have.
            let ty = relation.columns.get(no).map(|output| &output.ty);
            columns.push(match ty.filter(|ty| **ty != column.ty) {
                Some(ty) => format!("CAST({value} AS {}) AS c{no}", self.type_name(ty)),
                None => format!("{value} AS c{no}"),
            });
        }
        let own_columns = columns.len();
        let (order, order_columns) = self.order(&mut scope, select, demand)?;
        columns.extend(order_columns);
        let mut limit_by = String::new();
        if let Some(by) = &select.limit_by {
            let mut names = Vec::new();
            for (no, key) in by.by.iter().enumerate() {
                columns.push(format!("{} AS l{no}", self.expr(&mut scope, key)?));
                names.push(format!("l{no}"));
            }
            limit_by = format!(" LIMIT {} OFFSET {} BY {}", by.limit, by.offset, names.join(", "));
        }
        let mut qualify = "";
        if let Some(filter) = &select.qualify {
            columns.push(format!("{} AS q", self.expr(&mut scope, filter)?));
            qualify = " WHERE q";
        }
        if select.distinct && columns.len() > own_columns {
            return Err(unsupported("DISTINCT with an order by other values than its columns"));
        }
        let distinct = if select.distinct { "DISTINCT " } else { "" };
        let rows = self.from(&scope, &select.sources, &joins)?;
        let filter = filter.unwrap_or_default();
        let from = match grouping {
            Some((columns, keys)) => format!(
                " FROM (SELECT {columns}{rows}{unnests}{filter}{keys}) AS g{}{late}{}",
                scope.id,
                having.unwrap_or_default()
            ),
            None => format!("{rows}{unnests}{late}{filter}"),
        };
        let columns = if columns.is_empty() { "1".to_owned() } else { columns.join(", ") };
        Ok(format!(
            "SELECT {outputs} FROM (SELECT {distinct}{columns}{from}){qualify}{order}{limit_by}{tail}"
        ))
    }

    /// Keys that are null match nothing, although nulls are equal elsewhere.
    fn join_condition(&mut self, scope: &mut Scope, on: &Expr, no: usize) -> Result<String> {
        let mut parts = Vec::new();
        for condition in conjuncts(on) {
            parts.push(match &condition.kind {
                ExprKind::Compare(Comparison::Equal, sides)
                    if matches!(
                        [reads_of(&sides[0], no), reads_of(&sides[1], no)],
                        [(true, false), (false, true)] | [(false, true), (true, false)]
                    ) =>
                {
                    let [left, right] = &**sides;
                    format!("({} = {})", self.expr(scope, left)?, self.expr(scope, right)?)
                }
                _ => self.expr(scope, condition)?,
            });
        }
        Ok(parts.join(" AND "))
    }

    /// Columns and keys of a grouping.
    fn grouping(&mut self, scope: &mut Scope, grouping: &Grouping) -> Result<(String, String)> {
        let (mut columns, mut keys) = (Vec::new(), Vec::new());
        for (no, key) in grouping.keys.iter().enumerate() {
            columns.push(format!("{} AS k{no}", self.expr(scope, key)?));
            keys.push(format!("k{no}"));
        }
        for (no, aggregate) in grouping.aggregates.iter().enumerate() {
            columns.push(format!("{} AS a{no}", self.aggregate(scope, aggregate)?));
        }
        if columns.is_empty() {
            columns.push("count()".to_owned());
        }
        let keys = match keys.is_empty() {
            true => String::new(),
            false => format!(" GROUP BY {}", keys.join(", ")),
        };
        Ok((columns.join(", "), keys))
    }

    fn unnests(&mut self, scope: &mut Scope, unnests: &[Unnest], first: usize) -> Result<String> {
        let mut text = String::new();
        for (no, unnest) in unnests.iter().enumerate() {
            let mut arrays = Vec::new();
            for (at, array) in unnest.arrays.iter().enumerate() {
                let array = self.expr(scope, array)?;
                arrays.push(format!("{array} AS e{}_{}_{at}", scope.id, first + no));
            }
            let left = if unnest.keep_empty { "LEFT " } else { "" };
            text.push_str(&format!(" {left}ARRAY JOIN {}", arrays.join(", ")));
        }
        Ok(text)
    }

    fn from(
        &mut self,
        scope: &Scope,
        sources: &[JoinedSource],
        joins: &[Option<String>],
    ) -> Result<String> {
        // An array join needs something to join.
        let mut text = " FROM system.one".to_owned();
        for (no, (source, on)) in sources.iter().zip(joins).enumerate() {
            let rows = self.source(scope, no, &source.source)?;
            let name = format!("({rows}) AS s{}_{no}", scope.id);
            let Some(kind) = source.kind else {
                text = format!(" FROM {name}");
                continue;
            };
            let strictness = match source.strictness {
                Strictness::All => "",
                Strictness::Any => " ANY",
                Strictness::Semi => " SEMI",
                Strictness::Anti => " ANTI",
            };
            let kind = match (kind, on) {
                (JoinKind::Inner, Some(_)) => "INNER",
                (JoinKind::Left, Some(_)) => "LEFT",
                (JoinKind::Right, Some(_)) => "RIGHT",
                (JoinKind::Full, Some(_)) => "FULL",
                (JoinKind::Cross | JoinKind::Inner, None) => "CROSS",
                _ => return Err(unsupported("an outer join without a condition")),
            };
            let on = on.as_ref().map_or(String::new(), |on| format!(" ON {on}"));
            text.push_str(&format!(" {kind}{strictness} JOIN {name}{on}"));
        }
        Ok(text)
    }

    /// The clause, and the columns that it needs besides those of the select.
    fn order(
        &mut self,
        scope: &mut Scope,
        select: &Select,
        demand: Demand<'_>,
    ) -> Result<(String, Vec<String>)> {
        let (mut terms, mut columns) = (Vec::new(), Vec::new());
        for (no, order) in select.order.iter().enumerate() {
            let is_own = |(no, column): &(usize, &Expr)| {
                column.kind == order.expr.kind
                    && column.ty.kind != Kind::Uuid
                    && demand.contains(*no)
            };
            let own = select.columns.iter().enumerate().find(is_own).map(|(no, _)| no);
            let name = match own {
                Some(column) => format!("c{column}"),
                None => {
                    columns.push(format!("{} AS o{no}", self.ordered(scope, order)?));
                    format!("o{no}")
                }
            };
            terms.push(format!("{name}{}", direction(order)));
        }
        let clause = match terms.is_empty() {
            true => String::new(),
            false => format!(" ORDER BY {}", terms.join(", ")),
        };
        Ok((clause, columns))
    }

    fn ordered(&mut self, scope: &mut Scope, order: &Order) -> Result<String> {
        let value = self.expr(scope, &order.expr)?;
        // ClickHouse orders uuids by their second half.
        Ok(if order.expr.ty.kind == Kind::Uuid { format!("toString({value})") } else { value })
    }

    fn window(&mut self, scope: &mut Scope, window: &WindowCall) -> Result<String> {
        let call = self.aggregate(scope, &window.call)?;
        let mut clauses = Vec::new();
        if !window.partition.is_empty() {
            clauses.push(format!("PARTITION BY {}", self.exprs(scope, &window.partition)?));
        }
        if !window.order.is_empty() {
            let mut terms = Vec::new();
            for order in &window.order {
                terms.push(format!("{}{}", self.ordered(scope, order)?, direction(order)));
            }
            clauses.push(format!("ORDER BY {}", terms.join(", ")));
        }
        if let Some((unit, from, to)) = &window.frame {
            let unit = match unit {
                FrameUnit::Rows => "ROWS",
                FrameUnit::Range => "RANGE",
            };
            clauses.push(format!("{unit} BETWEEN {} AND {}", bound(from), bound(to)));
        }
        Ok(format!("{call} OVER ({})", clauses.join(" ")))
    }

    pub fn exprs(&mut self, scope: &mut Scope, exprs: &[Expr]) -> Result<String> {
        let texts = exprs.iter().map(|expr| self.expr(scope, expr));
        Ok(texts.collect::<Result<Vec<_>>>()?.join(", "))
    }
}

fn direction(order: &Order) -> String {
    let direction = if order.descending { " DESC" } else { " ASC" };
    let nulls = if order.nulls_first { " NULLS FIRST" } else { " NULLS LAST" };
    format!("{direction}{nulls}")
}

fn bound(bound: &Bound) -> String {
    match bound {
        Bound::UnboundedPreceding => "UNBOUNDED PRECEDING".to_owned(),
        Bound::Preceding(rows) => format!("{rows} PRECEDING"),
        Bound::CurrentRow => "CURRENT ROW".to_owned(),
        Bound::Following(rows) => format!("{rows} FOLLOWING"),
        Bound::UnboundedFollowing => "UNBOUNDED FOLLOWING".to_owned(),
    }
}

/// Whether a value does not vary by row.
pub(super) fn is_constant(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Value(_) => true,
        ExprKind::Cast { expr, .. } => is_constant(expr),
        ExprKind::Call { function, args } if function.0.name == "tuple" => {
            args.iter().all(is_constant)
        }
        _ => false,
    }
}
