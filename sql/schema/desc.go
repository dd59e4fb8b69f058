package schema

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
)

// DescVersion is the format of all descriptors. History:
//
//	1: first
//	2: asynchronous tables, whose descriptors only have it
//	3: tables with a successor, while they have it
//	4: MULTI MASTER tables, whose descriptors only have it
//	5: stored functions, which older nodes do not see
//	6: tables with a placement, and databases that give them one
//	7: tables whose rows have placements by a column
//	8: tables in a placement in which not all regions vote
//	9: tables with shards of their own
const (
	DescVersion     = 1
	asyncVersion    = 2
	nextVersion     = 3
	MultiVersion    = 4
	functionVersion = 5
	placedVersion   = 6
	partsVersion    = 7
	setsVersion     = 8
	ownVersion      = 9
	NewestVersion   = ownVersion
)

// DatabaseDesc describes a database.
type DatabaseDesc struct {
	V         int             `json:"v"`
	Name      string          `json:"name"`
	Collation sql.CollationID `json:"collation"`
	// Async is what tables are that do not say so themselves.
	Async bool `json:"async,omitempty"`
	// Placement is where they lie.
	Placement base.PlacementID `json:"placement,omitempty"`
}

// Format is the oldest one that can tell what the descriptor says.
func (d *DatabaseDesc) Format() int {
	if d.Placement != 0 {
		return placedVersion
	}
	return DescVersion
}

// Locality is where the rows of a table live.
type Locality struct {
	Kind   LocalityKind  `json:"kind"`
	Region base.RegionID `json:"region,omitempty"` // byTable: the home of every row
	// Async tables are in shards of their own, whose groups replicate to other regions
	// asynchronously.
	Async bool `json:"async,omitempty"`
	// Placed says in which regions the rows may lie: in shards of their own, if not in all.
	Placed base.Placed `json:"placed,omitzero"`
	// Parts gives each row a placement, by a column, in place of Placed; nil: no.
	Parts *PartsDesc `json:"parts,omitempty"`
	// Sets are the copy sets of the placement over whose shards the rows are spread; nil: there are
	// none, or Placed is the one in which all rows lie.
	Sets []base.Placed `json:"sets,omitempty"`
	// Split is how many shards the table has for itself, in each of its placements or copy sets; 0:
	// it shares shards with others. Each of them says which they are.
	Split int `json:"split,omitempty"`
}

// LocalityKind says what decides where a row of the table lives.
type LocalityKind string

// The kinds of localities.
const (
	ByRow       LocalityKind = ""
	ByTable     LocalityKind = "table"
	Global      LocalityKind = "global"
	MultiMaster LocalityKind = "multi" // every node has all rows, written by epochs
	// Temporary tables are those of one session, which keeps their rows in its memory. Their
	// descriptors are never stored.
	Temporary LocalityKind = "temporary"
)

// ColumnDesc describes a column. ID is never reused within the table.
type ColumnDesc struct {
	ID           uint32          `json:"id"`
	Name         string          `json:"name"`
	Type         string          `json:"type"`
	Collation    sql.CollationID `json:"coll,omitempty"`
	Values       []string        `json:"values,omitempty"` // of enum and set
	SRID         *uint32         `json:"srid,omitempty"`
	Nullable     bool            `json:"null,omitempty"`
	Default      *ExprDesc       `json:"default,omitempty"`
	Generated    *ExprDesc       `json:"generated,omitempty"`
	OnUpdate     *ExprDesc       `json:"on_update,omitempty"`
	Virtual      bool            `json:"virtual,omitempty"`
	AutoInc      bool            `json:"auto_inc,omitempty"`
	Hidden       bool            `json:"hidden,omitempty"`
	HiddenSystem bool            `json:"hidden_system,omitempty"`
	Comment      string          `json:"comment,omitempty"`
	Extra        string          `json:"extra,omitempty"`
	// Padded: keys disregard spaces at the end of texts, as the collation does (pad.go).
	Padded bool `json:"padded,omitempty"`
	// Expanded: keys have all weights of a character, or none, as the collation says (package uca),
	// and those of a part of a column its first weights.
	Expanded bool `json:"expanded,omitempty"`
	// Missing is the stored value of rows written before the column was added.
	Missing []byte `json:"missing,omitempty"`
}

