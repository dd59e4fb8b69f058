package peers

import (
	"strings"
	"testing"
)

// What sysbench 1.0.20 prints with --histogram.
const report = `
Latency histogram (values are in milliseconds)
       value  ------------- distribution ------------- count
      31.375 |****************************************  90
      31.945 |***                                       8
     248.825 |*                                         2
 
SQL statistics:
    queries performed:
        total:                           100
    transactions:                        100    (250.50 per sec.)
    queries:                             100    (250.50 per sec.)
    ignored errors:                      3      (0.10 per sec.)

General statistics:
    total time:                          3.0270s

Latency (ms):
         min:                                   30.11
         avg:                                   31.99
         max:                                  248.80
         95th percentile:                       31.94
         sum:                                24000.00
`

func TestParseSysbench(t *testing.T) {
	l, err := parseSysbench(report)
	if err != nil {
		t.Fatal(err)
	}
	if got := [...]float64{l.at(0.5), l.at(0.98), l.at(0.99), l.mean, l.perSecond,
		float64(l.retries)}; got != [...]float64{31.375, 31.945, 248.825, 31.99, 250.5, 3} {
		t.Errorf("p50, p98, p99, mean, rate, retries = %v", got)
	}
	if _, err := parseSysbench("FATAL: unable to connect"); err == nil || !strings.Contains(err.Error(), "FATAL") {
		t.Errorf("a report without latencies: %v", err)
	}
}

func TestNearestQuorum(t *testing.T) {
	for r, want := range map[string]float64{"A": 30, "B": 30, "C": 60} {
		if got := nearest(r); got != want {
			t.Errorf("nearest quorum of %s = %v ms, want %v", r, got, want)
		}
	}
}

func TestSettled(t *testing.T) {
	if !settled([]int{100, 99, 100}, 100) || settled([]int{100, 98, 100}, 100) {
		t.Error("settled is not 99 % of every region's rows")
	}
	if got := shares([]int{100, 50, 0}, 100); got != "A 100.0% B 50.0% C 0.0%" {
		t.Errorf("shares = %q", got)
	}
}
