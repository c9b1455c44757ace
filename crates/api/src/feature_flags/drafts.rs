//! Flags as a request would save them, without saving them: dry runs and explanations of drafts.

use catalog::FlagChange;
use flags::ProjectFlags;
use model::flag::FeatureFlag;
use model::{FlagId, ObjectKind};

use super::{FlagFields, Flags, Rights, check_references};
use crate::{App, Body, Id, Result, Writer};

/// An unsaved version of a flag, validated as if it were saved.
pub(super) struct Draft {
    /// None for a flag that does not exist yet.
    pub stored: Option<FeatureFlag>,
    pub flag: FeatureFlag,
}

impl Draft {
    /// The flag that a POST with this body would create, by a caller who may create flags.
    pub async fn of_new(
        app: &App,
        caller: &Writer<Flags>,
        body: &Body<FlagFields>,
    ) -> Result<Self> {
        caller.may_create(ObjectKind::FeatureFlag)?;
        let new = body.read()?.validate_new()?;
        check_references(app, caller, None, &new).await?;
        let flag = app.catalog.flags().preview_new(&caller.actor(), new).await?;
        Ok(Self { stored: None, flag })
    }

    /// The flag after a PATCH with this body, by a caller who may edit the flag.
    pub async fn of_change(
        app: &App,
        caller: &Writer<Flags>,
        id: Id,
        body: &Body<FlagFields>,
    ) -> Result<Self> {
        let stored = app.catalog.flags().get(caller.project.id, FlagId(id.0)).await?;
        Rights::of(app, caller).await?.require(&stored)?;
        let change: FlagChange = body.read()?.validate()?;
        check_references(app, caller, Some(&stored), &change).await?;
        let (actor, visibility) = (caller.actor(), caller.visibility(ObjectKind::FeatureFlag));
        let flag = app.catalog.flags().preview(&actor, stored.id, &change, &visibility).await?;
        Ok(Self { stored: Some(stored), flag })
    }

    /// The project's flags with the draft in place of the stored version.
    pub fn among(&self, flags: &ProjectFlags) -> ProjectFlags {
        flags.with(self.flag.definition())
    }
}
