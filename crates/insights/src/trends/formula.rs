//! Formulas over series, such as `A / B * 100`.

use hogql::ast::{BinaryOp, Expr};
use hogql::build::{binary, call, number};

use crate::{Error, Result};

const CHARS_MAX: usize = 1_000;
/// Nesting depth of parentheses and signs.
const DEPTH_MAX: usize = 64;

#[derive(Clone, Debug)]
pub(crate) struct Formula(Node);

#[derive(Clone, Debug)]
enum Node {
    Number(f64),
    /// A letter: the series with this index.
    Series(usize),
    Minus(Box<Node>),
    Join(Operator, Box<Node>, Box<Node>),
}

#[derive(Clone, Copy, Debug)]
enum Operator {
    Plus,
    Minus,
    Times,
    Over,
    Modulo,
    Power,
}

impl Formula {
    /// `series` is the number of series that letters can name.
    pub fn parse(text: &str, series: usize) -> Result<Self> {
        if text.len() > CHARS_MAX {
            return Err(invalid(text, "it is too long"));
        }
        let mut parser = Parser { text, rest: text, series, depth: 0 };
        let node = parser.sum()?;
        match parser.peek() {
            None => Ok(Self(node)),
            Some(other) => Err(parser.error(&format!("'{other}' is not expected"))),
        }
    }

    /// Division by zero gives 0, as does any result that is not finite.
    pub fn of(&self, series: &[f64]) -> f64 {
        let values = self.0.of(series);
        if values.is_finite() { values } else { 0.0 }
    }
}

impl Formula {
    /// The formula over expressions for its series. Division by zero gives 0.
    pub fn to_expr(&self, series: &impl Fn(usize) -> Expr) -> Expr {
        self.0.to_expr(series)
    }
}

impl Node {
    fn to_expr(&self, series: &impl Fn(usize) -> Expr) -> Expr {
        match self {
            Self::Number(value) => number(*value),
            Self::Series(at) => series(*at),
            Self::Minus(node) => call("negate", vec![node.to_expr(series)]),
            Self::Join(operator, left, right) => {
                let (left, right) = (left.to_expr(series), right.to_expr(series));
                let or_zero = |op, left, right: Expr| {
                    let is_zero = binary(BinaryOp::Equal, right.clone(), number(0.0));
                    call("if", vec![is_zero, number(0.0), binary(op, left, right)])
                };
                match operator {
                    Operator::Plus => binary(BinaryOp::Add, left, right),
                    Operator::Minus => binary(BinaryOp::Subtract, left, right),
                    Operator::Times => binary(BinaryOp::Multiply, left, right),
                    Operator::Over => or_zero(BinaryOp::Divide, left, right),
                    Operator::Modulo => or_zero(BinaryOp::Modulo, left, right),
                    Operator::Power => call("pow", vec![left, right]),
                }
            }
        }
    }

    fn of(&self, series: &[f64]) -> f64 {
        match self {
            Self::Number(number) => *number,
            Self::Series(at) => series.get(*at).copied().unwrap_or(0.0),
            Self::Minus(node) => -node.of(series),
            Self::Join(operator, left, right) => {
                let (left, right) = (left.of(series), right.of(series));
                match operator {
                    Operator::Plus => left + right,
                    Operator::Minus => left - right,
                    Operator::Times => left * right,
                    Operator::Over | Operator::Modulo if right == 0.0 => 0.0,
                    Operator::Over => left / right,
                    Operator::Modulo => left % right,
                    Operator::Power => left.powf(right),
                }
            }
        }
    }
}

fn invalid(text: &str, why: &str) -> Error {
    let shown: String = text.chars().take(100).collect();
    Error::invalid(format!("Formula '{shown}' cannot be read: {why}."))
}

struct Parser<'a> {
    text: &'a str,
    rest: &'a str,
    series: usize,
    depth: usize,
}

