"""PostgreSQL database of the store: one for the documents of several services."""

from __future__ import annotations

import itertools
import logging
import re
import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar

import psycopg
from psycopg import errors
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import DictRow, Row, dict_row
from psycopg_pool import ConnectionPool, PoolClosed

from voxyard.service.documents import schema
from voxyard.service.documents.database import ClaimRules
from voxyard.service.documents.postgres_start import first_line, wait_for_server
from voxyard.service.documents.server_answers import ANSWER_SECONDS, ServerAnswers
from voxyard.service.errors import NoRoomError, ServiceError, StoreError, StoreUnavailableError

STATEMENT_SECONDS = 10
"""Longest statement; the server ends it."""
SILENCE_SECONDS = STATEMENT_SECONDS + 2.0
"""Silence in a statement after which the connection is given up: a server that hangs ends nothing."""
Value = TypeVar("Value")


class ImpatientConnection(psycopg.Connection[Row]):
    """Connection that is closed where the server says nothing for `silence` seconds; None waits without end.

    libpq's time limits are of the network: of a server whose processes stand still, the kernel answers.
    """

    silence: float | None = SILENCE_SECONDS

    def wait(self, gen: PQGen[Value], interval: float = 0.1, timeout: float | None = None) -> Value:
        """As psycopg's; all that waits for the server comes here. Raises psycopg.OperationalError."""
        if timeout is not None or self.silence is None:
            return super().wait(gen, interval, timeout)
        try:
            return super().wait(_until_silent(gen, self.silence), interval)
        except _SilentError:
            self.close()
            raise


class _SilentError(psycopg.OperationalError):
    pass


def _until_silent(gen: PQGen[Value], seconds: float) -> PQGen[Value]:
    try:
        wanted, heard = next(gen), time.monotonic()
        while True:
            ready = yield wanted
            if ready:
                heard = time.monotonic()
            elif time.monotonic() - heard >= seconds:
                raise _SilentError(f"no answer for {seconds:g} s")
            wanted = gen.send(ready)
    except StopIteration as end:
        value: Value = end.value
        return value


_log = logging.getLogger(__name__)

START_SECONDS = 60.0  # that a start waits for the server
_AGAIN = "retry in 5 s"
_ANSWER_SECONDS = 5.0  # for a connection of the pool
_MAX_CONNECTIONS = 8
_MIGRATION_TRIES = 10
_LONGEST_NAME = 63  # of PostgreSQL
_VALUES = re.compile(r"VALUES \(\$1(?:, \$\d+)*\)")
_ROWS_AT_ONCE = 100
_CONNECTION: dict[str, Any] = {  # a URL may say otherwise
    "application_name": "voxyard", "connect_timeout": 5,
    "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 2, "tcp_user_timeout": 15_000,
}  # fmt: skip
_SESSION = (  # a service that was stopped or cut off keeps no row locked for long
    f"-c idle_in_transaction_session_timeout=10s -c lock_timeout=5s -c statement_timeout={STATEMENT_SECONDS}s "
    "-c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=2"
)
_PASSING = ("08", "40", "53", "57", "25P03", "55P03")
"""SQLSTATEs that pass: connection, rollback, resources, operator's intervention, idle in transaction, lock timeout."""


_RULES = ClaimRules(
    shared=True,
    free="claim_until IS NULL OR claim_until < clock_timestamp()",
    until="clock_timestamp() + make_interval(secs => $2)",
    silent="CAST(extract(epoch FROM clock_timestamp() - claim_until) AS DOUBLE PRECISION)",
    one="LIMIT 1 FOR UPDATE SKIP LOCKED",
    lock="FOR UPDATE",
)


