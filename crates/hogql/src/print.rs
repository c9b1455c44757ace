//! Prints a syntax tree as HogQL: the `hogql` of results, and names of columns without an alias.
//!
//! Parsing the output gives the same tree.

mod statement;

use std::fmt::{self, Write};

use crate::ast::{Call, Expr, ExprKind, Literal, LogicOp, Name, Over, TypeArg, TypeName, UnaryOp};
use crate::parse::{Level, is_reserved};
use crate::token::{is_word, is_word_start};

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // At the top level, nothing needs parentheses, not even a lambda.
        self.kind.fmt(f)
    }
}

/// An operand, in parentheses if it binds less tightly than this level.
struct At<'a>(&'a Expr, Level);

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(expr, level) = self;
        if level_of(&expr.kind).is_none_or(|level_of_expr| level_of_expr < *level) {
            write!(f, "({expr})")
        } else {
            expr.kind.fmt(f)
        }
    }
}

/// The precedence of an expression; None for a lambda, which cannot be an operand.
fn level_of(kind: &ExprKind) -> Option<Level> {
    Some(match kind {
        ExprKind::Lambda(..) => return None,
        ExprKind::Ternary(_) => Level::Ternary,
        ExprKind::Logic(LogicOp::Or, _) => Level::Or,
        ExprKind::Logic(LogicOp::And, _) => Level::And,
        ExprKind::Unary(UnaryOp::Not, _) => Level::Not,
        ExprKind::Binary(op, ..) => Level::of(*op),
        ExprKind::IsNull { .. }
        | ExprKind::Between { .. }
        | ExprKind::In { .. }
        | ExprKind::InCohort { .. } => Level::Compare,
        ExprKind::Unary(UnaryOp::Negate, _) => Level::Negate,
        _ => Level::Postfix,
    })
}

/// The base of a member access: a number needs parentheses, or the dot would belong to it.
struct Base<'a>(&'a Expr);

impl fmt::Display for Base<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.kind {
            ExprKind::Literal(Literal::Int(_) | Literal::Float(_)) | ExprKind::Interval(..) => {
                write!(f, "({})", self.0)
            }
            _ => At(self.0, Level::Postfix).fmt(f),
        }
    }
}

impl fmt::Display for ExprKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Literal(literal) => literal.fmt(f),
            Self::Star(None) => f.write_str("*"),
            Self::Star(Some(table)) => write!(f, "{table}.*"),
            Self::Field(chain) => join(f, chain, "."),
            Self::Placeholder(chain) => {
                f.write_char('{')?;
                join(f, chain, ".")?;
                f.write_char('}')
            }
            Self::Member(base, name) => write!(f, "{}.{name}", Base(base)),
            Self::Element(base, index) => write!(f, "{}.{index}", Base(base)),
            Self::Index(base, index) => write!(f, "{}[{index}]", Base(base)),
            Self::Unary(UnaryOp::Not, operand) => write!(f, "NOT {}", At(operand, Level::Not)),
            // `--` would start a comment.
            Self::Unary(UnaryOp::Negate, operand) => write!(f, "-{}", At(operand, Level::Postfix)),
            Self::Binary(op, left, right) => {
                let level = Level::of(*op);
                write!(f, "{} {} {}", At(left, level), op.symbol(), At(right, level.above()))
            }
            Self::Logic(op, operands) => {
                let (word, level) = match op {
                    LogicOp::And => (" AND ", Level::Not),
                    LogicOp::Or => (" OR ", Level::And),
                };
                let operands = operands.iter().map(|operand| At(operand, level));
                join(f, operands, word)
            }
            Self::IsNull { expr, negated } => {
                write!(f, "{} IS {}NULL", At(expr, Level::Compare), not(*negated))
            }
            Self::Between { expr, low, high, negated } => {
                let (low, high) = (At(low, Level::Add), At(high, Level::Add));
                let expr = At(expr, Level::Compare);
                write!(f, "{expr} {}BETWEEN {low} AND {high}", not(*negated))
            }
            Self::In { expr, set, negated } => {
                let (expr, set) = (At(expr, Level::Compare), At(set, Level::Add));
                write!(f, "{expr} {}IN {set}", not(*negated))
            }
            Self::InCohort { expr, cohort, negated } => {
                let (expr, cohort) = (At(expr, Level::Compare), At(cohort, Level::Postfix));
                write!(f, "{expr} {}IN COHORT {cohort}", not(*negated))
            }
            Self::Ternary(parts) => {
                let [condition, then, otherwise] = &**parts;
                let condition = At(condition, Level::Or);
                let (then, otherwise) = (At(then, Level::Ternary), At(otherwise, Level::Ternary));
                write!(f, "{condition} ? {then} : {otherwise}")
            }
            Self::Case { operand, branches, otherwise } => {
                f.write_str("CASE")?;
                if let Some(operand) = operand {
                    write!(f, " {operand}")?;
                }
                for (when, then) in branches {
                    write!(f, " WHEN {when} THEN {then}")?;
                }
                if let Some(otherwise) = otherwise {
                    write!(f, " ELSE {otherwise}")?;
                }
                f.write_str(" END")
            }
            Self::Columns(set) => set.fmt(f),
            Self::Cast(expr, to) => write!(f, "CAST({expr} AS {to})"),
            Self::TryCast(expr, to) => write!(f, "TRY_CAST({expr} AS {to})"),
            Self::Alias(expr, name) => write!(f, "({expr} AS {name})"),
            Self::Interval(count, unit) => {
                let unit = unit.as_str().to_ascii_uppercase();
                match &count.kind {
                    Self::Literal(Literal::Int(_) | Literal::Float(_)) | Self::Field(_) => {
                        write!(f, "INTERVAL {count} {unit}")
                    }
                    // A bare string would parse as the whole interval.
                    _ => write!(f, "INTERVAL ({count}) {unit}"),
                }
            }
            Self::Lambda(params, body) if params.len() == 1 => {
                join(f, params, "")?;
                write!(f, " -> {body}")
            }
            Self::Lambda(params, body) => {
                f.write_char('(')?;
                join(f, params, ", ")?;
                write!(f, ") -> {body}")
            }
            Self::Call(call) => call.fmt(f),
            Self::Array(items) => {
                f.write_char('[')?;
                join(f, items, ", ")?;
                f.write_char(']')
            }
            Self::Tuple(items) if items.is_empty() => f.write_str("tuple()"),
            Self::Tuple(items) => {
                f.write_char('(')?;
                join(f, items, ", ")?;
                f.write_str(if items.len() == 1 { ",)" } else { ")" })
            }
            Self::Query(query) => write!(f, "({query})"),
        }
    }
}

