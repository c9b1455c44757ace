//! A compiled flag: evaluation parses nothing.

use std::collections::HashMap;

use model::flag::filters::{self, Fields};
use model::flag::{BucketingIdentifier, EvaluationRuntime, FlagDefinition, enrollment_property};
use model::property::{Dialect, Operator, PropertyFilter};
use model::{CohortId, FlagId};
use serde_json::Value;

use crate::hash::Prefix;
use crate::json::PrerenderedJson;

#[derive(Clone, Debug)]
pub struct Flag {
    pub id: FlagId,
    pub key: String,
    pub name: String,
    pub version: i64,
    pub active: bool,
    pub has_experiment: bool,
    pub continuity: bool,
    pub(crate) encrypted: bool,
    pub(crate) runtime: Option<EvaluationRuntime>,
    pub(crate) contexts: Vec<String>,
    pub(crate) by_device: bool,
    pub(crate) prefix: Prefix,
    pub(crate) prerendered: PrerenderedJson,
    pub(crate) rules: Option<Rules>,
}

/// A flag's compiled filters.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub aggregation: Option<u8>,
    /// The person property that records early access enrollment.
    pub enrollment: Option<String>,
    pub super_condition: Option<Condition>,
    pub holdout: Option<Holdout>,
    pub conditions: Vec<Condition>,
    pub early_exit: bool,
    pub variants: Vec<Variant>,
    /// Payload of a result without a variant.
    pub payload: Option<String>,
    /// [`Requirement::Flag`] indexes into these.
    pub dependencies: Vec<FlagId>,
}

#[derive(Clone, Debug)]
pub(crate) struct Holdout {
    pub share: f64,
    pub variant: String,
    pub payload: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct Condition {
    pub requirements: Vec<Requirement>,
    /// Rollout from 0 to 1; `None` for 100 %.
    pub share: Option<f64>,
    pub variant: Option<usize>,
    pub aggregation: Option<u8>,
}

impl Condition {
    fn needs_properties(&self) -> bool {
        self.requirements.iter().any(|requirement| !matches!(requirement, Requirement::Flag { .. }))
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Requirement {
    Property(PropertyFilter),
    /// The person's creation time, which is not a property.
    CreatedAt(PropertyFilter),
    Cohort {
        id: CohortId,
        excluded: bool,
    },
    /// `dependency` is an index into [`Rules::dependencies`].
    Flag {
        dependency: usize,
        expected: Expected,
    },
    /// An invalid filter: never matches.
    Impossible,
}

#[derive(Clone, Debug)]
pub(crate) enum Expected {
    On,
    Off,
    Variant(String),
}

#[derive(Clone, Debug)]
pub(crate) struct Variant {
    pub key: String,
    /// Upper bound of its bucket range: the running sum of the shares.
    pub below: f64,
    pub payload: Option<String>,
}

impl Flag {
    pub(crate) fn compile(definition: &FlagDefinition, dialect: &Dialect) -> Self {
        Self {
            id: definition.id,
            key: definition.key.clone(),
            name: definition.name.clone(),
            version: definition.version,
            active: definition.active && !definition.deleted,
            has_experiment: definition.has_experiment,
            continuity: definition.ensure_experience_continuity,
            encrypted: definition.has_encrypted_payloads,
            runtime: definition.evaluation_runtime,
            contexts: definition.evaluation_contexts.clone(),
            by_device: definition.bucketing_identifier == Some(BucketingIdentifier::DeviceId),
            prefix: Prefix::of_flag(&definition.key),
            prerendered: PrerenderedJson::of(definition),
            rules: Rules::compile(&definition.key, &definition.filters, dialect),
        }
    }

    /// Whether the result may depend on a stored person.
    pub(crate) fn needs_person(&self) -> bool {
        self.rules.as_ref().is_some_and(|rules| {
            rules.enrollment.is_some()
                || rules.super_condition.is_some()
                || rules.conditions.iter().any(|condition| {
                    condition.aggregation.is_none() && condition.needs_properties()
                })
        })
    }

    /// Whether the result may depend on the person's creation time.
    pub(crate) fn needs_created_at(&self) -> bool {
        let rules = self.rules.iter();
        let mut conditions =
            rules.flat_map(|rules| rules.conditions.iter().chain(&rules.super_condition));
        conditions.any(|condition| {
            let mut requirements = condition.requirements.iter();
            requirements.any(|requirement| matches!(requirement, Requirement::CreatedAt(_)))
        })
    }

    pub(crate) fn needs_groups(&self) -> bool {
        let conditions = self.rules.iter().flat_map(|rules| &rules.conditions);
        let mut conditions = conditions.filter(|condition| condition.aggregation.is_some());
        conditions.any(Condition::needs_properties)
    }

    pub(crate) fn dependencies(&self) -> &[FlagId] {
        self.rules.as_ref().map_or(&[], |rules| &rules.dependencies)
    }
}

impl Rules {
    fn compile(key: &str, fields: &Fields, dialect: &Dialect) -> Option<Self> {
        let payloads: HashMap<&str, String> = match fields.get("payloads") {
            Some(Value::Object(payloads)) => payloads
                .iter()
                .map(|(key, payload)| (key.as_str(), payload_text(payload)))
                .collect(),
            _ => HashMap::new(),
        };
        let mut below = 0.0;
        let variants: Vec<Variant> = filters::variant_shares(fields)
            .into_iter()
            .map(|(key, share)| {
                below += share / 100.0;
                Variant { key: key.to_owned(), below, payload: payloads.get(key).cloned() }
            })
            .collect();
        let aggregation = index(fields.get("aggregation_group_type_index"));
        let mut compiler =
            Compiler { dialect, variants: &variants, aggregation, dependencies: Vec::new() };
        let groups = match fields.get("groups") {
            None | Some(Value::Null) => &[][..],
            Some(Value::Array(groups)) => groups,
            Some(_) => return None,
        };
        let conditions =
            groups.iter().map(|group| compiler.condition(group)).collect::<Option<Vec<_>>>()?;
        let super_condition = fields
            .get("super_groups")
            .and_then(|groups| groups.get(0))
            .and_then(|group| compiler.condition(group));
        let dependencies = compiler.dependencies;
        let is_on = |key: &str| fields.get(key).and_then(Value::as_bool).unwrap_or(false);
        Some(Self {
            aggregation,
            enrollment: is_on("feature_enrollment").then(|| enrollment_property(key)),
            super_condition,
            holdout: holdout(fields, &payloads),
            conditions,
            early_exit: is_on("early_exit"),
            payload: payloads.get("true").cloned(),
            variants,
            dependencies,
        })
    }
}

struct Compiler<'a> {
    dialect: &'a Dialect,
    variants: &'a [Variant],
    aggregation: Option<u8>,
    dependencies: Vec<FlagId>,
}

impl Compiler<'_> {
    fn condition(&mut self, group: &Value) -> Option<Condition> {
        let group = group.as_object()?;
        let properties = match group.get("properties") {
            None | Some(Value::Null) => &[][..],
            Some(Value::Array(properties)) => properties,
            Some(_) => return None,
        };
        let requirements = properties
            .iter()
            .map(|property| Some(self.requirement(property.as_object()?)))
            .collect::<Option<Vec<_>>>()?;
        // 100 % needs no hash.
        let share = group
            .get("rollout_percentage")
            .and_then(Value::as_f64)
            .filter(|share| *share != 100.0)
            .map(|share| share / 100.0);
        let override_key = group.get("variant").and_then(Value::as_str);
        let variant = override_key
            .and_then(|key| self.variants.iter().position(|variant| variant.key == key));
        let aggregation = match group.get("aggregation_group_type_index") {
            Some(of_group) => index(Some(of_group)),
            None => self.aggregation,
        };
        Some(Condition { requirements, share, variant, aggregation })
    }

