package node

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/go-sql-driver/mysql"

	"github.com/godwitdb/godwit/mechanism/group"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/owner"
	"github.com/godwitdb/godwit/policy/matrix"
	"github.com/godwitdb/godwit/txn"
)

const (
	fileRows  = 600
	firstPart = 640 // rows and entries that a transaction writes; the parts behind it write a 256th
)

// endsPart reports whether a part ends behind so many rows. Rows are written 2 at a time, and
// each has an entry of an index: the first part is the first 322 rows, and the others have 2.
func endsPart(n int) bool { return n == 0 || n > firstPart/2 && n%2 == 0 }

// slowFile are the lines of a file, which come a few at a time.
type slowFile struct{ at int }

// Read implements io.Reader.
func (f *slowFile) Read(b []byte) (int, error) {
	if f.at >= fileRows {
		return 0, io.EOF
	}
	time.Sleep(5 * time.Millisecond)
	var text strings.Builder
	for range 10 {
		f.at++
		fmt.Fprintf(&text, "%d\t%d\n", f.at, f.at%7)
	}
	return copy(b, text.String()), nil
}

// crashWorld are three regions, whose nodes can be killed as by kill -9, and started again.
type crashWorld struct {
	t     *testing.T
	l     *Local
	disks []*vfs.MemFS
	pipes []pipeListener
	cfg   LocalConfig
}

