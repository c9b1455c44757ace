//! Prints a plan on one line, for tests and logs; ` | ` separates its steps.

use std::fmt::{self, Display, Formatter, Result, Write};

use super::{
    Aggregate, Body, Comparison, Expr, ExprKind, JoinedSource, Order, Plan, Relation, Select, Set,
    Source, Step, Unnest, Value, WindowCall,
};
use crate::ast::Strictness;
use crate::tables::LazyJoin;
use crate::types::Kind;

impl Display for Plan {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        for (no, cte) in self.ctes.iter().enumerate() {
            write!(f, "cte{no} = ({cte}); ")?;
        }
        write!(f, "{} | page {}", self.root, self.page.limit)?;
        if self.page.offset > 0 {
            write!(f, "+{}", self.page.offset)?;
        }
        f.write_str(if self.page.has_limit { "!" } else { "" })
    }
}

impl Display for Relation {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match &self.body {
            Body::Select(select) => {
                let outputs = self.columns.iter().zip(&select.columns);
                let outputs =
                    outputs.map(|(output, expr)| format!("{} {} = {expr}", output.name, output.ty));
                let steps = before(select).into_iter();
                let steps = steps.chain([comma_separated(outputs)]).chain(after(select));
                f.write_str(&steps.collect::<Vec<_>>().join(" | "))
            }
            Body::Set { first, rest } => {
                write!(f, "({first})")?;
                for (op, relation) in rest {
                    write!(f, " {op:?} ({relation})")?;
                }
                Ok(())
            }
        }
    }
}

fn comma_separated<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    items.join(", ")
}

fn before(select: &Select) -> Vec<String> {
    let mut steps = Vec::new();
    if !select.sources.is_empty() {
        let sources: Vec<String> = select.sources.iter().map(JoinedSource::to_string).collect();
        steps.push(sources.join(" "));
    }
    steps.extend(select.unnests.iter().map(Unnest::to_string));
    steps.extend(select.filter.iter().map(|filter| format!("where {filter}")));
    if let Some(grouping) = &select.grouping {
        let keys = comma_separated(&grouping.keys);
        steps.push(format!("group [{keys}] [{}]", comma_separated(&grouping.aggregates)));
        steps.extend(grouping.having.iter().map(|having| format!("having {having}")));
    }
    steps.extend(select.late_unnests.iter().map(Unnest::to_string));
    if !select.windows.is_empty() {
        steps.push(format!("window {}", comma_separated(&select.windows)));
    }
    steps
}

fn after(select: &Select) -> Vec<String> {
    let mut steps = Vec::new();
    steps.extend(select.qualify.iter().map(|filter| format!("qualify {filter}")));
    if select.distinct {
        steps.push("distinct".to_owned());
    }
    if !select.order.is_empty() {
        steps.push(format!("order {}", comma_separated(&select.order)));
    }
    if let Some(limit_by) = &select.limit_by {
        let by = comma_separated(&limit_by.by);
        steps.push(format!("limit {}+{} by {by}", limit_by.limit, limit_by.offset));
    }
    if select.limit.is_some() || select.offset > 0 {
        let limit = select.limit.map_or_else(|| "all".to_owned(), |limit| limit.to_string());
        let ties = if select.with_ties { " with ties" } else { "" };
        steps.push(format!("limit {limit}+{}{ties}", select.offset));
    }
    steps
}

impl Display for JoinedSource {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        if self.strictness != Strictness::All {
            write!(f, "{:?} ", self.strictness)?;
        }
        if let Some(kind) = self.kind {
            write!(f, "{kind:?} ")?;
        }
        match &self.source {
            Source::Table(table, project) => write!(f, "{}@{project}", table.name())?,
            Source::Numbers { start: 0, count } => write!(f, "numbers {count}")?,
            Source::Numbers { start, count } => write!(f, "numbers {start}+{count}")?,
            Source::Query(relation) => write!(f, "({relation})")?,
            Source::Cte(no) => write!(f, "cte{no}")?,
        }
        self.on.iter().try_for_each(|on| write!(f, " on {on}"))
    }
}

impl Display for Unnest {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let keep = if self.keep_empty { " or default" } else { "" };
        write!(f, "unnest {}{keep}", comma_separated(&self.arrays))
    }
}

impl Display for Aggregate {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}{}", self.function.0.name, self.combinators)?;
        if !self.parameters.is_empty() {
            write!(f, "({})", comma_separated(&self.parameters))?;
        }
        let distinct = if self.distinct { "distinct " } else { "" };
        write!(f, "({distinct}{})", comma_separated(&self.args))?;
        self.filter.iter().try_for_each(|filter| write!(f, " if {filter}"))
    }
}

impl Display for WindowCall {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(
            f,
            "{} over [{}] [{}]",
            self.call,
            comma_separated(&self.partition),
            comma_separated(&self.order)
        )?;
        match &self.frame {
            Some((unit, start, end)) => write!(f, " {unit:?} {start} to {end}"),
            None => Ok(()),
        }
    }
}

