//! Very many texts with numbers, without gaps.

use hashbrown::HashTable;
use warehouse::{Dictionary, Hashing, Value};

/// Texts of a piece. In one piece they would be there twice whenever it has to grow.
const PIECE: usize = 4_096;

#[derive(Debug, Default)]
pub(crate) struct Texts {
    pieces: Vec<Dictionary>,
    full_bytes: usize,
    /// Numbers beside parts of the hashes of their texts.
    table: HashTable<(u32, u32)>,
    hashing: Hashing,
}

impl Texts {
    pub(crate) fn number(&mut self, text: &str) -> u32 {
        let hash = self.hashing.hash(Value::Text(text));
        let part = (hash >> 32) as u32;
        let is_it = |known: &(u32, u32)| known.0 == part && self.get(known.1) == Some(text);
        if let Some((_, number)) = self.table.find(Hashing::spread(part), is_it) {
            return *number;
        }
        if self.pieces.last().is_none_or(|piece| piece.len() == PIECE) {
            self.full_bytes += self.pieces.last().map_or(0, Dictionary::memory_bytes);
            self.pieces.push(Dictionary::default());
        }
        let before = (self.pieces.len() - 1) * PIECE;
        let piece = &mut self.pieces[before / PIECE];
        let number = before as u32 + piece.push(Value::Text(text));
        self.table.insert_unique(Hashing::spread(part), (part, number), |(part, _)| {
            Hashing::spread(*part)
        });
        number
    }

    pub(crate) fn get(&self, number: u32) -> Option<&str> {
        let at = number as usize;
        match self.pieces.get(at / PIECE)?.get((at % PIECE) as u32) {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        let last = self.pieces.last().map_or(0, Dictionary::memory_bytes);
        self.full_bytes + last + self.table.allocation_size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_keep_their_numbers_over_many_pieces() {
        let mut texts = Texts::default();
        let text = |no: u32| format!("/page/{no}");
        for no in 0..3 * PIECE as u32 {
            assert_eq!(texts.number(&text(no)), no);
        }
        let bytes = texts.bytes();
        for no in (0..3 * PIECE as u32).rev() {
            assert_eq!((texts.number(&text(no)), texts.get(no)), (no, Some(text(no).as_str())));
        }
        assert_eq!(texts.bytes(), bytes);
        assert!(bytes > 3 * PIECE * "/page/1000".len());
    }
}
