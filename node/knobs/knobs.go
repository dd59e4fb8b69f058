// Package knobs makes cluster settings of parameter structs.
package knobs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/godwitdb/godwit/sql/server"
)

// Settings are the cluster settings: groups of parameters. Each group is a struct with JSON names,
// which is set as a whole. It implements server.Settings.
type Settings struct {
	mu     sync.Mutex
	groups []Group
	set    map[string]string
}

// New makes settings of groups.
func New(groups ...Group) *Settings { return &Settings{groups: groups} }

// Group is a parameter struct under a prefix.
type Group struct {
	prefix   string
	defaults any               // the struct with its defaults
	help     map[string]string // by JSON name; a field that is not named cannot be set
	check    func(data []byte) error
	apply    func(data []byte) error
}

// Of makes a group. read decodes and validates its parameters, and apply puts them in
// force.
func Of[P any](prefix string, defaults any, help map[string]string, read func(data []byte) (P, error),
	apply func(P) error) Group {
	return Group{
		prefix: prefix, defaults: defaults, help: help,
		check: func(data []byte) error {
			_, err := read(data)
			return err
		},
		apply: func(data []byte) error {
			p, err := read(data)
			if err != nil {
				return err
			}
			return apply(p)
		},
	}
}

// jsonOf is the group's struct as JSON, with the given values in place of defaults.
func (g *Group) jsonOf(values map[string]string) ([]byte, error) {
	b, err := json.Marshal(g.defaults)
	if err != nil {
		return nil, err
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(b, &fields); err != nil {
		return nil, err
	}
	var errs []error
	for name, v := range values {
		f, ok := strings.CutPrefix(name, g.prefix)
		if !ok {
			continue
		}
		old := fields[f]
		switch {
		case bytes.HasPrefix(old, []byte(`"`)):
			fields[f], _ = json.Marshal(v)
		case bytes.Equal(old, []byte("true")) || bytes.Equal(old, []byte("false")):
			switch strings.ToLower(v) {
			case "true", "on", "1":
				fields[f] = []byte("true")
			case "false", "off", "0":
				fields[f] = []byte("false")
			default:
				errs = append(errs, fmt.Errorf("%s is %q; it must be true or false", name, v))
			}
		case !json.Valid([]byte(v)) || strings.TrimSpace(v) == "null":
			errs = append(errs, fmt.Errorf("%s is %q; it must be a number", name, v))
		default:
			fields[f] = json.RawMessage(v)
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return json.Marshal(fields)
}

// List implements server.Settings.
func (s *Settings) List() (out []server.Setting) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.groups {
		g := &s.groups[i]
		var defaults map[string]any
		if b, err := json.Marshal(g.defaults); err == nil {
			d := json.NewDecoder(bytes.NewReader(b))
			d.UseNumber() // large numbers are shown as they are written
			_ = d.Decode(&defaults)
		}
		for _, f := range slices.Sorted(maps.Keys(g.help)) {
			def := fmt.Sprint(defaults[f])
			v, ok := s.set[g.prefix+f]
			if !ok {
				v = def
			}
			out = append(out, server.Setting{Name: g.prefix + f, Value: v, Default: def, Description: g.help[f]})
		}
	}
	return out
}

// Check implements server.Settings.
func (s *Settings) Check(values map[string]string) error {
	return s.each(values, func(g *Group, data []byte) error { return g.check(data) })
}

// Apply implements server.Settings.
func (s *Settings) Apply(values map[string]string) {
	s.mu.Lock()
	s.set = maps.Clone(values)
	s.mu.Unlock()
	// Check has refused bad values
	_ = s.each(values, func(g *Group, data []byte) error { return g.apply(data) })
}

func (s *Settings) each(values map[string]string, fn func(*Group, []byte) error) error {
	var errs []error
	for i := range s.groups {
		data, err := s.groups[i].jsonOf(values)
		if err == nil {
			err = fn(&s.groups[i], data)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
