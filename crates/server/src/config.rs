//! Where a setting's value comes from: flag, then environment, then file, then default.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, bail};
use clap::ArgMatches;
use clap::parser::ValueSource;

use crate::settings::{PREFIX, Setting, Settings, TABLE};

/// The flag that names the settings file; its variable follows the rule of all others.
pub(crate) const CONFIG: &str = "config";
const CONFIG_VARIABLE: &str = "HEDGEROW_CONFIG";
/// A secret in a file is a line, not a document.
const SECRET_FILE_BYTES_MAX: u64 = 64 << 10;
const CONFIG_FILE_BYTES_MAX: u64 = 1 << 20;

pub(crate) struct Effective {
    values: BTreeMap<&'static str, (Option<String>, Source)>,
    /// Variables that look like settings and are none.
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

impl Effective {
    pub(crate) fn gather(
        flags: &ArgMatches,
        environment: impl Iterator<Item = (OsString, OsString)>,
    ) -> Result<Self> {
        let mut variables = ours(environment)?;
        let file = flag(flags, CONFIG).or_else(|| variables.remove(CONFIG_VARIABLE));
        let file = file.filter(|path| !path.is_empty()).map(PathBuf::from);
        let mut in_file = file.as_deref().map(read_file).transpose()?.unwrap_or_default();
        let mut values = BTreeMap::new();
        for setting in TABLE {
            let from_file = in_file.remove(setting.key);
            let from_environment = variable(setting, &mut variables)?;
            let found = if let Some(text) = flag(flags, setting.key) {
                (Some(text), Source::Flag(setting.flag()))
            } else if let Some((text, name)) = from_environment {
                (Some(text), Source::Variable(name))
            } else if let (Some(text), Some(file)) = (from_file, &file) {
                (Some(text), Source::File(file.clone()))
            } else {
                (setting.default.map(str::to_owned), Source::Default)
            };
            values.insert(setting.key, found);
        }
        if let (Some(key), Some(file)) = (in_file.keys().next(), &file) {
            bail!("{} has the key \"{key}\", which is no setting", file.display());
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

    /// Every setting with its value and its source, secrets hidden.
    pub(crate) fn shown(&self) -> String {
        let rows: Vec<(&str, String, String)> = TABLE
            .iter()
            .map(|setting| {
                let (text, source) = &self.values[setting.key];
                let value = match text.as_deref() {
                    None | Some("") => "-".into(),
                    Some(_) if setting.secret => "(hidden)".into(),
                    Some(text) => text.to_owned(),
                };
                (setting.key, value, source.to_string())
            })
            .collect();
        let wide =
            |of: fn(&(&str, String, String)) -> usize| rows.iter().map(of).max().unwrap_or(0);
        let (keys, values) = (wide(|row| row.0.len()), wide(|row| row.1.chars().count()));
        rows.iter()
            .map(|(key, value, source)| format!("{key:keys$}  {value:values$}  {source}\n"))
            .collect()
    }
}

/// The variables that carry our prefix. Ones that are no text cannot be a setting's value.
fn ours(
    environment: impl Iterator<Item = (OsString, OsString)>,
) -> Result<BTreeMap<String, String>> {
    environment
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
        .filter(|(name, _)| name.starts_with(PREFIX))
        .map(|(name, value)| match value.into_string() {
            Ok(value) => Ok((name, value)),
            Err(_) => Err(anyhow!("{name}: it is no UTF-8 text")),
        })
        .collect()
}

fn flag(flags: &ArgMatches, key: &str) -> Option<String> {
    let given = flags.try_contains_id(key).is_ok()
        && flags.value_source(key) == Some(ValueSource::CommandLine);
    given.then(|| flags.get_one::<String>(key).cloned()).flatten()
}

/// The value of a setting's variable, or of the file that its `_FILE` twin names.
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

/// The file's keys with their values as text, the way a variable would hold them.
fn read_file(path: &Path) -> Result<BTreeMap<String, String>> {
    let shown = path.display();
    let text = read_bounded(path, CONFIG_FILE_BYTES_MAX)
        .with_context(|| format!("cannot read the settings in {shown}"))?;
    let table: toml::Table = toml::from_str(&text).map_err(|error| {
        // Its own message would show the line, which may hold a secret.
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or("");
        let line = before.matches('\n').count() + 1;
        anyhow!("{shown}, line {line}: {}", error.message().replace('\n', " "))
    })?;
    table
        .into_iter()
        .map(|(key, value)| match as_text(&value) {
            Some(text) => Ok((key, text)),
            None if TABLE.iter().any(|setting| setting.key == key) => {
                bail!("{key} in {shown}: it must be text or a number")
            }
            None => bail!("{shown} has the key \"{key}\", which is no setting"),
        })
        .collect()
}

fn as_text(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Boolean(on) => Some(if *on { "on" } else { "off" }.into()),
        toml::Value::Array(items) => {
            items.iter().map(as_text).collect::<Option<Vec<_>>>().map(|texts| texts.join(", "))
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
