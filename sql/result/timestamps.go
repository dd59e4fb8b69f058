package result

import (
	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/bind"
	"github.com/godwitdb/godwit/sql/expr"
)

// ShowTimestamps makes TIMESTAMPs of the result times of the session's zone.
func ShowTimestamps(q *bind.Query) {
	var p *algebra.Project
	for i := range q.Out {
		c := &q.Out[i]
		if c.Type.Kind != expr.Timestamp {
			continue
		}
		if p == nil {
			p = &algebra.Project{In: q.Rel}
			have := map[expr.ColID]bool{}
			for _, o := range q.Out {
				if !have[o.ID] {
					have[o.ID] = true
					col := &expr.Col{ID: o.ID, Name: o.Name, T: o.Type}
					p.Items = append(p.Items, algebra.Item{ID: o.ID, Name: o.Name, Node: col})
				}
			}
		}
		t := expr.DatetimeType(c.Type.Scale)
		t.SQL, t.NotNull = c.Type.ClientType(), c.Type.NotNull
		shown := &expr.Cast{Arg: &expr.Col{ID: c.ID, Name: c.Name, T: c.Type}, T: t}
		p.Items = append(p.Items, algebra.Item{ID: q.Next, Name: c.Name, Node: shown})
		c.ID, c.Type = q.Next, t
		q.Next++
	}
	if p != nil {
		q.Rel = p
	}
}
