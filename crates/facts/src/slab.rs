//! Many short texts by number, in few pieces of memory: a text of its own has its length, its
//! count of users and the allocator's rounding beside it.

use std::sync::Arc;

/// Texts of a piece, which is copied when one of them changes while somebody looks at the others.
pub(crate) const PIECE: usize = 64;

/// Copies share their pieces.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slab {
    pieces: Vec<Arc<Piece>>,
    /// What the pieces hold, kept with every change: there may be many thousands of them.
    bytes: usize,
}

#[derive(Clone, Debug, Default)]
struct Piece {
    ends: Vec<u32>,
    bytes: Vec<u8>,
}

impl Slab {
    /// What its pieces hold.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Empty for what was never set.
    pub fn get(&self, at: usize) -> &[u8] {
        self.pieces.get(at / PIECE).map_or(&[], |piece| piece.get(at % PIECE))
    }

    pub fn set(&mut self, at: usize, text: &[u8]) {
        if self.pieces.len() <= at / PIECE {
            if text.is_empty() {
                return;
            }
            let more = at / PIECE + 1 - self.pieces.len();
            self.bytes += more * Piece::default().reservation();
            self.pieces.resize_with(at / PIECE + 1, Arc::default);
        }
        if self.get(at) != text {
            let piece = &mut self.pieces[at / PIECE];
            self.bytes -= piece.reservation();
            // A copy may hold less than the piece that it is of.
            Arc::make_mut(piece).set(at % PIECE, text);
            self.bytes += piece.reservation();
        }
    }
}

impl Piece {
    fn reservation(&self) -> usize {
        size_of::<Self>() + self.bytes.capacity() + self.ends.capacity() * size_of::<u32>()
    }

    fn get(&self, at: usize) -> &[u8] {
        let Some(end) = self.ends.get(at) else { return &[] };
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start as usize..*end as usize]
    }

    fn set(&mut self, at: usize, text: &[u8]) {
        if self.ends.len() <= at {
            self.ends.reserve_exact(at + 1 - self.ends.len());
            self.ends.resize(at + 1, self.bytes.len() as u32);
        }
        let end = self.ends[at] as usize;
        let start = end - self.get(at).len();
        let length = self.bytes.len() - (end - start) + text.len();
        // What would take four gigabytes with its neighbours is left out.
        let text = if u32::try_from(length).is_ok() { text } else { &[] };
        if self.bytes.capacity() < length {
            // A little more, since they come one after the other; twice as much would stay.
            self.bytes.reserve_exact(length - self.bytes.len() + length / 16);
        }
        self.bytes.splice(start..end, text.iter().copied());
        for later in &mut self.ends[at..] {
            *later = (*later as usize - (end - start) + text.len()) as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

    use super::*;

    #[test]
    fn texts_come_back_after_any_changes_and_copies_keep_theirs() {
        let mut random = StdRng::seed_from_u64(5);
        let (mut slab, mut plain) = (Slab::default(), vec![Vec::new(); 1_000]);
        let check = |slab: &Slab, plain: &[Vec<u8>]| {
            for (at, text) in plain.iter().enumerate() {
                assert_eq!(slab.get(at), text, "{at}");
            }
        };
        let mut copies = Vec::new();
        for step in 0..6_000 {
            let at = random.random_range(0..1_000);
            let text = vec![step as u8; random.random_range(0..40)];
            slab.set(at, &text);
            plain[at] = text;
            if step % 1_500 == 0 {
                copies.push((slab.clone(), plain.clone()));
            }
        }
        check(&slab, &plain);
        copies.iter().for_each(|(slab, plain)| check(slab, plain));
        for slab in copies.iter().map(|(slab, _)| slab).chain([&slab]) {
            assert_eq!(
                slab.bytes(),
                slab.pieces.iter().map(|piece| piece.reservation()).sum::<usize>()
            );
        }
        assert_eq!(slab.get(5_000), b"");
        slab.set(9_000, b"");
        assert_eq!(slab.pieces.len(), 1_000_usize.div_ceil(PIECE));
    }

    #[test]
    fn a_slab_takes_little_more_than_its_texts() {
        let mut slab = Slab::default();
        (0..10_000).for_each(|at| slab.set(at, format!("user_{at}@example.com").as_bytes()));
        let room = |piece: &Arc<Piece>| piece.bytes.capacity() + piece.ends.capacity() * 4;
        let (room, text) = (
            slab.pieces.iter().map(room).sum::<usize>(),
            (0..10_000).map(|at| slab.get(at).len() + 4),
        );
        assert!(room <= text.sum::<usize>() * 9 / 8, "{room}");
    }
}
