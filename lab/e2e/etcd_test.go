package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/godwitdb/godwit/cmd/etcdleader"
	"github.com/godwitdb/godwit/mechanism/wan/wanemu"
)

// etcdBinary is a released etcd: the one of `make etcd`, or one built from the module cache.
func etcdBinary(t *testing.T) string {
	if path, err := filepath.Abs("../../bin/etcd"); err == nil {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	path := filepath.Join(t.TempDir(), "etcd")
	c := exec.Command("go", "build", "-o", path, ".")
	c.Dir = "../../tools/etcd"
	c.Env = append(os.Environ(), "GOPROXY=off", "GOFLAGS=-mod=mod")
	if out, err := c.CombinedOutput(); err != nil {
		t.Skipf("there is no bin/etcd (make etcd), and it cannot be built without downloads: %v\n%s", err,
			out[max(0, len(out)-300):])
	}
	return path
}

// etcdWAN is three members of etcd, at round trips A-B 30, B-C 60, A-C 90 ms.
type etcdWAN struct {
	t   *testing.T
	net *wanemu.Net
	dir string
}

var etcdSites = []string{"A", "B", "C"}

func startEtcdWAN(t *testing.T) *etcdWAN {
	if testing.Short() {
		t.Skip("-short: it takes half a minute")
	}
	if err := wanemu.Check(); err != nil {
		t.Skip(err)
	}
	etcd := etcdBinary(t)
	conf := wanemu.Config{RTT: map[string]map[string]float64{"A": {"B": 30, "C": 90}, "B": {"C": 60}}, Seed: 3,
		Congestion: "reno"}
	var cluster []string
	for i, s := range etcdSites {
		ip := fmt.Sprintf("10.78.%d.1", i+1)
		conf.Sites = append(conf.Sites, wanemu.Site{Name: s, Region: s, IP: ip})
		cluster = append(cluster, fmt.Sprintf("%s=http://%s:2380", s, ip))
	}
	n, err := wanemu.Start(conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	w := &etcdWAN{t: t, net: n, dir: t.TempDir()}
	for _, s := range etcdSites {
		ip := n.Site(s).IP
		w.start(s, exec.Command(etcd, "--name", s, "--data-dir", filepath.Join(w.dir, s), "--log-level", "panic",
			"--unsafe-no-fsync",
			// so that a busy machine causes no elections
			"--heartbeat-interval", "300", "--election-timeout", "3000",
			"--listen-peer-urls", "http://"+ip+":2380", "--initial-advertise-peer-urls", "http://"+ip+":2380",
			"--listen-client-urls", "http://"+ip+":2379", "--advertise-client-urls", "http://"+ip+":2379",
			"--initial-cluster", strings.Join(cluster, ","), "--initial-cluster-state", "new"))
	}
	return w
}

// start runs a process at a site until the test ends or stop is called. Its output can be read line
// by line.
func (w *etcdWAN) start(site string, c *exec.Cmd) (lines <-chan string, stop func()) {
	r, pw := io.Pipe()
	var errs bytes.Buffer
	c.Stdout, c.Stderr = pw, &errs
	if err := w.net.Site(site).Start(c); err != nil {
		w.t.Fatal(err)
	}
	ch := make(chan string, 10_000)
	go func() {
		for sc := bufio.NewScanner(r); sc.Scan(); {
			ch <- sc.Text()
		}
		close(ch)
	}()
	stop = sync.OnceFunc(func() {
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGTERM) // it may have ended
		_ = c.Wait()
		pw.Close()
		if w.t.Failed() {
			w.t.Logf("%s at %s: %.300s", c.Args[1], site, errs.String())
		}
	})
	w.t.Cleanup(stop)
	return ch, stop
}

func (w *etcdWAN) url(site string) string { return "http://" + w.net.Site(site).IP + ":2379" }

func (w *etcdWAN) ask(c *http.Client, site, path string, ask, answer any) error {
	body, err := json.Marshal(ask)
	if err != nil {
		return err
	}
	res, err := c.Post(w.url(site)+"/v3/"+path, "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", res.Status, text)
	}
	if err == nil && answer != nil {
		err = json.Unmarshal(text, answer)
	}
	return err
}

