use super::*;

fn calendar(zone: &str, week_starts_monday: bool) -> Calendar {
    Calendar { zone: TimeZone::get(zone).unwrap(), week_starts_monday }
}

fn at(text: &str) -> i64 {
    model::Timestamp::parse(text).unwrap().as_micros()
}

fn starts(calendar: &Calendar, from: &str, to: &str, interval: Interval) -> Vec<String> {
    let buckets = calendar.buckets(at(from), at(to), interval).unwrap();
    buckets.starts.iter().map(|start| calendar.iso(*start).unwrap()).collect()
}

#[test]
fn days_are_local_also_when_the_clocks_change() {
    let berlin = calendar("Europe/Berlin", true);
    assert_eq!(
        starts(&berlin, "2024-03-30T12:00:00Z", "2024-04-01T10:00:00Z", Interval::Day),
        ["2024-03-30T00:00:00+01:00", "2024-03-31T00:00:00+01:00", "2024-04-01T00:00:00+02:00"]
    );
    let autumn =
        berlin.buckets(at("2024-10-27T00:00:00Z"), at("2024-10-27T20:00:00Z"), Interval::Hour);
    // Local hours 02:00 to 21:00, of which 02:00 comes twice.
    assert_eq!(autumn.unwrap().len(), 21);
    let days =
        berlin.buckets(at("2024-10-26T12:00:00Z"), at("2024-10-28T12:00:00Z"), Interval::Day);
    let days = days.unwrap();
    let hours = |day: usize| (days.end_of(day) - days.starts[day]) / 3_600_000_000;
    assert_eq!([hours(0), hours(1), hours(2)], [24, 25, 24]);
    let spring =
        berlin.buckets(at("2024-03-31T12:00:00Z"), at("2024-03-31T12:00:00Z"), Interval::Day);
    let spring = spring.unwrap();
    assert_eq!((spring.end_of(0) - spring.starts[0]) / 3_600_000_000, 23);
}

#[test]
fn a_zone_that_skips_midnight_still_has_every_day_once() {
    let cairo = calendar("Africa/Cairo", true);
    // Clocks go from 00:00 to 01:00 on the 26th.
    assert_eq!(
        starts(&cairo, "2024-04-25T12:00:00Z", "2024-04-27T12:00:00Z", Interval::Day),
        ["2024-04-25T00:00:00+02:00", "2024-04-26T01:00:00+03:00", "2024-04-27T00:00:00+03:00"]
    );
}

// contract: query 66
#[test]
fn weeks_start_where_the_project_says() {
    let (from, to) = ("2024-01-03T00:00:00Z", "2024-01-10T00:00:00Z");
    let days = |monday| starts(&calendar("UTC", monday), from, to, Interval::Week);
    assert_eq!(days(true), ["2024-01-01T00:00:00Z", "2024-01-08T00:00:00Z"]);
    assert_eq!(days(false), ["2023-12-31T00:00:00Z", "2024-01-07T00:00:00Z"]);
}

#[test]
fn days_and_labels_have_their_texts() {
    let utc = calendar("UTC", true);
    let moment = at("2024-01-05T14:00:00Z");
    for (interval, day, label) in [
        (Interval::Minute, "2024-01-05 14:00:00", "5-Jan 14:00"),
        (Interval::Hour, "2024-01-05 14:00:00", "5-Jan 14:00"),
        (Interval::Day, "2024-01-05", "5-Jan-2024"),
        (Interval::Week, "2024-01-05", "5-Jan-2024"),
        (Interval::Month, "2024-01-05", "Jan 2024"),
    ] {
        assert_eq!(utc.day_text(moment, interval).unwrap(), day);
        assert_eq!(utc.label(moment, interval).unwrap(), label);
    }
    assert_eq!(utc.iso(moment + 5).unwrap(), "2024-01-05T14:00:00.000005Z");
}

#[test]
fn moments_find_their_unit_and_none_outside() {
    let utc = calendar("UTC", true);
    let buckets = utc.buckets(at("2024-01-01"), at("2024-01-03"), Interval::Day).unwrap();
    assert_eq!(buckets.len(), 3);
    let mut cursor = buckets.cursor();
    for (text, bucket) in [
        ("2023-12-31T23:59:59.999999Z", None),
        ("2024-01-01", Some(0)),
        ("2024-01-01T23:59:59.999999Z", Some(0)),
        ("2024-01-03T12:00:00Z", Some(2)),
        ("2024-01-02", Some(1)),
        ("2024-01-04", None),
    ] {
        assert_eq!(buckets.of(at(text)), bucket, "{text}");
        assert_eq!(cursor.of(at(text)), bucket, "{text}");
    }
}

#[test]
fn too_many_units_are_refused() {
    let utc = calendar("UTC", true);
    let many = utc.buckets(at("2024-01-01"), at("2024-01-09"), Interval::Minute);
    assert!(matches!(many, Err(Error::Invalid(_))));
}
