package doctor

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/godwitdb/godwit/mechanism/ident"
)

// well is a machine of which there is nothing to say.
func well() Facts {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	return Facts{ClockSynced: true, Syncs: []time.Duration{time.Millisecond}, FreeDisk: 100 << 30, Files: 1 << 20, Memory: 16 << 30,
		Processors: 4, Ports: []Port{{Flag: "--listen", Addr: "127.0.0.1:7400"}}, Until: now.AddDate(1, 0, 0), Now: now}
}

func TestJudge(t *testing.T) {
	if all := Judge(well()); Worst(all) != Fine {
		t.Errorf("a machine that is well: %+v", all)
	}
	for name, c := range map[string]struct {
		change func(*Facts)
		organ  string
		want   Grade
	}{
		"no time daemon":          {func(f *Facts) { f.ClockSynced = false }, "clock", Warn},
		"slow disk":               {func(f *Facts) { f.Syncs = []time.Duration{1e6, 30e6, 40e6} }, "disk", Warn},
		"one slow sync":           {func(f *Facts) { f.Syncs = []time.Duration{1e6, 1e6, 400e6} }, "disk", Fine},
		"sick disk":               {func(f *Facts) { f.Syncs = []time.Duration{300e6} }, "disk", Bad},
		"no disk":                 {func(f *Facts) { f.DiskErr = errors.New("read-only") }, "disk", Bad},
		"full disk":               {func(f *Facts) { f.FreeDisk = 1 << 20 }, "space", Bad},
		"little room":             {func(f *Facts) { f.FreeDisk = 2 << 30 }, "space", Warn},
		"unknown room":            {func(f *Facts) { f.FreeDisk = -1 }, "space", Warn},
		"few files":               {func(f *Facts) { f.Files = 1024 }, "files", Warn},
		"little memory":           {func(f *Facts) { f.Memory = 2 << 30 }, "memory", Warn},
		"too little memory":       {func(f *Facts) { f.Memory = 512 << 20 }, "memory", Bad},
		"one processor":           {func(f *Facts) { f.Processors = 1 }, "processors", Warn},
		"a taken port":            {func(f *Facts) { f.Ports[0].Err = errors.New("address already in use") }, "port", Bad},
		"no certificate yet":      {func(f *Facts) { f.Until = time.Time{} }, "certificate", Fine},
		"a certificate ends soon": {func(f *Facts) { f.Until = f.Now.AddDate(0, 0, 20) }, "certificate", Warn},
		"a certificate has ended": {func(f *Facts) { f.Until = f.Now.Add(-time.Second) }, "certificate", Bad},
		"a bad certificate":       {func(f *Facts) { f.CertErr = errors.New("damaged") }, "certificate", Bad},
	} {
		f := well()
		c.change(&f)
		for _, x := range Judge(f) {
			switch {
			case x.Organ != c.organ && x.Grade != Fine:
				t.Errorf("%s: %+v", name, x)
			case x.Organ == c.organ && x.Grade != c.want:
				t.Errorf("%s: %+v, want %s", name, x, c.want)
			case (x.Do == "") != (x.Grade == Fine):
				t.Errorf("%s: %+v says nothing of what to do, or too much", name, x)
			}
		}
	}
}

// TestLook: what is seen of this machine are its files, ports and certificates; nothing is left
// behind.
func TestLook(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dir := t.TempDir()
	store := filepath.Join(dir, "not", "yet")
	f := Look(Where{Store: store, Ports: []Port{{Flag: "--listen", Addr: taken.Addr().String()}, {Flag: "--sql-listen", Addr: "127.0.0.1:0"}}})
	if len(f.Syncs) != syncsTried || f.DiskErr != nil || f.Ports[0].Err == nil || f.Ports[1].Err != nil || !f.Until.IsZero() {
		t.Errorf("%+v", f)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	ca, err := ident.CreateCA(filepath.Join(dir, "ca"))
	if err != nil {
		t.Fatal(err)
	}
	certs := filepath.Join(store, "certs")
	if err := os.MkdirAll(certs, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := ca.Create(certs, ident.Node, ident.Name{Role: ident.RoleNode, ID: "0123456789abcdef", Region: "eu"}, 48*time.Hour); err != nil {
		t.Fatal(err)
	}
	if f = Look(Where{Store: store}); f.CertErr != nil || f.Until.Sub(f.Now) > 49*time.Hour || f.Until.Sub(f.Now) < 47*time.Hour {
		t.Errorf("the certificate ends at %v, %v", f.Until, f.CertErr)
	}
}
