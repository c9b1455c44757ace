//! Settings of projects, organizations and users: a table of names, value kinds and defaults.
//!
//! Only values that differ from their default are stored, so a default can change without a
//! migration. A setting that the program reads has a typed accessor next to its table; all others
//! are only stored and shown.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

/// Bytes of one value as JSON. Every request loads the settings of its project.
pub const SETTING_BYTES_MAX: usize = 64 * 1_024;

#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub name: &'static str,
    pub kind: Kind,
    pub nullable: bool,
    pub default: Default,
}

/// The type of a setting's value.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Bool,
    Text,
    /// One of these words.
    Word(&'static [&'static str]),
    Integer,
    /// One of these numbers.
    Number(&'static [i64]),
    /// Three capital letters (ISO 4217).
    Currency,
    Texts,
    Object,
    /// With this schema.
    Objects(ItemSchema),
}

/// The schema of a list's objects.
#[derive(Clone, Copy, Debug)]
pub enum ItemSchema {
    PathCleaningFilter,
    PropertyFilter,
}

#[derive(Clone, Copy, Debug)]
pub enum Default {
    Null,
    Bool(bool),
    Text(&'static str),
    Texts(&'static [&'static str]),
    Object,
    /// An object with one string field.
    Entry(&'static str, &'static str),
}

impl Default {
    fn value(self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(bool) => bool.into(),
            Self::Text(text) => text.into(),
            Self::Texts(texts) => texts.into(),
            Self::Object => Value::Object(Map::new()),
            Self::Entry(name, word) => json!({ name: word }),
        }
    }
}

impl Setting {
    pub(crate) const fn always(name: &'static str, kind: Kind, default: Default) -> Self {
        Self { name, kind, nullable: false, default }
    }

    pub(crate) const fn switch(name: &'static str, on: bool) -> Self {
        Self::always(name, Kind::Bool, Default::Bool(on))
    }

    /// A nullable setting that is null until it is set.
    pub(crate) const fn open(name: &'static str, kind: Kind) -> Self {
        Self { name, kind, nullable: true, default: Default::Null }
    }

    pub(crate) const fn or_null(mut self) -> Self {
        self.nullable = true;
        self
    }

    fn check(&self, value: &Value) -> Result<(), FieldError> {
        let refuse =
            |code, detail: String| Err(FieldError { attr: self.name.into(), code, detail });
        if value.is_null() {
            return match self.nullable {
                true => Ok(()),
                false => refuse("null", "This field may not be null.".into()),
            };
        }
        if let Some((code, detail)) = self.kind.error(value) {
            return refuse(code, detail);
        }
        let (inside, right): (_, fn(&Value) -> bool) = match self.kind {
            Kind::Texts => ("Not a valid string.", Value::is_string),
            Kind::Objects(ItemSchema::PropertyFilter) => {
                ("Expected a dictionary of items.", Value::is_object)
            }
            Kind::Objects(ItemSchema::PathCleaningFilter) => {
                ("Expected a dictionary with the strings alias and regex.", is_path_cleaning_filter)
            }
            _ => ("", |_| true),
        };
        let wrong = value.as_array().and_then(|items| items.iter().position(|item| !right(item)));
        if let Some(index) = wrong {
            let attr = format!("{}__{index}", self.name);
            return Err(FieldError { attr, code: "invalid_input", detail: inside.into() });
        }
        if value.to_string().len() > SETTING_BYTES_MAX {
            let detail = format!("Ensure this field has no more than {SETTING_BYTES_MAX} bytes.");
            return refuse("max_length", detail);
        }
        Ok(())
    }

    fn schema(&self) -> Value {
        let mut schema = match self.kind {
            Kind::Bool => json!({ "type": "boolean" }),
            Kind::Text => json!({ "type": "string" }),
            Kind::Word(words) => json!({ "enum": words }),
            Kind::Integer => json!({ "type": "integer" }),
            Kind::Number(numbers) => json!({ "enum": numbers }),
            Kind::Currency => json!({ "type": "string", "pattern": "^[A-Z]{3}$" }),
            Kind::Texts => json!({ "type": "array", "items": { "type": "string" } }),
            Kind::Object => json!({ "type": "object" }),
            Kind::Objects(item) => {
                let reference =
                    |name: &str| json!({ "$ref": format!("#/components/schemas/{name}") });
                let items = match item {
                    ItemSchema::PathCleaningFilter => reference("PathCleaningFilter"),
                    // An incomplete filter is stored as it is and keeps all events.
                    ItemSchema::PropertyFilter => {
                        json!({ "anyOf": [reference("PropertyFilterOrGroup"), { "type": "object" }] })
                    }
                };
                json!({ "type": "array", "items": items })
            }
        };
        if self.nullable {
            schema = json!({ "anyOf": [schema, { "type": "null" }] });
        }
        schema["default"] = self.default.value();
        schema
    }
}

