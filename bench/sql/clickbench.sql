-- all events
select count() from events

-- a rare value
select count() from events where properties.is_employee = 'true'

-- sum, count and average
select round(sum(properties.amount), 2), count(), avg(properties.load_ms) from events

-- average of a number
select avg(properties.$screen_width) from events

-- distinct persons
select uniqExact(person_id) from events

-- distinct URLs
select uniqExact(properties.$current_url) from events

-- first and last event
select min(timestamp), max(timestamp) from events

-- events by name, without the most frequent
select event, count() as n from events where event != '$pageview' group by event order by n desc, event limit 10

-- persons by time zone
select properties.$timezone as zone, uniqExact(person_id) as persons
from events group by zone order by persons desc, zone limit 10

-- several aggregates by language
select properties.$browser_language as language, sum(properties.load_ms) as ms, count() as n,
    avg(properties.$screen_width) as width, uniqExact(person_id) as persons
from events group by language order by n desc, language limit 10

-- persons by a sparse property
select properties.utm_source as source, uniqExact(person_id) as persons
from events where properties.utm_source is not null group by source order by persons desc, source limit 10

-- persons by two keys
select properties.utm_source as source, properties.$device_type as device, uniqExact(person_id) as persons
from events where properties.utm_source is not null
group by source, device order by persons desc, source, device limit 10

-- top paths
select properties.$pathname as path, count() as n from events group by path order by n desc, path limit 10

-- top paths by persons
select properties.$pathname as path, uniqExact(person_id) as persons
from events group by path order by persons desc, path limit 10

-- top pairs of source and path
select properties.utm_source as source, properties.$pathname as path, count() as n
from events where properties.utm_source is not null
group by source, path order by n desc, source, path limit 10

-- most active persons
select count() as n from events group by person_id order by n desc limit 10

-- most active distinct ids
select distinct_id, count() as n from events group by distinct_id order by n desc, distinct_id limit 10

-- distinct id and title
select distinct_id, properties.title as headline, count() as n
from events group by distinct_id, headline order by n desc, distinct_id, headline limit 10

-- distinct id, minute and title
select distinct_id, toMinute(timestamp) as minute, properties.title as headline, count() as n
from events group by distinct_id, minute, headline order by n desc, distinct_id, minute, headline limit 10

-- one distinct id
select timestamp, event, properties.$pathname from events where distinct_id = 'user_1@example.com' order by timestamp limit 1000

-- URL contains
select count() from events where properties.$current_url like '%/pricing/17%'

-- URL contains, by title
select properties.title as headline, min(properties.$current_url) as first, count() as n
from events where properties.$current_url like '%ref=ab%' group by headline order by n desc, headline limit 10

-- several searches, several aggregates
select properties.$pathname as path, min(properties.$current_url) as first, count() as n, uniqExact(person_id) as persons
from events
where properties.$current_url ilike '%PRICING%' and properties.$current_url not like '%ref=a%' and properties.title != 'home'
group by path order by n desc, path limit 10

-- oldest of a sparse property
select properties.$pathname from events where properties.utm_source is not null order by timestamp limit 10

-- first in the alphabet
select properties.$current_url as url from events where properties.utm_source is not null order by url limit 10

-- oldest, then by URL
select timestamp, properties.$current_url as url from events
where properties.utm_source is not null order by toStartOfHour(timestamp), url, timestamp limit 10

-- length of URLs by event, with HAVING
select event, avg(length(properties.$current_url)) as chars, count() as n
from events group by event having n > 1000 order by chars desc, event limit 25

-- domains by a regular expression
select replaceRegexpOne(properties.$referrer, '^https?://(?:www\\.)?([^/]+)/.*$', '\\1') as domain,
    avg(length(properties.$referrer)) as chars, count() as n, min(properties.$referrer) as first
from events where properties.$referrer != '' group by domain order by n desc, domain limit 25

-- URLs without their query, by a regular expression
select replaceRegexpOne(properties.$current_url, '\\?.*$', '') as page, count() as n
from events where event = '$pageview' group by page order by n desc, page limit 25

