package wanemu

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// RouterMain is the router process: it takes its configuration as an argument, the sites' devices as files from 3 on
// and control lines on standard input, whose end ends it.
func RouterMain(conf string) error {
	var c Config
	if err := json.Unmarshal([]byte(conf), &c); err != nil {
		return err
	}
	// The whole process must be SCHED_FIFO, not only the thread of the data path: the Go scheduler hands work to
	// other threads, which on a busy machine would wait for a CPU. Threads inherit it across exec.
	if os.Getenv(envRealTime) == "" {
		runtime.LockOSThread()
		if err := unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 50}, 0); err != nil {
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

// control: set A B k=v... (both directions) | set1 A B (one direction) | cut A B | cut1 A B | heal | stats
func (r *router) control(line string) string {
	f := strings.Fields(line)
	if len(f) == 0 {
		return "empty"
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	upd := func(a, b string, fn func(*params) error) error {
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
	var err error
	switch f[0] {
	case "set", "set1":
		fn := func(q *params) error {
			for _, kv := range f[3:] {
				k, v, _ := strings.Cut(kv, "=")
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
					x, err := strconv.ParseFloat(strings.TrimSuffix(v, "%"), 64)
					if err != nil {
						return err
					}
					q.loss = x / 100
				case "mbit":
					x, err := strconv.ParseFloat(v, 64)
					if err != nil {
						return err
					}
					q.bps = x * 1e6 / 8
				case "queue":
					x, err := strconv.ParseInt(v, 10, 64)
					if err != nil {
						return err
					}
					q.queue = x
				default:
					return fmt.Errorf("unknown %s", k)
				}
			}
			return nil
		}
		if len(f) < 4 {
			return "usage"
		}
		err = upd(f[1], f[2], fn)
		if err == nil && f[0] == "set" && f[1] != "*" {
			err = upd(f[2], f[1], fn)
		}
	case "cut", "cut1":
		fn := func(q *params) error { q.cut = true; return nil }
		err = upd(f[1], f[2], fn)
		if err == nil && f[0] == "cut" {
			err = upd(f[2], f[1], fn)
		}
	case "heal":
		err = upd("*", "*", func(q *params) error { q.cut = false; return nil })
	case "stats":
		var sb strings.Builder
		var ks []string
		for k := range r.pipes {
			ks = append(ks, k)
		}
		slices.Sort(ks)
		for _, k := range ks {
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
		fmt.Fprintf(&sb, "\ncpu_user=%.3fs cpu_sys=%.3fs maxrss=%dMB", float64(ru.Utime.Nano())/1e9, float64(ru.Stime.Nano())/1e9, ru.Maxrss/1024)
		return sb.String()
	default:
		return "unknown"
	}
	if err != nil {
		return "error: " + err.Error()
	}
	return "ok"
}
