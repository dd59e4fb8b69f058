package session

import (
	"testing"
	"time"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// ahead is a DB whose clock runs ahead of the time, as after a restart of all nodes.
type ahead struct{ kv.DB }

const noon = base.Timestamp(1_700_000_000_000_000_000)

func (ahead) Clock() base.Timestamp { return noon.Add(3 * time.Second) }
func (ahead) Time() base.Timestamp  { return noon }

// TestAsOfCountsFromTheTime: an interval before now is one before the time, wherever the clock of
// timestamps is.
func TestAsOfCountsFromTheTime(t *testing.T) {
	e := &Env{DB: ahead{}}
	for _, c := range []struct {
		operand any
		want    base.Timestamp
	}{
		{"-2s", noon.Add(-2 * time.Second)},
		{"-2.5", noon.Add(-2500 * time.Millisecond)},
		{-2.5, noon.Add(-2500 * time.Millisecond)},
		{-2, noon.Add(-2 * time.Second)},
		{"2023-11-14 22:13:19", noon.Add(-time.Second)},
		{int64(noon), noon},
	} {
		if got, err := e.asOfTime(sql.NewEmptyContext(), c.operand); err != nil || got != c.want {
			t.Errorf("AS OF %v is %d, %v, want %d", c.operand, got, err, c.want)
		}
	}
}