impl Parser<'_> {
    fn error(&self, why: &str) -> Error {
        invalid(self.text, why)
    }

    fn peek(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next()
    }

    fn take(&mut self, sign: &str) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(sign) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn sum(&mut self) -> Result<Node> {
        let mut left = self.product()?;
        loop {
            let operator = match self.peek() {
                Some('+') => Operator::Plus,
                Some('-') => Operator::Minus,
                _ => return Ok(left),
            };
            self.rest = &self.rest[1..];
            left = Node::Join(operator, Box::new(left), Box::new(self.product()?));
        }
    }

    fn product(&mut self) -> Result<Node> {
        let mut left = self.signed()?;
        loop {
            let operator = match self.peek() {
                Some('*') => Operator::Times,
                Some('/') => Operator::Over,
                Some('%') => Operator::Modulo,
                _ => return Ok(left),
            };
            self.rest = &self.rest[1..];
            left = Node::Join(operator, Box::new(left), Box::new(self.signed()?));
        }
    }

    /// Unary minus binds weaker than `**`: `-2 ** 2` is -4.
    fn signed(&mut self) -> Result<Node> {
        if self.depth == DEPTH_MAX {
            return Err(self.error("it is nested too deeply"));
        }
        self.depth += 1;
        let node = if self.take("-") {
            Node::Minus(Box::new(self.signed()?))
        } else if self.take("+") {
            self.signed()?
        } else {
            let base = self.atom()?;
            if self.take("**") {
                Node::Join(Operator::Power, Box::new(base), Box::new(self.signed()?))
            } else {
                base
            }
        };
        self.depth -= 1;
        Ok(node)
    }

    fn atom(&mut self) -> Result<Node> {
        match self.peek() {
            Some('(') => {
                self.rest = &self.rest[1..];
                let node = self.sum()?;
                if self.take(")") { Ok(node) } else { Err(self.error("a ')' is missing")) }
            }
            Some(digit) if digit.is_ascii_digit() || digit == '.' => {
                let digits = |letter: char| letter.is_ascii_digit() || letter == '.';
                let end = self.rest.find(|letter| !digits(letter)).unwrap_or(self.rest.len());
                let (number, rest) = self.rest.split_at(end);
                self.rest = rest;
                let parsed = number.parse();
                parsed
                    .map(Node::Number)
                    .map_err(|_| self.error(&format!("'{number}' is no number")))
            }
            Some(letter) if letter.is_ascii_alphabetic() => {
                self.rest = &self.rest[1..];
                if self.rest.starts_with(|next: char| next.is_alphanumeric() || next == '_') {
                    return Err(self.error("series are single letters"));
                }
                let at = usize::from(letter.to_ascii_uppercase() as u8 - b'A');
                if at >= self.series {
                    return Err(self.error(&format!("there is no series '{letter}'")));
                }
                Ok(Node::Series(at))
            }
            Some(other) => Err(self.error(&format!("'{other}' is not expected"))),
            None => Err(self.error("it ends too early")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // contract: query 61
    #[test]
    fn formulas_follow_operator_precedence() {
        for (text, expected) in [
            ("A/B", 3.0),
            ("a + b * 2", 10.0),
            ("(A+B)*2", 16.0),
            ("A - B - 1", 3.0),
            ("A / B / 2", 1.5),
            ("A % 4", 2.0),
            ("2 ** 3 ** 2", 512.0),
            ("-2 ** 2", -4.0),
            ("2 ** -1", 0.5),
            ("A * -B", -12.0),
            ("A / (B - 2)", 0.0),
            ("A % 0", 0.0),
            ("0 ** -1", 0.0),
            (" .5 + 1.25 ", 1.75),
            ("+A", 6.0),
        ] {
            assert_eq!(Formula::parse(text, 2).unwrap().of(&[6.0, 2.0]), expected, "{text}");
        }
    }

    #[test]
    fn invalid_formulas_are_rejected() {
        let deep = format!("{}A{}", "(".repeat(100), ")".repeat(100));
        let long = "A+".repeat(1_000);
        for text in [
            "", "A+", "C", "AB", "A B", "(A", "A)", "A ^ B", "1.2.3", "ä", "A*ä", "--", &deep,
            &long,
        ] {
            assert!(matches!(Formula::parse(text, 2), Err(Error::Invalid(_))), "{text}");
        }
    }
}
