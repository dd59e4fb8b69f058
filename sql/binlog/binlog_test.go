package binlog

import (
	"context"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/shopspring/decimal"

	"github.com/godwitdb/godwit/kv/memkv"
	"github.com/godwitdb/godwit/sql/feed"
)

// TestValues: the bytes are MySQL's (as its own documentation and MariaDB's mysqlbinlog read them).
func TestValues(t *testing.T) {
	at := time.Date(2001, 2, 3, 4, 5, 6, 789012000, time.UTC)
	dec := func(s string) decimal.Decimal { d, _ := decimal.NewFromString(s); return d }
	for _, c := range []struct {
		name string
		put  func() ([]byte, error)
		want string
	}{
		{"decimal", func() ([]byte, error) { return putDecimal(nil, dec("1234567890.1234"), 14, 4) }, "810dfb38d204d2"},
		{"negative", func() ([]byte, error) { return putDecimal(nil, dec("-1234567890.1234"), 14, 4) }, "7ef204c72dfb2d"},
		{"date", func() ([]byte, error) { return putDate(nil, at) }, "43a20f"},
		{"datetime", func() ([]byte, error) { return putDatetime(nil, at, 6) }, "9967c64146" + "0c0a14"},
		{"zero", func() ([]byte, error) { return putDatetime(nil, types.ZeroTime, 0) }, "8000000000"},
		{"time", func() ([]byte, error) { return putTime(nil, types.Timespan(-1_100_000), 2) }, "7ffffef6"},
		{"year", func() ([]byte, error) { return putYear(nil, int16(2024)) }, "7c"},
	} {
		got, err := c.put()
		if err != nil || hex.EncodeToString(got) != c.want {
			t.Errorf("%s: %x, %v, want %s", c.name, got, err, c.want)
		}
	}
}

// TestPositions: what a client says that it has is read as it is written, and what is another
// server's is refused.
func TestPositions(t *testing.T) {
	id := IdentityOf("a cluster")
	if p, err := id.mariaPosition("3-1-9, " + id.Maria(77)); p != 77 || err != nil {
		t.Errorf("%d, %v", p, err)
	}
	for _, s := range []string{"0-1-5", "0-x-5", "0-1", "0-1-99999999999999999999"} {
		if _, err := id.mariaPosition(s); err == nil {
			t.Errorf("%q is taken", s)
		}
	}
	block := append(le.AppendUint64(nil, 1), id.SID[:]...)
	block = le.AppendUint64(le.AppendUint64(le.AppendUint64(block, 1), 1), 78)
	if p, err := id.mysqlPosition(block); p != 77 || err != nil {
		t.Errorf("%d, %v", p, err)
	}
	if p, ok := fileStart(File(77)); p != 77 || !ok {
		t.Errorf("%d, %v", p, ok)
	}
}

// FuzzRequests: whatever a client sends is read or refused.
func FuzzRequests(f *testing.F) {
	f.Add([]byte("\x04\x00\x00\x00\x00\x00\x07\x00\x00\x00godwit-bin.1"))
	f.Add([]byte("\x07\x00\x00\x00\x01a\x00\x00\xea\x0c\x00\x00\x00\x00\x00\x00\x00\x00"))
	id := IdentityOf("x")
	f.Fuzz(func(t *testing.T, b []byte) {
		parseDump(b)
		if r, ok := parseDumpGTID(b); ok && len(r.gtids) > len(b) {
			t.Error("more GTIDs than bytes")
		}
		parseRegister(b)
		_, _ = id.mysqlPosition(b)
		_, _ = id.mariaPosition(string(b))
		fileStart(string(b))
		Announces(string(b))
	})
}

// TestCollision: the statements of one moment have the numbers below it. A client that has some of
// them gets the others; if one of the numbers is another transaction's, it gets an error.
func TestCollision(t *testing.T) {
	tx := &feed.Tx{TS: 100}
	for _, name := range []string{"a", "b", "c"} {
		tx.Definitions = append(tx.Definitions, feed.Definition{Kind: feed.DatabaseDropped, DB: name})
	}
	for _, c := range []struct {
		name        string
		byFile      bool
		since, last Position
		committed   bool // at since
		want        int  // statements; -1: an error
	}{
		{"far below", false, 50, 97, false, 3},
		{"has one", false, 98, 98, false, 2},
		{"has two", false, 99, 99, false, 1},
		{"another's number", false, 98, 98, true, -1},
		{"another's number in this stream", false, 50, 99, false, -1},
		{"by file", true, 99, 99, true, 3},
	} {
		n := 0
		s := &stream{env: &Env{Feed: feed.Env{DB: memkv.New(1, "eu")}}, e: &encoder{maria: true}, byFile: c.byFile, since: c.since, last: c.last,
			committed: func(_ context.Context, at Position) (bool, error) { return c.committed && at == c.since, nil },
			out: func(b []byte) error {
				if b[4] == typeQuery {
					n++
				}
				return nil
			}}
		err := s.part(t.Context(), tx)
		if c.want < 0 {
			if n != 0 || err == nil || !strings.Contains(err.Error(), "lies too near") {
				t.Errorf("%s: %d statements, %v", c.name, n, err)
			}
			continue
		}
		if err != nil || n != c.want || s.last != 100 {
			t.Errorf("%s: %d statements up to %d, %v", c.name, n, s.last, err)
		}
	}
}
