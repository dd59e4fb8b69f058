package pages

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-sql-driver/mysql"

	"github.com/godwitdb/godwit/node"
	"github.com/godwitdb/godwit/policy/matrix"
)

// regions are those of the pages. The round trips are short: the pages show how many there are, and
// not how long they take.
const regions = "eu-west,us-east,ap-south\n0,4,6\n4,0,8\n6,8,0\n"

// home is where a page begins.
var home = sender{"root", "eu-west"}

// world is a cluster and the clients of a page.
type world struct {
	cluster *node.Local
	clients map[sender]*sql.Conn
	pools   []*sql.DB         // of the clients
	pass    map[string]string // of users that the page has made
	csv     string            // what LOAD DATA LOCAL INFILE reads
	dir     string            // the directory that pages call /backups
}

// openWorld starts a cluster.
func openWorld(t *testing.T) *world {
	t.Helper()
	m, err := matrix.Parse(strings.NewReader(regions), "the pages")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "backups"), 0o755); err != nil {
		t.Fatal(err)
	}
	c, err := node.StartLocal(t.Context(), node.LocalConfig{Matrix: m, Dir: filepath.Join(dir, "stores"), BackupDir: filepath.Join(dir, "backups"),
		CacheMB: 64}, quiet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return &world{cluster: c, clients: map[sender]*sql.Conn{}, pass: map[string]string{}, dir: dir}
}

// client is the connection of a user to the gateway of a region.
func (w *world) client(ctx context.Context, s sender) (*sql.Conn, error) {
	if c := w.clients[s]; c != nil {
		return c, nil
	}
	addrs := w.cluster.SQLAddrs(s.at)
	if len(addrs) == 0 {
		return nil, fmt.Errorf("there is no region %s", s.at)
	}
	cfg := mysql.NewConfig()
	cfg.User, cfg.Passwd, cfg.Net, cfg.Addr = s.user, w.pass[s.user], "tcp", addrs[0]
	cfg.AllowNativePasswords = true
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	w.pools = append(w.pools, db)
	c, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	w.clients[s] = c
	return c, nil
}

var (
	infile = regexp.MustCompile(`LOCAL INFILE '[^']*'`)
	made   = regexp.MustCompile(`(?is)^CREATE USER (?:IF NOT EXISTS )?'?(\w+)'?(?:@'?[\w%.]*'?)? IDENTIFIED BY '(\w+)'`)
)

// run sends a statement and returns what the mysql client would show of the answer.
func (w *world) run(ctx context.Context, s step) string {
	c, err := w.client(ctx, sender{s.user, s.at})
	if err != nil {
		return wordsOf(err)
	}
	there := strings.NewReplacer(w.dir+"/backups", "/backups")
	text := strings.ReplaceAll(s.text, "file:///backups", "file://"+w.dir+"/backups")
	file := "csv of " + w.dir // the driver has one list of files for all worlds
	mysql.RegisterReaderHandler(file, func() io.Reader { return strings.NewReader(w.csv) })
	text = infile.ReplaceAllString(text, "LOCAL INFILE 'Reader::"+file+"'")
	rows, err := c.QueryContext(ctx, text)
	if err != nil {
		return there.Replace(wordsOf(err))
	}
	defer rows.Close()
	if m := made.FindStringSubmatch(s.text); m != nil {
		w.pass[m[1]] = m[2]
	}
	out := ""
	for {
		one, err := table(rows)
		out += one
		if err != nil {
			return there.Replace(out + wordsOf(err))
		}
		if !rows.NextResultSet() {
			break
		}
	}
	if err := rows.Err(); err != nil {
		out += wordsOf(err)
	}
	return there.Replace(out)
}

// wordsOf is an error as the mysql client shows it.
func wordsOf(err error) string {
	var e *mysql.MySQLError
	if errors.As(err, &e) {
		return fmt.Sprintf("ERROR %d (%s): %s\n", e.Number, e.SQLState[:], e.Message)
	}
	return "ERROR of the client: " + err.Error() + "\n"
}

// mostWide is how wide a table may be; a wider one is shown as with \G.
const mostWide = 110

