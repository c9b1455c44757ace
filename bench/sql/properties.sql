-- the latest events
select uuid, event, timestamp, distinct_id, properties from events order by timestamp desc limit 100
--- without
select uuid, event, timestamp, distinct_id from events order by timestamp desc limit 100
--- clickhouse
select * from bench.events order by timestamp desc limit 100

-- the latest ten thousand
select event, timestamp, distinct_id, properties from events order by timestamp desc limit 10000
--- without
select event, timestamp, distinct_id from events order by timestamp desc limit 10000
--- clickhouse
select * from bench.events order by timestamp desc limit 10000

-- everything of one distinct id
select * from events where distinct_id = 'user_1@example.com' limit 100
--- without
select * except (properties, person_properties) from events where distinct_id = 'user_1@example.com' limit 100
--- clickhouse
select * from bench.events where distinct_id = 'user_1@example.com' limit 100
--- unordered

-- everything of nobody
select * from events where distinct_id = 'nobody' limit 100
--- without
select * except (properties, person_properties) from events where distinct_id = 'nobody' limit 100
--- clickhouse
select * from bench.events where distinct_id = 'nobody' limit 100

-- everything of rare events
select * from events where event = 'purchase' and properties.amount > 200.5 order by timestamp limit 100
--- without
select * except (properties, person_properties) from events where event = 'purchase' and properties.amount > 200.5 order by timestamp limit 100
--- clickhouse
select * from bench.events where event = 'purchase' and amount > 200.5 order by timestamp limit 100

-- everything where the URL contains
select * from events where properties.$current_url like '%/checkout/39%' order by timestamp limit 10
--- without
select * except (properties, person_properties) from events where properties.$current_url like '%/checkout/39%' order by timestamp limit 10
--- clickhouse
select * from bench.events where `$current_url` like '%/checkout/39%' order by timestamp limit 10

-- events of a person
select event, timestamp, properties from events where person.properties.email = 'user_3@example.com' order by timestamp limit 100
--- without
select event, timestamp from events where person.properties.email = 'user_3@example.com' order by timestamp limit 100
--- clickhouse
select * from bench.events where person in (select person from bench.persons where email = 'user_3@example.com')
order by timestamp limit 100

-- through a subquery and a join
with bought as (select uuid, timestamp, distinct_id, properties from events where event = 'purchase')
select bought.timestamp as timestamp, bought.distinct_id as distinct_id, bought.properties as properties
from bought join (select distinct_id as id, count() as n from events where event = '$pageview' group by id) as viewed
    on bought.distinct_id = viewed.id
where viewed.n >= 30 order by timestamp desc limit 50
--- without
with bought as (select uuid, timestamp, distinct_id from events where event = 'purchase')
select bought.timestamp as timestamp, bought.distinct_id as distinct_id
from bought join (select distinct_id as id, count() as n from events where event = '$pageview' group by id) as viewed
    on bought.distinct_id = viewed.id
where viewed.n >= 30 order by timestamp desc limit 50
--- clickhouse
select * from bench.events where event = 'purchase'
    and distinct_id in (select distinct_id from bench.events where event = '$pageview' group by distinct_id having count() >= 30)
order by timestamp desc limit 50
