-- Flights that arrived before they departed, or departed and have another status: there are none.
select flight_id, status, departed_at, arrived_at
from {{ ref('dwd_flights') }}
where arrived_at <= departed_at
    or (arrived_at is not null and departed_at is null)
    or (status = 'scheduled') <> (departed_at is null)
    or (status = 'arrived') <> (arrived_at is not null)
