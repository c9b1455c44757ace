//! Pages of shared links, as HTML or JSON.
//!
//! The token in the path is the only credential. A page shows no user's name. It prints its insights
//! as tables; the web interface's script, where the build has it, draws charts in their place from
//! the JSON in the page. It loads that script and its style, and connects to nothing.

mod readable;

use axum::extract::RawQuery;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use catalog::{Deleted, InsightName, ResolvedLink, ShareTarget};
use model::{SharedPageOptions, SharingSettings, Visibilities};
use query::Refresh;
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use self::readable::readable;
use crate::auth::sharing_token::shared_object;
use crate::dashboards::response::{DashboardResponse, PrintableTile};
use crate::http::openapi::{DescribeRequest, DescribeResponse, Operation};
use crate::insights::response::{InsightResponse, anonymize};
use crate::insights::results::{RunOptions, run_all, table};
use crate::web::{SharedFiles, shared_files};
use crate::{App, AppState, Error, Result, Routes, StringId};

/// Rows of a table on a page.
const ROWS_SHOWN_MAX: usize = 200;
const STYLE: &str = include_str!("shared_pages/page.css");
/// Prefix of GeoIP properties.
const GEOIP_PREFIX: &str = "$geoip_";
/// The attribution that the built-in GeoIP database's license requires.
const DB_IP_ATTRIBUTION: &str = "<p><a rel=\"noopener noreferrer\" target=\"_blank\" \
     href=\"https://db-ip.com\">IP Geolocation by DB-IP</a></p>";
/// The tile of a page that shows one insight.
const INSIGHT_TILE: &str = "insight";
const ROBOTS: HeaderName = HeaderName::from_static("x-robots-tag");

pub(crate) fn routes(routes: Routes) -> Routes {
    routes
        .get("/shared/{id}", shared)
        .get("/shared_dashboard/{id}", shared)
        .get("/embedded/{id}", embedded)
}

/// How a shared page is displayed.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "SharedPageKind")]
enum Kind {
    /// As a page.
    Scene,
    /// In a frame of another site.
    Embed,
}

/// The shared data, as JSON and embedded in the page.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SharedPage")]
struct Exported {
    #[serde(rename = "type")]
    kind: Kind,
    access_token: String,
    #[serde(flatten)]
    content: Content,
    #[schemars(with = "Vec<String>")]
    themes: Vec<Value>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "SharedContent")]
enum Content {
    Dashboard(Box<DashboardResponse>),
    Insight(Box<InsightResponse>),
}

async fn shared(id: StringId, query: RawQuery, app: App) -> Result<SharedPage> {
    open(&app, Kind::Scene, &id.0, query).await
}

async fn embedded(id: StringId, query: RawQuery, app: App) -> Result<SharedPage> {
    open(&app, Kind::Embed, &id.0, query).await
}

async fn open(app: &AppState, kind: Kind, path: &str, query: RawQuery) -> Result<SharedPage> {
    let (token, is_json) = path.strip_suffix(".json").map_or((path, false), |rest| (rest, true));
    let Some((content, settings)) = load(app, token).await? else {
        return Ok(if is_json { SharedPage::NotFoundJson } else { SharedPage::NotFound });
    };
    let parameters = query.0.unwrap_or_default();
    let mut options = settings.page_options();
    for (name, value) in form_urlencoded::parse(parameters.as_bytes()) {
        options.apply_parameter(&name, &value);
    }
    let access_token = token.to_owned();
    let exported = Exported { kind, access_token, content, themes: Vec::new() };
    let uses_db_ip = app.settings.uses_db_ip;
    Ok(match is_json {
        true => SharedPage::Json(exported),
        false => SharedPage::Page { exported, options, uses_db_ip },
    })
}

async fn load(app: &AppState, token: &str) -> Result<Option<(Content, SharingSettings)>> {
    let Some(ResolvedLink { project, target, settings }) = shared_object(app, token).await? else {
        return Ok(None);
    };
    let mut content = match content(app, project, target).await {
        Ok(content) => content,
        // The object is deleted, but its link is still enabled.
        Err(catalog::Error::NotFound) => return Ok(None),
        Err(other) => return Err(other.into()),
    };
    let project = app.catalog.projects().get(project).await?;
    match &mut content {
        Content::Dashboard(shown) => {
            shown.load_results(app, &project, Refresh::Blocking, Visibilities::default()).await;
        }
        Content::Insight(shown) => {
            let options = RunOptions::new(Refresh::Blocking, Visibilities::default());
            run_all(app, &project, vec![(&mut **shown, options)]).await;
        }
    }
    Ok(Some((content, settings)))
}

