//! The flags, cohorts, actions, annotations and the dashboard of the demo, as bodies of the API's
//! requests. `api` validates them as it validates a client's.

mod dashboard;

use serde_json::{Value, json};

use crate::Demo;
use crate::population::user_id;
use crate::story::{DAYS, Story};

pub(crate) const PRODUCT_PAGE: &str = "new-product-page";
pub(crate) const CHECKOUT: &str = "checkout-redesign";
pub(crate) const BULK_ORDERS: &str = "bulk-orders";
pub(crate) const INVOICE_EXPORT: &str = "invoice-export";
const OLD_BANNER: &str = "spring-banner";
/// Key, share in percent, and how much likelier its visitors pay than those of `control`.
pub(crate) const CHECKOUT_VARIANTS: [(&str, u32, f64); 3] =
    [("control", 34, 1.0), ("one-page", 33, 1.42), ("express", 33, 1.2)];
/// Members of the static cohort.
const BETA_TESTERS: usize = 24;
/// How long before the last day the old flag was created: it is stale after thirty days.
const OLD_FLAG_DAYS: i64 = 75;
const DAY_SECONDS: i64 = 86_400;

/// Ids of objects that insights refer to.
#[derive(Clone, Copy, Debug)]
pub struct ObjectIds {
    /// The first of [`Demo::actions`].
    pub order_action: i64,
    /// The first of [`Demo::cohorts`].
    pub business_cohort: i64,
}

impl Demo {
    /// Settings of the project: test accounts, and addresses that the toolbar may open.
    pub fn settings(&self) -> Value {
        json!({
            "is_demo": true,
            "completed_snippet_onboarding": false,
            "app_urls": ["https://shop.example.com"],
            "person_display_name_properties": ["name", "email"],
            "test_account_filters": [{
                "key": "email", "type": "person", "operator": "not_icontains",
                "value": "@staff.example.com",
            }],
        })
    }

    pub fn actions(&self) -> Vec<Value> {
        vec![
            json!({
                "name": "Completed an order", "description": "An order was paid.",
                "tags": ["sales"], "steps": [{ "event": "order paid" }],
            }),
            json!({
                "name": "Read a guide", "description": "Opened any page below /guides.",
                "tags": ["content"],
                "steps": [{ "event": "$pageview", "url": "/guides/", "url_matching": "contains" }],
            }),
            json!({
                "name": "Clicked Start free",
                "description": "The button on the pricing page, by its text.",
                "steps": [{ "event": "$autocapture", "tag_name": "a", "text": "Start free",
                    "text_matching": "exact" }],
            }),
            json!({
                "name": "Worked in the account",
                "description": "Used a feature or invited somebody.",
                "steps": [{ "event": "feature used" }, { "event": "invited teammate" }],
            }),
        ]
    }

    pub fn cohorts(&self) -> Vec<Value> {
        let tree = |leaf: Value| {
            json!({ "properties": { "type": "OR", "values": [
            { "type": "AND", "values": [leaf] },
        ] } })
        };
        vec![
            json!({
                "name": "Business customers", "description": "On the plan team or enterprise.",
                "filters": tree(json!({
                    "type": "person", "key": "plan", "operator": "exact",
                    "value": ["team", "enterprise"],
                })),
            }),
            json!({
                "name": "Bought in the last two weeks",
                "filters": tree(json!({
                    "type": "behavioral", "key": "order paid", "event_type": "events",
                    "value": "performed_event", "time_value": "14", "time_interval": "day",
                    "negation": false,
                })),
            }),
            json!({
                "name": "Beta testers", "is_static": true,
                "description": "Customers who agreed to try unfinished features.",
            }),
        ]
    }

    /// Distinct ids of the members of the static cohort, which is the last of [`Demo::cohorts`].
    pub fn beta_testers(&self) -> Vec<String> {
        (0..BETA_TESTERS).map(|nth| user_id(nth * 3)).collect()
    }

    pub fn flags(&self) -> Vec<Value> {
        let created = |day: usize, hour: i64| self.story.timestamp(day, hour);
        let old = created(DAYS, 9).plus_seconds(-OLD_FLAG_DAYS * DAY_SECONDS);
        let everyone = |percent: u32| json!([{ "properties": [], "rollout_percentage": percent }]);
        let variants = CHECKOUT_VARIANTS.map(
            |(key, percent, _)| json!({ "key": key, "name": "", "rollout_percentage": percent }),
        );
        let layout = |columns: u32, wallet: bool| {
            json!({ "columns": columns, "wallet": wallet }).to_string()
        };
        vec![
            json!({
                "key": OLD_BANNER, "name": "Banner of the spring sale. Nothing asks for it any more",
                "active": false, "created_at": old, "tags": ["marketing"],
                "filters": { "groups": everyone(100) },
            }),
            json!({
                "key": PRODUCT_PAGE, "name": "Product page with larger pictures",
                "created_at": created(Story::product_page_test(), 9), "tags": ["experiment"],
                "filters": { "groups": everyone(50) },
            }),
            json!({
                "key": CHECKOUT, "name": "Checkout on one page, or with a wallet",
                "created_at": created(Story::checkout_release(), 10), "tags": ["experiment"],
                "filters": {
                    "groups": everyone(100),
                    "multivariate": { "variants": variants },
                    "payloads": { "control": layout(2, false), "one-page": layout(1, false),
                        "express": layout(1, true) },
                },
            }),
            json!({
                "key": BULK_ORDERS, "name": "Bulk orders for business customers",
                "created_at": created(0, 8),
                "filters": { "groups": [{
                    "properties": [{ "key": "plan", "type": "person", "operator": "exact",
                        "value": ["team", "enterprise"] }],
                    "rollout_percentage": 100,
                }] },
            }),
            json!({
                "key": INVOICE_EXPORT, "name": "Export of invoices, company by company",
                "created_at": created(0, 8),
                "filters": {
                    "aggregation_group_type_index": 0,
                    "groups": [{
                        "properties": [{ "key": "plan", "type": "group", "group_type_index": 0,
                            "operator": "exact", "value": ["enterprise"] }],
                        "rollout_percentage": 100,
                    }],
                },
            }),
        ]
    }

    pub fn annotations(&self) -> Vec<Value> {
        let note = |day: usize, hour: i64, content: &str| {
            json!({ "content": content, "date_marker": self.story.timestamp(day, hour),
                "scope": "project" })
        };
        vec![
            note(Story::product_page_test(), 9, "Half of the visitors see the new product page"),
            note(Story::newsletter(), 8, "Newsletter about the planting season"),
            note(Story::checkout_release(), 10, "Released the new checkout as an experiment"),
            note(Story::outage(), 14, "Payment provider down for three hours"),
        ]
    }
}