class PostgresConnection:
    """Connection in a transaction."""

    def __init__(self, connection: psycopg.Connection[DictRow], database: PostgresDatabase) -> None:
        self._connection, self._database = connection, database

    def execute(self, sql: str, parameters: Sequence[object] = ()) -> psycopg.Cursor[DictRow]:
        """Runs a statement; its parameters are $1, $2, and so on."""
        return self._connection.execute(sql, parameters)

    def executemany(self, sql: str, rows: Iterable[Sequence[object]]) -> None:
        """Runs a statement once for each row of parameters; of an INSERT many rows at once.

        Not by psycopg's executemany, which is a pipeline: between two of its statements the server counts a transaction
        as active, and none of its time limits ends one whose service stands still there, with its rows locked.
        """
        left, values = iter(rows), _VALUES.search(sql)
        while some := list(itertools.islice(left, _ROWS_AT_ONCE if values else 1)):
            if values is None:
                self._connection.execute(sql, some[0])
                continue
            numbers, width = itertools.count(1), len(some[0])
            places = (f"({', '.join(f'${number}' for number in itertools.islice(numbers, width))})" for _ in some)
            statement = f"{sql[: values.start()]}VALUES {', '.join(places)}{sql[values.end() :]}"
            self._connection.execute(statement, [*itertools.chain.from_iterable(some)])

    def notify(self, kind: str, id: str) -> None:
        """Tells the other services on this database what happened to a document, once it is committed."""
        self._connection.execute("SELECT pg_notify($1, $2)", self._database.message(kind, id))