async fn content(
    app: &AppState,
    project: model::ProjectId,
    target: ShareTarget,
) -> catalog::Result<Content> {
    Ok(match target {
        ShareTarget::Dashboard(id) => {
            let dashboard =
                app.catalog.dashboards().get(project, id, None, Deleted::Exclude).await?;
            let view =
                app.catalog.dashboards().view(dashboard, None, &Visibilities::default()).await?;
            Content::Dashboard(Box::new(DashboardResponse::public(view)))
        }
        ShareTarget::Insight(id) => {
            let name = InsightName::Id(id);
            let mut insight =
                app.catalog.insights().get(project, &name, None, Deleted::Exclude).await?;
            anonymize(&mut insight, None);
            Content::Insight(Box::new(InsightResponse::public(insight)))
        }
    })
}

enum SharedPage {
    Page { exported: Exported, options: SharedPageOptions, uses_db_ip: bool },
    Json(Exported),
    NotFound,
    NotFoundJson,
}

impl IntoResponse for SharedPage {
    fn into_response(self) -> Response {
        let nonce = Uuid::new_v4().simple().to_string();
        let (mut response, kind) = match self {
            Self::Page { exported, options, uses_db_ip } => {
                let page = page(&exported, &options, uses_db_ip, &nonce);
                (html(StatusCode::OK, page), exported.kind)
            }
            Self::Json(exported) => (axum::Json(&exported).into_response(), exported.kind),
            Self::NotFound => {
                let page = frame("Not found", "", "<main><h1>Not found</h1></main>", &nonce);
                (html(StatusCode::NOT_FOUND, page), Kind::Scene)
            }
            Self::NotFoundJson => (Error::not_found().into_response(), Kind::Scene),
        };
        protect(response.headers_mut(), kind, &nonce);
        response
    }
}

fn html(status: StatusCode, page: String) -> Response {
    (status, [(header::CONTENT_TYPE, "text/html; charset=utf-8")], page).into_response()
}

/// Security headers: only embedded pages may be framed; none is indexed, cached or sends a
/// referrer.
fn protect(headers: &mut HeaderMap, kind: Kind, nonce: &str) {
    let ancestors = if kind == Kind::Embed { "*" } else { "'none'" };
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; \
         connect-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors {ancestors}"
    );
    if let Ok(policy) = HeaderValue::try_from(policy) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    if kind != Kind::Embed {
        headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    }
    headers.insert(ROBOTS, HeaderValue::from_static("noindex, nofollow"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // Disabling a link takes effect at once.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
}

/// The attribution for GeoIP data, if the page shows any. No setting hides it.
fn geoip_attribution(data: &str, uses_db_ip: bool) -> &'static str {
    if uses_db_ip && data.contains(GEOIP_PREFIX) { DB_IP_ATTRIBUTION } else { "" }
}

fn page(exported: &Exported, options: &SharedPageOptions, uses_db_ip: bool, nonce: &str) -> String {
    let mut body = String::new();
    let (title, tiles) = match &exported.content {
        Content::Dashboard(dashboard) => {
            let tiles = dashboard
                .tiles()
                .iter()
                .filter_map(|tile| Some(print(&tile.id().0.to_string(), &tile.printable()?)));
            let title = dashboard.title().filter(|name| !name.is_empty()).unwrap_or("Dashboard");
            if !options.no_header {
                body += &heading("header", "h1", title, Some(dashboard.description()));
            }
            (title, tiles.collect())
        }
        Content::Insight(insight) => {
            let tile = print(INSIGHT_TILE, &PrintableTile::Insight(insight));
            (insight.title().unwrap_or("Insight"), tile)
        }
    };
    let tiles: String = tiles;
    body += &format!("<main>{tiles}</main>");
    let data = embedded_json(exported);
    let program = if options.whitelabel { "" } else { "<p>Hedgerow</p>" };
    let credits = [program, geoip_attribution(&data, uses_db_ip)].concat();
    if !credits.is_empty() {
        body += &format!("<footer>{credits}</footer>");
    }
    body +=
        &format!("<script type=\"application/json\" id=\"POSTHOG_EXPORTED_DATA\">{data}</script>");
    frame(title, &options.theme, &body, nonce)
}

