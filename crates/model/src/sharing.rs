//! The settings of a link to a shared page.

use serde_json::{Map, Value};

const WHITELABEL: &str = "whitelabel";
const NO_HEADER: &str = "noHeader";
const THEME: &str = "theme";
/// Booleans. Pages read the first two; clients read the others.
const SWITCHES: [&str; 6] =
    [WHITELABEL, NO_HEADER, "showInspector", "legend", "detailed", "hideExtraDetails"];
const THEMES: [&str; 3] = ["light", "dark", "system"];
const THEME_DEFAULT: &str = "system";

/// The settings that were given, by their names on the wire.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SharingSettings(Map<String, Value>);

/// What a page does differently because of its settings or its query parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedPageOptions {
    /// Without the name of the product.
    pub whitelabel: bool,
    pub no_header: bool,
    pub theme: String,
}

impl SharingSettings {
    /// From what [`Self::into_stored`] returned.
    pub const fn stored(given: Map<String, Value>) -> Self {
        Self(given)
    }

    pub fn into_stored(self) -> Map<String, Value> {
        self.0
    }

    /// Validates the known settings of a request body and drops others. None if one is invalid.
    pub fn read(sent: Value) -> Option<Self> {
        let Value::Object(mut sent) = sent else { return None };
        sent.retain(|name, _| name == THEME || SWITCHES.contains(&name.as_str()));
        let is_valid = |(name, value): (&String, &Value)| match name.as_str() {
            THEME => value.as_str().is_some_and(|theme| THEMES.contains(&theme)),
            _ => value.is_boolean(),
        };
        sent.iter().all(is_valid).then_some(Self(sent))
    }

    /// A stored value of another type counts as not given.
    pub fn page_options(&self) -> SharedPageOptions {
        let is_on = |name: &str| self.0.get(name).and_then(Value::as_bool) == Some(true);
        let theme = self.0.get(THEME).and_then(Value::as_str).unwrap_or(THEME_DEFAULT);
        SharedPageOptions {
            whitelabel: is_on(WHITELABEL),
            no_header: is_on(NO_HEADER),
            theme: theme.to_owned(),
        }
    }
}

impl SharedPageOptions {
    /// A query parameter turns a switch on, never off. Unknown parameters are ignored.
    pub fn apply_parameter(&mut self, name: &str, value: &str) {
        let is_on = value != "false";
        match name {
            WHITELABEL => self.whitelabel |= is_on,
            NO_HEADER => self.no_header |= is_on,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn query_parameters_turn_switches_on_but_never_off() {
        let settings = SharingSettings::read(json!({ WHITELABEL: true, "other": 1 })).unwrap();
        let mut options = settings.page_options();
        options.apply_parameter(WHITELABEL, "false");
        options.apply_parameter(NO_HEADER, "");
        options.apply_parameter(THEME, "dark");
        let theme = THEME_DEFAULT.to_owned();
        assert_eq!(options, SharedPageOptions { whitelabel: true, no_header: true, theme });
    }
}
