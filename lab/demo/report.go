package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/godwitdb/godwit/lab/workload"
)

// Report is the outcome of a run; as JSON it is what `godwit demo --json` prints.
type Report struct {
	Version  string `json:"version"`
	Workload string `json:"workload"`
	// Setup says what ran, in the words of the command's flags.
	Setup        map[string]any `json:"setup,omitempty"`
	StartSeconds float64        `json:"start_s"` // until SQL is served in every region
	LoadSeconds  float64        `json:"load_s"`
	Elapsed      float64        `json:"elapsed_s"` // of the measured run
	CheckSeconds float64        `json:"check_s"`
	// Regions and All are what the cluster counted, per statement kind; Run is what the clients
	// saw, per transaction type.
	Regions []Figures        `json:"regions"`
	All     Figures          `json:"all"`
	Run     *workload.Report `json:"run,omitempty"`
	// Beside is what the clients of Options.Beside saw.
	Beside *workload.Report `json:"beside,omitempty"`
	// Checks are the workload's invariants, evaluated after the run.
	Checks       []workload.CheckResult `json:"checks"`
	ChecksPassed bool                   `json:"checks_passed"`
	// ClientErrors are transactions that ended with an error, retryable ones aside.
	ClientErrors uint64 `json:"client_errors"`
	Retries      uint64 `json:"retries"`
	// OK is false if a check failed or a client saw an error; Failures says why.
	OK       bool     `json:"ok"`
	Failures []string `json:"failures"`
}

// MarshalJSON writes an empty list, never null, where nothing occurred.
func (r *Report) MarshalJSON() ([]byte, error) {
	type plain Report // without this method
	c := plain(*r)
	if c.Regions == nil {
		c.Regions = []Figures{}
	}
	if c.All.Kinds == nil {
		c.All.Kinds = []KindFigures{}
	}
	if c.Checks == nil {
		c.Checks = []workload.CheckResult{}
	}
	if c.Failures == nil {
		c.Failures = []string{}
	}
	return json.Marshal(c)
}

func (r *Report) fail(format string, args ...any) {
	r.Failures = append(r.Failures, fmt.Sprintf(format, args...))
}

// judge sets OK and Failures from the run and its checks.
func (r *Report) judge(checks []workload.CheckResult, err error) {
	r.Checks = checks
	r.ClientErrors, r.Retries = r.Run.Total.Errors, r.Run.Total.Retries
	if err != nil {
		r.fail("the checks could not be evaluated: %v", err)
	}
	for _, c := range checks {
		if !c.OK {
			r.fail("check %s failed: %s", c.Name, c.Detail)
		}
	}
	r.ChecksPassed = err == nil && workload.Failed(checks) == 0
	if r.ClientErrors > 0 {
		first := ""
		if len(r.Run.Errors) > 0 {
			first = ", most often " + r.Run.Errors[0].Text
		}
		r.fail("clients saw %d errors%s", r.ClientErrors, first)
	}
	r.OK = len(r.Failures) == 0
}

// Err is nil if OK, and otherwise lists the failures.
func (r *Report) Err() error {
	if r.OK {
		return nil
	}
	return fmt.Errorf("%s", strings.Join(r.Failures, "; "))
}

// Write writes the report for a person to read.
func (r *Report) Write(out io.Writer) error {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("")
	if r.Workload == "none" {
		line("Statements over %.0f s, latencies p50/p99 as the gateways saw them", r.Elapsed)
	} else {
		line("What the cluster counted over %.0f s, latencies p50/p99 as the gateways saw them", r.Elapsed)
	}
	for _, l := range Table(append(r.Regions[:len(r.Regions):len(r.Regions)], r.All), nil) {
		line("%s", l)
	}
	if r.Workload == "travel" && r.Run != nil {
		line("")
		line("What users saw, by where they were")
		for _, l := range TravelTable(r.Run.Regions, movedIn(r.Regions)) {
			line("%s", l)
		}
	}
	if r.Run != nil {
		line("")
		line("What the clients saw, by transaction type")
		if err := r.Run.WriteTable(&b); err != nil {
			return err
		}
		line("")
		if err := workload.WriteChecks(&b, r.Checks); err != nil {
			return err
		}
		if r.OK {
			line("ok: %d checks passed, no client saw an error (%d retries)", len(r.Checks), r.Retries)
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}
