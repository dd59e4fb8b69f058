package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wan"
	"github.com/godwitdb/godwit/wire"
)

// PathClock sets the cluster setting clock.mode: POST {"mode": "auto"}.
const PathClock = "/cluster/clock"

// PathEpochsCopy has the node asked, which has halted, copy the rows of MULTI MASTER tables from another one: POST {}.
const PathEpochsCopy = "/cluster/epochs/copy"

// PathDecommission takes a node out: POST {"node": 3}.
const PathDecommission = "/cluster/decommission"

const (
	askStatus  = "status"
	askTimeout = 2 * time.Second
)

// part is what one node contributes to a status.
type part struct {
	Node   NodeStatus    `json:"node"`
	Groups []GroupStatus `json:"groups"` // led there
	RTT    []RegionRTT   `json:"rtt"`
}

func (c *Cluster) onAsk(ctx context.Context, from base.NodeID, body []byte) (wan.Msg, error) {
	var q wire.AskRequest
	if err := q.UnmarshalVT(body); err != nil {
		return nil, base.Errorf(base.CodeInvalid, "malformed request from node %d: %v", from, err)
	}
	switch q.Name {
	case askStatus:
		b, err := json.Marshal(c.part())
		if err != nil {
			return nil, err
		}
		return &wire.AskResponse{Body: b}, nil
	case askMember:
		var m memberQuery
		if err := json.Unmarshal(q.Body, &m); err != nil {
			return nil, base.Errorf(base.CodeInvalid, "malformed request from node %d: %v", from, err)
		}
		b, err := json.Marshal(c.onMember(m))
		if err != nil {
			return nil, err
		}
		return &wire.AskResponse{Body: b}, nil
	case askFresh:
		var f freshQuery
		if err := json.Unmarshal(q.Body, &f); err != nil {
			return nil, base.Errorf(base.CodeInvalid, "malformed request from node %d: %v", from, err)
		}
		b, err := json.Marshal(c.onFresh(f))
		if err != nil {
			return nil, err
		}
		return &wire.AskResponse{Body: b}, nil
	}
	if b, mine, err := c.answerLeaders(q.Name, q.Body); mine {
		return &wire.AskResponse{Body: b}, err
	}
	if q.Name == askCopies {
		var f copiesQuery
		if err := json.Unmarshal(q.Body, &f); err != nil {
			return nil, base.Errorf(base.CodeInvalid, "malformed request from node %d: %v", from, err)
		}
		b, err := json.Marshal(c.onCopies(f))
		if err != nil {
			return nil, err
		}
		return &wire.AskResponse{Body: b}, nil
	}
	if c.o.Answer != nil {
		if b, err := c.o.Answer(q.Name, q.Body); b != nil || err != nil {
			return &wire.AskResponse{Body: b}, err
		}
	}
	return nil, base.Errorf(base.CodeInvalid, "node %d asks for %q, which this version does not know", from, q.Name)
}

// part describes this node and the groups it leads.
func (c *Cluster) part() *part {
	t := c.Topology()
	p := &part{}
	if n := t.Node(c.o.Self); n != nil {
		p.Node = NodeStatus{ID: n.ID, Region: t.RegionName(n.Region), Addr: n.Addr, SQL: n.SQL, Live: true}
	}
	p.Node.Clock = c.Clock()
	if c.o.Local != nil {
		c.o.Local(&p.Node)
	}
	for _, id := range t.Groups() {
		g := c.o.Replicas.Group(id)
		if g == nil {
			continue
		}
		p.Node.Replicas++
		st := g.Status()
		if !st.IsLeader {
			continue
		}
		p.Node.Leads++
		gs := GroupStatus{ID: id, Name: id.String(), Leader: c.o.Self, Term: st.Term, Voters: st.Voters, Learners: st.Learners, Committed: st.Commit,
			LogEntries: st.Last + 1 - st.First, LogBytes: st.LogBytes}
		if id != base.MetaGroup {
			gs.Home = t.RegionName(id.Region())
		}
		for n, pr := range st.Progress {
			if n != c.o.Self {
				gs.Lag = append(gs.Lag, ReplicaLag{Node: n, Entries: st.Last - min(st.Last, pr.Match), Active: pr.Active, Snapshot: pr.State == "snapshot"})
			}
		}
		slices.SortFunc(gs.Lag, func(a, b ReplicaLag) int { return cmp.Compare(a.Node, b.Node) })
		c.o.Replicas.Describe(id, &gs)
		p.Groups = append(p.Groups, gs)
	}
	p.RTT = c.regionRTT(t)
	return p
}

// regionRTT is the shortest smoothed round trip from here to each other region.
func (c *Cluster) regionRTT(t *base.Topology) []RegionRTT {
	self := t.RegionOf(c.o.Self)
	best := map[base.RegionID]time.Duration{}
	for _, n := range t.Nodes {
		if d, ok := c.peers.rtt(n.ID); ok && n.Region != self && !n.Gone && (best[n.Region] == 0 || d < best[n.Region]) {
			best[n.Region] = d
		}
	}
	var out []RegionRTT
	for _, r := range t.Regions {
		if d := best[r.ID]; d != 0 {
			out = append(out, RegionRTT{From: t.RegionName(self), To: r.Name, RTT: d})
		}
	}
	return out
}

