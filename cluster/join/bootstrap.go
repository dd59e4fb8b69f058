// Package join is how a process finds out which node of which cluster it is.
//
// A fresh process has a UUID and a join list. It asks the addresses of that list, over HTTP on the
// cluster port, which node it is. While no process knows, each remembers those that have asked
// ([Bootstrap]). `godwit init` has one of them make the cluster of all that have asked: it writes
// the first topology to its own disk and from then on answers the others with their ids and that
// topology. So a cluster is decided in one place, and a crash anywhere is mended by asking again.
//
// A process that asks an existing cluster is added by that cluster ([Cluster.Admit]). At each start
// a member asks the others whether its store is the newest copy ([Bootstrap.Confirm]), and sends
// them its address ([Bootstrap.Announce]).
package join

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster/fence"
	"github.com/godwitdb/godwit/policy/placement"
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
	maxBody         = 1 << 20
	// twinPatience is how many times in a row a process is told that another one has its store
	// before it gives up. That takes longer than an ended process is taken for one that runs.
	twinPatience = 20
	maxJoiners   = 1000
)

// Joiner is what a process says of itself before it has an id.
type Joiner struct {
	UUID   string `json:"uuid"`
	Region string `json:"region"`
	Addr   string `json:"addr"`
	SQL    string `json:"sql_addr"`
	// Admin is where administrators ask, if not at Addr.
	Admin string `json:"admin_addr,omitempty"`
	// ClusterID is set by a process that belongs to a cluster already: it tells where it is now.
	ClusterID string `json:"cluster_id,omitempty"`
	// Process names the process among all that run, or ran, with this store; 0: it is not compared.
	Process uint64 `json:"process,omitempty"`
	// Claim asks whether the store is the newest copy.
	Claim *fence.Claim `json:"claim,omitempty"`
	// Knows is the newest cluster version that the process knows; 0: its build says nothing of it.
	Knows base.ClusterVersion `json:"knows,omitempty"`
}

// At reports whether the topology has the addresses of the process.
func (j Joiner) At(n *base.Node) bool {
	return n.Addr == j.Addr && n.SQL == j.SQL && n.Admin == j.Admin
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
	// Root is the hash of the password that root gets, which only founding nodes know; empty: none.
	Root string `json:"root,omitempty"`
}

// InitRequest makes a cluster of the nodes that have asked so far.
type InitRequest struct {
	// Shards is the number of data shards; 0 takes one for each node of the largest region, at
	// least two.
	Shards int `json:"shards"`
	// Concurrency is how transactions are ordered.
	Concurrency base.Concurrency `json:"concurrency,omitempty"`
	// Expect refuses to make the cluster before this many nodes have asked; 0 is no condition.
	Expect int `json:"expect"`
	// Root is the hash of root's password for MySQL clients; empty: root has none.
	Root string `json:"root,omitempty"`
}

// InitReply says what was made.
type InitReply struct {
	ClusterID string        `json:"cluster_id"`
	Topology  base.Topology `json:"topology"`
	Error     string        `json:"error,omitempty"`
	// fewer nodes than expected have asked so far: try again
	Early bool `json:"early,omitempty"`
}

// Answer is what a process says to one that asks which node it is.
type Answer struct {
	Known    []Joiner  `json:"known,omitempty"`
	Identity *Identity `json:"identity,omitempty"`
	Self     Joiner    `json:"self"` // the process that answers, and where it is now
	Error    string    `json:"error,omitempty"`
	Final    bool      `json:"final,omitempty"` // asking again will not help
	// Twin: another process with this store is heard here. One that has just ended soon is not.
	Twin bool `json:"twin,omitempty"`
	// Verdict answers a claim; Error says why then.
	Verdict fence.Verdict `json:"verdict,omitempty"`
}

// Cluster is what a member needs of its own part in the cluster (package cluster).
type Cluster interface {
	// ID names the cluster.
	ID() string
	// Topology is the newest one this node knows; SetTopology takes a newer one.
	Topology() *base.Topology
	SetTopology(*base.Topology) error
	// Members are the other nodes, at the addresses they were last heard to be at.
	Members() []Joiner
	// Moved takes a member's new address; own says that the member said so itself.
	Moved(uuid, addr string, own bool)
	// Present answers a member that says where it is.
	Present(Joiner) Answer
	// Admit adds a process to the cluster, or finds it there and takes its present addresses.
	Admit(context.Context, Joiner) (*Identity, error)
}