// ExprDesc is an expression by its text.
type ExprDesc struct {
	Text          string `json:"text"`
	Literal       bool   `json:"literal,omitempty"`
	Parenthesized bool   `json:"paren,omitempty"`
}

// Definition is the expression as a definition of a column has it behind DEFAULT; empty if there is
// none.
func (e *ExprDesc) Definition() string {
	if e == nil {
		return ""
	}
	if _, now := e.Now(); e.Literal || now {
		return e.Text
	}
	return "(" + e.Text + ")"
}

var reNow = regexp.MustCompile(`(?i)^\(?(?:CURRENT_TIMESTAMP|NOW|LOCALTIME|LOCALTIMESTAMP)(?:\((\d*)\))?\)?$`)

// Now reports whether an expression is the time of the statement, and with how many digits of the
// second. There need be no expression.
func (e *ExprDesc) Now() (digits int, ok bool) {
	if e == nil {
		return 0, false
	}
	m := reNow.FindStringSubmatch(e.Text)
	if m == nil {
		return 0, false
	}
	digits, _ = strconv.Atoi("0" + m[1])
	return digits, true
}

type indexClass uint8

// The classes of indexes: see the package comment.
const (
	ClassLocal indexClass = iota
	ClassUnique
	ClassByHome
	ClassGlobal
)

// indexState is how far an index has been built.
type indexState uint8

// The states of an index.
const (
	IndexPublic indexState = iota
	// IndexWriteOnly indexes are kept up by every write but not read yet.
	IndexWriteOnly
)

// IndexedColumn is a column of an index.
type IndexedColumn struct {
	Col    uint32 `json:"col"`           // column id
	Length int64  `json:"len,omitempty"` // prefix length in characters or bytes, 0 is all
}

// IndexDesc describes a secondary index; ID is never reused within the table.
type IndexDesc struct {
	ID         base.IndexID        `json:"id"`
	Name       string              `json:"name"`
	Cols       []IndexedColumn     `json:"cols"`
	Constraint sql.IndexConstraint `json:"constraint,omitempty"`
	Class      indexClass          `json:"class"`
	State      indexState          `json:"state,omitempty"`
	Builder    base.NodeID         `json:"builder,omitempty"` // of one that is not public: who fills it
	Comment    string              `json:"comment,omitempty"`
	Fulltext   *FulltextDesc       `json:"fulltext,omitempty"`
	// Generated: a foreign key needed it, and nobody asked for it.
	Generated bool `json:"generated,omitempty"`
}

// Unique reports whether no two rows may be equal in the columns of the index.
func (x *IndexDesc) Unique() bool { return x.Constraint == sql.IndexConstraint_Unique }

// Stored reports whether the index has entries: spatial, full-text and vector
// indexes are answered by scanning the table (or by the engine's own tables).
func (x *IndexDesc) Stored() bool {
	return x.Constraint == sql.IndexConstraint_None || x.Constraint == sql.IndexConstraint_Unique
}

// Key is the index id in keys.
func (x *IndexDesc) Key() base.IndexID {
	if x.Class == ClassByHome {
		return x.ID | base.ByHome
	}
	return x.ID
}

// FulltextDesc names the tables with which the engine implements a full-text index.
type FulltextDesc struct {
	Config, Position, DocCount, GlobalCount, RowCount string
	KeyType                                           byte
	KeyName                                           string
	KeyCols                                           []uint32
	Parser                                            string `json:",omitempty"` // WITH PARSER; empty: words
}

