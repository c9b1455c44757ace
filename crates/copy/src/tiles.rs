//! Tiles: where insights are on their dashboards, and texts and buttons, which exist only there.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use crate::copier::Copier;
use crate::kind::{Key, Kind};
use crate::ledger::fingerprint;
use crate::report::Outcome;
use crate::site::{Content, Method};
use crate::source::{PRESENTATION, id};
use crate::{Error, Result};

/// Requests to add one tile whose answers were lost.
const LOST_MAX: usize = 3;

/// What a tile shows.
enum Shown {
    /// The insight here.
    Insight(String),
    /// Fields of a tile: a text or a button.
    Own(Map<String, Value>),
}

impl Copier<'_> {
    pub fn tiles(&mut self, dashboards: &[(String, Vec<Value>)]) -> Result<()> {
        for (done, (dashboard, tiles)) in dashboards.iter().enumerate() {
            (self.progress)(&format!(
                "writing tiles of dashboard {} of {}",
                done + 1,
                dashboards.len()
            ));
            let key = Key::new(Kind::Dashboard, dashboard);
            // A dashboard that was left out is reported; its tiles went with it.
            let Some(here) = self.mapped(&key) else { continue };
            let mut board = Board { path: self.path("dashboards", &here), tiles: None };
            for tile in tiles {
                self.tile(&mut board, tile)?;
            }
        }
        Ok(())
    }

    fn tile(&mut self, board: &mut Board, tile: &Value) -> Result<()> {
        let key = Key::new(Kind::Tile, id(tile));
        let Some(shown) = self.shown(tile) else {
            return Ok(());
        };
        let written = match (shown, self.presentation(tile)) {
            (Err(why), _) | (_, Err(why)) => Ok(Err(why)),
            (Ok(Shown::Insight(insight)), Ok(body)) => self.place(board, &key, &insight, body),
            (Ok(Shown::Own(own)), Ok(body)) => self.add(board, &key, own, body),
        };
        match written {
            Ok(Ok(outcome)) => self.report.count(Kind::Tile, outcome),
            Ok(Err(why)) => self.report.leave(&key, "", why),
            Err(why) => self.report.leave(&key, "", why.refusal()?),
        }
        Ok(())
    }

    /// None for the tile of an insight that was left out, which is reported.
    fn shown(&self, tile: &Value) -> Option<std::result::Result<Shown, String>> {
        let part = |name: &str| tile.get(name).and_then(Value::as_object);
        if let Some(insight) = tile.get("insight").filter(|insight| insight.is_object()) {
            return self.mapped(&Key::new(Kind::Insight, id(insight))).map(Shown::Insight).map(Ok);
        }
        let own = match (part("text"), part("button_tile")) {
            (Some(text), _) => json!({ "text": { "body": text.get("body") } }),
            (None, Some(button)) => {
                let mut button = button.clone();
                button.retain(|name, _| {
                    ["url", "text", "placement", "style"].contains(&name.as_str())
                });
                json!({ "button_tile": button })
            }
            (None, None) => {
                return Some(Err("it shows neither an insight nor a text nor a button".into()));
            }
        };
        let Value::Object(own) = own else { return None };
        Some(Ok(Shown::Own(own)))
    }

    fn presentation(&self, tile: &Value) -> std::result::Result<Map<String, Value>, String> {
        let field = |name: &&str| {
            let value = tile.get(*name).filter(|value| !value.is_null())?;
            Some(((*name).to_owned(), value.clone()))
        };
        let mut body = Value::Object(PRESENTATION.iter().filter_map(field).collect());
        self.map(&mut body)?;
        match body {
            Value::Object(body) => Ok(body),
            _ => Ok(Map::new()),
        }
    }

    /// Gives the tile of an insight its place; the insight itself put it on the dashboard.
    fn place(
        &mut self,
        board: &mut Board,
        key: &Key,
        insight: &str,
        mut body: Map<String, Value>,
    ) -> Result<std::result::Result<Outcome, String>> {
        let print = fingerprint(&Value::Object(body.clone()));
        let known = self.ledger.entry(key).cloned();
        if known.as_ref().is_some_and(|entry| entry.fingerprint == print) {
            return Ok(Ok(Outcome::Unchanged));
        }
        let is_shown = |tile: &&Value| tile.get("insight").is_some_and(|it| id(it) == insight);
        let Some(here) = board.tiles(self)?.iter().find(is_shown).map(id) else {
            return Ok(Err("its insight is not on the dashboard here".into()));
        };
        if !body.is_empty() {
            body.insert("id".into(), number(&here));
            board.change(self, body)?;
        }
        self.ledger.created(key, &here, &print)?;
        Ok(Ok(if known.is_some() { Outcome::Updated } else { Outcome::Created }))
    }

    /// Adds or changes a tile that shows something of its own.
    fn add(
        &mut self,
        board: &mut Board,
        key: &Key,
        own: Map<String, Value>,
        mut body: Map<String, Value>,
    ) -> Result<std::result::Result<Outcome, String>> {
        body.extend(own.clone());
        let print = fingerprint(&Value::Object(body.clone()));
        let known = self.ledger.entry(key).cloned();
        let here = known.as_ref().and_then(|entry| entry.target.clone());
        if let Some(here) = here {
            if known.is_some_and(|entry| entry.fingerprint == print) {
                return Ok(Ok(Outcome::Unchanged));
            }
            body.insert("id".into(), number(&here));
            board.change(self, body)?;
            self.ledger.created(key, &here, &print)?;
            return Ok(Ok(Outcome::Updated));
        }
        for _ in 0..LOST_MAX {
            if let Some(here) = board.unclaimed(self, &own)? {
                self.ledger.created(key, &here, &print)?;
                return Ok(Ok(Outcome::Created));
            }
            match board.add(self, body.clone()) {
                Ok(()) | Err(Error::Lost { .. }) => {}
                Err(why) => return Err(why),
            }
        }
        match board.unclaimed(self, &own)? {
            Some(here) => {
                self.ledger.created(key, &here, &print)?;
                Ok(Ok(Outcome::Created))
            }
            None => Ok(Err("the dashboard does not show it here".into())),
        }
    }
}