// Bootstrap finds out which node this process is: from its own disk, from a cluster
// that knows it, or by `godwit init`. It answers other processes that ask the same.
//
// It goes through three states, in this order and without a way back: searching, while the process
// has no identity; member, once it has one; serving, once its node runs and can admit others.
type Bootstrap struct {
	self   Joiner
	join   []string
	client *http.Client
	log    *slog.Logger
	scheme string
	// check says whether who asks is the process that it says it is; nil: it is believed.
	check func(*http.Request, Joiner) error
	// twin says whether another process with the store of the one that asks is heard; may be nil.
	twin func(Joiner) bool
	// save makes the identity durable before anything rests on it.
	save func(*Identity) error
	// book is what this node remembers of the stores of others; nil: it judges no claims.
	book *fence.Book
	// needs is the cluster version that a process must know to take part; nil: any does.
	needs func() base.ClusterVersion

	mu       sync.Mutex
	state    bootState
	known    map[string]Joiner // searching: processes that have asked or were told of, by UUID
	where    map[string]string // addresses of members that have asked, by UUID
	identity *Identity         // member and serving
	cluster  Cluster           // serving
	made     chan struct{}     // closed when the state is member
	lastErr  string            // why an address did not answer
}

type bootState uint8

const (
	searching bootState = iota
	member
	serving
)

// NewBootstrap prepares to find out. stored is the identity on disk, nil if none.
func NewBootstrap(self Joiner, join []string, stored *Identity, client *http.Client, log *slog.Logger,
	save func(*Identity) error) *Bootstrap {
	b := &Bootstrap{self: self, join: join, client: client, log: log, save: save, scheme: "http",
		known: map[string]Joiner{self.UUID: self}, where: map[string]string{}, made: make(chan struct{})}
	if stored != nil {
		b.state, b.identity = member, stored
		close(b.made)
	}
	return b
}

// Secure has the process ask over TLS, which the client given to [NewBootstrap] must speak, and
// check by the certificate who asks it. Call it before Run and Register.
func (b *Bootstrap) Secure(check func(*http.Request, Joiner) error) {
	b.scheme, b.check = "https", check
}

// Judge has the process judge claims of others by a book. Call it before Register.
func (b *Bootstrap) Judge(book *fence.Book) { b.book = book }

// Need has the process refuse others that do not know a cluster version (VERSION-2). Call it before
// Register.
func (b *Bootstrap) Need(version func() base.ClusterVersion) { b.needs = version }

// NewUUID names a process that has no id yet, or a cluster.
func NewUUID() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// # Searching

// Run returns the identity once it is known, asking the join list until then.
func (b *Bootstrap) Run(ctx context.Context) (*Identity, error) {
	tick := time.NewTicker(joinEvery)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-b.made:
			return b.identity, nil
		default:
		}
		if n%int(waitNotice/joinEvery) == 0 {
			b.log.Warn("this node still belongs to no cluster: run `godwit init` once all first nodes are started, "+
				"or correct --join", "join", b.join, "heard_of", len(b.joiners())-1, "last_error", b.failed("", nil))
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

// joiners are the processes known to want a cluster, this one among them.
func (b *Bootstrap) joiners() []Joiner {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Values(b.known))
}

// learn remembers processes that want a cluster. own says that one of them said so itself; hearsay
// does not replace that.
func (b *Bootstrap) learn(own bool, js ...Joiner) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, j := range js {
		if _, known := b.known[j.UUID]; known && own || !known && len(b.known) < maxJoiners {
			b.known[j.UUID] = j
		}
	}
}

// askAround asks every address it knows of; only a final refusal is an error.
func (b *Bootstrap) askAround(ctx context.Context) error {
	addrs := slices.Clone(b.join)
	for _, j := range b.joiners() {
		addrs = append(addrs, j.Addr)
	}
	for _, r := range b.ask(ctx, addrs, b.self) {
		switch {
		case r.Final:
			return base.Errorf(base.CodeInvalid, "the cluster at %s refuses this node: %s", r.addr, r.Error)
		case r.Identity != nil:
			return b.become(r.Identity)
		}
		b.learn(false, r.Known...)
	}
	return nil
}

