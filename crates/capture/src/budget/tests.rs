use super::*;

const KIB: usize = 1_024;
const MIB: usize = 1_024 * KIB;

#[tokio::test]
async fn reservations_are_released_and_a_full_budget_is_busy() {
    let budget = Budget::new(64 * KIB, MIB, Duration::ZERO, &BufferPool::default());
    let mut first = budget.receive_body(Sender::Public, 0);
    first.add(3 * KIB).await.unwrap();
    first.add(1).await.unwrap();
    assert_eq!(budget.bytes(), 4 * KIB);
    assert_eq!(budget.receive_body(Sender::Public, 0).add(1).await, Err(Busy));

    let mut reservation = budget.reserve_decoded(1).await.unwrap();
    reservation.grow(2 * KIB).unwrap();
    assert_eq!(budget.bytes(), 6 * KIB);
    let other = budget.reserve_decoded(2 * KIB).await.unwrap();
    assert_eq!(reservation.grow(3 * KIB), Err(Busy));
    drop(other);
    reservation.grow(4 * KIB).unwrap();
    reservation.shrink(KIB);
    assert_eq!(budget.bytes(), 5 * KIB);
    drop((reservation, first));
    assert_eq!(budget.bytes(), 0);
    budget.receive_body(Sender::Public, 0).add(1).await.unwrap();
}

#[tokio::test]
async fn reservation_larger_than_its_pool_runs_alone() {
    let budget = Budget::new(64 * KIB, MIB, Duration::ZERO, &BufferPool::default());
    let large = budget.reserve_decoded(usize::MAX / 2).await.unwrap();
    assert_eq!(budget.bytes(), 20 * KIB);
    assert_eq!(budget.reserve_decoded(200 * KIB).await.err(), Some(Busy));
    drop(large);
    budget.reserve_decoded(200 * KIB).await.unwrap();
}