class PostgresDatabase:
    """Schema of a PostgreSQL database, which any number of services may use.

    A start waits for a server that is away: its host may be starting as well, and a service that ended would load its
    models again. What waiting does not mend ends the start at once.

    Raises:
        StoreError: the URL has a password, the server refuses the user or cannot be verified, it has not answered for
            `start_seconds`, it is a standby, or the schema was written by a newer version.
    """

    rules = _RULES

    def __init__(self, url: str, *, start_seconds: float = START_SECONDS) -> None:
        given = _parsed(url)
        self.name = _name(given)
        options = f"{_SESSION} {given.pop('options', '')}"
        self.conninfo = make_conninfo("", **{**_CONNECTION, **given, "client_encoding": "utf8", "options": options})
        self.sender = uuid.uuid4().hex[:8]  # of this service's messages
        self.channel = "voxyard"
        self.answers = ServerAnswers()
        self._asking = threading.Lock()
        self.transactions, self.seconds = 0, 0.0  # of all threads, waits for a connection included
        wait_for_server(self.conninfo, self.name, start_seconds)
        self._closed = False
        self._pool = ConnectionPool(
            self.conninfo,
            connection_class=ImpatientConnection[DictRow],
            # A statement that was prepared would fail once another release has changed a column's type.
            kwargs={"row_factory": dict_row, "cursor_factory": psycopg.RawCursor, "prepare_threshold": None},
            min_size=1,
            max_size=_MAX_CONNECTIONS,
            timeout=_ANSWER_SECONDS,
            reconnect_timeout=_ANSWER_SECONDS,  # else the attempts of an outage lie minutes apart at its end
            check=_check,
            name="documents",
            open=True,
        )
        try:
            with self._start_errors():
                self._migrate()
        except BaseException:
            self.close()
            raise

    def connect(self) -> ImpatientConnection[tuple[Any, ...]]:
        """A connection beside those of transactions, for short questions."""
        connection = ImpatientConnection.connect(self.conninfo, autocommit=True)
        connection.silence = ANSWER_SECONDS
        return connection

    def close(self) -> None:
        """Closes all connections."""
        self._closed = True
        self._pool.close()

    def shelf(self, new: str | None = None) -> str | None:
        """Token of the directory with the audio, 8 hexadecimal digits; `new` becomes it where there is none yet."""
        with self.write() as connection:
            if new is not None:
                connection.execute("UPDATE voxyard SET shelf = $1 WHERE shelf IS NULL", (new,))
            row = connection.execute("SELECT shelf FROM voxyard").fetchone()
            return None if row is None or row["shelf"] is None else str(row["shelf"])

    def message(self, kind: str, id: str) -> tuple[str, str]:
        """Channel and text of a message to the other services."""
        return self.channel, f"{self.sender} {kind} {id}"

    def notify(self, kind: str, id: str) -> None:
        """Tells the other services what happens to a document, without a change."""
        with self.write() as connection:
            connection.notify(kind, id)

    def delete(self) -> AbstractContextManager[PostgresConnection]:
        """Write transaction; what room deletions have on a full disk is the server's affair. Raises as `write`."""
        return self.write()

    @contextmanager
    def write(self) -> Iterator[PostgresConnection]:
        """Write transaction, committed durably when the block ends, rolled back where it raises.

        Raises:
            NoRoomError: the server's disk is full.
            StoreError: the database cannot be written.
            StoreUnavailableError: the server does not answer, or the connection was lost. Where it was lost during
                the commit, the change may be there nevertheless.
        """
        with self._transaction(psycopg.IsolationLevel.READ_COMMITTED) as connection:
            yield connection

    @contextmanager
    def read(self) -> Iterator[PostgresConnection]:
        """Read transaction: one snapshot for the whole block.

        Raises:
            StoreError: the database cannot be read.
            StoreUnavailableError: the server does not answer, or the connection was lost.
        """
        with self._transaction(psycopg.IsolationLevel.REPEATABLE_READ, read_only=True) as connection:
            yield connection

    @contextmanager
    def _transaction(
        self, isolation: psycopg.IsolationLevel, *, read_only: bool | None = None
    ) -> Iterator[PostgresConnection]:
        """Transaction of an isolation; where None is given, a standby begins it too, and refuses its first write."""
        if self._closed:
            raise StoreError("the database is closed: the service is shutting down")
        if self.answers.away:
            raise _unavailable()
        begin = time.monotonic()
        try:
            with self._store_errors(), self._pool.connection() as connection:
                connection.isolation_level, connection.read_only = isolation, read_only
                yield PostgresConnection(connection, self)
            self.answers.answered()
        finally:
            with self._asking:
                self.transactions, self.seconds = self.transactions + 1, self.seconds + time.monotonic() - begin

    @contextmanager
    def _store_errors(self) -> Iterator[None]:
        """Turns psycopg.Error into NoRoomError, StoreError or StoreUnavailableError."""
        try:
            yield
        except PoolClosed as error:
            raise StoreError("the database is closed: the service is shutting down") from error
        except psycopg.Error as error:
            found = _store_error(error)
            if _without_answer(error):
                self.answers.missed()
            if isinstance(found, StoreUnavailableError) and self.answers.is_to_be_told():
                _log.warning("the database %s does not answer: %s", self.name, first_line(error))
            raise found from error

    def _migrate(self) -> None:
        """Prepares the database, again where services of another release, which are at work, have its tables."""
        for _ in range(_MIGRATION_TRIES - 1):
            try:
                self._prepare()
            except (errors.DeadlockDetected, errors.LockNotAvailable) as error:
                _log.warning("the schema of %s cannot be changed yet: %s", self.name, first_line(error))
            else:
                return
        self._prepare()

    def _prepare(self) -> None:
        """Brings the schema to the current version."""
        with self._pool.connection() as connection:
            connection.silence = None  # a migration takes as long as it takes
            connection.execute("SET LOCAL statement_timeout = 0")
            connection.execute("SET LOCAL lock_timeout = 0")
            if _value(connection, "SELECT pg_is_in_recovery() AS value"):
                raise StoreError(
                    f"{self.name} is a read-only standby: give the address of the primary, or all addresses and "
                    "?target_session_attrs=read-write"
                )
            encoding = _value(connection, "SELECT current_setting('server_encoding') AS value")
            if encoding != "UTF8":
                raise StoreError(
                    f"{self.name} has the encoding {encoding}, expected UTF8: create it with "
                    "`createdb --encoding UTF8 --template template0 NAME`"
                )
            name = _value(connection, "SELECT current_schema() AS value")
            if name is None:
                raise StoreError(f"{self.name} has no schema of its search path: create one with `CREATE SCHEMA`")
            self.channel = f"voxyard.{name}"[:_LONGEST_NAME]
            # One service migrates at a time; the lock ends with the transaction.
            connection.execute("SELECT pg_advisory_xact_lock(hashtextextended('voxyard ' || current_schema(), 0))")
            connection.execute("SET LOCAL lock_timeout TO DEFAULT")
            connection.execute("CREATE TABLE IF NOT EXISTS voxyard (version INTEGER NOT NULL, shelf TEXT)")
            connection.execute("INSERT INTO voxyard SELECT 0, NULL WHERE NOT EXISTS (SELECT FROM voxyard)")
            version = _value(connection, "SELECT version AS value FROM voxyard")
            if version > len(schema.MIGRATIONS):
                raise StoreError(
                    f"{self.name} has schema version {version}, this voxyard supports up to {len(schema.MIGRATIONS)}: "
                    "it was written by a newer voxyard; use that one, or another database"
                )
            if 0 < version < len(schema.MIGRATIONS):  # in the order in which transactions of the services lock
                connection.execute("LOCK TABLE documents IN ACCESS EXCLUSIVE MODE")
            for step in schema.MIGRATIONS[version:]:
                for statement in step:
                    connection.execute(statement)
            connection.execute("UPDATE voxyard SET version = $1", (len(schema.MIGRATIONS),))
            connection.silence = ImpatientConnection.silence

    @contextmanager
    def _start_errors(self) -> Iterator[None]:
        """Turns errors of the start into StoreError, with the name of the database."""
        try:
            yield
        except errors.InsufficientPrivilege as error:
            raise StoreError(
                f"cannot create tables in the database {self.name}: {first_line(error)}; make the user its owner, or "
                "give it a schema of its own"
            ) from error
        except psycopg.Error as error:
            raise StoreError(f"cannot open the database {self.name}: {first_line(error)}") from error