// answered is a reply and the address that gave it.
type answered struct {
	Answer
	addr string
}

// ask asks all addresses at once, but for this process's own. Those that do not answer are left
// out. The replies are in the order of the addresses.
func (b *Bootstrap) ask(ctx context.Context, addrs []string, self Joiner) (replies []answered) {
	slices.Sort(addrs)
	addrs = slices.DeleteFunc(slices.Compact(addrs), func(a string) bool { return a == self.Addr })
	all := make([]*answered, len(addrs))
	var wg sync.WaitGroup
	for i, a := range addrs {
		wg.Go(func() {
			r := answered{addr: a}
			if err := post(ctx, b.client, b.scheme+"://"+a, PathJoin, self, &r.Answer); err != nil {
				b.log.Debug("join: no answer", "addr", a, "err", err)
				b.failed(a, err)
				return
			}
			all[i] = &r
		})
	}
	wg.Wait()
	for _, r := range all {
		if r != nil {
			replies = append(replies, *r)
		}
	}
	return replies
}

// failed notes why an address did not answer, and returns the last such reason.
func (b *Bootstrap) failed(addr string, err error) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		b.lastErr = fmt.Sprintf("%s: %v", addr, err)
	}
	return b.lastErr
}

// become makes this process a member of a cluster, if it is none yet.
func (b *Bootstrap) become(id *Identity) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state != searching {
		return nil
	}
	if err := b.save(id); err != nil {
		return fmt.Errorf("store the node's identity: %w", err)
	}
	b.state, b.identity = member, id
	close(b.made)
	return nil
}

// Init makes the cluster of all processes that have asked.
func (b *Bootstrap) Init(q InitRequest) (*Identity, error) {
	b.mu.Lock()
	state, identity := b.state, b.identity
	b.mu.Unlock()
	if state != searching {
		return nil, base.Errorf(base.CodeInvalid, "this node already belongs to cluster %s; init is needed only once",
			identity.ClusterID)
	}
	known := b.joiners()
	if len(known) < q.Expect {
		return nil, base.Errorf(base.CodeUnavailable, "%d of the expected %d nodes have asked this node so far; "+
			"start the others with this node's address in their --join and try again", len(known), q.Expect)
	}
	concurrency, err := base.ParseConcurrency(string(q.Concurrency))
	if err != nil {
		return nil, err
	}
	id, err := Found(known, q.Shards)
	if err != nil {
		return nil, err
	}
	id.First.Concurrency, id.Root = concurrency, q.Root
	id.Node = id.First.ByUUID(b.self.UUID).ID
	return id, b.become(id)
}

// Found makes the first topology of a cluster: regions by name, nodes by
// region and address, shards placed by [placement.Place].
func Found(nodes []Joiner, shards int) (*Identity, error) {
	slices.SortFunc(nodes, func(a, b Joiner) int {
		if c := strings.Compare(a.Region, b.Region); c != 0 {
			return c
		}
		return strings.Compare(a.Addr, b.Addr)
	})
	t := base.Topology{Version: 1, ClusterID: NewUUID(), ClusterVersion: base.VersionNewest}
	largest, inRegion := 0, 0
	for i, j := range nodes {
		t.ClusterVersion = min(t.ClusterVersion, j.Knows.OrFirst())
		if i > 0 && j.Addr == nodes[i-1].Addr {
			return nil, base.Errorf(base.CodeInvalid, "two nodes advertise the address %s; give each its own --advertise", j.Addr)
		}
		if i == 0 || j.Region != nodes[i-1].Region {
			t.Regions = append(t.Regions, base.Region{ID: base.RegionID(len(t.Regions) + 1), Name: j.Region})
			inRegion = 0
		}
		inRegion++
		largest = max(largest, inRegion)
		t.Nodes = append(t.Nodes, base.Node{ID: base.NodeID(i + 1), Region: base.RegionID(len(t.Regions)), Addr: j.Addr,
			SQL: j.SQL, Admin: j.Admin, UUID: j.UUID})
	}
	if t.Shards = shards; shards == 0 {
		t.Shards = max(2, largest)
	}
	t = placement.Place(t)
	if err := t.Validate(); err != nil {
		return nil, err
	}
	return &Identity{ClusterID: t.ClusterID, Founding: true, First: t}, nil
}