#[tokio::test]
async fn uploads_never_block_small_events() {
    let budget = Budget::new(16 * MIB, 4 * MIB, Duration::ZERO, &BufferPool::default());
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
async fn concurrent_uploads_that_fill_the_budget_do_not_deadlock() {
    const BODY: usize = 4 * MIB;
    let budget = Budget::new(16 * MIB, BODY, Duration::from_secs(60), &BufferPool::default());
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
    timeout(Duration::from_secs(30), all).await.expect("uploads deadlock");
    assert_eq!(budget.bytes(), 0);
}

#[tokio::test]
async fn unauthenticated_bodies_never_block_members_or_events() {
    let budget = Budget::new(16 * MIB, 4 * MIB, Duration::ZERO, &BufferPool::default());
    let mut bodies = Vec::new();
    loop {
        let mut body = budget.receive_body(Sender::Unauthenticated, 0);
        if body.add(64 * KIB).await.is_err() {
            break;
        }
        bodies.push(body);
    }
    assert_eq!(bodies.len(), 8, "a 32nd of the budget");
    assert!(bodies[0].is_contended());
    assert_eq!(budget.pool(PoolKind::UnauthenticatedBodies).refused(), 1);
    let mut member = budget.receive_body(Sender::Member, 0);
    member.add(64 * KIB).await.unwrap();
    assert!(!member.is_contended());
    budget.receive_body(Sender::Public, 0).add(SMALL_BYTES).await.unwrap();
}

#[test]
fn pools_sum_to_at_most_the_budget() {
    for bytes_max in [MIB, 16 * MIB, 128 * MIB] {
        let body_bytes_max = bytes_max / 8;
        let budget = Budget::new(bytes_max, body_bytes_max, Duration::ZERO, &BufferPool::default());
        let pools = PoolKind::ALL.into_iter().filter(|kind| *kind != PoolKind::MemberResponses);
        let all: usize = pools.map(|kind| budget.pool(kind).0.units as usize * UNIT_BYTES).sum();
        assert!(all + body_bytes_max <= bytes_max + UNIT_BYTES, "{all} of {bytes_max}");
    }
}

#[tokio::test]
async fn small_lane_bounds_decoded_bytes() {
    let budget = Budget::new(16 * MIB, 4 * MIB, Duration::ZERO, &BufferPool::default());
    let mut small = budget.reserve_decoded(KIB).await.unwrap();
    small.grow(SMALL_DECODED_BYTES_MAX).unwrap();
    assert_eq!(small.grow(SMALL_DECODED_BYTES_MAX + 1), Err(Busy));
    budget.reserve_decoded(KIB).await.unwrap();
}

#[tokio::test]
async fn owned_reservations_are_released_on_drop() {
    let budget = Budget::new(16 * MIB, 4 * MIB, Duration::ZERO, &BufferPool::default());
    let pool = budget.pool(PoolKind::Connections).clone();
    let mut held = pool.try_reserve(512 * KIB).unwrap();
    held.merge(pool.try_reserve(512 * KIB).unwrap());
    assert_eq!((pool.try_reserve(1).err(), pool.refused()), (Some(Busy), 1));
    assert_eq!(pool.bytes(), MIB);
    drop(held);
    assert_eq!(budget.bytes(), 0);
}

#[tokio::test]
async fn waiters_of_a_pool_are_bounded() {
    let budget = Budget::new(16 * MIB, 4 * MIB, Duration::from_secs(3_600), &BufferPool::default());
    let all = budget.reserve_decoded_large(usize::MAX).await.unwrap();
    let mut waiting: Vec<_> =
        (0..WAITERS_MAX).map(|_| Box::pin(budget.reserve_decoded_large(KIB))).collect();
    for waiter in &mut waiting {
        assert!(timeout(Duration::ZERO, waiter.as_mut()).await.is_err());
    }
    assert_eq!(budget.reserve_decoded_large(KIB).await.err(), Some(Busy));
    drop(all);
    for waiter in waiting {
        waiter.await.unwrap();
    }
    budget.reserve_decoded_large(KIB).await.unwrap();
}

#[tokio::test]
async fn waiting_large_bodies_hold_nothing_of_the_small_lane() {
    let budget = Budget::new(16 * MIB, 4 * MIB, Duration::from_secs(3_600), &BufferPool::default());
    let mut first = budget.receive_body(Sender::Public, MIB);
    first.add(MIB).await.unwrap();
    let mut second = budget.receive_body(Sender::Public, MIB);
    second.add(MIB).await.unwrap();
    assert!(second.is_contended(), "it finishes in the overflow area");
    // A body with a large Content-Length waits in the large lane.
    let mut announced = budget.receive_body(Sender::Public, MIB);
    assert!(timeout(Duration::ZERO, announced.add(KIB)).await.is_err());
    assert_eq!(budget.pool(PoolKind::SmallBodies).bytes(), 0);
    // One without Content-Length is refused when it outgrows the small lane.
    let mut silent = budget.receive_body(Sender::Public, 0);
    silent.add(SMALL_BYTES).await.unwrap();
    assert_eq!(silent.add(1).await, Err(Busy));
    drop(silent);
    budget.receive_body(Sender::Public, KIB).add(KIB).await.unwrap();
}

#[tokio::test]
async fn body_does_not_contend_with_itself() {
    let budget = Budget::new(32 * MIB, 4 * MIB, Duration::from_secs(3_600), &BufferPool::default());
    let pool = budget.pool(PoolKind::LargeBodies);
    let most = pool.0.units as usize * UNIT_BYTES / STEP_BYTES * STEP_BYTES;
    let mut alone = budget.receive_body(Sender::Public, most);
    alone.add(most - STEP_BYTES).await.unwrap();
    assert!(!alone.is_contended());
    let mut other = budget.receive_body(Sender::Public, MIB);
    other.add(STEP_BYTES).await.unwrap();
    assert!(!alone.is_contended() && other.is_contended());
    // The first body without a reservation finishes in the overflow area; the next one waits.
    let mut finishing = budget.receive_body(Sender::Public, 2 * MIB);
    finishing.add(2 * MIB).await.unwrap();
    let mut third = budget.receive_body(Sender::Public, 2 * MIB);
    let mut waits = Box::pin(third.add(2 * MIB));
    assert!(timeout(Duration::ZERO, waits.as_mut()).await.is_err());
    assert!(alone.is_contended(), "another body waits");
    drop(waits);
    assert!(!alone.is_contended());
}

#[tokio::test]
async fn oversized_values_leave_capacity_for_other_members() {
    let budget = Budget::new(64 * MIB, 4 * MIB, Duration::ZERO, &BufferPool::default());
    let huge = budget.reserve_values(100 * MIB).await.unwrap();
    assert_eq!(budget.pool(PoolKind::MemberValues).bytes(), MIB);
    assert_eq!(
        budget.reserve_values(2 * MIB).await.err(),
        Some(Busy),
        "oversized bodies run one at a time"
    );
    let others =
        [budget.reserve_values(MIB).await.unwrap(), budget.reserve_values(MIB).await.unwrap()];
    drop(huge);
    budget.reserve_values(2 * MIB).await.unwrap();
    drop(others);
    assert_eq!(budget.bytes(), 0);
}

#[tokio::test]
async fn growing_past_the_small_lane_moves_to_the_large_one_without_waiting() {
    let budget = Budget::new(16 * MIB, 4 * MIB, Duration::from_secs(3_600), &BufferPool::default());
    let mut reservation = budget.reserve_decoded(KIB).await.unwrap();
    budget.grow_or_switch_lane(&mut reservation, SMALL_DECODED_BYTES_MAX + 1).unwrap();
    assert_eq!(budget.pool(PoolKind::SmallDecoded).bytes(), 0);
    assert!(
        !reservation.is_small()
            && budget.pool(PoolKind::LargeDecoded).bytes() > SMALL_DECODED_BYTES_MAX
    );
    let mut other = budget.reserve_decoded(KIB).await.unwrap();
    assert_eq!(budget.grow_or_switch_lane(&mut other, usize::MAX), Err(Busy));
    drop((reservation, other));
    assert_eq!(budget.bytes(), 0);
}
