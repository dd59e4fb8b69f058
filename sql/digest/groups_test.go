package digest

import (
	"bufio"
	"context"
	"database/sql"
	"database/sql/driver"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
)

var record = flag.String("mariadb", "", "data source name of a MariaDB 10.11 to record the groups of, as root; it "+
	"must be one of which nothing is needed, with performance_schema on, and max_digest_length, "+
	"performance_schema_max_digest_length and performance_schema_max_sql_text_length of 64 KiB")

// recorded has a statement a line, behind the number of the digest that MariaDB has given it.
const recorded = "testdata/mariadb.txt"

// grouped is a statement and the digest of another server.
type grouped struct {
	group int
	q     string
}

// differs says why two texts have one digest there and two here, or the other way round: MySQL 8.0
// differs from MariaDB there, and is what we follow.
var differs = []struct {
	why string
	is  func(q string) bool
}{
	{"x'1F' is a literal, as 0x1F is", regexp.MustCompile(`x'1f'`).MatchString},
	{"IN (1) and IN (1, 2) have one digest", regexp.MustCompile(`(?i)\bin\s*\((-?\d+|null)(,|\))`).MatchString},
	{"there are optimizer hints", regexp.MustCompile(`/\*\+`).MatchString},
	{"GROUPING is a keyword", regexp.MustCompile(`(?i)\bgrouping\(`).MatchString},
}

// TestGroups: two statements have one digest here if and only if they have one in MariaDB.
func TestGroups(t *testing.T) {
	if *record != "" {
		writeGroups(t)
	}
	all := readGroups(t)
	here := map[string]grouped{} // the first of a digest text
	there := map[int]grouped{}
	excused := make([]int, len(differs))
	excuse := func(q ...string) bool {
		i := slices.IndexFunc(differs, func(d struct {
			why string
			is  func(q string) bool
		}) bool {
			return slices.ContainsFunc(q, d.is)
		})
		if i >= 0 {
			excused[i]++
		}
		return i >= 0
	}
	for _, x := range all {
		text := Text(x.q, 0)
		if first, ok := here[text]; !ok {
			here[text] = x
		} else if first.group != x.group && !excuse(first.q, x.q) {
			t.Errorf("one digest here, two there:\n  %s\n  %s\n  %s", first.q, x.q, text)
		}
		if first, ok := there[x.group]; !ok {
			there[x.group] = x
		} else if Text(first.q, 0) != text && !excuse(first.q, x.q) {
			t.Errorf("one digest there, two here:\n  %s\n  %s\n  %s\n  %s", first.q, x.q, Text(first.q, 0), text)
		}
	}
	t.Logf("%d statements, %d digests there, %d here", len(all), len(there), len(here))
	if len(all) < 1000 || len(there) < 300 || len(there) > len(all)*9/10 {
		t.Errorf("%d statements in %d groups say little", len(all), len(there))
	}
	for i, d := range differs {
		if excused[i] == 0 {
			t.Errorf("nothing differs by that: %s", d.why)
		}
	}
}

func readGroups(t *testing.T) (out []grouped) {
	t.Helper()
	data, err := os.ReadFile(recorded)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		number, q, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		n, err := strconv.Atoi(number)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		out = append(out, grouped{n, q})
	}
	return out
}

// dangerous are statements that the server that is asked would not survive, or that hold it up.
var dangerous = regexp.MustCompile(`(?i)^\s*(shutdown|set\s+(global|password|@@global|cluster|persist)|kill|lock|flush|(alter|drop|rename) user)|root|sleep\s*\(\s*[1-9]|get_lock|benchmark`)