def _parsed(url: str) -> dict[str, Any]:
    """Parameters of a connection. Raises StoreError."""
    try:
        given = conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        raise StoreError(  # libpq's words would show the URL, and a password in it
            "invalid --store: expected a path, or a URL such as postgresql://user@host/database"
        ) from error
    if given.pop("password", None) is not None:
        raise StoreError(
            "--store has a password, which command lines and logs would show: leave it out, and write it into a file "
            "that PGPASSFILE names (host:port:database:user:password, chmod 600)"
        )
    return given


def _name(given: dict[str, Any]) -> str:
    host = str(given.get("host") or "localhost")
    return f"{given.get('dbname') or given.get('user') or 'postgres'} on {host}:{given.get('port') or 5432}"


def _value(connection: psycopg.Connection[DictRow], sql: str) -> Any:
    row = connection.execute(sql).fetchone()
    return None if row is None else row["value"]


def _check(connection: ImpatientConnection[DictRow]) -> None:
    """Raises where a connection of the pool is of no use: the server was restarted, or hangs."""
    connection.silence = ANSWER_SECONDS
    ConnectionPool.check_connection(connection)
    connection.silence = ImpatientConnection.silence


def _without_answer(error: psycopg.Error) -> bool:
    return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError) and error.sqlstate is None


def _unavailable() -> StoreUnavailableError:
    return StoreUnavailableError(f"the database does not answer: {_AGAIN}")


def _store_error(error: psycopg.Error) -> ServiceError:
    """Error for a client: without the server's address."""
    if isinstance(error, errors.DiskFull):
        return NoRoomError("the disk of the database is full: delete documents, or free space on it")
    if isinstance(error, errors.ReadOnlySqlTransaction):
        return StoreUnavailableError(
            f"the database is a read-only standby now, and has to become the primary: {_AGAIN}"
        )
    if _without_answer(error) or (error.sqlstate or "").startswith(_PASSING):
        return _unavailable()
    if isinstance(error, psycopg.DataError) and error.sqlstate is None:
        return ServiceError(f"the text cannot be stored: {first_line(error)}", parameter="text")
    return StoreError(f"the database cannot be read or written: {first_line(error)}")
