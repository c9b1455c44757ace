//! Parses notations that are calls of functions: slices, template strings, `EXTRACT`.

use super::Parser;
use crate::ast::{BinaryOp, Call, Expr, ExprKind, Literal, Name, UnaryOp};
use crate::error::{Checked, Fault, Span};
use crate::limits::TOKENS_MAX;
use crate::token::{TEMPLATE_END, Token};

impl Parser {
    /// `[i]` or `[from:to]`, after its `[`. A slice is a call of `arraySlice`.
    pub(super) fn index_or_slice(&mut self, base: Expr) -> Checked<ExprKind> {
        let start = self.span();
        let before = self.at + self.copied;
        let from = if self.is(":") { None } else { Some(self.expr()?) };
        let from_tokens = self.at + self.copied - before;
        if !self.eat(":") {
            self.expect("]")?;
            return match from {
                Some(index) => Ok(ExprKind::Index(Box::new(base), Box::new(index))),
                None => Err(self.unexpected("an expression")),
            };
        }
        let to = if self.is("]") { None } else { Some(self.expr()?) };
        self.expect("]")?;
        let span = start.to(self.last_span());
        let number = |value: u64| Expr { kind: ExprKind::Literal(Literal::Int(value)), span };
        let from = from.unwrap_or_else(|| number(1));
        let length = match to {
            None => None,
            Some(to) => {
                // The lower bound stands in the length too, so nested slices double.
                self.copied += from_tokens;
                if self.copied > TOKENS_MAX {
                    return Err(Fault::too_large("tokens of slices", TOKENS_MAX, span));
                }
                slice_length(&from, to, span)?
            }
        };
        // The length is computed from the bounds.
        self.grow()?;
        self.grow()?;
        let args = [Some(base), Some(from), length].into_iter().flatten().collect();
        Ok(call("arraySlice", args, span))
    }

    /// `f'…{x}…'` is `concat('…', x, '…')`.
    pub(super) fn template(&mut self, start: Span) -> Checked<ExprKind> {
        let mut parts = Vec::new();
        while !self.eat(TEMPLATE_END) {
            self.push(&mut parts, |parser| {
                let span = parser.span();
                if parser.eat("{") {
                    let part = parser.expr()?;
                    parser.expect("}")?;
                    return Ok(part);
                }
                match parser.token().clone() {
                    Token::String(text) => {
                        Ok(Expr { kind: parser.literal(Literal::String(text)), span })
                    }
                    _ => Err(parser.unexpected("the end of the text")),
                }
            })?;
        }
        self.grow()?;
        Ok(match parts.pop() {
            None => ExprKind::Literal(Literal::String(String::new())),
            Some(Expr { kind: text @ ExprKind::Literal(Literal::String(_)), .. })
                if parts.is_empty() =>
            {
                text
            }
            Some(last) => {
                parts.push(last);
                call("concat", parts, start)
            }
        })
    }

    /// `percentile_cont(p) WITHIN GROUP (ORDER BY x)` is `quantile(p)(x)`: the name, the parameters and
    /// the arguments of the call.
    pub(super) fn within_group(
        &mut self,
        name: Name,
        mut args: Vec<Expr>,
    ) -> Checked<(Name, Vec<Expr>, Vec<Expr>)> {
        if !name.text.eq_ignore_ascii_case("percentile_cont") {
            let what = format!("WITHIN GROUP of {}", name.text);
            return Err(Fault::unsupported(what, name.span));
        }
        let [Expr { kind: ExprKind::Literal(level), .. }] = &mut args[..] else {
            let message = "percentile_cont takes a level between 0 and 1";
            return Err(Fault::invalid(message, name.span));
        };
        self.expect("(")?;
        self.expect_word("order")?;
        self.expect_word("by")?;
        let order = self.order()?;
        self.expect(")")?;
        if order.descending {
            *level = match level {
                Literal::Int(level) if *level <= 1 => Literal::Int(1 - *level),
                Literal::Float(level) => Literal::Float(1.0 - *level),
                _ => {
                    let message = "percentile_cont takes a level between 0 and 1";
                    return Err(Fault::invalid(message, name.span));
                }
            };
        }
        Ok((Name::new("quantile", name.span), args, vec![order.expr]))
    }

    /// `EXTRACT(unit FROM time)` is a call of the function for the unit.
    pub(super) fn extract(&mut self, start: Span) -> Checked<ExprKind> {
        self.advance();
        self.advance();
        let function = match self.token() {
            Token::Word(unit) => match unit.to_ascii_lowercase().as_str() {
                "second" => Some("toSecond"),
                "minute" => Some("toMinute"),
                "hour" => Some("toHour"),
                "day" => Some("toDayOfMonth"),
                "doy" => Some("toDayOfYear"),
                "week" => Some("toISOWeek"),
                "month" => Some("toMonth"),
                "quarter" => Some("toQuarter"),
                "year" => Some("toYear"),
                "epoch" => Some("toUnixTimestamp"),
                _ => None,
            },
            _ => None,
        };
        let Some(function) = function else { return Err(self.unexpected("a unit of time")) };
        self.advance();
        self.expect_word("from")?;
        let time = self.expr()?;
        self.expect(")")?;
        Ok(call(function, vec![time], start))
    }
}

pub(super) fn call(function: &str, args: Vec<Expr>, span: Span) -> ExprKind {
    ExprKind::Call(Box::new(Call {
        name: Name::new(function, span),
        parameters: Vec::new(),
        distinct: false,
        args,
        over: None,
    }))
}

/// The length of a slice with these bounds, both inclusive; none up to the end. For `arraySlice` a
/// negative length ends before the end.
fn slice_length(from: &Expr, to: Expr, span: Span) -> Checked<Option<Expr>> {
    let expr = |kind: ExprKind| Expr { kind, span };
    let number = |value: u64| expr(ExprKind::Literal(Literal::Int(value)));
    let negative = |value: u64| expr(ExprKind::Unary(UnaryOp::Negate, Box::new(number(value))));
    let constant = |bound: &Expr| match &bound.kind {
        ExprKind::Literal(Literal::Int(value)) => i64::try_from(*value).ok(),
        ExprKind::Unary(UnaryOp::Negate, value) => match value.kind {
            ExprKind::Literal(Literal::Int(value)) => 0i64.checked_sub_unsigned(value),
            _ => None,
        },
        _ => None,
    };
    Ok(match (constant(from), constant(&to)) {
        (Some(0), _) | (_, Some(0)) => {
            return Err(Fault::invalid("Elements are counted from 1", span));
        }
        (_, Some(-1)) => None,
        (Some(from), Some(to)) if (from < 0) == (to < 0) => {
            Some(number(if to < from { 0 } else { to.abs_diff(from) + 1 }))
        }
        (Some(1..), Some(to)) => Some(negative(to.unsigned_abs() - 1)),
        (Some(_), Some(_)) => {
            let message = "A slice that begins at the end cannot end at the beginning";
            return Err(Fault::invalid(message, span));
        }
        _ => {
            let difference =
                ExprKind::Binary(BinaryOp::Subtract, Box::new(to), Box::new(from.clone()));
            let length =
                ExprKind::Binary(BinaryOp::Add, Box::new(expr(difference)), Box::new(number(1)));
            Some(expr(call("greatest", vec![number(0), expr(length)], span)))
        }
    })
}
