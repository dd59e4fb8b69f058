package sqlfront

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
)

// descVersion is the format of all descriptors. History:
//
//	1: first
//	2: asynchronous tables, whose descriptors only have it
//	3: tables with a successor, while they have it
//	4: MULTI MASTER tables, whose descriptors only have it
const (
	descVersion  = 1
	asyncVersion = 2
	nextVersion  = 3
	multiVersion = 4
)

// dbDesc describes a database.
type dbDesc struct {
	V         int             `json:"v"`
	Name      string          `json:"name"`
	Collation sql.CollationID `json:"collation"`
	// Async is what tables are that do not say so themselves.
	Async bool `json:"async,omitempty"`
}

// locality is where the rows of a table live.
type locality struct {
	Kind   localityKind  `json:"kind"`
	Region base.RegionID `json:"region,omitempty"` // byTable: the home of every row
	// Async tables are in shards of their own, whose groups replicate to other regions asynchronously.
	Async bool `json:"async,omitempty"`
}

type localityKind string

const (
	byRow   localityKind = ""
	byTable localityKind = "table"
	global  localityKind = "global"
	multi   localityKind = "multi" // every node has all rows, written by epochs
)

// columnDesc describes a column. ID is never reused within the table.
type columnDesc struct {
	ID           uint32          `json:"id"`
	Name         string          `json:"name"`
	Type         string          `json:"type"`
	Collation    sql.CollationID `json:"coll,omitempty"`
	Values       []string        `json:"values,omitempty"` // of enum and set
	SRID         *uint32         `json:"srid,omitempty"`
	Nullable     bool            `json:"null,omitempty"`
	Default      *exprDesc       `json:"default,omitempty"`
	Generated    *exprDesc       `json:"generated,omitempty"`
	OnUpdate     *exprDesc       `json:"on_update,omitempty"`
	Virtual      bool            `json:"virtual,omitempty"`
	AutoInc      bool            `json:"auto_inc,omitempty"`
	Hidden       bool            `json:"hidden,omitempty"`
	HiddenSystem bool            `json:"hidden_system,omitempty"`
	Comment      string          `json:"comment,omitempty"`
	Extra        string          `json:"extra,omitempty"`
	// Missing is the stored value of rows written before the column was added.
	Missing []byte `json:"missing,omitempty"`
}

// exprDesc is an expression by its text.
type exprDesc struct {
	Text          string `json:"text"`
	Literal       bool   `json:"literal,omitempty"`
	Parenthesized bool   `json:"paren,omitempty"`
}

type indexClass uint8

const (
	classLocal indexClass = iota
	classUnique
	classByHome
	classGlobal
)

// indexState is how far an index has been built.
type indexState uint8

const (
	indexPublic indexState = iota
	// indexWriteOnly indexes are kept up by every write but not read yet.
	indexWriteOnly
)

type indexCol struct {
	Col    uint32 `json:"col"`           // column id
	Length int64  `json:"len,omitempty"` // prefix length in characters or bytes, 0 is all
}

// indexDesc describes a secondary index; ID is never reused within the table.
type indexDesc struct {
	ID         base.IndexID        `json:"id"`
	Name       string              `json:"name"`
	Cols       []indexCol          `json:"cols"`
	Constraint sql.IndexConstraint `json:"constraint,omitempty"`
	Class      indexClass          `json:"class"`
	State      indexState          `json:"state,omitempty"`
	Comment    string              `json:"comment,omitempty"`
	Fulltext   *fulltextDesc       `json:"fulltext,omitempty"`
}

func (x *indexDesc) unique() bool { return x.Constraint == sql.IndexConstraint_Unique }

// stored reports whether the index has entries: spatial, full-text and vector
// indexes are answered by scanning the table (or by the engine's own tables).
func (x *indexDesc) stored() bool {
	return x.Constraint == sql.IndexConstraint_None || x.Constraint == sql.IndexConstraint_Unique
}

// key is the index id in keys.
func (x *indexDesc) key() base.IndexID {
	if x.Class == classByHome {
		return x.ID | base.ByHome
	}
	return x.ID
}

// fulltextDesc names the tables with which the engine implements a full-text index.
type fulltextDesc struct {
	Config, Position, DocCount, GlobalCount, RowCount string
	KeyType                                           byte
	KeyName                                           string
	KeyCols                                           []uint32
}

