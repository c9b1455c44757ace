//! `hedgerow admin`: management of users, keys and dead letters without a password. Whoever can read
//! the data directory is the operator.

use std::io::Read as _;

use anyhow::{Context as _, Result, anyhow, bail};
use catalog::{
    Actor, Catalog, KeyEditor, NewKey, NewPassword, NewUser, Secret, UserChange, UserRow,
    hash_password,
};
use clap::ArgMatches;
use model::scope::Scopes;
use model::{Clock, MembershipLevel, Window};

use crate::cli::print;
use crate::data_dir::{self, DataDir};
use crate::serve;
use crate::settings::Settings;
use crate::values::{Email, Password, SettingValue as _};

const PASSWORD_BYTES_MAX: u64 = 8 << 10;
/// `--email` narrows the list.
const KEYS_LISTED_MAX: i64 = 10_000;
/// The newest; the total is printed as well.
const DEAD_LETTERS_LISTED_MAX: i64 = 1_000;

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn run(name: &str, args: &ArgMatches, settings: &Settings) -> Result<()> {
    let data_dir = DataDir::attach(settings)?;
    let vault = data_dir.vault(settings)?;
    let file = data_dir.catalog_file();
    let catalog =
        Catalog::join(data_dir::catalog_location(settings, &file), vault, Clock::system())
            .await
            .context("cannot open the catalog")?;
    let outcome = match name {
        "create-user" => create_user(&catalog, args).await,
        "reset-password" => reset_password(&catalog, args).await,
        "deactivate-user" => set_active(&catalog, args, false).await,
        "activate-user" => set_active(&catalog, args, true).await,
        "confirm-email" => confirm_email(&catalog, args).await,
        "grant-staff" => set_staff(&catalog, args, true).await,
        "revoke-staff" => set_staff(&catalog, args, false).await,
        "setup-link" => create_setup_link(&catalog, args, settings).await,
        "create-key" => create_key(&catalog, args).await,
        "list-dead-letters" => list_dead_letters(&catalog).await,
        "replay-dead-letters" => replay_dead_letters(&catalog, args).await,
        _ => list_keys(&catalog, args).await,
    };
    catalog.close().await;
    outcome
}

async fn create_user(catalog: &Catalog, args: &ArgMatches) -> Result<()> {
    let email = Email::parse(text(args, "email")).map_err(|why| anyhow!(why))?;
    if catalog.users().by_email(&email.0).await?.is_some() {
        bail!("there is already an account with this e-mail address");
    }
    let (password, generated) = password(args)?;
    let level = match text(args, "level") {
        "owner" => MembershipLevel::Owner,
        "admin" => MembershipLevel::Admin,
        _ => MembershipLevel::Member,
    };
    let new = NewUser {
        email: email.0,
        first_name: text(args, "first_name").to_owned(),
        password_hash: Some(hash_password(password.reveal())?),
    };
    let organization = catalog.organizations().first().await?;
    let actor = Actor { user: None, organization, project: None };
    let member = catalog.members().add(&actor, new, level).await?;
    print(&format!("user      {}\n", member.user.email))?;
    print_password(&password, generated)
}

async fn reset_password(catalog: &Catalog, args: &ArgMatches) -> Result<()> {
    let user = user(catalog, args).await?;
    let (password, generated) = password(args)?;
    let change = NewPassword { hash: hash_password(password.reveal())?, keep_session: None };
    catalog
        .users()
        .update(user.user.id, UserChange { password: Some(change), ..UserChange::default() })
        .await?;
    print(&format!("user      {}\n", user.user.email))?;
    print_password(&password, generated)
}

/// Without `--email`, for the oldest account of the instance's staff.
async fn create_setup_link(
    catalog: &Catalog,
    args: &ArgMatches,
    settings: &Settings,
) -> Result<()> {
    let user =
        match args.contains_id("email") {
            true => user(catalog, args).await?,
            false => catalog.users().first_staff().await?.context(
                "the instance has no active account of its staff; name a user with --email",
            )?,
        };
    let email = &user.user.email;
    if !user.is_active {
        bail!("{email} is deactivated; `hedgerow admin activate-user` reactivates the account");
    }
    let link = catalog.setup_links().create(user.user.id).await?;
    let url = serve::url(settings.listen, &api::setup_path(&link));
    print(&format!("user      {email}\nexpires   {}\nlink      {url}\n", link.expires_at))
}

