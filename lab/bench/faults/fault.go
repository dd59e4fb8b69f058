package faults

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Fault is something that breaks and is mended.
type Fault struct {
	Name string
	// What says what happens, for the figures.
	What string
	// Victim is the region whose node is struck. No bound holds for its own clients; empty if all
	// regions must be served.
	Victim string
	// For is how long it lasts.
	For time.Duration
	// OwnGap bounds how long own rows of the other regions may be without service; 0: [Bound].
	OwnGap time.Duration
	// GodwitOnly faults are not tried on peers: they do not apply, or say nothing new there.
	GodwitOnly bool
	// Check says why this machine cannot make the fault; nil if it can.
	Check func() error

	hit, heal func(ctx context.Context, b *Bed) error
}

// Bound is how long any kind of statement may be without service.
const Bound = 3 * time.Second

const (
	lasts   = 6 * time.Second
	slowIOs = 8 // writes a second of a slow disk
)

func (b *Bed) site(region string) *site {
	for _, s := range b.sites {
		if s.name == region {
			return s
		}
	}
	panic("no region " + region) // the table of faults names it
}

// control makes a step of lines for the router.
func control(lines ...string) func(context.Context, *Bed) error {
	return func(_ context.Context, b *Bed) error {
		for _, l := range lines {
			if err := b.net.Control(l); err != nil {
				return err
			}
		}
		return nil
	}
}

// at makes a step of something that is done at a site.
func at(region string, f func(ctx context.Context, s *site) error) func(context.Context, *Bed) error {
	return func(ctx context.Context, b *Bed) error { return f(ctx, b.site(region)) }
}

// sequence makes one step of several.
func sequence(steps ...func(context.Context, *Bed) error) func(context.Context, *Bed) error {
	return func(ctx context.Context, b *Bed) error {
		for _, f := range steps {
			if err := f(ctx, b); err != nil {
				return err
			}
		}
		return nil
	}
}

func kill(region string) func(context.Context, *Bed) error {
	return at(region, func(_ context.Context, s *site) error { s.kill(); return nil })
}

// revive starts the server of a site if it has ended.
func revive(region string) func(context.Context, *Bed) error {
	return at(region, func(ctx context.Context, s *site) error {
		if !s.ended() {
			return nil
		}
		return s.bed.sys.start(ctx, s)
	})
}

func signal(region string, sig syscall.Signal) func(context.Context, *Bed) error {
	return at(region, func(_ context.Context, s *site) error { return s.signal(sig) })
}

func clock(region string, off time.Duration) func(context.Context, *Bed) error {
	return at(region, func(_ context.Context, s *site) error { return s.setClock(off) })
}

var heal = control("heal")

// All are the faults, in the order of the figures. Region A is that of the meta group's leader, and
// of etcd's leader.
func All() []Fault {
	return append(append(processFaults(), linkFaults()...), append(diskFaults(), clockFaults()...)...)
}

func processFaults() []Fault {
	const own = 500 * time.Millisecond
	return []Fault{
		{Name: "kill A", What: "`kill -9` of the meta leader's node", Victim: "A", For: lasts, OwnGap: own,
			hit: kill("A"), heal: revive("A")},
		{Name: "kill C", What: "`kill -9` of another node", Victim: "C", GodwitOnly: true, For: lasts, hit: kill("C"),
			heal: revive("C")},
		{Name: "stop A", What: "SIGSTOP of the meta leader's node", Victim: "A", For: lasts,
			hit: signal("A", syscall.SIGSTOP), heal: signal("A", syscall.SIGCONT)},
		{Name: "stop C", What: "SIGSTOP of another node", Victim: "C", GodwitOnly: true, For: lasts,
			hit: signal("C", syscall.SIGSTOP), heal: signal("C", syscall.SIGCONT)},
		{Name: "stutter A", What: "the meta leader's node is stopped for 0.7 s of each second",
			Victim: "A", GodwitOnly: true, For: lasts,
			hit: at("A", stutter), heal: signal("A", syscall.SIGCONT)},
		{Name: "drain A", What: "SIGTERM of the meta leader's node", Victim: "A", GodwitOnly: true, For: lasts, OwnGap: own,
			hit: signal("A", syscall.SIGTERM), heal: sequence(at("A", gone), revive("A"))},
		{Name: "memory A", What: "the meta leader's node is killed for want of memory", Victim: "A", For: lasts, GodwitOnly: true,
			Check: checkMemory, hit: at("A", starve), heal: sequence(at("A", feed), revive("A"))},
	}
}

