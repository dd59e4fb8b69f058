package follow

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/vt/vttls"
)

const (
	// heartbeat is how often a source that has nothing new says so; silentAfter ends a connection.
	heartbeat   = time.Second / 2
	silentAfter = 15 * time.Second
	// mostBytes bounds what is read ahead of a transaction, in bytes of the log.
	mostBytes = 24 << 20
)

// change is a transaction of the source, or a definition.
type change struct {
	events []*event // table maps and rows
	own    bool     // the target itself has made it: it is not applied again
	define *queryEvent
	end    Position // behind it
	when   time.Time
	bytes  int
}

// TLS says whether a connection is encrypted.
type TLS int

// The ways to connect.
const (
	Plain     TLS = iota
	Encrypted     // whoever the server is
	Verified      // and its certificate is one of its name, by an authority that this machine trusts
)

// Source is a server whose log is followed.
type Source struct {
	Host           string
	Port           int
	User, Password string
	TLS            TLS
}

// stream reads a binary log as a replica does.
type stream struct {
	conn *mysql.Conn
	raw  net.Conn
	at   Position // behind the last event
	open *change  // between BEGIN and COMMIT
	sums bool     // events end with a checksum
	own  uint32   // server whose changes are left out; 0: none
	// source is the number of the source, 0 until it has sent the beginning of a file.
	source uint32
	clock  time.Duration // how far the source's is behind
}

// openStream asks the source for its log from a position on; without a file, from its beginning.
func openStream(ctx context.Context, src *Source, from Position, server uint32) (*stream, error) {
	if from.Off > 1<<32-1 {
		return nil, Unknown{fmt.Errorf("the log %s is longer than 4 GiB, and cannot be read from %d on: copy the source anew", from.File, from.Off)}
	}
	p := &mysql.ConnParams{Host: src.Host, Port: src.Port, Uname: src.User, Pass: src.Password, Charset: "utf8mb4", ConnectTimeoutMs: 10_000}
	switch src.TLS {
	case Verified:
		p.SslMode, p.ServerName = vttls.VerifyIdentity, src.Host
	case Encrypted:
		p.SslMode = vttls.Required
	default:
		p.SslMode = vttls.Disabled
	}
	conn, err := mysql.Connect(ctx, p)
	if err != nil {
		return nil, err
	}
	s := &stream{conn: conn, raw: conn.Conn, at: from}
	if err := s.begin(ctx, server); err != nil {
		conn.Close()
		return nil, err
	}
	return s, nil
}

func (s *stream) begin(ctx context.Context, server uint32) error {
	if err := s.raw.SetDeadline(time.Now().Add(silentAfter)); err != nil {
		return err
	}
	var begin []string
	if strings.Contains(s.conn.ServerVersion, "MariaDB") {
		begin = append(begin, "SET @mariadb_slave_capability = 4") // its events as they are
	}
	for _, q := range append(begin,
		"SET @master_binlog_checksum = @@GLOBAL.binlog_checksum, @source_binlog_checksum = @@GLOBAL.binlog_checksum",
		fmt.Sprintf("SET @master_heartbeat_period = %d, @source_heartbeat_period = %[1]d", heartbeat.Nanoseconds()),
	) {
		if _, err := s.conn.ExecuteFetch(q, 1, false); err != nil {
			return err
		}
	}
	ask := func(_ context.Context, q string, _ ...any) (rows [][]string, err error) {
		res, err := s.conn.ExecuteFetch(q, 1, false)
		if err != nil {
			return nil, err
		}
		for _, r := range res.Rows {
			rows = append(rows, []string{r[0].ToString()})
		}
		return rows, nil
	}
	if err := Check(ctx, ask); err != nil {
		return err
	}
	now, err := ask(ctx, "SELECT UNIX_TIMESTAMP()")
	if err != nil {
		return err
	}
	if seconds, err := strconv.ParseInt(now[0][0], 10, 64); err == nil {
		s.clock = time.Since(time.Unix(seconds, 0)).Truncate(time.Second)
	}
	sum, err := ask(ctx, "SELECT @@GLOBAL.binlog_checksum")
	if err != nil {
		return err
	}
	s.sums = len(sum) == 1 && strings.EqualFold(sum[0][0], "CRC32")
	if err := s.conn.WriteComBinlogDump(server, s.at.File, uint32(s.at.Off), 0); err != nil {
		return err
	}
	return s.raw.SetDeadline(time.Time{})
}

func (s *stream) close() { s.conn.Close() }

// next waits for the next transaction or definition. It returns nil after a heartbeat.
func (s *stream) next(ctx context.Context) (*change, error) {
	for {
		if err := s.raw.SetReadDeadline(time.Now().Add(silentAfter)); err != nil {
			return nil, Lost{err}
		}
		b, err := s.conn.ReadPacket(ctx)
		if err != nil {
			return nil, Lost{err}
		}
		switch {
		case len(b) == 0:
			return nil, Lost{errShort}
		case b[0] == mysql.ErrPacket:
			return nil, Refused{mysql.ParseErrorPacket(b)}
		case b[0] == mysql.EOFPacket && len(b) < 9:
			return nil, Lost{errors.New("the source ended its log")}
		}
		e, err := parseEvent(bytes.Clone(b[1:]), &s.sums)
		if err != nil {
			return nil, Lost{err}
		}
		done, c, err := s.event(e)
		if err != nil {
			return nil, Unknown{fmt.Errorf("event at %s: %w", s.at, err)}
		}
		if done {
			return c, nil
		}
	}
}