async fn set_active(catalog: &Catalog, args: &ArgMatches, active: bool) -> Result<()> {
    let user = user(catalog, args).await?;
    catalog.users().set_active(user.user.id, active).await?;
    let state = if active { "active" } else { "deactivated" };
    print(&format!("user      {}\nstate     {state}\n", user.user.email))
}

async fn confirm_email(catalog: &Catalog, args: &ArgMatches) -> Result<()> {
    let user = user(catalog, args).await?;
    catalog.users().confirm_email(user.user.id).await?;
    print(&format!("user      {}\naddress   confirmed\n", user.user.email))
}

async fn set_staff(catalog: &Catalog, args: &ArgMatches, staff: bool) -> Result<()> {
    let user = user(catalog, args).await?;
    catalog.users().set_staff(user.user.id, staff).await?;
    let state = if staff { "yes" } else { "no" };
    print(&format!("user      {}\nstaff     {state}\n", user.user.email))
}

async fn create_key(catalog: &Catalog, args: &ArgMatches) -> Result<()> {
    let user = user(catalog, args).await?;
    let words = text(args, "scopes").split(',').map(|word| word.trim().to_owned());
    let new = NewKey {
        label: text(args, "label").to_owned(),
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
    let key = catalog.keys().create(&KeyEditor { owner, key: None, actor }, new).await?;
    print(&format!("key       {}\n", key.value.unwrap_or_default()))
}

async fn list_keys(catalog: &Catalog, args: &ArgMatches) -> Result<()> {
    let owner = match args.get_one::<String>("email") {
        Some(_) => Some(user(catalog, args).await?.user.email.to_lowercase()),
        None => None,
    };
    let window = Window { limit: KEYS_LISTED_MAX, offset: 0 };
    for (key, email) in catalog.keys().list_all(window).await? {
        if owner.as_ref().is_some_and(|owner| *owner != email.to_lowercase()) {
            continue;
        }
        let used = key.last_used_at.map_or_else(|| "never".into(), |at| at.to_string());
        let scopes = serde_json::to_value(&key.scopes)?;
        let scopes: Vec<&str> =
            scopes.as_array().into_iter().flatten().filter_map(|scope| scope.as_str()).collect();
        let scopes = scopes.join(",");
        let (id, mask, label) = (&key.id, &key.mask_value, &key.label);
        print(&format!("{id}  {mask}  {email}  {label:?}  {scopes}  last used {used}\n"))?;
    }
    Ok(())
}

async fn list_dead_letters(catalog: &Catalog) -> Result<()> {
    let window = Window { limit: DEAD_LETTERS_LISTED_MAX, offset: 0 };
    let (letters, total) = catalog.dead_letters().list(None, window).await?;
    for letter in letters {
        let project = letter.team_id.map_or_else(|| "-".into(), |id| id.to_string());
        let (id, at, step, reason) = (letter.id, letter.timestamp, letter.step, letter.reason);
        let event = letter.event.unwrap_or_default();
        print(&format!("{id}  {at}  project {project}  {event:?}  {step}: {reason}\n"))?;
    }
    print(&format!("{total} dead letters\n"))
}

async fn replay_dead_letters(catalog: &Catalog, args: &ArgMatches) -> Result<()> {
    let id = args.get_one::<String>("id").map(|id| id.parse());
    let id = id.transpose().context("the id of a dead letter is a uuid")?;
    let marked = catalog.dead_letters().request_replay(id).await?;
    if id.is_some() && marked == 0 {
        bail!("there is no such dead letter, or it is replayed already");
    }
    print(&format!("{marked} dead letters will be replayed\n"))
}

async fn user(catalog: &Catalog, args: &ArgMatches) -> Result<UserRow> {
    let email = text(args, "email");
    let user = catalog.users().by_email(email).await?;
    user.with_context(|| format!("there is no user with the e-mail address {email}"))
}

/// From standard input or generated; true if generated.
fn password(args: &ArgMatches) -> Result<(Secret, bool)> {
    if !args.get_flag("password_stdin") {
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

fn print_password(password: &Secret, generated: bool) -> Result<()> {
    if generated { print(&format!("password  {}\n", password.reveal())) } else { Ok(()) }
}

fn text<'a>(args: &'a ArgMatches, name: &str) -> &'a str {
    args.get_one::<String>(name).map_or("", String::as_str)
}
