// Package recorded makes the file of what a cluster's clients have done lately, for `godwit
// whatif`: what all nodes have kept of statements (package recording), the definitions of tables,
// programs and placements, and rows, with other literals than there are.
package recorded

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/ddl/placing"
	"github.com/godwitdb/godwit/sql/describe"
	"github.com/godwitdb/godwit/sql/recording"
	"github.com/godwitdb/godwit/sql/schema"
)

// Path serves the file to administrators.
const Path = "/debug/recording"

// Ask is what nodes ask each other for: a [Node], packed.
const Ask = "recording"

const (
	// maxRows is how many rows of a table are in the file, and maxRead how many of it are looked
	// at, for those that statements name.
	maxRows = 2000
	maxRead = 50_000
	// maxUnpacked bounds what is believed of another node, in bytes.
	maxUnpacked = 64 << 20
)

// Node is what a node has kept.
type Node struct {
	Node  base.NodeID     `json:"node"`
	Taken recording.Taken `json:"taken"`
}

// Pack is a Node as it is sent.
func (n *Node) Pack() ([]byte, error) {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err := json.NewEncoder(w).Encode(n); err != nil {
		return nil, err
	}
	err := w.Close()
	return b.Bytes(), err
}

// Unpack reads what Pack has made.
func Unpack(b []byte) (n Node, err error) {
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return n, err
	}
	return n, json.NewDecoder(io.LimitReader(r, maxUnpacked)).Decode(&n)
}

// Sources are what a file is made from, besides what nodes have kept.
type Sources struct {
	DB       kv.DB
	Schema   *schema.Snapshot
	Topology *base.Topology // with the regions that have nodes
	// Between is the round trip between two regions; not positive: it is not known.
	Between  func(a, b base.RegionID) time.Duration
	Settings map[string]string
	// Since bounds how old a snapshot may be that is read: rows that were deleted before it are
	// missing.
	Since time.Time
}

// File makes the file.
func (s *Sources) File(ctx context.Context, nodes []Node) (*recording.File, error) {
	t := s.Topology
	f := &recording.File{Version: recording.FileVersion, At: time.Now().UTC(), Shards: t.Shards, Settings: s.Settings}
	if t.Concurrency != base.Locking {
		f.Concurrency = t.Concurrency.String()
	}
	places := map[base.RegionID]int{}
	for i, r := range t.Regions {
		places[r.ID] = i
		f.Regions = append(f.Regions, recording.Region{Name: r.Name, Nodes: len(t.NodesIn(r.ID))})
		row := make([]float64, len(t.Regions))
		for j, o := range t.Regions {
			if i == j {
				continue
			}
			d := s.Between(r.ID, o.ID)
			if d <= 0 {
				return nil, base.Errorf(base.CodeUnavailable, "the round trip from %s to %s is not known yet: try again", r.Name, o.Name)
			}
			row[j] = float64(d) / float64(time.Millisecond)
		}
		f.RTT = append(f.RTT, row)
	}
	var parts []recording.Part
	for _, n := range nodes {
		if at, ok := places[t.RegionOf(n.Node)]; ok {
			parts = append(parts, recording.Part{Region: at, Taken: n.Taken})
		}
	}
	named, err := namedBy(parts)
	if err != nil {
		return nil, err
	}
	began, err := beganAt(parts)
	if err != nil {
		return nil, err
	}
	tables, err := s.tables(ctx, named, began)
	if err != nil {
		return nil, err
	}
	if f.Placements, err = s.placements(); err != nil {
		return nil, err
	}
	return f, f.Build(parts, tables, s.programs())
}

// namedBy are the values of the literals of all statements.
func namedBy(parts []recording.Part) (map[string]bool, error) {
	named := map[string]bool{}
	for i := range parts {
		all, err := parts[i].Taken.All()
		if err != nil {
			return nil, err
		}
		for _, s := range all {
			for _, l := range s.Literals {
				named[bare(l)] = true
			}
		}
	}
	return named, nil
}

// bare is a literal without its quotes.
func bare(l recording.Literal) string {
	if n := len(l.Text); n > 1 && (l.Text[0] == '\'' || l.Text[0] == '"') {
		return l.Text[1 : n-1]
	}
	return l.Text
}

