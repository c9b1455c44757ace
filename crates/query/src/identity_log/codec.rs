//! A section: one project's changes in a batch.
//!
//! Integers are LEB128 varints; signed ones are zigzag-coded first. A string or a list is preceded by
//! its length. The fields follow each other in the order in which [`encode`] writes them.

use std::sync::Arc;

use model::Timestamp;
use model::group::Group;
use model::json_object::JsonObject;
use model::person::{DistinctId, DistinctNo, IdentityChanges, Person, PersonNo};
use uuid::Uuid;

const UUID_BYTES: usize = 16;
/// Seven bits each.
const VARINT_BYTES_MAX: usize = 10;

/// Appends a section. Fails if properties of a group cannot be serialized.
pub(super) fn encode(
    out: &mut Vec<u8>,
    identity: &IdentityChanges,
    groups: &[Group],
) -> serde_json::Result<()> {
    let IdentityChanges { merges, deleted, ids, persons, rekeyed, .. } = identity;
    put_count(out, merges.len());
    for (from, into) in merges {
        put_varint(out, from.0.into());
        put_varint(out, into.0.into());
    }
    put_count(out, deleted.len());
    deleted.iter().for_each(|no| put_varint(out, no.0.into()));
    put_count(out, ids.len());
    for DistinctId { no, text, person, version, version_floor } in ids {
        put_varint(out, no.0.into());
        put_text(out, text);
        put_varint(out, person.map_or(0, |person| u64::from(person.0) + 1));
        put_signed(out, *version);
        put_signed(out, *version_floor);
    }
    put_count(out, persons.len());
    for person in persons {
        let Person { no, uuid, properties, is_identified, version, created_at } = &**person;
        put_varint(out, no.0.into());
        out.extend(uuid.as_bytes());
        put_text(out, properties.text());
        out.push(u8::from(*is_identified));
        put_signed(out, *version);
        put_signed(out, created_at.as_micros());
    }
    put_count(out, rekeyed.len());
    rekeyed.iter().for_each(|no| put_varint(out, no.0.into()));
    put_varint(out, identity.first_new_person.into());
    put_varint(out, identity.next_distinct.into());
    put_varint(out, identity.next_person.into());
    put_count(out, groups.len());
    for Group { index, key, properties, version, created_at } in groups {
        out.push(*index);
        put_text(out, key);
        put_text(out, &serde_json::to_string(properties)?);
        put_signed(out, *version);
        put_signed(out, created_at.as_micros());
    }
    Ok(())
}

/// `None` for bytes that [`encode`] does not write.
pub(super) fn decode(section: &[u8]) -> Option<(IdentityChanges, Vec<Group>)> {
    let mut from = Decoder { rest: section };
    let identity = IdentityChanges {
        merges: from.list(|from| Some((PersonNo(from.u32()?), PersonNo(from.u32()?))))?,
        deleted: from.list(|from| from.u32().map(PersonNo))?,
        ids: from.list(Decoder::distinct_id)?,
        persons: from.list(|from| from.person().map(Arc::new))?,
        rekeyed: from.list(|from| from.u32().map(PersonNo))?,
        first_new_person: from.u32()?,
        next_distinct: from.u32()?,
        next_person: from.u32()?,
    };
    let groups = from.list(Decoder::group)?;
    from.rest.is_empty().then_some((identity, groups))
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn put_signed(out: &mut Vec<u8>, value: i64) {
    put_varint(out, ((value << 1) ^ (value >> 63)) as u64);
}

fn put_count(out: &mut Vec<u8>, count: usize) {
    put_varint(out, count as u64);
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_count(out, text.len());
    out.extend(text.as_bytes());
}

struct Decoder<'a> {
    rest: &'a [u8],
}

impl<'a> Decoder<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for at in 0..VARINT_BYTES_MAX {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if at + 1 == VARINT_BYTES_MAX && bits > 1 {
                return None;
            }
            value |= bits << (7 * at);
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn signed(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    fn u32(&mut self) -> Option<u32> {
        self.varint()?.try_into().ok()
    }

    fn text(&mut self) -> Option<&'a str> {
        let len = self.varint()?.try_into().ok()?;
        std::str::from_utf8(self.take(len)?).ok()
    }

    fn flag(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn timestamp(&mut self) -> Option<Timestamp> {
        self.signed().map(Timestamp::from_micros)
    }

    /// Grows with the items that are there: a wrong count allocates nothing.
    fn list<T>(&mut self, item: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.varint()?;
        (0..count).map(|_| item(self)).collect()
    }

    fn distinct_id(&mut self) -> Option<DistinctId> {
        Some(DistinctId {
            no: DistinctNo(self.u32()?),
            text: self.text()?.to_owned(),
            person: match self.varint()? {
                0 => None,
                no => Some(PersonNo(u32::try_from(no - 1).ok()?)),
            },
            version: self.signed()?,
            version_floor: self.signed()?,
        })
    }

    fn person(&mut self) -> Option<Person<JsonObject>> {
        Some(Person {
            no: PersonNo(self.u32()?),
            uuid: Uuid::from_slice(self.take(UUID_BYTES)?).ok()?,
            properties: JsonObject::parse(self.text()?.to_owned()).ok()?,
            is_identified: self.flag()?,
            version: self.signed()?,
            created_at: self.timestamp()?,
        })
    }

    fn group(&mut self) -> Option<Group> {
        Some(Group {
            index: self.byte()?,
            key: self.text()?.to_owned(),
            properties: serde_json::from_str(self.text()?).ok()?,
            version: self.signed()?,
            created_at: self.timestamp()?,
        })
    }
}
