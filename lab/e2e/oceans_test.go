package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/godwitdb/godwit/mechanism/wan/wanemu"
	"github.com/godwitdb/godwit/policy/matrix"
)

// oceans are the sites of regions of AWS, as far apart as these are, and one with an S3 server in
// the first region. Clients of this process reach a server from inside its own site.
type oceans struct {
	net     *wanemu.Net
	regions []string
	bucket  string // for --backup-bucket

	mu sync.Mutex
	// put has the names of the objects that were written to the bucket, and when.
	put []written
}

type written struct {
	name string
	at   time.Time
}

// startOceans makes sites in the first n regions of AWS' matrix.
func startOceans(t *testing.T, n int) *oceans {
	t.Helper()
	if err := wanemu.Check(); err != nil {
		t.Skip(err)
	}
	m, err := matrix.Open(matrix.AWS)
	if err != nil {
		t.Fatal(err)
	}
	if m, err = m.Pick("us-east-1", "us-west-2", "eu-west-1", "ap-northeast-1", "sa-east-1"); err != nil {
		t.Fatal(err)
	}
	o := &oceans{regions: m.Names[:n]}
	conf := wanemu.Config{RTT: map[string]map[string]float64{}, LocalMs: 0.5, Jitter: 0.5, Seed: 23}
	for i, a := range o.regions {
		conf.Sites = append(conf.Sites, wanemu.Site{Name: a, Region: a, IP: fmt.Sprintf("10.81.%d.1", i+1)})
		conf.RTT[a] = map[string]float64{}
		for j, b := range o.regions {
			conf.RTT[a][b] = float64(m.RTT[i][j]) / float64(time.Millisecond)
		}
	}
	conf.Sites = append(conf.Sites, wanemu.Site{Name: "bucket", Region: o.regions[0], IP: "10.81.99.1"})
	if o.net, err = wanemu.Start(conf); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := o.net.Close(); err != nil {
			t.Error(err)
		}
	})
	at := map[string]*wanemu.Inside{}
	for i, r := range o.regions {
		at[fmt.Sprintf("10.81.%d.1", i+1)] = o.net.Site(r)
	}
	mysql.RegisterDialContext("tcp", func(ctx context.Context, addr string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		if in := at[host]; in != nil {
			return in.Dial(ctx, "tcp", addr)
		}
		return new(net.Dialer).DialContext(ctx, "tcp", addr)
	})
	t.Cleanup(func() { mysql.DeregisterDialContext("tcp") })
	o.serveBucket(t)
	return o
}

// serveBucket starts the S3 server. Its objects live as long as this process.
func (o *oceans) serveBucket(t *testing.T) {
	t.Helper()
	var l net.Listener
	var err error
	o.net.Site("bucket").Do(func() { l, err = net.Listen("tcp", "10.81.99.1:9000") })
	if err != nil {
		t.Fatal(err)
	}
	back := s3mem.New()
	if err := back.CreateBucket("acme"); err != nil {
		t.Fatal(err)
	}
	s3 := gofakes3.New(back).Server()
	srv := &http.Server{ReadHeaderTimeout: patience, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s3.ServeHTTP(w, r)
		if r.Method == http.MethodPut {
			o.mu.Lock()
			o.put = append(o.put, written{r.URL.Path, time.Now()})
			o.mu.Unlock()
		}
	})}
	go srv.Serve(l)
	t.Cleanup(func() { srv.Close() })
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	o.bucket = "s3://acme?region=us-east-1&use_path_style=true&endpoint=http://10.81.99.1:9000"
}

// cluster starts one node in each of the first n regions, with empty stores below dir.
func (o *oceans) cluster(t *testing.T, dir string, n, shards int, args ...string) *processes {
	t.Helper()
	c := &processes{regions: o.regions[:n]}
	for i, r := range c.regions {
		ip := fmt.Sprintf("10.81.%d.1", i+1)
		c.nodes = append(c.nodes, &node{region: r, dir: filepath.Join(dir, r), addr: ip + ":7400", sql: ip + ":3306", join: "10.81.1.1:7400",
			site: o.net.Site(r), args: append([]string{"--insecure", "--insecure-anywhere", "--backup-bucket", o.bucket}, args...)})
	}
	t.Cleanup(c.kill)
	for _, n := range c.nodes {
		n.start(t)
	}
	for _, n := range c.nodes {
		n.awaitLine(t, "listens at")
	}
	if out, err := c.nodes[0].tool("init", "--insecure", "--addr", c.nodes[0].addr, "--no-root-password", "--expect", fmt.Sprint(n),
		"--wait", patience.String(), "--shards", fmt.Sprint(shards)); err != nil {
		t.Fatalf("init: %v: %s", err, out)
	}
	for _, n := range c.nodes {
		n.awaitSQL(t)
	}
	return c
}

// tool runs a command of godwit at the node's site to its end.
func (n *node) tool(args ...string) (string, error) {
	cmd := command(args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := n.site.Start(cmd); err != nil {
		return "", err
	}
	err := cmd.Wait()
	return strings.TrimSpace(out.String()), err
}