fn number(id: &str) -> Value {
    id.parse::<u64>().map_or_else(|_| id.into(), Value::from)
}

/// A dashboard here. Its tiles are read when they are first needed.
struct Board {
    path: String,
    tiles: Option<Vec<Value>>,
}

impl Board {
    fn tiles(&mut self, copier: &Copier<'_>) -> Result<&[Value]> {
        if self.tiles.is_none() {
            let board = copier.target.get(&self.path)?;
            self.keep(board);
        }
        Ok(self.tiles.as_deref().unwrap_or_default())
    }

    fn keep(&mut self, mut board: Value) {
        self.tiles = match board.get_mut("tiles").map(Value::take) {
            Some(Value::Array(tiles)) => Some(tiles),
            _ => None,
        };
    }

    /// Changes a tile, which names its id.
    fn change(&mut self, copier: &Copier<'_>, tile: Map<String, Value>) -> Result<()> {
        let body = json!({ "tiles": [tile] });
        let board = copier.target.send(Method::Patch, &self.path, Content::Json(&body))?;
        self.keep(board);
        Ok(())
    }

    /// Adds a tile. Unlike other changes it must not be sent twice.
    fn add(&mut self, copier: &Copier<'_>, tile: Map<String, Value>) -> Result<()> {
        let body = json!({ "tiles": [tile] });
        self.tiles = None;
        let board = copier.target.send(Method::PatchOnce, &self.path, Content::Json(&body))?;
        self.keep(board);
        Ok(())
    }

    /// A tile that shows `own` and is the copy of none.
    fn unclaimed(
        &mut self,
        copier: &Copier<'_>,
        own: &Map<String, Value>,
    ) -> Result<Option<String>> {
        let shows = |tile: &&Value| {
            own.iter().all(|(name, sent)| {
                let found = tile.get(name).and_then(Value::as_object);
                let fields: HashMap<&String, &Value> =
                    sent.as_object().into_iter().flatten().collect();
                found.is_some_and(|found| fields.iter().all(|(n, v)| found.get(*n) == Some(*v)))
            })
        };
        let tiles = self.tiles(copier)?.iter().filter(shows);
        Ok(tiles.map(id).find(|here| !copier.ledger.is_taken(Kind::Tile, here)))
    }
}
