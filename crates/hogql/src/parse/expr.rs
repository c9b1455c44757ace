//! Parses operators by precedence climbing.

use super::Parser;
use crate::ast::{BinaryOp, Expr, ExprKind, LogicOp, Name, UnaryOp};
use crate::error::{Checked, Fault};
use crate::limits::LIST_MAX;
use crate::token::Token;

/// Precedence; tighter levels are greater. The order is upstream's, with `??` below comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Ternary,
    Or,
    And,
    Not,
    Coalesce,
    Compare,
    Add,
    Multiply,
    Negate,
    Postfix,
}

impl Level {
    /// The level of the right operand of a left-associative operator.
    pub(crate) const fn above(self) -> Self {
        match self {
            Self::Ternary => Self::Or,
            Self::Or => Self::And,
            Self::And => Self::Not,
            Self::Not => Self::Coalesce,
            Self::Coalesce => Self::Compare,
            Self::Compare => Self::Add,
            Self::Add => Self::Multiply,
            Self::Multiply => Self::Negate,
            Self::Negate | Self::Postfix => Self::Postfix,
        }
    }

    pub(crate) const fn of(op: BinaryOp) -> Self {
        match op {
            BinaryOp::Add | BinaryOp::Subtract | BinaryOp::Concat => Self::Add,
            BinaryOp::Multiply | BinaryOp::Divide | BinaryOp::Modulo => Self::Multiply,
            BinaryOp::Coalesce => Self::Coalesce,
            _ => Self::Compare,
        }
    }
}

impl Parser {
    pub(super) fn expr(&mut self) -> Checked<Expr> {
        self.nested(|parser| {
            let start = parser.span();
            let params = match parser.lambda_keyword()? {
                Some(params) => params,
                None => {
                    let Some(params) = parser.lambda_params() else {
                        return parser.operators(Level::Ternary);
                    };
                    parser.expect("->")?;
                    params
                }
            };
            let body = parser.expr()?;
            parser.grow()?;
            let span = start.to(body.span);
            Ok(Expr { kind: ExprKind::Lambda(params, Box::new(body)), span })
        })
    }

    /// An expression that may have an alias within a larger one: `round(sum(x) AS total, 2)`.
    pub(super) fn aliased(&mut self) -> Checked<Expr> {
        let expr = self.expr()?;
        if !self.eat_word("as") {
            return Ok(expr);
        }
        let name = self.alias_name("an alias")?;
        self.grow()?;
        let span = expr.span.to(name.span);
        Ok(Expr { kind: ExprKind::Alias(Box::new(expr), name), span })
    }

    /// Consumes `lambda x, y:`, if it comes next.
    fn lambda_keyword(&mut self) -> Checked<Option<Vec<Name>>> {
        let names_param = matches!(self.peek(1), Token::Word(_) | Token::Quoted(_));
        if !self.is_word("lambda")
            || !names_param
            || !matches!(self.peek(2), Token::Symbol(":" | ","))
        {
            return Ok(None);
        }
        self.advance();
        let params = self.list(|parser| parser.name("a parameter"))?;
        self.expect(":")?;
        Ok(Some(params))
    }

    /// Consumes `x` or `(x, y)` if `->` follows; otherwise consumes nothing.
    fn lambda_params(&mut self) -> Option<Vec<Name>> {
        let start = self.at;
        let open = self.eat("(");
        let mut params = Vec::new();
        while let Some(name) = self.try_name() {
            params.push(name);
            if !open || !self.eat(",") {
                break;
            }
        }
        let closed = !open || self.eat(")");
        if params.is_empty() || !closed || !self.is("->") {
            self.at = start;
            return None;
        }
        Some(params)
    }

    pub(super) fn level(&mut self, level: Level) -> Checked<Expr> {
        self.nested(|parser| parser.operators(level))
    }

    fn operators(&mut self, level: Level) -> Checked<Expr> {
        let mut left = self.prefix(level)?;
        loop {
            left = match self.operator(left, level)? {
                (wider, true) => wider,
                (whole, false) => return Ok(whole),
            };
            self.grow()?;
        }
    }

    fn prefix(&mut self, level: Level) -> Checked<Expr> {
        let start = self.span();
        let (op, operand) = if self.eat_word("not") {
            (UnaryOp::Not, self.level(level.max(Level::Not))?)
        } else if self.eat("-") {
            (UnaryOp::Negate, self.level(Level::Negate)?)
        } else if self.eat("+") {
            return self.level(Level::Negate);
        } else {
            return self.postfix();
        };
        self.grow()?;
        let span = start.to(operand.span);
        Ok(Expr { kind: ExprKind::Unary(op, Box::new(operand)), span })
    }

