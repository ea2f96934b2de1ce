create table orders (
    order_id bigint primary key,
    customer text not null,
    amount numeric(12, 2) not null
);
insert into orders values (1, 'ann', 20), (2, 'ann', 30), (3, 'bob', 5);
