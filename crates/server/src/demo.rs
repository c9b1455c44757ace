//! `hedgerow demo`: creates or removes the demo project without a running server, through the same
//! capture, journal, pipeline and validation.

use anyhow::{Context as _, Result};
use api::{AppState, DemoOptions, DemoProject};
use catalog::{Actor, Catalog, ProjectRow};
use clap::ArgMatches;
use flags::Flags;
use model::{Clock, OrganizationId, Timestamp};
use prometheus_client::registry::Registry;

use crate::cli::print;
use crate::data_dir::DataDir;
use crate::ingest::Ingest;
use crate::runtimes::{BackgroundRuntimes, Runtimes};
use crate::settings::Settings;
use crate::write_path::WritePath;
use crate::{logs, stores};

const TIMEZONE_DEFAULT: &str = "UTC";
const OWNED: &str = "cannot open the data directory; while a server runs, use the button on an empty \
    project or POST /api/projects/{id}/demo, and delete the project to remove it";

pub(crate) fn run(args: &ArgMatches, settings: &Settings) -> Result<()> {
    logs::init(settings.log_format, settings.log_level.0.clone());
    let runtimes = Runtimes::start()?;
    let outcome = runtimes.block_on(demo(args, settings, runtimes.background()));
    runtimes.shutdown();
    outcome
}

async fn demo(
    args: &ArgMatches,
    settings: &Settings,
    background: BackgroundRuntimes,
) -> Result<()> {
    let until = args.get_one::<String>("until").map(|text| {
        Timestamp::parse(text)
            .with_context(|| format!("--until: {text} is no time, such as 2025-09-17T15:00:00Z"))
    });
    let until = until.transpose()?;
    // Fails unless the directory has a catalog, and so an organization.
    drop(DataDir::attach(settings)?);
    let data_dir = DataDir::acquire(&settings.data_dir).context(OWNED)?;
    let (vault, clock) = (data_dir.vault(settings)?, Clock::system());
    stores::check_versions(&data_dir)?;
    let catalog = stores::open_catalog(&data_dir, settings, vault, clock.clone()).await?;
    let write_path = WritePath::open(&data_dir, &catalog, settings).await?;
    let ingest =
        Ingest::open(&data_dir, &catalog, write_path.journal(), settings, background).await?;
    let app = AppState::new(
        catalog.clone(),
        write_path.tokens.clone(),
        Flags::new(catalog.clone(), ingest.geoip.clone()),
        write_path.capture.clone(),
        query::Events::new(catalog.clone(), ingest.store(), ingest.sink(), clock, None),
        api::Settings::default(),
        Registry::default(),
    );
    let outcome = match args.get_flag("remove") {
        true => remove(&app, &catalog).await,
        false => create(&app, &catalog, until).await,
    };
    drop(app);
    write_path.close().await;
    ingest.close().await;
    catalog.close().await;
    print(&outcome?)
}

/// The operator acts in the first organization, as the server itself.
fn operator(organization: OrganizationId) -> Actor {
    Actor { user: None, organization, project: None }
}

async fn create(app: &AppState, catalog: &Catalog, until: Option<Timestamp>) -> Result<String> {
    let organization = catalog.organizations().first().await?;
    let oldest = catalog.projects().oldest(organization).await?;
    let timezone = oldest.map_or_else(|| TIMEZONE_DEFAULT.into(), |project| project.timezone);
    let options = DemoOptions { actor: operator(organization), timezone, until };
    Ok(match api::create_demo(app, &options).await? {
        DemoProject::Created(project, events) => {
            format!("{}events    {events}\n{}", head("created", &project), path(&project))
        }
        DemoProject::Existing(project) => {
            format!("{}{}", head("already there", &project), path(&project))
        }
    })
}

async fn remove(app: &AppState, catalog: &Catalog) -> Result<String> {
    let organization = catalog.organizations().first().await?;
    Ok(match api::remove_demo(app, &operator(organization)).await? {
        Some(project) => head("removed", &project),
        None => "there is no demo project\n".into(),
    })
}

fn head(state: &str, project: &ProjectRow) -> String {
    format!("project   {} \"{}\", {state}\n", project.id, project.name)
}

fn path(project: &ProjectRow) -> String {
    match project.settings.primary_dashboard() {
        Some(dashboard) => format!("open      /project/{}/dashboard/{dashboard}\n", project.id),
        None => format!("open      /project/{}\n", project.id),
    }
}