// tables are all tables, and the rows that statements name, or others: those that there are, and
// those that were there when the first statement began.
func (s *Sources) tables(ctx context.Context, named map[string]bool, began time.Time) (out []recording.Source, err error) {
	txn := s.DB.Begin(kv.Options{ReadOnly: true})
	defer txn.Rollback(context.WithoutCancel(ctx))
	for _, d := range s.Schema.InOrder() {
		hidden := d.FulltextTables()
		for _, key := range slices.Sorted(maps.Keys(d.Tables)) {
			t := d.Tables[key]
			if t.HomesOf != nil || hidden[key] {
				continue
			}
			src := s.table(ctx, t)
			if src.Left == "" {
				r := reader{s: s, t: t, txn: txn, named: named, out: &src, have: map[string]bool{}, had: map[string]bool{}}
				if err := r.read(ctx); err != nil {
					return nil, err
				}
				r.deleted(ctx, began)
			}
			out = append(out, src)
		}
	}
	return out, nil
}

// table is a table without rows.
func (s *Sources) table(ctx context.Context, t *schema.Table) recording.Source {
	l := t.Desc.Locality
	src := recording.Source{Table: recording.Table{DB: t.Desc.DB, Name: t.Desc.Name,
		Create: describe.Create(sql.NewContext(ctx), t, t.Desc.FKs, 0), Locality: string(l.Kind), Async: l.Async}}
	if l.IsTable() {
		src.Region = s.Topology.RegionName(l.Region)
	}
	src.Placement = placing.Clause(s.Topology, t, func(v string) string {
		src.Values = append(src.Values, recording.Cut(v))
		return "?"
	})
	switch {
	case t.Next != nil || t.Prev != nil:
		src.Left = "it is being changed"
	}
	for _, i := range t.PK {
		src.Key = append(src.Key, t.Cols[i].Desc.Name)
	}
	for i := range t.Cols {
		if c := t.Cols[i].Desc; !c.HiddenSystem && c.Generated == nil {
			src.Columns = append(src.Columns, c.Name)
		}
	}
	return src
}

// reader reads rows of a table.
type reader struct {
	s     *Sources
	t     *schema.Table
	txn   kv.Txn
	named map[string]bool
	out   *recording.Source
	// have are the keys of rows that were read, keys those of rows that were taken. past: rows are
	// read that were there, had are their keys, and only those are taken that are not in have.
	past      bool
	have, had map[string]bool
	keys      []string
}

func (r *reader) read(ctx context.Context) error {
	req := &kv.ScanRequest{Spans: r.t.RowSpans(nil), Limit: 1000}
	read, unnamed := 0, 0
	for req != nil {
		res, err := r.txn.Scan(ctx, *req)
		if err != nil {
			return err
		}
		for _, kr := range res.Rows {
			key := string(kr.Key)
			if !r.past {
				r.have[key] = true
			} else if r.had[key] = true; r.have[key] {
				continue
			}
			values, named, err := r.values(ctx, kr)
			switch {
			case err != nil:
				return err
			case !named && unnamed >= maxRows/2, len(r.out.Rows) >= maxRows:
				r.out.Cut = true
				continue
			case !named:
				unnamed++
			}
			home := kr.Home
			if home == 0 {
				home = r.t.HomeFor(kr.Key.Shard(), kv.HomeRegion(r.s.DB))
			}
			r.out.Rows, r.keys = append(r.out.Rows, values), append(r.keys, key)
			r.out.Home = append(r.out.Home, r.s.Topology.RegionName(home))
			r.out.Pinned = append(r.out.Pinned, kr.Label.Pinned())
		}
		if read += len(res.Rows); read >= maxRead {
			r.out.Cut = r.out.Cut || res.Next != nil
			return nil
		}
		req = res.Next
	}
	return nil
}

// values are those of a row, and whether a statement has one that the primary key begins with.
func (r *reader) values(ctx context.Context, kr kv.Row) (out []recording.Literal, named bool, err error) {
	row := make(sql.Row, len(r.t.Cols))
	if err := r.t.DecodeRow(ctx, kr.Value, row); err != nil {
		return nil, false, err
	}
	c := sql.NewContext(ctx)
	for i := range r.t.Cols {
		d := r.t.Cols[i].Desc
		if d.HiddenSystem || d.Generated != nil {
			continue
		}
		l, err := literal(c, r.t.Cols[i].Type, row[i])
		if err != nil {
			return nil, false, err
		}
		if r.t.InPK(i) && r.named[bare(l)] {
			named = true
		}
		out = append(out, l)
	}
	return out, named, nil
}

// literal is a value as a statement would have it.
func literal(ctx *sql.Context, t sql.Type, v any) (recording.Literal, error) {
	if v == nil {
		return recording.Cut("NULL"), nil
	}
	x, err := t.SQL(ctx, nil, v)
	if err != nil {
		return recording.Literal{}, err
	}
	if x.IsIntegral() || x.IsFloat() || x.Type().String() == "DECIMAL" {
		return recording.Cut(x.ToString()), nil
	}
	return recording.Cut(recording.Quote(x.ToString())), nil
}