// tableDesc describes a table. It is immutable once it is in a snapshot: change a clone.
type tableDesc struct {
	V         int                        `json:"v"`
	ID        base.TableID               `json:"id"`
	DB        string                     `json:"db"`
	Name      string                     `json:"name"`
	Version   uint64                     `json:"version"` // grows with every change
	Comment   string                     `json:"comment,omitempty"`
	Collation sql.CollationID            `json:"collation"`
	Cols      []columnDesc               `json:"cols"`
	PK        []uint32                   `json:"pk,omitempty"` // column ids
	Indexes   []indexDesc                `json:"indexes,omitempty"`
	Checks    []sql.CheckDefinition      `json:"checks,omitempty"`
	FKs       []sql.ForeignKeyConstraint `json:"fks,omitempty"` // declared by this table
	Locality  locality                   `json:"locality"`
	Shards    int                        `json:"shards"` // data shards when the table was made
	NextCol   uint32                     `json:"next_col"`
	// Dropped tells the storage kind of columns that old rows may still hold.
	Dropped   map[uint32]kind `json:"dropped,omitempty"`
	NextIndex uint32          `json:"next_index"`
	// AutoEpoch changes when the counter is set, to end blocks leased before.
	AutoEpoch uint64 `json:"auto_epoch,omitempty"`
	// AutoKey names the counter; it stays when a rewrite changes ID.
	AutoKey uint64    `json:"auto_key"`
	Created time.Time `json:"created"`
	// Next is the table that is to take the place of this one; see mirror.go.
	Next *nextDesc `json:"next,omitempty"`
}

func (t *tableDesc) clone() *tableDesc {
	c := *t
	c.Cols = slices.Clone(t.Cols)
	c.PK = slices.Clone(t.PK)
	c.Indexes = slices.Clone(t.Indexes)
	c.Checks = slices.Clone(t.Checks)
	c.FKs = slices.Clone(t.FKs)
	for i, fk := range c.FKs {
		c.FKs[i].Columns = slices.Clone(fk.Columns)
		c.FKs[i].ParentColumns = slices.Clone(fk.ParentColumns)
	}
	c.Dropped = maps.Clone(t.Dropped)
	c.Version++
	return &c
}

// col is the position of a column by id, -1 if it is gone.
func (t *tableDesc) col(id uint32) int {
	for i := range t.Cols {
		if t.Cols[i].ID == id {
			return i
		}
	}
	return -1
}

// colByName is the position of a column, -1 if there is none.
func (t *tableDesc) colByName(name string) int {
	for i := range t.Cols {
		if strings.EqualFold(t.Cols[i].Name, name) {
			return i
		}
	}
	return -1
}

// index finds an index by name.
func (t *tableDesc) index(name string) *indexDesc {
	for i := range t.Indexes {
		if strings.EqualFold(t.Indexes[i].Name, name) {
			return &t.Indexes[i]
		}
	}
	return nil
}

func (t *tableDesc) indexByID(id base.IndexID) *indexDesc {
	for i := range t.Indexes {
		if t.Indexes[i].ID == id&^base.ByHome {
			return &t.Indexes[i]
		}
	}
	return nil
}

func (t *tableDesc) autoIncCol() int {
	return slices.IndexFunc(t.Cols, func(c columnDesc) bool { return c.AutoInc })
}

// format is the oldest one that can tell what the descriptor says.
func (t *tableDesc) format() int {
	switch {
	case t.Locality.Kind == multi:
		return multiVersion
	case t.Next != nil:
		return nextVersion
	case t.Locality.Async:
		return asyncVersion
	}
	return descVersion
}

// firstShard is the shard before those of the table.
func (t *tableDesc) firstShard() int { return firstShard(t.Shards, t.Locality.Async) }

// firstShard is the shard before those of a table: the shards of asynchronous tables lie behind as many others.
func firstShard(shards int, async bool) int {
	if async {
		return shards
	}
	return 0
}

// home is what new rows pass to kv: 0 lets the gateway's region own them.
func (t *tableDesc) home() base.RegionID {
	if t.Locality.Kind == byTable {
		return t.Locality.Region
	}
	return 0
}

// classFor decides where the entries of a new index live (see the package comment).
func (t *tableDesc) classFor(cols []indexCol, c sql.IndexConstraint) indexClass {
	switch {
	case t.Locality.Kind == global, t.Locality.Kind == multi: // all entries lie beside the rows
		return classGlobal
	case len(t.PK) > 0 && cols[0].Col == t.PK[0] && cols[0].Length == 0:
		return classLocal
	case c == sql.IndexConstraint_Unique:
		return classUnique
	}
	return classByHome
}

// marshal encodes a descriptor; only values made here are passed, so it cannot fail.
func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("sqlfront: descriptor cannot be encoded: " + err.Error())
	}
	return b
}

func unmarshal[T any](b []byte, version func(*T) int) (*T, error) {
	v := new(T)
	if err := json.Unmarshal(b, v); err != nil {
		return nil, base.Errorf(base.CodeCorrupt, "catalog row: %v", err)
	}
	if n := version(v); n > multiVersion {
		return nil, base.Errorf(base.CodeInvalid, "catalog row has format %d, this release reads up to %d: upgrade this node", n, multiVersion)
	}
	return v, nil
}
