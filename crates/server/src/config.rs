//! Resolves each setting: flag, then environment variable, then TOML file, then default.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, bail};
use api::InstanceSetting;
use clap::ArgMatches;
use clap::parser::ValueSource;

use crate::settings::{PREFIX, Setting, Settings, TABLE};

/// The flag that names the settings file.
pub(crate) const CONFIG: &str = "config";
const CONFIG_VARIABLE: &str = "HEDGEROW_CONFIG";
/// A secret file holds one line.
const SECRET_FILE_BYTES_MAX: u64 = 64 << 10;
const CONFIG_FILE_BYTES_MAX: u64 = 1 << 20;

pub(crate) struct EffectiveConfig {
    values: BTreeMap<&'static str, (Option<String>, Source)>,
    /// Variables with the prefix `HEDGEROW_` that no setting has.
    pub unknown_variables: Vec<String>,
}

enum Source {
    Flag(String),
    Variable(String),
    File(PathBuf),
    Default,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(name) => write!(f, "--{name}"),
            Self::Variable(name) => f.write_str(name),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Default => f.write_str("default"),
        }
    }
}

impl EffectiveConfig {
    pub(crate) fn resolve(
        flags: &ArgMatches,
        environment: impl Iterator<Item = (OsString, OsString)>,
    ) -> Result<Self> {
        let mut variables = prefixed_variables(environment)?;
        let file = flag(flags, CONFIG).or_else(|| variables.remove(CONFIG_VARIABLE));
        let file = file.filter(|path| !path.is_empty()).map(PathBuf::from);
        let mut in_file = file.as_deref().map(read_file).transpose()?.unwrap_or_default();
        let mut values = BTreeMap::new();
        for setting in TABLE {
            let from_file = in_file.remove(setting.key);
            let from_environment = variable(setting, &mut variables)?;
            let resolved = if let Some(text) = flag(flags, setting.key) {
                (Some(text), Source::Flag(setting.flag()))
            } else if let Some((text, name)) = from_environment {
                (Some(text), Source::Variable(name))
            } else if let (Some(text), Some(file)) = (from_file, &file) {
                (Some(text), Source::File(file.clone()))
            } else {
                (setting.default.map(str::to_owned), Source::Default)
            };
            values.insert(setting.key, resolved);
        }
        if let (Some(key), Some(file)) = (in_file.keys().next(), &file) {
            bail!("{}: \"{key}\" is not a setting", file.display());
        }
        Ok(Self { values, unknown_variables: variables.into_keys().collect() })
    }

    pub(crate) fn settings(&self) -> Result<Settings> {
        Settings::read(
            |key| self.values.get(key).and_then(|(text, _)| text.clone()),
            |key, why| match &self.values[key].1 {
                Source::File(file) => anyhow!("{key} in {}: {why}", file.display()),
                source => anyhow!("{key} ({source}): {why}"),
            },
        )
    }

    /// Every setting with its value and origin, secrets hidden.
    pub(crate) fn listed(&self) -> Vec<InstanceSetting> {
        let listed = |setting: &Setting| {
            let (text, source) = &self.values[setting.key];
            let value = match text.as_deref() {
                None | Some("") => None,
                Some(_) if setting.secret => Some("(hidden)".to_owned()),
                Some(text) => Some(text.to_owned()),
            };
            InstanceSetting {
                key: setting.key,
                heading: setting.heading,
                value,
                origin: source.to_string(),
                secret: setting.secret,
                help: setting.help,
            }
        };
        TABLE.iter().map(listed).collect()
    }

    /// The output of `config sample`. Only what flags set is in effect in the file: variables and files
    /// belong to the caller's environment.
    pub(crate) fn sample(&self) -> String {
        let mut text = String::from(
            "# Settings of Hedgerow. A flag or an environment variable takes precedence over this file.\n\
             # A line that starts with # shows the default.\n",
        );
        let mut heading = "";
        for setting in TABLE {
            if setting.heading != heading {
                heading = setting.heading;
                text.push_str(&format!("\n# {heading}\n"));
            }
            let (key, (value, source)) = (setting.key, &self.values[setting.key]);
            let shown = |value: Option<&str>| {
                let value = value.unwrap_or_default();
                let number = value.parse::<u64>().is_ok();
                // A string in JSON is one in TOML.
                if number { value.to_owned() } else { serde_json::Value::from(value).to_string() }
            };
            let line = match source {
                Source::Flag(_) => format!("{key} = {}", shown(value.as_deref())),
                _ => format!("#{key} = {}", shown(setting.default)),
            };
            text.push_str(&format!("\n# {}\n{line}\n", setting.help));
        }
        text
    }

