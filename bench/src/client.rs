//! A client that sends one request at a time.

use anyhow::{Result, ensure};
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::load::{answer, get, post};
use crate::server_process::{PERSONAL_KEY, ServerProcess};

/// A keep-alive connection.
pub struct Client {
    stream: TcpStream,
    body: Vec<u8>,
}

impl Client {
    pub async fn new(server: &ServerProcess) -> Result<Self> {
        let stream = TcpStream::connect(server.address()).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, body: Vec::new() })
    }

    pub async fn get(&mut self, path: &str) -> Result<&[u8]> {
        self.ask(&get(path, &authorization())).await
    }

    pub async fn post(&mut self, path: &str, body: &Value) -> Result<&[u8]> {
        self.ask(&post(path, &authorization(), body.to_string().as_bytes())).await
    }

    pub async fn json(&mut self, path: &str, body: &Value) -> Result<Value> {
        Ok(serde_json::from_slice(self.post(path, body).await?)?)
    }

    /// The body of a 200 response.
    pub async fn ask(&mut self, request: &[u8]) -> Result<&[u8]> {
        self.stream.write_all(request).await?;
        let status = answer(&mut self.stream, &mut self.body).await?;
        ensure!(status < 300, "answered {status}: {}", String::from_utf8_lossy(&self.body));
        Ok(&self.body)
    }
}

fn authorization() -> String {
    format!("Authorization: Bearer {PERSONAL_KEY}\r\n")
}
