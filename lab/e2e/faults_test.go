package e2e

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/godwitdb/godwit/lab/bench/faults"
)

// TestFaults strikes real processes at three sites of an emulated WAN with every fault of package
// faults. Of each it prints the seconds without service by region and kind of statement. A fault
// that leaves a majority of the regions connected stops no kind of statement for more than three
// seconds, hangs none for more than five, and loses nothing that was acknowledged; ten seconds
// after the mend latencies are what they were.
func TestFaults(t *testing.T) {
	needTime(t)
	if err := faults.Check(); err != nil {
		t.Skip(err)
	}
	all := t        // a cluster outlives the fault that it was started for
	_ = t.TempDir() // so that what it has mounted there is gone when the directories go
	var bed *faults.Bed
	end := func() {
		if bed != nil {
			if err := bed.Close(); err != nil {
				t.Error(err)
			}
			bed = nil
		}
	}
	t.Cleanup(end)
	for _, f := range faults.All() {
		t.Run(f.Name, func(t *testing.T) {
			if f.Check != nil {
				if err := f.Check(); err != nil {
					t.Skip(err)
				}
			}
			if bed == nil {
				var err error
				if bed, err = faults.Start(all.Context(), faults.Options{Dir: all.TempDir(), Log: all.Output(),
					Command: func(args ...string) *exec.Cmd { return command(args...) }}, faults.Godwit); err != nil {
					t.Fatal(err)
				}
			}
			r, err := bed.Strike(t.Context(), f)
			if err != nil {
				end() // the next fault gets a new cluster
				t.Fatal(err)
			}
			var out strings.Builder
			r.Write(&out)
			t.Log(out.String())
			if broken := r.Broken(); len(broken) > 0 {
				t.Errorf("%d bounds do not hold, see above", len(broken))
				for _, region := range faults.Regions {
					t.Logf("the end of the log of %s:\n%s", region, tail(bed.Log(region), 3000))
				}
			}
			if len(r.Lost) > 0 || r.Unsettled != "" {
				end()
			}
		})
	}
}

// tail is the end of a text.
func tail(s string, n int) string { return s[max(0, len(s)-n):] }
