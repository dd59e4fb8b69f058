package perfschema

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestColumnsBesideMariaDB: a table that MariaDB 10.11 has, too, has its columns in its order, but
// for those that are MariaDB's own, and others of MySQL 8.0 besides. The file was made by
//
//	SELECT table_name, GROUP_CONCAT(column_name ORDER BY ordinal_position SEPARATOR ' ')
//	  FROM information_schema.columns WHERE table_schema = 'performance_schema' GROUP BY table_name
func TestColumnsBesideMariaDB(t *testing.T) {
	text, err := os.ReadFile("testdata/mariadb.txt")
	if err != nil {
		t.Fatal(err)
	}
	common := 0
	for line := range strings.Lines(strings.ToLower(string(text))) {
		words := strings.Fields(line)
		have, ok := columnsOf(words[0])
		if !ok {
			continue
		}
		common++
		at := -1
		for _, name := range words[1:] {
			i := slices.Index(have, name)
			switch {
			case i < 0 && !slices.Contains(theirs, name):
				t.Errorf("%s has no column %s", words[0], name)
			case i >= 0 && i < at:
				t.Errorf("%s has its column %s too early", words[0], name)
			}
			at = max(at, i)
		}
	}
	if common < 70 {
		t.Errorf("only %d tables are in both", common)
	}
}

// theirs are columns that MariaDB has and MySQL 8.0 has not.
var theirs = []string{"last_seen_transaction", "last_trans_retry_count", "worker_idle_time", "using_gtid", "ignore_server_ids",
	"repl_do_domain_ids", "repl_ignore_domain_ids", "count_write_delayed", "sum_timer_write_delayed", "min_timer_write_delayed",
	"avg_timer_write_delayed", "max_timer_write_delayed"}

func columnsOf(table string) (names []string, ok bool) {
	s, ok := schemas()[table]
	for _, c := range s {
		names = append(names, strings.ToLower(c.Name))
	}
	return names, ok
}