    /// Parses an operator after `left` and its operands. False, with `left` unchanged, if there is none.
    fn operator(&mut self, left: Expr, level: Level) -> Checked<(Expr, bool)> {
        let start = left.span;
        if level <= Level::Ternary && self.eat("?") {
            let then = self.level(Level::Ternary)?;
            self.expect(":")?;
            let otherwise = self.level(Level::Ternary)?;
            let span = start.to(otherwise.span);
            let kind = ExprKind::Ternary(Box::new([left, then, otherwise]));
            return Ok((Expr { kind, span }, true));
        }
        if level <= Level::Or && self.is_word("or") {
            return self.logic(LogicOp::Or, left, Level::And);
        }
        if level <= Level::And && self.is_word("and") {
            return self.logic(LogicOp::And, left, Level::Not);
        }
        if level <= Level::Compare
            && let Some((word, negated)) = self.word_operator()
        {
            let kind = self.apply_word(word, left, negated)?;
            return Ok((Expr { kind, span: start.to(self.last_span()) }, true));
        }
        let Some((op, tokens)) = self.binary_op().filter(|(op, _)| level <= Level::of(*op)) else {
            return Ok((left, false));
        };
        (0..tokens).for_each(|_| self.advance());
        let right = self.level(Level::of(op).above())?;
        let span = start.to(right.span);
        Ok((Expr { kind: ExprKind::Binary(op, Box::new(left), Box::new(right)), span }, true))
    }

    /// Flattens chains of `AND` or `OR`, so that long filters are wide and not deep.
    fn logic(&mut self, op: LogicOp, first: Expr, level: Level) -> Checked<(Expr, bool)> {
        let start = first.span;
        let mut operands = Vec::new();
        flatten(op, first, &mut operands);
        let keyword = match op {
            LogicOp::And => "and",
            LogicOp::Or => "or",
        };
        while self.eat_word(keyword) {
            if operands.len() >= LIST_MAX {
                return Err(Fault::too_large("items in a list", LIST_MAX, self.span()));
            }
            flatten(op, self.level(level)?, &mut operands);
        }
        let span = start.to(self.last_span());
        Ok((Expr { kind: ExprKind::Logic(op, operands), span }, true))
    }

    /// `IS`, `BETWEEN` or `IN`, if one comes next, and whether `NOT` precedes it.
    fn word_operator(&mut self) -> Option<(&'static str, bool)> {
        if self.eat_word("is") {
            return Some(("is", false));
        }
        let negated = self.is_word("not");
        let keyword = ["between", "in"]
            .into_iter()
            .find(|word| self.word_ahead(usize::from(negated), word))?;
        (0..=usize::from(negated)).for_each(|_| self.advance());
        Some((keyword, negated))
    }

    fn apply_word(&mut self, word: &str, left: Expr, negated: bool) -> Checked<ExprKind> {
        let expr = Box::new(left);
        if word == "is" {
            let negated = self.eat_word("not");
            if self.eat_words(&["distinct", "from"]) {
                // Comparisons treat nulls as values: `=` is already null-safe.
                let op = if negated { BinaryOp::Equal } else { BinaryOp::NotEqual };
                let other = self.level(Level::Compare.above())?;
                return Ok(ExprKind::Binary(op, expr, Box::new(other)));
            }
            self.expect_word("null")?;
            return Ok(ExprKind::IsNull { expr, negated });
        }
        if word == "between" {
            let low = Box::new(self.level(Level::Add)?);
            self.expect_word("and")?;
            let high = Box::new(self.level(Level::Add)?);
            return Ok(ExprKind::Between { expr, low, high, negated });
        }
        let names_cohort =
            matches!(self.peek(1), Token::Int(_) | Token::String(_) | Token::Symbol("{"));
        if self.is_word("cohort") && names_cohort {
            self.advance();
            let cohort = Box::new(self.level(Level::Postfix)?);
            return Ok(ExprKind::InCohort { expr, cohort, negated });
        }
        let set = Box::new(self.level(Level::Add)?);
        Ok(ExprKind::In { expr, set, negated })
    }

    /// The next operator and its number of tokens.
    fn binary_op(&self) -> Option<(BinaryOp, usize)> {
        if let Token::Symbol(symbol) = self.token() {
            let op = match *symbol {
                "+" => BinaryOp::Add,
                "-" => BinaryOp::Subtract,
                "*" => BinaryOp::Multiply,
                "/" => BinaryOp::Divide,
                "%" => BinaryOp::Modulo,
                "||" => BinaryOp::Concat,
                "??" => BinaryOp::Coalesce,
                "=" | "==" => BinaryOp::Equal,
                "!=" | "<>" => BinaryOp::NotEqual,
                "<" => BinaryOp::Less,
                "<=" => BinaryOp::LessOrEqual,
                ">" => BinaryOp::Greater,
                ">=" => BinaryOp::GreaterOrEqual,
                "=~" | "~" => BinaryOp::Match,
                "!~" => BinaryOp::NotMatch,
                "=~*" | "~*" => BinaryOp::IMatch,
                "!~*" => BinaryOp::NotIMatch,
                _ => return None,
            };
            return Some((op, 1));
        }
        let words = [
            (["like", ""], BinaryOp::Like),
            (["ilike", ""], BinaryOp::ILike),
            (["not", "like"], BinaryOp::NotLike),
            (["not", "ilike"], BinaryOp::NotILike),
        ];
        words.into_iter().find_map(|([first, second], op)| match second {
            "" => self.is_word(first).then_some((op, 1)),
            _ => (self.is_word(first) && self.word_ahead(1, second)).then_some((op, 2)),
        })
    }
}

fn flatten(op: LogicOp, operand: Expr, into: &mut Vec<Expr>) {
    match operand.kind {
        ExprKind::Logic(inner, operands) if inner == op => into.extend(operands),
        _ => into.push(operand),
    }
}