// Status asks every node and puts the answers together.
func (c *Cluster) Status(ctx context.Context) *Status {
	begin := time.Now()
	t := c.Topology()
	s := &Status{ClusterID: t.ClusterID, Asked: c.o.Self, Topology: *t}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	parts := make([]*part, len(t.Nodes))
	var wg sync.WaitGroup
	for i, n := range t.Nodes {
		if !n.Gone || c.Live(n.ID) {
			wg.Go(func() { parts[i] = c.ask(ctx, n.ID) })
		}
	}
	wg.Wait()
	seen := map[base.GroupID]*GroupStatus{}
	rtts := map[[2]string]time.Duration{}
	for i, n := range t.Nodes {
		ns := NodeStatus{ID: n.ID, Region: t.RegionName(n.Region), Addr: n.Addr, SQL: n.SQL}
		p := parts[i]
		switch {
		case p != nil:
			ns = p.Node
			ns.Live = true
			for _, g := range p.Groups {
				if old := seen[g.ID]; old == nil || old.Term < g.Term {
					seen[g.ID] = &g
				}
			}
			for _, r := range p.RTT {
				k := [2]string{r.From, r.To}
				if rtts[k] == 0 || r.RTT < rtts[k] {
					rtts[k] = r.RTT
				}
			}
		case n.Gone:
			continue
		}
		if n.ID != c.o.Self {
			ns.LastHeard = c.peers.silence(n.ID)
			ns.RTT = c.RTT(n.ID)
		}
		s.Nodes = append(s.Nodes, ns)
	}
	for _, id := range t.Groups() {
		if g := seen[id]; g != nil {
			s.Groups = append(s.Groups, *g)
			continue
		}
		g := GroupStatus{ID: id, Name: id.String(), Voters: t.ShardReplicas(id.Shard())} // nobody leads it, or he does not answer
		if id != base.MetaGroup {
			g.Home = t.RegionName(id.Region())
		}
		s.Groups = append(s.Groups, g)
	}
	for _, a := range t.Regions {
		for _, b := range t.Regions {
			if d := rtts[[2]string{a.Name, b.Name}]; d != 0 {
				s.RTT = append(s.RTT, RegionRTT{a.Name, b.Name, d})
			}
		}
	}
	s.ClockHistory = c.ClockHistory()
	s.Problems = problems(s)
	s.Took = time.Since(begin)
	return s
}

func (c *Cluster) ask(ctx context.Context, n base.NodeID) *part {
	if n == c.o.Self {
		return c.part()
	}
	var res wire.AskResponse
	if err := c.o.Transport.Call(ctx, n, wire.KindAsk, &wire.AskRequest{Name: askStatus}, &res); err != nil {
		return nil
	}
	p := new(part)
	if err := json.Unmarshal(res.Body, p); err != nil {
		c.o.Logger.Warn("malformed status", "from", n, "err", err)
		return nil
	}
	return p
}

// AskAll asks the other nodes a question that their Options.Answer knows: here those of this node's region, there
// those of others. Those that do not answer in time are left out.
func (c *Cluster) AskAll(ctx context.Context, here, there string) (answers [][]byte) {
	t := c.Topology()
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, n := range t.Nodes {
		if n.ID == c.o.Self || n.Gone {
			continue
		}
		name := there
		if n.Region == t.RegionOf(c.o.Self) {
			name = here
		}
		wg.Go(func() {
			var res wire.AskResponse
			if c.o.Transport.Call(ctx, n.ID, wire.KindAsk, &wire.AskRequest{Name: name}, &res) != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			answers = append(answers, res.Body)
		})
	}
	wg.Wait()
	return answers
}

// Ask asks one node, anywhere, a question that its Options.Answer knows.
func (c *Cluster) Ask(ctx context.Context, node base.NodeID, name string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var res wire.AskResponse
	err := c.o.Transport.Call(ctx, node, wire.KindAsk, &wire.AskRequest{Name: name, Body: body}, &res)
	return res.Body, err
}

// Register adds the handlers of a running node.
func (c *Cluster) Register(mux *http.ServeMux) {
	mux.HandleFunc("GET "+PathStatus, func(w http.ResponseWriter, r *http.Request) {
		reply(w, http.StatusOK, c.Status(r.Context()))
	})
	c.registerPromote(mux)
	mux.HandleFunc("POST "+PathDecommission, func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			Node base.NodeID `json:"node"`
		}
		if err := json.NewDecoder(io.LimitReader(r.Body, maxJoinBody)).Decode(&q); err != nil {
			reply(w, http.StatusBadRequest, InitReply{Error: "malformed request: " + err.Error()})
			return
		}
		t, err := c.Decommission(r.Context(), q.Node)
		if err != nil {
			reply(w, http.StatusConflict, InitReply{Error: err.Error()})
			return
		}
		reply(w, http.StatusOK, InitReply{ClusterID: t.ClusterID, Topology: *t})
	})
}
