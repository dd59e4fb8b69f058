package workload

import (
	"database/sql/driver"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// TestLoadOutcomeUnknown: a batch whose commit may have happened is sent again where a key shows
// whether it did, and is not where it would double the rows.
func TestLoadOutcomeUnknown(t *testing.T) {
	unknown := &mysql.MySQLError{Number: 1105, Message: "The outcome of the commit is unknown: the leader has changed. Check the data"}
	duplicate := &mysql.MySQLError{Number: 1062, Message: "Duplicate entry '1' for key 'PRIMARY'"}
	for _, c := range []struct {
		name    string
		answers []error
		keyless bool
		fails   error
	}{
		{"it had committed", []error{unknown, duplicate}, false, nil},
		{"it had not", []error{unknown, nil}, false, nil},
		{"it had not, twice", []error{unknown, unknown, nil}, false, nil},
		{"without a key", []error{unknown}, true, unknown},
		{"somebody else's row", []error{duplicate}, false, duplicate},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked := 0
			f := &fakeServer{answer: func(q string, _ []driver.NamedValue) (*fakeRows, error) {
				if !strings.HasPrefix(q, "INSERT INTO t VALUES ") {
					return &fakeRows{}, nil
				}
				asked++
				return &fakeRows{}, c.answers[asked-1]
			}}
			ctx := t.Context()
			s, err := f.pool("eu").connected(ctx)
			if err != nil {
				t.Fatal(err)
			}
			l := new(loader)
			b := &batch{s: s, loaded: &l.rows}
			if err := b.into(ctx, "t"); err != nil {
				t.Fatal(err)
			}
			b.keyless = c.keyless
			if err := b.row(ctx, 1); err != nil {
				t.Fatal(err)
			}
			err = b.flush(ctx)
			if (err == nil) != (c.fails == nil) || c.fails != nil && !strings.Contains(err.Error(), c.fails.Error()) {
				t.Errorf("got %v, want %v", err, c.fails)
			}
			if asked != len(c.answers) || err == nil && l.rows.Load() != 1 {
				t.Errorf("%d statements for %d answers, %d rows loaded", asked, len(c.answers), l.rows.Load())
			}
		})
	}
}
