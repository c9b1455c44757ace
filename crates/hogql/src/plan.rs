//! What a statement asks for, checked: every name found, every type known, every project named.
//!
//! The crate's head says what a lowering may rely on.

mod print;

use model::{CohortId, ProjectId};

use crate::ast::{Bound, FrameUnit, JoinKind, SetOp, Unit};
use crate::error::Span;
use crate::functions::Function;
use crate::tables::{LazyJoin, Table};
use crate::types::Type;

#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub project: ProjectId,
    /// Moments are shown, cut and read in it unless their type names another.
    pub zone: String,
    pub ctes: Vec<Relation>,
    pub root: Relation,
    pub page: Page,
}

/// Which rows of the root are the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// At most `limits::ROWS_MAX`.
    pub limit: u64,
    pub offset: u64,
    /// False if the statement had no limit: the answer then says whether there is more.
    pub has_limit: bool,
    /// Whether the statement may have more rows than an answer: the answer then says if any were
    /// left out, though it has a limit.
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
}

#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    Select(Box<Select>),
    /// Applied from left to right, columns by position, each cast to the type of the whole.
    Set {
        first: Box<Relation>,
        rest: Vec<(SetOp, Relation)>,
    },
}

/// In the order in which its parts apply.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Select {
    /// Numbered from 0 as they stand; none is one row without columns.
    pub sources: Vec<JoinedSource>,
    pub unnests: Vec<Unnest>,
    pub filter: Option<Expr>,
    pub grouping: Option<Grouping>,
    /// Of what `grouping` gives; numbered on from `unnests`.
    pub late_unnests: Vec<Unnest>,
    pub windows: Vec<WindowCall>,
    /// As many as the relation's columns.
    pub columns: Vec<Expr>,
    pub distinct: bool,
    pub order: Vec<Order>,
    pub limit_by: Option<LimitBy>,
    pub limit: Option<u64>,
    pub offset: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct JoinedSource {
    pub source: Source,
    /// To the sources before it; the first has none.
    pub kind: Option<JoinKind>,
    pub on: Option<Expr>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// Rows of this project only: a table cannot be named without one.
    Table(Table, ProjectId),
    /// 0 up to this.
    Numbers(u64),
    Query(Box<Relation>),
    /// By number in the plan.
    Cte(usize),
}

/// A row for each element: of several arrays the first elements together, then the second, …
/// Several unnests give each combination.
#[derive(Clone, Debug, PartialEq)]
pub struct Unnest {
    pub arrays: Vec<Expr>,
    /// A row without elements stays, with the defaults of their types.
    pub keep_empty: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Grouping {
    /// None is one group, also of no rows.
    pub keys: Vec<Expr>,
    pub aggregates: Vec<Aggregate>,
    pub having: Option<Expr>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Aggregate {
    pub function: FunctionRef,
    pub parameters: Vec<Value>,
    pub distinct: bool,
    /// None for `count()`.
    pub args: Vec<Expr>,
    /// Only rows where this holds count (`sumIf`).
    pub filter: Option<Expr>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct WindowCall {
    /// A window function, or an aggregate over the frame.
    pub call: Aggregate,
    pub partition: Vec<Expr>,
    pub order: Vec<Order>,
    /// Without one: up to the current row's peers if there is an order, else the partition.
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
    /// For errors that only show when it runs, such as a bad pattern.
    pub span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    Value(Value),
    /// Of a table.
    Column {
        source: usize,
        via: Vec<LazyJoin>,
        name: &'static str,
    },
    /// Of a query or a common table expression, by position.
    Output {
        source: usize,
        column: usize,
    },
    /// Out of a JSON object: text without quotes, NULL for what is missing, `null` or `''`; of
    /// another type if the property is defined so, then NULL for what cannot be read as it.
    Property {
        of: Box<Expr>,
        path: Vec<Step>,
    },
    /// An element of an unnest, by its number and the array's.
    Element(usize, usize),
    /// Of the select's grouping.
    Key(usize),
    Aggregate(usize),
    Window(usize),
    /// Of the innermost lambda around it that has a parameter with this number.
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
    /// Never null: a null is in no set.
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
    /// The only column of the only row; NULL of no rows.
    Query(Box<Relation>),
    /// Only while names are resolved; no plan has them.
    AggregateCall(Box<Aggregate>),
    WindowCall(Box<WindowCall>),
    Unnested {
        array: Box<Expr>,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub enum Set {
    List(Vec<Expr>),
    /// An array, which may differ by row.
    Array(Box<Expr>),
    Query(Box<Relation>),
    Cohort(CohortId),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Key(String),
    /// From 1.
    Index(u64),
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

/// Never null, other than in SQL: `Equal` holds for two nulls and `NotEqual` for exactly one;
/// the others do not hold when a side is null, except the negated ones, which then do.
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

/// A line of the table of functions.
#[derive(Clone, Copy, Debug)]
pub struct FunctionRef(pub &'static Function);

impl PartialEq for FunctionRef {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}
