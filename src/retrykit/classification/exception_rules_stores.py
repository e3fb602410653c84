"""What the exceptions of databases, caches and brokers mean.

An outcome speaks of the statement or message that failed. Where the database undid the whole transaction it is not sent.
"""

from __future__ import annotations

from typing import Final

from ..failure import ErrorClass as C  # it stands in every row
from .exception_facts import has_no_sqlstate, is_fatal, is_retriable, kafka_code, mysql_number, sqlite_code, sqlstate
from .exception_table import NOT_SENT, REJECTED, case, rows

__all__ = ["STORE_RULES"]

_SQLITE: Final = (
    # Source of the numbers: SQLite's list of result codes.
    case("sqlite3.Error", "busy", C.RESOURCE_CONTENTION, predicate=sqlite_code(5, 6)),
    # NOMEM, INTERRUPT, IOERR, FULL, CANTOPEN, PROTOCOL, SCHEMA
    case("sqlite3.Error", "system", C.RESOURCE_CONTENTION, predicate=sqlite_code(7, 9, 10, 13, 14, 15, 17)),
    # PERM, READONLY, CORRUPT, AUTH, NOTADB
    case("sqlite3.Error", "file", C.PROVIDER_MISCONFIGURED, predicate=sqlite_code(3, 8, 11, 23, 26)),
    *rows("sqlite3", {(C.INTERNAL_ERROR, None): "Error"}),
)

_POSTGRES: Final = (
    "psycopg.Error psycopg2.Error asyncpg.exceptions._base.PostgresError sqlalchemy.exc.EmulatedDBAPIException"
)
_LIBPQ: Final = "psycopg.OperationalError psycopg2.OperationalError"

_POSTGRESQL: Final = (
    # Source of the states: the PostgreSQL manual, appendix A. After 40001 and 40P01 the whole transaction is undone.
    case(_POSTGRES, "postgresql.rollback", C.RESOURCE_CONTENTION, NOT_SENT, predicate=sqlstate("40001", "40P01")),
    case(_POSTGRES, "postgresql.lock", C.RESOURCE_CONTENTION, predicate=sqlstate("40", "55P03", "57014")),
    case(_POSTGRES, "postgresql.too_many", C.RESOURCE_CONTENTION, NOT_SENT, predicate=sqlstate("53300")),
    case(_POSTGRES, "postgresql.resources", C.RESOURCE_CONTENTION, predicate=sqlstate("53")),
    case(_POSTGRES, "postgresql.starting", C.PROVIDER_UNAVAILABLE, NOT_SENT, predicate=sqlstate("57P03")),
    case(_POSTGRES, "postgresql.shutdown", C.PROVIDER_UNAVAILABLE, predicate=sqlstate("57P0", "25006", "58")),
    case(_POSTGRES, "postgresql.not_connected", C.CONNECTION_ERROR, NOT_SENT, predicate=sqlstate("08001", "08004")),
    case(_POSTGRES, "postgresql.connection", C.CONNECTION_ERROR, predicate=sqlstate("08")),
    case(_POSTGRES, "postgresql.login", C.PROVIDER_MISCONFIGURED, NOT_SENT, predicate=sqlstate("28", "3D000")),
    case(_POSTGRES, "postgresql.privilege", C.PROVIDER_MISCONFIGURED, predicate=sqlstate("42501")),
    case(_POSTGRES, "postgresql.statement", C.INTERNAL_ERROR, REJECTED, predicate=sqlstate("22", "23", "42")),
    # An error of libpq itself has no state, and one met while connecting has lost the server's: only words are left.
    case(
        _LIBPQ,
        "libpq.login",
        C.PROVIDER_MISCONFIGURED,
        NOT_SENT,
        predicate=has_no_sqlstate,
        words=("authentication failed", "no pg_hba.conf entry", "no password supplied", "certificate verify failed"),
    ),
    case(
        _LIBPQ,
        "libpq.no_database",
        C.PROVIDER_MISCONFIGURED,
        NOT_SENT,
        predicate=has_no_sqlstate,
        words="does not exist",
        also=("database", " role "),
    ),
    case(
        _LIBPQ,
        "libpq.dns",
        C.DNS_FAILURE,
        NOT_SENT,
        predicate=has_no_sqlstate,
        words=("could not translate host name", "failed to resolve host", "name or service not known"),
    ),
    case(
        _LIBPQ,
        "libpq.too_many",
        C.RESOURCE_CONTENTION,
        NOT_SENT,
        predicate=has_no_sqlstate,
        words=("too many clients already", "remaining connection slots"),
    ),
    case(
        _LIBPQ,
        "libpq.starting",
        C.PROVIDER_UNAVAILABLE,
        NOT_SENT,
        predicate=has_no_sqlstate,
        words="the database system is",
    ),
    case(
        _LIBPQ,
        "libpq.timeout",
        C.NETWORK_TIMEOUT,
        NOT_SENT,
        predicate=has_no_sqlstate,
        words=("connection timeout expired", "timeout expired"),
    ),
    case(
        _LIBPQ,
        "libpq.connect",
        C.CONNECTION_ERROR,
        NOT_SENT,
        predicate=has_no_sqlstate,
        words=("connection failed", "connection to server at", "could not connect to server"),
    ),
    case(_LIBPQ, "libpq.lost", C.CONNECTION_ERROR, predicate=has_no_sqlstate),
    *rows("psycopg", {(C.NETWORK_TIMEOUT, NOT_SENT): "errors.ConnectionTimeout", (C.INTERNAL_ERROR, None): "Error"}),
    *rows("psycopg2", {(C.INTERNAL_ERROR, None): "Error"}),
    *rows(
        "psycopg_pool",
        {
            (C.RESOURCE_CONTENTION, NOT_SENT): "PoolTimeout TooManyRequests",
            (C.INTERNAL_ERROR, NOT_SENT): "PoolClosed",
        },
    ),
    case(
        "asyncpg.exceptions._base.InterfaceError",
        "closed",
        C.CONNECTION_ERROR,
        NOT_SENT,
        words=("connection is closed", "connection has been released", "pool is closing", "pool is closed"),
    ),
    *rows(
        "asyncpg.exceptions._base",
        {
            (C.PROVIDER_UNAVAILABLE, NOT_SENT): "TargetServerAttributeNotMatched",
            (C.INTERNAL_ERROR, NOT_SENT): "ClientConfigurationError",
            (C.INTERNAL_ERROR, None): "PostgresError InterfaceError InternalClientError",
        },
    ),
)

