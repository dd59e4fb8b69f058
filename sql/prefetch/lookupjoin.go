package prefetch

import (
	"io"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/table"
)

// A lookup join asks its inner table once per outer row, which would be a trip
// each. The outer side is therefore read ahead a batch at a time; what the batch will look up
// is fetched together and kept with the inner table until the engine asks for it.

const (
	joinFirst = 16  // outer rows read ahead at first; it grows fourfold
	joinBatch = 512 // at most
	joinSpans = 2048
)

// Join replaces the outer side of a join whose inner side looks tables up; nil leaves it to the
// engine.
func (pl *Planner) Join(ctx *sql.Context, j *plan.JoinNode, row sql.Row) (sql.RowIter, error) {
	if _, done := j.Left().(*outerNode); done {
		return nil, nil
	}
	var inner []*plan.IndexedTableAccess
	var find func(n sql.Node)
	find = func(n sql.Node) {
		switch n := n.(type) {
		case *plan.IndexedTableAccess:
			if !n.IsStatic() && table.Of(n.Table) != nil {
				inner = append(inner, n)
			}
		case *plan.JoinNode:
			find(n.Left()) // its right side sees more columns; it is replaced on its own
		case *plan.Filter, *plan.TableAlias, *plan.Project:
			find(n.Children()[0])
		}
	}
	find(j.Right())
	if len(inner) == 0 {
		return nil, nil
	}
	nj, err := j.WithChildren(ctx, &outerNode{Node: j.Left(), inner: inner}, j.Right())
	if err != nil {
		return nil, err
	}
	return pl.base.ExecBuilder.Build(ctx, nj, row)
}

// outerNode is the outer side of a join that looks tables up.
type outerNode struct {
	sql.Node
	inner []*plan.IndexedTableAccess
}

var _ sql.ExecBuilderNode = (*outerNode)(nil)

// BuildRowIter implements sql.ExecBuilderNode.
func (o *outerNode) BuildRowIter(ctx *sql.Context, b sql.NodeExecBuilder, parent sql.Row) (sql.RowIter, error) {
	it, err := b.Build(ctx, o.Node, parent)
	if err != nil {
		return nil, err
	}
	return &outerIter{RowIter: it, inner: o.inner, parent: parent, left: len(o.Node.Schema(ctx)), size: joinFirst}, nil
}

// outerIter reads outer rows ahead and has the inner rows fetched.
type outerIter struct {
	sql.RowIter
	inner  []*plan.IndexedTableAccess
	parent sql.Row
	left   int
	size   int
	rows   []sql.Row
	end    error
}

// Next implements sql.RowIter.
func (o *outerIter) Next(ctx *sql.Context) (sql.Row, error) {
	if len(o.rows) == 0 {
		if o.end != nil {
			return nil, o.end
		}
		if err := o.fill(ctx); err != nil {
			return nil, err
		}
	}
	if len(o.rows) == 0 {
		return nil, o.end
	}
	row := o.rows[0]
	o.rows = o.rows[1:]
	return row, nil
}

func (o *outerIter) fill(ctx *sql.Context) error {
	for len(o.rows) < o.size {
		row, err := o.RowIter.Next(ctx)
		if err != nil {
			o.end = err
			if err != io.EOF && len(o.rows) == 0 {
				return err
			}
			break
		}
		o.rows = append(o.rows, row)
	}
	o.size = min(4*o.size, joinBatch)
	for _, ita := range o.inner {
		p := newPrefetch(table.Of(ita.Table))
		for _, row := range o.rows {
			full := make(sql.Row, len(o.parent), len(o.parent)+o.left)
			copy(full, o.parent)
			full = append(full, row[len(row)-o.left:]...)
			l, in, err := ita.GetLookup(ctx, full)
			if err != nil {
				break // the join itself will report it, if it gets there
			}
			if in {
				p.add(ctx, l)
			}
		}
		if err := p.fetch(ctx); err != nil {
			return err
		}
	}
	return nil
}

// pre are lookups of one table that are fetched together.
type pre struct {
	st    *table.Table
	x     *schema.EngineIndex
	want  []schema.KeyRange
	names []string
	seen  map[string]bool
}

func newPrefetch(st *table.Table) *pre { return &pre{st: st, seen: map[string]bool{}} }

