//! Parses `GROUP BY`.

use super::Parser;
use crate::ast::{Expr, Select};
use crate::error::{Checked, Fault, Span};
use crate::limits::{GROUP_KEYS_MAX, GROUPING_SETS_MAX};
use crate::token::Token;

/// `ROLLUP` and `CUBE`, before or after the keys.
#[derive(Clone, Copy)]
enum Mode {
    Rollup,
    Cube,
}

impl Mode {
    /// The sets of so many keys.
    fn sets(self, keys: usize, span: Span) -> Checked<Vec<Vec<usize>>> {
        let is_too_large = match self {
            Self::Rollup => keys >= GROUPING_SETS_MAX,
            Self::Cube => keys > GROUPING_SETS_MAX.ilog2() as usize,
        };
        if is_too_large {
            return Err(Fault::too_large("grouping sets", GROUPING_SETS_MAX, span));
        }
        Ok(match self {
            Self::Rollup => (0..=keys).rev().map(|len| (0..len).collect()).collect(),
            Self::Cube => {
                // The set of all keys comes first, and of the others those with the earlier keys.
                let masks = (0..1usize << keys).rev();
                let is_in = |mask: usize, key: usize| mask >> (keys - 1 - key) & 1 == 1;
                masks.map(|mask| (0..keys).filter(|key| is_in(mask, *key)).collect()).collect()
            }
        })
    }
}

impl Parser {
    /// What follows `GROUP BY`.
    pub(super) fn group(&mut self, select: &mut Select) -> Checked<()> {
        let span = self.span();
        if self.is_word("grouping") && self.word_ahead(1, "sets") {
            self.advance();
            self.advance();
            return self.grouping_sets(select);
        }
        for (word, mode) in [("rollup", Mode::Rollup), ("cube", Mode::Cube)] {
            if self.is_word(word) && *self.peek(1) == Token::Symbol("(") {
                self.advance();
                self.advance();
                select.group = self.exprs_until(")")?;
                select.group_sets = mode.sets(select.group.len(), span)?;
                return Ok(());
            }
        }
        select.group_all = self.is_word("all") && *self.peek(1) != Token::Symbol(",");
        if select.group_all {
            self.advance();
        } else {
            select.group = self.clause(Self::aliased)?;
        }
        for (word, mode) in [("rollup", Mode::Rollup), ("cube", Mode::Cube)] {
            if self.eat_words(&["with", word]) {
                if select.group_all {
                    let message = "GROUP BY ALL has no grouping sets: name the keys";
                    return Err(Fault::invalid(message, span));
                }
                select.group_sets = mode.sets(select.group.len(), span)?;
            }
        }
        Ok(())
    }

    /// `((a, b), a, ())`
    fn grouping_sets(&mut self, select: &mut Select) -> Checked<()> {
        let span = self.span();
        self.expect("(")?;
        let sets = self.list(|parser| {
            if parser.eat("(") { parser.exprs_until(")") } else { Ok(vec![parser.expr()?]) }
        })?;
        self.expect(")")?;
        if sets.len() > GROUPING_SETS_MAX {
            return Err(Fault::too_large("grouping sets", GROUPING_SETS_MAX, span));
        }
        if sets.iter().map(Vec::len).sum::<usize>() > GROUPING_SETS_MAX * GROUP_KEYS_MAX {
            return Err(Fault::too_large("keys of GROUP BY", GROUP_KEYS_MAX, span));
        }
        // Keys that are written alike are one.
        let mut texts: Vec<String> = Vec::new();
        for set in sets {
            let index = |key: Expr| {
                let text = key.to_string();
                texts.iter().position(|other| *other == text).unwrap_or_else(|| {
                    texts.push(text);
                    select.group.push(key);
                    select.group.len() - 1
                })
            };
            select.group_sets.push(set.into_iter().map(index).collect());
        }
        Ok(())
    }
}
