-- How ClickHouse stores the set beside `events`: sessions as a table that is computed once, persons
-- in memory. `events` is the reference set with a column for each property.

create table bench.sessions engine = MergeTree order by `$start_timestamp` as
select
    session,
    any(`$session_id`) as session_id,
    argMin(distinct_id, timestamp) as first_distinct_id,
    min(timestamp) as `$start_timestamp`,
    max(timestamp) as `$end_timestamp`,
    uniqExact(`$current_url`) as `$num_uniq_urls`,
    argMin(`$current_url`, timestamp) as `$entry_current_url`,
    argMin(`$pathname`, timestamp) as `$entry_pathname`,
    argMax(`$pathname`, timestamp) as `$exit_pathname`,
    argMin(`$referring_domain`, timestamp) as `$entry_referring_domain`,
    argMinIf(utm_source, timestamp, utm_source != '') as `$entry_utm_source`,
    countIf(event = '$pageview') as `$pageview_count`,
    countIf(event = '$autocapture') as `$autocapture_count`,
    toUInt32(toUnixTimestamp(`$end_timestamp`) - toUnixTimestamp(`$start_timestamp`)) as `$session_duration`,
    `$pageview_count` <= 1 and `$autocapture_count` = 0 and `$session_duration` < 10 as `$is_bounce`
from bench.events
group by session;

create dictionary bench.person (person UInt64, plan Nullable(String), browser String, email Nullable(String))
primary key person
source(clickhouse(db 'bench' table 'persons'))
layout(flat(initial_array_size 50000 max_array_size 5000000))
lifetime(0);
