package follow

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
	"time"

	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/sqltypes"
	querypb "github.com/dolthub/vitess/go/vt/proto/query"
)

// The events of a binary log that are read, by the numbers of MySQL's and MariaDB's source. What
// only one of the two writes is known by its number, too.
const (
	eventQuery       = 2
	eventRotate      = 4
	eventIntVar      = 5
	eventRand        = 13
	eventUserVar     = 14
	eventFormat      = 15
	eventXID         = 16
	eventLoad        = 17 // BEGIN_LOAD_QUERY, of LOAD DATA as a statement
	eventLoadQuery   = 18
	eventTableMap    = 19
	eventWriteV1     = 23
	eventUpdateV1    = 24
	eventDeleteV1    = 25
	eventIncident    = 26
	eventWriteV2     = 30
	eventUpdateV2    = 31
	eventDeleteV2    = 32
	eventXAPrepare   = 38
	eventPartial     = 39
	eventPayload     = 40
	eventMariaGTID   = 162
	eventQueryPacked = 165
	eventWritePacked = 166
	eventUpdatePack  = 167
	eventDeletePack  = 168
)

// headerLen is the length of an event's header in bytes.
const headerLen = 19

// event is one event without its checksum.
type event struct {
	when   time.Time
	kind   byte
	server uint32 // that has made the change
	next   uint32 // offset of the next event; 0 of events that are in no file
	body   []byte
}

var errShort = errors.New("the event is cut short")

// parseEvent reads the header, and the checksum if events have one, which the event that begins a
// file says.
func parseEvent(b []byte, sums *bool) (*event, error) {
	if len(b) < headerLen+4 {
		return nil, errShort
	}
	if b[4] == eventFormat {
		*sums = b[len(b)-5] == 1 // after the kind of checksum there is always room for one
		if !*sums {
			b = b[:len(b)-4]
		}
	}
	if *sums {
		sum := binary.LittleEndian.Uint32(b[len(b)-4:])
		if b = b[:len(b)-4]; crc32.ChecksumIEEE(b) != sum {
			return nil, errors.New("an event arrived damaged")
		}
	}
	return &event{when: time.Unix(int64(binary.LittleEndian.Uint32(b)), 0), kind: b[4], server: binary.LittleEndian.Uint32(b[5:]), next: binary.LittleEndian.Uint32(b[13:]),
		body: b[headerLen:]}, nil
}

// scan takes values from the front of b; after a failure it only returns zeros.
type scan struct {
	b   []byte
	bad bool
}

func (s *scan) take(n int) []byte {
	if s.bad || n < 0 || n > len(s.b) {
		s.bad = true
		return nil
	}
	out := s.b[:n]
	s.b = s.b[n:]
	return out
}

// num takes a little-endian number of n bytes.
func (s *scan) num(n int) uint64 {
	var v uint64
	for i, c := range s.take(n) {
		v |= uint64(c) << (8 * i)
	}
	return v
}

// big takes a big-endian number of n bytes.
func (s *scan) big(n int) uint64 {
	var v uint64
	for _, c := range s.take(n) {
		v = v<<8 | uint64(c)
	}
	return v
}

// size takes a length-encoded integer.
func (s *scan) size() int {
	switch first := s.num(1); first {
	case 252:
		return int(s.num(2))
	case 253:
		return int(s.num(3))
	case 254, 255:
		s.bad = true // longer than any event
		return 0
	default:
		return int(first)
	}
}

func (s *scan) err() error {
	if s.bad {
		return errShort
	}
	return nil
}

// queryEvent is a statement.
type queryEvent struct {
	db, text string
}

func parseQuery(b []byte) (*queryEvent, error) {
	s := &scan{b: b}
	s.take(8) // thread, seconds
	l := int(s.num(1))
	s.take(2) // error
	s.take(int(s.num(2)))
	q := &queryEvent{db: string(s.take(l))}
	s.take(1)
	q.text = string(s.b)
	return q, s.err()
}

// tableMap says how the rows that follow are encoded.
type tableMap struct {
	id    uint64
	name  Name
	types []byte
	meta  []uint16
}

