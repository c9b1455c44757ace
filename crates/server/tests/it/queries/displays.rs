//! Displays of trends that change or keep the result, and the interval of a second.

use serde_json::{Value, json};

use crate::queries::run::{ask, f1, trends};

#[test]
fn box_plot_gives_the_distribution_of_a_property_in_each_interval() {
    let server = f1();
    let series =
        json!([{ "kind": "EventsNode", "event": "a", "math": "avg", "math_property": "amount" }]);
    let plot = trends(json!({ "series": series, "trendsFilter": { "display": "BoxPlot" } }));
    let told = ask(&server, json!({ "query": plot })).expect(200).json();
    let numbers = |at: usize| {
        let plot = &told["results"][at];
        ["min", "p25", "median", "p75", "max", "mean"].map(|key| plot[key].as_f64().unwrap())
    };
    assert_eq!(numbers(0), [10.0, 12.5, 15.0, 17.5, 20.0, 15.0], "{told}");
    assert_eq!([numbers(1), numbers(2)], [[0.0; 6], [30.0; 6]]);
    let first = &told["results"][0];
    assert_eq!([&first["day"], &first["label"]], [&json!("2024-01-01"), &json!("1-Jan-2024")]);
    assert_eq!([&first["series_index"], &first["series_label"]], [&json!(0), &json!("a")]);
    for more in [
        json!({}),
        json!({ "series": series, "compareFilter": { "compare": true } }),
        json!({ "series": series, "breakdownFilter": { "breakdown": "$browser" } }),
    ] {
        let mut query = trends(json!({ "trendsFilter": { "display": "BoxPlot" } }));
        query.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let refused = ask(&server, json!({ "query": query })).expect(400).json();
        assert_eq!(refused["code"], "invalid_input", "{more}");
    }
}

#[test]
fn further_displays_have_the_values_of_a_line_chart() {
    let server = f1();
    for display in ["Metric", "Auto", "TwoDimensionalHeatmap"] {
        let query = trends(json!({ "trendsFilter": { "display": display } }));
        let told = ask(&server, json!({ "query": query })).expect(200).json();
        assert_eq!(told["results"][0]["data"], json!([2, 0, 1]), "{display}");
    }
}

#[test]
fn interval_of_a_second_counts_by_the_second() {
    let server = f1();
    let query = trends(json!({ "interval": "second",
        "dateRange": { "date_from": "2024-01-01T10:00:00", "date_to": "2024-01-01T10:00:02" } }));
    let told = ask(&server, json!({ "query": query })).expect(200).json();
    let item = &told["results"][0];
    assert_eq!(item["data"], json!([1, 0, 0]));
    assert_eq!(item["days"][1], "2024-01-01 10:00:01");
    assert_eq!(item["labels"][2], "1-Jan 10:00:02");
    let statement = json!({ "kind": "HogQLQuery", "query": told["hogql"] });
    let rows = ask(&server, json!({ "query": statement })).expect(200).json();
    let total: f64 =
        rows["results"].as_array().unwrap().iter().filter_map(|row| row[1].as_f64()).sum();
    assert_eq!(total, 1.0, "{rows}");
    let too_long = trends(json!({ "interval": "second" }));
    ask(&server, json!({ "query": too_long })).expect(400);
    assert_eq!(item["action"]["math"], Value::from("total"));
}
