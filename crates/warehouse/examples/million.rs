//! Benchmark of appends and reads: `cargo run --release -p warehouse --example million`,
//! with the number of events, `v4` or `v7`, and a directory to keep
//! as arguments.

use std::hint::black_box;
use std::time::Instant;

use model::{Clock, ProjectId, Timestamp};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use uuid::Uuid;
use warehouse::{
    ColumnKey, CompactionKind, Cursor, EventRow, Filter, Predicate, Settings, Value, Warehouse,
    Window,
};

const PROJECT: ProjectId = ProjectId(1);
const BATCH: usize = 2_000;
const DAYS: u64 = 90;
/// 2026-01-01T00:00:00Z
const START: i64 = 1_767_225_600_000_000;

struct Generator {
    rng: StdRng,
    persons: u32,
    step: i64,
    timed: bool,
}

impl Generator {
    fn skewed(&mut self, count: usize) -> usize {
        let share: f64 = self.rng.random();
        ((share * share * share) * count as f64) as usize
    }

    fn row(&mut self, number: u64) -> EventRow {
        let person = self.rng.random_range(0..self.persons);
        let event = match self.rng.random_range(0..100) {
            0..45 => 0,
            _ => 1 + self.skewed(59),
        };
        let micros = START + number as i64 * self.step + self.rng.random_range(0..2_000_000);
        let random: u128 = self.rng.random();
        let uuid = match self.timed {
            true => {
                let time = (micros / 1_000) as u128;
                let bits = time << 80 | random >> 48;
                Uuid::from_u128(bits & !(0xf << 76) & !(3 << 62) | 7 << 76 | 2 << 62)
            }
            false => uuid::Builder::from_random_bytes(random.to_be_bytes()).into_uuid(),
        };
        let event = if event == 0 { "$pageview".to_owned() } else { format!("action {event}") };
        EventRow {
            project: PROJECT,
            uuid,
            event: event.into(),
            distinct_id: distinct_id(person).into(),
            distinct_no: person,
            timestamp: Timestamp::from_micros(micros),
            created_at: Timestamp::from_micros(micros + 800_000),
            elements_chain: String::new(),
            groups: Default::default(),
            properties: self.properties(person),
            position: number,
            historical: false,
        }
    }

    fn properties(&mut self, person: u32) -> String {
        let browser = ["Chrome", "Safari", "Firefox", "Edge"][self.skewed(4)];
        let os = ["Mac OS X", "Windows", "Linux", "iOS", "Android"][self.skewed(5)];
        let page = self.skewed(20_000);
        let country = person % 60;
        let city = person % 2_000;
        let session = u64::from(person) * 7_919 + u64::from(self.rng.random_range(0..6u32));
        let (width, height) = [(1920, 1080), (1440, 900), (390, 844)][self.skewed(3)];
        format!(
            concat!(
                r#"{{"$browser":"{browser}","$browser_version":{version},"$os":"{os}","$os_version":"{osv}.{minor}","#,
                r#""$current_url":"https://shop.example.com/catalogue/section-{section}/item-{page}?ref=list","#,
                r#""$host":"shop.example.com","$pathname":"/catalogue/section-{section}/item-{page}","#,
                r#""$referrer":"https://www.example.org/search","$referring_domain":"www.example.org","#,
                r#""$screen_width":{width},"$screen_height":{height},"$viewport_width":{vw},"$viewport_height":{vh},"#,
                r#""$lib":"web","$lib_version":"1.{lib}.0","$device_type":"Desktop","$timezone":"Europe/Berlin","#,
                r#""$session_id":"0190{session:032x}","$window_id":"0191{session:032x}","$insert_id":"{insert:016x}","#,
                r#""$time":{time},"$device_id":"dev-{person:08x}","#,
                r#""$geoip_country_code":"C{country}","$geoip_country_name":"Country {country}","$geoip_city_name":"City {city}","#,
                r#""$geoip_latitude":{lat}.25,"$geoip_longitude":{lon}.5,"$ip":"10.{a}.{b}.{c}","#,
                r#""plan":"{plan}","price":{price},"quantity":{quantity},"logged_in":{logged_in},"#,
                r#""$set":{{"plan":"{plan}","city":"City {city}"}}}}"#
            ),
            browser = browser,
            os = os,
            page = page,
            width = width,
            height = height,
            session = session,
            person = person,
            country = country,
            city = city,
            version = 120 + self.skewed(8),
            osv = 10 + self.skewed(5),
            minor = self.skewed(4),
            section = page % 40,
            vw = width - self.skewed(4) as i32 * 10,
            vh = height - 100 - self.skewed(20) as i32,
            lib = 200 + self.skewed(5),
            insert = self.rng.random::<u64>(),
            time = (1_767_225_600_000 + self.rng.random_range(0..100_000_000i64)) as f64 / 1_000.0,
            lat = city % 80,
            lon = city % 170,
            a = person % 256,
            b = person / 256 % 256,
            c = person / 65_536,
            plan = ["free", "team", "scale"][(person % 3) as usize],
            price = self.skewed(20_000) as f64 / 100.0,
            quantity = 1 + self.skewed(5),
            logged_in = self.rng.random::<bool>(),
        )
    }
}

fn distinct_id(person: u32) -> String {
    let bits = u128::from(person).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    Uuid::from_u128(bits).to_string()
}

