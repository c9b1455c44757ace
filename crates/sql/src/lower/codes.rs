//! Which keys and arguments of a grouping are read as codes (`scan::codes`), not as values.

use std::sync::Arc;

use arrow::array::{ArrayRef, FixedSizeBinaryArray, UInt32Array};
use arrow::datatypes::DataType;
use datafusion_execution::memory_pool::MemoryConsumer;
use eval::data_type;
use facts::ReadView;
use hogql::functions::Combinators;
use hogql::plan::{Aggregate, Expr, ExprKind, Select, Set, Source};
use hogql::tables::Table;

use super::Lowering;
use super::global_codes::GlobalCodes;
use super::leaves::{Field, Leaf, leaf_of, leaves, walk};
use crate::scan::codes::{CodedExpr, is_dictionary, is_person_id};

/// A place of a grouping whose value may be a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CodeOf {
    Key(usize),
    /// The only argument of an aggregate.
    Argument(usize),
}

/// How codes become values again.
#[derive(Clone, Debug)]
pub(crate) enum Codes {
    Strings(Arc<GlobalCodes>),
    /// Dense ids of persons, which become their uuids.
    Persons(Arc<ReadView>),
}

impl Codes {
    /// The mean size of a value.
    pub(crate) fn mean_bytes(&self) -> usize {
        match self {
            Self::Strings(strings) => strings.mean_bytes(),
            Self::Persons(_) => size_of::<uuid::Bytes>(),
        }
    }

    /// The values that codes stand for.
    pub(crate) fn decode(&self, codes: &UInt32Array) -> datafusion_common::Result<ArrayRef> {
        Ok(match self {
            Self::Strings(strings) => Arc::new(strings.decode(codes)),
            Self::Persons(view) => {
                let uuids = codes.iter().map(|actor| Some(view.persons.uuid(actor?).into_bytes()));
                Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(uuids, 16)?)
            }
        })
    }
}

/// The only field that an expression reads, and its source. None if it reads anything else, such as a
/// subquery.
pub(crate) fn only_field(expr: &Expr) -> Option<(usize, Field)> {
    let (mut fields, mut others) = (Vec::new(), false);
    leaves(expr, &mut |leaf| match leaf {
        Leaf::Field { source, field } if !fields.contains(&(source, field.clone())) => {
            fields.push((source, field));
        }
        Leaf::Field { .. } => {}
        _ => others = true,
    });
    walk(expr, &mut |part| {
        others |= matches!(
            part.kind,
            ExprKind::Query(_)
                | ExprKind::In { set: Set::Query(_) | Set::Cohort(_), .. }
                | ExprKind::Param(_)
        );
    });
    let only = fields.pop()?;
    (fields.is_empty() && !others).then_some(only)
}

/// Whether an aggregate only tells which of its argument's values are equal.
pub(super) fn compares_only(call: &Aggregate) -> bool {
    let compares = match call.function.0.name {
        "uniq" | "uniqExact" => true,
        "count" => call.distinct,
        "groupUniqArray" => call.parameters.is_empty(),
        _ => false,
    };
    compares && call.combinators == Combinators::default() && call.args.len() == 1
}

impl Lowering {
    /// The keys and arguments of a select that can be read as codes.
    pub(super) fn coded_exprs<'a>(&self, select: &'a Select) -> Vec<CodedExpr<'a>> {
        let Some(grouping) = select.grouping.as_ref().filter(|_| self.paths.codes) else {
            return Vec::new();
        };
        let nullable = super::joins::nullable(&select.sources);
        let coded = |(of, expr): (CodeOf, &'a Expr)| -> Option<CodedExpr<'a>> {
            let (source, field) = only_field(expr)?;
            let joined = select.sources.get(source)?;
            let is_events = matches!(joined.source, Source::Table(Table::Events, _));
            if !is_events || nullable[source] {
                return None;
            }
            let codes = match data_type(&expr.ty) {
                DataType::FixedSizeBinary(16)
                    if leaf_of(expr).is_some() && is_person_id(&field) =>
                {
                    Codes::Persons(self.view.clone())
                }
                DataType::Utf8 if is_dictionary(&field) => {
                    let consumer = MemoryConsumer::new("string codes");
                    Codes::Strings(GlobalCodes::new(consumer.register(self.task.memory_pool())))
                }
                _ => return None,
            };
            Some(CodedExpr { of, expr, source, field, codes })
        };
        let keys = grouping.keys.iter().enumerate();
        let keys = keys.map(|(no, key)| (CodeOf::Key(no), key));
        let arguments = grouping.aggregates.iter().enumerate();
        let arguments = arguments
            .filter(|(_, call)| compares_only(call))
            .map(|(no, call)| (CodeOf::Argument(no), &call.args[0]));
        keys.chain(arguments).filter_map(coded).collect()
    }
}
