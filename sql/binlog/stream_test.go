package binlog_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/memkv"
	"github.com/godwitdb/godwit/sql/binlog"
	"github.com/godwitdb/godwit/sql/feed"
	"github.com/godwitdb/godwit/sql/server"
)

// world is a gateway over rows in memory.
type world struct {
	t    testing.TB
	db   kv.DB
	addr *net.TCPAddr
	root *mysql.Conn
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, db: memkv.New(4, "eu", "us")}
	s, err := server.New(server.Config{DB: w.db, Listen: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve()
	t.Cleanup(func() { s.Close() })
	if w.addr, err = net.ResolveTCPAddr("tcp", fmt.Sprint(s.Addr())); err != nil {
		t.Fatal(err)
	}
	w.root = w.login("root", "")
	return w
}

// login opens a connection with the protocol library's own client.
func (w *world) login(user, password string) *mysql.Conn {
	w.t.Helper()
	c, err := mysql.Connect(w.t.Context(), &mysql.ConnParams{Host: "127.0.0.1", Port: w.addr.Port, Uname: user, Pass: password})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(c.Close)
	return c
}

func exec(t testing.TB, c *mysql.Conn, qs ...string) [][]string {
	t.Helper()
	var out [][]string
	for _, q := range qs {
		r, err := c.ExecuteFetch(q, 1000, true)
		if err != nil {
			t.Fatalf("%.200s: %v", q, err)
		}
		out = nil
		for _, row := range r.Rows {
			var line []string
			for _, v := range row {
				line = append(line, v.ToString())
			}
			out = append(out, line)
		}
	}
	return out
}

// event is one that a client has got.
type event struct {
	raw        []byte
	file       string
	start, end uint64
}

func (e *event) kind() byte { return e.raw[4] }

const (
	isQuery    = 2
	isRotate   = 4
	isFormat   = 15
	isGTID     = 162
	isMySQL    = 33
	artificial = 0x20
)

// received reads events until one of them is the last.
func received(ctx context.Context, c *mysql.Conn, last func(*event) bool) (out []*event, err error) {
	file, pos := "", uint64(0)
	for {
		b, err := c.ReadPacket(ctx)
		switch {
		case err != nil:
			return out, err
		case b[0] == 0xff:
			return out, mysql.ParseErrorPacket(b)
		case b[0] == 0xfe:
			return out, nil
		}
		e := &event{raw: bytes.Clone(b[1:])}
		if e.kind() == isRotate {
			file, pos = string(e.raw[19+8:len(e.raw)-4]), binary.LittleEndian.Uint64(e.raw[19:])
		}
		e.file, e.start = file, pos
		if next := binary.LittleEndian.Uint32(e.raw[13:]); next != 0 && binary.LittleEndian.Uint16(e.raw[17:])&artificial == 0 {
			if pos += uint64(len(e.raw)); uint64(next) != pos {
				return out, fmt.Errorf("an event of type %d says that it ends at %d, not at %d", e.kind(), next, pos)
			}
		}
		e.end = pos
		if out = append(out, e); last != nil && last(e) {
			return out, nil
		}
	}
}

// follower begins as a replica of MariaDB does.
func (w *world) follower(user, password string) *mysql.Conn {
	c := w.login(user, password)
	exec(w.t, c, "SET @master_heartbeat_period = 10000000000", "SET @master_binlog_checksum = 'CRC32'", "SET @mariadb_slave_capability = 4")
	return c
}

// from asks for what there is behind a position in a file.
func (w *world) from(file string, pos uint64) ([]*event, error) {
	w.t.Helper()
	c := w.follower("root", "")
	defer c.Close()
	if err := c.WriteComBinlogDump(9, file, uint32(pos), 1); err != nil {
		w.t.Fatal(err)
	}
	return received(w.t.Context(), c, nil)
}

func code(err error) int {
	var e *mysql.SQLError
	if errors.As(err, &e) {
		return e.Num
	}
	return 0
}

// TestPositionsInFiles: a client goes on at the beginning of any event that it has seen: the rest
// of that file is the same, byte for byte. What is not the beginning of an event is refused.
func TestPositionsInFiles(t *testing.T) {
	binlog.Little(t)
	w := newWorld(t)
	exec(t, w.root, "CREATE DATABASE d", "CREATE TABLE d.a (id INT PRIMARY KEY, v LONGTEXT, u INT UNIQUE)", "CREATE TABLE d.b (id INT PRIMARY KEY, v INT)")
	at := exec(t, w.root, "SHOW MASTER STATUS")[0]
	c := w.follower("root", "")
	if err := c.WriteComBinlogDump(8, at[0], 4, 0); err != nil {
		t.Fatal(err)
	}
	var all []*event
	done := make(chan error, 1)
	go func() {
		var err error
		all, err = received(t.Context(), c, func(e *event) bool { return e.kind() == isQuery && bytes.Contains(e.raw, []byte("ended")) })
		done <- err
	}()
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 60 {
		k := rng.IntN(20)
		switch rng.IntN(6) {
		case 0:
			exec(t, w.root, fmt.Sprintf("REPLACE INTO d.a VALUES (%d, REPEAT('x', %d), %d)", k, rng.IntN(3000), k))
		case 1:
			exec(t, w.root, fmt.Sprintf("UPDATE d.a SET u = u + 100 WHERE id > %d ORDER BY u DESC", k))
		case 2:
			exec(t, w.root, "BEGIN", fmt.Sprintf("REPLACE INTO d.b (id, v) SELECT id, %d FROM d.a", i), fmt.Sprintf("DELETE FROM d.a WHERE id < %d", k/2), "COMMIT")
		case 3:
			exec(t, w.root, fmt.Sprintf("ALTER TABLE d.b ADD COLUMN c%d INT DEFAULT %d", i, i))
		case 4:
			exec(t, w.root, fmt.Sprintf("CREATE TABLE d.t%d AS SELECT * FROM d.a", i))
		case 5:
			exec(t, w.root, fmt.Sprintf("REPLACE INTO d.b (id, v) VALUES (%d, 1), (%d, 2)", k, k+1))
		}
	}
	var large []string // more than a feed has in one part
	for i := range 400 {
		large = append(large, fmt.Sprintf("(%d, REPEAT('y', 15000), %d)", 1000+i, 1000+i))
	}
	exec(t, w.root, "INSERT INTO d.a VALUES "+strings.Join(large, ", "), "CREATE DATABASE ended")
	if err := <-done; err != nil {
		t.Fatal(err)
	}

	files := map[string][]*event{}
	var borders []*event
	for _, e := range all {
		if e.kind() != isRotate && e.end > e.start {
			files[e.file] = append(files[e.file], e)
			borders = append(borders, e)
		}
	}
	t.Logf("%d files, %d events", len(files), len(borders))
	rng.Shuffle(len(borders), func(i, j int) { borders[i], borders[j] = borders[j], borders[i] })
	for _, e := range borders[:30] {
		rest := files[e.file]
		rest = rest[slices.Index(rest, e)+1:]
		got, err := w.from(e.file, e.end)
		if err != nil {
			t.Fatalf("%s, %d: %v", e.file, e.end, err)
		}
		if len(got) < 2 || got[0].kind() != isRotate || got[0].start != 0 && got[0].start != e.end || got[1].kind() != isFormat {
			t.Fatalf("%s, %d: the stream does not begin with a rotation to it and a format", e.file, e.end)
		}
		got = got[2:]
		if len(got) < len(rest) {
			t.Fatalf("%s, %d: %d events follow, want %d", e.file, e.end, len(got), len(rest))
		}
		for i := range rest {
			if !bytes.Equal(got[i].raw, rest[i].raw) || got[i].end != rest[i].end {
				t.Fatalf("%s, %d: event %d is another one", e.file, e.end, i)
			}
		}
	}
	e := borders[0]
	for _, pos := range []uint64{5, e.start + 1, e.end - 1, 1 << 31} {
		if _, err := w.from(e.file, pos); code(err) != 1236 {
			t.Errorf("%s, %d: %v", e.file, pos, err)
		}
	}
}

// gtid is that of an event.
func gtid(e *event) (ts base.Timestamp, ok bool) {
	switch e.kind() {
	case isGTID:
		return base.Timestamp(binary.LittleEndian.Uint64(e.raw[19:])), true
	case isMySQL:
		return base.Timestamp(binary.LittleEndian.Uint64(e.raw[19+17:])), true
	}
	return 0, false
}

// TestStill: clients get new positions while nothing happens.
func TestStill(t *testing.T) {
	binlog.Restless(t)
	w := newWorld(t)
	id := binlog.IdentityOf(w.db.Topology().ClusterID)
	now := w.db.Clock()

	c := w.follower("root", "")
	if err := c.WriteComBinlogDump(8, binlog.File(now), 4, 0); err != nil {
		t.Fatal(err)
	}
	n := 0
	all, err := received(t.Context(), c, func(e *event) bool {
		if e.kind() == isRotate {
			n++
		}
		return n == 3
	})
	if err != nil {
		t.Fatal(err)
	}
	if last := all[len(all)-1].file; last <= binlog.File(now) {
		t.Errorf("the newest file is %s", last)
	}

	c = w.login("root", "")
	exec(t, c, "SET @source_binlog_checksum = 'CRC32'")
	block := binary.LittleEndian.AppendUint64(nil, 1)
	block = append(block, id.SID[:]...)
	for _, v := range []uint64{1, 1, uint64(now) + 1} {
		block = binary.LittleEndian.AppendUint64(block, v)
	}
	if err := c.WriteComBinlogDumpGTID(8, "", 4, 4, block); err != nil {
		t.Fatal(err)
	}
	all, err = received(t.Context(), c, func(e *event) bool { _, ok := gtid(e); return ok })
	if err != nil {
		t.Fatal(err)
	}
	if ts, _ := gtid(all[len(all)-1]); ts <= now {
		t.Errorf("the newest GTID is %d", ts)
	}
	// A file's name among GTIDs is no position.
	if _, err := w.from(all[len(all)-1].file, 4); code(err) != 1236 {
		t.Errorf("a file of GTIDs: %v", err)
	}
}

// TestCommitted: a transaction's timestamp is told from any other moment.
func TestCommitted(t *testing.T) {
	w := newWorld(t)
	file := exec(t, w.root, "CREATE DATABASE d", "CREATE TABLE d.a (id INT PRIMARY KEY)", "SHOW MASTER STATUS")[0][0]
	exec(t, w.root, "INSERT INTO d.a VALUES (1)")
	all, err := w.from(file, 4)
	if err != nil {
		t.Fatal(err)
	}
	var at base.Timestamp
	for _, e := range all {
		if ts, ok := gtid(e); ok {
			at = ts
		}
	}
	v := &binlog.Env{Feed: feed.Env{DB: w.db}}
	for p, want := range map[base.Timestamp]bool{at: true, at - 1: false, at + 1: false} {
		if got, err := v.Committed(t.Context(), p); got != want || err != nil {
			t.Errorf("%d behind the commit: %v, %v", p-at, got, err)
		}
	}
}

// TestRights: who follows needs REPLICATION SLAVE, who asks where the log is REPLICATION CLIENT.
func TestRights(t *testing.T) {
	w := newWorld(t)
	exec(t, w.root, "CREATE USER 'none'@'%' IDENTIFIED BY 'p'", "CREATE USER 'slave'@'%' IDENTIFIED BY 'p'", "CREATE USER 'client'@'%' IDENTIFIED BY 'p'",
		"GRANT REPLICATION SLAVE ON *.* TO 'slave'@'%'", "GRANT REPLICATION CLIENT ON *.* TO 'client'@'%'")
	file := exec(t, w.root, "SHOW MASTER STATUS")[0][0]
	for _, c := range []struct {
		user             string
		follows, asks    bool
		listsTheReplicas bool
	}{{"none", false, false, false}, {"slave", true, false, true}, {"client", false, true, false}} {
		conn := w.login(c.user, "p")
		for q, may := range map[string]bool{"SHOW MASTER STATUS": c.asks, "SHOW BINARY LOGS": c.asks, "SHOW REPLICAS": c.listsTheReplicas} {
			if _, err := conn.ExecuteFetch(q, 10, true); (err == nil) != may || err != nil && code(err) != 1227 {
				t.Errorf("%s: %s: %v", c.user, q, err)
			}
		}
		for _, byGTID := range []bool{false, true} {
			conn = w.follower(c.user, "p")
			var err error
			if byGTID {
				err = conn.WriteComBinlogDumpGTID(9, "", 4, 1, nil)
			} else {
				err = conn.WriteComBinlogDump(9, file, 4, 1)
			}
			if err != nil {
				t.Fatal(err)
			}
			_, err = received(t.Context(), conn, nil)
			switch {
			case !c.follows && code(err) != 1227:
				t.Errorf("%s follows: %v", c.user, err)
			case c.follows && byGTID && code(err) != 1236: // it has no position
				t.Errorf("%s follows from nowhere: %v", c.user, err)
			case c.follows && !byGTID && err != nil:
				t.Errorf("%s may not follow: %v", c.user, err)
			}
		}
		conn = w.follower(c.user, "p")
		raw(t, conn, "\x15\x09\x00\x00\x00\x04host\x00\x00\xea\x0c\x00\x00\x00\x00\x00\x00\x00\x00")
		b := make([]byte, 100)
		n, err := conn.Conn.Read(b)
		if err != nil || n < 5 || (b[4] == 0) != c.follows {
			t.Errorf("%s registers: %x, %v", c.user, b[:n], err)
		}
		if c.follows {
			rows := exec(t, w.root, "SHOW REPLICAS")
			if len(rows) != 1 || rows[0][0] != "9" || rows[0][1] != "host" || rows[0][2] != strconv.Itoa(0xcea) {
				t.Errorf("replicas: %v", rows)
			}
		}
		conn.Close()
	}
}

// raw sends a packet that begins a command.
func raw(t testing.TB, c *mysql.Conn, body string) {
	t.Helper()
	if _, err := c.Conn.Write(append([]byte{byte(len(body)), byte(len(body) >> 8), 0, 0}, body...)); err != nil {
		t.Fatal(err)
	}
}

// TestShortPackets: packets of replicas that end too early, or say that they are longer than they
// are, end their connection at most. The protocol library reads those of a client that has not
// announced itself, and looks at no bound.
func TestShortPackets(t *testing.T) {
	w := newWorld(t)
	whole := []string{
		"\x1e\x04\x00\x09\x00\x00\x00\x03\x00\x00\x00abc\x04\x00\x00\x00\x00\x00\x00\x00\x08\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00",
		"\x1e\x04\x00\x09\x00\x00\x00\xff\xff\xff\xffabc\x04\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff",
		"\x15\x09\x00\x00\x00\xffhost\xff\x00\xea\x0c\x00\x00\x00\x00\x00\x00\x00\x00",
		"\x15\x09\x00\x00\x00\x01h\x01u\x01p\xea\x0c\x00\x00\x00\x00\x00\x00\x00\x00",
		"\x12\x04\x00\x00\x00\x00\x00\x09\x00\x00\x00x",
	}
	for _, announced := range []bool{false, true} {
		for _, p := range whole {
			for n := 1; n <= len(p); n += 3 {
				c := w.login("root", "")
				if announced {
					exec(t, c, "SET @master_binlog_checksum = 'CRC32'")
				}
				raw(t, c, p[:n])
				_ = c.Conn.SetReadDeadline(time.Now().Add(time.Minute))
				if _, err := c.Conn.Read(make([]byte, 100)); err != nil && !errors.Is(err, io.EOF) && !strings.Contains(err.Error(), "reset") {
					t.Fatalf("%q is not answered: %v", p[:n], err)
				}
				c.Close()
			}
		}
	}
	if rows := exec(t, w.root, "SELECT 1"); rows[0][0] != "1" {
		t.Errorf("the server answers %v", rows)
	}
}
