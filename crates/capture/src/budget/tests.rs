use super::*;

const KIB: usize = 1_024;
const MIB: usize = 1_024 * KIB;

#[tokio::test]
async fn room_is_given_back_and_a_full_budget_is_busy() {
    let budget = Budget::new(64 * KIB, MIB, Duration::ZERO);
    let mut first = budget.receive_body(Sender::Public, 0);
    first.add(3 * KIB).await.unwrap();
    first.add(1).await.unwrap();
    assert_eq!(budget.bytes(), 4 * KIB);
    assert_eq!(budget.receive_body(Sender::Public, 0).add(1).await, Err(Busy));

    let mut text = budget.reserve_decoded(1).await.unwrap();
    text.grow(2 * KIB).unwrap();
    assert_eq!(budget.bytes(), 6 * KIB);
    let other = budget.reserve_decoded(2 * KIB).await.unwrap();
    assert_eq!(text.grow(3 * KIB), Err(Busy));
    drop(other);
    text.grow(4 * KIB).unwrap();
    text.shrink(KIB);
    assert_eq!(budget.bytes(), 5 * KIB);
    drop((text, first));
    assert_eq!(budget.bytes(), 0);
    budget.receive_body(Sender::Public, 0).add(1).await.unwrap();
}

#[tokio::test]
async fn what_exceeds_a_pool_passes_alone() {
    let budget = Budget::new(64 * KIB, MIB, Duration::ZERO);
    let large = budget.reserve_decoded(usize::MAX / 2).await.unwrap();
    assert_eq!(budget.bytes(), 20 * KIB);
    assert_eq!(budget.reserve_decoded(200 * KIB).await.err(), Some(Busy));
    drop(large);
    budget.reserve_decoded(200 * KIB).await.unwrap();
}

#[tokio::test]
async fn uploads_never_hold_up_events() {
    let budget = Budget::new(16 * MIB, 4 * MIB, Duration::ZERO);
    let mut uploads: Vec<BodyReservation<'_>> = Vec::new();
    loop {
        let mut upload = budget.receive_body(Sender::Public, 0);
        if upload.add(MIB).await.is_err() {
            break;
        }
        uploads.push(upload);
    }
    assert!(uploads.len() > 1);
    budget.receive_body(Sender::Public, 0).add(SMALL_BYTES).await.unwrap();
}

#[tokio::test]
async fn of_bodies_that_fill_the_budget_one_after_the_other_finishes() {
    const BODY: usize = 4 * MIB;
    let budget = Budget::new(16 * MIB, BODY, Duration::from_secs(60));
    let upload = || async {
        let mut body = budget.receive_body(Sender::Public, BODY);
        for _ in 0..BODY / STEP_BYTES {
            body.add(STEP_BYTES).await.unwrap();
            tokio::task::yield_now().await;
        }
        assert!(budget.bytes() <= 16 * MIB);
    };
    let all = async {
        tokio::join!(upload(), upload(), upload(), upload(), upload(), upload(), upload())
    };
    timeout(Duration::from_secs(30), all).await.expect("uploads block each other");
    assert_eq!(budget.bytes(), 0);
}

#[tokio::test]
async fn strangers_never_hold_up_members_nor_events() {
    let budget = Budget::new(16 * MIB, 4 * MIB, Duration::ZERO);
    let mut strangers = Vec::new();
    loop {
        let mut body = budget.receive_body(Sender::Unauthenticated, 0);
        if body.add(64 * KIB).await.is_err() {
            break;
        }
        strangers.push(body);
    }
    assert_eq!(strangers.len(), 8, "a 32nd of the budget");
    assert!(strangers[0].is_contended());
    assert_eq!(budget.pool(PoolKind::UnauthenticatedBodies).refused(), 1);
    let mut member = budget.receive_body(Sender::Member, 0);
    member.add(64 * KIB).await.unwrap();
    assert!(!member.is_contended());
    budget.receive_body(Sender::Public, 0).add(SMALL_BYTES).await.unwrap();
}

#[test]
fn the_pools_of_strangers_are_no_more_than_the_budget() {
    for bytes_max in [MIB, 16 * MIB, 128 * MIB] {
        let body_bytes_max = bytes_max / 8;
        let budget = Budget::new(bytes_max, body_bytes_max, Duration::ZERO);
        let strangers = PoolKind::ALL.into_iter().filter(|one| *one != PoolKind::MemberResponses);
        let all: usize = strangers.map(|one| budget.pool(one).0.units as usize * UNIT_BYTES).sum();
        assert!(all + body_bytes_max <= bytes_max + UNIT_BYTES, "{all} of {bytes_max}");
    }
}

#[tokio::test]
async fn what_outgrows_the_small_lane_leaves_it() {
    let budget = Budget::new(16 * MIB, 4 * MIB, Duration::ZERO);
    let mut small = budget.reserve_decoded(KIB).await.unwrap();
    small.grow(SMALL_DECODED_BYTES_MAX).unwrap();
    assert_eq!(small.grow(SMALL_DECODED_BYTES_MAX + 1), Err(Busy));
    budget.reserve_decoded(KIB).await.unwrap();
}

