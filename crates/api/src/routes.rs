//! Registers routes together with their documentation.

use std::collections::HashSet;

use axum::Router;
use axum::extract::{Request, State};
use axum::handler::Handler;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter};
use schemars::SchemaGenerator;
use serde_json::{Map, Value};

use crate::auth::caller;
use crate::http::cors;
use crate::http::cors::Cors;
use crate::http::metrics::Metrics;
use crate::http::openapi::{self, Documented, Operation};
use crate::http::public_error::PublicError;
use crate::{AppState, Error};

/// The builder of all routes. There is no other way to add one, so all are documented.
pub struct Routes {
    paths: Vec<Path>,
    unsupported: Vec<&'static str>,
    read_only: Vec<&'static str>,
    schemas: SchemaGenerator,
    names: HashSet<String>,
    /// The audience of routes that are added now.
    audience: Audience,
}

/// The clients of a route.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Audience {
    /// Users and scripts with credentials.
    Management,
    /// SDKs with a project token.
    Public,
}

/// Routers built from the routes.
pub(crate) struct Served {
    pub management: Router<AppState>,
    pub public: Router<AppState>,
}

struct Path {
    template: &'static str,
    audience: Audience,
    methods: MethodRouter<AppState>,
    allowed: Vec<&'static str>,
    operations: Map<String, Value>,
    /// The object whose read scope OPTIONS requires; none on public paths.
    scope_object: Option<String>,
    /// The hint that a POST is rejected with.
    refused_post: Option<&'static str>,
}

impl Routes {
    pub(crate) fn new() -> Self {
        Self {
            paths: Vec::new(),
            unsupported: Vec::new(),
            read_only: Vec::new(),
            schemas: openapi::schemas(),
            names: HashSet::new(),
            audience: Audience::Management,
        }
    }

    /// Makes the routes of `add` public: with CORS for every origin, without management's layers,
    /// and with capture's error shape.
    pub(crate) fn public(mut self, add: impl FnOnce(Self) -> Self) -> Self {
        self.audience = Audience::Public;
        let mut routes = add(self);
        routes.audience = Audience::Management;
        routes
    }

    /// A path that SDKs may call and that is not served. Browsers may read the 404: without CORS
    /// headers an SDK would retry.
    pub(crate) fn unsupported(mut self, path: &'static str) -> Self {
        self.unsupported.push(path);
        self
    }