_MYSQL: Final = "pymysql.err.MySQLError"
_MYSQL_RULES: Final = (
    # Source of the numbers: the MySQL manual, server and client error reference. After 1213 the transaction is undone,
    # after 1205 only the statement.
    case(_MYSQL, "not_connected", C.CONNECTION_ERROR, NOT_SENT, predicate=mysql_number(0, 2002, 2003)),
    case(_MYSQL, "dns", C.DNS_FAILURE, NOT_SENT, predicate=mysql_number(2005)),
    case(_MYSQL, "lost", C.CONNECTION_ERROR, predicate=mysql_number(1158, 1159, 1160, 1161, 2006, 2013, 2055)),
    case(_MYSQL, "too_many", C.RESOURCE_CONTENTION, NOT_SENT, predicate=mysql_number(1040, 1203, 1226)),
    case(_MYSQL, "deadlock", C.RESOURCE_CONTENTION, NOT_SENT, predicate=mysql_number(1213)),
    case(_MYSQL, "lock", C.RESOURCE_CONTENTION, predicate=mysql_number(1021, 1037, 1038, 1041, 1205, 1317, 3024, 3572)),
    case(_MYSQL, "shutdown", C.PROVIDER_UNAVAILABLE, predicate=mysql_number(1053, 1077, 1079, 1290, 1836, 1927)),
    case(
        _MYSQL,
        "login",
        C.PROVIDER_MISCONFIGURED,
        NOT_SENT,
        predicate=mysql_number(1044, 1045, 1049, 1129, 1130, 1251, 1698, 2026, 2054, 2059, 2061),
    ),
    case(_MYSQL, "privilege", C.PROVIDER_MISCONFIGURED, predicate=mysql_number(1142, 1143, 1227)),
    *rows(
        "pymysql.err",
        {
            (C.INTERNAL_ERROR, REJECTED): "IntegrityError DataError",
            (C.INTERNAL_ERROR, None): "NotSupportedError ProgrammingError",
        },
    ),
)