impl Display for Order {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let direction = if self.descending { " desc" } else { "" };
        let nulls = if self.nulls_first { " nulls first" } else { "" };
        write!(f, "{}{direction}{nulls}", self.expr)
    }
}

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match &self.kind {
            ExprKind::Value(value) => value.fmt(f),
            ExprKind::Column { source, via, name } => {
                write!(f, "#{source}")?;
                via.iter().try_for_each(|link| write!(f, ".{link}"))?;
                write!(f, ".{name}")
            }
            ExprKind::Output { source, column } => write!(f, "#{source}[{column}]"),
            ExprKind::Property { of, path } => {
                of.fmt(f)?;
                path.iter().try_for_each(|step| match step {
                    Step::Key(key) => write!(f, "->{key}"),
                    Step::Index(index) => write!(f, "->{index}"),
                    Step::JsonType => write!(f, "->type()"),
                })?;
                match self.ty.kind {
                    Kind::String => Ok(()),
                    _ => write!(f, ":{}", self.ty),
                }
            }
            ExprKind::Element(unnest, array) => write!(f, "element{unnest}.{array}"),
            ExprKind::Key(key) => write!(f, "key{key}"),
            ExprKind::Aggregate(aggregate) => write!(f, "agg{aggregate}"),
            ExprKind::Window(window) => write!(f, "win{window}"),
            ExprKind::Param(param) => write!(f, "p{param}"),
            ExprKind::Lambda { params, body } => {
                let params = comma_separated(params.iter().map(|param| format!("p{param}")));
                write!(f, "({params} => {body})")
            }
            ExprKind::Call { function, args } => {
                write!(f, "{}({})", function.0.name, comma_separated(args))
            }
            ExprKind::Compare(comparison, sides) => {
                write!(f, "({} {} {})", sides[0], symbol(*comparison), sides[1])
            }
            ExprKind::And(parts) => joined(f, parts, " and "),
            ExprKind::Or(parts) => joined(f, parts, " or "),
            ExprKind::Not(part) => write!(f, "not {part}"),
            ExprKind::IsNull { expr, negated } => {
                write!(f, "({expr} is {}null)", if *negated { "not " } else { "" })
            }
            ExprKind::In { expr, set, negated } => {
                let not = if *negated { "not " } else { "" };
                match set {
                    Set::List(items) => write!(f, "({expr} {not}in [{}])", comma_separated(items)),
                    Set::Array(array) => write!(f, "({expr} {not}in {array})"),
                    Set::Query(relation) => write!(f, "({expr} {not}in ({relation}))"),
                    Set::Cohort(cohort) => write!(f, "({expr} {not}in cohort {cohort})"),
                }
            }
            ExprKind::Cast { expr, or_null } => {
                let how = if *or_null { "try" } else { "cast" };
                write!(f, "{how}({expr}, {})", self.ty)
            }
            ExprKind::Interval(count, unit) => write!(f, "interval({count}, {})", unit.as_str()),
            ExprKind::Query(relation) => write!(f, "({relation})"),
            ExprKind::AggregateCall(call) => call.fmt(f),
            ExprKind::WindowCall(call) => call.fmt(f),
            ExprKind::Unnested { array } => write!(f, "arrayJoin({array})"),
        }
    }
}

fn joined(f: &mut Formatter<'_>, parts: &[Expr], between: &str) -> Result {
    f.write_char('(')?;
    for (no, part) in parts.iter().enumerate() {
        write!(f, "{}{part}", if no > 0 { between } else { "" })?;
    }
    f.write_char(')')
}

fn symbol(comparison: Comparison) -> &'static str {
    match comparison {
        Comparison::Equal => "=",
        Comparison::NotEqual => "!=",
        Comparison::Less => "<",
        Comparison::LessOrEqual => "<=",
        Comparison::Greater => ">",
        Comparison::GreaterOrEqual => ">=",
        Comparison::Like => "like",
        Comparison::NotLike => "not like",
        Comparison::ILike => "ilike",
        Comparison::NotILike => "not ilike",
        Comparison::Match => "=~",
        Comparison::NotMatch => "!~",
        Comparison::IMatch => "=~*",
        Comparison::NotIMatch => "!~*",
    }
}

impl Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => value.fmt(f),
            Self::UInt(value) => value.fmt(f),
            Self::Int(value) => value.fmt(f),
            Self::Float(value) => write!(f, "{value:?}"),
            Self::String(value) => write!(f, "{value:?}"),
            Self::Timestamp(micros) => write!(f, "@{micros}"),
        }
    }
}

impl Display for LazyJoin {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Person => f.write_str("person"),
            Self::DistinctId => f.write_str("pdi"),
            Self::Session => f.write_str("session"),
            Self::Group(index) => write!(f, "group_{index}"),
        }
    }
}
