//! Tiles: validation of their fields, moving, copying and reordering.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use catalog::{ContentChange, DashboardChange, TILES_MAX, TileChange, TileCopy};
use model::{Button, ButtonPlacement, ButtonStyle, DashboardId, NoteId, TileId};
use schemars::{JsonSchema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::response::DashboardResponse;
use super::{Dashboards, load_response};
use crate::http::body::{lenient_bool, max_bytes, max_chars, present};
use crate::http::openapi::{DescribeResponse, Operation};
use crate::insights::overrides::check_filters;
use crate::insights::visibility::viewable;
use crate::{App, Body, Error, Id, Json, Patch, Result, Routes, Writer};

/// Upstream's lengths.
const NOTE_CHARS_MAX: usize = 4_000;
const URL_CHARS_MAX: usize = 2_000;
const LABEL_CHARS_MAX: usize = 200;
pub(super) const COLOR_CHARS_MAX: usize = 400;
/// Ours: grid positions for two screen sizes and a front-end's own data.
const LAYOUTS_BYTES_MAX: usize = 4 << 10;
/// Largest coordinate on the grid.
const GRID_MAX: f64 = 10_000.0;
/// A request may list each tile twice.
const TILES_SENT_MAX: usize = 2 * TILES_MAX;

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .patch("/api/projects/{project_id}/dashboards/{id}/move_tile", move_tile)
        .post("/api/projects/{project_id}/dashboards/{id}/copy_tile", copy_tile)
        .post("/api/projects/{project_id}/dashboards/{id}/reorder_tiles", reorder)
}

/// Fields that only updates accept.
#[derive(Deserialize, JsonSchema)]
pub(super) struct TileListFields {
    /// Tiles to change or add; tiles not listed stay as they are.
    #[serde(default, deserialize_with = "present")]
    tiles: Option<Vec<TileFields>>,
    /// Tiles to duplicate.
    #[serde(default, deserialize_with = "present")]
    duplicate_tiles: Option<Vec<CopyFields>>,
    /// With `deleted`: also delete insights that are on no other dashboard.
    #[serde(default, deserialize_with = "lenient_bool")]
    delete_insights: Option<bool>,
}

#[derive(Deserialize, JsonSchema)]
struct CopyFields {
    id: i64,
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Option<model::json_shapes::TileLayouts>")]
    layouts: Option<Map<String, Value>>,
}

/// `insight` is ignored: an insight's `dashboards` field puts it on dashboards.
#[derive(Deserialize, JsonSchema)]
struct TileFields {
    #[serde(default)]
    id: Patch<i64>,
    /// An empty object changes nothing.
    #[serde(default)]
    #[schemars(with = "Option<NoteFields>")]
    text: Patch<Map<String, Value>>,
    #[serde(default)]
    #[schemars(with = "Option<ButtonFields>")]
    button_tile: Patch<Map<String, Value>>,
    #[serde(default, deserialize_with = "lenient_bool")]
    deleted: Option<bool>,
    #[serde(default)]
    color: Patch<String>,
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Option<model::json_shapes::TileLayouts>")]
    layouts: Option<Map<String, Value>>,
    #[serde(default)]
    #[schemars(with = "Option<query::schema::FilterOverrides>")]
    filters_overrides: Patch<Map<String, Value>>,
    #[serde(default)]
    show_description: Patch<bool>,
    #[serde(default)]
    transparent_background: Patch<bool>,
}

