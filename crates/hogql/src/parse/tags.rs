//! Parses HogQLX: tags and objects, which are tuples that tables show as HTML and charts.
//!
//! The tuples are PostHog's: `__hx_tag`, the kind of tag, then a name and a value for each attribute.

use super::Parser;
use super::desugar::call;
use crate::ast::{Expr, ExprKind, Literal};
use crate::error::{Checked, Fault, Span};
use crate::token::{CLOSING_TAG, TAG_END, Token};

const MARK: &str = "__hx_tag";
const OBJECT: &str = "__hx_obj";

/// Tags that take attributes, and those that do not.
const WITH_ATTRIBUTES: &[&str] = &["Sparkline", "a"];
const PLAIN: &[&str] = &[
    "b",
    "blink",
    "blockquote",
    "code",
    "div",
    "em",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "hr",
    "i",
    "li",
    "marquee",
    "ol",
    "p",
    "pre",
    "redacted",
    "span",
    "strong",
    "table",
    "tbody",
    "td",
    "th",
    "thead",
    "tr",
    "u",
    "ul",
];

impl Parser {
    /// A tag, after its `<`.
    pub(super) fn tag(&mut self, start: Span) -> Checked<ExprKind> {
        let name = self.member()?;
        let kind = name.text.as_str();
        let has_attributes = WITH_ATTRIBUTES.contains(&kind);
        if !has_attributes && !PLAIN.contains(&kind) {
            return Err(Fault::invalid(format!("There is no tag <{kind}>"), name.span));
        }
        let mut parts = vec![string(MARK, start), string(kind, name.span)];
        while !self.is(">") && !self.is(TAG_END) {
            let attribute = self.member()?;
            if !has_attributes {
                let message = format!("<{kind}> takes no attributes");
                return Err(Fault::invalid(message, attribute.span));
            }
            parts.push(string(&attribute.text, attribute.span));
            self.push(&mut parts, |parser| parser.attribute_value(attribute.span))?;
        }
        // The tuple, and that of its children.
        self.grow()?;
        self.grow()?;
        if self.eat(TAG_END) {
            return Ok(call("tuple", parts, start));
        }
        self.advance();
        let mut children = Vec::new();
        while !self.eat(CLOSING_TAG) {
            self.push(&mut children, Self::child)?;
        }
        let closing = self.member()?;
        if closing.text != kind {
            let message = format!("</{}> closes no tag: <{kind}> is open", closing.text);
            return Err(Fault::invalid(message, closing.span));
        }
        self.expect(">")?;
        if !children.is_empty() {
            parts.push(string("children", start));
            parts.push(Expr { kind: call("tuple", children, start), span: start });
        }
        Ok(call("tuple", parts, start))
    }

    /// `='text'` or `={expression}`; an attribute without a value is true.
    fn attribute_value(&mut self, name: Span) -> Checked<Expr> {
        if !self.eat("=") {
            return Ok(Expr { kind: ExprKind::Literal(Literal::Bool(true)), span: name });
        }
        self.text_or_expression()
    }

    fn child(&mut self) -> Checked<Expr> {
        let start = self.span();
        if !self.eat("<") {
            return self.text_or_expression();
        }
        let kind = self.nested(|parser| parser.tag(start))?;
        Ok(Expr { kind, span: start.to(self.last_span()) })
    }

    fn text_or_expression(&mut self) -> Checked<Expr> {
        let span = self.span();
        if let Token::String(text) = self.token().clone() {
            return Ok(Expr { kind: self.literal(Literal::String(text)), span });
        }
        self.expect("{")?;
        let value = self.expr()?;
        self.expect("}")?;
        Ok(with_tuples(value))
    }

    /// Whether the braces just opened hold an object: `{'key': value}`.
    pub(super) fn starts_object(&self) -> bool {
        matches!(self.token(), Token::String(_)) && *self.peek(1) == Token::Symbol(":")
    }

    /// `{'key': value, …}`, after its `{`.
    pub(super) fn object(&mut self, start: Span) -> Checked<ExprKind> {
        let mut parts = vec![string(MARK, start), string(OBJECT, start)];
        loop {
            let span = self.span();
            let Token::String(key) = self.token().clone() else {
                return Err(self.unexpected("a key"));
            };
            parts.push(Expr { kind: self.literal(Literal::String(key)), span });
            self.expect(":")?;
            self.push(&mut parts, |parser| Ok(with_tuples(parser.expr()?)))?;
            if !self.eat(",") || self.is("}") {
                break;
            }
        }
        self.expect("}")?;
        Ok(call("tuple", parts, start))
    }
}

fn string(text: &str, span: Span) -> Expr {
    Expr { kind: ExprKind::Literal(Literal::String(text.to_owned())), span }
}

/// Arrays as tuples: inside of tags their elements may differ in type.
fn with_tuples(value: Expr) -> Expr {
    match value.kind {
        ExprKind::Array(items) => {
            let items = items.into_iter().map(with_tuples).collect();
            Expr { kind: call("tuple", items, value.span), span: value.span }
        }
        _ => value,
    }
}
