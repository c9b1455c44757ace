//! `hedgerow admin`: what an operator must be able to do without a password.

use std::io::Read as _;

use anyhow::{Context as _, Result, anyhow, bail};
use catalog::{
    Actor, Catalog, KeyKeeper, NewKey, NewPassword, NewUser, Secret, UserChange, UserRow,
    hash_password,
};
use clap::ArgMatches;
use model::scope::Scopes;
use model::{Clock, Level, Window};

use crate::cli::say;
use crate::folder::{self, Folder};
use crate::settings::Settings;
use crate::values::{Email, Password, Value as _};

const PASSWORD_BYTES_MAX: u64 = 8 << 10;
/// More keys than anybody reads; `--email` narrows the list.
const KEYS_LISTED_MAX: i64 = 10_000;
/// The newest; the total is told beside them.
const DEAD_LETTERS_LISTED_MAX: i64 = 1_000;

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn run(name: &str, given: &ArgMatches, settings: &Settings) -> Result<()> {
    let folder = Folder::join(settings)?;
    let vault = folder.vault(settings)?;
    let file = folder.catalog_file();
    let catalog = Catalog::join(folder::location(settings, &file), vault, Clock::system())
        .await
        .context("cannot open the catalog")?;
    let outcome = match name {
        "create-user" => create_user(&catalog, given).await,
        "reset-password" => reset_password(&catalog, given).await,
        "deactivate-user" => set_active(&catalog, given, false).await,
        "activate-user" => set_active(&catalog, given, true).await,
        "confirm-email" => confirm_email(&catalog, given).await,
        "grant-staff" => set_staff(&catalog, given, true).await,
        "revoke-staff" => set_staff(&catalog, given, false).await,
        "create-key" => create_key(&catalog, given).await,
        "list-dead-letters" => list_dead_letters(&catalog).await,
        "replay-dead-letters" => replay_dead_letters(&catalog, given).await,
        _ => list_keys(&catalog, given).await,
    };
    catalog.close().await;
    outcome
}

async fn create_user(catalog: &Catalog, given: &ArgMatches) -> Result<()> {
    let email = Email::parse(text(given, "email")).map_err(|why| anyhow!(why))?;
    if catalog.user_by_email(&email.0).await?.is_some() {
        bail!("there is already an account with this e-mail address");
    }
    let (password, made_up) = password(given)?;
    let level = match text(given, "level") {
        "owner" => Level::Owner,
        "admin" => Level::Admin,
        _ => Level::Member,
    };
    let new = NewUser {
        email: email.0,
        first_name: text(given, "first_name").to_owned(),
        password_hash: Some(hash_password(password.reveal())?),
    };
    let organization = catalog.first_organization().await?;
    let actor = Actor { user: None, organization, project: None };
    let member = catalog.add_member(&actor, new, level).await?;
    say(&format!("user      {}\n", member.user.email))?;
    say_password(&password, made_up)
}

async fn reset_password(catalog: &Catalog, given: &ArgMatches) -> Result<()> {
    let user = user(catalog, given).await?;
    let (password, made_up) = password(given)?;
    let change = NewPassword { hash: hash_password(password.reveal())?, keep: None };
    catalog
        .update_user(user.user.id, UserChange { password: Some(change), ..UserChange::default() })
        .await?;
    say(&format!("user      {}\n", user.user.email))?;
    say_password(&password, made_up)
}

async fn set_active(catalog: &Catalog, given: &ArgMatches, active: bool) -> Result<()> {
    let user = user(catalog, given).await?;
    catalog.set_active(user.user.id, active).await?;
    let state = if active { "active" } else { "deactivated" };
    say(&format!("user      {}\nstate     {state}\n", user.user.email))
}

async fn confirm_email(catalog: &Catalog, given: &ArgMatches) -> Result<()> {
    let user = user(catalog, given).await?;
    catalog.confirm_email(user.user.id).await?;
    say(&format!("user      {}\naddress   confirmed\n", user.user.email))
}

async fn set_staff(catalog: &Catalog, given: &ArgMatches, staff: bool) -> Result<()> {
    let user = user(catalog, given).await?;
    catalog.set_staff(user.user.id, staff).await?;
    let state = if staff { "yes" } else { "no" };
    say(&format!("user      {}\nstaff     {state}\n", user.user.email))
}

