-- visitors, views and sessions by day
select toDate(timestamp) as day, uniqExact(person_id) as visitors, countIf(event = '$pageview') as views,
    uniqExact(properties.$session_id) as visits
from events where event in ('$pageview', '$autocapture', '$pageleave') group by day order by day limit 100

-- sessions: count, duration and bounce rate
select count(), avg($session_duration), avg($pageview_count), round(avg(if($is_bounce, 1, 0)), 6)
from sessions where $start_timestamp >= '2026-02-01 00:00:00' and $start_timestamp < '2026-03-01 00:00:00'

-- entry pages
select $entry_pathname as path, count() as visits, round(avg(if($is_bounce, 1, 0)), 6) as bounced
from sessions where $start_timestamp >= '2026-01-15 00:00:00' and $start_timestamp < '2026-03-15 00:00:00'
group by path order by visits desc, path limit 20

-- exit pages
select $exit_pathname as path, count() as visits, avg($session_duration) as seconds
from sessions group by path order by visits desc, path limit 20

-- sessions by source and day
select toDate($start_timestamp) as day, $entry_referring_domain as domain, count() as visits
from sessions group by day, domain order by day, domain limit 1000

-- long sessions
select session_id, $session_duration, $pageview_count from sessions order by $session_duration desc, session_id limit 20

-- events by entry page
select session.$entry_pathname as path, count() as n, uniqExact(person_id) as persons
from events where event = '$pageview' group by path order by n desc, path limit 20
--- clickhouse
select s.`$entry_pathname` as path, count() as n, uniqExact(e.person) as persons
from bench.events as e join bench.sessions as s using session
where e.event = '$pageview' group by path order by n desc, path limit 20

-- events of long sessions
select event, count() as n from events where session.$session_duration > 3600 group by event order by n desc, event limit 20
--- clickhouse
select event, count() as n from bench.events
where session in (select session from bench.sessions where `$session_duration` > 3600)
group by event order by n desc, event limit 20

-- paths with views, visitors and bounce rate
select properties.$pathname as path, count() as views, uniqExact(person_id) as visitors,
    round(avg(if(session.$is_bounce, 1, 0)), 6) as bounced
from events where event = '$pageview' and timestamp >= '2026-02-01 00:00:00' and timestamp < '2026-03-01 00:00:00'
group by path order by views desc, path limit 20
--- clickhouse
select e.`$pathname` as path, count() as views, uniqExact(e.person) as visitors, round(avg(if(s.`$is_bounce`, 1, 0)), 6) as bounced
from bench.events as e join bench.sessions as s using session
where e.event = '$pageview' and e.timestamp >= '2026-02-01 00:00:00' and e.timestamp < '2026-03-01 00:00:00'
group by path order by views desc, path limit 20

-- conversion by entry source
select session.$entry_utm_source as source, uniqExact(properties.$session_id) as visits,
    uniqExactIf(properties.$session_id, event = 'purchase') as bought
from events where session.$entry_utm_source is not null group by source order by visits desc, source limit 20
--- clickhouse
select s.`$entry_utm_source` as source, uniqExact(e.session) as visits, uniqExactIf(e.session, e.event = 'purchase') as bought
from bench.events as e join bench.sessions as s using session
where s.`$entry_utm_source` != '' group by source order by visits desc, source limit 20

-- hours of the week
select toDayOfWeek(timestamp) as day, toHour(timestamp) as hour, uniqExact(person_id) as persons
from events where event = '$pageview' group by day, hour order by day, hour limit 200
