package sqltest

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/datadriven"
	"github.com/go-sql-driver/mysql"
)

// tap keeps what a server sends, so that stories can show the answers to packets of several
// statements to the byte: drivers hide most of them.
type tap struct {
	net.Conn
	mu  sync.Mutex
	got []byte
}

// Read implements net.Conn.
func (t *tap) Read(b []byte) (int, error) {
	n, err := t.Conn.Read(b)
	t.mu.Lock()
	t.got = append(t.got, b[:n]...)
	t.mu.Unlock()
	return n, err
}

// Write implements net.Conn: what a server sends is kept from the client's last command on.
func (t *tap) Write(b []byte) (int, error) {
	t.mu.Lock()
	t.got = nil
	t.mu.Unlock()
	return t.Conn.Write(b)
}

// taps are those of the connections of one database handle, the newest last.
var taps sync.Map // *sql.DB -> *tap

// tapped opens a database whose connections take several statements in a text.
func tapped(t *testing.T, cfg *mysql.Config, dial func(ctx context.Context, network, addr string) (net.Conn, error)) *sql.DB {
	cfg.MultiStatements = true
	var db *sql.DB
	cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		x := &tap{Conn: c}
		taps.Store(db, x)
		return x, nil
	}
	con, err := mysql.NewConnector(cfg)
	if err != nil {
		t.Fatal(err)
	}
	db = sql.OpenDB(con)
	t.Cleanup(func() { taps.Delete(db) })
	return db
}

// packet sends all lines of the input as one text, and shows each result of it as the server sent
// it: affected rows, status, warnings, columns, rows, errors.
func (s *story) packet(c *client, f flags, text string) string {
	if c.err != nil {
		return errorText(c.err, f)
	}
	c.j.reset()
	_, err := c.conn.ExecContext(context.Background(), text)
	v, _ := taps.Load(c.db)
	x := v.(*tap)
	x.mu.Lock()
	got := x.got
	x.mu.Unlock()
	out := answers(got)
	if f.rows {
		for i, l := range out {
			if strings.HasPrefix(l, "ok: ") || strings.HasPrefix(l, "  end: ") {
				out[i], _, _ = strings.Cut(l, ":")
			}
		}
	}
	if len(out) == 0 {
		return fmt.Sprintf("nothing was answered: %v", err)
	}
	return strings.Join(out, "\n") + c.notes(f)
}

// took says how the transactions of the last statement or packet went.
func (s *story) took(d *datadriven.TestData) string {
	if s.w.another != nil || s.w.ordinary {
		return d.Expected
	}
	s.w.j.mu.Lock()
	defer s.w.j.mu.Unlock()
	var out []string
	for _, l := range s.w.j.lines {
		if strings.Contains(l, "program") {
			out = append(out, l)
		}
	}
	if out == nil {
		return "the ordinary way"
	}
	return strings.Join(out, "\n")
}

// TestOneShotAlike: transactions that are sent at once are answered as they are without programs,
// to the byte.
func TestOneShotAlike(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &story{t: t}
		defer s.end()
		s.world().ordinary = true
		datadriven.RunTest(t, "testdata/plain/one_shot", func(t *testing.T, d *datadriven.TestData) string {
			s.t = t
			return s.step(d)
		})
	})
}

// wireReader reads the parts of packets.
type wireReader struct{ b []byte }

func (r *wireReader) skip(n int) []byte {
	n = min(n, len(r.b))
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *wireReader) int() (n uint64, null bool) {
	switch h := r.skip(1); {
	case len(h) == 0 || h[0] == 0xfb:
		return 0, true
	case h[0] == 0xfc:
		return uint64(binary.LittleEndian.Uint16(r.skip(2))), false
	case h[0] == 0xfd:
		b := r.skip(3)
		return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16, false
	case h[0] == 0xfe:
		return binary.LittleEndian.Uint64(r.skip(8)), false
	default:
		return uint64(h[0]), false
	}
}

func (r *wireReader) text() string {
	n, null := r.int()
	if null {
		return "NULL"
	}
	return string(r.skip(int(n)))
}

// status says what of a status a story shows: whether a transaction is open, and more results
// follow.
func status(b []byte) string {
	s := binary.LittleEndian.Uint16(b)
	out := "autocommit"
	if s&2 == 0 {
		out = "no autocommit"
	}
	if s&1 != 0 {
		out += ", in transaction"
	}
	if s&8 != 0 {
		out += ", more"
	}
	return out
}

// answers reads the results that a server has sent.
func answers(b []byte) (out []string) {
	var packets [][]byte
	for len(b) >= 4 {
		n := int(b[0]) | int(b[1])<<8 | int(b[2])<<16
		if len(b) < 4+n {
			break
		}
		packets, b = append(packets, b[4:4+n]), b[4+n:]
	}
	next := func() []byte {
		if len(packets) == 0 {
			return nil
		}
		p := packets[0]
		packets = packets[1:]
		return p
	}
	isEOF := func(p []byte) bool { return len(p) > 0 && len(p) < 9 && p[0] == 0xfe }
	for p := next(); len(p) > 0; p = next() {
		r := &wireReader{p[1:]}
		switch p[0] {
		case 0:
			affected, _ := r.int()
			id, _ := r.int()
			st := status(r.skip(2))
			line := fmt.Sprintf("ok: %d affected, id %d, %d warnings; %s", affected, id, binary.LittleEndian.Uint16(r.skip(2)), st)
			if info := strings.TrimSpace(string(bytes.TrimLeft(r.b, "\x00"))); info != "" {
				if i := strings.Index(info, "Rows matched"); i >= 0 {
					line += "; " + info[i:]
				}
			}
			out = append(out, line)
		case 0xff:
			out = append(out, fmt.Sprintf("error %d (%s)", binary.LittleEndian.Uint16(r.skip(2)), string(r.skip(6)[1:])))
		default:
			var names []string
			for range p[0] {
				c := &wireReader{next()}
				c.text()
				c.text()
				table := c.text()
				c.text()
				name := c.text()
				c.text()
				c.skip(7)
				names = append(names, fmt.Sprintf("%s.%s type %d", table, name, c.skip(1)[0]))
			}
			out = append(out, "columns: "+strings.Join(names, "; "))
			end := next()
			if isEOF(end) && len(end) == 5 && len(packets) > 0 {
				end = next() // that was the end of the columns
			}
			for ; len(end) > 0 && !isEOF(end); end = next() {
				row := &wireReader{end}
				var vals []string
				for range names {
					vals = append(vals, valueText([]byte(row.text())))
				}
				out = append(out, "  "+strings.Join(vals, "|"))
			}
			if isEOF(end) {
				warnings, st := end[1:], end[min(3, len(end)-2):]
				if len(end) > 5 { // in the form of an OK packet
					st, warnings = end[3:], end[5:]
				}
				out = append(out, fmt.Sprintf("  end: %d warnings; %s", binary.LittleEndian.Uint16(warnings), status(st)))
			}
		}
	}
	return out
}
