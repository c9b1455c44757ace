//! HTTP servers that answer as they are told: with ClickHouse's exceptions, or with what a real server
//! answers, which they lose on its way.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Requests that a test may leave unread.
const REQUESTS_MAX: usize = 1_000;

pub struct Request {
    /// First line and headers.
    pub head: String,
    pub body: Vec<u8>,
}

pub enum Answer {
    /// Status, further header lines, body.
    Status(u16, String, Vec<u8>),
    /// A body that is cut after these bytes.
    Cut(Vec<u8>),
    /// What the real server answers.
    Forward,
    /// The real server has the request, but nobody hears its answer.
    Lose,
    /// Nothing, until the client goes.
    Freeze,
}

impl Answer {
    pub fn exception(status: u16, code: u32, text: &str) -> Self {
        let text = format!("Code: {code}. DB::Exception: {text} (version 26.9.2.1)\n");
        let header = format!("X-ClickHouse-Exception-Code: {code}\r\n");
        Self::Status(status, header, text.into_bytes())
    }
}

/// Answers each request on a connection of its own, as `answer` says by its number.
pub fn serve(
    real: Option<String>,
    mut answer: impl FnMut(usize, &Request) -> Answer + Send + 'static,
) -> (String, Receiver<Request>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (send, requests): (SyncSender<Request>, _) = sync_channel(REQUESTS_MAX);
    // Ends with the test's process.
    std::thread::spawn(move || {
        for no in 0.. {
            let (mut connection, _) = listener.accept().unwrap();
            let Some(request) = read_request(&connection) else { continue };
            match answer(no, &request) {
                Answer::Status(status, headers, body) => {
                    respond(&mut connection, status, &headers, body.len(), &body);
                }
                Answer::Cut(body) => respond(&mut connection, 200, "", body.len() + 1_000, &body),
                Answer::Forward => {
                    let response = forward(real.as_deref().unwrap(), &request);
                    let _ = connection.write_all(&response);
                }
                Answer::Lose => {
                    forward(real.as_deref().unwrap(), &request);
                }
                Answer::Freeze => {
                    let _ = connection.read(&mut [0]);
                }
            }
            let _ = connection.shutdown(Shutdown::Both);
            if send.send(request).is_err() {
                return;
            }
        }
    });
    (format!("http://ann:s3cret@{address}/stats"), requests)
}

fn read_request(connection: &TcpStream) -> Option<Request> {
    let mut reader = BufReader::new(connection);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).unwrap_or(0) == 0 {
            return None;
        }
    }
    let length =
        |line: &str| line.to_lowercase().strip_prefix("content-length:")?.trim().parse().ok();
    let length: usize = head.lines().find_map(length).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Request { head, body })
}

fn respond(connection: &mut TcpStream, status: u16, headers: &str, length: usize, body: &[u8]) {
    let head = format!(
        "HTTP/1.1 {status} Said\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    // The client may have gone.
    let _ = connection.write_all(head.as_bytes()).and_then(|()| connection.write_all(body));
}

fn forward(real: &str, request: &Request) -> Vec<u8> {
    let address = real.split_once("://").unwrap().1;
    let address = address.rsplit('@').next().unwrap().split('/').next().unwrap();
    let mut connection = TcpStream::connect(address).unwrap();
    let head = request.head.replace(" HTTP/1.1\r\n", " HTTP/1.0\r\n");
    connection.write_all(head.as_bytes()).unwrap();
    connection.write_all(&request.body).unwrap();
    let mut response = Vec::new();
    connection.read_to_end(&mut response).unwrap();
    // Otherwise the client keeps a connection that this server closes, and meets its end at any request.
    let status_line = response.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    response.splice(status_line..status_line, *b"Connection: close\r\n");
    response
}
