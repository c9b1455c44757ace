//! An HTTP server whose answers a test scripts.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::Value;

/// A request to the server.
#[derive(Clone, Debug)]
pub struct Received {
    pub method: String,
    /// With the query.
    pub path: String,
    pub headers: Vec<String>,
    pub body: Vec<u8>,
}

pub struct Answer {
    pub status: u16,
    pub headers: &'static str,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn json(value: &Value) -> Self {
        Self { status: 200, headers: "", body: value.to_string().into_bytes() }
    }

    pub fn status(status: u16, headers: &'static str) -> Self {
        Self { status, headers, body: b"{\"detail\":\"scripted\"}".to_vec() }
    }
}

pub struct Scripted {
    pub address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Scripted {
    pub fn start(answer: impl Fn(&Received) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let received = Arc::<Mutex<Vec<Received>>>::default();
        let (answer, log) = (Arc::new(answer), Arc::clone(&received));
        // Ends with the test's process.
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let (answer, log) = (Arc::clone(&answer), Arc::clone(&log));
                thread::spawn(move || serve(client, &*answer, &log));
            }
        });
        Self { address, received }
    }

    pub fn base(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }
}

/// One request; the connection closes after its answer.
fn serve(mut client: TcpStream, answer: &dyn Fn(&Received) -> Answer, log: &Mutex<Vec<Received>>) {
    let mut reader = BufReader::new(client.try_clone().unwrap());
    let mut line = String::new();
    if reader.read_line(&mut line).unwrap_or(0) == 0 {
        return;
    }
    let mut words = line.split(' ').map(str::to_owned);
    let (method, path) = (words.next().unwrap(), words.next().unwrap());
    let headers: Vec<String> = reader
        .by_ref()
        .lines()
        .map_while(Result::ok)
        .take_while(|line| !line.is_empty())
        .map(|line| line.to_ascii_lowercase())
        .collect();
    let bytes = headers.iter().find_map(|line| line.strip_prefix("content-length:"));
    let mut body = vec![0; bytes.map_or(0, |text| text.trim().parse().unwrap())];
    reader.read_exact(&mut body).unwrap();
    let received = Received { method, path, headers, body };
    log.lock().unwrap().push(received.clone());
    let Answer { status, headers, body } = answer(&received);
    let head = format!(
        "HTTP/1.1 {status} Scripted\r\nConnection: close\r\nContent-Length: {}\r\n{headers}\r\n",
        body.len()
    );
    let _ = client.write_all(head.as_bytes()).and_then(|()| client.write_all(&body));
}
