package sqltest

import (
	"context"
	"encoding/hex"
	"flag"
	"fmt"
	"net"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/go-sql-driver/mysql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

var beside = flag.String("beside", "", "TestBeside: data source name, as of go-sql-driver/mysql, "+
	"of another server that runs the plain stories")

// hangAfter bounds the real time of a story, which takes seconds on an idle machine: it only ends a
// story that hangs.
const hangAfter = 10 * time.Minute

// TestStories runs the stories, each in a cluster and a bubble of its own.
func TestStories(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		hang := time.AfterFunc(hangAfter, func() {
			debug.SetTraceback("all")
			panic(path + " hangs: something waits that virtual time does not know, or for ever")
		})
		defer hang.Stop()
		synctest.Test(t, func(t *testing.T) {
			s := &story{t: t}
			defer s.end()
			datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
				s.t = t
				return s.step(d)
			})
		})
	})
}

// TestBeside runs the plain stories on another server and logs where its answers differ.
func TestBeside(t *testing.T) {
	if *beside == "" {
		t.Skip("no -beside: it compares with another server")
	}
	paths, err := filepath.Glob("testdata/plain/*")
	if err != nil || len(paths) == 0 {
		t.Fatal("there are no plain stories", err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			connect := func() *client {
				cfg, err := mysql.ParseDSN(*beside)
				if err != nil {
					t.Fatal(err)
				}
				c := newClient(tapped(t, cfg, new(net.Dialer).DialContext), &journal{written: map[string]bool{}}, nil)
				t.Cleanup(c.close)
				c.run("USE test", flags{})
				return c
			}
			c := connect()
			c.run("DROP DATABASE IF EXISTS test", flags{})
			c.run("CREATE DATABASE test", flags{})
			c.run("USE test", flags{})
			s := &story{t: t, w: &world{t: t, clients: map[string]*client{"a": c, "b": connect()}, another: connect}}
			differ := 0
			datadriven.RunTest(t, path, func(_ *testing.T, d *datadriven.TestData) string {
				if got := s.step(d); got != d.Expected {
					differ++
					t.Logf("%s: %s\nhere:\n%s\nthere:\n%s", d.Pos, d.Input, d.Expected, got)
				}
				return d.Expected
			})
			if differ > 0 && filepath.Base(path) == "one_shot" { // it is there for this comparison
				t.Errorf("%d answers differ", differ)
			}
		})
	}
}

// story is the state between the directives of a file.
type story struct {
	kept []kv.Row // entries of an index
	t    *testing.T
	w    *world
}

func (s *story) end() {
	if s.w != nil {
		s.w.close()
	}
}

func (s *story) world() *world {
	if s.w == nil {
		s.w = newWorld(s.t, 4, "eu", "us")
	}
	return s.w
}

func (s *story) step(d *datadriven.TestData) string {
	out := s.run(d)
	if out != "" && !strings.HasSuffix(out, "\n") {
		out += "\n"
	}
	return out
}

func (s *story) run(d *datadriven.TestData) string {
	switch d.Cmd {
	case "cluster":
		shards := 4
		d.MaybeScanArgs(s.t, "shards", &shards)
		s.w = newWorld(s.t, shards, values(d, "regions")...)
		return ""
	case "session":
		return s.session(d)
	case "sql":
		c, f := s.client(d)
		return each(statements(d.Input), f, func(q string) string { return c.run(q, f) })
	case "prepared":
		c, f := s.client(d)
		return s.prepared(c, f, statements(d.Input))
	case "packet":
		c, f := s.client(d)
		return s.packet(c, f, d.Input)
	case "took":
		return s.took(d)
	case "relay":
		s.world().relay.Store(!s.w.ordinary)
		return ""
	case "agree":
		c, _ := s.client(d)
		return s.agree(c, statements(d.Input))
	case "start":
		c, f := s.client(d)
		return s.start(c, f, strings.TrimSpace(d.Input))
	case "finish":
		c, _ := s.client(d)
		if c.done == nil {
			return "nothing was started that waits"
		}
		out := <-c.done
		c.done = nil
		return out
	case "advance":
		p, err := time.ParseDuration(d.CmdArgs[0].Key)
		if err != nil {
			s.t.Fatal(err)
		}
		time.Sleep(p)
		synctest.Wait()
		return ""
	case "fault":
		return s.fault(d)
	case "corrupt":
		return s.corrupt(d)
	case "behind":
		return s.behind(d)
	case "entries":
		return s.entries(d)
	case "stored":
		return s.stored()
	case "restart":
		n := base.NodeID(1 + slices.Index(s.world().regions, value(d, "region", s.w.regions[0])))
		s.w.servers[n].Close()
		s.w.serve(n)
		return ""
	}
	s.t.Fatalf("%s: there is no directive %s", d.Pos, d.Cmd)
	return ""
}