func linkFaults() []Fault {
	usual := func(_ context.Context, b *Bed) error { return b.distances(true) }
	return []Fault{
		{Name: "isolate A", What: "A is cut off, packets are dropped", Victim: "A", For: lasts,
			hit: control("cut A *", "cut1 * A"), heal: heal},
		{Name: "isolate C", What: "C is cut off, packets are dropped", Victim: "C", GodwitOnly: true, For: lasts,
			hit: control("cut C *", "cut1 * C"), heal: heal},
		{Name: "mute A", What: "nothing that A sends arrives", Victim: "A", For: lasts, hit: control("cut1 A *"), heal: heal},
		{Name: "deafen A", What: "nothing arrives at A", Victim: "A", For: lasts, hit: control("cut1 * A"), heal: heal},
		{Name: "partial A-C", What: "A and C do not reach each other, both reach B", For: lasts,
			hit: control("cut A C"), heal: heal},
		{Name: "partial B-C", What: "B and C do not reach each other, both reach A", GodwitOnly: true, For: lasts,
			hit: control("cut B C"), heal: heal},
		{Name: "one way A>C", What: "nothing from A arrives at C", For: lasts, hit: control("cut1 A C"), heal: heal},
		{Name: "one way C>A", What: "nothing from C arrives at A", GodwitOnly: true, For: lasts,
			hit: control("cut1 C A"), heal: heal},
		{Name: "slow link A-C", What: "A-C takes 1.4 s there and back", For: lasts,
			hit: control("set A C delay=700ms"), heal: usual},
		{Name: "loss", What: "5 % of all packets are lost", For: lasts,
			hit: control("set A B loss=5%", "set B C loss=5%", "set A C loss=5%"), heal: usual},
	}
}

func diskFaults() []Fault {
	freeze := func(_ context.Context, s *site) error { return s.disk.freeze() }
	thaw := func(_ context.Context, s *site) error { return s.disk.thaw() }
	slow := func(_ context.Context, s *site) error { return s.disk.slowDown(slowIOs) }
	quick := func(_ context.Context, s *site) error { return s.disk.quick() }
	fill := func(_ context.Context, s *site) error { return s.disk.fill() }
	empty := func(_ context.Context, s *site) error { return s.disk.empty() }
	return []Fault{
		{Name: "frozen disk A", What: "the meta leader's disk takes nothing", Victim: "A", For: lasts,
			hit: at("A", freeze), heal: at("A", thaw)},
		{Name: "frozen disk C", What: "another node's disk takes nothing", Victim: "C", GodwitOnly: true, For: lasts,
			hit: at("C", freeze), heal: at("C", thaw)},
		{Name: "slow disk A", What: fmt.Sprintf("the meta leader's disk takes %d writes a second", slowIOs),
			Victim: "A", For: 10 * time.Second,
			Check: checkSlow, hit: at("A", slow), heal: at("A", quick)},
		{Name: "slow disk C", What: fmt.Sprintf("another node's disk takes %d writes a second", slowIOs),
			Victim: "C", GodwitOnly: true, For: 10 * time.Second,
			Check: checkSlow, hit: at("C", slow), heal: at("C", quick)},
		{Name: "full disk A", What: "the meta leader's disk is full", Victim: "A", GodwitOnly: true, For: lasts,
			hit: at("A", fill), heal: sequence(at("A", empty), revive("A"))},
		{Name: "flipped bits A", What: "a bit in each block of the meta leader's tables flips while it runs",
			Victim: "A", For: lasts, GodwitOnly: true,
			hit: sequence(kill("A"), revive("A"), at("A", awaitReady), at("A", flipTables)), heal: revive("A")},
		{Name: "old copy C", What: "another node is started on an old copy of its directory", Victim: "C", For: lasts,
			GodwitOnly: true,
			hit:        at("C", rollBack), heal: sequence(at("C", rollForward), revive("C"))},
	}
}

func clockFaults() []Fault {
	step := func(name, what string, off time.Duration) Fault {
		return Fault{Name: name, What: what, Victim: "C", For: lasts, GodwitOnly: true, hit: clock("C", off), heal: clock("C", 0)}
	}
	start := sequence(kill("C"), clock("C", 90*time.Second), revive("C"))
	meta := step("clock A +90 s", "the meta leader's clock is set 90 s ahead", 90*time.Second)
	meta.Victim, meta.hit, meta.heal = "A", clock("A", 90*time.Second), clock("A", 0)
	return []Fault{
		step("clock C +90 s", "another node's clock is set 90 s ahead", 90*time.Second),
		step("clock C -90 s", "another node's clock is set 90 s back", -90*time.Second),
		meta,
		{Name: "clock C +90 s at start", What: "another node starts with a clock 90 s ahead", Victim: "C", For: lasts,
			GodwitOnly: true,
			hit:        start, heal: clock("C", 0)},
	}
}

