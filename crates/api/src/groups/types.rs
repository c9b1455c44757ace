//! Group types: at most five per project, indexed in order of their first event, with display
//! names that users set.

use catalog::{GroupType, GroupTypeChange};
use model::group::GROUP_TYPES_MAX;
use model::{ProjectId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Groups, KEY_CHARS_MAX};
use crate::http::body::max_chars;
use crate::{App, AppState, Body, Error, Json, Patch, Reader, Result, Routes, Writer};

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .get("/api/projects/{project_id}/groups_types", list)
        .patch("/api/projects/{project_id}/groups_types/update_metadata", update)
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "GroupType")]
pub(crate) struct TypeItem {
    group_type: String,
    group_type_index: u8,
    name_singular: Option<String>,
    name_plural: Option<String>,
    detail_dashboard: Option<i64>,
    default_columns: Option<Vec<String>>,
    created_at: Timestamp,
}

impl From<GroupType> for TypeItem {
    fn from(kind: GroupType) -> Self {
        Self {
            group_type: kind.name,
            group_type_index: kind.index,
            name_singular: kind.name_singular,
            name_plural: kind.name_plural,
            detail_dashboard: None,
            default_columns: None,
            created_at: kind.created_at,
        }
    }
}

impl TypeItem {
    /// All group types of a project.
    pub(crate) async fn all(app: &AppState, project: ProjectId) -> Result<Vec<Self>> {
        let types = app.catalog.groups().types(project).await?;
        Ok(types.into_iter().map(Into::into).collect())
    }
}

async fn list(caller: Reader<Groups>, app: App) -> Result<Json<Vec<TypeItem>>> {
    Ok(Json(TypeItem::all(&app, caller.project.id).await?))
}

#[derive(Deserialize, JsonSchema)]
struct TypeFields {
    group_type_index: u8,
    #[serde(default)]
    name_singular: Patch<String>,
    #[serde(default)]
    name_plural: Patch<String>,
}

impl TypeFields {
    fn validate(self) -> Result<GroupTypeChange> {
        for (attr, name) in
            [("name_singular", &self.name_singular), ("name_plural", &self.name_plural)]
        {
            if let Patch::Value(name) = name {
                max_chars(attr, name, KEY_CHARS_MAX)?;
            }
        }
        Ok(GroupTypeChange {
            index: self.group_type_index,
            name_singular: self.name_singular.nullable(),
            name_plural: self.name_plural.nullable(),
        })
    }
}

/// Sets the display names of several types.
async fn update(
    caller: Writer<Groups>,
    app: App,
    body: Body<Vec<TypeFields>>,
) -> Result<Json<Vec<TypeItem>>> {
    let rows = body.read_list()?;
    if rows.len() > usize::from(GROUP_TYPES_MAX) {
        return Err(Error::bad_request(format!(
            "A project has {GROUP_TYPES_MAX} group types at most."
        )));
    }
    let changes = rows.into_iter().map(TypeFields::validate).collect::<Result<_>>()?;
    app.catalog.groups().name_types(&caller.actor(), changes).await?;
    Ok(Json(TypeItem::all(&app, caller.project.id).await?))
}
