package recorded

import (
	"cmp"
	"slices"

	"github.com/godwitdb/godwit/sql/ddl/placing"
	"github.com/godwitdb/godwit/sql/recording"
	"github.com/godwitdb/godwit/sql/schema"
)

// programs are the views, functions, procedures and triggers, in the order in which they were made.
// Events are none: they are not what clients do.
func (s *Sources) programs() (out []recording.Program) {
	for _, d := range s.Schema.InOrder() {
		var all []*schema.ObjectDesc
		for _, kind := range d.Objects {
			for _, o := range kind {
				all = append(all, o)
			}
		}
		slices.SortFunc(all, func(a, b *schema.ObjectDesc) int { return cmp.Compare(a.Seq, b.Seq) })
		for _, o := range all {
			p := recording.Program{DB: d.Desc.Name, Name: o.Name}
			switch {
			case o.View != nil:
				p.Kind, p.Create, p.SQLMode = "view", o.View.CreateViewStatement, o.View.SqlMode
			case o.Function != nil:
				p.Kind, p.Create, p.SQLMode = "function", o.Function.Text, o.Function.SQLMode
			case o.Procedure != nil:
				p.Kind, p.Create, p.SQLMode = "procedure", o.Procedure.CreateStatement, o.Procedure.SqlMode
			case o.Trigger != nil:
				p.Kind, p.Create, p.SQLMode = "trigger", o.Trigger.CreateStatement, o.Trigger.SqlMode
			default:
				continue
			}
			out = append(out, p)
		}
	}
	return out
}

// placements are the statements that make those that there are.
func (s *Sources) placements() (out []string, err error) {
	for i := range s.Topology.Placements {
		p := &s.Topology.Placements[i]
		if p.Dropped || p.Opening || p.Number() != p.ID {
			continue
		}
		rows, err := placing.ShowCreate(s.Topology, p.Name)
		if err != nil {
			return nil, err
		}
		text, _ := rows[0][1].(string)
		out = append(out, text)
	}
	return out, nil
}
