package table

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/schema"
)

// HomesSuffix ends the name of the table t__homes, which stands beside every table t and shows
// where its rows live: the primary key (row_id where there is none), home_region, pinned,
// home_changes and changed_at. Setting home_region moves rows; setting pinned keeps the policy of
// homes from moving them:
//
//	SELECT c.name, h.home_region FROM customers c JOIN customers__homes h USING (id)
//	UPDATE customers__homes SET home_region = 'eu', pinned = TRUE WHERE id = 7
const HomesSuffix = "__homes"

// The columns behind the key.
const (
	homesRegion = iota
	homesPinned
	homesChanges
	homesChanged
	homesColumns
)

// HomesOf is the table that shows the homes of another one's rows.
func HomesOf(t *schema.Table) (*schema.Table, error) {
	d := &schema.TableDesc{V: t.Desc.V, ID: t.Desc.ID, DB: t.Desc.DB, Name: t.Desc.Name + HomesSuffix,
		Collation: t.Desc.Collation,
		Locality:  t.Desc.Locality, Shards: t.Desc.Shards, Comment: "where the rows of " + t.Desc.Name + " live"}
	h := &schema.Table{Desc: d, Key: t.Key, TS: t.TS, HomesOf: t}
	h.PartsOf(t, slices.Index(t.PK, t.PartCol()))
	for _, p := range t.PK {
		h.Cols = append(h.Cols, t.Cols[p])
	}
	extra := []schema.ColumnDesc{{Name: "home_region", Type: "varchar(64)", Collation: sql.Collation_Default},
		{Name: "pinned", Type: "tinyint(1)"},
		{Name: "home_changes", Type: "int unsigned"}, {Name: "changed_at", Type: "datetime(6)"}}
	if len(t.PK) == 0 {
		extra = append([]schema.ColumnDesc{{Name: "row_id", Type: "bigint unsigned"}}, extra...)
	}
	for i := range extra {
		c, err := schema.NewColumn(&extra[i])
		if err != nil {
			return nil, err
		}
		h.Cols = append(h.Cols, c)
	}
	for i, c := range h.Cols {
		d.Cols = append(d.Cols, *c.Desc)
		if i < len(h.Cols)-homesColumns {
			h.PK = append(h.PK, i)
		}
	}
	return h, nil
}

// HomesRow is a row of t__homes, of the row of t that was read.
func (g *Env) HomesRow(ctx context.Context, h *schema.Table, kr kv.Row) (sql.Row, error) {
	row := make(sql.Row, 0, len(h.Cols))
	if len(h.HomesOf.PK) == 0 {
		id, _, err := base.TakeUint64(schema.RefOfKey(kr.Key).PK)
		if err != nil {
			return nil, base.Errorf(base.CodeCorrupt, "row id of %v cannot be decoded: %v", kr.Key, err)
		}
		row = append(row, id)
	} else {
		full := make(sql.Row, len(h.HomesOf.Cols))
		if err := h.HomesOf.DecodeCols(ctx, kr.Value, full, nil); err != nil {
			return nil, err
		}
		for _, p := range h.HomesOf.PK {
			row = append(row, full[p])
		}
	}
	pinned := int8(0)
	if kr.Label.Pinned() {
		pinned = 1
	}
	return append(row, g.DB.Topology().RegionName(kr.Home), pinned, uint32(kr.Label.Changes()), kr.TS.Time().UTC()), nil
}

// HomesTable is t__homes as one statement sees it: it can be read and updated, nothing else.
type HomesTable struct{ st *Table }

// Stored is the table that is read for it.
func (t *HomesTable) Stored() *Table { return t.st }

// homesIndexed is the same read by primary key.
type homesIndexed struct {
	*HomesTable
	in *Indexed
}

var (
	_ sql.ProjectedTable        = (*HomesTable)(nil)
	_ sql.IndexAddressableTable = (*HomesTable)(nil)
	_ sql.UpdatableTable        = (*HomesTable)(nil)
	_ sql.PrimaryKeyTable       = (*HomesTable)(nil)
	_ sql.CommentedTable        = (*HomesTable)(nil)
	_ sql.Databaseable          = (*HomesTable)(nil)
	_ sql.IndexedTable          = (*homesIndexed)(nil)
)