/// A text. Without an id it is a new one, which replaces the tile's content.
#[derive(Deserialize, JsonSchema)]
struct NoteFields {
    #[serde(default)]
    id: Patch<i64>,
    #[serde(default, deserialize_with = "present")]
    body: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct ButtonFields {
    #[serde(default, deserialize_with = "present")]
    url: Option<String>,
    #[serde(default, deserialize_with = "present")]
    text: Option<String>,
    #[serde(default, deserialize_with = "present")]
    placement: Option<ButtonPlacement>,
    #[serde(default, deserialize_with = "present")]
    style: Option<ButtonStyle>,
}

impl TileListFields {
    pub(super) fn apply(self, change: &mut DashboardChange) -> Result<()> {
        let (tiles, copies) =
            (self.tiles.unwrap_or_default(), self.duplicate_tiles.unwrap_or_default());
        for (attr, count) in [("tiles", tiles.len()), ("duplicate_tiles", copies.len())] {
            if count > TILES_SENT_MAX {
                let detail =
                    format!("Ensure this field has no more than {TILES_SENT_MAX} elements.");
                return Err(Error::invalid(attr, "max_length", detail));
            }
        }
        for (index, tile) in tiles.into_iter().enumerate() {
            change.tiles.extend(tile.validate(&format!("tiles__{index}"))?);
        }
        for (index, CopyFields { id, layouts }) in copies.into_iter().enumerate() {
            if let Some(layouts) = &layouts {
                check_layouts(&format!("duplicate_tiles__{index}__layouts"), layouts)?;
            }
            change.copied_tiles.push(TileCopy { id: TileId(id), layouts });
        }
        change.delete_insights = self.delete_insights.unwrap_or(false);
        Ok(())
    }
}

impl TileFields {
    /// None for an item without changes.
    fn validate(self, attr: &str) -> Result<Option<TileChange>> {
        if let Some(layouts) = &self.layouts {
            check_layouts(&format!("{attr}__layouts"), layouts)?;
        }
        let color = self.color.nullable();
        if let Some(Some(color)) = &color {
            max_chars(&format!("{attr}__color"), color, COLOR_CHARS_MAX)?;
        }
        let filters = self.filters_overrides.nullable().map(Option::unwrap_or_default);
        let check = |filters| check_filters(&format!("{attr}__filters_overrides"), filters);
        filters.as_ref().map(check).transpose()?;
        let content = match (filled(self.text), filled(self.button_tile)) {
            (Some(note), _) => {
                let attr = format!("{attr}__text");
                Some(within::<NoteFields>(&attr, note)?.validate(&attr)?)
            }
            (None, Some(button)) => {
                let attr = format!("{attr}__button_tile");
                let button = within::<ButtonFields>(&attr, button)?.button(&attr)?;
                Some(ContentChange::Button(button))
            }
            (None, None) => None,
        };
        let is_new = content.is_some();
        let change = TileChange {
            id: self.id.given().map(TileId),
            content: content.unwrap_or_default(),
            deleted: self.deleted,
            layouts: self.layouts,
            color,
            filters_overrides: filters,
            show_description: self.show_description.nullable(),
            transparent_background: self.transparent_background.nullable(),
        };
        let changes = change.deleted.is_some()
            || change.layouts.is_some()
            || change.color.is_some()
            || change.filters_overrides.is_some()
            || change.show_description.is_some()
            || change.transparent_background.is_some();
        match (is_new, changes, change.id) {
            (false, false, _) => Ok(None),
            (false, true, None) => Err(Error::required(format!("{attr}__id"))),
            _ => Ok(Some(change)),
        }
    }
}

impl NoteFields {
    fn validate(self, attr: &str) -> Result<ContentChange> {
        let attr = format!("{attr}__body");
        if let Some(body) = &self.body {
            check_note(&attr, body)?;
        }
        match (self.id.given(), self.body) {
            (Some(id), body) => Ok(ContentChange::Note(NoteId(id), body)),
            (None, Some(body)) => Ok(ContentChange::NewNote(body)),
            (None, None) => Err(Error::required(attr)),
        }
    }
}

impl ButtonFields {
    pub(super) fn button(self, attr: &str) -> Result<Button> {
        let url = self.url.ok_or_else(|| Error::required(format!("{attr}__url")))?;
        let text = self.text.ok_or_else(|| Error::required(format!("{attr}__text")))?;
        max_chars(&format!("{attr}__url"), &url, URL_CHARS_MAX)?;
        max_chars(&format!("{attr}__text"), &text, LABEL_CHARS_MAX)?;
        // javascript: URLs would run script in the viewer's session.
        let starts = ["http://", "https://", "/"];
        let lower = url.to_ascii_lowercase();
        // Browsers read `//host` and `/\host` as another host.
        let elsewhere = lower.starts_with('/') && lower[1..].starts_with(['/', '\\']);
        // Browsers strip control characters, which could hide a scheme.
        let hides = lower.contains(char::is_control);
        if !starts.iter().any(|start| lower.starts_with(start)) || elsewhere || hides {
            let detail = "Enter a valid URL: http, https, or a path that starts with a slash.";
            return Err(Error::invalid(format!("{attr}__url"), "invalid_input", detail));
        }
        let (placement, style) =
            (self.placement.unwrap_or_default(), self.style.unwrap_or_default());
        Ok(Button { url, text, placement, style })
    }
}

fn filled(sent: Patch<Map<String, Value>>) -> Option<Map<String, Value>> {
    sent.given().filter(|fields| !fields.is_empty())
}

/// Deserializes a nested object; errors name fields below `attr`.
fn within<T: DeserializeOwned>(attr: &str, fields: Map<String, Value>) -> Result<T> {
    Ok(model::deserialize_strict(&Value::Object(fields)).map_err(|why| why.nested_in(attr))?)
}

pub(super) fn check_note(attr: &str, body: &str) -> Result<()> {
    if body.chars().count() > NOTE_CHARS_MAX {
        let detail = format!("Text body cannot exceed {NOTE_CHARS_MAX} characters");
        return Err(Error::invalid(attr, "max_length", detail));
    }
    Ok(())
}

/// Checks the grid position of each screen size; other members are stored verbatim.
pub(super) fn check_layouts(attr: &str, layouts: &Map<String, Value>) -> Result<()> {
    max_bytes(attr, layouts, LAYOUTS_BYTES_MAX)?;
    for (size, position) in layouts {
        let attr = format!("{attr}__{size}");
        let Value::Object(position) = position else {
            return Err(Error::invalid(attr, "invalid_input", "Expected a dictionary of items."));
        };
        for axis in ["x", "y", "w", "h"] {
            let on_grid = |value: &Value| {
                value.as_f64().is_some_and(|number| (0.0..=GRID_MAX).contains(&number))
            };
            if position.get(axis).is_some_and(|value| !on_grid(value)) {
                let detail = format!("Ensure this value is a number from 0 to {GRID_MAX}.");
                return Err(Error::invalid(format!("{attr}__{axis}"), "invalid_input", detail));
            }
        }
    }
    Ok(())
}

#[derive(Deserialize, JsonSchema)]
struct MoveTile {
    tile: TileRef,
    #[serde(rename = "toDashboard")]
    to_dashboard: i64,
}

#[derive(Deserialize, JsonSchema)]
struct TileRef {
    id: i64,
}

async fn move_tile(
    caller: Writer<Dashboards>,
    id: Id,
    app: App,
    body: Body<MoveTile>,
) -> Result<Json<DashboardResponse>> {
    let (from, viewer) = (DashboardId(id.0), caller.viewer());
    app.catalog.dashboards().get_editable(caller.project.id, from, viewer, body.among()).await?;
    let MoveTile { tile, to_dashboard } = body.read()?;
    let (to, tile) = (DashboardId(to_dashboard), TileId(tile.id));
    let moved = app
        .catalog
        .dashboards()
        .insights_to_copy(caller.project.id, from, viewer, Some(&[tile]))
        .await?;
    let looked = viewable(&app, &caller, &moved).await?;
    app.catalog.dashboards().move_tile(&caller.actor(), viewer, (from, to), tile, &looked).await?;
    Ok(Json(load_response(&app, &caller, from).await?))
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct CopyTile {
    from_dashboard_id: i64,
    tile_id: i64,
}

async fn copy_tile(
    caller: Writer<Dashboards>,
    id: Id,
    app: App,
    body: Body<CopyTile>,
) -> Result<Json<DashboardResponse>> {
    let (to, viewer) = (DashboardId(id.0), caller.viewer());
    app.catalog.dashboards().get_editable(caller.project.id, to, viewer, body.among()).await?;
    let CopyTile { from_dashboard_id, tile_id } = body.read()?;
    let (from, tile) = (DashboardId(from_dashboard_id), TileId(tile_id));
    let copied = app
        .catalog
        .dashboards()
        .insights_to_copy(caller.project.id, from, viewer, Some(&[tile]))
        .await?;
    let looked = viewable(&app, &caller, &copied).await?;
    app.catalog.dashboards().copy_tile(&caller.actor(), viewer, (from, to), tile, &looked).await?;
    Ok(Json(load_response(&app, &caller, to).await?))
}

#[derive(Deserialize, JsonSchema)]
struct ReorderTiles {
    tile_order: Vec<i64>,
}

/// Clients of this endpoint read only `detail`.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "TilesNotReordered")]
struct NotReordered {
    detail: &'static str,
}

enum Reordered {
    Done(Box<DashboardResponse>),
    Refused(StatusCode, &'static str),
}

async fn reorder(
    caller: Writer<Dashboards>,
    id: Id,
    app: App,
    body: Body<ReorderTiles>,
) -> Result<Reordered> {
    let (id, viewer) = (DashboardId(id.0), caller.viewer());
    app.catalog.dashboards().get_editable(caller.project.id, id, viewer, body.among()).await?;
    let order: Vec<TileId> = body.read()?.tile_order.into_iter().map(TileId).collect();
    let mut once = order.clone();
    once.sort_unstable();
    once.dedup();
    if once.len() < order.len() || order.len() > TILES_MAX {
        let detail = "tile_order must name each tile once";
        return Ok(Reordered::Refused(StatusCode::BAD_REQUEST, detail));
    }
    match app.catalog.dashboards().reorder_tiles(&caller.actor(), viewer, id, &order).await {
        Err(catalog::Error::NotFound) => {
            let detail = "tile_order names a tile that is not on this dashboard";
            Ok(Reordered::Refused(StatusCode::NOT_FOUND, detail))
        }
        Err(other) => Err(other.into()),
        Ok(()) => Ok(Reordered::Done(Box::new(load_response(&app, &caller, id).await?))),
    }
}

impl IntoResponse for Reordered {
    fn into_response(self) -> Response {
        match self {
            Self::Done(detail) => axum::Json(detail).into_response(),
            Self::Refused(status, detail) => {
                (status, axum::Json(NotReordered { detail })).into_response()
            }
        }
    }
}

impl DescribeResponse for Reordered {
    fn describe_response(operation: &mut Operation, schemas: &mut SchemaGenerator) {
        operation.response::<DashboardResponse>(200, schemas);
        operation.response::<NotReordered>(400, schemas);
        operation.response::<NotReordered>(404, schemas);
    }
}