// TableDesc describes a table. It is immutable once it is in a snapshot: change a clone.
type TableDesc struct {
	V         int                        `json:"v"`
	ID        base.TableID               `json:"id"`
	DB        string                     `json:"db"`
	Name      string                     `json:"name"`
	Version   uint64                     `json:"version"` // grows with every change
	Comment   string                     `json:"comment,omitempty"`
	Collation sql.CollationID            `json:"collation"`
	Cols      []ColumnDesc               `json:"cols"`
	PK        []uint32                   `json:"pk,omitempty"` // column ids
	Indexes   []IndexDesc                `json:"indexes,omitempty"`
	Checks    []sql.CheckDefinition      `json:"checks,omitempty"`
	FKs       []sql.ForeignKeyConstraint `json:"fks,omitempty"` // declared by this table
	Locality  Locality                   `json:"locality"`
	Shards    int                        `json:"shards"` // data shards when the table was made
	NextCol   uint32                     `json:"next_col"`
	// Dropped tells the storage kind of columns that old rows may still hold.
	Dropped   map[uint32]Kind `json:"dropped,omitempty"`
	NextIndex uint32          `json:"next_index"`
	// AutoEpoch changes when the counter is set, to end blocks leased before.
	AutoEpoch uint64 `json:"auto_epoch,omitempty"`
	// AutoKey names the counter; it stays when a rewrite changes ID.
	AutoKey uint64    `json:"auto_key"`
	Created time.Time `json:"created"`
	// Next is the table that is to take the place of this one; see mirror.go.
	Next *SuccessorDesc `json:"next,omitempty"`
}

// Clone is a copy to be changed, with the next version.
func (t *TableDesc) Clone() *TableDesc {
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

// Col is the position of a column by id, -1 if it is gone.
func (t *TableDesc) Col(id uint32) int {
	for i := range t.Cols {
		if t.Cols[i].ID == id {
			return i
		}
	}
	return -1
}

// ColByName is the position of a column, -1 if there is none.
func (t *TableDesc) ColByName(name string) int {
	for i := range t.Cols {
		if strings.EqualFold(t.Cols[i].Name, name) {
			return i
		}
	}
	return -1
}

// Index finds an index by name.
func (t *TableDesc) Index(name string) *IndexDesc {
	for i := range t.Indexes {
		if strings.EqualFold(t.Indexes[i].Name, name) {
			return &t.Indexes[i]
		}
	}
	return nil
}

// IndexByID finds an index by its id, also as it is in keys; nil if there is none.
func (t *TableDesc) IndexByID(id base.IndexID) *IndexDesc {
	for i := range t.Indexes {
		if t.Indexes[i].ID == id&^base.ByHome {
			return &t.Indexes[i]
		}
	}
	return nil
}

// AutoIncCol is the position of the AUTO_INCREMENT column, -1 if there is none.
func (t *TableDesc) AutoIncCol() int {
	return slices.IndexFunc(t.Cols, func(c ColumnDesc) bool { return c.AutoInc })
}

// Format is the oldest one that can tell what the descriptor says.
func (t *TableDesc) Format() int {
	switch {
	case t.Locality.Kind == MultiMaster:
		return MultiVersion
	case t.Locality.Split != 0 || t.Next != nil && t.Next.Locality.Split != 0:
		return ownVersion
	case t.Locality.inSets() || t.Next != nil && t.Next.Locality.inSets():
		return setsVersion
	case t.Locality.Parts != nil || t.Next != nil && t.Next.Locality.Parts != nil:
		return partsVersion
	case t.Locality.Placed.ID != 0 || t.Next != nil && t.Next.Locality.Placed.ID != 0:
		return placedVersion
	case t.Next != nil:
		return nextVersion
	case t.Locality.Async:
		return asyncVersion
	}
	return DescVersion
}

// Temporary reports whether one session alone knows the table.
func (t *TableDesc) Temporary() bool { return t.Locality.Kind == Temporary }

// firstShard is the shard before those of the table.
func (t *TableDesc) firstShard() int { return t.Locality.FirstShard(t.Shards) }

// FirstShard is the shard before those of a table, of so many shards: the shards of asynchronous
// tables lie behind as many others, those of placements behind both, and those that tables have for
// themselves behind these.
func (l Locality) FirstShard(shards int) int {
	if l.Async {
		return shards
	}
	return l.Placed.ShardBefore(shards)
}

// Home is what new rows pass to kv: 0 lets the gateway's region own them.
func (t *TableDesc) Home() base.RegionID {
	if t.Locality.Kind == ByTable {
		return t.Locality.Region
	}
	return 0
}

// ClassFor decides where the entries of a new index live (see the package comment).
func (t *TableDesc) ClassFor(cols []IndexedColumn, c sql.IndexConstraint) indexClass {
	switch {
	case t.Locality.Kind == Global, t.Locality.Kind == MultiMaster, t.Temporary(): // all entries lie beside the rows
		return ClassGlobal
	case len(t.PK) > 0 && cols[0].Col == t.PK[0] && cols[0].Length == 0:
		return ClassLocal
	case c == sql.IndexConstraint_Unique:
		return ClassUnique
	}
	return ClassByHome
}

// Marshal encodes a descriptor; only values made here are passed, so it cannot fail.
func Marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("sql/schema: descriptor cannot be encoded: " + err.Error())
	}
	return b
}