impl Kind {
    /// Error code and detail for a non-null value of the wrong type.
    fn error(self, value: &Value) -> Option<(&'static str, String)> {
        let invalid = |detail: &str| Some(("invalid_input", detail.to_owned()));
        let no_choice = || {
            let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            Some(("invalid_choice", format!("\"{shown}\" is not a valid choice.")))
        };
        match self {
            Self::Bool if !value.is_boolean() => invalid("Must be a valid boolean."),
            Self::Text if !value.is_string() => invalid("Not a valid string."),
            Self::Integer if !value.is_i64() => invalid("A valid integer is required."),
            Self::Object if !value.is_object() => invalid("Expected a dictionary of items."),
            Self::Texts | Self::Objects(_) if !value.is_array() => {
                Some(("not_a_list", "Expected a list of items.".into()))
            }
            Self::Word(words) if !value.as_str().is_some_and(|word| words.contains(&word)) => {
                no_choice()
            }
            Self::Number(numbers) if !value.as_i64().is_some_and(|n| numbers.contains(&n)) => {
                no_choice()
            }
            Self::Currency if !value.as_str().is_some_and(is_currency) => no_choice(),
            _ => None,
        }
    }
}

fn is_path_cleaning_filter(rule: &Value) -> bool {
    let text = |name: &str| rule.get(name).is_none_or(|text| text.is_string() || text.is_null());
    let order = rule.get("order").is_none_or(|order| order.is_i64() || order.is_null());
    rule.is_object() && text("alias") && text("regex") && order
}

fn is_currency(code: &str) -> bool {
    code.len() == 3 && code.bytes().all(|letter| letter.is_ascii_uppercase())
}

/// A field of a request body that is invalid: its path, an error code and a message.
#[derive(Debug, thiserror::Error)]
#[error("{attr}: {detail}")]
pub struct FieldError {
    pub attr: String,
    pub code: &'static str,
    pub detail: String,
}

impl FieldError {
    /// Prefixes the path with the field that contains it.
    pub fn nested_in(mut self, attr: &str) -> Self {
        self.attr = match self.attr.as_str() {
            "" => attr.to_owned(),
            inside => format!("{attr}__{inside}"),
        };
        self
    }

    /// Message with a dotted path, as query errors have it: `series.0.math: "x" is not a valid choice.`
    pub fn dotted_message(&self) -> String {
        let Self { attr, detail, .. } = self;
        match attr.as_str() {
            "" => detail.clone(),
            path => format!("{}: {detail}", path.replace("__", ".")),
        }
    }
}

/// The settings that one kind of object has.
pub trait SettingsSchema {
    const NAME: &'static str;
    const SETTINGS: &'static [Setting];
}

/// All settings of an object: stored values over defaults. Unknown names are ignored.
pub struct Settings<T> {
    changed: Map<String, Value>,
    of: PhantomData<fn() -> T>,
}

/// Validated new values for some settings.
pub struct SettingsChange<T> {
    given: Map<String, Value>,
    of: PhantomData<fn() -> T>,
}

impl<T: SettingsSchema> Settings<T> {
    /// From what [`Self::to_stored`] returned.
    pub const fn stored(changed: Map<String, Value>) -> Self {
        Self { changed, of: PhantomData }
    }

    /// The values that differ from their defaults, as an object.
    pub fn to_stored(&self) -> Value {
        Value::Object(self.changed.clone())
    }

    /// The value of a setting; null if the name is unknown.
    pub(crate) fn value(&self, name: &str) -> Cow<'_, Value> {
        match self.changed.get(name) {
            Some(value) => Cow::Borrowed(value),
            None => Cow::Owned(
                T::SETTINGS
                    .iter()
                    .find(|setting| setting.name == name)
                    .map_or(Value::Null, |setting| setting.default.value()),
            ),
        }
    }

    pub(crate) fn is_on(&self, name: &str) -> bool {
        *self.value(name) == Value::Bool(true)
    }

    pub(crate) fn set(&mut self, name: &str, value: Value) {
        self.changed.remove(name);
        if *self.value(name) != value {
            self.changed.insert(name.to_owned(), value);
        }
    }

    /// Resets a setting to its default.
    pub(crate) fn reset(&mut self, name: &str) {
        self.changed.remove(name);
    }

    pub fn apply(&mut self, change: SettingsChange<T>) {
        for (name, value) in change.given {
            self.set(&name, value);
        }
    }
}

impl<T: SettingsSchema> SettingsChange<T> {
    /// The new value of a setting, if the request has one.
    pub(crate) fn given(&self, name: &str) -> Option<&Value> {
        self.given.get(name)
    }

    /// Drops the change of a setting.
    pub(crate) fn leave(&mut self, name: &str) {
        self.given.remove(name);
    }

    /// Validates the known settings of a request body; fails on the first invalid one.
    pub fn read(sent: &Map<String, Value>) -> Result<Self, FieldError> {
        let mut given = Map::new();
        for setting in T::SETTINGS {
            if let Some(value) = sent.get(setting.name) {
                setting.check(value)?;
                given.insert(setting.name.into(), value.clone());
            }
        }
        Ok(Self { given, of: PhantomData })
    }
}

impl<T> std::default::Default for Settings<T> {
    fn default() -> Self {
        Self { changed: Map::new(), of: PhantomData }
    }
}

