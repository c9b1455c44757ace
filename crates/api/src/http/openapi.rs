//! Generates the OpenAPI document from the handlers' signatures.
//!
//! Each extractor and each response type describes itself, so the documented scopes, parameters
//! and statuses are those that are enforced.

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

const JSON: &str = "application/json";
/// Modules whose operations are published under a tag other than the module's name. Operation ids
/// and tags are part of the API: a module that is renamed gets a row here.
const PUBLISHED_TAGS: [(&str, &str); 3] =
    [("blast_radius", "reach"), ("legacy", "old"), ("person_details", "about")];
/// The cookie that carries a browser session.
pub(crate) const SESSION_COOKIE: &str = "hedgerow_session";

/// One operation under construction.
#[derive(Default)]
pub struct Operation {
    parameters: Vec<Value>,
    request: Option<Value>,
    responses: Map<String, Value>,
    /// `object:action`; none if the operation needs no credentials.
    scope: Option<String>,
}

/// An extractor that documents what it reads from a request.
pub trait DescribeRequest {
    fn describe(operation: &mut Operation, schemas: &mut SchemaGenerator);
}

/// A response type that documents its statuses and schemas.
pub trait DescribeResponse {
    fn describe_response(operation: &mut Operation, schemas: &mut SchemaGenerator);
}

/// A handler whose arguments and response describe themselves.
pub trait Documented<Arguments> {
    fn document(operation: &mut Operation, schemas: &mut SchemaGenerator);
}

macro_rules! documented {
    ($($argument:ident),*) => {
        impl<F, Fut, Out, $($argument,)*> Documented<($($argument,)*)> for F
        where
            F: Fn($($argument),*) -> Fut,
            Fut: Future<Output = Out>,
            Out: DescribeResponse,
            $($argument: DescribeRequest,)*
        {
            fn document(operation: &mut Operation, schemas: &mut SchemaGenerator) {
                $($argument::describe(operation, schemas);)*
                Out::describe_response(operation, schemas);
            }
        }
    };
}
documented!();
documented!(A);
documented!(A, B);
documented!(A, B, C);
documented!(A, B, C, D);
documented!(A, B, C, D, E);
documented!(A, B, C, D, E, G);

impl Operation {
    pub fn path_parameter(&mut self, name: &str, schema: Value) {
        self.parameters
            .push(json!({ "name": name, "in": "path", "required": true, "schema": schema }));
    }

    pub fn query_parameter(&mut self, name: &str, schema: Value) {
        self.parameters.push(json!({ "name": name, "in": "query", "schema": schema }));
    }

    pub fn header_parameter(&mut self, name: &str, schema: Value) {
        self.parameters
            .push(json!({ "name": name, "in": "header", "required": true, "schema": schema }));
    }

    /// Adds a query parameter for every property of `T`.
    pub fn query<T: JsonSchema>(&mut self) {
        let inline =
            SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
        let schema = inline.into_generator().into_root_schema_for::<T>().to_value();
        let properties = schema.get("properties").and_then(Value::as_object);
        for (name, property) in properties.into_iter().flatten() {
            self.query_parameter(name, property.clone());
        }
    }

    pub fn body<T: JsonSchema>(&mut self, schemas: &mut SchemaGenerator) {
        let schema = schemas.subschema_for::<T>();
        self.request = Some(json!({ "content": { JSON: { "schema": schema } } }));
    }

    pub fn response<T: JsonSchema>(&mut self, status: u16, schemas: &mut SchemaGenerator) {
        let schema = json!({ "schema": schemas.subschema_for::<T>() });
        self.content(status.to_string(), JSON, schema);
    }

    pub fn response_default<T: JsonSchema>(&mut self, schemas: &mut SchemaGenerator) {
        let schema = json!({ "schema": schemas.subschema_for::<T>() });
        self.content("default".into(), JSON, schema);
    }

    pub fn response_of(&mut self, status: u16, media: &str) {
        self.content(status.to_string(), media, json!({}));
    }