#[tokio::test]
async fn what_is_held_goes_back_when_it_is_dropped() {
    let budget = Budget::new(16 * MIB, 4 * MIB, Duration::ZERO);
    let pool = budget.pool(PoolKind::Connections).clone();
    let mut held = pool.try_reserve(512 * KIB).unwrap();
    held.merge(pool.try_reserve(512 * KIB).unwrap());
    assert_eq!((pool.try_reserve(1).err(), pool.refused()), (Some(Busy), 1));
    assert_eq!(pool.bytes(), MIB);
    drop(held);
    assert_eq!(budget.bytes(), 0);
}

#[tokio::test]
async fn of_those_that_wait_only_some_are_kept_waiting() {
    let budget = Budget::new(16 * MIB, 4 * MIB, Duration::from_secs(3_600));
    let all = budget.reserve_decoded_large(usize::MAX).await.unwrap();
    let mut waiting: Vec<_> =
        (0..WAITING_MAX).map(|_| Box::pin(budget.reserve_decoded_large(KIB))).collect();
    for one in &mut waiting {
        assert!(timeout(Duration::ZERO, one.as_mut()).await.is_err());
    }
    assert_eq!(budget.reserve_decoded_large(KIB).await.err(), Some(Busy));
    drop(all);
    for one in waiting {
        one.await.unwrap();
    }
    budget.reserve_decoded_large(KIB).await.unwrap();
}

#[tokio::test]
async fn large_bodies_that_wait_hold_nothing_of_the_small_ones() {
    let budget = Budget::new(16 * MIB, 4 * MIB, Duration::from_secs(3_600));
    let mut first = budget.receive_body(Sender::Public, MIB);
    first.add(MIB).await.unwrap();
    let mut second = budget.receive_body(Sender::Public, MIB);
    second.add(MIB).await.unwrap();
    assert!(second.is_contended(), "it finishes in the room that is set aside");
    // One that says how large it is waits in its own lane.
    let mut announced = budget.receive_body(Sender::Public, MIB);
    assert!(timeout(Duration::ZERO, announced.add(KIB)).await.is_err());
    assert_eq!(budget.pool(PoolKind::SmallBodies).bytes(), 0);
    // One that does not is told at once.
    let mut silent = budget.receive_body(Sender::Public, 0);
    silent.add(SMALL_BYTES).await.unwrap();
    assert_eq!(silent.add(1).await, Err(Busy));
    drop(silent);
    budget.receive_body(Sender::Public, KIB).add(KIB).await.unwrap();
}

#[tokio::test]
async fn a_body_is_not_pressed_by_itself() {
    let budget = Budget::new(32 * MIB, 4 * MIB, Duration::from_secs(3_600));
    let pool = budget.pool(PoolKind::LargeBodies);
    let most = pool.0.units as usize * UNIT_BYTES / STEP_BYTES * STEP_BYTES;
    let mut alone = budget.receive_body(Sender::Public, most);
    alone.add(most - STEP_BYTES).await.unwrap();
    assert!(!alone.is_contended());
    let mut other = budget.receive_body(Sender::Public, MIB);
    other.add(STEP_BYTES).await.unwrap();
    assert!(!alone.is_contended() && other.is_contended());
    // One that finds no room finishes in what is set aside; the next waits.
    let mut finishing = budget.receive_body(Sender::Public, 2 * MIB);
    finishing.add(2 * MIB).await.unwrap();
    let mut third = budget.receive_body(Sender::Public, 2 * MIB);
    let mut waits = Box::pin(third.add(2 * MIB));
    assert!(timeout(Duration::ZERO, waits.as_mut()).await.is_err());
    assert!(alone.is_contended(), "somebody waits");
    drop(waits);
    assert!(!alone.is_contended());
}

#[tokio::test]
async fn one_management_body_leaves_room_for_the_values_of_others() {
    let budget = Budget::new(64 * MIB, 4 * MIB, Duration::ZERO);
    let huge = budget.reserve_values(100 * MIB).await.unwrap();
    assert_eq!(budget.pool(PoolKind::MemberValues).bytes(), MIB);
    assert_eq!(
        budget.reserve_values(2 * MIB).await.err(),
        Some(Busy),
        "such bodies pass one at a time"
    );
    let others =
        [budget.reserve_values(MIB).await.unwrap(), budget.reserve_values(MIB).await.unwrap()];
    drop(huge);
    budget.reserve_values(2 * MIB).await.unwrap();
    drop(others);
    assert_eq!(budget.bytes(), 0);
}

#[tokio::test]
async fn what_outgrows_the_small_lane_moves_to_the_large_one_without_waiting() {
    let budget = Budget::new(16 * MIB, 4 * MIB, Duration::from_secs(3_600));
    let mut room = budget.reserve_decoded(KIB).await.unwrap();
    budget.enlarge(&mut room, SMALL_DECODED_BYTES_MAX + 1).unwrap();
    assert_eq!(budget.pool(PoolKind::SmallDecoded).bytes(), 0);
    assert!(
        !room.is_small() && budget.pool(PoolKind::LargeDecoded).bytes() > SMALL_DECODED_BYTES_MAX
    );
    let mut other = budget.reserve_decoded(KIB).await.unwrap();
    assert_eq!(budget.enlarge(&mut other, usize::MAX), Err(Busy));
    drop((room, other));
    assert_eq!(budget.bytes(), 0);
}