/// CPU time of all threads of this process, in seconds.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let behind = stat.rsplit(')').next().unwrap_or_default();
    let ticks = behind.split_whitespace().skip(11).take(2);
    ticks.filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// Peak memory of this process, in MB.
fn peak_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0) / 1_000
}

fn timed<T>(what: &str, mut work: impl FnMut() -> T) {
    for temperature in ["first", "warm", "warm"] {
        let start = Instant::now();
        black_box(work());
        println!("{what:<34} {temperature} {:8.2} ms", start.elapsed().as_secs_f64() * 1_000.0);
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let events: u64 = arguments.next().map_or(Ok(1_000_000), |text| text.parse())?;
    let timed_uuids = arguments.next().as_deref() != Some("v4");
    let millions = events as f64 / 1e6;
    let mut generator = Generator {
        rng: StdRng::seed_from_u64(42),
        persons: (events / 33).max(10) as u32,
        step: (DAYS * 86_400_000_000 / events) as i64,
        timed: timed_uuids,
    };
    let dir = tempfile::tempdir()?;
    let folder = arguments.next().map_or_else(|| dir.path().to_owned(), Into::into);
    let now = Clock::at(Timestamp::from_micros(START + DAYS as i64 * 86_400_000_000));
    let store = Warehouse::open(&folder, 1, Settings::default(), now)?;
    let (mut append, mut flush, mut compact) = (0.0, 0.0, 0.0);
    let mut sent_bytes = 0;
    let mut samples = Vec::new();
    let mut position = 0;
    while position < events {
        let count = BATCH.min((events - position) as usize) as u64;
        let batch: Vec<EventRow> =
            (position..position + count).map(|at| generator.row(at)).collect();
        position += count;
        sent_bytes += batch.iter().map(|row| row.properties.len()).sum::<usize>();
        samples.push(batch[0].uuid);
        let start = cpu();
        let rows: Result<Vec<_>, _> = batch.iter().map(EventRow::as_new).collect();
        store.append(&rows?, position)?;
        append += cpu() - start;
        if position % 256_000 == 0 {
            let start = cpu();
            store.flush()?;
            flush += cpu() - start;
            let start = cpu();
            while store.compact(CompactionKind::Minor)?.is_some() {}
            compact += cpu() - start;
        }
    }
    let start = cpu();
    store.flush()?;
    flush += cpu() - start;
    println!("{events} events, {:.0} bytes of properties each", sent_bytes as f64 / events as f64);
    println!(
        "cpu s a million: append {:.2}, flush {:.2}, compact as due {:.2}, together {:.2}",
        append / millions,
        flush / millions,
        compact / millions,
        (append + flush + compact) / millions
    );
    let totals = store.snapshot(PROJECT).totals();
    println!(
        "before the last compaction: {} files, {:.1} bytes an event",
        totals.files,
        totals.disk_bytes as f64 / totals.events as f64
    );
    let start = cpu();
    while store.compact(CompactionKind::Major)?.is_some() {}
    println!("compacting everything: {:.2} cpu s a million", (cpu() - start) / millions);
    let snapshot = store.snapshot(PROJECT);
    let totals = snapshot.totals();
    println!(
        "{} files, {:.1} bytes an event, peak memory {} MB",
        totals.files,
        totals.disk_bytes as f64 / totals.events as f64,
        peak_mb()
    );
    read(&store, &samples)?;
    Ok(())
}

fn read(store: &Warehouse, samples: &[Uuid]) -> Result<(), Box<dyn std::error::Error>> {
    let snapshot = store.snapshot(PROJECT);
    let latest = Window { limit: 100, ..Window::default() };
    timed("latest 100", || {
        snapshot.list(&Filter::default(), &latest).map(|page| page.events.len())
    });
    let page = snapshot.list(&Filter::default(), &latest)?;
    let resume = page.events.last().map(Cursor::of);
    let second = Window { limit: 100, resume, ..Window::default() };
    timed("the 100 behind them", || {
        snapshot.list(&Filter::default(), &second).map(|page| page.events.len())
    });
    let one = Filter { events: Some(["action 3".to_owned()].into()), ..Filter::default() };
    timed("latest 100 of one event", || snapshot.list(&one, &latest).map(|page| page.events.len()));
    timed("get by uuid, the same", || {
        snapshot.get(samples[samples.len() / 2]).map(|row| row.is_some())
    });
    let mut next = 0;
    timed("get by uuid, 20 others, each", || {
        let start = Instant::now();
        for _ in 0..20 {
            next = (next + 7_919) % samples.len();
            assert!(snapshot.get(samples[next]).is_ok_and(|row| row.is_some()));
        }
        println!("    {:.2} ms each", start.elapsed().as_secs_f64() * 50.0);
    });
    let edge = Predicate::test(ColumnKey::Property("$browser".into()), |value| {
        value == Some(Value::Text("Edge"))
    });
    let edge = Filter { predicate: Some(edge), ..Filter::default() };
    timed("count by a property", || snapshot.count(&edge));
    timed("count all", || snapshot.count(&Filter::default()));
    let week = Filter {
        after: Some(Timestamp::from_micros(START + 83 * 86_400_000_000)),
        ..Filter::default()
    };
    timed("values of a week", || {
        snapshot
            .values(&ColumnKey::Property("$os".into()), &week, &|_| true, 10)
            .map(|found| found.len())
    });
    Ok(())
}
