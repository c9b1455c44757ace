//! The client, against a scripted server with ClickHouse's real codes, and against ClickHouse.

use std::time::Duration;

use arrow::array::{Array as _, ListArray, StringArray, UInt8Array};
use clickhouse::{Client, Error, Parameter, Parameters, Result, Settings, Statement};
use testing::clickhouse::Database;

use crate::scripted::{Answer, Request, serve};
use crate::support::client;

fn run(client: &Client, text: &str) -> Result<usize> {
    client.select(&text.into())?.map(|batch| Ok(batch?.num_rows())).sum()
}

fn refuse(answer: fn() -> Answer) -> Error {
    let (url, _requests) = serve(None, move |_, _| answer());
    run(&client(&url), "SELECT 1").unwrap_err()
}

/// The variant's name.
fn kind(error: &Error) -> String {
    let name = format!("{error:?}");
    name.split([' ', '(']).next().unwrap().to_owned()
}

#[test]
fn exceptions_of_clickhouse_become_errors_that_name_the_remedy() {
    for (status, code, kind_of_error, remedy) in [
        (500, 241, "TooMuchMemory", "max_memory_usage"),
        (408, 159, "TooSlow", "narrow the query"),
        (500, 252, "TooManyParts", "background_pool_size"),
        (500, 242, "ReadOnlyReplica", "Keeper"),
        (500, 164, "ReadOnlyUser", "permitted to write"),
        (403, 516, "Unauthenticated", "warehouse_url"),
        (403, 497, "Denied", "GRANT"),
        (500, 202, "Busy", "max_concurrent_queries"),
        (500, 243, "Full", "free space"),
        (413, 396, "TooManyRows", "narrow"),
        (500, 394, "Cancelled", "cancelled"),
        (500, 999, "Away", "reached"),
        (500, 285, "Away", "reached"),
        (404, 47, "Refused", "code 47"),
    ] {
        let (url, _requests) =
            serve(None, move |_, _| Answer::exception(status, code, "As it says. (NAME)"));
        let error = run(&client(&url), "SELECT 1").unwrap_err();
        assert_eq!(kind(&error), kind_of_error, "{code}");
        let message = error.to_string();
        assert!(message.contains(remedy), "{code}: {message}");
        assert!(!message.contains("s3cret"), "{message}");
        let is_told = message.contains("As it says.") || kind_of_error == "Cancelled";
        assert!(is_told, "{message}");
    }
}

#[test]
fn a_server_that_is_no_clickhouse_is_told_from_one_that_is_away() {
    assert_eq!(kind(&refuse(|| Answer::Status(503, String::new(), b"no".to_vec()))), "Away");
    assert_eq!(kind(&refuse(|| Answer::Status(401, String::new(), Vec::new()))), "Unauthenticated");
    let elsewhere = || Answer::Status(302, "Location: http://x/\r\n".to_owned(), Vec::new());
    assert_eq!(kind(&refuse(elsewhere)), "Protocol");
    assert_eq!(kind(&refuse(|| Answer::Status(200, String::new(), b"hello".to_vec()))), "Away");
    // Nothing listens on port 1.
    assert_eq!(kind(&run(&client("http://127.0.0.1:1"), "SELECT 1").unwrap_err()), "Away");
    // A certificate is asked of a server that has none.
    let (url, _requests) = serve(None, |_, _| Answer::Status(200, String::new(), Vec::new()));
    let url = url.replace("http://", "https://");
    assert!(client(&url).ping().is_err());
}

#[test]
fn a_frozen_server_is_away_after_the_time_it_has() {
    let (url, _requests) = serve(None, |_, _| Answer::Freeze);
    let mut settings = Settings::from_url(&url).unwrap();
    settings.query_timeout = Duration::from_millis(20);
    settings.grace = Duration::from_millis(20);
    let error = run(&Client::new(settings).unwrap(), "SELECT 1").unwrap_err();
    assert_eq!(kind(&error), "Away");
    assert!(error.is_transient());
}

/// What ClickHouse answers to a query of three numbers, in two batches.
fn arrow_stream() -> Vec<u8> {
    use arrow::array::RecordBatch;
    use arrow::ipc::writer::StreamWriter;
    let batch = |values: Vec<u8>| {
        let column: arrow::array::ArrayRef = std::sync::Arc::new(UInt8Array::from(values));
        RecordBatch::try_from_iter([("n", column)]).unwrap()
    };
    let first = batch(vec![1, 2]);
    let mut writer = StreamWriter::try_new(Vec::new(), &first.schema()).unwrap();
    writer.write(&first).unwrap();
    writer.write(&batch(vec![3])).unwrap();
    writer.into_inner().unwrap()
}

