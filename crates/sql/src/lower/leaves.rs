//! Leaves of expressions: the values that they read from a row, and the columns that hold them.

use std::collections::HashMap;

use hogql::plan::{Expr, ExprKind, Select, Set, Step};
use hogql::tables::LazyJoin;

use super::codes::{CodeOf, Codes};

/// A value that an expression reads from its input row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Leaf {
    Field {
        source: usize,
        field: Field,
    },
    Output {
        source: usize,
        column: usize,
    },
    Element(usize, usize),
    Key(usize),
    Aggregate(usize),
    Window(usize),
    /// A number that stands for a key or an argument of the grouping.
    Code(CodeOf),
}

/// A column of a table, or of a table that its lazy joins lead to, or a property within the column.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Field {
    pub via: Vec<LazyJoin>,
    pub name: &'static str,
    /// The path within the column's JSON; empty for the column itself.
    pub path: Vec<PathStep>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PathStep {
    Key(String),
    /// Counts from 1.
    Index(u64),
    /// The name of the value's JSON type; the last step.
    JsonType,
}

/// The column of each leaf, and what its codes stand for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layout {
    columns: HashMap<Leaf, usize>,
    codes: HashMap<CodeOf, Codes>,
}

impl Layout {
    pub(crate) fn get(&self, leaf: &Leaf) -> Option<usize> {
        self.columns.get(leaf).copied()
    }

    pub(crate) fn set(&mut self, leaf: Leaf, column: usize) {
        self.columns.insert(leaf, column);
    }

    /// The column of codes, and what they stand for.
    pub(crate) fn code(&self, of: CodeOf) -> Option<(usize, &Codes)> {
        Some((self.get(&Leaf::Code(of))?, self.codes.get(&of)?))
    }

    pub(crate) fn set_code(&mut self, of: CodeOf, codes: Codes, column: usize) {
        self.set(Leaf::Code(of), column);
        self.codes.insert(of, codes);
    }

    pub(crate) fn shifted(mut self, by: usize) -> Self {
        self.columns.values_mut().for_each(|column| *column += by);
        self
    }

    pub(crate) fn merge(&mut self, other: Self) {
        self.columns.extend(other.columns);
        self.codes.extend(other.codes);
    }
}

/// The leaf that an expression is; none for a computed one.
pub(crate) fn leaf_of(expr: &Expr) -> Option<Leaf> {
    Some(match &expr.kind {
        ExprKind::Column { source, via, name } => {
            let field = Field { via: via.clone(), name, path: Vec::new() };
            Leaf::Field { source: *source, field }
        }
        ExprKind::Property { of, path } => {
            let ExprKind::Column { source, via, name } = &of.kind else { return None };
            // The warehouse stores an object's members as columns. A path that starts with an index
            // is evaluated on the JSON string.
            let [Step::Key(_), ..] = &path[..] else { return None };
            let path = path.iter().map(|step| match step {
                Step::Key(key) => PathStep::Key(key.clone()),
                Step::Index(index) => PathStep::Index(*index),
                Step::JsonType => PathStep::JsonType,
            });
            let field = Field { via: via.clone(), name, path: path.collect() };
            Leaf::Field { source: *source, field }
        }
        ExprKind::Output { source, column } => Leaf::Output { source: *source, column: *column },
        ExprKind::Element(unnest, array) => Leaf::Element(*unnest, *array),
        ExprKind::Key(key) => Leaf::Key(*key),
        ExprKind::Aggregate(aggregate) => Leaf::Aggregate(*aggregate),
        ExprKind::Window(window) => Leaf::Window(*window),
        _ => return None,
    })
}

