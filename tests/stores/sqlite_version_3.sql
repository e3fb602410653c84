BEGIN TRANSACTION;
CREATE TABLE retrykit_circuits (name TEXT NOT NULL PRIMARY KEY, keep_until INTEGER, record TEXT NOT NULL);
CREATE TABLE retrykit_claims (
        key TEXT NOT NULL PRIMARY KEY, state TEXT NOT NULL, unsettled_at INTEGER, record TEXT NOT NULL, settled_at INTEGER);
INSERT INTO "retrykit_claims" VALUES('sent','done',NULL,'{"schema_version":1,"key":"sent","state":"done","seq":2,"lease":null,"generation":1,"fingerprint":"f","opened_at":1767225600000,"not_before":null,"disposition":"sent","reason":null,"dead_letter_id":null,"provider":"ses","provider_id":"p-1","settled_at":1767225600000,"counters":[1,0,0,0],"checks":0,"note":"","is_unsure":false,"attempts":[]}',1767225600000);
INSERT INTO "retrykit_claims" VALUES('waiting','waiting',NULL,'{"schema_version":1,"key":"waiting","state":"waiting","seq":2,"lease":null,"generation":1,"fingerprint":"f","opened_at":1767225600000,"not_before":1767225660000,"disposition":null,"reason":null,"dead_letter_id":null,"provider":null,"provider_id":null,"settled_at":null,"counters":[1,1,0,0],"checks":0,"note":"again","is_unsure":false,"attempts":[{"number":1,"generation":1,"failed_at":"2026-01-01T00:00:00.000Z","action":"retry","delay":60.0,"reason":"again","worker":"worker-1","error_class":"network_timeout","error_group":"transient_infrastructure","outcome":"unknown","error_code":"421","error_message":"timed out \u00fc","provider":"ses"}]}',NULL);
INSERT INTO "retrykit_claims" VALUES('unknown','unknown',1767225660000,'{"schema_version":1,"key":"unknown","state":"unknown","seq":2,"lease":null,"generation":1,"fingerprint":"f","opened_at":1767225600000,"not_before":1767225660000,"disposition":null,"reason":null,"dead_letter_id":null,"provider":null,"provider_id":null,"settled_at":null,"counters":[1,1,0,0],"checks":0,"note":"ask","is_unsure":false,"attempts":[{"number":1,"generation":1,"failed_at":"2026-01-01T00:00:00.000Z","action":"verify","delay":60.0,"reason":"ask","worker":"worker-1","error_class":"network_timeout","error_group":"transient_infrastructure","outcome":"unknown","error_code":"421","error_message":"timed out \u00fc","provider":"ses"}]}',NULL);
INSERT INTO "retrykit_claims" VALUES('sending','sending',1767225630000,'{"schema_version":1,"key":"sending","state":"sending","seq":1,"lease":["worker-1",1,1767225630000],"generation":1,"fingerprint":"f","opened_at":1767225600000,"not_before":null,"disposition":null,"reason":null,"dead_letter_id":null,"provider":null,"provider_id":null,"settled_at":null,"counters":[1,0,0,0],"checks":0,"note":"","is_unsure":false,"attempts":[]}',NULL);
INSERT INTO "retrykit_claims" VALUES('claimed','claimed',NULL,'{"schema_version":1,"key":"claimed","state":"claimed","seq":1,"lease":["worker-1",1,1767225630000],"generation":1,"fingerprint":"f","opened_at":1767225600000,"not_before":null,"disposition":null,"reason":null,"dead_letter_id":null,"provider":null,"provider_id":null,"settled_at":null,"counters":[1,0,0,0],"checks":0,"note":"","is_unsure":false,"attempts":[]}',NULL);
INSERT INTO "retrykit_claims" VALUES('dead','done',NULL,'{"schema_version":1,"key":"dead","state":"done","seq":2,"lease":null,"generation":1,"fingerprint":"f","opened_at":1767225600000,"not_before":null,"disposition":"dead_lettered","reason":"retries_exhausted","dead_letter_id":"dead#1","provider":null,"provider_id":null,"settled_at":1767225600000,"counters":[1,1,0,0],"checks":0,"note":"all used","is_unsure":true,"attempts":[{"number":1,"generation":1,"failed_at":"2026-01-01T00:00:00.000Z","action":"dead_letter","delay":0.0,"reason":"all used","worker":"worker-1","error_class":"network_timeout","error_group":"transient_infrastructure","outcome":"unknown","error_code":"421","error_message":"timed out \u00fc","provider":"ses"}]}',1767225600000);
CREATE TABLE retrykit_dead_letter_totals (campaign_id TEXT, provider TEXT, error_class TEXT, error_group TEXT, error_code TEXT, reason TEXT, state TEXT, total INTEGER NOT NULL);
INSERT INTO "retrykit_dead_letter_totals" VALUES(NULL,NULL,'own.class','internal',NULL,'retries_exhausted','quarantined',1);
INSERT INTO "retrykit_dead_letter_totals" VALUES('spring','ses','mailbox_full','temporary_mailbox',NULL,'retries_exhausted','resolved',1);
INSERT INTO "retrykit_dead_letter_totals" VALUES('spring','ses','mailbox_full','temporary_mailbox','','retries_exhausted','quarantined',2);
CREATE TABLE retrykit_dead_letters (
        number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, message_id TEXT, campaign_id TEXT,
        provider TEXT, error_class TEXT, error_group TEXT, error_code TEXT, reason TEXT, state TEXT NOT NULL,
        record TEXT, dead_at INTEGER);
