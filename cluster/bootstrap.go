package cluster

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
)

// Paths of the HTTP interface on the cluster port.
const (
	PathJoin = "/cluster/join"
	PathInit = "/cluster/init"
)

const (
	joinEvery = 300 * time.Millisecond
	// announceTimeout bounds the transaction that writes a new address: while all nodes
	// are on the move it fails, and news of their addresses must go round first.
	announceTimeout = 3 * time.Second
	waitNotice      = 15 * time.Second
	maxJoinBody     = 1 << 20
	maxJoiners      = 1000
)

// Joiner is what a process says of itself before it has an id.
type Joiner struct {
	UUID   string `json:"uuid"`
	Region string `json:"region"`
	Addr   string `json:"addr"`
	SQL    string `json:"sql_addr"`
	// ClusterID is set by a process that belongs to a cluster already: it tells where it is now.
	ClusterID string `json:"cluster_id,omitempty"`
}

func (j Joiner) validate() error {
	switch {
	case j.UUID == "":
		return base.Errorf(base.CodeInvalid, "a joining node must send its uuid")
	case j.Region == "":
		return base.Errorf(base.CodeInvalid, "a joining node must name its region (--region)")
	case j.Addr == "":
		return base.Errorf(base.CodeInvalid, "a joining node must send the address others reach it at (--advertise)")
	}
	return nil
}

// Identity is what a process keeps on disk once it belongs to a cluster.
type Identity struct {
	ClusterID string      `json:"cluster_id"`
	Node      base.NodeID `json:"node"`
	// Founding nodes start their groups from First; others are added to groups by their leaders.
	Founding bool          `json:"founding"`
	First    base.Topology `json:"first"`
}

// InitRequest makes a cluster of the nodes that have asked so far.
type InitRequest struct {
	// Shards is the number of data shards; 0 takes one for each node of the largest region, at least two.
	Shards int `json:"shards"`
	// Concurrency is how transactions are ordered.
	Concurrency base.Concurrency `json:"concurrency,omitempty"`
	// Expect refuses to make the cluster before this many nodes have asked; 0 is no condition.
	Expect int `json:"expect"`
}

// InitReply says what was made.
type InitReply struct {
	ClusterID string        `json:"cluster_id"`
	Topology  base.Topology `json:"topology"`
	Error     string        `json:"error,omitempty"`
	Early     bool          `json:"early,omitempty"` // fewer nodes than expected have asked so far: try again
}

type joinReply struct {
	Known    []Joiner  `json:"known,omitempty"`
	Identity *Identity `json:"identity,omitempty"`
	Self     Joiner    `json:"self"` // who answers, and where it is now
	Error    string    `json:"error,omitempty"`
	Final    bool      `json:"final,omitempty"` // asking again will not help
}

// Bootstrap finds out who this process is: from its own disk, from a cluster
// that knows it, or by `godwit init`. It answers others who ask the same.
type Bootstrap struct {
	self   Joiner
	join   []string
	client *http.Client
	log    *slog.Logger
	// save makes the identity durable before anybody acts on it.
	save func(*Identity) error

	mu    sync.Mutex
	known map[string]Joiner
	ident *Identity
	made  chan struct{} // closed when ident is set
	// running is the node's cluster; set by Serve once the node runs.
	running *Cluster
}

// NewBootstrap prepares to find out. stored is the identity on disk, nil if none.
func NewBootstrap(self Joiner, join []string, stored *Identity, client *http.Client, log *slog.Logger, save func(*Identity) error) *Bootstrap {
	b := &Bootstrap{self: self, join: join, client: client, log: log, save: save,
		known: map[string]Joiner{self.UUID: self}, made: make(chan struct{})}
	if stored != nil {
		b.ident = stored
		close(b.made)
	}
	return b
}

// NewUUID names a process that has no id yet, or a cluster.
func NewUUID() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// Run returns the identity once it is known, asking the join list until then.
func (b *Bootstrap) Run(ctx context.Context) (*Identity, error) {
	tick := time.NewTicker(joinEvery)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-b.made:
			return b.ident, nil
		default:
		}
		if n%int(waitNotice/joinEvery) == 0 {
			b.mu.Lock()
			b.log.Warn("this node still belongs to no cluster: run `godwit init` once all first nodes are started, or correct --join", "join", b.join, "heard_of", len(b.known)-1)
			b.mu.Unlock()
		}
		if err := b.askAround(ctx); err != nil {
			return nil, err
		}
		select {
		case <-b.made:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
	}
}

