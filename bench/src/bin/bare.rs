//! The baseline: an axum server that reads bodies and returns a constant.

use axum::Router;
use axum::body::Bytes;
use axum::extract::DefaultBodyLimit;
use axum::http::header::CONTENT_TYPE;
use axum::routing::{get, post};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let answer = match std::env::var("BARE_ANSWER_BYTES") {
        Ok(bytes) => "x".repeat(bytes.parse()?),
        Err(_) => r#"{"status":1}"#.to_owned(),
    };
    let answer = Bytes::from(answer);
    let take = async move |_: Bytes| ([(CONTENT_TYPE, "application/json")], answer.clone());
    let router = Router::new()
        .route("/_readyz", get(async || "ok"))
        .route("/batch/", post(take.clone()))
        .route("/flags/", post(take))
        .layer(DefaultBodyLimit::disable());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("listening on http://{}", listener.local_addr()?);
    Ok(axum::serve(listener, router).await?)
}