// # A member

// Serve lets the node admit new processes from now on. twin says whether another process with the
// store of the one that asks is heard: that one is refused then. It may be nil.
func (b *Bootstrap) Serve(c Cluster, twin func(Joiner) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.state, b.cluster, b.twin = serving, c, twin
}

// Announce sends the node's address to the members of its cluster, and takes
// their topology and addresses, until one of them has answered. A node that was away
// finds the others this way even if all have moved, as long as one address of the
// join list is right. An error is a refusal that asking again will not change.
func (b *Bootstrap) Announce(ctx context.Context, c Cluster) error {
	self := b.self
	self.ClusterID = c.ID()
	for refusals := 0; ; {
		members := c.Members()
		addrs := slices.Clone(b.join)
		for _, m := range members {
			addrs = append(addrs, m.Addr)
		}
		replies := b.ask(ctx, addrs, self)
		if slices.ContainsFunc(replies, func(r answered) bool { return r.Twin }) {
			if refusals++; refusals == twinPatience {
				return errTwin()
			}
			b.log.Warn("another process runs with this node's store: this one waits for its end", "attempt", refusals)
		} else {
			refusals = 0
		}
		taken, err := b.take(c, replies)
		if err != nil {
			return err
		}
		if refusals == 0 && (b.recorded(ctx, c, self) && taken) || len(members) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(2 * joinEvery):
		}
	}
}

// take takes over what members replied to an announcement, and reports whether one of them knows
// this node. It is an error if the only ones that say anything refuse it for good.
func (b *Bootstrap) take(c Cluster, replies []answered) (taken bool, err error) {
	var refused error
	for _, r := range replies {
		c.Moved(r.Self.UUID, r.Self.Addr, true)
		switch {
		case r.Final:
			refused = base.Errorf(base.CodeInvalid, "the node at %s refuses this one: %s", r.addr, r.Error)
		case r.Identity != nil:
			taken = true
			if err := c.SetTopology(&r.Identity.First); err != nil {
				b.log.Warn("the topology of another node cannot be taken", "err", err)
			}
			takeHearsay(c, r)
		}
	}
	if taken {
		return true, nil
	}
	return false, refused
}

// takeHearsay takes what a member says of where others are. One whose topology is older would take
// back what this node has learned since.
func takeHearsay(c Cluster, r answered) {
	if r.Identity.First.Version < c.Topology().Version {
		return
	}
	for _, m := range r.Known {
		if m.UUID != r.Self.UUID {
			c.Moved(m.UUID, m.Addr, false)
		}
	}
}

// recorded sees to it that the topology has this node's addresses, and reports whether it has.
func (b *Bootstrap) recorded(ctx context.Context, c Cluster, self Joiner) bool {
	n := c.Topology().ByUUID(self.UUID)
	if n == nil || n.Gone || self.At(n) {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, announceTimeout)
	defer cancel()
	if _, err := c.Admit(ctx, self); err != nil {
		b.log.Warn("the cluster does not know this node's new address yet", "err", err)
		return false
	}
	return true
}

// # Answering others

