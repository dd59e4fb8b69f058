package migrate

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
	define *queryEvent
	end    position // behind it
	when   time.Time
	bytes  int
}

// stream reads a binary log as a replica does.
type stream struct {
	conn *mysql.Conn
	raw  net.Conn
	at   position // behind the last event
	open *change  // between BEGIN and COMMIT
	sums bool     // events end with a checksum
}

// openStream asks the source for its log from a position on. secure says whether the source speaks
// TLS, which the library does not find out.
func openStream(ctx context.Context, a *Address, secure bool, from position, server uint32) (*stream, error) {
	host, port, err := net.SplitHostPort(a.Host)
	if err != nil {
		return nil, err
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return nil, err
	}
	if from.off > 1<<32-1 {
		return nil, fmt.Errorf("the log %s is longer than 4 GiB, and cannot be read from %d on: import anew", from.file, from.off)
	}
	p := &mysql.ConnParams{Host: host, Port: number, Uname: a.User, Pass: a.Password, Charset: "utf8mb4", ConnectTimeoutMs: 10_000}
	switch {
	case a.TLS == "true":
		p.SslMode, p.ServerName = vttls.VerifyIdentity, host
	case secure:
		p.SslMode = vttls.Required
	default:
		p.SslMode = vttls.Disabled
	}
	conn, err := mysql.Connect(ctx, p)
	if err != nil {
		return nil, err
	}
	s := &stream{conn: conn, raw: conn.Conn, at: from}
	for _, q := range []string{
		"SET @mariadb_slave_capability = 4", // its events as they are
		"SET @master_binlog_checksum = @@GLOBAL.binlog_checksum, @source_binlog_checksum = @@GLOBAL.binlog_checksum",
		fmt.Sprintf("SET @master_heartbeat_period = %d, @source_heartbeat_period = %[1]d", heartbeat.Nanoseconds()),
	} {
		if _, err := conn.ExecuteFetch(q, 1, false); err != nil {
			conn.Close()
			return nil, err
		}
	}
	res, err := conn.ExecuteFetch("SELECT @@GLOBAL.binlog_checksum", 1, false)
	if err != nil {
		conn.Close()
		return nil, err
	}
	s.sums = len(res.Rows) == 1 && strings.EqualFold(res.Rows[0][0].ToString(), "CRC32")
	if err := conn.WriteComBinlogDump(server, from.file, uint32(from.off), 0); err != nil {
		conn.Close()
		return nil, err
	}
	return s, nil
}

func (s *stream) close() { s.conn.Close() }

// next waits for the next transaction or definition. It returns nil after a heartbeat.
func (s *stream) next(ctx context.Context) (*change, error) {
	for {
		if err := s.raw.SetReadDeadline(time.Now().Add(silentAfter)); err != nil {
			return nil, err
		}
		b, err := s.conn.ReadPacket(ctx)
		if err != nil {
			return nil, err
		}
		switch {
		case len(b) == 0:
			return nil, errShort
		case b[0] == mysql.ErrPacket:
			return nil, refused{mysql.ParseErrorPacket(b)}
		case b[0] == mysql.EOFPacket && len(b) < 9:
			return nil, errors.New("the source ended its log")
		}
		e, err := parseEvent(bytes.Clone(b[1:]), &s.sums)
		if err != nil {
			return nil, err
		}
		done, c, err := s.event(e)
		if err != nil {
			return nil, unknown{fmt.Errorf("event at %s: %w", s.at, err)}
		}
		if done {
			return c, nil
		}
	}
}

// refused is an answer of the source that will not change.
type refused struct{ error }

// unknown is an event that cannot be followed, or another failure that trying again does not help.
type unknown struct{ error }

func (e unknown) Unwrap() error { return e.error }

// event takes one event. done says that c is whole, or that the source has nothing more.
func (s *stream) event(e *event) (done bool, c *change, err error) {
	if e.next > 0 && e.kind != eventRotate {
		s.at.off = uint64(e.next)
	}
	switch e.kind {
	case eventRotate:
		if len(e.body) < 8 {
			return false, nil, errShort
		}
		s.at = position{string(e.body[8:]), binary.LittleEndian.Uint64(e.body)}
	case eventTableMap, eventWriteV1, eventUpdateV1, eventDeleteV1, eventWriteV2, eventUpdateV2, eventDeleteV2:
		if s.open == nil {
			return false, nil, errors.New("rows outside of a transaction")
		}
		s.open.events, s.open.bytes = append(s.open.events, e), s.open.bytes+len(e.body)
		if s.open.bytes > mostBytes {
			return false, nil, fmt.Errorf("a transaction of more than %d MiB: Godwit's hold no more. Run it in pieces at the source, "+
				"or import anew", mostBytes>>20)
		}
	case eventMariaGTID: // begins a transaction, unless it is of a definition
		if len(e.body) < 13 {
			return false, nil, errShort
		}
		if e.body[12]&1 == 0 {
			s.open = new(change)
		}
	case eventXID:
		return s.end(e)
	case eventQuery:
		return s.query(e)
	case 27, 41: // heartbeats of both kinds
		return s.open == nil, nil, nil
	case eventIncident:
		return false, nil, errors.New("the source says that its log lacks something here: import anew")
	case eventXAPrepare:
		return false, nil, errors.New("an XA transaction, which cannot be followed")
	case eventPartial, eventPayload, eventQueryPacked, eventWritePacked, eventUpdatePack, eventDeletePack:
		return false, nil, errors.New("a packed event: turn the compression of the source's log off, and partial JSON updates, and import anew")
	case eventIntVar, eventRand, eventUserVar, eventLoad, eventLoadQuery:
		return false, nil, errors.New("a change that is logged as a statement: SET GLOBAL binlog_format = 'ROW' at the source, reconnect its " +
			"clients, and import anew")
	}
	return false, nil, nil
}

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
	words := strings.Fields(strings.ToUpper(first(stripComments(q.text), 200)))
	if len(words) == 0 {
		return false, nil, nil
	}
	switch word := words[0]; {
	case word == "BEGIN", word == "START":
		s.open = new(change)
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
	c := &change{define: q, end: s.at, when: e.when}
	if s.open != nil {
		c.end = position{}
	}
	return true, c, nil
}

func first(s string, n int) string { return s[:min(len(s), n)] }

// stripComments removes comments before the first word, and opens those that servers execute.
func stripComments(s string) string {
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