/// The direct subexpressions; subqueries do not count.
pub(crate) fn parts(expr: &Expr) -> Vec<&Expr> {
    match &expr.kind {
        ExprKind::Property { of, .. } => vec![of],
        ExprKind::Lambda { body, .. } => vec![body],
        ExprKind::Call { args, .. } | ExprKind::And(args) | ExprKind::Or(args) => {
            args.iter().collect()
        }
        ExprKind::Compare(_, sides) => sides.iter().collect(),
        ExprKind::Not(part) | ExprKind::Interval(part, _) => vec![part],
        ExprKind::IsNull { expr, .. } | ExprKind::Cast { expr, .. } => vec![expr],
        ExprKind::In { expr, set, .. } => match set {
            Set::List(items) => std::iter::once(&**expr).chain(items).collect(),
            Set::Array(array) => vec![expr, array],
            Set::Query(_) | Set::Cohort(_) => vec![expr],
        },
        ExprKind::Unnested { array } => vec![array],
        ExprKind::Value(_)
        | ExprKind::Column { .. }
        | ExprKind::Output { .. }
        | ExprKind::Element(..)
        | ExprKind::Key(_)
        | ExprKind::Aggregate(_)
        | ExprKind::Window(_)
        | ExprKind::Param(_)
        | ExprKind::Query(_)
        | ExprKind::AggregateCall(_)
        | ExprKind::WindowCall(_) => Vec::new(),
    }
}

/// Visits the expression and its subexpressions, but not those of leaves.
pub(crate) fn walk<'a>(expr: &'a Expr, visit: &mut impl FnMut(&'a Expr)) {
    visit(expr);
    if leaf_of(expr).is_none() {
        parts(expr).into_iter().for_each(|part| walk(part, visit));
    }
}

pub(crate) fn leaves(expr: &Expr, visit: &mut impl FnMut(Leaf)) {
    walk(expr, &mut |part| leaf_of(part).into_iter().for_each(&mut *visit));
}

/// The sources that an expression reads; none if it reads anything but fields and outputs of them.
pub(crate) fn sources(expr: &Expr) -> Option<Vec<usize>> {
    let (mut sources, mut only_sources) = (Vec::new(), true);
    leaves(expr, &mut |leaf| match leaf {
        Leaf::Field { source, .. } | Leaf::Output { source, .. } => sources.push(source),
        _ => only_sources = false,
    });
    only_sources.then_some(sources)
}

/// All expressions of a select, apart from those of its subqueries.
pub(crate) fn exprs(select: &Select) -> Vec<&Expr> {
    let mut all: Vec<&Expr> = select.filter.iter().collect();
    all.extend(select.grouping.iter().flat_map(|grouping| &grouping.keys));
    let calls = select.grouping.iter().flat_map(|grouping| &grouping.aggregates);
    all.extend(calls.flat_map(|call| &call.args));
    all.extend(&select.columns);
    all.extend(other_exprs(select));
    all
}

/// The expressions of a select that are neither its filter, nor a key or an argument of its grouping,
/// nor a column.
pub(crate) fn other_exprs(select: &Select) -> Vec<&Expr> {
    let mut all: Vec<&Expr> =
        select.sources.iter().filter_map(|source| source.on.as_ref()).collect();
    all.extend(select.unnests.iter().chain(&select.late_unnests).flat_map(|unnest| &unnest.arrays));
    if let Some(grouping) = &select.grouping {
        all.extend(grouping.aggregates.iter().flat_map(|call| &call.filter));
        all.extend(&grouping.having);
    }
    for window in &select.windows {
        all.extend(window.call.args.iter().chain(&window.call.filter));
        all.extend(&window.partition);
        all.extend(window.order.iter().map(|order| &order.expr));
    }
    all.extend(&select.qualify);
    all.extend(select.order.iter().map(|order| &order.expr));
    all.extend(select.limit_by.iter().flat_map(|limit_by| &limit_by.by));
    all
}

/// The operands of a conjunction, flattened.
pub(crate) fn conjuncts(expr: &Expr) -> Vec<&Expr> {
    match &expr.kind {
        ExprKind::And(parts) => parts.iter().flat_map(conjuncts).collect(),
        _ => vec![expr],
    }
}