func awaitReady(ctx context.Context, s *site) error {
	return s.await(ctx, startLimit, func(ctx context.Context) error { return s.bed.sys.ready(ctx, s) })
}

// stutter stops and continues the server for as long as faults last.
func stutter(ctx context.Context, s *site) error {
	go func() {
		for end := time.Now().Add(lasts - time.Second); time.Now().Before(end) && ctx.Err() == nil; {
			_ = s.signal(syscall.SIGSTOP) // it may have ended
			sleep(ctx, 700*time.Millisecond)
			_ = s.signal(syscall.SIGCONT)
			sleep(ctx, 300*time.Millisecond)
		}
	}()
	return nil
}

// gone waits for the end of a server that was asked to end.
func gone(ctx context.Context, s *site) error {
	select {
	case <-s.process().done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(startLimit):
		return errors.New("it does not end")
	}
}

// starve leaves the server little more memory than it has, and asks it for more.
func starve(ctx context.Context, s *site) error {
	pid := s.process().cmd.Process.Pid
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return err
	}
	var size, resident int64
	if _, err := fmt.Sscan(string(text), &size, &resident); err != nil {
		return err
	}
	// What it has is not counted in the new group: only what it takes from now on.
	if _, err := s.limit(memoryGroups, "memory.limit_in_bytes", fmt.Sprint(64<<20)); err != nil {
		return err
	}
	go func() {
		one, cancel := context.WithTimeout(ctx, lasts)
		defer cancel()
		// It ends with the node, with an error.
		_ = s.exec(one, "faults", "SELECT COUNT(DISTINCT a.v, b.id) FROM filler a JOIN filler b ON b.id < 200")
	}()
	return nil
}

// feed ends starve.
func feed(_ context.Context, s *site) error {
	s.kill() // if it has not needed the memory
	return s.unlimited(filepath.Join(memoryGroups, fmt.Sprintf("faults-%d-%s", os.Getpid(), s.name)))
}

// filesOf lists the files of the server's directory whose names end in one of these; seen from the
// site.
func (s *site) filesOf(ends ...string) (found []string, err error) {
	s.in.Do(func() {
		err = filepath.WalkDir(s.disk.path(s.bed.sys.name()), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			for _, e := range ends {
				if strings.HasSuffix(d.Name(), e) {
					found = append(found, path)
					break
				}
			}
			return nil
		})
	})
	return found, err
}

// flipTables flips a bit in each 4 KiB of all tables, and has them read.
func flipTables(ctx context.Context, s *site) error {
	files, err := s.filesOf(".sst")
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return errors.New("the node has no tables yet")
	}
	s.in.Do(func() {
		for _, f := range files {
			if err = flip(f, 4096); err != nil {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	go func() {
		one, cancel := context.WithTimeout(ctx, lasts)
		defer cancel()
		// What becomes of it is the fault's effect.
		_ = s.exec(one, "faults", "SELECT SUM(LENGTH(v)) FROM filler")
	}()
	return nil
}

// flip changes one bit of a file every so many bytes.
func flip(path string, every int64) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	one := make([]byte, 1)
	for at := every / 2; at < info.Size(); at += every {
		if _, err := f.ReadAt(one, at); err != nil {
			return err
		}
		one[0] ^= 0x10
		if _, err := f.WriteAt(one, at); err != nil {
			return err
		}
	}
	return nil
}

// rollForward puts the newest copy in place again.
func rollForward(_ context.Context, s *site) error {
	now := s.disk.path(s.bed.sys.name())
	s.kill()
	return errors.Join(s.tool("rm", "-r", now), s.tool("mv", s.disk.path("newest"), now))
}

// rollBack kills the server, keeps a copy of its directory, has it run on for a while, and starts
// it on the copy, which it is to refuse.
func rollBack(ctx context.Context, s *site) error {
	now, old := s.disk.path(s.bed.sys.name()), s.disk.path("old")
	newest := s.disk.path("newest")
	s.kill()
	if err := s.tool("cp", "-a", now, old); err != nil {
		return err
	}
	if err := s.bed.sys.start(ctx, s); err != nil {
		return err
	}
	if err := awaitReady(ctx, s); err != nil {
		return err
	}
	sleep(ctx, 2*time.Second)
	s.kill()
	if err := errors.Join(s.tool("mv", now, newest), s.tool("mv", old, now)); err != nil {
		return err
	}
	return s.bed.sys.start(ctx, s)
}
