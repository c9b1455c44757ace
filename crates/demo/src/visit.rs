//! One visit: the pages somebody looks at and what they do there.

use serde_json::{Map, Value, json};
use uuid::Builder;

use crate::Demo;
use crate::assortment::{CATEGORIES, DIRECT, FEATURES, GUIDES, PRODUCTS, Product, SOURCES, Source};
use crate::objects::{BULK_ORDERS, CHECKOUT, CHECKOUT_VARIANTS, INVOICE_EXPORT, PRODUCT_PAGE};
use crate::population::{Account, Company, Plan, Visitor};

const HOST: &str = "shop.example.com";
/// Pages of one visit.
const PAGES_MAX: usize = 14;
/// Orders pay this for delivery below the limit of free delivery.
const DELIVERY: f64 = 5.9;
const FREE_DELIVERY: f64 = 80.0;

pub(crate) struct Visit<'a> {
    demo: &'a Demo,
    visitor: &'a mut Visitor,
    companies: &'a mut [Company],
    events: &'a mut Vec<(i64, String)>,
    ms: i64,
    session: String,
    source: &'static Source,
    /// Values of flags that this visit has asked for.
    flags: Map<String, Value>,
    path: String,
    pages: usize,
}

/// The kinds of pages that the next one depends on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Home,
    Category,
    Product(&'static Product),
    Guide,
    Pricing,
    Account,
}

impl PartialEq for Product {
    fn eq(&self, other: &Self) -> bool {
        self.slug == other.slug
    }
}

impl Eq for Product {}

impl<'a> Visit<'a> {
    pub fn new(
        demo: &'a Demo,
        visitor: &'a mut Visitor,
        companies: &'a mut [Company],
        start_ms: i64,
        events: &'a mut Vec<(i64, String)>,
    ) -> Self {
        let session = time_ordered_id(start_ms, visitor);
        let source = match visitor.visits {
            0 => visitor.first_source,
            _ if visitor.random.chance(0.6) => DIRECT,
            _ => visitor.random.pick(SOURCES),
        };
        let (flags, path) = (Map::new(), String::new());
        Self {
            demo,
            visitor,
            companies,
            events,
            ms: start_ms,
            session,
            source,
            flags,
            path,
            pages: 0,
        }
    }

    pub fn run(mut self) {
        let mut place = self.enter();
        if matches!(self.visitor.account, Account::Existing | Account::Staff) {
            self.identify();
        }
        let bounce = match self.visitor.is_identified {
            true => 0.10,
            false => self.source.bounce,
        };
        let mut stays = !self.chance(bounce);
        if self.signs_up_now() && stays {
            self.sign_up();
            place = Place::Account;
        }
        while stays && self.pages < PAGES_MAX {
            place = self.follow(place);
            stays = self.chance(0.64);
        }
        self.visitor.visits += 1;
    }

    fn chance(&mut self, probability: f64) -> bool {
        self.visitor.random.chance(probability)
    }

    fn signs_up_now(&self) -> bool {
        let on = |visit: usize| self.visitor.visits >= visit && !self.visitor.is_identified;
        matches!(self.visitor.account, Account::OnVisit(visit) if on(visit))
    }

    /// The first page depends on where the visitor comes from.
    fn enter(&mut self) -> Place {
        let drawn = self.visitor.random.unit();
        match (self.source.campaign.is_some(), self.source.domain) {
            (true, _) if drawn < 0.55 => self.product_page(),
            (true, _) => self.category_page(),
            (_, "$direct") if self.visitor.visits > 0 && drawn < 0.25 => self.account_page(),
            (_, "$direct") => self.home_page(),
            _ if drawn < 0.40 => self.guide_page(),
            _ if drawn < 0.65 => self.product_page(),
            _ => self.home_page(),
        }
    }

    fn follow(&mut self, place: Place) -> Place {
        let drawn = self.visitor.random.unit();
        match place {
            Place::Home if drawn < 0.46 => self.category_page(),
            Place::Home if drawn < 0.76 => self.product_page(),
            Place::Home if drawn < 0.86 => self.guide_page(),
            Place::Home if self.visitor.is_identified => self.account_page(),
            Place::Home => self.pricing_page(),
            Place::Category if drawn < 0.86 => self.product_page(),
            Place::Category => self.home_page(),
            Place::Product(product) => self.consider(product),
            Place::Guide if drawn < 0.52 => self.product_page(),
            Place::Guide if drawn < 0.78 => self.guide_page(),
            Place::Guide => self.home_page(),
            Place::Pricing => self.home_page(),
            Place::Account if drawn < 0.55 => self.product_page(),
            Place::Account if drawn < 0.80 => self.account_page(),
            Place::Account => self.category_page(),
        }
    }

