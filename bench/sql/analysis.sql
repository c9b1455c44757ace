-- persons by a person property
select person.properties.plan as tier, uniqExact(person_id) as persons, count() as n
from events where event = '$pageview' and person.properties.plan is not null group by tier order by tier limit 10
--- clickhouse
select dictGet('bench.person', 'plan', person) as tier, uniqExact(person) as persons, count() as n
from bench.events where event = '$pageview' and tier is not null group by tier order by tier limit 10

-- days by a person property
select toDate(timestamp) as day, person.properties.$browser as browser, count() as n
from events where event = 'purchase' group by day, browser order by day, browser limit 1000
--- clickhouse
select toDate(timestamp) as day, dictGet('bench.person', 'browser', person) as browser, count() as n
from bench.events where event = 'purchase' group by day, browser order by day, browser limit 1000

-- filter on a person property
select event, count() as n from events where person.properties.plan = 'enterprise' group by event order by n desc, event limit 20
--- clickhouse
select event, count() as n from bench.events where person in (select person from bench.persons where plan = 'enterprise')
group by event order by n desc, event limit 20

-- persons by plan
select properties.plan as tier, count() as n from persons where properties.plan is not null group by tier order by tier limit 10
--- clickhouse
select plan as tier, count() as n from bench.persons where plan is not null group by tier order by tier limit 10

-- persons who bought, in a subquery
select event, count() as n from events
where person_id in (select person_id from events where event = 'purchase' and properties.amount > 150)
group by event order by n desc, event limit 20

-- signed up, then bought: a join of subqueries
with signed as (select person_id as p, min(timestamp) as at from events where event = 'signed up' group by p),
    bought as (select person_id as p, min(timestamp) as at from events where event = 'purchase' group by p)
select toStartOfWeek(signed.at, 1) as week, count() as persons, round(avg(dateDiff('hour', signed.at, bought.at)), 6) as hours
from signed join bought on signed.p = bought.p where bought.at > signed.at group by week order by week limit 20

-- funnel by conditions
select count(), countIf(added > viewed), countIf(bought > added and added > viewed) from (
    select minIf(timestamp, event = '$pageview') as viewed, minIf(timestamp, event = 'item added') as added,
        minIf(timestamp, event = 'purchase') as bought
    from events where event in ('$pageview', 'item added', 'purchase')
    group by person_id having countIf(event = '$pageview') > 0)

-- two events as one list
select day, sum(v) as views, sum(o) as orders from (
    select toDate(timestamp) as day, count() as v, 0 as o from events where event = '$pageview' group by day
    union all
    select toDate(timestamp) as day, 0 as v, count() as o from events where event = 'purchase' group by day)
group by day order by day limit 100

-- conditions by day
select toDate(timestamp) as day, countIf(event = '$pageview') as views, countIf(event = 'purchase') as orders,
    round(sumIf(properties.amount, event = 'purchase'), 2) as revenue, avgIf(properties.load_ms, event = '$pageview') as ms
from events group by day order by day limit 100

-- medians by browser
select properties.$browser as browser, quantile(0.5)(properties.load_ms) as half, quantile(0.99)(properties.load_ms) as slowest
from events where event = '$pageview' group by browser order by browser limit 20
--- clickhouse
select `$browser` as browser, quantileExactInclusive(0.5)(load_ms) as half, quantileExactInclusive(0.99)(load_ms) as slowest
from bench.events where event = '$pageview' group by browser order by browser limit 20

-- running total of orders
select day, n, sum(n) over (order by day) as total from (
    select toDate(timestamp) as day, count() as n from events where event = 'purchase' group by day)
order by day limit 100

-- first ten views of persons
select place, count() as n from (
    select row_number() over (partition by person_id order by timestamp) as place
    from events where event = '$pageview' and timestamp >= '2026-02-01 00:00:00' and timestamp < '2026-03-01 00:00:00')
where place <= 10 group by place order by place limit 10

-- seconds between orders
select round(avg(dateDiff('second', before, timestamp)), 6), count() from (
    select timestamp, row_number() over (partition by person_id order by timestamp) as place,
        lagInFrame(timestamp) over (
            partition by person_id order by timestamp rows between unbounded preceding and current row) as before
    from events where event = 'purchase')
where place > 1

-- last order of each day
select timestamp, distinct_id, properties.amount from events where event = 'purchase'
order by timestamp desc limit 1 by toDate(timestamp) limit 100

-- first paths of sessions
select arrayStringConcat(arraySlice(paths, 1, 3), ' > ') as trail, count() as n from (
    select arrayMap(pair -> pair.2, arraySort(groupArray((timestamp, properties.title)))) as paths
    from events where event = '$pageview' group by properties.$session_id)
group by trail order by n desc, trail limit 20
--- clickhouse
select arrayStringConcat(arraySlice(paths, 1, 3), ' > ') as trail, count() as n from (
    select arrayMap(pair -> pair.2, arraySort(groupArray((timestamp, title)))) as paths
    from bench.events where event = '$pageview' group by session)
group by trail order by n desc, trail limit 20

-- parts of paths
select arrayJoin(splitByChar('/', properties.$pathname)) as part, count() as n
from events where event = '$pageview' group by part order by n desc, part limit 20

-- lambdas over groups
select headline, length(places) as kinds, arraySum(arrayMap(x -> x * x, arrayFilter(x -> x > 25, places))) as squares
from (select properties.title as headline, groupUniqArray(properties.position) as places from events group by headline)
order by headline limit 20

-- devices of persons
select arrayStringConcat(arraySort(devices), '+') as kinds, count() as persons from (
    select groupUniqArray(properties.$device_type) as devices from events group by person_id)
group by kinds order by persons desc, kinds limit 20

-- weekly retention
select first, dateDiff('week', first, week) as after, count() as persons from (
    select distinct person_id as p, toStartOfWeek(timestamp, 1) as week from events where event = '$pageview') as later
join (select person_id as q, toStartOfWeek(min(timestamp), 1) as first from events where event = '$pageview' group by q) as began
    on later.p = began.q
group by first, after order by first, after limit 1000

-- new persons by day
select day, count() as persons from (
    select person_id, toDate(min(timestamp)) as day from events group by person_id) group by day order by day limit 100
