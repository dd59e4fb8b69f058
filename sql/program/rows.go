package program

import "slices"

// rowColumns notes the columns of OLD and NEW that the body of a trigger names: those that it
// assigns, and the others.
func (p *parser) rowColumns(out *Program) {
	for i := range p.ts[:len(p.ts)-2] {
		if p.ts[i].From < out.From || !p.ts[i].Is("old", "new") || !p.ts[i+1].Is(".") || !p.ts[i+2].Named() {
			continue
		}
		c := RowColumn{Row: p.ts[i].Lower, Name: p.ts[i+2].Text, Set: p.assigned[i]}
		if !slices.Contains(out.Rows, c) {
			out.Rows = append(out.Rows, c)
		}
		to := &out.Reads
		if p.assigned[i] {
			to = &out.Sets
		}
		if name := p.ts[i+2].Text; !slices.Contains(*to, name) {
			*to = append(*to, name)
		}
	}
}

// target notes that an assignment begins at the present token.
func (p *parser) target() {
	if p.assigned == nil {
		p.assigned = map[int]bool{}
	}
	p.assigned[p.at] = true
}
