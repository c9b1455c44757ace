//! Prints property filters ([`FilterExpr`]) as conditions. A test of an absent value is NULL or false,
//! never true.

use model::filter_expr::{
    Comparison, Field, FilterExpr, FilteredRows, STORED_DATE_PATTERN, ValueTest,
};
use model::property::VersionRange;
use model::{CohortId, Timestamp};

use crate::ast::{
    BinaryOp, Body, Column, Expr, ExprKind, From, LogicOp, Query, Select, Source, SourceKind,
};
use crate::build::{
    all, binary, boolean, call, expr, field, in_cohort, int, is_null, literal, logic, name, not,
    null, number, timestamp,
};
use crate::error::Span;
use crate::parse_expr;
use crate::tables::Table;
use crate::types::Kind;

/// Why a filter has no HogQL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("{0}")]
    Unsupported(String),
    /// A filter of type `hogql` has a syntax error.
    #[error(transparent)]
    Hogql(crate::Error),
}

impl std::convert::From<crate::Error> for Error {
    fn from(error: crate::Error) -> Self {
        Self::Hogql(error)
    }
}

type Result<T> = std::result::Result<T, Error>;

/// Prints filters of one table's rows.
#[derive(Clone, Copy, Debug)]
pub struct FilterPrinter<'a> {
    pub rows: FilteredRows,
    /// The project's rules of path cleaning: regular expressions and their replacements.
    pub path_cleaning: &'a [(String, String)],
}

/// What `JSONType` returns for numbers.
const NUMBER_TYPES: [&str; 3] = ["Int64", "UInt64", "Double"];

/// A field's value as expressions.
#[derive(Clone, Debug)]
pub struct Value {
    /// Its string; NULL if it is absent.
    pub text: Expr,
    /// Whether it is a JSON number.
    is_number: Expr,
    /// A column that is a time.
    time: Option<Expr>,
}

impl Value {
    /// A value that is never a JSON number.
    fn text(text: Expr) -> Self {
        let text = call("nullIf", vec![text, literal("")]);
        Self { text, is_number: boolean(false), time: None }
    }

    /// A property as it is stored, whatever its definition says.
    pub fn property(object: &[&str], key: &str) -> Self {
        let get = |function: &str, missing: &str| {
            let value = call(function, vec![field(object), literal(key)]);
            call("nullIf", vec![value, literal(missing)])
        };
        let types = NUMBER_TYPES.iter().map(|name| literal(name)).collect();
        let is_number = one_of(get("JSONType", "Null"), types);
        Self { text: get("JSONExtractString", ""), is_number, time: None }
    }

    /// A column of a table, or one that a lazy join leads to.
    pub fn column(chain: &[&str], kind: Option<Kind>) -> Self {
        let column = field(chain);
        match kind {
            Some(kind) if kind.is_time() => {
                Self { time: Some(column.clone()), ..Self::text(iso_text(column)) }
            }
            kind => {
                let is_number =
                    boolean(kind.is_some_and(|kind| kind.is_number() && kind != Kind::Bool));
                Self { is_number, ..Self::text(call("toString", vec![column])) }
            }
        }
    }

    /// NULL if it is no number.
    pub fn number(&self) -> Expr {
        call("toFloat", vec![call("trim", vec![self.text.clone()])])
    }

    fn folded(&self) -> Expr {
        call("lower", vec![self.text.clone()])
    }
}

/// A time as [`Timestamp`] writes it. NULL stays NULL, which `concat` counts as empty.
fn iso_text(time: Expr) -> Expr {
    let is_missing = is_null(time.clone(), false);
    let utc = call("toString", vec![call("toTimeZone", vec![time, literal("UTC")])]);
    let short = call("replaceOne", vec![utc, literal(".000000"), literal("")]);
    let date_and_time = call("replaceOne", vec![short, literal(" "), literal("T")]);
    let text = call("concat", vec![date_and_time, literal("Z")]);
    call("if", vec![is_missing, null(), text])
}

fn one_of(value: Expr, mut list: Vec<Expr>) -> Expr {
    if list.len() == 1 {
        return binary(BinaryOp::Equal, value, list.remove(0));
    }
    let set = Box::new(expr(ExprKind::Tuple(list)));
    expr(ExprKind::In { expr: Box::new(value), set, negated: false })
}