    fn home_page(&mut self) -> Place {
        self.page("/");
        Place::Home
    }

    fn category_page(&mut self) -> Place {
        let category = *self.visitor.random.pick(CATEGORIES);
        self.page(&format!("/plants/{category}"));
        Place::Category
    }

    fn guide_page(&mut self) -> Place {
        let guide = *self.visitor.random.pick(GUIDES);
        self.page(&format!("/guides/{guide}"));
        Place::Guide
    }

    fn pricing_page(&mut self) -> Place {
        self.page("/pricing");
        Place::Pricing
    }

    fn product_page(&mut self) -> Place {
        // The smaller of two draws: products at the front are looked at more often.
        let drawn = self.visitor.random.unit().min(self.visitor.random.unit());
        let product = &PRODUCTS[(drawn * PRODUCTS.len() as f64) as usize];
        self.page(&format!("/products/{}", product.slug));
        if self.demo.story.has_product_page_test(self.ms) {
            let bucket = (self.demo.bucket)(PRODUCT_PAGE, &self.distinct_id(), "");
            self.call_flag(PRODUCT_PAGE, Value::Bool(bucket <= 0.5));
        }
        self.wait(2, 6);
        self.event("product viewed", product_properties(product));
        Place::Product(product)
    }

    fn account_page(&mut self) -> Place {
        if !self.visitor.is_identified {
            return self.home_page();
        }
        self.page("/account");
        self.call_flag(BULK_ORDERS, Value::Bool(self.visitor.plan != Plan::Free));
        if self.visitor.company.is_some() {
            let is_on = self.visitor.plan == Plan::Enterprise;
            self.call_flag(INVOICE_EXPORT, Value::Bool(is_on));
        }
        if self.chance(0.72) {
            self.wait(10, 80);
            let chosen = self.visitor.random.weighted(FEATURES.iter().map(|(_, share)| *share));
            self.event("feature used", json!({ "feature": FEATURES[chosen].0 }));
        }
        if self.visitor.plan != Plan::Free && self.chance(0.3) {
            let exports = self.visitor.plan == Plan::Enterprise && self.chance(0.5);
            let (feature, path) = match exports {
                true => ("invoice export", "/account/invoices"),
                false => ("bulk order", "/account/bulk-orders"),
            };
            self.page(path);
            self.wait(8, 40);
            self.event("feature used", json!({ "feature": feature }));
        }
        if self.visitor.company.is_some() && self.chance(0.09) {
            self.page("/account/team");
            self.wait(15, 60);
            let role = *self.visitor.random.pick(&["buyer", "approver", "viewer"]);
            self.event("invited teammate", json!({ "role": role }));
        }
        Place::Account
    }

    fn sign_up(&mut self) {
        if self.chance(0.5) {
            self.pricing_page();
            self.wait(5, 30);
            self.event(
                "$autocapture",
                json!({ "$event_type": "click", "$el_text": "Start free", "$elements": [
                    { "tag_name": "a", "$el_text": "Start free", "attr__href": "/signup",
                      "attr__class": "button primary", "nth_child": 1, "nth_of_type": 1 },
                    { "tag_name": "main", "nth_child": 2, "nth_of_type": 1 },
                ] }),
            );
        }
        self.page("/signup");
        self.wait(25, 120);
        self.identify();
        let method = if self.chance(0.7) { "email" } else { "single sign-on" };
        let plan = self.visitor.plan.as_str();
        self.event("signed up", json!({ "plan": plan, "method": method }));
        self.page("/account");
    }

