package sqlfront

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/shopspring/decimal"

	"github.com/godwitdb/godwit/base"
)

// Reads of the past:
//
//	SET read_staleness = '5s'                 (autocommit SELECTs and READ ONLY transactions may be so old; '' is not at all)
//	START TRANSACTION READ ONLY AS OF TIMESTAMP time
//	SET TRANSACTION READ ONLY AS OF TIMESTAMP time      (of the next transaction or statement)
//	SELECT @@godwit_session_timestamp         (of the newest that the session has written or seen)
//	SET godwit_session_timestamp = '...'      (what another session has seen: reads of this one show no less)

// Reads chooses snapshots for reads that may be old.
type Reads interface {
	// ReadPoint is a timestamp at which this region's replicas are complete, at least atLeast; a later read at any
	// node of the region gets no smaller one. It waits for at most so long.
	ReadPoint(ctx context.Context, atLeast base.Timestamp, wait time.Duration) (base.Timestamp, bool)
	// PointWait is how long it is worth waiting for one.
	PointWait() time.Duration
	// Plan tells how a strong read of a key of another region would be answered now: from the local replica after about
	// wait, if local, else by its owner after about rtt.
	Plan(key base.Key) (local bool, wait, rtt time.Duration)
}

const (
	stalenessVar    = "read_staleness"
	oldStalenessVar = "tidb_read_staleness"
	tokenVar        = "godwit_session_timestamp"
	nextAsOfVar     = "godwit_next_as_of" // of the statements above; not for clients
	startAsOfVar    = "godwit_start_as_of"

	anyStaleness = time.Duration(1<<63 - 1) // 'max'
	// noticed is a wait that counts as half a round trip: within a region one takes less.
	noticed = 2 * time.Millisecond
)

var (
	reStartAsOf = regexp.MustCompile(`(?is)^\s*START\s+TRANSACTION\s+READ\s+ONLY\s*,?\s*AS\s+OF\s+(?:TIMESTAMP|SYSTEM\s+TIME)\s+(.+?)[;\s]*$`)
	reNextAsOf  = regexp.MustCompile(`(?is)^\s*SET\s+TRANSACTION\s+READ\s+ONLY\s*,?\s*AS\s+OF\s+(?:TIMESTAMP|SYSTEM\s+TIME)\s+(.+?)[;\s]*$`)
)

// rewriteAsOf brings TiDB's transactions in the past to assignments, so that the time may be any expression.
func rewriteAsOf(q string) string {
	if len(q) > 4096 || !containsFold(q, "TRANSACTION") {
		return q
	}
	if m := reStartAsOf.FindStringSubmatch(q); m != nil {
		return "SET @@SESSION." + startAsOfVar + " = (" + m[1] + ")"
	}
	if m := reNextAsOf.FindStringSubmatch(q); m != nil {
		return "SET @@SESSION." + nextAsOfVar + " = (" + m[1] + ")"
	}
	return q
}

// staleState is what a session keeps of reads of the past.
type staleState struct {
	staleness time.Duration  // bound of what may be read; 0: nothing old
	floor     base.Timestamp // a token that the client gave
	wroteAt   base.Timestamp // newest commit of the session
	readAt    base.Timestamp // newest snapshot shown
	nextAsOf  base.Timestamp // of the next transaction
	newest    base.Timestamp // of the definitions of the tables that the statement names
}

// token is the newest that the session has written or seen.
func (s *Session) token() base.Timestamp { return max(s.floor, s.wroteAt, s.readAt) }

func (s *Session) noteTable(t *table) {
	if t != nil {
		s.newest = max(s.newest, t.ts)
	}
}

