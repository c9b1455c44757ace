//! Prints statements.

use std::fmt;

use super::{join, quoted};
use crate::ast::{
    ArrayJoin, Body, Bound, Column, ColumnSet, Frame, FrameUnit, From, Join, JoinKind, Name, On,
    Order, Query, Select, SetOp, Source, SourceKind, Strictness, Window, With, WithValue,
};

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.with.is_empty() {
            f.write_str("WITH ")?;
            join(f, &self.with, ", ")?;
            f.write_str(" ")?;
        }
        match &self.body {
            Body::Select(select) => select.fmt(f),
            Body::Set { first, rest } => {
                Operand(first).fmt(f)?;
                for (op, query) in rest {
                    let op = match op {
                        SetOp::UnionAll => "UNION ALL",
                        SetOp::UnionDistinct => "UNION DISTINCT",
                        SetOp::Intersect => "INTERSECT",
                        SetOp::IntersectDistinct => "INTERSECT DISTINCT",
                        SetOp::Except => "EXCEPT",
                        SetOp::ExceptDistinct => "EXCEPT DISTINCT",
                    };
                    write!(f, " {op} {}", Operand(query))?;
                }
                Ok(())
            }
        }
    }
}

/// Names in parentheses, if there are any.
pub(super) fn names(f: &mut fmt::Formatter<'_>, names: &[Name]) -> fmt::Result {
    if names.is_empty() {
        return Ok(());
    }
    f.write_str("(")?;
    join(f, names, ", ")?;
    f.write_str(")")
}

struct Operand<'a>(&'a Query);

impl fmt::Display for Operand<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Query { with, body: Body::Select(select) } if with.is_empty() => select.fmt(f),
            query => write!(f, "({query})"),
        }
    }
}

impl fmt::Display for With {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            WithValue::Query(query) => {
                self.name.fmt(f)?;
                names(f, &self.columns)?;
                write!(f, " AS ({query})")
            }
            WithValue::Scalar(expr) => write!(f, "{expr} AS {}", self.name),
        }
    }
}

impl fmt::Display for Select {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.distinct { "SELECT DISTINCT " } else { "SELECT " })?;
        join(f, &self.columns, ", ")?;
        if let Some(from) = &self.from {
            write!(f, " FROM {from}")?;
        }
        if let Some(array_join) = &self.array_join {
            array_join.fmt(f)?;
        }
        if let Some(filter) = &self.prewhere {
            write!(f, " PREWHERE {filter}")?;
        }
        if let Some(filter) = &self.filter {
            write!(f, " WHERE {filter}")?;
        }
        if !self.group_sets.is_empty() {
            for (no, set) in self.group_sets.iter().enumerate() {
                f.write_str(if no == 0 { " GROUP BY GROUPING SETS ((" } else { "), (" })?;
                let keys: Vec<_> = set.iter().filter_map(|key| self.group.get(*key)).collect();
                join(f, &keys, ", ")?;
            }
            f.write_str("))")?;
        } else if self.group_all {
            f.write_str(" GROUP BY ALL")?;
        } else if !self.group.is_empty() {
            f.write_str(" GROUP BY ")?;
            join(f, &self.group, ", ")?;
        }
        if let Some(having) = &self.having {
            write!(f, " HAVING {having}")?;
        }
        for (no, (name, window)) in self.windows.iter().enumerate() {
            write!(f, "{} {name} AS {window}", if no == 0 { " WINDOW" } else { "," })?;
        }
        if let Some(filter) = &self.qualify {
            write!(f, " QUALIFY {filter}")?;
        }
        if !self.order.is_empty() {
            f.write_str(" ORDER BY ")?;
            join(f, &self.order, ", ")?;
        }
        if let Some(limit_by) = &self.limit_by {
            write!(f, " LIMIT {}", limit_by.limit)?;
            if let Some(offset) = &limit_by.offset {
                write!(f, " OFFSET {offset}")?;
            }
            f.write_str(" BY ")?;
            join(f, &limit_by.by, ", ")?;
        }
        if let Some(limit) = &self.limit {
            write!(f, " LIMIT {limit}{}", if self.with_ties { " WITH TIES" } else { "" })?;
        }
        if let Some(offset) = &self.offset {
            write!(f, " OFFSET {offset}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.alias {
            Some(alias) => write!(f, "{} AS {alias}", self.expr),
            None => self.expr.fmt(f),
        }
    }
}

