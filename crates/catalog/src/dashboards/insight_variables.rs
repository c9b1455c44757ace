//! Variables of HogQL statements, and their defaults.

use std::collections::BTreeMap;

use model::{InsightVariable, ProjectId, VariableType, Window, code_name};
use serde_json::Value;
use uuid::Uuid;

use super::InsightVariables;
use crate::activity::{Actor, Logged};
use crate::db::select::Condition;
use crate::db::{Row, Tx, args};
use crate::objects::edit::set;
use crate::projects;
use crate::{Error, Result};

/// Variables of one project: upstream's page size.
pub const VARIABLES_MAX: i64 = 500;

/// The fields of a new variable, or of a partial update.
#[derive(Clone, Debug, Default)]
pub struct InsightVariableChange {
    pub name: Option<String>,
    pub kind: Option<VariableType>,
    pub default_value: Option<Value>,
    pub values: Option<Option<Vec<String>>>,
}

const COLUMNS: &str = "v.id, v.name, v.code_name, v.type, v.default_value, v.options, \
     v.created_by, v.created_at";
const FROM: &str = "insight_variables v";

impl Logged for InsightVariable {
    const SCOPE: &'static str = "InsightVariable";
    const UNLOGGED: &'static [&'static str] = &[];

    fn item_id(&self) -> String {
        self.id.to_string()
    }

    fn item_name(&self) -> Option<String> {
        Some(self.name.clone())
    }
}

fn read(row: &Row) -> Result<InsightVariable> {
    let kind: String = row.get("type")?;
    Ok(InsightVariable {
        id: row.get("id")?,
        name: row.get("name")?,
        kind: VariableType::parse(&kind).ok_or_else(|| Error::corrupt("type", &kind))?,
        default_value: row.json("default_value")?,
        created_by: row.get("created_by")?,
        created_at: row.get("created_at")?,
        code_name: row.get("code_name")?,
        values: row.optional_json("options")?,
    })
}

async fn find(tx: &mut Tx, project: ProjectId, id: Uuid) -> Result<InsightVariable> {
    let sql = format!("SELECT {COLUMNS} FROM {FROM} WHERE v.project_id = $1 AND v.id = $2");
    read(&tx.one(sql, args![project, id]).await?)
}

/// The default must have the variable's type, and only a list has options.
fn check(variable: &mut InsightVariable) -> Result<()> {
    let refused =
        |field, detail: String| Err(Error::Invalid { field, code: "invalid_input", detail });
    if !variable.kind.accepts(&variable.default_value) {
        let detail = format!(
            "The default of a variable of type {} has another type.",
            variable.kind.as_str()
        );
        return refused("default_value", detail);
    }
    if variable.kind != VariableType::List {
        variable.values = None;
    }
    Ok(())
}

impl InsightVariables<'_> {
    pub async fn list(
        self,
        project: ProjectId,
        window: Window,
    ) -> Result<(Vec<InsightVariable>, i64)> {
        let condition = Condition::new("v.project_id = $1", args![project]);
        let order = "v.created_at, v.id";
        let (rows, total) = self.core.db.page(COLUMNS, FROM, condition, order, window).await?;
        Ok((rows.iter().map(read).collect::<Result<_>>()?, total))
    }

    pub async fn get(self, project: ProjectId, id: Uuid) -> Result<InsightVariable> {
        let sql = format!("SELECT {COLUMNS} FROM {FROM} WHERE v.project_id = $1 AND v.id = $2");
        read(&self.core.db.one(sql, args![project, id]).await?)
    }

    /// The defaults of a project's variables, by their names in statements.
    pub async fn defaults(self, project: ProjectId) -> Result<BTreeMap<String, Value>> {
        let sql = "SELECT code_name, default_value FROM insight_variables WHERE project_id = $1";
        let rows = self.core.db.all(sql, args![project]).await?;
        rows.iter().map(|row| Ok((row.get("code_name")?, row.json("default_value")?))).collect()
    }

    pub async fn create(
        self,
        actor: &Actor,
        new: InsightVariableChange,
    ) -> Result<InsightVariable> {
        let project = actor.project.ok_or(Error::NotFound)?;
        let name = new.name.unwrap_or_default();
        let mut tx = self.core.db.begin().await?;
        projects::lock(&mut tx, project).await?;
        let sql = "SELECT COUNT(*) AS total FROM insight_variables WHERE project_id = $1";
        if tx.one(sql, args![project]).await?.get::<i64>("total")? >= VARIABLES_MAX {
            let detail = format!("A project has at most {VARIABLES_MAX} variables.");
            return Err(Error::refused(None, detail));
        }
        let mut variable = InsightVariable {
            id: Uuid::now_v7(),
            code_name: code_name(&name),
            name,
            kind: new.kind.unwrap_or(VariableType::String),
            default_value: new.default_value.unwrap_or_default(),
            created_by: actor.user,
            created_at: self.core.clock.now(),
            values: new.values.flatten(),
        };
        check(&mut variable)?;
        if variable.code_name.is_empty() {
            let detail = "The name needs a letter or a digit.";
            return Err(Error::refused(Some("name"), detail));
        }
        tx.run(
            "INSERT INTO insight_variables (id, project_id, name, code_name, type, default_value, \
             options, created_by, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
            args![
                variable.id,
                project,
                variable.name.as_str(),
                variable.code_name.as_str(),
                variable.kind.as_str(),
                variable.default_value.to_string(),
                options(&variable),
                actor.user,
                variable.created_at,
            ],
        )
        .await
        .map_err(|error| match error {
            Error::Duplicate { .. } => Error::Taken {
                field: "name",
                detail: "Variable with this code name already exists".into(),
            },
            other => other,
        })?;
        tx.log_created(actor, &variable, variable.created_at).await?;
        tx.commit().await?;
        Ok(variable)
    }

    /// The name in statements stays when the name changes, so that statements go on working.
    pub async fn update(
        self,
        actor: &Actor,
        id: Uuid,
        change: InsightVariableChange,
    ) -> Result<InsightVariable> {
        let project = actor.project.ok_or(Error::NotFound)?;
        let mut tx = self.core.db.begin().await?;
        projects::lock(&mut tx, project).await?;
        let before = find(&mut tx, project, id).await?;
        let mut after = before.clone();
        set(&mut after.name, change.name);
        set(&mut after.kind, change.kind);
        set(&mut after.default_value, change.default_value);
        set(&mut after.values, change.values);
        check(&mut after)?;
        tx.run(
            "UPDATE insight_variables SET name = $2, type = $3, default_value = $4, options = $5 \
             WHERE id = $1",
            args![
                id,
                after.name.as_str(),
                after.kind.as_str(),
                after.default_value.to_string(),
                options(&after),
            ],
        )
        .await?;
        tx.log_updated(actor, &before, &after, self.core.clock.now()).await?;
        tx.commit().await?;
        Ok(after)
    }

    pub async fn delete(self, actor: &Actor, id: Uuid) -> Result<()> {
        let project = actor.project.ok_or(Error::NotFound)?;
        let mut tx = self.core.db.begin().await?;
        projects::lock(&mut tx, project).await?;
        let variable = find(&mut tx, project, id).await?;
        tx.run("DELETE FROM insight_variables WHERE id = $1", args![id]).await?;
        tx.log_deleted(actor, &variable, self.core.clock.now()).await?;
        tx.commit().await
    }
}

fn options(variable: &InsightVariable) -> Option<String> {
    variable.values.as_ref().map(|values| Value::from(values.clone()).to_string())
}
