package etcdleader

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/godwitdb/godwit/mechanism/wan"
)

// PathRTT is where a [Sidecar] answers.
const PathRTT = "/rtt"

// Sidecar runs beside a member and measures round trips from there to all members, once an
// interval, as the time that a TCP connection to the client URL takes. It serves them as JSON,
// seconds by member id in hex, smoothed as TCP does.
type Sidecar struct {
	access   Access
	client   *client
	interval time.Duration

	mu   sync.Mutex
	rtts map[id]*wan.RTT
	seen map[id]time.Time
}

// staleAfter is the number of intervals without an answer after which a member's round trip is not
// served any more.
const staleAfter = 10

// NewSidecar checks its settings. The interval is 1 s by default.
func NewSidecar(a Access, interval time.Duration) (*Sidecar, error) {
	c, err := a.open()
	if err != nil {
		return nil, err
	}
	if interval <= 0 {
		interval = time.Second
	}
	return &Sidecar{access: a, client: c, interval: interval, rtts: map[id]*wan.RTT{}, seen: map[id]time.Time{}}, nil
}

// Run measures until the context ends. The list of members is read anew every minute.
func (s *Sidecar) Run(ctx context.Context) error {
	tick := time.NewTicker(s.interval)
	defer tick.Stop()
	var ms []member
	var listed time.Time
	for {
		if len(ms) == 0 || time.Since(listed) > time.Minute {
			if now, err := s.access.discover(ctx, s.client); err == nil {
				ms, listed = now, time.Now()
			}
		}
		var wg sync.WaitGroup
		for _, m := range ms {
			wg.Go(func() { s.measure(ctx, m) })
		}
		wg.Wait()
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (s *Sidecar) measure(ctx context.Context, m member) {
	u, err := url.Parse(m.url)
	if err != nil {
		return
	}
	dial := s.access.Dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	addrs, err := net.DefaultResolver.LookupHost(ctx, u.Hostname()) // resolve the name before the time is taken
	if err != nil {
		return
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	begin := time.Now()
	conn, err := dial(ctx, "tcp", net.JoinHostPort(addrs[0], port))
	if err != nil {
		return
	}
	took := time.Since(begin)
	_ = conn.Close() // it was only a probe
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rtts[m.id] == nil {
		s.rtts[m.id] = &wan.RTT{}
	}
	s.rtts[m.id].Add(took)
	s.seen[m.id] = time.Now()
}

// ServeHTTP answers with the measured round trips.
func (s *Sidecar) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != PathRTT {
		http.NotFound(w, r)
		return
	}
	out := map[string]float64{}
	s.mu.Lock()
	for m, rtt := range s.rtts {
		if time.Since(s.seen[m]) < staleAfter*s.interval {
			out[m.String()] = rtt.SRTT.Seconds()
		}
	}
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out) // an error means that the client has gone
}

// sidecar reads a sidecar's round trips.
func (c *client) sidecar(ctx context.Context, base string) (map[id]time.Duration, error) {
	text, err := c.do(ctx, http.MethodGet, base+PathRTT, nil)
	if err != nil {
		return nil, err
	}
	var got map[string]float64
	if err := json.Unmarshal(text, &got); err != nil {
		return nil, fmt.Errorf("%s%s did not answer as a sidecar does: %w", base, PathRTT, err)
	}
	out := map[id]time.Duration{}
	for m, sec := range got {
		n, err := strconv.ParseUint(m, 16, 64)
		if err != nil || sec < 0 {
			return nil, fmt.Errorf("%s%s: member %q, %v s", base, PathRTT, m, sec)
		}
		out[id(n)] = time.Duration(sec * float64(time.Second))
	}
	return out, nil
}