func (p *pre) add(ctx *sql.Context, l sql.IndexLookup) {
	i, ok := l.Index.(*schema.EngineIndex)
	ranges, rok := l.Ranges.(sql.MySQLRangeCollection)
	if !ok || !rok || len(ranges) != 1 || i.Index != nil && !i.Index.Desc.Stored() || p.x != nil && p.x != i {
		return
	}
	k, err := i.KeyRangeOf(ctx, ranges[0])
	if err != nil || k.Empty || k.Loose {
		return
	}
	p.x = i
	n := schema.LookupName(i, k)
	if !p.seen[n] {
		p.seen[n] = true
		p.want, p.names = append(p.want, k), append(p.names, n)
	}
}

// fetch reads all rows asked for and leaves them with the table.
func (p *pre) fetch(ctx *sql.Context) error {
	p.st.Access.Fetched = nil
	if len(p.want) == 0 {
		return nil
	}
	src, err := p.st.Open(ctx)
	if err != nil {
		return err
	}
	src.Index = p.x.Index
	got := make(map[string][]sql.Row, len(p.want))
	for _, n := range p.names {
		got[n] = nil
	}
	var keys []base.Key // of points, one per name
	var names []string
	var spans []base.Span
	var owners []string
	flush := func() error {
		if err := p.points(ctx, src, keys, names, got); err != nil {
			return err
		}
		if err := p.ranges(ctx, src, spans, owners, got); err != nil {
			return err
		}
		keys, names, spans, owners = nil, nil, nil, nil
		return nil
	}
	for j, k := range p.want {
		if k.Point && p.x.IsUnique() {
			keys, names = append(keys, p.x.PointKey(k)), append(names, p.names[j])
			continue
		}
		for _, s := range p.x.Spans(p.st.Env.DB.Topology().Regions, k) {
			spans, owners = append(spans, s), append(owners, p.names[j])
		}
		if len(spans) >= joinSpans {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if err := flush(); err != nil {
		return err
	}
	p.st.Access.Fetched = got
	return nil
}

// points reads keys that have one row at most.
func (p *pre) points(ctx *sql.Context, src *table.Source, keys []base.Key, names []string, got map[string][]sql.Row) error {
	for len(keys) > 0 {
		n := min(len(keys), table.GetBatch)
		rows, err := src.Get(ctx, keys[:n])
		if err != nil {
			return err
		}
		if err := p.keep(ctx, src, rows, names[:n], got); err != nil {
			return err
		}
		keys, names = keys[n:], names[n:]
	}
	return nil
}

// ranges reads spans; rows come span by span in the order given.
func (p *pre) ranges(ctx *sql.Context, src *table.Source, spans []base.Span, owners []string, got map[string][]sql.Row) error {
	if len(spans) == 0 {
		return nil
	}
	req := &kv.ScanRequest{Spans: spans, Lock: src.Take, MaxBytes: table.BatchBytes}
	at := 0
	for req != nil {
		res, err := src.KV.Scan(src.Kvctx(ctx), *req)
		if err != nil {
			return src.Txn.Fail(err)
		}
		names := make([]string, len(res.Rows))
		for i, r := range res.Rows {
			for at < len(spans) && !spans[at].Contains(r.Key) {
				at++
			}
			if at == len(spans) {
				return schema.ClientError(base.Errorf(base.CodeCorrupt, "a scan returned a row outside of its spans"))
			}
			names[i] = owners[at]
		}
		if err := p.keep(ctx, src, res.Rows, names, got); err != nil {
			return err
		}
		req = res.Next
	}
	return nil
}

// keep decodes rows, after it has read those that index entries name, and gives them to their
// lookups.
func (p *pre) keep(ctx *sql.Context, src *table.Source, rows []kv.Row, names []string, got map[string][]sql.Row) error {
	if src.Index != nil {
		full := make([]kv.Row, len(rows))
		var keys []base.Key
		var at []int
		for i, e := range rows {
			if e.Value == nil {
				continue
			}
			ref, err := src.Index.EntryRef(e.Key, e.Value)
			if err != nil {
				return schema.ClientError(err)
			}
			keys, at = append(keys, p.st.Def.RowKey(ref)), append(at, i)
		}
		for len(keys) > 0 {
			n := min(len(keys), table.GetBatch)
			got, err := src.Get(ctx, keys[:n])
			if err != nil {
				return err
			}
			for j, r := range got {
				full[at[j]] = r
			}
			keys, at = keys[n:], at[n:]
		}
		rows = full
	}
	for i, r := range rows {
		if r.Value == nil {
			continue
		}
		if err := src.Decode(ctx, []kv.Row{r}); err != nil {
			return err
		}
		got[names[i]] = append(got[names[i]], src.Buf...)
		src.Buf = src.Buf[:0:0]
	}
	return nil
}
