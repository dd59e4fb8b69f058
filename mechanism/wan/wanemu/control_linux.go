package wanemu

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// RouterMain is the router process: it takes its configuration as an argument, the sites' devices
// as files from 3 on and control lines on standard input, whose end ends it.
func RouterMain(conf string) error {
	var c Config
	if err := json.Unmarshal([]byte(conf), &c); err != nil {
		return err
	}
	// The whole process must be SCHED_FIFO, not only the thread of the data path: the Go scheduler
	// hands work to other threads, which on a busy machine would wait for a CPU. Threads inherit it
	// across exec.
	if os.Getenv(envRealTime) == "" {
		runtime.LockOSThread()
		if err := unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO,
			Priority: 50}, 0); err != nil {
			fmt.Fprintf(os.Stderr, "real-time scheduling: %v: delays will be less precise\n", err)
		}
		self, err := os.Executable()
		if err != nil {
			return err
		}
		return syscall.Exec(self, os.Args, append(os.Environ(), envRealTime+"=1"))
	}
	r := newRouter(&c)
	for i, s := range c.Sites {
		r.addSite(s, 3+i)
	}
	go func() {
		sc := bufio.NewScanner(os.Stdin)
		for sc.Scan() {
			fmt.Printf("%s\n\n", r.control(sc.Text()))
		}
		os.Exit(0)
	}()
	return r.loop()
}

const envRealTime = "WANEMU_REALTIME"

// control obeys one line, and answers "ok", an error or what was asked for. A and B are sites, or *
// for all.
//
//	set A B k=v...   delay, jitter, loss, mbit and queue, in both directions
//	set1 A B k=v...  in one direction
//	cut A B          no packet passes, in both directions
//	cut1 A B         in one direction
//	heal             all packets pass again
//	stats            counters of each pair, and how late packets were sent
func (r *router) control(line string) string {
	f := strings.Fields(line)
	if len(f) == 0 {
		return "empty"
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var err error
	switch f[0] {
	case "set", "set1":
		if len(f) < 4 {
			return "usage"
		}
		err = r.change(f[1], f[2], f[0] == "set" && f[1] != "*", func(q *params) error { return q.set(f[3:]) })
	case "cut", "cut1":
		if len(f) < 3 {
			return "usage"
		}
		err = r.change(f[1], f[2], f[0] == "cut", func(q *params) error { q.cut = true; return nil })
	case "heal":
		err = r.change("*", "*", false, func(q *params) error { q.cut = false; return nil })
	case "stats":
		return r.statistics()
	default:
		return "unknown"
	}
	if err != nil {
		return "error: " + err.Error()
	}
	return "ok"
}

// change changes the parameters from a to b, and back if both is set.
func (r *router) change(a, b string, both bool, fn func(*params) error) error {
	if err := r.changeOne(a, b, fn); err != nil || !both {
		return err
	}
	return r.changeOne(b, a, fn)
}

func (r *router) changeOne(a, b string, fn func(*params) error) error {
	n := 0
	for _, p := range r.pipes {
		if (a == "*" || a == p.from) && (b == "*" || b == p.to) && p.from != p.to {
			q := *p.p.Load()
			if err := fn(&q); err != nil {
				return err
			}
			p.p.Store(&q)
			n++
		}
	}
	if n == 0 {
		return fmt.Errorf("no such pair")
	}
	return nil
}

// set takes parameters of the form name=value: delay=10ms jitter=1ms loss=0.5% mbit=100
// queue=65536.
func (q *params) set(args []string) error {
	for _, kv := range args {
		k, v, _ := strings.Cut(kv, "=")
		if err := q.setOne(k, v); err != nil {
			return err
		}
	}
	return nil
}

func (q *params) setOne(k, v string) error {
	switch k {
	case "delay", "jitter":
		d, err := time.ParseDuration(v)
		if err != nil {
			return err
		}
		if k == "delay" {
			q.delay = int64(d)
		} else {
			q.jitter = float64(d)
		}
	case "loss":
		percent, err := strconv.ParseFloat(strings.TrimSuffix(v, "%"), 64)
		if err != nil {
			return err
		}
		q.loss = percent / 100
	case "mbit":
		mbit, err := strconv.ParseFloat(v, 64)
		if err != nil {
			return err
		}
		q.bps = mbit * 1e6 / 8
	case "queue":
		bytes, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			return err
		}
		q.queue = bytes
	default:
		return fmt.Errorf("unknown %s", k)
	}
	return nil
}

// statistics lists what each pair has carried, how late packets left, as a cumulative distribution,
// and what the process has used.
func (r *router) statistics() string {
	var sb strings.Builder
	for _, k := range slices.Sorted(maps.Keys(r.pipes)) {
		p := r.pipes[k]
		fmt.Fprintf(&sb, "%s pkts=%d bytes=%d lost=%d tail=%d\n", k, p.pkts.Load(), p.bytes.Load(), p.lost.Load(), p.tail.Load())
	}
	var tot int64
	for i := range r.late {
		tot += r.late[i].Load()
	}
	fmt.Fprintf(&sb, "write_errors=%d late_max_us=%d lateness(us): ", r.wrErr.Load(), r.lateMax.Load())
	var cum int64
	for i := range r.late {
		if n := r.late[i].Load(); n > 0 {
			cum += n
			fmt.Fprintf(&sb, "<%d:%.3f ", 1<<i, float64(cum)/float64(tot))
		}
	}
	var ru unix.Rusage
	unix.Getrusage(unix.RUSAGE_SELF, &ru)
	fmt.Fprintf(&sb, "\ncpu_user=%.3fs cpu_sys=%.3fs maxrss=%dMB", float64(ru.Utime.Nano())/1e9,
		float64(ru.Stime.Nano())/1e9, ru.Maxrss/1024)
	return sb.String()
}