// HomesTable is t__homes if the name asks for it and t exists.
func (g *Env) HomesTable(db *schema.Database, name string) (sql.Table, error) {
	base, ok := strings.CutSuffix(name, HomesSuffix)
	t := db.Tables[base]
	if !ok || t == nil || t.Desc.Locality.Kind == schema.Global || t.Desc.Locality.Kind == schema.MultiMaster ||
		t.Desc.Temporary() {
		return nil, nil
	}
	h, err := HomesOf(t)
	if err != nil {
		return nil, err
	}
	return &HomesTable{New(g, h)}, nil
}

// Name implements sql.Table.
func (t *HomesTable) Name() string { return t.st.Name() }

// String implements sql.Table: the name.
func (t *HomesTable) String() string { return t.st.String() }

// Database implements sql.Databaseable.
func (t *HomesTable) Database() string { return t.st.Database() }

// Comment implements sql.CommentedTable.
func (t *HomesTable) Comment() string { return t.st.Comment() }

// Collation implements sql.Table.
func (t *HomesTable) Collation() sql.CollationID { return t.st.Collation() }

// Schema implements sql.Table: the columns that the statement reads.
func (t *HomesTable) Schema(ctx *sql.Context) sql.Schema { return t.st.Schema(ctx) }

// Projections implements sql.ProjectedTable: the columns that the statement reads, nil for all.
func (t *HomesTable) Projections() []string { return t.st.Projections() }

// PreciseMatch implements sql.IndexAddressable: a read by key gives no row outside of the keys
// asked for.
func (t *HomesTable) PreciseMatch() bool { return true }

// GetIndexes implements sql.IndexAddressable.
func (t *HomesTable) GetIndexes(ctx *sql.Context) ([]sql.Index, error) { return t.st.GetIndexes(ctx) }

// PrimaryKeySchema implements sql.PrimaryKeyTable.
func (t *HomesTable) PrimaryKeySchema(ctx *sql.Context) sql.PrimaryKeySchema {
	return t.st.PrimaryKeySchema(ctx)
}

// WithProjections implements sql.ProjectedTable.
func (t *HomesTable) WithProjections(ctx *sql.Context, names []string) (sql.Table, error) {
	c, err := t.st.WithProjections(ctx, names)
	if err != nil {
		return nil, err
	}
	return &HomesTable{c.(*Table)}, nil
}

// Partitions implements sql.Table.
func (t *HomesTable) Partitions(ctx *sql.Context) (sql.PartitionIter, error) {
	return t.st.Partitions(ctx)
}

// PartitionRows implements sql.Table.
func (t *HomesTable) PartitionRows(ctx *sql.Context, p sql.Partition) (sql.RowIter, error) {
	return t.st.PartitionRows(ctx, p)
}

// IndexedAccess implements sql.IndexAddressable.
func (t *HomesTable) IndexedAccess(ctx *sql.Context, l sql.IndexLookup) sql.IndexedTable {
	return &homesIndexed{t, t.st.IndexedAccess(ctx, l).(*Indexed)}
}

// LookupPartitions implements sql.IndexedTable.
func (t *homesIndexed) LookupPartitions(ctx *sql.Context, l sql.IndexLookup) (sql.PartitionIter, error) {
	return t.in.LookupPartitions(ctx, l)
}

// WithProjections keeps the lookup.
func (t *homesIndexed) WithProjections(ctx *sql.Context, names []string) (sql.Table, error) {
	c, err := t.HomesTable.WithProjections(ctx, names)
	if err != nil {
		return nil, err
	}
	h := c.(*HomesTable)
	return &homesIndexed{h, &Indexed{h.st, t.in.lookup}}, nil
}

// Updater implements sql.UpdatableTable.
func (t *HomesTable) Updater(ctx *sql.Context) sql.RowUpdater {
	return &homesEditor{e: t.st.Editor(ctx), h: t.st.Def}
}

