package owner

import (
	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/owner/gauge"
	"github.com/godwitdb/godwit/owner/view"
)

// served reports services, all of one kind, term and time, to Config.Serves.
func (r *Replica) served(kind gauge.ServiceKind, term uint64, at base.Timestamp, keys []view.Seen) {
	for i := range keys {
		k := &keys[i]
		r.cfg.Serves(gauge.Service{Kind: kind, Key: k.Key, Group: r.id, Term: term, Node: r.cfg.Self, Found: k.Found,
			Since: k.Since, At: at})
	}
}
