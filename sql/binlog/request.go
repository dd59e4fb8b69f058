package binlog

import (
	"bytes"
	"strconv"
	"strings"
	"time"
)

// request is what a client asks for.
type request struct {
	server   uint32
	file     string
	pos      uint64
	gtids    []byte // of COM_BINLOG_DUMP_GTID
	byGTID   bool
	nonBlock bool // the client wants what there is, and an end
}

// Commands.
const (
	comQuit           = 0x01
	comInitDB         = 0x02
	comQuery          = 0x03
	comPing           = 0x0e
	comBinlogDump     = 0x12
	comRegister       = 0x15
	comBinlogDumpGTID = 0x1e
)

const (
	flagNonBlock    = 0x01
	flagThroughGTID = 0x04
)

// taker reads the fields of a packet.
type taker struct {
	b   []byte
	bad bool
}

func (t *taker) take(n int) []byte {
	if t.bad || n < 0 || n > len(t.b) {
		t.bad = true
		return make([]byte, max(0, min(n, 8)))
	}
	out := t.b[:n]
	t.b = t.b[n:]
	return out
}

func (t *taker) text(n int) string { return string(t.take(n)) }

// parseDump reads COM_BINLOG_DUMP, behind its first byte.
func parseDump(b []byte) (r request, ok bool) {
	t := &taker{b: b}
	r.pos = uint64(le.Uint32(t.take(4)))
	flags := le.Uint16(t.take(2))
	r.server = le.Uint32(t.take(4))
	r.file = string(t.b)
	r.nonBlock = flags&flagNonBlock != 0
	return r, !t.bad && len(r.file) < 512
}

// parseDumpGTID reads COM_BINLOG_DUMP_GTID, behind its first byte.
func parseDumpGTID(b []byte) (r request, ok bool) {
	t := &taker{b: b}
	flags := le.Uint16(t.take(2))
	r.server = le.Uint32(t.take(4))
	n := int(le.Uint32(t.take(4)))
	if n > 512 {
		return r, false
	}
	r.file = t.text(n)
	r.pos = le.Uint64(t.take(8))
	r.nonBlock, r.byGTID = flags&flagNonBlock != 0, true
	// Some clients send the set without saying so.
	if flags&flagThroughGTID != 0 || len(t.b) > 0 {
		r.gtids = t.take(int(le.Uint32(t.take(4))))
	}
	return r, !t.bad && len(t.b) == 0
}

// Replica is a client that has registered.
type Replica struct {
	ServerID uint32
	Host     string
	Port     uint16
	UUID     string
	Since    time.Time
}

// parseRegister reads COM_REGISTER_SLAVE, behind its first byte.
func parseRegister(b []byte) (r Replica, ok bool) {
	t := &taker{b: b}
	r.ServerID = le.Uint32(t.take(4))
	r.Host = t.text(int(t.take(1)[0]))
	for range 2 { // user and password, which nobody needs
		t.text(int(t.take(1)[0]))
	}
	r.Port = le.Uint16(t.take(2))
	t.take(8) // rank and master's id
	return r, !t.bad && len(t.b) == 0
}

// replicaVariables are user variables that only replicas set.
var replicaVariables = []string{"@master_binlog_checksum", "@source_binlog_checksum", "@mariadb_slave_capability",
	"@slave_connect_state", "@master_heartbeat_period", "@source_heartbeat_period", "@slave_uuid", "@replica_uuid"}

// Announces reports whether a statement is one by which a replica begins.
func Announces(query string) bool {
	if len(query) < 8 || len(query) > 1024 || query[0]|0x20 != 's' || query[1]|0x20 != 'e' || query[2]|0x20 != 't' {
		return false
	}
	rest := strings.ToLower(strings.TrimLeft(query[3:], " \t\r\n"))
	for _, v := range replicaVariables {
		if strings.HasPrefix(rest, v) {
			return true
		}
	}
	return false
}

// Tool reports whether a packet is the login of MariaDB's mysqlbinlog. That asks for the server's
// version before it says anything else, and knows none that begins with an 8.
func Tool(login []byte) bool {
	return bytes.Contains(login, []byte("mysqlbinlog")) && bytes.Contains(login, []byte("libmariadb"))
}

// variables are those that a replica has set.
type variables map[string]string

func (v variables) get(names ...string) string {
	for _, n := range names {
		if s := v[n]; s != "" {
			return s
		}
	}
	return ""
}

// heartbeat is how often the client wants to hear of us; 0: never.
func (v variables) heartbeat() time.Duration {
	ns, err := strconv.ParseFloat(v.get("master_heartbeat_period", "source_heartbeat_period"), 64)
	if err != nil || ns <= 0 || ns > float64(24*time.Hour) {
		return 0
	}
	return max(time.Duration(ns), 100*time.Millisecond)
}

func (v variables) checksum() bool {
	return strings.EqualFold(v.get("master_binlog_checksum", "source_binlog_checksum"), "CRC32")
}

// maria reports whether the client is a MariaDB that knows GTIDs.
func (v variables) maria() bool {
	n, err := strconv.Atoi(v["mariadb_slave_capability"])
	return err == nil && n >= 4
}