// scripts are the statements of SQL scripts in this repository.
func scripts(t *testing.T) (out []string) {
	t.Helper()
	seen := map[string]bool{}
	add := func(q string) {
		if q != "" && !seen[q] && len(q) < 400 {
			seen[q] = true
			out = append(out, q)
		}
	}
	own, err := os.Open("testdata/statements.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	for s := bufio.NewScanner(own); s.Scan(); {
		if !strings.HasPrefix(s.Text(), "#") {
			add(s.Text())
		}
	}
	first := regexp.MustCompile(`(?i)^(select|insert|update|delete|replace|create|alter|drop|with|set|begin|commit|rollback|` +
		`start|savepoint|show|truncate|call|explain|grant|revoke|prepare|execute|values|\(select)\b`)
	var files []string
	for _, pattern := range []string{"../sqltest/testdata/*/*", "../server/testdata/selects/*", "../server/testdata/changes/*"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	n := 0
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			q := strings.TrimSpace(line)
			if !first.MatchString(q) || dangerous.MatchString(q) {
				continue
			}
			if n++; n%2 == 0 { // half of them is enough
				continue
			}
			add(q)
			if n%5 == 0 {
				add(varied(q))
			}
		}
	}
	return out
}

var (
	numbers = regexp.MustCompile(`\b\d+\b`)
	spaces  = regexp.MustCompile(` `)
)

// varied is a statement with other numbers and spaces, in lower case.
func varied(q string) string {
	if strings.ContainsAny(q, "'\"`@") {
		return numbers.ReplaceAllString(q, "77")
	}
	return strings.ToLower(spaces.ReplaceAllString(numbers.ReplaceAllString(q, "77"), "  "))
}

// writeGroups asks MariaDB.
func writeGroups(t *testing.T) {
	t.Helper()
	db, err := sql.Open("mysql", *record)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("UPDATE performance_schema.setup_consumers SET ENABLED = 'YES' WHERE NAME LIKE 'events_statements%'"); err != nil {
		t.Fatal(err)
	}
	groups, lines := map[string]int{}, []string{"# Recorded from MariaDB 10.11: go test ./sql/digest -run TestGroups -mariadb DSN\n"}
	for _, q := range scripts(t) {
		d := askDigest(t, db, q)
		if d == "" {
			continue // it does not parse there
		}
		if groups[d] == 0 {
			groups[d] = len(groups) + 1
		}
		lines = append(lines, fmt.Sprintf("%d\t%s\n", groups[d], q))
	}
	if err := os.WriteFile(recorded, []byte(strings.Join(lines, "")), 0o644); err != nil {
		t.Fatal(err)
	}
}

// askDigest executes a statement in a database of its own, and asks for its digest.
func askDigest(t *testing.T, db *sql.DB, q string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for _, x := range []string{"CREATE DATABASE IF NOT EXISTS d", "CREATE TABLE IF NOT EXISTS d.t (a INT, b INT, v INT, id INT)"} {
		if _, err := db.ExecContext(ctx, x); err != nil {
			t.Fatal(err)
		}
	}
	c, err := db.Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var id int64
	if err := c.QueryRowContext(ctx, "SELECT THREAD_ID FROM performance_schema.threads WHERE PROCESSLIST_ID = CONNECTION_ID()").
		Scan(&id); err != nil {
		t.Fatal(err)
	}
	for _, x := range []string{"SET SESSION max_statement_time = 2", "SET SESSION lock_wait_timeout = 1", "USE d"} {
		if _, err := c.ExecContext(ctx, x); err != nil {
			t.Fatal(err)
		}
	}
	if rows, err := c.QueryContext(ctx, q); err == nil {
		rows.Close()
	}
	var d sql.NullString
	err = db.QueryRowContext(ctx, "SELECT DIGEST FROM performance_schema.events_statements_history WHERE THREAD_ID = ? AND "+
		"CAST(SQL_TEXT AS BINARY) = CAST(? AS BINARY) ORDER BY EVENT_ID DESC LIMIT 1", id, q).Scan(&d)
	if err != nil && err != sql.ErrNoRows {
		t.Fatal(err)
	}
	_ = c.Raw(func(any) error { return driver.ErrBadConn }) // it is not used again
	_ = c.Close()
	return d.String
}
