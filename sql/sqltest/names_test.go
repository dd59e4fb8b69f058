package sqltest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/memkv"
)

// names reads keys as a person would: with the names that the catalog has for them.
type names struct {
	db     *memkv.DB
	mu     sync.Mutex // never held across a request
	tables map[base.TableID]*tableName
}

// tableName is what the catalog says about a table, as far as it matters here.
type tableName struct {
	ID   base.TableID `json:"id"`
	DB   string       `json:"db"`
	Name string       `json:"name"`
	Cols []struct {
		ID   uint32 `json:"id"`
		Type string `json:"type"`
	} `json:"cols"`
	PK      []uint32 `json:"pk"`
	Indexes []struct {
		ID   base.IndexID `json:"id"`
		Name string       `json:"name"`
		Cols []struct {
			Col uint32 `json:"col"`
		} `json:"cols"`
	} `json:"indexes"`
	Next json.RawMessage `json:"next"`
}

// The catalog's table of the meta shard, and its index of tables.
var catalogTables = base.IndexPrefix(base.MetaShard, base.MakeTableID(2, 0), 1, 0)

func (n *names) load() {
	found := map[base.TableID]*tableName{}
	defer func() {
		n.mu.Lock()
		n.tables = found
		n.mu.Unlock()
	}()
	t := n.db.Begin(kv.Options{ReadOnly: true})
	defer t.Rollback(context.Background())
	req := &kv.ScanRequest{Spans: []base.Span{{Start: catalogTables, End: catalogTables.PrefixEnd()}}}
	for req != nil {
		res, err := t.Scan(context.Background(), *req)
		if err != nil {
			return
		}
		for _, r := range res.Rows {
			d := new(tableName)
			if json.Unmarshal(r.Value, d) == nil {
				found[d.ID] = d
			}
		}
		req = res.Next
	}
}

// known are the tables as of the last load. Nobody changes the map.
func (n *names) known() map[base.TableID]*tableName {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.tables
}

func (n *names) table(id base.TableID) *tableName {
	if t := n.known()[id]; t != nil {
		return t
	}
	n.load()
	return n.known()[id]
}

// find is a table by its name.
func (n *names) find(name string) *tableName {
	n.load()
	for _, t := range n.known() {
		if strings.EqualFold(t.Name, name) {
			return t
		}
	}
	return nil
}

// describe names spans, and the regions where rows of them are at home.
func (n *names) describe(spans []base.Span) (string, []base.RegionID) {
	regions := map[base.RegionID]bool{}
	points := map[string][]string{} // values by index
	ranges := map[string]int{}      // spans by index
	for _, s := range spans {
		for _, r := range n.homes(s) {
			regions[r] = true
		}
		index, value := n.key(s.Start)
		if s.IsPoint() {
			points[index] = append(points[index], value)
		} else {
			ranges[index]++
		}
	}
	var out []string
	for _, index := range slices.Sorted(maps.Keys(points)) {
		v := points[index]
		slices.Sort(v)
		if len(v) > 4 {
			v = append(v[:3], fmt.Sprintf("%d more", len(v)-3))
		}
		out = append(out, index+"("+strings.Join(v, ";")+")")
	}
	for _, index := range slices.Sorted(maps.Keys(ranges)) {
		out = append(out, fmt.Sprintf("%s[%d spans]", index, ranges[index]))
	}
	return strings.Join(out, " "), slices.Sorted(maps.Keys(regions))
}

// homes are the regions of the rows within a span.
func (n *names) homes(s base.Span) (out []base.RegionID) {
	t := n.db.Begin(kv.Options{ReadOnly: true})
	defer t.Rollback(context.Background())
	if s.IsPoint() {
		if rows, err := t.Get(context.Background(), []base.Key{s.Start}, kv.LockNone); err == nil && rows[0].Value != nil {
			out = append(out, rows[0].Home)
		}
		return out
	}
	for req := (&kv.ScanRequest{Spans: []base.Span{s}}); req != nil; {
		res, err := t.Scan(context.Background(), *req)
		if err != nil {
			return out
		}
		for _, r := range res.Rows {
			out = append(out, r.Home)
		}
		req = res.Next
	}
	return out
}

// key splits a key into the name of its index and the values of it.
func (n *names) key(k base.Key) (index, value string) {
	d := n.table(k.Table())
	if d == nil {
		return "successor", ""
	}
	rest := k[len(k.Section()):]
	id := k.Index() &^ base.ByHome
	if id == 0 {
		return d.Name, d.values(d.PK, rest)
	}
	for _, x := range d.Indexes {
		if x.ID == id {
			var cols []uint32
			for _, c := range x.Cols {
				cols = append(cols, c.Col)
			}
			return d.Name + "." + x.Name, d.values(cols, rest)
		}
	}
	return fmt.Sprintf("%s.%d", d.Name, id), ""
}

// values reads the columns of a key as far as their types are told by its bytes.
func (d *tableName) values(cols []uint32, k base.Key) string {
	var out []string
	for _, id := range cols {
		i := slices.IndexFunc(d.Cols, func(c struct {
			ID   uint32 `json:"id"`
			Type string `json:"type"`
		}) bool {
			return c.ID == id
		})
		if i < 0 {
			break
		}
		null, rest, err := base.TakeNull(k)
		if err != nil {
			break
		}
		if null {
			out, k = append(out, "NULL"), rest
			continue
		}
		switch typ := d.Cols[i].Type; {
		case strings.Contains(typ, "unsigned"):
			var v uint64
			if v, k, err = base.TakeUint64(k); err == nil {
				out = append(out, fmt.Sprint(v))
			}
		case strings.Contains(typ, "int"):
			var v int64
			if v, k, err = base.TakeInt64(k); err == nil {
				out = append(out, fmt.Sprint(v))
			}
		case strings.Contains(typ, "char"):
			var v []byte
			if v, k, err = base.TakeBytes(k); err == nil {
				out = append(out, string(v))
			}
		default:
			return strings.Join(append(out, "..."), ",")
		}
		if err != nil {
			break
		}
	}
	return strings.Join(out, ",")
}