// parseStaleness reads '5s', '500ms', a number of seconds, TiDB's negative seconds, or 'max'.
func parseStaleness(v any) (time.Duration, error) {
	text := ""
	switch x := v.(type) {
	case nil:
	case string:
		text = strings.ToLower(strings.TrimSpace(x))
	case []byte:
		text = strings.ToLower(strings.TrimSpace(string(x)))
	default:
		text = fmt.Sprint(x)
	}
	switch text {
	case "", "0", "off", "default":
		return 0, nil
	case "max":
		return anyStaleness, nil
	}
	text = strings.TrimPrefix(text, "-")
	if d, err := decimal.NewFromString(text); err == nil {
		if d.GreaterThan(decimal.NewFromInt(1e9)) {
			return anyStaleness, nil
		}
		return time.Duration(d.Shift(9).IntPart()), nil
	}
	d, err := time.ParseDuration(strings.ReplaceAll(text, " ", ""))
	if err != nil || d < 0 {
		return 0, mysql.NewSQLError(1231, "42000", "Variable 'read_staleness' can't be set to the value of '%v': give a duration such as '5s' or '500ms', a number of seconds, '' (none) or 'max'", v)
	}
	return d, nil
}

// setStale takes an assignment to one of the variables above; done is false if it is none.
func (s *Session) setStale(ctx *sql.Context, name string, v any) (done bool, err error) {
	v, err = sql.UnwrapAny(ctx, v)
	if err != nil {
		return true, err
	}
	switch strings.ToLower(name) {
	case stalenessVar, oldStalenessVar:
		d, err := parseStaleness(v)
		if err != nil {
			return true, err
		}
		s.staleness = d
		text := ""
		switch {
		case d == anyStaleness:
			text = "max"
		case d > 0:
			text = d.String()
		}
		s.state = nil
		return true, s.BaseSession.SetSessionVariable(ctx, stalenessVar, text)
	case tokenVar:
		text := strings.TrimSpace(fmt.Sprint(v))
		if b, ok := v.([]byte); ok {
			text = string(b)
		}
		n, err := strconv.ParseUint(text, 10, 64)
		if text == "" || v == nil {
			n, err = 0, nil
		}
		if now := s.g.db.Clock(); err != nil || base.Timestamp(n) > now.Add(maxToken) {
			return true, mysql.NewSQLError(1231, "42000", "Variable '%s' can't be set to the value of '%v': it is no value of @@%s of a session of this cluster", tokenVar, text, tokenVar)
		}
		s.floor = max(s.floor, base.Timestamp(n)) // what it has seen itself stays seen
		return true, nil
	case nextAsOfVar, startAsOfVar:
		ts, err := s.g.asOfTime(ctx, v)
		if err != nil {
			return true, err
		}
		if now := s.g.db.Clock(); ts > now {
			return true, fmt.Errorf("AS OF lies in the future by %v", ts.Sub(now))
		}
		if strings.EqualFold(name, nextAsOfVar) {
			if s.GetIgnoreAutoCommit() {
				return true, errInTransaction
			}
			s.nextAsOf = ts
			return true, nil
		}
		if t := s.txn(); t != nil && s.GetIgnoreAutoCommit() { // as every START TRANSACTION does
			if err := s.CommitTransaction(ctx, t); err != nil {
				return true, err
			}
		}
		ctx.SetTransaction(&Txn{s: s, readOnly: true, asOf: ts})
		ctx.SetIgnoreAutoCommit(true)
		return true, nil
	}
	return false, nil
}

// maxToken is how far ahead of this node's clock another node's may be.
const maxToken = 5 * time.Second

// snapshotFor is the timestamp at which a read-only transaction that begins reads; 0: now.
func (s *Session) snapshotFor(ctx *sql.Context) base.Timestamp {
	db := s.g.db
	if s.staleness > 0 && s.g.reads != nil {
		least := max(s.floor, s.wroteAt, s.newest)
		if s.staleness != anyStaleness {
			least = max(least, db.Clock().Add(-s.staleness))
		}
		began := time.Now()
		ts, ok := s.g.reads.ReadPoint(s.kvctx(ctx), least, s.g.reads.PointWait())
		if time.Since(began) >= noticed {
			s.trace.AddHops(1)
		}
		if ok {
			return ts
		}
	}
	if s.floor > db.Clock() {
		return s.floor // of a node whose clock is ahead of this one's
	}
	return 0
}