// askAround asks every address it knows of; only a final refusal is an error.
func (b *Bootstrap) askAround(ctx context.Context) error {
	b.mu.Lock()
	addrs := slices.Clone(b.join)
	for _, j := range b.known {
		if !slices.Contains(addrs, j.Addr) {
			addrs = append(addrs, j.Addr)
		}
	}
	b.mu.Unlock()
	for _, a := range addrs {
		if a == b.self.Addr {
			continue
		}
		var r joinReply
		if err := post(ctx, b.client, a, PathJoin, b.self, &r); err != nil {
			b.log.Debug("join: no answer", "addr", a, "err", err)
			continue
		}
		if r.Final {
			return base.Errorf(base.CodeInvalid, "the cluster at %s refuses this node: %s", a, r.Error)
		}
		b.mu.Lock()
		for _, j := range r.Known {
			if _, ok := b.known[j.UUID]; !ok && len(b.known) < maxJoiners {
				b.known[j.UUID] = j
			}
		}
		b.mu.Unlock()
		if r.Identity != nil {
			return b.become(r.Identity)
		}
	}
	return nil
}

// Announce tells the members of the node's cluster where it is now, and takes
// their topology and addresses, until one of them has answered. Whoever was away
// finds the others this way even if all have moved, as long as one address of the
// join list is right. An error is a refusal that asking again will not change.
func (b *Bootstrap) Announce(ctx context.Context, c *Cluster) error {
	self := b.self
	self.ClusterID = c.o.Identity.ClusterID
	for {
		addrs := slices.Clone(b.join)
		members := c.members()
		for _, m := range members {
			addrs = append(addrs, m.Addr)
		}
		slices.Sort(addrs)
		replies := make([]joinReply, 0, len(addrs))
		var mu sync.Mutex
		var wg sync.WaitGroup
		for _, a := range slices.Compact(addrs) {
			if a == self.Addr {
				continue
			}
			wg.Go(func() {
				var r joinReply
				if err := post(ctx, b.client, a, PathJoin, self, &r); err != nil {
					b.log.Debug("announce: no answer", "addr", a, "err", err)
					return
				}
				if r.Final {
					r.Error = fmt.Sprintf("the node at %s refuses this one: %s", a, r.Error)
				}
				mu.Lock()
				replies = append(replies, r)
				mu.Unlock()
			})
		}
		wg.Wait()
		done, refused := false, ""
		for _, r := range replies {
			c.moved(r.Self.UUID, r.Self.Addr, true)
			for _, m := range r.Known {
				if m.UUID != r.Self.UUID {
					c.moved(m.UUID, m.Addr, false)
				}
			}
			switch {
			case r.Final:
				refused = r.Error
			case r.Identity != nil:
				done = true
				if err := c.SetTopology(&r.Identity.First); err != nil {
					b.log.Warn("the topology of another node cannot be taken", "err", err)
				}
			}
		}
		if refused != "" && !done {
			return base.Errorf(base.CodeInvalid, "%s", refused)
		}
		if n := byUUID(c.Topology(), self.UUID); n != nil && !n.Gone && (n.Addr != self.Addr || n.SQL != self.SQL) {
			once, cancel := context.WithTimeout(ctx, announceTimeout)
			if _, err := c.Admit(once, self); err != nil {
				b.log.Warn("the cluster does not know this node's new address yet", "err", err)
				done = false
			}
			cancel()
		}
		if done || len(members) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(2 * joinEvery):
		}
	}
}

func (b *Bootstrap) become(id *Identity) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ident != nil {
		return nil
	}
	if err := b.save(id); err != nil {
		return fmt.Errorf("store the node's identity: %w", err)
	}
	b.ident = id
	close(b.made)
	return nil
}

// Serve lets the node admit new processes from now on.
func (b *Bootstrap) Serve(c *Cluster) {
	b.mu.Lock()
	b.running = c
	b.mu.Unlock()
}

// Register adds the bootstrap handlers.
func (b *Bootstrap) Register(mux *http.ServeMux) {
	mux.HandleFunc("POST "+PathJoin, func(w http.ResponseWriter, r *http.Request) {
		var j Joiner
		if err := json.NewDecoder(io.LimitReader(r.Body, maxJoinBody)).Decode(&j); err != nil {
			reply(w, http.StatusBadRequest, joinReply{Error: "malformed request: " + err.Error(), Final: true})
			return
		}
		a := b.answer(r.Context(), j)
		a.Self = b.self
		reply(w, http.StatusOK, a)
	})
	mux.HandleFunc("POST "+PathInit, func(w http.ResponseWriter, r *http.Request) {
		var q InitRequest
		if err := json.NewDecoder(io.LimitReader(r.Body, maxJoinBody)).Decode(&q); err != nil {
			reply(w, http.StatusBadRequest, InitReply{Error: "malformed request: " + err.Error()})
			return
		}
		id, err := b.Init(q)
		if err != nil {
			reply(w, http.StatusConflict, InitReply{Error: err.Error(), Early: base.CodeOf(err) == base.CodeUnavailable})
			return
		}
		reply(w, http.StatusOK, InitReply{ClusterID: id.ClusterID, Topology: id.First})
	})
}

