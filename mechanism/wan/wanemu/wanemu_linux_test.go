package wanemu

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == RouterArg {
		fmt.Fprintln(os.Stderr, RouterMain(os.Args[2]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func start(t *testing.T) *Net {
	t.Helper()
	if err := Check(); err != nil {
		t.Skip(err)
	}
	n, err := Start(Config{RTT: map[string]map[string]float64{"A": {"B": 40}}, Sites: []Site{
		{Name: "a", Region: "A", IP: "10.99.1.1"}, {Name: "b", Region: "B", IP: "10.99.2.1"}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// echo serves at a site and returns the address.
func echo(t *testing.T, in *Inside) string {
	t.Helper()
	var ln net.Listener
	var err error
	in.Do(func() { ln, err = net.Listen("tcp", in.IP+":0") })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	return ln.Addr().String()
}

func TestDelayBandwidthAndCuts(t *testing.T) {
	n := start(t)
	addr := echo(t, n.Site("b"))
	begin := time.Now()
	c, err := n.Site("a").Dial(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	trip := func(size int) time.Duration {
		t.Helper()
		begin := time.Now()
		go func() { _, _ = c.Write(make([]byte, size)) }()
		if _, err := io.ReadFull(c, make([]byte, size)); err != nil {
			t.Fatal(err)
		}
		return time.Since(begin)
	}
	// A packet is never early; how late it is depends on the machine.
	if d := time.Since(begin); d < 40*time.Millisecond {
		t.Errorf("connecting took %s, less than a round trip", d)
	}
	if d := trip(1); d < 40*time.Millisecond {
		t.Errorf("round trip of %s, less than 40 ms", d)
	}
	trip(1 << 20) // large segments arrive whole
	if err := n.Control("set A B delay=1ms mbit=80 loss=1%"); err != nil {
		t.Fatal(err)
	}
	if d := trip(1 << 20); d < 100*time.Millisecond {
		t.Errorf("1 MiB at 10 MB/s took only %s", d)
	}
	if err := n.Control("cut A B"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if c, err := n.Site("a").Dial(ctx, "tcp", addr); err == nil {
		c.Close()
		t.Error("connected over a cut link")
	}
	if err := n.Control("heal"); err != nil {
		t.Fatal(err)
	}
	trip(1)
	if err := n.Control("set A Z delay=1ms"); err == nil {
		t.Error("changed a link to a region that does not exist")
	}
	stats, err := n.Stats()
	if err != nil || !strings.Contains(stats, "A>B pkts=") {
		t.Errorf("stats: %v\n%s", err, stats)
	}
}

func TestProcessesRunInside(t *testing.T) {
	n := start(t)
	var out strings.Builder
	cmd := exec.Command("cat", "/proc/self/net/dev")
	cmd.Stdout = &out
	if err := n.Site("b").Start(cmd); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), device) {
		t.Errorf("the process does not see the site's device:\n%s", out.String())
	}
	if _, err := net.InterfaceByName(device); err == nil {
		t.Error("the device is visible outside the site")
	}
	// The network ends although a site still has a process.
	sleep := exec.Command("sleep", "60")
	if err := n.Site("a").Start(sleep); err != nil {
		t.Fatal(err)
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	err := sleep.Wait() // the thread that started it has ended
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		t.Errorf("a process outlived the site's thread: %v", err)
	}
}

// TestOwnThread: what is called on a thread of its own never gets the first one of the process.
func TestOwnThread(t *testing.T) {
	var wg sync.WaitGroup
	var first atomic.Int32
	for range 300 {
		wg.Go(func() {
			ended := make(chan struct{})
			go onOwnThread(func() {
				defer close(ended)
				if unix.Gettid() == unix.Getpid() {
					first.Add(1)
				}
			})
			<-ended
		})
	}
	wg.Wait()
	if n := first.Load(); n > 0 {
		t.Errorf("%d of 300 calls were on the first thread", n)
	}
}