/// A section with a tile. The script finds it by `data-tile`.
fn print(id: &str, tile: &PrintableTile<'_>) -> String {
    match tile {
        PrintableTile::Insight(insight) => {
            let title = insight.title().unwrap_or("Insight");
            let heading = heading("header", "h2", title, insight.description());
            format!("<section data-tile=\"{id}\">{heading}{}</section>", print_result(insight))
        }
        PrintableTile::Note(body) => {
            format!("<section data-tile=\"{id}\" class=\"note\">{}</section>", escape(body))
        }
        PrintableTile::Button(button) => format!(
            "<section data-tile=\"{id}\" class=\"link\"><a rel=\"noopener noreferrer nofollow\" target=\"_blank\" href=\"{}\">{}</a>\
             </section>",
            escape(&button.url),
            escape(&button.text),
        ),
    }
}

fn print_result(insight: &InsightResponse) -> String {
    let result = insight.result();
    if let Some(failure) = &result.failure {
        let why = escape(&failure.message);
        return format!("<p class=\"empty\">This could not be calculated: {why}</p>");
    }
    // The columns of SQL have the names that the query gives them.
    let rows = if result.columns.is_some() { table(result) } else { readable(table(result)) };
    let Some((head, body)) = rows.split_first() else {
        return "<p class=\"empty\">No result yet</p>".into();
    };
    let row = |cells: &[String], tag: &str| -> String {
        let cells = cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escape(cell)));
        format!("<tr>{}</tr>", cells.collect::<String>())
    };
    let body: String = body.iter().take(ROWS_SHOWN_MAX).map(|cells| row(cells, "td")).collect();
    format!(
        "<div class=\"answer\"><table><thead>{}</thead><tbody>{body}</tbody></table></div>",
        row(head, "th")
    )
}

fn heading(around: &str, level: &str, title: &str, description: Option<&str>) -> String {
    let description = description.filter(|text| !text.is_empty());
    let about = description.map(|text| format!("<p>{}</p>", escape(text))).unwrap_or_default();
    format!("<{around}><{level}>{}</{level}>{about}</{around}>", escape(title))
}

fn frame(title: &str, theme: &str, body: &str, nonce: &str) -> String {
    let files = shared_files().map(|SharedFiles { script, style }| {
        format!(
            "<link rel=\"stylesheet\" nonce=\"{nonce}\" href=\"/assets/{style}\">\
             <script type=\"module\" nonce=\"{nonce}\" src=\"/assets/{script}\"></script>"
        )
    });
    format!(
        "<!doctype html><html lang=\"en\" class=\"{theme}\" data-theme=\"{theme}\"><head>\
         <meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"robots\" content=\"noindex, nofollow\"><title>{}</title>\
         {files}<style nonce=\"{nonce}\">{STYLE}</style></head><body>{body}</body></html>",
        escape(title),
        files = files.unwrap_or_default(),
        theme = escape(theme),
    )
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// JSON escaped so that it cannot close its script element.
fn embedded_json(exported: &Exported) -> String {
    let text = serde_json::to_string(exported).unwrap_or_else(|_| "null".into());
    text.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

impl DescribeRequest for RawQuery {
    fn describe(_: &mut Operation, _: &mut SchemaGenerator) {}
}

impl DescribeResponse for SharedPage {
    fn describe_response(operation: &mut Operation, schemas: &mut SchemaGenerator) {
        operation.response_of(200, "text/html");
        operation.response::<Exported>(200, schemas);
        operation.response_of(404, "text/html");
        operation.response::<crate::http::error::ErrorBody>(404, schemas);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_content_is_escaped_in_shared_pages() {
        let sly = "</script><script>alert(1)</script>&\"'";
        let frame = frame(sly, "\"><b>", &heading("header", "h1", sly, Some(sly)), "n");
        assert!(!frame.contains("<script>") && !frame.contains("<b>"), "{frame}");
        let button = model::Button {
            url: "/\"><b>".into(),
            text: sly.into(),
            placement: Default::default(),
            style: Default::default(),
        };
        let printed =
            print("1", &PrintableTile::Button(&button)) + &print("2", &PrintableTile::Note(sly));
        assert!(!printed.contains("<script>") && !printed.contains("<b>"), "{printed}");
    }

    #[test]
    fn shared_pages_with_geoip_data_have_attribution() {
        let by_country = r#"{"query":{"breakdown":"$geoip_country_code"}}"#;
        assert!(geoip_attribution(by_country, true).contains("href=\"https://db-ip.com\""));
        assert_eq!(geoip_attribution(by_country, false), "");
        assert_eq!(geoip_attribution(r#"{"query":{"breakdown":"plan"}}"#, true), "");
    }
}
