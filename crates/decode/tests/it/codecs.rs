use decode::{Parts, V1Encoding, decode_v1_text};
use proptest::collection::{hash_map, vec};
use proptest::prelude::*;
use serde_json::Value;

use crate::{BYTES_MAX, encoders, text};

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[^\u{0}]{0,20}".prop_map(Value::from),
    ];
    let tree = leaf.prop_recursive(4, 64, 8, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..8).prop_map(Value::from),
            hash_map("[^\u{0}]{0,8}", inner, 0..8)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    });
    // An object with only `data` would count as a wrapper.
    hash_map("[a-c]{1,3}", tree, 0..8)
        .prop_map(|members| Value::Object(members.into_iter().collect()))
}

proptest! {
    // contract: ingestion 33-43, 48
    #[test]
    fn json_comes_back_equal_through_every_encoding(value in json()) {
        let sent = value.to_string();
        let plain = sent.as_bytes();
        let base64 = encoders::base64(plain);
        let wrapped = serde_json::json!({ "data": String::from_utf8_lossy(&base64) }).to_string();
        let query = |data: &[u8]| format!("data={}", String::from_utf8_lossy(&encoders::percent(data)));
        let url_safe = query(plain_url_safe(&base64).as_bytes());
        let pixel = query(plain);
        let lz = encoders::lz64(&sent);
        let bodies: Vec<(&str, Parts<'_>, Vec<u8>)> = vec![
            ("plain", Parts::default(), plain.to_vec()),
            ("byte order mark", Parts::default(), [b"\xef\xbb\xbf", plain].concat()),
            ("gzip", Parts::default(), encoders::gzip(plain)),
            ("two gzip members", Parts::default(), encoders::two_gzip_members(plain)),
            ("gzip in gzip", header("gzip"), encoders::gzip(&encoders::gzip(plain))),
            ("gzip named gzip", header("gzip"), encoders::gzip(plain)),
            ("plain named gzip", header("gzip"), plain.to_vec()),
            ("unknown coding", header("compress"), plain.to_vec()),
            ("zlib", header("deflate"), encoders::zlib(plain)),
            ("raw deflate", header("Deflate"), encoders::raw_deflate(plain)),
            ("brotli", header("br"), encoders::brotli(plain)),
            ("zstd", header("zstd"), encoders::zstd(plain)),
            ("base64", Parts::default(), base64.clone()),
            ("base64 of gzip", Parts::default(), encoders::base64(&encoders::gzip(plain))),
            ("lz64", hint("compression=lz64"), lz.clone()),
            ("plain named lz64", hint("compression=lz-string"), plain.to_vec()),
            ("form", Parts::default(), encoders::form(&encoders::percent(plain))),
            ("form, gzip", Parts::default(), encoders::form(&encoders::percent(&encoders::gzip(plain)))),
            ("gzip named form", form_type(), encoders::gzip(plain)),
            ("plain named form", form_type(), plain.to_vec()),
            ("form, base64, raw plus", Parts::default(), encoders::form(&base64)),
            ("form, lz64", hint("compression=LZ64"), encoders::form(&lz)),
            ("wrapped", Parts::default(), wrapped.into_bytes()),
            ("pixel", hint(&pixel), Vec::new()),
            ("pixel, url-safe base64", hint(&url_safe), Vec::new()),
        ];
        for (name, parts, body) in &bodies {
            let decoded = text(&Parts { body, ..*parts });
            prop_assert!(decoded.is_ok(), "{}: {:?}", name, decoded);
            let decoded: Value = serde_json::from_str(decoded.unwrap().as_str()).unwrap();
            prop_assert_eq!(&decoded, &value, "{}", name);
        }
        for (encoding, body) in [
            (V1Encoding::Identity, plain.to_vec()),
            (V1Encoding::Gzip, encoders::gzip(plain)),
            (V1Encoding::Deflate, encoders::zlib(plain)),
            (V1Encoding::Brotli, encoders::brotli(plain)),
            (V1Encoding::Zstd, encoders::zstd(plain)),
        ] {
            let decoded = decode_v1_text(&body, encoding, BYTES_MAX).unwrap();
            prop_assert_eq!(decoded.as_str(), &sent);
        }
    }

    #[test]
    fn no_bytes_make_the_ladder_panic(
        body in vec(any::<u8>(), 0..300),
        query in "(data|compression|_|token|x)=[a-z0-9%+=]{0,20}",
        encoding in prop_oneof![Just("gzip"), Just("deflate"), Just("br"), Just("zstd"), Just("lz64")],
    ) {
        let content_encoding = Some(encoding);
        let _ = text(&Parts { query: &query, content_encoding, body: &body, ..Parts::default() });
        let _ = text(&Parts { body: &body, ..Parts::default() });
    }
}

fn header(content_encoding: &str) -> Parts<'_> {
    Parts { content_encoding: Some(content_encoding), ..Parts::default() }
}

fn form_type() -> Parts<'static> {
    Parts { content_type: Some("application/x-www-form-urlencoded"), ..Parts::default() }
}

fn hint(query: &str) -> Parts<'_> {
    Parts { query, ..Parts::default() }
}

fn plain_url_safe(base64: &[u8]) -> String {
    String::from_utf8_lossy(base64).replace('+', "-").replace('/', "_").replace('=', "")
}
