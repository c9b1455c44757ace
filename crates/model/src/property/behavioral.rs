//! Behavioral filters of cohorts: which events a person performed, how often and when.

use serde_json::{Map, Value};

use super::FilterError;
use crate::{ActionId, CohortId};

/// Relative dates have up to four digits.
const TIME_VALUE_MAX: u64 = 9_999;
/// Our bound on `operator_value`.
const TIMES_MAX: u64 = 1_000_000;

/// A compiled condition on a person's events.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BehavioralFilter {
    pub target: EventOrAction,
    pub frequency: Frequency,
    /// A date as in insight queries, such as `-30d`.
    pub since: String,
    pub until: Option<String>,
    /// JSON array of property filters on the events.
    pub filters: String,
}

/// What was performed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum EventOrAction {
    Event(String),
    Action(ActionId),
}

/// How often it was performed in the period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Frequency {
    AtLeastOnce,
    /// Never matches zero times, even with `lte` or `lt`, as upstream.
    Times(Comparison, u64),
    /// And never before the period.
    FirstTime,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Comparison {
    Equal,
    AtLeast,
    AtMost,
    More,
    Less,
}

impl Frequency {
    /// Whether a count matches. `FirstTime` also needs the time of the first event, which the caller
    /// checks.
    pub fn fits(self, times: u64) -> bool {
        match self {
            Self::AtLeastOnce | Self::FirstTime => times > 0,
            Self::Times(comparison, bound) => {
                times > 0
                    && match comparison {
                        Comparison::Equal => times == bound,
                        Comparison::AtLeast => times >= bound,
                        Comparison::AtMost => times <= bound,
                        Comparison::More => times > bound,
                        Comparison::Less => times < bound,
                    }
            }
        }
    }
}

type Fields = Map<String, Value>;

fn shape<T>(why: &'static str) -> Result<T, FilterError> {
    Err(FilterError::Shape(why))
}

impl BehavioralFilter {
    pub(super) fn parse(fields: &Fields) -> Result<Self, FilterError> {
        let word = |name: &str| fields.get(name).and_then(Value::as_str);
        let frequency = match word("value") {
            Some("performed_event") => Frequency::AtLeastOnce,
            Some("performed_event_first_time") => Frequency::FirstTime,
            Some("performed_event_multiple") => {
                Frequency::Times(comparison(fields)?, times(fields)?)
            }
            _ => {
                return shape(
                    "A behavioral condition has the value performed_event, \
                     performed_event_multiple or performed_event_first_time.",
                );
            }
        };
        let filters = match fields.get("event_filters") {
            None | Some(Value::Null) => "[]".to_owned(),
            Some(filters @ Value::Array(_)) => filters.to_string(),
            Some(_) => return shape("event_filters is a list of property filters."),
        };
        let until = date(fields, "explicit_datetime_to")?;
        Ok(Self { target: target(fields)?, frequency, since: since(fields)?, until, filters })
    }

    /// Adds the cohorts that its event filters reference.
    pub fn cohorts(&self, found: &mut Vec<CohortId>) {
        let filters: Vec<Fields> = serde_json::from_str(&self.filters).unwrap_or_default();
        filters.iter().for_each(|filter| event_cohorts(filter, found));
    }
}

/// Adds the cohorts that an event filter references. HogQL expressions are not parsed here.
pub fn event_cohorts(filter: &Fields, found: &mut Vec<CohortId>) {
    if let Some(Value::Array(below)) = filter.get("values") {
        let below = below.iter().filter_map(Value::as_object);
        below.for_each(|filter| event_cohorts(filter, found));
    } else if let Some("cohort" | "static-cohort") = filter.get("type").and_then(Value::as_str) {
        found.extend(filter.get("value").and_then(CohortId::from_filter));
    }
}

fn target(fields: &Fields) -> Result<EventOrAction, FilterError> {
    match (fields.get("event_type").and_then(Value::as_str), fields.get("key")) {
        (Some("events"), Some(Value::String(event))) if !event.is_empty() => {
            Ok(EventOrAction::Event(event.clone()))
        }
        (Some("actions"), Some(key)) => match ActionId::from_json(key) {
            Some(id) => Ok(EventOrAction::Action(id)),
            None => shape("A behavioral condition names an action by its number."),
        },
        (Some("events"), _) => shape("A behavioral condition names an event as its key."),
        _ => shape("The event_type of a behavioral condition is events or actions."),
    }
}

