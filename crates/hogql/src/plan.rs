//! The checked plan: names resolved, types known, every table bound to its project.
//!
//! The crate's documentation lists the invariants that a lowering may rely on.

mod print;

use model::{CohortId, ProjectId};

use crate::ast::{Bound, FrameUnit, JoinKind, SetOp, Strictness, Unit};
use crate::error::Span;
use crate::functions::{Combinators, Function};
use crate::tables::{LazyJoin, Table};
use crate::types::Type;

#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub project: ProjectId,
    /// The project's time zone, in which date-times are displayed, truncated and parsed unless their
    /// type names another.
    pub zone: String,
    pub ctes: Vec<Relation>,
    pub root: Relation,
    pub page: Page,
}

/// Which rows of the root are the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// At most `limits::ROWS_MAX`.
    pub limit: u64,
    pub offset: u64,
    /// Whether the statement has a limit. If not, the result reports whether there are more rows.
    pub has_limit: bool,
    /// Whether the statement's limit exceeds `limits::ROWS_MAX`. If so, the result reports whether
    /// rows were dropped, although there is a limit.
    pub capped: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Relation {
    pub columns: Vec<Output>,
    pub body: Body,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// The alias, or the text of the expression.
    pub name: String,
    pub ty: Type,
    /// Whether its values are those of properties, whose type may be unknown.
    pub is_property: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    Select(Box<Select>),
    /// Left-associative; columns match by position and are cast to the common type.
    Set {
        first: Box<Relation>,
        rest: Vec<(SetOp, Relation)>,
    },
}

/// Fields are in the order of evaluation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Select {
    /// Indexed from 0. Without sources there is one row without columns.
    pub sources: Vec<JoinedSource>,
    pub unnests: Vec<Unnest>,
    pub filter: Option<Expr>,
    pub grouping: Option<Grouping>,
    /// Unnests of grouped rows; their indices continue those of `unnests`.
    pub late_unnests: Vec<Unnest>,
    pub windows: Vec<WindowCall>,
    /// `QUALIFY`: filters rows after the windows.
    pub qualify: Option<Expr>,
    /// One per column of the relation.
    pub columns: Vec<Expr>,
    pub distinct: bool,
    pub order: Vec<Order>,
    pub limit_by: Option<LimitBy>,
    pub limit: Option<u64>,
    /// The limit also returns the rows that equal its last one in `order`, which is not empty.
    pub with_ties: bool,
    pub offset: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct JoinedSource {
    pub source: Source,
    /// How it joins the sources before it; None for the first.
    pub kind: Option<JoinKind>,
    /// `All` unless the join is inner, left or right; `Semi` and `Anti` only with left and right.
    pub strictness: Strictness,
    pub on: Option<Expr>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// Only rows of this project: there is no table without a project.
    Table(Table, ProjectId),
    /// This many numbers; the last one fits.
    Numbers {
        start: u64,
        count: u64,
    },
    Query(Box<Relation>),
    /// By index in the plan.
    Cte(usize),
}

