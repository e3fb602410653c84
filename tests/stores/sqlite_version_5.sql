BEGIN TRANSACTION;
CREATE TABLE retrykit_audit (entry TEXT NOT NULL PRIMARY KEY, at INTEGER NOT NULL, step INTEGER NOT NULL);
CREATE TABLE retrykit_bookmarks (source TEXT NOT NULL PRIMARY KEY, at INTEGER NOT NULL);
CREATE TABLE retrykit_circuits (name TEXT NOT NULL PRIMARY KEY, keep_until INTEGER, record TEXT NOT NULL);
CREATE TABLE retrykit_claims (
        key TEXT NOT NULL PRIMARY KEY, state TEXT NOT NULL, unsettled_at INTEGER, record TEXT NOT NULL, settled_at INTEGER);
INSERT INTO "retrykit_claims" VALUES('sent','done',NULL,'{"schema_version":1,"key":"sent","state":"done","seq":2,"lease":null,"generation":1,"fingerprint":"f","opened_at":1767225600000,"not_before":null,"disposition":"sent","reason":null,"dead_letter_id":null,"provider":"ses","provider_id":"p-1","settled_at":1767225600000,"counters":[1,0,0,0],"checks":0,"note":"","is_unsure":false,"attempts":[]}',1767225600000);
INSERT INTO "retrykit_claims" VALUES('waiting','waiting',NULL,'{"schema_version":1,"key":"waiting","state":"waiting","seq":2,"lease":null,"generation":1,"fingerprint":"f","opened_at":1767225600000,"not_before":1767225660000,"disposition":null,"reason":null,"dead_letter_id":null,"provider":null,"provider_id":null,"settled_at":null,"counters":[1,1,0,0],"checks":0,"note":"again","is_unsure":false,"attempts":[{"number":1,"generation":1,"failed_at":"2026-01-01T00:00:00.000Z","action":"retry","delay":60.0,"reason":"again","worker":"worker-1","error_class":"network_timeout","error_group":"transient_infrastructure","outcome":"unknown","error_code":"421","error_message":"timed out \u00fc","provider":"ses"}]}',NULL);
INSERT INTO "retrykit_claims" VALUES('unknown','unknown',1767225660000,'{"schema_version":1,"key":"unknown","state":"unknown","seq":2,"lease":null,"generation":1,"fingerprint":"f","opened_at":1767225600000,"not_before":1767225660000,"disposition":null,"reason":null,"dead_letter_id":null,"provider":null,"provider_id":null,"settled_at":null,"counters":[1,1,0,0],"checks":0,"note":"ask","is_unsure":false,"attempts":[{"number":1,"generation":1,"failed_at":"2026-01-01T00:00:00.000Z","action":"verify","delay":60.0,"reason":"ask","worker":"worker-1","error_class":"network_timeout","error_group":"transient_infrastructure","outcome":"unknown","error_code":"421","error_message":"timed out \u00fc","provider":"ses"}]}',NULL);
INSERT INTO "retrykit_claims" VALUES('sending','sending',1767225630000,'{"schema_version":1,"key":"sending","state":"sending","seq":1,"lease":["worker-1",1,1767225630000],"generation":1,"fingerprint":"f","opened_at":1767225600000,"not_before":null,"disposition":null,"reason":null,"dead_letter_id":null,"provider":null,"provider_id":null,"settled_at":null,"counters":[1,0,0,0],"checks":0,"note":"","is_unsure":false,"attempts":[]}',NULL);
INSERT INTO "retrykit_claims" VALUES('claimed','claimed',NULL,'{"schema_version":1,"key":"claimed","state":"claimed","seq":1,"lease":["worker-1",1,1767225630000],"generation":1,"fingerprint":"f","opened_at":1767225600000,"not_before":null,"disposition":null,"reason":null,"dead_letter_id":null,"provider":null,"provider_id":null,"settled_at":null,"counters":[1,0,0,0],"checks":0,"note":"","is_unsure":false,"attempts":[]}',NULL);
INSERT INTO "retrykit_claims" VALUES('dead','done',NULL,'{"schema_version":1,"key":"dead","state":"done","seq":2,"lease":null,"generation":1,"fingerprint":"f","opened_at":1767225600000,"not_before":null,"disposition":"dead_lettered","reason":"retries_exhausted","dead_letter_id":"dead#1","provider":null,"provider_id":null,"settled_at":1767225600000,"counters":[1,1,0,0],"checks":0,"note":"all used","is_unsure":true,"attempts":[{"number":1,"generation":1,"failed_at":"2026-01-01T00:00:00.000Z","action":"dead_letter","delay":0.0,"reason":"all used","worker":"worker-1","error_class":"network_timeout","error_group":"transient_infrastructure","outcome":"unknown","error_code":"421","error_message":"timed out \u00fc","provider":"ses"}]}',1767225600000);
CREATE TABLE retrykit_dead_letter_attributes (
        number INTEGER NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (number, name)) WITHOUT ROWID
    ;
INSERT INTO "retrykit_dead_letter_attributes" VALUES(4,'tenant','acme \ud800');
CREATE TABLE retrykit_dead_letter_minutes (
        minute INTEGER NOT NULL, kind INTEGER NOT NULL, total INTEGER NOT NULL, added INTEGER NOT NULL,
        PRIMARY KEY (minute, kind)) WITHOUT ROWID
    ;
INSERT INTO "retrykit_dead_letter_minutes" VALUES(29453760,2,1,1);
INSERT INTO "retrykit_dead_letter_minutes" VALUES(29453760,3,2,2);
INSERT INTO "retrykit_dead_letter_minutes" VALUES(29455200,1,1,1);
CREATE TABLE retrykit_dead_letter_notes (
        fingerprint TEXT NOT NULL PRIMARY KEY, muted INTEGER NOT NULL, muted_until INTEGER, owner TEXT NOT NULL,
        note TEXT NOT NULL, updated_by TEXT NOT NULL, updated_at INTEGER NOT NULL) WITHOUT ROWID
    ;
