//! The reference: an axum server that reads bodies and does nothing with them.

use axum::Router;
use axum::body::Bytes;
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let take = async |_: Bytes| r#"{"status":1}"#;
    let router = Router::new()
        .route("/_readyz", get(async || "ok"))
        .route("/batch/", post(take))
        .layer(DefaultBodyLimit::disable());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("listening on http://{}", listener.local_addr()?);
    Ok(axum::serve(listener, router).await?)
}
