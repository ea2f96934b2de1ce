create table flights (
    flight_id text primary key,
    flight_date date,
    carrier text,
    flight_number integer,
    tailnum text,
    origin text,
    dest text,
    distance_miles integer,
    scheduled_departure_at timestamptz,
    scheduled_hour timestamptz,
    sched_dep_time integer,
    sched_arr_time integer,
    status text,
    dep_time integer,
    departed_at timestamptz,
    dep_delay_minutes integer,
    arr_time integer,
    arrived_at timestamptz,
    arr_delay_minutes integer,
    air_time_minutes integer,
    event_ts timestamptz
);

create table planes (
    tailnum text primary key,
    owner text,
    year_built integer,
    type text,
    manufacturer text,
    model text,
    engines integer,
    engine text,
    seats integer,
    event_ts timestamptz
);

create table airports (
    faa text primary key,
    name text,
    operator text,
    lat numeric(10, 7),
    lon numeric(10, 7),
    alt_feet integer,
    tz_hours integer,
    dst text,
    tzone text,
    event_ts timestamptz
);

create table weather (
    origin text,
    observed_hour timestamptz,
    temp_f numeric(5, 2),
    dewp_f numeric(5, 2),
    humid_percent numeric(5, 2),
    wind_dir_degrees integer,
    wind_speed_mph numeric(9, 5),
    wind_gust_mph numeric(9, 5),
    precip_inches numeric(5, 2),
    pressure_mbar numeric(6, 1),
    visib_miles numeric(5, 2),
    event_ts timestamptz,
    primary key (origin, observed_hour)
);