    /// Ties what the browser did before to the account.
    fn identify(&mut self) {
        if self.visitor.is_identified {
            return;
        }
        self.visitor.is_identified = true;
        // Flags are asked for again under the new id.
        self.flags.clear();
        let visitor = &*self.visitor;
        let mut set = json!({
            "email": visitor.email(), "name": visitor.name(), "plan": visitor.plan.as_str(),
            "country": visitor.country.1,
        });
        if let Some(company) = visitor.company {
            set["company"] = json!(self.companies[company].name);
        }
        let properties = json!({ "$anon_distinct_id": visitor.anonymous_id, "$set": set });
        self.event("$identify", properties);
        let Some(company) = self.visitor.company else { return };
        let company = &mut self.companies[company];
        if std::mem::replace(&mut company.is_known, true) {
            return;
        }
        let properties = json!({
            "$group_type": "company", "$group_key": company.key,
            "$group_set": {
                "name": company.name, "industry": company.industry, "plan": company.plan.as_str(),
                "employees": company.employees, "country": company.country,
            },
        });
        self.event("$groupidentify", properties);
    }

    /// In front of a product: buy it, or look further.
    fn consider(&mut self, product: &'static Product) -> Place {
        let wants = match (self.visitor.is_identified, self.visitor.plan) {
            (false, _) => 0.15,
            (true, Plan::Free) => 0.27,
            (true, _) => 0.34,
        };
        let persuaded =
            if self.flags.get(PRODUCT_PAGE) == Some(&Value::Bool(true)) { 1.2 } else { 1.0 };
        if self.chance(wants * persuaded) {
            return self.buy(product);
        }
        let drawn = self.visitor.random.unit();
        match drawn {
            _ if drawn < 0.58 => self.product_page(),
            _ if drawn < 0.84 => self.category_page(),
            _ => self.home_page(),
        }
    }

    fn buy(&mut self, product: &'static Product) -> Place {
        let most = if self.visitor.plan == Plan::Free { 3 } else { 9 };
        let quantity = self.visitor.random.between(1, most);
        self.wait(5, 40);
        let mut added = product_properties(product);
        added["quantity"] = json!(quantity);
        self.event("added to cart", added);
        self.page("/cart");
        if !self.chance(0.66) {
            return if self.chance(0.5) { self.category_page() } else { self.home_page() };
        }
        self.page("/checkout");
        let value = product.price * quantity as f64;
        let mut pays = self.checkout_conversion();
        self.event("checkout started", json!({ "value": cents(value), "items": quantity }));
        self.wait(40, 150);
        if self.demo.story.is_outage(self.ms) {
            pays *= 0.2;
            self.exception("PaymentError", "The payment provider did not answer in time");
        }
        if !self.chance(pays) {
            return Place::Account;
        }
        let has_coupon = self.source.campaign.is_some() && self.chance(0.4);
        let discount = if has_coupon { value * 0.1 } else { 0.0 };
        let delivery = if value < FREE_DELIVERY { DELIVERY } else { 0.0 };
        let mut paid = json!({
            "revenue": cents(value - discount + delivery), "currency": "USD", "items": quantity,
            "product": product.name, "category": product.category,
        });
        if has_coupon {
            paid["coupon"] = json!("HEDGE10");
        }
        self.event("order paid", paid);
        self.page("/checkout/thank-you");
        Place::Home
    }

    /// How likely a started checkout is paid: by the variant, once the new checkout is released.
    fn checkout_conversion(&mut self) -> f64 {
        let base = if self.visitor.is_identified { 0.56 } else { 0.40 };
        if !self.demo.story.has_new_checkout(self.ms) {
            return base;
        }
        let bucket = (self.demo.bucket)(CHECKOUT, &self.distinct_id(), "variant");
        let mut below = 0.0;
        let variant = CHECKOUT_VARIANTS.iter().find(|(_, percent, _)| {
            below += f64::from(*percent) / 100.0;
            bucket < below
        });
        let Some((variant, _, factor)) = variant else { return base };
        self.call_flag(CHECKOUT, Value::from(*variant));
        base * factor
    }

    /// Reports a flag's value, once a visit, as SDKs do.
    fn call_flag(&mut self, key: &str, value: Value) {
        let property = format!("$feature/{key}");
        if self.flags.insert(key.to_owned(), value.clone()).is_none() {
            let called = json!({
                "$feature_flag": key, "$feature_flag_response": value, property: value,
            });
            self.event("$feature_flag_called", called);
        }
    }