/// One row per element. Several arrays of one unnest are zipped; several unnests form a cross product.
#[derive(Clone, Debug, PartialEq)]
pub struct Unnest {
    pub arrays: Vec<Expr>,
    /// Retains a row whose arrays are empty, with the defaults of the element types.
    pub keep_empty: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Grouping {
    /// Without keys there is one group, even of no rows.
    pub keys: Vec<Expr>,
    pub aggregates: Vec<Aggregate>,
    pub having: Option<Expr>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Aggregate {
    pub function: FunctionRef,
    pub combinators: Combinators,
    pub parameters: Vec<Value>,
    pub distinct: bool,
    /// Empty for `count()`.
    pub args: Vec<Expr>,
    /// Restricts the aggregate to rows where this is true (`sumIf`).
    pub filter: Option<Expr>,
}

impl Aggregate {
    /// The type of its result. None if the arguments do not match, which no plan contains.
    pub fn ty(&self) -> Option<Type> {
        let types: Vec<Type> = self.args.iter().map(|arg| arg.ty.clone()).collect();
        self.combinators.result(self.function.0, &types)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct WindowCall {
    /// A window function, or an aggregate over the frame.
    pub call: Aggregate,
    pub partition: Vec<Expr>,
    pub order: Vec<Order>,
    /// Default: up to the current row's peers if there is an order, otherwise the partition.
    pub frame: Option<(FrameUnit, Bound, Bound)>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    pub expr: Expr,
    pub descending: bool,
    pub nulls_first: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct LimitBy {
    pub limit: u64,
    pub offset: u64,
    pub by: Vec<Expr>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    pub kind: ExprKind,
    pub ty: Type,
    /// For errors at run time, such as an invalid pattern.
    pub span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    Value(Value),
    /// A column of a table, reached through lazy joins.
    Column {
        source: usize,
        via: Vec<LazyJoin>,
        name: &'static str,
    },
    /// A column of a query or a common table expression, by index.
    Output {
        source: usize,
        column: usize,
    },
    /// A member of a JSON object: a string without quotes; NULL if it is missing, `null` or `''`. If
    /// the property's definition has another type, of that type; NULL if it cannot be parsed.
    Property {
        of: Box<Expr>,
        path: Vec<Step>,
    },
    /// An element of an unnest: index of the unnest, and of the array in it.
    Element(usize, usize),
    /// A key of the select's grouping, by index.
    Key(usize),
    Aggregate(usize),
    Window(usize),
    /// The parameter with this number of the innermost enclosing lambda that has one.
    Param(usize),
    Lambda {
        params: Vec<usize>,
        body: Box<Expr>,
    },
    Call {
        function: FunctionRef,
        args: Vec<Expr>,
    },
    Compare(Comparison, Box<[Expr; 2]>),
    /// Three-valued.
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Not(Box<Expr>),
    IsNull {
        expr: Box<Expr>,
        negated: bool,
    },
    /// Never null: a null is a member of no set.
    In {
        expr: Box<Expr>,
        set: Set,
        negated: bool,
    },
    /// To `ty`.
    Cast {
        expr: Box<Expr>,
        or_null: bool,
    },
    Interval(Box<Expr>, Unit),
    /// A scalar subquery: the only column of the only row; NULL without rows.
    Query(Box<Relation>),
    /// Only during resolution; no plan contains these three.
    AggregateCall(Box<Aggregate>),
    WindowCall(Box<WindowCall>),
    Unnested {
        array: Box<Expr>,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub enum Set {
    List(Vec<Expr>),
    /// An array, which may vary by row.
    Array(Box<Expr>),
    Query(Box<Relation>),
    Cohort(CohortId),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Key(String),
    /// Index from 1.
    Index(u64),
    /// The name of the value's JSON type, as `JSONType` returns it. Always the last step.
    JsonType,
}

#[derive(Clone, Debug)]
pub enum Value {
    Null,
    Bool(bool),
    UInt(u64),
    Int(i64),
    Float(f64),
    String(String),
    /// Microseconds since 1970.
    Timestamp(i64),
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::UInt(a), Self::UInt(b)) => a == b,
            (Self::Int(a), Self::Int(b)) => a == b,
            (Self::Float(a), Self::Float(b)) => a.to_bits() == b.to_bits(),
            (Self::String(a), Self::String(b)) => a == b,
            (Self::Timestamp(a), Self::Timestamp(b)) => a == b,
            _ => false,
        }
    }
}

/// Never null, unlike in SQL: `Equal` is true for two nulls and `NotEqual` for exactly one. With a
/// null side, the other comparisons are false and their negations true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Like,
    NotLike,
    ILike,
    NotILike,
    Match,
    NotMatch,
    IMatch,
    NotIMatch,
}

/// An entry of the function table.
#[derive(Clone, Copy, Debug)]
pub struct FunctionRef(pub &'static Function);

impl PartialEq for FunctionRef {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}