INSERT INTO "retrykit_dead_letters" VALUES(1,'dead-0#1','dead-0','spring','ses','mailbox_full','temporary_mailbox',NULL,'retries_exhausted','resolved','{"schema_version":1,"id":"dead-0#1","message_id":"dead-0","generation":1,"source":null,"campaign_id":"spring","recipient":null,"provider":"ses","error_group":"temporary_mailbox","error_class":"mailbox_full","error_code":null,"enhanced_code":null,"error_message":"","stage":null,"reason":"retries_exhausted","attempt_count":4,"first_failed_at":null,"last_failed_at":"2026-01-01T00:00:00.000Z","dead_lettered_at":"2026-01-01T00:00:00.000Z","attempts":[],"decision":"","fingerprint":null,"state":"quarantined","redrive_count":0,"original_payload":"/yBub3QgSlNPTg==","original_payload_encoding":"base64","attributes":{}}',1767225600000);
INSERT INTO "retrykit_dead_letters" VALUES(2,'dead-1#1','dead-1','spring','ses','mailbox_full','temporary_mailbox','','retries_exhausted','quarantined','{"schema_version":1,"id":"dead-1#1","message_id":"dead-1","generation":1,"source":null,"campaign_id":"spring","recipient":null,"provider":"ses","error_group":"temporary_mailbox","error_class":"mailbox_full","error_code":"","enhanced_code":null,"error_message":"","stage":null,"reason":"retries_exhausted","attempt_count":4,"first_failed_at":null,"last_failed_at":"2026-01-01T00:00:00.000Z","dead_lettered_at":"2026-01-01T00:00:00.000Z","attempts":[],"decision":"","fingerprint":null,"state":"quarantined","redrive_count":0,"original_payload":"/yBub3QgSlNPTg==","original_payload_encoding":"base64","attributes":{}}',1767225600000);
INSERT INTO "retrykit_dead_letters" VALUES(3,'dead-2#1','dead-2','spring','ses','mailbox_full','temporary_mailbox','','retries_exhausted','quarantined','{"schema_version":1,"id":"dead-2#1","message_id":"dead-2","generation":1,"source":null,"campaign_id":"spring","recipient":null,"provider":"ses","error_group":"temporary_mailbox","error_class":"mailbox_full","error_code":"","enhanced_code":null,"error_message":"","stage":null,"reason":"retries_exhausted","attempt_count":4,"first_failed_at":null,"last_failed_at":"2026-01-01T00:00:00.000Z","dead_lettered_at":"2026-01-01T00:00:00.000Z","attempts":[],"decision":"","fingerprint":null,"state":"quarantined","redrive_count":0,"original_payload":"/yBub3QgSlNPTg==","original_payload_encoding":"base64","attributes":{}}',1767225600000);
INSERT INTO "retrykit_dead_letters" VALUES(4,'dead-late#1','dead-late',NULL,NULL,'own.class','internal',NULL,'retries_exhausted','quarantined','{"schema_version":1,"id":"dead-late#1","message_id":"dead-late","generation":1,"source":null,"campaign_id":null,"recipient":null,"provider":null,"error_group":"internal","error_class":"own.class","error_code":null,"enhanced_code":null,"error_message":"","stage":null,"reason":"retries_exhausted","attempt_count":4,"first_failed_at":null,"last_failed_at":"2026-01-02T00:00:00.000Z","dead_lettered_at":"2026-01-02T00:00:00.000Z","attempts":[],"decision":"","fingerprint":null,"state":"quarantined","redrive_count":0,"original_payload":"/yBub3QgSlNPTg==","original_payload_encoding":"base64","attributes":{}}',1767312000000);
INSERT INTO "retrykit_dead_letters" VALUES(6,'early#1',NULL,NULL,NULL,NULL,NULL,NULL,NULL,'resolved',NULL,NULL);
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
CREATE TABLE retrykit_retries (
        message_id TEXT NOT NULL, generation INTEGER NOT NULL, version INTEGER NOT NULL, due_at INTEGER NOT NULL,
        ready_at INTEGER NOT NULL, lease_owner TEXT, lease_token INTEGER, body BLOB NOT NULL, attributes TEXT NOT NULL,
        PRIMARY KEY (message_id, generation));
