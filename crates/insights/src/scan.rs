//! One pass over the events a series means, by as many threads as are worth it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use facts::ReadView;
use serde_json::Value as Json;
use warehouse::{
    ABSENT, Batch, Column, Columns, Dictionary, Filter, Hashing, Interner, Key, Part, Value,
};

use crate::breakdown::{Breakdown, Reader};
use crate::hogql::{Scalar, Seen};
use crate::limits::QueryLimits;
use crate::{Error, Result};

/// Threads of one question; others are asked at the same time.
pub(crate) const THREADS: usize = 2;

/// The number of an event that belongs to nobody.
pub(crate) const NOBODY: u32 = u32::MAX;

/// Who counts once.
#[derive(Debug)]
pub(crate) enum Actors {
    Persons,
    /// By the text of a column: a group's key, or a session.
    Texts(Key, Texts),
    /// By the text of an expression.
    Expression(Scalar, Texts),
}

impl Actors {
    pub fn column(key: Key) -> Self {
        Self::Texts(key, Texts::default())
    }

    pub fn groups(index: usize) -> Self {
        Self::column(Key::Group(index))
    }

    pub fn sessions() -> Self {
        Self::column(Key::Property("$session_id".into()))
    }

    /// Groups of a type if it is given, otherwise persons.
    pub fn of(group: Option<usize>) -> Self {
        group.map_or(Self::Persons, Self::groups)
    }

    /// The text of an actor that has one.
    pub fn text(&self, actor: u32) -> String {
        match self {
            Self::Persons => String::new(),
            Self::Texts(_, texts) | Self::Expression(_, texts) => texts.get(actor),
        }
    }

    fn keys(&self) -> &[Key] {
        match self {
            Self::Persons => &[],
            Self::Texts(key, _) => std::slice::from_ref(key),
            Self::Expression(scalar, _) => scalar.keys(),
        }
    }
}

/// Threads seldom want the same of so many shards at once.
const SHARDS: usize = 16;

/// Texts with numbers, given by all threads together: small ones, but not without gaps.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    hashing: Hashing,
    shards: [Mutex<Interner>; SHARDS],
}

impl Texts {
    pub fn number(&self, text: &str) -> u32 {
        let (hash, shard) = self.place(text);
        let code = self.shard(shard).intern_hashed(hash, Value::Text(text));
        code * SHARDS as u32 + shard as u32
    }

    /// As [`Texts::number`] for many, each with something to know it by. A shard is locked once
    /// for all its texts, between which memory need not be waited for one by one.
    fn number_all<K: Copy>(&self, texts: &[(K, &str)], mut each: impl FnMut(K, u32)) {
        let mut places: [Vec<(u64, u32)>; SHARDS] = Default::default();
        for (at, (_, text)) in texts.iter().enumerate() {
            let (hash, shard) = self.place(text);
            places[shard].push((hash, at as u32));
        }
        for (shard, places) in places.iter().enumerate() {
            let mut interner = self.shard(shard);
            for (hash, at) in places {
                let (own, text) = texts[*at as usize];
                let code = interner.intern_hashed(*hash, Value::Text(text));
                each(own, code * SHARDS as u32 + shard as u32);
            }
        }
    }

    /// The number of a text that has one.
    pub fn find(&self, text: &str) -> Option<u32> {
        let (hash, shard) = self.place(text);
        let code = self.shard(shard).find_hashed(hash, Value::Text(text))?;
        Some(code * SHARDS as u32 + shard as u32)
    }

    /// The lowest bits of a hash choose the place within a shard's table.
    fn place(&self, text: &str) -> (u64, usize) {
        let hash = self.hashing.hash(Value::Text(text));
        (hash, hash as usize >> 32 & (SHARDS - 1))
    }

    /// Numbers are below.
    pub fn len(&self) -> usize {
        let lens = (0..SHARDS).map(|shard| self.shard(shard).dictionary.len());
        lens.max().unwrap_or(0) * SHARDS
    }

    pub fn bytes(&self) -> usize {
        let bytes = |shard| {
            let dictionary = &self.shard(shard).dictionary;
            dictionary.memory_bytes() + dictionary.len() * 16
        };
        (0..SHARDS).map(bytes).sum()
    }

    pub fn get(&self, number: u32) -> String {
        let (code, shard) = (number / SHARDS as u32, number as usize % SHARDS);
        let dictionary = &self.shard(shard).dictionary;
        match ((code as usize) < dictionary.len()).then(|| dictionary.get(code)) {
            Some(Value::Text(text)) => text.to_owned(),
            // No text has this number.
            _ => String::new(),
        }
    }