async fn create_key(catalog: &Catalog, given: &ArgMatches) -> Result<()> {
    let user = user(catalog, given).await?;
    let words = text(given, "scopes").split(',').map(|word| word.trim().to_owned());
    let new = NewKey {
        label: text(given, "label").to_owned(),
        scopes: Scopes::parse(words.collect()).map_err(|why| anyhow!("scopes: {why}"))?,
        scoped_teams: None,
        scoped_organizations: None,
    };
    let owner = user.user.id;
    let actor = user.current_organization.map(|organization| Actor {
        user: Some(owner),
        organization,
        project: None,
    });
    let key = catalog.create_key(&KeyKeeper { owner, key: None, actor }, new).await?;
    say(&format!("key       {}\n", key.value.unwrap_or_default()))
}

async fn list_keys(catalog: &Catalog, given: &ArgMatches) -> Result<()> {
    let wanted = match given.get_one::<String>("email") {
        Some(_) => Some(user(catalog, given).await?.user.email.to_lowercase()),
        None => None,
    };
    let window = Window { limit: KEYS_LISTED_MAX, offset: 0 };
    for (key, email) in catalog.all_keys(window).await? {
        if wanted.as_ref().is_some_and(|wanted| *wanted != email.to_lowercase()) {
            continue;
        }
        let used = key.last_used_at.map_or_else(|| "never".into(), |at| at.to_string());
        let scopes = serde_json::to_value(&key.scopes)?;
        let scopes: Vec<&str> =
            scopes.as_array().into_iter().flatten().filter_map(|scope| scope.as_str()).collect();
        let scopes = scopes.join(",");
        let (id, mask, label) = (&key.id, &key.mask_value, &key.label);
        say(&format!("{id}  {mask}  {email}  {label:?}  {scopes}  last used {used}\n"))?;
    }
    Ok(())
}

async fn list_dead_letters(catalog: &Catalog) -> Result<()> {
    let window = Window { limit: DEAD_LETTERS_LISTED_MAX, offset: 0 };
    let (letters, total) = catalog.dead_letters(None, window).await?;
    for letter in letters {
        let project = letter.team_id.map_or_else(|| "-".into(), |id| id.to_string());
        let (id, at, step, reason) = (letter.id, letter.timestamp, letter.step, letter.reason);
        let event = letter.event.unwrap_or_default();
        say(&format!("{id}  {at}  project {project}  {event:?}  {step}: {reason}\n"))?;
    }
    say(&format!("{total} dead letters\n"))
}

async fn replay_dead_letters(catalog: &Catalog, given: &ArgMatches) -> Result<()> {
    let id = given.get_one::<String>("id").map(|id| id.parse());
    let id = id.transpose().context("an id of a dead letter is a uuid")?;
    let wanted = catalog.want_replay(id).await?;
    if id.is_some() && wanted == 0 {
        bail!("there is no such dead letter that waits");
    }
    say(&format!("{wanted} dead letters will be sent again\n"))
}

async fn user(catalog: &Catalog, given: &ArgMatches) -> Result<UserRow> {
    let email = text(given, "email");
    let found = catalog.user_by_email(email).await?;
    found.with_context(|| format!("there is no user with the e-mail address {email}"))
}

/// From standard input, or made up.
fn password(given: &ArgMatches) -> Result<(Secret, bool)> {
    if !given.get_flag("password_stdin") {
        return Ok((Secret::random(""), true));
    }
    let mut text = String::new();
    std::io::stdin()
        .take(PASSWORD_BYTES_MAX)
        .read_to_string(&mut text)
        .context("cannot read the password from standard input")?;
    let password = Password::parse(text.trim_end_matches(['\r', '\n']));
    Ok((password.map_err(|why| anyhow!("the password: {why}"))?.0, false))
}

fn say_password(password: &Secret, made_up: bool) -> Result<()> {
    if made_up { say(&format!("password  {}\n", password.reveal())) } else { Ok(()) }
}

fn text<'a>(given: &'a ArgMatches, name: &str) -> &'a str {
    given.get_one::<String>(name).map_or("", String::as_str)
}