#[test]
fn a_result_that_ends_with_an_exception_or_too_early_is_an_error() {
    let whole = arrow_stream();
    let answered = |body: Vec<u8>, is_cut: bool| {
        let (url, _requests) = serve(None, move |_, _| match is_cut {
            true => Answer::Cut(body.clone()),
            false => Answer::Status(200, String::new(), body.clone()),
        });
        run(&client(&url), "SELECT 1")
    };
    assert_eq!(answered(whole.clone(), false).unwrap(), 3);
    let unended = &whole[..whole.len() - 8];
    let exception = "\r\n__exception__\r\nabc\r\nCode: 241. DB::Exception: memory limit exceeded. \
                     (MEMORY_LIMIT_EXCEEDED)\n";
    let with_exception = [unended, exception.as_bytes()].concat();
    assert_eq!(kind(&answered(with_exception, false).unwrap_err()), "TooMuchMemory");
    for (length, is_cut) in [(unended.len(), false), (unended.len(), true), (whole.len() / 2, true)]
    {
        let error = answered(whole[..length].to_vec(), is_cut).unwrap_err();
        assert_eq!(kind(&error), "Away", "{length} bytes: {error}");
    }
}

#[test]
fn an_answer_beyond_its_bound_is_refused() {
    let (url, _requests) = serve(None, |_, _| Answer::Status(200, String::new(), arrow_stream()));
    let mut settings = Settings::from_url(&url).unwrap();
    settings.response_bytes_max = 300;
    let error = run(&Client::new(settings).unwrap(), "SELECT 1").unwrap_err();
    assert_eq!(kind(&error), "TooLarge");
}

fn recorded(work: impl FnOnce(&Client)) -> Request {
    let (url, requests) = serve(None, |_, _| Answer::Status(200, String::new(), b"".to_vec()));
    work(&client(&url));
    requests.recv().unwrap()
}

#[test]
fn requests_carry_the_password_in_a_header_and_values_as_parameters() {
    let request = recorded(|client| {
        let mut parameters = Parameters::default();
        let value = parameters.add(Parameter::String("it's `x`"));
        assert_eq!(value, "{v0:String}");
        let mut statement = Statement::new(format!("SELECT {value}"), parameters);
        statement.query_id = Some("run-1".to_owned());
        client.execute(&statement).unwrap();
    });
    let line = request.head.lines().next().unwrap().to_owned();
    assert!(!line.contains("s3cret"), "{line}");
    for part in ["database=stats", "query_id=run-1", "max_execution_time=300", "param_v0=it%5C%27s"]
    {
        assert!(line.contains(part), "{line}");
    }
    assert!(request.head.to_lowercase().contains("x-clickhouse-key: s3cret"));
    assert_eq!(request.body, b"SELECT {v0:String}");
}

#[test]
fn a_query_is_ended_by_its_id() {
    let request = recorded(|client| client.kill("run-'1").unwrap());
    assert_eq!(request.body, b"KILL QUERY WHERE startsWith(query_id, {v0:String}) ASYNC");
    assert!(request.head.contains("param_v0=run-%5C%271"), "{}", request.head);
}

#[test]
fn values_that_no_url_holds_are_refused_before_they_are_sent() {
    let mut parameters = Parameters::default();
    parameters.add(Parameter::String(&"x".repeat(1 << 20)));
    let error = client("http://127.0.0.1:1").select(&Statement::new(String::new(), parameters));
    assert_eq!(kind(&error.unwrap_err()), "ParametersTooLarge");
}

#[test]
fn hostile_values_arrive_as_they_are() {
    let Some(database) = Database::new() else { return };
    let client = client(&database.url);
    let hostile = [
        "",
        "'",
        "\\",
        "\\'",
        "a'b\\c",
        "`x`",
        "{v0:String}",
        "\0",
        "a\0b",
        "\n\r\t",
        "\u{1}\u{7f}",
        "%27",
        "&query=x",
        "Ünïcödé",
        "\u{202e}",
        "😀",
        "\\N",
        "NULL",
        "--",
        "/* */",
        "[1]",
        "\u{8}\u{b}\u{c}",
    ];
    let mut parameters = Parameters::default();
    let each: Vec<String> =
        hostile.iter().map(|text| parameters.add(Parameter::String(text))).collect();
    let list = parameters.add(Parameter::Strings(&hostile));
    let text = format!("SELECT {list}, [{}]", each.join(", "));
    for batch in client.select(&Statement::new(text, parameters)).unwrap() {
        let batch = batch.unwrap();
        for column in batch.columns() {
            let texts = column.as_any().downcast_ref::<ListArray>().unwrap().value(0);
            let texts = texts.as_any().downcast_ref::<StringArray>().unwrap();
            assert_eq!(texts.len(), hostile.len());
            for (text, expected) in texts.iter().zip(hostile) {
                assert_eq!(text.unwrap(), expected);
            }
        }
    }
}

#[test]
fn selects_cannot_write() {
    let Some(database) = Database::new() else { return };
    let client = client(&database.url);
    let error = client.select(&"CREATE TABLE x (a Int64) ENGINE = Memory".into()).unwrap_err();
    assert_eq!(kind(&error), "ReadOnlyUser");
    assert_eq!(run(&client, "SELECT number FROM numbers(100000)").unwrap(), 100_000);
    assert_eq!(run(&client, "SELECT number FROM numbers(0)").unwrap(), 0);
    client.ping().unwrap();
}
