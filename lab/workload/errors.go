package workload

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

// errRollback ends a transaction that is meant to roll back (TPC-C 2.4.1.4). It counts as a
// rollback, not an error.
var errRollback = errors.New("intended rollback")

// retryableCodes are the server errors after which the same transaction may succeed when it is
// tried again.
var retryableCodes = map[uint16]bool{
	1205: true, // ER_LOCK_WAIT_TIMEOUT
	1213: true, // ER_LOCK_DEADLOCK, also Godwit's "serialization failure"
	1020: true, // ER_CHECKREAD: MariaDB's write conflict under innodb_snapshot_isolation
	8002: true, // TiDB: SELECT FOR UPDATE write conflict
	8022: true, // TiDB: commit failed, transaction may be retried
	8028: true, // TiDB: the schema changed during the transaction
	9007: true, // TiDB: write conflict
}

// Retryable tells whether err is a server's request to run the transaction again: MySQL 1213, 1205,
// SQLSTATE 40001, or what MariaDB and TiDB use in their place.
func Retryable(err error) bool {
	var e *mysql.MySQLError
	if !errors.As(err, &e) {
		return false
	}
	return retryableCodes[e.Number] || string(e.SQLState[:]) == "40001"
}

// outcomeOpen tells whether err says that the statement may have committed, or may not (Godwit).
func outcomeOpen(err error) bool {
	var e *mysql.MySQLError
	return errors.As(err, &e) && e.Number == 1105 && strings.HasPrefix(e.Message, "The outcome of the commit is unknown")
}

// isDuplicate tells whether err says that a row is there already (ER_DUP_ENTRY).
func isDuplicate(err error) bool {
	var e *mysql.MySQLError
	return errors.As(err, &e) && e.Number == 1062
}

// connError marks an error of making a connection.
type connError struct{ error }

func (e *connError) Unwrap() error { return e.error }

// connectionLost tells whether err leaves the connection unusable.
func connectionLost(err error) bool {
	if err == nil {
		return false
	}
	var ce *connError
	var ne net.Error
	var me *mysql.MySQLError
	if errors.As(err, &me) {
		switch me.Number {
		case 1053, // ER_SERVER_SHUTDOWN
			1152, 1184, // aborted connection
			1158, 1159, 1160, 1161, // network read and write errors
			1927,       // MariaDB: connection was killed
			2006, 2013, // server has gone away, lost connection
			4031: // disconnected for inactivity
			return true
		}
		return errors.As(err, &ce)
	}
	return errors.As(err, &ce) || errors.As(err, &ne) ||
		errors.Is(err, driver.ErrBadConn) || errors.Is(err, mysql.ErrInvalidConn) || errors.Is(err, mysql.ErrMalformPkt) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// Back-off before retry n (from 0): half of it fixed and half random, so that two transactions that
// collided do not collide again, doubled each time. The limit keeps a transaction alive in a hot
// spot without hammering it.
const (
	minBackoff = time.Millisecond
	maxBackoff = 256 * time.Millisecond
)

func backoff(n int, rng *rand.Rand) time.Duration {
	d := maxBackoff
	if n < 8 {
		d = min(minBackoff<<n, maxBackoff)
	}
	return d/2 + time.Duration(rng.Int64N(int64(d/2)+1))
}

// sleep waits for d or until ctx is done; it reports whether the whole time passed.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
