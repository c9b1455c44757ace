//! The visitors, and when each of them visits.

use crate::Demo;
use crate::assortment::{
    COMPANY_NAMES, COUNTRIES, DEVICES, DIRECT, Device, FIRST_NAMES, INDUSTRIES, LAST_NAMES,
    NEWSLETTER, SOURCES, Source,
};
use crate::random::Random;
use crate::story::{DAYS, Story};

/// Customers from before the first day, people of the shop itself, and everybody who is new.
pub(crate) const CUSTOMERS: usize = 190;
const STAFF: usize = 3;
const NEWCOMERS: usize = 1_310;
pub(crate) const VISITORS: usize = CUSTOMERS + STAFF + NEWCOMERS;
pub(crate) const COMPANIES: usize = COMPANY_NAMES.len() * INDUSTRIES.len();

/// Streams of random numbers beside those of the visitors, which are their indexes.
const POPULATION_STREAM: u64 = 1 << 32;
const SIGNS_UP: f64 = 0.36;
/// Of those who sign up, how many do so on their first visit.
const SIGNS_UP_AT_ONCE: f64 = 0.62;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    Free,
    Team,
    Enterprise,
}

impl Plan {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Team => "team",
            Self::Enterprise => "enterprise",
        }
    }
}

pub(crate) struct Company {
    pub key: String,
    pub name: String,
    pub industry: &'static str,
    pub plan: Plan,
    pub employees: u64,
    pub country: &'static str,
    /// Whether a `$groupidentify` was sent.
    pub is_known: bool,
}

/// When a visitor gets an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Account {
    Never,
    /// Signs up on this visit, counted from zero.
    OnVisit(usize),
    /// Has had one since before the first day.
    Existing,
    /// Works for the shop.
    Staff,
}

pub(crate) struct Visitor {
    pub index: usize,
    pub random: Random,
    pub device: &'static Device,
    pub country: (&'static str, &'static str),
    pub first_source: &'static Source,
    pub account: Account,
    pub plan: Plan,
    pub company: Option<usize>,
    pub anonymous_id: String,
    pub visits: usize,
    pub is_identified: bool,
}

impl Visitor {
    pub fn user_id(&self) -> String {
        user_id(self.index)
    }

    pub fn name(&self) -> String {
        let first = FIRST_NAMES[self.index % FIRST_NAMES.len()];
        let last = LAST_NAMES[(self.index / FIRST_NAMES.len()) % LAST_NAMES.len()];
        format!("{first} {last}")
    }

    pub fn email(&self) -> String {
        let name = self.name().to_lowercase().replace(' ', ".");
        match self.account {
            Account::Staff => format!("{name}@staff.example.com"),
            _ => format!("{name}.{}@example.com", self.index),
        }
    }

    /// The chance of a visit `age` days after the first one, on an average day.
    fn returns(&self, age: usize) -> f64 {
        let age = age as f64;
        match self.account {
            Account::Existing => 0.16 + 0.14 * (self.index % 5) as f64 / 4.0,
            Account::Staff => 0.55,
            Account::OnVisit(_) => 0.42 / (1.0 + age / 4.0) + 0.03,
            Account::Never => 0.11 / (1.0 + age / 3.0),
        }
    }
}

pub(crate) fn user_id(index: usize) -> String {
    format!("user_{:04}", index + 1)
}

pub(crate) fn companies(seed: u64) -> Vec<Company> {
    let mut random = Random::new(seed, POPULATION_STREAM + 1);
    let mut companies = Vec::with_capacity(COMPANIES);
    for industry in INDUSTRIES {
        for name in COMPANY_NAMES {
            let is_large = random.chance(0.28);
            companies.push(Company {
                key: format!("{}-{}", name.to_lowercase(), industry.suffix.to_lowercase()),
                name: format!("{name} {}", industry.suffix),
                industry: industry.name,
                plan: if is_large { Plan::Enterprise } else { Plan::Team },
                employees: if is_large {
                    random.between(250, 3_000)
                } else {
                    random.between(4, 250)
                },
                country: country(&mut random).1,
                is_known: false,
            });
        }
    }
    companies
}

pub(crate) fn visitors(demo: &Demo, companies: &[Company]) -> Vec<Visitor> {
    (0..VISITORS).map(|index| visitor(demo, companies, index)).collect()
}

fn visitor(demo: &Demo, companies: &[Company], index: usize) -> Visitor {
    let mut random = Random::new(demo.seed, index as u64);
    let account = match index {
        _ if index < CUSTOMERS => Account::Existing,
        _ if index < CUSTOMERS + STAFF => Account::Staff,
        _ if !random.chance(SIGNS_UP) => Account::Never,
        _ if random.chance(SIGNS_UP_AT_ONCE) => Account::OnVisit(0),
        _ => Account::OnVisit(1),
    };
    let is_member = matches!(account, Account::Existing | Account::OnVisit(_));
    // The product of two draws: companies at the front have more members.
    let company = (is_member && random.chance(0.42)).then(|| {
        let drawn = random.unit() * random.unit();
        ((drawn * companies.len() as f64) as usize).min(companies.len() - 1)
    });
    let source = SOURCES[random.weighted(SOURCES.iter().map(|source| source.share))..].first();
    Visitor {
        index,
        device: &DEVICES[random.weighted(DEVICES.iter().map(|device| device.share))],
        country: country(&mut random),
        first_source: source.unwrap_or(DIRECT),
        account,
        plan: company.map_or(Plan::Free, |company| companies[company].plan),
        company,
        anonymous_id: uuid::Builder::from_random_bytes(random.bytes()).into_uuid().to_string(),
        visits: 0,
        is_identified: false,
        random,
    }
}

fn country(random: &mut Random) -> (&'static str, &'static str) {
    let (code, name, _) = COUNTRIES[random.weighted(COUNTRIES.iter().map(|country| country.2))];
    (code, name)
}

/// When a visit starts, and whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Appointment {
    pub start_ms: i64,
    pub visitor: usize,
}

/// The visits of all days, by day and start.
pub(crate) fn appointments(demo: &Demo, visitors: &mut [Visitor]) -> Vec<Vec<Appointment>> {
    let story = &demo.story;
    let mut random = Random::new(demo.seed, POPULATION_STREAM);
    let mut days = vec![Vec::new(); DAYS + 1];
    for visitor in visitors {
        let is_new = matches!(visitor.account, Account::Never | Account::OnVisit(_));
        let first = match is_new {
            true => random.weighted((0..=DAYS).map(|day| story.arrivals(day))),
            false => 0,
        };
        if is_new && first == Story::newsletter() && random.chance(0.6) {
            visitor.first_source = NEWSLETTER;
        }
        for (day, appointments) in days.iter_mut().enumerate().skip(first) {
            let comes = (is_new && day == first)
                || random.chance(visitor.returns(day - first) * story.traffic(day));
            let hour = random.weighted(Story::hours().into_iter()) as i64;
            let start_ms = story.ms(day, hour) + random.below(3_600_000) as i64;
            if comes && start_ms < story.until_ms {
                appointments.push(Appointment { start_ms, visitor: visitor.index });
            }
        }
    }
    days.iter_mut().for_each(|day| day.sort_unstable());
    days
}
