package binlog

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/sqltypes"
	querypb "github.com/dolthub/vitess/go/vt/proto/query"
)

// Session is the session of a client, as package server has it.
type Session struct {
	// Query executes a statement. The results are whole.
	Query func(query string) (*sqltypes.Result, error)
	// Variable is a user variable; "" if it is not set.
	Variable func(name string) (value string, set bool)
	// MayFollow reports whether the client has the privilege REPLICATION SLAVE.
	MayFollow func() bool
	// Context is that of the session.
	Context *sql.Context
	// Tool: it is MariaDB's mysqlbinlog.
	Tool bool
	// NoEOF: the client has CLIENT_DEPRECATE_EOF.
	NoEOF bool
	// Follow is called when the client begins to follow, and ended when it ends; ok is false if it
	// may not, as the server ends.
	Follow func() (ended func(), ok bool)
}

const (
	mostPacket  = 1 << 24 // of a packet of the protocol; a longer one is sent in pieces
	mostCommand = 1 << 20 // that a replica may send
	idleFor     = 60 * time.Second
	writeFor    = time.Hour // a client that takes nothing for so long is given up
)

var (
	errQuit    = errors.New("the client has ended the connection")
	errClosing = mysql.NewSQLError(1053, "08S01", "Server shutdown in progress: another node goes on from the same position")
	errDenied  = mysql.NewSQLError(1227, "42000",
		"Access denied; you need (at least one of) the REPLICATION SLAVE privilege(s) for this operation")
)

// Conn is the connection of a replica.
type Conn struct {
	env  *Env
	s    *Session
	c    net.Conn
	r    *bufio.Reader
	w    *bufio.Writer
	seq  byte
	list *Replicas
	id   uint32 // of the connection
}

// Serve answers a client until it ends, or an error has ended the connection: query is the
// statement that it announced itself by; "": it has registered, as replica says.
func (v *Env) Serve(ctx context.Context, c net.Conn, s *Session, list *Replicas, id uint32, query string, replica Replica) error {
	x := &Conn{env: v, s: s, c: c, seq: 1, r: bufio.NewReaderSize(c, 4096), w: bufio.NewWriterSize(c, 64<<10), list: list, id: id}
	defer list.remove(id)
	var err error
	if query != "" {
		err = x.query(query)
	} else {
		err = x.register(replica)
	}
	for err == nil {
		if err = x.w.Flush(); err == nil {
			err = x.command(ctx)
		}
	}
	_ = x.w.Flush()
	return err
}

// command answers one.
func (x *Conn) command(ctx context.Context) error {
	_ = x.c.SetReadDeadline(time.Now().Add(idleFor))
	b, err := x.read()
	_ = x.c.SetReadDeadline(time.Time{})
	if err != nil {
		return err
	}
	switch b[0] {
	case comQuit:
		return errQuit
	case comPing, comInitDB:
		return x.ok(nil)
	case comQuery:
		return x.query(string(b[1:]))
	case comRegister:
		r, ok := parseRegister(b[1:])
		if !ok {
			return x.fail(fatal("COM_REGISTER_SLAVE is malformed"))
		}
		return x.register(r)
	case comBinlogDump, comBinlogDumpGTID:
		parse := parseDump
		if b[0] == comBinlogDumpGTID {
			parse = parseDumpGTID
		}
		r, ok := parse(b[1:])
		if !ok {
			return x.fail(fatal("the request for a binary log is malformed"))
		}
		return x.dump(ctx, r)
	}
	return x.fail(mysql.NewSQLError(mysql.ERUnknownComError, mysql.SSUnknownComError, "a replica's connection has no command %d", b[0]))
}

func (x *Conn) register(r Replica) error {
	if !x.s.MayFollow() {
		return x.fail(errDenied)
	}
	r.UUID, _ = x.s.Variable("slave_uuid")
	r.Since = time.Now()
	x.list.add(x.id, r)
	return x.ok(nil)
}

// read reads a command.
func (x *Conn) read() (b []byte, err error) {
	var head [4]byte
	for {
		if _, err := io.ReadFull(x.r, head[:]); err != nil {
			return nil, err
		}
		n := int(head[0]) | int(head[1])<<8 | int(head[2])<<16
		if len(b)+n > mostCommand {
			return nil, errors.New("a replica has sent a command that is too long")
		}
		at := len(b)
		b = append(b, make([]byte, n)...)
		if _, err := io.ReadFull(x.r, b[at:]); err != nil {
			return nil, err
		}
		x.seq = head[3] + 1
		if n < mostPacket-1 {
			break
		}
	}
	if len(b) == 0 {
		return nil, errors.New("a replica has sent an empty command")
	}
	return b, nil
}

// packet sends a packet, of several parts.
func (x *Conn) packet(parts ...[]byte) error {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	room := 0 // of the piece that is sent
	for {
		if room == 0 {
			room = min(n, mostPacket-1)
			head := []byte{byte(room), byte(room >> 8), byte(room >> 16), x.seq}
			x.seq++
			if _, err := x.w.Write(head); err != nil {
				return err
			}
			if n < mostPacket-1 {
				for _, p := range parts {
					if _, err := x.w.Write(p); err != nil {
						return err
					}
				}
				return nil
			}
		}
		for len(parts) > 0 && room > 0 {
			k := min(room, len(parts[0]))
			if _, err := x.w.Write(parts[0][:k]); err != nil {
				return err
			}
			room, n, parts[0] = room-k, n-k, parts[0][k:]
			if len(parts[0]) == 0 {
				parts = parts[1:]
			}
		}
	}
}

