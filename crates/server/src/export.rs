//! `hedgerow files` and `hedgerow export`: events for other programs, beside a running server.
//!
//! Both read what is durable. Events of the last minute may still be in the server's memory.

mod table;

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
use warehouse::{Archive, Cursor, EventRow, Filter, Order, Window};

use crate::cli::say;
use crate::folder::{self, Folder};
use crate::settings::Settings;
use table::Table;

/// Events that are read and written in one go.
const EVENTS_AT_ONCE: usize = 1_000;

/// One line of an export. Import reads it back.
#[derive(Serialize)]
struct Line<'a> {
    uuid: Uuid,
    event: &'a str,
    distinct_id: &'a str,
    timestamp: String,
    created_at: String,
    properties: &'a RawValue,
    elements_chain: &'a str,
    /// The person it belongs to now, and what is known of them now.
    person_id: Option<Uuid>,
    person_properties: &'a Map<String, Value>,
    team_id: ProjectId,
}

fn project(given: &ArgMatches) -> ProjectId {
    ProjectId(given.get_one::<i64>("project").copied().unwrap_or(1))
}

fn archive(folder: &Folder) -> Result<Archive> {
    let path = folder.warehouse();
    if !path.is_dir() {
        bail!("there are no events in {}; start the server once", path.display());
    }
    Archive::open(&path).with_context(|| format!("cannot read the events in {}", path.display()))
}

/// Prints the files that are a project's events.
pub(crate) fn files(given: &ArgMatches, settings: &Settings) -> Result<()> {
    let folder = Folder::join(settings)?;
    let found = archive(&folder)?.files(project(given));
    let whole = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    if given.get_flag("json") {
        let file = |file: &warehouse::LiveFile| {
            json!({
                "path": whole(&file.path), "rows": file.rows, "bytes": file.bytes,
                "dead": file.dead.as_deref().map(whole), "dead_rows": file.dead_rows,
            })
        };
        let files: Vec<_> = found.files.iter().map(file).collect();
        return say(&format!("{}\n", json!({ "position": found.position, "files": files })));
    }
    if found.files.is_empty() {
        let project = project(given);
        eprintln!("hedgerow: project {project} has no files yet; events are in one after a minute");
    }
    for file in &found.files {
        say(&format!("{}\n", whole(&file.path).display()))?;
    }
    let dead: u64 = found.files.iter().map(|file| file.dead_rows).sum();
    if dead > 0 {
        eprintln!("hedgerow: {dead} rows in these files are deleted; --json says where");
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn export(given: &ArgMatches, settings: &Settings) -> Result<()> {
    let folder = Folder::join(settings)?;
    let vault = folder.vault(settings)?;
    let file = folder.catalog_file();
    let catalog = Catalog::join(folder::location(settings, &file), vault, Clock::system())
        .await
        .context("cannot open the catalog")?;
    let output = given.get_one::<String>("output");
    let outcome = match output.map(|path| make(path)).transpose() {
        Ok(file) => write(given, &folder, &catalog, file).await.inspect_err(|_| {
            // Half an export is none, and would be in the way of the next.
            output.map(fs::remove_file);
        }),
        Err(error) => Err(error),
    };
    catalog.close().await;
    let (events, position) = outcome?;
    eprintln!("hedgerow: exported {events} events, all before position {position} of the journal");
    Ok(())
}

/// An export is never written over.
fn make(path: &str) -> Result<File> {
    File::create_new(path).with_context(|| format!("cannot make {path}"))
}

async fn write(
    given: &ArgMatches,
    folder: &Folder,
    catalog: &Catalog,
    file: Option<File>,
) -> Result<(u64, u64)> {
    let project = project(given);
    catalog.project(project).await.with_context(|| format!("there is no project {project}"))?;
    let snapshot = archive(folder)?.snapshot(project);
    let out: Box<dyn Write + Send> = match file {
        Some(file) => Box::new(file),
        None => Box::new(io::stdout()),
    };
    let out = BufWriter::new(out);
    let mut out = match given.get_one::<String>("format").map(String::as_str) {
        Some("parquet") => Out::Table(Box::new(Table::new(out)?)),
        _ => Out::Lines(out),
    };
    let (mut events, mut resume) = (0, None::<Cursor>);
    loop {
        let order = Order::OldestFirst;
        let window = Window { order, limit: EVENTS_AT_ONCE, offset: 0, resume };
        let listing = snapshot.list(&Filter::default(), &window)?;
        let persons = persons(catalog, project, &listing.events).await?;
        for row in &listing.events {
            out.write(row, persons.get(&*row.distinct_id).map(|person| &**person))?;
        }
        events += listing.events.len() as u64;
        match listing.next {
            Some(next) => resume = Some(next),
            None => break,
        }
    }
    out.finish()?;
    Ok((events, snapshot.position()))
}

enum Out<W: Write + Send> {
    Lines(W),
    Table(Box<Table<W>>),
}

impl<W: Write + Send> Out<W> {
    fn write(&mut self, row: &EventRow, person: Option<&Person>) -> Result<()> {
        match self {
            Self::Lines(out) => {
                let nothing = Map::new();
                let known = person.map_or(&nothing, |person| &person.properties);
                serde_json::to_writer(&mut *out, &line(row, person, known)?)?;
                Ok(out.write_all(b"\n")?)
            }
            Self::Table(table) => table.add(row, person),
        }
    }

    fn finish(self) -> Result<()> {
        match self {
            Self::Lines(mut out) => Ok(out.flush()?),
            Self::Table(table) => table.finish(),
        }
    }
}

async fn persons(
    catalog: &Catalog,
    project: ProjectId,
    rows: &[EventRow],
) -> Result<HashMap<String, Arc<Person>>> {
    let mut texts: Vec<&str> = rows.iter().map(|row| &*row.distinct_id).collect();
    texts.sort_unstable();
    texts.dedup();
    let (ids, persons) = catalog.identities(project, &texts).await?;
    let persons: HashMap<_, _> =
        persons.into_iter().map(|person| (person.no, Arc::new(person))).collect();
    let own = |id: model::person::DistinctId| Some((id.text, persons.get(&id.person?)?.clone()));
    Ok(ids.into_iter().filter_map(own).collect())
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