    /// A public path whose GET is read-only, so that HEAD is allowed.
    pub(crate) fn read_only(mut self, path: &'static str) -> Self {
        self.read_only.push(path);
        self
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

    /// Rejects POST with a 405 that says what to do instead.
    pub fn refuse_post(mut self, template: &'static str, detail: &'static str) -> Self {
        if let Some(path) = self.paths.iter_mut().find(|path| path.template == template) {
            path.refused_post = Some(detail);
        }
        self
    }

    /// Serves PUT with the same handler, which tells them apart by [`crate::IsPut`].
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

    /// PUT alone, for objects without partial updates.
    pub fn put<H, T, A>(self, path: &'static str, handler: H) -> Self
    where
        H: Handler<T, AppState> + Documented<A>,
        T: 'static,
    {
        self.add(path, "PUT", MethodFilter::PUT, handler)
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
            // The same handler at another path: operation ids must be unique.
            let words = template.split(['/', '_']).filter(|word| !word.is_empty());
            let words: Vec<&str> = words.filter(|word| !word.contains(['{', '}'])).collect();
            name = format!("{name}_at_{}", words.join("_"));
            if self.names.contains(&name) {
                name = format!("{name}_{}", method.to_ascii_lowercase());
            }
        }
        let documented = operation.finish(template, &name);
        self.names.insert(name);
        let existing = self.paths.iter().position(|path| path.template == template);
        let index = existing.unwrap_or_else(|| {
            self.paths.push(Path {
                template,
                audience: self.audience,
                methods: MethodRouter::new(),
                allowed: Vec::new(),
                operations: Map::new(),
                scope_object: None,
                refused_post: None,
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

    /// The OpenAPI document.
    pub(crate) fn document(self) -> Value {
        let operations = |path: Path| (path.template.to_owned(), Value::Object(path.operations));
        openapi::document(self.paths.into_iter().map(operations).collect(), self.schemas)
    }

    /// Builds the routers. Public routes are registered with and without a trailing slash, which
    /// avoids rewriting their requests.
    pub(crate) fn serve(self, metrics: &Metrics) -> Served {
        let (mut management, mut public) = (Router::new(), Router::new());
        for path in self.paths {
            let template = path.template;
            match path.audience {
                Audience::Management => {
                    management = add(management, template, path.management_methods())
                }
                Audience::Public => {
                    let read_only = self.read_only.contains(&template);
                    let methods =
                        path.public_methods(read_only).layer(Cors::new(metrics.counters(template)));
                    public = add(public, &format!("{template}/"), methods.clone());
                    public = add(public, template, methods);
                }
            }
        }
        for template in self.unsupported {
            let allow = HeaderValue::from_static("OPTIONS");
            let options = move |headers: HeaderMap| preflight(headers, allow, false);
            let methods = MethodRouter::new().on(MethodFilter::OPTIONS, options);
            let methods =
                methods.fallback(unsupported).layer(Cors::new(metrics.counters(template)));
            if !template.ends_with('}') {
                public = add(public, &format!("{template}/"), methods.clone());
            }
            public = add(public, template, methods);
        }
        Served { management, public }
    }
}

fn add(
    router: Router<AppState>,
    template: &str,
    methods: MethodRouter<AppState>,
) -> Router<AppState> {
    router.route(template, methods)
}

impl Path {
    fn management_methods(self) -> MethodRouter<AppState> {
        let allow = allow_header(&self.allowed);
        let (object, allowed) = (self.scope_object, allow.clone());
        let options = move |State(app): State<AppState>, request: Request| {
            options(app, request, object.clone(), allowed.clone())
        };
        let methods = self.methods.on(MethodFilter::OPTIONS, options);
        let detail = self.refused_post;
        methods.fallback(move |method: Method| {
            refuse(method.clone(), allow, detail.filter(|_| method == Method::POST))
        })
    }

    /// Where GET is read-only, HEAD is allowed, and OPTIONS responds with 204.
    fn public_methods(self, read_only: bool) -> MethodRouter<AppState> {
        let methods = ["GET", "POST"].into_iter().filter(|method| self.allowed.contains(method));
        let methods = methods.chain(["OPTIONS"]).chain(read_only.then_some("HEAD"));
        let allow = HeaderValue::try_from(methods.collect::<Vec<_>>().join(", "))
            .expect("method names are valid header values");
        let refused = allow.clone();
        let refuse = move |method: Method| refuse_public(method, refused.clone());
        let options = move |headers: HeaderMap| preflight(headers, allow, read_only);
        let mut methods = self.methods.on(MethodFilter::OPTIONS, options);
        // Capture accepts events by GET; axum would pass HEAD to the same handler.
        if self.allowed.contains(&"POST") && !read_only {
            methods = methods.on(MethodFilter::HEAD, refuse.clone());
        }
        methods.fallback(refuse)
    }
}

async fn preflight(headers: HeaderMap, allow: HeaderValue, read_only: bool) -> Response {
    let (status, methods) = match read_only {
        true => (StatusCode::NO_CONTENT, allow.clone()),
        false => (StatusCode::OK, cors::METHODS),
    };
    cors::preflight_response(status, allow, methods, &headers)
}

fn allow_header(allowed: &[&str]) -> String {
    let mut methods: Vec<&str> = allowed.to_vec();
    if methods.contains(&"GET") {
        methods.push("HEAD");
    }
    methods.push("OPTIONS");
    methods.join(", ")
}

/// OPTIONS of a management path, which takes the read scope.
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

async fn refuse(method: Method, allow: String, instead: Option<&'static str>) -> Response {
    let mut error = Error::method_not_allowed(&method);
    if let Some(instead) = instead {
        error = error.with_hint(instead);
    }
    ([(header::ALLOW, allow)], error).into_response()
}

async fn refuse_public(method: Method, allow: HeaderValue) -> Response {
    ([(header::ALLOW, allow)], PublicError::method_not_allowed(&method)).into_response()
}

async fn unsupported() -> PublicError {
    PublicError::not_found("This server does not accept this kind of data.")
}