impl<T> std::default::Default for SettingsChange<T> {
    fn default() -> Self {
        Self { given: Map::new(), of: PhantomData }
    }
}

impl<T> Clone for Settings<T> {
    fn clone(&self) -> Self {
        Self { changed: self.changed.clone(), of: PhantomData }
    }
}

impl<T> PartialEq for Settings<T> {
    fn eq(&self, other: &Self) -> bool {
        self.changed == other.changed
    }
}

impl<T> fmt::Debug for Settings<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Settings").field(&self.changed).finish()
    }
}

impl<T: SettingsSchema> Serialize for Settings<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(T::SETTINGS.len()))?;
        for setting in T::SETTINGS {
            match self.changed.get(setting.name) {
                Some(value) => map.serialize_entry(setting.name, value)?,
                None => map.serialize_entry(setting.name, &setting.default.value())?,
            }
        }
        map.end()
    }
}

fn schema(settings: &[Setting]) -> Schema {
    let properties: Map<String, Value> =
        settings.iter().map(|setting| (setting.name.to_owned(), setting.schema())).collect();
    json_schema!({ "type": "object", "properties": properties })
}

impl<T: SettingsSchema> JsonSchema for Settings<T> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        T::NAME.into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let mut schema = schema(T::SETTINGS);
        let names: Vec<&str> = T::SETTINGS.iter().map(|setting| setting.name).collect();
        schema.insert("required".into(), names.into());
        schema
    }
}

impl<T: SettingsSchema> JsonSchema for SettingsChange<T> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        format!("{}Change", T::NAME).into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schema(T::SETTINGS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    enum Garden {}

    impl SettingsSchema for Garden {
        const NAME: &'static str = "GardenSettings";
        const SETTINGS: &'static [Setting] = &[
            Setting::switch("open", true),
            Setting::switch("lit", false).or_null(),
            Setting::open("motto", Kind::Text),
            Setting::open("beds", Kind::Number(&[0, 1])),
            Setting::open("size", Kind::Integer),
            Setting::always("season", Kind::Word(&["dry", "wet"]), Default::Text("dry")),
            Setting::always("plants", Kind::Texts, Default::Texts(&["yew"])),
            Setting::always(
                "paths",
                Kind::Objects(ItemSchema::PathCleaningFilter),
                Default::Texts(&[]),
            ),
            Setting::always("plan", Kind::Object, Default::Object),
            Setting::always("fee", Kind::Currency, Default::Text("USD")),
        ];
    }

    fn change(sent: Value) -> Result<SettingsChange<Garden>, FieldError> {
        SettingsChange::read(sent.as_object().unwrap())
    }

    #[test]
    fn settings_reject_values_of_the_wrong_kind() {
        for (sent, attr, code) in [
            (json!({ "open": "yes" }), "open", "invalid_input"),
            (json!({ "open": null }), "open", "null"),
            (json!({ "motto": 1 }), "motto", "invalid_input"),
            (json!({ "beds": 2 }), "beds", "invalid_choice"),
            (json!({ "beds": "1" }), "beds", "invalid_choice"),
            (json!({ "size": 1.5 }), "size", "invalid_input"),
            (json!({ "size": 9_223_372_036_854_775_808_u64 }), "size", "invalid_input"),
            (json!({ "season": "cold" }), "season", "invalid_choice"),
            (json!({ "plants": "yew" }), "plants", "not_a_list"),
            (json!({ "plants": ["yew", 2] }), "plants__1", "invalid_input"),
            (json!({ "paths": [{}, []] }), "paths__1", "invalid_input"),
            (json!({ "paths": [{ "alias": "id", "regex": 1 }] }), "paths__0", "invalid_input"),
            (
                json!({ "paths": [{ "alias": null }, { "order": "1" }] }),
                "paths__1",
                "invalid_input",
            ),
            (json!({ "plan": [] }), "plan", "invalid_input"),
            (json!({ "fee": "usd" }), "fee", "invalid_choice"),
            (json!({ "motto": "m".repeat(SETTING_BYTES_MAX) }), "motto", "max_length"),
        ] {
            let refusal = change(sent).err().unwrap();
            assert_eq!((refusal.attr.as_str(), refusal.code), (attr, code));
        }
    }

    #[test]
    fn only_settings_that_differ_from_their_default_are_stored() {
        let mut settings = Settings::<Garden>::default();
        let sent = json!({ "open": false, "lit": null, "fee": "USD", "unknown": 1, "beds": 1 });
        settings.apply(change(sent).unwrap());
        assert_eq!(settings.to_stored(), json!({ "open": false, "lit": null, "beds": 1 }));
        settings.apply(change(json!({ "open": true, "beds": null })).unwrap());
        assert_eq!(settings.to_stored(), json!({ "lit": null }));
        let shown = serde_json::to_value(&settings).unwrap();
        assert_eq!(shown["plants"], json!(["yew"]));
        assert_eq!(shown.as_object().unwrap().len(), Garden::SETTINGS.len());
    }
}