// table is a result set as text; empty if it has no columns.
func table(rows *sql.Rows) (string, error) {
	names, err := rows.Columns()
	if err != nil || len(names) == 0 {
		return "", err
	}
	var all [][]string
	for rows.Next() {
		cells, at := make([]sql.NullString, len(names)), make([]any, len(names))
		for i := range cells {
			at[i] = &cells[i]
		}
		if err := rows.Scan(at...); err != nil {
			return "", err
		}
		line := make([]string, len(names))
		for i, c := range cells {
			if line[i] = c.String; !c.Valid {
				line[i] = "NULL"
			}
		}
		all = append(all, line)
	}
	return format(names, all), rows.Err()
}

func format(names []string, all [][]string) string {
	if len(all) == 0 {
		return "Empty set\n"
	}
	wide, total, many := make([]int, len(names)), 0, false
	for i, n := range names {
		wide[i] = utf8.RuneCountInString(n)
		for _, l := range all {
			wide[i] = max(wide[i], utf8.RuneCountInString(l[i]))
			many = many || strings.Contains(l[i], "\n")
		}
		total += wide[i] + 2
	}
	var b strings.Builder
	if many || total > mostWide {
		for _, l := range all {
			for i, n := range names {
				fmt.Fprintf(&b, "%s: %s\n", n, l[i])
			}
		}
		return b.String()
	}
	put := func(cells []string) {
		line := ""
		for i, c := range cells {
			line += c + strings.Repeat(" ", wide[i]-utf8.RuneCountInString(c)+2)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	put(names)
	rule := make([]string, len(names))
	for i := range rule {
		rule[i] = strings.Repeat("-", wide[i])
	}
	put(rule)
	for _, l := range all {
		put(l)
	}
	return b.String()
}

// clean takes away what a page has left, for the next one.
func (w *world) clean(ctx context.Context) error {
	if err := w.leave(); err != nil {
		return err
	}
	clear(w.pass)
	w.csv = ""
	c, err := w.client(ctx, home)
	if err != nil {
		return err
	}
	column := func(q string) (out []string, err error) {
		rows, err := c.QueryContext(ctx, q)
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		for rows.Next() {
			var s string
			if err := rows.Scan(&s); err != nil {
				return nil, err
			}
			out = append(out, s)
		}
		return out, rows.Err()
	}
	for _, kind := range []struct{ all, end string }{
		{"SELECT job_id FROM godwit.jobs WHERE status = 'running' AND job_type IN ('BACKUP LOG', 'CHANGEFEED')", "CANCEL JOB %s"},
		{"SELECT name FROM (SELECT SCHEMA_NAME AS name FROM information_schema.schemata) AS s WHERE name NOT IN " +
			"('information_schema', 'mysql', 'performance_schema', 'sys', 'godwit')", "DROP DATABASE `%s`"},
		{"SELECT DISTINCT CONCAT('''', user, '''@''', host, '''') FROM mysql.user WHERE user NOT IN ('root', '') AND user NOT LIKE 'mysql.%'",
			"DROP USER %s"},
	} {
		names, err := column(kind.all)
		if err != nil {
			return fmt.Errorf("%s: %w", kind.all, err)
		}
		for _, n := range names {
			if _, err := c.ExecContext(ctx, fmt.Sprintf(kind.end, n)); err != nil {
				return fmt.Errorf("%s: %w", fmt.Sprintf(kind.end, n), err)
			}
		}
	}
	for _, q := range []string{"CREATE DATABASE shop", "SET GLOBAL local_infile = 1"} {
		if _, err := c.ExecContext(ctx, q); err != nil {
			return fmt.Errorf("%s: %w", q, err)
		}
	}
	return w.leave()
}

// leave closes all connections.
func (w *world) leave() error {
	for _, c := range w.clients {
		if err := c.Close(); err != nil && !errors.Is(err, sql.ErrConnDone) {
			return err
		}
	}
	clear(w.clients)
	for _, db := range w.pools {
		if err := db.Close(); err != nil {
			return err
		}
	}
	w.pools = nil
	return nil
}