func (w *etcdWAN) client(site string) *http.Client {
	tr := &http.Transport{DialContext: w.net.Site(site).Dial}
	w.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Timeout: 20 * time.Second, Transport: tr}
}

type etcdStatus struct {
	Header struct {
		Member string `json:"member_id"`
	} `json:"header"`
	Leader string `json:"leader"`
}

func (w *etcdWAN) status(site string) (st etcdStatus, err error) {
	c := w.client(site)
	defer c.CloseIdleConnections()
	return st, w.ask(c, site, "maintenance/status", struct{}{}, &st)
}

// leads is the site whose member leads in the view of all members; "" if they do not agree.
func (w *etcdWAN) leads() string {
	var leader, site string
	for i, s := range etcdSites {
		st, err := w.status(s)
		if err != nil || i > 0 && st.Leader != leader {
			return ""
		}
		if leader = st.Leader; st.Header.Member == leader {
			site = s
		}
	}
	return site
}

// handTo makes a site's member the leader by hand.
func (w *etcdWAN) handTo(site string) {
	w.t.Helper()
	for end := time.Now().Add(patience); w.leads() != site; time.Sleep(100 * time.Millisecond) {
		to, err := w.status(site)
		if from := w.leads(); err == nil && from != "" && from != site {
			c := w.client(from)
			// tried again
			_ = w.ask(c, from, "maintenance/transfer-leadership", map[string]string{"targetID": to.Header.Member}, nil)
			c.CloseIdleConnections()
		}
		if time.Now().After(end) {
			w.t.Fatalf("after %s %s does not lead: %v", patience, site, err)
		}
	}
}

func (w *etcdWAN) await(site string) {
	w.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		at := w.leads()
		if at == site {
			return
		}
		if time.Now().After(end) {
			w.t.Fatalf("after %s the leader is %q, not %s", patience, at, site)
		}
	}
}

// puts starts clients at a site, which work until stop is called.
func (w *etcdWAN) puts(site string, clients int) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			c := w.client(site)
			// etcd loses a put that a follower has passed on to a leader that is handing over, and
			// reports it only after 11 s.
			c.Timeout = time.Second
			for n := 0; ctx.Err() == nil; n++ {
				key := fmt.Appendf(nil, "%s/%d/%d", site, i, n%100)
				// a put may meet a change of leader
				_ = w.ask(c, site, "kv/put", map[string][]byte{"key": key, "value": key}, nil)
			}
		})
	}
	stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	w.t.Cleanup(stop)
	return stop
}

// median of the latency of some puts of one client.
func (w *etcdWAN) median(site string) time.Duration {
	c := w.client(site)
	var all []time.Duration
	for i := range 12 {
		begin := time.Now()
		if err := w.ask(c, site, "kv/put", map[string][]byte{"key": {'m'}, "value": {byte(i)}}, nil); err != nil {
			w.t.Fatal(err)
		}
		all = append(all, time.Since(begin))
	}
	slices.Sort(all)
	return all[len(all)/2]
}

func (w *etcdWAN) etcdLeader(args ...string) (lines <-chan string, stop func()) {
	return w.start("A", command(append([]string{"etcd-leader", "--endpoints", w.url("A")}, args...)...))
}

// until reads log lines up to an event.
func (w *etcdWAN) until(lines <-chan string, event string) (found etcdleader.Line) {
	w.t.Helper()
	end := time.After(patience)
	var last string
	for {
		select {
		case text, ok := <-lines:
			if !ok {
				w.t.Fatalf("the log ended before %q; last line: %s", event, last)
			}
			last = text
			var l etcdleader.Line
			if err := json.Unmarshal([]byte(text), &l); err != nil {
				w.t.Fatalf("%v in %s", err, text)
			}
			if l.Event == event {
				return l
			}
		case <-end:
			w.t.Fatalf("no %q after %s; last line: %s", event, patience, last)
		}
	}
}