_SQLALCHEMY: Final = (
    case(
        "sqlalchemy.exc.DBAPIError",
        "disconnected",
        C.CONNECTION_ERROR,
        attribute=("connection_invalidated", {True}),
    ),
    *rows(
        "sqlalchemy.exc",
        {
            (C.RESOURCE_CONTENTION, NOT_SENT): "TimeoutError",
            (C.CONNECTION_ERROR, None): "DisconnectionError",
            (C.INTERNAL_ERROR, NOT_SENT): "ArgumentError CompileError",
            (C.INTERNAL_ERROR, None): "DataError IntegrityError NotSupportedError ProgrammingError SQLAlchemyError",
            (C.UNKNOWN, None): "DBAPIError",  # of a driver that is not known here
        },
    ),
)

_REDIS: Final = (
    case("redis.exceptions.TimeoutError", "connect", C.NETWORK_TIMEOUT, NOT_SENT, words="timeout connecting"),
    # Why it could not connect stands in its words only.
    case(
        "redis.exceptions.ConnectionError",
        "dns",
        C.DNS_FAILURE,
        NOT_SENT,
        words=("error -2 connecting", "error -3 connecting", "error -5 connecting"),
    ),
    case("redis.exceptions.ConnectionError", "connect", C.CONNECTION_ERROR, NOT_SENT, words=" connecting to "),
    case(
        "redis.exceptions.ConnectionError",
        "too_many",
        C.RESOURCE_CONTENTION,
        NOT_SENT,
        words=("max number of clients", "too many connections"),
    ),
    case("redis.exceptions.ResponseError", "busy", C.RESOURCE_CONTENTION, REJECTED, words=" busy "),
    case(
        "redis.exceptions.ResponseError",
        "not_writable",
        C.PROVIDER_UNAVAILABLE,
        REJECTED,
        words=("misconf", "noreplicas"),
    ),
    *rows(
        "redis.exceptions",
        {
            (C.NETWORK_TIMEOUT, None): "TimeoutError",
            (C.CONNECTION_ERROR, None): "ConnectionError InvalidResponse",
            (C.PROVIDER_MISCONFIGURED, REJECTED): (
                "AuthenticationError AuthenticationWrongNumberOfArgsError AuthorizationError ExternalAuthProviderError "
                "NoPermissionError"
            ),
            (C.PROVIDER_UNAVAILABLE, REJECTED): (
                "AskError BusyLoadingError ClusterDownError MasterDownError MovedError ReadOnlyError"
            ),
            (C.PROVIDER_UNAVAILABLE, None): "ClusterError RedisClusterException",
            (C.PROVIDER_UNAVAILABLE, NOT_SENT): "SlotNotCoveredError",
            (C.RESOURCE_CONTENTION, REJECTED): "OutOfMemoryError TryAgainError WatchError",
            (C.RESOURCE_CONTENTION, NOT_SENT): "MaxConnectionsError",
            (C.RESOURCE_CONTENTION, None): "LockError",
            (C.INTERNAL_ERROR, REJECTED): "ResponseError",
            (C.INTERNAL_ERROR, NOT_SENT): "CrossSlotTransactionError DataError InvalidPipelineStack",
            (C.INTERNAL_ERROR, None): "PubSubError",
        },
    ),
)

