//! Writes MaxMind DB files, as far as tests need it.

use std::net::Ipv4Addr;

use serde_json::{Value, json};

const NODE_BYTES: usize = 6;
/// Depth of the IPv4 subtree in an IPv6 tree.
const V4_DEPTH: u32 = 96;

#[derive(Clone, Copy)]
enum Child {
    Nothing,
    Node(usize),
    /// Offset of its record.
    Record(usize),
}

pub fn database(networks: &[(&str, u32, Value)]) -> Vec<u8> {
    let mut nodes = vec![[Child::Nothing; 2]];
    let mut records = Vec::new();
    for (address, bits, record) in networks {
        let start = records.len();
        encode(record, &mut records);
        let address = u128::from(u32::from(address.parse::<Ipv4Addr>().unwrap()));
        insert(&mut nodes, address, V4_DEPTH + bits, start);
    }
    let mut file = Vec::with_capacity(nodes.len() * NODE_BYTES);
    for child in nodes.iter().flatten() {
        let value = match *child {
            Child::Nothing => nodes.len(),
            Child::Node(node) => node,
            Child::Record(start) => nodes.len() + 16 + start,
        };
        file.extend_from_slice(&(value as u32).to_be_bytes()[1..]);
    }
    file.extend_from_slice(&[0; 16]);
    file.append(&mut records);
    file.extend_from_slice(b"\xAB\xCD\xEFMaxMind.com");
    let about = json!({
        "binary_format_major_version": 2,
        "binary_format_minor_version": 0,
        "build_epoch": 1_700_000_000,
        "database_type": "Test",
        "description": { "en": "Test" },
        "ip_version": 6,
        "languages": ["en"],
        "node_count": nodes.len(),
        "record_size": 24,
    });
    encode(&about, &mut file);
    file
}

fn insert(nodes: &mut Vec<[Child; 2]>, address: u128, depth: u32, record: usize) {
    let mut node = 0;
    for level in 0..depth - 1 {
        let side = (address >> (127 - level) & 1) as usize;
        node = match nodes[node][side] {
            Child::Node(next) => next,
            _ => {
                nodes.push([Child::Nothing; 2]);
                let next = nodes.len() - 1;
                nodes[node][side] = Child::Node(next);
                next
            }
        };
    }
    nodes[node][(address >> (128 - depth) & 1) as usize] = Child::Record(record);
}

fn encode(value: &Value, out: &mut Vec<u8>) {
    let [string, double, map, array] = [2, 3, 7, 11];
    match value {
        Value::String(text) => {
            control(string, text.len(), out);
            out.extend_from_slice(text.as_bytes());
        }
        Value::Number(number) => match number.as_u64() {
            Some(number) => unsigned(number, 2, out),
            None => {
                control(double, 8, out);
                out.extend_from_slice(&number.as_f64().unwrap().to_be_bytes());
            }
        },
        Value::Object(fields) => {
            control(map, fields.len(), out);
            for (name, value) in fields {
                encode(&Value::from(name.as_str()), out);
                match name.as_str() {
                    "node_count" => unsigned(value.as_u64().unwrap(), 4, out),
                    "build_epoch" => unsigned(value.as_u64().unwrap(), 8, out),
                    _ => encode(value, out),
                }
            }
        }
        Value::Array(items) => {
            control(array, items.len(), out);
            items.iter().for_each(|item| encode(item, out));
        }
        Value::Null | Value::Bool(_) => unreachable!("no record has one"),
    }
}

fn unsigned(number: u64, bytes: usize, out: &mut Vec<u8>) {
    let kind = match bytes {
        2 => 5,
        4 => 6,
        _ => 9,
    };
    control(kind, bytes, out);
    out.extend_from_slice(&number.to_be_bytes()[8 - bytes..]);
}

fn control(kind: u8, len: usize, out: &mut Vec<u8>) {
    assert!(len < 29, "longer values need more bytes of length");
    match kind {
        1..=7 => out.push(kind << 5 | len as u8),
        _ => out.extend_from_slice(&[len as u8, kind - 7]),
    }
}