-- twenty sums
select sum(properties.$screen_width), sum(properties.$screen_width + 1), sum(properties.$screen_width + 2),
    sum(properties.$screen_width + 3), sum(properties.$screen_width + 4), sum(properties.$screen_width + 5),
    sum(properties.$screen_width + 6), sum(properties.$screen_width + 7), sum(properties.$screen_width + 8),
    sum(properties.$screen_width + 9), sum(properties.$screen_width + 10), sum(properties.$screen_width + 11),
    sum(properties.$screen_width + 12), sum(properties.$screen_width + 13), sum(properties.$screen_width + 14),
    sum(properties.$screen_width + 15), sum(properties.$screen_width + 16), sum(properties.$screen_width + 17),
    sum(properties.$screen_width + 18), sum(properties.$screen_width + 19)
from events

-- source and version
select properties.utm_source as source, properties.$browser_version as version, count() as n,
    sum(properties.load_ms) as ms, avg(properties.$screen_width) as width
from events where properties.utm_source is not null
group by source, version order by n desc, source, version limit 10

-- sessions of a sparse property
select properties.$session_id as id, properties.$browser_version as version, count() as n,
    sum(properties.load_ms) as ms, avg(properties.$screen_width) as width
from events where properties.utm_source is not null group by id, version order by n desc, id, version limit 10

-- all sessions and windows
select properties.$session_id as id, properties.$window_id as part, count() as n,
    sum(properties.load_ms) as ms, avg(properties.$screen_width) as width
from events group by id, part order by n desc, id, part limit 10

-- top URLs
select properties.$current_url as url, count() as n from events group by url order by n desc, url limit 10

-- a constant and the URL
select 1 as one, properties.$current_url as url, count() as n from events group by one, url order by n desc, url limit 10

-- functions of one number
select properties.$browser_version as v, properties.$browser_version - 1 as v1, properties.$browser_version - 2 as v2,
    properties.$browser_version - 3 as v3, count() as n
from events group by v, v1, v2, v3 order by n desc, v limit 10

-- pages of a month
select properties.$current_url as url, count() as n from events
where event = '$pageview' and timestamp >= '2026-02-01 00:00:00' and timestamp < '2026-03-01 00:00:00'
    and properties.$device_type = 'Mobile' and properties.plan != 'free'
group by url order by n desc, url limit 10

-- titles of a month
select properties.title as headline, count() as n from events
where event = '$pageview' and timestamp >= '2026-02-01 00:00:00' and timestamp < '2026-03-01 00:00:00'
    and properties.$device_type = 'Mobile' and properties.plan != 'free'
group by headline order by n desc, headline limit 10

-- pages with an offset
select properties.$pathname as path, count() as n from events
where event = '$pageview' and timestamp >= '2026-02-01 00:00:00' and timestamp < '2026-03-01 00:00:00'
    and properties.$os = 'iOS'
group by path order by n desc, path limit 10 offset 1000

-- five keys with a condition
select properties.utm_source as source, properties.$device_type as device, properties.$os as os,
    if(properties.$referring_domain = '$direct', '', properties.$referrer) as src, properties.$pathname as dst, count() as n
from events
where properties.utm_source is not null and timestamp >= '2026-02-01 00:00:00' and timestamp < '2026-03-01 00:00:00'
group by source, device, os, src, dst order by n desc, source, device, os, src, dst limit 10 offset 1000

-- paths by day
select properties.$pathname as path, toDate(timestamp) as day, count() as n from events
where event = '$pageview' and properties.$referring_domain = 't.co'
group by path, day order by n desc, path, day limit 10 offset 100

-- sizes of windows
select properties.$viewport_width as width, properties.$viewport_height as height, properties.$browser_version as version, count() as n
from events where event = '$pageview' and timestamp >= '2026-02-01 00:00:00' and timestamp < '2026-03-01 00:00:00'
group by width, height, version order by n desc, width, height, version limit 10 offset 100

-- minutes
select toStartOfMinute(timestamp) as minute, count() as n from events
where event = '$pageview' and timestamp >= '2026-02-14 00:00:00' and timestamp < '2026-02-16 00:00:00'
group by minute order by minute limit 10 offset 1000