INSERT INTO "retrykit_retries" VALUES('waiting',1,0,1767225660000,1767225660000,NULL,NULL,X'7B226E223A317D','{"tenant":"acme"}');
INSERT INTO "retrykit_retries" VALUES('waiting',2,1,1767225660000,1767225660000,NULL,NULL,X'FF0020626F6479','{"tenant":"acme"}');
INSERT INTO "retrykit_retries" VALUES('leased',1,2,1767225600000,1767225690000,'scheduler',1,X'FF0020626F6479','{"tenant":"acme"}');
CREATE TABLE retrykit_schema (
        only INTEGER PRIMARY KEY CHECK (only = 1), version INTEGER NOT NULL, token INTEGER NOT NULL DEFAULT 0);
INSERT INTO "retrykit_schema" VALUES(1,3,1);
CREATE INDEX retrykit_claims_unsettled ON retrykit_claims (unsettled_at, key) WHERE unsettled_at IS NOT NULL;
CREATE INDEX retrykit_dead_letters_message ON retrykit_dead_letters (message_id, number);
CREATE INDEX retrykit_dead_letters_campaign ON retrykit_dead_letters (campaign_id, number);
CREATE INDEX retrykit_dead_letters_provider ON retrykit_dead_letters (provider, number);
CREATE INDEX retrykit_dead_letters_class ON retrykit_dead_letters (error_class, number);
CREATE INDEX retrykit_deliveries_status ON retrykit_deliveries (status, message_id);
CREATE INDEX retrykit_claims_settled ON retrykit_claims (settled_at) WHERE settled_at IS NOT NULL;
CREATE INDEX retrykit_dead_letters_age ON retrykit_dead_letters (dead_at);
CREATE INDEX retrykit_dead_letters_group ON retrykit_dead_letters (error_group, number);
CREATE INDEX retrykit_dead_letters_code ON retrykit_dead_letters (error_code, number);
CREATE INDEX retrykit_dead_letters_reason ON retrykit_dead_letters (reason, number);
CREATE INDEX retrykit_dead_letters_state ON retrykit_dead_letters (state, number);
CREATE INDEX retrykit_dead_letter_totals_row ON retrykit_dead_letter_totals (campaign_id, provider, error_class, error_group, error_code, reason, state);
CREATE TRIGGER retrykit_dead_letter_put AFTER INSERT ON retrykit_dead_letters WHEN new.record IS NOT NULL
    BEGIN 
    INSERT INTO retrykit_dead_letter_totals (campaign_id, provider, error_class, error_group, error_code, reason, state, total)
        SELECT new.campaign_id, new.provider, new.error_class, new.error_group, new.error_code, new.reason, new.state, 0
        WHERE NOT EXISTS (SELECT 1 FROM retrykit_dead_letter_totals WHERE campaign_id IS new.campaign_id AND provider IS new.provider AND error_class IS new.error_class AND error_group IS new.error_group AND error_code IS new.error_code AND reason IS new.reason AND state IS new.state);
    UPDATE retrykit_dead_letter_totals SET total = total + 1 WHERE campaign_id IS new.campaign_id AND provider IS new.provider AND error_class IS new.error_class AND error_group IS new.error_group AND error_code IS new.error_code AND reason IS new.reason AND state IS new.state;
 END;