    fn shard(&self, shard: usize) -> MutexGuard<'_, Interner> {
        self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The text that counts and breaks down: nothing is null and the empty text.
pub(crate) fn text(value: Value<'_>) -> Option<&str> {
    match value {
        Value::Null | Value::Text("") => None,
        Value::Bool(true) => Some("true"),
        Value::Bool(false) => Some("false"),
        Value::Number(text) | Value::Text(text) | Value::Json(text) => Some(text),
    }
}

/// The number in a value, if it is one or reads as one.
pub(crate) fn number(value: Value<'_>) -> Option<f64> {
    let text = match value {
        Value::Number(text) | Value::Text(text) => text,
        _ => return None,
    };
    text.trim().parse().ok().filter(|number: &f64| number.is_finite())
}

/// A property of a group as the value it would be on an event.
pub(crate) fn of_json<T>(json: Option<&Json>, each: impl FnOnce(Option<Value<'_>>) -> T) -> T {
    match json {
        None | Some(Json::Null) => each(None),
        Some(Json::Bool(truth)) => each(Some(Value::Bool(*truth))),
        Some(Json::String(text)) => each(Some(Value::Text(text))),
        Some(Json::Number(number)) => each(Some(Value::Number(&number.to_string()))),
        Some(other) => each(Some(Value::Json(&other.to_string()))),
    }
}

/// What entries of a dictionary come to, each worked out once, when it is first met.
#[derive(Debug)]
pub(crate) struct Entries<T> {
    dictionary: Option<Arc<Dictionary>>,
    known: Vec<Option<T>>,
}

impl<T> Default for Entries<T> {
    fn default() -> Self {
        Self { dictionary: None, known: Vec::new() }
    }
}

impl<T: Copy> Entries<T> {
    /// Parts of one row group share their dictionary.
    fn turn_to(&mut self, dictionary: &Arc<Dictionary>) {
        let same = self.dictionary.as_ref().is_some_and(|own| Arc::ptr_eq(own, dictionary));
        if !same {
            self.dictionary = Some(dictionary.clone());
            self.known.clear();
            self.known.resize(dictionary.len(), None);
        }
    }

    /// For each row: `absent`, or what its entry comes to.
    pub fn each_row(
        &mut self,
        column: &Column,
        absent: T,
        mut make: impl FnMut(Value<'_>) -> T,
    ) -> Vec<T> {
        self.turn_to(&column.dictionary);
        let mut made = Vec::new();
        let known = |code: u32| self.known[code as usize].is_some();
        let dictionary = &*column.dictionary;
        dictionary.for_each_met(&column.codes, known, |code| {
            made.push((code, make(dictionary.get(code))));
        });
        made.into_iter().for_each(|(code, made)| self.known[code as usize] = Some(made));
        self.rows(column, absent)
    }

    fn rows(&self, column: &Column, absent: T) -> Vec<T> {
        let row = |code: &u32| match *code {
            ABSENT => absent,
            code => self.known[code as usize].unwrap_or(absent),
        };
        column.codes.iter().map(row).collect()
    }
}

impl Entries<u32> {
    /// For each row: `absent`, or `first` and the number of the text in its entry.
    pub fn each_text(
        &mut self,
        column: &Column,
        absent: u32,
        (texts, first): (&Texts, u32),
        text: impl Fn(Value<'_>) -> Option<&str>,
    ) -> Vec<u32> {
        self.turn_to(&column.dictionary);
        let (mut met, mut without) = (Vec::new(), Vec::new());
        let known = |code: u32| self.known[code as usize].is_some();
        let dictionary = &*column.dictionary;
        dictionary.for_each_met(&column.codes, known, |code| match text(dictionary.get(code)) {
            Some(text) => met.push((code, text)),
            None => without.push(code),
        });
        without.into_iter().for_each(|code| self.known[code as usize] = Some(absent));
        texts.number_all(&met, |code, number| self.known[code as usize] = Some(first + number));
        self.rows(column, absent)
    }
}

pub(crate) struct Scan<'a> {
    pub view: &'a ReadView,
    pub limits: &'a QueryLimits,
    pub filter: Filter,
    /// Events of nobody are left out.
    pub actors: Option<&'a Actors>,
    pub breakdown: Option<&'a Breakdown>,
    /// Further columns.
    pub keys: Vec<Key>,
}

/// Events that passed.
pub(crate) struct Rows<'a> {
    pub times: &'a [i64],
    /// Empty unless asked for.
    pub actors: &'a [u32],
    /// Numbers of the breakdown's values; empty without one.
    pub values: &'a [u32],
    /// As many as keys.
    pub columns: &'a [Column],
    pub distinct_nos: &'a [u32],
}

impl Rows<'_> {
    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// As expressions see them.
    pub fn seen(&self) -> Seen<'_> {
        Seen { times: self.times, distinct_nos: self.distinct_nos, columns: self.columns }
    }

