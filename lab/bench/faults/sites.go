package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/godwitdb/godwit/mechanism/wan/wanemu"
)

// Regions are the sites, one server each; round trips between them in ms.
var Regions = []string{"A", "B", "C"}

var roundTrips = map[string]map[string]float64{"A": {"B": 30, "C": 90}, "B": {"C": 60}}

// Options of a Bed.
type Options struct {
	// Dir is an empty directory for disks and logs; the caller removes it.
	Dir string
	// Log takes progress for a person to read.
	Log io.Writer
	// Command makes a process of this program with these arguments.
	Command func(args ...string) *exec.Cmd
	// Etcd, MariaDB, InstallDB and Galera are paths of the peers' programs.
	Etcd, MariaDB, InstallDB, Galera string
}

// Bed is three sites with a disk and a server each.
type Bed struct {
	o     Options
	net   *wanemu.Net
	sites []*site
	sys   system

	stop    context.CancelFunc
	clients sync.WaitGroup
	streams []*stream
}

// site is a machine.
type site struct {
	bed  *Bed
	i    int
	name string
	in   *wanemu.Inside
	disk *disk

	mu   sync.Mutex
	proc *process // nil: none was started yet
}

// process is a server.
type process struct {
	cmd  *exec.Cmd
	log  string
	done chan struct{}
}

// system is what runs at the sites.
type system interface {
	name() string
	// start starts the server of a site, for the first time or again.
	start(ctx context.Context, s *site) error
	// ready returns nil if the server of a site serves.
	ready(ctx context.Context, s *site) error
	// prepare is called once, with all servers running.
	prepare(ctx context.Context) error
	// settled returns nil if everything is led from where it belongs.
	settled(ctx context.Context) error
	// streams are the clients.
	streams() []*stream
	// lost says what was acknowledged and is not there.
	lost(ctx context.Context) error
}

// Start makes the sites, starts a system there and its clients.
func Start(ctx context.Context, o Options, which string) (_ *Bed, err error) {
	b := &Bed{o: o}
	c := wanemu.Config{RTT: roundTrips, Seed: 7, Congestion: "reno"}
	for i, r := range Regions {
		c.Sites = append(c.Sites, wanemu.Site{Name: r, Region: r, IP: fmt.Sprintf("10.77.%d.1", i+1)})
	}
	if b.net, err = wanemu.Start(c); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Close())
		}
	}()
	for i, r := range Regions {
		s := &site{bed: b, i: i, name: r, in: b.net.Site(r)}
		b.sites = append(b.sites, s)
		if s.disk, err = newDisk(s, filepath.Join(o.Dir, which+"-"+r)); err != nil {
			return nil, fmt.Errorf("disk of %s: %w", r, err)
		}
	}
	switch which {
	case Godwit:
		b.sys = newGodwit(b)
	case Etcd:
		b.sys = &etcd{bed: b}
	case Galera:
		b.sys = &galera{bed: b, called: which}
	case GaleraQuick:
		b.sys = &galera{bed: b, called: which, evs: quickEVS}
	default:
		return nil, fmt.Errorf("no system is called %q", which)
	}
	if err := b.sys.prepare(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w", which, err)
	}
	b.streams = b.sys.streams()
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	b.stop = stop
	for _, s := range b.streams {
		b.clients.Go(func() { s.run(run) })
	}
	return b, nil
}

// Close ends clients, servers and network.
func (b *Bed) Close() error {
	if b.stop != nil {
		b.stop()
	}
	for _, s := range b.sites {
		if s.disk != nil {
			s.disk.free()
		}
		s.kill()
	}
	b.clients.Wait()
	var errs []error
	for _, s := range b.sites {
		if s.disk != nil {
			errs = append(errs, s.disk.close())
		}
	}
	return errors.Join(append(errs, b.net.Close())...)
}

func (b *Bed) logf(format string, args ...any) { fmt.Fprintf(b.o.Log, format+"\n", args...) }

// distances sets the round trips, or makes all of them zero.
func (b *Bed) distances(on bool) error {
	var errs []error
	for x, row := range roundTrips {
		for y, ms := range row {
			if !on {
				ms = 0
			}
			errs = append(errs, b.net.Control(fmt.Sprintf("set %s %s delay=%s loss=0%%", x, y,
				time.Duration(ms/2*float64(time.Millisecond)))))
		}
	}
	return errors.Join(errs...)
}

// http is a client inside the site.
func (s *site) http() *http.Client {
	return &http.Client{Timeout: patience, Transport: &http.Transport{DialContext: s.in.Dial, MaxIdleConnsPerHost: 4}}
}

// run starts a server at the site, as another user if as is set.
func (s *site) run(cmd *exec.Cmd, as *syscall.Credential) error {
	out, err := os.CreateTemp(s.bed.o.Dir, fmt.Sprintf("%s-%s-*.log", filepath.Base(cmd.Path), s.name))
	if err != nil {
		return err
	}
	defer out.Close()
	p := &process{cmd: cmd, log: out.Name(), done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	if err := s.in.Start(cmd); err != nil {
		return err
	}
	go func() {
		defer close(p.done)
		_ = cmd.Wait() // its log says how it ended
	}()
	s.mu.Lock()
	s.proc = p
	s.mu.Unlock()
	return nil
}

// tool runs a command at the site to its end.
func (s *site) tool(name string, args ...string) error {
	cmd := exec.Command(name, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := s.in.Start(cmd); err != nil {
		return err
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, bytes.TrimSpace(out.Bytes()))
	}
	return nil
}

func (s *site) process() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc
}

// signal sends a signal to the server.
func (s *site) signal(sig syscall.Signal) error {
	p := s.process()
	if p == nil {
		return errors.New("no process")
	}
	return p.cmd.Process.Signal(sig)
}

// kill is kill -9 of the server and its children; it waits for the end.
func (s *site) kill() {
	p := s.process()
	if p == nil {
		return
	}
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // its process group; it may be gone
	<-p.done
}

// ended reports whether the server runs no more.
func (s *site) ended() bool {
	p := s.process()
	if p == nil {
		return true
	}
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Log is what the newest process of a region has written.
func (b *Bed) Log(region string) string {
	for _, s := range b.sites {
		if p := s.process(); s.name == region && p != nil {
			text, _ := os.ReadFile(p.log)
			return string(text)
		}
	}
	return ""
}

// await calls ready until it succeeds, the server ends or the time is up.
func (s *site) await(parent context.Context, limit time.Duration, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(parent, limit)
	defer cancel()
	for {
		one, done := context.WithTimeout(ctx, Hang)
		err := ready(one)
		done()
		if err == nil {
			return nil
		}
		if s.ended() {
			err = fmt.Errorf("the server has ended: %w", err)
		} else if ctx.Err() == nil {
			sleep(ctx, 50*time.Millisecond)
			continue
		}
		text := s.bed.Log(s.name)
		return fmt.Errorf("%s: %w\n%s", s.name, err, text[max(0, len(text)-2000):])
	}
}