CREATE TRIGGER retrykit_dead_letter_changed AFTER UPDATE OF state ON retrykit_dead_letters
        WHEN new.record IS NOT NULL AND new.state IS NOT old.state
    BEGIN 
    UPDATE retrykit_dead_letter_totals SET total = total - 1 WHERE campaign_id IS old.campaign_id AND provider IS old.provider AND error_class IS old.error_class AND error_group IS old.error_group AND error_code IS old.error_code AND reason IS old.reason AND state IS old.state;
    DELETE FROM retrykit_dead_letter_totals WHERE total = 0 AND campaign_id IS old.campaign_id AND provider IS old.provider AND error_class IS old.error_class AND error_group IS old.error_group AND error_code IS old.error_code AND reason IS old.reason AND state IS old.state;
 
    INSERT INTO retrykit_dead_letter_totals (campaign_id, provider, error_class, error_group, error_code, reason, state, total)
        SELECT new.campaign_id, new.provider, new.error_class, new.error_group, new.error_code, new.reason, new.state, 0
        WHERE NOT EXISTS (SELECT 1 FROM retrykit_dead_letter_totals WHERE campaign_id IS new.campaign_id AND provider IS new.provider AND error_class IS new.error_class AND error_group IS new.error_group AND error_code IS new.error_code AND reason IS new.reason AND state IS new.state);
    UPDATE retrykit_dead_letter_totals SET total = total + 1 WHERE campaign_id IS new.campaign_id AND provider IS new.provider AND error_class IS new.error_class AND error_group IS new.error_group AND error_code IS new.error_code AND reason IS new.reason AND state IS new.state;
 END;
CREATE TRIGGER retrykit_dead_letter_gone AFTER DELETE ON retrykit_dead_letters WHEN old.record IS NOT NULL
    BEGIN 
    UPDATE retrykit_dead_letter_totals SET total = total - 1 WHERE campaign_id IS old.campaign_id AND provider IS old.provider AND error_class IS old.error_class AND error_group IS old.error_group AND error_code IS old.error_code AND reason IS old.reason AND state IS old.state;
    DELETE FROM retrykit_dead_letter_totals WHERE total = 0 AND campaign_id IS old.campaign_id AND provider IS old.provider AND error_class IS old.error_class AND error_group IS old.error_group AND error_code IS old.error_code AND reason IS old.reason AND state IS old.state;
 END;
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
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('retrykit_dead_letters',6);
COMMIT;
