package server

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/godwitdb/godwit/lab/sqldiff"
)

const rightsFile = "testdata/rights/statements.txt"

// rightsVar names what else TestRights does: 1 asks MariaDB, and writes its answers to the file.
const rightsVar = "GODWIT_RIGHTS"

// rightsLine is a line of the file; only statements of users have answers.
type rightsLine struct {
	text, user     string
	maria, correct string // correct is empty if MariaDB's answer is
}

// readRights reads the file: the statements of root that come first, and all lines behind them.
func readRights(t *testing.T) (head string, setup []string, lines []*rightsLine) {
	t.Helper()
	b, err := os.ReadFile(rightsFile)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, _ := strings.Cut(string(b), "\nas ")
	_, statements, _ := strings.Cut(head, "\nsetup\n")
	for _, l := range strings.Split(statements, "\n") {
		if l = strings.TrimSpace(l); l != "" {
			setup = append(setup, l)
		}
	}
	user := ""
	for _, l := range strings.Split("as "+strings.TrimRight(rest, "\n"), "\n") {
		x := &rightsLine{text: l}
		lines = append(lines, x)
		if name, ok := strings.CutPrefix(l, "as "); ok {
			user = name
			continue
		}
		if f := strings.SplitN(l, "|", 3); len(f) == 3 {
			x.user, x.maria, x.correct = user, strings.TrimSpace(f[0]), strings.TrimSpace(f[1])
			x.text = strings.TrimSpace(f[2])
		}
	}
	return head, setup, lines
}

// rightsSide is one of the servers: a connection of each user.
type rightsSide struct {
	dsn   func(user string) string
	conns map[string]*sql.Conn
	last  error // of the last statement
}

func (s *rightsSide) conn(t *testing.T, user string) *sql.Conn {
	t.Helper()
	if c := s.conns[user]; c != nil {
		return c
	}
	c, err := openDSN(t, s.dsn(user)).Conn(t.Context())
	if err != nil {
		t.Fatalf("%s: %v", user, err)
	}
	if s.conns == nil {
		s.conns = map[string]*sql.Conn{}
	}
	s.conns[user] = c
	return c
}

// answer runs a statement, see the file for what it returns.
func (s *rightsSide) answer(t *testing.T, user, q string) string {
	t.Helper()
	number := func(err error) string {
		var e *mysql.MySQLError
		if errors.As(err, &e) {
			return strconv.Itoa(int(e.Number))
		}
		t.Errorf("%s: %s: %v", user, q, err)
		return "?"
	}
	rows, err := s.conn(t, user).QueryContext(context.Background(), q)
	s.last = err
	if err != nil {
		return number(err)
	}
	defer rows.Close()
	cols, err := rows.Columns()
	if err != nil || len(cols) == 0 {
		return "0"
	}
	n, cell := 0, sql.NullString{}
	for rows.Next() {
		into := make([]any, len(cols))
		for i := range into {
			into[i] = new(any)
		}
		into[0] = &cell
		if err := rows.Scan(into...); err != nil {
			return number(err)
		}
		n++
	}
	switch err := rows.Err(); {
	case err != nil:
		return number(err)
	case n == 1 && len(cols) == 1 && cell.Valid:
		return "=" + cell.String
	case n == 1 && len(cols) == 1:
		return "=NULL"
	}
	return fmt.Sprintf("#%d", n)
}

// TestRights: who may do what, and sees what, as in MySQL.
func TestRights(t *testing.T) {
	head, setup, lines := readRights(t)
	s, _ := newServer(t)
	exec(t, open(t, s, ""), "DROP DATABASE test")
	here := &rightsSide{dsn: func(user string) string { return fmt.Sprintf("%s@tcp(%s)/", user, s.Addr()) }}
	for _, q := range setup {
		if a := here.answer(t, "root", q); a != "0" {
			t.Errorf("%s: %s", q, a)
		}
	}
	if os.Getenv(rightsVar) != "" {
		askMaria(t, head, setup, lines)
	}
	judged := 0
	for _, l := range lines {
		if l.user == "" {
			continue
		}
		judged++
		want := l.maria
		if l.correct != "" {
			want = l.correct
		}
		want = strings.TrimPrefix(want, "~")
		if got := here.answer(t, l.user, l.text); got != want {
			t.Errorf("%-8s %-90s %s, want %s (%v)", l.user, l.text, got, want, here.last)
		}
	}
	if judged < 150 {
		t.Errorf("only %d statements", judged)
	}
}

// askMaria replaces MariaDB's answers in the file.
func askMaria(t *testing.T, head string, setup []string, lines []*rightsLine) {
	t.Helper()
	m, err := sqldiff.StartMaria(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Stop()
	side := &rightsSide{dsn: func(user string) string { return strings.Replace(m.DSN, "root@", user+"@", 1) }}
	for _, q := range setup {
		exec(t, side.conn(t, "root"), q)
	}
	out := head + "\n"
	for _, l := range lines {
		if l.user == "" {
			out += l.text + "\n"
			continue
		}
		l.maria = side.answer(t, l.user, l.text)
		if l.correct == l.maria {
			l.correct = ""
		}
		out += fmt.Sprintf("%-5s|%-5s| %s\n", l.maria, l.correct, l.text)
	}
	if err := os.WriteFile(rightsFile, []byte(out), 0o644); err != nil {
		t.Fatal(err)
	}
}