    /// A server-sent event stream in which every `data` is a `T`.
    pub fn event_stream<T: JsonSchema>(&mut self, schemas: &mut SchemaGenerator) {
        let schema = json!({ "schema": schemas.subschema_for::<T>() });
        self.content("200".into(), "text/event-stream", schema);
    }

    /// Adds a media type to a status, which may have several.
    fn content(&mut self, status: String, media: &str, schema: Value) {
        let response = self.responses.entry(status);
        let response = response.or_insert_with(|| json!({ "description": "", "content": {} }));
        response["content"][media] = schema;
    }

    pub fn empty_response(&mut self, status: u16) {
        self.responses.insert(status.to_string(), json!({ "description": "no body" }));
    }

    /// Documents the first of several scopes: it is the first to be checked.
    pub fn requires(&mut self, scope: impl Into<String>) {
        self.scope.get_or_insert_with(|| scope.into());
    }

    pub(crate) fn scope(&self) -> Option<&str> {
        self.scope.as_deref()
    }

    /// The finished operation. Path parameters without a description are strings.
    pub(crate) fn finish(mut self, path: &str, name: &str) -> Value {
        for segment in path.split('/') {
            let Some(parameter) = segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'))
            else {
                continue;
            };
            let is_described = |known: &Value| known["name"] == parameter && known["in"] == "path";
            if !self.parameters.iter().any(is_described) {
                self.path_parameter(parameter, json!({ "type": "string" }));
            }
        }
        let mut fields = Map::new();
        let (module_path, verb) = name.rsplit_once("::").unwrap_or(("", name));
        let module = module_path.rsplit("::").next().unwrap_or(module_path);
        let published = PUBLISHED_TAGS.iter().find(|(name, _)| *name == module);
        let tag = published.map_or(module, |(_, tag)| tag);
        fields.insert("operationId".into(), json!(format!("{tag}_{verb}")));
        fields.insert("tags".into(), json!([tag]));
        fields.insert("parameters".into(), Value::Array(self.parameters));
        if let Some(request) = self.request {
            fields.insert("requestBody".into(), request);
        }
        fields.insert("responses".into(), Value::Object(self.responses));
        let security = match self.scope {
            Some(scope) => json!([{ "personal_api_key": [scope] }, { "session": [] }]),
            None => json!([]),
        };
        fields.insert("security".into(), security);
        Value::Object(fields)
    }
}

/// Assembles the document from paths and the schemas they refer to.
pub(crate) fn document(paths: Map<String, Value>, mut schemas: SchemaGenerator) -> Value {
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Hedgerow",
            "description": "Product analytics and feature flags that speak PostHog's wire API.",
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": "MIT", "identifier": "MIT" },
        },
        "paths": paths,
        "components": {
            "schemas": schemas.take_definitions(true),
            "securitySchemes": {
                "personal_api_key": { "type": "http", "scheme": "bearer" },
                "session": { "type": "apiKey", "in": "cookie", "name": SESSION_COOKIE },
            },
        },
    })
}

/// A schema generator whose references point into the document.
pub(crate) fn schemas() -> SchemaGenerator {
    let mut schemas = SchemaSettings::draft2020_12()
        .with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        })
        .with_transform(RecursiveTransform(describe_leniently))
        .into_generator();
    // `model` and the display options of insights refer to these by name.
    schemas.subschema_for::<query::schema::GoalLine>();
    schemas.subschema_for::<query::schema::ResultCustomization>();
    schemas.subschema_for::<query::schema::StoredQuery>();
    schemas.subschema_for::<query::schema::FilterOverrides>();
    schemas.subschema_for::<query::schema::Variable>();
    schemas
}

/// Strict parsers accept further keys after all: null, and those without an effect. Defaults go, since
/// generated types take a key with a default for one that requests must have.
fn describe_leniently(schema: &mut Schema) {
    schema.remove("default");
    if schema.get("additionalProperties") == Some(&Value::Bool(false)) {
        schema.remove("additionalProperties");
    }
}