/// True where `inner` is false or NULL.
fn negated(inner: Expr) -> Expr {
    not(call("ifNull", vec![inner, boolean(false)]))
}

const fn operator(comparison: Comparison) -> BinaryOp {
    match comparison {
        Comparison::Equal => BinaryOp::Equal,
        Comparison::Less => BinaryOp::Less,
        Comparison::LessOrEqual => BinaryOp::LessOrEqual,
        Comparison::Greater => BinaryOp::Greater,
        Comparison::GreaterOrEqual => BinaryOp::GreaterOrEqual,
    }
}

/// Whether no absent value passes what the test prints.
fn rejects_absent(test: &ValueTest) -> bool {
    match test {
        ValueTest::And(tests) => tests.iter().any(rejects_absent),
        ValueTest::Or(tests) => tests.iter().all(rejects_absent),
        ValueTest::Not(_) => false,
        _ => true,
    }
}

fn unsupported(what: &str) -> Error {
    Error::Unsupported(format!("{what} cannot be used here."))
}

impl FilterPrinter<'_> {
    pub fn print(&self, filter: &FilterExpr) -> Result<Expr> {
        let parts = |filters: &[FilterExpr]| -> Result<Vec<Expr>> {
            filters.iter().map(|filter| self.print(filter)).collect()
        };
        Ok(match filter {
            FilterExpr::And(filters) => all(parts(filters)?),
            FilterExpr::Or(filters) => logic(LogicOp::Or, parts(filters)?),
            FilterExpr::Not(filter) => match &**filter {
                FilterExpr::InCohort(id) => self.cohort(*id, true)?,
                filter => negated(self.print(filter)?),
            },
            FilterExpr::Test(field, test) => self.field_test(field, test)?,
            FilterExpr::InCohort(id) => self.cohort(*id, false)?,
            FilterExpr::Hogql(text) => parse_expr(text)?,
        })
    }

    fn person_id(&self) -> Result<Expr> {
        match self.rows {
            FilteredRows::Events => Ok(field(&["person_id"])),
            FilteredRows::Persons => Ok(field(&["id"])),
            FilteredRows::Groups => Err(unsupported("A filter of persons")),
        }
    }

    fn cohort(&self, id: CohortId, negated: bool) -> Result<Expr> {
        // Literals are unsigned.
        if id.0 < 0 {
            return Err(Error::Unsupported("A cohort is named by its number.".into()));
        }
        Ok(in_cohort(self.person_id()?, id, negated))
    }

    fn field_test(&self, of: &Field, test: &ValueTest) -> Result<Expr> {
        let column_kind = |table: Table, name: &str| table.column(name).map(|(_, ty)| ty.kind);
        let value = match of {
            Field::EventProperty(key) => Value::property(&["properties"], key),
            Field::EventColumn(name) => Value::column(&[name], column_kind(Table::Events, name)),
            Field::PersonProperty(key) => match self.rows {
                FilteredRows::Persons => Value::property(&["properties"], key),
                _ => Value::property(&["person", "properties"], key),
            },
            Field::PersonId => Value::column(&["person_id"], None),
            Field::GroupProperty { index: None, key } => Value::property(&["properties"], key),
            Field::GroupProperty { index: Some(index), key } => {
                Value::property(&[&format!("group_{index}"), "properties"], key)
            }
            Field::SessionField(name) => {
                Value::column(&["session", name], column_kind(Table::Sessions, name))
            }
            Field::DistinctIds => return self.distinct_id_test(test),
            Field::Element(_) => return Err(unsupported("Filters of type 'element'")),
        };
        self.value_test(&value, test)
    }

    fn value_test(&self, value: &Value, test: &ValueTest) -> Result<Expr> {
        let printed = self.test(value, test)?;
        if rejects_absent(test) {
            return Ok(printed);
        }
        Ok(all(vec![is_null(value.text.clone(), true), printed]))
    }

    /// Persons with a distinct id that passes. A distinct id without a person has rows of its own.
    fn distinct_id_test(&self, test: &ValueTest) -> Result<Expr> {
        let own = self.value_test(&Value::column(&["distinct_id"], None), test)?;
        let table = SourceKind::Table(name("person_distinct_ids"));
        let first = Source { kind: table, alias: None, columns: Vec::new(), span: Span::default() };
        let select = Select {
            columns: vec![Column { expr: field(&["person_id"]), alias: None }],
            from: Some(From { first, joins: Vec::new() }),
            filter: Some(own.clone()),
            ..Select::default()
        };
        let query = Query { with: Vec::new(), body: Body::Select(Box::new(select)) };
        let set = Box::new(expr(ExprKind::Query(Box::new(query))));
        let of_person = ExprKind::In { expr: Box::new(self.person_id()?), set, negated: false };
        Ok(match self.rows {
            FilteredRows::Events => logic(LogicOp::Or, vec![own, expr(of_person)]),
            _ => expr(of_person),
        })
    }

    fn test(&self, value: &Value, test: &ValueTest) -> Result<Expr> {
        let tests = |tests: &[ValueTest]| -> Result<Vec<Expr>> {
            tests.iter().map(|test| self.test(value, test)).collect()
        };
        let any = |all: &[String], each: &dyn Fn(&str) -> Expr| {
            logic(LogicOp::Or, all.iter().map(|one| each(one)).collect())
        };
        let texts = |all: &[String]| all.iter().map(|text| literal(text)).collect();
        let text = || value.text.clone();
        Ok(match test {
            ValueTest::Present => is_null(text(), true),
            ValueTest::And(all_of) => all(tests(all_of)?),
            ValueTest::Or(any_of) => logic(LogicOp::Or, tests(any_of)?),
            ValueTest::Not(inner) => negated(self.test(value, inner)?),
            ValueTest::IsNumber => value.is_number.clone(),
            ValueTest::TextIn(list) => one_of(text(), texts(list)),
            ValueTest::Text(comparison, bound) => {
                binary(operator(*comparison), text(), literal(bound))
            }
            ValueTest::NumberIn(list) => {
                one_of(value.number(), list.iter().map(|one| number(*one)).collect())
            }
            ValueTest::Number(Comparison::Equal, bound) => {
                binary(BinaryOp::Equal, value.number(), number(*bound))
            }
            ValueTest::Number(comparison, bound) => all(vec![
                call("isFinite", vec![value.number()]),
                binary(operator(*comparison), value.number(), number(*bound)),
            ]),
            ValueTest::ContainsAny(parts) => any(parts, &|part| {
                let position = call("position", vec![value.folded(), literal(part)]);
                binary(BinaryOp::Greater, position, int(0))
            }),
            ValueTest::StartsWith(part) => call("startsWith", vec![value.folded(), literal(part)]),
            ValueTest::EndsWith(part) => call("endsWith", vec![value.folded(), literal(part)]),
            ValueTest::MatchesAny(patterns) => {
                any(patterns, &|pattern| binary(BinaryOp::Match, text(), literal(pattern)))
            }
            ValueTest::Time(comparison, bound) => time_test(value, *comparison, *bound),
            ValueTest::Version(VersionRange::Compared(operator, _)) => {
                return Err(unsupported(&format!("The operator '{}'", operator.as_str())));
            }
            ValueTest::Version(VersionRange::Within(..)) => {
                return Err(unsupported(
                    "The operators semver_tilde, semver_caret and semver_wildcard",
                ));
            }
            ValueTest::CleanedPathIn(list) => {
                let rules = self.path_cleaning.iter();
                let cleaned = rules.fold(text(), |path, (pattern, replacement)| {
                    call("replaceRegexpAll", vec![path, literal(pattern), literal(replacement)])
                });
                one_of(cleaned, texts(list))
            }
        })
    }
}

fn time_test(value: &Value, comparison: Comparison, bound: Timestamp) -> Expr {
    if let Some(column) = &value.time {
        return binary(operator(comparison), column.clone(), timestamp(bound));
    }
    let is_date = || binary(BinaryOp::Match, value.text.clone(), literal(STORED_DATE_PATTERN));
    let date = call("toDateTime64", vec![value.text.clone(), int(6)]);
    let micros = || binary(BinaryOp::Multiply, value.number(), number(1e6));
    let in_range = binary(BinaryOp::Less, call("abs", vec![micros()]), number(i64::MAX as f64));
    let micros = call("trunc", vec![micros()]);
    logic(
        LogicOp::Or,
        vec![
            all(vec![is_date(), binary(operator(comparison), date, timestamp(bound))]),
            all(vec![
                not(is_date()),
                in_range,
                binary(operator(comparison), micros, number(bound.as_micros() as f64)),
            ]),
        ],
    )
}
