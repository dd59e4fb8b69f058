package moments

import (
	"cmp"
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/sql/server"
	"github.com/godwitdb/godwit/sql/statements"
	"github.com/godwitdb/godwit/sql/virtual"
)

// Share is what one node has counted since it started, in the form in which nodes send it.
type Share struct {
	Node    base.NodeID         `json:"node"`
	Region  base.RegionID       `json:"region"`
	Links   []Link              `json:"links,omitempty"`
	Answers []statements.Answer `json:"answers,omitempty"`
}

// Link is what a node has sent to the nodes of another region. The sums are since it started, but
// Lately: those are of the last half to whole minute.
type Link struct {
	To        base.RegionID `json:"to"`
	Peers     int           `json:"peers"`
	Connected int           `json:"connected"` // of the peers
	Wire      uint64        `json:"wire"`      // bytes
	Packets   wan.Packets   `json:"packets"`
	Lately    wan.Packets   `json:"lately"`
	// Messages were lost, because a connection broke.
	Messages uint64 `json:"messages"`
}

// Links sums up what a node of a region has sent to others, by region.
func Links(own base.RegionID, stats []wan.LinkStats) (out []Link) {
	for _, s := range stats {
		if s.Region == own || s.Region == 0 {
			continue
		}
		l := Link{To: s.Region, Peers: 1, Wire: s.WireSent, Packets: wan.Packets{Sent: s.Packets, Resent: s.Resent},
			Lately: s.Lately, Messages: s.Dropped}
		if s.Connected {
			l.Connected = 1
		}
		out = append(out, l)
	}
	return merge(out, func(l Link) base.RegionID { return l.To }, (*Link).plus)
}

func (l *Link) plus(o Link) {
	l.Peers += o.Peers
	l.Connected += o.Connected
	l.Wire += o.Wire
	l.Messages += o.Messages
	plus(&l.Packets, o.Packets)
	plus(&l.Lately, o.Lately)
}

func plus(a *wan.Packets, b wan.Packets) {
	a.Sent += b.Sent
	a.Resent += b.Resent
}

// merge sorts by a key, and adds what has the same one.
func merge[T any, K cmp.Ordered](all []T, key func(T) K, add func(*T, T)) (out []T) {
	slices.SortStableFunc(all, func(a, b T) int { return cmp.Compare(key(a), key(b)) })
	for _, x := range all {
		if n := len(out); n > 0 && key(out[n-1]) == key(x) {
			add(&out[n-1], x)
		} else {
			out = append(out, x)
		}
	}
	return out
}

var columns = virtual.TopicColumns

// Topics are what the database godwit shows of shares.
var Topics = []server.Topic{
	{Name: "region_links", Comment: "what the nodes of a region have sent to those of another since they started, " +
		"and what was lost on the way", Columns: slices.Concat(
		columns(server.TopicText, "from_region", "to_region"), columns(server.TopicInt, "links", "connected", "wire_bytes",
			"packets", "resent_packets"), columns(server.TopicFloat, "loss"), columns(server.TopicInt, "lost_messages"))},
	{Name: "answers", Comment: "statements of clients by their region and by the regions that have answered, since the nodes started",
		Columns: slices.Concat(columns(server.TopicText, "client_region", "answered_by"), columns(server.TopicInt, "statements"),
			columns(server.TopicFloat, "total_ms"))},
	momentTopic,
}

// Loss is the share of packets that were sent again, as a value of SQL: NULL if nothing is known.
func Loss(p wan.Packets) any {
	if p.Sent == 0 {
		return nil
	}
	return min(1, float64(p.Resent)/float64(p.Sent))
}

// orUnknown is NULL instead of counts where the kernel counts nothing.
func orUnknown(n uint64, p wan.Packets) any {
	if p.Sent == 0 {
		return nil
	}
	return n
}

// LinkRows are the rows of region_links.
func LinkRows(t *base.Topology, all []Share) (rows [][]any) {
	type way struct {
		from base.RegionID
		Link
	}
	var ways []way
	for _, s := range all {
		for _, l := range s.Links {
			ways = append(ways, way{s.Region, l})
		}
	}
	for _, w := range merge(ways, func(w way) int { return int(w.from)<<8 | int(w.To) }, func(a *way, b way) { a.plus(b.Link) }) {
		rows = append(rows, []any{t.RegionName(w.from), t.RegionName(w.To), w.Peers, w.Connected, w.Wire,
			orUnknown(w.Packets.Sent, w.Packets), orUnknown(w.Packets.Resent, w.Packets), Loss(w.Lately), w.Messages})
	}
	return rows
}

// AnswerRows are the rows of answers.
func AnswerRows(t *base.Topology, all []Share) (rows [][]any) {
	for _, a := range Answers(all) {
		rows = append(rows, []any{t.RegionName(a.Client), t.RegionName(a.By), a.Statements,
			float64(a.Took.Microseconds()) / float64(time.Millisecond/time.Microsecond)})
	}
	return rows
}

// Answers are those of all shares in sum.
func Answers(all []Share) (out []statements.Answer) {
	for _, s := range all {
		out = append(out, s.Answers...)
	}
	return merge(out, func(a statements.Answer) int { return int(a.Client)<<8 | int(a.By) },
		func(a *statements.Answer, b statements.Answer) {
			a.Statements += b.Statements
			a.Took += b.Took
		})
}
