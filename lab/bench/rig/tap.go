package rig

import (
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/wan"
)

// TapKey names a stream of recorded messages between two nodes.
type TapKey struct {
	From, To base.NodeID
	Stream   string
}

// Gather joins the messages of a stream into writes, as a sender does that gathers frames for a
// time g before it writes.
func Gather(ms []wan.Tapped, g time.Duration) (out [][]byte) {
	first := time.Duration(0)
	for i, m := range ms {
		if i == 0 || m.At-first >= g {
			out, first = append(out, nil), m.At
		}
		out[len(out)-1] = append(out[len(out)-1], m.Frame...)
	}
	return out
}