// Register adds the bootstrap handlers.
func (b *Bootstrap) Register(mux *http.ServeMux) {
	mux.HandleFunc("POST "+PathJoin, func(w http.ResponseWriter, r *http.Request) {
		var j Joiner
		if err := Decode(r, &j); err != nil {
			Reply(w, http.StatusBadRequest, Answer{Error: err.Error(), Final: true})
			return
		}
		if b.check != nil {
			if err := b.check(r, j); err != nil {
				b.log.Warn("a process that asks for its cluster is refused", "from", r.RemoteAddr, "err", err)
				Reply(w, http.StatusForbidden, Answer{Error: err.Error(), Final: true})
				return
			}
		}
		a := b.answer(r.Context(), j)
		a.Self = b.self
		Reply(w, http.StatusOK, a)
	})
	mux.HandleFunc("POST "+PathInit, func(w http.ResponseWriter, r *http.Request) {
		var q InitRequest
		if err := Decode(r, &q); err != nil {
			Reply(w, http.StatusBadRequest, InitReply{Error: err.Error()})
			return
		}
		id, err := b.Init(q)
		if err != nil {
			Reply(w, http.StatusConflict, InitReply{Error: err.Error(), Early: base.CodeOf(err) == base.CodeUnavailable})
			return
		}
		Reply(w, http.StatusOK, InitReply{ClusterID: id.ClusterID, Topology: id.First})
	})
}

// answer says which node a process is, as far as this one knows.
func (b *Bootstrap) answer(ctx context.Context, j Joiner) Answer {
	if err := j.validate(); err != nil {
		return Answer{Error: err.Error(), Final: true}
	}
	b.mu.Lock()
	state, identity, c, twin := b.state, b.identity, b.cluster, b.twin
	b.mu.Unlock()
	switch {
	case state == searching && j.ClusterID != "":
		return Answer{Error: "this node belongs to no cluster yet"}
	case state == searching:
		b.learn(true, j)
		return Answer{Known: b.joiners()}
	case j.ClusterID != "" && j.ClusterID != identity.ClusterID:
		return Answer{Final: true, Error: fmt.Sprintf("this node belongs to cluster %s, but the store of the one that "+
			"asks belongs to cluster %s: correct its --join or its --store",
			identity.ClusterID, j.ClusterID)}
	case b.needs != nil && j.Knows.OrFirst() < b.needs():
		b.log.Warn("a node is refused: its build is too old", "uuid", j.UUID, "addr", j.Addr, "knows", j.Knows.OrFirst())
		return Answer{Final: true, Error: base.TooOld("this cluster acts by", b.needs(), j.Knows.OrFirst()).Msg}
	case j.Claim != nil && b.book != nil:
		return b.judgeClaim(j, state == serving, twin)
	}
	if id := identity.ofFounder(j); id != nil {
		return Answer{Identity: id}
	}
	switch {
	case state != serving:
		return Answer{Error: "still starting"}
	case twin != nil && twin(j):
		return Answer{Twin: true, Error: "another process runs with this store, and is heard here"}
	case j.ClusterID != "":
		return c.Present(j)
	}
	id, err := c.Admit(ctx, j)
	if err != nil {
		return Answer{Error: err.Error(), Final: base.CodeOf(err) == base.CodeInvalid}
	}
	return Answer{Identity: id}
}

// ofFounder is the identity of a process that was one of the cluster's first, and does not know
// yet. Only a founder knows who the founders are: the first topology of a node that joined later
// names others as well.
func (id *Identity) ofFounder(j Joiner) *Identity {
	if !id.Founding || j.ClusterID != "" {
		return nil
	}
	n := id.First.ByUUID(j.UUID)
	if n == nil {
		return nil
	}
	return &Identity{ClusterID: id.ClusterID, Node: n.ID, Founding: true, First: id.First, Root: id.Root}
}

// # HTTP

// Decode reads the JSON of a request on the cluster port.
func Decode(r *http.Request, q any) error {
	if err := json.NewDecoder(io.LimitReader(r.Body, maxBody)).Decode(q); err != nil {
		return fmt.Errorf("malformed request: %w", err)
	}
	return nil
}

// Reply answers a request on the cluster port with JSON.
func Reply(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v) // the client is gone if this fails
}

// post sends v as JSON to a node, as of http://127.0.0.1:7400, and decodes the answer into out,
// whatever its status.
func post(ctx context.Context, c *http.Client, node, path string, v, out any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, node+path, bytes.NewReader(body))
	if err != nil {
		return base.Errorf(base.CodeInvalid, "bad address %q: %v", node, err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := c.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if err := json.NewDecoder(io.LimitReader(res.Body, 16<<20)).Decode(out); err != nil {
		return fmt.Errorf("%s answered %s with what is not JSON: %w", node, res.Status, err)
	}
	return nil
}