_KAFKA: Final = "cimpl.KafkaException"
_KAFKA_RULES: Final = (
    # Names as librdkafka gives them; those with "_" at the front are its own, the others the broker's.
    case(_KAFKA, "fatal", C.INTERNAL_ERROR, predicate=is_fatal),
    case(_KAFKA, "queue_full", C.RESOURCE_CONTENTION, NOT_SENT, predicate=kafka_code("_QUEUE_FULL")),
    case(_KAFKA, "dns", C.DNS_FAILURE, NOT_SENT, predicate=kafka_code("_RESOLVE")),
    case(_KAFKA, "connection", C.CONNECTION_ERROR, predicate=kafka_code("_ALL_BROKERS_DOWN", "_TRANSPORT")),
    case(
        _KAFKA,
        "timeout",
        C.NETWORK_TIMEOUT,
        predicate=kafka_code("_MSG_TIMED_OUT", "_TIMED_OUT", "_TIMED_OUT_QUEUE", "REQUEST_TIMED_OUT"),
    ),
    case(
        _KAFKA,
        "refused",
        C.PROVIDER_MISCONFIGURED,
        predicate=kafka_code(
            "_AUTHENTICATION",
            "_SSL",
            "CLUSTER_AUTHORIZATION_FAILED",
            "GROUP_AUTHORIZATION_FAILED",
            "SASL_AUTHENTICATION_FAILED",
            "TOPIC_AUTHORIZATION_FAILED",
            "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
            "UNSUPPORTED_SASL_MECHANISM",
        ),
    ),
    case(
        _KAFKA,
        "topic",
        C.PROVIDER_MISCONFIGURED,
        predicate=kafka_code(
            "_UNKNOWN_PARTITION", "_UNKNOWN_TOPIC", "TOPIC_EXCEPTION", "UNKNOWN_TOPIC_ID", "UNKNOWN_TOPIC_OR_PART"
        ),
    ),
    case(
        _KAFKA,
        "message",
        C.INVALID_PAYLOAD,
        REJECTED,
        predicate=kafka_code("INVALID_MSG_SIZE", "INVALID_RECORD", "MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE"),
    ),
    case(_KAFKA, "throttled", C.PROVIDER_THROTTLED, predicate=kafka_code("THROTTLING_QUOTA_EXCEEDED")),
    case(
        _KAFKA,
        "broker",
        C.PROVIDER_UNAVAILABLE,
        predicate=kafka_code(
            "_ISR_INSUFF",
            "_WAIT_COORD",
            "BROKER_NOT_AVAILABLE",
            "COORDINATOR_LOAD_IN_PROGRESS",
            "COORDINATOR_NOT_AVAILABLE",
            "KAFKA_STORAGE_ERROR",
            "LEADER_NOT_AVAILABLE",
            "NETWORK_EXCEPTION",
            "NOT_CONTROLLER",
            "NOT_COORDINATOR",
            "NOT_ENOUGH_REPLICAS",
            "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
            "NOT_LEADER_FOR_PARTITION",
            "REBALANCE_IN_PROGRESS",
            "REPLICA_NOT_AVAILABLE",
        ),
    ),
    case(_KAFKA, "arguments", C.INTERNAL_ERROR, NOT_SENT, predicate=kafka_code("_INVALID_ARG", "_STATE")),
    case(_KAFKA, "retriable", C.PROVIDER_UNAVAILABLE, predicate=is_retriable),
    *rows("confluent_kafka.serialization", {(C.INVALID_PAYLOAD, NOT_SENT): "SerializationError"}),
)