CREATE TABLE retrykit_dead_letter_runs (
        span INTEGER NOT NULL, bucket INTEGER NOT NULL, lowest INTEGER NOT NULL, highest INTEGER NOT NULL,
        PRIMARY KEY (span, bucket)) WITHOUT ROWID
    ;
INSERT INTO "retrykit_dead_letter_runs" VALUES(60,490896,1,3);
INSERT INTO "retrykit_dead_letter_runs" VALUES(60,490920,4,4);
INSERT INTO "retrykit_dead_letter_runs" VALUES(1440,20454,1,3);
INSERT INTO "retrykit_dead_letter_runs" VALUES(1440,20455,4,4);
CREATE TABLE retrykit_dead_letter_sums (
        span INTEGER NOT NULL, bucket INTEGER NOT NULL, field TEXT NOT NULL, value TEXT NOT NULL, by_field TEXT NOT NULL,
        by_value TEXT NOT NULL, total INTEGER NOT NULL, PRIMARY KEY (span, bucket, field, value, by_field, by_value))
        WITHOUT ROWID
    ;
INSERT INTO "retrykit_dead_letter_sums" VALUES(0,0,'','','campaign_id','spring',3);
INSERT INTO "retrykit_dead_letter_sums" VALUES(0,0,'','','error_class','mailbox_full',3);
INSERT INTO "retrykit_dead_letter_sums" VALUES(0,0,'','','error_class','own.class',1);
INSERT INTO "retrykit_dead_letter_sums" VALUES(0,0,'','','error_code','',2);
INSERT INTO "retrykit_dead_letter_sums" VALUES(0,0,'','','error_group','internal',1);
INSERT INTO "retrykit_dead_letter_sums" VALUES(0,0,'','','error_group','temporary_mailbox',3);
INSERT INTO "retrykit_dead_letter_sums" VALUES(0,0,'','','fingerprint','v1:abc',1);
INSERT INTO "retrykit_dead_letter_sums" VALUES(0,0,'','','provider','ses',3);
INSERT INTO "retrykit_dead_letter_sums" VALUES(0,0,'','','reason','retries_exhausted',4);
INSERT INTO "retrykit_dead_letter_sums" VALUES(0,0,'','','stage','send',1);
INSERT INTO "retrykit_dead_letter_sums" VALUES(0,0,'','','state','quarantined',3);
INSERT INTO "retrykit_dead_letter_sums" VALUES(0,0,'','','state','resolved',1);
INSERT INTO "retrykit_dead_letter_sums" VALUES(0,0,'campaign_id','spring','error_class','mailbox_full',3);
INSERT INTO "retrykit_dead_letter_sums" VALUES(0,0,'campaign_id','spring','error_code','',2);
INSERT INTO "retrykit_dead_letter_sums" VALUES(0,0,'campaign_id','spring','provider','ses',3);
INSERT INTO "retrykit_dead_letter_sums" VALUES(0,0,'campaign_id','spring','state','quarantined',2);
INSERT INTO "retrykit_dead_letter_sums" VALUES(0,0,'campaign_id','spring','state','resolved',1);
INSERT INTO "retrykit_dead_letter_sums" VALUES(0,0,'error_class','mailbox_full','campaign_id','spring',3);
INSERT INTO "retrykit_dead_letter_sums" VALUES(0,0,'error_class','mailbox_full','error_code','',2);
INSERT INTO "retrykit_dead_letter_sums" VALUES(0,0,'error_class','mailbox_full','provider','ses',3);
INSERT INTO "retrykit_dead_letter_sums" VALUES(0,0,'error_class','mailbox_full','state','quarantined',2);
INSERT INTO "retrykit_dead_letter_sums" VALUES(0,0,'error_class','mailbox_full','state','resolved',1);
INSERT INTO "retrykit_dead_letter_sums" VALUES(0,0,'error_class','own.class','fingerprint','v1:abc',1);
INSERT INTO "retrykit_dead_letter_sums" VALUES(0,0,'error_class','own.class','state','quarantined',1);
INSERT INTO "retrykit_dead_letter_sums" VALUES(0,0,'error_code','','campaign_id','spring',2);
INSERT INTO "retrykit_dead_letter_sums" VALUES(0,0,'error_code','','error_class','mailbox_full',2);
INSERT INTO "retrykit_dead_letter_sums" VALUES(0,0,'error_code','','provider','ses',2);
INSERT INTO "retrykit_dead_letter_sums" VALUES(0,0,'error_code','','state','quarantined',2);
INSERT INTO "retrykit_dead_letter_sums" VALUES(0,0,'provider','ses','campaign_id','spring',3);
INSERT INTO "retrykit_dead_letter_sums" VALUES(0,0,'provider','ses','error_class','mailbox_full',3);
INSERT INTO "retrykit_dead_letter_sums" VALUES(0,0,'provider','ses','error_code','',2);
INSERT INTO "retrykit_dead_letter_sums" VALUES(0,0,'provider','ses','state','quarantined',2);
INSERT INTO "retrykit_dead_letter_sums" VALUES(0,0,'provider','ses','state','resolved',1);
INSERT INTO "retrykit_dead_letter_sums" VALUES(0,0,'state','quarantined','campaign_id','spring',2);
INSERT INTO "retrykit_dead_letter_sums" VALUES(0,0,'state','quarantined','error_class','mailbox_full',2);
INSERT INTO "retrykit_dead_letter_sums" VALUES(0,0,'state','quarantined','error_class','own.class',1);
INSERT INTO "retrykit_dead_letter_sums" VALUES(0,0,'state','quarantined','error_code','',2);
INSERT INTO "retrykit_dead_letter_sums" VALUES(0,0,'state','quarantined','fingerprint','v1:abc',1);
INSERT INTO "retrykit_dead_letter_sums" VALUES(0,0,'state','quarantined','provider','ses',2);
INSERT INTO "retrykit_dead_letter_sums" VALUES(0,0,'state','resolved','campaign_id','spring',1);
INSERT INTO "retrykit_dead_letter_sums" VALUES(0,0,'state','resolved','error_class','mailbox_full',1);
INSERT INTO "retrykit_dead_letter_sums" VALUES(0,0,'state','resolved','provider','ses',1);
INSERT INTO "retrykit_dead_letter_sums" VALUES(60,490896,'','','campaign_id','spring',3);
INSERT INTO "retrykit_dead_letter_sums" VALUES(60,490896,'','','error_class','mailbox_full',3);
INSERT INTO "retrykit_dead_letter_sums" VALUES(60,490896,'','','error_code','',2);
INSERT INTO "retrykit_dead_letter_sums" VALUES(60,490896,'','','error_group','temporary_mailbox',3);
INSERT INTO "retrykit_dead_letter_sums" VALUES(60,490896,'','','provider','ses',3);
INSERT INTO "retrykit_dead_letter_sums" VALUES(60,490896,'','','reason','retries_exhausted',3);
INSERT INTO "retrykit_dead_letter_sums" VALUES(60,490896,'','','state','quarantined',2);
INSERT INTO "retrykit_dead_letter_sums" VALUES(60,490896,'','','state','resolved',1);
INSERT INTO "retrykit_dead_letter_sums" VALUES(60,490896,'campaign_id','spring','error_class','mailbox_full',3);
INSERT INTO "retrykit_dead_letter_sums" VALUES(60,490896,'campaign_id','spring','error_code','',2);
INSERT INTO "retrykit_dead_letter_sums" VALUES(60,490896,'campaign_id','spring','provider','ses',3);
INSERT INTO "retrykit_dead_letter_sums" VALUES(60,490896,'campaign_id','spring','state','quarantined',2);
INSERT INTO "retrykit_dead_letter_sums" VALUES(60,490896,'campaign_id','spring','state','resolved',1);
INSERT INTO "retrykit_dead_letter_sums" VALUES(60,490896,'error_class','mailbox_full','campaign_id','spring',3);
INSERT INTO "retrykit_dead_letter_sums" VALUES(60,490896,'error_class','mailbox_full','error_code','',2);
INSERT INTO "retrykit_dead_letter_sums" VALUES(60,490896,'error_class','mailbox_full','provider','ses',3);
INSERT INTO "retrykit_dead_letter_sums" VALUES(60,490896,'error_class','mailbox_full','state','quarantined',2);
INSERT INTO "retrykit_dead_letter_sums" VALUES(60,490896,'error_class','mailbox_full','state','resolved',1);
INSERT INTO "retrykit_dead_letter_sums" VALUES(60,490896,'error_code','','campaign_id','spring',2);
INSERT INTO "retrykit_dead_letter_sums" VALUES(60,490896,'error_code','','error_class','mailbox_full',2);
INSERT INTO "retrykit_dead_letter_sums" VALUES(60,490896,'error_code','','provider','ses',2);
INSERT INTO "retrykit_dead_letter_sums" VALUES(60,490896,'error_code','','state','quarantined',2);
INSERT INTO "retrykit_dead_letter_sums" VALUES(60,490896,'provider','ses','campaign_id','spring',3);
INSERT INTO "retrykit_dead_letter_sums" VALUES(60,490896,'provider','ses','error_class','mailbox_full',3);
INSERT INTO "retrykit_dead_letter_sums" VALUES(60,490896,'provider','ses','error_code','',2);
INSERT INTO "retrykit_dead_letter_sums" VALUES(60,490896,'provider','ses','state','quarantined',2);
INSERT INTO "retrykit_dead_letter_sums" VALUES(60,490896,'provider','ses','state','resolved',1);
INSERT INTO "retrykit_dead_letter_sums" VALUES(60,490896,'state','quarantined','campaign_id','spring',2);
INSERT INTO "retrykit_dead_letter_sums" VALUES(60,490896,'state','quarantined','error_class','mailbox_full',2);
INSERT INTO "retrykit_dead_letter_sums" VALUES(60,490896,'state','quarantined','error_code','',2);
INSERT INTO "retrykit_dead_letter_sums" VALUES(60,490896,'state','quarantined','provider','ses',2);
INSERT INTO "retrykit_dead_letter_sums" VALUES(60,490896,'state','resolved','campaign_id','spring',1);
INSERT INTO "retrykit_dead_letter_sums" VALUES(60,490896,'state','resolved','error_class','mailbox_full',1);
INSERT INTO "retrykit_dead_letter_sums" VALUES(60,490896,'state','resolved','provider','ses',1);
INSERT INTO "retrykit_dead_letter_sums" VALUES(60,490920,'','','error_class','own.class',1);
INSERT INTO "retrykit_dead_letter_sums" VALUES(60,490920,'','','error_group','internal',1);
INSERT INTO "retrykit_dead_letter_sums" VALUES(60,490920,'','','fingerprint','v1:abc',1);
INSERT INTO "retrykit_dead_letter_sums" VALUES(60,490920,'','','reason','retries_exhausted',1);
INSERT INTO "retrykit_dead_letter_sums" VALUES(60,490920,'','','stage','send',1);
INSERT INTO "retrykit_dead_letter_sums" VALUES(60,490920,'','','state','quarantined',1);
INSERT INTO "retrykit_dead_letter_sums" VALUES(60,490920,'error_class','own.class','fingerprint','v1:abc',1);
INSERT INTO "retrykit_dead_letter_sums" VALUES(60,490920,'error_class','own.class','state','quarantined',1);
INSERT INTO "retrykit_dead_letter_sums" VALUES(60,490920,'state','quarantined','error_class','own.class',1);
INSERT INTO "retrykit_dead_letter_sums" VALUES(60,490920,'state','quarantined','fingerprint','v1:abc',1);
INSERT INTO "retrykit_dead_letter_sums" VALUES(1440,20454,'','','campaign_id','spring',3);
INSERT INTO "retrykit_dead_letter_sums" VALUES(1440,20454,'','','error_class','mailbox_full',3);
INSERT INTO "retrykit_dead_letter_sums" VALUES(1440,20454,'','','error_code','',2);
INSERT INTO "retrykit_dead_letter_sums" VALUES(1440,20454,'','','error_group','temporary_mailbox',3);
INSERT INTO "retrykit_dead_letter_sums" VALUES(1440,20454,'','','provider','ses',3);
INSERT INTO "retrykit_dead_letter_sums" VALUES(1440,20454,'','','reason','retries_exhausted',3);
INSERT INTO "retrykit_dead_letter_sums" VALUES(1440,20454,'','','state','quarantined',2);
INSERT INTO "retrykit_dead_letter_sums" VALUES(1440,20454,'','','state','resolved',1);
INSERT INTO "retrykit_dead_letter_sums" VALUES(1440,20454,'campaign_id','spring','error_class','mailbox_full',3);
INSERT INTO "retrykit_dead_letter_sums" VALUES(1440,20454,'campaign_id','spring','error_code','',2);
INSERT INTO "retrykit_dead_letter_sums" VALUES(1440,20454,'campaign_id','spring','provider','ses',3);
INSERT INTO "retrykit_dead_letter_sums" VALUES(1440,20454,'campaign_id','spring','state','quarantined',2);
INSERT INTO "retrykit_dead_letter_sums" VALUES(1440,20454,'campaign_id','spring','state','resolved',1);
INSERT INTO "retrykit_dead_letter_sums" VALUES(1440,20454,'error_class','mailbox_full','campaign_id','spring',3);
INSERT INTO "retrykit_dead_letter_sums" VALUES(1440,20454,'error_class','mailbox_full','error_code','',2);
INSERT INTO "retrykit_dead_letter_sums" VALUES(1440,20454,'error_class','mailbox_full','provider','ses',3);
INSERT INTO "retrykit_dead_letter_sums" VALUES(1440,20454,'error_class','mailbox_full','state','quarantined',2);
INSERT INTO "retrykit_dead_letter_sums" VALUES(1440,20454,'error_class','mailbox_full','state','resolved',1);
INSERT INTO "retrykit_dead_letter_sums" VALUES(1440,20454,'error_code','','campaign_id','spring',2);
INSERT INTO "retrykit_dead_letter_sums" VALUES(1440,20454,'error_code','','error_class','mailbox_full',2);
INSERT INTO "retrykit_dead_letter_sums" VALUES(1440,20454,'error_code','','provider','ses',2);
INSERT INTO "retrykit_dead_letter_sums" VALUES(1440,20454,'error_code','','state','quarantined',2);
INSERT INTO "retrykit_dead_letter_sums" VALUES(1440,20454,'provider','ses','campaign_id','spring',3);
INSERT INTO "retrykit_dead_letter_sums" VALUES(1440,20454,'provider','ses','error_class','mailbox_full',3);
INSERT INTO "retrykit_dead_letter_sums" VALUES(1440,20454,'provider','ses','error_code','',2);
INSERT INTO "retrykit_dead_letter_sums" VALUES(1440,20454,'provider','ses','state','quarantined',2);
INSERT INTO "retrykit_dead_letter_sums" VALUES(1440,20454,'provider','ses','state','resolved',1);
INSERT INTO "retrykit_dead_letter_sums" VALUES(1440,20454,'state','quarantined','campaign_id','spring',2);
INSERT INTO "retrykit_dead_letter_sums" VALUES(1440,20454,'state','quarantined','error_class','mailbox_full',2);
INSERT INTO "retrykit_dead_letter_sums" VALUES(1440,20454,'state','quarantined','error_code','',2);
INSERT INTO "retrykit_dead_letter_sums" VALUES(1440,20454,'state','quarantined','provider','ses',2);
INSERT INTO "retrykit_dead_letter_sums" VALUES(1440,20454,'state','resolved','campaign_id','spring',1);
INSERT INTO "retrykit_dead_letter_sums" VALUES(1440,20454,'state','resolved','error_class','mailbox_full',1);
INSERT INTO "retrykit_dead_letter_sums" VALUES(1440,20454,'state','resolved','provider','ses',1);
INSERT INTO "retrykit_dead_letter_sums" VALUES(1440,20455,'','','error_class','own.class',1);
INSERT INTO "retrykit_dead_letter_sums" VALUES(1440,20455,'','','error_group','internal',1);
INSERT INTO "retrykit_dead_letter_sums" VALUES(1440,20455,'','','fingerprint','v1:abc',1);
INSERT INTO "retrykit_dead_letter_sums" VALUES(1440,20455,'','','reason','retries_exhausted',1);
INSERT INTO "retrykit_dead_letter_sums" VALUES(1440,20455,'','','stage','send',1);
INSERT INTO "retrykit_dead_letter_sums" VALUES(1440,20455,'','','state','quarantined',1);
INSERT INTO "retrykit_dead_letter_sums" VALUES(1440,20455,'error_class','own.class','fingerprint','v1:abc',1);
INSERT INTO "retrykit_dead_letter_sums" VALUES(1440,20455,'error_class','own.class','state','quarantined',1);
INSERT INTO "retrykit_dead_letter_sums" VALUES(1440,20455,'state','quarantined','error_class','own.class',1);
INSERT INTO "retrykit_dead_letter_sums" VALUES(1440,20455,'state','quarantined','fingerprint','v1:abc',1);
CREATE TABLE retrykit_dead_letter_totals (
        id INTEGER PRIMARY KEY, campaign_id TEXT, provider TEXT, error_class TEXT, error_group TEXT, error_code TEXT, reason TEXT, state TEXT, stage TEXT, fingerprint TEXT, total INTEGER NOT NULL);
