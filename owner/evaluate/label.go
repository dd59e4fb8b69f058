package evaluate

import (
	"slices"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/owner/view"
	"github.com/godwitdb/godwit/wire"
)

// label is the home label of the row's next version, without its writer. A row keeps its home
// unless the write moves it. A new row, also one in the place of a tombstone, gets that of the
// write.
func (l *look) label(w *wire.Write, p *view.Place, there bool) (label base.Label, moved bool) {
	if l.Group.ID.Shard() == base.MetaShard {
		return 0, false
	}
	old := p.V.Label.WithWriter(0, 0).WithInTransit(false)
	if there {
		if w.Pin != wire.Pin_KEEP {
			old = old.WithPinned(w.Pin == wire.Pin_PIN)
		}
		if to := base.RegionID(w.Move); to != 0 && to != old.Home() && !l.Group.OwnsSection(w.Key) {
			return old.WithHome(to), true
		}
		return old, false
	}
	home := l.newHome(w)
	switch {
	case !p.Found:
		return base.MakeLabel(home, 0, 0), false
	case home != old.Home():
		return old.WithHome(home).WithPinned(false), false
	}
	return old.WithPinned(false), false
}

// newHome is the home of a new row: that of its section, else the one that the write asks for, else
// the region of its gateway, or the first one of its placement.
func (l *look) newHome(w *wire.Write) base.RegionID {
	if l.Group.OwnsSection(w.Key) {
		return l.Group.ID.Region()
	}
	if home := base.RegionID(w.Home); home != 0 {
		return home
	}
	if home := base.RegionID(l.Request.Txn.GatewayRegion); home != 0 {
		if l.HomeIn != nil {
			home = l.HomeIn(l.Group.ID.Shard(), home)
		}
		return home
	}
	return l.Group.ID.Region()
}

// keepsLabel reports whether a write leaves the label of its key as it is, whatever that is.
func keepsLabel(w *wire.Write) bool {
	return (w.Kind == wire.WriteKind_PUT || w.Kind == wire.WriteKind_DELETE) && w.Pin == wire.Pin_KEEP && w.Patch == nil
}

// logged is the write as it goes to the log, with its label; nil if there is nothing to log.
func (l *look) logged(w *wire.Write, p *view.Place, there bool) *wire.Write {
	if !there && (w.Kind == wire.WriteKind_DELETE || w.Kind == wire.WriteKind_MOVE) {
		return nil
	}
	if w.Kind == wire.WriteKind_FENCE && (there || l.Group.ID.Shard() == base.MetaShard) {
		return nil // a row has a home of its own, with its gap
	}
	label, moved := l.label(w, p, there)
	w.Label = uint64(label)
	switch {
	case w.Kind == wire.WriteKind_FENCE && !l.Group.HandsOver(w):
		return nil // the gap is the asker's already
	case w.Kind == wire.WriteKind_FENCE:
		return &wire.Write{Kind: wire.WriteKind_DELETE, Key: w.Key, Label: w.Label}
	case w.Kind == wire.WriteKind_MOVE && !moved && label.Pinned() == p.V.Label.Pinned():
		return nil // a repeated request: done already
	case w.Kind != wire.WriteKind_MOVE && w.Move == 0:
		return w
	}
	return l.moving(w, p, moved)
}

// moving is a write that may take its row to another home, as it goes to the log.
func (l *look) moving(w *wire.Write, p *view.Place, moved bool) *wire.Write {
	out := &wire.Write{Kind: w.Kind, Key: w.Key, Value: w.Value, Label: w.Label}
	if moved {
		if out.Move, out.Reason = w.Move, w.Reason; len(out.Reason) == 0 {
			out.Reason = l.Txn.Advice[string(w.Key)]
		}
	}
	if w.Kind == wire.WriteKind_MOVE {
		if out.Value = slices.Clone(p.V.Value); out.Value == nil {
			out.Value = []byte{}
		}
	}
	return out
}
