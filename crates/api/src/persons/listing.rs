//! Listing persons, as JSON or CSV.

use catalog::PersonFilter;
use model::CohortId;
use model::property::Node;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{PersonItem, Persons, display_names};
use crate::http::csv::{self, Cells, Format, JsonOrCsv, Link};
use crate::http::path::{given, search};
use crate::{App, Error, Page, Query, Reader, RequestUrl, Result};

#[derive(Serialize, JsonSchema)]
pub(super) struct PersonListing {
    results: Vec<PersonItem>,
    next: Option<String>,
    previous: Option<String>,
    /// Only with `include_total`.
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<i64>,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct ListQuery {
    distinct_id: Option<String>,
    email: Option<String>,
    /// A substring of the e-mail address or name, or an exact distinct id.
    search: Option<String>,
    /// A JSON array of filters on person properties and cohorts.
    properties: Option<String>,
    /// The id of a cohort that they belong to.
    cohort: Option<String>,
    /// If present, with any value: count all matching persons.
    include_total: Option<String>,
}

impl ListQuery {
    fn filter(&self) -> Result<PersonFilter> {
        let cohort = given(self.cohort.as_ref()).map(|text| {
            let detail = "A valid integer is required.";
            let wrong = || Error::invalid("cohort", "invalid_input", detail);
            text.parse().map(CohortId).map_err(|_| wrong())
        });
        Ok(PersonFilter {
            distinct_id: given(self.distinct_id.as_ref()).map(str::to_owned),
            email: given(self.email.as_ref()).map(str::to_owned),
            search: search(self.search.as_ref())?,
            properties: properties(given(self.properties.as_ref()))?,
            cohort: cohort.transpose()?,
        })
    }
}

pub(super) async fn list(
    caller: Reader<Persons>,
    page: Page,
    url: RequestUrl,
    query: Query<ListQuery>,
    format: Format,
    app: App,
) -> Result<JsonOrCsv<PersonListing>> {
    let filter = query.filter()?;
    let (project, window) = (caller.project.id, page.window);
    let (mut persons, total) = if filter.reads_properties() {
        let source = app.events.scan_persons(project).await?;
        let (persons, total) =
            app.catalog.persons().search(project, &filter, window, &source).await?;
        (persons, Some(total))
    } else {
        (app.catalog.persons().list(project, &filter, window).await?, None)
    };
    let more = persons.len() as i64 > window.limit;
    persons.truncate(usize::try_from(window.limit).unwrap_or(0));
    let display = display_names(&caller);
    let results: Vec<PersonItem> =
        persons.into_iter().map(|person| PersonItem::of(person, &display)).collect();
    let link = |offset: i64| {
        let (limit, offset) = (window.limit.to_string(), offset.to_string());
        url.link(&[("limit", Some(&limit)), ("offset", Some(&offset))])
    };
    let next = more.then(|| link(window.offset + window.limit));
    if format == Format::Csv {
        return Ok(JsonOrCsv::CsvPage(table(&results)?, Link(next)));
    }
    let count = match (&query.include_total, total) {
        (None, _) => None,
        (Some(_), Some(total)) => Some(total),
        (Some(_), None) => Some(app.catalog.persons().count(project, &filter).await?),
    };
    Ok(JsonOrCsv::Json(PersonListing {
        next,
        previous: (window.offset >= window.limit).then(|| link(window.offset - window.limit)),
        results,
        count,
    }))
}

/// Persons as CSV.
pub(crate) fn table(persons: &[PersonItem]) -> Result<String> {
    let row = |person: &PersonItem| {
        let mut cells = Cells::new();
        let shown = serde_json::to_value(person).expect("its keys are texts");
        for (name, value) in shown.as_object().into_iter().flatten() {
            csv::spread(name, value, &mut cells);
        }
        cells
    };
    csv::table(&persons.iter().map(row).collect::<Vec<_>>())
}

fn properties(text: Option<&str>) -> Result<Option<Node>> {
    let Some(text) = text else { return Ok(None) };
    let wrong = |detail: String| Error::invalid("properties", "invalid_input", detail);
    let filters: Value =
        serde_json::from_str(text).map_err(|_| wrong("Properties are unparsable!".into()))?;
    let tree = match filters {
        Value::Array(values) if values.is_empty() => return Ok(None),
        Value::Array(values) => json!({ "type": "AND", "values": values }),
        other => other,
    };
    // Parsed and evaluated like the conditions of a cohort.
    let tree = Map::from_iter([("properties".to_owned(), tree)]);
    let tree = model::cohort_tree(&tree).map_err(|why| wrong(why.to_string()))?;
    if tree.has_behavioral_filters() {
        return Err(wrong(
            "Persons cannot be listed by behavioral filters. Create a cohort with them.".into(),
        ));
    }
    Ok(Some(tree))
}
