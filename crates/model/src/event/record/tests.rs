use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;

/// Owned strings behind the borrowed event that a test encodes.
#[derive(Clone, Debug)]
struct Owned {
    numbers: (i64, i64, Option<i64>),
    client_ip: Option<IpAddr>,
    sent_at: Option<Result<String, i64>>,
    timestamp: Option<Option<Result<String, String>>>,
    uuid: (bool, [u8; 16]),
    marks: (bool, bool, bool),
    texts: [String; 5],
    optional: [Option<String>; 6],
    options: [Option<bool>; 3],
}

impl Owned {
    fn event(&self) -> AcceptedEvent<'_> {
        let [name, distinct_id, properties, lib_name, lib_version] = &self.texts;
        let [set, set_once, unset, session_id, window_id, product_tour_id] =
            self.optional.each_ref().map(|text| text.as_deref());
        let [cookieless_mode, disable_skew_correction, process_person_profile] = self.options;
        let (historical_migration, v1, person_processing_disabled) = self.marks;
        AcceptedEvent {
            project: ProjectId(self.numbers.0),
            received_at: Timestamp::from_micros(self.numbers.1),
            offset_ms: self.numbers.2,
            client_ip: self.client_ip,
            sent_at: self.sent_at.as_ref().map(|sent| match sent {
                Ok(text) => SentAt::Text(text.into()),
                Err(millis) => SentAt::Millis(*millis),
            }),
            timestamp: self.timestamp.as_ref().map(|time| match time {
                Some(Ok(text)) => RawTime::Text(text.into()),
                Some(Err(number)) => RawTime::Number(number),
                None => RawTime::Unreadable,
            }),
            historical_migration,
            uuid: match self.uuid {
                (true, bytes) => EventUuid::Given(Uuid::from_bytes(bytes)),
                (false, bytes) => EventUuid::Seed(bytes),
            },
            name,
            distinct_id,
            properties,
            set,
            set_once,
            unset,
            v1: v1.then(|| V1Extras {
                lib_name,
                lib_version,
                session_id,
                window_id,
                options: V1Options {
                    cookieless_mode,
                    disable_skew_correction,
                    process_person_profile,
                    product_tour_id,
                },
                person_processing_disabled,
            }),
        }
    }
}

fn owned() -> impl Strategy<Value = Owned> {
    let text = || ".{0,200}";
    let result = || prop_oneof![text().prop_map(Ok), text().prop_map(Err)];
    let sent = prop_oneof![text().prop_map(Ok), any::<i64>().prop_map(Err)];
    (
        any::<(i64, i64, Option<i64>)>(),
        any::<Option<IpAddr>>(),
        option::of(sent),
        option::of(option::of(result())),
        any::<(bool, [u8; 16])>(),
        any::<(bool, bool, bool)>(),
        [text(), text(), text(), text(), text()],
        std::array::from_fn::<_, 6, _>(|_| option::of(text())),
        any::<[Option<bool>; 3]>(),
    )
        .prop_map(
            |(numbers, client_ip, sent_at, timestamp, uuid, marks, texts, optional, options)| {
                Owned {
                    numbers,
                    client_ip,
                    sent_at,
                    timestamp,
                    uuid,
                    marks,
                    texts,
                    optional,
                    options,
                }
            },
        )
}

proptest! {
    #[test]
    fn record_round_trips(owned in owned()) {
        let event = owned.event();
        let mut record = Vec::new();
        event.encode(&mut record);
        prop_assert_eq!(AcceptedEvent::decode(&record), Ok(event));
    }

    #[test]
    fn truncated_record_is_an_error(owned in owned(), at in any::<prop::sample::Index>()) {
        let mut record = Vec::new();
        owned.event().encode(&mut record);
        record.truncate(at.index(record.len()));
        prop_assert!(AcceptedEvent::decode(&record).is_err());
    }

    #[test]
    fn any_decodable_record_round_trips(tail in vec(any::<u8>(), 0..200)) {
        let mut record = vec![KIND_EVENT, VERSION];
        record.extend(tail);
        if let Ok(event) = AcceptedEvent::decode(&record) {
            let mut again = Vec::new();
            event.encode(&mut again);
            prop_assert_eq!(AcceptedEvent::decode(&again), Ok(event));
        }
    }
}

fn plain() -> AcceptedEvent<'static> {
    AcceptedEvent {
        project: ProjectId(1),
        received_at: Timestamp::from_micros(2),
        client_ip: Some(IpAddr::from([10, 0, 0, 1])),
        sent_at: None,
        historical_migration: true,
        uuid: EventUuid::Given(Uuid::from_u128(3)),
        name: "e",
        distinct_id: "d",
        timestamp: Some(RawTime::Number("4")),
        offset_ms: None,
        properties: "{}",
        set: None,
        set_once: None,
        unset: Some(r#"["a"]"#),
        v1: None,
    }
}

/// Journals outlive releases: these bytes must always decode to this event.
#[test]
fn version_1_keeps_its_layout() {
    let mut record = Vec::new();
    plain().encode(&mut record);
    let mut expected = vec![1, 1];
    expected.extend(1i64.to_le_bytes());
    expected.extend((1u32 | 1 << 3 | 1 << 4 | 1 << 9 | 1 << 14).to_le_bytes());
    expected.extend(2i64.to_le_bytes());
    expected.extend(3u128.to_be_bytes());
    expected.extend([10, 0, 0, 1]);
    expected.extend(b"\x014\x01e\x01d\x02{}\x05[\"a\"]");
    assert_eq!(record, expected);
}

#[test]
fn corrupted_records_are_errors() {
    let mut good = Vec::new();
    plain().encode(&mut good);
    let with = |at: usize, byte: u8| {
        let mut record = good.clone();
        record[at] = byte;
        record
    };
    let mut long = good.clone();
    long.push(0);
    let corrupted = |why| RecordError::Corrupted(why);
    for (record, expected) in [
        (with(0, 9), RecordError::UnknownKind(9)),
        (with(1, 2), RecordError::UnknownVersion(2)),
        (with(13, 0x80), corrupted("unknown bits")),
        (with(10, 0x39), corrupted("bits that exclude each other")),
        (with(12, 0x08), corrupted("bits that exclude each other")),
        (with(45, 0xff), corrupted("text is not UTF-8")),
        (long, corrupted("bytes after the last field")),
        (Vec::new(), corrupted("cut short")),
    ] {
        assert_eq!(AcceptedEvent::decode(&record), Err(expected));
    }
}
