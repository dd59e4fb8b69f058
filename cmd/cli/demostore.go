package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/godwitdb/godwit/base"
)

// makeStore makes the data directory; the result removes it if it is temporary.
func (f *demoFlags) makeStore() (remove func(), err error) {
	if f.cfg.Dir != "" {
		if err := os.MkdirAll(f.cfg.Dir, 0o755); err != nil {
			return nil, usagef("--store: %w", err)
		}
		return func() {}, nil
	}
	if f.cfg.Dir, err = os.MkdirTemp("", "godwit-demo-"); err != nil {
		return nil, err
	}
	// a temporary directory: an error does no harm
	return func() { _ = os.RemoveAll(f.cfg.Dir) }, nil
}

// demoState is what a kept store says about itself, in demo.json.
type demoState struct {
	path string

	Regions        []string `json:"regions"`
	NodesPerRegion int      `json:"nodes_per_region"`
	Shards         int      `json:"shards"`
	Concurrency    string   `json:"concurrency,omitempty"`
	Loaded         []string `json:"loaded"` // workloads
}

// openState reads demo.json and refuses flags that contradict it, or makes it.
func openState(f *demoFlags) (*demoState, error) {
	want := &demoState{path: filepath.Join(f.cfg.Dir, "demo.json"), Regions: f.cfg.Matrix.Names,
		NodesPerRegion: f.cfg.NodesPerRegion, Shards: f.cfg.Shards, Concurrency: string(f.cfg.Concurrency)}
	body, err := os.ReadFile(want.path)
	if errors.Is(err, os.ErrNotExist) {
		entries, err := os.ReadDir(f.cfg.Dir)
		if err != nil {
			return nil, err
		}
		if len(entries) > 0 {
			return nil, usagef("--store: %s holds files but no demo.json, so it is not a demo's; "+
				"give a new or empty directory", f.cfg.Dir)
		}
		return want, want.save()
	}
	if err != nil {
		return nil, err
	}
	have := &demoState{path: want.path}
	if err := json.Unmarshal(body, have); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w; remove the directory to begin anew", have.path, err)
	}
	if !slices.Equal(have.Regions, want.Regions) || have.NodesPerRegion != want.NodesPerRegion {
		return nil, usagef("--store: %s holds a cluster of %s with %d node(s) each; give the flags that made it, "+
			"or another directory",
			f.cfg.Dir, strings.Join(have.Regions, ", "), have.NodesPerRegion)
	}
	if want.Shards != 0 && have.Shards != want.Shards {
		return nil, usagef("--shards: the cluster in %s was made with --shards %d, which is fixed", f.cfg.Dir, have.Shards)
	}
	if have.Concurrency != want.Concurrency {
		return nil, usagef("--concurrency: the cluster in %s was made with %s, which is fixed", f.cfg.Dir,
			base.Concurrency(have.Concurrency))
	}
	f.cfg.Shards = have.Shards
	return have, nil
}

func (s *demoState) loaded(workload string) bool { return slices.Contains(s.Loaded, workload) }

func (s *demoState) setLoaded(workload string) error {
	s.Loaded = append(s.Loaded, workload)
	return s.save()
}

// save replaces the file in one step.
func (s *demoState) save() error {
	body, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(s.path+".new", append(body, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(s.path+".new", s.path)
}