    /// The output of `config show`.
    pub(crate) fn render(&self) -> String {
        let row = |setting: InstanceSetting| {
            (setting.key, setting.value.unwrap_or_else(|| "-".into()), setting.origin)
        };
        let rows: Vec<(&str, String, String)> = self.listed().into_iter().map(row).collect();
        let widest =
            |of: fn(&(&str, String, String)) -> usize| rows.iter().map(of).max().unwrap_or(0);
        let (keys, values) = (widest(|row| row.0.len()), widest(|row| row.1.chars().count()));
        rows.iter()
            .map(|(key, value, source)| format!("{key:keys$}  {value:values$}  {source}\n"))
            .collect()
    }
}

/// The environment variables that start with `HEDGEROW_`; an error for values that are not UTF-8.
fn prefixed_variables(
    environment: impl Iterator<Item = (OsString, OsString)>,
) -> Result<BTreeMap<String, String>> {
    environment
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
        .filter(|(name, _)| name.starts_with(PREFIX))
        .map(|(name, value)| match value.into_string() {
            Ok(value) => Ok((name, value)),
            Err(_) => Err(anyhow!("{name}: it is not valid UTF-8")),
        })
        .collect()
}

fn flag(flags: &ArgMatches, key: &str) -> Option<String> {
    let on_command_line = flags.try_contains_id(key).is_ok()
        && flags.value_source(key) == Some(ValueSource::CommandLine);
    on_command_line.then(|| flags.get_one::<String>(key).cloned()).flatten()
}

/// The value of a setting's variable, or the content of the file that its `_FILE` variable names.
fn variable(
    setting: &Setting,
    variables: &mut BTreeMap<String, String>,
) -> Result<Option<(String, String)>> {
    let name = setting.variable();
    let direct = variables.remove(&name);
    let Some(file_name) = setting.file_variable() else {
        return Ok(direct.map(|text| (text, name)));
    };
    match (direct, variables.remove(&file_name).filter(|path| !path.is_empty())) {
        (Some(_), Some(_)) => bail!("{name} and {file_name} are both set; choose one"),
        (Some(text), None) => Ok(Some((text, name))),
        (None, Some(path)) => {
            let text = read_bounded(Path::new(&path), SECRET_FILE_BYTES_MAX)
                .with_context(|| format!("{file_name}: cannot read {path}"))?;
            Ok(Some((text.trim_end_matches(['\r', '\n']).to_owned(), file_name)))
        }
        (None, None) => Ok(None),
    }
}

fn read_bounded(path: &Path, bytes_max: u64) -> Result<String> {
    use std::io::Read as _;

    let mut text = String::new();
    let read = std::fs::File::open(path)?.take(bytes_max + 1).read_to_string(&mut text)?;
    if read as u64 > bytes_max {
        bail!("it is larger than {bytes_max} bytes");
    }
    Ok(text)
}

/// The file's keys, with values spelled as an environment variable would spell them.
fn read_file(path: &Path) -> Result<BTreeMap<String, String>> {
    let shown = path.display();
    let text = read_bounded(path, CONFIG_FILE_BYTES_MAX)
        .with_context(|| format!("cannot read the settings in {shown}"))?;
    let table: toml::Table = toml::from_str(&text).map_err(|error| {
        // toml's own message quotes the line, which may contain a secret.
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or("");
        let line = before.matches('\n').count() + 1;
        anyhow!("{shown}, line {line}: {}", error.message().replace('\n', " "))
    })?;
    table
        .into_iter()
        .map(|(key, value)| match to_string(&value) {
            Some(text) => Ok((key, text)),
            None if TABLE.iter().any(|setting| setting.key == key) => {
                bail!("{key} in {shown}: it must be a string or an integer")
            }
            None => bail!("{shown}: \"{key}\" is not a setting"),
        })
        .collect()
}

fn to_string(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Boolean(on) => Some(if *on { "on" } else { "off" }.into()),
        toml::Value::Array(items) => {
            items.iter().map(to_string).collect::<Option<Vec<_>>>().map(|items| items.join(", "))
        }
        toml::Value::Float(_) | toml::Value::Datetime(_) | toml::Value::Table(_) => None,
    }
}

/// The table in docs/SETTINGS.md.
pub(crate) fn reference() -> String {
    let mut text = String::from(
        "| setting | flag | environment | default | meaning |\n|---|---|---|---|---|\n",
    );
    for setting in TABLE {
        let files = if setting.secret { " (or `…_FILE`)" } else { "" };
        let default = setting.default.filter(|default| !default.is_empty());
        let default = default.map_or_else(String::new, |default| format!("`{default}`"));
        text.push_str(&format!(
            "| `{}` | `--{}` | `{}`{files} | {default} | {} |\n",
            setting.key,
            setting.flag(),
            setting.variable(),
            setting.help,
        ));
    }
    text
}