func parseTableMap(b []byte) (*tableMap, error) {
	s := &scan{b: b}
	m := &tableMap{id: s.num(6)}
	s.take(2)
	m.name.DB = string(s.take(int(s.num(1))))
	s.take(1)
	m.name.Of = string(s.take(int(s.num(1))))
	s.take(1)
	m.types = s.take(s.size())
	in := &scan{b: s.take(s.size())}
	for _, t := range m.types {
		var v uint64
		switch t {
		case mysql.TypeFloat, mysql.TypeDouble, mysql.TypeBlob, mysql.TypeTinyBlob, mysql.TypeMediumBlob, mysql.TypeLongBlob, mysql.TypeJSON,
			mysql.TypeGeometry, mysql.TypeTimestamp2, mysql.TypeDateTime2, mysql.TypeTime2:
			v = in.num(1)
		case mysql.TypeVarchar, mysql.TypeVarString, mysql.TypeBit:
			v = in.num(2)
		case mysql.TypeNewDecimal, mysql.TypeString, mysql.TypeEnum, mysql.TypeSet:
			v = in.big(2)
		}
		m.meta = append(m.meta, uint16(v))
	}
	if s.bad || in.bad || len(in.b) > 0 {
		return nil, fmt.Errorf("the table map of %s: %w", m.name, errShort)
	}
	return m, nil
}

// cell is a value as SQL; "" is a column that is not there.
type cell string

const null cell = "NULL"

// rowChange is a row before and after; one of them is nil for an insert and a delete.
type rowChange struct{ before, after []cell }

// rowsEvent are rows of one table that one statement changed in the same way.
type rowsEvent struct {
	of          *tableMap
	rows        []rowChange
	foreignKeys bool // whether the source checked them, and followed them
}

const flagNoForeignKeys = 2