fn whole(value: Option<&Value>, max: u64) -> Option<u64> {
    let number = match value? {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    number.filter(|number| (1..=max).contains(number))
}

fn times(fields: &Fields) -> Result<u64, FilterError> {
    match whole(fields.get("operator_value"), TIMES_MAX) {
        Some(times) => Ok(times),
        None => shape("performed_event_multiple needs an operator_value from 1 to 1000000."),
    }
}

fn comparison(fields: &Fields) -> Result<Comparison, FilterError> {
    Ok(match fields.get("operator") {
        None | Some(Value::Null) => Comparison::Equal,
        Some(operator) => match operator.as_str() {
            Some("exact" | "eq") => Comparison::Equal,
            Some("gte") => Comparison::AtLeast,
            Some("lte") => Comparison::AtMost,
            Some("gt") => Comparison::More,
            Some("lt") => Comparison::Less,
            _ => return shape("Times are compared with exact, gte, lte, gt or lt."),
        },
    })
}

fn since(fields: &Fields) -> Result<String, FilterError> {
    if let Some(date) = date(fields, "explicit_datetime")? {
        return Ok(date);
    }
    let unit = match fields.get("time_interval").and_then(Value::as_str) {
        Some("minute") => 'M',
        Some("hour") => 'h',
        Some("day") => 'd',
        Some("week") => 'w',
        Some("month") => 'm',
        Some("year") => 'y',
        _ => {
            return shape("The time_interval is minute, hour, day, week, month or year.");
        }
    };
    match whole(fields.get("time_value"), TIME_VALUE_MAX) {
        Some(count) => Ok(format!("-{count}{unit}")),
        None => shape("A behavioral condition needs a time_value from 1 to 9999."),
    }
}

fn date(fields: &Fields, name: &str) -> Result<Option<String>, FilterError> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.is_empty() => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => shape("explicit_datetime and explicit_datetime_to are texts."),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(changes: Value) -> Result<BehavioralFilter, FilterError> {
        let mut leaf = json!({ "type": "behavioral", "key": "signed up", "value": "performed_event",
            "event_type": "events", "time_value": "30", "time_interval": "day" });
        for (name, value) in changes.as_object().unwrap() {
            leaf[name] = value.clone();
        }
        BehavioralFilter::parse(leaf.as_object().unwrap())
    }

    #[test]
    fn behavioral_filter_parses_all_three_kinds() {
        let plain = parse(json!({})).unwrap();
        assert_eq!(plain.target, EventOrAction::Event("signed up".into()));
        assert_eq!((plain.frequency, plain.since.as_str()), (Frequency::AtLeastOnce, "-30d"));
        let action = parse(json!({ "event_type": "actions", "key": "7", "time_value": 2,
            "time_interval": "month", "value": "performed_event_first_time" }))
        .unwrap();
        assert_eq!(
            (&action.target, action.frequency),
            (&EventOrAction::Action(ActionId(7)), Frequency::FirstTime)
        );
        assert_eq!(action.since, "-2m");
        let often = parse(json!({ "value": "performed_event_multiple", "operator": "gte",
            "operator_value": "3", "explicit_datetime": "2024-01-01" }))
        .unwrap();
        assert_eq!(often.frequency, Frequency::Times(Comparison::AtLeast, 3));
        assert_eq!(often.since, "2024-01-01");
    }

    #[test]
    fn frequency_never_matches_zero_times() {
        for (comparison, times) in [
            (Comparison::Equal, vec![2]),
            (Comparison::AtLeast, vec![2, 3]),
            (Comparison::AtMost, vec![1, 2]),
            (Comparison::More, vec![3]),
            (Comparison::Less, vec![1]),
        ] {
            let fits = (0..4).filter(|times| Frequency::Times(comparison, 2).fits(*times));
            assert_eq!(fits.collect::<Vec<u64>>(), times, "{comparison:?}");
        }
    }

    #[test]
    fn behavioral_filter_rejects_invalid_conditions() {
        for changes in [
            json!({ "value": "performed_event_sequence" }),
            json!({ "value": null }),
            json!({ "key": "" }),
            json!({ "key": 7 }),
            json!({ "event_type": "actions" }),
            json!({ "event_type": null }),
            json!({ "time_value": "0" }),
            json!({ "time_value": null }),
            json!({ "time_value": 10_000 }),
            json!({ "time_interval": "fortnight" }),
            json!({ "value": "performed_event_multiple" }),
            json!({ "value": "performed_event_multiple", "operator_value": 0 }),
            json!({ "value": "performed_event_multiple", "operator_value": 2, "operator": "regex" }),
            json!({ "event_filters": {} }),
            json!({ "explicit_datetime": 5 }),
        ] {
            assert!(parse(changes.clone()).is_err(), "{changes}");
        }
    }
}