    pub fn actor(&self, row: usize) -> u32 {
        self.actors[row]
    }

    pub fn value(&self, row: usize) -> u32 {
        self.values.get(row).copied().unwrap_or(0)
    }
}

impl Scan<'_> {
    /// Every thread starts with a `new` state and shows it all rows it meets.
    pub fn fold<S: Send>(
        &self,
        new: impl Fn() -> S + Sync,
        each: impl Fn(&mut S, &Rows<'_>) -> Result<()> + Sync,
    ) -> Result<Vec<S>> {
        let columns = Columns { keys: self.all_keys(), ..Columns::default() };
        let parts = self.view.events.parts(&self.filter, &columns)?;
        let next = AtomicUsize::new(0);
        let failed = AtomicBool::new(false);
        let work = || {
            let mut state = new();
            let mut own = Own::default();
            let mut walk = || -> Result<()> {
                while let Some(part) = parts.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if failed.load(Ordering::Relaxed) {
                        break;
                    }
                    self.limits.check()?;
                    self.show(part, &columns, &mut own, &mut state, &each)?;
                }
                Ok(())
            };
            let walked = walk();
            failed.fetch_or(walked.is_err(), Ordering::Relaxed);
            walked.map(|()| state)
        };
        if parts.len() < THREADS {
            return Ok(vec![work()?]);
        }
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..THREADS).map(|_| scope.spawn(work)).collect();
            let mut states = vec![work()];
            for other in others {
                states.push(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            }
            states.into_iter().collect()
        })
    }

    fn all_keys(&self) -> Vec<Key> {
        let actor = self.actors.map(Actors::keys).unwrap_or_default();
        let breakdown = self.breakdown.map(Breakdown::keys).unwrap_or_default();
        self.keys.iter().chain(actor).cloned().chain(breakdown).collect()
    }

    fn show<S>(
        &self,
        part: &Part,
        columns: &Columns,
        own: &mut Own,
        state: &mut S,
        each: &impl Fn(&mut S, &Rows<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut batch = part.read(&self.filter, columns)?;
        if batch.rows == 0 {
            return Ok(());
        }
        let at = self.keys.len() + self.actors.map_or(0, |actors| actors.keys().len());
        let mut actors = Vec::new();
        match self.actors {
            None => {}
            Some(Actors::Persons) => {
                let persons = &self.view.persons;
                actors = batch.distinct_nos.iter().map(|no| persons.actor(*no)).collect();
            }
            Some(Actors::Texts(_, texts)) => {
                let column = &batch.columns[self.keys.len()];
                actors = own.actors.each_text(column, NOBODY, (texts, 0), text);
            }
            Some(Actors::Expression(scalar, texts)) => {
                let Batch { timestamps, distinct_nos, columns, .. } = &batch;
                let columns = &columns[self.keys.len()..at];
                let seen = Seen { times: timestamps, distinct_nos, columns };
                scalar.each_text(seen, |text| {
                    actors.push(text.map_or(NOBODY, |text| texts.number(text)));
                })?;
            }
        }
        if actors.contains(&NOBODY) {
            leave_out(&mut batch, &mut actors);
        }
        let values = match self.breakdown {
            None => Vec::new(),
            Some(breakdown) => {
                let Batch { timestamps, distinct_nos, columns, .. } = &batch;
                let seen = Seen { times: timestamps, distinct_nos, columns: &columns[at..] };
                own.values.read(breakdown, self.view, seen)?
            }
        };
        let rows = Rows {
            times: &batch.timestamps,
            actors: &actors,
            values: &values,
            columns: &batch.columns[..self.keys.len()],
            distinct_nos: &batch.distinct_nos,
        };
        each(state, &rows)
    }
}

/// What a thread remembers from part to part.
#[derive(Default)]
struct Own {
    actors: Entries<u32>,
    values: Reader,
}

fn leave_out(batch: &mut Batch, actors: &mut Vec<u32>) {
    let keep: Vec<bool> = actors.iter().map(|actor| *actor != NOBODY).collect();
    fn pick<T: Copy>(from: &mut Vec<T>, keep: &[bool]) {
        let mut at = 0;
        from.retain(|_| {
            at += 1;
            keep[at - 1]
        });
    }
    pick(actors, &keep);
    pick(&mut batch.timestamps, &keep);
    pick(&mut batch.distinct_nos, &keep);
    batch.columns.iter_mut().for_each(|column| pick(&mut column.codes, &keep));
    batch.rows = actors.len();
}

/// Numbers of breakdown values share a word with other things.
pub(crate) const VALUES_MAX: usize = 1 << 24;

pub(crate) fn too_many_values() -> Error {
    Error::MemoryLimit
}