func (b *Bootstrap) answer(ctx context.Context, j Joiner) joinReply {
	if err := j.validate(); err != nil {
		return joinReply{Error: err.Error(), Final: true}
	}
	b.mu.Lock()
	ident, running := b.ident, b.running
	switch {
	case ident == nil && j.ClusterID != "":
		b.mu.Unlock()
		return joinReply{Error: "this node belongs to no cluster yet"}
	case ident != nil && j.ClusterID != "" && j.ClusterID != ident.ClusterID:
		b.mu.Unlock()
		return joinReply{Final: true, Error: fmt.Sprintf("this node belongs to cluster %s, but the store of the one that asks belongs to cluster %s: correct its --join or its --store",
			ident.ClusterID, j.ClusterID)}
	}
	if ident == nil {
		if len(b.known) < maxJoiners {
			b.known[j.UUID] = j
		}
		known := make([]Joiner, 0, len(b.known))
		for _, k := range b.known {
			known = append(known, k)
		}
		b.mu.Unlock()
		return joinReply{Known: known}
	}
	b.mu.Unlock()
	// Only a founder knows who the founders are: the first topology of a node that joined later names others as well.
	if ident.Founding && j.ClusterID == "" {
		for _, n := range ident.First.Nodes {
			if n.UUID == j.UUID {
				return joinReply{Identity: &Identity{ClusterID: ident.ClusterID, Node: n.ID, Founding: true, First: ident.First}}
			}
		}
	}
	if running == nil {
		return joinReply{Error: "still starting"}
	}
	if j.ClusterID != "" {
		return running.present(j)
	}
	id, err := running.Admit(ctx, j)
	if err != nil {
		return joinReply{Error: err.Error(), Final: base.CodeOf(err) == base.CodeInvalid}
	}
	return joinReply{Identity: id}
}

// Init makes the cluster of everybody who has asked so far.
func (b *Bootstrap) Init(q InitRequest) (*Identity, error) {
	b.mu.Lock()
	if b.ident != nil {
		b.mu.Unlock()
		return nil, base.Errorf(base.CodeInvalid, "this node already belongs to cluster %s; init is needed only once", b.ident.ClusterID)
	}
	known := make([]Joiner, 0, len(b.known))
	for _, j := range b.known {
		known = append(known, j)
	}
	b.mu.Unlock()
	if len(known) < q.Expect {
		return nil, base.Errorf(base.CodeUnavailable, "%d of the expected %d nodes have asked this node so far; start the others with this node's address in their --join and try again", len(known), q.Expect)
	}
	concurrency, err := base.ParseConcurrency(string(q.Concurrency))
	if err != nil {
		return nil, err
	}
	id, err := Found(known, q.Shards)
	if err != nil {
		return nil, err
	}
	id.First.Concurrency = concurrency
	for _, n := range id.First.Nodes {
		if n.UUID == b.self.UUID {
			id.Node = n.ID
		}
	}
	return id, b.become(id)
}

// Found makes the first topology of a cluster: regions by name, nodes by
// region and address, shards placed by [Place].
func Found(nodes []Joiner, shards int) (*Identity, error) {
	slices.SortFunc(nodes, func(a, b Joiner) int {
		if c := strings.Compare(a.Region, b.Region); c != 0 {
			return c
		}
		return strings.Compare(a.Addr, b.Addr)
	})
	t := base.Topology{Version: 1, ClusterID: NewUUID()}
	largest, inRegion := 0, 0
	for i, j := range nodes {
		if i > 0 && j.Addr == nodes[i-1].Addr {
			return nil, base.Errorf(base.CodeInvalid, "two nodes advertise the address %s; give each its own --advertise", j.Addr)
		}
		if i == 0 || j.Region != nodes[i-1].Region {
			t.Regions = append(t.Regions, base.Region{ID: base.RegionID(len(t.Regions) + 1), Name: j.Region})
			inRegion = 0
		}
		inRegion++
		largest = max(largest, inRegion)
		t.Nodes = append(t.Nodes, base.Node{ID: base.NodeID(i + 1), Region: base.RegionID(len(t.Regions)), Addr: j.Addr, SQL: j.SQL, UUID: j.UUID})
	}
	if t.Shards = shards; shards == 0 {
		t.Shards = max(2, largest)
	}
	t = Place(t)
	if err := t.Validate(); err != nil {
		return nil, err
	}
	return &Identity{ClusterID: t.ClusterID, Founding: true, First: t}, nil
}

func reply(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v) // the client is gone if this fails
}

// post sends v as JSON and decodes the answer into out, whatever its status.
func post(ctx context.Context, c *http.Client, addr, path string, v, out any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+path, bytes.NewReader(body))
	if err != nil {
		return base.Errorf(base.CodeInvalid, "bad address %q: %v", addr, err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := c.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if err := json.NewDecoder(io.LimitReader(res.Body, 16<<20)).Decode(out); err != nil {
		return fmt.Errorf("%s answered %s with what is not JSON: %w", addr, res.Status, err)
	}
	return nil
}