# Reply codes of AMQP 0-9-1.
_PIKA_CLOSED: Final = "pika.exceptions.ConnectionClosed pika.exceptions.ChannelClosed"
_AMQP: Final = (
    case(_PIKA_CLOSED, "pika.closed.refused", C.PROVIDER_MISCONFIGURED, attribute=("reply_code", {402, 403, 404, 530})),
    case(_PIKA_CLOSED, "pika.closed.locked", C.RESOURCE_CONTENTION, attribute=("reply_code", {405, 506})),
    case(_PIKA_CLOSED, "pika.closed.message", C.INVALID_PAYLOAD, REJECTED, attribute=("reply_code", {311})),
    case(_PIKA_CLOSED, "pika.closed.broker", C.PROVIDER_UNAVAILABLE, attribute=("reply_code", {313, 320, 541})),
    case(
        _PIKA_CLOSED,
        "pika.closed.protocol",
        C.INTERNAL_ERROR,
        attribute=("reply_code", {406, 501, 502, 503, 504, 505, 540}),
    ),
    case(
        "pika.exceptions.IncompatibleProtocolError",
        "lost",
        C.CONNECTION_ERROR,
        NOT_SENT,
        words="streamlosterror",
    ),
    *rows(
        "pika.exceptions",
        {
            (C.CONNECTION_ERROR, NOT_SENT): "ChannelWrongStateError ConnectionOpenAborted ConnectionWrongStateError",
            (C.CONNECTION_ERROR, None): "AMQPConnectionError ChannelClosed ConsumerCancelled",
            (C.NETWORK_TIMEOUT, None): "AMQPHeartbeatTimeout",
            (C.PROVIDER_UNAVAILABLE, None): "ConnectionBlockedTimeout",
            (C.PROVIDER_UNAVAILABLE, REJECTED): "NackError",
            (C.PROVIDER_MISCONFIGURED, NOT_SENT): (
                "AuthenticationError IncompatibleProtocolError ProbableAccessDeniedError ProbableAuthenticationError"
            ),
            (C.PROVIDER_MISCONFIGURED, REJECTED): "UnroutableError",
            (C.INVALID_PAYLOAD, NOT_SENT): "BodyTooLongError ShortStringTooLong UnsupportedAMQPFieldException",
            (C.RESOURCE_CONTENTION, NOT_SENT): "NoFreeChannels",
            (C.INTERNAL_ERROR, None): "AMQPError",
        },
    ),
    *rows(
        "aiormq.exceptions",
        {
            (C.CONNECTION_ERROR, NOT_SENT): "ChannelInvalidStateError",
            (C.CONNECTION_ERROR, None): "AMQPConnectionError ChannelClosed",
            (C.PROVIDER_UNAVAILABLE, None): "ConnectionInternalError ConnectionResourceError",
            (C.PROVIDER_UNAVAILABLE, REJECTED): "DeliveryError",
            (C.PROVIDER_MISCONFIGURED, NOT_SENT): (
                "AuthenticationError ConnectionNotAllowed IncompatibleProtocolError ProbableAuthenticationError"
            ),
            (C.PROVIDER_MISCONFIGURED, REJECTED): "ChannelAccessRefused ChannelNotFoundEntity PublishError",
            (C.RESOURCE_CONTENTION, REJECTED): "ChannelLockedResource",
            (C.INTERNAL_ERROR, None): (
                "AMQPError ChannelPreconditionFailed ConnectionChannelError ConnectionCommandInvalid ConnectionFrameError "
                "ConnectionNotImplemented ConnectionSyntaxError ConnectionUnexpectedFrame DuplicateConsumerTag"
            ),
        },
    ),
    *rows(
        "amqp.exceptions",
        {
            (C.CONNECTION_ERROR, None): "ConnectionError RecoverableChannelError",
            (C.PROVIDER_UNAVAILABLE, None): "Blocked ConnectionForced InternalError NoConsumers ResourceError",
            (C.PROVIDER_UNAVAILABLE, REJECTED): "MessageNacked",
            (C.PROVIDER_MISCONFIGURED, None): "AccessRefused NotAllowed NotFound",
            (C.RESOURCE_CONTENTION, None): "ResourceLocked",
            (C.INVALID_PAYLOAD, REJECTED): "ContentTooLarge",
            (C.INTERNAL_ERROR, None): "AMQPError AMQPNotImplementedError FrameError InvalidCommand UnexpectedFrame",
        },
    ),
    *rows(
        "kombu.exceptions",
        {
            (C.CONNECTION_ERROR, None): "OperationalError",
            (C.RESOURCE_CONTENTION, NOT_SENT): "LimitExceeded",
            (C.INVALID_PAYLOAD, NOT_SENT): "ContentDisallowed EncodeError",
            (C.INVALID_PAYLOAD, None): "DecodeError",
            (C.INTERNAL_ERROR, None): "NotBoundError SerializerNotInstalled",
        },
    ),
)

STORE_RULES: Final = (*_SQLITE, *_POSTGRESQL, *_MYSQL_RULES, *_SQLALCHEMY, *_REDIS, *_KAFKA_RULES, *_AMQP)
"""Rules for sqlite3, psycopg, asyncpg, PyMySQL, SQLAlchemy, redis, Kafka and AMQP."""
