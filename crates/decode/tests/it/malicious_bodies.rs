use decode::{
    Error, JsonText, Parts, Strictness, V1Encoding, decode_text, decode_v1_text, decoded_bytes_hint,
};

use crate::{elements, encoders, plain};

const BYTES_MAX: usize = 64 * 1_024;

fn text<'a>(parts: &Parts<'a>) -> Result<JsonText<'a>, Error> {
    decode_text(parts, Strictness::Strict, BYTES_MAX)
}

fn body(body: &[u8]) -> Parts<'_> {
    Parts { body, ..Parts::default() }
}

// contract: ingestion 44-47
#[test]
fn malicious_bodies_end_in_a_specific_error() {
    let zeros = vec![b' '; BYTES_MAX + 1];
    let bomb = encoders::gzip(&zeros);
    assert!(bomb.len() < BYTES_MAX / 200);
    let half = encoders::gzip(&vec![b'{'; 10_000]);
    let half = &half[..half.len() / 2];
    let mut wrong_sum = encoders::gzip(b"{}");
    let sum_at = wrong_sum.len() - 8;
    wrong_sum[sum_at] ^= 1;
    let many_bombs = encoders::two_gzip_members(&zeros);
    let lz_bomb = encoders::lz64(&" ".repeat(BYTES_MAX / 8));
    let lz_wide = encoders::lz64(&"€".repeat(BYTES_MAX / 2));
    let deep = "[".repeat(50_000);
    let deep_in_event = format!(r#"[{{"event":"e","properties":{}}}]"#, "{\"a\":".repeat(10_000));
    let deep_ignored = format!(r#"{{"event":"e","x":{}1{}}}"#, "[".repeat(150), "]".repeat(150));
    let zlib_bomb = encoders::zlib(&zeros);
    let br_bomb = encoders::brotli(&zeros);
    let zstd_bomb = encoders::zstd(&zeros);
    let encoded = |bytes, coding| Parts { content_encoding: Some(coding), ..body(bytes) };
    let half_br = &br_bomb[..br_bomb.len() / 2];
    let half_zstd = &zstd_bomb[..zstd_bomb.len() / 2];
    let zstd_window = b"\x28\xb5\x2f\xfd\x00\xff\x01\x00\x00";
    let hinted = Parts { query: "compression=lz64", ..Parts::default() };

    for (name, parts, expected) in [
        ("gzip bomb", body(&bomb), Error::TooLarge),
        ("bomb of two members", body(&many_bombs), Error::TooLarge),
        ("base64 of a bomb", body(&encoders::base64(&bomb)), Error::TooLarge),
        ("zlib bomb", encoded(&zlib_bomb, "deflate"), Error::TooLarge),
        ("brotli bomb", encoded(&br_bomb, "br"), Error::TooLarge),
        ("zstd bomb", encoded(&zstd_bomb, "zstd"), Error::TooLarge),
        ("lz bomb", Parts { body: &lz_wide, ..hinted }, Error::TooLarge),
        ("plain but too long", body(&zeros), Error::TooLarge),
        ("half a gzip", body(half), Error::Encoding("gzip")),
        ("gzip header alone", body(b"\x1f\x8b\x08"), Error::Encoding("gzip")),
        ("gzip with a wrong sum", body(&wrong_sum), Error::Encoding("gzip")),
        ("half a brotli", encoded(half_br, "br"), Error::Encoding("brotli")),
        ("half a zstd", encoded(half_zstd, "zstd"), Error::Encoding("zstd")),
        ("zstd with a huge window", encoded(zstd_window, "zstd"), Error::Encoding("zstd")),
        ("not deflate", encoded(b"{}", "deflate"), Error::Encoding("deflate")),
        ("not lz", Parts { body: b"x y", ..hinted }, Error::Encoding("lz-string")),
        ("deep", plain(&deep), Error::TooDeep),
        ("deep properties", plain(&deep_in_event), Error::TooDeep),
        ("deep unknown member", plain(&deep_ignored), Error::TooDeep),
        ("form without data", plain("compression=gzip&ip=1"), Error::Form),
        ("base64 that breaks off", plain("eyJhIjoxfQ=a"), Error::Encoding("base64")),
        (
            "base64 with strange digits",
            plain(&format!("{}!", "A".repeat(199))),
            Error::Encoding("base64"),
        ),
        ("base64 of no text", plain("////"), Error::Utf8),
        ("nothing", plain(""), Error::Empty),
        ("blanks", plain(" \n "), Error::Empty),
    ] {
        let outcome = text(&parts).and_then(|text| elements(&text));
        assert_eq!(outcome.err(), Some(expected), "{name}");
    }
    let blanks = text(&Parts { body: &lz_bomb, ..hinted });
    assert_eq!(blanks.err(), Some(Error::Empty), "a long lz text within the bound");
    let v1 = decode_v1_text(&bomb, V1Encoding::Gzip, BYTES_MAX);
    assert_eq!(v1.err(), Some(Error::TooLarge));
}

#[test]
fn wrapper_object_is_unwrapped_once() {
    let inner = r#"{"data":"e30="}"#;
    let body = serde_json::json!({ "data": inner }).to_string();
    assert_eq!(text(&plain(&body)).unwrap().as_str(), inner);
}

#[test]
fn forged_gzip_size_is_neither_trusted_nor_fatal() {
    let mut gzip = encoders::gzip(b"{\"event\":\"e\"}");
    let size_at = gzip.len() - 4;
    gzip[size_at..].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(decoded_bytes_hint(&body(&gzip), BYTES_MAX) <= gzip.len() * 1_032);
    assert_eq!(text(&body(&gzip)).err(), Some(Error::Encoding("gzip")));
}

#[test]
fn unusual_json_spelling_is_preserved() {
    let digits = "9".repeat(5_000);
    for json in [
        r#"{"event":"e","properties":{"n":1e400,"n":-0.0}}"#.to_owned(),
        format!(r#"{{"event":"e","properties":{{"n":{digits}}}}}"#),
        r#"{"event":"e","properties":{"a&data=b":"c&_=1"}}"#.to_owned(),
    ] {
        let text = text(&plain(&json)).unwrap();
        assert_eq!(text.as_str(), json);
        assert_eq!(elements(&text).unwrap().len(), 1);
    }
    let keys = text(&plain(r#"{"\ud800":1,"\udc00\ud800":2}"#)).unwrap();
    assert_eq!(keys.as_str(), r#"{"\ufffd":1,"\ufffd\ufffd":2}"#);
}