func values(d *datadriven.TestData, key string) []string {
	for _, a := range d.CmdArgs {
		if a.Key == key {
			return a.Vals
		}
	}
	return nil
}

func value(d *datadriven.TestData, key, other string) string {
	if v := values(d, key); len(v) > 0 {
		return v[0]
	}
	return other
}

// client finds the session and the flags that a directive names.
func (s *story) client(d *datadriven.TestData) (*client, flags) {
	c, f := s.world().clients["a"], flags{}
	set := map[string]*bool{
		"trace": &f.trace, "trips": &f.trips, "path": &f.path, "warn": &f.warn, "names": &f.names, "sort": &f.sort,
		"quiet": &f.quiet, "words": &f.words, "last": &f.last, "rows": &f.rows,
	}
	for _, a := range d.CmdArgs {
		if on := set[a.Key]; on != nil {
			*on = true
		} else if k := s.w.clients[a.Key]; k != nil {
			c = k
		} else {
			s.t.Fatalf("%s: %s is neither a session nor a flag", d.Pos, a.Key)
		}
	}
	return c, f
}

// statements splits an input: indented lines belong to the statement above them.
func statements(in string) (out []string) {
	for _, line := range strings.Split(strings.TrimSpace(in), "\n") {
		if len(out) > 0 && (strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t")) {
			out[len(out)-1] += "\n" + line
		} else if line != "" {
			out = append(out, line)
		}
	}
	return out
}

// each joins the answers of statements; a quiet story shows only errors.
func each(qs []string, f flags, run func(q string) string) string {
	var out []string
	for _, q := range qs {
		o := run(q)
		if f.quiet && !strings.HasPrefix(o, "error") {
			continue
		}
		if f.quiet {
			o = q + ": " + o
		}
		out = append(out, o)
	}
	if len(out) == 0 {
		return "ok"
	}
	return strings.Join(out, "\n")
}

func (s *story) session(d *datadriven.TestData) string {
	w := s.world()
	name := d.CmdArgs[0].Key
	if w.another != nil {
		w.clients[name] = w.another()
		return ""
	}
	region := value(d, "region", w.regions[0])
	if old := w.clients[name]; old != nil {
		old.close()
	}
	c := w.connect(value(d, "db", "test"), value(d, "user", "root"), value(d, "password", ""), region)
	w.clients[name] = c
	if c.err != nil {
		return errorText(c.err, flags{words: true})
	}
	return ""
}

// literals reads a line "? 1, 'x', NULL".
func literals(line string) (args []any) {
	rest := strings.TrimSpace(strings.TrimPrefix(line, "?"))
	for rest != "" {
		var tok string
		if rest[0] == '\'' {
			end := strings.IndexByte(rest[1:], '\'')
			if end < 0 {
				end = len(rest) - 1
			}
			args = append(args, rest[1:1+end])
			rest = strings.TrimLeft(rest[min(len(rest), end+2):], ", ")
			continue
		}
		tok, rest, _ = strings.Cut(rest, ",")
		rest = strings.TrimSpace(rest)
		tok = strings.TrimSpace(tok)
		if n, err := strconv.ParseInt(tok, 10, 64); err == nil {
			args = append(args, n)
		} else if n, err := strconv.ParseUint(tok, 10, 64); err == nil {
			args = append(args, n)
		} else if x, err := strconv.ParseFloat(tok, 64); err == nil {
			args = append(args, x)
		} else if strings.HasPrefix(tok, "0x") {
			b, _ := hex.DecodeString(tok[2:])
			args = append(args, b)
		} else {
			args = append(args, nil)
		}
	}
	return args
}

