package binlog

import (
	"encoding/binary"
	"hash/crc32"
	"math"

	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/base"
)

// Types of events.
const (
	typeQuery             = 2
	typeRotate            = 4
	typeFormatDescription = 15
	typeXID               = 16
	typeTableMap          = 19
	typeWriteRowsV1       = 23
	typeUpdateRowsV1      = 24
	typeDeleteRowsV1      = 25
	typeHeartbeat         = 27
	typeWriteRows         = 30
	typeUpdateRows        = 31
	typeDeleteRows        = 32
	typeGTID              = 33
	typePreviousGTIDs     = 35
	typeMariaGTID         = 162
	typeMariaGTIDList     = 163
)

const (
	headerLen  = 19
	startPos   = 4    // of the first event of a file, behind the magic number
	artificial = 0x20 // the event is in no file
)

var le = binary.LittleEndian

// encoder makes the events of one stream. Positions are those of a file that begins with it.
type encoder struct {
	maria    bool // the client is a MariaDB
	checksum bool
	server   uint32
	sid      [16]byte
	file     string
	pos      uint64 // where the next event begins
	tables   map[base.TableID]*mapping
	nextID   uint64 // of tables
}

// event makes an event of its body. It moves the position, unless the event is artificial.
func (e *encoder) event(typ byte, ts base.Timestamp, flags uint16, body []byte) []byte {
	n := headerLen + len(body)
	sum := e.checksum || typ == typeFormatDescription // which always has room for it
	if sum {
		n += 4
	}
	b := make([]byte, 0, n)
	b = le.AppendUint32(b, uint32(uint64(ts)/1e9))
	b = append(b, typ)
	b = le.AppendUint32(b, e.server)
	b = le.AppendUint32(b, uint32(n))
	var next uint32
	if flags&artificial == 0 {
		e.pos += uint64(n)
		next = uint32(min(e.pos, math.MaxUint32))
	}
	b = le.AppendUint32(b, next)
	b = le.AppendUint16(b, flags)
	b = append(b, body...)
	if sum {
		b = le.AppendUint32(b, crc32.ChecksumIEEE(b))
	}
	return b
}

// rotate names the file that follows, and the position in it. It is the first event of a stream,
// too. Whatever an encoder has learned ends: the same file is to be made again later.
func (e *encoder) rotate(file string, pos uint64) []byte {
	e.file, e.pos, e.nextID = file, startPos, 0
	clear(e.tables)
	return e.event(typeRotate, 0, artificial, append(le.AppendUint64(nil, pos), file...))
}

// What the format description says of the servers that write such events.
const (
	mysqlVersion = "8.0.31-Godwit"
	mariaVersion = "10.11.0-MariaDB-Godwit"
)

// format is the format description.
func (e *encoder) format() []byte {
	version, f := mysqlVersion, mysql.NewMySQL56BinlogFormat()
	if e.maria {
		version, f = mariaVersion, mysql.NewMariaDBBinlogFormat()
	}
	sizes := f.HeaderSizes
	if e.maria {
		// MariaDB 10.11 knows types up to 171, with those of compressed events.
		sizes = append(append([]byte{}, sizes...), 0, 13, 8, 8, 8, 10, 10, 10)[:171]
	}
	b := le.AppendUint16(nil, 4)
	b = append(b, version...)
	b = append(b, make([]byte, 50-len(version))...)
	b = le.AppendUint32(b, 0)
	b = append(b, headerLen)
	b = append(b, sizes...)
	b[2+50+4+1+typeFormatDescription-1] = byte(2 + 50 + 4 + 1 + len(sizes))
	alg := byte(0)
	if e.checksum {
		alg = 1
	}
	return e.event(typeFormatDescription, 0, 0, append(b, alg))
}

// before says which transactions come before the stream.
func (e *encoder) before(g Position) []byte {
	if e.maria {
		b := le.AppendUint32(nil, 1)
		b = le.AppendUint32(b, 0)
		b = le.AppendUint32(b, e.server)
		return e.event(typeMariaGTIDList, 0, 0, le.AppendUint64(b, uint64(g)))
	}
	b := le.AppendUint64(nil, 1)
	b = append(b, e.sid[:]...)
	b = le.AppendUint64(b, 1)
	b = le.AppendUint64(b, 1)
	return e.event(typePreviousGTIDs, 0, 0, le.AppendUint64(b, uint64(g)+1))
}

// gtid begins a transaction, or a statement that is one by itself.
func (e *encoder) gtid(ts base.Timestamp, statement bool) (out [][]byte) {
	if e.maria {
		const standalone, transactional, parallel, ddl = 1, 4, 8, 32
		flags := byte(transactional | parallel)
		if statement {
			flags = standalone | ddl
		}
		b := le.AppendUint64(nil, uint64(ts))
		b = le.AppendUint32(b, 0)
		b = append(b, flags)
		return [][]byte{e.event(typeMariaGTID, ts, 0, append(b, make([]byte, 6)...))}
	}
	b := append([]byte{0}, e.sid[:]...)
	b = le.AppendUint64(b, uint64(ts))
	b = append(b, 2) // logical clock: each depends on the one before
	b = le.AppendUint64(b, 0)
	b = le.AppendUint64(b, 1)
	out = append(out, e.event(typeGTID, ts, 0, b))
	if !statement {
		out = append(out, e.query(ts, "", "BEGIN"))
	}
	return out
}

// query is a statement. It is executed without checks of foreign keys, and without a sql_mode that
// changes how it is read.
func (e *encoder) query(ts base.Timestamp, db, text string) []byte {
	const (
		noForeignKeys = 1 << 26
		noAutoValue   = 1 << 19 // NO_AUTO_VALUE_ON_ZERO, of sql_mode
		utf8mb4       = 45      // utf8mb4_general_ci, which all know
		codeFlags     = 0
		codeMode      = 1
		codeCharset   = 4
		codeZone      = 5
	)
	vars := le.AppendUint32([]byte{codeFlags}, noForeignKeys)
	vars = le.AppendUint64(append(vars, codeMode), noAutoValue)
	vars = append(vars, codeCharset)
	for range 3 {
		vars = le.AppendUint16(vars, utf8mb4)
	}
	const zone = "+00:00"
	vars = append(append(vars, codeZone, byte(len(zone))), zone...)
	b := le.AppendUint32(nil, 1) // the thread: temporary tables have their own, and there are none
	b = le.AppendUint32(b, 0)
	b = append(b, byte(len(db)))
	b = le.AppendUint16(b, 0)
	b = le.AppendUint16(b, uint16(len(vars)))
	b = append(append(b, vars...), db...)
	return e.event(typeQuery, ts, 0, append(append(b, 0), text...))
}

// xid ends a transaction.
func (e *encoder) xid(ts base.Timestamp) []byte {
	return e.event(typeXID, ts, 0, le.AppendUint64(nil, uint64(ts)))
}

// heartbeat says that nothing has happened behind a position.
func (e *encoder) heartbeat(pos uint64) []byte {
	b := e.event(typeHeartbeat, 0, artificial, []byte(e.file))
	le.PutUint32(b[13:], uint32(min(pos, math.MaxUint32)))
	le.PutUint16(b[17:], 0)
	if e.checksum {
		le.PutUint32(b[len(b)-4:], crc32.ChecksumIEEE(b[:len(b)-4]))
	}
	return b
}