func unmarshal[T any](b []byte, version func(*T) int) (*T, error) {
	v := new(T)
	if err := json.Unmarshal(b, v); err != nil {
		return nil, base.Errorf(base.CodeCorrupt, "catalog row: %v", err)
	}
	if n := version(v); n > NewestVersion {
		return nil, base.Errorf(base.CodeInvalid, "catalog row has format %d, this release reads up to %d: "+
			"upgrade this node", n, NewestVersion)
	}
	return v, nil
}

// Replication is what the statement that sets it says: SYNC or ASYNC.
func (l Locality) Replication() string {
	if l.Async {
		return "ASYNC"
	}
	return "SYNC"
}

// SuccessorDesc describes the successor of a table. It is replaced, never changed.
type SuccessorDesc struct {
	ID       base.TableID `json:"id"`
	Locality Locality     `json:"locality"`
	Shards   int          `json:"shards"`
	Kind     string       `json:"kind"` // the statement
	Node     base.NodeID  `json:"node"` // that copies the rows
	Since    time.Time    `json:"since"`
}

// successor is the descriptor as it will be when the successor has taken the table's place.
func (t *TableDesc) successor() *TableDesc {
	d := t.Clone()
	d.ID, d.Locality, d.Shards, d.Next = t.Next.ID, t.Next.Locality, t.Next.Shards, nil
	for i := range d.Indexes {
		d.Indexes[i].Class = d.ClassFor(d.Indexes[i].Cols, d.Indexes[i].Constraint)
	}
	return d
}

// Check refuses what cannot be.
func (l Locality) Check() error {
	if l.Kind == Global && l.Async {
		return Invalid("GLOBAL tables replicate synchronously: every region writes them")
	}
	if l.Kind == MultiMaster && l.Async {
		return Invalid("MULTI MASTER tables are replicated by epochs: REPLICATION ASYNC does not apply to them")
	}
	if err := l.checkSplit(); err != nil {
		return err
	}
	switch {
	case l.Parts != nil && l.Kind == ByTable:
		return Invalid("rows of a table with PLACEMENT BY live in the regions of their own placements: REGIONAL BY TABLE, which " +
			"is one region, does not apply to it")
	case l.Placed.ID == 0 && l.Parts == nil:
	case l.Kind == Global, l.Kind == MultiMaster:
		return Invalid("GLOBAL and MULTI MASTER tables lie in all regions: they have no placement, and tables with one get no " +
			"such locality (ALTER TABLE ... SET PLACEMENT NONE first)")
	case l.Async:
		return Invalid("tables with a placement replicate synchronously: REPLICATION ASYNC does not apply to them")
	case l.Kind == ByTable && !l.Placed.Allows(l.Region):
		return Invalid("the region of REGIONAL BY TABLE is not in the placement of the table: name one that is, with " +
			"REGIONAL BY TABLE IN 'region' (SHOW PLACEMENTS lists them)")
	}
	return nil
}

// SameName reports whether two names are equal without case.
func SameName(a, b string) bool { return strings.EqualFold(a, b) }
