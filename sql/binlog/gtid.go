package binlog

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/base"
)

// Position is up to when a client has everything.
type Position = base.Timestamp

// Identity is what a cluster is called by its replicas.
type Identity struct {
	ServerID uint32
	SID      [16]byte
}

// IdentityOf makes that of a cluster: all nodes have the same.
func IdentityOf(clusterID string) (id Identity) {
	h := sha256.Sum256([]byte("godwit binlog " + clusterID))
	copy(id.SID[:], h[:])
	id.SID[6] = id.SID[6]&0x0f | 0x80 // a UUID of version 8
	id.SID[8] = id.SID[8]&0x3f | 0x80
	id.ServerID = binary.BigEndian.Uint32(h[16:])&0x7fffffff | 1<<16 // none that people give
	return id
}

// UUID is the text of the SID.
func (id Identity) UUID() string {
	h := hex.EncodeToString(id.SID[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// Maria is a position as MariaDB writes it.
func (id Identity) Maria(p Position) string { return fmt.Sprintf("0-%d-%d", id.ServerID, uint64(p)) }

// MySQL is the set of all GTIDs up to a position.
func (id Identity) MySQL(p Position) string { return fmt.Sprintf("%s:1-%d", id.UUID(), uint64(p)) }

// filePrefix is how the names of files begin.
const filePrefix = "godwit-bin."

// File is the file that begins at a position. The digits order names as timestamps.
func File(p Position) string { return fmt.Sprintf("%s%019d", filePrefix, uint64(p)) }

// gtidFile is what a client that asks by GTID hears of. It cannot be asked for: it may begin within
// the statements of one moment.
func gtidFile(p Position) string { return fmt.Sprintf("godwit-gtid.%019d", uint64(p)) }

// fileStart is where a file begins.
func fileStart(name string) (Position, bool) {
	digits, ok := strings.CutPrefix(name, filePrefix)
	n, err := strconv.ParseUint(digits, 10, 63)
	return Position(n), ok && err == nil && n > 0
}

// fatal is MySQL's error 1236: a replica shows it, and does not try again.
func fatal(format string, args ...any) error {
	return mysql.NewSQLError(1236, "HY000", "%s", fmt.Sprintf(format, args...))
}

// mariaPosition reads MariaDB's list of GTIDs, one for each domain. It returns 0 if there is none
// of domain 0.
func (id Identity) mariaPosition(s string) (p Position, err error) {
	for g := range strings.SplitSeq(s, ",") {
		if g = strings.TrimSpace(g); g == "" {
			continue
		}
		f := strings.Split(g, "-")
		var n [3]uint64
		if len(f) != 3 {
			return 0, fatal("GTID position %.100q is none", s)
		}
		for i := range n {
			bits := 32
			if i == 2 {
				bits = 63
			}
			if n[i], err = strconv.ParseUint(f[i], 10, bits); err != nil {
				return 0, fatal("GTID position %.100q is none", s)
			}
		}
		switch {
		case n[0] != 0:
		case n[1] != uint64(id.ServerID):
			return 0, fatal("GTID %s is not one of this cluster, whose server id is %d: set the position by a copy of its data", g, id.ServerID)
		default:
			p = Position(n[2])
		}
	}
	return p, nil
}

// mysqlPosition reads the binary form of MySQL's sets of GTIDs: the highest one of this cluster.
func (id Identity) mysqlPosition(b []byte) (p Position, err error) {
	bad := fatal("the set of GTIDs is malformed")
	take := func() (n uint64) {
		if len(b) < 8 {
			err, b = bad, nil
			return 0
		}
		n, b = le.Uint64(b), b[8:]
		return n
	}
	if len(b) == 0 {
		return 0, nil
	}
	for sids := take(); sids > 0 && err == nil; sids-- {
		if len(b) < 16 {
			return 0, bad
		}
		ours := string(b[:16]) == string(id.SID[:])
		b = b[16:]
		for n := take(); n > 0 && err == nil; n-- {
			first, end := take(), take()
			if err == nil && (first == 0 || end <= first || end > 1<<63-1) {
				err = bad
			}
			if ours && err == nil {
				p = max(p, Position(end-1))
			}
		}
	}
	if err == nil && len(b) > 0 {
		err = bad
	}
	return p, err
}
