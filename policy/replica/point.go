package replica

import (
	"slices"

	"github.com/godwitdb/godwit/base"
)

// View says who the members of a region's consistency point are. It is agreed upon in the meta
// shard.
type View struct {
	At        base.Timestamp `json:"-"` // commit timestamp of the row; 0: there is none yet
	Collector base.NodeID    `json:"collector"`
	Members   []base.NodeID  `json:"members"`
}

// Has reports whether a node is a member.
func (v *View) Has(n base.NodeID) bool { return slices.Contains(v.Members, n) }

// Same reports whether another view has the same members and collector.
func (v *View) Same(o *View) bool {
	return v.Collector == o.Collector && slices.Equal(v.Members, o.Members)
}

// NextView is what the view of a region should be: the live nodes, the lowest of them as collector.
func NextView(live []base.NodeID) View {
	m := slices.Clone(live)
	slices.Sort(m)
	if len(m) == 0 {
		return View{}
	}
	return View{Collector: m[0], Members: m}
}

// Message is what members and collector say to each other.
type Message struct {
	From   base.NodeID
	View   base.Timestamp
	Boot   base.Timestamp // of the sender's process
	Closed base.Timestamp // up to which the sender's replicas are complete
	Known  base.Timestamp // newest value that the sender knows
	Usable base.Timestamp // newest value that all members know, as far as the sender knows
}

// Out is a message to be sent.
type Out struct {
	To base.NodeID
	Message
}

// Point is one node's part in the consistency point of its region. Its methods return what has to
// be said at once; Say repeats everything, for lost messages. Not safe for concurrent use.
type Point struct {
	self base.NodeID
	boot base.Timestamp
	view View

	closed, known, usable base.Timestamp
	reports               map[base.NodeID]Message // of the members, at the collector
}

// NewPoint is that of a process that has just been started: it says and hears nothing until Boot.
func NewPoint(self base.NodeID) *Point { return &Point{self: self} }

// Boot says that everything that was settled before the process was started lies at or below ts.
func (p *Point) Boot(ts base.Timestamp) []Out {
	if p.boot != 0 {
		return nil
	}
	p.boot = ts
	return p.Say()
}

// View is the view that the node goes by.
func (p *Point) View() View { return p.view }

// Known is the newest value that the node knows: a read that begins now must not use less.
func (p *Point) Known() base.Timestamp { return p.known }

// Usable is the newest value that all members know; 0 if there is none, or the node is no member.
func (p *Point) Usable() base.Timestamp { return p.usable }

// SetView goes over to another view; nothing of the old one counts any more.
func (p *Point) SetView(v View) []Out {
	if v.At == p.view.At {
		return nil
	}
	p.view, p.known, p.usable, p.reports = v, 0, 0, map[base.NodeID]Message{}
	return p.Say()
}

// Complete says that the node's replicas are complete up to closed. Everything up to now is
// settled.
func (p *Point) Complete(closed, now base.Timestamp) []Out {
	if closed <= p.closed {
		return nil
	}
	p.closed = closed
	if !p.acts() {
		return nil
	}
	if p.view.Collector == p.self {
		return p.collect(now)
	}
	return p.Say()
}

// acts: the node is a member of a view, and knows what was settled before its process was started.
func (p *Point) acts() bool { return p.boot != 0 && p.view.At != 0 && p.view.Has(p.self) }

// Say is everything that the node has to say.
func (p *Point) Say() []Out {
	if !p.acts() {
		return nil
	}
	m := Message{From: p.self, View: p.view.At, Boot: p.boot, Closed: p.closed, Known: p.known, Usable: p.usable}
	if p.view.Collector != p.self {
		return []Out{{p.view.Collector, m}}
	}
	var out []Out
	for _, n := range p.view.Members {
		if n != p.self {
			out = append(out, Out{n, m})
		}
	}
	return out
}

// Hear takes a message. Everything up to now is settled.
func (p *Point) Hear(m Message, now base.Timestamp) []Out {
	if m.View != p.view.At || !p.acts() || !p.view.Has(m.From) {
		return nil
	}
	if p.view.Collector == p.self {
		if old, ok := p.reports[m.From]; ok {
			switch {
			case old.Boot > m.Boot:
				return nil // of a process that is no more
			case old.Boot == m.Boot: // messages may overtake each other
				m.Closed, m.Known = max(m.Closed, old.Closed), max(m.Known, old.Known)
			}
		}
		p.reports[m.From] = m
		return p.collect(now)
	}
	if m.From != p.view.Collector {
		return nil
	}
	if m.Usable > p.usable && m.Usable > p.boot {
		p.usable = m.Usable
	}
	if m.Known <= p.known || m.Known <= p.boot {
		return nil
	}
	p.known = m.Known
	return p.Say()
}

// collect proposes a newer value once the last one is usable, and finds out whether it is.
func (p *Point) collect(now base.Timestamp) []Out {
	said := false
	if all := p.least(p.known, func(m *Message) base.Timestamp { return m.Known }); all > p.usable && all == p.known {
		p.usable, said = all, true
	}
	if p.usable == p.known {
		v := min(p.least(p.closed, func(m *Message) base.Timestamp { return m.Closed }), now)
		if v > p.known && v > p.view.At && v > p.boot {
			p.known, said = v, true
			if len(p.view.Members) == 1 {
				p.usable = v
			}
		}
	}
	if !said {
		return nil
	}
	return p.Say()
}

// least is the smallest of what the members report; 0 while one is missing.
func (p *Point) least(own base.Timestamp, of func(*Message) base.Timestamp) base.Timestamp {
	for _, n := range p.view.Members {
		if n == p.self {
			continue
		}
		m, ok := p.reports[n]
		if !ok {
			return 0
		}
		own = min(own, of(&m))
	}
	return own
}
