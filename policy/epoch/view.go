package epoch

import (
	"encoding/json"
	"slices"

	"github.com/godwitdb/godwit/base"
)

// View says who takes part in the epochs from Start on, until the next view.
type View struct {
	Number  uint64        `json:"number"`
	Start   uint64        `json:"start"`
	Members []base.NodeID `json:"members"`
	Voters  []base.NodeID `json:"voters"`
}

// Encode makes bytes of a view.
func (v *View) Encode() []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic("epoch: " + err.Error()) // numbers
	}
	return text
}

// DecodeView undoes Encode, and checks the view.
func DecodeView(data []byte) (*View, error) {
	v := &View{}
	if err := json.Unmarshal(data, v); err != nil {
		return nil, base.Errorf(base.CodeInvalid, "a view of the epochs cannot be read: %v", err)
	}
	if v.Number == 0 || v.Start == 0 || len(v.Members) == 0 || len(v.Voters) == 0 || twice(v.Members) || twice(v.Voters) {
		return nil, base.Errorf(base.CodeInvalid, "a view of the epochs makes no sense: %s", data)
	}
	return v, nil
}

func twice(nodes []base.NodeID) bool {
	s := slices.Sorted(slices.Values(nodes))
	return len(slices.Compact(s)) != len(nodes) || slices.Contains(nodes, 0)
}

// Has reports whether a node is a member.
func (v *View) Has(n base.NodeID) bool { return slices.Contains(v.Members, n) }

// Majority reports whether more than half of the voters satisfy has.
func (v *View) Majority(has func(base.NodeID) bool) bool {
	n := 0
	for _, id := range v.Voters {
		if has(id) {
			n++
		}
	}
	return 2*n > len(v.Voters)
}

// Exposed is the last epoch that a majority of the voters holds (VIEW-1), by what they have said.
func (v *View) Exposed(held map[base.NodeID]uint64) uint64 {
	if len(v.Voters) == 0 {
		return 0
	}
	hs := make([]uint64, 0, len(v.Voters))
	for _, id := range v.Voters {
		hs = append(hs, held[id])
	}
	slices.Sort(hs)
	return hs[(len(hs)-1)/2]
}

// Decide finds, from the reports of sealed nodes, the last epoch of a view and who
// holds it (VIEW-2). ok is false without the reports of a majority of the voters.
func (v *View) Decide(held map[base.NodeID]uint64) (last uint64, holder base.NodeID, ok bool) {
	if !v.Majority(func(n base.NodeID) bool { _, said := held[n]; return said }) {
		return 0, 0, false
	}
	last = v.Start - 1
	for n, h := range held {
		if h > last || h == last && (holder == 0 || n < holder) {
			last, holder = h, n
		}
	}
	return last, holder, true
}