    fn page(&mut self, path: &str) {
        if self.pages > 0 {
            self.wait(6, 75);
        }
        self.pages += 1;
        path.clone_into(&mut self.path);
        self.event("$pageview", json!({ "title": title(path) }));
        if self.chance(0.03) {
            let slow = if self.visitor.device.kind == "Desktop" { 1.0 } else { 1.7 };
            let ms = |random: f64, from: f64, to: f64| (from + random * (to - from)).round();
            let drawn = self.visitor.random.unit();
            self.event(
                "$web_vitals",
                json!({
                    "$web_vitals_FCP_value": ms(drawn, 400.0, 1_500.0) * slow,
                    "$web_vitals_LCP_value": ms(drawn, 700.0, 2_600.0) * slow,
                    "$web_vitals_INP_value": ms(drawn, 30.0, 220.0),
                    "$web_vitals_CLS_value": cents(drawn * 0.12),
                }),
            );
        }
        if self.chance(0.004) {
            self.exception("TypeError", "Cannot read properties of undefined (reading 'price')");
        }
    }

    fn exception(&mut self, kind: &str, message: &str) {
        let properties = json!({
            "$exception_types": [kind], "$exception_values": [message], "$exception_level": "error",
            "$exception_list": [{ "type": kind, "value": message,
                "mechanism": { "handled": false, "synthetic": false } }],
        });
        self.event("$exception", properties);
    }

    fn wait(&mut self, seconds_min: u64, seconds_max: u64) {
        self.ms += self.visitor.random.between(seconds_min * 1_000, seconds_max * 1_000) as i64;
    }

    fn distinct_id(&self) -> String {
        match self.visitor.is_identified {
            true => self.visitor.user_id(),
            false => self.visitor.anonymous_id.clone(),
        }
    }

    fn event(&mut self, name: &str, own: Value) {
        // Two events of a visit are never at the same instant.
        self.ms += 1 + self.visitor.random.below(400) as i64;
        let mut properties = self.common_properties();
        if let Value::Object(own) = own {
            properties.extend(own);
        }
        let event = json!({
            "uuid": time_ordered_id(self.ms, self.visitor), "event": name,
            "distinct_id": self.distinct_id(), "timestamp": timestamp(self.ms),
            "properties": properties,
        });
        self.events.push((self.ms, event.to_string()));
    }

    /// What the browser SDK adds to every event.
    fn common_properties(&self) -> Map<String, Value> {
        let (device, visitor) = (self.visitor.device, &*self.visitor);
        let mut properties = Map::new();
        let mut put = |name: &str, value: Value| properties.insert(name.to_owned(), value);
        put("$lib", json!("web"));
        put("$session_id", json!(self.session));
        put("$device_id", json!(visitor.anonymous_id));
        put("$browser", json!(device.browser));
        put("$browser_version", json!(device.browser_version));
        put("$os", json!(device.os));
        put("$os_version", json!(device.os_version));
        put("$device_type", json!(device.kind));
        put("$screen_width", json!(device.screen.0));
        put("$screen_height", json!(device.screen.1));
        put("$host", json!(HOST));
        put("$pathname", json!(self.path));
        put("$current_url", json!(format!("https://{HOST}{}", self.path)));
        put("$referrer", json!(self.source.referrer));
        put("$referring_domain", json!(self.source.domain));
        put("$geoip_country_code", json!(visitor.country.0));
        put("$geoip_country_name", json!(visitor.country.1));
        if let Some([source, medium, campaign]) = self.source.campaign {
            put("utm_source", json!(source));
            put("utm_medium", json!(medium));
            put("utm_campaign", json!(campaign));
        }
        if let (true, Some(company)) = (visitor.is_identified, visitor.company) {
            put("$groups", json!({ "company": self.companies[company].key }));
        }
        for (key, value) in &self.flags {
            put(&format!("$feature/{key}"), value.clone());
        }
        properties
    }
}

fn product_properties(product: &Product) -> Value {
    json!({ "product": product.name, "category": product.category, "price": product.price })
}

fn title(path: &str) -> String {
    let last = path.rsplit('/').next().filter(|word| !word.is_empty()).unwrap_or("home");
    let mut words = last.replace('-', " ");
    if let Some(first) = words.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    format!("{words} · Demo shop")
}

fn cents(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

fn timestamp(ms: i64) -> String {
    model::Timestamp::from_millis(ms).to_string()
}

/// A version 7 uuid of an instant.
fn time_ordered_id(ms: i64, visitor: &mut Visitor) -> String {
    let mut tail = [0; 10];
    tail.copy_from_slice(&visitor.random.bytes()[..10]);
    let ms = u64::try_from(ms).unwrap_or(0);
    Builder::from_unix_timestamp_millis(ms, &tail).into_uuid().to_string()
}
