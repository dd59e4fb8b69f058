package sqlfront

import (
	"context"
	"fmt"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// Beside every table t there is t__homes, which shows where its rows live: the primary key (row_id where
// there is none), home_region, pinned, home_changes and changed_at. Setting home_region moves rows, setting pinned
// keeps the policy of homes from moving them:
//
//	SELECT c.name, h.home_region FROM customers c JOIN customers__homes h USING (id)
//	UPDATE customers__homes SET home_region = 'eu', pinned = TRUE WHERE id = 7
const homesSuffix = "__homes"

// The columns behind the key.
const (
	homesRegion = iota
	homesPinned
	homesChanges
	homesChanged
	homesColumns
)

// homesOf is the table that shows the homes of another one's rows.
func homesOf(t *table) (*table, error) {
	d := &tableDesc{V: t.desc.V, ID: t.desc.ID, DB: t.desc.DB, Name: t.desc.Name + homesSuffix, Collation: t.desc.Collation,
		Locality: t.desc.Locality, Shards: t.desc.Shards, Comment: "where the rows of " + t.desc.Name + " live"}
	h := &table{desc: d, key: t.key, ts: t.ts, of: t}
	for _, p := range t.pk {
		h.cols = append(h.cols, t.cols[p])
	}
	extra := []columnDesc{{Name: "home_region", Type: "varchar(64)", Collation: sql.Collation_Default}, {Name: "pinned", Type: "tinyint(1)"},
		{Name: "home_changes", Type: "int unsigned"}, {Name: "changed_at", Type: "datetime(6)"}}
	if len(t.pk) == 0 {
		extra = append([]columnDesc{{Name: "row_id", Type: "bigint unsigned"}}, extra...)
	}
	for i := range extra {
		c, err := newColumn(&extra[i])
		if err != nil {
			return nil, err
		}
		h.cols = append(h.cols, c)
	}
	for i, c := range h.cols {
		d.Cols = append(d.Cols, *c.desc)
		if i < len(h.cols)-homesColumns {
			h.pk = append(h.pk, i)
		}
	}
	return h, nil
}

// homesRow is a row of t__homes.
func (g *gateway) homesRow(ctx context.Context, h *table, kr kv.Row) (sql.Row, error) {
	row := make(sql.Row, 0, len(h.cols))
	if len(h.of.pk) == 0 {
		id, _, err := base.TakeUint64(refOfKey(kr.Key).pk)
		if err != nil {
			return nil, base.Errorf(base.CodeCorrupt, "row id of %v cannot be decoded: %v", kr.Key, err)
		}
		row = append(row, id)
	} else {
		full := make(sql.Row, len(h.of.cols))
		if err := h.of.decodeCols(ctx, kr.Value, full, nil); err != nil {
			return nil, err
		}
		for _, p := range h.of.pk {
			row = append(row, full[p])
		}
	}
	pinned := int8(0)
	if kr.Label.Pinned() {
		pinned = 1
	}
	return append(row, g.db.Topology().RegionName(kr.Home), pinned, uint32(kr.Label.Changes()), kr.TS.Time().UTC()), nil
}

// homesTable is t__homes as one statement sees it: it can be read and updated, nothing else.
type homesTable struct{ st *sqlTable }

// homesIndexed is the same read by primary key.
type homesIndexed struct {
	*homesTable
	in *indexedTable
}

var (
	_ sql.ProjectedTable        = (*homesTable)(nil)
	_ sql.IndexAddressableTable = (*homesTable)(nil)
	_ sql.UpdatableTable        = (*homesTable)(nil)
	_ sql.PrimaryKeyTable       = (*homesTable)(nil)
	_ sql.CommentedTable        = (*homesTable)(nil)
	_ sql.Databaseable          = (*homesTable)(nil)
	_ sql.IndexedTable          = (*homesIndexed)(nil)
)

// homesTableOf is t__homes if the name asks for it and t exists.
func (g *gateway) homesTableOf(db *database, name string) (sql.Table, error) {
	base, ok := strings.CutSuffix(name, homesSuffix)
	t := db.tables[base]
	if !ok || t == nil || t.desc.Locality.Kind == global || t.desc.Locality.Kind == multi {
		return nil, nil
	}
	h, err := homesOf(t)
	if err != nil {
		return nil, err
	}
	return &homesTable{newSQLTable(g, h)}, nil
}

func (t *homesTable) Name() string                                     { return t.st.Name() }
func (t *homesTable) String() string                                   { return t.st.String() }
func (t *homesTable) Database() string                                 { return t.st.Database() }
func (t *homesTable) Comment() string                                  { return t.st.Comment() }
func (t *homesTable) Collation() sql.CollationID                       { return t.st.Collation() }
func (t *homesTable) Schema(ctx *sql.Context) sql.Schema               { return t.st.Schema(ctx) }
func (t *homesTable) Projections() []string                            { return t.st.Projections() }
func (t *homesTable) PreciseMatch() bool                               { return true }
func (t *homesTable) GetIndexes(ctx *sql.Context) ([]sql.Index, error) { return t.st.GetIndexes(ctx) }

// PrimaryKeySchema implements sql.PrimaryKeyTable.
func (t *homesTable) PrimaryKeySchema(ctx *sql.Context) sql.PrimaryKeySchema {
	return t.st.PrimaryKeySchema(ctx)
}

// WithProjections implements sql.ProjectedTable.
func (t *homesTable) WithProjections(ctx *sql.Context, names []string) (sql.Table, error) {
	c, err := t.st.WithProjections(ctx, names)
	if err != nil {
		return nil, err
	}
	return &homesTable{c.(*sqlTable)}, nil
}

// Partitions implements sql.Table.
func (t *homesTable) Partitions(ctx *sql.Context) (sql.PartitionIter, error) {
	return t.st.Partitions(ctx)
}

// PartitionRows implements sql.Table.
func (t *homesTable) PartitionRows(ctx *sql.Context, p sql.Partition) (sql.RowIter, error) {
	return t.st.PartitionRows(ctx, p)
}

// IndexedAccess implements sql.IndexAddressable.
func (t *homesTable) IndexedAccess(ctx *sql.Context, l sql.IndexLookup) sql.IndexedTable {
	return &homesIndexed{t, t.st.IndexedAccess(ctx, l).(*indexedTable)}
}

// LookupPartitions implements sql.IndexedTable.
func (t *homesIndexed) LookupPartitions(ctx *sql.Context, l sql.IndexLookup) (sql.PartitionIter, error) {
	return t.in.LookupPartitions(ctx, l)
}

// WithProjections keeps the lookup.
func (t *homesIndexed) WithProjections(ctx *sql.Context, names []string) (sql.Table, error) {
	c, err := t.homesTable.WithProjections(ctx, names)
	if err != nil {
		return nil, err
	}
	h := c.(*homesTable)
	return &homesIndexed{h, &indexedTable{h.st, t.in.lookup}}, nil
}

// Updater implements sql.UpdatableTable.
func (t *homesTable) Updater(ctx *sql.Context) sql.RowUpdater {
	return &homesEditor{e: t.st.editor(ctx), h: t.st.t}
}

// homesEditor moves and pins the rows of a statement.
type homesEditor struct {
	e *editor // for the transaction and the statement's savepoint
	h *table
}

// StatementBegin implements sql.EditOpenerCloser.
func (e *homesEditor) StatementBegin(ctx *sql.Context) { e.e.StatementBegin(ctx) }

// DiscardChanges implements sql.EditOpenerCloser.
func (e *homesEditor) DiscardChanges(ctx *sql.Context, err error) error {
	return e.e.DiscardChanges(ctx, err)
}

// StatementComplete implements sql.EditOpenerCloser.
func (e *homesEditor) StatementComplete(ctx *sql.Context) error { return e.e.StatementComplete(ctx) }

// Close implements sql.Closer.
func (e *homesEditor) Close(ctx *sql.Context) error { return e.e.Close(ctx) }

// Update implements sql.RowUpdater.
func (e *homesEditor) Update(ctx *sql.Context, old, row sql.Row) error {
	if e.e.err != nil {
		return e.e.err
	}
	if err := e.e.ready(ctx, row); err != nil {
		return err
	}
	n := len(e.h.pk)
	for i, c := range e.h.cols {
		if i == n+homesRegion || i == n+homesPinned {
			continue
		}
		if cmp, err := c.typ.Compare(ctx, old[i], row[i]); err != nil || cmp != 0 {
			return invalid(fmt.Sprintf("column %s of %s cannot be changed: set home_region or pinned", c.desc.Name, e.h.desc.Name))
		}
	}
	region, err := types.ConvertToString(ctx, row[n+homesRegion], types.LongText, nil)
	if err != nil || row[n+homesRegion] == nil {
		return invalid("home_region must name a region: SHOW REGIONS lists them")
	}
	to := e.e.g.db.Topology().RegionByName(region)
	if to == 0 {
		return invalid("there is no region '" + region + "': SHOW REGIONS lists them")
	}
	if h := e.h.of.desc.home(); h != 0 && h != to {
		return invalid(fmt.Sprintf("the rows of table %s live in one region as its locality says: ALTER TABLE %s SET LOCALITY REGIONAL BY ROW first", e.h.of.desc.Name, e.h.of.desc.Name))
	}
	opts := kv.MoveOptions{Pin: kv.PinOff}
	if on, err := sql.ConvertToBool(ctx, row[n+homesPinned]); err != nil {
		return err
	} else if on {
		opts.Pin = kv.PinOn
	}
	ref, err := e.h.refOf(ctx, row)
	if err != nil {
		return clientError(err)
	}
	key := e.h.rowKey(ref)
	kr, ok := e.e.tx.located[string(key)]
	if !ok {
		rows, err := e.e.tx.kv.Get(kv.WithQuiet(e.e.tx.s.kvctx(ctx)), []base.Key{key}, kv.LockExclusive)
		if err != nil {
			return e.e.tx.fail(err)
		}
		kr = rows[0]
	}
	if kr.Value == nil {
		return nil
	}
	if err := e.h.of.moveRow(ctx, e.e.tx.kv, kr, to, opts); err != nil {
		return clientError(err)
	}
	return e.follow(ctx, kr, to, opts)
}

// follow does the same to the row in the table's successor, if it is there already.
func (e *homesEditor) follow(ctx *sql.Context, kr kv.Row, to base.RegionID, opts kv.MoveOptions) error {
	n := e.h.of.next
	if n == nil || n.desc.Locality.Kind != byRow {
		return nil
	}
	keys, err := n.keysOf(ctx, []kv.Row{kr})
	if err != nil {
		return clientError(err)
	}
	rows, err := e.e.tx.kv.Get(kv.WithQuiet(e.e.tx.s.kvctx(ctx)), keys, kv.LockExclusive)
	if err != nil {
		return e.e.tx.fail(err)
	}
	if rows[0].Value == nil {
		return nil
	}
	return clientError(n.moveRow(ctx, e.e.tx.kv, rows[0], to, opts))
}

// moveRow makes a region the home of a row, which is read under an exclusive
// lock, and of its index entries: those keyed by home are written anew, the others move as they are.
func (t *table) moveRow(ctx context.Context, tx kv.Txn, kr kv.Row, to base.RegionID, opts kv.MoveOptions) error {
	row := make(sql.Row, len(t.cols))
	if err := t.decodeRow(ctx, kr.Value, row); err != nil {
		return err
	}
	ref := refOfKey(kr.Key)
	if t.byHome() {
		opts.Soft = false // entries and row move together or not at all
	}
	entry := kv.MoveOptions{Soft: opts.Soft, Reason: opts.Reason}
	if kr.Home != to {
		for _, x := range t.indexes {
			if !x.desc.stored() || x.desc.Class == classGlobal {
				continue
			}
			k, _, err := t.indexEntry(ctx, x, row, ref, kr.Home)
			if err != nil {
				return err
			}
			if x.desc.Class != classByHome {
				tx.Move(k, to, entry)
				continue
			}
			nk, nv, err := t.indexEntry(ctx, x, row, ref, to)
			if err != nil {
				return err
			}
			tx.Delete(k)
			tx.Put(nk, nv, to)
		}
	}
	tx.Move(kr.Key, to, opts)
	return nil
}

// MoveRow is what a txn.Mover needs to move rows of tables: it adds index entries to the move, and holds
// the table's schema until the transaction commits. Rows of tables that are homed as a whole stay.
func (s *Server) MoveRow(ctx context.Context, tx kv.Txn, kr kv.Row, to base.RegionID, opts kv.MoveOptions) error {
	snap, err := s.g.catalog.current(ctx)
	if err != nil {
		return err
	}
	t := snap.byID[kr.Key.Table()]
	if t == nil || t.desc.home() != 0 || kr.Key.Index() != 0 {
		return nil
	}
	tx.Pin(max(t.ts, snap.at), t.key)
	return t.moveRow(ctx, tx, kr, to, opts)
}

// TableName names the table that a row belongs to; empty if this node does not know it.
func (s *Server) TableName(key base.Key) string {
	if snap := s.g.catalog.snap.Load(); snap != nil && snap.byID[key.Table()] != nil {
		d := snap.byID[key.Table()].desc
		return d.DB + "." + d.Name
	}
	return ""
}

// RowName is a row's table and primary key, for people: where a key does not hold a column's value,
// but only how it sorts, its bytes.
func (s *Server) RowName(key base.Key) string {
	snap := s.g.catalog.snap.Load()
	if snap == nil || snap.byID[key.Table()] == nil || key.Index() != 0 {
		return key.String()
	}
	t := snap.byID[key.Table()]
	rest := refOfKey(key).pk
	var parts []string
	for _, p := range t.pk {
		v, tail, ok := t.cols[p].takeKey(rest)
		if !ok {
			break
		}
		parts, rest = append(parts, v), tail
	}
	if len(t.pk) == 0 {
		if id, tail, err := base.TakeUint64(rest); err == nil {
			parts, rest = append(parts, fmt.Sprintf("row %d", id)), tail
		}
	}
	if len(rest) > 0 {
		parts = append(parts, fmt.Sprintf("%x", rest))
	}
	return fmt.Sprintf("%s.%s(%s)", t.desc.DB, t.desc.Name, strings.Join(parts, ", "))
}

// takeKey reads a value of the column from a key, if keys hold it.
func (c *column) takeKey(k []byte) (text string, rest []byte, ok bool) {
	switch c.kind {
	case kindInt:
		v, rest, err := base.TakeInt64(k)
		return fmt.Sprint(v), rest, err == nil
	case kindUint:
		v, rest, err := base.TakeUint64(k)
		return fmt.Sprint(v), rest, err == nil
	case kindString:
		if c.bin {
			v, rest, err := base.TakeBytes(k)
			return "'" + string(v) + "'", rest, err == nil
		}
	}
	return "", k, false
}

// Movable reports whether the policy may move a key: rows of tables that are REGIONAL BY ROW. Index
// entries follow their rows.
func (s *Server) Movable(key base.Key) bool {
	kind, ok := s.localityOf(key)
	return ok && key.Index() == 0 && kind == byRow
}

// Whole reports whether a key is of a table that is REGIONAL BY TABLE.
func (s *Server) Whole(key base.Key) bool {
	kind, ok := s.localityOf(key)
	return ok && kind == byTable
}

// localityOf is how the rows of a key's table are homed, if this node knows the table.
func (s *Server) localityOf(key base.Key) (kind localityKind, ok bool) {
	if snap := s.g.catalog.snap.Load(); snap != nil {
		if t := snap.byID[key.Table()]; t != nil {
			return t.desc.Locality.Kind, true
		}
	}
	return "", false
}
