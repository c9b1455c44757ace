//! The syntax tree: no name is resolved yet.
//!
//! Spellings of one meaning share one tree: `==` and `=`, `x::T` and `CAST(x AS T)`, parentheses.

use crate::error::Span;

#[derive(Clone, Debug, PartialEq)]
pub struct Name {
    pub text: String,
    pub span: Span,
}

impl Name {
    /// The place of names that this crate writes into a statement.
    const GENERATED: Span = Span { start: u32::MAX, end: u32::MAX };

    /// Marks a name as not from the statement's text.
    pub(crate) fn set_generated(&mut self) {
        self.span = Self::GENERATED;
    }

    pub(crate) fn is_generated(&self) -> bool {
        self.span.start == Self::GENERATED.start
    }

    pub fn new(text: impl Into<String>, span: Span) -> Self {
        Self { text: text.into(), span }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    pub with: Vec<With>,
    pub body: Body,
}

#[derive(Clone, Debug, PartialEq)]
pub struct With {
    pub name: Name,
    /// New names of the query's columns: `WITH t(a, b) AS (SELECT …)`.
    pub columns: Vec<Name>,
    pub value: WithValue,
}

#[derive(Clone, Debug, PartialEq)]
pub enum WithValue {
    /// `WITH name AS (SELECT …)`
    Query(Query),
    /// `WITH 1 AS name`
    Scalar(Expr),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    Select(Box<Select>),
    /// Left-associative; `INTERSECT` binds tighter and is a nested operand.
    Set {
        first: Box<Query>,
        rest: Vec<(SetOp, Query)>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetOp {
    UnionAll,
    UnionDistinct,
    Intersect,
    IntersectDistinct,
    Except,
    ExceptDistinct,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Select {
    pub span: Span,
    pub distinct: bool,
    pub columns: Vec<Column>,
    pub from: Option<From>,
    pub array_join: Option<ArrayJoin>,
    pub prewhere: Option<Expr>,
    pub filter: Option<Expr>,
    pub group: Vec<Expr>,
    /// `GROUP BY ALL`: by every column without an aggregate.
    pub group_all: bool,
    /// `ROLLUP`, `CUBE` and `GROUPING SETS`: the keys of each set, by their index in `group`. Empty
    /// groups by all keys alone.
    pub group_sets: Vec<Vec<usize>>,
    pub having: Option<Expr>,
    pub windows: Vec<(Name, Window)>,
    /// Filters rows after windows, as `HAVING` does after grouping.
    pub qualify: Option<Expr>,
    pub order: Vec<Order>,
    pub limit_by: Option<LimitBy>,
    pub limit: Option<Expr>,
    /// `WITH TIES`: also the rows that are equal to the last one in the order.
    pub with_ties: bool,
    pub offset: Option<Expr>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    pub expr: Expr,
    pub alias: Option<Name>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct From {
    pub first: Source,
    pub joins: Vec<Join>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    pub kind: SourceKind,
    pub alias: Option<Name>,
    /// New names of the columns: `… AS t(a, b)`.
    pub columns: Vec<Name>,
    pub span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub enum SourceKind {
    Table(Name),
    /// `numbers(10)`
    Call(Name, Vec<Expr>),
    Query(Box<Query>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Join {
    pub kind: JoinKind,
    pub strictness: Strictness,
    pub source: Source,
    pub on: Option<On>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinKind {
    Inner,
    Left,
    Right,
    Full,
    Cross,
}

/// How many matches of a row a join returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strictness {
    #[default]
    All,
    /// At most one.
    Any,
    /// Rows of the outer side that have a match, once each.
    Semi,
    /// Rows of the outer side that have none.
    Anti,
}

#[derive(Clone, Debug, PartialEq)]
pub enum On {
    Condition(Expr),
    Using(Vec<Name>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct ArrayJoin {
    /// `LEFT ARRAY JOIN`: retains rows with empty arrays.
    pub keep_empty: bool,
    pub arrays: Vec<Column>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    pub expr: Expr,
    pub descending: bool,
    pub nulls_first: Option<bool>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct LimitBy {
    pub limit: Expr,
    pub offset: Option<Expr>,
    pub by: Vec<Expr>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Window {
    pub partition: Vec<Expr>,
    pub order: Vec<Order>,
    pub frame: Option<Frame>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    pub unit: FrameUnit,
    pub start: Bound,
    pub end: Bound,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameUnit {
    Rows,
    Range,
}

/// In the order from the earliest to the latest bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    UnboundedPreceding,
    Preceding(u64),
    CurrentRow,
    Following(u64),
    UnboundedFollowing,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Over {
    Named(Name),
    Window(Window),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    pub kind: ExprKind,
    pub span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    Literal(Literal),
    /// `*` or `t.*`: a column, or the argument of `count`.
    Star(Option<Name>),
    /// `* EXCLUDE (a)`, `* REPLACE (x AS a)`, `COLUMNS('pattern')`: a column.
    Columns(Box<ColumnSet>),
    /// `a.b.c`; the resolver decides which part is a table, a column or a property.
    Field(Vec<Name>),
    /// `{a.b}`
    Placeholder(Vec<Name>),
    /// `.name` of an expression that is not a field.
    Member(Box<Expr>, Name),
    /// `.1`
    Element(Box<Expr>, u64),
    /// `[i]`
    Index(Box<Expr>, Box<Expr>),
    Unary(UnaryOp, Box<Expr>),
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// At least two operands; nested operands of the same operation are flattened.
    Logic(LogicOp, Vec<Expr>),
    IsNull {
        expr: Box<Expr>,
        negated: bool,
    },
    Between {
        expr: Box<Expr>,
        low: Box<Expr>,
        high: Box<Expr>,
        negated: bool,
    },
    In {
        expr: Box<Expr>,
        set: Box<Expr>,
        negated: bool,
    },
    InCohort {
        expr: Box<Expr>,
        cohort: Box<Expr>,
        negated: bool,
    },
    /// `condition ? then : otherwise`
    Ternary(Box<[Expr; 3]>),
    Case {
        operand: Option<Box<Expr>>,
        branches: Vec<(Expr, Expr)>,
        otherwise: Option<Box<Expr>>,
    },
    Cast(Box<Expr>, TypeName),
    /// Null where the cast fails.
    TryCast(Box<Expr>, TypeName),
    /// `(expr AS name)` within an expression; the name is visible in the whole select.
    Alias(Box<Expr>, Name),
    Interval(Box<Expr>, Unit),
    Lambda(Vec<Name>, Box<Expr>),
    Call(Box<Call>),
    Array(Vec<Expr>),
    Tuple(Vec<Expr>),
    Query(Box<Query>),
}

/// Some of the columns of the sources.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ColumnSet {
    pub table: Option<Name>,
    /// A regular expression that part of the name matches.
    pub pattern: Option<String>,
    pub exclude: Vec<Name>,
    pub replace: Vec<(Expr, Name)>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    pub name: Name,
    /// `0.5` in `quantile(0.5)(x)`.
    pub parameters: Vec<Expr>,
    pub distinct: bool,
    pub args: Vec<Expr>,
    pub over: Option<Over>,
}

#[derive(Clone, Debug)]
pub enum Literal {
    Null,
    Bool(bool),
    Int(u64),
    Float(f64),
    String(String),
}

impl PartialEq for Literal {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Int(a), Self::Int(b)) => a == b,
            // All NaNs are the same literal.
            (Self::Float(a), Self::Float(b)) => a == b || (a.is_nan() && b.is_nan()),
            (Self::String(a), Self::String(b)) => a == b,
            _ => false,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnaryOp {
    Negate,
    Not,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogicOp {
    And,
    Or,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinaryOp {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Concat,
    Coalesce,
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

impl BinaryOp {
    /// Whether this is a comparison.
    pub const fn compares(self) -> bool {
        !matches!(
            self,
            Self::Add
                | Self::Subtract
                | Self::Multiply
                | Self::Divide
                | Self::Modulo
                | Self::Concat
                | Self::Coalesce
        )
    }

    pub const fn symbol(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Modulo => "%",
            Self::Concat => "||",
            Self::Coalesce => "??",
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::Like => "LIKE",
            Self::NotLike => "NOT LIKE",
            Self::ILike => "ILIKE",
            Self::NotILike => "NOT ILIKE",
            Self::Match => "=~",
            Self::NotMatch => "!~",
            Self::IMatch => "=~*",
            Self::NotIMatch => "!~*",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
}

impl Unit {
    pub const ALL: [Self; 8] = [
        Self::Second,
        Self::Minute,
        Self::Hour,
        Self::Day,
        Self::Week,
        Self::Month,
        Self::Quarter,
        Self::Year,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Quarter => "quarter",
            Self::Year => "year",
        }
    }

    /// Singular or plural, case-insensitive.
    pub fn parse(word: &str) -> Option<Self> {
        let lower = word.to_ascii_lowercase();
        let singular = lower.strip_suffix('s').unwrap_or(&lower);
        Self::ALL.into_iter().find(|unit| unit.as_str() == singular)
    }
}

/// `Nullable(DateTime64(6, 'UTC'))`
#[derive(Clone, Debug, PartialEq)]
pub struct TypeName {
    pub name: Name,
    pub args: Vec<TypeArg>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum TypeArg {
    Type(TypeName),
    Int(u64),
    String(String),
}
