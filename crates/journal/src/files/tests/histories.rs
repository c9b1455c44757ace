//! Property tests of random histories: the record at a position never changes, and acknowledged
//! records stay.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use proptest::prelude::*;

use crate::files::Journal;
use crate::files::tests::disk::{Fault, FaultyDisk};
use crate::files::tests::{batch, read_all, tiny};
use crate::{Durability, Inspection, Position, Settings};

#[derive(Clone, Debug)]
enum Act {
    Append(Vec<usize>),
    Fail(Fault),
    Release(u8),
    Reopen,
    Kill,
    LosePower(u64),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let fault = prop_oneof![
        Just(Fault::NoSpace),
        Just(Fault::WriteError),
        Just(Fault::ShortThenNoSpace),
        Just(Fault::Short),
        Just(Fault::SyncLost),
        Just(Fault::SyncArrived),
        Just(Fault::FolderSync),
    ];
    let act = prop_oneof![
        8 => prop::collection::vec(0usize..3000, 1..8).prop_map(Act::Append),
        3 => fault.prop_map(Act::Fail),
        1 => any::<u8>().prop_map(Act::Release),
        1 => Just(Act::Reopen),
        1 => Just(Act::Kill),
        2 => any::<u64>().prop_map(Act::LosePower),
    ];
    prop::collection::vec(act, 1..40)
}

struct World {
    dir: PathBuf,
    settings: Settings,
    disk: FaultyDisk,
    journal: Option<Journal>,
    /// Records that were acknowledged or read, and records that may become durable.
    known: BTreeMap<Position, Vec<u8>>,
    possible: BTreeSet<Vec<u8>>,
    /// Positions whose record a power failure lost, in the mode that allows it.
    lost: BTreeSet<Position>,
    appended: u32,
}

impl World {
    async fn act(&mut self, act: Act) {
        let journal = self.journal.clone().unwrap();
        match act {
            Act::Append(sizes) => self.append(&journal, sizes).await,
            Act::Fail(fault) => self.disk.fail(fault),
            Act::Release(share) => {
                let stats = journal.stats();
                let span = stats.next.as_u64() - stats.oldest.as_u64();
                let before = stats.oldest.plus(span * u64::from(share) / 255);
                // On a fault less is released.
                let _ = journal.release(before).await;
            }
            Act::Reopen => {
                drop(journal);
                self.reopen(|_| {});
            }
            Act::Kill => {
                drop(journal);
                self.disk.turn_off();
                self.reopen(|_| {});
            }
            Act::LosePower(seed) => {
                drop(journal);
                self.disk.turn_off();
                let mut bits = seed;
                self.reopen(|world| {
                    world.disk.lose_power(&world.dir, || {
                        bits = bits.wrapping_mul(6364136223846793005).wrapping_add(99);
                        bits >> 63 == 1
                    });
                });
                if self.settings.durability == Durability::Os {
                    self.forget_lost();
                }
            }
        }
        self.check().await;
    }

    async fn append(&mut self, journal: &Journal, sizes: Vec<usize>) {
        let mut records = Vec::new();
        for size in sizes {
            self.appended += 1;
            let mut record = self.appended.to_le_bytes().to_vec();
            record.resize(size + 4, self.appended as u8);
            records.push(record);
        }
        match journal.append(batch(&records)).await {
            Ok(last) => {
                let first = last.as_u64() + 1 - records.len() as u64;
                for (index, record) in records.into_iter().enumerate() {
                    let position = Position::from_u64(first).plus(index as u64);
                    assert!(!self.lost.contains(&position), "{position} comes twice");
                    let before = self.known.insert(position, record);
                    assert_eq!(before, None, "{position} comes twice");
                }
            }
            Err(_) => self.possible.extend(records),
        }
    }

    /// Closes the journal, runs `while_down`, and opens it again.
    fn reopen(&mut self, while_down: impl FnOnce(&World)) {
        let id = self.journal.take().unwrap().id();
        while_down(self);
        self.disk.turn_on();
        let open = || {
            let disk = Box::new(self.disk.clone());
            Journal::open_on(&self.dir, self.settings.clone(), disk)
        };
        // Each remaining fault may fail one attempt to open.
        let faults = self.disk.pending();
        let opened = (0..=faults).find_map(|attempt| match open() {
            Ok(journal) => Some(journal),
            Err(error) if attempt == faults => panic!("{error}"),
            Err(_) => None,
        });
        self.journal = opened;
        assert_eq!(self.journal.as_ref().unwrap().id(), id);
    }

    fn forget_lost(&mut self) {
        let journal = self.journal.as_ref().unwrap();
        let lost = self.known.split_off(&journal.stats().next);
        self.lost.extend(lost.into_keys());
    }

    async fn check(&mut self) {
        let journal = self.journal.as_ref().unwrap();
        let found = read_all(journal).await;
        self.known.retain(|position, _| *position >= journal.stats().oldest);
        for (position, record) in &found {
            assert!(!self.lost.contains(position), "{position} comes twice");
            let expected = match self.known.get(position) {
                Some(expected) => expected,
                None => {
                    assert!(self.possible.contains(record), "{position} was never appended");
                    self.known.entry(*position).or_insert(record.clone())
                }
            };
            assert!(expected == record, "{position} has changed");
        }
        assert_eq!(found.len(), self.known.len(), "acknowledged records are gone");
        // On disk a release may have gone further, and a failed group may be present.
        let inspected: Vec<_> =
            Inspection::open(&self.dir).unwrap().map(|one| one.unwrap()).collect();
        let first = inspected.first().map_or(journal.stats().next, |(position, _)| *position);
        let expected: Vec<_> = found.into_iter().filter(|(at, _)| *at >= first).collect();
        assert!(inspected.starts_with(&expected), "an inspection sees another history");
    }
}

fn live(durability: Durability, acts: Vec<Act>) {
    let dir = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let settings = Settings { durability, ..tiny() };
    let disk = FaultyDisk::default();
    let journal = Journal::open_on(dir.path(), settings.clone(), Box::new(disk.clone())).unwrap();
    let mut world = World {
        dir: dir.path().to_owned(),
        settings,
        disk,
        journal: Some(journal),
        known: BTreeMap::new(),
        possible: BTreeSet::new(),
        lost: BTreeSet::new(),
        appended: 0,
    };
    for act in acts {
        runtime.block_on(world.act(act));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn fsync_history_survives_faults_kills_and_power_failures(acts in acts()) {
        live(Durability::Fsync, acts);
    }

    #[test]
    fn unsynced_history_survives_kills_and_never_reuses_a_position(acts in acts()) {
        live(Durability::Os, acts);
    }
}