// parseRows decodes rows with the columns that the target has for the table. What cannot be decoded
// is unknown; other errors are those of asking for the columns.
func parseRows(e *event, maps map[uint64]*tableMap, columns func(Name) (*Table, error)) (*rowsEvent, *Table, error) {
	s := &scan{b: e.body}
	m := maps[s.num(6)]
	flags := s.num(2)
	if e.kind >= eventWriteV2 {
		s.take(int(s.num(2)) - 2)
	}
	n := s.size()
	if s.bad || m == nil || n == 0 || n != len(m.types) {
		return nil, nil, Unknown{fmt.Errorf("rows without a table map: %w", errShort)}
	}
	t, err := columns(m.name)
	if err != nil || t == nil {
		return nil, nil, err
	}
	if len(t.Columns) != n {
		return nil, nil, Unknown{fmt.Errorf("table %s has %d columns in Godwit, and %d in the source's log", m.name, len(t.Columns), n)}
	}
	for range 1 + btoi(e.kind == eventUpdateV1 || e.kind == eventUpdateV2) {
		for i := range n { // the columns that are there
			if i%8 == 0 && len(s.b) > i/8 && s.b[i/8]|0xff<<min(8, n-i) != 0xff {
				return nil, nil, Unknown{fmt.Errorf("rows of %s lack columns: SET GLOBAL binlog_row_image = 'FULL' at the source", m.name)}
			}
		}
		s.take((n + 7) / 8)
	}
	out := &rowsEvent{of: m, foreignKeys: flags&flagNoForeignKeys == 0}
	for !s.bad && len(s.b) > 0 {
		var c rowChange
		if e.kind != eventWriteV1 && e.kind != eventWriteV2 {
			if c.before, err = parseRow(s, m, t); err != nil {
				return nil, nil, Unknown{err}
			}
		}
		if e.kind != eventDeleteV1 && e.kind != eventDeleteV2 {
			if c.after, err = parseRow(s, m, t); err != nil {
				return nil, nil, Unknown{err}
			}
		}
		out.rows = append(out.rows, c)
	}
	if s.bad {
		return nil, nil, Unknown{errShort}
	}
	return out, t, nil
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func parseRow(s *scan, m *tableMap, t *Table) ([]cell, error) {
	nulls := s.take((len(m.types) + 7) / 8)
	out := make([]cell, len(m.types))
	for i, typ := range m.types {
		if s.bad {
			return nil, errShort
		}
		if nulls[i/8]&(1<<(i%8)) != 0 {
			out[i] = null
			continue
		}
		v, err := parseCell(s, typ, m.meta[i], &t.Columns[i])
		if err != nil {
			return nil, fmt.Errorf("column %s of %s: %w", t.Columns[i].Name, m.name, err)
		}
		out[i] = v
	}
	return out, s.err()
}

// parseCell decodes one value. (MySQL's source, log_event.cc: log_event_print_value.)
func parseCell(s *scan, typ byte, meta uint16, c *Column) (cell, error) {
	integer := func(n int) cell {
		v := s.num(n)
		if shift := 64 - 8*n; !c.Unsigned {
			return cell(strconv.FormatInt(int64(v<<shift)>>shift, 10))
		}
		return cell(strconv.FormatUint(v, 10))
	}
	switch typ {
	case mysql.TypeNull:
		return null, nil
	case mysql.TypeTiny:
		return integer(1), s.err()
	case mysql.TypeShort:
		return integer(2), s.err()
	case mysql.TypeInt24:
		return integer(3), s.err()
	case mysql.TypeLong:
		return integer(4), s.err()
	case mysql.TypeLongLong:
		return integer(8), s.err()
	case mysql.TypeYear:
		if v := s.num(1); v > 0 {
			return cell(strconv.FormatUint(1900+v, 10)), s.err()
		}
		return "0", s.err()
	case mysql.TypeBit:
		return hexCell(s.take((int(meta&0xff) + 8*int(meta>>8) + 7) / 8)), s.err()
	case mysql.TypeEnum, mysql.TypeSet:
		return cell(strconv.FormatUint(s.num(int(meta&0xff)), 10)), s.err()
	case mysql.TypeString:
		if real := byte(meta >> 8); real == mysql.TypeEnum || real == mysql.TypeSet {
			return cell(strconv.FormatUint(s.num(int(meta&0xff)), 10)), s.err()
		}
		return textCell(s, (int(meta>>4)&0x300^0x300)+int(meta&0xff), c)
	case mysql.TypeVarchar, mysql.TypeVarString:
		return textCell(s, int(meta), c)
	case mysql.TypeTinyBlob, mysql.TypeBlob, mysql.TypeMediumBlob, mysql.TypeLongBlob, mysql.TypeGeometry:
		return bytesCell(s.take(int(s.num(int(meta)))), c, s)
	}
	return libraryCell(s, typ, meta)
}

// textCell takes a text with a length of one byte, or of two if it may be longer than 255 bytes.
func textCell(s *scan, most int, c *Column) (cell, error) {
	if most > 255 {
		return bytesCell(s.take(int(s.num(2))), c, s)
	}
	return bytesCell(s.take(int(s.num(1))), c, s)
}

// bytesCell is a value of a text or binary column in the character set of the column.
func bytesCell(v []byte, c *Column, s *scan) (cell, error) {
	if s.bad {
		return "", errShort
	}
	switch c.Charset {
	case "":
		return hexCell(v), nil
	case "utf8mb4", "utf8mb3", "utf8", "ascii":
		return cell(QuoteText(nil, string(v))), nil
	case "latin1", "binary", "ucs2", "utf16", "utf32":
		return "_" + cell(c.Charset) + " " + hexCell(v), nil
	}
	return "", fmt.Errorf("its character set %s cannot be followed: ALTER TABLE ... CONVERT TO CHARACTER SET utf8mb4 at the source", c.Charset)
}

func hexCell(v []byte) cell { return cell(AppendHex(nil, v)) }

// libraryCell leaves dates, times, decimals, floats and JSON to the library, which reads beyond the
// end of values that are cut short.
func libraryCell(s *scan, typ byte, meta uint16) (out cell, err error) {
	defer func() {
		if recover() != nil {
			out, err = "", errShort
		}
	}()
	v, n, err := mysql.CellValue(s.b, 0, typ, meta, querypb.Type_INT64)
	if err != nil {
		return "", err
	}
	if s.take(n); s.bad {
		return "", errShort
	}
	switch {
	case v.Type() == sqltypes.Expression:
		return cell(v.ToString()), nil
	case typ == mysql.TypeNewDecimal:
		// The library pads groups of nine digits by spaces.
		return cell(strings.ReplaceAll(v.ToString(), " ", "0")), nil
	case typ == mysql.TypeFloat || typ == mysql.TypeDouble:
		return cell(v.ToString()), nil
	}
	return cell(QuoteText(nil, v.ToString())), nil
}
