package faults

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"sync"
)

// etcd runs at all sites with its default settings, led from A. A put stands for a write of an own
// row, a linearizable get for its read; clients use their site's member.
type etcd struct {
	bed  *Bed
	keys []*etcdKey
}

// etcdKey is a key that one client counts up.
type etcdKey struct {
	site *site
	key  string

	mu    sync.Mutex
	acked int64 // the number whose put was acknowledged last
	next  int64
	// those whose put was not answered: any may be carried out late
	doubtful map[int64]bool
}

func (e *etcd) name() string { return Etcd }

func (e *etcd) start(_ context.Context, s *site) error {
	var members []string
	for _, o := range e.bed.sites {
		members = append(members, fmt.Sprintf("%s=http://%s:2380", o.name, o.in.IP))
	}
	peer, client := fmt.Sprintf("http://%s:2380", s.in.IP), fmt.Sprintf("http://%s:2379", s.in.IP)
	return s.run(exec.Command(e.bed.o.Etcd, "--name", s.name, "--data-dir", s.disk.path(Etcd), "--log-level", "error",
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--initial-cluster", strings.Join(members, ","), "--initial-cluster-state", "new"), nil)
}

// member is what a member says of itself.
type member struct {
	Header struct {
		ID string `json:"member_id"`
	} `json:"header"`
	Leader string `json:"leader"`
}

func (e *etcd) ready(ctx context.Context, s *site) error {
	var m member
	if err := e.call(ctx, s, s.http(), "maintenance/status", struct{}{}, &m); err != nil {
		return err
	}
	if m.Leader == "" || m.Leader == "0" {
		return errors.New("it knows no leader")
	}
	return nil
}

func (e *etcd) prepare(ctx context.Context) error {
	for _, s := range e.bed.sites {
		if err := e.start(ctx, s); err != nil {
			return err
		}
	}
	return e.bed.sites[0].await(ctx, startLimit, e.settled)
}

// settled returns nil if all members follow A. It orders another leader to hand over.
func (e *etcd) settled(ctx context.Context) error {
	all := make([]member, len(e.bed.sites))
	for i, s := range e.bed.sites {
		if err := e.call(ctx, s, s.http(), "maintenance/status", struct{}{}, &all[i]); err != nil {
			return err
		}
	}
	want := all[0].Header.ID
	for i, m := range all {
		if m.Leader == m.Header.ID && m.Leader != want {
			s := e.bed.sites[i]
			if err := e.call(ctx, s, s.http(), "maintenance/transfer-leadership", map[string]string{"targetID": want},
				nil); err != nil {
				return err
			}
		}
	}
	for _, m := range all {
		if m.Leader != want {
			return errors.New("site A does not lead")
		}
	}
	return nil
}

func (e *etcd) call(ctx context.Context, s *site, c *http.Client, path string, ask, answer any) error {
	body, err := json.Marshal(ask)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("http://%s:2379/v3/%s", s.in.IP, path),
		bytes.NewReader(body))
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

func (e *etcd) streams() []*stream {
	var out []*stream
	for _, s := range e.bed.sites {
		k := &etcdKey{site: s, key: base64.StdEncoding.EncodeToString([]byte(s.name)), doubtful: map[int64]bool{}}
		e.keys = append(e.keys, k)
		writer, reader := s.http(), s.http()
		out = append(out,
			&stream{region: s.name, kind: Own, write: true,
				do: func(ctx context.Context) (outcome, error) { return e.put(ctx, k, writer) }},
			&stream{region: s.name, kind: Own,
				do: func(ctx context.Context) (outcome, error) { return e.get(ctx, k, s, reader) }})
	}
	return out
}

func (e *etcd) put(ctx context.Context, k *etcdKey, c *http.Client) (outcome, error) {
	k.mu.Lock()
	k.next++
	n := k.next
	k.mu.Unlock()
	err := e.call(ctx, k.site, c, "kv/put", map[string]string{"key": k.key,
		"value": base64.StdEncoding.EncodeToString([]byte(strconv.FormatInt(n, 10)))}, nil)
	var refusal *net.OpError
	switch {
	case err == nil:
		k.mu.Lock()
		k.acked = n
		k.mu.Unlock()
		return served, nil
	case errors.As(err, &refusal) && refusal.Op == "dial":
		return refused, err
	}
	k.mu.Lock()
	k.doubtful[n] = true
	k.mu.Unlock()
	return unknown, err
}

// get reads the key through a site.
func (e *etcd) get(ctx context.Context, k *etcdKey, s *site, c *http.Client) (outcome, error) {
	k.mu.Lock()
	acked := k.acked
	k.mu.Unlock()
	var answer struct {
		Kvs []struct {
			Value []byte `json:"value"`
		} `json:"kvs"`
	}
	if err := e.call(ctx, s, c, "kv/range", map[string]string{"key": k.key}, &answer); err != nil {
		return refused, err
	}
	var n int64
	if len(answer.Kvs) > 0 {
		var err error
		if n, err = strconv.ParseInt(string(answer.Kvs[0].Value), 10, 64); err != nil {
			return refused, err
		}
	}
	k.mu.Lock()
	late := k.doubtful[n]
	k.mu.Unlock()
	if n < acked && !late {
		return refused, fmt.Errorf("%w: the key of %s is %d, and %d was acknowledged", errStale, k.site.name, n, acked)
	}
	return served, nil
}

func (e *etcd) lost(ctx context.Context) error {
	var errs []error
	for _, k := range e.keys {
		for _, s := range e.bed.sites {
			if _, err := e.get(ctx, k, s, s.http()); err != nil {
				errs = append(errs, fmt.Errorf("through %s: %w", s.name, err))
			}
		}
	}
	return errors.Join(errs...)
}