// autocommit is the status of all sessions here.
const autocommit = 2

func (x *Conn) ok(r *sqltypes.Result) error {
	b := []byte{0}
	if r == nil {
		r = &sqltypes.Result{}
	}
	b = lenenc(lenenc(b, r.RowsAffected), r.InsertID)
	return x.packet(append(b, autocommit, 0, 0, 0))
}

// fail sends an error, and goes on.
func (x *Conn) fail(err error) error {
	me, ok := mysql.NewSQLErrorFromError(err).(*mysql.SQLError)
	if !ok {
		me = mysql.NewSQLError(1105, "HY000", "%s", err.Error())
	}
	state := me.State
	if len(state) != 5 {
		state = "HY000"
	}
	b := le.AppendUint16([]byte{0xff}, uint16(me.Num))
	return x.packet(append(append(append(b, '#'), state...), me.Message...))
}

// query answers a statement.
func (x *Conn) query(q string) error {
	if x.s.Tool && strings.EqualFold(strings.TrimRight(q, " ;"), "SELECT VERSION()") {
		q = "SELECT '" + mariaVersion + "' AS `VERSION()`"
	}
	r, err := x.s.Query(q)
	if err != nil {
		return x.fail(err)
	}
	if len(r.Fields) == 0 {
		return x.ok(r)
	}
	if err := x.packet(lenenc(nil, uint64(len(r.Fields)))); err != nil {
		return err
	}
	for _, f := range r.Fields {
		if err := x.packet(definition(f)); err != nil {
			return err
		}
	}
	if !x.s.NoEOF {
		if err := x.packet(eof()); err != nil {
			return err
		}
	}
	for _, row := range r.Rows {
		var b []byte
		for _, v := range row {
			if v.IsNull() {
				b = append(b, 0xfb)
				continue
			}
			raw := v.ToBytes()
			b = append(lenenc(b, uint64(len(raw))), raw...)
		}
		if err := x.packet(b); err != nil {
			return err
		}
	}
	if x.s.NoEOF { // the end is an OK with the header of an EOF
		return x.packet([]byte{0xfe, 0, 0, autocommit, 0, 0, 0})
	}
	return x.packet(eof())
}

func eof() []byte { return []byte{0xfe, 0, 0, autocommit, 0} }

// definition is that of a column of a result.
func definition(f *querypb.Field) []byte {
	var b []byte
	for _, s := range []string{"def", f.Database, f.Table, f.OrgTable, f.Name, f.OrgName} {
		b = append(lenenc(b, uint64(len(s))), s...)
	}
	typ, flags := sqltypes.TypeToMySQL(f.Type)
	b = le.AppendUint16(append(b, 0x0c), uint16(f.Charset))
	b = le.AppendUint32(b, f.ColumnLength)
	b = append(b, byte(typ))
	b = le.AppendUint16(b, uint16(flags))
	return append(b, byte(f.Decimals), 0, 0)
}

// vars are the variables that the client has set.
func (x *Conn) vars() variables {
	out := variables{}
	for _, n := range append([]string{"@slave_until_gtid"}, replicaVariables...) {
		if v, ok := x.s.Variable(n[1:]); ok {
			out[n[1:]] = v
		}
	}
	return out
}

// dump sends a binary log.
func (x *Conn) dump(ctx context.Context, r request) error {
	if !x.s.MayFollow() {
		return x.fail(errDenied)
	}
	ended, ok := x.s.Follow()
	if !ok {
		return x.fail(errClosing)
	}
	defer ended()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	wg.Go(func() { // a client that follows says nothing more but that it goes
		_, err := x.r.ReadByte()
		if err == nil {
			err = fmt.Errorf("a replica has sent a command while it follows")
		}
		cancel(err)
	})
	defer wg.Wait()
	defer func() { _ = x.c.SetReadDeadline(time.Unix(1, 0)) }()
	out := func(b []byte) error {
		_ = x.c.SetWriteDeadline(time.Now().Add(writeFor))
		return x.packet([]byte{0}, b)
	}
	sctx := x.s.Context.WithContext(ctx)
	err := x.env.dump(sctx, r, x.vars(), out, x.w.Flush)
	switch {
	case err == nil: // it asked for what there is
		if err := x.packet(eof()); err != nil {
			return err
		}
		return errQuit
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	x.env.Log.Info("a replica's stream has ended", "server_id", r.server, "err", err)
	if err := x.fail(err); err != nil {
		return err
	}
	return errQuit
}

// Replicas are those that are connected to one gateway.
type Replicas struct {
	mu  sync.Mutex
	all map[uint32]Replica
}

func (l *Replicas) add(id uint32, r Replica) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = map[uint32]Replica{}
	}
	l.all[id] = r
}

func (l *Replicas) remove(id uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.all, id)
}

// List are all, in no order.
func (l *Replicas) List() (out []Replica) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.all {
		out = append(out, r)
	}
	return out
}