// homesEditor moves and pins the rows of a statement.
type homesEditor struct {
	e *Editor // for the transaction and the statement's savepoint
	h *schema.Table
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
	if e.e.Err != nil {
		return e.e.Err
	}
	if err := e.e.ready(ctx, row); err != nil {
		return err
	}
	to, opts, err := e.wish(ctx, old, row)
	if err != nil {
		return err
	}
	kr, err := e.located(ctx, row)
	if err != nil || kr.Value == nil {
		return err
	}
	if err := e.h.HomesOf.MoveRow(ctx, e.e.Txn.KV, kr, to, opts); err != nil {
		return schema.ClientError(err)
	}
	return e.follow(ctx, kr, to, opts)
}

// wish is what an update asks for: the new home, and whether the row is pinned to it.
func (e *homesEditor) wish(ctx *sql.Context, old, row sql.Row) (to base.RegionID, opts kv.MoveOptions, err error) {
	n := len(e.h.PK)
	for i, c := range e.h.Cols {
		if i == n+homesRegion || i == n+homesPinned {
			continue
		}
		if cmp, err := c.Type.Compare(ctx, old[i], row[i]); err != nil || cmp != 0 {
			return 0, opts, schema.Invalid(fmt.Sprintf("column %s of %s cannot be changed: set home_region or pinned",
				c.Desc.Name, e.h.Desc.Name))
		}
	}
	region, err := types.ConvertToString(ctx, row[n+homesRegion], types.LongText, nil)
	if err != nil || row[n+homesRegion] == nil {
		return 0, opts, schema.Invalid("home_region must name a region: SHOW REGIONS lists them")
	}
	if to = e.e.Env.DB.Topology().HomeByName(region); to == 0 {
		return 0, opts, schema.Invalid("there is no region '" + region + "': SHOW REGIONS lists them")
	}
	if h := e.h.HomesOf.Desc.Home(); h != 0 && h != to {
		return 0, opts, schema.Invalid(fmt.Sprintf("the rows of table %[1]s live in one region as its locality says: "+
			"ALTER TABLE %[1]s SET LOCALITY REGIONAL BY ROW first", e.h.HomesOf.Desc.Name))
	}
	ref, err := e.h.RefOf(ctx, old)
	if err != nil {
		return 0, opts, schema.ClientError(err)
	}
	if !e.h.HomesOf.PlacedAt(ref.Shard).Allows(to) {
		return 0, opts, schema.Invalid("region '" + region + "' is not in the placement of the row of table " +
			e.h.HomesOf.Desc.Name + ": SHOW PLACEMENTS lists its regions")
	}
	opts.Pin = kv.PinOff
	on, err := sql.ConvertToBool(ctx, row[n+homesPinned])
	if on {
		opts.Pin = kv.PinOn
	}
	return to, opts, err
}

// located is the row that a row of t__homes tells about, under an exclusive lock.
func (e *homesEditor) located(ctx *sql.Context, row sql.Row) (kv.Row, error) {
	ref, err := e.h.RefOf(ctx, row)
	if err != nil {
		return kv.Row{}, schema.ClientError(err)
	}
	key := e.h.RowKey(ref)
	if kr, ok := e.e.Txn.Located[string(key)]; ok {
		return kr, nil
	}
	rows, err := e.e.Txn.KV.Get(kv.WithQuiet(e.e.Txn.Session.KVContext(ctx)), []base.Key{key}, kv.LockExclusive)
	if err != nil {
		return kv.Row{}, e.e.Txn.Fail(err)
	}
	return rows[0], nil
}

// follow does the same to the row in the table's successor, if it is there already.
func (e *homesEditor) follow(ctx *sql.Context, kr kv.Row, to base.RegionID, opts kv.MoveOptions) error {
	n := e.h.HomesOf.Next
	if n == nil || n.Desc.Locality.Kind != schema.ByRow {
		return nil
	}
	keys, err := n.KeysOf(ctx, []kv.Row{kr})
	if err != nil {
		return schema.ClientError(err)
	}
	if !n.PlacedAt(keys[0].Shard()).Allows(to) {
		return nil
	}
	rows, err := e.e.Txn.KV.Get(kv.WithQuiet(e.e.Txn.Session.KVContext(ctx)), keys, kv.LockExclusive)
	if err != nil {
		return e.e.Txn.Fail(err)
	}
	if rows[0].Value == nil {
		return nil
	}
	return schema.ClientError(n.MoveRow(ctx, e.e.Txn.KV, rows[0], to, opts))
}
