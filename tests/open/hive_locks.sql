-- Tables by which a Hive Metastore 3 locks tables, for Derby; it creates all others by itself.
create table TXNS (TXN_ID bigint primary key, TXN_STATE char(1) not null, TXN_STARTED bigint not null, TXN_LAST_HEARTBEAT bigint not null, TXN_USER varchar(128) not null, TXN_HOST varchar(128) not null, TXN_AGENT_INFO varchar(128), TXN_META_INFO varchar(128), TXN_HEARTBEAT_COUNT integer, TXN_TYPE integer);
create table TXN_COMPONENTS (TC_TXNID bigint not null references TXNS (TXN_ID), TC_DATABASE varchar(128) not null, TC_TABLE varchar(128), TC_PARTITION varchar(767), TC_OPERATION_TYPE char(1) not null, TC_WRITEID bigint);
create table HIVE_LOCKS (
    HL_LOCK_EXT_ID bigint not null,
    HL_LOCK_INT_ID bigint not null,
    HL_TXNID bigint not null,
    HL_DB varchar(128) not null,
    HL_TABLE varchar(128),
    HL_PARTITION varchar(767),
    HL_LOCK_STATE char(1) not null,
    HL_LOCK_TYPE char(1) not null,
    HL_LAST_HEARTBEAT bigint not null,
    HL_ACQUIRED_AT bigint,
    HL_USER varchar(128) not null,
    HL_HOST varchar(128) not null,
    HL_HEARTBEAT_COUNT integer,
    HL_AGENT_INFO varchar(128),
    HL_BLOCKEDBY_EXT_ID bigint,
    HL_BLOCKEDBY_INT_ID bigint, primary key (HL_LOCK_EXT_ID,
    HL_LOCK_INT_ID));
create table NEXT_LOCK_ID (NL_NEXT bigint not null);
insert into NEXT_LOCK_ID values (1);
create table AUX_TABLE (MT_KEY1 varchar(128) not null, MT_KEY2 bigint not null, MT_COMMENT varchar(255), primary key (MT_KEY1, MT_KEY2));