// event takes one event. done says that c is whole, or that the source has nothing more.
func (s *stream) event(e *event) (done bool, c *change, err error) {
	if e.next > 0 && e.kind != eventRotate {
		s.at.Off = uint64(e.next)
	}
	switch e.kind {
	case eventRotate:
		if len(e.body) < 8 {
			return false, nil, errShort
		}
		s.at = Position{string(e.body[8:]), binary.LittleEndian.Uint64(e.body)}
	case eventTableMap, eventWriteV1, eventUpdateV1, eventDeleteV1, eventWriteV2, eventUpdateV2, eventDeleteV2:
		if s.open == nil {
			return false, nil, errors.New("rows outside of a transaction")
		}
		s.open.events, s.open.bytes = append(s.open.events, e), s.open.bytes+len(e.body)
		if s.open.bytes > mostBytes {
			return false, nil, fmt.Errorf("a transaction of more than %d MiB: Godwit's hold no more. Run it in pieces at the source, "+
				"or copy the source anew", mostBytes>>20)
		}
	case eventMariaGTID: // begins a transaction, unless it is of a definition
		if len(e.body) < 13 {
			return false, nil, errShort
		}
		if e.body[12]&1 == 0 {
			s.open = s.new(e)
		}
	case eventFormat:
		s.source = e.server
		if s.own != 0 && e.server == s.own {
			return false, nil, errors.New("source and replica have equal MySQL server ids; these ids must be different for replication " +
				"to work: the source is this cluster itself")
		}
	case eventXID:
		return s.end(e)
	case eventQuery:
		return s.query(e)
	case 27, 41: // heartbeats of both kinds
		return s.open == nil, nil, nil
	case eventIncident:
		return false, nil, errors.New("the source says that its log lacks something here: copy the source anew")
	case eventXAPrepare:
		return false, nil, errors.New("an XA transaction, which cannot be followed")
	case eventPartial, eventPayload, eventQueryPacked, eventWritePacked, eventUpdatePack, eventDeletePack:
		return false, nil, errors.New("a packed event: turn the compression of the source's log off, and partial JSON updates, and copy the source anew")
	case eventIntVar, eventRand, eventUserVar, eventLoad, eventLoadQuery:
		return false, nil, errors.New("a change that is logged as a statement: SET GLOBAL binlog_format = 'ROW' at the source, reconnect its " +
			"clients, and copy the source anew")
	}
	return false, nil, nil
}

// new is a transaction that an event begins.
func (s *stream) new(e *event) *change { return &change{own: s.own != 0 && e.server == s.own} }

func (s *stream) end(e *event) (bool, *change, error) {
	c := s.open
	if c == nil {
		return false, nil, errors.New("a COMMIT without a BEGIN")
	}
	s.open = nil
	c.end, c.when = s.at, e.when
	return true, c, nil
}

func (s *stream) query(e *event) (bool, *change, error) {
	q, err := parseQuery(e.body)
	if err != nil {
		return false, nil, err
	}
	words := strings.Fields(strings.ToUpper(First(StripComments(q.text), 200)))
	if len(words) == 0 {
		return false, nil, nil
	}
	switch word := words[0]; {
	case word == "BEGIN", word == "START":
		s.open = s.new(e)
		return false, nil, nil
	case word == "COMMIT":
		return s.end(e)
	case word == "SAVEPOINT", word == "RELEASE":
		return false, nil, nil
	case word == "ROLLBACK":
		return false, nil, errors.New("a transaction that changed tables without transactions, and was rolled back: it cannot be followed")
	case word == "XA":
		return false, nil, errors.New("an XA transaction, which cannot be followed")
	}
	// A table that is made from a SELECT is logged in the transaction that fills it.
	c := s.new(e)
	c.define, c.end, c.when = q, s.at, e.when
	if s.open != nil {
		c.end = Position{}
	}
	return true, c, nil
}

// First is the beginning of a text, of n bytes at most.
func First(s string, n int) string { return s[:min(len(s), n)] }

// StripComments removes comments before the first word, and opens those that servers execute.
func StripComments(s string) string {
	for {
		s = strings.TrimSpace(s)
		switch {
		case strings.HasPrefix(s, "/*!"), strings.HasPrefix(s, "/*M!"):
			s = strings.TrimLeft(strings.TrimPrefix(strings.TrimPrefix(s, "/*!"), "/*M!"), "0123456789")
		case strings.HasPrefix(s, "/*"):
			_, rest, _ := strings.Cut(s, "*/")
			s = rest
		case strings.HasPrefix(s, "-- "), strings.HasPrefix(s, "#"):
			_, rest, _ := strings.Cut(s, "\n")
			s = rest
		default:
			return s
		}
	}
}