func (s *story) prepared(c *client, f flags, lines []string) string {
	st, err := c.conn.PrepareContext(context.Background(), lines[0])
	if err != nil {
		return errorText(err, f)
	}
	defer st.Close()
	return each(lines[1:], f, func(line string) string { return c.execute(st, lines[0], f, literals(line)...) })
}

// interpolate puts constants into a statement.
func interpolate(q string, args []any) string {
	for _, a := range args {
		v := "NULL"
		switch a := a.(type) {
		case string:
			v = "'" + a + "'"
		case []byte:
			v = fmt.Sprintf("0x%X", a)
		case nil:
		default:
			v = fmt.Sprint(a)
		}
		q = strings.Replace(q, "?", v, 1)
	}
	return q
}

// agree executes statements by all ways, each way twice, in transactions that are rolled back.
func (s *story) agree(c *client, lines []string) string {
	var out []string
	for i := 0; i < len(lines); {
		q := lines[i]
		var argLists [][]any
		for i++; i < len(lines) && strings.HasPrefix(lines[i], "?"); i++ {
			argLists = append(argLists, literals(lines[i]))
		}
		if argLists == nil {
			argLists = [][]any{nil}
		}
		for _, args := range argLists {
			out = append(out, s.ways(c, q, args)...)
		}
	}
	return strings.Join(out, "\n")
}

// ways are the answers to a statement, one if they are alike.
func (s *story) ways(c *client, q string, args []any) (out []string) {
	text := interpolate(q, args)
	word := firstWord(q)
	engine := strings.Replace(text, text[:len(word)], text[:len(word)]+" /* by the engine */", 1)
	paths, answers := []string{}, []string{}
	for _, way := range []struct {
		name string
		run  func() string
	}{
		{"text", func() string { return c.run(text, flags{path: true}) }},
		{"prepared", func() string { return s.prepared(c, flags{path: true}, []string{q, argLine(args)}) }},
		{"engine", func() string { return c.run(engine, flags{path: true}) }},
	} {
		c.run("BEGIN", flags{})
		for range 2 {
			c.run("SAVEPOINT before_it", flags{})
			answer, path, _ := strings.Cut(way.run(), "\n  path: ")
			if strings.HasPrefix(answer, "error") {
				answer, _, _ = strings.Cut(answer, "\n")
			}
			c.run("ROLLBACK TO before_it", flags{})
			answers, paths = append(answers, answer), append(paths, path)
		}
		c.run("ROLLBACK", flags{})
	}
	out = append(out, fmt.Sprintf("%s [%s, %s, %s]", text, paths[1], paths[3], paths[5]))
	slices.Sort(answers)
	for _, a := range slices.Compact(answers) {
		out = append(out, "  "+strings.ReplaceAll(a, "\n", "\n  "))
	}
	return out
}

// argLine is the line that literals reads.
func argLine(args []any) string {
	var out []string
	for _, a := range args {
		out = append(out, interpolate("?", []any{a}))
	}
	return "? " + strings.Join(out, ", ")
}

// start executes a statement and waits until it has its answer, or waits for something itself.
func (s *story) start(c *client, f flags, q string) string {
	c.done = make(chan string, 1)
	k := *c
	k.settle = nil // the one below waits
	go func() { k.done <- k.run(q, f) }()
	synctest.Wait()
	select {
	case out := <-c.done:
		c.done = nil
		return out
	default:
		return "waits"
	}
}

func (s *story) fault(d *datadriven.TestData) string {
	f := &fault{op: value(d, "op", "commit"), left: 1}
	f.region = base.RegionID(1 + slices.Index(s.world().regions, value(d, "region", s.w.regions[0])))
	d.MaybeScanArgs(s.t, "nth", &f.left)
	word := strings.ReplaceAll(value(d, "code", "aborted"), "-", " ")
	for c := base.CodeOther; c <= base.CodeCanceled; c++ {
		if c.String() == word {
			f.code = c
		}
	}
	s.w.j.mu.Lock()
	defer s.w.j.mu.Unlock()
	s.w.j.faults = append(s.w.j.faults, f)
	return ""
}