impl fmt::Display for From {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.first.fmt(f)?;
        join(f, &self.joins, "")
    }
}

impl fmt::Display for Join {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            JoinKind::Inner => "JOIN",
            JoinKind::Left => "LEFT JOIN",
            JoinKind::Right => "RIGHT JOIN",
            JoinKind::Full => "FULL JOIN",
            JoinKind::Cross => "CROSS JOIN",
        };
        let strictness = match self.strictness {
            Strictness::All => "",
            Strictness::Any => " ANY",
            Strictness::Semi => " SEMI",
            Strictness::Anti => " ANTI",
        };
        write!(f, "{strictness} {kind} {}", self.source)?;
        match &self.on {
            Some(On::Condition(condition)) => write!(f, " ON {condition}"),
            Some(On::Using(names)) => {
                f.write_str(" USING (")?;
                join(f, names, ", ")?;
                f.write_str(")")
            }
            None => Ok(()),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            SourceKind::Table(name) => name.fmt(f)?,
            SourceKind::Call(name, args) => {
                write!(f, "{name}(")?;
                join(f, args, ", ")?;
                f.write_str(")")?;
            }
            SourceKind::Query(query) => write!(f, "({query})")?,
        }
        match &self.alias {
            Some(alias) => {
                write!(f, " AS {alias}")?;
                names(f, &self.columns)
            }
            None => Ok(()),
        }
    }
}

impl fmt::Display for ColumnSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.pattern, &self.table) {
            (Some(pattern), _) => {
                f.write_str("COLUMNS(")?;
                quoted(f, pattern, '\'')?;
                f.write_str(")")?;
            }
            (None, Some(table)) => write!(f, "{table}.*")?,
            (None, None) => f.write_str("*")?,
        }
        if !self.exclude.is_empty() {
            f.write_str(" EXCLUDE ")?;
            names(f, &self.exclude)?;
        }
        if !self.replace.is_empty() {
            f.write_str(" REPLACE (")?;
            for (no, (expr, name)) in self.replace.iter().enumerate() {
                write!(f, "{}{expr} AS {name}", if no > 0 { ", " } else { "" })?;
            }
            f.write_str(")")?;
        }
        Ok(())
    }
}

impl fmt::Display for ArrayJoin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.keep_empty { " LEFT ARRAY JOIN " } else { " ARRAY JOIN " })?;
        join(f, &self.arrays, ", ")
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.expr, if self.descending { " DESC" } else { "" })?;
        match self.nulls_first {
            Some(true) => f.write_str(" NULLS FIRST"),
            Some(false) => f.write_str(" NULLS LAST"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(")?;
        let mut between = "";
        if !self.partition.is_empty() {
            f.write_str("PARTITION BY ")?;
            join(f, &self.partition, ", ")?;
            between = " ";
        }
        if !self.order.is_empty() {
            write!(f, "{between}ORDER BY ")?;
            join(f, &self.order, ", ")?;
            between = " ";
        }
        if let Some(frame) = &self.frame {
            write!(f, "{between}{frame}")?;
        }
        f.write_str(")")
    }
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = match self.unit {
            FrameUnit::Rows => "ROWS",
            FrameUnit::Range => "RANGE",
        };
        write!(f, "{unit} BETWEEN {} AND {}", self.start, self.end)
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnboundedPreceding => f.write_str("UNBOUNDED PRECEDING"),
            Self::Preceding(rows) => write!(f, "{rows} PRECEDING"),
            Self::CurrentRow => f.write_str("CURRENT ROW"),
            Self::Following(rows) => write!(f, "{rows} FOLLOWING"),
            Self::UnboundedFollowing => f.write_str("UNBOUNDED FOLLOWING"),
        }
    }
}
