//! Routes and their documentation, registered in one breath.

use std::collections::HashSet;

use axum::Router;
use axum::extract::{Request, State};
use axum::handler::Handler;
use axum::http::{Method, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter};
use schemars::SchemaGenerator;
use serde_json::{Map, Value};

use crate::doc::{self, Documented, Operation};
use crate::{AppState, Error, caller};

/// A set of routes under construction. There is no other way to add one, so none is undocumented.
pub struct Routes {
    paths: Vec<Path>,
    schemas: SchemaGenerator,
    names: HashSet<String>,
}

struct Path {
    template: &'static str,
    methods: MethodRouter<AppState>,
    allowed: Vec<&'static str>,
    operations: Map<String, Value>,
    /// The object whose read scope OPTIONS asks for; none on public paths.
    scope_object: Option<String>,
}

impl Routes {
    pub(crate) fn new() -> Self {
        Self { paths: Vec::new(), schemas: doc::schemas(), names: HashSet::new() }
    }

    pub fn get<H, T, A>(self, path: &'static str, handler: H) -> Self
    where
        H: Handler<T, AppState> + Documented<A>,
        T: 'static,
    {
        self.add(path, "GET", MethodFilter::GET, handler)
    }

    pub fn post<H, T, A>(self, path: &'static str, handler: H) -> Self
    where
        H: Handler<T, AppState> + Documented<A>,
        T: 'static,
    {
        self.add(path, "POST", MethodFilter::POST, handler)
    }

    /// PUT goes wherever PATCH goes; the handler asks [`crate::Whole`] which one it was.
    pub fn patch<H, T, A>(self, path: &'static str, handler: H) -> Self
    where
        H: Handler<T, AppState> + Documented<A> + Clone,
        T: 'static,
    {
        self.add(path, "PATCH", MethodFilter::PATCH, handler.clone()).add(
            path,
            "PUT",
            MethodFilter::PUT,
            handler,
        )
    }

    pub fn delete<H, T, A>(self, path: &'static str, handler: H) -> Self
    where
        H: Handler<T, AppState> + Documented<A>,
        T: 'static,
    {
        self.add(path, "DELETE", MethodFilter::DELETE, handler)
    }

    fn add<H, T, A>(
        mut self,
        template: &'static str,
        method: &'static str,
        filter: MethodFilter,
        handler: H,
    ) -> Self
    where
        H: Handler<T, AppState> + Documented<A>,
        T: 'static,
    {
        let mut operation = Operation::default();
        H::document(&mut operation, &mut self.schemas);
        let scope_object = operation
            .scope()
            .and_then(|scope| scope.split_once(':'))
            .map(|(object, _)| object.to_owned());
        let mut name = std::any::type_name::<H>().to_owned();
        if method == "PUT" {
            name.push_str("_whole");
        }
        if self.names.contains(&name) {
            // The same handler at another path: operations still need names of their own.
            let words = template.split(['/', '_']).filter(|word| !word.is_empty());
            let words: Vec<&str> = words.filter(|word| !word.contains(['{', '}'])).collect();
            name = format!("{name}_at_{}", words.join("_"));
        }
        let documented = operation.finish(template, &name);
        self.names.insert(name);
        let known = self.paths.iter().position(|path| path.template == template);
        let index = known.unwrap_or_else(|| {
            self.paths.push(Path {
                template,
                methods: MethodRouter::new(),
                allowed: Vec::new(),
                operations: Map::new(),
                scope_object: None,
            });
            self.paths.len() - 1
        });
        let path = &mut self.paths[index];
        path.methods = std::mem::take(&mut path.methods).on(filter, handler);
        path.allowed.push(method);
        path.operations.insert(method.to_ascii_lowercase(), documented);
        path.scope_object = path.scope_object.take().or(scope_object);
        self
    }

    /// The router, and the document that describes it.
    pub(crate) fn finish(self) -> (Router<AppState>, Value) {
        let mut router = Router::new();
        let mut documented = Map::new();
        for path in self.paths {
            let allow = allow_header(&path.allowed);
            let (object, allowed) = (path.scope_object, allow.clone());
            let options = move |State(app): State<AppState>, request: Request| {
                options(app, request, object.clone(), allowed.clone())
            };
            let methods = path.methods.on(MethodFilter::OPTIONS, options);
            let refuse = move |method: Method| refuse(method, allow.clone());
            router = router.route(path.template, methods.fallback(refuse));
            documented.insert(path.template.into(), Value::Object(path.operations));
        }
        (router, doc::document(documented, self.schemas))
    }
}

fn allow_header(allowed: &[&str]) -> String {
    let mut methods: Vec<&str> = allowed.to_vec();
    if methods.contains(&"GET") {
        methods.push("HEAD");
    }
    methods.push("OPTIONS");
    methods.join(", ")
}

/// OPTIONS tells what a caller with the read scope may do here, and anybody on public paths.
async fn options(
    app: AppState,
    request: Request,
    object: Option<String>,
    allow: String,
) -> Response {
    let (mut parts, _) = request.into_parts();
    if let Some(object) = object
        && let Err(error) = caller::may_read(&mut parts, &app, &object).await
    {
        return error.into_response();
    }
    let json = ["application/json"];
    let body = serde_json::json!({ "renders": json, "parses": json });
    ([(header::ALLOW, allow)], axum::Json(body)).into_response()
}

async fn refuse(method: Method, allow: String) -> Response {
    ([(header::ALLOW, allow)], Error::method_not_allowed(&method)).into_response()
}