// TestEtcdLeader runs a stock etcd whose leader is on the wrong side of an ocean. The lead moves to
// the clients, their latency falls by half, and then the lead stays there although delays and load
// are noisy.
func TestEtcdLeader(t *testing.T) {
	w := startEtcdWAN(t)
	w.handTo("A")
	before := w.median("C")
	stopC := w.puts("C", 3)

	// etcd's own measurements.
	lines, stop := w.etcdLeader("--interval", "200ms", "--window", "8", "--max-window", "16", "--hold-down", "10")
	m := w.until(lines, "move")
	if m.Leader != "A" || m.To != "C" || m.Reason != "better" || len(m.Members) != 3 {
		t.Errorf("moved by %+v", m)
	}
	// From C a request takes 120 ms with A as leader, 90 with B, 60 with C. What is measured is
	// more on a busy machine, so that only the best one is sure.
	for i, u := range m.Members {
		if u.Name != etcdSites[i] || u.Utility > m.Members[2].Utility || i == 0 && u.Utility != 0 {
			t.Errorf("%+v should gain less than C: %+v", u, m.Members)
		}
	}
	w.until(lines, "moved")
	w.await("C")
	after := w.median("C")
	for after > before*3/4 && t.Context().Err() == nil { // a busy machine adds to both
		after = w.median("C")
	}
	t.Logf("a put from C takes %s led from A, %s led from C", before, after)
	for _, line := range []string{"set A B jitter=5ms", "set B C jitter=5ms", "set A C jitter=5ms"} {
		if err := w.net.Control(line); err != nil {
			t.Fatal(err)
		}
	}
	stopA := w.puts("A", 1) // a little load from elsewhere
	for range 6 {           // windows
		w.until(lines, "stay")
	}
	stopA()
	stopC()
	stop()
	for text := range lines {
		if strings.Contains(text, `"event":"move`) && strings.Contains(text, `"leader":"C"`) {
			t.Errorf("noise moved the lead: %s", text)
		}
	}

	// Sidecars, a dry run, and a single decision.
	sidecars := []string{}
	for _, s := range etcdSites {
		w.start(s, command("etcd-leader", "sidecar", "--endpoints", w.url(s), "--listen", w.net.Site(s).IP+":2390",
			"--interval", "200ms"))
		sidecars = append(sidecars, s+"="+w.net.Site(s).IP+":2390")
	}
	defer w.puts("A", 3)()
	once := []string{"--once", "--interval", "2s", "--sidecars", strings.Join(sidecars, ",")}
	for {
		lines, _ = w.etcdLeader(append(once, "--dry-run")...)
		if text := <-lines; strings.Contains(text, `"event":"move"`) && !strings.Contains(text, `"error"`) &&
			strings.Contains(text, `"dry_run":true`) {
			break
		} else if t.Context().Err() != nil || strings.Contains(text, "moved") {
			t.Fatal(text)
		}
	}
	if at := w.leads(); at != "C" {
		t.Errorf("a dry run moved the lead to %s", at)
	}
	lines, _ = w.etcdLeader(once...)
	l := w.until(lines, "move")
	if u := l.Members[0]; l.To != "A" || u.Utility <= 0 { // 150 ms with C as leader, 30 with A
		t.Errorf("all requests come from A, and the lead goes to %s, while A's utility is %v ms", l.To, u.Utility)
	}
	w.await("A")
}

// Mistakes are reported before anything is done.
func TestEtcdLeaderErrors(t *testing.T) {
	for want, args := range map[string][]string{
		"no endpoint of etcd answers":      {"--endpoints", "127.0.0.1:1"},
		"give a client URL of etcd":        {"--endpoints", "ftp://x"},
		"--cert and --key go together":     {"--cert", "x.pem"},
		"--cacert":                         {"--cacert", "/does/not/exist"},
		"give name:password":               {"--user", "root"},
		"--reads \"sloppy\"":               {"--reads", "sloppy"},
		"min_gain_share 2: less than 1":    {"--min-gain-share", "2"},
		"--interval 1ms: at least 100ms":   {"--interval", "1ms"},
		"--sidecars a: endpoint \"http://": {"--sidecars", "a="},
	} {
		status, out, errs := godwit(t, append([]string{"etcd-leader"}, args...)...)
		if status == 0 || !strings.Contains(errs, want) || out != "" {
			t.Errorf("%v: status %d, %q, %q", args, status, out, errs)
		}
	}
}
