package peers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// startEtcd runs etcd at all sites with its default settings, led from the first. Puts of 128 bytes
// stand for updates; they go to the site's own node through its JSON gateway.
func (b *peers) startEtcd(ctx context.Context, t *peerTools) (_ *peerSystem, err error) {
	var members []string
	for i, r := range peerRegions {
		members = append(members, fmt.Sprintf("%s=http://%s:2380", r, b.site(i).IP))
	}
	var procs []*peerProc
	defer func() {
		if err != nil {
			killAll(procs)
			err = fmt.Errorf("etcd: %w", err)
		}
	}()
	for i, r := range peerRegions {
		peer, client := fmt.Sprintf("http://%s:2380", b.site(i).IP), fmt.Sprintf("http://%s:2379", b.site(i).IP)
		pr, err := b.start(i, nil, t.etcd, "--name", r, "--data-dir", filepath.Join(b.p.Dir, "etcd-"+r), "--log-level", "error",
			"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
			"--listen-client-urls", client, "--advertise-client-urls", client,
			"--initial-cluster", strings.Join(members, ","), "--initial-cluster-state", "new")
		if err != nil {
			return nil, err
		}
		procs = append(procs, pr)
	}
	// A put costs a trip to the leader and a quorum from there, and A is nearest to its quorum.
	if err := procs[0].await(ctx, func(ctx context.Context) error { return b.ledFrom(ctx, 0) }); err != nil {
		return nil, err
	}
	return &peerSystem{name: "etcd", run: b.puts, stop: func() { killAll(procs) }}, nil
}

type etcdStatus struct {
	Header struct {
		Member string `json:"member_id"`
	} `json:"header"`
	Leader string `json:"leader"`
}

// ledFrom returns nil if all nodes have the same leader, in the wanted region. It orders another
// leader to hand over.
func (b *peers) ledFrom(ctx context.Context, want int) error {
	at, err := b.etcdStatus(ctx)
	if err != nil {
		return err
	}
	for i, s := range at {
		if i != want && s.Leader == s.Header.Member {
			if err := b.etcd(ctx, b.http(i), i, "maintenance/transfer-leadership",
				map[string]string{"targetID": at[want].Header.Member}, nil); err != nil {
				return err
			}
		}
	}
	for _, s := range at {
		if s.Leader != at[want].Header.Member {
			return fmt.Errorf("region %s does not lead yet", peerRegions[want])
		}
	}
	return nil
}

func (b *peers) etcdStatus(ctx context.Context) ([]etcdStatus, error) {
	all := make([]etcdStatus, len(peerRegions))
	for i := range all {
		if err := b.etcd(ctx, b.http(i), i, "maintenance/status", struct{}{}, &all[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (b *peers) etcd(ctx context.Context, c *http.Client, region int, path string, ask, answer any) error {
	body, err := json.Marshal(ask)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost,
		fmt.Sprintf("http://%s:2379/v3/%s", b.site(region).IP, path), bytes.NewReader(body))
	if err != nil {
		return err
	}
	res, err := c.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", path, res.Status, text)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(text, answer)
}

// puts is the load of one region.
func (b *peers) puts(ctx context.Context, region, foreign int) (latencies, error) {
	client := b.http(region)
	defer client.CloseIdleConnections()
	var mu sync.Mutex
	var all []time.Duration
	errs := make([]error, peerClients)
	var wg sync.WaitGroup
	begin := time.Now()
	for i := range peerClients {
		wg.Go(func() {
			value := bytes.Repeat([]byte{'x'}, 128)
			for time.Since(begin) < b.measure && ctx.Err() == nil && errs[i] == nil {
				r := region
				if rand.IntN(100) < foreign {
					r = (r + 1 + rand.IntN(len(peerRegions)-1)) % len(peerRegions)
				}
				key := fmt.Appendf(nil, "sbtest/%08d", r*b.rows+rand.IntN(b.rows))
				t := time.Now()
				errs[i] = b.etcd(ctx, client, region, "kv/put", map[string][]byte{"key": key, "value": value}, nil)
				mu.Lock()
				all = append(all, time.Since(t))
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil || ctx.Err() != nil {
		return latencies{}, errors.Join(err, ctx.Err())
	}
	slices.Sort(all)
	l := latencies{perSecond: float64(len(all)) / time.Since(begin).Seconds()}
	for _, d := range all {
		ms := d.Seconds() * 1000
		l.ms, l.n, l.mean = append(l.ms, ms), append(l.n, 1), l.mean+ms/float64(len(all))
	}
	return l, nil
}