func newCrashWorld(t *testing.T) *crashWorld {
	m, err := matrix.Default(3)
	if err != nil {
		t.Fatal(err)
	}
	w := &crashWorld{t: t, cfg: LocalConfig{Matrix: m, NodesPerRegion: 1, Tune: func(_ *group.HostOptions, _ *owner.Config, c *txn.Config) {
		c.Limits.Writes, c.Limits.EntryWrites, c.Limits.PieceWrites = firstPart, 200, 50
	}}}
	w.cfg.fill()
	w.l = &Local{cfg: w.cfg, net: wan.NewNetwork(wan.NetOptions{Seed: 1, LAN: wan.LinkSpec{Delay: lanDelay}, Logger: slog.New(slog.DiscardHandler)})}
	w.l.net.SetOneWay(w.cfg.Matrix.OneWays())
	t.Cleanup(func() {
		if err := w.l.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	for range 3 {
		w.disks, w.pipes = append(w.disks, vfs.NewCrashableMem()), append(w.pipes, pipeListener{})
		w.l.nodes = append(w.l.nodes, nil)
		w.start(len(w.disks) - 1)
	}
	if err := w.l.awaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

// start starts the i-th node on its disk.
func (w *crashWorld) start(i int) {
	w.t.Helper()
	w.pipes[i] = newPipeListener()
	n, err := w.l.virtualNode(i, w.disks[i], w.pipes[i], slog.New(slog.DiscardHandler))
	if err != nil {
		w.t.Fatal(err)
	}
	w.l.nodes[i] = n
}

// crash kills the i-th node. Of its disk there is left what was synced.
func (w *crashWorld) crash(i int) {
	n := w.l.nodes[i]
	w.l.net.Crash(n.ID())
	w.pipes[i].Listener.Sever()
	pipes.Delete(w.pipes[i].Addr().String())
	w.disks[i] = w.disks[i].CrashClone(vfs.CrashCloneCfg{})
	if err := n.Kill(); err != nil {
		w.t.Log(err)
	}
}

// restart starts the i-th node again, and waits until it serves.
func (w *crashWorld) restart(i int) {
	w.t.Helper()
	w.start(i)
	select {
	case <-w.l.nodes[i].Ready():
	case <-time.After(time.Minute):
		w.t.Fatal("the node does not serve again")
	}
}

// watched is what others see of a file that is loaded: after how many rows a part ends.
type watched struct {
	ends []int
	stop chan struct{}
	done chan struct{}
}

// watch looks at a table, which is the file's first lines at any time.
func watch(t *testing.T, c *sql.Conn, table string) *watched {
	w := &watched{ends: []int{0}, stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(w.done)
		for {
			var n, sum, entries int
			if err := c.QueryRowContext(context.Background(), "SELECT COUNT(*), COALESCE(SUM(id), 0), (SELECT COUNT(*) FROM "+table+
				" FORCE INDEX (k) WHERE k >= 0) FROM "+table).Scan(&n, &sum, &entries); err == nil {
				if sum != n*(n+1)/2 || entries != n || n < w.ends[len(w.ends)-1] {
					t.Errorf("%d rows are seen, and %d entries, whose numbers come to %d, after %v rows", n, entries, sum, w.ends)
				}
				if n != w.ends[len(w.ends)-1] {
					w.ends = append(w.ends, n)
				}
			}
			select {
			case <-time.After(2 * time.Millisecond):
			case <-w.stop:
				return
			}
		}
	}()
	return w
}

func (w *watched) end() []int {
	close(w.stop)
	<-w.done
	return w.ends
}

// loadFile loads the file, or what of it is behind some lines.
func loadFile(c *sql.Conn, table, how string, skip int) error {
	mysql.RegisterReaderHandler(table, func() io.Reader { return &slowFile{} })
	defer mysql.DeregisterReaderHandler(table)
	_, err := c.ExecContext(context.Background(), fmt.Sprintf("LOAD DATA LOCAL INFILE 'Reader::%s' %s INTO TABLE d.%s IGNORE %d LINES", table, how, table, skip))
	return err
}

// TestLoadSurvives: whatever happens while a file is loaded in parts, whole parts are in the table
// afterwards, in the order of the file, and none twice. What the error says, or else the number of
// rows in the table, is how to load the rest. So is the whole file once more, where there is a key.
// Times are virtual.
func TestLoadSurvives(t *testing.T) {
	for _, x := range []struct {
		name         string
		elsewhere    bool // the table is at home in the second region
		dies         bool // the client's node
		ends         bool // the load must end well
		strike, mend func(w *crashWorld)
	}{
		{name: "kill -9 of the gateway", dies: true, strike: func(w *crashWorld) { w.crash(0) }, mend: func(w *crashWorld) { w.restart(0) }},
		{name: "kill -9 of the gateway, rows elsewhere", elsewhere: true, dies: true,
			strike: func(w *crashWorld) { w.crash(0) }, mend: func(w *crashWorld) { w.restart(0) }},
		{name: "kill -9 of the owner", elsewhere: true,
			strike: func(w *crashWorld) { w.crash(1) }, mend: func(w *crashWorld) { w.restart(1) }},
		{name: "kill -9 of all", dies: true, strike: func(w *crashWorld) {
			for i := range 3 {
				w.crash(i)
			}
		}, mend: func(w *crashWorld) {
			for i := range 3 {
				w.start(i)
			}
			if err := w.l.awaitReady(w.t.Context()); err != nil {
				w.t.Fatal(err)
			}
		}},
		{name: "KILL QUERY", strike: func(w *crashWorld) {
			c := openSQL(w.t, w.l.Nodes()[0], "")
			defer c.Close()
			for _, id := range column(w.t, c, "SELECT id FROM information_schema.processlist WHERE info LIKE 'LOAD%'") {
				mustExec(w.t, c, "KILL QUERY "+id)
			}
		}},
		{name: "the rows move", ends: true, strike: func(w *crashWorld) {
			c := openSQL(w.t, w.l.Nodes()[2], "d")
			defer c.Close()
			for range 3 { // a conflict with the part under way
				if _, err := c.ExecContext(w.t.Context(), "UPDATE "+currentTable(w.t, c)+"__homes SET home_region = '"+w.l.Regions()[1]+
					"' WHERE id % 20 = 0"); err == nil {
					return
				} else {
					w.t.Log(err)
				}
			}
			w.t.Error("the rows do not move")
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newCrashWorld(t)
				root := openSQL(t, w.l.Nodes()[0], "")
				mustExec(t, root, "CREATE DATABASE d")
				mustExec(t, root, "SET GLOBAL local_infile = 1")
				locality := ""
				if x.elsewhere {
					locality = "LOCALITY REGIONAL BY TABLE IN '" + w.l.Regions()[1] + "'"
				}
				table := func(i int) string {
					name := fmt.Sprintf("t%d", i)
					mustExec(t, root, "CREATE TABLE d."+name+" (id INT PRIMARY KEY, k INT, KEY (k)) "+locality)
					return name
				}
				// Without a fault.
				name := table(0)
				time.Sleep(5 * time.Second)
				look := watch(t, openSQL(t, w.l.Nodes()[2], "d"), name)
				began := time.Now()
				if err := loadFile(root, name, "", 0); err != nil {
					t.Fatal(err)
				}
				takes := time.Since(began)
				time.Sleep(time.Second)
				for _, n := range look.end() {
					if !endsPart(n) {
						t.Fatalf("a part ends behind %d rows", n)
					}
				}
				const steps = 3
				for i := range steps {
					name := table(i + 1)
					time.Sleep(5 * time.Second)
					c := openSQL(t, w.l.Nodes()[0], "d")
					ended := make(chan error, 1)
					go func() { ended <- loadFile(c, name, "", 0) }()
					time.Sleep(takes*time.Duration(2*i+1)/(2*steps) + time.Duration(i)*time.Millisecond)
					x.strike(w)
					err := <-ended
					c.Close()
					if x.mend != nil {
						time.Sleep(10 * time.Second)
						x.mend(w)
					}
					time.Sleep(10 * time.Second)
					root = openSQL(t, w.l.Nodes()[0], "")
					n := checkPrefix(t, root, name)
					t.Logf("after step %d: %v, %d rows", i, err, n)
					if !endsPart(n) {
						t.Errorf("%d rows are in the table, behind which no part ends", n)
					}
					if x.ends && err != nil || err == nil && n != fileRows {
						t.Errorf("%v, and %d rows", err, n)
					}
					goOn(t, root, name, i, n, err, x.dies)
				}
			})
		})
	}
}

// currentTable is the newest table.
func currentTable(t *testing.T, c *sql.Conn) string {
	return column(t, c, "SELECT MAX(table_name) FROM information_schema.tables WHERE table_schema = 'd'")[0]
}

// checkPrefix checks that a table has the first lines of the file, and says how many.
func checkPrefix(t *testing.T, c *sql.Conn, name string) (n int) {
	t.Helper()
	var sum, most, entries int
	if err := c.QueryRowContext(t.Context(), "SELECT COUNT(*), COALESCE(SUM(id), 0), COALESCE(MAX(id), 0), (SELECT COUNT(*) FROM d."+name+
		" FORCE INDEX (k) WHERE k >= 0) FROM d."+name).Scan(&n, &sum, &most, &entries); err != nil {
		t.Fatal(err)
	}
	if sum != n*(n+1)/2 || most != n || entries != n {
		t.Errorf("%d rows and %d entries, whose numbers come to %d, the last one is %d", n, entries, sum, most)
	}
	if got := column(t, c, "CHECK TABLE d."+name); len(got) != 1 {
		t.Errorf("CHECK TABLE: %q", got)
	}
	return n
}

var saysRest = regexp.MustCompile(`; (\d+) records, in (\d+) transactions, are committed: load the rest with IGNORE (\d+) LINES$`)

// goOn loads the rest as docs/sql.md says.
func goOn(t *testing.T, c *sql.Conn, name string, i, n int, err error, dies bool) {
	t.Helper()
	var me *mysql.MySQLError
	if told := errors.As(err, &me); told && n > 0 {
		m := saysRest.FindStringSubmatch(me.Message)
		if (m == nil || m[1] != fmt.Sprint(n) || m[3] != m[1]) && !strings.Contains(me.Message, "outcome of the commit is unknown") {
			t.Errorf("%d rows are in the table, and the error is %v", n, err)
		}
	} else if err != nil && !told && !dies {
		t.Errorf("the client is told %v", err)
	}
	how, skip := "", n
	switch i % 3 {
	case 1:
		how, skip = "IGNORE", 0
	case 2:
		how, skip = "REPLACE", 0
	}
	if err := loadFile(c, name, how, skip); err != nil {
		t.Fatal(err)
	}
	if n := checkPrefix(t, c, name); n != fileRows {
		t.Errorf("%d rows in the end", n)
	}
}
