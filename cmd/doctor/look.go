package doctor

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/godwitdb/godwit/mechanism/clock"
	"github.com/godwitdb/godwit/mechanism/ident"
)

// syncsTried is how many synced writes are tried, and page how long each is.
const (
	syncsTried = 50
	page       = 4096
)

// Where is what a node on this machine would use.
type Where struct {
	Store string // its folder, which may not exist yet
	Ports []Port // whose Err is not set yet
}

// Look gathers the facts. It writes a file into the store's folder, or the nearest one that exists,
// and removes it; and it listens at the ports for a moment.
func Look(w Where) Facts {
	f := Facts{ClockSynced: clock.KernelSynced(), Processors: runtime.GOMAXPROCS(0), Now: time.Now(), Files: openFiles(),
		Memory: memory()}
	dir := nearest(w.Store)
	f.Syncs, f.DiskErr = tries(dir)
	f.FreeDisk = free(dir)
	for _, p := range w.Ports {
		p.Err = listen(p.Addr)
		f.Ports = append(f.Ports, p)
	}
	if certs := filepath.Join(w.Store, "certs"); ident.HasNode(certs) {
		if c, err := ident.Open(certs, ident.Node, nil); err != nil {
			f.CertErr = err
		} else {
			f.Until = c.Until()
		}
	}
	return f
}

// nearest is a folder, or the nearest one above it that exists.
func nearest(dir string) string {
	dir = filepath.Clean(dir)
	for {
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

// tries times synced writes.
func tries(dir string) (took []time.Duration, err error) {
	f, err := os.CreateTemp(dir, ".godwit-doctor-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	for range syncsTried {
		began := time.Now()
		if _, err := f.Write(make([]byte, page)); err != nil {
			return nil, err
		}
		if err := f.Sync(); err != nil {
			return nil, err
		}
		took = append(took, time.Since(began))
	}
	return took, nil
}

func listen(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	return l.Close()
}

// summary is the median and the longest of times, of which there is one at least.
func summary(times []time.Duration) (median, longest time.Duration) {
	s := slices.Sorted(slices.Values(times))
	return s[len(s)/2], s[len(s)-1]
}

func round(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }
