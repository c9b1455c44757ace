//! Where in a statement the cursor is, for completion. The statement is unfinished, so this reads tokens
//! and not the syntax tree.

use crate::limits::{SOURCES_MAX, WITH_MAX};
use crate::token::{SpannedToken, Token, tokens_up_to_error};

/// What can stand at the cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Behind `FROM` or `JOIN`.
    Table,
    /// Behind these names and a dot.
    Member(Vec<String>),
    /// An expression.
    Expression,
    /// Inside of a string or a number: nothing.
    Literal,
}

/// The place of the cursor, and what its statement reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    pub place: Place,
    /// Names of tables, each with the name under which the statement knows it.
    pub sources: Vec<(String, String)>,
    /// Names of `WITH`.
    pub ctes: Vec<String>,
}

/// Words that end a list of tables; any other word behind a table is its alias.
const NO_ALIAS: [&str; 24] = [
    "where",
    "prewhere",
    "group",
    "order",
    "having",
    "limit",
    "offset",
    "window",
    "union",
    "intersect",
    "except",
    "join",
    "inner",
    "left",
    "right",
    "full",
    "cross",
    "array",
    "on",
    "using",
    "select",
    "final",
    "sample",
    "settings",
];

/// The cursor before byte `at`, the start of the word that is being typed.
pub fn cursor_at(text: &str, at: usize) -> Cursor {
    let mut tokens = tokens_up_to_error(text);
    let is_whole = tokens.pop_if(|last| last.token == Token::End).is_some();
    let before = tokens.iter().take_while(|token| token.span.end as usize <= at).count();
    let place = match tokens.get(before) {
        // Behind a lexical error, such as a string that is not closed.
        None if !is_whole => Place::Literal,
        inside => place(&tokens, before, inside, at),
    };
    Cursor { place, sources: sources(&tokens), ctes: ctes(&tokens) }
}

fn place(tokens: &[SpannedToken], before: usize, next: Option<&SpannedToken>, at: usize) -> Place {
    let inside = next.filter(|token| (token.span.start as usize) < at);
    let is_literal = |token: &SpannedToken| {
        matches!(token.token, Token::String(_) | Token::Int(_) | Token::Float(_))
    };
    if inside.is_some_and(is_literal) {
        return Place::Literal;
    }
    let Some(last) = before.checked_sub(1) else { return Place::Expression };
    if tokens[last].token == Token::Symbol(".") {
        let chain = chain_before(tokens, last);
        return if chain.is_empty() { Place::Literal } else { Place::Member(chain) };
    }
    match word(&tokens[last]).map(str::to_ascii_lowercase).as_deref() {
        Some("from" | "join") => Place::Table,
        _ => Place::Expression,
    }
}

/// The names `a.b` before the dot at this index.
fn chain_before(tokens: &[SpannedToken], dot: usize) -> Vec<String> {
    let mut chain = Vec::new();
    let mut dot = Some(dot);
    while let Some(at) = dot {
        let Some(name) = at.checked_sub(1).and_then(|before| name(&tokens[before])) else { break };
        chain.push(name.to_owned());
        let is_dot = |at: &usize| tokens[*at].token == Token::Symbol(".");
        dot = at.checked_sub(2).filter(is_dot);
    }
    chain.reverse();
    chain
}

/// Of the whole text: which select the cursor is in is unknown until the statement can be parsed.
fn sources(tokens: &[SpannedToken]) -> Vec<(String, String)> {
    let mut sources = Vec::new();
    for (no, token) in tokens.iter().enumerate() {
        let is_from = word(token).is_some_and(|word| {
            word.eq_ignore_ascii_case("from") || word.eq_ignore_ascii_case("join")
        });
        let Some(table) = tokens.get(no + 1).and_then(name).filter(|_| is_from) else { continue };
        let as_word =
            |token: &SpannedToken| word(token).is_some_and(|word| word.eq_ignore_ascii_case("as"));
        let skip = usize::from(tokens.get(no + 2).is_some_and(as_word));
        let alias = tokens
            .get(no + 2 + skip)
            .and_then(name)
            .filter(|alias| !NO_ALIAS.iter().any(|word| alias.eq_ignore_ascii_case(word)));
        sources.push((table.to_owned(), alias.unwrap_or(table).to_owned()));
        if sources.len() == SOURCES_MAX {
            break;
        }
    }
    sources
}

/// Names before `AS (SELECT`.
fn ctes(tokens: &[SpannedToken]) -> Vec<String> {
    let is = |token: &SpannedToken, text: &str| {
        word(token).is_some_and(|word| word.eq_ignore_ascii_case(text))
    };
    let named = tokens.windows(4).filter(|four| {
        is(&four[1], "as") && four[2].token == Token::Symbol("(") && is(&four[3], "select")
    });
    named.filter_map(|four| name(&four[0])).map(str::to_owned).take(WITH_MAX).collect()
}

fn word(token: &SpannedToken) -> Option<&str> {
    match &token.token {
        Token::Word(word) => Some(word),
        _ => None,
    }
}

fn name(token: &SpannedToken) -> Option<&str> {
    match &token.token {
        Token::Word(name) | Token::Quoted(name) => Some(name),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `|` marks the cursor.
    fn at(text: &str) -> Cursor {
        let cursor = text.find('|').unwrap();
        cursor_at(&text.replacen('|', "", 1), cursor)
    }

    #[test]
    fn cursor_knows_what_can_stand_there() {
        let member =
            |chain: &[&str]| Place::Member(chain.iter().map(|name| (*name).to_owned()).collect());
        for (text, expected) in [
            ("select | from events", Place::Expression),
            ("|", Place::Expression),
            ("select event from |", Place::Table),
            ("select event from events join |", Place::Table),
            ("select e.| from events e", member(&["e"])),
            ("select person.properties.|", member(&["person", "properties"])),
            ("select `my table`.|", member(&["my table"])),
            ("select 'a | b' from events", Place::Literal),
            ("select 'a |", Place::Literal),
            ("select 1 /* | */", Place::Expression),
            ("select f(x).|", Place::Literal),
        ] {
            assert_eq!(at(text).place, expected, "{text}");
        }
    }

    #[test]
    fn cursor_knows_tables_aliases_and_names_of_with() {
        let cursor =
            at("with t as (select 1) select | from events as e join persons p on 1 where x");
        let pair = |table: &str, name: &str| (table.to_owned(), name.to_owned());
        assert_eq!(cursor.sources, [pair("events", "e"), pair("persons", "p")]);
        assert_eq!(cursor.ctes, ["t"]);
        assert_eq!(at("select | from events where x").sources, [pair("events", "events")]);
    }
}
