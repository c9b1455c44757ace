//! `hedgerow files` and `hedgerow export`: events for other programs; the server may run.
//!
//! Both read flushed segments; events of the last minute may still be in the server's memory. With
//! `warehouse_url`, export reads ClickHouse, and there are no files.

mod parquet_writer;
mod source;

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use catalog::Catalog;
use clap::ArgMatches;
use model::person::Person;
use model::{Clock, ProjectId};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use uuid::Uuid;
use warehouse::EventRow;

use crate::cli::print;
use crate::clickhouse_store;
use crate::data_dir::{self, DataDir};
use crate::settings::Settings;
use parquet_writer::ParquetWriter;
use source::{Source, archive};

const BATCH_EVENTS: usize = 1_000;

/// One line of a JSON export; `hedgerow import` reads it.
#[derive(Serialize)]
struct Line<'a> {
    uuid: Uuid,
    event: &'a str,
    distinct_id: &'a str,
    timestamp: String,
    created_at: String,
    properties: &'a RawValue,
    elements_chain: &'a str,
    /// The person of the distinct id at the time of the export, with its current properties.
    person_id: Option<Uuid>,
    person_properties: &'a Map<String, Value>,
    team_id: ProjectId,
}

fn project(args: &ArgMatches) -> ProjectId {
    ProjectId(args.get_one::<i64>("project").copied().unwrap_or(1))
}

/// Prints the Parquet files with a project's events.
pub(crate) fn files(args: &ArgMatches, settings: &Settings) -> Result<()> {
    let data_dir = DataDir::attach(settings)?;
    if let Some(of) = clickhouse_store::settings_of(settings)? {
        bail!(
            "the events are in the database {} of ClickHouse at {}, not in files: query the table \
             events there (docs/CLUSTER.md), or use `hedgerow export`",
            of.database,
            of.server
        );
    }
    let live = archive(&data_dir)?.files(project(args));
    let absolute = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    if args.get_flag("json") {
        let file = |file: &warehouse::LiveFile| {
            json!({
                "path": absolute(&file.path), "rows": file.rows, "bytes": file.bytes,
                "dead": file.dead.as_deref().map(absolute), "dead_rows": file.dead_rows,
            })
        };
        let files: Vec<_> = live.files.iter().map(file).collect();
        return print(&format!("{}\n", json!({ "position": live.position, "files": files })));
    }
    if live.files.is_empty() {
        let project = project(args);
        eprintln!(
            "hedgerow: project {project} has no files yet; events are flushed after a minute"
        );
    }
    for file in &live.files {
        print(&format!("{}\n", absolute(&file.path).display()))?;
    }
    let dead: u64 = live.files.iter().map(|file| file.dead_rows).sum();
    if dead > 0 {
        eprintln!(
            "hedgerow: {dead} rows in these files are deleted; --json lists the delete masks"
        );
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn export(args: &ArgMatches, settings: &Settings) -> Result<()> {
    let data_dir = DataDir::attach(settings)?;
    let vault = data_dir.vault(settings)?;
    let file = data_dir.catalog_file();
    let catalog =
        Catalog::join(data_dir::catalog_location(settings, &file), vault, Clock::system())
            .await
            .context("cannot open the catalog")?;
    let output = args.get_one::<String>("output");
    let outcome = match output.map(|path| create(path)).transpose() {
        Ok(file) => write(args, settings, &data_dir, &catalog, file).await.inspect_err(|_| {
            // A partial file would block the next attempt.
            output.map(fs::remove_file);
        }),
        Err(error) => Err(error),
    };
    catalog.close().await;
    let (events, position) = outcome?;
    eprintln!("hedgerow: exported {events} events, all before position {position} of the journal");
    Ok(())
}

/// Never overwrites an existing file.
fn create(path: &str) -> Result<File> {
    File::create_new(path).with_context(|| format!("cannot create {path}"))
}

async fn write(
    args: &ArgMatches,
    settings: &Settings,
    data_dir: &DataDir,
    catalog: &Catalog,
    file: Option<File>,
) -> Result<(u64, u64)> {
    let project = project(args);
    catalog
        .projects()
        .get(project)
        .await
        .with_context(|| format!("there is no project {project}"))?;
    let mut source = Source::open(data_dir, settings, project)?;
    let out: Box<dyn Write + Send> = match file {
        Some(file) => Box::new(file),
        None => Box::new(io::stdout()),
    };
    let out = BufWriter::new(out);
    let mut out = match args.get_one::<String>("format").map(String::as_str) {
        Some("parquet") => Output::Parquet(Box::new(ParquetWriter::new(out)?)),
        _ => Output::JsonLines(out),
    };
    let mut events = 0;
    while let Some(rows) = source.next()? {
        for rows in rows.chunks(BATCH_EVENTS) {
            let persons = persons(catalog, project, rows).await?;
            for row in rows {
                out.write(row, persons.get(&*row.distinct_id).map(|person| &**person))?;
            }
        }
        events += rows.len() as u64;
    }
    out.finish()?;
    Ok((events, source.position()))
}

enum Output<W: Write + Send> {
    JsonLines(W),
    Parquet(Box<ParquetWriter<W>>),
}

impl<W: Write + Send> Output<W> {
    fn write(&mut self, row: &EventRow, person: Option<&Person>) -> Result<()> {
        match self {
            Self::JsonLines(out) => {
                let empty = Map::new();
                let properties = person.map_or(&empty, |person| &person.properties);
                serde_json::to_writer(&mut *out, &line(row, person, properties)?)?;
                Ok(out.write_all(b"\n")?)
            }
            Self::Parquet(writer) => writer.add(row, person),
        }
    }

    fn finish(self) -> Result<()> {
        match self {
            Self::JsonLines(mut out) => Ok(out.flush()?),
            Self::Parquet(writer) => writer.finish(),
        }
    }
}

async fn persons(
    catalog: &Catalog,
    project: ProjectId,
    rows: &[EventRow],
) -> Result<HashMap<String, Arc<Person>>> {
    let mut distinct_ids: Vec<&str> = rows.iter().map(|row| &*row.distinct_id).collect();
    distinct_ids.sort_unstable();
    distinct_ids.dedup();
    let (ids, persons) = catalog.persons().identities(project, &distinct_ids).await?;
    let persons: HashMap<_, _> =
        persons.into_iter().map(|person| (person.no, Arc::new(person))).collect();
    let with_person =
        |id: model::person::DistinctId| Some((id.text, persons.get(&id.person?)?.clone()));
    Ok(ids.into_iter().filter_map(with_person).collect())
}

fn line<'a>(
    row: &'a EventRow,
    person: Option<&Person>,
    person_properties: &'a Map<String, Value>,
) -> Result<Line<'a>> {
    Ok(Line {
        uuid: row.uuid,
        event: &row.event,
        distinct_id: &row.distinct_id,
        timestamp: row.timestamp.to_string(),
        created_at: row.created_at.to_string(),
        properties: serde_json::from_str(&row.properties)?,
        elements_chain: &row.elements_chain,
        person_id: person.map(|person| person.uuid),
        person_properties,
        team_id: row.project,
    })
}
