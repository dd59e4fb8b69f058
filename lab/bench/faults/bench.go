package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/godwitdb/godwit/lab/bench/rig"
	"github.com/godwitdb/godwit/mechanism/wan/wanemu"
)

// Bench measures all faults on Godwit, and those that apply on Galera and etcd.
func Bench() rig.Bench {
	return rig.Bench{
		Name: "faults",
		Title: "seconds without service by fault and kind of statement, beside etcd and Galera (needs root; " +
			"peers that are missing are left out)",
		Figures: figures(),
		Parts:   true,
		Run:     runFaults,
	}
}

// figures are named after the faults.
func figures() (names []string) {
	for _, f := range All() {
		names = append(names, f.figure())
	}
	return names
}

func (f *Fault) figure() string { return "faults/" + f.Name }

// Check says why this machine cannot run faults.
func Check() error { return errors.Join(wanemu.Check(), checkDisks()) }

func runFaults(ctx context.Context, p rig.Params) error {
	if err := Check(); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	o := Options{Dir: p.Dir, Log: p.Log, Command: func(args ...string) *exec.Cmd { return exec.Command(self, args...) }}
	for _, which := range o.findPeers(self) {
		if err := runSystem(ctx, p, o, which); err != nil {
			return err
		}
	}
	return nil
}

// findPeers fills the paths of the peers' programs, and lists the systems that can run.
func (o *Options) findPeers(self string) []string {
	systems := []string{Godwit}
	o.Etcd = filepath.Join(filepath.Dir(self), "etcd")
	if _, err := os.Stat(o.Etcd); err != nil {
		o.Etcd, _ = exec.LookPath("etcd")
	}
	if o.Etcd != "" {
		systems = append(systems, Etcd)
	} else {
		fmt.Fprintln(o.Log, "etcd is left out: 'make etcd' builds it, or Debian's etcd-server has it")
	}
	o.MariaDB, _ = exec.LookPath("mariadbd")
	o.InstallDB, _ = exec.LookPath("mariadb-install-db")
	for _, glob := range []string{"/usr/lib/galera/libgalera_smm.so", "/usr/lib/*/galera*/libgalera_smm.so",
		"/usr/lib64/galera*/libgalera_smm.so"} {
		if found, _ := filepath.Glob(glob); len(found) > 0 && o.Galera == "" {
			o.Galera = found[0]
		}
	}
	_, err := exec.LookPath("rsync")
	if o.MariaDB != "" && o.InstallDB != "" && o.Galera != "" && err == nil {
		return append(systems, Galera, GaleraQuick)
	}
	fmt.Fprintln(o.Log, "Galera is left out: Debian's mariadb-server, galera-4 and rsync have it")
	return systems
}

// quickFaults are those of a quick run.
var quickFaults = map[string]bool{"kill A": true}

// runner runs the faults of one system, on one bed after the other.
type runner struct {
	p     rig.Params
	o     Options
	which string
	beds  int
	bed   *Bed // nil: the next fault begins on a new one
}

func runSystem(ctx context.Context, p rig.Params, o Options, which string) (err error) {
	r := &runner{p: p, o: o, which: which}
	defer func() { err = errors.Join(err, r.drop()) }()
	for _, f := range All() {
		if f.GodwitOnly && which != Godwit || p.Quick && !quickFaults[f.Name] || !p.Wants(f.figure()) {
			continue
		}
		if f.Check != nil {
			if err := f.Check(); err != nil {
				fmt.Fprintf(p.Log, "%s is left out: %v\n", f.Name, err)
				continue
			}
		}
		if p.Quick {
			f.For = 4 * time.Second
		}
		res, err := r.strike(ctx, f)
		if err != nil && ctx.Err() == nil && r.bed != nil {
			// What the fault before has left behind may be in the way.
			fmt.Fprintf(p.Log, "%s: %v; once more, on a new cluster\n", which, err)
			if err = r.drop(); err == nil {
				res, err = r.strike(ctx, f)
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", which, err)
		}
		res.Write(p.Log)
		if err := emit(p, f.figure(), res); err != nil {
			return err
		}
		if len(res.Lost) > 0 || res.Unsettled != "" {
			if err := r.drop(); err != nil {
				return err
			}
		}
	}
	return nil
}

// strike makes a fault, on a new bed if there is none.
func (r *runner) strike(ctx context.Context, f Fault) (*Result, error) {
	if r.bed == nil {
		begin := time.Now()
		o := r.o
		r.beds++
		o.Dir = filepath.Join(r.p.Dir, fmt.Sprintf("%s-%d", r.which, r.beds))
		if err := os.Mkdir(o.Dir, 0o755); err != nil {
			return nil, err
		}
		b, err := Start(ctx, o, r.which)
		if err != nil {
			return nil, err
		}
		b.logf("%s: ready after %.1f s", r.which, time.Since(begin).Seconds())
		r.bed = b
	}
	return r.bed.Strike(ctx, f)
}

// drop ends the bed.
func (r *runner) drop() error {
	if r.bed == nil {
		return nil
	}
	b := r.bed
	r.bed = nil
	return b.Close()
}

// emit reports the gaps of a fault by kind of statement, those of the victim's clients apart.
func emit(p rig.Params, figure string, r *Result) error {
	for _, victim := range []bool{false, true} {
		for _, kind := range Kinds {
			for _, write := range []bool{false, true} {
				gap, found := r.Gap(kind, write, victim)
				if !found {
					continue
				}
				x := map[bool]string{false: "read of ", true: "write of "}[write] + kind
				if victim {
					x += ", struck region"
				}
				if err := p.Emit(rig.Line{Figure: figure, Series: r.System, X: x, Metric: "without service", Unit: "s",
					Value: gap.Seconds(), Better: rig.Lower}); err != nil {
					return err
				}
			}
		}
	}
	return p.Emit(rig.Line{Figure: figure, Series: r.System, X: "all", Metric: "statements above 5 s", Unit: "statements",
		Value: float64(r.Hung()), Better: rig.Lower})
}