fn not(negated: bool) -> &'static str {
    if negated { "NOT " } else { "" }
}

fn join<T: fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    items: impl IntoIterator<Item = T>,
    between: &str,
) -> fmt::Result {
    for (no, item) in items.into_iter().enumerate() {
        if no > 0 {
            f.write_str(between)?;
        }
        item.fmt(f)?;
    }
    Ok(())
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not quoted as a name: `left` is both reserved and a function.
        f.write_str(&self.name.text)?;
        if !self.parameters.is_empty() {
            f.write_char('(')?;
            join(f, &self.parameters, ", ")?;
            f.write_char(')')?;
        }
        f.write_str(if self.distinct { "(DISTINCT " } else { "(" })?;
        join(f, &self.args, ", ")?;
        f.write_char(')')?;
        match &self.over {
            Some(Over::Named(name)) => write!(f, " OVER {name}"),
            Some(Over::Window(window)) => write!(f, " OVER {window}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("NULL"),
            Self::Bool(value) => value.fmt(f),
            Self::Int(value) => value.fmt(f),
            Self::Float(value) if value.is_nan() => f.write_str("nan"),
            Self::Float(value) => write!(f, "{value:?}"),
            Self::String(text) => quoted(f, text, '\''),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = self.text.starts_with(is_word_start) && self.text.chars().all(is_word);
        if plain && !is_reserved(&self.text) {
            f.write_str(&self.text)
        } else {
            quoted(f, &self.text, '`')
        }
    }
}

fn quoted(f: &mut fmt::Formatter<'_>, text: &str, quote: char) -> fmt::Result {
    f.write_char(quote)?;
    for one in text.chars() {
        match one {
            '\n' => f.write_str("\\n")?,
            '\r' => f.write_str("\\r")?,
            '\t' => f.write_str("\\t")?,
            '\0' => f.write_str("\\0")?,
            _ if one == quote || one == '\\' => write!(f, "\\{one}")?,
            _ => f.write_char(one)?,
        }
    }
    f.write_char(quote)
}

impl fmt::Display for TypeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name.text)?;
        if self.args.is_empty() {
            return Ok(());
        }
        f.write_char('(')?;
        join(f, &self.args, ", ")?;
        f.write_char(')')
    }
}

impl fmt::Display for TypeArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Type(name) => name.fmt(f),
            Self::Int(value) => value.fmt(f),
            Self::String(text) => quoted(f, text, '\''),
        }
    }
}
