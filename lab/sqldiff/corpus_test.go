package sqldiff

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/godwitdb/godwit/kv/memkv"
	"github.com/godwitdb/godwit/sql/server"
)

// The corpus is what was found, by this package and by foreign suites. A file of testdata has
// cases, each in a database of its own:
//
//	-- case: name
//	-- wrong: what Godwit answers         (only while it does)
//	-- mysql: why MariaDB is not asked    (only where MySQL's manual decides)
//	CREATE TABLE ...;
//	SELECT ...;
//	-- = 1|NULL                           a row of the right answer; in any order
//	INSERT ...;
//	-- ! 1062                             the right error; "-- affected 2" if there is none
//
// `go test ./lab/sqldiff -rewrite` asks MariaDB for the right answers, where it may be asked, and
// notes which of Godwit's are wrong.
var rewrite = flag.Bool("rewrite", false, "write the answers of the corpus anew")

// case_ is a case of the corpus.
type case_ struct {
	name, wrong, mysql string
	steps              []step
}

type step struct {
	sql  string
	want []string
}

func parseCorpus(t *testing.T, text string) (out []*case_) {
	t.Helper()
	var c *case_
	open := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		value := func(prefix string) (string, bool) { return strings.CutPrefix(line, prefix) }
		if v, ok := value("-- case: "); ok {
			c = &case_{name: v}
			out = append(out, c)
		} else if v, ok := value("-- wrong: "); ok {
			c.wrong = v
		} else if v, ok := value("-- mysql: "); ok {
			c.mysql = v
		} else if v, ok := value("-- "); ok {
			s := &c.steps[len(c.steps)-1]
			s.want = append(s.want, v)
		} else if line != "" {
			if open {
				c.steps[len(c.steps)-1].sql += "\n" + line
			} else {
				c.steps = append(c.steps, step{sql: line})
			}
			open = !strings.HasSuffix(line, ";")
		}
	}
	return out
}

// answer is what a server says to a step, as the corpus writes it.
func answer(r *Result) (out []string) {
	switch {
	case r.Errno != 0:
		return []string{fmt.Sprint("! ", r.Errno)}
	case r.Types == nil:
		return []string{fmt.Sprint("affected ", r.Affected)}
	}
	for _, row := range r.Rows {
		out = append(out, "= "+strings.ReplaceAll(strings.Join(row, "|"), null, "NULL"))
	}
	slices.Sort(out)
	if out == nil {
		out = []string{"no rows"}
	}
	return out
}

// run gives the answers of a server to all steps of a case.
func (c *case_) run(t *testing.T, s *Side) (out [][]string) {
	t.Helper()
	ctx := context.Background()
	if err := s.Fresh(ctx, "corpus"); err != nil {
		t.Fatalf("%s: %v", c.name, err)
	}
	for _, st := range c.steps {
		out = append(out, answer(s.Run(ctx, strings.TrimSuffix(st.sql, ";"))))
	}
	return out
}

func (c *case_) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "-- case: %s\n", c.name)
	if c.wrong != "" {
		fmt.Fprintf(&b, "-- wrong: %s\n", c.wrong)
	}
	if c.mysql != "" {
		fmt.Fprintf(&b, "-- mysql: %s\n", c.mysql)
	}
	for _, s := range c.steps {
		fmt.Fprintln(&b, s.sql)
		for _, w := range s.want {
			fmt.Fprintf(&b, "-- %s\n", w)
		}
	}
	return b.String()
}

// godwit is a server over a store in memory.
func godwit(t *testing.T) *Side {
	t.Helper()
	s, err := server.New(server.Config{DB: memkv.New(4, "eu", "us"), Listen: "127.0.0.1:0",
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve()
	t.Cleanup(func() { s.Close() })
	side, err := Dial(context.Background(), "godwit", "root@tcp("+s.Addr().String()+")/")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { side.Close() })
	return side
}

// TestCorpus: the cases give the right answers, but for those that are known to be wrong: one that
// has become right loses its note.
func TestCorpus(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.sql")
	if err != nil || len(paths) == 0 {
		t.Fatal("there is no corpus", err)
	}
	here := godwit(t)
	var ref *Side
	if *rewrite {
		m, err := StartMaria(context.Background(), t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer m.Stop()
		if ref, err = Dial(context.Background(), "mariadb", m.DSN); err != nil {
			t.Fatal(err)
		}
		defer ref.Close()
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		for i, c := range parseCorpus(t, string(text)) {
			got := c.run(t, here)
			if *rewrite {
				c.rewrite(t, ref, got)
				if i > 0 {
					out.WriteByte('\n')
				}
				out.WriteString(c.text())
				continue
			}
			c.judge(t, path, got)
		}
		if *rewrite {
			if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func (c *case_) judge(t *testing.T, path string, got [][]string) {
	t.Helper()
	i := c.differs(got)
	switch {
	case i < 0 && c.wrong != "":
		t.Errorf("%s: %s: the answer is right now: remove the note that it is wrong", path, c.name)
	case i >= 0 && c.wrong == "":
		t.Errorf("%s: %s: %s\nanswers %q\nnot     %q", path, c.name, c.steps[i].sql, got[i], c.steps[i].want)
	}
}

// differs is the first step whose answer is not the right one, or -1.
func (c *case_) differs(got [][]string) int {
	for i, s := range c.steps {
		if !slices.Equal(got[i], s.want) {
			return i
		}
	}
	return -1
}

// rewrite takes MariaDB's answers, and notes how Godwit's differ.
func (c *case_) rewrite(t *testing.T, ref *Side, got [][]string) {
	t.Helper()
	if c.mysql == "" {
		for i, a := range c.run(t, ref) {
			c.steps[i].want = a
		}
	}
	c.wrong = ""
	if i := c.differs(got); i >= 0 {
		c.wrong = strings.Join(got[i][:min(len(got[i]), 3)], " ; ")
	}
}