// corrupt overwrites the rows of a table.
func (s *story) corrupt(d *datadriven.TestData) string {
	w := s.world()
	tab := w.names.find(value(d, "table", ""))
	if tab == nil {
		return "no such table"
	}
	raw, err := hex.DecodeString(value(d, "value", ""))
	if err != nil {
		return err.Error()
	}
	index := 0
	d.MaybeScanArgs(s.t, "index", &index)
	n := 0
	_, err = kv.Run(context.Background(), w.names.db, kv.Options{}, func(t kv.Txn) error {
		n = 0
		for sh := range w.names.db.Topology().Shards {
			p := base.IndexPrefix(base.ShardID(sh+1), tab.ID, base.IndexID(index), 0)
			res, err := t.Scan(context.Background(),
				kv.ScanRequest{Spans: []base.Span{{Start: p, End: p.PrefixEnd()}}, Lock: kv.LockExclusive})
			if err != nil {
				return err
			}
			for _, r := range res.Rows {
				n++
				t.Put(r.Key, raw, r.Home)
			}
		}
		return nil
	})
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d overwritten", n)
}

// behind has a gateway hear nothing more of changes of the catalog, until "behind region=eu no".
func (s *story) behind(d *datadriven.TestData) string {
	w := s.world()
	r := base.RegionID(1 + slices.Index(w.regions, value(d, "region", w.regions[0])))
	w.j.mu.Lock()
	defer w.j.mu.Unlock()
	if w.j.behind == nil {
		w.j.behind = map[base.RegionID]*metaVersion{}
	}
	if w.j.behind[r] = nil; d.HasArg("no") {
		return ""
	}
	changed, complete := w.names.db.MetaVersion(base.CatalogSpan)
	w.j.behind[r] = &metaVersion{changed, complete}
	return ""
}

// entries keeps the entries of an index, drops what is there, or puts back what was kept, past all
// that keeps indexes and rows together.
func (s *story) entries(d *datadriven.TestData) string {
	w := s.world()
	tab := w.names.find(value(d, "table", ""))
	if tab == nil {
		return "no such table"
	}
	do, n := value(d, "do", ""), 0
	byHome := d.HasArg("by-home")
	index := 1
	d.MaybeScanArgs(s.t, "index", &index)
	ix, homes := base.IndexID(index), 1
	if byHome {
		ix, homes = ix|base.ByHome, len(w.regions)+1
	}
	_, err := kv.Run(context.Background(), w.names.db, kv.Options{}, func(t kv.Txn) error {
		if do == "put" {
			for _, r := range s.kept {
				t.Put(r.Key, r.Value, r.Home)
			}
			n = len(s.kept)
			return nil
		}
		n, s.kept = 0, nil
		var spans []base.Span
		for sh := range w.names.db.Topology().Shards {
			for h := range homes {
				p := base.IndexPrefix(base.ShardID(sh+1), tab.ID, ix, base.RegionID(h))
				spans = append(spans, base.Span{Start: p, End: p.PrefixEnd()})
			}
		}
		res, err := t.Scan(context.Background(), kv.ScanRequest{Spans: spans, Lock: kv.LockExclusive})
		if err != nil {
			return err
		}
		s.kept, n = res.Rows, len(res.Rows)
		for _, r := range res.Rows {
			if do == "drop" {
				t.Delete(r.Key)
			}
		}
		return nil
	})
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d entries", n)
}

// stored counts what the data shards hold, rows and entries of indexes, whoever they belong to.
func (s *story) stored() string {
	t := s.world().names.db.Begin(kv.Options{ReadOnly: true})
	defer t.Rollback(context.Background())
	s.w.j.mu.Lock()
	defer s.w.j.mu.Unlock()
	n, tables := 0, map[base.TableID]bool{}
	for k := range s.w.j.written {
		rows, err := t.Get(context.Background(), []base.Key{base.Key(k)}, kv.LockNone)
		if err != nil {
			return err.Error()
		}
		if rows[0].Value != nil {
			n++
			tables[base.Key(k).Table()] = true
		}
	}
	return fmt.Sprintf("%d rows and entries of %d tables", n, len(tables))
}