INSERT INTO "retrykit_dead_letter_totals" VALUES(1,NULL,NULL,'own.class','internal',NULL,'retries_exhausted','quarantined','send','v1:abc',1);
INSERT INTO "retrykit_dead_letter_totals" VALUES(2,'spring','ses','mailbox_full','temporary_mailbox',NULL,'retries_exhausted','resolved',NULL,NULL,1);
INSERT INTO "retrykit_dead_letter_totals" VALUES(3,'spring','ses','mailbox_full','temporary_mailbox','','retries_exhausted','quarantined',NULL,NULL,2);
CREATE TABLE retrykit_dead_letters (
        number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, message_id TEXT, campaign_id TEXT,
        provider TEXT, error_class TEXT, error_group TEXT, error_code TEXT, reason TEXT, state TEXT NOT NULL,
        record TEXT, dead_at INTEGER, stage TEXT, fingerprint TEXT, recipient TEXT, enhanced_code TEXT, source TEXT, said TEXT, filled INTEGER, kind INTEGER);
INSERT INTO "retrykit_dead_letters" VALUES(1,'dead-0#1','dead-0','spring','ses','mailbox_full','temporary_mailbox',NULL,'retries_exhausted','resolved','{"schema_version":1,"id":"dead-0#1","message_id":"dead-0","generation":1,"source":null,"campaign_id":"spring","recipient":null,"provider":"ses","error_group":"temporary_mailbox","error_class":"mailbox_full","error_code":null,"enhanced_code":null,"error_message":"","stage":null,"reason":"retries_exhausted","attempt_count":4,"first_failed_at":null,"last_failed_at":"2026-01-01T00:00:00.000Z","dead_lettered_at":"2026-01-01T00:00:00.000Z","attempts":[],"decision":"","fingerprint":null,"state":"quarantined","redrive_count":0,"original_payload":"/yBub3QgSlNPTg==","original_payload_encoding":"base64","attributes":{}}',1767225600000,NULL,NULL,NULL,NULL,NULL,'A',5,2);
INSERT INTO "retrykit_dead_letters" VALUES(2,'dead-1#1','dead-1','spring','ses','mailbox_full','temporary_mailbox','','retries_exhausted','quarantined','{"schema_version":1,"id":"dead-1#1","message_id":"dead-1","generation":1,"source":null,"campaign_id":"spring","recipient":null,"provider":"ses","error_group":"temporary_mailbox","error_class":"mailbox_full","error_code":"","enhanced_code":null,"error_message":"","stage":null,"reason":"retries_exhausted","attempt_count":4,"first_failed_at":null,"last_failed_at":"2026-01-01T00:00:00.000Z","dead_lettered_at":"2026-01-01T00:00:00.000Z","attempts":[],"decision":"","fingerprint":null,"state":"quarantined","redrive_count":0,"original_payload":"/yBub3QgSlNPTg==","original_payload_encoding":"base64","attributes":{}}',1767225600000,NULL,NULL,NULL,NULL,NULL,'A',5,3);
INSERT INTO "retrykit_dead_letters" VALUES(3,'dead-2#1','dead-2','spring','ses','mailbox_full','temporary_mailbox','','retries_exhausted','quarantined','{"schema_version":1,"id":"dead-2#1","message_id":"dead-2","generation":1,"source":null,"campaign_id":"spring","recipient":null,"provider":"ses","error_group":"temporary_mailbox","error_class":"mailbox_full","error_code":"","enhanced_code":null,"error_message":"","stage":null,"reason":"retries_exhausted","attempt_count":4,"first_failed_at":null,"last_failed_at":"2026-01-01T00:00:00.000Z","dead_lettered_at":"2026-01-01T00:00:00.000Z","attempts":[],"decision":"","fingerprint":null,"state":"quarantined","redrive_count":0,"original_payload":"/yBub3QgSlNPTg==","original_payload_encoding":"base64","attributes":{}}',1767225600000,NULL,NULL,NULL,NULL,NULL,'A',5,3);
INSERT INTO "retrykit_dead_letters" VALUES(4,'dead-late#1','dead-late',NULL,NULL,'own.class','internal',NULL,'retries_exhausted','quarantined','{"schema_version":1,"id":"dead-late#1","message_id":"dead-late","generation":1,"source":"orders","campaign_id":null,"recipient":"ada@example.org","provider":null,"error_group":"internal","error_class":"own.class","error_code":null,"enhanced_code":"5.2.2","error_message":"Stra\u00dfe voll","stage":"send","reason":"retries_exhausted","attempt_count":4,"first_failed_at":null,"last_failed_at":"2026-01-02T00:00:00.000Z","dead_lettered_at":"2026-01-02T00:00:00.007Z","attempts":[],"decision":"","fingerprint":"v1:abc","state":"quarantined","redrive_count":0,"original_payload":"/yBub3QgSlNPTg==","original_payload_encoding":"base64","attributes":{"tenant":"acme \ud800"}}',1767312000007,'send','v1:abc','ada@example.org','5.2.2','orders','strasse vollA',5,1);
INSERT INTO "retrykit_dead_letters" VALUES(6,'early#1',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'resolved',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE retrykit_deliveries (
        message_id TEXT NOT NULL PRIMARY KEY, status TEXT NOT NULL, version INTEGER NOT NULL, provider TEXT,
        provider_id TEXT, updated_at INTEGER NOT NULL);
INSERT INTO "retrykit_deliveries" VALUES('m-0','sent_to_provider',0,'ses',NULL,1767312000000);
INSERT INTO "retrykit_deliveries" VALUES('m-1','deferred',1,'ses','p\ud800',1767312000000);
INSERT INTO "retrykit_deliveries" VALUES('m-2','unknown',2,'ses','p\ud800',1767312000000);
CREATE TABLE retrykit_delivery_facts (message_id TEXT NOT NULL PRIMARY KEY, told TEXT, record TEXT NOT NULL);
CREATE TABLE retrykit_pauses (
        key TEXT NOT NULL PRIMARY KEY, reason TEXT NOT NULL, by TEXT NOT NULL, since INTEGER NOT NULL, until INTEGER);
INSERT INTO "retrykit_pauses" VALUES('campaign:spring','wrong prices','ada',1767312000000,NULL);
INSERT INTO "retrykit_pauses" VALUES('provider:ses','r','ada',1767312000000,1767315600000);
CREATE TABLE retrykit_redrives (
        id TEXT NOT NULL PRIMARY KEY, is_active INTEGER NOT NULL, created_at INTEGER NOT NULL, record TEXT NOT NULL);
CREATE TABLE retrykit_retries (
        message_id TEXT NOT NULL, generation INTEGER NOT NULL, version INTEGER NOT NULL, due_at INTEGER NOT NULL,
        ready_at INTEGER NOT NULL, lease_owner TEXT, lease_token INTEGER, body BLOB NOT NULL, attributes TEXT NOT NULL,
        PRIMARY KEY (message_id, generation));
INSERT INTO "retrykit_retries" VALUES('waiting',1,0,1767225660000,1767225660000,NULL,NULL,X'7B226E223A317D','{"tenant":"acme"}');
INSERT INTO "retrykit_retries" VALUES('waiting',2,1,1767225660000,1767225660000,NULL,NULL,X'FF0020626F6479','{"tenant":"acme"}');
INSERT INTO "retrykit_retries" VALUES('leased',1,2,1767225600000,1767225690000,'scheduler',1,X'FF0020626F6479','{"tenant":"acme"}');
CREATE TABLE retrykit_schema (
        only INTEGER PRIMARY KEY CHECK (only = 1), version INTEGER NOT NULL, token INTEGER NOT NULL DEFAULT 0);
INSERT INTO "retrykit_schema" VALUES(1,5,1);
CREATE INDEX retrykit_claims_unsettled ON retrykit_claims (unsettled_at, key) WHERE unsettled_at IS NOT NULL;
CREATE INDEX retrykit_deliveries_status ON retrykit_deliveries (status, message_id);
CREATE INDEX retrykit_claims_settled ON retrykit_claims (settled_at) WHERE settled_at IS NOT NULL;
CREATE INDEX retrykit_dead_letters_age ON retrykit_dead_letters (dead_at);
CREATE INDEX retrykit_retries_ready ON retrykit_retries (ready_at, message_id, generation);
CREATE INDEX retrykit_retries_leased ON retrykit_retries (lease_token) WHERE lease_token IS NOT NULL;
CREATE INDEX retrykit_circuits_old ON retrykit_circuits (keep_until) WHERE keep_until IS NOT NULL;
CREATE INDEX retrykit_deliveries_age ON retrykit_deliveries (updated_at, status);
CREATE TRIGGER retrykit_delivery_put AFTER INSERT ON retrykit_deliveries
        WHEN EXISTS (SELECT 1 FROM retrykit_delivery_facts WHERE message_id = new.message_id AND told <> new.status)
    BEGIN
        UPDATE retrykit_deliveries SET status = (
            SELECT told FROM retrykit_delivery_facts WHERE message_id = new.message_id) WHERE message_id = new.message_id;
    END;
CREATE TRIGGER retrykit_delivery_gone AFTER DELETE ON retrykit_deliveries
    BEGIN DELETE FROM retrykit_delivery_facts WHERE message_id = old.message_id; END;
CREATE INDEX retrykit_deliveries_provider ON retrykit_deliveries (provider_id, provider)
        WHERE provider_id IS NOT NULL
    ;
CREATE INDEX retrykit_deliveries_unexpected ON retrykit_deliveries (message_id) WHERE version < 0;
CREATE INDEX retrykit_deliveries_silence ON retrykit_deliveries (status, updated_at, message_id);
CREATE INDEX retrykit_dead_letters_unfilled ON retrykit_dead_letters (number)
        WHERE filled IS NULL AND record IS NOT NULL
    ;
CREATE INDEX retrykit_dead_letter_attributes_value ON retrykit_dead_letter_attributes (name, value, number);
CREATE INDEX retrykit_dead_letter_totals_row ON retrykit_dead_letter_totals (campaign_id, provider, error_class, error_group, error_code, reason, state, stage, fingerprint);
CREATE INDEX retrykit_dead_letter_totals_provider ON retrykit_dead_letter_totals (provider);
CREATE INDEX retrykit_dead_letter_totals_error_class ON retrykit_dead_letter_totals (error_class);
CREATE INDEX retrykit_dead_letter_totals_error_group ON retrykit_dead_letter_totals (error_group);
CREATE INDEX retrykit_dead_letter_totals_error_code ON retrykit_dead_letter_totals (error_code);
CREATE INDEX retrykit_dead_letter_totals_reason ON retrykit_dead_letter_totals (reason);
CREATE INDEX retrykit_dead_letter_totals_state ON retrykit_dead_letter_totals (state);
CREATE INDEX retrykit_dead_letter_totals_stage ON retrykit_dead_letter_totals (stage);
CREATE INDEX retrykit_dead_letter_totals_fingerprint ON retrykit_dead_letter_totals (fingerprint);
CREATE INDEX retrykit_dead_letter_totals_empty ON retrykit_dead_letter_totals (id) WHERE total = 0;
CREATE INDEX retrykit_dead_letter_minutes_new ON retrykit_dead_letter_minutes (minute, kind) WHERE total <> added
    ;
CREATE INDEX retrykit_dead_letters_by_campaign_id ON retrykit_dead_letters (campaign_id, number, dead_at)
            WHERE campaign_id IS NOT NULL
        ;
CREATE INDEX retrykit_dead_letters_by_provider ON retrykit_dead_letters (provider, number, dead_at)
            WHERE provider IS NOT NULL
        ;
CREATE INDEX retrykit_dead_letters_by_error_class ON retrykit_dead_letters (error_class, number, dead_at)
            WHERE error_class IS NOT NULL
        ;
CREATE INDEX retrykit_dead_letters_by_error_group ON retrykit_dead_letters (error_group, number, dead_at)
            WHERE error_group IS NOT NULL
        ;
CREATE INDEX retrykit_dead_letters_by_error_code ON retrykit_dead_letters (error_code, number, dead_at)
            WHERE error_code IS NOT NULL
        ;
CREATE INDEX retrykit_dead_letters_by_reason ON retrykit_dead_letters (reason, number, dead_at)
            WHERE reason IS NOT NULL
        ;
CREATE INDEX retrykit_dead_letters_by_stage ON retrykit_dead_letters (stage, number, dead_at)
            WHERE stage IS NOT NULL
        ;
CREATE INDEX retrykit_dead_letters_by_fingerprint ON retrykit_dead_letters (fingerprint, number, dead_at)
            WHERE fingerprint IS NOT NULL
        ;
CREATE INDEX retrykit_dead_letters_by_message_id ON retrykit_dead_letters (message_id, number, dead_at)
            WHERE message_id IS NOT NULL
        ;
CREATE INDEX retrykit_dead_letters_by_recipient ON retrykit_dead_letters (recipient, number, dead_at)
            WHERE recipient IS NOT NULL
        ;
CREATE INDEX retrykit_dead_letters_by_enhanced_code ON retrykit_dead_letters (enhanced_code, number, dead_at)
            WHERE enhanced_code IS NOT NULL
        ;
CREATE INDEX retrykit_dead_letters_by_source ON retrykit_dead_letters (source, number, dead_at)
            WHERE source IS NOT NULL
        ;
CREATE INDEX retrykit_dead_letters_by_state ON retrykit_dead_letters (state, number, dead_at);
CREATE INDEX retrykit_dead_letters_early ON retrykit_dead_letters (dead_at) WHERE record IS NULL;
CREATE INDEX retrykit_dead_letters_kind ON retrykit_dead_letters (kind, dead_at) WHERE kind IS NOT NULL;
CREATE INDEX retrykit_dead_letters_seen ON retrykit_dead_letters (fingerprint, dead_at)
        WHERE fingerprint IS NOT NULL
    ;
CREATE INDEX retrykit_dead_letters_waiting ON retrykit_dead_letters (dead_at)
        WHERE state = 'quarantined' AND record IS NOT NULL
    ;
CREATE TRIGGER retrykit_dead_letter_put AFTER INSERT ON retrykit_dead_letters WHEN new.kind IS NOT NULL
    BEGIN 
    UPDATE retrykit_dead_letter_totals SET total = total + 1 WHERE id = new.kind;
    INSERT INTO retrykit_dead_letter_minutes (minute, kind, total, added) VALUES (((coalesce(new.dead_at, 0) - (coalesce(new.dead_at, 0) % 60000 + 60000) % 60000) / 60000), new.kind, 1, 0)
        ON CONFLICT (minute, kind) DO UPDATE SET total = total + 1;

    INSERT INTO retrykit_dead_letter_runs (span, bucket, lowest, highest)
        VALUES (60, ((coalesce(new.dead_at, 0) - (coalesce(new.dead_at, 0) % 3600000 + 3600000) % 3600000) / 3600000), new.number, new.number)
        ON CONFLICT (span, bucket) DO UPDATE SET lowest = min(lowest, new.number), highest = max(highest, new.number);
    
    INSERT INTO retrykit_dead_letter_runs (span, bucket, lowest, highest)
        VALUES (1440, ((coalesce(new.dead_at, 0) - (coalesce(new.dead_at, 0) % 86400000 + 86400000) % 86400000) / 86400000), new.number, new.number)
        ON CONFLICT (span, bucket) DO UPDATE SET lowest = min(lowest, new.number), highest = max(highest, new.number);
     END;
CREATE TRIGGER retrykit_dead_letter_named AFTER INSERT ON retrykit_dead_letters
        WHEN new.kind IS NULL AND new.record IS NOT NULL
    BEGIN 
    INSERT INTO retrykit_dead_letter_totals (campaign_id, provider, error_class, error_group, error_code, reason, state, stage, fingerprint, total)
        SELECT new.campaign_id, new.provider, new.error_class, new.error_group, new.error_code, new.reason, new.state, new.stage, new.fingerprint, 0
        WHERE NOT EXISTS (SELECT 1 FROM retrykit_dead_letter_totals WHERE campaign_id IS new.campaign_id AND provider IS new.provider AND error_class IS new.error_class AND error_group IS new.error_group AND error_code IS new.error_code AND reason IS new.reason AND state IS new.state AND stage IS new.stage AND fingerprint IS new.fingerprint);
    UPDATE retrykit_dead_letters SET kind = (SELECT id FROM retrykit_dead_letter_totals WHERE campaign_id IS new.campaign_id AND provider IS new.provider AND error_class IS new.error_class AND error_group IS new.error_group AND error_code IS new.error_code AND reason IS new.reason AND state IS new.state AND stage IS new.stage AND fingerprint IS new.fingerprint)
        WHERE number = new.number;
 END;
CREATE TRIGGER retrykit_dead_letter_changed AFTER UPDATE OF campaign_id, provider, error_class, error_group, error_code, reason, state, stage, fingerprint ON retrykit_dead_letters
        WHEN new.record IS NOT NULL AND (new.campaign_id IS NOT old.campaign_id OR new.provider IS NOT old.provider OR new.error_class IS NOT old.error_class OR new.error_group IS NOT old.error_group OR new.error_code IS NOT old.error_code OR new.reason IS NOT old.reason OR new.state IS NOT old.state OR new.stage IS NOT old.stage OR new.fingerprint IS NOT old.fingerprint)
    BEGIN 
    INSERT INTO retrykit_dead_letter_totals (campaign_id, provider, error_class, error_group, error_code, reason, state, stage, fingerprint, total)
        SELECT new.campaign_id, new.provider, new.error_class, new.error_group, new.error_code, new.reason, new.state, new.stage, new.fingerprint, 0
        WHERE NOT EXISTS (SELECT 1 FROM retrykit_dead_letter_totals WHERE campaign_id IS new.campaign_id AND provider IS new.provider AND error_class IS new.error_class AND error_group IS new.error_group AND error_code IS new.error_code AND reason IS new.reason AND state IS new.state AND stage IS new.stage AND fingerprint IS new.fingerprint);
    UPDATE retrykit_dead_letters SET kind = (SELECT id FROM retrykit_dead_letter_totals WHERE campaign_id IS new.campaign_id AND provider IS new.provider AND error_class IS new.error_class AND error_group IS new.error_group AND error_code IS new.error_code AND reason IS new.reason AND state IS new.state AND stage IS new.stage AND fingerprint IS new.fingerprint)
        WHERE number = new.number;
 END;
CREATE TRIGGER retrykit_dead_letter_moved AFTER UPDATE OF kind, dead_at ON retrykit_dead_letters
        WHEN new.kind IS NOT NULL AND (new.kind IS NOT old.kind OR new.dead_at IS NOT old.dead_at)
    BEGIN 
    UPDATE retrykit_dead_letter_totals SET total = total - 1 WHERE id = old.kind;
    UPDATE retrykit_dead_letter_minutes SET total = total - 1 WHERE minute = ((coalesce(old.dead_at, 0) - (coalesce(old.dead_at, 0) % 60000 + 60000) % 60000) / 60000) AND kind = old.kind;
    DELETE FROM retrykit_dead_letter_minutes
        WHERE minute = ((coalesce(old.dead_at, 0) - (coalesce(old.dead_at, 0) % 60000 + 60000) % 60000) / 60000) AND kind = old.kind AND total = 0 AND added = 0;
 
    UPDATE retrykit_dead_letter_totals SET total = total + 1 WHERE id = new.kind;
    INSERT INTO retrykit_dead_letter_minutes (minute, kind, total, added) VALUES (((coalesce(new.dead_at, 0) - (coalesce(new.dead_at, 0) % 60000 + 60000) % 60000) / 60000), new.kind, 1, 0)
        ON CONFLICT (minute, kind) DO UPDATE SET total = total + 1;

    INSERT INTO retrykit_dead_letter_runs (span, bucket, lowest, highest)
        VALUES (60, ((coalesce(new.dead_at, 0) - (coalesce(new.dead_at, 0) % 3600000 + 3600000) % 3600000) / 3600000), new.number, new.number)
        ON CONFLICT (span, bucket) DO UPDATE SET lowest = min(lowest, new.number), highest = max(highest, new.number);
    
    INSERT INTO retrykit_dead_letter_runs (span, bucket, lowest, highest)
        VALUES (1440, ((coalesce(new.dead_at, 0) - (coalesce(new.dead_at, 0) % 86400000 + 86400000) % 86400000) / 86400000), new.number, new.number)
        ON CONFLICT (span, bucket) DO UPDATE SET lowest = min(lowest, new.number), highest = max(highest, new.number);
     END;
CREATE TRIGGER retrykit_dead_letter_gone AFTER DELETE ON retrykit_dead_letters WHEN old.record IS NOT NULL
    BEGIN
        
    UPDATE retrykit_dead_letter_totals SET total = total - 1 WHERE id = old.kind;
    UPDATE retrykit_dead_letter_minutes SET total = total - 1 WHERE minute = ((coalesce(old.dead_at, 0) - (coalesce(old.dead_at, 0) % 60000 + 60000) % 60000) / 60000) AND kind = old.kind;
    DELETE FROM retrykit_dead_letter_minutes
        WHERE minute = ((coalesce(old.dead_at, 0) - (coalesce(old.dead_at, 0) % 60000 + 60000) % 60000) / 60000) AND kind = old.kind AND total = 0 AND added = 0;

        DELETE FROM retrykit_dead_letter_attributes WHERE number = old.number;
    END;
CREATE INDEX retrykit_redrives_age ON retrykit_redrives (created_at DESC, id);
CREATE INDEX retrykit_redrives_active ON retrykit_redrives (created_at DESC, id) WHERE is_active;
CREATE INDEX retrykit_audit_age ON retrykit_audit (at DESC, step DESC, entry);
CREATE TRIGGER retrykit_audit_changed BEFORE UPDATE ON retrykit_audit
    BEGIN SELECT raise(ABORT, 'the audit log of retrykit is not changed'); END;
CREATE TRIGGER retrykit_audit_gone BEFORE DELETE ON retrykit_audit
    BEGIN SELECT raise(ABORT, 'the audit log of retrykit is not shortened'); END;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('retrykit_dead_letters',6);
COMMIT;