    fn requirement(&mut self, property: &Fields) -> Requirement {
        let operator = match property.get("operator") {
            None | Some(Value::Null) => Some(Operator::Exact),
            Some(word) => word.as_str().and_then(|word| Operator::parse(word).ok()),
        };
        let value = property.get("value").unwrap_or(&Value::Null);
        let key = match property.get("key") {
            Some(Value::String(key)) => key.clone(),
            Some(Value::Number(number)) => number.to_string(),
            _ => return Requirement::Impossible,
        };
        let Some(operator) = operator else { return Requirement::Impossible };
        match property.get("type").and_then(Value::as_str) {
            Some("cohort") => match CohortId::from_json(value) {
                Some(id) => Requirement::Cohort { id, excluded: operator == Operator::NotIn },
                None => Requirement::Impossible,
            },
            Some("flag") => self.dependency(&key, operator, value),
            Some("person_metadata") => {
                let filter = PropertyFilter::compile(&key, operator, value, self.dialect);
                if key == "created_at" {
                    Requirement::CreatedAt(filter)
                } else {
                    Requirement::Impossible
                }
            }
            _ => {
                Requirement::Property(PropertyFilter::compile(&key, operator, value, self.dialect))
            }
        }
    }

    fn dependency(&mut self, key: &str, operator: Operator, value: &Value) -> Requirement {
        let expected = match (operator, value) {
            (Operator::FlagEvaluatesTo, Value::Bool(true)) => Expected::On,
            (Operator::FlagEvaluatesTo, Value::Bool(false)) => Expected::Off,
            (Operator::FlagEvaluatesTo, Value::String(key)) => Expected::Variant(key.clone()),
            _ => return Requirement::Impossible,
        };
        // A flag that is not referenced by id cannot exist.
        let id = key.parse().map_or(FlagId(-1), FlagId);
        let known = self.dependencies.iter().position(|known| *known == id);
        let dependency = known.unwrap_or_else(|| {
            self.dependencies.push(id);
            self.dependencies.len() - 1
        });
        Requirement::Flag { dependency, expected }
    }
}

fn index(value: Option<&Value>) -> Option<u8> {
    value.and_then(Value::as_u64).and_then(|index| u8::try_from(index).ok())
}

fn payload_text(payload: &Value) -> String {
    match payload {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// From `holdout`, or from the first of the legacy `holdout_groups`, whose variant holds the id.
fn holdout(fields: &Fields, payloads: &HashMap<&str, String>) -> Option<Holdout> {
    let (id, share) = match fields.get("holdout") {
        Some(Value::Object(holdout)) => {
            (holdout.get("id")?.as_i64()?, holdout.get("exclusion_percentage")?.as_f64()?)
        }
        _ => {
            let first = fields.get("holdout_groups")?.get(0)?;
            let id = first.get("variant")?.as_str()?.strip_prefix("holdout-")?.parse().ok()?;
            (id, first.get("rollout_percentage")?.as_f64()?)
        }
    };
    let variant = format!("holdout-{id}");
    let payload = payloads.get(variant.as_str()).cloned();
    Some(Holdout { share: share.clamp(0.0, 100.0) / 100.0, variant, payload })
}
