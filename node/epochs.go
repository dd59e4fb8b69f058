package node

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/node/knobs"
	"github.com/godwitdb/godwit/policy/epoch"
	"github.com/godwitdb/godwit/txn/multimaster"
)

// makeEpochs makes the node's part in the epochs of MULTI MASTER tables, before the transport
// starts. It is idle until the first such table is made.
func (n *Node) makeEpochs(p Parts) error {
	n.interval.Store(int64(epochDefaults.Interval * float64(time.Millisecond)))
	c := multimaster.Config{Self: p.Identity.Node, Store: p.Store, Transport: p.Transport, Registry: registry{n}, Logger: p.Log,
		Voters:   func() []base.NodeID { return n.cluster.Topology().MetaVoters },
		Interval: func() time.Duration { return time.Duration(n.interval.Load()) },
		RTT:      func(o base.NodeID) time.Duration { return n.cluster.RTT(o) },
		Region:   func(o base.NodeID) base.RegionID { return n.cluster.Topology().RegionOf(o) },
		Ailing:   func(o base.NodeID) bool { return !n.cluster.Fit(o) || p.Transport.Lost(o) },
		Uplink:   func() float64 { return float64(n.uplink.Load()) }}
	if p.TuneEpochs != nil {
		p.TuneEpochs(&c)
	}
	e, err := multimaster.New(c)
	if err != nil {
		return err
	}
	n.mu.Lock()
	n.epochs = e
	n.mu.Unlock()
	return nil
}

// Epochs are this node's part in the epochs of MULTI MASTER tables.
func (n *Node) Epochs() *multimaster.Engine { return n.epochs }

// serveEpochsCopy answers POST cluster.PathEpochsCopy.
func (n *Node) serveEpochsCopy(w http.ResponseWriter, _ *http.Request) {
	if err := n.epochs.Recopy(); err != nil {
		answer(w, http.StatusConflict, err)
		return
	}
	answer(w, http.StatusOK, nil)
}

// startEpochs makes the node take part, and watch for new views.
func (n *Node) startEpochs() {
	n.epochs.Start()
	done := make(chan struct{})
	n.background.Go(func() { defer close(done); n.watchViews() })
	n.closeFirst(func() error {
		n.epochs.Close()
		<-done // the watcher reads the store, which is closed next
		return nil
	})
}

// viewKey is the row of the meta shard with the view of the epochs.
var viewKey = base.IndexPrefix(base.MetaShard, base.MakeTableID(6, 0), 0, 0)

// watchEvery bounds how late the node sees a change that no message announced.
const watchEvery = 5 * time.Second

// watchViews tells the engine when the row of the view has changed. It also does so from time to
// time, as the voters may have changed.
func (n *Node) watchViews() {
	span := base.PointSpan(viewKey)
	var seen base.Timestamp
	for !n.stopped() {
		changed := n.db.MetaChanged()
		if at, _ := n.db.MetaVersion(span); at != seen {
			seen = at
			n.epochs.Watch()
		}
		select {
		case <-n.stopc:
			return
		case <-changed:
		case <-time.After(watchEvery):
			if seen != 0 {
				n.epochs.Watch()
			}
		}
	}
}

// registry decides views by rows of the meta group.
type registry struct{ n *Node }

func parseView(v []byte) (*epoch.View, error) {
	if v == nil {
		return nil, nil
	}
	view, err := epoch.DecodeView(v)
	if err != nil {
		return nil, base.Errorf(base.CodeCorrupt, "%v", err)
	}
	return view, nil
}

// Load implements multimaster.Registry.
func (r registry) Load(ctx context.Context) (*epoch.View, error) {
	t := r.n.db.Begin(kv.Options{ReadOnly: true})
	defer t.Rollback(context.Background())
	rows, err := t.Get(ctx, []base.Key{viewKey}, kv.LockNone)
	if err != nil {
		return nil, err
	}
	return parseView(rows[0].Value)
}

// Replace implements multimaster.Registry.
func (r registry) Replace(ctx context.Context, v *epoch.View) error {
	passed := false
	_, err := kv.Run(ctx, r.n.db, kv.Options{}, func(t kv.Txn) error {
		passed = false
		rows, err := t.Get(ctx, []base.Key{viewKey}, kv.LockExclusive)
		if err != nil {
			return err
		}
		now, err := parseView(rows[0].Value)
		if err != nil {
			return err
		}
		if now == nil {
			now = &epoch.View{}
		}
		if passed = now.Number+1 != v.Number; passed {
			return base.Errorf(base.CodeInvalid, "the view of the epochs is %d, and was to become %d", now.Number, v.Number)
		}
		t.Put(viewKey, v.Encode(), 0)
		return nil
	})
	if passed {
		return base.Errorf(base.CodeAborted, "%v", err)
	}
	return err
}

// epochParams are the cluster settings of epochs.
type epochParams struct {
	Interval float64 `json:"interval_ms"`
	Uplink   float64 `json:"uplink_mbit"`
}

var epochDefaults = epochParams{Interval: 10}

func (n *Node) epochSettings() knobs.Group {
	read := func(data []byte) (p epochParams, err error) {
		if err = json.Unmarshal(data, &p); err == nil && (p.Interval < 1 || p.Interval > 1000) {
			err = base.Errorf(base.CodeInvalid, "epochs.interval_ms is %v; it must be from 1 to 1000", p.Interval)
		}
		if err == nil && !(p.Uplink >= 0 && p.Uplink <= 1e6) {
			err = base.Errorf(base.CodeInvalid, "epochs.uplink_mbit is %v; it must be from 0 to 1000000", p.Uplink)
		}
		return p, err
	}
	return knobs.Of("epochs.", epochDefaults, map[string]string{
		"uplink_mbit": "what each node can send to other regions, in Mbit/s, which the plans of rounds take into " +
			"account; 0: enough",
		"interval_ms": "least time between two epochs of MULTI MASTER tables: writes of that time are submitted together",
	}, read, func(p epochParams) error {
		n.interval.Store(int64(p.Interval * float64(time.Millisecond)))
		n.uplink.Store(int64(p.Uplink * 1e6))
		return nil
	})
}
