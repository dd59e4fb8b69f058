package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// demoReport is what a script reads of `godwit demo --json`.
type demoReport struct {
	Workload string `json:"workload"`
	Regions  []struct {
		Region     string  `json:"region"`
		Statements int     `json:"statements"`
		MovedIn    int     `json:"rows_moved_in"`
		RoundTrips float64 `json:"wan_round_trips_per_transaction"`
		Kinds      []struct {
			Kind  string  `json:"kind"`
			Count int     `json:"count"`
			P99   float64 `json:"p99_ms"`
		} `json:"kinds"`
	} `json:"regions"`
	Run    demoRun `json:"run"`
	Beside demoRun `json:"beside"`
	Checks []struct {
		Name string
		OK   bool
	} `json:"checks"`
	ChecksPassed bool     `json:"checks_passed"`
	ClientErrors int      `json:"client_errors"`
	OK           bool     `json:"ok"`
	Failures     []string `json:"failures"`
}

// demoRun is what the clients of a workload saw.
type demoRun struct {
	Total struct {
		Count int `json:"count"`
	} `json:"total"`
}

func demo(t *testing.T, args ...string) demoReport {
	t.Helper()
	status, out, errs := godwit(t, append([]string{"demo", "--json", "--sql-port", "0", "--http", ""}, args...)...)
	var r demoReport
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("status %d, %v\n%s\n%s", status, err, out, errs)
	}
	if status != 0 || !r.OK || !r.ChecksPassed || r.ClientErrors != 0 {
		t.Errorf("status %d, %v\n%s", status, r.Failures, errs)
	}
	return r
}

func TestDemoOfEveryWorkload(t *testing.T) {
	needTime(t)
	for _, w := range []string{"tpcc", "ycsb", "ycsb-t", "bank", "travel"} {
		t.Run(w, func(t *testing.T) {
			r := demo(t, "--regions", "3", "--workload", w, "--for", "4s", "--scale", "0.01", "--records", "600",
				"--accounts", "300", "--clients", "2")
			if r.Workload != w || len(r.Regions) != 3 || r.Run.Total.Count == 0 ||
				len(r.Checks) == 0 && strings.HasPrefix(w, "tpcc") {
				t.Errorf("got %+v", r)
			}
			for _, reg := range r.Regions {
				if reg.Statements == 0 || len(reg.Kinds) == 0 || reg.RoundTrips == 0 && w != "ycsb" {
					t.Errorf("%s: no statements or no round trips were counted: %+v", reg.Region, reg)
				}
			}
		})
	}
}

// What runs beside a workload is loaded, run and checked as well, and its rows move.
func TestDemoBeside(t *testing.T) {
	needTime(t)
	r := demo(t, "--regions", "3", "--workload", "bank", "--accounts", "300", "--clients", "1", "--for", "12s",
		"--beside", "travel", "--users", "9", "--stay", "5s", "--think", "50ms")
	moved := 0
	for _, reg := range r.Regions {
		moved += reg.MovedIn
	}
	if r.Beside.Total.Count == 0 || r.Run.Total.Count == 0 || moved == 0 {
		t.Errorf("%d and %d transactions, %d rows moved", r.Run.Total.Count, r.Beside.Total.Count, moved)
	}
	var names []string
	for _, c := range r.Checks {
		names = append(names, c.Name)
	}
	if !slices.Contains(names, "travel counters") || len(names) < 3 {
		t.Errorf("checks of both are due, not %v", names)
	}
}

// A kept store is continued: the workload is not loaded again and nothing is missing.
func TestDemoContinuesAKeptStore(t *testing.T) {
	needTime(t)
	dir := filepath.Join(t.TempDir(), "demo.d")
	flags := []string{"--regions", "2", "--workload", "bank", "--accounts", "100", "--for", "2s", "--store", dir}
	demo(t, flags...)
	demo(t, flags...)
	flags[1] = "3"
	if status, _, errs := godwit(t, append([]string{"demo"}, flags...)...); status != 2 ||
		!strings.Contains(errs, "holds a cluster of") {
		t.Errorf("other regions on the same store: status %d\n%s", status, errs)
	}
}

// Ctrl-C ends a demo with a report, status 0 and no temporary files.
func TestDemoEndsCleanlyWhenInterrupted(t *testing.T) {
	needTime(t)
	tmp := t.TempDir()
	c := command("demo", "--regions", "3", "--workload", "none", "--sql-port", "0", "--http", "", "--interval", "500ms")
	c.Env = append(c.Env, "TMPDIR="+tmp)
	out := &output{}
	var errs bytes.Buffer
	c.Stdout, c.Stderr = out, &errs
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	gone := make(chan error, 1)
	go func() { gone <- c.Wait() }()
	deadline := time.Now().Add(patience)
	for !strings.Contains(out.String(), "stmt/s") && time.Now().Before(deadline) {
		time.Sleep(50 * time.Millisecond)
	}
	if err := c.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-gone:
		if err != nil {
			t.Errorf("%v:\n%s\n%s", err, out, errs.String())
		}
	case <-time.After(patience):
		_ = c.Process.Kill()
		t.Fatalf("the demo did not end:\n%s", out)
	}
	for _, want := range []string{"mysql -h 127.0.0.1 -P", "Statements over"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	if left, _ := os.ReadDir(tmp); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestDemoRefusesNonsense(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "m.csv")
	if err := os.WriteFile(bad, []byte("a,b\n0,1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"--regions 99":                 "--regions",
		"--nodes-per-region 0":         "--nodes-per-region",
		"--workload nonesuch":          "unknown workload",
		"--beside nonesuch":            "unknown workload",
		"--beside tpcc":                "has to name another one",
		"--think -1s --beside travel":  "think is -1s",
		"--scale 7":                    "scale is 7",
		"--for -1s":                    "must not be negative",
		"--matrix " + bad:              bad,
		"--matrix /nonesuch.csv":       "/nonesuch.csv",
		"--http here":                  "not HOST:PORT",
		"--log-level loud":             "none of debug",
		"--cross 2 --workload bank":    "cross is 2",
		"--sql-port 65535 --regions 3": "leaves no room",
	} {
		status, _, errs := godwit(t, append([]string{"demo", "--for", "1s"}, strings.Fields(args)...)...)
		if status != 2 || !strings.Contains(errs, want) || strings.Contains(errs, "goroutine ") {
			t.Errorf("demo %s: status %d, want 2 with %q:\n%s", args, status, want, errs)
		}
	}
}

func TestStartRefusesNonsense(t *testing.T) {
	file := filepath.Join(t.TempDir(), "godwit.yaml")
	if err := os.WriteFile(file, []byte("region: eu\nlisten: 127.0.0.1:1\nnonesuch: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"":                                    "--region",
		"--region eu --listen here":           "not HOST:PORT",
		"--region eu --listen 0.0.0.0:1":      "--advertise",
		"--region eu --cache-mb 1":            "cache-mb",
		"--config " + file:                    "line 3: unknown key \"nonesuch\"",
		"--region eu --drain-timeout 0s":      "--drain-timeout",
		"--region eu --store x --cache-mb 9k": "invalid argument",
	} {
		status, _, errs := godwit(t, append([]string{"start"}, strings.Fields(args)...)...)
		if status != 2 || !strings.Contains(errs, want) || strings.Contains(errs, "goroutine ") {
			t.Errorf("start %s: status %d, want 2 with %q:\n%s", args, status, want, errs)
		}
	}
}
