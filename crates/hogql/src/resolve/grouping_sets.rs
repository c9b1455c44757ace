//! `ROLLUP`, `CUBE` and `GROUPING SETS`: every row is repeated for each set, and grouped by the number
//! of the set, by the keys of the set, and by the default of the type in place of the other keys.

use crate::error::{Checked, Fault, Span};
use crate::functions::function_named;
use crate::plan::{Expr, ExprKind, FunctionRef, Select, Set, Unnest, Value};
use crate::types::{Kind, Type};

pub(super) struct GroupingSets<'s> {
    sets: &'s [Vec<usize>],
    /// The number of the set that a row is repeated for.
    number: Expr,
}

const NUMBER: Kind = Kind::UInt(8);

fn literal(value: Value, ty: Type, span: Span) -> Expr {
    Expr { kind: ExprKind::Value(value), ty, span }
}

fn call(name: &str, args: Vec<Expr>, ty: Type, span: Span) -> Checked<Expr> {
    let function = function_named(name)
        .ok_or_else(|| Fault::invalid(format!("There is no function {name}"), span))?;
    Ok(Expr { kind: ExprKind::Call { function: FunctionRef(function), args }, ty, span })
}

impl<'s> GroupingSets<'s> {
    /// Repeats the rows of a select for each set.
    pub fn add_to(plan: &mut Select, sets: &'s [Vec<usize>]) -> Checked<Self> {
        let span = plan.columns.first().map_or_else(Span::default, |column| column.span);
        let numbers =
            (0..sets.len() as u64).map(|number| literal(Value::UInt(number), NUMBER.into(), span));
        let numbers = call("array", numbers.collect(), Type::array(NUMBER.into()), span)?;
        let element = ExprKind::Element(plan.unnests.len(), 0);
        plan.unnests.push(Unnest { arrays: vec![numbers], keep_empty: false });
        Ok(Self { sets, number: Expr { kind: element, ty: NUMBER.into(), span } })
    }

    /// The keys by which the repeated rows are grouped: as many as without sets, and the set.
    pub fn keys(self, keys: Vec<Expr>) -> Checked<Vec<Expr>> {
        // Equal keys are one, however they are written: all sets of one are sets of the other.
        let sets_of = |key: &Expr| {
            let has = |set: &usize| self.sets[*set].iter().any(|other| keys[*other] == *key);
            (0..self.sets.len()).filter(has).collect::<Vec<usize>>()
        };
        let own: Vec<Vec<usize>> = keys.iter().map(sets_of).collect();
        let keys = keys.into_iter().zip(own).map(|(key, own)| self.key(key, &own));
        let mut keys: Vec<Expr> = keys.collect::<Checked<_>>()?;
        keys.push(self.number);
        Ok(keys)
    }

    /// The key in its `own` sets, and the default of its type in the others.
    fn key(&self, key: Expr, own: &[usize]) -> Checked<Expr> {
        let (span, ty) = (key.span, key.ty.clone());
        let number = |set: &usize| literal(Value::UInt(*set as u64), NUMBER.into(), span);
        let own: Vec<Expr> = own.iter().map(number).collect();
        if own.len() == self.sets.len() {
            return Ok(key);
        }
        if matches!(ty.kind, Kind::Array(_) | Kind::Tuple(_) | Kind::Map(_)) {
            let message = format!("A key of ROLLUP, CUBE or GROUPING SETS cannot be of type {ty}");
            return Err(Fault::invalid(message, span));
        }
        let expr = Box::new(self.number.clone());
        let kind = ExprKind::In { expr, set: Set::List(own), negated: false };
        let is_own = Expr { kind, ty: Kind::UInt(8).into(), span };
        let null = literal(Value::Null, Kind::Null.into(), span);
        let or_null = call("if", vec![is_own, key, null], ty.clone().or_null(true), span)?;
        match ty.nullable {
            true => Ok(or_null),
            false => call("assumeNotNull", vec![or_null], ty, span),
        }
    }
}
