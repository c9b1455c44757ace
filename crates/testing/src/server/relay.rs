//! A TCP proxy to PostgreSQL or ClickHouse that can drop its connections, or freeze.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

pub struct Relay {
    pub address: SocketAddr,
    wire: Arc<Mutex<Wire>>,
}

#[derive(Default)]
struct Wire {
    cut: bool,
    frozen: bool,
    streams: Vec<TcpStream>,
}

impl Relay {
    pub fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let wire = Arc::<Mutex<Wire>>::default();
        let shared = Arc::clone(&wire);
        // Ends with the test's process.
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let mut wire = shared.lock().unwrap();
                if wire.cut {
                    continue;
                }
                let Ok(server) = TcpStream::connect(server) else { continue };
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let shared = Arc::clone(&shared);
                    thread::spawn(move || copy(from, to, &shared));
                }
                wire.streams.extend([client, server]);
            }
        });
        Self { address, wire }
    }

    pub fn cut(&self) {
        let mut wire = self.wire.lock().unwrap();
        wire.cut = true;
        for stream in wire.streams.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    pub fn restore(&self) {
        self.wire.lock().unwrap().cut = false;
    }

    /// Connections stay open and new ones are accepted, but nothing arrives until it thaws.
    pub fn freeze(&self) {
        self.wire.lock().unwrap().frozen = true;
    }

    pub fn thaw(&self) {
        self.wire.lock().unwrap().frozen = false;
    }
}

fn copy(mut from: TcpStream, mut to: TcpStream, wire: &Mutex<Wire>) -> io::Result<()> {
    let mut buffer = [0; 16 << 10];
    loop {
        let read = from.read(&mut buffer)?;
        while wire.lock().unwrap().frozen {
            thread::sleep(Duration::from_millis(5));
        }
        if read == 0 {
            return to.shutdown(Shutdown::Write);
        }
        to.write_all(&buffer[..read])?;
    }
}
