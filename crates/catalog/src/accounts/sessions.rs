//! Browser sessions: the cookie holds a random value, the catalog its hash.

use model::UserId;

use super::Sessions;
use super::users::{self, UserRow};
use crate::Result;
use crate::db::args;
use crate::db::secret::{Secret, hash_token};

/// A further login ends the oldest session.
const SESSIONS_PER_USER_MAX: i64 = 100;
/// A further network evicts the least recently used one.
const NETWORKS_PER_USER_MAX: i64 = 20;

/// Networks are hashed, so that the catalog does not reveal where users log in from.
fn network_hash(network: &str) -> String {
    hash_token(&format!("login-network:{network}"))
}

impl Sessions<'_> {
    pub async fn create(self, user: UserId, seconds: i64) -> Result<Secret> {
        let now = self.core.clock.now();
        let value = Secret::random("");
        let mut tx = self.core.db.begin().await?;
        tx.run("DELETE FROM sessions WHERE expires_at <= $1", args![now]).await?;
        tx.run(
            "INSERT INTO sessions (hash, user_id, created_at, expires_at) VALUES ($1, $2, $3, $4)",
            args![value.hash(), user, now, now.plus_seconds(seconds)],
        )
        .await?;
        tx.run(
            "DELETE FROM sessions WHERE user_id = $1 AND hash NOT IN (SELECT hash FROM sessions \
             WHERE user_id = $1 ORDER BY created_at DESC, hash = $2 DESC LIMIT $3)",
            args![user, value.hash(), SESSIONS_PER_USER_MAX],
        )
        .await?;
        tx.run("UPDATE users SET last_login = $2 WHERE id = $1", args![user, now]).await?;
        tx.commit().await?;
        Ok(value)
    }

    /// Whether the account with this email address has logged in from this network before. Runs one
    /// statement whether or not the account exists, against timing attacks.
    pub async fn knows_network(self, email: &str, network: &str) -> Result<bool> {
        let sql = "SELECT 1 AS known FROM login_networks n JOIN users u ON u.id = n.user_id \
                   WHERE u.email_lower = $1 AND n.network_hash = $2";
        let values = args![email.to_lowercase(), network_hash(network)];
        Ok(self.core.db.optional(sql, values).await?.is_some())
    }

    /// Records a login from this network.
    pub async fn record_network(self, user: UserId, network: &str) -> Result<()> {
        let mut tx = self.core.db.begin().await?;
        tx.run(
            "INSERT INTO login_networks (user_id, network_hash, last_at) VALUES ($1, $2, $3) \
             ON CONFLICT (user_id, network_hash) DO UPDATE SET last_at = EXCLUDED.last_at",
            args![user, network_hash(network), self.core.clock.now()],
        )
        .await?;
        tx.run(
            "DELETE FROM login_networks WHERE user_id = $1 AND network_hash NOT IN \
             (SELECT network_hash FROM login_networks WHERE user_id = $1 \
             ORDER BY last_at DESC, network_hash = $2 DESC LIMIT $3)",
            args![user, network_hash(network), NETWORKS_PER_USER_MAX],
        )
        .await?;
        tx.commit().await
    }

    /// The session's user; none if it has expired or the user is deactivated.
    pub async fn user(self, value: &Secret) -> Result<Option<UserRow>> {
        let sql = format!(
            "SELECT {} FROM sessions s JOIN users u ON u.id = s.user_id \
             WHERE s.hash = $1 AND s.expires_at > $2 AND u.is_active",
            users::columns()
        );
        let row = self.core.db.optional(sql, args![value.hash(), self.core.clock.now()]).await?;
        row.as_ref().map(UserRow::read).transpose()
    }

    pub async fn delete(self, value: &Secret) -> Result<()> {
        let mut tx = self.core.db.begin().await?;
        tx.run("DELETE FROM sessions WHERE hash = $1", args![value.hash()]).await?;
        tx.commit().await
    }
}
