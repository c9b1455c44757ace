//! Script for posthog-rs: `journey HOST JOURNEY`. Prints the SDK's results as JSON.

use std::collections::HashMap;
use std::error::Error;
use std::sync::{Arc, Mutex};

use posthog_rs::{
    CaptureCompression, Client, ClientOptionsBuilder, EvaluateFlagsOptions, Event,
    FeatureFlagEvaluations,
};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader, stdin};
use uuid::{Uuid, uuid};

const UUID: Uuid = uuid!("018dfa00-0000-7000-8000-000000000001");

type Done<T = ()> = Result<T, Box<dyn Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Done {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [host, journey] = &arguments[..] else { return Err("journey HOST JOURNEY".into()) };
    match journey.as_str() {
        "plain" => capture(Sdk::new(host, |_| {}).await?).await,
        "at once" => at_once(Sdk::new(host, |_| {}).await?).await,
        "batch" => batch(Sdk::new(host, |_| {}).await?).await,
        "many" => many(Sdk::new(host, patient).await?).await,
        "flags" => flags(host).await,
        other => match compression(other) {
            Some(by) => {
                let compressed = |options: &mut ClientOptionsBuilder| {
                    options.capture_compression(by);
                };
                capture(Sdk::new(host, compressed).await?).await
            }
            None => Err(format!("no journey is called {other}").into()),
        },
    }
}

fn compression(name: &str) -> Option<CaptureCompression> {
    Some(match name {
        "gzip" => CaptureCompression::Gzip,
        "deflate" => CaptureCompression::Deflate,
        "br" => CaptureCompression::Br,
        "zstd" => CaptureCompression::Zstd,
        _ => return None,
    })
}

struct Sdk {
    client: Client,
    failures: Arc<Mutex<Vec<String>>>,
}

impl Sdk {
    async fn new(host: &str, more: impl FnOnce(&mut ClientOptionsBuilder)) -> Done<Self> {
        let failures = Arc::<Mutex<Vec<String>>>::default();
        let heard = Arc::clone(&failures);
        let mut options = ClientOptionsBuilder::default();
        options.api_key("phc_test".into()).host(host).flush_interval_ms(100);
        options.on_error(move |why| heard.lock().unwrap().push(format!("{why:?}")));
        more(&mut options);
        Ok(Self { client: posthog_rs::client(options.build()?).await, failures })
    }

    async fn finish(self, answer: Value) -> Done {
        self.client.shutdown().await;
        println!("{}", json!({ "failures": *self.failures.lock().unwrap(), "answer": answer }));
        Ok(())
    }
}

fn event(name: &str, distinct_id: &str, properties: Value) -> Done<Event> {
    let mut made = Event::new(name, distinct_id);
    for (key, value) in properties.as_object().into_iter().flatten() {
        made.insert_prop(key, value)?;
    }
    Ok(made)
}

/// Events for what the SDK has no method for.
fn events() -> Done<Vec<Event>> {
    let identify = json!({ "$anon_distinct_id": "visitor", "$set": { "plan": "free" } });
    let mut bought = event("bought", "anna", json!({ "amount": 9.5 }))?;
    bought.add_group("company", "acme");
    let mut dated = event("dated", "anna", json!({}))?;
    dated.set_uuid(UUID);
    let noon = chrono::DateTime::parse_from_rfc3339("2024-02-29T12:30:00Z")?;
    dated.set_timestamp(noon)?;
    let once = json!({ "plan": "ignored", "first": 1 });
    Ok(vec![
        event("looked", "visitor", json!({ "page": "/" }))?,
        event("$identify", "anna", identify)?,
        bought,
        event("$set", "anna", json!({ "$set": { "plan": "paid" } }))?,
        event("$set", "anna", json!({ "$set_once": once }))?,
        dated,
        Event::new_anon("nobody's"),
    ])
}

async fn capture(sdk: Sdk) -> Done {
    for event in events()? {
        sdk.client.capture(event);
    }
    sdk.client.alias("laptop", "anna");
    sdk.client.group_identify("company", "acme", json!({ "seats": 12 }))?;
    sdk.client.flush().await;
    sdk.finish(Value::Null).await
}

async fn at_once(sdk: Sdk) -> Done {
    for event in events()? {
        sdk.client.capture_immediate(event).await?;
    }
    sdk.client.alias("laptop", "anna");
    sdk.client.group_identify("company", "acme", json!({ "seats": 12 }))?;
    sdk.finish(Value::Null).await
}

async fn batch(sdk: Sdk) -> Done {
    sdk.client.capture_batch(events()?, true);
    sdk.client.alias("laptop", "anna");
    sdk.client.group_identify("company", "acme", json!({ "seats": 12 }))?;
    sdk.finish(Value::Null).await
}

fn patient(options: &mut ClientOptionsBuilder) {
    options.flush_at(5).max_capture_attempts(60).retry_max_backoff_ms(200);
}

/// Sends events while the server is restarted.
async fn many(sdk: Sdk) -> Done {
    let mut lines = BufReader::new(stdin()).lines();
    for number in 0..300 {
        if number % 50 == 49 {
            println!("{number}");
            lines.next_line().await?;
        }
        let counted = event("counted", "d", json!({ "number": number }))?;
        if number == 299 {
            // Waits for the server: flush and shutdown do not retry.
            sdk.client.capture_immediate(counted).await?;
        } else {
            sdk.client.capture(counted);
        }
    }
    sdk.client.flush().await;
    sdk.finish(Value::Null).await
}

/// Remote and local evaluation, which must agree.
async fn flags(host: &str) -> Done {
    let about = || EvaluateFlagsOptions {
        person_properties: Some(HashMap::from([("plan".into(), json!("pro"))])),
        ..EvaluateFlagsOptions::default()
    };
    let local = Sdk::new(host, |options| {
        options.secret_key("phx_test").enable_local_evaluation(true);
        // Only the other client sends flag call events.
        options.before_send(|_| None);
    });
    let local = local.await?;
    let here = EvaluateFlagsOptions { only_evaluate_locally: true, ..about() };
    let decided = all(&local.client.evaluate_flags("anna", here).await?);
    local.client.shutdown().await;

    let sdk = Sdk::new(host, |_| {}).await?;
    let quiet = Sdk::new(host, |options| {
        options.before_send(|_| None);
    });
    let quiet = quiet.await?;
    let remote = all(&quiet.client.evaluate_flags("anna", about()).await?);
    quiet.client.shutdown().await;
    let snapshot = sdk.client.evaluate_flags("anna", about()).await?;
    let (called, payload) = (snapshot.get_flag("colour"), snapshot.get_flag_payload("colour"));
    sdk.failures.lock().unwrap().append(&mut local.failures.lock().unwrap());
    let answer =
        json!({ "remote": remote, "local": decided, "called": called, "payload": payload });
    sdk.finish(answer).await
}

fn all(flags: &FeatureFlagEvaluations) -> Value {
    flags.keys().into_iter().map(|key| (key.clone(), json!(flags.get_flag(&key)))).collect()
}
